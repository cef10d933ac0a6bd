//! The chart of MariaDB, rendered by the library: the driver's document, and what is kept from one rendering to the next.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tillerman::chart;
use tillerman::members::document::{DriverName, Members};
use tillerman::members::primary::document::Document;
use tillerman::members::progress::FACTS;
use tillerman::release::object::{Object, parse_manifest};
use tillerman::release::status_fields::{Known, StatusFields};
use tillerman::render::{self, Capabilities, Fixed, Options, Release, Rendered};
use tillerman::template::function::{FnResult, Host};
use tillerman::template::value::Value as Go;

/// A namespace with Secrets.
#[derive(Clone, Default)]
struct World {
    random: Arc<Fixed>,
    secrets: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Host for World {
    fn random(&self, buffer: &mut [u8]) {
        self.random.random(buffer);
    }
    fn now(&self) -> i128 {
        1_767_225_600 * 1_000_000_000
    }
    fn lookup(&self, _: &str, _: &str, _: &str, name: &str) -> FnResult {
        Ok(self.secrets.lock().unwrap().get(name).map_or_else(|| Go::map([]), Go::from))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

impl World {
    fn try_render(&self, values: &Value) -> Result<Rendered, String> {
        let chart = chart::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/mysql")).unwrap();
        let values = values.as_object().cloned().unwrap_or_default();
        let options = Options::new(self.clone());
        let rendered = render::render(&chart, &values, &Release::new("my", "ns"), &Capabilities::default(), &options);
        rendered.map_err(|error| error.to_string())
    }

    /// The Secrets of a rendering, with the texts of `stringData` as the API server keeps them; they are there from then on.
    fn deploy(&self, values: &Value) -> BTreeMap<String, Value> {
        let secrets = objects(&self.try_render(values).unwrap()).into_iter().filter(|o| &*o.gvk.kind == "Secret");
        let secrets: BTreeMap<String, Value> = secrets
            .map(|object| {
                let mut body = Value::Object(object.body);
                for (key, text) in body["stringData"].as_object().cloned().unwrap_or_default() {
                    let bytes = text.as_str().unwrap().as_bytes();
                    body["data"][key] =
                        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes).into();
                }
                (object.name, body)
            })
            .collect();
        self.secrets.lock().unwrap().clone_from(&secrets);
        secrets
    }
}

fn objects(rendered: &Rendered) -> Vec<Object> {
    parse_manifest(&rendered.manifest()).unwrap()
}

#[test]
fn a_name_is_enough() {
    let rendered = World::default().try_render(&json!({})).unwrap();
    let objects = objects(&rendered);
    let members = Members::read(&rendered.unknown, &objects, "ns").unwrap().unwrap();
    let set = &members.sets[0];
    assert_eq!((set.target.as_str(), set.size, set.driver.clone()), ("my", 3, DriverName::PRIMARY));
    let document = Document::read(&set.primary, &set.target).unwrap();
    assert_eq!(document.settings.agent_url.url(1), "https://my-1.my-members.ns.svc:8090");
    assert_eq!((document.config_map.as_str(), document.tls_secret.as_deref()), ("my-roles", Some("my-operator-tls")));
    let known = Known { objects: &objects, namespace: "ns", members: &["db"], facts: &FACTS };
    let fields = StatusFields::read(&rendered.unknown, known).unwrap().unwrap().fields;
    assert_eq!(fields[0].name, "primary");
}

#[test]
fn passwords_and_certificates_stay_and_a_name_more_changes_only_the_certificate_of_members() {
    let world = World::default();
    let first = world.deploy(&json!({}));
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    assert_eq!(names, ["my-ca-tls", "my-internal", "my-members-tls", "my-operator-tls", "my-root"]);
    assert_eq!(first["my-root"]["stringData"]["password"].as_str().unwrap().len(), 24);
    assert_eq!(world.deploy(&json!({})), first);
    let second = world.deploy(&json!({"tls": {"dnsNames": ["db.example.com"]}}));
    let changed: Vec<&String> = first.keys().filter(|name| first[*name] != second[*name]).collect();
    assert_eq!(changed, ["my-members-tls"]);
    // With a Secret of one's own there is none of the chart's.
    assert!(!world.deploy(&json!({"rootPassword": {"secretName": "mine"}})).contains_key("my-root"));
}

#[test]
fn settings_are_lines_and_nothing_else() {
    let world = World::default();
    let given = json!({"configuration": {"max_connections": 7, "skip-name-resolve": null, "local_infile": false, "sql_mode": "ANSI"}});
    let objects = objects(&world.try_render(&given).unwrap());
    let map = objects.iter().find(|object| &*object.gvk.kind == "ConfigMap").unwrap();
    let lines = "[mysqld]\nlocal_infile=OFF\nmax_connections=7\nskip-name-resolve\nsql_mode=ANSI\n";
    assert_eq!(map.body["data"]["my.cnf"], lines);
    for (wrong, why) in [
        (json!({"configuration": {"a": "b\nc"}}), "has more than one line"),
        (json!({"configuration": {"a]b": "c"}}), "a]b"),
        (json!({"pod": {"labels": {"tillerman.dev/role": "primary"}}}), "is the operator's own"),
        (json!({"flavor": "mysql"}), "flavor"),
    ] {
        let error = world.try_render(&wrong).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

fn place() -> Value {
    json!({"storageType": "S3", "s3": {"path": "bucket/shop/db", "awsSecret": "aws", "endpoint": "https://s3.example.com", "forcePathStyle": true}})
}

fn with(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

fn words(of: &Value) -> Vec<String> {
    of.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

#[test]
fn backups_are_made_on_schedule_on_demand_and_before_delete() {
    let backup = with(&place(), &json!({"schedule": "0 3 * * *", "maxBackups": 5, "archiveEverySecond": 30}));
    let rendered = World::default().try_render(&json!({"backup": backup, "backupOnDelete": true})).unwrap();
    let all = objects(&rendered);
    let cron = all.iter().find(|object| &*object.gvk.kind == "CronJob").expect("there is a schedule");
    assert_eq!(cron.body["spec"]["schedule"], "0 3 * * *");
    let pod = &cron.body["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let copies = words(&pod["containers"][0]["args"]);
    assert_eq!(copies[..2], ["snapshot", "copy"]);
    for word in [
        "--agents=https://my-0.my-members.ns.svc:8090,https://my-1.my-members.ns.svc:8090,https://my-2.my-members.ns.svc:8090",
        "--store=s3://bucket/shop",
        "--name-prefix=db",
        "--keep=5",
        "--s3-endpoint=https://s3.example.com",
    ] {
        assert!(copies.iter().any(|other| other == word), "{word}: {copies:?}");
    }
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "my-operator-tls");
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], "aws");
    let archive = all.iter().find(|object| object.name == "my-archive").expect("logs are stored");
    let archives = words(&archive.body["spec"]["template"]["spec"]["containers"][0]["args"]);
    assert!(archives[1] == "archive" && archives.iter().any(|word| word == "--every=30s"), "{archives:?}");
    for (name, event) in [("my-backup", "operation/backup"), ("my-last-backup", "before-delete")] {
        let found =
            rendered.unknown.iter().any(|hook| hook.manifest.name == name && hook.events.iter().any(|e| e == event));
        assert!(found, "{event}");
    }

    let none = World::default().try_render(&json!({})).unwrap();
    assert!(!objects(&none).iter().any(|object| object.name.contains("backup") || object.name.contains("archive")));
    for (values, why) in [
        (json!({"backupOnDelete": true}), "needs a place"),
        (json!({"backup": {"schedule": "@daily"}}), "need a place"),
        (json!({"backup": {"storageType": "S3", "s3": {"path": "bucket"}}}), "BUCKET/NAME"),
        (json!({"backup": {"storageType": "Volume", "volume": {"path": "db"}}}), "claimName"),
        (json!({"restore": {"storageType": "GCS"}}), "restore: the path"),
    ] {
        let error = World::default().try_render(&values).unwrap_err();
        assert!(error.contains(why), "{values}: {error}");
    }
}

#[test]
fn a_new_cluster_begins_with_a_backup_that_its_first_member_fetches() {
    let restore = json!({"storageType": "S3", "s3": {"path": "bucket/shop/latest", "awsSecret": "aws"}, "namePrefix": "db", "until": "0-1-150"});
    let values = json!({"restore": restore});
    let all = objects(&World::default().try_render(&values).unwrap());
    let set = all.iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
    let pod = &set.body["spec"]["template"]["spec"];
    let containers = pod["initContainers"].as_array().unwrap();
    let names: Vec<_> = containers.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent", "tillerman", "restore"]);
    let restores = &containers[2];
    assert_eq!(restores["image"], pod["containers"][0]["image"], "it has the database's programs");
    assert_eq!(restores["envFrom"], pod["containers"][0]["envFrom"], "it knows who may create the data");
    let args = words(&restores["args"]);
    let flags = words(&pod["containers"][0]["args"]);
    assert_eq!(args[..flags.len()], flags);
    assert_eq!(args[flags.len()..flags.len() + 5], ["--", "/agent/tillerman", "snapshot", "send", "latest"]);
    for word in ["--store=s3://bucket/shop", "--name-prefix=db", "--until=0-1-150"] {
        assert!(args.iter().any(|other| other == word), "{word}: {args:?}");
    }
    let is_mounted = |container: &Value| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        mounts.iter().any(|mount| mount["name"] == "store")
    };
    assert!(is_mounted(restores) && !is_mounted(&pod["containers"][0]), "the database has no keys of the store");
    let none = objects(&World::default().try_render(&json!({})).unwrap());
    let set = none.iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
    assert_eq!(set.body["spec"]["template"]["spec"]["initContainers"].as_array().unwrap().len(), 1);
}
