//! Compares YAML in and out with what sigs.k8s.io/yaml made of the same files.
//!
//! `TILLERMAN_YAML_ORACLE` names a file with a JSON object a line: `path`, and `json` with `yaml`, or `error`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tillerman::template::yaml;

#[derive(Deserialize)]
struct Case {
    path: String,
    json: Option<String>,
    yaml: Option<String>,
    error: Option<String>,
}

#[test]
fn files_read_and_write_as_in_go() {
    let Some(path) = std::env::var_os("TILLERMAN_YAML_ORACLE") else {
        println!("skipped: TILLERMAN_YAML_ORACLE is not set");
        return;
    };
    let oracle = std::fs::read_to_string(&path).expect("TILLERMAN_YAML_ORACLE names a file");
    let (mut reading, mut writing, mut bytes) = (Duration::ZERO, Duration::ZERO, 0);
    let mut wrong = BTreeMap::<&str, usize>::new();
    for line in oracle.lines() {
        let case: Case = serde_json::from_str(line).expect("a case is a line of JSON");
        let Ok(text) = std::fs::read(&case.path) else { continue };
        bytes += text.len();
        let start = Instant::now();
        let parsed = yaml::parse_value(&text);
        reading += start.elapsed();
        let mut report = |what: &'static str, detail: String| {
            *wrong.entry(what).or_default() += 1;
            println!("{what}: {} {detail}", case.path);
        };
        match (parsed, case.json, case.error) {
            (Ok(value), Some(json), _) => {
                let want = yaml::parse_value(json.as_bytes()).expect("JSON is YAML");
                let start = Instant::now();
                let out = yaml::emit(&value).map(|out| String::from_utf8_lossy(&out).into_owned());
                writing += start.elapsed();
                if yaml::emit(&want).map(|out| String::from_utf8_lossy(&out).into_owned()) != out {
                    report("value", String::new());
                } else if out.as_ref().ok() != case.yaml.as_ref() {
                    report("text", format!("{out:?}").chars().take(300).collect());
                }
            }
            (Err(found), None, Some(error)) if found.to_string() == error => {}
            (Err(found), None, Some(error)) => report("message", format!("{found} instead of {error}")),
            (Ok(_), None, error) => report("accepted", format!("{error:?}")),
            (Err(found), _, _) => report("refused", found.to_string()),
        }
    }
    println!("{bytes} bytes, read in {reading:?}, written in {writing:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Pieces that YAML gives a meaning to, put together at random, and cut anywhere.
#[test]
fn no_text_makes_the_reader_panic() {
    const PIECES: [&str; 44] = [
        "a",
        "b: ",
        "- ",
        "\n",
        "  ",
        "\t",
        "|",
        ">",
        "|+\n",
        ">-\n ",
        "|2\n",
        "'",
        "\"",
        "\\",
        "\\x4",
        "\\u00e9",
        "[",
        "]",
        "{",
        "}",
        ",",
        ": ",
        "? ",
        "#",
        " #c",
        "&x ",
        "*x",
        "<<: *x",
        "!!str ",
        "!<t>",
        "!",
        "%YAML 1.1\n",
        "%TAG ! x\n",
        "---\n",
        "...\n",
        "\r",
        "\r\n",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\0",
        "é",
        "😀",
        "1",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or(0) % limit
    };
    for _ in 0..60_000 {
        let text: String = (0..next(14)).map(|_| PIECES[next(PIECES.len())]).collect();
        let mut bytes = text.into_bytes();
        if next(8) == 0 {
            bytes.truncate(next(bytes.len() + 1));
        }
        let read = std::panic::catch_unwind(|| yaml::parse(&bytes).is_ok());
        assert!(read.is_ok(), "{:?}", String::from_utf8_lossy(&bytes));
    }
}
