//! Charts of several files: helpers, subcharts with values and globals, manifests and hooks of all sorts.

use crate::chart::{Case, any, layers};
use crate::random::Random;
use crate::template::Templates;
use crate::{vary, words};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Values that every chart of a case may have.
const NAMES: &[&str] = &["a", "b", "global", "sub", "other", "k", "enabled", "data"];

/// What a template says of them without failing.
const SAFE: &[&str] = &[
    ".Values.a",
    ".Values.b",
    "$.Values.global",
    ".Values.sub",
    "default 1 .Values.k",
    ".Values.global.a | default \"none\"",
    ".Release.Name",
    ".Chart.Name",
    ".Chart.Version | quote",
    ".Template.Name",
    ".Template.BasePath",
    "include \"h1\" .",
    "include \"h2\" (dict \"root\" $ \"x\" 1) | trim",
    "include \"all\" . | nindent 4",
    ".Files.Get \"f.txt\"",
    "(.Files.Glob \"*.txt\").AsConfig | nindent 4",
    ".Values | toYaml | sha256sum",
    "tpl (default \"x\" .Values.t | toString) .",
    ".Chart.IsRoot",
    ".Subcharts | keys | sortAlpha",
    "hasKey .Values \"sub\"",
    ".Values.sub.a",
    "set .Values \"k\" \"set\" | len",
    "(index .Subcharts \"sub\").Chart.Name",
    ".Values.a | toString | upper",
    "keys .Values | sortAlpha | join \",\"",
    "lookup \"v1\" \"Secret\" .Release.Namespace \"x\" | empty",
    ".Capabilities.KubeVersion.Version",
    "ternary \"y\" \"n\" (empty .Values.enabled)",
    "required \"a is needed\" .Values.a",
    "mergeOverwrite (dict \"a\" 1) (.Values.data | default dict) | toJson",
    "list .Values.a .Values.b | toJson",
    "toYaml .Values.data | nindent 4",
    ".Values.list | toJson",
    "$.Release | toJson",
    "unset .Values \"b\" | toJson",
    "deepCopy .Values | merge (dict) | toJson",
    "(include \"h1\" . | fromYaml).a",
    "pick .Values \"a\" \"k\" | toJson",
    ".Files.Lines \"f.txt\" | toJson",
    "dig \"global\" \"a\" \"none\" (.Values | toJson | fromJson)",
];

const KINDS: &[&str] = &[
    "ConfigMap",
    "Secret",
    "Deployment",
    "Service",
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Job",
    "Ingress",
    "Foo",
    "ClusterRole",
    "Role",
    "APIService",
    "PriorityClass",
    "StorageClass",
    "List",
    "Pod",
    "\"\"",
    "1",
    "~",
];

/// Documents that are not quite manifests.
const DOCUMENTS: &[&str] = &[
    "",
    "# only a comment\n",
    "---\n",
    "null\n",
    "- a\n- b\n",
    "a: [\n",
    "kind: ConfigMap\n",
    "kind: [x]\n",
    "apiVersion: 1\nkind: X\n",
    "metadata: x\n",
    "kind: List\nitems: []\n",
    "\t\n",
    "a: b\n--- \nc: d\n",
    "a: 1\n---b: 2\n",
    "text\n",
    "kind: A\r\nmetadata: {}\r\n---\r\nkind: B\r\n",
    "{}\n",
    "'x'\n",
    "a: &x 1\nb: *x\n",
    "kind: X\nmetadata:\n  annotations: [a]\n",
    "kind: X\nmetadata:\n  annotations: {a: 1}\n",
    "%YAML 1.1\n---\nkind: Y\n",
    "kind: X\nkind: Y\n",
    "a: |\n  ---\n  x\n",
    "\n\n\n",
    "kind: X\nmetadata:\n  name: 1\n",
    "kind: ConfigMap # c\n---\n# c\n---\nkind: Secret\n",
    "{{- \"\" -}}\n",
    "a: b: c\n",
    "kind: X\n...\nkind: Y\n",
    "? a\n: b\n",
    "\u{feff}kind: Z\n",
];

const HOOKS: &[&str] = &[
    "pre-install",
    "post-install, pre-upgrade",
    "test",
    "test-success",
    "crd-install",
    "foo",
    "pre-install,foo",
    "",
    " pre-delete ",
    "PRE-INSTALL",
    "[x]",
    "post-rollback",
];

/// A chart with everything.
pub fn of_files(random: &mut Random) -> Case {
    let mut files = BTreeMap::new();
    chart(random, "", "web", 0, &mut files);
    let names = ["sub".to_owned(), "other".to_owned()];
    let values = if random.one_in(3) { json!({}) } else { layers(random, &names) };
    let statements = vec![format!("{}\n", said(random))];
    Case { files, statements, values }
}

fn chart(random: &mut Random, path: &str, name: &str, depth: usize, files: &mut BTreeMap<String, String>) {
    let mut dependencies = Vec::new();
    for child in ["sub", "other"] {
        if depth < 2 && random.one_in(2) {
            chart(random, &format!("{path}charts/{child}/"), child, depth + 1, files);
            if random.one_in(2) {
                dependencies.push(json!({"name": child, "version": "*", "repository": "", "condition": *random.pick(&["sub.enabled", "enabled", "global.a", ""])}));
            }
        }
    }
    files.insert(format!("{path}Chart.yaml"), metadata(random, name, dependencies));
    if !random.one_in(8) {
        files.insert(format!("{path}values.yaml"), values(random));
    }
    if random.one_in(2) {
        files.insert(format!("{path}f.txt"), vary::word(random, words::TEXTS));
    }
    let helpers = *random.pick(&["templates/_helpers.tpl", "templates/sub/_h.tpl", "templates/_a.yaml"]);
    if depth == 0 || random.one_in(2) {
        files.insert(format!("{path}{helpers}"), defines(random));
    }
    for _ in 0..random.below(3) + usize::from(depth == 0) {
        let file =
            *random.pick(&["a.yaml", "b.yaml", "sub/c.yaml", "d.yml", "e.txt", "tests/t.yaml", "NOTES.txt", "f.tpl"]);
        if (depth, file) != (0, "NOTES.txt") {
            files.insert(format!("{path}templates/{file}"), documents(random));
        }
    }
}

fn metadata(random: &mut Random, name: &str, dependencies: Vec<Value>) -> String {
    let mut all = json!({"apiVersion": "v2", "name": name, "version": "1.0.0"});
    match random.below(24) {
        0 => all["type"] = (*random.pick(&["library", "application", "", "x"])).into(),
        1 => all["kubeVersion"] = vary::word(random, words::CONSTRAINTS).into(),
        2 => all["version"] = vary::word(random, words::VERSIONS).into(),
        3 => all["apiVersion"] = (*random.pick(&["v1", ""])).into(),
        4 => all["appVersion"] = json!(1.10),
        5 => all["annotations"] = json!({"a": "b", "c": null}),
        6 => all["keywords"] = json!(["a", null]),
        7 => all["maintainers"] = json!([{"name": "n", "email": "e"}, null]),
        8 => all["deprecated"] = true.into(),
        9 => all["icon"] = json!({}),
        _ => {}
    }
    if !dependencies.is_empty() {
        all["dependencies"] = dependencies.into();
    }
    all.to_string()
}

fn values(random: &mut Random) -> String {
    let mut out = String::new();
    if random.one_in(10) {
        return vary::word(random, words::YAML);
    }
    for _ in 0..random.below(6) {
        let name = *random.pick(NAMES);
        if random.one_in(4) {
            let text = random.pick(words::YAML).replace('\n', "\n  ");
            out += &format!("{name}:\n  {text}\n");
        } else {
            out += &format!("{name}: {}\n", any(random, 3));
        }
    }
    out
}

fn said(random: &mut Random) -> String {
    if random.one_in(8) {
        return format!("{{{{ {} }}}}", Templates::new(random).pipeline(1));
    }
    let safe = *random.pick(SAFE);
    match random.below(6) {
        0 => format!("{{{{- with {safe} }}}}{{{{ . }}}}{{{{ else }}}}none{{{{ end }}}}"),
        1 => format!("{{{{- range $k, $v := {safe} }}}}{{{{ $k }}}}={{{{ $v | toJson }}}} {{{{ end }}}}"),
        2 => format!("{{{{ {safe} | toJson }}}}"),
        _ => format!("{{{{ {safe} }}}}"),
    }
}

fn defines(random: &mut Random) -> String {
    let mut out = String::new();
    for name in ["h1", "h2", "all"] {
        if random.one_in(10) {
            continue;
        }
        let space = *random.pick(&["", "\n", "{{/* c */}}\n"]);
        let inside = match name {
            "h1" => format!(
                "a: {}",
                said(random).replace("include \"h1\"", "include \"h2\"").replace("include \"all\"", "toString")
            ),
            "h2" => (*random.pick(&[
                "{{ .x }}",
                "{{- .root.Chart.Name -}}",
                "{{ .root.Values.a }}\n",
                "h2",
                "{{ .Template }}",
            ]))
            .to_owned(),
            _ => "{{ range $k, $v := .Values }}{{ $k }}: {{ $v | toJson }}\n{{ end }}".to_owned(),
        };
        out += &format!("{{{{- define \"{name}\" -}}}}\n{inside}{{{{- end }}}}{space}");
    }
    out
}

fn documents(random: &mut Random) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.below(3) {
        if random.one_in(5) {
            out += &vary::word(random, DOCUMENTS);
        } else {
            let kind = *random.pick(KINDS);
            out += &format!(
                "apiVersion: {}\nkind: {kind}\nmetadata:\n  name: {}\n",
                random.pick(&["v1", "apps/v1", "x/v1"]),
                random.pick(&["x", "y", "a-b"])
            );
            if random.one_in(3) {
                out += &format!("  annotations:\n    helm.sh/hook: {}\n", random.pick(HOOKS));
                if random.one_in(2) {
                    out += &format!(
                        "    helm.sh/hook-weight: {}\n",
                        random.pick(&["\"1\"", "\"-5\"", "3", "x", "\"1.5\"", "\"\"", "\" 2\"", "\"+4\""])
                    );
                }
            }
            out += "data:\n";
            for key in ["p", "q", "r"].iter().take(random.below(4)) {
                out += &format!("  {key}: {}\n", said(random));
            }
        }
        out += *random.pick(&["---\n", "\n---\n", "", "--- # c\n", "---\r\n", "\n---  \n", "{{- \"\\n---\\n\" }}"]);
    }
    out
}
