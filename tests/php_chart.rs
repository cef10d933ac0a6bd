//! The chart of PHP applications, rendered by the library: what each runtime makes, that custom resources of earlier versions make what they
//! made, and what of a tenant's values is refused.

#[path = "support/chart_world.rs"]
mod chart_world;

use chart_world::ChartWorld;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tillerman::object::parse_manifest;
use tillerman::render::Rendered;
use tillerman::template::yaml;

fn world() -> ChartWorld {
    ChartWorld::of("php")
}

fn rendered(values: &Value) -> Rendered {
    world().render(values)
}

/// All objects of a rendering, by kind and name: hooks and operations, too.
fn by_name(values: &Value) -> BTreeMap<String, Value> {
    let rendered = rendered(values);
    let named = |kind: &str, name: &str, body: Value| (format!("{kind} {name}"), body);
    let objects = parse_manifest(&rendered.manifest()).unwrap().into_iter();
    let mut all: BTreeMap<String, Value> =
        objects.map(|object| named(&object.gvk.kind, &object.name, Value::Object(object.body))).collect();
    let hooks = rendered.hooks.iter().chain(&rendered.unknown);
    for hook in hooks {
        for object in parse_manifest(&hook.manifest.text).unwrap() {
            all.extend([named(&object.gvk.kind, &object.name, Value::Object(object.body))]);
        }
    }
    all
}

/// The pod of the Deployment of pages.
fn pod(values: &Value) -> Value {
    by_name(values)["Deployment my"]["spec"]["template"]["spec"].clone()
}

/// The containers of a pod, or those before them, by their names.
fn containers(pod: &Value, which: &str) -> BTreeMap<String, Value> {
    let list = pod[which].as_array().cloned().unwrap_or_default();
    list.into_iter().map(|container| (container["name"].as_str().unwrap().to_owned(), container)).collect()
}

fn files(values: &Value) -> Value {
    by_name(values)["ConfigMap my-config"]["data"].clone()
}

/// The value of a variable of the first container, or from where it comes.
fn variable(container: &Value, name: &str) -> Value {
    let list = container["env"].as_array().unwrap();
    let found = list.iter().find(|variable| variable["name"] == name);
    found.map_or(Value::Null, |variable| variable.get("value").unwrap_or(&variable["valueFrom"]).clone())
}

/// Byte by byte: an upgrade of the chart restarts no pod of theirs. New ones differ by the profile that Pod Security's restricted asks for.
#[test]
fn what_custom_resources_of_0_1_0_say_renders_what_it_rendered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/php-0.1.0");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    for name in ["nothing", "page", "image", "everything"] {
        let mut values = yaml::parse(read(&format!("{name}.values.yaml")).as_bytes()).unwrap();
        // What its Ingress has is allowed by the operator's author.
        values["allowedAnnotations"] = json!(["a"]);
        let before = read(&format!("{name}.manifest.yaml"));
        let world = world();
        let new = world.render(&values).manifest();
        let is_profile = |line: &&str| line.contains("seccompProfile");
        let (changed, kept): (Vec<&str>, Vec<&str>) = new.trim().lines().partition(is_profile);
        assert_eq!(changed.len(), 1, "{name}");
        assert_eq!(kept.len() + 1, before.trim().lines().count(), "{name}");
        // It is there as it was made by then, and stays so.
        let deployment =
            parse_manifest(&before).unwrap().into_iter().find(|object| &*object.gvk.kind == "Deployment").unwrap();
        world.put("Deployment", "my", Value::Object(deployment.body));
        assert_eq!(world.render(&values).manifest().trim(), before.trim(), "{name}");
        // Unless the values request it.
        values["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"});
        assert!(world.render(&values).manifest().contains("seccompProfile"), "{name}");
        values["securityContext"].as_object_mut().unwrap().remove("seccompProfile");
        // One that was made with a profile keeps it.
        let deployment =
            parse_manifest(&new).unwrap().into_iter().find(|object| &*object.gvk.kind == "Deployment").unwrap();
        world.put("Deployment", "my", Value::Object(deployment.body));
        assert_eq!(world.render(&values).manifest(), new, "{name}");
    }
}

/// What Pod Security's restricted takes, and nothing else; annotations that only tune, and those that the operator's author allows.
#[test]
fn a_tenant_sets_what_confines_pods_and_ingresses_only_within_bounds() {
    let mut rows = Vec::new();
    for (field, value) in [
        ("seccompProfile", json!({"type": "Unconfined"})),
        ("sysctls", json!([{"name": "net.core.somaxconn", "value": "1024"}])),
        ("windowsOptions", json!({"hostProcess": true})),
        ("runAsNonRoot", json!(false)),
        ("runAsUser", json!(0)),
        ("seLinuxOptions", json!({"type": "spc_t"})),
        ("appArmorProfile", json!({"type": "Unconfined"})),
    ] {
        rows.push((json!({"securityContext": {field: value}}), field));
    }
    for key in [
        "nginx.ingress.kubernetes.io/configuration-snippet",
        "nginx.ingress.kubernetes.io/server-snippet",
        "nginx.ingress.kubernetes.io/auth-url",
        "nginx.ingress.kubernetes.io/auth-tls-match-cn",
        "nginx.ingress.kubernetes.io/mirror-target",
        "nginx.ingress.kubernetes.io/rewrite-target",
        "nginx.ingress.kubernetes.io/",
        "cert-manager.io/cluster-issuer",
        "cert-manager.io/issuer-kind",
        "external-dns.alpha.kubernetes.io/hostname",
        "traefik.ingress.kubernetes.io/router.middlewares",
    ] {
        rows.push((json!({"ingress": {"enabled": true, "annotations": {key: "a"}}}), "ingress.annotations: "));
        rows.push((json!({"gateway": {"annotations": {key: "a"}}}), "gateway.annotations: "));
    }
    for value in ["1m; return 200", "1m\n}", "$(x)", "a{b", "\"", "é"] {
        let key = "nginx.ingress.kubernetes.io/proxy-body-size";
        rows.push((json!({"ingress": {"enabled": true, "annotations": {key: value}}}), "has characters other than"));
    }
    refused(rows);
    let annotations = |values: &Value| by_name(values)["Ingress my"]["metadata"]["annotations"].clone();
    let tuned =
        json!({"nginx.ingress.kubernetes.io/proxy-body-size": "16m", "nginx.ingress.kubernetes.io/limit-rps": "10"});
    assert_eq!(annotations(&json!({"ingress": {"enabled": true, "annotations": tuned}})), tuned);
    let given = json!({"cert-manager.io/issuer": "own", "example.com/a": "x{y}", "example.com/b": "z"});
    let allowed = json!({"allowedAnnotations": ["cert-manager.io/issuer", "example.com/*"], "ingress": {"enabled": true, "annotations": given}});
    assert_eq!(annotations(&allowed), given);
    let context = json!({"runAsUser": 2000, "runAsGroup": 0, "fsGroup": 3000, "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroups": [1],
        "seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}});
    assert_eq!(pod(&json!({"securityContext": context}))["securityContext"]["seccompProfile"]["type"], "Localhost");
    // A null takes a default away.
    let nulls = pod(&json!({"securityContext": {"runAsNonRoot": null, "runAsUser": null}}))["securityContext"].clone();
    assert_eq!(nulls, json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsGroup": 1000, "runAsNonRoot": true}));
    // The operator's author says the account, and no token is mounted.
    let account = pod(&json!({"serviceAccountName": "cloud", "runtime": "fpm"}));
    assert_eq!(
        (&account["serviceAccountName"], &account["automountServiceAccountToken"]),
        (&json!("cloud"), &json!(false))
    );
}

#[test]
fn where_pods_run_and_what_they_have_beside_is_as_in_other_charts() {
    let given = json!({
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "a", "operator": "Exists"}], "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"prometheus.io/scrape": "true"},
        "extraVolumes": [{"name": "conf", "configMap": {"name": "c"}}, {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}}],
        "extraVolumeMounts": [{"name": "conf", "mountPath": "/etc/shop", "readOnly": true}, {"name": "cache", "mountPath": "/cache"}],
        "workers": [{"name": "mails", "command": ["a"]}], "migrate": {"command": ["a"]},
    });
    for runtime in ["image", "fpm", "apache"] {
        let mut values = given.clone();
        values["runtime"] = json!(runtime);
        let all = by_name(&values);
        for name in ["Deployment my", "Deployment my-worker-mails", "Job my-migrate"] {
            let template = &all[name]["spec"]["template"];
            let spec = &template["spec"];
            assert_eq!(
                (&spec["nodeSelector"]["disk"], &spec["tolerations"][0]["key"]),
                (&json!("ssd"), &json!("a")),
                "{name}"
            );
            assert!(spec["affinity"]["nodeAffinity"].is_object(), "{name}");
            let scraped = !name.starts_with("Job");
            assert_eq!(template["metadata"]["annotations"]["prometheus.io/scrape"] == "true", scraped, "{name}");
            assert!(!scraped || template["metadata"]["annotations"]["checksum/config"].is_string(), "{name}");
            let mounts = containers(spec, "containers")["php"]["volumeMounts"].as_array().unwrap().clone();
            for (volume, path) in [("conf", "/etc/shop"), ("cache", "/cache")] {
                assert!(
                    mounts.iter().any(|mount| mount["name"] == volume && mount["mountPath"] == path),
                    "{runtime} {name}"
                );
                assert!(
                    spec["volumes"].as_array().unwrap().iter().any(|found| found["name"] == volume),
                    "{runtime} {name}"
                );
            }
        }
    }
    let probes =
        json!({"runtime": "image", "probes": {"path": "/ready", "livenessPath": "/alive", "startupSeconds": 60}});
    let php = containers(&pod(&probes), "containers")["php"].clone();
    let path = |probe: &str| php[probe]["httpGet"]["path"].clone();
    assert_eq!(
        (path("readinessProbe"), path("livenessProbe"), path("startupProbe")),
        (json!("/ready"), json!("/alive"), json!("/alive"))
    );
    assert_eq!(php["startupProbe"]["failureThreshold"], 12);
    let hosts = json!({"ingress": {"enabled": true, "host": "a.example.com", "tlsSecret": "t", "extraHosts": [{"name": "b.example.com"}]}});
    let spec = by_name(&hosts)["Ingress my"]["spec"].clone();
    assert_eq!(spec["tls"][0]["hosts"], json!(["a.example.com", "b.example.com"]));
    assert_eq!((spec["rules"].as_array().unwrap().len(), &spec["rules"][1]["host"]), (2, &json!("b.example.com")));
    let volume = |volume: Value| json!({"extraVolumes": [volume]});
    refused(vec![
        (volume(json!({"name": "a", "hostPath": {"path": "/"}})), "hostPath"),
        (volume(json!({"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})), "projected"),
        (volume(json!({"name": "a", "csi": {"driver": "d"}})), "csi"),
        (volume(json!({"name": "a"})), "extraVolumes"),
        (volume(json!({"name": "config", "emptyDir": {}})), "is reserved for the chart"),
        (
            json!({"podAnnotations": {"container.apparmor.security.beta.kubernetes.io/php": "unconfined"}}),
            "weakens the isolation of the application",
        ),
        (json!({"podAnnotations": {"checksum/config": "x"}}), "podAnnotations"),
        (json!({"ingress": {"extraHosts": [{"name": "b"}]}}), "needs ingress.host"),
    ]);
}

/// Where the application has limits, so have the containers beside it.
#[test]
fn containers_beside_the_application_have_resources_where_it_has_some() {
    let of = |values: &Value, container: &str| containers(&pod(values), "containers")[container]["resources"].clone();
    let fpm = |resources: Value| json!({"runtime": "fpm", "resources": resources});
    let before = json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}});
    assert_eq!(of(&fpm(json!({})), "nginx"), before);
    let limits = json!({"limits": {"cpu": 1}});
    assert_eq!(of(&fpm(limits.clone()), "nginx")["limits"], json!({"memory": "64Mi", "cpu": "500m"}));
    let mut own = fpm(limits);
    own["nginx"] = json!({"resources": {"requests": {"cpu": "600m"}}});
    assert_eq!(of(&own, "nginx")["limits"]["cpu"], 1, "it asks for more than the small amount");
    own["nginx"] = json!({"resources": {"limits": {"cpu": "50m"}}});
    assert_eq!(of(&own, "nginx")["limits"]["cpu"], "50m");
}

#[test]
fn the_runtime_follows_from_where_the_code_is() {
    for (values, runtime, names) in [
        (json!({}), "image", vec!["php"]),
        (json!({"image": "shop:1"}), "image", vec!["php"]),
        (json!({"source": {"index.php": "<?php"}}), "builtin", vec!["php"]),
        (json!({"source": {"index.php": "<?php"}, "runtime": "fpm"}), "fpm", vec!["nginx", "php"]),
        (json!({"image": "shop:1", "code": {"path": "/app"}}), "fpm", vec!["nginx", "php"]),
        (git(), "fpm", vec!["nginx", "php"]),
        (json!({"runtime": "apache"}), "apache", vec!["php"]),
    ] {
        let all = by_name(&values);
        assert_eq!(all["Status app"]["fields"]["runtime"]["value"], runtime, "{values}");
        let pod = &all["Deployment my"]["spec"]["template"]["spec"];
        assert_eq!(containers(pod, "containers").into_keys().collect::<Vec<_>>(), names, "{values}");
    }
    let php = |values: Value| containers(&pod(&values), "containers")["php"]["image"].clone();
    assert_eq!(php(json!({"runtime": "fpm"})), "php:8.2-fpm");
    assert_eq!(php(json!({"runtime": "apache"})), "php:8.2-apache");
    assert_eq!(php(json!({"runtime": "fpm", "image": "shop:1"})), "shop:1");
}

fn git() -> Value {
    json!({"code": {"documentRoot": "public", "writable": ["var/cache"], "git": {
        "repository": "https://git.example.com/shop.git", "commit": "0123456789abcdef0123456789abcdef01234567", "secret": "login"}}})
}

#[test]
fn nobody_is_root_and_only_what_must_be_can_be_written() {
    let everything = json!({"runtime": "fpm", "image": "shop:1", "extensions": ["redis"], "code": {"writable": ["var/cache"]},
        "uploads": {"enabled": true, "path": "public/files"}, "backup": {"claimName": "backups"}, "metrics": {"enabled": true, "image": "exporter:1"},
        "workers": [{"name": "mails", "command": ["work"]}], "schedules": [{"name": "tick", "schedule": "@hourly", "command": ["tick"]}],
        "commands": [{"name": "clear", "command": ["clear"]}], "install": {"command": ["i"]}, "migrate": {"command": ["m"]}});
    let all = by_name(&everything);
    let mut pods = 0;
    for (name, object) in &all {
        let Some(pod) =
            ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"].iter().find_map(|at| object.pointer(at))
        else {
            continue;
        };
        pods += 1;
        assert_eq!(
            (&pod["securityContext"]["runAsNonRoot"], &pod["securityContext"]["runAsUser"]),
            (&json!(true), &json!(1000)),
            "{name}"
        );
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        for which in ["initContainers", "containers"] {
            for (container, body) in containers(pod, which) {
                let confined = &body["securityContext"];
                assert_eq!(confined["readOnlyRootFilesystem"], true, "{name} {container}");
                assert_eq!(confined["allowPrivilegeEscalation"], false, "{name} {container}");
                assert_eq!(confined["capabilities"]["drop"], json!(["ALL"]), "{name} {container}");
                // Each mount has its volume.
                for mount in body["volumeMounts"].as_array().unwrap() {
                    let volumes = pod["volumes"].as_array().unwrap();
                    assert!(
                        volumes.iter().any(|volume| volume["name"] == mount["name"]),
                        "{name} {container}: {mount}"
                    );
                }
            }
        }
    }
    // Pages, workers, schedule, command, install, migrate, backup and restore.
    assert_eq!(pods, 8);
    let pod = &all["Deployment my"]["spec"]["template"]["spec"];
    let nginx = &containers(pod, "containers")["nginx"];
    let mounts: Vec<_> =
        nginx["volumeMounts"].as_array().unwrap().iter().map(|mount| mount["mountPath"].as_str().unwrap()).collect();
    assert_eq!(mounts, ["/etc/php-app", "/tmp", "/run/php-app", "/var/www/html", "/var/www/html/public/files"]);
    // nginx' own image has none of the files: they are copied. An image that has nginx needs no copy.
    assert!(containers(pod, "initContainers").contains_key("static"));
    let own = self::pod(&json!({"runtime": "fpm", "image": "shop:1", "nginx": {"image": "shop:1"}}));
    assert_eq!(own["initContainers"], json!([]));
}

#[test]
fn as_many_processes_run_as_the_memory_has_room_for() {
    for (limit, worker, processes) in [
        (json!("128Mi"), "32Mi", 3),
        (json!("1Gi"), "32Mi", 25),
        (json!("1.5Gi"), "64Mi", 19),
        (json!(1_000_000_000), "100M", 8),
        (json!("500M"), "40000k", 10),
        (Value::Null, "32Mi", 10),
    ] {
        let limits = if limit.is_null() { json!({"memory": null}) } else { json!({"memory": limit}) };
        let values = json!({"runtime": "fpm", "resources": {"limits": limits}, "fpm": {"workerMemory": worker}});
        let text = files(&values)["php-fpm.conf"].as_str().unwrap().to_owned();
        assert!(text.contains(&format!("\npm.max_children = {processes}\n")), "{limit} {worker}: {text}");
        let apache = files(&with(&values, &json!({"runtime": "apache"})))["apache2.conf"].as_str().unwrap().to_owned();
        assert!(apache.contains(&format!("\n  MaxRequestWorkers {processes}\n")), "{apache}");
    }
    let given = files(&json!({"runtime": "fpm", "fpm": {"maxChildren": 7, "mode": "static"}}));
    let text = given["php-fpm.conf"].as_str().unwrap();
    assert!(text.contains("pm = static\npm.max_children = 7\npm.max_requests"), "{text}");
}

fn with(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    for (key, value) in more.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

#[test]
fn a_pod_serves_until_it_gets_no_request_and_ends_what_it_has() {
    for (runtime, signals) in [("fpm", vec![("nginx", "QUIT"), ("php", "-QUIT 1")]), ("apache", vec![("php", "WINCH")])]
    {
        let values = json!({"runtime": runtime, "shutdown": {"delaySeconds": 7, "graceSeconds": 40}, "replicas": 3});
        let all = by_name(&values);
        let spec = &all["Deployment my"]["spec"];
        assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxUnavailable": 0, "maxSurge": 1}));
        let pod = &spec["template"]["spec"];
        assert!(pod["terminationGracePeriodSeconds"].as_i64().unwrap() > 47);
        for (name, signal) in signals {
            let ends = &containers(pod, "containers")[name]["lifecycle"]["preStop"]["exec"]["command"];
            assert!(ends.to_string().contains(signal) && ends.to_string().contains("\"7\""), "{name}: {ends}");
        }
    }
    // An image whose server is its own gets the time, once somebody says that it has one.
    assert_eq!(
        containers(&pod(&json!({"runtime": "image"})), "containers")["php"]["lifecycle"]["preStop"]["exec"]["command"],
        json!(["sleep", "5"])
    );
    assert!(containers(&pod(&json!({})), "containers")["php"].get("lifecycle").is_none());
}

#[test]
fn code_of_a_repository_is_fetched_at_its_commit_before_anything_starts() {
    let pod = pod(&git());
    let fetch = &containers(&pod, "initContainers")["code"];
    let words: Vec<_> =
        fetch["command"].as_array().unwrap().iter().skip(3).map(|word| word.as_str().unwrap()).collect();
    assert_eq!(
        words,
        ["code", "https://git.example.com/shop.git", "0123456789abcdef0123456789abcdef01234567", "var/cache"]
    );
    assert!(fetch["volumeMounts"].to_string().contains("/etc/git-secret"));
    let php = &containers(&pod, "containers")["php"];
    assert!(
        !php["volumeMounts"].to_string().contains("git-secret"),
        "the application has no credentials of its repository"
    );
    let code = php["volumeMounts"].as_array().unwrap().iter().find(|mount| mount["name"] == "code").unwrap();
    assert_eq!((&code["mountPath"], &code["readOnly"]), (&json!("/var/www/html"), &json!(true)));
    assert!(files(&git())["nginx.conf"].as_str().unwrap().contains("root /var/www/html/public;"));
}

#[test]
fn jobs_run_once_per_revision_and_commands_when_they_are_asked_for() {
    let values = json!({"runtime": "fpm", "source": {"index.php": "<?php"}, "install": {"command": ["php", "install.php"]}, "migrate": {"command": ["php", "migrate.php"]},
        "commands": [{"name": "clear", "command": ["php", "clear.php"], "timeoutInSecond": 60, "schedule": "@daily"}],
        "workers": [{"name": "mails", "command": ["php", "work.php"], "replicas": 2}],
        "schedules": [{"name": "tick", "schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "command": ["php", "tick.php"]}]});
    let rendered = rendered(&values);
    let events = |name: &str| {
        let hook = rendered.hooks.iter().find(|hook| hook.manifest.name == name).unwrap_or_else(|| panic!("{name}"));
        (hook.events.join(","), hook.weight)
    };
    assert_eq!(events("my-install"), ("pre-install".into(), 0));
    assert_eq!(events("my-migrate"), ("pre-install,pre-upgrade".into(), 1));
    assert_eq!(events("my-hook-config"), ("pre-install,pre-upgrade".into(), -5));
    let all = by_name(&values);
    // The release's own ConfigMaps are not there before the first installation.
    let migrate = &all["Job my-migrate"]["spec"]["template"]["spec"];
    assert_eq!(migrate["volumes"][0]["configMap"]["name"], "my-hook-config");
    assert_eq!(all["ConfigMap my-hook-config"]["data"], all["ConfigMap my-config"]["data"]);
    assert_eq!(all["ConfigMap my-hook-source"]["data"], values["source"]);
    let operation = rendered.unknown.iter().find(|hook| hook.manifest.name == "my-clear").unwrap();
    assert_eq!(operation.events, ["operation/clear"]);
    assert_eq!(all["Job my-clear"]["metadata"]["annotations"]["tillerman.dev/schedule"], "@daily");
    let cron = &all["CronJob my-tick"]["spec"];
    assert_eq!(
        (&cron["concurrencyPolicy"], &cron["timeZone"], &cron["suspend"]),
        (&json!("Forbid"), &json!("Europe/Berlin"), &json!(false))
    );
    assert_eq!(all["Deployment my-worker-mails"]["spec"]["replicas"], 2);
    // Neither the Service nor the Deployment of pages takes one of these pods for its own.
    let selects = all["Service my"]["spec"]["selector"].clone();
    for labels in [
        &all["Deployment my-worker-mails"]["spec"]["template"]["metadata"]["labels"],
        &cron["jobTemplate"]["spec"]["template"]["metadata"]["labels"],
        &all["Job my-migrate"]["spec"]["template"]["metadata"]["labels"],
    ] {
        assert!(selects.as_object().unwrap().iter().any(|(key, value)| labels[key] != *value), "{labels}");
    }

    let closed = with(&values, &json!({"maintenance": {"enabled": true, "message": "back </p><script>"}}));
    let all = by_name(&closed);
    assert_eq!(
        (&all["Deployment my-worker-mails"]["spec"]["replicas"], &all["CronJob my-tick"]["spec"]["suspend"]),
        (&json!(0), &json!(true))
    );
    let page = all["ConfigMap my-config"]["data"]["maintenance.html"].as_str().unwrap();
    assert!(page.contains("back &lt;/p>") && !page.contains("<script"), "{page}");
    let nginx = &containers(&all["Deployment my"]["spec"]["template"]["spec"], "containers")["nginx"];
    assert_eq!(nginx["readinessProbe"]["httpGet"], json!({"path": "/fpm-ping", "port": 8081}));
    // The kubelet looks for a port's name only in the container of the probe, and PHP's has no ports.
    let php = &containers(&all["Deployment my"]["spec"]["template"]["spec"], "containers")["php"];
    assert_eq!(php["livenessProbe"]["httpGet"], json!({"path": "/fpm-ping", "port": 8081}));
    assert_eq!(php["livenessProbe"]["terminationGracePeriodSeconds"], 1);
}

/// The kinds that a cluster with a server of external metrics, or with KEDA, serves.
const EXTERNAL: &str = "external.metrics.k8s.io/v1beta1";
const KEDA: &str = "keda.sh/v1alpha1/ScaledObject";

/// An application with one worker that follows a queue, by a metric or by a trigger.
fn scaled(scale: &Value) -> Value {
    json!({"runtime": "fpm", "workers": [{"name": "mails", "command": ["php", "work.php"], "scale": scale}]})
}

fn by_metric() -> Value {
    json!({"metric": "queue_length", "selector": {"list": "jobs"}, "target": 20, "min": 2, "max": 8})
}

fn by_trigger() -> Value {
    json!({"trigger": {"type": "redis", "metadata": {"listName": "jobs"}, "authentication": "cache"}, "target": 20, "min": 0, "max": 8})
}

/// The objects of a rendering where these kinds are served, by kind and name.
fn served(world: &ChartWorld, values: &Value, kinds: &[&str]) -> BTreeMap<String, Value> {
    let rendered = world.try_render(values, kinds).unwrap_or_else(|error| panic!("{values}: {error}"));
    let status = rendered.unknown.iter().map(|hook| hook.manifest.text.clone());
    let texts = status.chain([rendered.manifest()]);
    let objects = texts.flat_map(|text| parse_manifest(&text).unwrap());
    objects.map(|object| (format!("{} {}", object.gvk.kind, object.name), Value::Object(object.body))).collect()
}

const WORKER: &str = "Deployment my-worker-mails";
const BY_KUBERNETES: &str = "HorizontalPodAutoscaler my-worker-mails";
const BY_KEDA: &str = "ScaledObject my-worker-mails";

/// Which autoscaler there is depends on the cluster. The number of pods is the autoscaler's, and never rendered beside one.
#[test]
fn a_worker_follows_its_queue_by_what_the_cluster_has() {
    for (scale, kinds, scaler, replicas, says) in [
        (by_metric(), vec![], None, json!(2), "has 2 pods: no server of external metrics is registered"),
        (by_metric(), vec![KEDA], None, json!(2), "(APIService v1beta1.external.metrics.k8s.io)"),
        (by_metric(), vec![EXTERNAL, KEDA], Some(BY_KUBERNETES), Value::Null, ""),
        (by_trigger(), vec![], None, json!(1), "has 1 pod: the cluster has no KEDA"),
        (by_trigger(), vec![EXTERNAL], None, json!(1), "install KEDA"),
        (by_trigger(), vec![EXTERNAL, KEDA], Some(BY_KEDA), Value::Null, ""),
    ] {
        let all = served(&world(), &scaled(&scale), &kinds);
        let scalers: Vec<_> = all.keys().filter(|name| [BY_KUBERNETES, BY_KEDA].contains(&name.as_str())).collect();
        assert_eq!(scalers, scaler.into_iter().collect::<Vec<_>>(), "{kinds:?}");
        assert_eq!(all[WORKER]["spec"]["replicas"], replicas, "{kinds:?}");
        let shown = all["Status app"]["fields"]["notScaled"]["value"].as_str().unwrap_or_default();
        assert!(shown.contains(says) && shown.is_empty() == says.is_empty(), "{kinds:?}: {shown}");
    }
    let all = served(&world(), &scaled(&by_metric()), &[EXTERNAL]);
    let spec = &all[BY_KUBERNETES]["spec"];
    assert_eq!(
        spec["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "my-worker-mails"})
    );
    assert_eq!((&spec["minReplicas"], &spec["maxReplicas"]), (&json!(2), &json!(8)));
    assert_eq!(
        spec["metrics"],
        json!([{"type": "External", "external": {
        "metric": {"name": "queue_length", "selector": {"matchLabels": {"list": "jobs"}}}, "target": {"type": "AverageValue", "averageValue": "20"}}}])
    );
    let all = served(&world(), &scaled(&by_trigger()), &[KEDA]);
    let spec = &all[BY_KEDA]["spec"];
    assert_eq!((&spec["minReplicaCount"], &spec["maxReplicaCount"]), (&json!(0), &json!(8)));
    assert_eq!(
        spec["triggers"],
        json!([{"type": "redis", "metadata": {"listName": "jobs", "listLength": "20"},
        "authenticationRef": {"kind": "TriggerAuthentication", "name": "cache"}}])
    );
    // KEDA's webhook refuses a ScaledObject for what a different autoscaler scales, unless that one says this.
    let hpa = &served(&world(), &scaled(&by_metric()), &[EXTERNAL])[BY_KUBERNETES];
    assert_eq!(hpa["metadata"]["annotations"], json!({"validations.keda.sh/hpa-ownership": "false"}));
}

/// An autoscaler of Kubernetes leaves a Deployment with 0 replicas alone, and KEDA is paused. The annotation lets the operator set the number
/// beside an autoscaler, and return from 0.
#[test]
fn no_autoscaler_wakes_a_worker_during_maintenance() {
    for (scale, scaler, paused) in [(by_metric(), BY_KUBERNETES, Value::Null), (by_trigger(), BY_KEDA, json!("0"))] {
        let closed = with(&scaled(&scale), &json!({"maintenance": {"enabled": true}}));
        let all = served(&world(), &closed, &[EXTERNAL, KEDA]);
        assert_eq!(all[WORKER]["spec"]["replicas"], 0);
        assert_eq!(all[WORKER]["metadata"]["annotations"], json!({"tillerman.dev/asleep": "true"}));
        assert_eq!(all[scaler]["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"], paused);
        let open = served(&world(), &scaled(&scale), &[EXTERNAL, KEDA]);
        assert!(open[WORKER]["metadata"]["annotations"].is_null());
        assert!(open[scaler]["metadata"]["annotations"]["autoscaling.keda.sh/paused-replicas"].is_null());
    }
}

/// KEDA connects with its own network and rights, so a custom resource says neither where nor as whom, unless the operator's author allows it.
#[test]
fn a_trigger_says_what_is_counted_and_not_where_keda_connects() {
    let by = |trigger: Value| json!({"trigger": trigger, "target": 5, "max": 3});
    let mut rows = Vec::new();
    for (kind, key) in [
        ("redis", "address"),
        ("redis", "host"),
        ("redis", "addressFromEnv"),
        ("redis", "passwordFromEnv"),
        ("redis", "listLength"),
        ("mysql", "host"),
        ("mysql", "connectionStringFromEnv"),
        ("rabbitmq", "hostFromEnv"),
        ("prometheus", "serverAddress"),
        ("aws-sqs-queue", "identityOwner"),
        ("metrics-api", "url"),
        ("kubernetes-workload", "podSelector"),
    ] {
        rows.push((
            scaled(&by(json!({"type": kind, "metadata": {key: "x"}}))),
            "because KEDA acts on it with its own network",
        ));
    }
    let redis = |more: Value| by(with(&json!({"type": "redis", "metadata": {"listName": "jobs"}}), &more));
    for (more, why) in [
        (json!({"metadata": {}}), "scale.trigger.metadata is empty"),
        (json!({"type": "redis\n"}), "type"),
        (json!({"type": "Redis"}), "type"),
        (json!({"metadata": {"listName": "a\nb"}}), "listName"),
        (json!({"metadata": {"listName": "a".repeat(4097)}}), "listName"),
        (json!({"metadata": {"listName": 1}}), "listName"),
        (json!({"authentication": "../other"}), "authentication"),
        (json!({"authentication": {"name": "a", "kind": "ClusterTriggerAuthentication"}}), "authentication"),
        (json!({"authenticationRef": {"name": "a"}}), "authenticationRef"),
    ] {
        rows.push((scaled(&redis(more)), why));
    }
    let metric = |more: Value| with(&by_metric(), &more);
    for (more, why) in [
        (json!({"metric": "../secrets/x"}), "metric"),
        (json!({"metric": "a/b"}), "metric"),
        (json!({"metric": "datadogmetric@other:queue"}), "metric"),
        (json!({"metric": "a?labelSelector=x"}), "metric"),
        (json!({"metric": ""}), "metric"),
        (json!({"selector": {"a b": "x"}}), "not the key of a label"),
        (json!({"selector": {"a": "x,y"}}), "selector"),
        (json!({"selector": {"a": "x\n"}}), "selector"),
        (json!({"target": 0}), "target"),
        (json!({"target": "20"}), "target"),
        (json!({"max": 0}), "max"),
        (json!({"max": 1_000_000}), "max"),
        (json!({"min": -1}), "min"),
        (json!({"min": 0}), "keeps at least one pod"),
        (json!({"min": 9}), "scale.min is greater than scale.max"),
        (json!({"trigger": {"type": "redis", "metadata": {"listName": "jobs"}}}), "set one of them"),
        (json!({"behavior": {}}), "behavior"),
    ] {
        rows.push((scaled(&metric(more)), why));
    }
    rows.push((scaled(&json!({"target": 1, "max": 2})), "set one of them"));
    rows.push((scaled(&json!({"metric": "a", "max": 2})), "target"));
    rows.push((scaled(&json!({"metric": "a", "target": 2})), "max"));
    let mut both = scaled(&by_metric());
    both["workers"][0]["replicas"] = json!(2);
    rows.push((both, "take out replicas"));
    refused(rows);
    // Of the operator's author.
    let prometheus =
        by(json!({"type": "prometheus", "metadata": {"serverAddress": "http://metrics:9090", "query": "sum(jobs)"}}));
    let allowed = with(&scaled(&prometheus), &json!({"allowedTriggers": ["prometheus/*"]}));
    let trigger = served(&world(), &allowed, &[KEDA])[BY_KEDA]["spec"]["triggers"][0].clone();
    assert_eq!(
        trigger["metadata"],
        json!({"serverAddress": "http://metrics:9090", "query": "sum(jobs)", "threshold": "5"})
    );
    let unknown = by(json!({"type": "cron", "metadata": {"start": "0 6 * * *"}}));
    refused(vec![
        (with(&scaled(&by_trigger()), &json!({"allowedTriggers": ["prometheus/*"]})), "cannot set listName of redis"),
        (
            with(&scaled(&unknown), &json!({"allowedTriggers": ["cron/*"]})),
            "scale.trigger.type must be one of aws-sqs-queue, beanstalkd",
        ),
    ]);
}

#[test]
fn a_database_comes_from_the_cluster_of_the_namespace_or_from_elsewhere() {
    let bound = json!({"runtime": "fpm", "database": {"cluster": "db"}});
    let all = by_name(&bound);
    let php = &containers(&all["Deployment my"]["spec"]["template"]["spec"], "containers")["php"];
    for (name, key) in
        [("DB_HOST", "host"), ("DB_READ_HOST", "read-host"), ("DB_PASSWORD", "password"), ("DB_DATABASE", "database")]
    {
        assert_eq!(variable(php, name)["secretKeyRef"], json!({"name": "db-app-my", "key": key}), "{name}");
    }
    // Only the certificate of the authority, and not the key of the members.
    let volumes = &all["Deployment my"]["spec"]["template"]["spec"]["volumes"];
    let ca = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == "database-ca").unwrap();
    assert_eq!(ca["secret"], json!({"secretName": "db-members-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}));

    // A Job of a revision waits until the account is there; pods do not, so that one more begins while the database is away.
    let bound_job = by_name(&with(&bound, &json!({"migrate": {"command": ["migrate"]}})));
    let names = |object: &str| {
        containers(&bound_job[object]["spec"]["template"]["spec"], "initContainers").into_keys().collect::<Vec<_>>()
    };
    assert!(names("Job my-migrate").contains(&"database".to_owned()));
    assert!(!names("Deployment my").contains(&"database".to_owned()));

    let other = json!({"runtime": "fpm", "database": {"host": "db.example.com", "name": "shop", "secret": "login"}});
    let php = containers(&pod(&other), "containers")["php"].clone();
    assert_eq!(
        (variable(&php, "DB_HOST"), variable(&php, "DB_READ_HOST"), variable(&php, "DB_PORT")),
        (json!("db.example.com"), json!("db.example.com"), json!("3306"))
    );
    assert_eq!(variable(&php, "DB_USERNAME")["secretKeyRef"], json!({"name": "login", "key": "username"}));

    // With a cluster, somebody must have agreed; and the same once they have.
    let kinds = ["databases.tillerman.dev/v1alpha1"];
    let world = world();
    let error = world.try_render(&bound, &kinds).unwrap_err();
    assert!(
        error.contains("the MySQLCluster db must list this application, spec.applications: [{name: my}]"),
        "{error}"
    );
    world.put("Secret", "db-app-my", json!({"kind": "Secret", "data": {"host": "ZGI="}}));
    world.try_render(&bound, &kinds).unwrap();
}

/// New pods have the new password. The annotation says nothing about it: the sum depends on the Secret's UID, too.
#[test]
fn pods_follow_a_changed_password_of_their_database() {
    let sums = |world: &ChartWorld, values: &Value| -> Vec<Value> {
        let manifest = world.render(values).manifest();
        let deployments =
            parse_manifest(&manifest).unwrap().into_iter().filter(|object| &*object.gvk.kind == "Deployment");
        deployments
            .map(|object| object.body["spec"]["template"]["metadata"]["annotations"]["checksum/database"].clone())
            .collect()
    };
    let workers = json!([{"name": "mail", "command": ["php", "mail.php"]}]);
    for runtime in ["fpm", "image"] {
        let bound = json!({"runtime": runtime, "image": "a:1", "database": {"cluster": "db"}, "workers": workers});
        let world = world();
        assert_eq!(sums(&world, &bound), [Value::Null, Value::Null], "{runtime}: there is no Secret");
        let mut seen = Vec::new();
        for (uid, password) in [("a", "x"), ("a", "y"), ("b", "y")] {
            let secret =
                json!({"kind": "Secret", "metadata": {"uid": uid}, "data": {"username": "u", "password": password}});
            world.put("Secret", "db-app-my", secret);
            let now = sums(&world, &bound);
            assert!(now.iter().all(|sum| sum.is_string() && *sum == now[0]), "{runtime}: {now:?}");
            assert!(!seen.contains(&now), "{runtime}: {now:?}");
            seen.push(now);
        }
    }
}

#[test]
fn sessions_mail_and_uploads_are_settings_and_variables() {
    let values = json!({"runtime": "fpm", "redis": {"host": "cache", "tls": true, "secret": "cache", "sessions": true},
        "mail": {"host": "smtp.example.com", "from": "shop@example.com", "secret": "mail", "caSecret": "authority", "sendmail": true},
        "uploads": {"enabled": true, "s3": {"bucket": "files", "secret": "s3"}}});
    let all = by_name(&values);
    let ini = all["ConfigMap my-config"]["data"]["10-app.ini"].as_str().unwrap();
    assert!(
        ini.contains("session.save_path = \"tls://cache:6379?prefix=my-session-&auth=${REDIS_PASSWORD}\""),
        "{ini}"
    );
    assert!(ini.contains("--host=smtp.example.com --port=587") && ini.contains("--tls-starttls=on"), "{ini}");
    assert!(ini.contains("--tls-trust-file=/etc/php-app-mail/ca.crt"), "{ini}");
    assert!(all["Deployment my"].to_string().contains(r#""mountPath":"/etc/php-app-mail""#));
    assert!(!all.contains_key("PersistentVolumeClaim my-uploads"));
    let php = &containers(&all["Deployment my"]["spec"]["template"]["spec"], "containers")["php"];
    assert_eq!(variable(php, "AWS_SECRET_ACCESS_KEY")["secretKeyRef"]["name"], "s3");
    assert_eq!(variable(php, "MAIL_PASSWORD")["secretKeyRef"]["name"], "mail");

    let shared = json!({"runtime": "fpm", "code": {"documentRoot": "public"}, "uploads": {"enabled": true, "path": "public/files"}});
    let all = by_name(&shared);
    assert_eq!(all["PersistentVolumeClaim my-uploads"]["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    let nginx = all["ConfigMap my-config"]["data"]["nginx.conf"].as_str().unwrap();
    assert!(
        nginx.contains(r"location ~* ^/files/.*\.(php|phar|phtml)(/|$) { return 403; }"),
        "what a visitor uploads is not run: {nginx}"
    );
    let one = json!({"runtime": "fpm", "uploads": {"enabled": true, "path": "files", "accessMode": "ReadWriteOnce"}});
    assert_eq!(by_name(&one)["Deployment my"]["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn uploads_are_copied_to_another_volume_by_operations() {
    let values = json!({"runtime": "fpm", "image": "shop:1", "extensions": ["redis"], "uploads": {"enabled": true, "path": "files"},
        "backup": {"claimName": "backups", "path": "a/b", "maxBackups": 3, "schedule": "@daily"}});
    let all = by_name(&values);
    for (operation, folder, argument, schedule) in
        [("backup", "/uploads", "3", json!("@daily")), ("restore", "/backups", "", Value::Null)]
    {
        let job = &all[&format!("Job my-{operation}")];
        assert_eq!(job["metadata"]["annotations"]["helm.sh/hook"], format!("operation/{operation}"));
        assert_eq!(job["metadata"]["annotations"]["tillerman.dev/schedule"], schedule, "a restore has no schedule");
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["initContainers"], json!([]), "a copy needs no extension");
        let copier = &containers(pod, "containers")[operation];
        assert_eq!(copier["command"].as_array().unwrap()[4..], [json!("/backups/a/b"), json!(argument)]);
        assert!(copier.get("env").is_none(), "it gets no password");
        let read_only: Vec<_> =
            copier["volumeMounts"].as_array().unwrap().iter().filter(|m| m["readOnly"] == true).collect();
        assert_eq!((read_only.len(), &read_only[0]["mountPath"]), (1, &json!(folder)));
    }
    assert!(
        !by_name(&json!({"runtime": "fpm", "uploads": {"enabled": true, "path": "files"}}))
            .contains_key("Job my-backup")
    );
}

#[test]
fn routes_policies_and_metrics_are_there_when_they_are_asked_for() {
    let values = json!({"runtime": "fpm", "metrics": {"enabled": true, "image": "exporter:1", "serviceMonitor": {"enabled": true, "labels": {"release": "x"}}},
        "networkPolicy": {"enabled": true, "from": [{"podSelector": {}}]}, "spread": {"hosts": "Require", "zones": "Ignore"},
        "gateway": {"enabled": true, "parentRefs": [{"name": "edge"}], "hostnames": ["shop.example.com"]},
        "autoscaling": {"enabled": true}, "podDisruptionBudget": {"enabled": true}});
    let all = by_name(&values);
    let service = &all["Service my-metrics"];
    for (key, value) in all["ServiceMonitor my"]["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&service["metadata"]["labels"][key], value, "{key}");
    }
    assert!(
        all["Service my"]["metadata"]["labels"].get("app.kubernetes.io/component").is_none(),
        "nothing is scraped twice"
    );
    assert_eq!(all["NetworkPolicy my"]["spec"]["ingress"][0]["from"], json!([{"podSelector": {}}]));
    assert_eq!(all["HTTPRoute my"]["spec"]["rules"][0]["backendRefs"], json!([{"name": "my", "port": 80}]));
    let spec = &all["Deployment my"]["spec"];
    assert!(spec.get("replicas").is_none(), "the autoscaler has them");
    let constraints = spec["template"]["spec"]["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!((constraints.len(), &constraints[0]["whenUnsatisfiable"]), (1, &json!("DoNotSchedule")));
    for container in containers(&spec["template"]["spec"], "containers").into_values() {
        assert!(container["resources"]["requests"]["cpu"].is_string(), "an autoscaler needs it of all: {container}");
    }
}

/// Each is refused, and the message has the place or the reason.
fn refused(rows: Vec<(Value, &str)>) {
    let error = |wrong: &Value| world().try_render(wrong, &[]).err().unwrap_or_else(|| panic!("{wrong} is taken"));
    let other: Vec<String> =
        rows.into_iter().filter_map(|(wrong, why)| Some(error(&wrong)).filter(|error| !error.contains(why))).collect();
    assert!(other.is_empty(), "{}", other.join("\n"));
}

#[test]
fn values_that_cannot_work_together_are_refused_with_the_reason() {
    let uploads = json!({"enabled": true, "path": "files", "accessMode": "ReadWriteOnce"});
    refused(vec![
        (
            json!({"runtime": "fpm", "replicas": 2, "uploads": uploads}),
            "is a volume for one pod, and there are 2 replicas",
        ),
        (
            json!({"runtime": "fpm", "autoscaling": {"enabled": true, "maxReplicas": 4}, "uploads": uploads}),
            "there are 4 replicas",
        ),
        (
            json!({"runtime": "fpm", "workers": [{"name": "a", "command": ["a"]}], "uploads": uploads}),
            "there are workers",
        ),
        (json!({"runtime": "fpm", "uploads": {"enabled": true}}), "needs uploads.path"),
        (json!({"maintenance": {"enabled": true}}), "maintenance needs the runtime fpm or apache"),
        (json!({"runtime": "builtin"}), "serves spec.source, which is empty"),
        (with(&git(), &json!({"runtime": "builtin", "source": {"a.php": ""}})), "runtime builtin is PHP's own server"),
        (with(&git(), &json!({"source": {"a.php": ""}})), "both provide the code"),
        (json!({"code": {"git": {"repository": "https://example.com/a"}}}), "code.git needs the commit"),
        (
            json!({"code": {"git": {"repository": "http://example.com/a", "commit": "0".repeat(40), "secret": "s"}}}),
            "a password is not sent over http",
        ),
        (json!({"database": {"cluster": "db", "host": "x"}}), "set only one of them"),
        (json!({"database": {"host": "x"}}), "database.host needs"),
        (json!({"redis": {"sessions": true}}), "redis.sessions needs redis.host"),
        (json!({"mail": {"host": "x"}}), "mail needs mail.from"),
        (json!({"runtime": "apache", "metrics": {"enabled": true, "image": "x"}}), "metrics needs the runtime fpm"),
        (json!({"runtime": "fpm", "backup": {"claimName": "b"}}), "uploads.enabled is not set"),
        (
            json!({"runtime": "fpm", "uploads": {"enabled": true, "s3": {"bucket": "files"}}, "backup": {"claimName": "b"}}),
            "these are in a bucket",
        ),
        (
            json!({"runtime": "fpm", "uploads": {"enabled": true, "path": "a"}, "backup": {"claimName": "b"}, "commands": [{"name": "backup", "command": ["x"]}]}),
            "is reserved for the chart",
        ),
        (json!({"gateway": {"enabled": true}}), "gateway needs gateway.parentRefs"),
        (json!({"runtime": "fpm", "port": 8081}), "must differ"),
        (json!({"runtime": "fpm", "port": 80}), "no process in the pod runs as root"),
        (json!({"runtime": "fpm", "resources": {"limits": {"memory": "32Mi"}}}), "are less than one process"),
        (json!({"commands": [{"name": "migrate", "command": ["x"]}]}), "is listed twice, or is reserved for the chart"),
        (
            json!({"schedules": [{"name": "a", "schedule": "@daily", "command": ["x"]}], "commands": [{"name": "a", "command": ["x"]}]}),
            "is listed twice",
        ),
        (
            json!({"runtime": "fpm", "code": {"writable": ["files"]}, "uploads": {"enabled": true, "path": "files"}}),
            "files is listed twice",
        ),
    ]);
}

/// What a tenant could write to get a line of their own into a file, another mount, or a word into a script.
#[test]
fn hostile_values_are_refused() {
    let mut rows = Vec::new();
    for folder in ["../../etc", "a/../../b", "/etc", "a b", "a\nb", "a;b", "a{", "a\"b", "$(X)", ".git", "a//b", "a/"] {
        rows.push((json!({"code": {"documentRoot": folder}}), "documentRoot"));
        rows.push((json!({"code": {"writable": [folder]}}), "writable"));
        rows.push((json!({"uploads": {"path": folder}}), "path"));
    }
    for path in ["relative", "/a/../b", "/a\n", "/a; }", "/a\"", "/", "/$(X)"] {
        rows.push((json!({"code": {"path": path}}), "path"));
    }
    for repository in [
        "ext::sh -c id",
        "file:///etc",
        "-u x",
        "https://user:password@example.com/a",
        "https://example.com/a b",
        "https://example.com/a\nb",
        "--upload-pack=id",
        "git@-x:a",
        "ssh://-oProxyCommand=id/a",
        "https://-a/b",
    ] {
        rows.push((json!({"code": {"git": {"repository": repository, "commit": "0".repeat(40)}}}), "repository"));
    }
    for commit in [
        "main",
        "0123456",
        "0123456789ABCDEF0123456789abcdef01234567",
        "--help",
        "0123456789abcdef0123456789abcdef01234567\n",
    ] {
        rows.push((json!({"code": {"git": {"repository": "https://example.com/a", "commit": commit}}}), "commit"));
    }
    for host in ["a b", "a\nb", "a\"", "-a", "a;b", "a/../b", "$(X)", "${X}", "a?auth=x"] {
        rows.push((json!({"redis": {"host": host}}), "host"));
        rows.push((json!({"mail": {"host": host}}), "host"));
        rows.push((json!({"database": {"host": host}}), "host"));
    }
    for (values, at) in [
        (json!({"mail": {"host": "a", "from": "a@b\" -C /x"}}), "from"),
        (json!({"mail": {"host": "a", "from": "a@b;id"}}), "from"),
        (json!({"maxBodySize": "1M;"}), "maxBodySize"),
        (json!({"maxBodySize": "1M\nauto_prepend_file=/x"}), "maxBodySize"),
        (json!({"fpm": {"program": "sh -c"}}), "program"),
        (json!({"fpm": {"mode": "static\nuser=root"}}), "mode"),
        (json!({"fpm": {"workerMemory": "1Mi\n"}}), "workerMemory"),
        (json!({"fpm": {"maxChildren": "1\n"}}), "maxChildren"),
        (json!({"nginx": {"image": "a b"}}), "image"),
        (json!({"nginx": {"workers": "1; load_module x"}}), "workers"),
        (json!({"extensions": ["-r"]}), "extensions"),
        (json!({"extensions": ["a\nb"]}), "extensions"),
        (json!({"extensions": ["$(id)"]}), "extensions"),
        (json!({"env": [{"name": "A=B"}]}), "name"),
        (json!({"env": [{"name": "A\nB"}]}), "name"),
        (json!({"env": [{"name": ""}]}), "name"),
        (json!({"envFrom": [{"secretRef": {"name": "../x"}}]}), "name"),
        (json!({"workers": [{"name": "A_B", "command": ["x"]}]}), "name"),
        (json!({"schedules": [{"name": "a", "schedule": "* * * * *\n", "command": ["x"]}]}), "schedule"),
        (json!({"commands": [{"name": "a/b", "command": ["x"]}]}), "name"),
        (json!({"database": {"cluster": "a/b"}}), "cluster"),
        (json!({"uploads": {"s3": {"endpoint": "https://a b"}}}), "endpoint"),
        (json!({"backup": {"claimName": "b", "path": "../x"}}), "path"),
        (json!({"backup": {"claimName": "b", "restoreFrom": "../x"}}), "restoreFrom"),
        (json!({"maintenance": {"retryAfterSeconds": "1;"}}), "retryAfterSeconds"),
        (json!({"shutdown": {"delaySeconds": "1; id"}}), "delaySeconds"),
        (json!({"runtime": "cgi"}), "runtime"),
        (json!({"hostNetwork": true}), "hostNetwork"),
        (json!({"source": {"lib/a.php": "<?php"}}), "source: lib/a.php has a slash"),
    ] {
        rows.push((values, at));
    }
    refused(rows);
}

/// Programs that end with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // SIGTERM: they end their own children, which a killed one leaves. A stopped one gets it once it continues.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = Command::new("kill").args(["-CONT", &child.id().to_string()]).status();
            let _ = child.wait();
        }
    }
}

/// Starts a program of Debian's as somebody who is not root: PHP-FPM is not run by root without another user.
fn start(folder: &Path, program: &[&str]) -> Child {
    let mut words = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if !std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        words.clear();
    }
    words.extend(program);
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PHP_INI_SCAN_DIR", format!(":{}", folder.display())).current_dir(folder);
    command.spawn().unwrap_or_else(|why| panic!("{}: {why}: make agent installs it", program[0]))
}

fn asked(port: u16, request: &str) -> Result<String, std::io::Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "{request} HTTP/1.1\r\nHost: my\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// PHP-FPM and nginx themselves, with the files of a rendering. Only the folders in which a pod has them are others here.
struct Servers {
    folder: PathBuf,
    port: u16,
    status: u16,
    running: Running,
}

impl Servers {
    /// `pages` are files below the folder of the code.
    fn start(values: &Value, pages: &[(&str, &str)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tillerman-php-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port, status) = (free(), free());
        let values = with(values, &json!({"runtime": "fpm", "port": port, "nginx": {"statusPort": status}}));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let here = folder.display().to_string();
        for (name, text) in files(&values).as_object().unwrap() {
            // Nobody but root may open the files of this process again.
            let places = [
                (" /tmp/", format!(" {here}/run/")),
                ("/var/www/html", format!("{here}/code")),
                ("/run/php-app", format!("{here}/run")),
                ("/etc/php-app", here.clone()),
                ("/dev/stdout", format!("{here}/log")),
                ("/proc/self/fd/2", format!("{here}/log")),
            ];
            let text = text.as_str().unwrap().to_owned();
            write(name, &places.iter().fold(text, |text, (pod, here)| text.replace(pod, here)));
        }
        for (name, text) in pages {
            write(&format!("code/{name}"), text);
        }
        std::fs::create_dir_all(folder.join("run")).unwrap();
        Command::new("chmod").args(["-R", "a+rwX", &here]).status().unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let running = Running(vec![
            start(&folder, &["php-fpm8.2", "--nodaemonize", "--fpm-config", &path("php-fpm.conf")]),
            start(&folder, &["/usr/sbin/nginx", "-c", &path("nginx.conf"), "-g", "daemon off;"]),
        ]);
        Self { folder, port, status, running }
    }

    /// The first page that is answered.
    fn first(&self, page: &str) -> String {
        eventually("a page", || match asked(self.port, page) {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => Ok(answer),
            other => Err(format!("{other:?}")),
        })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(std::mem::replace(&mut self.running, Running(Vec::new())));
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match look() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < end, "{what}: {why}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs nginx and php-fpm8.2: `make agent` installs them"]
fn the_servers_take_their_files_and_serve_pages_but_no_uploads() {
    let page = "<?php echo $_SERVER['HTTPS'] ?? 'plain', ' ', ini_get('upload_max_filesize'), ' ', ini_get('memory_limit'), ' ', $_SERVER['REQUEST_URI'];";
    let values = json!({"code": {"documentRoot": "public"}, "maxBodySize": "9M", "source": {"index.php": page},
        "phpIni": "memory_limit = 77M", "uploads": {"enabled": true, "path": "public/files"}, "ingress": {"enabled": true}});
    let servers = Servers::start(
        &values,
        &[
            ("public/index.php", page),
            ("public/files/a.txt", "of a user"),
            ("public/files/evil.php", "<?php echo 6 * 7, 'x';"),
            ("public/.env", "SECRET=1"),
        ],
    );
    let first = servers.first("GET /some/page?x=1");
    assert!(first.contains("on 9M 77M /some/page?x=1"), "{first}");
    assert!(asked(servers.status, "GET /fpm-ping").unwrap().contains("pong"));
    assert!(asked(servers.port, "GET /files/a.txt").unwrap().ends_with("of a user"));
    for (request, status) in [
        ("GET /files/evil.php", 403),
        ("GET /files/EVIL.php/a", 403),
        ("GET /.env", 404),
        ("GET /missing.php", 404),
        ("GET /fpm-status", 200),
        ("GET /fpm-ping", 200),
    ] {
        let answer = asked(servers.port, request).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
        assert!(
            !answer.contains("42x")
                && !answer.contains("SECRET")
                && !answer.contains("accepted conn")
                && !answer.contains("pong"),
            "{request}: {answer}"
        );
    }
}

/// The kubelet restarts PHP when fpm itself hangs, and not when all of its processes have requests and more wait.
#[test]
#[ignore = "needs nginx and php-fpm8.2: `make agent` installs them"]
fn fpm_answers_the_kubelet_while_all_of_its_processes_are_busy() {
    // The time limit of the probe.
    const LIMIT: Duration = Duration::from_secs(5);
    let page = "<?php if (isset($_GET['wait'])) sleep(12); echo 'page';";
    let servers =
        Servers::start(&json!({"source": {"index.php": page}, "fpm": {"maxChildren": 2}}), &[("index.php", page)]);
    servers.first("GET /");
    let ping = || {
        let asked = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", servers.status)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET /fpm-ping HTTP/1.1\r\nHost: my\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| asked.elapsed()).map_err(|_| answer)
    };
    std::thread::scope(|threads| {
        let clients: Vec<_> =
            (0..40).map(|_| threads.spawn(|| asked(servers.port, "GET /?wait=1").map(|_| ()))).collect();
        // A page finds no free process.
        let busy = eventually("all processes are busy", || {
            let mut stream = TcpStream::connect(("127.0.0.1", servers.port)).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: my\r\nConnection: close\r\n\r\n").unwrap();
            match stream.read_exact(&mut [0]) {
                Err(_) => Ok(Instant::now()),
                Ok(()) => Err("a page is answered".to_owned()),
            }
        });
        // Longer than the idle process of the ping lives.
        while busy.elapsed() < Duration::from_secs(6) {
            let took = ping().expect("fpm answers");
            assert!(took < LIMIT / 2, "{took:?}");
            std::thread::sleep(Duration::from_millis(400));
        }
        // fpm hangs: the process of the last ping may answer once more, and no new one comes.
        let fpm = servers.running.0[0].id().to_string();
        let signal = |name: &str| assert!(Command::new("kill").args([name, &fpm]).status().unwrap().success());
        signal("-STOP");
        eventually("the ping is not answered", || match ping() {
            Err(_) => Ok(()),
            Ok(took) => Err(format!("answered in {took:?}")),
        });
        signal("-CONT");
        eventually("it is answered again", ping);
        assert!(clients.into_iter().all(|client| !client.is_finished() || client.join().is_ok()));
    });
}
