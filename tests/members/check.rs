//! The checker of linearizability, and its input.
//!
//! Invariants (I11) are those of docs/design/members.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tillerman::chaos::history;
use tillerman::chaos::record::Recorder;

use crate::pods::tools;

/// What the checker says of a history: its exit code and its words.
fn check(path: &Path) -> (Option<i32>, String) {
    let program = tools().join("linearizable");
    assert!(program.exists(), "{} is missing: tests/cluster/build-tools.sh members", program.display());
    let output = Command::new(program).arg(path).output().expect("it starts");
    let words = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&words).trim().to_owned())
}

/// I11: every acknowledged write is there, and the history is linearizable. Prints what writers noticed.
pub async fn assert_linearizable(recorder: Recorder, what: &str) {
    let seen = recorder.since(0);
    let all = recorder.finish(Duration::from_secs(30)).await.expect("it can be read");
    let path = file(what);
    history::write(&all.entries, fs::File::create(&path).expect("it can be written")).expect("there is space");
    let (code, words) = check(&path);
    eprintln!(
        "{what}: {} writes acknowledged, {} failed, {} unknown, longest gap {:.3?}; {}",
        seen.acknowledged,
        seen.failed,
        seen.unknown,
        seen.longest_gap,
        words.rsplit_once(": ").map_or(&*words, |(_, words)| words),
    );
    assert_eq!(code, Some(0), "{words}");
    assert!(seen.acknowledged > 0, "nothing was written at all");
    assert_eq!(all.lost, Vec::<String>::new());
    drop(fs::remove_file(path));
}

fn file(what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tillerman-history-{}-{what}.jsonl", std::process::id()))
}

fn verdict(what: &str, lines: &[&str]) -> (Option<i32>, String) {
    let path = file(what);
    fs::write(&path, lines.join("\n")).expect("it can be written");
    let result = check(&path);
    drop(fs::remove_file(path));
    result
}

/// A checker that accepts everything proves nothing: each of these histories differs by one answer from a right one.
#[test]
fn histories_that_no_single_copy_of_the_data_can_have_are_refused() {
    let put = r#"{"client":0,"call":1,"return":2,"operation":"put","key":"a","value":"0-1","outcome":"ok"}"#;
    let over = r#"{"client":0,"call":3,"return":4,"operation":"put","key":"a","value":"0-2","outcome":"ok"}"#;
    let lost =
        r#"{"client":0,"call":3,"return":4,"operation":"put","key":"a","value":"0-2","outcome":"unknown","why":"-"}"#;
    let failed =
        r#"{"client":0,"call":3,"return":4,"operation":"put","key":"a","value":"0-2","outcome":"failed","why":"-"}"#;
    let get = |call: u32, found: &str| {
        format!(
            r#"{{"client":1,"call":{call},"return":{},"operation":"get","key":"a","outcome":"ok","found":{found}}}"#,
            call + 1
        )
    };
    let swap = |expected: &str, answer: &str| {
        format!(
            r#"{{"client":1,"call":5,"return":6,"operation":"compare-and-swap","key":"a","expected":{expected},"value":"1-1","outcome":"ok",{answer}}}"#
        )
    };
    let (old, new, none) = (r#""0-1""#, r#""0-2""#, "null");
    let cases: &[(&str, &[&str], bool)] = &[
        ("a read", &[put, &get(3, old)], true),
        ("a lost write", &[put, &get(3, none)], false),
        ("the newest", &[put, over, &get(5, new)], true),
        ("a stale read", &[put, over, &get(5, old)], false),
        ("a read that goes on at the same time", &[put, over, &get(4, old)], true),
        ("an unknown write that was done", &[put, lost, &get(5, new)], true),
        ("one that was not done", &[put, lost, &get(5, old)], true),
        ("one that was done later", &[put, lost, &get(5, old), &get(7, new)], true),
        ("one that was undone", &[put, lost, &get(5, new), &get(7, old)], false),
        ("a failed write", &[put, failed, &get(5, old)], true),
        ("a failed write that was done", &[put, failed, &get(5, new)], false),
        ("a swap", &[put, &swap(old, r#""swapped":true,"found":null"#), &get(7, r#""1-1""#)], true),
        ("a swap of what was not there", &[put, &swap(none, r#""swapped":true,"found":null"#)], false),
        ("a refused swap", &[put, &swap(none, r#""swapped":false,"found":"0-1""#)], true),
        ("a swap refused for no reason", &[put, &swap(old, r#""swapped":false,"found":"0-1""#)], false),
        (
            "a refused swap that found what was not there",
            &[put, &swap(none, r#""swapped":false,"found":"0-2""#)],
            false,
        ),
    ];
    for (what, lines, right) in cases {
        let (code, words) = verdict(&what.replace(' ', "-"), lines);
        assert_eq!(code, Some(i32::from(!right)), "{what}: {words}");
        assert!(*right || words.ends_with("a is not linearizable"), "{words}");
    }
    for (what, lines) in [("nothing", &[][..]), ("no JSON", &["x"][..]), ("the same twice", &[put, put][..])] {
        let (code, words) = verdict(&what.replace(' ', "-"), lines);
        assert_eq!(code, Some(2), "{what}: {words}");
    }
}
