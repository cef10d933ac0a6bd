//! The Deployment of the manager and the patches of it: arguments, environment, leader election.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::documents::{self, Document};
use super::{Edit, MigrationReport, Project};
use crate::template::yaml;

/// The effect of an argument on `tillerman run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A flag that it has. Whether the value is the next argument.
    Known {
        /// The value follows as an argument of its own.
        takes_next: bool,
    },
    /// It is accepted, and does nothing.
    Ignored,
    /// A flag that it has, with a value that it refuses.
    Wrong(String),
    /// It does not start with it.
    Unknown,
}

/// Flags of older versions of helm-operator, and what they are called now; `None` for what nothing replaces (operator-sdk 0.10 to 0.19,
/// `pkg/helm/flags` and `pkg/log/zap`).
const OLD: [(&str, Option<&str>); 4] = [
    ("max-workers", Some("max-concurrent-reconciles")),
    ("zap-level", Some("zap-log-level")),
    ("zap-sample", None),
    ("inject-owner-ref", None),
];

/// The content of the file of `--config`, by flag (controller-runtime's `ControllerManagerConfig`, which operator-sdk
/// had from 1.6 to 1.35).
const CONFIG: [(&str, &str); 5] = [
    ("health-probe-bind-address", "/health/healthProbeBindAddress"),
    ("metrics-bind-address", "/metrics/bindAddress"),
    ("leader-elect", "/leaderElection/leaderElect"),
    ("leader-election-id", "/leaderElection/resourceName"),
    ("leader-election-namespace", "/leaderElection/resourceNamespace"),
];

/// An argument and its place.
struct Given<'a> {
    text: String,
    path: &'a str,
    /// The part of the file in which it is.
    within: (usize, usize),
}

/// The operator's Deployment, as its files and patches make it.
#[derive(Default)]
pub struct Manager<'a> {
    /// The file of the Deployment, and its part.
    deployment: Option<(&'a str, (usize, usize))>,
    arguments: Vec<Given<'a>>,
    /// Names of variables.
    pub environment: BTreeSet<String>,
    /// There are variables of `ConfigMap`s or Secrets, whose names are not known.
    pub has_more_environment: bool,
    /// The variable `WATCH_NAMESPACE` is set, and not to nothing.
    pub is_bounded: bool,
    /// Its ServiceAccount.
    pub account: String,
    /// Commands that name helm-operator.
    commands: Vec<Given<'a>>,
    /// Files with kube-rbac-proxy.
    proxies: BTreeSet<&'a str>,
    has_strategy: bool,
    config: Option<Value>,
}

impl<'a> Manager<'a> {
    /// Reads the Deployment and its patches.
    pub fn find(files: &'a BTreeMap<String, String>) -> Self {
        let mut manager = Self { account: "default".to_owned(), ..Self::default() };
        for document in documents::used(files) {
            let within = (document.start, document.end);
            if document.kind() == "Deployment" {
                manager.deployment(document.path, within, &document.value);
            }
            if document.value.is_array() {
                manager.operations(document.path, within, &document.value);
            }
            if document.path.ends_with("/kustomization.yaml") {
                manager.inline(&document);
            }
        }
        // The generator of a ConfigMap names it, so that it counts where no file lists it as a resource.
        let configs = files.iter().filter(|(path, _)| documents::is_yaml(path) && path.starts_with("config/"));
        manager.config = configs
            .flat_map(|(path, text)| documents::of_file(path, text))
            .find(|document| document.kind() == "ControllerManagerConfig")
            .map(|document| document.value);
        manager
    }

    fn deployment(&mut self, path: &'a str, within: (usize, usize), value: &Value) {
        let pod = value.pointer("/spec/template/spec");
        let containers = pod.and_then(|pod| pod.get("containers")?.as_array()).map(Vec::as_slice).unwrap_or_default();
        let text = |container: &Value, field: &str| {
            container.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let is_proxy = |container: &&Value| {
            text(container, "name") == "kube-rbac-proxy" || text(container, "image").contains("kube-rbac-proxy")
        };
        if containers.iter().any(|container| is_proxy(&container)) {
            self.proxies.insert(path);
        }
        // A patch names no selector.
        if value.pointer("/spec/selector").is_some() && self.deployment.is_none() {
            self.deployment = Some((path, within));
            self.has_strategy = value.pointer("/spec/strategy/type").and_then(Value::as_str) == Some("Recreate");
            let account = pod.and_then(|pod| pod.get("serviceAccountName")?.as_str());
            account.unwrap_or("default").clone_into(&mut self.account);
        }
        let ours: Vec<&Value> = containers.iter().filter(|container| !is_proxy(container)).collect();
        let named: Vec<&Value> =
            ours.iter().copied().filter(|container| text(container, "name") == "manager").collect();
        for container in if named.is_empty() { ours } else { named } {
            self.container(path, within, container);
        }
    }

    fn container(&mut self, path: &'a str, within: (usize, usize), container: &Value) {
        let texts = |field: &str| {
            let items = container.get(field).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        // The last of several patches of the same list counts, and those before say the same of their flags.
        self.arguments.extend(texts("args").into_iter().map(|text| Given { text, path, within }));
        for (nth, text) in texts("command").into_iter().enumerate() {
            let given = Given { text, path, within };
            match nth {
                0 if given.text.ends_with("helm-operator") => self.commands.push(given),
                _ if given.text.starts_with('-') => self.arguments.push(given),
                _ => {}
            }
        }
        for variable in container.get("env").and_then(Value::as_array).into_iter().flatten() {
            let name = variable.get("name").and_then(Value::as_str).unwrap_or_default();
            if name == "WATCH_NAMESPACE" {
                self.is_bounded =
                    variable.get("value").is_none_or(|value| value.as_str().is_some_and(|v| !v.is_empty()));
            }
            self.environment.insert(name.to_owned());
        }
        self.has_more_environment |= container.get("envFrom").is_some();
    }

    /// A JSON patch.
    fn operations(&mut self, path: &'a str, within: (usize, usize), value: &Value) {
        for operation in value.as_array().into_iter().flatten() {
            let text = |field: &str| operation.get(field).and_then(Value::as_str).unwrap_or_default();
            if text("op") == "remove" || !text("path").contains("/containers/") || !text("path").contains("/args") {
                continue;
            }
            let values = match operation.get("value") {
                Some(Value::Array(values)) => values.iter().collect(),
                Some(value) => vec![value],
                None => Vec::new(),
            };
            let texts = values.into_iter().filter_map(Value::as_str);
            self.arguments.extend(texts.map(|text| Given { text: text.to_owned(), path, within }));
        }
    }

    /// The patches in a `kustomization.yaml` itself.
    fn inline(&mut self, document: &Document<'a>) {
        let within = (document.start, document.end);
        for list in ["patches", "patchesJson6902"] {
            let patches = document.value.get(list).and_then(Value::as_array).into_iter().flatten();
            for patch in patches.filter_map(|patch| patch.get("patch")?.as_str()) {
                let Ok(value) = yaml::parse(patch.as_bytes()) else { continue };
                if value.is_array() {
                    self.operations(document.path, within, &value);
                } else if value.get("kind").and_then(Value::as_str) == Some("Deployment") {
                    self.deployment(document.path, within, &value);
                }
            }
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.arguments.iter().any(|given| name_of(&given.text) == flag)
    }

    /// Whether it waits for a lease.
    pub fn elects(&self) -> bool {
        let is_on = |given: &Given<'_>| {
            matches!(name_of(&given.text), "leader-elect" | "enable-leader-election") && !given.text.ends_with("=false")
        };
        let by_file = self.config.as_ref().and_then(|config| config.pointer("/leaderElection/leaderElect")?.as_bool());
        self.arguments.iter().any(is_on) || self.has("config") && by_file == Some(true)
    }
}

pub fn look(project: &Project<'_>, manager: &Manager<'_>, report: &mut MigrationReport) {
    let Some((path, within)) = manager.deployment else {
        return report.note(
            "config/manager/manager.yaml",
            None,
            "no Deployment of the operator was found",
            "check its arguments against tillerman run --help",
        );
    };
    arguments(project, manager, report);
    for command in &manager.commands {
        if project.base.contains("helm-operator") {
            continue;
        }
        let what = format!("the command is {}, which is not in Tillerman's image", command.text);
        let remedy = "/usr/local/bin/tillerman";
        replaced(project, command, &[remedy.to_owned()], (&what, remedy), report);
    }
    for proxy in &manager.proxies {
        report.note(
            proxy,
            None,
            "kube-rbac-proxy protects the metrics",
            "nothing; Tillerman can protect them itself: --metrics-secure --metrics-require-rbac --metrics-bind-address=:8443",
        );
    }
    if !manager.elects() && !manager.has_strategy {
        recreate(
            project,
            path,
            within,
            "without --leader-elect, two operators run for a moment when the image changes",
            report,
        );
    }
}

/// Lets the old pod end before the new one starts.
pub fn recreate(
    project: &Project<'_>,
    path: &str,
    (start, end): (usize, usize),
    what: &str,
    report: &mut MigrationReport,
) {
    let remedy = "strategy: {type: Recreate}, so that the old pod ends before the new one starts";
    let lines = project.files.get(path).map(|text| text.lines().enumerate().take(end).skip(start));
    let spec = lines.into_iter().flatten().find(|(_, line)| line.trim_end() == "spec:");
    match spec {
        Some((at, _))
            if project.files[path]
                .lines()
                .take(end)
                .skip(at + 1)
                .all(|line| !line.trim_start().starts_with("strategy:")) =>
        {
            let edit = Edit::After(vec!["  strategy:".to_owned(), "    type: Recreate".to_owned()]);
            report.edit(path, at, edit, what, remedy);
        }
        _ => report.change(path, None, what, remedy),
    }
}

impl<'a> Manager<'a> {
    /// The file of the Deployment and its part, if its pods may run beside each other.
    pub fn rolling(&self) -> Option<(&'a str, (usize, usize))> {
        self.deployment.filter(|_| !self.has_strategy)
    }
}

fn arguments(project: &Project<'_>, manager: &Manager<'_>, report: &mut MigrationReport) {
    let (mut known, mut ignored) = (BTreeSet::new(), BTreeSet::new());
    let mut is_value = false;
    let mut seen = BTreeSet::new();
    for given in &manager.arguments {
        if std::mem::take(&mut is_value) {
            continue;
        }
        let name = name_of(&given.text).to_owned();
        match (project.argument)(&given.text) {
            Argument::Known { takes_next } => {
                is_value = takes_next;
                known.insert(name);
            }
            Argument::Ignored => drop(ignored.insert(name)),
            Argument::Wrong(why) => {
                report.change(
                    given.path,
                    place(project, given),
                    &format!("{}: {why}", given.text),
                    "tillerman run --help",
                );
            }
            Argument::Unknown if seen.insert((given.path, given.text.clone())) => {
                unknown(project, manager, given, report);
            }
            Argument::Unknown => {}
        }
    }
    let list = |names: &BTreeSet<String>| names.iter().map(|name| format!("--{name}")).collect::<Vec<_>>().join(" ");
    let path = manager.deployment.map_or("", |(path, _)| path);
    if !known.is_empty() {
        report.stays(path, &format!("tillerman run takes {}", list(&known)));
    }
    if !ignored.is_empty() {
        report.note(path, None, &format!("tillerman run accepts and ignores {}", list(&ignored)), "nothing");
    }
    let used = ["WATCH_NAMESPACE", "OPERATOR_NAME"].into_iter().filter(|name| manager.environment.contains(*name));
    let used: Vec<&str> = used.collect();
    if !used.is_empty() {
        report.stays(path, &format!("tillerman run reads {}", used.join(" and ")));
    }
}

fn unknown(project: &Project<'_>, manager: &Manager<'_>, given: &Given<'_>, report: &mut MigrationReport) {
    let (name, what) = (name_of(&given.text), format!("tillerman run does not know {}", given.text));
    let value = given.text.split_once('=').map(|(_, value)| value);
    if !given.text.starts_with('-') {
        return report.change(given.path, place(project, given), &what, "remove it");
    }
    let instead = match (OLD.iter().find(|(old, _)| *old == name), &manager.config) {
        (Some((_, Some(now))), _) => value.map(|value| vec![format!("--{now}={value}")]),
        (Some((_, None)), _) => Some(Vec::new()),
        (None, Some(config)) if name == "config" && value.is_some() => Some(of_config(config, manager)),
        (None, _) => None,
    };
    match instead {
        Some(instead) => {
            let remedy = match instead.as_slice() {
                [] => "remove it: Tillerman has no replacement".to_owned(),
                all => all.join(" "),
            };
            replaced(project, given, &instead, (&what, &remedy), report);
        }
        None => report.change(given.path, place(project, given), &what, "remove it, or see tillerman run --help"),
    }
}

/// The content of the file of `--config`, as flags. A flag that is given besides wins.
fn of_config(config: &Value, manager: &Manager<'_>) -> Vec<String> {
    let flag = |(flag, pointer): &(&str, &str)| {
        let text = match config.pointer(pointer)? {
            Value::Bool(true) => return Some(format!("--{flag}")),
            Value::String(text) if !text.is_empty() => text.clone(),
            _ => return None,
        };
        Some(format!("--{flag}={text}"))
    };
    CONFIG.iter().filter(|(name, _)| !manager.has(name)).filter_map(flag).collect()
}

fn place(project: &Project<'_>, given: &Given<'_>) -> Option<usize> {
    documents::line_of(project.files.get(given.path)?, given.within, &given.text)
}

/// Puts arguments in the place of one, where a line holds it alone.
fn replaced(
    project: &Project<'_>,
    given: &Given<'_>,
    instead: &[String],
    (what, remedy): (&str, &str),
    report: &mut MigrationReport,
) {
    let line = place(project, given).and_then(|at| Some((at, project.files.get(given.path)?.lines().nth(at)?)));
    match line {
        // An item of a list, which may become several or none.
        Some((at, line)) if line.trim_start().starts_with("- ") => {
            let lines = instead.iter().map(|text| line.replacen(given.text.as_str(), text, 1)).collect();
            report.edit(given.path, at, Edit::Replace(lines), what, remedy);
        }
        // The value of a patch, which is one.
        Some((at, line)) if instead.len() == 1 => {
            let edit = Edit::Replace(vec![line.replacen(given.text.as_str(), &instead[0], 1)]);
            report.edit(given.path, at, edit, what, remedy);
        }
        _ => report.change(given.path, line.map(|(at, _)| at), what, remedy),
    }
}

/// The name of a flag.
fn name_of(argument: &str) -> &str {
    let name = argument.trim_start_matches('-');
    name.split('=').next().unwrap_or(name)
}
