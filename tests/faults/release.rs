//! What a release consists of, as the API server has it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use base64::Engine as _;
use serde_json::{Value, json};
use tillerman::release::record::{Phase, Record};

use crate::harness::Space;
use crate::support::api;

/// The kinds of which a release of the test charts may have objects.
const KINDS: &[&str] = &[
    "webs",
    "configmaps",
    "services",
    "deployments",
    "secrets",
    "jobs",
    "pods",
    "statefulsets",
    "persistentvolumeclaims",
];

/// All of a namespace at one time: one request for each kind, for as many releases as there are.
pub struct Sight(Vec<Value>);

impl Sight {
    /// Looks.
    pub fn of(space: &Space) -> Result<Self, String> {
        Self::with(space, &[])
    }

    /// The same with more kinds.
    pub fn with(space: &Space, more: &[&str]) -> Result<Self, String> {
        let mut found = Vec::new();
        for kind in KINDS.iter().chain(more) {
            found.extend(api::objects(&space.name, kind)?);
        }
        Ok(Self(found))
    }

    fn find(&self, kind: &str, name: &str) -> Result<&Value, String> {
        let found = self.0.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        found.ok_or_else(|| format!("there is no {kind} {name}"))
    }

    /// The objects whose names begin with that of a release, as `Kind/name`; records of the release apart, and what
    /// controllers make of an object.
    pub fn objects(&self, release: &str) -> BTreeSet<String> {
        let of_release = |object: &Value| {
            let name = object.pointer("/metadata/name")?.as_str()?;
            let made = object.pointer("/metadata/ownerReferences/0/controller") == Some(&Value::Bool(true))
                && object.pointer("/metadata/ownerReferences/0/kind") != Some(&Value::from("Web"));
            let found = name.starts_with(&format!("{release}-")) && !made;
            found.then(|| format!("{}/{name}", object["kind"].as_str().unwrap_or_default()))
        };
        self.0.iter().filter_map(of_release).collect()
    }

    fn secrets(&self, label: &str, value: &str) -> Vec<&Value> {
        let fits = |o: &&Value| o["kind"] == "Secret" && o["metadata"]["labels"][label] == value;
        self.0.iter().filter(fits).collect()
    }

    /// Revisions of a release with their states, oldest first: as their labels say.
    fn revisions(&self, release: &str) -> Vec<(u64, String, &Value)> {
        let label =
            |secret: &Value, name: &str| secret["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned();
        let records = self.secrets("name", release).into_iter().filter(|s| s["type"] == "helm.sh/release.v1");
        let mut revisions: Vec<_> =
            records.map(|s| (label(s, "version").parse().unwrap_or(0), label(s, "status"), s)).collect();
        revisions.sort_by_key(|(revision, ..)| *revision);
        revisions
    }

    /// The states of the revisions of a release that is in one piece, oldest first. An error when a record says something else
    /// than its labels.
    pub fn history(&self, release: &str) -> Result<Vec<String>, String> {
        let mut history = Vec::new();
        for (revision, status, secret) in self.revisions(release) {
            let record = record(secret)?;
            if (record.revision(), record.status().as_str()) != (revision, &status) {
                return Err(format!("{status} revision {revision} is a record of {}", record.status().as_str()));
            }
            history.push(status);
        }
        Ok(history)
    }

    /// Whether the newest revision is the deployed one, no other is, and none is under way; how many there are.
    pub fn is_settled(&self, release: &str) -> Result<usize, String> {
        let history = self.history(release)?;
        settled(release, &history)
    }

    /// Whether a custom resource says that its present specification is deployed.
    pub fn is_deployed(&self, name: &str) -> Result<(), String> {
        let web = self.find("Web", name)?;
        if is_deployed_object(web) { Ok(()) } else { Err(web["status"].to_string()) }
    }

    /// Whether nothing is left of a release whose custom resource is gone, not even a chunk of a record. Does not wait.
    pub fn is_gone(&self, release: &str) -> Result<(), String> {
        let named = self.0.iter().filter(|o| o["metadata"]["name"] == release).map(|o| o["kind"].to_string());
        let mut left: Vec<String> = self.objects(release).into_iter().chain(named).collect();
        for label in ["name", "tillerman.dev/release"] {
            left.extend(self.secrets(label, release).iter().map(|s| s["metadata"]["name"].to_string()));
        }
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    }

    /// Whether the web of the chart `web` is deployed, and there are its objects and `more`, and no others.
    pub fn is_web(&self, name: &str, more: &[&str]) -> Result<(), String> {
        self.is_deployed(name)?;
        self.is_settled(name)?;
        let wanted = ["ConfigMap/N-config", "Service/N-web", "Deployment/N-web"].iter().chain(more);
        expect("objects", &self.objects(name), &wanted.map(|o| o.replace('N', name)).collect())
    }

    fn greeting(&self, release: &str) -> Result<Value, String> {
        Ok(self.find("ConfigMap", release)?["data"]["greeting"].clone())
    }

    /// The names of the objects of a kind that begin so.
    pub fn names(&self, kind: &str, start: &str) -> Vec<&str> {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let of_kind = self.0.iter().filter(|o| o["kind"] == kind && name(o).starts_with(start));
        of_kind.filter_map(|o| o["metadata"]["name"].as_str()).collect()
    }

    /// A field of an object.
    pub fn field(&self, kind: &str, name: &str, pointer: &str) -> Result<Value, String> {
        Ok(self.find(kind, name)?.pointer(pointer).cloned().unwrap_or_default())
    }

    /// The hooks of the newest revision that succeeded, in the order of their beginning; an error when one did not succeed.
    fn ran(&self, release: &str) -> Result<Vec<String>, String> {
        let revisions = self.revisions(release);
        let (.., secret) = revisions.last().ok_or("there is no revision")?;
        let mut ran = Vec::new();
        for hook in record(secret)?.hooks() {
            match hook.last_run.phase {
                Phase::None => {}
                Phase::Succeeded => {
                    let started = hook.last_run.started_at.unwrap_or_default().parse::<jiff::Timestamp>();
                    ran.push((started.map_err(|e| e.to_string())?, hook.name));
                }
                other => return Err(format!("hook {} {other:?}", hook.name)),
            }
        }
        ran.sort();
        Ok(ran.into_iter().map(|(_, name)| name).collect())
    }

    /// Whether the second revision failed for a hook, and the third is the first again.
    fn is_back(&self, release: &str) -> Result<(), String> {
        let web = self.find("Web", release)?;
        let conditions = web["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let stalled = conditions.iter().find(|c| c["type"] == "Stalled").ok_or("it is not stalled")?;
        expect("Stalled", &(&stalled["status"], &stalled["reason"]), &(&json!("True"), &json!("HookFailed")))?;
        expect("the custom resource's revision", &web["status"]["release"]["revision"], &json!(3))?;
        expect("history", &self.history(release)?, &["superseded", "failed", "deployed"].map(str::to_owned).to_vec())?;
        expect("greeting", &self.greeting(release)?, &json!("one"))
    }
}

fn record(secret: &Value) -> Result<Record, String> {
    let data = secret["data"]["release"].as_str().ok_or("a record is not in one piece")?;
    let data = base64::engine::general_purpose::STANDARD.decode(data).map_err(|e| e.to_string())?;
    Record::decode(&data).map_err(|e| e.to_string())
}

/// The states of the revisions of a release, oldest first, as `helm history` lists them.
pub fn history(space: &Space, release: &str) -> Result<Vec<String>, String> {
    let text = space.helm(&["history", release, "-o", "json"])?;
    let list: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let status = |r: &Value| r["status"].as_str().unwrap_or_default().to_owned();
    Ok(list.as_array().into_iter().flatten().map(status).collect())
}

/// [`Sight::is_settled`], as the real helm reports it.
pub fn is_settled(space: &Space, release: &str) -> Result<usize, String> {
    settled(release, &history(space, release)?)
}

fn settled(release: &str, history: &[String]) -> Result<usize, String> {
    let deployed = history.iter().filter(|s| *s == "deployed").count();
    let pending = history.iter().any(|s| s.starts_with("pending"));
    if deployed == 1 && !pending && history.last().is_some_and(|s| s == "deployed") {
        Ok(history.len())
    } else {
        Err(format!("history of {release}: {history:?}"))
    }
}

/// Whether a custom resource says that its present specification is deployed.
pub fn is_deployed(space: &Space, object: &str) -> Result<(), String> {
    let cr = space.get(object)?;
    if is_deployed_object(&cr) { Ok(()) } else { Err(cr["status"].to_string()) }
}

/// [`is_deployed`], of what the API server answered.
pub fn is_deployed_object(cr: &Value) -> bool {
    let conditions = cr.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_true = |name: &str| conditions.iter().any(|c| c["type"] == name && c["status"] == "True");
    let failed = ["ReleaseFailed", "Irreconcilable", "Stalled"].into_iter().any(is_true);
    let seen = cr.pointer("/status/observedGeneration") == cr.pointer("/metadata/generation");
    is_true("Deployed") && seen && !failed
}

pub fn expect<T: PartialEq + Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} instead of {wanted:?}")) }
}

fn names<C: FromIterator<String>>(release: &str, templates: &[&str]) -> C {
    templates.iter().map(|t| t.replace('N', release)).collect()
}

/// Annotations and specification of a custom resource.
pub type Web = (Value, Value);

/// Applies custom resources of these names.
pub fn apply(space: &Space, names: &[String], (annotations, spec): &Web) {
    for name in names {
        space.apply_with("Web", name, annotations, spec);
    }
}

/// A release of the chart `hooks`, all along whose life hooks run.
pub mod hooked {
    use super::{Sight, Web, expect, json, names};

    fn values(greeting: &str, hooks: &[(&str, &str, &str, i64, &str)]) -> Web {
        let all = [
            ("back", "Job", "pre-rollback", 0, "hook-succeeded"),
            ("done", "Job", "post-rollback", 0, ""),
            ("del", "Job", "pre-delete", 0, ""),
            ("gone", "Job", "post-delete", 0, "hook-succeeded"),
        ];
        let hook = |(name, kind, events, weight, policy): &(&str, &str, &str, i64, &str)| json!({"name": name, "kind": kind, "events": events, "weight": weight, "policy": policy});
        (json!({}), json!({"greeting": greeting, "hooks": all.iter().chain(hooks).map(hook).collect::<Vec<_>>()}))
    }

    /// Its first revision.
    pub fn install() -> Web {
        values("one", &[])
    }

    /// How that ends.
    pub fn is_installed(sight: &Sight, release: &str) -> Result<(), String> {
        sight.is_deployed(release)?;
        expect("revisions", &sight.is_settled(release)?, &1)
    }

    /// An upgrade whose hooks all end well.
    pub fn upgrade() -> Web {
        let hooks = [
            ("last", "Job", "post-upgrade", 2, "hook-succeeded,before-hook-creation"),
            ("post", "Job", "post-upgrade", 1, ""),
            ("pre", "Job", "pre-upgrade", 0, "hook-succeeded"),
            ("first", "ConfigMap", "pre-upgrade", -5, "hook-succeeded"),
        ];
        values("two", &hooks)
    }

    /// How that ends.
    pub fn is_upgraded(sight: &Sight, release: &str) -> Result<(), String> {
        sight.is_deployed(release)?;
        expect("revisions", &sight.is_settled(release)?, &2)?;
        expect("greeting", &sight.greeting(release)?, &json!("two"))?;
        expect("objects", &sight.objects(release), &names(release, &["Job/N-post"]))?;
        expect("hooks that ran", &sight.ran(release)?, &names(release, &["N-first", "N-pre", "N-post", "N-last"]))
    }

    /// An upgrade of which the last hook fails.
    pub fn fail() -> Web {
        let hooks = [
            ("bad", "Job", "post-upgrade", 0, "before-hook-creation,hook-failed"),
            ("pre", "ConfigMap", "pre-upgrade", 0, ""),
        ];
        values("three", &hooks)
    }

    /// How that ends, and what follows from it.
    pub fn is_rolled_back(sight: &Sight, release: &str) -> Result<(), String> {
        sight.is_back(release)?;
        expect("objects", &sight.objects(release), &names(release, &["ConfigMap/N-pre", "Job/N-done"]))?;
        expect("hooks that ran", &sight.ran(release)?, &names(release, &["N-back", "N-done"]))
    }
}

/// A release of the chart `hooks` whose upgrade fails at once for good: a hook takes longer than it may. No other hook is one that
/// has to end.
pub mod stalled {
    use super::{Sight, Value, Web, expect, json, names};

    fn values(greeting: &str, hooks: &[Value]) -> Web {
        let back = json!({"name": "back", "kind": "ConfigMap", "events": "pre-rollback", "policy": "hook-succeeded"});
        let done = json!({"name": "done", "kind": "ConfigMap", "events": "post-rollback"});
        let hooks: Vec<&Value> = [&back, &done].into_iter().chain(hooks).collect();
        (json!({"tillerman.dev/timeout": "5s"}), json!({"greeting": greeting, "hooks": hooks}))
    }

    /// Its first revision.
    pub fn install() -> Web {
        values("one", &[])
    }

    /// The upgrade.
    pub fn upgrade() -> Web {
        let pre = json!({"name": "pre", "kind": "ConfigMap", "events": "pre-upgrade"});
        let policy = "before-hook-creation,hook-failed";
        let hang = json!({"name": "hang", "kind": "Job", "events": "post-upgrade", "policy": policy});
        values("two", &[pre, hang])
    }

    /// How that ends.
    pub fn is_rolled_back(sight: &Sight, release: &str) -> Result<(), String> {
        sight.is_back(release)?;
        expect("objects", &sight.objects(release), &names(release, &["ConfigMap/N-pre", "ConfigMap/N-done"]))
    }
}

/// A release of a chart of which no Secret can hold a record. Two revisions are kept.
pub mod chunked {
    use super::{BTreeSet, Sight, Web, expect, json};

    /// A revision.
    pub fn with(greeting: &str) -> Web {
        (json!({"tillerman.dev/max-history": "2"}), json!({"greeting": greeting}))
    }

    /// The digests of what its chunks are parts of.
    pub fn chunks(sight: &Sight, release: &str) -> Vec<String> {
        let digest = |secret: &serde_json::Value| {
            secret["metadata"]["labels"]["tillerman.dev/chunks"].as_str().unwrap_or_default().to_owned()
        };
        sight.secrets("tillerman.dev/release", release).into_iter().map(digest).collect()
    }

    /// Whether these are the revisions, the last one deployed, and there are their chunks and no others.
    pub fn is_at(sight: &Sight, release: &str, greeting: &str, revisions: &[u64]) -> Result<(), String> {
        sight.is_deployed(release)?;
        expect("greeting", &sight.greeting(release)?, &json!(greeting))?;
        let records = sight.revisions(release);
        let found: Vec<(u64, &str)> = records.iter().map(|(n, status, _)| (*n, status.as_str())).collect();
        let status = |n: &u64| if Some(n) == revisions.last() { "deployed" } else { "superseded" };
        expect("records", &found, &revisions.iter().map(|n| (*n, status(n))).collect())?;
        let named = |secret: &&serde_json::Value| {
            secret["metadata"]["annotations"]["tillerman.dev/chunks"].as_str().unwrap_or_default().to_owned()
        };
        let named: BTreeSet<String> = records.iter().map(|(.., secret)| named(secret)).collect();
        let chunks = chunks(sight, release);
        let of = |digest: &String| format!("{digest} {}", chunks.iter().filter(|d| *d == digest).count());
        expect("chunks", &chunks.iter().map(of).collect(), &named)
    }
}
