//! Definitions that are small enough for `kubectl apply`.

use serde_json::Value;

/// Bytes that an object's annotations may have in all; `kubectl apply` keeps the whole object in one.
pub const MOST: usize = 256 << 10;
/// Room for other annotations.
const MARGIN: usize = 8 << 10;
/// Characters of a shortened description.
const SHORT: usize = 200;

/// The parts that were left out to make a definition smaller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    #[default]
    Nothing,
    /// All of a description but its first sentence.
    Sentences,
    /// All descriptions of values.
    Descriptions,
    /// All descriptions, and it is still too large for an annotation: it has to be applied server-side.
    TooLarge,
}

/// Shortens the descriptions of values as far as it takes.
pub fn shorten(definition: &mut Value) -> Cut {
    let fits = |definition: &Value| definition.to_string().len() + MARGIN <= MOST;
    if fits(definition) {
        return Cut::Nothing;
    }
    for (cut, to) in
        [(Cut::Sentences, first_sentence as fn(&str) -> String), (Cut::Descriptions, |_: &str| String::new())]
    {
        if let Some(spec) = definition.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec") {
            each_description(spec, to);
        }
        if fits(definition) {
            return cut;
        }
    }
    Cut::TooLarge
}

fn first_sentence(text: &str) -> String {
    let end = text.match_indices(['.', '!', '?']).map(|(at, _)| at + 1).find(|at| text[*at..].starts_with(' '));
    text[..end.unwrap_or(text.len())].chars().take(SHORT).collect()
}

fn each_description(schema: &mut Value, to: fn(&str) -> String) {
    let Value::Object(entries) = schema else { return };
    if let Some(Value::String(text)) = entries.get_mut("description") {
        *text = to(text);
    }
    entries.retain(|key, value| key != "description" || value.as_str() != Some(""));
    if let Some(Value::Object(properties)) = entries.get_mut("properties") {
        properties.values_mut().for_each(|schema| each_description(schema, to));
    }
    for key in ["items", "additionalProperties"] {
        entries.get_mut(key).into_iter().for_each(|schema| each_description(schema, to));
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, shorten};
    use serde_json::{Map, Value, json};

    fn definition(properties: usize, text: &str) -> Value {
        let property = |n: usize| (format!("key{n}"), json!({"type": "string", "description": text}));
        let properties: Map<String, Value> = (0..properties).map(property).collect();
        let schema = json!({"openAPIV3Schema": {"properties": {"spec": {"properties": properties}}}});
        json!({"spec": {"versions": [{"schema": schema}]}})
    }

    #[test]
    fn descriptions_go_as_far_as_it_takes() {
        let long = format!("A sentence. {}", "x".repeat(1000));
        assert_eq!(shorten(&mut definition(10, &long)), Cut::Nothing);
        let mut many = definition(1000, &long);
        assert_eq!(shorten(&mut many), Cut::Sentences);
        assert!(many.to_string().contains("\"A sentence.\""));
        assert_eq!(shorten(&mut definition(3000, &"x".repeat(300))), Cut::Descriptions);
        assert_eq!(shorten(&mut definition(12000, &long)), Cut::TooLarge);
    }
}
