//! Points on a line of time, as a picture shows them.

use serde_json::{Value, json};

/// The width of the picture and of its margins, in pixels.
const WIDTH: i64 = 600;
const MARGIN: i64 = 10;

/// The places of revisions on a line of time, with the first and the last time; `None` for fewer than two times.
pub fn line(revisions: &[Value]) -> Option<Value> {
    let at = |revision: &Value| revision["updated"].as_str()?.parse::<jiff::Timestamp>().ok();
    let times: Vec<(i64, &Value)> =
        revisions.iter().filter_map(|revision| Some((at(revision)?.as_second(), revision))).collect();
    let (first, last) = (times.iter().map(|(at, _)| *at).min()?, times.iter().map(|(at, _)| *at).max()?);
    if times.len() < 2 || first == last {
        return None;
    }
    let place = |at: i64| MARGIN + (at - first).saturating_mul(WIDTH - 2 * MARGIN) / (last - first);
    let point = |(at, revision): &(i64, &Value)| json!({"x": place(*at), "status": revision["status"], "revision": revision["revision"]});
    let text = |at: i64| jiff::Timestamp::from_second(at).map(|at| at.to_string()).unwrap_or_default();
    Some(
        json!({"points": times.iter().map(point).collect::<Vec<_>>(), "width": WIDTH, "first": text(first), "last": text(last)}),
    )
}

#[cfg(test)]
mod tests {
    use super::{MARGIN, WIDTH, line};
    use serde_json::json;

    #[test]
    fn revisions_are_placed_by_their_times() {
        let at = |time: &str| json!({"updated": time, "status": "deployed", "revision": 1});
        let all = [at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"), at("x"), at("2026-01-03T00:00:00Z")];
        let line = line(&all).unwrap();
        let places: Vec<i64> =
            line["points"].as_array().unwrap().iter().map(|point| point["x"].as_i64().unwrap()).collect();
        assert_eq!(places, [MARGIN, WIDTH / 2, WIDTH - MARGIN]);
        assert_eq!(line["last"], "2026-01-03T00:00:00Z");
    }

    #[test]
    fn one_time_is_not_a_line() {
        let one = json!({"updated": "2026-01-01T00:00:00Z"});
        assert!(
            line(std::slice::from_ref(&one)).is_none() && line(&[one.clone(), one]).is_none() && line(&[]).is_none()
        );
        let far = [json!({"updated": "0001-01-01T00:00:00Z"}), json!({"updated": "9999-12-01T00:00:00Z"})];
        assert!(line(&far).is_some());
    }
}
