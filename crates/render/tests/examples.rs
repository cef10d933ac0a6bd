//! The examples of the library do what they say. `cargo test` builds them before; for this test alone, `cargo build --examples` does.

use std::path::{Path, PathBuf};
use std::process::Command;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Examples are built into a folder next to that of tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("tests are built into a folder of the profile");
    profile.join("examples").join(name)
}

fn run(name: &str, args: &[&str]) -> (bool, String, String) {
    let output = Command::new(example(name)).args(args).current_dir(top()).output().expect("the example was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn render_prints_manifests_and_notes() {
    let (good, out, err) = run("render", &["tests/charts/web"]);
    assert!(good, "{err}");
    assert!(out.contains("# Source: web/templates/all.yaml\napiVersion: v1\nkind: ConfigMap\n"), "{out}");
    assert!(err.contains("Thank you for example: hello."), "{err}");
}

#[test]
fn render_explains_what_is_wrong() {
    let folder = tempdir("render");
    let values = folder.join("values.yaml");
    std::fs::write(&values, "mode: key\n").unwrap();
    let (good, _, err) = run("render", &["tests/charts/explained", values.to_str().unwrap()]);
    assert!(!good && err.contains("did you mean `image`?"), "{err}");
}

#[test]
fn diff_prints_the_objects_that_differ() {
    let folder = tempdir("diff");
    let (old, new) = (folder.join("old.yaml"), folder.join("new.yaml"));
    std::fs::write(&old, "greeting: hello\n").unwrap();
    std::fs::write(&new, "greeting: goodbye\nreplicas: 2\n").unwrap();
    let (good, out, err) = run("diff", &["tests/charts/web", old.to_str().unwrap(), new.to_str().unwrap()]);
    assert!(good, "{err}");
    assert_eq!(out, "~ apps/v1 Deployment/example-web\n~ v1 ConfigMap/example-config\n");
}

/// A new folder for a test's files, below cargo's own.
fn tempdir(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("cargo's folder can be written to");
    folder
}

#[test]
fn errors_can_be_sent_and_boxed() {
    fn is_error<E: std::error::Error + Send + Sync + 'static>() {}
    is_error::<tillerman_render::chart::LoadError>();
    is_error::<tillerman_render::chart::values::ValuesError>();
    is_error::<tillerman_render::render::Diagnostic>();
    is_error::<tillerman_render::template::function::FnError>();
    is_error::<tillerman_render::template::go::Error>();
    is_error::<tillerman_render::template::jinja::JinjaError>();
    is_error::<tillerman_render::template::jinja::Misplaced>();
    is_error::<tillerman_render::template::yaml::YamlError>();
}
