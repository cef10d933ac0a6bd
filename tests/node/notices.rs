//! Notices about real pods, sent to a real server of mail with STARTTLS and a login, which runs as a pod beside them. The operator is the
//! project of mysql-operator.sh, which `tillerman init --notices` makes, as a pod with the rights of the project.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::harness::{cluster_dir, kubectl};
use crate::support::mail::{Arrived, Mailbox, certificates};
use crate::{Place, eventually, forbidden};

/// The namespace of the operator, and its account.
const OPERATOR: (&str, &str) = ("mysql-operator-system", "mysql-operator-controller-manager");
/// What a pod with the server has. The image has nothing but the program.
const SERVER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: mail, labels: {app: mail}}
spec:
  automountServiceAccountToken: false
  securityContext: {fsGroup: 65532}
  containers:
    - name: mailpit
      image: localhost/mailpit:test
      args: [--smtp-auth-file=/server/auth, --smtp-tls-cert=/server/tls.crt, --smtp-tls-key=/server/tls.key, --smtp-require-starttls,
        --smtp-disable-rdns, --disable-version-check]
      readinessProbe: {tcpSocket: {port: 1025}, periodSeconds: 1}
      volumeMounts: [{name: server, mountPath: /server}, {name: messages, mountPath: /tmp}]
  volumes:
    - {name: server, secret: {secretName: mail-server}}
    - {name: messages, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: mail}
spec:
  selector: {app: mail}
  ports: [{name: smtp, port: 1025}]
";

/// A namespace with a server of mail.
struct Stage {
    place: Place,
    mail: Mailbox,
    audited: usize,
}

impl Stage {
    fn new(test: &str) -> Self {
        let audited = std::fs::metadata(cluster_dir().join("log/audit.log")).unwrap().len();
        let place = Place::new(test);
        let folder = std::env::temp_dir().join(format!("tillerman-test-{}", place.name()));
        std::fs::create_dir_all(&folder).unwrap();
        certificates(&folder, &format!("DNS:mail.{}.svc", place.name()));
        std::fs::write(folder.join("auth"), "operator:correct-horse\n").unwrap();
        let secret = |name: &str, sources: &[String]| {
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            place.kubectl(&[&["create", "secret", "generic", name][..], &sources].concat()).unwrap();
        };
        let file = |name: &str| format!("--from-file={name}={}", folder.join(name).display());
        secret("mail-server", &["tls.crt", "tls.key", "auth"].map(file));
        secret("authority", &[file("ca.crt")]);
        secret("login", &["--from-literal=username=operator".into(), "--from-literal=password=correct-horse".into()]);
        let hosts = format!("tillerman.dev/notice-hosts=mail.{}.svc", place.name());
        place.kubectl(&["annotate", "secret", "login", &hosts]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        kubectl(&["-n", place.name(), "apply", "-f", "-"], Some(SERVER)).unwrap();
        place.kubectl(&["wait", "pod/mail", "--for=condition=Ready", "--timeout=120s"]).unwrap();
        let address = place.get(&["pod", "mail"]).unwrap()["status"]["podIP"].as_str().unwrap().parse::<IpAddr>();
        let mail = Mailbox { address: address.unwrap(), http: 8025 };
        eventually("the server of mail answers", || mail.get("/api/v1/info"));
        Self { place, mail, audited: usize::try_from(audited).unwrap() }
    }

    fn create(&self, api: &str, kind: &str, name: &str, spec: &Value) {
        let body = json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": self.place.name()}, "spec": spec});
        kubectl(&["create", "-f", "-"], Some(&body.to_string())).unwrap();
    }

    /// Applies a notice about pods, and waits until the operator follows it.
    fn notice(&self, events: &[&str]) {
        let host = format!("mail.{}.svc", self.place.name());
        let smtp = json!({"host": host, "port": 1025, "from": "Tillerman <tillerman@example.com>", "to": ["ops@example.com"],
            "auth": {"secretName": "login"}, "caSecret": "authority"});
        let spec = json!({"events": events, "window": "1s", "target": {"smtp": smtp}});
        self.create("tillerman.dev/v1alpha1", "Notice", "ops", &spec);
        eventually("the notice is followed", || {
            let found = self.place.get(&["notices.tillerman.dev", "ops"])?;
            if found["status"]["state"]["knowsPods"] == true { Ok(()) } else { Err(found.to_string()) }
        });
    }

    /// Waits for a message with these words, the newest that has them.
    fn said(&self, words: &[&str]) -> Arrived {
        eventually(&format!("a message says {words:?}"), || {
            let all = self.mail.arrived();
            let found = all.iter().rev().find(|one| words.iter().all(|words| one.text.contains(words))).cloned();
            found.ok_or_else(|| format!("{all:?}"))
        })
    }

    /// All messages arrived, by the operator's own count, and it was refused nothing.
    fn ends(&self) {
        eventually("no message waits", || {
            let found = self.place.get(&["notices.tillerman.dev", "ops"])?;
            let sent = found["status"]["sent"].as_u64().unwrap_or(0);
            let is_all = found["status"]["waiting"] == 0 && sent == self.mail.arrived().len() as u64;
            if is_all { Ok(()) } else { Err(format!("{} {:?}", found["status"], self.mail.arrived())) }
        });
        assert_eq!(
            forbidden(OPERATOR.0, OPERATOR.1, self.audited),
            BTreeSet::new(),
            "the rights of the project suffice"
        );
    }
}

/// A `MySQLCluster` is applied, and a mail says that its pod started; the pod is killed, and a mail says that it stopped.
#[test]
fn a_database_is_applied_and_its_pod_is_killed_and_mail_says_so() {
    let stage = Stage::new("notices");
    stage.notice(&["PodStarted", "PodStopped"]);
    let spec = json!({"replicas": 1, "image": "localhost/mariadb:10.11.19", "agentImage": "localhost/tillerman-agent:test",
        "storage": {"size": "1Gi", "onDelete": "Delete"}});
    stage.create("databases.tillerman.dev/v1alpha1", "MySQLCluster", "db", &spec);
    let started = stage.said(&["MySQLCluster db: PodStarted, StatefulSet/db\n  db-0\n"]);
    assert_eq!(started.subject, format!("[{}] MySQLCluster db: PodStarted (StatefulSet/db)", stage.place.name()));
    println!("{started:?}");
    assert_eq!(stage.mail.arrived().len(), 1);
    stage.place.kubectl(&["delete", "pod", "db-0", "--grace-period=0", "--force"]).unwrap();
    let stopped = stage.said(&["MySQLCluster db: PodStopped, StatefulSet/db\n  db-0\n"]);
    println!("{stopped:?}");
    // The next one of its name is another pod.
    eventually("a mail says that the next one started", || {
        let all = stage.mail.arrived();
        let count = all.iter().filter(|one| one.text.contains("PodStarted")).count();
        if count == 2 { Ok(()) } else { Err(format!("{all:?}")) }
    });
    stage.ends();
    stage.place.kubectl(&["delete", "mysql", "db", "--timeout=90s"]).unwrap();
}

/// The kernel ends a container that takes more memory than its limit, and one ends by itself: mail says which, with exit code and reason.
#[test]
fn one_that_takes_too_much_memory_and_one_that_fails_are_reported_with_their_exit_codes() {
    let stage = Stage::new("hungry");
    stage.notice(&["PodStarted", "PodStopped", "PodCrashed", "PodOutOfMemory"]);
    stage.create("test.tillerman.dev/v1alpha1", "Hungry", "eats", &json!({}));
    stage.create("test.tillerman.dev/v1alpha1", "Hungry", "fails", &json!({"command": "exit 3"}));
    let eats = stage
        .said(&["Hungry eats: PodOutOfMemory, Deployment/eats (OOMKilled: container eater ended with exit code 137)"]);
    println!("{eats:?}");
    let fails =
        stage.said(&["Hungry fails: PodCrashed, Deployment/fails (Error: container eater ended with exit code 3)"]);
    println!("{fails:?}");
    // Each of them crashes again and again: that is not a new message before the notice repeats it.
    eventually("both have crashed three times", || {
        let pods = stage.place.get(&["pods", "-l", "app in (eats, fails)"])?;
        let restarts = |pod: &Value| pod.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_u64);
        let counts: Vec<_> = pods["items"].as_array().into_iter().flatten().map(restarts).collect();
        if counts.len() == 2 && counts.iter().all(|count| count.is_some_and(|count| count >= 3)) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    });
    let all = stage.mail.arrived();
    let count = |words: &str| all.iter().flat_map(|one| one.text.lines()).filter(|line| line.contains(words)).count();
    assert_eq!((count("eats: PodOutOfMemory"), count("fails: PodCrashed")), (1, 1), "{all:?}");
    stage.ends();
    stage.place.kubectl(&["delete", "hungries", "--all", "--timeout=90s"]).unwrap();
}
