//! Databases made by hand, good and damaged ones. `tests/backup` has those that etcd makes.

use std::io::Cursor;

use proptest::prelude::{Strategy, any, prop, proptest};
use sha2::{Digest, Sha256};

use super::bolt::Damage;
use super::inspect::{Contents, Sums, contents};

const PAGE: usize = 1024;

/// A page's header and its elements: two numbers that depend on the kind, and their content.
fn page(id: u64, flags: u16, elements: &[([u8; 16], Vec<u8>)]) -> Vec<u8> {
    let mut page = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    for (n, (element, bytes)) in elements.iter().enumerate() {
        let mut element = *element;
        // Where the data is, from the element on: the second number of a leaf's element, the first of a branch's.
        let at = (elements.len() - n) * 16 + data.len();
        let field = if flags == 2 { 4 } else { 0 };
        element[field..field + 4].copy_from_slice(&u32::try_from(at).expect("it is small").to_le_bytes());
        page.extend(element);
        data.extend(bytes);
    }
    page.extend(data);
    let overflow = u32::try_from((page.len() + 16).div_ceil(PAGE) - 1).expect("it is small");
    let mut all = Vec::new();
    all.extend(id.to_le_bytes());
    all.extend(flags.to_le_bytes());
    all.extend(u16::try_from(elements.len()).expect("they are few").to_le_bytes());
    all.extend(overflow.to_le_bytes());
    all.extend(page);
    all
}

fn number(n: usize) -> [u8; 4] {
    u32::try_from(n).expect("it is small").to_le_bytes()
}

fn leaf(id: u64, flags: u32, pairs: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let elements = pairs.iter().map(|(key, value)| {
        let mut element = [0; 16];
        element[..4].copy_from_slice(&flags.to_le_bytes());
        element[8..12].copy_from_slice(&number(key.len()));
        element[12..].copy_from_slice(&number(value.len()));
        (element, [key, value.as_slice()].concat())
    });
    page(id, 2, &elements.collect::<Vec<_>>())
}

fn branch(id: u64, below: &[(&[u8], u64)]) -> Vec<u8> {
    let elements = below.iter().map(|(key, page)| {
        let mut element = [0; 16];
        element[4..8].copy_from_slice(&number(key.len()));
        element[8..].copy_from_slice(&page.to_le_bytes());
        (element, key.to_vec())
    });
    page(id, 1, &elements.collect::<Vec<_>>())
}

fn meta(id: u64, transaction: u64, pages: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for short in [0xED0C_DAED_u32, 2, u32::try_from(PAGE).expect("it is small"), 0] {
        meta.extend(short.to_le_bytes());
    }
    for long in [3, 0, 2, pages, transaction] {
        meta.extend(u64::to_le_bytes(long));
    }
    let sum = meta
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    meta.extend(sum.to_le_bytes());
    let mut page = page(id, 4, &[]);
    page.extend(meta);
    page
}

fn revision(main: u64) -> Vec<u8> {
    [&main.to_be_bytes()[..], b"_", &0_u64.to_be_bytes()].concat()
}

fn deleted(main: u64) -> Vec<u8> {
    [revision(main), b"t".to_vec()].concat()
}

/// A `KeyValue` with a key, a version and a value.
fn pair(key: &str, value: usize) -> Vec<u8> {
    let mut message = vec![0x0a, u8::try_from(key.len()).expect("it is short")];
    message.extend(key.as_bytes());
    message.extend([0x20, 0x81, 0x01, 0x2a]);
    let low = u8::try_from(value & 0x7f).expect("it has seven bits") | 0x80;
    message.extend([low, u8::try_from(value >> 7).expect("it is small")]);
    message.extend(vec![b'x'; value]);
    message
}

fn bucket(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), [0; 8]].concat()
}

fn pages() -> Vec<Vec<u8>> {
    let inline = leaf(0, 0, &[(b"consistent_index", vec![0; 8]), (b"storageVersion", b"3.6.0".to_vec())]);
    let root = [(b"key".as_slice(), bucket(4)), (b"meta", [bucket(0), inline].concat())];
    vec![
        meta(0, 7, 8),
        meta(1, 6, 8),
        page(2, 16, &[]),
        leaf(3, 1, &root),
        branch(4, &[(&revision(2), 5), (&revision(4), 6)]),
        leaf(5, 0, &[(&revision(2), pair("a", 3)), (&revision(3), pair("b", 3))]),
        // It continues on another page.
        leaf(6, 0, &[(&revision(4), pair("a", 1000)), (&deleted(5), pair("b", 0)), (&revision(9), pair("c", 1))]),
    ]
}

fn file(pages: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for page in pages {
        file.extend(page);
        file.resize(file.len().next_multiple_of(PAGE), 0);
    }
    file
}

fn read(bytes: &[u8]) -> Result<Contents, Damage> {
    contents(Cursor::new(bytes), bytes.len() as u64)
}

fn wrong(pages: &[Vec<u8>]) -> String {
    read(&file(pages)).expect_err("it is damaged").to_string()
}

#[test]
fn keys_and_revisions_are_read() {
    let found = read(&file(&pages())).expect("it is good");
    assert_eq!((found.revision, found.keys, found.storage_version.as_deref()), (9, 2, Some("3.6.0")));
}

#[test]
fn one_good_meta_page_is_enough() {
    let good = read(&file(&pages())).expect("it is good");
    for damaged in [0, 1] {
        let mut pages = pages();
        pages[damaged][20] ^= 1;
        assert_eq!(read(&file(&pages)).expect("the other is good"), good);
    }
    let mut pages = pages();
    pages[0][20] ^= 1;
    pages[1][20] ^= 1;
    assert!(wrong(&pages).contains("both of its meta pages"), "{}", wrong(&pages));
}

#[test]
fn trees_that_are_none_are_refused() {
    let with = |at: usize, page: Vec<u8>| {
        let mut pages = pages();
        pages[at] = page;
        wrong(&pages)
    };
    let cases = [
        (with(4, branch(4, &[(&revision(2), 5), (&revision(4), 4)])), "page 4 twice"),
        (with(4, branch(4, &[(&revision(2), 5), (&revision(4), 5)])), "page 5 twice"),
        (with(4, branch(4, &[(&revision(2), 5), (&revision(4), 800)])), "leads to page 800 of 8"),
        (with(4, branch(4, &[(&revision(2), 5), (&revision(4), 0)])), "leads to page 0"),
        (with(4, branch(4, &[(&revision(2), 5), (&revision(4), 2)])), "of another kind (0x10)"),
        (with(4, branch(4, &[(&revision(2), 5), (&revision(5), 6)])), "not in order"),
        (with(5, leaf(7, 0, &[])), "another page where page 5"),
        (with(5, leaf(5, 0, &[(&revision(3), pair("a", 1)), (&revision(2), pair("a", 1))])), "not in order"),
        (with(5, leaf(5, 0, &[(&[&revision(3)[..], b"x"].concat(), pair("a", 1))])), "not a revision"),
        (with(5, leaf(5, 0, &[(&revision(2), vec![0x0a, 200])])), "ends early"),
        (with(5, leaf(5, 0, &[(&revision(2), vec![0xff; 20])])), "ends early"),
        (with(5, leaf(5, 1, &[(&revision(2), bucket(0))])), "bucket within a bucket"),
        (with(3, leaf(3, 0, &[(b"key", bucket(4))])), "outside of all buckets"),
        (with(3, leaf(3, 1, &[(b"key", vec![1])])), "without a tree"),
        (with(3, leaf(3, 1, &[(b"key", bucket(0))])), "not a leaf"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found:?} instead of {expected:?}");
    }
}

#[test]
fn sizes_of_a_hostile_file_are_not_believed() {
    let changed = |page: usize, at: usize, bytes: &[u8]| {
        let mut pages = pages();
        pages[page][at..at + bytes.len()].copy_from_slice(bytes);
        wrong(&pages)
    };
    assert!(changed(5, 12, &[0xff; 4]).contains("continues beyond the last"));
    assert!(!changed(5, 10, &[0xff; 2]).is_empty(), "it has so many elements");
    // Where the data is, how long the key is, how long the value.
    for field in [4, 8, 12] {
        assert!(changed(5, 16 + field, &[0xff; 4]).contains("outside of its page"));
    }
    let mut many = pages();
    (many[0], many[1]) = (meta(0, 7, u64::MAX), meta(1, 6, u64::MAX));
    assert!(wrong(&many).contains("cut short"));
}

fn sums(pieces: &[&[u8]]) -> Result<super::inspect::Sum, Damage> {
    let mut sums = Sums::default();
    for piece in pieces {
        sums.update(piece);
    }
    sums.finish()
}

fn snapshot(size: usize) -> Vec<u8> {
    let mut bytes: Vec<_> = (0..=255).cycle().take(size).collect();
    bytes.extend(Sha256::digest(&bytes));
    bytes
}

#[test]
fn the_sum_at_the_end_is_compared() {
    let good = snapshot(1024);
    let sum = sums(&[&good]).expect("it is good");
    assert_eq!((sum.size, sum.sha256), (1056, data_encoding::HEXLOWER.encode(&Sha256::digest(&good))));
    for at in [0, 1023, 1024, 1055] {
        let mut damaged = good.clone();
        damaged[at] ^= 0x10;
        let damage = sums(&[&damaged]).expect_err("a bit is flipped").to_string();
        assert!(damage.contains("is damaged"), "{damage}");
    }
    for size in [0, 31, 32, 512, 1055] {
        assert!(sums(&[&good[..size]]).is_err(), "{size} bytes");
    }
}

proptest! {
    #[test]
    fn a_snapshot_may_come_in_pieces(cuts in prop::collection::vec(0..1056_usize, 0..40)) {
        let good = snapshot(1024);
        let mut cuts = cuts;
        cuts.extend([0, good.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &good[cut[0]..cut[1]]).collect();
        assert_eq!(sums(&pieces).expect("it is good"), sums(&[&good]).expect("it is good"));
    }

    #[test]
    fn no_damage_makes_the_reader_fall(
        changes in prop::collection::vec((2 * PAGE..8 * PAGE, any::<u8>()), 1..20),
        headers in prop::collection::vec((2..7_usize, 0..64_usize, any::<u8>().prop_map(|byte| byte % 9)), 0..6),
        cut in prop::option::weighted(0.2, 0..8 * PAGE),
    ) {
        let mut bytes = file(&pages());
        for (page, at, byte) in headers {
            bytes[page * PAGE + at] = byte;
        }
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        if let Ok(contents) = read(&bytes) {
            assert!(contents.keys <= 5, "it has five changes");
        }
    }

    #[test]
    fn no_bytes_make_the_reader_fall(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        assert!(read(&bytes).is_err());
    }
}
