//! The fuzz targets without a fuzzer: every seed of `fuzz/corpus`, and each with random changes that are the same in
//! every run. `make fuzz` looks for new ones.

#[path = "../fuzz/src/entry.rs"]
mod entry;
#[path = "../fuzz/src/random.rs"]
#[expect(dead_code, reason = "the comparison with Helm uses all of it")]
mod random;

use random::Random;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Changed inputs for each target, unless the environment says `FUZZ_CHANGES`.
const CHANGES: usize = 60;

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut seeds: Vec<_> = fs::read_dir(&folder)
        .expect("each target has seeds")
        .map(|entry| {
            let entry = entry.expect("the folder can be read");
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a seed can be read"))
        })
        .collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{target} has no seeds");
    seeds
}

/// A few bytes taken out, put in, changed, doubled or taken from another seed.
fn changed(random: &mut Random, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len() + 1);
        let end = (at + 1 + random.below(8)).min(data.len());
        match random.below(5) {
            0 => drop(data.drain(at..end)),
            1 => data.insert(at, *random.pick(b"{}[]\"'`|:-.,0a \n$%&*\xff\x00")),
            2 if at < data.len() => data[at] ^= 1 << random.below(8),
            3 => drop(data.splice(at..at, data[at..end].to_vec())),
            _ => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(40)).min(other.len());
                drop(data.splice(at..end, other[from..to].iter().copied()));
            }
        }
    }
    data
}

/// Runs a target, on a thread with a stack of the size that the operator's have.
fn hold(name: &str, target: fn(&[u8])) {
    let run = |what: &str, data: &[u8]| {
        let result = catch_unwind(AssertUnwindSafe(|| target(data)));
        assert!(result.is_ok(), "{name} fails on {what}: {:?}", String::from_utf8_lossy(data));
    };
    let seeds = seeds(name);
    for (seed, data) in &seeds {
        run(seed, data);
    }
    let mut random = Random::new(1);
    let given = std::env::var("FUZZ_CHANGES").ok().and_then(|text| text.parse().ok());
    for _ in 0..given.unwrap_or(CHANGES) {
        let (seed, data) = random.pick(&seeds);
        let other = &random.pick(&seeds).1;
        run(&format!("{seed}, changed"), &changed(&mut random, data, other));
    }
}

#[test]
fn no_seed_and_no_change_of_one_does_harm() {
    for (name, target) in entry::TARGETS {
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || hold(name, target));
        let ended = thread.expect("a thread can be started").join();
        assert!(ended.is_ok(), "{name}: see above");
    }
}
