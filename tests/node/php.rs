//! PHP applications and sites of `WordPress` on real pods, with the charts charts/php, charts/wordpress and charts/mysql: the operator is a project that `tillerman init` and `create api`
//! make of them (php-operator.sh), as a pod with the rights of the project. Images are of Debian's packages (php-images.sh).

mod queue;
mod services;
mod wordpress;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::harness::{cluster_dir, kubectl};
use crate::support::rows::{numbers, reached};
use crate::{Place, eventually, forbidden};

/// The namespace of the operator, and its account.
const OPERATOR: (&str, &str) = ("stack-operator-system", "stack-operator-controller-manager");
/// Has fpm, nginx and git.
const FPM: &str = "localhost/php-fpm:8.2";

/// A namespace with applications, which is shown when a test fails.
struct Stage {
    place: Place,
    audited: usize,
}

impl Stage {
    fn new(test: &str) -> Self {
        let audited = std::fs::metadata(cluster_dir().join("log/audit.log")).unwrap().len();
        Self { place: Place::new(test), audited: usize::try_from(audited).unwrap() }
    }

    fn create(&self, kind: (&str, &str), name: &str, spec: &Value) {
        let body = json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name, "namespace": self.place.name()}, "spec": spec});
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    }

    fn app(&self, name: &str, spec: &Value) {
        self.create(("apps.tillerman.dev/v1alpha1", "PhpApp"), name, spec);
    }

    /// A database with these applications.
    fn database(&self, replicas: u32, applications: &[&str]) {
        let applications: Vec<_> = applications.iter().map(|name| json!({"name": name})).collect();
        let spec = json!({"replicas": replicas, "image": "localhost/mariadb:10.11.19", "agentImage": "localhost/tillerman-agent:test",
            "storage": {"size": "1Gi", "onDelete": "Delete"}, "applications": applications});
        self.create(("databases.tillerman.dev/v1alpha1", "MySQLCluster"), "db", &spec);
    }

    fn patch(&self, name: &str, spec: &Value) {
        let patch = json!({"spec": spec}).to_string();
        self.place.kubectl(&["patch", "phpapp", name, "--type=merge", "-p", &patch]).unwrap();
    }

    /// Waits until the condition Ready of a custom resource, for its present spec, fits.
    fn ready(&self, kind: &str, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("Ready of {kind} {name}"), || {
            let app = self.place.get(&[kind, name])?;
            let conditions = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|condition| condition["type"] == "Ready");
            let current = app["status"]["observedGeneration"] == app["metadata"]["generation"];
            found.filter(|found| current && fits(found)).ok_or_else(|| app["status"].to_string())
        })
    }

    fn is_ready(&self, name: &str) {
        self.ready("phpapp", name, |condition| condition["status"] == "True");
    }

    /// The address of a Service, which can be reached from here.
    fn address(&self, service: &str) -> String {
        self.place.get(&["service", service]).unwrap()["spec"]["clusterIP"].as_str().unwrap().to_owned()
    }

    /// Waits until a page is there: kube-proxy has the rules of a Service a moment after its pods are ready.
    fn page(&self, service: &str, path: &str) -> Answer {
        let address = self.address(service);
        eventually(&format!("{service}{path}"), || match get(&address, service, path) {
            Ok(answer) if answer.status != 503 && answer.status != 502 => Ok(answer),
            other => Err(format!("{other:?}")),
        })
    }

    /// One number out of the database of an application.
    async fn number(&self, statement: &str) -> u64 {
        let secret = self.place.get(&["secret", "db-root"]).unwrap();
        let password = BASE64.decode(secret["data"]["password"].as_str().unwrap()).unwrap();
        let at = reached(&self.address("db-primary"), "root", &String::from_utf8(password).unwrap());
        numbers(&at, statement).await[0]
    }

    /// The operator was refused nothing.
    fn had_its_rights(&self) {
        assert_eq!(
            forbidden(OPERATOR.0, OPERATOR.1, self.audited),
            BTreeSet::new(),
            "the rights of the project suffice"
        );
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for what in ["phpapps,wordpresses,mysql,deployments,jobs,pods", "events"] {
                eprintln!("{}", self.place.kubectl(&["get", what, "-o", "wide"]).unwrap_or_else(|why| why));
            }
            let log = ["logs", "-l", "app.kubernetes.io/managed-by=Helm", "--all-containers", "--prefix", "--tail=20"];
            eprintln!("{}", self.place.kubectl(&log).unwrap_or_else(|why| why));
        } else {
            let _ = self.place.kubectl(&["delete", "wordpresses,phpapps,mysqlclusters", "--all", "--timeout=90s"]);
        }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    text: String,
}

/// A page of a Service.
fn get(address: &str, host: &str, path: &str) -> Result<Answer, String> {
    request(&format!("{address}:80"), &format!("GET {path} HTTP/1.1"), &format!("Host: {host}\r\n"), "")
}

/// One request on a connection of its own: its first line, more lines of its head, and what it brings.
fn request(address: &str, line: &str, head: &str, body: &str) -> Result<Answer, String> {
    let why = |error: std::io::Error| error.to_string();
    let at = address.parse().unwrap();
    let host = if head.contains("Host: ") { "" } else { "Host: localhost\r\n" };
    let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5)).map_err(why)?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).map_err(why)?;
    write!(stream, "{line}\r\n{host}{head}Connection: close\r\n\r\n{body}").map_err(why)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map_err(why)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status =
        text.split(' ').nth(1).and_then(|word| word.parse().ok()).ok_or_else(|| format!("no answer: {text:?}"))?;
    Ok(Answer { status, text })
}

/// Clients that ask for a page all the time, and count what came.
struct Load {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// `what` makes of an answer what is counted.
    fn start(address: &str, host: &str, clients: usize, what: fn(Answer) -> String) -> Self {
        let (address, host) = (address.to_owned(), host.to_owned());
        Self::of(clients, move |_| get(&address, &host, "/").map_or_else(|why| format!("failed: {why}"), what))
    }

    /// `ask` gets the number of the client, and returns what is counted.
    fn of(clients: usize, ask: impl Fn(usize) -> String + Clone + Send + 'static) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeMap::new())));
        let client = |number| {
            let (stop, seen, ask) = (stop.clone(), seen.clone(), ask.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let counted = ask(number);
                    *seen.lock().unwrap().entry(counted).or_default() += 1;
                }
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stop, seen, clients }
    }

    fn count(&self, what: &str) -> u64 {
        self.seen.lock().unwrap().get(what).copied().unwrap_or_default()
    }

    fn stop(self) -> BTreeMap<String, u64> {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
        self.seen.lock().unwrap().clone()
    }
}

/// A page that takes a while, so that each pod that ends has requests in the making.
const SLOW: &str = "<?php usleep(200000); echo 'revision ', getenv('REVISION'), ';';";

/// New pods come and old ones go, three times, and each of the clients' requests is answered.
#[test]
fn a_plain_page_is_rolled_under_load_without_a_failed_answer() {
    let stage = Stage::new("php-roll");
    let revision = |number: usize| json!([{"name": "REVISION", "value": number.to_string()}]);
    for (name, runtime, image) in [("fpm", "fpm", FPM), ("apache", "apache", "localhost/php-apache:8.2")] {
        stage.app(name, &json!({"runtime": runtime, "replicas": 2, "image": image, "nginx": {"image": FPM}, "fpm": {"maxChildren": 6},
            "source": {"index.php": SLOW}, "probes": {"periodSeconds": 1}, "env": revision(1)}));
    }
    for name in ["fpm", "apache"] {
        stage.is_ready(name);
        let first = stage.page(name, "/");
        assert!(first.status == 200 && first.text.contains("revision 1;"), "{first:?}");
        let shown = |answer: Answer| {
            let after = answer.text.split("revision ").nth(1).unwrap_or_default();
            format!("{} {}", answer.status, after.split(';').next().unwrap_or_default())
        };
        let load = Load::start(&stage.address(name), name, 6, shown);
        for number in 1..4 {
            if number > 1 {
                stage.patch(name, &json!({"env": revision(number)}));
            }
            eventually("the new pods answer", || {
                let answered = load.count(&format!("200 {number}"));
                if answered > 50 { Ok(()) } else { Err(format!("{answered} answers")) }
            });
            stage.is_ready(name);
            let labels = format!("app.kubernetes.io/name=php,app.kubernetes.io/instance={name}");
            eventually("the old pods have gone", || {
                let pods = stage.place.get(&["pods", "-l", &labels])?["items"].as_array().map_or(0, Vec::len);
                if pods == 2 { Ok(()) } else { Err(format!("{pods} pods")) }
            });
        }
        let seen = load.stop();
        eprintln!("{name}: {seen:?}");
        let others: Vec<_> = seen.keys().filter(|what| !["200 1", "200 2", "200 3"].contains(&what.as_str())).collect();
        assert!(others.is_empty(), "{name}: {seen:?}");
    }
    stage.had_its_rights();
}

/// Requests that take longer than the probe waits, more than there are processes for; then fpm itself stops.
#[test]
fn the_kubelet_restarts_an_fpm_that_hangs_and_not_one_that_is_busy() {
    const WAITS: &str = "<?php if (isset($_GET['wait'])) sleep(15); echo 'page';";
    let stage = Stage::new("php-alive");
    stage.app(
        "shop",
        &json!({"runtime": "fpm", "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": WAITS},
        "fpm": {"maxChildren": 2}, "probes": {"periodSeconds": 1, "failureThreshold": 1}}),
    );
    stage.is_ready("shop");
    assert!(stage.page("shop", "/").text.contains("page"));
    let pod = || {
        let pods = stage.place.get(&["pods", "-l", "app.kubernetes.io/name=php,app.kubernetes.io/instance=shop"])?;
        let pod = pods["items"][0].clone();
        let all = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let php = all.into_iter().find(|container| container["name"] == "php").ok_or("the pod has no container php")?;
        Ok::<_, String>((pod, php["restartCount"].as_u64().unwrap()))
    };
    let (first, _) = pod().unwrap();
    let ip = first["status"]["podIP"].as_str().unwrap().to_owned();
    std::thread::scope(|threads| {
        let wait = || request(&format!("{ip}:8080"), "GET /?wait=1 HTTP/1.1", "", "");
        let clients: Vec<_> = (0..6).map(|_| threads.spawn(wait)).collect();
        eventually("the busy pod is not ready", || {
            let conditions = pod()?.0["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
            if ready { Err("it is ready") } else { Ok(()) }.map_err(str::to_owned)
        });
        // Each of them has given up, or has its answer, after 20 seconds: the probe has run as often.
        let answered = clients.into_iter().filter_map(|client| client.join().unwrap().ok()).count();
        assert!(answered > 0);
    });
    assert_eq!(pod().unwrap().1, 0, "a busy fpm is restarted");
    stage.is_ready("shop");
    let uid = first["metadata"]["uid"].as_str().unwrap();
    let stop = format!(
        "for p in $(pgrep -f 'php-fpm: master'); do if grep -q -e '{uid}' -e '{}' /proc/$p/cgroup /proc/$p/mountinfo; then kill -STOP $p && found=1; fi; done; [ -n \"$found\" ]",
        uid.replace('-', "_")
    );
    assert!(std::process::Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    eventually("fpm is restarted", || match pod()? {
        (_, 0) => Err("it is not".to_owned()),
        _ => Ok(()),
    });
    let events = stage.place.kubectl(&["get", "events"]).unwrap();
    assert!(events.contains("Container php failed liveness probe, will be restarted"), "{events}");
    stage.is_ready("shop");
    assert!(stage.page("shop", "/").text.contains("page"));
    stage.had_its_rights();
}

#[test]
fn what_an_image_lacks_is_said_and_maintenance_closes_the_pages() {
    let stage = Stage::new("php-say");
    stage.app("lacks", &json!({"runtime": "fpm", "image": FPM, "nginx": {"image": FPM}, "source": {"index.php": SLOW}, "extensions": ["pdo_mysql", "imagick"]}));
    stage.ready("phpapp", "lacks", |condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        condition["status"] == "False" && message.contains("container extensions ended with exit code 1")
    });
    let pods = ["logs", "-l", "app.kubernetes.io/instance=lacks", "-c", "extensions"];
    let log = stage.place.kubectl(&pods).unwrap();
    assert!(log.contains("The image localhost/php-fpm:8.2 lacks extensions of PHP: imagick. Add them"), "{log}");
    stage.patch("lacks", &json!({"extensions": ["pdo_mysql", "Zend OPcache"]}));
    stage.is_ready("lacks");
    assert_eq!(stage.page("lacks", "/").status, 200);
    stage.patch("lacks", &json!({"maintenance": {"enabled": true, "message": "back at noon"}}));
    stage.is_ready("lacks");
    let address = stage.address("lacks");
    eventually("the pages are closed", || {
        let answer = get(&address, "lacks", "/index.php")?;
        let closed =
            answer.status == 503 && answer.text.contains("back at noon") && answer.text.contains("Retry-After: 120");
        if closed { Ok(()) } else { Err(format!("{answer:?}")) }
    });
    stage.had_its_rights();
}

/// Of a repository with two commits, the first; and a different image serves files that are not PHP.
#[test]
fn code_comes_from_a_repository_at_its_commit() {
    const SERVES: &str = "set -e
export HOME=/tmp GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
git config --global user.email a@example.com; git config --global user.name a
git init -q -b main /tmp/work; cd /tmp/work; mkdir public
echo '<?php echo \"first\";' >public/index.php; echo text >public/page.txt; git add .; git commit -qm first; git rev-parse HEAD
echo '<?php echo \"second\";' >public/index.php; git commit -qam second
git clone -q --bare /tmp/work /tmp/srv/app.git; cd /tmp/srv/app.git; git update-server-info
exec php -S 0.0.0.0:8080 -t /tmp/srv";
    let stage = Stage::new("php-git");
    let body = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "git", "namespace": stage.place.name(), "labels": {"app": "git"}},
         "spec": {"containers": [{"name": "git", "image": FPM, "command": ["sh", "-c", SERVES]}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "git", "namespace": stage.place.name()},
         "spec": {"selector": {"app": "git"}, "ports": [{"port": 80, "targetPort": 8080}]}},
    ]});
    kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    let commit = eventually("the repository is served", || {
        let text = stage.place.kubectl(&["logs", "git"])?;
        text.lines().next().filter(|line| line.len() == 40).map(str::to_owned).ok_or(text)
    });
    let code =
        json!({"documentRoot": "public", "git": {"repository": "http://git/app.git", "commit": commit, "image": FPM}});
    stage.app("app", &json!({"image": FPM, "nginx": {"image": FPM}, "code": code}));
    stage.is_ready("app");
    let page = stage.page("app", "/");
    assert!(page.status == 200 && page.text.contains("first"), "{page:?}");
    assert!(stage.page("app", "/page.txt").text.contains("text"));
    assert_eq!(stage.page("app", "/.git/config").status, 404);
    stage.had_its_rights();
}

/// Debian's package, unchanged: its schema, its user and its installation are made once for two pods.
#[tokio::test(flavor = "multi_thread")]
async fn wordpress_is_installed_once_on_the_database_that_it_is_bound_to() {
    let stage = Stage::new("php-wordpress");
    stage.app(
        "blog",
        &json!({"replicas": 2, "image": "localhost/wordpress:6.1", "nginx": {"image": "localhost/wordpress:6.1"},
        "code": {"path": "/usr/share/wordpress"}, "extensions": ["mysqli"], "database": {"cluster": "db"},
        "resources": {"limits": {"memory": "256Mi"}}, "probes": {"path": "/readme.html", "periodSeconds": 1},
        "install": {"command": ["php", "/usr/local/share/install.php", "blog"]}}),
    );
    stage.ready("phpapp", "blog", |condition| condition["reason"] == "DependencyNotReady");
    stage.database(1, &[]);
    stage.ready("phpapp", "blog", |condition| {
        condition["message"]
            .as_str()
            .unwrap_or_default()
            .contains("must list this application, spec.applications: [{name: blog}]")
    });
    let agreed = json!({"spec": {"applications": [{"name": "blog"}]}}).to_string();
    stage.place.kubectl(&["patch", "mysqlcluster", "db", "--type=merge", "-p", &agreed]).unwrap();
    stage.is_ready("blog");
    let page = stage.page("blog", "/");
    assert!(page.status == 200 && page.text.contains("A blog"), "{page:?}");
    assert!(stage.page("blog", "/wp-login.php").text.contains("user_login"));
    assert_eq!(stage.number("SELECT COUNT(*) FROM blog.installs").await, 1);
    // Another revision installs nothing.
    stage.patch("blog", &json!({"replicas": 3}));
    stage.is_ready("blog");
    assert_eq!(stage.number("SELECT COUNT(*) FROM blog.installs").await, 1);
    stage.had_its_rights();
}

/// An application on Symfony, whose autoloader Composer makes: its migration runs once per revision, and a primary that is replaced is followed.
#[tokio::test(flavor = "multi_thread")]
async fn symfony_migrates_once_per_revision_and_follows_the_primary() {
    let stage = Stage::new("php-symfony");
    stage.database(2, &["shop"]);
    stage.app("shop", &json!({"replicas": 2, "image": "localhost/symfony:5.4", "nginx": {"image": FPM},
        "code": {"path": "/app", "documentRoot": "public", "writable": ["var"]}, "extensions": ["pdo_mysql"], "database": {"cluster": "db"},
        "env": [{"name": "APP_SECRET", "value": "x"}], "probes": {"periodSeconds": 1},
        "migrate": {"command": ["php", "bin/console", "app:migrate"]},
        "commands": [{"name": "about", "command": ["php", "bin/console", "about"]}],
        "workers": [{"name": "loop", "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]}]}));
    stage.is_ready("shop");
    assert!(stage.page("shop", "/").text.contains(r#""application":"symfony""#));
    assert!(stage.page("shop", "/visits/ann").text.contains(r#""visits":1"#));
    assert_eq!(stage.number("SELECT COUNT(*) FROM shop.migrations").await, 1);
    stage.patch("shop", &json!({"replicas": 3}));
    stage.is_ready("shop");
    assert_eq!(
        stage.number("SELECT COUNT(*) FROM shop.migrations").await,
        2,
        "once per revision, and not once per pod"
    );

    stage.place.kubectl(&["annotate", "phpapp", "shop", "tillerman.dev/operation=about@1"]).unwrap();
    eventually("the operation is done", || {
        let operation = stage.place.get(&["phpapp", "shop"])?["status"]["operations"]["about"].clone();
        if operation["result"] == "Succeeded" { Ok(()) } else { Err(operation.to_string()) }
    });

    let primary = |stage: &Stage| stage.place.get(&["mysqlcluster", "db"]).unwrap()["status"]["primary"].clone();
    stage.ready("mysqlcluster", "db", |condition| condition["status"] == "True");
    let before = primary(&stage);
    stage.place.kubectl(&["annotate", "mysqlcluster", "db", "tillerman.dev/switch-over=any@1"]).unwrap();
    eventually("another member is the primary", || {
        if primary(&stage) == before { Err(before.to_string()) } else { Ok(()) }
    });
    let address = stage.address("shop");
    eventually("the application writes to it", || {
        let answer = get(&address, "shop", "/visits/bob")?;
        if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
    });

    // A migration that fails brings no pod: the old ones serve.
    let pods = stage.place.get(&["replicasets", "-l", "app.kubernetes.io/name=php"]).unwrap()["items"]
        .as_array()
        .map_or(0, Vec::len);
    stage.patch(
        "shop",
        &json!({"migrate": {"command": ["false"], "retries": 0}, "env": [{"name": "APP_SECRET", "value": "y"}]}),
    );
    stage.ready("phpapp", "shop", |condition| condition["status"] == "False");
    let after = stage.place.get(&["replicasets", "-l", "app.kubernetes.io/name=php"]).unwrap()["items"]
        .as_array()
        .map_or(0, Vec::len);
    assert_eq!(pods, after);
    assert!(stage.page("shop", "/visits/ann").text.contains(r#""visits":2"#));
    stage.had_its_rights();
}
