//! `tillerman status`, as somebody runs it who has a kubeconfig.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::{Space, eventually};

/// Standard output of the command, or what it wrote to standard error.
fn status(space: &Space, args: &[&str]) -> Result<String, String> {
    let output = command(space, args).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn command(space: &Space, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tillerman"));
    command.arg("status").args(args).args(["--namespace", &space.name]);
    command.arg("--kubeconfig").arg(space.kubeconfig(None));
    command
}

/// Ends with the test.
struct Watching(Child);
impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn status_shows_the_tree_of_a_release_and_its_changes() {
    let space = Space::new("statustree");
    let _operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    // What comes of the Deployment is seen: several trees are compared.
    space.wait_web("app");

    let tree = status(&space, &["app"]).unwrap();
    let line = |start: &str| tree.lines().find(|l| l.contains(start)).unwrap_or_else(|| panic!("{start} in\n{tree}"));
    assert!(line(&format!("Web {}/app", space.name)).contains("Progressing"), "{tree}");
    assert!(
        line("─ release app ").contains("chart web-1.2.3") && line("─ release app ").contains("revision 1"),
        "{tree}"
    );
    assert!(line("─ Deployment app-web ").contains("Progressing"), "{tree}");
    assert!(line("─ Service app-web ").contains("Ready"), "{tree}");
    for word in ["web/app", "webs/app", "Web/app"] {
        assert_eq!(status(&space, &[word]).unwrap(), tree);
    }

    let log = space.dir().join("watch");
    let file = std::fs::File::create(&log).unwrap();
    let child = command(&space, &["app", "--watch"]).stdout(Stdio::from(file)).spawn().unwrap();
    let _watching = Watching(child);
    let printed = |what: &str| {
        eventually(what, || {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains(what) { Ok(()) } else { Err(text) }
        });
    };
    printed("revision 1");
    space.apply("Web", "app", &json!({"replicas": 3}));
    printed("revision 2");
}

#[test]
fn status_of_what_is_not_there_says_where_it_looked() {
    let space = Space::new("statusnone");
    let none = status(&space, &["nope"]).unwrap_err();
    let expected = format!("Error: no release nope in namespace {}; if it was never installed", space.name);
    assert!(none.starts_with(&expected), "{none}");
    let kind = status(&space, &["gizmo/nope"]).unwrap_err();
    assert_eq!(kind, "Error: the API server has no kind gizmo\n");
    for word in ["deploy/nope", "deployment.apps/nope"] {
        let short = status(&space, &[word]).unwrap_err();
        assert_eq!(short, "Error: there is no Deployment nope\n", "as kubectl takes it");
    }
    let gone = status(&space, &["web/nope"]).unwrap_err();
    assert_eq!(gone, "Error: there is no Web nope\n");
}
