//! The built-in charts with each of their features, and the pods that they make.

use serde_json::{Map, Value, json};
use std::path::Path;
use tillerman::chart::{self, values};
use tillerman::object::parse_manifest;
use tillerman::render::{self, Capabilities, Options, Release};

/// The built-in charts.
pub const CHARTS: [&str; 6] = ["etcd", "etcd-backup", "etcd-restore", "mysql", "php", "wordpress"];

/// The name of the release of each rendering.
pub const RELEASE: &str = "my";

/// Where backups are stored, or come from: each kind of storage with what reaches it.
fn places() -> [Value; 4] {
    [
        json!({"storageType": "S3", "s3": {"path": "b/c", "awsSecret": "aws", "endpoint": "https://s3.example.com", "region": "r"}}),
        json!({"storageType": "ABS", "abs": {"path": "b/c", "absSecret": "abs"}}),
        json!({"storageType": "GCS", "gcs": {"path": "b/c", "gcpSecret": "gcp"}}),
        json!({"storageType": "Volume", "volume": {"path": "b/c", "claimName": "backups"}}),
    ]
}

/// Values with others over them.
pub fn with(base: &Value, over: &Value) -> Value {
    let mut merged = base.as_object().cloned().unwrap_or_default();
    values::merge(&mut merged, over.as_object().cloned().unwrap_or_default());
    Value::Object(merged)
}

/// Values that show each feature of a chart which changes its pods.
pub fn features(chart: &str) -> Vec<Value> {
    match chart {
        "etcd" => etcd(),
        "etcd-backup" => places().iter().flat_map(etcd_backup).collect(),
        "etcd-restore" => places().iter().map(etcd_restore).collect(),
        "mysql" => mysql(),
        "php" => php(),
        "wordpress" => wordpress(),
        other => panic!("{other} has no features here"),
    }
}

fn etcd() -> Vec<Value> {
    let mut all = vec![
        json!({}),
        json!({"size": 1, "version": "3.4.38", "pod": {"antiAffinity": true}}),
        json!({"TLS": {"generated": {"enabled": true}}}),
        json!({"TLS": {"certManager": {"enabled": true}}}),
        json!({"TLS": {"static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"}}}),
    ];
    for place in places() {
        let auth = json!({"auth": {"rootSecret": "root"}, "TLS": {"generated": {"enabled": true}}});
        all.push(json!({"restore": place}));
        all.push(with(&auth, &json!({"backupOnDelete": place})));
    }
    all
}

fn etcd_backup(place: &Value) -> [Value; 2] {
    let once =
        with(place, &json!({"etcdEndpoints": ["http://a:2379"], "clientTLSSecret": "tls", "basicAuthSecret": "root"}));
    let often = with(&once, &json!({"backupPolicy": {"backupIntervalInSecond": 3600, "maxBackups": 3}}));
    [once, often]
}

fn etcd_restore(place: &Value) -> Value {
    let mut all =
        with(place, &json!({"etcdCluster": {"name": RELEASE}, "clientTLSSecret": "tls", "basicAuthSecret": "root"}));
    let kind = all.as_object_mut().unwrap().remove("storageType");
    with(&all, &json!({"backupStorageType": kind}))
}

fn mysql() -> Vec<Value> {
    let mut all = vec![
        json!({}),
        json!({"flavor": "mysql", "replicas": 1}),
        json!({"initdbScripts": {"1.sql": "SELECT 1", "2.sql": "SELECT 2"}}),
        json!({"tls": {"certManager": {"enabled": true}}, "applications": [{"name": "shop"}]}),
        json!({"tls": {"secrets": {"members": "m", "operator": "o"}}, "rootPassword": {"secretName": "root"}}),
    ];
    for place in places() {
        let more = json!({"schedule": "0 3 * * *", "archiveEverySecond": 30, "form": "Logical"});
        all.push(json!({"backup": with(&place, &more), "backupOnDelete": true}));
        all.push(json!({"restore": with(&place, &json!({"until": "end", "namePrefix": "c"}))}));
    }
    all
}

fn php() -> Vec<Value> {
    let git = json!({"repository": "https://git.example.com/shop.git", "commit": "0123456789abcdef0123456789abcdef01234567", "secret": "login"});
    let source = json!({"index.php": "<?php"});
    let around = json!({
        "extensions": ["redis"], "envFrom": [{"secretRef": {"name": "shop"}}],
        "database": {"host": "db", "name": "shop", "secret": "db", "caSecret": "ca"},
        "mail": {"host": "mail", "from": "a@example.com", "secret": "mail", "caSecret": "ca", "sendmail": true},
        "install": {"command": ["a"]}, "migrate": {"command": ["a"]},
        "workers": [{"name": "mails", "command": ["a"]}, {"name": "large", "command": ["a"], "resources":
            {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}}}],
        "schedules": [{"name": "nightly", "schedule": "0 3 * * *", "command": ["a"]}], "commands": [{"name": "about", "command": ["a"]}],
        "uploads": {"enabled": true, "path": "public/uploads"}, "backup": {"claimName": "backups", "schedule": "0 3 * * *"},
        "code": {"writable": ["var"]}, "ingress": {"enabled": true},
        "extraVolumes": [{"name": "cache", "emptyDir": {}}], "extraVolumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    });
    let each = [
        json!({}),
        json!({"source": source}),
        json!({"runtime": "image"}),
        json!({"runtime": "fpm", "source": source}),
        json!({"runtime": "fpm", "metrics": {"enabled": true, "image": "exporter:1"}, "maintenance": {"enabled": true}}),
        json!({"runtime": "fpm", "image": "both:1", "nginx": {"image": "both:1"}}),
        json!({"runtime": "apache", "source": source}),
        json!({"code": {"git": git}}),
    ];
    each.iter().flat_map(|one| [one.clone(), with(one, &around)]).collect()
}

fn wordpress() -> Vec<Value> {
    let least = json!({"host": "blog.example.com", "admin": {"email": "ada@example.com"}});
    let around = json!({
        "mail": {"host": "mail", "from": "a@example.com", "secret": "mail", "caSecret": "ca"}, "backup": {"claimName": "backups"},
        "muPlugins": [{"name": "own.php", "code": "<?php"}], "ingress": {"enabled": true},
        "metrics": {"enabled": true, "image": "exporter:1"}, "maintenance": {"enabled": true},
    });
    let each = [json!({"database": {"cluster": "db"}}), json!({"database": {"own": true}})];
    each.iter().flat_map(|one| [with(&least, one), with(&with(&least, one), &around)]).collect()
}

/// All objects of a rendering: hooks and operations, too. The error is why there are none.
pub fn objects(chart: &str, values: &Value, namespace: &str) -> Result<Vec<Map<String, Value>>, String> {
    let loaded = chart::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("charts").join(chart)).unwrap();
    let values = values.as_object().cloned().unwrap_or_default();
    let (release, capabilities) = (Release::new(RELEASE, namespace), Capabilities::default());
    let rendered = render::render(&loaded, &values, &release, &capabilities, &Options::default());
    let rendered = rendered.map_err(|error| error.to_string())?;
    let hooks = rendered.hooks.iter().chain(&rendered.unknown);
    let texts =
        rendered.manifests.iter().chain(hooks.map(|hook| &hook.manifest)).map(|manifest| manifest.text.as_str());
    Ok(texts.flat_map(|text| parse_manifest(text).unwrap()).map(|object| object.body).collect())
}

/// The pods of objects, each with the kind and the name of what makes it. Claims that a StatefulSet makes are volumes of its pods.
pub fn pods(objects: &[Map<String, Value>]) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for object in objects {
        let kind = object["kind"].as_str().unwrap();
        let spec = &object.get("spec").unwrap_or(&Value::Null);
        let template = match kind {
            "Deployment" | "StatefulSet" | "Job" => &spec["template"],
            "CronJob" => &spec["jobTemplate"]["spec"]["template"],
            _ => continue,
        };
        let mut pod = template.clone();
        for claim in spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
            let name = &claim["metadata"]["name"];
            let volume = json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
            let volumes = pod["spec"].as_object_mut().unwrap().entry("volumes").or_insert(json!([]));
            volumes.as_array_mut().unwrap().push(volume);
        }
        all.push((format!("{kind} {}", object["metadata"]["name"].as_str().unwrap()), pod));
    }
    all
}
