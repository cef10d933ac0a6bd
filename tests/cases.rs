//! Runs the command line as a user would and compares what it prints.
//!
//! A case is a folder of `tests/cases`: `args` holds the arguments, one a line, and `stdout`, `stderr` and `exit` what
//! is expected. Commands run in the repository. `REWRITE_CASES=1` writes what is printed instead; read the difference.

use std::fs;
use std::path::Path;
use std::process::Command;

fn compare(folder: &Path, name: &str, got: &str, wrong: &mut Vec<String>) {
    let file = folder.join(name);
    if std::env::var_os("REWRITE_CASES").is_some() {
        fs::write(&file, got).expect("the case can be written");
        return;
    }
    let want = fs::read_to_string(&file).unwrap_or_default();
    if want != got {
        wrong.push(format!("{}\n--- want\n{want}\n--- got\n{got}", file.display()));
    }
}

#[test]
fn commands_print_what_their_cases_say() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    let mut folders: Vec<_> =
        fs::read_dir(top.join("tests/cases")).expect("there are cases").map(|e| e.unwrap().path()).collect();
    folders.sort();
    assert!(!folders.is_empty());
    for folder in folders {
        let args = fs::read_to_string(folder.join("args")).expect("a case has arguments");
        let run = Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args.lines()).current_dir(top).output().unwrap();
        // A chart is named by its absolute path in some messages.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&top.display().to_string(), "{TOP}");
        compare(&folder, "stdout", &text(&run.stdout), &mut wrong);
        compare(&folder, "stderr", &text(&run.stderr), &mut wrong);
        compare(&folder, "exit", &format!("{}\n", run.status.code().unwrap_or(-1)), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
