//! Notices, as a real server of mail gets them. The server has STARTTLS and a login.

use crate::harness::{Operator, Space, established, eventually, kubectl, program, repository};
use crate::mail::{Arrived, Mail, receiver, silent};
use crate::rights::{forbidden, with_exactly};
use crate::support::api;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const KIND: &str = "notices.tillerman.dev";

/// Makes the API server serve notices.
fn serve() {
    let file = repository("deploy/notice.yaml").display().to_string();
    kubectl(&["apply", "--server-side", "-f", &file], None).unwrap();
    established("crd/notices.tillerman.dev");
}

/// A namespace whose operators may reach this machine, and try again soon.
pub fn space(name: &str) -> Space {
    serve();
    let mut space = Space::new(name);
    space.env.push(("TILLERMAN_NOTICE_RETRY", PathBuf::from("200")));
    space
}

fn operator(space: &Space) -> Operator {
    space
        .operator(&space.watches(&[("Web", "web"), ("Failing", "failing")]), &["--notices", "--notice-hosts=127.0.0.1"])
}

/// Applies a notice, and waits until the operator has looked at the namespace with it.
pub fn notice(space: &Space, name: &str, target: &Value, more: &Value) {
    let mut spec = json!({"target": target, "window": "1s"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "Notice",
        "metadata": {"name": name, "namespace": space.name}, "spec": spec});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    eventually(&format!("notice {name} is looked at"), || {
        let found = read(space, name)?;
        let is_seen = found["status"]["observedGeneration"] == found["metadata"]["generation"];
        // What pods do before they are known is not news.
        let needs_pods = found["spec"]["events"].to_string().contains("Pod");
        if is_seen && (!needs_pods || found["status"]["state"]["knowsPods"] == true) {
            Ok(())
        } else {
            Err(found.to_string())
        }
    });
}

pub fn read(space: &Space, name: &str) -> Result<Value, String> {
    let text = space.kubectl(&["get", KIND, name, "-o", "json"])?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// Waits for the condition of a notice to have a reason; its message.
pub fn wait(space: &Space, name: &str, reason: &str) -> String {
    eventually(&format!("notice {name} is {reason}"), || {
        let found = read(space, name)?;
        let ready = &found["status"]["conditions"][0];
        if ready["reason"] == reason {
            Ok(ready["message"].as_str().unwrap_or_default().to_owned())
        } else {
            Err(found["status"].to_string())
        }
    })
}

/// Waits until nothing waits to be sent.
fn wait_empty(space: &Space, name: &str) {
    eventually("the outbox is empty", || {
        let found = read(space, name)?;
        if found["status"]["waiting"] == 0 { Ok(()) } else { Err(found["status"].to_string()) }
    });
}

#[test]
fn a_release_is_installed_fails_and_recovers_and_a_person_reads_it() {
    let space = space("notices");
    let mail = Mail::start(&space);
    let operator = operator(&space);
    space.apply("Web", "old", &json!({}));
    space.wait_web("old");
    notice(&space, "ops", &mail.target(), &json!({}));
    space.apply("Web", "a", &json!({}));
    space.wait_web("a");
    let first = mail.wait(1);
    assert_eq!(first[0].subject, format!("[{}] Web a: Installed", space.name));
    assert!(
        first[0].text.trim_end().ends_with(&format!("Notice ops in namespace {}", space.name)),
        "{}",
        first[0].text
    );
    // An object that the API server refuses.
    space.apply("Web", "a", &json!({"replicas": "many"}));
    let second = mail.wait(2);
    assert!(second[1].subject.contains("Web a: Failed ("), "{second:?}");
    assert!(second[1].text.contains(&format!("kubectl -n {} describe web.test.tillerman.dev a", space.name)));
    space.apply("Web", "a", &json!({"replicas": 1}));
    let all = mail.wait(3);
    let last = all.last().unwrap();
    assert!(last.text.contains("Web a: Recovered"), "{all:?}");
    assert_eq!(last.references, format!("<{}>", second[1].id), "{all:?}");
    assert!(all.iter().all(|one| !one.text.contains("old") && !one.text.contains("many")), "{all:?}");
    wait_empty(&space, "ops");
    assert_eq!(mail.arrived().len() as u64, read(&space, "ops").unwrap()["status"]["sent"].as_u64().unwrap());
    let metrics = operator.metrics();
    assert!(metrics.contains(r#"tillerman_notices_total{target="smtp",result="sent"} "#), "{metrics}");
    // At rest it costs nothing, and a restart sends nothing and writes nothing.
    operator.rests(&space, 3);
    let count = mail.arrived().len();
    assert!(operator.stop());
    let before = space.requests().len();
    let operator = self::operator(&space);
    operator.rests(&space, 3);
    let written = space.requests()[before..].iter().filter(|r| r.contains("notices") && !r.starts_with("list")).count();
    assert_eq!((written, mail.arrived().len()), (0, count));
    // The command sends from here.
    let tested = std::process::Command::new(program())
        .args(["notice", "test", "ops", "-n", &space.name])
        .env("KUBECONFIG", space.kubeconfig(None))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tested.stdout).into_owned() + &String::from_utf8_lossy(&tested.stderr);
    assert!(said.starts_with("taken: 250 "), "{said}");
    mail.wait(count + 1);
    let count = count + 1;
    // What happens while the operator is away is sent once.
    assert!(operator.stop());
    space.apply("Web", "b", &json!({}));
    let _operator = self::operator(&space);
    let all = mail.wait(count + 1);
    assert!(all.last().unwrap().text.contains("Web b: Installed"), "{all:?}");
}

#[test]
fn nothing_is_lost_while_the_server_is_down_refuses_or_hangs_and_nobody_else_waits() {
    let space = space("outage");
    let mut mail = Mail::start(&space);
    let (port, connections) = silent();
    let operator = operator(&space);
    let hanging = json!({"smtp": {"host": "127.0.0.1", "port": port, "tls": "none", "from": "a@example.com", "to": ["b@example.com"]}});
    notice(&space, "hanging", &hanging, &json!({"events": ["Installed"]}));
    notice(&space, "ops", &mail.target(), &json!({"events": ["Installed"]}));
    space.apply("Web", "a", &json!({}));
    // One target hangs, and the other gets its message.
    eventually("the silent server has a connection", || {
        if connections.lock().unwrap().is_empty() { Err("none") } else { Ok(()) }
    });
    mail.wait(1);
    wait_empty(&space, "ops");
    mail.down();
    space.apply("Web", "b", &json!({}));
    let why = wait(&space, "ops", "SendFailed");
    assert!(why.starts_with("no connection: 127.0.0.1:"), "{why}");
    mail.up();
    mail.wait(2);
    wait(&space, "ops", "Watching");
    for (code, name) in [(451, "c"), (550, "d")] {
        mail.refuse(code);
        space.apply("Web", name, &json!({}));
        let why = wait(&space, "ops", "SendFailed");
        assert!(why.contains(&code.to_string()), "{why}");
        mail.refuse(0);
        wait(&space, "ops", "Watching");
    }
    wait_empty(&space, "ops");
    let all = mail.arrived();
    for name in ["a", "b", "c", "d"] {
        let of = all.iter().filter(|one| one.text.contains(&format!("Web {name}: Installed"))).count();
        assert_eq!(of, 1, "{name}: {all:?}");
    }
    assert_eq!(read(&space, "hanging").unwrap()["status"]["waiting"], 4, "a message of each waits");
    assert!(operator.stop());
}

/// The condition of a custom resource about which messages wait; `None` if none do.
fn failing(space: &Space, name: &str) -> Option<Value> {
    let conditions = space.get(&format!("web/{name}")).unwrap()["status"]["conditions"].clone();
    conditions.as_array().unwrap().iter().find(|c| c["type"] == "NoticesFailing").cloned()
}

#[test]
fn a_custom_resource_says_that_messages_about_it_wait() {
    let space = space("undelivered");
    let mut mail = Mail::start(&space);
    let operator = operator(&space);
    notice(&space, "ops", &mail.target(), &json!({"events": ["Upgraded"]}));
    for name in ["a", "b"] {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
    }
    mail.down();
    space.apply("Web", "a", &json!({"greeting": "two"}));
    let condition = space.wait("web/a", "NoticesFailing", "True");
    assert_eq!(condition["reason"], "SendFailed");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains(": ops; ") && !message.contains("127.0.0.1"), "{message}");
    assert_eq!(failing(&space, "b"), None, "nothing waits about it");
    assert_eq!(space.condition("web/a", "Ready").unwrap()["reason"], "Progressing", "the release itself is as it was");
    // It stays while an operator starts, which does not write it again.
    assert!(operator.stop());
    let version = |space: &Space| space.get("web/a").unwrap()["metadata"]["resourceVersion"].clone();
    let before = (version(&space), wait(&space, "ops", "SendFailed"));
    let operator = self::operator(&space);
    eventually("the operator has tried", || {
        let metrics = operator.metrics();
        let tried = metrics.contains(r#"tillerman_notices_total{target="smtp",result="failed"} "#);
        if tried { Ok(()) } else { Err(metrics) }
    });
    assert_eq!((version(&space), wait(&space, "ops", "SendFailed")), before);
    // It goes with the delivery, and then nothing costs a request.
    mail.up();
    mail.wait(1);
    eventually("the condition is gone", || match failing(&space, "a") {
        None => Ok(()),
        Some(condition) => Err(condition.to_string()),
    });
    wait(&space, "ops", "Watching");
    operator.rests(&space, 2);
    // So does a condition of a notice that somebody deletes, and one of an operator without notices.
    for without in [false, true] {
        mail.down();
        space.apply("Web", "a", &json!({"greeting": if without { "four" } else { "three" }}));
        space.wait("web/a", "NoticesFailing", "True");
        if without {
            assert!(operator.stop());
            let watches = space.watches(&[("Web", "web"), ("Failing", "failing")]);
            let _without = space.operator(&watches, &[]);
            eventually("the condition is gone", || match failing(&space, "a") {
                None => Ok(()),
                Some(condition) => Err(condition.to_string()),
            });
            return;
        }
        space.kubectl(&["delete", KIND, "ops"]).unwrap();
        eventually("the condition is gone", || match failing(&space, "a") {
            None => Ok(()),
            Some(condition) => Err(condition.to_string()),
        });
        notice(&space, "ops", &mail.target(), &json!({"events": ["Upgraded"]}));
    }
}

/// The rules are those that `tillerman rbac --notices` prints for the chart.
#[test]
fn an_operator_of_notices_needs_exactly_the_rights_that_are_printed() {
    serve();
    let mut space = with_exactly("noticerights", &repository("tests/charts/web"), &["--notices"]);
    space.env.push(("TILLERMAN_NOTICE_RETRY", PathBuf::from("200")));
    let mail = Mail::start(&space);
    let watches = space.watches(&[("Web", "web")]);
    let operator = space.operator(&watches, &["--notices", "--notice-hosts=127.0.0.1", "--leader-elect"]);
    let events = [&POD_EVENTS[..], &["Installed"]].concat();
    notice(&space, "all", &mail.target(), &json!({"events": events}));
    space.apply("Web", "a", &json!({}));
    let pod = pods(&space, "a", 1).remove(0);
    say(&space, &pod, true, 0, &json!({}));
    let found = mail.wait_line(|line| line.ends_with("PodStarted, Deployment/a-web"), "that the pod started");
    assert!(found.contains("Web a: "), "{found}");
    wait_empty(&space, "all");
    assert!(operator.stop());
    assert_eq!(forbidden(&space), BTreeSet::new());
}

/// A project with `init --notices`: its bundle has the definition of notices and the rights.
#[test]
fn a_project_with_notices_has_them_in_its_bundle() {
    let space = Space::new("noticebundle");
    let folder = space.dir().join("project");
    std::fs::create_dir_all(&folder).unwrap();
    let run = |command: &str, args: &[&str]| {
        let output = std::process::Command::new(command).args(args).current_dir(&folder).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command} {args:?}: {text}");
        text
    };
    let chart = repository("tests/charts/web").display().to_string();
    let api = ["--group", "apps", "--kind", "Page", "--helm-chart", &chart];
    let init = ["init", "--domain", "example.com", "--project-name", "page"];
    run(&program(), &[&init[..], &["--notices"], &api[..]].concat());
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
    assert!(read("PROJECT").contains("notices: true"), "{}", read("PROJECT"));
    let role = read("config/rbac/role.yaml");
    assert!(role.contains("resources: [notices/status]\n    verbs: [patch]"), "{role}");
    // What was chosen stays, and the commands change nothing.
    let printed = run(&program(), &["create", "api", "--all"]) + &run(&program(), &init);
    assert!(!printed.contains("updated") && !printed.contains("removed"), "{printed}");
    run("make", &["bundle", &format!("TILLERMAN={}", program())]);
    assert_eq!(read("bundle/manifests/tillerman.dev_notices.yaml"), read("config/notices/tillerman.dev_notices.yaml"));
    let version = tillerman::template::yaml::parse(read("bundle/manifests/page.clusterserviceversion.yaml").as_bytes());
    let version = version.unwrap();
    let owned = version.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array).unwrap();
    let kinds: BTreeSet<&str> = owned.iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["Notice", "Page"]));
    let deployment = version.pointer("/spec/install/spec/deployments/0/spec/template/spec/containers/0/args");
    assert!(deployment.unwrap().as_array().unwrap().contains(&json!("--notices")), "{version}");
    let rules = version.pointer("/spec/install/spec/clusterPermissions/0/rules").and_then(Value::as_array).unwrap();
    let of_notices = rules.iter().filter(|rule| rule["apiGroups"] == json!(["tillerman.dev"]));
    let resources: Vec<&Value> = of_notices.map(|rule| &rule["resources"][0]).collect();
    assert_eq!(resources, ["notices", "notices/status"]);
    // The API server takes all of it, as it would from OLM.
    let files = folder.join("config/notices").display().to_string();
    kubectl(&["apply", "--server-side", "--dry-run=server", "-k", &files], None).unwrap();
}

/// Kills the operator at a point of the way of a message, and returns what arrived.
fn killed_at(space: &Space, mail: &Mail, point: &str, release: &str, arrives: bool) {
    let harm = space.file("harm", &format!("hang {point} ops\n"));
    let before = mail.arrived().len();
    let operator = operator(space);
    space.apply("Web", release, &json!({}));
    if arrives {
        mail.wait(before + 1);
    } else if point == "notice-send" {
        eventually("the message is stored", || {
            let found = read(space, "ops")?;
            if found["status"]["waiting"] == 1 { Ok(()) } else { Err(found["status"].to_string()) }
        });
    } else {
        space.wait_web(release);
    }
    operator.kill();
    std::fs::write(harm, "").unwrap();
    let operator = self::operator(space);
    mail.wait(before + 1 + usize::from(arrives));
    wait_empty(space, "ops");
    operator.settle();
    assert!(operator.stop());
}

#[test]
fn an_operator_that_is_killed_loses_no_message_and_a_double_has_the_same_id() {
    let mut space = space("killednotice");
    space.env.push(("TILLERMAN_HARM", space.dir().join("harm")));
    space.file("harm", "");
    let mail = Mail::start(&space);
    let operator = operator(&space);
    notice(&space, "ops", &mail.target(), &json!({"events": ["Installed"]}));
    assert!(operator.stop());
    let points = [("notice-store", false), ("notice-send", false), ("notice-sent", true)];
    for round in 0..3 {
        for (point, arrives) in points {
            killed_at(&space, &mail, point, &format!("{point}-{round}"), arrives);
        }
    }
    let all = mail.arrived();
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &all {
        let line = one.text.lines().next().unwrap_or_default();
        let release = line.split(' ').nth(2).unwrap_or_default().trim_end_matches(':').to_owned();
        ids.entry(release).or_default().push(one.id.clone());
    }
    assert_eq!(ids.len(), 9, "each release has a message: {all:?}");
    for (release, ids) in ids {
        let expected = if release.starts_with("notice-sent") { 2 } else { 1 };
        let different: BTreeSet<_> = ids.iter().collect();
        assert_eq!((ids.len(), different.len()), (expected, 1), "{release}: {ids:?}");
    }
}

/// The pods of a Web, which its `ReplicaSet` made and no kubelet runs.
fn pods(space: &Space, web: &str, count: usize) -> Vec<String> {
    eventually(&format!("there are {count} pods"), || {
        let all = space.list("pods")?;
        let of =
            |pod: &&Value| pod["metadata"]["labels"]["app"] == web && pod["metadata"]["deletionTimestamp"].is_null();
        let names: Vec<String> =
            all.iter().filter(of).filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
        if names.len() == count { Ok(names) } else { Err(format!("{} pods", names.len())) }
    })
}

/// Says of a pod what a kubelet would.
fn say(space: &Space, pod: &str, ready: bool, restarts: u64, last: &Value) {
    let container = json!({"name": "web", "image": "a", "imageID": "a", "ready": ready, "restartCount": restarts,
        "state": {"running": {}}, "lastState": last});
    let ready = json!({"type": "Ready", "status": if ready { "True" } else { "False" }});
    let status = json!({"phase": "Running", "conditions": [ready], "containerStatuses": [container]});
    api::patch_status(&space.name, &format!("pod/{pod}"), &json!({"status": status})).unwrap();
}

const POD_EVENTS: [&str; 4] = ["PodStarted", "PodStopped", "PodCrashed", "PodOutOfMemory"];

#[test]
fn a_pod_starts_and_is_killed_and_a_person_reads_it() {
    let space = space("podnotices");
    let mail = Mail::start(&space);
    let operator = operator(&space);
    notice(&space, "pods", &mail.target(), &json!({"events": POD_EVENTS, "selector": {"kinds": ["Web"]}}));
    space.apply("Web", "a", &json!({}));
    space.wait_web("a");
    let pod = pods(&space, "a", 1).remove(0);
    say(&space, &pod, true, 0, &json!({}));
    let all = mail.wait(1);
    assert_eq!(all[0].subject, format!("[{}] Web a: PodStarted (Deployment/a-web)", space.name));
    assert!(all[0].text.contains(&format!("\n  {pod}\n")), "{}", all[0].text);
    // One that is not ready for a while has not stopped.
    say(&space, &pod, false, 0, &json!({}));
    say(&space, &pod, true, 1, &json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}));
    let all = mail.wait(2);
    assert!(
        all[1].text.contains("PodOutOfMemory, Deployment/a-web (OOMKilled: container web ended with exit code 137)"),
        "{all:?}"
    );
    operator.rests(&space, 2);
    // What happens to pods while the operator is away is seen by its result.
    assert!(operator.stop());
    space.delete(&format!("pod/{pod}"));
    let next = pods(&space, "a", 1).remove(0);
    let _operator = self::operator(&space);
    let all = mail.wait(3);
    assert!(all[2].text.contains("PodStopped, Deployment/a-web") && all[2].text.contains(&pod), "{all:?}");
    say(&space, &next, true, 0, &json!({}));
    let all = mail.wait(4);
    assert!(all[3].text.contains("PodStarted") && all[3].text.contains(&next), "{all:?}");
    assert_eq!(all.len(), 4, "{all:?}");
}

/// How many changes of a kind messages count.
fn counted(all: &[Arrived], event: &str) -> u64 {
    let lines = all.iter().flat_map(|one| one.text.lines()).filter(|line| line.contains(&format!(": {event},")));
    let of = |line: &str| line.rsplit_once(", ").and_then(|(_, n)| n.strip_suffix(" times")?.parse().ok()).unwrap_or(1);
    lines.map(of).sum()
}

#[test]
fn five_hundred_pods_that_crash_are_few_messages() {
    let mut space = space("flood");
    space.env.push(("TILLERMAN_NOTICE_QUIET", PathBuf::from("8000")));
    let mail = Mail::start(&space);
    let operator = operator(&space);
    space.apply("Web", "a", &json!({"replicas": 500}));
    let names = pods(&space, "a", 500);
    notice(&space, "pods", &mail.target(), &json!({"events": POD_EVENTS}));
    for name in &names {
        say(&space, name, false, 1, &json!({"terminated": {"exitCode": 1, "reason": "Error"}}));
    }
    let all = eventually("the crashes are over", || {
        let all = mail.arrived();
        if all.iter().any(|one| one.text.contains("Recovered")) { Ok(all) } else { Err(format!("{all:?}")) }
    });
    assert!(all.len() <= 3, "{all:?}");
    assert_eq!(counted(&all, "PodCrashed") + counted(&all, "Recovered"), 500, "{all:?}");
    let size = read(&space, "pods").unwrap().to_string().len();
    assert!(size < 150_000, "{size}");
    assert!(operator.stop());
}

#[test]
fn a_notice_sees_its_own_namespace_and_reaches_no_address_of_the_machine() {
    let (here, there) = (space("here"), space("there"));
    let mail = Mail::start(&there);
    let watches = here.watches(&[("Web", "web")]);
    // Two namespaces, one operator, and no flag that allows this machine.
    let mut both = here;
    both.env.push(("WATCH_NAMESPACE", PathBuf::from(format!("{},{}", both.name, there.name))));
    let operator = both.operator(&watches, &["--notices"]);
    // One that is there when the notice first looks, and one that comes later.
    both.apply("Web", "earlier", &json!({}));
    both.wait_web("earlier");
    notice(&there, "ops", &mail.target(), &json!({}));
    both.apply("Web", "a", &json!({}));
    both.wait_web("a");
    there.apply("Web", "b", &json!({}));
    there.wait_web("b");
    let why = wait(&there, "ops", "SendFailed");
    assert!(why.contains("127.0.0.1: its address is refused: it is a loopback address"), "{why}");
    let status = read(&there, "ops").unwrap()["status"].clone();
    assert!(status["state"]["releases"].get("Web.test.tillerman.dev/b").is_some(), "{status}");
    assert_eq!(status["state"]["releases"].as_object().map(serde_json::Map::len), Some(1), "{status}");
    assert!(mail.arrived().is_empty());
    let metadata = json!({"webhook": {"url": "http://169.254.169.254/latest/meta-data", "tls": "none"}});
    notice(&there, "metadata", &metadata, &json!({}));
    there.apply("Web", "c", &json!({}));
    let why = wait(&there, "metadata", "SendFailed");
    assert!(why.contains("169.254.169.254: its address is refused: it is a link-local address"), "{why}");
    assert!(operator.stop());
}

/// The signature of a body with the key of the test, as openssl makes it.
fn hmac(space: &Space, body: &[u8]) -> String {
    let file = space.dir().join("body");
    std::fs::write(&file, body).unwrap();
    let output = std::process::Command::new("openssl").args(["dgst", "-sha256", "-hmac", "Jefe"]).arg(file).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    format!("sha256={}", text.rsplit_once("= ").unwrap().1.trim())
}

#[test]
fn a_webhook_is_signed_and_no_redirect_is_followed() {
    let space = space("webhook");
    let (port, got) = receiver("204 No Content");
    let (redirecting, redirected) = receiver("302 Found\r\nLocation: http://127.0.0.1/");
    let operator = operator(&space);
    space.kubectl(&["create", "secret", "generic", "signing", "--from-literal=key=Jefe"]).unwrap();
    space
        .kubectl(&[
            "create",
            "secret",
            "generic",
            "link",
            &format!("--from-literal=url=http://127.0.0.1:{redirecting}/x"),
        ])
        .unwrap();
    space.kubectl(&["annotate", "secret", "link", "tillerman.dev/notice-hosts=a.io, 127.0.0.1"]).unwrap();
    let target = |format: &str| {
        let url = format!("http://127.0.0.1:{port}/{format}?a=b");
        json!({"webhook": {"url": url, "tls": "none", "format": format, "hmacSecret": "signing"}})
    };
    let formats = ["json", "slack", "teams", "discord", "alertmanager"];
    for format in formats {
        notice(&space, format, &target(format), &json!({}));
    }
    notice(&space, "redirected", &json!({"webhook": {"urlSecret": "link", "tls": "none"}}), &json!({}));
    space.apply("Web", "a", &json!({}));
    // A Secret that does not name the host is not used.
    let why = wait(&space, "json", "SendFailed");
    assert_eq!(
        why,
        "Secret signing cannot be used: it has to exist and to have key, and its annotation tillerman.dev/notice-hosts has to name 127.0.0.1"
    );
    space.kubectl(&["annotate", "secret", "signing", "tillerman.dev/notice-hosts=127.0.0.1"]).unwrap();
    for format in formats {
        wait_empty(&space, format);
    }
    let why = wait(&space, "redirected", "SendFailed");
    assert_eq!(why, "HTTP status 302: redirects are not followed");
    assert!(!redirected.lock().unwrap().is_empty());
    let got = got.lock().unwrap().clone();
    let paths: BTreeSet<&str> = got.iter().map(|request| &*request.path).collect();
    assert_eq!(paths, formats.map(|format| format!("/{format}?a=b")).iter().map(|p| &**p).collect());
    for request in &got {
        assert_eq!(request.header("x-tillerman-signature-256"), Some(&*hmac(&space, &request.body)));
        assert!(request.header("idempotency-key").is_some_and(|key| !key.is_empty()));
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
    let json = got.iter().find(|request| request.path.starts_with("/json")).unwrap().json();
    assert_eq!((&json["lines"][0]["event"], &json["lines"][0]["name"]), (&json!("Installed"), &json!("a")));
    assert!(operator.stop());
}

/// A chart has notices by rendering them.
#[test]
fn a_chart_brings_a_notice_and_its_words_are_bounded() {
    let space = space("ofchart");
    let mail = Mail::start(&space);
    let chart = space.dir().join("noticed");
    std::fs::create_dir_all(chart.join("templates")).unwrap();
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: noticed\nversion: 0.1.0\n").unwrap();
    std::fs::write(chart.join("values.yaml"), "greeting: hello\nnotices: {}\n").unwrap();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {greeting: '{{ .Values.greeting }}'}\n\
                    {{- range $name, $spec := .Values.notices }}\n---\napiVersion: tillerman.dev/v1alpha1\nkind: Notice\n\
                    metadata: {name: '{{ $.Release.Name }}-{{ $name }}'}\nspec: {{ toJson $spec }}\n{{- end }}\n";
    std::fs::write(chart.join("templates/all.yaml"), template).unwrap();
    let operator = space
        .operator(&space.watches(&[("Web", &chart.display().to_string())]), &["--notices", "--notice-hosts=127.0.0.1"]);
    let words = json!({"subject": "{{ lines[0].name }}\r\nBcc: x@example.com", "body": "{% for l in lines %}{{ l.event }} {% endfor %}"});
    let ops = json!({"target": mail.target(), "window": "1s", "events": ["Upgraded"], "template": words, "selector": {"names": ["a"]}});
    space.apply("Web", "a", &json!({"notices": {"ops": ops}}));
    eventually("the chart's notice is looked at", || {
        let found = read(&space, "a-ops")?;
        let known = &found["status"]["state"]["releases"]["Web.test.tillerman.dev/a"]["revision"];
        if *known == json!(1) { Ok(()) } else { Err(found["status"].to_string()) }
    });
    space.apply("Web", "a", &json!({"notices": {"ops": ops}, "greeting": "secret words"}));
    let all = mail.wait(1);
    assert_eq!((&*all[0].subject, all[0].text.trim()), ("a Bcc: x@example.com", "Upgraded"));
    // A template that could stop the operator is refused, and a wrong notice changes nothing else.
    let levels =
        format!("{{% for x,y in [[[{}],[{}]]] %}}", vec!["x"; 60].join(","), vec!["y"; 60].join(",")).repeat(8);
    let shared = format!(
        "{{% for x,y in [[[1,1],[1,1]]] %}}{levels}{{% if x == y %}}E{{% endif %}}{}",
        "{% endfor %}".repeat(9)
    );
    for (name, template, part) in [
        ("tags", "{% set x = 'a' %}{{ x ~ x }}", "the tag \"set\" does not exist here"),
        ("lists", &*shared, "',' does not exist in templates of notices"),
        ("texts", "{% for a in lines %}{{ [lines]|upper }}{% endfor %}", "where a text or a number is expected"),
    ] {
        let bomb = json!({"target": mail.target(), "template": {"body": template}});
        let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "Notice",
            "metadata": {"name": name, "namespace": space.name}, "spec": bomb});
        kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
        let why = wait(&space, name, "InvalidSpec");
        assert!(why.starts_with("spec.template.body: line 1: ") && why.contains(part), "{why}");
    }
    let header = json!({"smtp": {"host": "a.io", "from": "a@b.c\r\nBcc: x@y.z", "to": ["b@example.com"]}});
    let body = json!({"apiVersion": "tillerman.dev/v1alpha1", "kind": "Notice",
        "metadata": {"name": "header", "namespace": space.name}, "spec": {"target": header}});
    kubectl(&["apply", "-f", "-"], Some(&body.to_string())).unwrap();
    assert!(wait(&space, "header", "InvalidSpec").starts_with("spec.target.smtp.from"));
    assert!(operator.stop());
}

/// A receiver's requests, when there are this many.
fn received(got: &std::sync::Arc<std::sync::Mutex<Vec<crate::mail::Request>>>, count: usize) -> Vec<Value> {
    eventually(&format!("{count} messages arrive"), || {
        let all: Vec<Value> = got.lock().unwrap().iter().map(crate::mail::Request::json).collect();
        if all.len() >= count { Ok(all) } else { Err(format!("{all:?}")) }
    })
}

#[test]
fn a_template_that_fails_three_times_is_left_out() {
    let space = space("failing-words");
    let (port, got) = receiver("204 No Content");
    let operator = operator(&space);
    let target = json!({"webhook": {"url": format!("http://127.0.0.1:{port}/x"), "tls": "none"}});
    notice(&space, "ops", &target, &json!({"events": ["Installed"], "template": {"body": "{{ lines|join }}"}}));
    let failed = "A template of the notice failed: spec.template.body: ";
    for (count, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        space.apply("Web", name, &json!({}));
        let all = received(&got, count + 1);
        let body = all[count]["body"].as_str().unwrap();
        assert!(body.contains(&format!("Web {name}: Installed")), "{body}");
        assert_eq!(body.contains(failed), count < 3, "{body}");
        wait_empty(&space, "ops");
    }
    let why = wait(&space, "ops", "TemplateFailed");
    assert!(why.starts_with("spec.template.body: ") && why.contains("join takes a list of texts"), "{why}");
    // Another template is tried.
    notice(&space, "ops", &target, &json!({"events": ["Installed"], "template": {"body": "{{ count }}"}}));
    wait(&space, "ops", "Watching");
    space.apply("Web", "e", &json!({}));
    assert_eq!(received(&got, 5)[4]["body"], "1");
    assert!(operator.stop());
}

#[test]
fn a_namespace_writes_to_no_more_recipients_than_it_can() {
    let space = space("allowance");
    let (port, got) = receiver("204 No Content");
    let more = ["--notices", "--notice-hosts=127.0.0.1", "--notice-recipients-per-hour=3"];
    let operator = space.operator(&space.watches(&[("Web", "web")]), &more);
    for name in ["one", "two"] {
        let target = json!({"webhook": {"url": format!("http://127.0.0.1:{port}/{name}"), "tls": "none"}});
        notice(&space, name, &target, &json!({"events": ["Installed"]}));
    }
    for (count, name) in ["a", "b"].into_iter().enumerate() {
        space.apply("Web", name, &json!({}));
        space.wait_web(name);
        received(&got, (2 * count + 2).min(3));
    }
    let limited = eventually("a notice is limited", || {
        let reasons = ["one", "two"].map(|name| read(&space, name).unwrap()["status"]["conditions"][0].clone());
        let found = reasons.iter().find(|ready| ready["reason"] == "Limited").cloned();
        found.ok_or_else(|| format!("{reasons:?}"))
    });
    assert!(limited["message"].as_str().unwrap().contains("write to 3 recipients in an hour"), "{limited}");
    operator.settle();
    assert_eq!(got.lock().unwrap().len(), 3);
    let waiting: u64 =
        ["one", "two"].iter().map(|name| read(&space, name).unwrap()["status"]["waiting"].as_u64().unwrap()).sum();
    assert_eq!(waiting, 1, "the message waits");
    assert!(operator.stop());
}

/// One answer for a Secret that is missing, one that lacks a key and one that is not for the host, and one for a host of which the notice's
/// author must not learn anything.
#[test]
fn a_notice_says_nothing_of_what_only_the_operator_can_reach() {
    let mut space = space("oracle");
    space.env.push(("TILLERMAN_NOTICE_DEADLINE", PathBuf::from("2000")));
    let operator = operator(&space);
    space.kubectl(&["create", "secret", "generic", "empty", "--from-literal=other=x"]).unwrap();
    space.kubectl(&["create", "secret", "generic", "foreign", "--from-literal=key=x"]).unwrap();
    let secrets = ["missing", "empty", "foreign"];
    for name in secrets {
        let webhook = json!({"url": "http://127.0.0.1:1/x", "tls": "none", "hmacSecret": name});
        notice(&space, name, &json!({"webhook": webhook}), &json!({"events": ["Installed"]}));
    }
    notice(
        &space,
        "host",
        &json!({"webhook": {"url": "http://nowhere.invalid/x", "tls": "none"}}),
        &json!({"events": ["Installed"]}),
    );
    space.apply("Web", "a", &json!({}));
    for name in secrets {
        let why = wait(&space, name, "SendFailed");
        let expected = format!(
            "Secret {name} cannot be used: it has to exist and to have key, and its annotation tillerman.dev/notice-hosts has to name 127.0.0.1"
        );
        assert_eq!(why, expected);
    }
    let why = wait(&space, "host", "SendFailed");
    assert!(why.starts_with("the target did not accept the message. The reason is in the operator's log"), "{why}");
    assert!(operator.log().contains("nowhere.invalid cannot be resolved"));
    assert!(operator.stop());
}

#[test]
fn a_server_of_mail_that_never_ends_its_answer_is_left() {
    use std::io::Write as _;
    let space = space("endless");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let written = std::sync::Arc::<std::sync::Mutex<Option<usize>>>::default();
    let ended = std::sync::Arc::clone(&written);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let line = format!("220-{}\r\n", "x".repeat(500));
        let mut bytes = 0;
        while stream.write_all(line.as_bytes()).is_ok() {
            bytes += line.len();
        }
        *ended.lock().unwrap() = Some(bytes);
    });
    let operator = operator(&space);
    let smtp =
        json!({"host": "127.0.0.1", "port": port, "tls": "none", "from": "a@example.com", "to": ["b@example.com"]});
    notice(&space, "ops", &json!({"smtp": smtp}), &json!({"events": ["Installed"]}));
    space.apply("Web", "a", &json!({}));
    wait(&space, "ops", "SendFailed");
    let bytes = eventually("the connection ends", || written.lock().unwrap().ok_or("it lasts"));
    // What the two buffers of the connection hold is written, too.
    assert!(bytes < 16 << 20, "{bytes}");
    assert!(operator.stop());
}
