use std::collections::BTreeMap;
use std::iter::once;

use super::{Argument, MigrationReport, Project, Verdict, look, read_watches};
use crate::chart::LoadError;
use crate::rbac::own::{RunSettings, Served, rules};

const WATCHES: &str = "- group: a.io\n  version: v1\n  kind: Web\n  chart: helm-charts/web\n";
const DOCKERFILE: &str = "FROM quay.io/operator-framework/helm-operator:v1.42.3\n\nENV HOME=/opt/helm\nCOPY watches.yaml ${HOME}/watches.yaml\n\
                          COPY helm-charts  ${HOME}/helm-charts\nWORKDIR ${HOME}\n";

/// The answer of `tillerman run`; the whole table is that of its flags (src/cli/migrate.rs).
fn argument(text: &str) -> Argument {
    match text.trim_start_matches('-').split('=').next().unwrap() {
        "leader-elect" | "enable-leader-election" => Argument::Known { takes_next: false },
        "leader-election-id" | "metrics-bind-address" => Argument::Known { takes_next: !text.contains('=') },
        "zap-stacktrace-level" => Argument::Ignored,
        _ => Argument::Unknown,
    }
}

fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = once(&("watches.yaml", WATCHES)).chain(files);
    all.map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn report(files: &BTreeMap<String, String>) -> MigrationReport {
    let watches = read_watches(&files["watches.yaml"]).map(|watches| watches.kinds).unwrap_or_default();
    let kinds: Vec<_> = watches.into_iter().map(|kind| (kind, Err(LoadError("not here".to_owned())))).collect();
    let served = once(Served { group: "a.io".to_owned(), plural: "webs".to_owned() }).collect();
    let needed = rules(&[], &RunSettings { served, ..RunSettings::default() });
    look(&Project { files, base: "tillerman:1", argument: &argument, kinds: &kinds, needed: &needed })
}

/// The changes, as `PATH:LINE by hand or not: what`; without that of the chart, which is not here.
fn changes(files: &BTreeMap<String, String>) -> Vec<String> {
    let report = report(files);
    let changes = report.findings.iter().filter(|f| f.verdict == Verdict::Change && !f.what.contains("not here"));
    let shown = |f: &super::Finding| {
        let line = f.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line} {}{}", f.path, if f.is_edited { "" } else { "by hand " }, f.what)
    };
    changes.map(shown).collect()
}

/// The files after the edits; a second look has none to make.
fn edited(mut files: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let edited = report(&files).edited(&files);
    files.extend(edited.clone());
    let again = report(&files);
    assert_eq!(again.edited(&files), BTreeMap::new(), "{:?}", again.findings);
    assert!(!again.findings.iter().any(|finding| finding.is_edited), "{:?}", again.findings);
    edited
}

#[test]
fn a_dockerfile_gets_the_image_and_what_that_of_helm_operator_brought() {
    let becomes = |text: &str| edited(files(&[("Dockerfile", text)])).remove("Dockerfile").unwrap_or_default();
    let end = "USER 1001\nENTRYPOINT [\"/usr/local/bin/tillerman\", \"run\", \"--watches-file=./watches.yaml\"]\n";
    let new = DOCKERFILE.replace("quay.io/operator-framework/helm-operator:v1.42.3", "tillerman:1");
    assert_eq!(becomes(DOCKERFILE), format!("{new}{end}"));
    // Only lines that are understood change: comments, other stages, labels and spaces stay.
    let own = "# ours\nFROM golang:1.24 AS build\nRUN make\n\nARG BASE=registry.redhat.io/openshift4/ose-helm-rhel9-operator:v4.18\n\
               FROM --platform=linux/amd64  ${BASE} AS last\nLABEL a=b \\\n  c=d\nENV HOME=/opt/helm\nWORKDIR /opt/helm\nUSER 1002\n";
    let found = becomes(own);
    assert!(
        found.contains("ARG BASE=tillerman:1\nFROM --platform=linux/amd64  ${BASE} AS last\nLABEL a=b \\\n  c=d\n"),
        "{found}"
    );
    assert!(found.ends_with(
        "USER 1002\nENTRYPOINT [\"/usr/local/bin/tillerman\", \"run\", \"--watches-file=./watches.yaml\"]\n"
    ));
    // Before operator-sdk 1.0, the image named the folder.
    let old = "FROM quay.io/operator-framework/helm-operator:v0.19.4\n\nCOPY watches.yaml ${HOME}/watches.yaml\n";
    let found = edited(files(&[("build/Dockerfile", old)])).remove("build/Dockerfile").unwrap();
    let new = "FROM tillerman:1\nENV HOME=/opt/helm\n\nCOPY watches.yaml ${HOME}/watches.yaml\nWORKDIR ${HOME}\n";
    assert_eq!(found, format!("{new}{end}"));
}

#[test]
fn what_a_dockerfile_does_by_itself_is_left_to_people() {
    let changes = |text: &str| changes(&files(&[("Dockerfile", text)]));
    assert_eq!(changes("FROM debian:12\n"), ["Dockerfile:1 by hand it is built on debian:12, which is not known"]);
    let own = format!("{DOCKERFILE}RUN microdnf install x\nENTRYPOINT [\"/usr/local/bin/entrypoint\"]\n");
    let found = changes(&own);
    assert!(found[1].starts_with("Dockerfile:7 by hand RUN needs a shell"), "{found:?}");
    assert!(found.last().unwrap().starts_with("Dockerfile:8 by hand the entry point is"), "{found:?}");
    assert_eq!(changes("# nothing\n"), ["Dockerfile by hand it has no FROM"]);
}

/// A manager with arguments, in the file that operator-sdk gives it.
fn manager(arguments: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: controller-manager\n  namespace: system\nspec:\n  replicas: 1\n  \
         selector:\n    matchLabels: {{a: b}}\n  template:\n    spec:\n      containers:\n      - args:\n{arguments}        image: controller:latest\n        \
         name: manager\n      serviceAccountName: default\n"
    )
}

const ELECTS: &str = "        - --leader-elect\n";

#[test]
fn arguments_are_known_ignored_replaced_or_left_to_people() {
    let of = |arguments: &str| files(&[("config/manager/manager.yaml", &manager(arguments))]);
    let path = "config/manager/manager.yaml";
    assert_eq!(changes(&of("        - --leader-elect\n        - --leader-election-id\n        - x\n")), [""; 0]);
    let old = of(
        "        - --leader-elect\n        - \"--max-workers=4\" # ours\n        - --zap-sample=true\n        - --leader-election-id=x\n",
    );
    // The comment makes the line one that is not understood.
    assert_eq!(
        changes(&old),
        [
            format!("{path} by hand tillerman run does not know --max-workers=4"),
            format!("{path}:16 tillerman run does not know --zap-sample=true")
        ]
    );
    let old = of("        - --leader-elect\n        - \"--max-workers=4\"\n        - --unheard-of\n");
    let found = edited(old.clone()).remove(path).unwrap();
    assert_eq!(found, old[path].replace("--max-workers=4", "--max-concurrent-reconciles=4"));
    assert!(changes(&old).contains(&format!("{path}:16 by hand tillerman run does not know --unheard-of")));
    let flow = manager("").replace("args:\n", "args: [\"--leader-elect\", \"--zap-sample\"]\n");
    assert_eq!(changes(&files(&[(path, &flow)])), [format!("{path} by hand tillerman run does not know --zap-sample")]);
}

#[test]
fn patches_count_where_kustomize_takes_them() {
    let patch = "- op: add\n  path: /spec/template/spec/containers/0/args/0\n  value: --max-workers=2\n";
    let kustomization =
        "resources:\n- ../manager\npatches:\n# - path: other.yaml\n- path: patch.yaml\n  target: {kind: Deployment}\n";
    let all = [
        ("config/manager/manager.yaml", manager(ELECTS)),
        ("config/manager/kustomization.yaml", "resources:\n- manager.yaml\n".to_owned()),
        ("config/default/kustomization.yaml", kustomization.to_owned()),
        ("config/default/patch.yaml", patch.to_owned()),
        ("config/default/other.yaml", patch.replace("max-workers", "unheard-of")),
    ];
    let all = files(&all.each_ref().map(|(path, text)| (*path, text.as_str())));
    assert_eq!(changes(&all), ["config/default/patch.yaml:3 tillerman run does not know --max-workers=2"]);
    assert_eq!(edited(all)["config/default/patch.yaml"], patch.replace("max-workers", "max-concurrent-reconciles"));
}

#[test]
fn the_file_of_config_becomes_flags() {
    let config = "apiVersion: controller-runtime.sigs.k8s.io/v1alpha1\nkind: ControllerManagerConfig\nhealth:\n  healthProbeBindAddress: :8081\n\
                  metrics:\n  bindAddress: 127.0.0.1:8080\nleaderElection:\n  leaderElect: true\n  resourceName: abc.example.com\n";
    let arguments = "        - --config=controller_manager_config.yaml\n        - --metrics-bind-address=:9090\n";
    let path = "config/manager/manager.yaml";
    let all = files(&[(path, &manager(arguments)), ("config/manager/controller_manager_config.yaml", config)]);
    let flags = "        - --health-probe-bind-address=:8081\n        - --leader-elect\n        - --leader-election-id=abc.example.com\n";
    let found = edited_once(&all).remove(path).unwrap();
    assert_eq!(found, manager(arguments).replacen("        - --config=controller_manager_config.yaml\n", flags, 1));
}

/// The files after the edits.
fn edited_once(files: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    report(files).edited(files)
}

/// The roles of operator-sdk 1.5, whose helm-operator held a `ConfigMap`.
const OLD_ROLES: [(&str, &str); 3] = [
    (
        "config/rbac/leader_election_role.yaml",
        "# permissions to do leader election.\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: leader-election-role\n\
         rules:\n- apiGroups:\n  - \"\"\n  resources:\n  - configmaps\n  verbs:\n  - get\n  - update\n  - create\n",
    ),
    (
        "config/rbac/role.yaml",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: manager-role\nrules:\n##\n## Base operator rules\n##\n\
         - apiGroups: [\"\"]\n  resources: [secrets, events, pods]\n  verbs: [\"*\"]\n- apiGroups: [a.io]\n  resources: [webs, webs/status, webs/finalizers]\n  \
         verbs: [create, delete, get, list, patch, update, watch]\n\n# +kubebuilder:scaffold:rules\n",
    ),
    (
        "config/rbac/role_binding.yaml",
        "kind: ClusterRoleBinding\nmetadata: {name: manager-rolebinding}\nroleRef: {kind: ClusterRole, name: manager-role}\nsubjects:\n\
         - {kind: ServiceAccount, name: default, namespace: system}\n---\nkind: RoleBinding\nmetadata: {name: leader-election-rolebinding}\n\
         roleRef: {kind: Role, name: leader-election-role}\nsubjects:\n- {kind: ServiceAccount, name: default, namespace: system}\n",
    ),
];

#[test]
fn the_lease_needs_a_rule_where_helm_operator_held_a_config_map() {
    let manager = manager(ELECTS);
    let all: Vec<_> = OLD_ROLES.into_iter().chain([("config/manager/manager.yaml", manager.as_str())]).collect();
    let all = files(&all);
    assert_eq!(
        changes(&all),
        [
            "config/rbac/leader_election_role.yaml:14 the role lacks {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, \
             watch, create, patch]} (the lease of --leader-elect)",
            "config/manager/manager.yaml:6 helm-operator of this version held a ConfigMap and no lease, so two operators run for a moment \
             when the image changes"
        ]
    );
    let found = edited(all);
    let rule = "# the lease of --leader-elect\n- apiGroups:\n  - coordination.k8s.io\n  resources:\n  - leases\n  verbs:\n  - get\n  - watch\n  - create\n  - patch\n";
    assert_eq!(found["config/rbac/leader_election_role.yaml"], format!("{}{rule}", OLD_ROLES[0].1));
    assert!(found["config/manager/manager.yaml"].contains("spec:\n  strategy:\n    type: Recreate\n  replicas: 1\n"));
    assert_eq!(found.len(), 2);
}

#[test]
fn a_rule_is_added_before_the_marker_of_kubebuilder_and_not_where_something_follows() {
    let role = OLD_ROLES[1].1.replace("webs/finalizers", "webs");
    let other = role.replace("\n# +kubebuilder:scaffold:rules\n", "aggregationRule: null\n");
    let manager = manager(ELECTS);
    let with = |role: &str| {
        let mut all = OLD_ROLES.to_vec();
        all[1].1 = "";
        all.push(("config/manager/manager.yaml", &manager));
        let mut all = files(&all);
        all.insert("config/rbac/role.yaml".to_owned(), role.to_owned());
        all
    };
    let found = edited(with(&role)).remove("config/rbac/role.yaml").unwrap();
    let end = "watch]\n# to own objects whose deletion it blocks\n- apiGroups:\n  - a.io\n  resources:\n  - \
               webs/finalizers\n  verbs:\n  - update\n\n# +kubebuilder:scaffold:rules\n";
    assert!(found.ends_with(end), "{found}");
    assert!(changes(&with(&other)).iter().any(|c| c.starts_with("config/rbac/role.yaml by hand")));
}

/// operator-sdk 0.19: `deploy/`, one namespace, no lease, and a definition of a version that no cluster serves now.
#[test]
fn a_project_of_before_operator_sdk_1_is_understood() {
    let operator = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-operator\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      \
                    name: web-operator\n  template:\n    spec:\n      serviceAccountName: web-operator\n      containers:\n        - name: web-operator\n          \
                    image: REPLACE_IMAGE\n          env:\n            - name: WATCH_NAMESPACE\n              valueFrom:\n                fieldRef:\n                  \
                    fieldPath: metadata.namespace\n            - name: OPERATOR_NAME\n              value: \"web-operator\"\n";
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: web-operator\nrules:\n- apiGroups: [\"\"]\n  resources: [\"*\"]\n  \
                verbs: [\"*\"]\n- apiGroups: [a.io]\n  resources: [\"*\"]\n  verbs: [\"*\"]\n";
    let binding = "kind: RoleBinding\nmetadata: {name: web-operator}\nsubjects: [{kind: ServiceAccount, name: web-operator}]\nroleRef: {kind: Role, name: web-operator}\n";
    let definition = "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: webs.a.io}\nspec:\n  group: a.io\n  \
                      names: {kind: Web, plural: webs}\n  version: v1\n";
    let mut all = files(&[
        ("deploy/operator.yaml", operator),
        ("deploy/role.yaml", role),
        ("deploy/role_binding.yaml", binding),
        ("deploy/crds/a.io_webs_crd.yaml", definition),
    ]);
    all.insert("watches.yaml".to_owned(), WATCHES.replace("helm-charts", "/opt/helm/helm-charts"));
    assert_eq!(
        changes(&all),
        [
            "deploy/crds/a.io_webs_crd.yaml:1 by hand Kubernetes has not served apiextensions.k8s.io/v1beta1 since \
             1.22",
            "deploy/operator.yaml:5 without --leader-elect, two operators run for a moment when the image changes",
        ]
    );
    let report = report(&all);
    let remedy =
        |path: &str| &report.findings.iter().find(|f| f.path == path && f.verdict == Verdict::Change).unwrap().remedy;
    assert_eq!(
        remedy("deploy/crds/a.io_webs_crd.yaml"),
        "tillerman crd helm-charts/web --group a.io --version v1 --kind Web --plural webs"
    );
    let stays: Vec<&str> =
        report.findings.iter().filter(|f| f.verdict == Verdict::Stays).map(|f| f.what.as_str()).collect();
    assert!(stays.contains(&"tillerman run reads WATCH_NAMESPACE and OPERATOR_NAME"), "{stays:?}");
    assert!(stays.contains(&"the ServiceAccount web-operator has the rights that Tillerman needs"), "{stays:?}");
}

#[test]
fn fields_that_nobody_knows_and_variables_that_nobody_sets_are_named() {
    let mut all = files(&[("config/manager/manager.yaml", &manager(ELECTS))]);
    all.insert(
        "watches.yaml".to_owned(),
        format!("{WATCHES}  maxReconciles: 3\n  overrideValues:\n    image: $RELATED_IMAGE_WEB\n"),
    );
    let report = report(&all);
    let notes: Vec<String> = report
        .findings
        .iter()
        .filter(|f| f.path == "watches.yaml" && f.verdict == Verdict::Note)
        .map(|f| format!("{:?} {}", f.line, f.what))
        .collect();
    assert!(notes.contains(&"Some(5) line 5: unknown field \"maxReconciles\" is ignored".to_owned()), "{notes:?}");
    assert!(notes.iter().any(|note| note.ends_with("does not set: RELATED_IMAGE_WEB")), "{notes:?}");
    all.insert("watches.yaml".to_owned(), "- group: [".to_owned());
    assert!(changes(&all)[0].starts_with("watches.yaml by hand"), "{:?}", changes(&all));
}

#[test]
fn make_run_runs_tillerman() {
    let text = ".PHONY: run\nrun: helm-operator ## Run\n\t$(HELM_OPERATOR) run --zap-devel\n\nother:\n\ttrue\n";
    let found = edited(files(&[("Makefile", text)])).remove("Makefile").unwrap();
    assert_eq!(found, ".PHONY: run\nrun: ## Run\n\ttillerman run --zap-devel\n\nother:\n\ttrue\n");
}
