//! The values of a spec that a chart does not know, and those that the definition made of it refuses.

use serde_json::{Map, Value};

use crate::chart::Chart;
use crate::crd::{self, CrdSettings, Why, refusals};

/// The values that a chart knows and takes.
pub struct Demands {
    schema: Option<Value>,
    known: std::sync::Arc<Option<crd::Known>>,
}

impl Demands {
    /// Those of a chart. A chart whose types cannot be found takes every value.
    pub fn of(chart: &Chart) -> Self {
        let evidence = crd::carried(chart);
        let types = crd::types(chart, CrdSettings::default(), &evidence);
        Self { schema: types.ok().map(|typed| typed.schema), known: crd::known(chart) }
    }

    /// The places of a spec that the definition refuses, each with the reason.
    pub fn refused(&self, spec: &Map<String, Value>) -> Vec<(String, &'static str)> {
        let Some(schema) = &self.schema else { return Vec::new() };
        let place = |refusal: crd::Refusal| {
            let path = std::iter::once("spec").chain(refusal.path.iter().map(|key| &**key)).collect::<Vec<_>>();
            let why = match refusal.why {
                Why::Value => "its type, or a limit",
                Why::Keys => "a key is dropped",
                Why::Missing => "a required key is missing",
            };
            (path.join("."), why)
        };
        refusals(schema, &Value::Object(spec.clone())).into_iter().map(place).collect()
    }

    /// The keys at the top of a spec that the chart does not know, as paths.
    pub fn unknown(&self, spec: &Map<String, Value>) -> Vec<String> {
        let unknown = (*self.known).as_ref().map(|known| known.unknown(spec)).unwrap_or_default();
        unknown.into_iter().map(|(key, _)| format!("spec.{key}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Demands;
    use crate::chart::{Chart, File, values};
    use serde_json::{Map, Value, json};

    fn demands(defaults: &str, template: &str) -> Demands {
        let template = File { name: "templates/a.yaml".into(), data: template.as_bytes().to_vec().into() };
        let values = values::load(defaults.as_bytes()).unwrap();
        Demands::of(&Chart { templates: vec![template], values, ..Chart::default() })
    }

    fn spec(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn values_that_the_chart_does_not_know_and_does_not_take_are_named() {
        let demands = demands("replicas: 1\nhost: a\n", "a: {{ .Values.replicas }}\nb: {{ .Values.host }}\n");
        assert_eq!(demands.unknown(&spec(&json!({"replicas": 2, "hosts": "b"}))), ["spec.hosts"]);
        assert!(demands.refused(&spec(&json!({"replicas": 2}))).is_empty());
        let refused = demands.refused(&spec(&json!({"replicas": {"a": 1}})));
        assert_eq!(refused, [("spec.replicas".to_owned(), "its type, or a limit")]);
    }
}
