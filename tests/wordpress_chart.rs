//! The chart of sites of `WordPress`, rendered by the library: what it shares with charts/php, what it makes, and that each text of a tenant is
//! refused or harmless.

#[path = "support/chart_world.rs"]
mod chart_world;

use chart_world::ChartWorld;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tillerman::chart;
use tillerman::object::parse_manifest;
use tillerman::template::yaml;

fn charts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(charts().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn with(over: &Value) -> Value {
    let mut all =
        json!({"host": "blog.example.com", "admin": {"email": "ada@example.com"}, "database": {"cluster": "db"}});
    chart::values::merge(all.as_object_mut().unwrap(), over.as_object().cloned().unwrap_or_default());
    all
}

/// All objects of a rendering, by kind and name: hooks and operations, too.
fn objects(world: &ChartWorld, values: &Value) -> Result<BTreeMap<String, Value>, String> {
    let rendered = world.try_render(values, &[])?;
    let texts = std::iter::once(rendered.manifest())
        .chain(rendered.hooks.iter().chain(&rendered.unknown).map(|hook| hook.manifest.text.clone()));
    let named = texts.flat_map(|text| parse_manifest(&text).unwrap());
    Ok(named.map(|object| (format!("{} {}", object.gvk.kind, object.name), Value::Object(object.body))).collect())
}

fn made(over: &Value) -> BTreeMap<String, Value> {
    objects(&ChartWorld::of("wordpress"), &with(over)).unwrap_or_else(|why| panic!("{over}: {why}"))
}

fn variables(container: &Value) -> BTreeMap<String, Value> {
    let list = container["env"].as_array().unwrap();
    let named =
        |one: &Value| (one["name"].as_str().unwrap().to_owned(), one.get("value").unwrap_or(&one["valueFrom"]).clone());
    list.iter().map(named).collect()
}

/// The templates of charts/php make the objects of a site, so they are the same files; and the values that they get for what a site does not
/// set are the defaults of that chart.
#[test]
fn templates_defaults_and_schemas_are_those_of_the_php_chart() {
    let folder = charts().join("wordpress/templates/php");
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let target = std::fs::read_link(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let shared = target.file_name().unwrap().to_string_lossy().into_owned();
        // A name with `_` at its beginning keeps a template from being rendered by itself.
        assert!(name == shared || name == format!("_{shared}"), "{name} is {shared}");
        assert_eq!(target.parent(), Some(Path::new("../../../php/templates")), "{name}");
    }
    let values = yaml::parse(read("php/values.yaml").as_bytes()).unwrap();
    let text = read("wordpress/templates/_php_defaults.jinja");
    let (_, map) = text.split_once("defaults = ").unwrap();
    let map = map.trim().trim_end_matches("%}").trim().trim_end_matches('}').trim_end().trim_end_matches(',');
    let defaults: Value = serde_json::from_str(&format!("{map}\n}}")).unwrap();
    let fields = values.as_object().unwrap();
    let other: Vec<_> = fields.keys().filter(|key| !same(&defaults[*key], &fields[*key])).collect();
    assert!(other.is_empty(), "_php_defaults.jinja differs from values.yaml of charts/php: {other:?}");
    assert_eq!(defaults.as_object().unwrap().len(), fields.len());

    let schema = |chart: &str| serde_json::from_str::<Value>(&read(&format!("{chart}/values.schema.json"))).unwrap();
    let (php, own) = (schema("php"), schema("wordpress"));
    for field in [
        "fpm",
        "nginx",
        "maintenance",
        "shutdown",
        "service",
        "allowedAnnotations",
        "serviceAccountName",
        "resources",
        "autoscaling",
        "podDisruptionBudget",
        "spread",
        "networkPolicy",
        "metrics",
        "nodeSelector",
        "tolerations",
        "affinity",
        "podAnnotations",
        "securityContext",
        "imagePullPolicy",
        "imagePullSecrets",
        "replicas",
    ] {
        assert_eq!(
            php["properties"][field], own["properties"][field],
            "{field} reaches the templates of charts/php as it is"
        );
    }
    for (name, definition) in own["definitions"].as_object().unwrap() {
        assert_eq!(definition, &php["definitions"][name], "{name}");
    }
}

/// Numbers of YAML are floats here.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

/// What charts/php makes of the same values: it has its own schema, which the values of a site fit.
#[test]
fn the_php_chart_takes_the_values_that_a_site_makes() {
    let limits = chart::ChartLimits::default();
    let mut files = chart::directory_files(&charts().join("wordpress"), &limits).unwrap();
    files.retain(|file| {
        !file.name.starts_with("templates/") || file.name.contains("/_") || file.name.contains("checks")
    });
    let shows = "{% from \"_php.jinja\" import values %}\napiVersion: v1\nkind: Shown\nmetadata: {name: shown}\nvalues: {{ values }}\n";
    files.push(chart::File { name: "templates/shows.yaml".to_owned(), data: shows.as_bytes().to_vec().into() });
    let chart = chart::load_files(files, &limits).unwrap();
    for over in [json!({}), everything()] {
        let values = with(&over).as_object().cloned().unwrap();
        let release = tillerman::render::Release::new("my", "ns");
        let rendered = tillerman::render::render(
            &chart,
            &values,
            &release,
            &tillerman::render::Capabilities::default(),
            &tillerman::render::Options::default(),
        )
        .unwrap_or_else(|why| panic!("{over}: {why}"));
        let mut values = yaml::parse(rendered.manifest().as_bytes()).unwrap()["values"].clone();
        // What is for charts that share the templates, and no field of a PhpApp.
        let mut remove = |path: &[&str]| {
            let (last, above) = path.split_last().unwrap();
            let table = above.iter().fold(&mut values, |table, key| &mut table[*key]);
            table.as_object_mut().unwrap().remove(*last).unwrap_or_else(|| panic!("{path:?}"));
        };
        for path in [
            &["files"][..],
            &["nginx", "denied"],
            &["nginx", "throttled"],
            &["nginx", "checks"],
            &["probes", "check"],
            &["probes", "startup"],
        ] {
            remove(path);
        }
        ChartWorld::of("php").try_render(&values, &[]).unwrap_or_else(|why| panic!("{over}: {why}"));
    }
}

fn everything() -> Value {
    json!({
        "title": "A blog", "locale": "de_DE", "replace": {"from": "a", "to": "b"}, "salts": {"rotation": "1"}, "https": true,
        "mail": {"host": "mail", "from": "a@example.com", "secret": "mail", "caSecret": "ca"},
        "muPlugins": [{"name": "own.php", "code": "<?php"}], "backup": {"claimName": "backups", "schedule": "0 3 * * *"},
        "clone": {"from": "blog", "anonymize": true}, "cache": {"redis": {"host": "cache", "secret": "cache"}},
        "ingress": {"enabled": true, "tlsSecret": "tls"}, "gateway": {"enabled": true, "parentRefs": [{"name": "edge"}]},
        "autoscaling": {"enabled": true, "maxReplicas": 1}, "podDisruptionBudget": {"enabled": true},
        "networkPolicy": {"enabled": true}, "metrics": {"enabled": true, "image": "exporter:1", "serviceMonitor": {"enabled": true}},
    })
}

#[test]
fn a_site_has_its_objects_and_a_database_if_it_asks_for_one() {
    let least = [
        "ConfigMap my-config",
        "ConfigMap my-hook-config",
        "CronJob my-cron",
        "Deployment my",
        "Job my-install",
        "Job my-password",
        "PersistentVolumeClaim my-uploads",
        "Secret my-admin",
        "Secret my-salts",
        "Service my",
        "Status site",
    ];
    let keys = |made: &BTreeMap<String, Value>| made.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&made(&json!({}))), least);
    let all = keys(&made(&everything()));
    for name in [
        "Ingress my",
        "HTTPRoute my",
        "NetworkPolicy my",
        "Job my-backup",
        "Job my-restore",
        "Job my-clone",
        "Job my-replace",
        "HorizontalPodAutoscaler my",
        "ServiceMonitor my",
    ] {
        assert!(all.contains(&name.to_owned()), "{name}: {all:?}");
    }
    let needs = json!({"requests": {"memory": "1Gi"}});
    let own = made(&json!({"database": {"cluster": "", "own": true, "resources": needs}}));
    assert_eq!(own["MySQLCluster my-db"]["spec"]["pod"]["resources"], needs);
    assert_eq!(own["MySQLCluster my-db"]["spec"]["applications"], json!([{"name": "my", "database": "wordpress"}]));
    assert_eq!(own["MySQLCluster my-db"]["spec"]["replicas"].as_f64(), Some(1.0));
    let php = &own["Deployment my"]["spec"]["template"]["spec"]["containers"][0];
    let env = variables(php);
    assert_eq!((&env["DB_HOST"], &env["DB_DATABASE"]), (&json!("my-db-primary"), &json!("wordpress")));
    assert_eq!(env["DB_PASSWORD"]["secretKeyRef"], json!({"name": "my-db-app-my", "key": "password"}));
    // The Secret comes after the first rendering, and changes no pod.
    let world = ChartWorld::of("wordpress");
    let values = with(&json!({"database": {"cluster": "", "own": true}}));
    let before = objects(&world, &values).unwrap()["Deployment my"].clone();
    world.put(
        "Secret",
        "my-db-app-my",
        json!({"metadata": {"uid": "1"}, "data": {"password": "YQ==", "username": "YQ=="}}),
    );
    assert_eq!(objects(&world, &values).unwrap()["Deployment my"], before);
}

/// Passwords and keys are made once, are nowhere but in their Secrets, and keys change on request.
#[test]
fn secrets_are_kept_and_keys_are_made_anew_on_request() {
    let world = ChartWorld::of("wordpress");
    let first = world.deploy(&with(&json!({})));
    let again = world.deploy(&with(&json!({"title": "Another"})));
    assert_eq!(first["my-admin"]["data"], again["my-admin"]["data"]);
    assert_eq!(first["my-salts"]["data"], again["my-salts"]["data"]);
    assert_eq!(first["my-salts"]["data"].as_object().unwrap().len(), 8);
    let secrets: Vec<String> = ["my-admin", "my-salts"]
        .iter()
        .flat_map(|name| first[*name]["data"].as_object().unwrap().iter())
        .filter(|(key, _)| *key != "username")
        .map(|(_, value)| String::from_utf8(base64(value.as_str().unwrap())).unwrap())
        .collect();
    assert_eq!(secrets.iter().collect::<std::collections::BTreeSet<_>>().len(), 9, "each is different");
    for (name, object) in objects(&world, &with(&json!({}))).unwrap() {
        if !name.starts_with("Secret ") {
            assert!(secrets.iter().all(|secret| !object.to_string().contains(secret)), "{name} has a secret");
        }
    }
    let annotation = |values: &Value| {
        objects(&world, values).unwrap()["Deployment my"]["spec"]["template"]["metadata"]["annotations"]["checksum/salts"].clone()
    };
    let (old, new) = (with(&json!({})), with(&json!({"salts": {"rotation": "2026-12"}})));
    assert_ne!(annotation(&old), annotation(&new), "pods start with the new keys");
    let rotated = world.deploy(&new);
    assert_eq!(rotated["my-admin"]["data"], first["my-admin"]["data"]);
    for (key, value) in rotated["my-salts"]["data"].as_object().unwrap() {
        assert_ne!(value, &first["my-salts"]["data"][key], "{key}");
    }
    let given = made(&json!({"admin": {"secretName": "ours"}}));
    assert!(!given.contains_key("Secret my-admin"));
}

fn base64(text: &str) -> Vec<u8> {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).unwrap()
}

/// The pods of pages do not know the password of the administrator; nothing but uploads, caches and /tmp is writable.
#[test]
fn pods_have_what_they_need_and_no_more() {
    let made = made(&json!({}));
    let pod = &made["Deployment my"]["spec"]["template"]["spec"];
    let containers: BTreeMap<&str, &Value> =
        pod["containers"].as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), one)).collect();
    let job = &made["Job my-install"]["spec"]["template"]["spec"]["containers"][0];
    let secret = json!({"secretKeyRef": {"name": "my-admin", "key": "password"}});
    assert_eq!(variables(job)["WORDPRESS_ADMIN_PASSWORD"], secret);
    assert_eq!(job["command"], json!(["php", "/etc/php-app/install.php"]));
    for name in containers.keys() {
        assert!(!containers[name].to_string().contains("my-admin"), "{name}");
        assert_eq!(containers[name]["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
    }
    let writable: Vec<&str> = containers["php"]["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|mount| mount["readOnly"] != true)
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(
        writable,
        ["/tmp", "/run/php-app", "/usr/src/wordpress/wp-content/cache", "/usr/src/wordpress/wp-content/uploads"]
    );
    let nginx = containers["nginx"];
    // The container of PHP has no port of that name, and a probe looks for it only there.
    for (container, probe, path) in [
        (nginx, "startupProbe", "/login"),
        (nginx, "readinessProbe", "/ready"),
        (containers["php"], "livenessProbe", "/fpm-ping"),
    ] {
        let request = &container[probe]["httpGet"];
        assert_eq!((&request["path"], request["port"].as_f64()), (&json!(path), Some(8081.0)), "{probe}");
    }
    let hooks = made["Job my-install"]["metadata"]["annotations"]["helm.sh/hook"].clone();
    assert_eq!(hooks, "post-install,pre-upgrade");
    assert_eq!(made["CronJob my-cron"]["spec"]["concurrencyPolicy"], "Forbid");
}

/// One field sets the size of uploads, and the address follows from what ends TLS.
#[test]
fn the_size_of_uploads_and_the_address_are_the_same_everywhere() {
    let made_with = made(&json!({"maxUploadSize": "128M", "ingress": {"enabled": true, "tlsSecret": "tls"}}));
    let config = &made_with["ConfigMap my-config"]["data"];
    assert!(config["nginx.conf"].as_str().unwrap().contains("client_max_body_size 128M;"));
    let ini = config["10-app.ini"].as_str().unwrap();
    assert!(ini.contains("upload_max_filesize = 128M\npost_max_size = 128M\n"), "{ini}");
    let ingress = &made_with["Ingress my"];
    assert_eq!(ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"], "128m");
    assert_eq!(ingress["spec"]["rules"][0]["host"], "blog.example.com");
    let url = |over: &Value| {
        variables(&made(over)["Deployment my"]["spec"]["template"]["spec"]["containers"][0])["WORDPRESS_URL"].clone()
    };
    assert_eq!(url(&json!({})), "http://blog.example.com");
    for over in [
        json!({"https": true}),
        json!({"ingress": {"enabled": true, "tlsSecret": "tls"}}),
        json!({"gateway": {"enabled": true, "parentRefs": [{"name": "edge"}]}}),
    ] {
        assert_eq!(url(&over), "https://blog.example.com", "{over}");
    }
    let nginx = config["nginx.conf"].as_str().unwrap();
    // Behind a proxy, its clients are counted, and not the proxy.
    assert!(nginx.contains("real_ip_header X-Forwarded-For;") && nginx.contains("rate=10r/m"), "{nginx}");
}

#[test]
fn values_that_cannot_work_together_are_refused_with_the_reason() {
    let rows = [
        (json!({"host": ""}), "host is the name under which clients find the site"),
        (json!({"admin": {"email": ""}}), "admin.email is the address of the administrator"),
        (json!({"database": {"cluster": ""}}), "the site needs a database"),
        (json!({"database": {"own": true}}), "both name a database"),
        (json!({"replicas": 2}), "is a volume for one pod, and there are 2 replicas"),
        (json!({"muPlugins": [{"name": "a.php", "code": ""}, {"name": "a.php", "code": ""}]}), "is listed twice"),
        (json!({"muPlugins": [{"name": "tillerman.php", "code": ""}]}), "is reserved for the chart"),
        (json!({"podAnnotations": {"checksum/salts": "1"}}), "is reserved for the chart"),
        (json!({"mail": {"host": "mail"}}), "mail needs mail.from"),
        (json!({"clone": {"from": "my"}}), "clone.from names the site itself"),
        (json!({"cache": {"redis": {"sessions": true}}}), "additional properties 'sessions' not allowed"),
        (json!({"php": {"image": "a"}}), "additional properties 'php' not allowed"),
        (json!({"nginx": {"denied": [".*"]}}), "additional properties 'denied' not allowed"),
        (json!({"files": {"install.php": ""}}), "additional properties 'files' not allowed"),
        (json!({"ingress": {"host": "other.example.com"}}), "additional properties 'host' not allowed"),
    ];
    for (over, why) in rows {
        let error =
            objects(&ChartWorld::of("wordpress"), &with(&over)).err().unwrap_or_else(|| panic!("{over} is taken"));
        assert!(error.contains(why), "{over}: {error}");
    }
    // The owner of the cluster has to list the site.
    let kinds = ["databases.tillerman.dev/v1alpha1"];
    let error = ChartWorld::of("wordpress").try_render(&with(&json!({})), &kinds).unwrap_err();
    assert!(error.contains("must list this application, spec.applications: [{name: my}]"), "{error}");
}

/// A copy gets the database and the claim of its source from the pods of the source, and from nothing else of that name.
#[test]
fn a_copy_reads_what_the_pods_of_its_source_read() {
    let kinds = ["databases.tillerman.dev/v1alpha1"];
    let values = with(&json!({"clone": {"from": "blog", "anonymize": true}}));
    let world = ChartWorld::of("wordpress");
    world.put("Secret", "db-app-my", json!({"data": {}}));
    let refused = |world: &ChartWorld| world.try_render(&values, &kinds).unwrap_err();
    assert!(refused(&world).contains("clone.from: there is no site blog in this namespace"), "{}", refused(&world));

    let mut source = made(
        &json!({"uploads": {"existingClaim": "pictures"}, "ingress": {"enabled": true, "tlsSecret": "tls"}}),
    )["Deployment my"]
        .clone();
    world.put("Deployment", "blog", source.clone());
    let mode = |modes: Value| world.put("PersistentVolumeClaim", "pictures", json!({"spec": {"accessModes": modes}}));
    let job = || {
        let rendered = world.try_render(&values, &kinds).unwrap();
        let hook = rendered.hooks.iter().find(|hook| hook.manifest.text.contains("my-install")).unwrap();
        let body = Value::Object(parse_manifest(&hook.manifest.text).unwrap().remove(0).body);
        body["spec"]["template"]["spec"].clone()
    };
    mode(json!(["ReadWriteOnce"]));
    let pod = job();
    let env = variables(&pod["containers"][0]);
    assert_eq!(env["SOURCE_DB_PASSWORD"]["secretKeyRef"], json!({"name": "db-app-my", "key": "password"}));
    assert_eq!(env["SOURCE_WORDPRESS_URL"], "https://blog.example.com");
    assert_eq!((&env["WORDPRESS_CLONE_FROM"], &env["WORDPRESS_CLONE_ANONYMIZE"]), (&json!("blog"), &json!("true")));
    assert!(!env.contains_key("SOURCE_WORDPRESS_TABLE_PREFIX"), "{env:?}");
    let volume = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "source").unwrap();
    assert_eq!(volume["persistentVolumeClaim"], json!({"claimName": "pictures", "readOnly": true}));
    assert!(pod["affinity"].to_string().contains(r#""app.kubernetes.io/instance":"blog""#), "{pod}");

    // The pods of pages know only the name of the source.
    let rendered = world.try_render(&values, &kinds).unwrap();
    let objects = parse_manifest(&rendered.manifest()).unwrap();
    let pages = objects.iter().find(|object| &*object.gvk.kind == "Deployment").unwrap();
    assert!(!json!(pages.body).to_string().contains("SOURCE_"));

    source["metadata"]["labels"]["app.kubernetes.io/name"] = "shop".into();
    world.put("Deployment", "blog", source.clone());
    assert!(refused(&world).contains("there is no site blog"));
    source["metadata"]["labels"]["app.kubernetes.io/name"] = "wordpress".into();
    let env = source["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    env.iter_mut().find(|one| one["name"] == "WORDPRESS_TABLE_PREFIX").unwrap()["value"] = "site_".into();
    world.put("Deployment", "blog", source);
    assert!(refused(&world).contains("the site blog has database.tablePrefix site_, and a copy must have the same"));
}

/// Texts that abuse a shell, SQL, PHP, nginx, php.ini, YAML, paths, Kubernetes' variables, or a limit.
fn hostile() -> Vec<String> {
    let texts = [
        "$(DB_PASSWORD)",
        "$$(DB_PASSWORD)",
        "a$$$(DB_PASSWORD)",
        "`id`",
        "a; id",
        "a' OR 1=1; DROP TABLE wp_users; --",
        "a\"; }",
        "<?php system('id');",
        "?><?php phpinfo();",
        "a'); phpinfo(); //",
        "a; return 200; }",
        "a {",
        "../../etc/passwd",
        "a/../../b",
        "a\nb: c",
        "a\r\nX-Injected: 1",
        "a\u{0}b",
        "{{ values }}",
        "{% include \"php/_web.yaml\" %}",
        "${DB_PASSWORD}",
        "a\u{2028}b",
        "---\nkind: Secret",
        "&a *a",
        "!!python/object:a",
        "a\\",
        "é",
        "<script>alert(1)</script>",
    ];
    texts.iter().map(|text| (*text).to_owned()).chain(["x".repeat(200_000)]).collect()
}

/// The paths of all texts of the schema that are not a choice of words. `[]` is an item of a list, and `*` an entry of a map.
fn texts_of(schema: &Value, definitions: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let reference = schema["$ref"].as_str().and_then(|text| text.rsplit('/').next());
    let schema = reference.map_or(schema, |name| &definitions[name]);
    let is_text =
        schema["type"] == "string" || schema["type"].as_array().is_some_and(|types| types.contains(&json!("string")));
    if is_text && schema["enum"].is_null() {
        found.push(path.clone());
    }
    let mut below = |key: &str, schema: &Value| {
        path.push(key.to_owned());
        texts_of(schema, definitions, path, found);
        path.pop();
    };
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        below(key, schema);
    }
    for (key, name) in [("items", "[]"), ("additionalProperties", "*")] {
        if schema[key].is_object() {
            below(name, &schema[key]);
        }
    }
}

/// Values with a text at a path.
fn at(path: &[String], text: &str) -> Value {
    let Some((first, rest)) = path.split_first() else { return text.into() };
    let below = at(rest, text);
    match first.as_str() {
        "[]" => {
            // What an item needs besides.
            let mut item = below;
            if let Some(fields) = item.as_object_mut() {
                match rest[0].as_str() {
                    "code" => drop(fields.insert("name".to_owned(), "own.php".into())),
                    "name" if path.len() == 2 && text.len() < 100 => {
                        drop(fields.insert("code".to_owned(), "<?php".into()));
                    }
                    _ => {}
                }
            }
            json!([item])
        }
        "*" => Value::Object(Map::from_iter([("a".to_owned(), below)])),
        key => Value::Object(Map::from_iter([(key.to_owned(), below)])),
    }
}

/// The texts in an object, with their paths; keys count, too.
fn leaves<'v>(value: &'v Value, path: &str, found: &mut Vec<(String, &'v str)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text)),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, path, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                found.push((path.to_owned(), key));
                leaves(value, &format!("{path}/{key}"), found);
            }
        }
        _ => {}
    }
}

/// A row for each text of the schema and each abuse: the schema or the chart refuses it, or it stays a text: it reaches no file that a program
/// reads as its language, no script, and no variable in which the kubelet expands a different one.
#[test]
fn each_text_of_a_tenant_is_refused_or_stays_a_text() {
    let schema: Value = serde_json::from_str(&read("wordpress/values.schema.json")).unwrap();
    let mut paths = Vec::new();
    texts_of(&schema, &schema["definitions"], &mut Vec::new(), &mut paths);
    assert!(paths.len() > 50, "{paths:?}");
    let mut base = everything();
    base["allowedAnnotations"] = json!(["a"]);
    let before = objects(&ChartWorld::of("wordpress"), &with(&base)).unwrap();
    let (mut refused, mut harmless) = (0, BTreeMap::<String, usize>::new());
    for path in &paths {
        for text in hostile() {
            let mut values = with(&base);
            chart::values::merge(values.as_object_mut().unwrap(), at(path, &text).as_object().cloned().unwrap());
            let row = format!("{}: {:?}", path.join("."), text.chars().take(60).collect::<String>());
            let Ok(made) = objects(&ChartWorld::of("wordpress"), &values) else {
                refused += 1;
                continue;
            };
            *harmless.entry(path.join(".")).or_default() += 1;
            assert!(made.keys().eq(before.keys()), "{row}: other objects");
            for (name, object) in &made {
                let mut found = Vec::new();
                leaves(object, "", &mut found);
                for (place, leaf) in found {
                    if place.starts_with("/data/") && name.starts_with("ConfigMap ") {
                        let file = place.trim_start_matches("/data/");
                        let is_given = file == "plugin-own.php" && path.join(".") == "muPlugins.[].code"
                            || file == "maintenance.html"
                                && path[0] == "maintenance"
                                && !leaf.contains("<script")
                                && !leaf.contains("<?php");
                        assert!(is_given || before[name]["data"][file] == *leaf, "{row}: {name} {file} changed");
                    }
                    let is_script = place.contains("/command") || place.contains("/args");
                    if is_script && leaf.contains(&text) {
                        // An argument of its own.
                        assert!(leaf == text || leaf == text.replace('$', "$$"), "{row}: {name} {place}");
                    }
                    // The kubelet takes $$ for a dollar sign, and expands $(NAME).
                    if (is_script || place.ends_with("/env/value"))
                        && leaf.contains("DB_PASSWORD")
                        && !leaf.starts_with("mysql://")
                    {
                        let plain = leaf.replace("$$", "");
                        assert!(!plain.contains("$("), "{row}: {name} {place} {leaf}");
                    }
                }
            }
        }
    }
    eprintln!("{} texts: {refused} rows refused, harmless: {harmless:?}", paths.len());
    assert!(refused > 10 * harmless.len(), "{refused}");
}
