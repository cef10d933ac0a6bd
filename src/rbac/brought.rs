//! Values whose content is objects of any kind, such as `extraDeploy`.
//!
//! An object of a kind that does not exist is put into the values whose names suggest it, in each form in which charts
//! take objects. Where it comes out, the value brings objects.

use super::granted::nest;
use super::render::{self, Made};
use crate::chart::{Chart, Values, values};
use crate::crd::each_value;
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;

const KIND: &str = "PlantedByTillerman";

/// Names of values that may hold objects.
static MAY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)extra|raw|additional|manifest|object|deploy|custom|templates|resources")
        .expect("the pattern is valid")
});
/// Names of values that hold parts of objects.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("(?i)volume|env|arg|container|label|annot|port|secret|host|rule|mount|strategy")
        .expect("the pattern is valid")
});

/// The paths of the values that bring objects, where the chart renders with its defaults.
pub(super) fn of(chart: &Chart, made: &[Made]) -> Vec<String> {
    if chart.is_library() || made.first().is_none_or(|defaults| defaults.result.is_err()) {
        return Vec::new();
    }
    let mut candidates = BTreeSet::new();
    each_value(chart, &mut |path, value| {
        let is_empty = match value {
            Value::Null | Value::Array(_) => true,
            Value::String(text) => text.is_empty(),
            Value::Object(below) => below.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if is_empty && path.last().is_some_and(|key| MAY.is_match(key) && !PART.is_match(key)) {
            candidates.insert(path.to_vec());
        }
    });
    let object = json!({"apiVersion": "planted.tillerman.dev/v1", "kind": KIND, "metadata": {"name": "planted"}});
    let text = Value::String(object.to_string());
    let forms =
        [json!([object]), json!({"planted": object}), json!([text.clone()]), json!({"planted": text.clone()}), text];
    let mut found = BTreeSet::new();
    for form in &forms {
        let left: Vec<&Vec<String>> = candidates.iter().filter(|path| !found.contains(*path)).collect();
        search(chart, &left, form, 0, &mut found);
    }
    found.into_iter().map(|path| path.join(".")).collect()
}

/// Plants an object in all of these values at once, and looks in halves for those where it comes out or which fail.
fn search(chart: &Chart, paths: &[&Vec<String>], form: &Value, depth: usize, found: &mut BTreeSet<Vec<String>>) {
    const DEEPEST: usize = 8;
    if paths.is_empty() || depth > DEEPEST {
        return;
    }
    let mut planted = Values::new();
    for path in paths {
        values::merge(&mut planted, nest(path, form.clone()));
    }
    let result = render::objects(chart, &planted);
    match &result {
        Ok(objects) if objects.iter().all(|object| object.pair.kind != KIND) => return,
        Ok(_) if paths.len() == 1 => {
            found.insert(paths[0].clone());
            return;
        }
        Err(_) if paths.len() == 1 => return,
        _ => {}
    }
    let (first, second) = paths.split_at(paths.len() / 2);
    search(chart, first, form, depth + 1, found);
    search(chart, second, form, depth + 1, found);
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::rbac::render;
    use crate::rbac::testing::chart;

    #[test]
    fn values_whose_content_is_objects_are_found_in_each_form() {
        for (template, values, expected) in [
            ("{{ range .Values.extraDeploy }}\n---\n{{ toYaml . }}\n{{ end }}", "extraDeploy: []", "extraDeploy"),
            (
                "{{ range .Values.a.extraObjects }}\n---\n{{ tpl . $ }}\n{{ end }}",
                "a: {extraObjects: []}",
                "a.extraObjects",
            ),
            (
                "{{ range $k, $v := .Values.rawResources }}\n---\n{{ toYaml $v }}\n{{ end }}",
                "rawResources: {}",
                "rawResources",
            ),
            ("{{ .Values.manifests }}", "manifests: \"\"", "manifests"),
            (
                "a: {{ toYaml .Values.extraLabels | nindent 2 }}\nkind: A\nmetadata: {name: b}\napiVersion: v1",
                "extraLabels: {}",
                "",
            ),
            (
                "apiVersion: v1\nkind: A\nmetadata: {name: b}\nspec: {{ toYaml .Values.resources | nindent 2 }}",
                "resources: {}",
                "",
            ),
        ] {
            let chart = chart(&[("values.yaml", values), ("templates/a.yaml", template)]);
            assert_eq!(of(&chart, &render::all(&chart, &[])).join(" "), expected, "{template}");
        }
    }
}
