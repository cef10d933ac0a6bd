//! The values that a new `watches.yaml` pins: those that the chart's schema marks `readOnly`, which are the operator
//! author's and not a custom resource's, with the chart's defaults.

use crate::chart::Chart;
use crate::crd::refusals;
use serde_json::{Value, json};

/// `overrideValues` for a chart: paths and texts, as `--set-string` reads them. Only texts and lists of texts can be pinned so.
pub fn of(chart: &Chart) -> Vec<(String, String)> {
    let schema = chart.schema.as_deref().and_then(|text| serde_json::from_slice::<Value>(text).ok());
    let mut pinned = Vec::new();
    if let Some(schema) = &schema {
        add(schema, &Value::Object(chart.values.clone()), "", &mut pinned);
    }
    pinned
}

fn add(schema: &Value, defaults: &Value, path: &str, pinned: &mut Vec<(String, String)>) {
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let name = key.replace('.', "\\.");
        let path = if path.is_empty() { name } else { format!("{path}.{name}") };
        let default = &defaults[key];
        if schema["readOnly"] == true {
            pinned.extend(text(default, schema).map(|text| (path, text)));
        } else {
            add(schema, default, &path, pinned);
        }
    }
}

/// A default as a text of `overrideValues`. One with `$` or `{{` would be expanded there, and an empty list is read as one empty text.
fn text(default: &Value, schema: &Value) -> Option<String> {
    let text = match default {
        Value::String(text) if !text.starts_with('{') => text.replace('\\', "\\\\").replace(',', "\\,"),
        Value::Array(items) => {
            let items: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            let items = items.filter(|items| !items.iter().any(|item| item.contains([',', '\\', '{', '}'])))?;
            let read = if items.is_empty() { vec![""] } else { items };
            if !refusals(schema, &json!(read)).is_empty() {
                return None;
            }
            format!("{{{}}}", read.join(","))
        }
        _ => return None,
    };
    (!text.contains('$') && !text.contains("{{")).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::of;
    use crate::chart::{self, ChartLimits, File};
    use crate::kind::overrides::Overrides;
    use serde_json::{Map, Value, json};

    #[test]
    fn what_is_read_only_is_pinned_to_what_the_chart_has() {
        let values = "image: a/b:1,2\naccount: {name: ''}\nnames: [x.y, z]\nnone: []\nown: c\npull: [{name: a}]\ndollar: $a\na.b: c\nobjects: []";
        let read_only = json!({"readOnly": true});
        let schema = json!({"properties": {"image": read_only, "names": read_only, "none": read_only, "own": {}, "pull": read_only,
            "dollar": read_only, "objects": {"readOnly": true, "type": "array", "items": {"type": "object"}}, "a.b": read_only, "account": {"properties": {"name": read_only}}}});
        let file = |name: &str, text: String| File { name: name.to_owned(), data: text.into_bytes().into() };
        let files = vec![
            file("Chart.yaml", "apiVersion: v2\nname: a\nversion: 0.1.0\n".to_owned()),
            file("values.yaml", values.to_owned()),
            file("values.schema.json", schema.to_string()),
        ];
        let pinned = of(&chart::load_files(files, &ChartLimits::default()).unwrap());
        let mut shown: Vec<String> = pinned.iter().map(|(path, text)| format!("{path}={text}")).collect();
        shown.sort();
        assert_eq!(shown, ["a\\.b=c", "account.name=", "image=a/b:1\\,2", "names={x.y,z}", "none={}"]);
        // The operator reads them as what the chart has.
        let field: Map<String, Value> = pinned.into_iter().map(|(path, text)| (path, text.into())).collect();
        let read = Overrides::read(&Value::Object(field), &|_| None).unwrap().values;
        let expected =
            json!({"a.b": "c", "account": {"name": ""}, "image": "a/b:1,2", "names": ["x.y", "z"], "none": [""]});
        assert_eq!(Value::Object(read), expected);
    }
}
