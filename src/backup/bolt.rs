//! Reads files of bbolt, in which etcd keeps its data, and trusts nothing in them.
//!
//! A file is made of pages of one size, little-endian. The first two are meta pages with a checksum; the newer one names the
//! page at which the tree of the root bucket begins. Leaves hold keys and values; a value may be a bucket, with a tree of its
//! own or, when it is small, with its one page within the value. Layouts are those of `go.etcd.io/bbolt` 1.4,
//! `internal/common`.

use std::io::{Read, Seek, SeekFrom};

/// Bytes of a page's header: its number, flags, the number of its elements, and the number of pages by which it
/// continues.
const HEADER: usize = 16;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const META: u16 = 4;
/// The value is a bucket.
const BUCKET: u32 = 1;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Bytes of a meta page's content that its checksum is of.
const CHECKED: usize = 56;
/// Page sizes that bbolt looks for (`getPageSizeFromSecondMeta`).
const PAGE_SIZES: std::ops::RangeInclusive<u32> = 10..=24;
/// bbolt ends a leaf after its second key, and etcd takes no request of this size.
const LARGEST_PAGE: u64 = 1 << 30;
/// A branch has two keys at least, and a file fewer than 2^48 pages.
const DEEPEST: u32 = 48;

/// The fault of a file.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// Its content is not what etcd writes.
    #[error("{0}")]
    Content(String),
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
}

pub(super) fn damage<T>(text: impl Into<String>) -> Result<T, Damage> {
    Err(Damage::Content(text.into()))
}

/// The content of a file, in the order of its keys.
pub(super) enum Found<'a> {
    /// A bucket begins.
    Bucket(&'a [u8]),
    /// A key of the bucket and its value.
    Pair(&'a [u8], &'a [u8]),
}

/// An open file.
pub(super) struct Bolt<R> {
    file: R,
    page_size: u64,
    /// Pages that are in use or free.
    pages: u64,
    root: u64,
    /// A bit for each visited page. No page is visited twice, so the time is bounded by the length of the file.
    seen: Vec<u64>,
}

impl<R: Read + Seek> Bolt<R> {
    /// Reads the meta pages of a file of `length` bytes.
    pub fn open(mut file: R, length: u64) -> Result<Self, Damage> {
        let first = meta(&mut file, 0)?;
        let second = match &first {
            Some(meta) => self::meta(&mut file, meta.page_size)?,
            None => {
                PAGE_SIZES.map(|bits| 1 << bits).find_map(|at| self::meta(&mut file, at).transpose()).transpose()?
            }
        };
        let newest = first.into_iter().chain(second).max_by_key(|meta| meta.transaction);
        let Some(Meta { page_size, pages, root, .. }) = newest else {
            return damage("is not a database of etcd, or both of its meta pages are damaged");
        };
        if pages.checked_mul(page_size).is_none_or(|size| size > length) {
            return damage(format!("is cut short: it has {length} bytes of {pages} pages of {page_size}"));
        }
        let seen = vec![0; usize::try_from(pages.div_ceil(64)).map_err(|_| Damage::Content("is too large".into()))?];
        let mut bolt = Self { file, page_size, pages, root, seen };
        bolt.mark(0, 2)?;
        Ok(bolt)
    }

    /// Visits all buckets and what they hold. A bucket within a bucket is an error: etcd makes none.
    pub fn walk(&mut self, visit: &mut impl FnMut(Found<'_>) -> Result<(), Damage>) -> Result<(), Damage> {
        let mut buckets = Vec::new();
        self.tree(self.root, 0, &Bounds::default(), &mut |flags, key, value| {
            if flags != BUCKET {
                return damage("has a value outside of all buckets");
            }
            buckets.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        for (name, bucket) in buckets {
            visit(Found::Bucket(&name))?;
            let mut each = |flags: u32, key: &[u8], value: &[u8]| match flags {
                0 => visit(Found::Pair(key, value)),
                _ => damage("has a bucket within a bucket"),
            };
            let Some(root) = number(&bucket, 0) else { return damage("has a bucket without a tree") };
            match root {
                // The page is within the value, behind the bucket's 16 bytes.
                0 => leaf(bucket.get(16..).unwrap_or_default(), &Bounds::default(), &mut each)?,
                _ => self.tree(root, 0, &Bounds::default(), &mut each)?,
            }
        }
        Ok(())
    }

    fn tree(
        &mut self,
        page: u64,
        depth: u32,
        bounds: &Bounds,
        each: &mut impl FnMut(u32, &[u8], &[u8]) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        if depth > DEEPEST {
            return damage("has a tree that is too deep");
        }
        let bytes = self.page(page)?;
        match flags(&bytes) {
            LEAF => leaf(&bytes, bounds, each),
            BRANCH => {
                let mut below = Vec::new();
                for element in 0..count(&bytes) {
                    let at = HEADER + element * 16;
                    let (Some(from), Some(size), Some(page)) =
                        (short(&bytes, at), short(&bytes, at + 4), number(&bytes, at + 8))
                    else {
                        return damage(format!("has a branch in page {page} that ends early"));
                    };
                    below.push((slice(&bytes, at, from, size)?.to_vec(), page));
                }
                drop(bytes);
                for (element, (from, page)) in below.iter().enumerate() {
                    // The first child may have keys that came before the branch's own: bbolt's seek allows for that.
                    let from = if element == 0 { bounds.from.clone() } else { Some(from.clone()) };
                    let to = below.get(element + 1).map(|(next, _)| next.clone()).or_else(|| bounds.to.clone());
                    self.tree(*page, depth + 1, &Bounds { from, to }, each)?;
                }
                Ok(())
            }
            other => damage(format!("has a page {page} of another kind ({other:#x}) in a tree")),
        }
    }

    /// The bytes of a page, with those of the pages by which it continues.
    fn page(&mut self, page: u64) -> Result<Vec<u8>, Damage> {
        if !(2..self.pages).contains(&page) {
            return damage(format!("has a tree that leads to page {page} of {}", self.pages));
        }
        let mut header = [0; HEADER];
        self.read(page * self.page_size, &mut header)?;
        let more = u64::from(short(&header, 12).unwrap_or_default());
        if number(&header, 0) != Some(page) {
            return damage(format!("has another page where page {page} should be"));
        }
        self.mark(page, more + 1)?;
        let size = (more + 1) * self.page_size;
        if size > LARGEST_PAGE {
            return damage(format!("has a page {page} of {size} bytes"));
        }
        let mut bytes = vec![0; usize::try_from(size).expect("it is at most 1 GiB")];
        self.read(page * self.page_size, &mut bytes)?;
        Ok(bytes)
    }

    fn read(&mut self, at: u64, bytes: &mut [u8]) -> Result<(), Damage> {
        self.file.seek(SeekFrom::Start(at))?;
        Ok(self.file.read_exact(bytes)?)
    }

    fn mark(&mut self, first: u64, count: u64) -> Result<(), Damage> {
        if first.checked_add(count).is_none_or(|end| end > self.pages) {
            return damage(format!("has a page {first} that continues beyond the last"));
        }
        for page in first..first + count {
            let word = usize::try_from(page / 64).ok().and_then(|word| self.seen.get_mut(word));
            let word = word.expect("there is a bit for each page");
            if *word >> (page % 64) & 1 == 1 {
                return damage(format!("has trees that lead to page {page} twice"));
            }
            *word |= 1 << (page % 64);
        }
        Ok(())
    }
}

/// The keys that a page may have: from the first bound, and below the second.
#[derive(Default)]
struct Bounds {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

fn leaf(
    page: &[u8],
    bounds: &Bounds,
    each: &mut impl FnMut(u32, &[u8], &[u8]) -> Result<(), Damage>,
) -> Result<(), Damage> {
    if flags(page) != LEAF {
        return damage("has a bucket that is not a leaf");
    }
    let mut last: Option<&[u8]> = None;
    for element in 0..count(page) {
        let at = HEADER + element * 16;
        let field = |n: usize| short(page, at + n * 4);
        let (Some(flags), Some(from), Some(key), Some(value)) = (field(0), field(1), field(2), field(3)) else {
            return damage("has a leaf that ends early");
        };
        let both = slice(page, at, from, key.checked_add(value).ok_or_else(outside)?)?;
        let (key, value) = both.split_at(key as usize);
        let in_order = last.is_none_or(|last| last < key)
            && bounds.from.as_ref().is_none_or(|from| from.as_slice() <= key)
            && bounds.to.as_ref().is_none_or(|to| key < to.as_slice());
        if key.is_empty() || !in_order {
            return damage("has keys that are not in order");
        }
        each(flags, key, value)?;
        last = Some(key);
    }
    Ok(())
}

/// The content of a meta page that is not damaged.
struct Meta {
    page_size: u64,
    root: u64,
    pages: u64,
    transaction: u64,
}

/// The meta page at an offset; None when there is none whose checksum is right.
fn meta<R: Read + Seek>(file: &mut R, at: u64) -> Result<Option<Meta>, Damage> {
    let mut page = [0; HEADER + CHECKED + 8];
    file.seek(SeekFrom::Start(at))?;
    match file.read_exact(&mut page) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let meta = &page[HEADER..];
    let short = |at| short(meta, at).unwrap_or_default();
    let number = |at| number(meta, at).unwrap_or_default();
    let page_size = short(8);
    let good = flags(&page) == META
        && (short(0), short(4)) == (MAGIC, VERSION)
        && page_size.is_power_of_two()
        && PAGE_SIZES.contains(&page_size.trailing_zeros())
        && number(CHECKED) == checksum(&meta[..CHECKED]);
    let meta = Meta { page_size: page_size.into(), root: number(16), pages: number(40), transaction: number(48) };
    Ok((good && meta.pages > 2).then_some(meta))
}

/// FNV-1a of 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn flags(page: &[u8]) -> u16 {
    page.get(8..10).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn count(page: &[u8]) -> usize {
    page.get(10..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| usize::from(u16::from_le_bytes(bytes)))
}

fn short(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The place that an element names, relative to itself.
fn slice(page: &[u8], element: usize, from: u32, size: u32) -> Result<&[u8], Damage> {
    let from = element.checked_add(from as usize).ok_or_else(outside)?;
    let to = from.checked_add(size as usize).ok_or_else(outside)?;
    page.get(from..to).ok_or_else(outside)
}

fn outside() -> Damage {
    Damage::Content("has an element outside of its page".into())
}
