//! The definitions in `crds/` of a chart, by the switch `crds`: `skip`, `create` or `replace`. None is ever deleted.

use std::path::PathBuf;

use crate::harness::{Space, eventually, kubectl};
use serde_json::{Value, json};

/// A chart with a definition of a group of its own, and an object of that kind.
struct Chart<'a> {
    space: &'a Space,
    group: String,
}

impl<'a> Chart<'a> {
    fn new(space: &'a Space) -> Self {
        Self { space, group: format!("{}.tillerman.dev", space.name) }
    }

    /// Writes it: the fields of the kind, and the versions that are served.
    fn write(&self, fields: &[&str], versions: &[&str]) -> PathBuf {
        let chart = self.space.dir().join("things");
        for folder in ["crds", "templates"] {
            std::fs::create_dir_all(chart.join(folder)).unwrap();
        }
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: things\nversion: 0.1.0\n").unwrap();
        let properties: Value = fields
            .iter()
            .map(|f| ((*f).to_owned(), json!({"type": "string"})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1", "schema": {"openAPIV3Schema": schema}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{}", self.group), "labels": {"fields": fields.len().to_string()}},
            "spec": {"group": self.group, "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
                "versions": versions.iter().map(version).collect::<Vec<_>>()}});
        std::fs::write(chart.join("crds/things.yaml"), definition.to_string()).unwrap();
        let template = format!(
            "apiVersion: {}/v1\nkind: Thing\nmetadata: {{name: {{{{ .Release.Name }}}}}}\nspec: {{{{ .Values | toJson }}}}\n",
            self.group
        );
        std::fs::write(chart.join("templates/thing.yaml"), template).unwrap();
        chart
    }

    fn watches(&self) -> PathBuf {
        let chart = self.space.dir().join("things");
        self.space.watches_with(&[("Web", chart.to_str().unwrap())], "  allow: [crds]\n")
    }

    fn definition(&self) -> Result<Value, String> {
        let text = kubectl(&["get", &format!("crd/things.{}", self.group), "-o", "json"], None)?;
        serde_json::from_str(&text).map_err(|e| e.to_string())
    }

    fn thing(&self) -> Value {
        self.space.get(&format!("things.{}/app", self.group)).unwrap()["spec"].clone()
    }

    fn versions(&self) -> Vec<String> {
        let versions = self.definition().unwrap()["spec"]["versions"].as_array().cloned().unwrap_or_default();
        versions.iter().map(|v| v["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Chart<'_> {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", &format!("crd/things.{}", self.group), "--wait=false"], None);
    }
}

fn wait_revision(space: &Space, revision: u64) {
    space.wait_field("web/app", "/status/release/revision", &json!(revision));
    space.wait("web/app", "Deployed", "True");
}

#[test]
fn a_definition_that_exists_is_changed_only_when_the_policy_is_replace() {
    let space = Space::new("crds");
    let chart = Chart::new(&space);
    chart.write(&["size"], &["v1"]);
    let operator = space.operator(&chart.watches(), &[]);
    space.apply("Web", "app", &json!({"size": "s"}));
    wait_revision(&space, 1);
    let name = format!("crd/things.{}", chart.group);
    kubectl(&["label", &name, "theirs=1"], None).unwrap();
    let before = chart.definition().unwrap();
    operator.kill();

    // The chart's next version has a further field and a further version.
    chart.write(&["size", "colour"], &["v1", "v2"]);
    let operator = space.operator(&chart.watches(), &[]);
    space.apply("Web", "app", &json!({"size": "m", "colour": "red"}));
    wait_revision(&space, 2);
    operator.settle();
    assert_eq!(chart.definition().unwrap(), before, "created, and then left alone");
    assert_eq!(chart.thing(), json!({"size": "m"}), "a field that the kind does not have");

    let switch = json!({"tillerman.dev/crds": "replace"});
    space.apply_with("Web", "app", &switch, &json!({"size": "l", "colour": "red"}));
    wait_revision(&space, 3);
    assert_eq!(chart.thing(), json!({"size": "l", "colour": "red"}));
    let after = chart.definition().unwrap();
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"], "it is the same definition");
    assert_eq!(after["metadata"]["labels"], json!({"fields": "2", "theirs": "1"}));
    assert_eq!(chart.versions(), ["v1", "v2"]);
    let note = space.wait_event("DefinitionReplaced");
    assert_eq!(note, format!("CustomResourceDefinition things.{}: it was replaced by the chart's", chart.group));
    operator.settle();

    // One that is the chart's is not written again.
    space.apply_with("Web", "app", &switch, &json!({"size": "xl"}));
    wait_revision(&space, 4);
    operator.settle();
    assert_eq!(chart.definition().unwrap()["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);

    space.kubectl(&["delete", "web/app"]).unwrap();
    chart.definition().expect("none is ever deleted");
}

#[test]
fn with_skip_no_definition_is_written_and_the_condition_says_what_is_missing() {
    let space = Space::new("crdskip");
    let chart = Chart::new(&space);
    chart.write(&["size"], &["v1"]);
    let operator = space.operator(&chart.watches(), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/crds": "skip"}), &json!({"size": "s"}));
    let failed = space.wait("web/app", "Irreconcilable", "True");
    assert!(failed["message"].as_str().unwrap().contains("Thing"), "{failed}");
    assert!(chart.definition().unwrap_err().contains("NotFound"));
    // Somebody else brings it.
    space.apply_with("Web", "app", &json!({"tillerman.dev/crds": "create"}), &json!({"size": "s"}));
    wait_revision(&space, 1);
    eventually("it is there", || chart.definition());
    operator.settle();
    assert_eq!(chart.thing(), json!({"size": "s"}));
}

/// What is replaced is what a Helm of yesterday made, too.
#[test]
fn a_definition_of_helm_is_replaced_and_loses_what_the_chart_dropped() {
    let space = Space::new("crdhelm");
    let chart = Chart::new(&space);
    let folder = chart.write(&["size", "colour"], &["v1", "v0"]);
    space.helm(&["install", "other", folder.to_str().unwrap(), "--set", "size=s"]).unwrap();
    assert_eq!(chart.versions(), ["v1", "v0"]);
    chart.write(&["size"], &["v1"]);
    let operator = space.operator(&chart.watches(), &[]);
    space.apply_with("Web", "app", &json!({"tillerman.dev/crds": "replace"}), &json!({"size": "s"}));
    wait_revision(&space, 1);
    operator.settle();
    assert_eq!(chart.versions(), ["v1"]);
}
