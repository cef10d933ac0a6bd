//! Roll-outs of a chart: over many custom resources of which some fail, and with the operator killed after each write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::harness::{Operator, Space, eventually_within};
use crate::proxy::{Proxy, ProxyFault};
use crate::share::Share;
use crate::support::api;

const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  version: {{ .Chart.Version \
                        | quote }}\n{{- if eq .Values.fails .Chart.Version }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \
                        {{ .Release.Name }}-NOT-ALLOWED\n{{- end }}\n";

/// A `watches.yaml` with the chart in this version, as a new image of the operator has it.
fn image(space: &Space, version: &str, rollout: &Value) -> PathBuf {
    let folder = space.dir().join("app");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("Chart.yaml", &format!("apiVersion: v2\nname: app\nversion: {version}\n"));
    write("values.yaml", "fails: \"\"\n");
    write("templates/a.yaml", TEMPLATE);
    let entry = format!(
        "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart: {}\n  rollout: {rollout}\n",
        folder.display()
    );
    space.file("watches.yaml", &entry)
}

/// The newest report about a version of the chart.
fn report(space: &Space, version: &str) -> Result<Value, String> {
    let secrets = api::objects(&space.name, "secrets")?;
    let read = |secret: &Value| {
        let text = secret["metadata"]["annotations"]["tillerman.dev/rollout"].as_str()?;
        serde_json::from_str::<Value>(text).ok()
    };
    let chart = format!("app-{version}");
    secrets.iter().filter_map(read).find(|said| said["chart"] == chart).ok_or_else(|| format!("no report on {chart}"))
}

fn wait(space: &Space, version: &str, counts: &Value) -> Value {
    eventually_within(300, &format!("the roll-out of {version} says {counts}"), || {
        let said = report(space, version)?;
        let fits = counts.as_object().unwrap().iter().all(|(field, count)| said[field] == *count);
        if fits { Ok(said) } else { Err(said.to_string()) }
    })
}

/// The objects of all releases: their versions of the chart, and their versions in the API server.
fn objects(space: &Space) -> BTreeMap<String, (String, String)> {
    let found = api::objects(&space.name, "configmaps").unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |object: &Value| {
        let version = object["data"]["version"].as_str()?.to_owned();
        Some((text(&object["metadata"]["name"]), (version, text(&object["metadata"]["resourceVersion"]))))
    };
    found.iter().filter_map(entry).collect()
}

#[test]
fn one_in_fifty_fails_and_nobody_else_is_touched() {
    let space = Space::new("fleet");
    let count: usize = if Share::of_variable().of == 1 { 500 } else { 50 };
    let rollout = json!({"maxConcurrent": 10});
    let start = |version: &str| space.operator(&image(&space, version, &rollout), &["--max-concurrent-reconciles=16"]);
    let operator = start("1.0.0");
    for index in 0..count {
        let spec = if index % 50 == 24 { json!({"fails": "2.0.0"}) } else { json!({}) };
        space.apply("Web", &format!("r{index:03}"), &spec);
    }
    wait(&space, "1.0.0", &json!({"phase": "Complete", "ready": count}));
    operator.settle();
    let before = objects(&space);
    assert_eq!(before.len(), count);
    assert!(operator.stop());

    let operator = start("2.0.0");
    let said = wait(&space, "2.0.0", &json!({"phase": "Stopped", "failed": 1, "moving": 0}));
    operator.settle();
    let after = objects(&space);
    let moved = after.values().filter(|(version, _)| version == "2.0.0").count();
    let touched: Vec<&String> = after
        .iter()
        .filter(|(name, (version, at))| version == "1.0.0" && *at != before[*name].1)
        .map(|(name, _)| name)
        .collect();
    // The one that failed was changed and went back.
    assert!(touched.iter().all(|name| *name == "r024"), "{touched:?}");
    assert!((24..=34).contains(&moved), "{moved} have moved");
    assert_eq!(said["ready"], moved);
    assert_eq!(said["waiting"], count - moved - 1);
    assert_eq!(said["failures"], json!([format!("{}/r024: Invalid", space.name)]));
    assert!(operator.stop());

    let operator = start("2.0.1");
    wait(&space, "2.0.1", &json!({"phase": "Complete", "ready": count, "failed": 0}));
    assert!(objects(&space).values().all(|(version, _)| version == "2.0.1"));
    println!("{count} custom resources: {moved} moved before the roll-out stopped, and all after the fix");
    assert!(operator.stop());
}

#[test]
fn killed_after_each_write_of_a_roll_out() {
    let space = Space::new("kill-rollout");
    let proxy = Proxy::new(&space.kubeconfig(None));
    let kubeconfig = space.kubeconfig(Some(&format!("http://127.0.0.1:{}", proxy.port)));
    let names = ["a", "b", "c"];
    let start =
        |version: &str| -> Operator { space.operator_with(&image(&space, version, &json!({})), &kubeconfig, &[]) };
    let complete = json!({"phase": "Complete", "ready": names.len()});
    let operator = start("1.0.0");
    for name in names {
        space.apply("Web", name, &json!({}));
    }
    wait(&space, "1.0.0", &complete);
    assert!(operator.stop());
    let Share { remainder, of } = Share::of_variable();
    let mut kills = 0;
    for write in (1 + remainder..).step_by(usize::try_from(of).unwrap()) {
        let version = format!("1.0.{write}");
        let seen = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&seen);
        proxy.judge(move |request| {
            let is_last = request.is_write() && counter.fetch_add(1, Ordering::Relaxed) + 1 == write;
            is_last.then_some(ProxyFault::Freeze)
        });
        let operator = start(&version);
        let is_killed = eventually_within(120, &format!("write {write}, or the end"), || {
            if proxy.is_frozen() {
                return Ok(true);
            }
            let said = report(&space, &version)?;
            if said["phase"] == "Complete" && said["ready"] == names.len() { Ok(false) } else { Err(said.to_string()) }
        });
        if !is_killed {
            assert!(operator.stop());
            break;
        }
        operator.kill();
        kills += 1;
        // One at a time: no two are on their way.
        let secrets = api::objects(&space.name, "secrets").unwrap();
        let pending =
            secrets.iter().filter(|secret| secret["metadata"]["labels"]["status"] == "pending-upgrade").count();
        assert!(pending <= 1, "{pending} are on their way after write {write}");
        proxy.judge(|_| None);
        let operator = start(&version);
        wait(&space, &version, &complete);
        assert!(objects(&space).values().all(|(has, _)| *has == version), "after write {write}");
        assert!(operator.stop());
    }
    println!(
        "a roll-out over {} custom resources: killed after each of {kills} writes{}",
        names.len(),
        Share::of_variable()
    );
    assert!(kills >= 15 / of, "{kills}");
}
