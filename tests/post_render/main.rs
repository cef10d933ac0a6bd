//! `--post-renderer`: the same chart and plugins as were given to Helm 4.3.1, whose output is recorded in `recorded/`.
//!
//! `HELM=path cargo test --test post_render` records again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The arguments of each case.
const CASES: [(&str, &[&str]); 10] = [
    ("unchanged", &["--post-renderer", "pass"]),
    ("stream", &["--post-renderer", "run", "--post-renderer-args", "sed 's/^/# /'; echo 'seen: true'"]),
    ("changed", &["--post-renderer-args", "sed s/ConfigMap/Secret/", "--post-renderer", "run"]),
    ("added", &["--post-renderer", "run", "--post-renderer-args", "cat; echo ---; echo 'kind: New'"]),
    ("shown", &["--post-renderer", "pass", "-s", "templates/hook.yaml"]),
    ("fails", &["--post-renderer", "run", "--post-renderer-args", "exit 3"]),
    ("empty", &["--post-renderer", "run", "--post-renderer-args", "true"]),
    ("malformed", &["--post-renderer", "run", "--post-renderer-args", "echo 'a: ['"]),
    ("text", &["--post-renderer", "run", "--post-renderer-args", "echo hello"]),
    ("unknown", &["--post-renderer", "nobody"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/post_render")
}

/// What a program prints on both outputs, and how it ends.
fn run(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    let command = command.args(["template", "chart"]).args(args).current_dir(folder()).env("HELM_PLUGINS", "plugins");
    let output = command.env("KUBECONFIG", "none").output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Helm looks for plugins several times, and warns each time.
    let mut lines: Vec<&str> = err.split_inclusive('\n').collect();
    lines.dedup_by(|b, a| a == b && a.starts_with("level=WARN"));
    let err = lines.concat();
    format!("{out}--- stderr\n{err}--- exit {}\n", output.status.code().unwrap_or(-1))
}

#[test]
fn post_rendered_manifests_are_helms() {
    let mut wrong = Vec::new();
    for (name, args) in CASES {
        let recorded = folder().join("recorded").join(name);
        if let Some(helm) = std::env::var_os("HELM") {
            fs::write(&recorded, run(Path::new(&helm), args)).unwrap();
        }
        let want = fs::read_to_string(&recorded).expect("the case was recorded");
        let got = run(Path::new(env!("CARGO_BIN_EXE_tillerman")), args);
        if want != got {
            wrong.push(format!("{name}\n--- want\n{want}\n--- got\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_program_may_be_given_by_its_path() {
    let by_path = ["--post-renderer", "plugins/run/run.sh", "--post-renderer-args", "", "--post-renderer-args", "cat"];
    let by_name = ["--post-renderer", "pass"];
    let tillerman = Path::new(env!("CARGO_BIN_EXE_tillerman"));
    let without_warnings = |args: &[&str]| {
        let text = run(tillerman, args);
        text.split("--- stderr").next().map(str::to_owned)
    };
    assert_eq!(without_warnings(&by_path), without_warnings(&by_name));
    let missing = run(tillerman, &["--post-renderer", "./missing"]);
    assert!(missing.contains("plugin: {Name:./missing Type:postrenderer/v1} not found"), "{missing}");
}
