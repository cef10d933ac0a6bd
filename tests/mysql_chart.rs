//! The chart of MariaDB, rendered by the library: the driver's document, and what is kept from one rendering to the next.

#[path = "support/chart_world.rs"]
mod chart_world;

use chart_world::ChartWorld;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tillerman::members::document::Members;
use tillerman::members::drivers::Drivers;
use tillerman::members::primary::document::PrimaryDocument;
use tillerman::members::progress::facts;
use tillerman::object::{Object, parse_manifest};
use tillerman::release::status_fields::{Known, StatusFields};
use tillerman::render::Rendered;

fn world() -> ChartWorld {
    ChartWorld::of("mysql")
}

fn objects(rendered: &Rendered) -> Vec<Object> {
    parse_manifest(&rendered.manifest()).unwrap()
}

#[test]
fn a_name_is_enough() {
    let rendered = world().render(&json!({}));
    let objects = objects(&rendered);
    let members = Members::read(&rendered.unknown, &objects, "ns", &Drivers::new()).unwrap().unwrap();
    let set = &members.sets[0];
    assert_eq!((set.target.as_str(), set.size, set.driver.as_str()), ("my", 3, "primary"));
    let document = PrimaryDocument::read(&set.settings.fields(), &set.target).unwrap();
    assert_eq!(document.settings.agent_url.url(1), "https://my-1.my-members.ns.svc:8090");
    assert_eq!((document.config_map.as_str(), document.tls_secret.as_deref()), ("my-roles", Some("my-operator-tls")));
    let known = Known { objects: &objects, namespace: "ns", members: &["db"], facts: &facts(&Drivers::new()) };
    let fields = StatusFields::read(&rendered.unknown, known).unwrap().unwrap().fields;
    assert_eq!(fields[0].name, "primary");
}

#[test]
fn volumes_grow_by_themselves_up_to_a_limit_if_there_is_one() {
    let grow = |auto_grow: &Value| {
        let rendered = world().render(&json!({"storage": {"autoGrow": auto_grow}}));
        let members = Members::read(&rendered.unknown, &objects(&rendered), "ns", &Drivers::new()).unwrap().unwrap();
        json!(members.sets[0].grow)
    };
    assert_eq!(grow(&json!({"by": "10Gi"})), Value::Null);
    let expected = json!({"claim": "data", "at_percent": 80, "by": {"Percent": 20}, "max": 20_u64 << 30});
    assert_eq!(grow(&json!({"max": "20Gi"})), expected);
    assert_eq!(grow(&json!({"max": "20Gi", "by": "1Gi"}))["by"], json!({"Bytes": 1 << 30}));
}

#[test]
fn passwords_and_certificates_stay_and_a_name_more_changes_only_the_certificate_of_members() {
    let world = world();
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
    let world = world();
    let given = json!({"configuration": {"max_connections": 7, "innodb-file-per-table": null, "local_infile": false, "sql_mode": "ANSI"}});
    let objects = objects(&world.render(&given));
    let map = objects.iter().find(|object| &*object.gvk.kind == "ConfigMap").unwrap();
    assert_eq!(map.body["data"]["my.cnf"], format!("[mysqld]\ninnodb-file-per-table\n{INCLUDES}"));
    assert_eq!(map.body["data"]["live.cnf"], "[mysqld]\nlocal_infile=OFF\nmax_connections=7\nsql_mode=ANSI\n");
}

/// The last line of my.cnf.
const INCLUDES: &str = "!include /etc/mysql-configuration/live.cnf\n";

#[test]
fn only_a_setting_that_needs_it_restarts_the_pods() {
    for flavor in ["mariadb", "mysql"] {
        let template = |configuration: Value| {
            let set = by_name(&json!({"flavor": flavor, "configuration": configuration}));
            set["StatefulSet my"]["spec"]["template"].clone()
        };
        let before = template(json!({}));
        assert_eq!(before, template(json!({"max-connections": 500, "sql_mode": "ANSI"})), "{flavor}");
        assert_ne!(before, template(json!({"max_connections": 500, "back_log": 70})), "{flavor}");
    }
}

/// What a tenant could write to reach the host, or what a commit waits for.
#[test]
fn hostile_settings_are_refused_by_their_name() {
    let set = |key: &str, value: Value| json!({"configuration": {key: value}});
    let mut rows = Vec::new();
    let names = "init_file init-file plugin-load plugin_load_add plugin-dir datadir tmpdir basedir skip-grant-tables \
        skip_grant_tables secure-file-priv loose_skip_grant_tables skip-gr skip-networking socket port user \
        chroot general_log_file slow_query_log_file log-error log-basename log-bin-index \
        innodb_data_home_dir core-file init_connect init_slave event_scheduler default_storage_engine \
        read_only log-bin skip-log-bin binlog-format binlog-ignore-db binlog-do-db replicate-ignore-db \
        replicate-do-table replicate-rewrite-db slave-skip-errors slave_exec_mode sync_binlog \
        innodb_flush_log_at_trx_commit innodb_doublewrite innodb-force-recovery gtid_strict_mode \
        rpl_semi_sync_master_timeout rpl_semi_sync_master_wait_no_slave maximum_max_connections \
        tc-heuristic-recover wsrep_provider ssl-ca debug-no-sync x";
    for name in names.split(' ') {
        rows.push((set(name, json!("x")), "cannot be set: it is not a setting of MariaDB"));
    }
    for name in [
        "[client]",
        "!include",
        "!includedir",
        "a]b",
        "max_connections=1\nskip-grant-tables",
        "",
        "MAX_CONNECTIONS",
        "max connections",
        "$(X)",
    ] {
        rows.push((set(name, json!("x")), "configuration"));
    }
    for value in ["1\n[mysqld]\nskip-grant-tables", "1\r\nskip-grant-tables", "1\u{0}x"] {
        rows.push((set("max_connections", json!(value)), "configuration.max_connections has more than one line"));
    }
    rows.push((set("max_connections", json!(["x"])), "configuration"));
    for value in ["nosync", "littlesync", "O_DIRECT_NO_FSYNC", "unbuffered", "1"] {
        rows.push((set("innodb_flush_method", json!(value)), "can be fsync, O_DSYNC or O_DIRECT"));
        rows.push((set("innodb-flush-method", json!(value)), "can be fsync, O_DSYNC or O_DIRECT"));
    }
    rows.push((set("innodb_flush_method", Value::Null), "can be fsync, O_DSYNC or O_DIRECT"));
    refused(rows);
}

/// Each is refused, and the message has the place or the reason.
fn refused(rows: Vec<(Value, &str)>) {
    let world = world();
    let error = |wrong: &Value| world.try_render(wrong, &[]).err().unwrap_or_else(|| panic!("{wrong} is taken"));
    let other: Vec<String> =
        rows.into_iter().filter_map(|(wrong, why)| Some(error(&wrong)).filter(|error| !error.contains(why))).collect();
    assert!(other.is_empty(), "{}", other.join("\n"));
}

/// What a tenant could write to reach other pods, or to take away what confines its own.
#[test]
fn hostile_values_are_refused_with_the_place_and_the_reason() {
    refused(vec![
        (json!({"pod": {"labels": {"tillerman.dev/role": "primary"}}}), "is reserved for the operator"),
        (json!({"pod": {"labels": {"app.kubernetes.io/instance": "other"}}}), "is reserved for the operator"),
        (json!({"pod": {"annotations": {"tillerman.dev/configuration": "x"}}}), "pod.annotations"),
        (json!({"initdbScripts": {"../a.sql": ""}}), "initdbScripts"),
        (json!({"initdbScripts": {"a;b.sql": ""}}), "initdbScripts"),
        (json!({"initdbScripts": {"$(x).sql": ""}}), "initdbScripts"),
        (json!({"initdbScripts": {"a.sh": ""}}), "initdbScripts"),
        (json!({"initdbScripts": {"a.sql": "x".repeat(500_001)}}), "initdbScripts"),
        (
            json!({"pod": {"annotations": {"container.apparmor.security.beta.kubernetes.io/mysql": "unconfined"}}}),
            "weakens the isolation of the database",
        ),
        (json!({"pod": {"runAsUser": 0}}), "runAsUser"),
        (json!({"pod": {"terminationGracePeriodSeconds": 5}}), "terminationGracePeriodSeconds"),
        (json!({"pod": {"securityContext": {"privileged": true}}}), "securityContext"),
        (json!({"pod": {"hostNetwork": true}}), "hostNetwork"),
        (json!({"flavor": "percona"}), "flavor"),
        (json!({"version": "10.6.1"}), "version 10.6.1 is earlier than 10.11"),
        (json!({"version": "latest"}), "version"),
        (json!({"version": "10.11$(X)"}), "version"),
        (json!({"image": "a b"}), "image"),
        (json!({"image": "a\nb"}), "image"),
        (json!({"agentImage": ""}), "agentImage"),
        (json!({"agentImage": "$(IMAGE)"}), "agentImage"),
        (json!({"storage": {"size": "1Gi; x"}}), "size"),
        (json!({"storage": {"autoGrow": {"max": "1Gi\nkind: Secret"}}}), "max"),
        (json!({"storage": {"autoGrow": {"max": "1e9"}}}), "max"),
        (json!({"storage": {"autoGrow": {"max": "9Gi", "by": "1000%"}}}), "by"),
        (json!({"storage": {"autoGrow": {"max": "9Gi", "by": "{{ x }}%"}}}), "by"),
        (json!({"storage": {"autoGrow": {"max": "9Gi", "atPercent": 10}}}), "atPercent"),
        (json!({"tls": {"dnsNames": ["a,b"]}}), "dnsNames"),
        (json!({"tls": {"days": 10, "renewBeforeDays": 10}}), "renewBeforeDays must be less"),
        (json!({"tls": {"secrets": {"members": "a"}}}), "tls.secrets needs both"),
        (
            json!({"tls": {"secrets": {"members": "a", "operator": "b"}, "certManager": {"enabled": true}}}),
            "use only one of them",
        ),
        (json!({"lostAfter": "6"}), "lostAfter"),
        (json!({"readFrom": "nobody"}), "readFrom"),
        (json!({"replicas": 10}), "replicas"),
        (json!({"applications": [{"name": "a", "user": "a'@'%"}]}), "user"),
        (json!({"applications": [{"name": "a", "user": "ROOT"}]}), "reserved"),
        (json!({"users": [{"name": "a", "takeOver": "yes"}]}), "takeOver"),
        (json!({"import": {"host": "--help"}}), "import"),
        (json!({"import": {"host": "$(MYSQL_PWD)"}}), "import"),
        (json!({"import": {"host": "shop", "user": "a\nb"}}), "user"),
        (json!({"import": {"host": "shop", "passwordSecret": {"name": "a", "key": "../b"}}}), "key"),
    ]);
}

/// MySQL has another image, other settings, and no backups.
#[test]
fn mysql_itself_is_a_flavor_and_what_it_lacks_is_refused() {
    let container = |values: &Value| {
        let set = by_name(values).remove("StatefulSet my").unwrap();
        let version = set["metadata"]["labels"]["app.kubernetes.io/version"].clone();
        (version, set["spec"]["template"]["spec"]["containers"][0].clone())
    };
    let flag = |container: &Value| container["args"].as_array().unwrap().contains(&json!("--flavor=mysql"));
    for (values, version, image, is_mysql) in [
        (json!({}), "10.11.19", "docker.io/library/mariadb:10.11.19", false),
        (json!({"flavor": "mysql"}), "9.7", "docker.io/library/mysql:9.7", true),
        (json!({"flavor": "mysql", "version": "9.7.4"}), "9.7.4", "docker.io/library/mysql:9.7.4", true),
        (json!({"flavor": "mysql", "image": "localhost/mysql:9.7"}), "9.7", "localhost/mysql:9.7", true),
    ] {
        let (label, container) = container(&values);
        assert_eq!((&label, &container["image"]), (&json!(version), &json!(image)), "{values}");
        assert_eq!(flag(&container), is_mysql, "{values}");
    }
    // A running MySQL comes as a running MariaDB does.
    let import = json!({"flavor": "mysql", "import": {"host": "shop", "passwordSecret": {"name": "shop"}}});
    let pod = &by_name(&import)["Deployment my-import"]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["image"], "docker.io/library/mysql:9.7");
    let capacity = json!({"flavor": "mysql", "configuration": {"innodb_redo_log_capacity": "1G"}});
    assert_eq!(
        by_name(&capacity)["ConfigMap my-configuration"]["data"]["live.cnf"],
        "[mysqld]\ninnodb_redo_log_capacity=1G\n"
    );
    let with = |more: Value| {
        let mut values = json!({"flavor": "mysql"});
        values.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        values
    };
    let logical = json!({"storageType": "Volume", "volume": {"path": "a/b", "claimName": "c"}, "form": "Logical"});
    let mut rows = vec![
        (json!({"configuration": {"innodb_redo_log_capacity": "1G"}}), "it is not a setting of MariaDB"),
        (with(json!({"version": "8.4.3"})), "version 8.4.3 is not supported"),
        (with(json!({"version": "10.11.19"})), "version 10.11.19 is not supported"),
        (with(json!({"backup": logical})), "backup.form: Logical is not supported for MySQL"),
    ];
    let hostile = "super_read_only read_only gtid_mode enforce_gtid_consistency persisted_globals_load replicate_same_server_id \
        rpl_semi_sync_source_timeout rpl_semi_sync_source_wait_no_replica sync_binlog relay_log_recovery replica_skip_errors \
        replica_exec_mode plugin_load plugin-load-add early-plugin-load plugin_dir init_file init_replica secure_file_priv mysqlx \
        innodb_directories innodb_undo_directory innodb_doublewrite innodb_redo_log_archive_dirs lower_case_table_names \
        caching_sha2_password_private_key_path daemonize initialize admin_address log_error general_log_file loose_read_only \
        default_storage_engine disabled_storage_engines mandatory_roles authentication_policy log_slave_updates log_bin_trust_function_creators";
    for name in hostile.split_whitespace() {
        rows.push((with(json!({"configuration": {name: "x"}})), "cannot be set: it is not a setting of MySQL"));
    }
    refused(rows);
}

/// All objects of a rendering, by kind and name.
fn by_name(values: &Value) -> BTreeMap<String, Value> {
    let objects = objects(&world().render(values));
    objects
        .into_iter()
        .map(|object| (format!("{} {}", object.gvk.kind, object.name), Value::Object(object.body)))
        .collect()
}

#[test]
fn certificates_come_from_the_chart_from_cert_manager_or_from_others() {
    let secrets =
        |all: &BTreeMap<String, Value>| all.keys().filter(|name| name.ends_with("-tls")).cloned().collect::<Vec<_>>();
    let mounted = |all: &BTreeMap<String, Value>| {
        let volumes = all["StatefulSet my"]["spec"]["template"]["spec"]["volumes"].as_array().unwrap().clone();
        volumes.into_iter().find(|volume| volume["name"] == "tls").unwrap()["secret"]["secretName"].clone()
    };
    let made = by_name(&json!({}));
    assert_eq!((secrets(&made).len(), mounted(&made)), (3, json!("my-members-tls")));
    let managed = by_name(&json!({"tls": {"certManager": {"enabled": true}, "dnsNames": ["db.example.com"]}}));
    assert_eq!((secrets(&managed).len(), mounted(&managed)), (0, json!("my-members-tls")));
    let members = &managed["Certificate my-members"]["spec"];
    assert_eq!((&members["secretName"], &members["issuerRef"]["name"]), (&json!("my-members-tls"), &json!("my-ca")));
    let names = members["dnsNames"].as_array().unwrap();
    for name in ["*.my-members.ns.svc", "my-primary.ns.svc.cluster.local", "db.example.com", "localhost"] {
        assert!(names.contains(&json!(name)), "{name}: {names:?}");
    }
    assert_eq!(managed["Certificate my-operator"]["spec"]["secretName"], "my-operator-tls");
    assert!(managed["Certificate my-ca"]["spec"]["isCA"] == true && managed.contains_key("Issuer my-self-signed"));
    let signed = by_name(
        &json!({"tls": {"certManager": {"enabled": true, "issuerRef": {"name": "theirs", "kind": "ClusterIssuer"}}}}),
    );
    assert_eq!(signed["Certificate my-operator"]["spec"]["issuerRef"]["kind"], "ClusterIssuer");
    assert!(!signed.contains_key("Certificate my-ca"));
    let given = json!({"tls": {"secrets": {"members": "m", "operator": "o"}}});
    let theirs = by_name(&given);
    assert_eq!((secrets(&theirs).len(), mounted(&theirs)), (0, json!("m")));
    let rendered = world().render(&given);
    let members = Members::read(&rendered.unknown, &objects(&rendered), "ns", &Drivers::new()).unwrap().unwrap();
    let document = PrimaryDocument::read(&members.sets[0].settings.fields(), "my").unwrap();
    assert_eq!(document.tls_secret.as_deref(), Some("o"));
}

/// An issuer that signs for others, too, is asked only for names of the cluster's own Services.
#[test]
fn names_of_others_are_asked_only_of_an_issuer_of_the_clusters_own() {
    let tls = |issuer: &str, names: Value, allowed: Value| {
        let issuer = json!({"name": issuer, "kind": "ClusterIssuer"});
        json!({"tls": {"certManager": {"enabled": true, "issuerRef": issuer}, "dnsNames": names, "allowedNames": allowed}})
    };
    let mut rows = Vec::new();
    for name in [
        "bank.example.com",
        "*.example.com",
        "kubernetes.default.svc",
        "other-primary.ns.svc",
        "my-primary.other.svc",
        "my.ns.svc.example.com",
        "evilmy.ns.svc",
        "svc",
        "*.ns.svc",
    ] {
        rows.push((tls("theirs", json!([name]), json!([])), "tls.dnsNames: "));
        // An empty list, as overrideValues write it.
        rows.push((tls("theirs", json!([name]), json!([""])), "tls.allowedNames: '{*.example.com}'"));
    }
    for name in ["example.com", "badexample.com", "db.example.org"] {
        rows.push((tls("theirs", json!([name]), json!(["*.example.com"])), "is not below a domain"));
    }
    refused(rows);
    for taken in [
        tls("theirs", json!(["*.my-members.ns.svc", "x.my.ns.svc.cluster.local", "my-replicas.ns.svc"]), json!([])),
        tls(
            "theirs",
            json!(["db.example.com", "*.db.example.com", "DB.Example.com", "*.example.com"]),
            json!(["*.example.com"]),
        ),
        tls("theirs", json!(["example.com"]), json!(["example.com"])),
        tls("", json!(["db.example.com"]), json!([])),
        json!({"tls": {"dnsNames": ["db.example.com"]}}),
    ] {
        world().try_render(&taken, &[]).unwrap_or_else(|why| panic!("{taken}: {why}"));
    }
}

#[test]
fn a_load_balancer_takes_the_addresses_that_are_named() {
    let ranges = |values: &Value| by_name(values)["Service my-primary"]["spec"]["loadBalancerSourceRanges"].clone();
    let service = |kind: &str| json!({"service": {"type": kind, "loadBalancerSourceRanges": ["192.0.2.0/24"]}});
    assert_eq!(ranges(&service("LoadBalancer")), json!(["192.0.2.0/24"]));
    assert_eq!(ranges(&service("ClusterIP")), Value::Null);
    let direct = json!({"configuration": {"innodb_flush_method": "O_DIRECT"}});
    assert_eq!(
        by_name(&direct)["ConfigMap my-configuration"]["data"]["my.cnf"],
        format!("[mysqld]\ninnodb_flush_method=O_DIRECT\n{INCLUDES}")
    );
}

/// What a `ResourceQuota` asks for: a value for each, and small ones where the members have some.
#[test]
fn containers_beside_the_database_have_volumes_of_their_own_alone() {
    let pod = json!({
        "extraVolumes": [{"name": "conf", "configMap": {"name": "c"}}],
        "extraVolumeMounts": [{"name": "conf", "mountPath": "/etc/extra"}],
        "sidecars": [{"name": "exporter", "image": "e:1", "volumeMounts": [{"name": "conf", "mountPath": "/c"}]}],
    });
    let objects = by_name(&json!({"pod": pod}));
    let spec = &objects["StatefulSet my"]["spec"]["template"]["spec"];
    let containers = spec["containers"].as_array().unwrap();
    assert_eq!(containers[1]["volumeMounts"], json!([{"name": "conf", "mountPath": "/c"}]));
    assert_eq!(containers[1]["securityContext"]["readOnlyRootFilesystem"], true);
    assert!(containers[0]["volumeMounts"].as_array().unwrap().iter().any(|mount| mount["mountPath"] == "/etc/extra"));
    assert!(spec["volumes"].as_array().unwrap().iter().any(|volume| volume["configMap"]["name"] == "c"));
    let of = |pod: Value| json!({"pod": pod});
    let sidecar = |more: Value| of(json!({"sidecars": [chained(&json!({"name": "s", "image": "i"}), &more)]}));
    refused(vec![
        (of(json!({"extraVolumes": [{"name": "data", "emptyDir": {}}]})), "is reserved for the chart"),
        (of(json!({"extraVolumes": [{"name": "x", "hostPath": {"path": "/"}}]})), "extraVolumes"),
        (of(json!({"extraVolumeMounts": [{"name": "data", "mountPath": "/x"}]})), "not a name in pod.extraVolumes"),
        (sidecar(json!({"volumeMounts": [{"name": "root", "mountPath": "/x"}]})), "not a name in pod.extraVolumes"),
        (sidecar(json!({"securityContext": {"privileged": true}})), "securityContext"),
        (sidecar(json!({"name": "mysql"})), "is reserved for the chart"),
        (json!({"configuration": {"lower_case_table_names": 2}}), "lower_case_table_names must be 0 or 1"),
    ]);
}

#[test]
fn each_container_has_resources_where_the_members_have_some() {
    let place = json!({"storageType": "Volume", "volume": {"path": "a/b", "claimName": "c"}});
    let of = |values: Value| {
        let values =
            chained(&json!({"restore": place, "backup": chained(&place, &json!({"schedule": "@daily"}))}), &values);
        let all = by_name(&values);
        let spec = all["StatefulSet my"]["spec"]["template"]["spec"].clone();
        let backup =
            all["CronJob my-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["resources"]
                .clone();
        let init = spec["initContainers"].as_array().unwrap().iter().map(|container| container["resources"].clone());
        init.chain([backup]).collect::<Vec<_>>()
    };
    assert_eq!(of(json!({})), [json!({}), json!({}), json!({}), json!({})]);
    let members = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let brings = json!({"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}});
    let backup = json!({"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}});
    assert_eq!(of(json!({"pod": {"resources": members}})), [brings.clone(), brings, members.clone(), backup]);
    let own = json!({"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "9Mi"}});
    let set = json!({"pod": {"resources": members, "initResources": own}, "backup": {"resources": own}});
    assert_eq!(of(set), [own.clone(), own.clone(), members, own]);
}

fn chained(base: &Value, over: &Value) -> Value {
    let mut merged = base.as_object().unwrap().clone();
    tillerman::chart::values::merge(&mut merged, over.as_object().unwrap().clone());
    Value::Object(merged)
}

#[test]
fn readers_reach_whom_values_name_and_members_are_spread() {
    let role = "tillerman.dev/role";
    for (given, expected) in [("replicas", json!("replica")), ("primary", json!("primary")), ("all", Value::Null)] {
        let all = by_name(&json!({"readFrom": given}));
        assert_eq!(all["Service my-replicas"]["spec"]["selector"][role], expected, "{given}");
        assert_eq!(all["Service my-primary"]["spec"]["selector"][role], "primary");
        assert_eq!(all["Service my"]["spec"]["selector"][role], Value::Null);
    }
    let spec = |values: &Value| by_name(values)["StatefulSet my"]["spec"]["template"]["spec"].clone();
    let constraints =
        spec(&json!({"spread": {"hosts": "Require", "zones": "Ignore"}}))["topologySpreadConstraints"].clone();
    assert_eq!(constraints.as_array().unwrap().len(), 1);
    assert_eq!(
        (&constraints[0]["topologyKey"], &constraints[0]["whenUnsatisfiable"]),
        (&json!("kubernetes.io/hostname"), &json!("DoNotSchedule"))
    );
    assert_eq!(spec(&json!({}))["topologySpreadConstraints"].as_array().unwrap().len(), 2);
}

/// The job's name of the alert is that of the schedule, which the status shows, too.
#[test]
fn a_schedule_of_backups_is_watched() {
    let place = json!({"storageType": "Volume", "volume": {"path": "a/b", "claimName": "c"}, "schedule": "0 3 * * *"});
    let all = by_name(&json!({"serviceMonitor": {"enabled": true}, "backup": place}));
    let rule = all["PrometheusRule my"]["spec"]["groups"][0]["rules"][0].clone();
    let of = |metric: &str| format!(r#"{metric}{{namespace="ns",cronjob="my-backup"}}"#);
    let since = of("kube_cronjob_status_last_successful_time") + " or " + &of("kube_cronjob_created");
    assert_eq!(rule["expr"], format!("time() - ({since}) > 26 * 3600"));
    assert!(all.contains_key("CronJob my-backup"));
    for other in [
        json!({"backup": place}),
        json!({"serviceMonitor": {"enabled": true}}),
        json!({"serviceMonitor": {"enabled": true}, "backup": {"storageType": "Volume", "volume": place["volume"]}}),
    ] {
        assert!(!by_name(&other).contains_key("PrometheusRule my"), "{other}");
    }
}

#[test]
fn metrics_are_offered_and_the_network_policy_has_every_port() {
    let all = by_name(
        &json!({"serviceMonitor": {"enabled": true, "labels": {"release": "x"}}, "networkPolicy": {"enabled": true}}),
    );
    let monitor = &all["ServiceMonitor my"];
    let endpoint = &monitor["spec"]["endpoints"][0]["port"];
    let service = &all["Service my-members"];
    for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&service["metadata"]["labels"][key], value, "{key}");
    }
    let named =
        |list: &Value, key: &str| list.as_array().unwrap().iter().map(|port| port[key].clone()).collect::<Vec<_>>();
    let ports = service["spec"]["ports"].as_array().unwrap();
    let target = ports.iter().find(|port| port["name"] == *endpoint).unwrap()["targetPort"].clone();
    let containers = named(&all["StatefulSet my"]["spec"]["template"]["spec"]["containers"][0]["ports"], "name");
    assert!(containers.contains(&target));
    // The members' Service alone has these labels, so that nothing is scraped twice.
    assert!(all["Service my"]["metadata"]["labels"].get("app.kubernetes.io/component").is_none());
    let rules = all["NetworkPolicy my"]["spec"]["ingress"].as_array().unwrap();
    let mut allowed: Vec<Value> = rules.iter().flat_map(|rule| named(&rule["ports"], "port")).collect();
    allowed.sort_by_key(Value::to_string);
    let mut all_ports = containers.clone();
    all_ports.sort_by_key(Value::to_string);
    assert_eq!(allowed, all_ports);
    let agent = rules.iter().find(|rule| rule["ports"][0]["port"] == "agent").unwrap();
    // The members, the pods of backups, and the operator.
    assert_eq!(agent["from"].as_array().unwrap().len(), 3);
    let closed = json!({"networkPolicy": {"enabled": true, "from": [{"podSelector": {"matchLabels": {"app": "x"}}}], "monitoringFrom": [{"podSelector": {}}]}});
    let rules = by_name(&closed)["NetworkPolicy my"]["spec"]["ingress"].clone();
    assert_eq!((rules[0]["from"].as_array().unwrap().len(), rules[1]["from"].as_array().unwrap().len()), (3, 1));
}

#[test]
fn the_fields_of_old_tutorials_are_taken() {
    let all = by_name(
        &json!({"rootPassword": {"secretName": "mysql-root", "key": "ROOT_PASSWORD"}, "storage": {"size": "20Gi"}, "replicas": 1}),
    );
    let set = &all["StatefulSet my"]["spec"];
    assert_eq!(set["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"], "20Gi");
    let args = set["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--administrator-password-file=/etc/mysql-root/ROOT_PASSWORD")));
}

/// The text of a key of a Secret.
fn text(secret: &Value, key: &str) -> String {
    let data = secret["data"][key].as_str().unwrap_or_else(|| panic!("{key}: {secret}"));
    String::from_utf8(base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap()).unwrap()
}

#[test]
fn another_user_changes_no_pod_and_a_password_is_made_or_copied() {
    let world = world();
    let theirs = json!({"kind": "Secret", "data": {"pw": "c2VjcmV0"}});
    world.put("Secret", "theirs", theirs.clone());
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
    {
        use tillerman_agent_mysql::declared;
        let declared = declared::read(text(accounts, "accounts.json").as_bytes()).unwrap();
        assert!(declared.databases.iter().all(|database| declared::database(database).is_ok()));
        let users: Vec<_> = declared.users.iter().map(|user| declared::account(user, "root").unwrap()).collect();
        assert_eq!((users.len(), users[1].grants["shop"].len()), (3, 2));
    }
    world.put("Secret", "theirs", theirs);
    assert_eq!(world.deploy(&values), first, "a password that was made is kept");
    let set = |values: &Value| {
        let objects = objects(&world.render(values));
        objects.into_iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap().body
    };
    assert_eq!(set(&json!({})), set(&values));
}

#[test]
fn an_application_that_is_listed_gets_a_database_a_user_and_a_secret_with_the_way_there() {
    let world = world();
    let values = json!({"applications": [{"name": "shop-1", "requireTLS": true}, {"name": "blog", "database": "wp", "user": "old_blog", "takeOver": true}]});
    let first = world.deploy(&values);
    let secret = &first["my-app-shop-1"];
    let read = |key: &str| text(secret, key);
    assert_eq!(
        (read("host"), read("read-host"), read("port")),
        ("my-primary".into(), "my-replicas".into(), "3306".into())
    );
    assert_eq!((read("database"), read("username"), read("password").len()), ("shop_1".into(), "shop-1".into(), 24));
    assert_eq!(text(&first["my-app-blog"], "database"), "wp");
    let accounts = &first["my-accounts"];
    assert_eq!(text(accounts, "password.shop-1"), read("password"));
    let declared: Value = serde_json::from_str(&text(accounts, "accounts.json")).unwrap();
    assert_eq!(declared["databases"][0], json!({"name": "shop_1", "characterSet": "utf8mb4"}));
    assert_eq!(
        (&declared["users"][0]["databases"], &declared["users"][0]["requireTLS"]),
        (&json!(["shop_1"]), &json!(true))
    );
    let user = &declared["users"][1];
    assert_eq!((&user["name"], &user["takeOver"]), (&json!("old_blog"), &json!(true)));
    assert_eq!(
        (text(&first["my-app-blog"], "username"), &declared["users"][0]["takeOver"]),
        ("old_blog".into(), &Value::Null)
    );
    assert_eq!(world.deploy(&values), first, "a password that was made is kept");
    // Of a single member there is no replica to read from.
    let single = ChartWorld::of("mysql").deploy(&json!({"replicas": 1, "applications": [{"name": "a"}]}));
    assert_eq!(text(&single["my-app-a"], "read-host"), "my-primary");
    refused(vec![
        (json!({"applications": [{"name": "root"}]}), "is reserved for an account of the server"),
        (json!({"applications": [{"name": "sys"}]}), "nothing can be granted on the database sys"),
        (json!({"applications": [{"name": "a"}, {"name": "a"}]}), "is listed twice"),
        (json!({"applications": [{"name": "a"}], "users": [{"name": "a"}]}), "is listed twice"),
        (json!({"applications": [{"name": "a"}], "databases": [{"name": "a"}]}), "is listed twice"),
        (json!({"applications": [{"name": "a'b"}]}), "name"),
        (json!({"applications": [{"name": "a", "database": "a`b"}]}), "database"),
        (json!({"applications": [{"name": "a", "database": "MySQL"}]}), "nothing can be granted on the database MySQL"),
    ]);
}

#[test]
fn users_and_databases_of_the_servers_own_are_refused() {
    let user = |user: Value| json!({"users": [user]});
    refused(vec![
        (user(json!({"name": "root"})), "users: the name root is reserved for an account of the server"),
        (user(json!({"name": "Tillerman-agent"})), "is reserved for an account of the server or the agent"),
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
        (json!({"users": [{"name": "a_b"}, {"name": "A-b"}]}), "is listed twice"),
        (json!({"databases": [{"name": "sys"}]}), "databases: sys belongs to the server"),
        (json!({"databases": [{"name": "a`b"}]}), "name"),
        (json!({"databases": [{"name": "a", "collate": "x; DROP"}]}), "collate"),
        (json!({"rootPassword": {"key": "a/b"}}), "key"),
        (json!({"rootPassword": {"secretName": "$(X)"}}), "secretName"),
    ]);
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
    let rendered = world().render(&json!({"backup": backup, "backupOnDelete": true}));
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

    let import = |more: Value, flavor: &str| {
        let mut import = json!({"host": "shop", "passwordSecret": {"name": "shop"}});
        import.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"flavor": flavor, "import": import})
    };
    let none = world().render(&json!({}));
    assert!(!objects(&none).iter().any(|object| object.name.contains("backup") || object.name.contains("archive")));
    for (values, why) in [
        (json!({"backupOnDelete": true}), "needs a storage"),
        (json!({"backup": {"schedule": "@daily"}}), "need a storage"),
        (json!({"backup": {"storageType": "S3", "s3": {"path": "bucket"}}}), "BUCKET/NAME"),
        (json!({"backup": {"storageType": "Volume", "volume": {"path": "db"}}}), "claimName"),
        (json!({"restore": {"storageType": "GCS"}}), "restore: the path"),
        (json!({"import": {"host": "shop"}}), "import.passwordSecret.name is missing"),
        (json!({"import": {"host": "shop"}, "flavor": "mysql"}), "import.passwordSecret.name is missing"),
        (import(json!({"wayBack": true}), "mysql"), "import.wayBack is not supported for MySQL"),
        (import(json!({"rollBack": true, "cutOver": true}), "mariadb"), "import.rollBack needs import.wayBack"),
        (import(json!({"rollBack": true, "wayBack": true}), "mariadb"), "import.rollBack needs import.wayBack"),
        (json!({"import": {"host": "shop"}, "initdbScripts": {"a.sql": "SELECT 1"}}), "must have no tables"),
    ] {
        let error = world().try_render(&values, &[]).unwrap_err();
        assert!(error.contains(why), "{values}: {error}");
    }
}

#[test]
fn a_new_cluster_begins_with_a_backup_that_its_first_member_fetches() {
    let restore = json!({"storageType": "S3", "s3": {"path": "bucket/shop/latest", "awsSecret": "aws"}, "namePrefix": "db", "until": "0-1-150"});
    let values = json!({"restore": restore});
    let all = objects(&world().render(&values));
    let set = all.iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
    let pod = &set.body["spec"]["template"]["spec"];
    let containers = pod["initContainers"].as_array().unwrap();
    let names: Vec<_> = containers.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent", "tillerman", "restore"]);
    let restores = &containers[2];
    assert_eq!(restores["image"], pod["containers"][0]["image"], "it has the database's programs");
    let knows = |container: &Value| container["env"].as_array().unwrap().iter().any(|v| v["name"] == "PRIMARY");
    assert!(knows(restores) && knows(&pod["containers"][0]), "it knows which member may create the data");
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
    let none = objects(&world().render(&json!({})));
    let set = none.iter().find(|object| &*object.gvk.kind == "StatefulSet").unwrap();
    assert_eq!(set.body["spec"]["template"]["spec"]["initContainers"].as_array().unwrap().len(), 1);
}
