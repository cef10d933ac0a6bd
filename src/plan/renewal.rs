//! Charts that ask to be rendered again at a given time although nothing has changed: certificates expire.

use super::stamp::Stamped;
use crate::names;

/// Annotation of an object of a chart: when it is to be recreated, in seconds since 1970.
pub const RENEW_AFTER: &str = names::RENEW_AFTER;

/// When the first of these objects is to be recreated. A time in the past requires nothing: the rendering that gave it
/// has just been done, and the next one would say it again.
pub fn next(objects: &[Stamped], now: i64) -> Option<i64> {
    let of = |object: &Stamped| {
        let annotation = object.body.get("metadata")?.get("annotations")?.get(RENEW_AFTER)?;
        annotation.as_str()?.trim().parse::<i64>().ok()
    };
    objects.iter().filter_map(of).filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::next;
    use crate::object::Object;
    use crate::plan::stamp::Stamped;
    use serde_json::{Value, json};

    fn object(annotations: &Value) -> Stamped {
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "annotations": annotations}});
        let object = Object::from_body(body.as_object().cloned().unwrap()).unwrap();
        let id = crate::object::ObjectId { gvk: object.gvk.clone(), namespace: None, name: "a".into() };
        Stamped { id, body: object.body, kept: false }
    }

    #[test]
    fn the_first_time_that_is_still_to_come_counts() {
        let at = |text: &str| object(&json!({"tillerman.dev/renew-after": text}));
        assert_eq!(next(&[at("300"), at("200"), object(&json!({"other": "150"}))], 100), Some(200));
        assert_eq!(next(&[at("300"), at("100")], 100), Some(300), "over");
        assert_eq!(next(&[at("soon"), object(&Value::Null)], 100), None);
        assert_eq!(next(&[object(&json!({"tillerman.dev/renew-after": 200}))], 100), None, "annotations are texts");
    }
}
