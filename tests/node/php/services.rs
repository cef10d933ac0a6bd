//! What an application uses beside its database: sessions, mail, files of users, an exporter, and who may reach it.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

use super::{Answer, FPM, Stage, request};
use crate::eventually;
use crate::harness::kubectl;
use crate::restore::Gateway;

/// Counts in its session, and sends mail.
const COUNTS: &str = r#"<?php
session_start();
if (isset($_GET['mail'])) exit(mail('ops@example.com', 'From a page', "Sent by PHP.\n") ? 'sent;' : 'refused;');
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
echo 'count ', $_SESSION['count'], '; by ', gethostname(), ';';"#;

/// Stores what it gets, and says who it is.
const STORES: &str = r"<?php
if ($_SERVER['REQUEST_METHOD'] === 'PUT') file_put_contents(__DIR__.'/files/'.basename($_GET['name']), file_get_contents('php://input'));
echo 'by ', gethostname(), ';';";

/// Stores an object in the bucket that its variables name, and reads it back. PHP's curl signs requests (version 4) by itself.
const OBJECT: &str = r"<?php
function ask(string $method, array $more): string
{
    $curl = curl_init(getenv('AWS_ENDPOINT').'/'.getenv('AWS_BUCKET').'/of-a-user.txt');
    curl_setopt_array($curl, $more + [CURLOPT_CUSTOMREQUEST => $method, CURLOPT_RETURNTRANSFER => true,
        CURLOPT_AWS_SIGV4 => 'aws:amz:'.getenv('AWS_DEFAULT_REGION').':s3',
        CURLOPT_USERPWD => getenv('AWS_ACCESS_KEY_ID').':'.getenv('AWS_SECRET_ACCESS_KEY')]);
    $text = curl_exec($curl);
    return curl_getinfo($curl, CURLINFO_RESPONSE_CODE).' '.$text;
}
if (isset($_GET['object'])) {
    echo 'stored ', ask('PUT', [CURLOPT_POSTFIELDS => 'kept in a bucket', CURLOPT_HTTPHEADER => ['Content-Type: text/plain',
        'x-amz-content-sha256: '.hash('sha256', 'kept in a bucket')]]), ';', PHP_EOL;
    echo 'read ', ask('GET', [CURLOPT_HTTPHEADER => ['x-amz-content-sha256: '.hash('sha256', '')]]), ';';
}";

/// A Redis with the password of the Secret `cache`.
pub(super) fn redis() -> Value {
    json!({"containers": [{"name": "redis", "image": "localhost/redis:7.0",
        "command": ["sh", "-c", "exec redis-server --requirepass \"$PASSWORD\" --save '' --protected-mode no --dir /tmp"],
        "env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "cache", "key": "password"}}}],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1}}]})
}

/// Pods with one container each and their Services, of the same names.
pub fn serve(stage: &Stage, pods: &[(&str, Value, &[u16])]) {
    let namespace = stage.place.name();
    let mut items = Vec::new();
    for (name, spec, ports) in pods {
        items.push(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}}, "spec": spec}));
        let ports: Vec<_> = ports.iter().map(|port| json!({"name": format!("port-{port}"), "port": port})).collect();
        items.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"app": name}, "ports": ports}}));
    }
    kubectl(&["create", "-f", "-"], Some(&json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()))
        .unwrap();
    for (name, ..) in pods {
        stage.place.kubectl(&["wait", &format!("pod/{name}"), "--for=condition=Ready", "--timeout=60s"]).unwrap();
    }
}

/// Makes the claim `files` of a volume for many pods. Returns the name of the volume.
pub(super) fn shared_claim(stage: &Stage) -> String {
    let namespace = stage.place.name().to_owned();
    // The node lets everybody write to a folder of this place.
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "storageClassName": "by-hand", "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": format!("/tmp/hostpath_pv/{namespace}"), "type": "DirectoryOrCreate"}}});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "files", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "by-hand", "volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}}});
    kubectl(
        &["create", "-f", "-"],
        Some(&json!({"apiVersion": "v1", "kind": "List", "items": [volume, claim]}).to_string()),
    )
    .unwrap();
    namespace
}

/// Makes an authority and a certificate of it for the Service `mail`: Secrets `mail-server` and `mail-authority`, and the login `mail-login`.
fn mail_secrets(stage: &Stage) {
    const MAKES: &str = "set -e; cd $(mktemp -d); trap 'rm -rf $PWD' EXIT; exec 3>&1 >/dev/null
ec='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 -keyout ca.key -out ca.crt -days 2 -subj /CN=mail $ec
openssl req -keyout tls.key -out tls.csr -subj /CN=mail $ec
echo subjectAltName=DNS:mail >san
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out tls.crt
echo shop:correct-horse >auth
kubectl create secret generic mail-server --from-file=tls.crt --from-file=tls.key --from-file=auth
kubectl create secret generic mail-authority --from-file=ca.crt
kubectl create secret generic mail-login --from-literal=username=shop --from-literal=password=correct-horse
kubectl create secret generic cache --from-literal=password=battery0staple";
    let script = MAKES.replace("kubectl create", &format!("kubectl -n {} create", stage.place.name()));
    let made = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The part of a text between two others.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    text.split(before).nth(1).and_then(|rest| rest.split(after).next()).unwrap_or_else(|| panic!("no {before}: {text}"))
}

/// The names and addresses of the pods of an application.
fn pods(stage: &Stage, app: &str) -> Vec<(String, String)> {
    let labels = format!("app.kubernetes.io/name=php,app.kubernetes.io/instance={app}");
    let list = stage.place.get(&["pods", "-l", &labels, "--field-selector=status.phase=Running"]).unwrap();
    let of = |pod: &Value, at: &str| pod.pointer(at).unwrap().as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(|pod| (of(pod, "/metadata/name"), of(pod, "/status/podIP"))).collect()
}

/// Sessions outlive the pods that began them, in a Redis with a password; `mail()` reaches a server that wants TLS and a login.
#[test]
fn sessions_are_in_redis_and_mail_arrives() {
    let stage = Stage::new("php-services");
    mail_secrets(&stage);
    let mail = json!({"securityContext": {"fsGroup": 65532}, "volumes": [{"name": "server", "secret": {"secretName": "mail-server"}}, {"name": "tmp", "emptyDir": {}}],
        "containers": [{"name": "mailpit", "image": "localhost/mailpit:test", "readinessProbe": {"tcpSocket": {"port": 1025}, "periodSeconds": 1},
            "args": ["--smtp-auth-file=/server/auth", "--smtp-tls-cert=/server/tls.crt", "--smtp-tls-key=/server/tls.key", "--smtp-require-starttls",
                "--smtp-disable-rdns", "--disable-version-check"],
            "volumeMounts": [{"name": "server", "mountPath": "/server"}, {"name": "tmp", "mountPath": "/tmp"}]}]});
    serve(&stage, &[("cache", redis(), &[6379]), ("mail", mail, &[1025, 8025])]);
    let by = json!({"host": "mail", "port": 1025, "from": "shop@example.com", "secret": "mail-login", "caSecret": "mail-authority", "sendmail": true});
    stage.app("shop", &json!({"runtime": "fpm", "replicas": 2, "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": COUNTS},
        "extensions": ["redis"], "probes": {"periodSeconds": 1}, "redis": {"host": "cache", "secret": "cache", "sessions": true}, "mail": by}));
    stage.is_ready("shop");
    let first = stage.page("shop", "/");
    assert!(first.text.contains("count 1;"), "{first:?}");
    let session = format!("Cookie: PHPSESSID={}\r\n", between(&first.text, "PHPSESSID=", ";"));
    let address = format!("{}:80", stage.address("shop"));
    let mut count = 1;
    let mut ask = || {
        let answer = request(&address, "GET / HTTP/1.1", &session, "").unwrap();
        count += 1;
        assert!(answer.status == 200 && answer.text.contains(&format!("count {count};")), "{count}: {answer:?}");
        between(&answer.text, "; by ", ";").to_owned()
    };
    let mut hosts = BTreeSet::new();
    eventually("both pods have had the session", || {
        hosts.insert(ask());
        if hosts.len() == 2 { Ok(()) } else { Err(format!("{hosts:?}")) }
    });
    stage
        .place
        .kubectl(&["delete", "pods", "-l", "app.kubernetes.io/name=php,app.kubernetes.io/instance=shop"])
        .unwrap();
    stage.is_ready("shop");
    stage.page("shop", "/");
    let later = ask();
    assert!(!hosts.contains(&later), "{later} is one of {hosts:?}");
    eprintln!("a session of {count} requests on pods {hosts:?} and {later}");

    assert!(stage.page("shop", "/?mail=1").text.contains("sent;"));
    let messages =
        request(&format!("{}:8025", stage.address("mail")), "GET /api/v1/messages HTTP/1.0", "", "").unwrap();
    for part in ["\"From a page\"", "shop@example.com", "ops@example.com", "Sent by PHP.", "\"total\":1"] {
        assert!(messages.text.contains(part), "{part}: {messages:?}");
    }
    // The server's certificate counts: the authorities of the image do not know it.
    stage.patch("shop", &json!({"mail": {"caSecret": ""}}));
    stage.is_ready("shop");
    eventually("mail is refused to a server that nobody vouches for", || {
        let answer = request(&address, "GET /?mail=1 HTTP/1.1", "", "")?;
        if answer.text.contains("refused;") { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    stage.had_its_rights();
}

/// Pods share a folder, whose files are served and never run, by both servers; a volume for one pod goes from one to the next.
#[test]
fn uploads_are_shared_and_never_run() {
    let stage = Stage::new("php-uploads");
    let volume = shared_claim(&stage);
    let shared = json!({"enabled": true, "path": "files", "existingClaim": "files"});
    let plain =
        json!({"image": FPM, "nginx": {"image": FPM}, "source": {"index.php": STORES}, "probes": {"periodSeconds": 1}});
    let with = |more: Value| {
        let mut spec = plain.clone();
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    stage.app("fpm", &with(json!({"runtime": "fpm", "replicas": 2, "uploads": shared})));
    stage.app("apache", &with(json!({"runtime": "apache", "image": "localhost/php-apache:8.2", "uploads": shared})));
    let one =
        json!({"enabled": true, "path": "files", "accessMode": "ReadWriteOnce", "size": "1Gi", "onDelete": "Delete"});
    stage.app("one", &with(json!({"runtime": "fpm", "uploads": one})));
    for app in ["fpm", "apache", "one"] {
        stage.is_ready(app);
    }
    let put = |ip: &str, name: &str, text: &str| {
        let head = format!("Content-Length: {}\r\n", text.len());
        let answer =
            request(&format!("{ip}:8080"), &format!("PUT /index.php?name={name} HTTP/1.1"), &head, text).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    let get = |ip: &str, path: &str| request(&format!("{ip}:8080"), &format!("GET {path} HTTP/1.1"), "", "").unwrap();
    let both = pods(&stage, "fpm");
    let [(first, writer), (second, reader)] = both.as_slice() else { panic!("{both:?}") };
    put(writer, "a.txt", "of a user");
    put(writer, "evil.php", "<?php echo 6 * 7, 'x';");
    put(writer, "EVIL.PHP", "<?php echo 6 * 7, 'x';");
    let (_, apache) = pods(&stage, "apache").remove(0);
    for (name, ip) in [("the other pod", reader), ("apache", &apache)] {
        let answer = get(ip, "/files/a.txt");
        assert!(answer.status == 200 && answer.text.ends_with("of a user"), "{name}: {answer:?}");
        for path in
            ["/files/evil.php", "/files/EVIL.PHP", "/files/evil.php/a.txt", "/files/evil.php?x=1", "/files//evil.php"]
        {
            let answer = get(ip, path);
            assert!(
                answer.status == 403 && !answer.text.contains("42x") && !answer.text.contains("<?php"),
                "{name} {path}: {answer:?}"
            );
        }
    }
    eprintln!("{first} wrote, {second} and apache read, and ran nothing");

    let (before, ip) = pods(&stage, "one").remove(0);
    put(&ip, "kept.txt", "of one pod");
    stage.patch("one", &json!({"env": [{"name": "REVISION", "value": "2"}]}));
    stage.is_ready("one");
    let after = eventually("one pod is left", || match pods(&stage, "one").as_slice() {
        [one] if one.0 != before => Ok(one.clone()),
        others => Err(format!("{others:?}")),
    });
    assert!(get(&after.1, "/files/kept.txt").text.ends_with("of one pod"));
    stage.patch("one", &json!({"replicas": 2}));
    stage.ready("phpapp", "one", |condition| {
        condition["message"].as_str().unwrap_or_default().contains("is a volume for one pod, and there are 2 replicas")
    });
    assert!(get(&after.1, "/files/kept.txt").text.ends_with("of one pod"), "what is deployed stays");
    stage.had_its_rights();
    stage.place.kubectl(&["delete", "phpapps", "--all", "--timeout=90s"]).unwrap();
    let _ = kubectl(&["delete", "pv", &volume, "--wait=false"], None);
}

#[test]
fn an_application_finds_its_bucket_in_its_variables() {
    let stage = Stage::new("php-bucket");
    let gateway = Gateway::start();
    let keys = ["--from-literal=AWS_ACCESS_KEY_ID=the-key", "--from-literal=AWS_SECRET_ACCESS_KEY=the-secret-key"];
    stage.place.kubectl(&["create", "secret", "generic", "bucket", keys[0], keys[1]]).unwrap();
    stage.app("shop", &json!({"runtime": "fpm", "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": OBJECT}, "extensions": ["curl"],
        "uploads": {"enabled": true, "s3": {"bucket": "backups", "endpoint": gateway.url(), "forcePathStyle": true, "secret": "bucket"}}}));
    stage.is_ready("shop");
    let answer: Answer = stage.page("shop", "/?object=1");
    assert!(answer.text.contains("stored 200 ;") && answer.text.contains("read 200 kept in a bucket;"), "{answer:?}");
    assert_eq!(std::fs::read_to_string(gateway.folder().join("backups/of-a-user.txt")).unwrap(), "kept in a bucket");
    assert!(stage.place.kubectl(&["get", "pvc", "-o", "name"]).unwrap().is_empty());
    stage.had_its_rights();
}

/// One exporter in each pod, behind a Service of their own, counts what its pool has answered.
#[test]
fn an_exporter_counts_what_each_pool_answers() {
    // The exporter itself asks once a second, and is counted: these are more than it makes while the test waits.
    const REQUESTS: u32 = 400;
    let stage = Stage::new("php-metrics");
    stage.app("shop", &json!({"runtime": "fpm", "replicas": 2, "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": "<?php echo 'shop';"},
        "metrics": {"enabled": true, "image": "localhost/php-fpm-exporter:test", "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}}}}));
    stage.is_ready("shop");
    // What a ServiceMonitor selects has a port of this name, and both pods behind it.
    let monitor = stage.place.get(&["servicemonitor", "shop"]).unwrap();
    let labels = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
    let services = stage.place.get(&["services", "-l", &labels.join(",")]).unwrap();
    assert_eq!(
        (services["items"].as_array().unwrap().len(), &services["items"][0]["spec"]["ports"][0]["name"]),
        (1, &json!("metrics"))
    );
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], "metrics");
    let accepted = |ip: &str| -> Result<f64, String> {
        let text = request(&format!("{ip}:9253"), "GET /metrics HTTP/1.1", "", "")?.text;
        let line = text.lines().find(|line| line.starts_with("phpfpm_accepted_conn{") && line.contains("pool=\"www\""));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).ok_or(text)
    };
    for (name, ip) in pods(&stage, "shop") {
        let before = eventually("the exporter has read the pool", || accepted(&ip));
        for _ in 0..REQUESTS {
            assert_eq!(request(&format!("{ip}:8080"), "GET / HTTP/1.1", "", "").unwrap().status, 200);
        }
        let after = eventually("it has counted the requests", || {
            accepted(&ip).and_then(|now| {
                if now >= before + f64::from(REQUESTS) { Ok(now) } else { Err(format!("{before}, and {now} now")) }
            })
        });
        eprintln!("{name}: {before} requests, and {after} after {REQUESTS} more");
    }
    stage.had_its_rights();
}

/// The API server takes all of it, the operator has the rights, and controllers find what is meant. No controller for Ingresses or routes runs
/// here, and this node's network does not enforce policies.
#[test]
fn routes_policies_and_the_autoscaler_are_admitted_and_point_at_the_application() {
    let stage = Stage::new("php-routes");
    stage.app(
        "shop",
        &json!({"runtime": "fpm", "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": "<?php echo 'shop';"},
        "ingress": {"enabled": true, "className": "edge", "host": "shop.example.com", "tlsSecret": "shop-tls"},
        "gateway": {"enabled": true, "parentRefs": [{"name": "edge"}], "hostnames": ["shop.example.com"]},
        "networkPolicy": {"enabled": true, "from": [{"podSelector": {"matchLabels": {"app": "edge"}}}]},
        "autoscaling": {"enabled": true, "minReplicas": 2, "maxReplicas": 4}, "podDisruptionBudget": {"enabled": true},
        "workers": [{"name": "loop", "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]}]}),
    );
    stage.is_ready("shop");
    let at = |object: &[&str], path: &str| stage.place.get(object).unwrap().pointer(path).cloned().unwrap_or_default();
    assert_eq!(at(&["ingress", "shop"], "/spec/rules/0/http/paths/0/backend/service/name"), "shop");
    assert_eq!(at(&["ingress", "shop"], "/spec/tls/0/secretName"), "shop-tls");
    assert_eq!(at(&["httproutes.gateway.networking.k8s.io", "shop"], "/spec/rules/0/backendRefs/0/name"), "shop");
    assert_eq!(at(&["networkpolicy", "shop"], "/spec/ingress/0/from/0/podSelector/matchLabels/app"), "edge");
    // The policy for workers and Jobs means the pods that it names.
    let matches = "app.kubernetes.io/instance=shop,app.kubernetes.io/name in (php-worker, php-job)";
    assert_eq!(at(&["pods", "-l", matches], "/items/0/metadata/labels/app.kubernetes.io~1component"), "loop");
    // The autoscaler's controller has found the Deployment, and brought it to the least number without any metrics.
    eventually("the autoscaler scales its target", || {
        let scaler = stage.place.get(&["hpa", "shop"])?;
        let conditions = scaler["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let able =
            conditions.iter().any(|condition| condition["type"] == "AbleToScale" && condition["status"] == "True");
        let replicas = at(&["deployment", "shop"], "/spec/replicas");
        if able && replicas == 2 { Ok(()) } else { Err(format!("{replicas}: {}", scaler["status"])) }
    });
    stage.is_ready("shop");
    eventually("the budget counts both pods", || {
        let budget = stage.place.get(&["pdb", "shop"])?["status"].clone();
        if budget["currentHealthy"] == 2 && budget["disruptionsAllowed"] == 1 {
            Ok(())
        } else {
            Err(budget.to_string())
        }
    });
    assert!(stage.page("shop", "/").text.contains("shop"));
    stage.had_its_rights();
}
