//! Values as JSON, for those who are not templates.

use crate::template::stack::deeper;
use crate::template::value::Value;
use serde_json::Value as Json;

/// Values as JSON; a float without a fraction is an integer, as for Helm's validator.
pub fn of(value: &Value) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(_, i) => Json::from(*i),
        Value::Float(f) => integral(*f).map_or_else(|| Json::from(*f), Json::from),
        Value::Str(s) => Json::String(s.text().into_owned()),
        Value::List(list) => Json::Array(list.items.iter().map(|item| deeper(|| of(item))).collect()),
        Value::Map(map) => {
            Json::Object(map.borrow().iter().map(|(k, v)| (k.text().into_owned(), deeper(|| of(v)))).collect())
        }
        Value::Nil | Value::Object(_) => Json::Null,
    }
}

fn integral(f: f64) -> Option<i64> {
    // 2^53: beyond it a float no longer distinguishes neighbouring integers.
    let exact = f.fract() == 0.0 && f.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    exact.then_some(f as i64)
}
