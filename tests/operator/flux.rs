//! A Flux Kustomization with custom resources, by the real kustomize-controller: it waits for `Ready`, and names a custom resource whose
//! release fails.

use crate::harness::{Space, cluster_dir, established, eventually, kubectl, repository};
use crate::install;
use crate::kubelet::Kubelet;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where `go` has put a module, in the version of the go.mod of a folder if the name has none.
pub fn module(folder: &str, name: &str) -> String {
    let mut run = Command::new("go");
    let run =
        run.current_dir(repository(folder)).args(["mod", "download", "-json", name]).output().expect("Go is installed");
    let answer: Value = serde_json::from_slice(&run.stdout).unwrap();
    answer["Dir"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn define(folder: &str) {
    for entry in std::fs::read_dir(format!("{folder}/config/crd/bases")).unwrap() {
        let file = entry.unwrap().path();
        kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file.display().to_string()], None).unwrap();
    }
}

/// Serves one file to everybody who asks, and returns the port.
fn serve(file: &Path) -> u16 {
    let data = std::fs::read(file).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", data.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&data));
        }
    });
    port
}

struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts kustomize-controller for the namespace of a test.
fn controller(space: &Space) -> Controller {
    let child = Command::new("kustomize-controller")
        .args(["--watch-all-namespaces=false", "--metrics-addr=0", "--health-addr=127.0.0.1:0", "--no-remote-bases"])
        .env("KUBECONFIG", cluster_dir().join("admin.kubeconfig"))
        .env("RUNTIME_NAMESPACE", &space.name)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(space.file("kustomize-controller.log", "")).unwrap())
        .spawn()
        .expect("tests/cluster/build-tools.sh gitops");
    Controller(child)
}

/// A source with these custom resources, and a Kustomization that applies them and waits.
fn apply(space: &Space, name: &str, apps: &[Value]) {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": apps}).to_string();
    let file = space.file(&format!("{name}/apps.yaml"), &text);
    let archive = file.with_extension("tar.gz");
    let run =
        Command::new("tar").arg("-C").arg(file.parent().unwrap()).arg("-czf").arg(&archive).arg("apps.yaml").status();
    assert!(run.unwrap().success());
    let sum = Command::new("sha256sum").arg(&archive).output().unwrap().stdout;
    let digest = format!("sha256:{}", String::from_utf8(sum).unwrap().split(' ').next().unwrap());
    let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": name, "namespace": space.name}, "spec": {"interval": "1h", "url": "https://example.com/apps"}});
    kubectl(&["apply", "-f", "-"], Some(&source.to_string())).unwrap();
    let port = serve(&archive);
    let status = json!({"status": {"artifact": {"path": name, "url": format!("http://127.0.0.1:{port}/{name}.tar.gz"),
        "revision": "main@sha1:0000000000000000000000000000000000000000", "digest": digest,
        "lastUpdateTime": "2026-01-01T00:00:00Z"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Succeeded",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let patch = format!("gitrepository/{name}");
    space.kubectl(&["patch", &patch, "--subresource=status", "--type=merge", "-p", &status.to_string()]).unwrap();
    let kustomization = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": space.name}, "spec": {"interval": "1h", "path": "./", "prune": true,
        "wait": true, "timeout": "60s", "sourceRef": {"kind": "GitRepository", "name": name}}});
    kubectl(&["apply", "-f", "-"], Some(&kustomization.to_string())).unwrap();
}

#[test]
#[ignore = "needs kustomize-controller: part gitops"]
fn flux_waits_for_custom_resources_and_names_one_that_fails() {
    let space = Space::new("flux");
    define(&module("", "github.com/fluxcd/kustomize-controller@v1.9.0"));
    define(&module("", "github.com/fluxcd/source-controller@v1.9.0"));
    for crd in ["kustomizations.kustomize.toolkit.fluxcd.io", "gitrepositories.source.toolkit.fluxcd.io"] {
        established(&format!("crd/{crd}"));
    }
    install::define(&["phpapps.apps.tillerman.dev"]);
    let _controller = controller(&space);
    let app = |name: &str, spec: Value| {
        json!({"apiVersion": "apps.tillerman.dev/v1alpha1", "kind": "PhpApp", "spec": spec,
            "metadata": {"name": name, "namespace": space.name}})
    };
    let condition = |name: &str| space.condition(&format!("kustomization/{name}"), "Ready");

    // Flux creates it before an operator runs. kstatus takes a custom resource without a status for ready; the definition's default is a
    // status of a generation that never was.
    let hello = app("hello", json!({"source": {"index.php": "<?php"}}));
    apply(&space, "good", &[hello]);
    let waits = || {
        let ready = condition("good")?;
        if ready["status"] == "Unknown" { Ok(()) } else { Err(ready.to_string()) }
    };
    eventually("Flux has created the custom resource", || space.get("phpapp/hello").map(|_| ()));
    eventually("the Kustomization waits for an operator", waits);
    let operator = space.operator(&install::watches(&space, &["php"]), &[]);
    space.wait("phpapp/hello", "Ready", "False");
    // Nothing runs here before the test says so.
    eventually("the Kustomization waits for the release", waits);
    let _kubelet = Kubelet::of_pods(&space, "hello-");
    space.wait("kustomization/good", "Ready", "True");

    let broken = app("broken", json!({"database": {"cluster": "a", "host": "b"}}));
    apply(&space, "bad", &[broken]);
    eventually("the Kustomization names the custom resource that fails", || {
        let ready = condition("bad")?;
        let message = ready["message"].as_str().unwrap_or_default();
        let is = ready["status"] == "False" && message.contains("broken status: 'Failed'");
        if is { Ok(()) } else { Err(ready.to_string()) }
    });

    // What is taken out of Git is uninstalled, before Flux has forgotten it.
    for name in ["good", "bad"] {
        space.kubectl(&["delete", &format!("kustomization/{name}"), "--timeout=60s"]).unwrap();
    }
    space.wait_gone("phpapp/hello");
    space.wait_gone("deployment/hello");
    assert!(operator.stop());
}
