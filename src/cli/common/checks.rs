//! The checks of a cluster and of an operator in it: what `tillerman doctor` and the page of the operator show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds;
use super::line::line;
use super::values_files;
use crate::chart;
use crate::cli::common::error::CliError;
use crate::cluster::client::{Cluster, Conflicts};
use crate::cluster::discovery::{Discovery, Resource};
use crate::crd;
use crate::kind::{ChartRef, Kind};
use crate::names;
use crate::object::{Gvk, ObjectId};
use crate::release::owner::{FINALIZER, LEGACY_FINALIZER};
use crate::release::status_fields::typed;

/// The oldest minor version of Kubernetes that is tested.
const OLDEST_MINOR: u32 = 26;
/// Seconds after which a custom resource should have gone.
const SLOW: i64 = 300;
/// Leftovers that are named.
const NAMED: usize = 5;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is wrong.
    Ok,
    /// A person should look at it.
    Warn,
    /// Something does not work.
    Fail,
}

impl Outcome {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// A check.
pub struct Check {
    /// Its subject.
    pub what: &'static str,
    pub outcome: Outcome,
    /// What was found.
    pub message: String,
    pub remedy: String,
}

/// The checks so far.
#[derive(Default)]
pub struct Checks(pub Vec<Check>);

impl Checks {
    /// Adds a check that went well.
    pub fn ok(&mut self, what: &'static str, message: impl Into<String>) {
        self.0.push(Check { what, outcome: Outcome::Ok, message: message.into(), remedy: String::new() });
    }
    /// Adds a warning and its remedy.
    pub fn warn(&mut self, what: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Check { what, outcome: Outcome::Warn, message: message.into(), remedy: remedy.into() });
    }
    /// Adds a failure and its remedy.
    pub fn fail(&mut self, what: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Check { what, outcome: Outcome::Fail, message: message.into(), remedy: remedy.into() });
    }

    /// A line for each check.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for check in &self.0 {
            let _ = writeln!(text, "{:5} {:12} {}", check.outcome.word(), check.what, line(&check.message));
            if !check.remedy.is_empty() {
                let _ = writeln!(text, "{:18} -> {}", "", line(&check.remedy));
            }
        }
        text
    }

    /// The same as a document.
    pub fn document(&self) -> Value {
        let check = |check: &Check| json!({"check": check.what, "result": check.outcome.word(), "message": line(&check.message), "remedy": line(&check.remedy)});
        json!({"checks": self.0.iter().map(check).collect::<Vec<_>>()})
    }
}

/// Checks a cluster and the operator in it: all kinds that are served, or those of a watches file; one namespace, or all. Returns the
/// operator's ServiceAccount as `NAMESPACE:NAME`, if it is known.
pub async fn check(
    kinds: Option<&[Kind]>,
    place: Option<&str>,
    cluster: &Cluster,
    discovery: &Discovery,
    checks: &mut Checks,
) -> Option<String> {
    if let Err(error) = discovery.refresh().await {
        checks.fail("API server", error.whole(), "check the kubeconfig and its context");
        return None;
    }
    version(discovery, checks);
    let found = definitions(kinds, place, cluster, discovery, checks).await;
    let account = operator(place, cluster, checks).await;
    leftovers(&found, kinds, place, cluster, checks).await;
    webhooks(cluster, checks).await;
    account
}

fn version(discovery: &Discovery, checks: &mut Checks) {
    let version = discovery.info().kube_version.clone();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor < OLDEST_MINOR) {
        let remedy = format!("versions below 1.{OLDEST_MINOR} are not tested: upgrade the cluster");
        checks.warn("API server", format!("it is {version}"), remedy);
    } else {
        checks.ok("API server", format!("it answers, and is {version}"));
    }
}

/// Whether the definitions exist, and equal those of the charts. Returns the kinds that are served.
async fn definitions(
    kinds: Option<&[Kind]>,
    place: Option<&str>,
    cluster: &Cluster,
    discovery: &Discovery,
    checks: &mut Checks,
) -> Vec<Arc<Resource>> {
    let Some(kinds) = kinds else {
        match kinds::served(place, cluster, discovery).await {
            Ok(served) if served.is_empty() => {
                checks.warn("definitions", "no kind with a chart was found", "give --watches-file to check its kinds");
                return served;
            }
            Ok(served) => {
                let words: Vec<String> = served.iter().map(|kind| kind.gvk.kind_group()).collect();
                checks.ok("definitions", format!("served: {}", words.join(", ")));
                return served;
            }
            Err(error) => {
                checks.warn("definitions", error.0, "give --watches-file to check its kinds");
                return Vec::new();
            }
        }
    };
    let mut served = Vec::new();
    for kind in kinds {
        let word = kind.gvk.kind_group();
        let Some(resource) = discovery.cached(&kind.gvk) else {
            let remedy = format!(
                "tillerman crd {} --group {} --kind {} | kubectl apply -f -",
                kind.chart, kind.gvk.group, kind.gvk.kind
            );
            checks.fail("definitions", format!("the API server does not serve {}", kind.gvk), remedy);
            continue;
        };
        match against_chart(kind, &resource, cluster).await {
            Ok(None) => checks.ok("definitions", format!("{word} is served, and is the one that its chart makes")),
            Ok(Some(remedy)) => {
                checks.warn("definitions", format!("{word} is not the one that its chart makes"), remedy);
            }
            Err(why) => {
                checks.warn(
                    "definitions",
                    format!("{word} is served; it cannot be compared with its chart: {why}"),
                    "",
                );
            }
        }
        served.push(resource);
    }
    served
}

/// Compares the definition of a kind with the one that its chart makes; what to do where they differ.
async fn against_chart(kind: &Kind, resource: &Resource, cluster: &Cluster) -> Result<Option<String>, CliError> {
    let ChartRef::Path(path) = &kind.chart else { return Err("the chart is not fetched here".into()) };
    let chart = chart::load(path).map_err(CliError::new)?;
    let crds = Resource::crds();
    let name = format!("{}.{}", resource.plural, kind.gvk.group);
    let id = ObjectId { gvk: crds.gvk.clone(), namespace: None, name: name.as_str().into() };
    let live = cluster.get(&crds, &id).await.map_err(|e| e.whole())?.ok_or("there is no definition")?;
    let scope = if resource.namespaced { crd::Scope::Namespaced } else { crd::Scope::Cluster };
    let names = crd::Names {
        group: kind.gvk.group.to_string(),
        version: kind.gvk.version.to_string(),
        kind: kind.gvk.kind.to_string(),
        plural: resource.plural.to_string(),
        scope,
    };
    let fields = typed::of_chart(&chart).unwrap_or_default();
    let made =
        crd::of_chart(&chart, &names, crd::CrdSettings::default(), &values_files::beside(path, &chart), &fields)?;
    // The API server adds its defaults to both.
    let tried =
        cluster.apply_or_try(&crds, &id, &made.definition, Conflicts::Force, true).await.map_err(|e| e.whole())?;
    let of = |definition: &Value| definition.pointer("/spec/versions").cloned();
    let remedy = format!(
        "tillerman crd {} --group {} --kind {} | kubectl apply -f -",
        kind.chart, kind.gvk.group, kind.gvk.kind
    );
    Ok((of(&tried) != of(&live)).then_some(remedy))
}

/// Whether an operator runs; its ServiceAccount.
async fn operator(place: Option<&str>, cluster: &Cluster, checks: &mut Checks) -> Option<String> {
    let deployments =
        Resource { gvk: Gvk::new("apps", "v1", "Deployment"), plural: "deployments".into(), namespaced: true };
    let listed = match place {
        Some(namespace) => cluster.list(&deployments, namespace, "").await,
        None => cluster.list_all(&deployments, "").await,
    };
    let all = match listed {
        Ok(all) => all,
        Err(error) => {
            checks.warn("operator", error.whole(), "look in the operator's namespace with -n");
            return None;
        }
    };
    let mut account = None;
    let mut found = false;
    for deployment in &all {
        let text = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let image = |container: &Value| container.get("image").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_labelled =
            deployment.pointer("/metadata/labels/app.kubernetes.io~1name").and_then(Value::as_str) == Some("tillerman");
        let is_it = |container: &&Value| is_labelled || image(container).contains("tillerman");
        let Some(container) = containers.into_iter().flatten().find(is_it) else { continue };
        found = true;
        let name = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
        let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
        let (ready, wanted) = (number("/status/readyReplicas"), number("/spec/replicas"));
        let message = format!("Deployment {name}: {ready} of {wanted} pods are ready, image {}", image(container));
        if ready == 0 {
            checks.fail(
                "operator",
                message,
                format!("kubectl -n {} logs deployment/{}", text("/metadata/namespace"), text("/metadata/name")),
            );
        } else {
            checks.ok("operator", message);
        }
        let own = text("/spec/template/spec/serviceAccountName");
        account = Some(format!("{}:{}", text("/metadata/namespace"), if own.is_empty() { "default" } else { own }));
    }
    if !found {
        let where_ = place.map_or_else(|| "in no namespace".to_owned(), |name| format!("not in namespace {name}"));
        checks.warn(
            "operator",
            format!("no Deployment of Tillerman was found, {where_}"),
            "look with -A or -n; an operator outside of the cluster is not seen",
        );
    }
    leases(place, cluster, checks).await;
    account
}

async fn leases(place: Option<&str>, cluster: &Cluster, checks: &mut Checks) {
    let listed = match place {
        Some(namespace) => cluster.list(&Resource::leases(), namespace, "").await,
        None => cluster.list_all(&Resource::leases(), "").await,
    };
    for lease in listed.into_iter().flatten() {
        let text = |pointer: &str| lease.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if !text("/metadata/name").contains("tillerman") {
            continue;
        }
        let renewed = text("/spec/renewTime").parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second);
        let late = jiff::Timestamp::now().as_second() - renewed;
        let name = format!("Lease {}/{}", text("/metadata/namespace"), text("/metadata/name"));
        if text("/spec/holderIdentity").is_empty() || late > 60 {
            checks.warn("lease", format!("{name} has no holder"), "no operator leads: look at its pods");
        } else {
            checks.ok("lease", format!("{name} is held by {}", text("/spec/holderIdentity")));
        }
    }
}

/// Records without a custom resource, custom resources that do not go, and charts that are kept for no kind.
async fn leftovers(
    served: &[Arc<Resource>],
    kinds: Option<&[Kind]>,
    place: Option<&str>,
    cluster: &Cluster,
    checks: &mut Checks,
) {
    let mut crs: BTreeSet<String> = BTreeSet::new();
    let mut stuck = Vec::new();
    let now = jiff::Timestamp::now().as_second();
    for kind in served {
        let place = place.filter(|_| kind.namespaced);
        let Ok(found) = cluster.list_metadata(kind, place, "").await else {
            checks.warn("leftovers", format!("you are not allowed to list custom resources of {}", kind.gvk), "");
            return;
        };
        for cr in &found {
            let text =
                |field: &str| cr.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default();
            crs.insert(text("uid").to_owned());
            let finalizers = cr.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
            let is_ours = finalizers.filter_map(Value::as_str).any(|f| f == FINALIZER || f == LEGACY_FINALIZER);
            let deleted = text("deletionTimestamp").parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second);
            if is_ours && deleted.is_ok_and(|at| now - at > SLOW) {
                stuck.push(format!("{} {}/{}", kind.gvk.kind, text("namespace"), text("name")));
            }
        }
    }
    let say = |names: &[String]| {
        let more = names.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more}", names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))
    };
    if !stuck.is_empty() {
        let remedy = "tillerman status KIND/NAME shows why; an operator that runs removes them";
        checks.fail("leftovers", format!("being deleted for a long time: {}", say(&stuck)), remedy);
    }
    let selector = format!("owner=helm,{}", names::OWNER_UID);
    let records = match cluster.list_metadata(&Resource::secrets(), place, &selector).await {
        Ok(records) => records,
        Err(error) => return checks.warn("leftovers", error.whole(), "ask somebody who is allowed to list Secrets"),
    };
    let known: BTreeSet<String> = served.iter().map(|kind| kind.gvk.kind_group()).collect();
    let mut lost: BTreeMap<String, usize> = BTreeMap::new();
    for record in &records {
        let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let owner = record.pointer("/metadata/labels").and_then(|l| l.get(names::OWNER_UID)).and_then(Value::as_str);
        let described =
            record.pointer("/metadata/annotations").and_then(|a| a.get(names::OWNER)).and_then(Value::as_str);
        let word = described.and_then(|d| d.split_once(' ')).map(|(word, _)| word);
        // A kind that is not looked at may have its custom resource.
        if word.is_some_and(|word| known.contains(word)) && owner.is_some_and(|uid| !crs.contains(uid)) {
            *lost.entry(format!("{}/{}", text("/metadata/namespace"), text("/metadata/labels/name"))).or_default() += 1;
        }
    }
    let lost: Vec<String> = lost.into_keys().collect();
    if lost.is_empty() && stuck.is_empty() {
        checks.ok("leftovers", "every release record has its custom resource");
    } else if !lost.is_empty() {
        let remedy = "a custom resource of the same name continues its release; `helm uninstall` removes a release \
                      that is not wanted";
        checks.warn("leftovers", format!("releases without a custom resource: {}", say(&lost)), remedy);
    }
    let Some(kinds) = kinds else { return };
    let kept = cluster.list_metadata(&Resource::secrets(), place, names::KEPT_CHART_OF).await.unwrap_or_default();
    let of = |secret: &Value| {
        secret.pointer("/metadata/annotations")?.get(names::KEPT_CHART_KIND)?.as_str().map(str::to_owned)
    };
    let is_known = |word: &String| kinds.iter().any(|kind| kind.gvk.kind_group() == *word);
    let unused: BTreeSet<String> = kept.iter().filter_map(of).filter(|word| !is_known(word)).collect();
    if !unused.is_empty() {
        let names: Vec<String> = unused.into_iter().collect();
        checks.warn(
            "leftovers",
            format!("charts are kept for kinds that are not in the watches file: {}", say(&names)),
            "delete their Secrets if no other operator uses them",
        );
    }
}

/// Webhooks that would refuse every write, since nothing answers for them.
async fn webhooks(cluster: &Cluster, checks: &mut Checks) {
    let services = Resource { gvk: Gvk::new("", "v1", "Service"), plural: "services".into(), namespaced: true };
    let mut dead = Vec::new();
    for (kind, plural) in [
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ] {
        let gvk = Gvk::new("admissionregistration.k8s.io", "v1", kind);
        let resource = Resource { gvk, plural: plural.into(), namespaced: false };
        let configurations = match cluster.list_all(&resource, "").await {
            Ok(configurations) => configurations,
            Err(error) => return checks.warn("webhooks", error.whole(), ""),
        };
        for configuration in &configurations {
            for webhook in configuration.pointer("/webhooks").and_then(Value::as_array).into_iter().flatten() {
                let service = webhook.pointer("/clientConfig/service");
                let text = |field: &str| service.and_then(|s| s.get(field)).and_then(Value::as_str);
                let (Some(namespace), Some(name)) = (text("namespace"), text("name")) else { continue };
                if webhook.get("failurePolicy").and_then(Value::as_str) == Some("Ignore") {
                    continue;
                }
                let id = ObjectId { gvk: services.gvk.clone(), namespace: Some(namespace.into()), name: name.into() };
                if matches!(cluster.get(&services, &id).await, Ok(None)) {
                    let of = configuration.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                    dead.push(format!("{kind} {of} (Service {namespace}/{name})"));
                }
            }
        }
    }
    dead.dedup();
    if dead.is_empty() {
        checks.ok("webhooks", "every required admission webhook has its Service");
    } else {
        dead.truncate(NAMED);
        let remedy = "the API server refuses the writes that they select: restore the Service, or delete the \
                      configuration";
        checks.fail("webhooks", format!("nothing answers for {}", dead.join(", ")), remedy);
    }
}

#[cfg(test)]
mod tests {
    use super::Checks;

    #[test]
    fn a_line_says_how_a_check_went_and_the_next_what_to_do() {
        let mut checks = Checks::default();
        checks.ok("API server", "it answers");
        checks.fail("rights", "no\u{1b}[2J right", "add it");
        let expected =
            "ok    API server   it answers\nfail  rights       no\\u{1b}[2J right\n                   -> add it\n";
        assert_eq!(checks.text(), expected);
        assert_eq!(checks.document()["checks"][1]["result"], "fail");
    }
}
