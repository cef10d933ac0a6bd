//! The last reports of members, for the metrics.

use std::collections::BTreeMap;

use super::store::PerRelease;
use crate::cluster::cache::ReleaseKey;
use crate::members::driver::Sight;
use crate::telemetry::collect::{DatabaseLabels, DatabaseMember, DatabaseSight, MemberLabels};

/// The last reports, by custom resource and stateful set. Checks at rest report here, too, which write nothing.
pub type Sights = PerRelease<BTreeMap<String, Sight>>;

impl PerRelease<BTreeMap<String, Sight>> {
    /// Notes the reports of the members of a set.
    pub fn note(&self, key: &ReleaseKey, set: &str, sight: Sight) {
        self.lock().entry(key.clone()).or_default().insert(set.to_owned(), sight);
    }

    /// All of it, with the labels of metrics.
    pub fn all(&self, controller: impl Fn(usize) -> String) -> Vec<DatabaseSight> {
        let all = self.lock();
        let sets = all.iter().flat_map(|(key, sets)| sets.iter().map(move |(set, sight)| (key, set, sight)));
        let labelled = sets.map(|(key, set, sight)| {
            let labels = DatabaseLabels {
                controller: controller(key.kind),
                namespace: key.namespace.to_string(),
                name: key.name.to_string(),
                members: set.clone(),
            };
            let members = sight.members.iter().map(|member| {
                let labels = MemberLabels {
                    controller: labels.controller.clone(),
                    namespace: labels.namespace.clone(),
                    name: labels.name.clone(),
                    pod: member.pod.clone(),
                    role: member.role,
                };
                DatabaseMember {
                    labels,
                    answers: member.answers,
                    lag: member.lag,
                    waiting: member.waiting,
                    volume: member.volume,
                }
            });
            DatabaseSight {
                members: members.collect(),
                labels,
                safe: sight.safe,
                takes_writes: sight.takes_writes,
                last_change: sight.last_change,
            }
        });
        labelled.collect()
    }
}
