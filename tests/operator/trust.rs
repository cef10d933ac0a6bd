//! An editor of a custom resource, or of the Secrets of a namespace, can cause only what the chart's author allowed (docs/explanation/security.md).

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::harness::{Space, eventually, kubectl};
use crate::kubelet::Kubelet;

fn config_map(name: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

fn binding(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}})
}

fn is_absent(kind: &str, name: &str, namespace: &str) -> bool {
    kubectl(&["-n", namespace, "get", kind, name], None).unwrap_err().contains("NotFound")
}

#[test]
fn an_annotation_that_the_kind_does_not_allow_changes_nothing_and_says_what_to_set() {
    let space = Space::new("notallowed");
    space.kubectl(&["create", "secret", "generic", "s", "--from-literal=values.yaml=greeting: stolen"]).unwrap();
    let operator = space.operator(&space.watches_with(&[("Web", "web")], "  allow: [crds]\n"), &[]);
    let patch = json!([{"target": {"kind": "ConfigMap"}, "patch": [{"op": "add", "path": "/data/a", "value": "b"}]}]);
    let annotations = json!({
        "tillerman.dev/values-from": json!([{"kind": "Secret", "name": "s"}]).to_string(),
        "tillerman.dev/patches": patch.to_string(),
        "tillerman.dev/release-name": "other",
        "tillerman.dev/take-ownership": "true",
        "tillerman.dev/ignore-drift": "nonsense",
        "tillerman.dev/crds": "skip",
        "tillerman.dev/service-account": "default",
        "tillerman.dev/target-namespace": "kube-system",
    });
    space.kubectl(&["create", "configmap", "app-config", "--from-literal=of=nobody"]).unwrap();
    space.apply_with("Web", "app", &annotations, &json!({}));
    let ignored = space.wait("web/app", "AnnotationsIgnored", "True");
    let message = ignored["message"].as_str().unwrap();
    assert_eq!(ignored["reason"], "AnnotationNotAllowed");
    assert!(
        message.ends_with(
            "set allow: [ignoreDrift, patches, releaseName, serviceAccount, takeOwnership, targetNamespace, \
             valuesFrom] for the kind in the operator's watches.yaml"
        ),
        "{message}"
    );
    assert_eq!(space.wait_event("AnnotationNotAllowed"), message);
    // What belongs to nobody stays nobody's.
    let failed = space.wait("web/app", "Ready", "False");
    assert!(failed["message"].as_str().unwrap().contains("it has no owner"), "{failed}");
    space.kubectl(&["delete", "configmap/app-config"]).unwrap();
    space.wait_web("app");
    let config = space.get("configmap/app-config").unwrap();
    assert_eq!((&config["data"]["greeting"], config["data"].get("a")), (&json!("hello"), None));
    assert!(space.helm(&["status", "app"]).is_ok() && space.helm(&["status", "other"]).is_err());
    // It says so no longer when they are gone.
    space.apply_with("Web", "app", &json!({}), &json!({}));
    eventually("it says nothing of them", || match space.condition("web/app", "AnnotationsIgnored") {
        Err(_) => Ok(()),
        Ok(condition) => Err(condition.to_string()),
    });
    operator.settle();
}

#[test]
fn a_patch_cannot_make_another_object_of_one() {
    let space = Space::new("identity");
    let _operator = space.operator(&space.watches_with(&[("Web", "web")], "  allow: [patches]\n"), &[]);
    let pwned = format!("pwned-{}", space.name);
    let mut target = config_map(&pwned, Some("kube-system"));
    target["data"] = json!({"x": "y"});
    let operations = json!([{"op": "replace", "path": "", "value": target}]);
    let patches = json!([{"target": {"kind": "ConfigMap"}, "patch": operations}]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/patches": patches.to_string()}), &json!({}));
    let stalled = space.wait("web/app", "Stalled", "True");
    assert_eq!(stalled["reason"], "InvalidManifest");
    assert_eq!(stalled["message"], "patches: ConfigMap app-config: a patch must not change metadata.name");
    assert!(is_absent("configmap", &pwned, "kube-system"));
    assert!(space.get("deployment/app-web").is_err(), "nothing of it is applied");
}

#[test]
fn objects_hooks_and_lookups_stay_where_the_kind_allows_them() {
    let space = Space::new("placed");
    let watches = space.watches_with(&[("Web", "tenant")], "  namespaces: own\n  clusterScoped: false\n");
    let operator = space.operator(&watches, &[]);
    let name = format!("far-{}", space.name);
    let mut hook = config_map(&name, Some("kube-system"));
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-install"});
    let secret = "{{ lookup \"v1\" \"Secret\" \"kube-system\" \"\" }}";
    let not_in =
        "is in namespace kube-system, and the operator does not allow that for this kind (namespaces in watches.yaml)";
    for (app, spec, reason, expected) in [
        (
            "a",
            json!({"objects": [config_map(&name, Some("kube-system"))]}),
            "NamespaceNotAllowed",
            format!("ConfigMap {name} {not_in}"),
        ),
        ("b", json!({"objects": [hook]}), "NamespaceNotAllowed", format!("ConfigMap {name} {not_in}")),
        (
            "c",
            json!({"objects": [binding(&name)]}),
            "NamespaceNotAllowed",
            format!(
                "ClusterRoleBinding {name} is cluster-scoped, and the operator does not allow that for this kind (clusterScoped in watches.yaml)"
            ),
        ),
        ("d", json!({"text": secret}), "RenderError", format!("lookup: Secret  {not_in}")),
        (
            "e",
            json!({"text": "{{ lookup \"v1\" \"Secret\" \"\" \"\" }}"}),
            "RenderError",
            "is looked up in all namespaces".to_owned(),
        ),
        (
            "f",
            json!({"text": "{{ lookup \"v1\" \"Namespace\" \"\" \"kube-system\" }}"}),
            "RenderError",
            "is cluster-scoped".to_owned(),
        ),
    ] {
        space.apply("Web", app, &spec);
        let stalled = space.wait(&format!("web/{app}"), "Stalled", "True");
        assert_eq!(stalled["reason"], reason, "{stalled}");
        assert!(stalled["message"].as_str().unwrap().contains(&expected), "{stalled}");
        assert!(space.get(&format!("configmap/{app}")).is_err(), "nothing of {app} is applied");
    }
    assert!(is_absent("configmap", &name, "kube-system") && is_absent("clusterrolebinding", &name, "default"));
    let own = format!("{{{{ (lookup \"v1\" \"ServiceAccount\" \"{}\" \"default\").metadata.name }}}}", space.name);
    space.apply("Web", "near", &json!({"objects": [config_map("x", Some(&space.name))], "text": own}));
    space.wait("web/near", "Deployed", "True");
    assert!(operator.stop());
    // A list of namespaces and kinds.
    let more = "  namespaces: [kube-system]\n  clusterScoped: [ClusterRoleBinding]\n";
    let _operator = space.operator(&space.watches_with(&[("Web", "tenant")], more), &[]);
    space.apply("Web", "a", &json!({"objects": [config_map(&name, Some("kube-system")), binding(&name)]}));
    space.wait("web/a", "Deployed", "True");
    space.kubectl(&["delete", "web/a", "web/b", "web/c", "web/d", "web/e", "web/f"]).unwrap();
    assert!(is_absent("configmap", &name, "kube-system") && is_absent("clusterrolebinding", &name, "default"));
}

/// Changes the newest record of a release as somebody can who may edit Secrets: its JSON, and annotations of the Secret.
pub fn forge(space: &Space, release: &str, change: impl Fn(&mut Value), annotations: impl Fn(&mut Value)) {
    let secrets = space.list("secrets").unwrap();
    let of_release = |s: &&Value| s["metadata"]["labels"]["name"] == release;
    let version = |s: &Value| s["metadata"]["labels"]["version"].as_str().unwrap().parse::<u64>().unwrap();
    let mut secret = secrets.iter().filter(of_release).max_by_key(|s| version(s)).unwrap().clone();
    let packed = STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap();
    let mut text = Vec::new();
    GzDecoder::new(&*STANDARD.decode(packed).unwrap()).read_to_end(&mut text).unwrap();
    let mut record = serde_json::from_slice(&text).unwrap();
    change(&mut record);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(in_place(&record.to_string()).as_bytes()).unwrap();
    secret["data"]["release"] = STANDARD.encode(STANDARD.encode(gzip.finish().unwrap())).into();
    annotations(&mut secret["metadata"]["annotations"]);
    secret["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    kubectl(&["replace", "-f", "-"], Some(&secret.to_string())).unwrap();
}

/// Everybody who can edit Secrets of a namespace can write such records. They unpack to tens of megabytes, or become millions of values.
#[test]
fn a_forged_record_that_is_too_large_is_data_that_is_not_used() {
    let space = Space::new("large-record");
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &[]);
    let names = ["hooks", "many", "manifest", "text"];
    for name in names {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    operator.settle();
    assert!(operator.stop());
    for name in names {
        let change = |record: &mut Value| match name {
            "hooks" => record["hooks"] = format!("@{} {{}},@", 20 << 20).into(),
            "many" => record["hooks"] = vec![json!({"name": "x"}); 2000].into(),
            "manifest" => record["manifest"] = format!("@{} - []\\n@", 3 << 20).replace("\\n", "\n").into(),
            _ => record["manifest"] = format!("@{} x@", 60 << 20).into(),
        };
        forge(&space, name, change, |_| ());
        // The record is needed to repair this.
        space.kubectl(&["delete", &format!("service/{name}-web")]).unwrap();
    }
    let operator = space.operator(&watches, &[]);
    for name in names {
        eventually("it comes back", || space.get(&format!("service/{name}-web")));
        space.wait_web(name);
    }
    assert!(space.wait_event("RecordNotVerified").contains("is over a limit ("));
    let peak = operator.peak();
    assert!(peak < 500 << 10, "it took {peak} KiB");
    assert!(operator.stop());
}

/// Puts a large text in the place of `@COUNT TEXT@`, which stands for that many times the text in a list or a text.
fn in_place(record: &str) -> String {
    let Some((before, rest)) = record.split_once("\"@") else { return record.to_owned() };
    let (place, after) = rest.split_once("@\"").unwrap();
    let (count, text) = place.split_once(' ').unwrap();
    let many = text.repeat(count.parse().unwrap());
    let large =
        if text.ends_with(',') { format!("[{many}{}]", text.trim_end_matches(',')) } else { format!("\"{many}\"") };
    format!("{before}{large}{after}")
}

fn add_object(record: &mut Value, object: &Value) {
    let manifest = record["manifest"].as_str().unwrap();
    record["manifest"] = format!("{manifest}---\n# Source: x\n{object}\n").into();
}

/// Adds a line to the list of a revision's objects.
fn add_line(annotations: &mut Value, gvk: &str, namespace: &str, name: &str) {
    let list = annotations["tillerman.dev/inventory"].as_str().unwrap();
    annotations["tillerman.dev/inventory"] = format!("{list}{gvk}\n {namespace} {name} uid digest\n").into();
}

#[test]
fn a_forged_record_makes_and_changes_no_object_that_the_chart_does_not_render() {
    let space = Space::new("forged");
    let operator = space.operator(&space.watches(&[("Web", "web")]), &[]);
    for name in ["a", "b"] {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    operator.settle();
    let pwned = format!("pwned-{}", space.name);
    let mut stolen = space.get("deployment/b-web").unwrap();
    let uid = stolen["metadata"]["uid"].clone();
    stolen["metadata"] = json!({"name": "b-web"});
    stolen["spec"]["replicas"] = 7.into();
    let forge = || {
        forge(
            &space,
            "a",
            |record| {
                add_object(record, &binding(&pwned));
                add_object(record, &config_map(&pwned, Some("kube-system")));
                add_object(record, &stolen);
                let manifest = record["manifest"].as_str().unwrap().replace("replicas: 1", "replicas: 5");
                record["manifest"] = manifest.into();
            },
            |annotations| {
                add_line(annotations, "rbac.authorization.k8s.io/v1/ClusterRoleBinding", "-", &pwned);
                add_line(annotations, "/v1/ConfigMap", "kube-system", &pwned);
                add_line(annotations, "apps/v1/Deployment", &space.name, "b-web");
            },
        );
    };
    let is_harmless = || {
        assert!(is_absent("clusterrolebinding", &pwned, "default") && is_absent("configmap", &pwned, "kube-system"));
        let b = space.get("deployment/b-web").unwrap();
        assert_eq!((&b["metadata"]["uid"], &b["spec"]["replicas"]), (&uid, &json!(1)));
    };
    // The list names objects that are not there, so the operator looks at once.
    forge();
    let said = space.wait_event("RecordRejected");
    assert!(
        said.contains("the record of revision 1 differs from the rendered chart (") && said.contains(&pwned),
        "{said}"
    );
    space.wait_field("web/a", "/status/release/revision", &json!(2));
    space.kubectl(&["delete", "service/a-web"]).unwrap();
    eventually("it comes back", || space.get("service/a-web"));
    operator.settle();
    is_harmless();
    assert_eq!(space.get("deployment/a-web").unwrap()["spec"]["replicas"], 1);
    // While the inputs fail, the deployed revision is repaired, and nothing else is done.
    space.apply("Web", "a", &json!({"more": "no map"}));
    space.wait("web/a", "Stalled", "True");
    forge();
    space.kubectl(&["delete", "service/a-web"]).unwrap();
    eventually("it comes back", || space.get("service/a-web"));
    is_harmless();
    // Nor does a deletion reach further.
    forge();
    space.kubectl(&["delete", "web/a"]).unwrap();
    space.wait_gone("deployment/a-web");
    is_harmless();
    space.kubectl(&["delete", "web/b"]).unwrap();
}

#[test]
fn a_forged_record_starts_no_hook_and_no_operation() {
    let space = Space::new("forgedop");
    let _kubelet = Kubelet::new(&space);
    let operator = space.operator(&space.watches(&[("Web", "hooks")]), &[]);
    let hook = |name: &str, events: &str| json!({"name": name, "kind": "Job", "events": events});
    space.apply("Web", "good", &json!({"hooks": [hook("backup", "operation/backup"), hook("last", "pre-delete")]}));
    space.apply("Web", "app", &json!({}));
    space.wait("web/good", "Deployed", "True");
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    let of = |release: &str| space.get(&format!("secret/sh.helm.release.v1.{release}.v1")).unwrap();
    let operations = of("good")["metadata"]["annotations"]["tillerman.dev/operations"].clone();
    assert!(operations.is_string());
    let stolen = json!([{"name": "app-last", "path": "x", "kind": "Job", "events": ["pre-delete"], "manifest":
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "app-last"}, "spec": {"template": {"spec":
            {"restartPolicy": "Never", "containers": [{"name": "c", "image": "evil:1"}]}}}}).to_string()}]);
    forge(
        &space,
        "app",
        |record| record["hooks"] = stolen.clone(),
        |annotations| annotations["tillerman.dev/operations"] = operations.clone(),
    );
    space.kubectl(&["annotate", "webs.test.tillerman.dev", "app", "tillerman.dev/operation=backup"]).unwrap();
    let unknown = space.wait("web/app", "OperationFailed", "True");
    assert_eq!(unknown["reason"], "UnknownOperation", "{unknown}");
    forge(&space, "app", |record| record["hooks"] = stolen.clone(), |_| ());
    space.kubectl(&["delete", "web/app"]).unwrap();
    space.wait_gone("configmap/app");
    let jobs = space.kubectl(&["get", "jobs", "-o", "name"]).unwrap();
    assert_eq!(jobs, "", "neither an operation nor a hook ran");
    // The release that has them runs them, also when somebody has touched its record.
    space.kubectl(&["label", "secret/sh.helm.release.v1.good.v1", "somebody=else"]).unwrap();
    space.kubectl(&["annotate", "webs.test.tillerman.dev", "good", "tillerman.dev/operation=backup"]).unwrap();
    eventually("the operation runs", || {
        let jobs = space.kubectl(&["get", "jobs", "-o", "name"])?;
        if jobs.contains("good-backup") { Ok(()) } else { Err(jobs) }
    });
}

#[test]
fn what_belongs_to_a_live_release_is_never_taken_over() {
    let space = Space::new("taken");
    let chart = crate::harness::repository("tests/charts/tenant").display().to_string();
    let values = space.file("values.json", &json!({"objects": [config_map("shared", None)]}).to_string());
    space.helm(&["install", "theirs", &chart, "-f", values.to_str().unwrap()]).unwrap();
    let operator = space.operator(&space.watches_with(&[("Web", "tenant")], "  takeOwnership: true\n"), &[]);
    space.apply("Web", "first", &json!({"objects": [config_map("mine", None)]}));
    space.wait("web/first", "Deployed", "True");
    operator.settle();
    let names = ["mine", "shared"].map(|name| format!("configmap/{name}"));
    let before = names.each_ref().map(|name| space.get(name).unwrap()["metadata"]["resourceVersion"].clone());
    let expected = [
        ("third", "mine", "it belongs to Web first".to_owned()),
        ("fourth", "shared", format!("it belongs to Helm release theirs in namespace {}", space.name)),
    ];
    for (app, object, why) in &expected {
        space.apply("Web", app, &json!({"objects": [config_map(object, None)]}));
        eventually("it is refused", || {
            let ready = space.condition(&format!("web/{app}"), "Ready")?.to_string();
            if ready.contains(why) { Ok(()) } else { Err(ready) }
        });
    }
    let after = names.each_ref().map(|name| space.get(name).unwrap()["metadata"]["resourceVersion"].clone());
    assert_eq!(after, before);
    // When the release is gone, its leftovers belong to nobody.
    space.kubectl(&["annotate", "configmap/shared", "helm.sh/resource-policy=keep"]).unwrap();
    space.helm(&["uninstall", "theirs"]).unwrap();
    space.kubectl(&["delete", "web/fourth"]).unwrap();
    space.kubectl(&["create", "configmap", "shared", "--from-literal=a=b"]).ok();
    space.apply("Web", "fourth", &json!({"objects": [config_map("shared", None)]}));
    space.wait("web/fourth", "Deployed", "True");
}
