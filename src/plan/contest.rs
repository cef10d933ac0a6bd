//! Contested fields: somebody changes them as often as we repair them. They are reported, and repaired at growing intervals, until they
//! stay.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::kind::ignore::IGNORE_DRIFT;
use crate::object::ObjectId;
use crate::release::managers::Survivor;

/// Repairs of one field within a minute from which the field counts as contested.
pub const LIMIT: usize = 5;
/// Seconds.
const WINDOW: i64 = 60;
/// Seconds between two repairs of a contested field: doubling from the first to the last.
const FIRST_PAUSE: i64 = 10;
const LAST_PAUSE: i64 = 300;
/// Fields that a message names.
const NAMED: usize = 3;

/// The contested fields of one release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contest(BTreeMap<ObjectId, Fight>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fight {
    /// When it was repaired, seconds.
    repairs: Vec<i64>,
    /// The fields that every repair since the first look concerned. Empty if somebody deletes the object itself.
    fields: Option<Vec<Survivor>>,
    /// Seconds; 0 if there is no contest.
    pause: i64,
    /// The next repair.
    until: i64,
}

impl Contest {
    /// Whether the next repair of an object needs a look at who owns the fields.
    pub fn is_suspect(&self, id: &ObjectId, now: i64) -> bool {
        self.0.get(id).is_some_and(|f| f.repairs.iter().filter(|at| **at > now - WINDOW).count() >= 2 || f.pause > 0)
    }

    /// Records the repair of an object; `fields` are those that others owned, if they were looked at. Returns `true` if this makes it a
    /// contest.
    pub fn repaired(&mut self, id: &ObjectId, now: i64, fields: Option<Vec<Survivor>>) -> bool {
        let fight = self.0.entry(id.clone()).or_default();
        if let Some(fields) = fields {
            match &mut fight.fields {
                None => fight.fields = Some(fields),
                Some(known) => {
                    let same = known.is_empty() && fields.is_empty();
                    known.retain(|field| fields.contains(field));
                    // Another field than the last time: the count starts again.
                    if known.is_empty() && !same {
                        *fight = Fight { fields: Some(fields), ..Fight::default() };
                    }
                }
            }
        }
        fight.repairs.retain(|at| *at > now - WINDOW);
        fight.repairs.push(now);
        let contested = fight.pause > 0;
        if contested || fight.repairs.len() >= LIMIT {
            fight.pause = if contested { (fight.pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
            fight.until = now + fight.pause;
        }
        fight.pause > 0 && !contested
    }

    /// The objects that are not repaired now.
    pub fn contested(&self, now: i64) -> BTreeSet<ObjectId> {
        self.0.iter().filter(|(_, f)| f.until > now).map(|(id, _)| id.clone()).collect()
    }

    /// Forgets what stayed as we repaired it. `is_drifted` returns whether an object is to be repaired now.
    pub fn settle(&mut self, now: i64, is_drifted: impl Fn(&ObjectId) -> bool) {
        self.0.retain(|id, f| {
            is_drifted(id) || f.until > now || (f.pause == 0 && f.repairs.iter().any(|at| *at > now - WINDOW))
        });
    }

    /// Seconds until the next repair.
    pub fn due(&self, now: i64) -> Option<i64> {
        self.0.values().filter(|f| f.pause > 0).map(|f| (f.until - now).max(1)).min()
    }

    /// The rules that would leave the contested fields to others, as JSON.
    fn rules(&self) -> String {
        let rule = |(id, fight): (&ObjectId, &Fight)| {
            let paths: Vec<&str> =
                fight.fields.iter().flatten().take(NAMED).filter_map(|f| f.pointer.as_deref()).collect();
            let target = json!({"kind": &*id.gvk.kind, "name": &*id.name});
            (fight.pause > 0 && !paths.is_empty()).then(|| json!({"target": target, "paths": paths}))
        };
        Value::Array(self.0.iter().filter_map(rule).take(NAMED).collect()).to_string()
    }

    /// The contested fields, in a sentence; `None` if there are none.
    pub fn describe(&self) -> Option<String> {
        let contested = |(id, fight): (&ObjectId, &Fight)| {
            let of = |field: &Survivor| format!("{} with {}", field.path, field.manager);
            let fields = fight.fields.iter().flatten().take(NAMED).map(of).collect::<Vec<_>>().join(", ");
            let what =
                if fields.is_empty() { "itself with another client, which deletes it".to_owned() } else { fields };
            (fight.pause > 0).then(|| format!("{id}: {what}"))
        };
        let all: Vec<String> = self.0.iter().filter_map(contested).take(NAMED).collect();
        let text = format!("contested, and repaired less often: {}", all.join("; "));
        let rules = self.rules();
        let hint = format!(". To leave the fields to other clients, set the annotation {IGNORE_DRIFT}: '{rules}'");
        (!all.is_empty()).then(|| if rules == "[]" { text } else { text + &hint })
    }
}

#[cfg(test)]
mod tests {
    use super::{Contest, LIMIT};
    use crate::object::{Gvk, ObjectId};
    use crate::release::managers::Survivor;

    fn id() -> ObjectId {
        ObjectId { gvk: Gvk::new("", "v1", "ConfigMap"), namespace: Some("ns".into()), name: "a".into() }
    }

    fn field(path: &str) -> Vec<Survivor> {
        vec![Survivor { path: path.into(), pointer: Some(format!("/{path}")), manager: "rival".into() }]
    }

    /// Repairs once a second, from the third with the field that `path` says.
    fn fought(seconds: std::ops::Range<i64>, path: impl Fn(i64) -> String) -> (Contest, Vec<i64>) {
        let mut contest = Contest::default();
        let mut began = Vec::new();
        for now in seconds {
            let fields = contest.is_suspect(&id(), now).then(|| field(&path(now)));
            if contest.repaired(&id(), now, fields) {
                began.push(now);
            }
        }
        (contest, began)
    }

    #[test]
    fn the_fifth_repair_of_a_field_in_a_minute_makes_a_contest() {
        let (mut contest, began) = fought(100..105, |_| "data.a".into());
        assert_eq!(began, [104]);
        let expected = "contested, and repaired less often: ConfigMap a: data.a with rival. To leave the fields to \
                        other clients, set the annotation tillerman.dev/ignore-drift: \
                        '[{\"target\":{\"kind\":\"ConfigMap\",\"name\":\"a\"},\"paths\":[\"/data.a\"]}]'";
        assert_eq!(contest.describe().unwrap(), expected);
        assert!(contest.contested(113).contains(&id()));
        assert!(contest.contested(114).is_empty());
        assert_eq!(contest.due(104), Some(10));
        // It is still contested: the next pause is longer, and it is reported once.
        contest.settle(114, |_| true);
        assert!(!contest.repaired(&id(), 114, Some(field("data.a"))));
        assert_eq!(contest.due(114), Some(20));
        // It stays: all is forgotten.
        contest.settle(134, |_| false);
        assert_eq!((contest.describe(), contest.due(134)), (None, None));
    }

    #[test]
    fn repairs_of_other_fields_or_long_apart_are_no_contest() {
        assert_eq!(fought(0..9, |now| format!("data.{}", now % 2)).1, [0; 0]);
        let mut contest = Contest::default();
        for n in 0..20 {
            assert!(!contest.repaired(&id(), n * 20, None));
            contest.settle(n * 20, |_| false);
        }
        assert_eq!(contest.describe(), None);
    }

    #[test]
    fn an_object_that_somebody_deletes_again_and_again_is_contested() {
        let mut contest = Contest::default();
        let began = (0..LIMIT).map(|_| contest.repaired(&id(), 5, Some(Vec::new()))).filter(|b| *b).count();
        assert_eq!(began, 1);
        assert!(contest.describe().unwrap().ends_with("ConfigMap a: itself with another client, which deletes it"));
    }
}
