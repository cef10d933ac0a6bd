//! Whether a record equals what a chart renders, except for random texts and times.
//!
//! A chart that generates a password renders a new password each time. So its record is compared with several
//! renderings: where they differ from each other the record may differ, too, and nowhere else.

use serde_json::Value;

/// Whether a record's value can be a rendering like these. A text in which they differ must begin and end as all of them do, up to the
/// nearest whole word, because random words may agree in a few letters. Lists and objects must have the same shape.
pub fn is_rendering(record: &Value, renderings: &[&Value]) -> bool {
    let Some((first, others)) = renderings.split_first() else { return false };
    if others.iter().all(|other| other == first) {
        return record == *first;
    }
    match (record, first) {
        (Value::Object(record), Value::Object(first)) => {
            record.len() == first.len()
                && others.iter().all(|other| other.as_object().is_some_and(|other| other.len() == first.len()))
                && record.iter().all(|(key, record)| {
                    let parts: Option<Vec<_>> = renderings.iter().map(|rendering| rendering.get(key)).collect();
                    parts.is_some_and(|parts| is_rendering(record, &parts))
                })
        }
        (Value::Array(record), Value::Array(first)) => {
            record.len() == first.len()
                && others.iter().all(|other| other.as_array().is_some_and(|other| other.len() == first.len()))
                && record.iter().enumerate().all(|(at, record)| {
                    let parts: Option<Vec<_>> = renderings.iter().map(|rendering| rendering.get(at)).collect();
                    parts.is_some_and(|parts| is_rendering(record, &parts))
                })
        }
        (Value::String(record), Value::String(_)) => {
            let texts: Option<Vec<&str>> = renderings.iter().map(|rendering| rendering.as_str()).collect();
            texts.is_some_and(|texts| is_text(record, &texts))
        }
        (Value::Number(_), Value::Number(_)) => others.iter().all(|other| other.is_number()),
        _ => false,
    }
}

/// Characters of random words: letters, digits, and those of base64 and UUIDs.
fn is_of_a_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"+/=-_".contains(&c)
}

fn is_text(record: &str, texts: &[&str]) -> bool {
    let shortest = texts.iter().map(|text| text.len()).min().unwrap_or(0);
    let first = texts[0].as_bytes();
    let from_end = |text: &[u8], at: usize| text[text.len() - 1 - at];
    let begins = (0..shortest).take_while(|at| texts.iter().all(|text| text.as_bytes()[*at] == first[*at])).count();
    let begins = first[..begins].iter().rposition(|c| !is_of_a_word(*c)).map_or(0, |at| at + 1);
    let ends = (0..shortest - begins)
        .take_while(|at| texts.iter().all(|text| from_end(text.as_bytes(), *at) == from_end(first, *at)))
        .count();
    let end = &first[first.len() - ends..];
    let end = end.iter().position(|c| !is_of_a_word(*c)).map_or(&[][..], |at| &end[at..]);
    let record = record.as_bytes();
    record.len() >= begins + end.len() && record.starts_with(&first[..begins]) && record.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::is_rendering;
    use serde_json::{Value, json};

    #[test]
    fn a_record_may_differ_only_where_renderings_do() {
        let one = json!({"a": 1, "password": "user: xxab1 end", "n": 5, "l": ["k-1", "same"]});
        let other = json!({"a": 1, "password": "user: xyyb1 end", "n": 6, "l": ["k-2", "same"]});
        let of = |password: &str, n: Value, l: Value| json!({"a": 1, "password": password, "n": n, "l": l});
        let list = || json!(["k-9", "same"]);
        for (record, expected) in [
            (one.clone(), true),
            (of("user: other end", json!(7), list()), true),
            (of("root: other end", json!(7), list()), false),
            (of("user: other", json!(7), list()), false),
            (of("user: end", json!(7), list()), false),
            (of("user: other end", json!("7"), list()), false),
            (of("user: other end", json!(7), json!(["k-9", "other"])), false),
            (of("user: other end", json!(7), json!(["k-9", "same", "more"])), false),
            (json!({"a": 2, "password": "user: other end", "n": 7, "l": list()}), false),
            (json!({"a": 1, "password": "user: other end", "n": 7, "l": list(), "more": 1}), false),
            (json!({"b": 1, "password": "user: other end", "n": 7, "l": list()}), false),
        ] {
            assert_eq!(is_rendering(&record, &[&one, &other]), expected, "{record}");
        }
    }

    #[test]
    fn what_all_renderings_have_the_record_has_too() {
        let (x, y, number) = (json!("x"), json!("y"), json!(1));
        assert!(is_rendering(&x, &[&x, &x]));
        assert!(!is_rendering(&y, &[&x, &x]));
        assert!(is_rendering(&json!("z"), &[&x, &x, &y]), "the third rendering shows that it is random");
        assert!(!is_rendering(&x, &[&x, &number]));
        assert!(!is_rendering(&x, &[]));
        let (one, other) = (json!(".a."), json!("."));
        assert!(!is_rendering(&json!(""), &[&one, &other]), "begin and end do not overlap");
    }
}
