use super::TemplateSet;
use super::kinds::{Lookup, TemplateDocument};
use crate::template::functions;

/// The pairs of a template, and its lookups.
fn read(text: &str) -> (String, String) {
    let mut set = TemplateSet::new(functions::table());
    set.parse("c/templates/a.yaml", text).unwrap();
    let defaults = |path: &[String]| match path.join(".").as_str() {
        "kind" => vec!["StatefulSet".to_owned()],
        "version" => vec!["v2".to_owned()],
        "x.y.kind" => vec!["DaemonSet".to_owned()],
        _ => Vec::new(),
    };
    let kinds = set.kinds(&["c/templates/a.yaml"], &defaults);
    let join = |texts: &std::collections::BTreeSet<String>| texts.iter().cloned().collect::<Vec<_>>().join("|");
    let document = |d: &TemplateDocument| format!("{} {}", join(&d.api_versions), join(&d.kinds));
    let lookup = |l: &Lookup| format!("{} {} {:?}", join(&l.api_versions), join(&l.kinds), l.namespace);
    let documents: Vec<_> = kinds.documents.iter().map(document).collect();
    (documents.join(", "), kinds.lookups.iter().map(lookup).collect::<Vec<_>>().join(", "))
}

#[test]
fn what_a_template_may_make_is_read() {
    for (text, expected) in [
        ("apiVersion: v1\nkind: Service\n", "v1 Service"),
        ("{{ if .Values.a }}\napiVersion: apps/v1\nkind: Deployment\n{{ end }}", "apps/v1 Deployment"),
        ("a: 1\n---\napiVersion: v1\nkind: Secret # why\n--- \nkind: \"Pod\"\napiVersion: 'v1'", "v1 Secret, v1 Pod"),
        ("kind: {{ if .Values.a }}Role{{ else }}ClusterRole{{ end }}Binding\n", " ClusterRoleBinding|RoleBinding"),
        ("kind: {{ ternary \"Role\" \"ClusterRole\" .Values.a }}\n", " ClusterRole|Role"),
        ("kind: {{ .Values.kind | default \"Deployment\" }}\napiVersion: apps/v1", "apps/v1 Deployment|StatefulSet"),
        ("kind: Autoscaler\napiVersion: autoscaling/{{ $.Values.version }}", "autoscaling/v2 Autoscaler"),
        ("kind: Autoscaler\napiVersion: autoscaling/{{ .Values.none }}", "autoscaling/v1 Autoscaler"),
        ("{{ with .Values.x }}\napiVersion: v1\nkind: {{ .y.kind }}\n{{ end }}", "v1 DaemonSet"),
        ("{{ range .Values.x }}\napiVersion: v1\nkind: {{ .y.kind }}\n{{ end }}", "v1 "),
        (
            "{{ define \"v\" }}{{ if .a }}{{- print \"x.io/v1\" -}}{{ else }}x.io/v1beta1{{ end }}{{ end }}\
             apiVersion: {{ include \"v\" . }}\nkind: Kind",
            "x.io/v1|x.io/v1beta1 Kind",
        ),
        ("{{ $kind := \"Job\" }}{{ if .Values.c }}{{ $kind = \"CronJob\" }}{{ end }}kind: {{ $kind }}", " CronJob|Job"),
        ("{{ define \"all\" }}\n  apiVersion: v1\n  kind: Pod\n{{ end }}{{ template \"all\" . }}", "v1 Pod"),
        ("{{ define \"unused\" }}\napiVersion: v1\nkind: Pod\n{{ end }}", ""),
        (
            "{{ define \"dyn.a\" }}\napiVersion: v1\nkind: Pod\n{{ end }}{{ include (print \"dyn.\" .Values.x) . }}",
            "v1 Pod",
        ),
        (
            "{{ define \"unused\" }}\napiVersion: v1\nkind: Pod\n{{ end }}{{ include (print $.Template.BasePath \"/b.yaml\") . }}",
            "",
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  spec: {}\n",
            "apps/v1|v1 Deployment",
        ),
        ("apiVersion: apps/v1\nkind: Deployment\nspec:\n  x:\n    kind: Not\n    apiVersion: v9", "apps/v1 Deployment"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    \"helm.sh/hook\": test-success\n", ""),
    ] {
        assert_eq!(read(text).0, expected, "{text}");
    }
}

#[test]
fn what_a_template_looks_up_is_read() {
    for (text, expected) in [
        ("{{ lookup \"v1\" \"Secret\" .Release.Namespace \"a\" }}", "v1 Secret None"),
        ("{{ (lookup \"v1\" \"Namespace\" \"\" \"a\").metadata }}", "v1 Namespace Some(\"\")"),
        (
            "{{ $v := \"apps/v1\" }}{{ range (lookup $v \"Deployment\" \"x\" \"\").items }}{{ end }}",
            "apps/v1 Deployment Some(\"x\")",
        ),
    ] {
        assert_eq!(read(text).1, expected, "{text}");
    }
}
