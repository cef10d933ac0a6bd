//! Objects that are written in another version of their group than before (docs/design/applying.md B1): fields have other names there, and
//! the object is the same.

use std::path::PathBuf;

use crate::harness::{Space, eventually, repository};
use serde_json::{Value, json};

/// The fields of one version that the other lacks, as values of the chart.
fn in_v1() -> Value {
    json!({"version": "v1", "more": {"minReplicas": 2, "targetCPUUtilizationPercentage": 50}})
}

fn in_v2() -> Value {
    let resource = json!({"name": "memory", "target": {"type": "Utilization", "averageUtilization": 60}});
    json!({"version": "v2", "more": {"minReplicas": 2, "metrics": [{"type": "Resource", "resource": resource}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}}}})
}

/// The same without any of it.
fn bare(version: &str) -> Value {
    json!({"version": version, "more": {"minReplicas": 1}})
}

fn scaler(space: &Space) -> Result<Value, String> {
    space.get("horizontalpodautoscalers.v2.autoscaling/app")
}

/// Waits until nothing of the first version's fields is left; the API server's defaults are.
fn wait_bare(space: &Space, uid: &Value) {
    eventually("nothing is left of what the chart dropped", || {
        let found = scaler(space)?;
        let spec = &found["spec"];
        let metrics: Vec<_> = spec["metrics"].as_array().into_iter().flatten().map(|m| &m["resource"]).collect();
        let default = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
        let window = &spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"];
        if metrics.iter().all(|m| **m == default) && *window != 10 && spec["minReplicas"] == 1 {
            assert_eq!(found["metadata"]["uid"], *uid, "it is the same object");
            return Ok(());
        }
        Err(found.to_string())
    });
}

fn chart() -> PathBuf {
    repository("tests/charts/versioned")
}

/// B1.
#[test]
fn what_helm_wrote_in_another_version_goes_with_the_chart() {
    for (values, other, flag) in [
        (in_v1(), "v2", "--server-side=true"),
        (in_v1(), "v2", "--server-side=false"),
        (in_v2(), "v1", "--server-side=true"),
        (in_v2(), "v1", "--server-side=false"),
    ] {
        println!("{} by helm {flag}, then {other}", values["version"]);
        let space = Space::new("b1-version");
        let file = space.file("values.json", &values.to_string());
        let (chart, file) = (chart(), file.display().to_string());
        space.helm(&["install", "app", chart.to_str().unwrap(), "-f", &file, flag]).unwrap();
        let uid = scaler(&space).unwrap()["metadata"]["uid"].clone();
        let watches = space.watches_with(&[("Web", "versioned")], "  allow: [takeOwnership]\n");
        let operator = space.operator(&watches, &[]);
        space.apply_with("Web", "app", &json!({"tillerman.dev/take-ownership": "true"}), &bare(other));
        space.wait_field("web/app", "/status/release/revision", &json!(2));
        operator.settle();
        wait_bare(&space, &uid);
    }
}

/// B1.
#[test]
fn what_a_human_writes_with_helm_in_another_version_goes_again() {
    for (values, own) in [(in_v1(), "v2"), (in_v2(), "v1")] {
        println!("{} by a human, beside {own}", values["version"]);
        let space = Space::new("b1-human-version");
        let operator = space.operator(&space.watches(&[("Web", "versioned")]), &[]);
        space.apply("Web", "app", &bare(own));
        space.wait("web/app", "Deployed", "True");
        operator.settle();
        let uid = scaler(&space).unwrap()["metadata"]["uid"].clone();
        let file = space.file("values.json", &values.to_string());
        let (chart, file) = (chart(), file.display().to_string());
        space.helm(&["upgrade", "app", chart.to_str().unwrap(), "-f", &file]).unwrap();
        space.wait_field("web/app", "/status/release/revision", &json!(3));
        operator.settle();
        wait_bare(&space, &uid);
    }
}

#[test]
fn a_chart_that_moves_to_another_version_keeps_its_object() {
    for (values, other) in [(in_v1(), "v2"), (in_v2(), "v1")] {
        println!("{} to {other}", values["version"]);
        let space = Space::new("version");
        let watches = space.watches(&[("Web", "versioned")]);
        let operator = space.operator(&watches, &[]);
        space.apply("Web", "app", &values);
        space.wait("web/app", "Deployed", "True");
        operator.settle();
        let uid = scaler(&space).unwrap()["metadata"]["uid"].clone();
        space.apply("Web", "app", &bare(other));
        space.wait_field("web/app", "/status/release/revision", &json!(2));
        operator.settle();
        wait_bare(&space, &uid);
        // Neither the watch of the version before nor a restart takes it for a stray.
        operator.kill();
        let operator = space.operator(&watches, &[]);
        let before = operator.settle();
        assert_eq!(operator.settle(), before);
        wait_bare(&space, &uid);
        assert_eq!(space.get("web/app").unwrap()["status"]["release"]["revision"], 2);
        space.kubectl(&["delete", "web/app"]).unwrap();
        eventually("it goes with its custom resource", || scaler(&space).map_or(Ok(()), |_| Err("it is there")));
    }
}
