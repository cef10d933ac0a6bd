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
    assert_eq!(names, ["my-accounts", "my-ca-tls", "my-internal", "my-members-tls", "my-operator-tls", "my-root"]);
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

/// The text of a key of a Secret.
fn text(secret: &Value, key: &str) -> String {
    let data = secret["data"][key].as_str().unwrap_or_else(|| panic!("{key}: {secret}"));
    String::from_utf8(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()).unwrap()
}

#[test]
fn another_user_changes_no_pod_and_a_password_is_made_or_copied() {
    let world = World::default();
    let theirs = json!({"kind": "Secret", "data": {"pw": "c2VjcmV0"}});
    world.secrets.lock().unwrap().insert("theirs".into(), theirs.clone());
    let users = json!([
        {"name": "app_1", "databases": ["shop"]},
        {"name": "given", "passwordSecret": {"name": "theirs", "key": "pw"}, "readOnly": true, "grants": [{"database": "shop", "privileges": ["ALL"]}]},
        {"name": "later", "passwordSecret": {"name": "none"}},
    ]);
    let values = json!({"databases": [{"name": "shop", "characterSet": "utf8mb4"}], "users": users});
    let first = world.deploy(&values);
    let accounts = &first["my-accounts"];
    assert_eq!(text(accounts, "password.given"), "secret");
    assert_eq!(text(accounts, "password.app_1"), text(&first["my-user-app-1"], "password"));
    assert_eq!(text(&first["my-user-app-1"], "username"), "app_1");
    assert!(accounts["data"].get("password.later").is_none() && !first.contains_key("my-user-given"));
    // The agent takes what the chart gives it.
    #[cfg(feature = "mariadb-agent")]
    {
        use tillerman::agent::mariadb::declared;
        let declared = declared::read(text(accounts, "accounts.json").as_bytes()).unwrap();
        assert!(declared.databases.iter().all(|database| declared::database(database).is_ok()));
        let users: Vec<_> = declared.users.iter().map(|user| declared::account(user, "root").unwrap()).collect();
        assert_eq!((users.len(), users[1].grants["shop"].len()), (3, 2));
    }
    world.secrets.lock().unwrap().insert("theirs".into(), theirs);
    assert_eq!(world.deploy(&values), first, "a password that was made is kept");
    let set = |values: &Value| {
        let objects = objects(&world.try_render(values).unwrap());
        objects.into_iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap().body
    };
    assert_eq!(set(&json!({})), set(&values));
}

#[test]
fn users_and_databases_of_the_servers_own_are_refused() {
    let user = |user: Value| json!({"users": [user]});
    for (wrong, why) in [
        (user(json!({"name": "root"})), "users: the name root is of an account of the server's"),
        (user(json!({"name": "Tillerman-agent"})), "the agent's own"),
        (user(json!({"name": "a%"})), "name"),
        (user(json!({"name": "a'b"})), "name"),
        (user(json!({"name": "$(HOSTNAME)"})), "name"),
        (user(json!({"name": "a", "host": "%'"})), "host"),
        (user(json!({"name": "a", "databases": ["mysql"]})), "nothing can be granted on the database mysql"),
        (user(json!({"name": "a", "databases": ["*"]})), "databases"),
        (
            user(json!({"name": "a", "grants": [{"database": "Tillerman", "privileges": ["ALL"]}]})),
            "nothing can be granted on",
        ),
        (user(json!({"name": "a", "grants": [{"database": "d", "privileges": ["SUPER"]}]})), "privileges"),
        (user(json!({"name": "a", "grants": [{"database": "d", "privileges": ["READ_ONLY ADMIN"]}]})), "privileges"),
        (user(json!({"name": "a", "passwordSecret": {"name": "x", "key": "../y"}})), "key"),
        (json!({"users": [{"name": "a_b"}, {"name": "A-b"}]}), "is there twice"),
        (json!({"databases": [{"name": "sys"}]}), "databases: sys is the server's own"),
        (json!({"databases": [{"name": "a`b"}]}), "name"),
        (json!({"databases": [{"name": "a", "collate": "x; DROP"}]}), "collate"),
        (json!({"rootPassword": {"key": "a/b"}}), "key"),
        (json!({"rootPassword": {"secretName": "$(X)"}}), "secretName"),
    ] {
        let error = World::default().try_render(&wrong).unwrap_err();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}
