//! Charts that the operator fetches.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::{Space, cluster_dir, eventually, free_port, repository};

/// A container registry with a certificate of the cluster's authority.
struct Registry(Child);

impl Registry {
    fn start(space: &Space, port: u16) -> Self {
        let (pki, stored) = (cluster_dir().join("pki"), space.file("stored", "").with_file_name("blobs"));
        let config = json!({
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": stored}},
            "http": {
                "addr": format!("127.0.0.1:{port}"),
                "tls": {"certificate": pki.join("apiserver.crt"), "key": pki.join("apiserver.key")},
            },
        });
        let config = space.file("registry.yml", &config.to_string());
        let child = Command::new("registry")
            .arg("serve")
            .arg(config)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry is on PATH");
        Self(child)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_chart_comes_from_a_registry_as_soon_as_there_is_one() {
    let mut space = Space::new("registry");
    let (port, ca) = (free_port(), cluster_dir().join("pki/ca.crt"));
    space.env.push(("SSL_CERT_FILE", ca.clone()));
    let link = format!("oci://127.0.0.1:{port}/charts/web:1.2.3");
    let _operator = space.operator(&space.watches(&[("Web", &link), ("Other", "web")]), &[]);
    space.apply("Web", "app", &json!({}));
    space.apply("Other", "here", &json!({}));
    // Who waits for the registry holds up nobody else.
    space.wait("other/here", "Deployed", "True");
    eventually("the status names the registry", || {
        let stalled = space.condition("web/app", "Stalled")?;
        let message = stalled["message"].as_str().unwrap_or_default();
        let said = message.contains(&link) && message.contains("connection refused");
        if stalled["status"] == "True" && said { Ok(()) } else { Err(stalled.to_string()) }
    });

    let _registry = Registry::start(&space, port);
    let archive = space.file("x", "").with_file_name("web-1.2.3.tgz");
    let folder = archive.parent().unwrap().to_str().unwrap().to_owned();
    space.helm(&["package", repository("tests/charts/web").to_str().unwrap(), "-d", &folder]).unwrap();
    let (ca, to) = (ca.to_str().unwrap(), format!("oci://127.0.0.1:{port}/charts"));
    eventually("the chart is pushed", || space.helm(&["push", archive.to_str().unwrap(), &to, "--ca-file", ca]));
    space.wait("web/app", "Deployed", "True");
}
