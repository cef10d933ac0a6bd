//! Inputs that end the operator's process are set aside, and everybody else is served. The limits that keep such inputs from doing that
//! are switched off here, so that the journal alone is left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Space, eventually, kubectl, program};
use crate::mail::receiver;
use crate::trust::forge;

/// KiB of addresses that the operator has: what takes all memory ends it soon, and harms nothing else.
const ADDRESSES: usize = 4 << 20;

/// A script that runs the operator with few addresses.
fn confined(space: &Space) -> String {
    let text = format!("#!/bin/sh\nulimit -v {ADDRESSES}\nulimit -c 0\nexec {} \"$@\"\n", program());
    let script = space.file("confined.sh", &text);
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    script.display().to_string()
}

/// Runs the operator until its process ends by itself.
fn until_it_ends(space: &Space, watches: &Path, more: &[&str]) {
    let mut child = Command::new(confined(space))
        .args(["run", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--watches-file"])
        .arg(watches)
        .args(more)
        .env("KUBECONFIG", space.kubeconfig(None))
        .env("WATCH_NAMESPACE", &space.name)
        .envs(space.env.iter().map(|(name, value)| (name, value)))
        .env_remove("RUST_LOG")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(space.dir().join("ended.log")).unwrap())
        .spawn()
        .unwrap();
    let status = eventually("the input ends the operator", || match child.try_wait() {
        Ok(Some(status)) => Ok(status),
        other => Err(format!("{other:?}")),
    });
    assert!(!status.success(), "{status}");
}

/// The bytes of a spec, an annotation, a record and a template, each of which ends an operator without limits.
#[test]
fn an_input_that_ends_the_process_is_set_aside_and_everybody_else_is_served() {
    for input in ["spec", "annotation", "record", "template"] {
        let mut space = crate::notices::space(&format!("journal-{input}"));
        let more = "  allow: [patches]\n";
        let watches = space.watches_with(&[("Web", "tenant")], more);
        let (port, got) = receiver("204 No Content");
        let arguments = ["--notices", "--notice-hosts=127.0.0.1"];
        // What is there before the hostile input.
        let operator = space.operator(&watches, &arguments);
        space.apply("Web", "hostile", &json!({}));
        space.wait("web/hostile", "Deployed", "True");
        operator.settle();
        assert!(operator.stop());
        space.env.push(("TILLERMAN_HARM_UNLIMITED", PathBuf::from("yes")));
        space.env.push(("TILLERMAN_STATE_DIR", space.dir().join("state")));
        harm(&space, input, port);
        for _ in 0..2 {
            until_it_ends(&space, &watches, &arguments);
        }
        let operator = space.program_with(&confined(&space), &watches, &space.kubeconfig(None), &arguments);
        space.apply("Web", "honest", &json!({}));
        space.wait("web/honest", "Deployed", "True");
        if input == "template" {
            eventually("the message has the usual words", || {
                let bodies: Vec<Value> =
                    got.lock().unwrap().iter().map(|request| request.json()["body"].clone()).collect();
                let is_said = |body: &Value| body.as_str().is_some_and(|b| b.contains("process ended twice"));
                if bodies.iter().any(is_said) { Ok(()) } else { Err(format!("{bodies:?}")) }
            });
        } else {
            // Until the other one is rendered, the reason can be that it waits for a thread.
            eventually(&format!("the {input} is set aside"), || {
                let ready = space.condition("web/hostile", "Ready")?;
                if ready["reason"] == "InputSetAside" { Ok(()) } else { Err(ready.to_string()) }
            });
            space.wait_event("InputSetAside");
            // A change is tried.
            let harmless = json!({"tillerman.dev/reconcile-at": "again", "tillerman.dev/patches": null});
            if input != "record" {
                let patch = json!({"metadata": {"annotations": harmless}, "spec": {"text": "harmless"}});
                space.kubectl(&["patch", "web", "hostile", "--type=merge", "-p", &patch.to_string()]).unwrap();
                space.wait("web/hostile", "Ready", "True");
            }
        }
        assert!(operator.stop());
    }
}

/// Writes the hostile input.
fn harm(space: &Space, input: &str, port: u16) {
    match input {
        "spec" => {
            let text = "{{ $x := \"xxxxxxxxxxxxxxxx\" }}{{ range until 40 }}{{ $x = printf \"%s%s\" $x $x }}{{ end }}{{ $x | len }}";
            space.apply("Web", "hostile", &json!({"text": text}));
        }
        "annotation" => {
            let mut operations = vec![json!({"op": "add", "path": "/data/list", "value": [1]})];
            operations.resize(40, json!({"op": "copy", "from": "/data/list", "path": "/data/list/-"}));
            let patches = json!([{"target": {"kind": "ConfigMap"}, "patch": operations}]).to_string();
            space.apply_with("Web", "hostile", &json!({"tillerman.dev/patches": patches}), &json!({}));
        }
        "record" => {
            let hooks = format!("@{} {{}},@", 20 << 20);
            forge(space, "hostile", |record| record["hooks"] = hooks.clone().into(), |_| ());
            // A change needs the record.
            space.kubectl(&["delete", "configmap/hostile"]).unwrap();
        }
        _ => {
            let body =
                format!("{{% set x = 'xxxxxxxxxxxxxxxx' %}}{}{{{{ x|length }}}}", "{% set x = x ~ x %}".repeat(40));
            let target = json!({"webhook": {"url": format!("http://127.0.0.1:{port}/x"), "tls": "none"}});
            let notice = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "Notice",
                "metadata": {"name": "hostile", "namespace": space.name},
                "spec": {"target": target, "window": "1s", "template": {"body": body}}});
            kubectl(&["apply", "-f", "-"], Some(&notice.to_string())).unwrap();
            // A message waits already.
            let line = json!({"release": "Web.test.tillerman.dev/hostile", "event": "Installed", "subject": "release", "count": 1, "still": false, "at": 1});
            let state = json!({"since": 0, "releases": {}, "outbox": [{"id": "1.0.uid", "due": 1, "lines": [line]}]});
            let generation = crate::notices::read(space, "hostile").unwrap()["metadata"]["generation"].clone();
            let status = json!({"status": {"observedGeneration": generation, "state": state}});
            space
                .kubectl(&[
                    "patch",
                    "notices.tillerman.dev",
                    "hostile",
                    "--subresource=status",
                    "--type=merge",
                    "-p",
                    &status.to_string(),
                ])
                .unwrap();
        }
    }
}
