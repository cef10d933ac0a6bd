//! The table of the steps of an object.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Notice, ObjectRun, Preparation, Purpose, Reading, Remedy, WriteRefusal};
use crate::mask::Text;
use crate::object::metadata;
use crate::plan::claim::Ownership;
use crate::plan::immutable::{self, Remake, UPGRADE_FORCE};
use crate::plan::reshape::reshape;
use crate::release::asleep::is_asleep;
use crate::release::managers::{self, managed};

/// The next step of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectStep {
    /// Reads it.
    Read,
    /// Looks in its namespace for an autoscaler of it.
    LookForAutoscalers,
    /// Writes these managers of its fields, so that its replicas belong to an autoscaler.
    ReleaseReplicas(Vec<Value>),
    /// Leaves out the fields that belong to others. Needs no request.
    LeaveFields,
    /// Takes over the fields that Helm owned, so that a field that the chart drops is removed.
    HandOver,
    /// Applies this body, without which the API server would refuse the object.
    ApplyFirst(Map<String, Value>),
    /// Applies the object. Conflicting values of other managers are overwritten.
    Send {
        /// It must not exist yet.
        new: bool,
        /// Nothing is stored.
        dry: bool,
    },
    /// Writes the result of a trial with several items of one key. The fields get the owners that the apply would give them.
    Replace {
        /// It must not exist yet.
        new: bool,
    },
    /// Removes the fields that conflict with its new shape.
    Reshape {
        /// The managers of its fields that allow this, if a field is there.
        managers: Option<Vec<Value>>,
        /// The body without the conflict.
        body: Map<String, Value>,
        /// Reports the fields of other managers.
        notice: Option<Notice>,
    },
    /// Deletes it, so that it can be recreated with other values of immutable fields. In a dry run, this is the last step.
    Recreate {
        fields: String,
        /// How.
        remake: Remake,
        /// The sizes that its claims get before, by the names of their templates.
        sizes: Vec<(String, String)>,
    },
    /// The end: these managers of its fields are written, so that other clients no longer share fields with us.
    Relinquish(Vec<Value>),
    /// The end: it is applied.
    Done,
    /// The end: it belongs to another owner.
    Refuse(String),
    /// The end: immutable fields differ, and it may not be recreated.
    Retain {
        fields: String,
        /// The loss if it were recreated.
        lost: &'static str,
        /// How to allow it.
        remedy: String,
    },
    /// The end: it is being deleted, and recreated later.
    AwaitDeletion,
    /// The end: the API server refused it.
    Fail,
}

impl ObjectRun<'_> {
    /// The next step. In each table, the first row that fits wins.
    pub fn next_step(&self) -> ObjectStep {
        match &self.answer {
            None => self.before_a_write(),
            Some(Ok(answer)) => self.after_a_write(answer),
            Some(Err(refused)) => self.after_a_refusal(refused),
        }
    }

    fn before_a_write(&self) -> ObjectStep {
        let dry = self.policy.dry;
        match &self.live {
            _ if self.preparation == Preparation::Ready => self.write(),
            Reading::Unread if dry || self.is_read_first() => ObjectStep::Read,
            Reading::Found(_, Ownership::Refused(why)) if !self.policy.known => ObjectStep::Refuse(why.clone()),
            Reading::Found(found, _)
                if self.preparation < Preparation::Looked && self.may_have_an_autoscaler(found) =>
            {
                ObjectStep::LookForAutoscalers
            }
            Reading::Found(found, _)
                if self.preparation < Preparation::Released
                    && self.gives_up_replicas
                    // A release that wakes does not keep the 0 replicas of its sleep.
                    && !found.as_object().is_some_and(is_asleep)
                    && let Some(managers) = managers::release_replicas(managed(found), &self.version()) =>
            {
                ObjectStep::ReleaseReplicas(managers)
            }
            Reading::Found(..) if self.preparation < Preparation::Left => ObjectStep::LeaveFields,
            Reading::Found(..) if !dry => ObjectStep::HandOver,
            _ => self.write(),
        }
    }

    fn write(&self) -> ObjectStep {
        match &self.first {
            Some(first) if !self.is_new() => ObjectStep::ApplyFirst(first.clone()),
            _ => ObjectStep::Send { new: self.is_new(), dry: self.policy.dry || self.is_trial() },
        }
    }

    fn after_a_write(&self, answer: &Value) -> ObjectStep {
        let managed = managed(answer);
        match () {
            () if self.policy.dry => ObjectStep::Done,
            () if self.is_trial() => ObjectStep::Replace { new: self.is_new() },
            () if !self.is_handed_over && managers::needs_hand_over(managed) => ObjectStep::HandOver,
            () if self.policy.repaired => {
                managers::relinquish(managed).map_or(ObjectStep::Done, ObjectStep::Relinquish)
            }
            () => ObjectStep::Done,
        }
    }

    fn after_a_refusal(&self, refused: &WriteRefusal) -> ObjectStep {
        let is_immutable = !refused.immutable.is_empty();
        let can_be_remedied = is_immutable || !refused.invalid.is_empty();
        match &self.live {
            Reading::Found(live, _) if self.policy.dry && is_immutable => self.recreate(live, refused),
            _ if self.policy.dry || self.is_new() || !can_be_remedied => ObjectStep::Fail,
            _ if self.remedy == Remedy::Tried => ObjectStep::Fail,
            _ if self.remedy == Remedy::Untried => ObjectStep::Read,
            Reading::Found(live, _) if is_immutable && metadata(live).get("deletionTimestamp").is_some() => {
                ObjectStep::AwaitDeletion
            }
            Reading::Found(live, _) if is_immutable => self.recreate(live, refused),
            Reading::Found(live, _) => self.reshape(live, refused),
            _ => ObjectStep::Fail,
        }
    }

    /// Whether the next write must not find the object.
    fn is_new(&self) -> bool {
        self.purpose == Purpose::Create || self.policy.dry && matches!(self.live, Reading::Absent)
    }

    /// Whether others may own fields of the object.
    fn is_read_first(&self) -> bool {
        let ruled = || self.policy.rules.iter().any(|rule| rule.covers(self.id()));
        let is_shared = || self.policy.before.is_some_and(|before| before.shared || ruled());
        let is_changed = || self.policy.suspect || self.gives_up_replicas || is_shared();
        self.purpose == Purpose::TakeOver || self.policy.known && is_changed()
    }

    /// Whether somebody has scaled the object to zero, and the release has no autoscaler for it.
    fn may_have_an_autoscaler(&self, found: &Value) -> bool {
        let is_own = self.policy.autoscaled || self.id().namespace.is_none();
        !is_own && managers::is_scaled_to_zero(managed(found), found)
    }

    fn version(&self) -> String {
        self.id().gvk.api_version()
    }

    fn reshape(&self, live: &Value, refused: &WriteRefusal) -> ObjectStep {
        let Some(reshaped) = reshape(self.body(), live, &refused.invalid) else { return ObjectStep::Fail };
        let (managers, owners) = managers::take(managed(live), &self.version(), &reshaped.fields);
        let paths = reshaped.paths.join(", ");
        let text = format!("{paths} conflicts with the chart and is removed; {} had set it", owners.join(", "));
        let notice = Notice { reason: "FieldRemoved", text: Text::own(text), warning: true };
        ObjectStep::Reshape {
            managers: (!reshaped.paths.is_empty()).then_some(managers),
            body: reshaped.body,
            notice: (!owners.is_empty()).then_some(notice),
        }
    }

    /// How the object is recreated with other values of immutable fields, if the custom resource allows this. The claims of a StatefulSet
    /// get new sizes, unless the custom resource says that the StatefulSet alone is recreated.
    fn recreate(&self, live: &Value, refused: &WriteRefusal) -> ObjectStep {
        let wanted = Value::Object(self.body().clone());
        let fields = refused.immutable.iter().flat_map(|(field, why)| immutable::changed(live, &wanted, field, why));
        let fields = fields.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ");
        let (remake, lost) = immutable::remake(&self.id().gvk);
        let forced = self.policy.forced;
        let sizes = immutable::claim_sizes(live, &wanted).filter(|_| !forced).unwrap_or_default();
        let only_claims =
            fields == "spec.volumeClaimTemplates" && (!sizes.is_empty() || immutable::differ_in_labels(live, &wanted));
        match remake {
            Remake::Never => ObjectStep::Retain { fields, lost, remedy: ", so it never is".to_owned() },
            _ if only_claims || forced => ObjectStep::Recreate { fields, remake, sizes },
            _ => {
                let remedy = format!(". The annotation {UPGRADE_FORCE}: \"true\" on the custom resource allows it");
                ObjectStep::Retain { fields, lost, remedy }
            }
        }
    }
}
