//! The chart of etcd, rendered by the library: the driver's document, and how long certificates are kept.

#[path = "support/chart_world.rs"]
mod chart_world;

use chart_world::ChartWorld;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tillerman::members::document::{Members, OnOrphan, OnRemove, Set};
use tillerman::members::drivers::Drivers;
use tillerman::members::etcd::document::EtcdDocument;
use tillerman::members::etcd::state::Version;
use tillerman::members::progress::facts;
use tillerman::object::{Object, parse_manifest};
use tillerman::release::status_fields::{FieldSource, Known, StatusFields};
use tillerman::render::Rendered;

fn world() -> ChartWorld {
    ChartWorld::of("etcd")
}

/// Deploys, and returns the certificates by the names of their Secrets.
fn certificates(world: &ChartWorld, values: &Value) -> BTreeMap<String, String> {
    let certificate = |(name, secret): (String, Value)| {
        assert!(secret["data"]["tls.key"].as_str().is_some_and(|key| key.len() > 100), "{name} has a key");
        (name, secret["data"]["tls.crt"].as_str().unwrap().to_owned())
    };
    world.deploy(values).into_iter().map(certificate).collect()
}

fn objects(rendered: &Rendered) -> Vec<Object> {
    parse_manifest(&rendered.manifest()).unwrap()
}

/// What the operator reads of it, with what the driver reads.
fn told(values: &Value) -> (Set, EtcdDocument) {
    let rendered = world().render(values);
    let members = Members::read(&rendered.unknown, &objects(&rendered), "ns", &Drivers::new()).unwrap().unwrap();
    let [set] = <[Set; 1]>::try_from(members.sets).unwrap();
    let document = EtcdDocument::read(&set.settings.fields(), &set.target).unwrap();
    (set, document)
}

#[test]
fn the_driver_gets_the_defaults() {
    let (set, document) = told(&json!({}));
    assert_eq!((set.name.as_str(), set.target.as_str(), set.size, set.driver.as_str()), ("etcd", "my", 3, "etcd"));
    assert_eq!((set.on_remove, set.on_orphan), (OnRemove::Delete, OnOrphan::Refuse));
    assert_eq!(document.settings.peer_url.url(2), "http://my-2.my.ns.svc:2380");
    assert_eq!(document.settings.client_url.url(0), "http://my-0.my.ns.svc:2379");
    assert_eq!(document.settings.version, Version::parse("3.6.16"));
    assert_eq!(document.config_map, "my-initial-cluster");
    assert!(!set.paused && document.settings.defragmentation.is_none());
    assert_eq!(set.version.as_deref(), Some("3.6.16"));
    assert!(document.tls_secret.is_none() && document.user_secret.is_none());
}

#[test]
fn volumes_grow_by_themselves_up_to_a_limit_if_there_is_one() {
    let grow = |auto_grow: &Value| json!(told(&json!({"storage": {"autoGrow": auto_grow}})).0.grow);
    assert_eq!(grow(&json!({"by": "10Gi"})), Value::Null);
    let expected = json!({"claim": "data", "at_percent": 80, "by": {"Percent": 20}, "max": 20_u64 << 30});
    assert_eq!(grow(&json!({"max": "20Gi"})), expected);
}

/// Their volumes belong to root: another user could not read them where Kubernetes gives volumes no group.
#[test]
fn members_that_were_there_stay_the_user_that_they_are_and_new_ones_are_not_root() {
    let world = world();
    let set = || {
        let made =
            objects(&world.render(&json!({}))).into_iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
        Value::Object(made.body)
    };
    let context = |set: &Value| set["spec"]["template"]["spec"]["securityContext"].clone();
    let new = set();
    assert_eq!((&context(&new)["runAsNonRoot"], &context(&new)["fsGroup"]), (&json!(true), &json!(65532)));
    world.put("StatefulSet", "my", new.clone());
    assert_eq!(set(), new);
    // The API server keeps an empty one.
    for before in [json!({}), Value::Null] {
        let mut old = new.clone();
        old["spec"]["template"]["spec"]["securityContext"] = before;
        world.put("StatefulSet", "my", old);
        assert_eq!(context(&set()), json!({}));
    }
    let given = json!({"pod": {"securityContext": {"runAsUser": 7}}});
    assert!(world.render(&given).manifest().contains("\"runAsUser\":7"));
}

#[test]
fn names_of_others_are_asked_only_of_an_issuer_of_the_clusters_own() {
    let render = |issuer: &str, more: Value| {
        let mut manager = json!({"enabled": true, "issuerRef": {"name": issuer, "kind": "ClusterIssuer"}});
        manager.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world().try_render(&json!({"TLS": {"certManager": manager}}), &[])
    };
    for (given, field) in [
        (json!({"dnsNames": ["bank.example.com"]}), "dnsNames: bank"),
        (json!({"ipAddresses": ["192.0.2.7"]}), "ipAddresses: 192"),
    ] {
        let refused = render("theirs", given.clone()).err().unwrap();
        assert!(refused.contains(field) && refused.contains("TLS.certManager.allowedNames"), "{refused}");
        render("", given.clone()).unwrap();
        let mut allowed = given;
        allowed["allowedNames"] = json!(["*.example.com", "192.0.2.7"]);
        render("theirs", allowed).unwrap();
    }
    render("theirs", json!({"dnsNames": ["*.my.ns.svc", "x.my-client.ns.svc.cluster.local"]})).unwrap();
}

#[test]
fn the_status_has_the_fields_of_coreos() {
    let rendered = world().render(&json!({}));
    let objects = objects(&rendered);
    let known = Known { objects: &objects, namespace: "ns", members: &["etcd"], facts: &facts(&Drivers::new()) };
    let fields = StatusFields::read(&rendered.unknown, known).unwrap().unwrap().fields;
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let expected = ["phase", "size", "controlPaused", "serviceName", "clientPort", "currentVersion", "targetVersion"];
    assert_eq!(names, expected);
    assert_eq!(
        (&fields[3].source, &fields[4].source),
        (&FieldSource::Value(json!("my-client")), &FieldSource::Value(json!(2379)))
    );
}

#[test]
fn the_driver_gets_everything_that_is_set() {
    let (set, document) = told(&json!({
        "size": 5, "version": "v3.5.35",
        "TLS": {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}},
        "auth": {"rootSecret": "root"},
        "members": {"joinDeadline": "90s", "deadAfter": "1h30m", "progressDeadline": "20m"},
        "storage": {"onRemove": "Retain", "onOrphan": "Adopt"},
        "paused": true, "defragmentation": {"enabled": true, "minimumSize": "1Gi"},
        "extraArgs": ["--quota-backend-bytes=8000000000"],
    }));
    assert!(set.paused);
    let defragmentation = document.settings.defragmentation.unwrap();
    assert_eq!((defragmentation.fragmented_percent, defragmentation.minimum_size), (45, 1 << 30));
    assert_eq!((set.size, set.progress_deadline), (5, 1200));
    assert_eq!((set.on_remove, set.on_orphan), (OnRemove::Retain, OnOrphan::Adopt));
    assert_eq!((document.settings.join_deadline, document.settings.dead_after), (90, 5400));
    assert_eq!(document.settings.peer_url.url(0), "https://my-0.my.ns.svc:2380");
    assert_eq!(document.settings.client_url.url(0), "https://my-0.my.ns.svc:2379");
    assert_eq!(document.settings.version, Version::parse("3.5.35"));
    assert_eq!((document.tls_secret.as_deref(), document.user_secret.as_deref()), (Some("o"), Some("root")));
}

#[test]
fn members_may_speak_tls_with_each_other_alone() {
    let (_, document) = told(&json!({"TLS": {"static": {"member": {"peerSecret": "p"}}}}));
    assert_eq!(document.settings.peer_url.url(0), "https://my-0.my.ns.svc:2380");
    assert_eq!(document.settings.client_url.url(0), "http://my-0.my.ns.svc:2379");
    assert!(document.tls_secret.is_none());
}

#[test]
fn a_chart_that_makes_certificates_gives_the_driver_its_own() {
    for way in ["generated", "certManager"] {
        let (_, document) = told(&json!({"TLS": {way: {"enabled": true}}}));
        assert_eq!(document.settings.peer_url.url(0), "https://my-0.my.ns.svc:2380");
        assert_eq!(document.tls_secret.as_deref(), Some("my-client-tls"));
    }
}

#[test]
fn certificates_are_kept_until_their_time_and_the_authority_for_good() {
    let world = world();
    let values = json!({"TLS": {"generated": {"enabled": true}}});
    let first = certificates(&world, &values);
    assert_eq!(first.keys().collect::<Vec<_>>(), ["my-ca-tls", "my-client-tls", "my-peer-tls", "my-server-tls"]);
    assert_eq!(certificates(&world, &values), first);
    // 365 days, of which 120 are left.
    world.after_days(244);
    assert_eq!(certificates(&world, &values), first);
    world.after_days(2);
    let second = certificates(&world, &values);
    for (name, certificate) in &first {
        assert_eq!(second[name] == *certificate, name == "my-ca-tls", "{name}");
    }
    assert_eq!(certificates(&world, &values), second);
}

#[test]
fn certificates_are_renewed_for_other_names_and_when_a_text_says_so() {
    let world = world();
    let first = certificates(&world, &json!({"TLS": {"generated": {"enabled": true}}}));
    let values = json!({"TLS": {"generated": {"enabled": true, "dnsNames": ["etcd.example.com"]}}});
    let named = certificates(&world, &values);
    let changed = |from: &BTreeMap<String, String>, to: &BTreeMap<String, String>| -> Vec<String> {
        from.iter().filter(|(name, certificate)| to[*name] != **certificate).map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(changed(&first, &named), ["my-server-tls"]);
    let values = json!({"TLS": {"generated": {"enabled": true, "dnsNames": ["etcd.example.com"], "rotation": "2"}}});
    assert_eq!(changed(&named, &certificates(&world, &values)), ["my-client-tls", "my-peer-tls", "my-server-tls"]);
}

/// The environment of the container.
fn environment(values: &Value) -> Vec<Map<String, Value>> {
    let objects = objects(&world().render(values));
    let set = objects.iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
    let env = set.body["spec"].pointer("/template/spec/containers/0/env").unwrap().as_array().unwrap();
    env.iter().map(|variable| variable.as_object().unwrap().clone()).collect()
}

#[test]
fn no_setting_is_there_twice_because_etcd_would_end() {
    let env = environment(&json!({
        "autoCompaction": {"retention": "1h"},
        "pod": {"etcdEnv": [{"name": "ETCD_AUTO_COMPACTION_RETENTION", "value": "2h"}]},
        "extraArgs": ["--quota-backend-bytes=100000000"],
    }));
    let of = |name: &str| env.iter().filter(|v| v["name"] == name).map(|v| v["value"].clone()).collect::<Vec<_>>();
    assert_eq!(of("ETCD_AUTO_COMPACTION_RETENTION"), [json!("2h")]);
    assert_eq!(of("ETCD_AUTO_COMPACTION_MODE"), [json!("periodic")]);
    assert_eq!(of("ETCD_QUOTA_BACKEND_BYTES"), Vec::<Value>::new());
    // What follows may name it.
    assert_eq!(env[0]["name"], "POD_NAME");
}
