//! One object while it is applied: the facts about it, and the body to send. It sends nothing: [`ObjectRun::next_step`] is a table of
//! steps, and the caller carries out a step and enters its result. A dry run takes the same steps, and its writes store nothing.

pub mod step;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::claim::Ownership;
use super::leave::leave;
use super::stamp::Stamped;
use super::tolerate::{self, Duplicate, Fault, Twins};
use crate::kind::ignore::Ignore;
use crate::mask::Text;
use crate::object::ObjectId;
use crate::release::live::Live;
use crate::release::managers::{self, Survivor, managed};

/// How often an object is sent again without the parts that the API server refused. The API server names all faults at
/// once, except for duplicates in one list.
const MAX_FAULTS: usize = 20;

/// The metadata fields of an object that clients write.
const WRITTEN: [&str; 6] = ["name", "namespace", "labels", "annotations", "ownerReferences", "finalizers"];

/// The rules for the writes of an object.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate fact, and the table of steps reads them one by one"
)]
pub struct ObjectPolicy<'a> {
    /// It is ours. Any other object that exists is taken over or refused.
    pub known: bool,
    /// Nothing is stored.
    pub dry: bool,
    /// It is applied because it drifted.
    pub repaired: bool,
    /// Other clients may have changed the fields that a repair changes.
    pub suspect: bool,
    /// The operator sets its replicas, so that they are never left out.
    pub stepped: bool,
    /// An autoscaler sets its replicas.
    pub autoscaled: bool,
    /// The custom resource allows recreating an object that cannot be changed.
    pub forced: bool,
    /// The object in the caches.
    pub before: Option<&'a Live>,
    /// The object in the last record, if that was read.
    pub previous: Option<&'a Stamped>,
    /// Fields that the operator leaves to others.
    pub rules: &'a [Ignore],
}

/// Something about an object that people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Reason of the event.
    pub reason: &'static str,
    /// A sentence without the object's name.
    pub text: Text,
    /// Whether it is a warning.
    pub warning: bool,
}

/// Why the API server refused a write; the default means a reason that does not change the next step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteRefusal {
    /// The object exists, or has changed.
    pub is_conflict: bool,
    /// A right is missing, or an admission plugin denies it.
    pub is_forbidden: bool,
    /// The message about a body that does not match the kind's schema.
    pub untyped: Option<String>,
    /// Fields that are null and may not be.
    pub null: Vec<String>,
    /// Fields that cannot be changed, with the API server's sentence.
    pub immutable: Vec<(String, String)>,
    /// Fields that are invalid.
    pub invalid: Vec<String>,
}

/// The object as it was read.
enum Reading {
    Unread,
    Absent,
    Found(Value, Ownership),
}

/// The purpose of the next write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The object must not exist yet.
    Create,
    /// It exists, and is read before it is applied.
    TakeOver,
    Change,
}

/// The steps before a write to an object that was read, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Preparation {
    Begun,
    Looked,
    Released,
    Left,
    Ready,
}

/// The steps after a refusal of immutable or conflicting fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remedy {
    Untried,
    /// The object was read once more.
    Reread,
    /// The obstacle was removed. The next refusal is final.
    Tried,
}

/// One object while it is applied.
pub struct ObjectRun<'a> {
    object: Cow<'a, Stamped>,
    policy: ObjectPolicy<'a>,
    /// The replicas stop being ours: an autoscaler of the release sets them, and the chart does not. They may still belong to the
    /// operator from an earlier revision, even if that one was interrupted.
    gives_up_replicas: bool,
    /// The body to send, if it differs from that of the object.
    body: Option<Map<String, Value>>,
    /// An apply to send before it.
    first: Option<Map<String, Value>>,
    live: Reading,
    purpose: Purpose,
    preparation: Preparation,
    /// The answer to the last write.
    answer: Option<Result<Value, WriteRefusal>>,
    remedy: Remedy,
    is_handed_over: bool,
    corrections_left: usize,
    /// Items with the same key that were removed from `body`.
    duplicates: Vec<Duplicate>,
    /// The lists that contain them.
    twins: Twins,
    taken: Option<Vec<Survivor>>,
    notices: Vec<Notice>,
}

/// An object after its last step.
pub struct ObjectOutcome {
    /// As it was read last.
    pub found: Option<Value>,
    /// As it was written.
    pub answer: Option<Value>,
    /// The body that was sent last.
    pub body: Map<String, Value>,
    /// The fields that others owned before a known object was applied, if it was read.
    pub taken: Option<Vec<Survivor>>,
    /// Changes that are worth an event.
    pub notices: Vec<Notice>,
}

impl<'a> ObjectRun<'a> {
    /// An object to apply. `first` is an apply that an existing object needs before.
    pub fn new(object: Cow<'a, Stamped>, policy: ObjectPolicy<'a>, first: Option<Map<String, Value>>) -> Self {
        let writes = object.body.get("spec").is_some_and(|spec| spec.get("replicas").is_some());
        Self {
            gives_up_replicas: policy.known && !policy.dry && policy.autoscaled && !writes,
            first: first.filter(|_| !policy.dry),
            purpose: if policy.known || policy.dry { Purpose::Change } else { Purpose::Create },
            object,
            policy,
            body: None,
            live: Reading::Unread,
            preparation: Preparation::Begun,
            answer: None,
            remedy: Remedy::Untried,
            is_handed_over: false,
            corrections_left: MAX_FAULTS,
            duplicates: Vec::new(),
            twins: Twins::default(),
            taken: None,
            notices: Vec::new(),
        }
    }

    /// Which object.
    pub fn id(&self) -> &ObjectId {
        &self.object.id
    }

    /// Whether nothing is stored.
    pub fn is_dry(&self) -> bool {
        self.policy.dry
    }

    /// The body to send.
    pub fn body(&self) -> &Map<String, Value> {
        self.body.as_ref().unwrap_or(&self.object.body)
    }

    /// The object as the API server last returned it.
    pub fn latest(&self) -> &Value {
        match (&self.answer, &self.live) {
            (Some(Ok(answer)), _) => answer,
            (_, Reading::Found(found, _)) => found,
            _ => &Value::Null,
        }
    }

    /// The object as in the last record and as it is wanted.
    pub fn manifests(&self) -> (Option<Value>, Value) {
        (self.policy.previous.map(|o| Value::Object(o.body.clone())), Value::Object(self.object.body.clone()))
    }

    /// Enters the object as it was read, and its owner.
    pub fn read(&mut self, found: Option<(Value, Ownership)>) {
        let Some((found, ownership)) = found else {
            self.live = Reading::Absent;
            match &self.answer {
                // It was deleted in between. The next pass creates it.
                None if self.purpose == Purpose::TakeOver => self.answer = Some(Err(WriteRefusal::default())),
                None => self.taken = (!self.policy.dry).then(Vec::new),
                Some(Err(refused)) if !refused.immutable.is_empty() => self.remedied(None),
                Some(_) => self.remedy = Remedy::Reread,
            }
            return;
        };
        if self.answer.is_some() {
            self.remedy = Remedy::Reread;
        } else if self.purpose == Purpose::TakeOver && ownership == Ownership::Adopted {
            self.notices.push(Notice {
                reason: "ObjectAdopted",
                text: "it existed and was taken over".into(),
                warning: false,
            });
        }
        self.live = Reading::Found(found, ownership);
    }

    /// Enters whether an autoscaler of other clients scales the object.
    pub fn looked(&mut self, autoscaled: bool) {
        self.policy.autoscaled |= autoscaled;
        self.preparation = Preparation::Looked;
    }

    /// The replicas are no longer ours.
    pub fn released(&mut self) {
        self.preparation = Preparation::Released;
    }

    /// Leaves out the fields that belong to others.
    pub fn leave_fields(&mut self) {
        let Reading::Found(found, _) = &self.live else { return };
        let ObjectPolicy { previous, autoscaled, rules, .. } = self.policy;
        let zero = managers::is_scaled_to_zero(managed(found), found);
        if let Some(mut body) = leave(&self.object, previous, managed(found), zero, autoscaled, rules) {
            let replicas = self.object.body.get("spec").and_then(|spec| spec.get("replicas"));
            if let (true, Some(replicas), Some(Value::Object(spec))) =
                (self.policy.stepped, replicas, body.get_mut("spec"))
            {
                spec.insert("replicas".into(), replicas.clone());
            }
            self.body = Some(body);
            self.duplicates.clear();
            self.twins = Twins::default();
        }
        if self.policy.known && !self.policy.dry {
            self.taken = Some(managers::taken(managed(found), &Value::Object(self.body().clone())));
        }
        self.preparation = Preparation::Left;
    }

    /// Enters whether there were fields of Helm to take over. If there were after a write, the object is sent again.
    pub fn handed_over(&mut self, taken: bool) {
        if self.answer.is_none() {
            self.preparation = Preparation::Ready;
            return;
        }
        self.is_handed_over = true;
        if taken {
            self.again(Remedy::Untried);
        }
    }

    /// Enters the answer to the apply before this one.
    pub fn applied_first(&mut self, answer: &Value) {
        self.first = None;
        let body = self.body.get_or_insert_with(|| self.object.body.clone());
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            metadata.insert("resourceVersion".into(), answer["metadata"]["resourceVersion"].clone());
        }
    }

    /// Enters the answer to a write. Faults that the API server refuses and Helm deploys are corrected, and the object is sent
    /// again (docs/design/applying.md B3).
    pub fn answered(&mut self, answer: Result<Value, WriteRefusal>) {
        if self.corrections_left > 0 {
            let faults = answer.as_ref().err().and_then(|refused| self.correct(refused));
            if let Some(faults) = faults {
                self.corrections_left -= 1;
                for fault in faults {
                    self.note_fault(fault);
                }
                return;
            }
            if !self.is_trial() {
                self.note_lost();
            }
        }
        if self.purpose == Purpose::Create && matches!(&answer, Err(refused) if refused.is_conflict) {
            self.purpose = Purpose::TakeOver;
            self.corrections_left = MAX_FAULTS;
        } else {
            self.answer = Some(answer);
        }
    }

    /// The answer to a trial with all twins, to be written in place of the object.
    pub fn with_twins(&self, new: bool) -> Value {
        let mut whole = self.latest().clone();
        tolerate::restore(&mut whole, &self.twins);
        if new && let Some(Value::Object(metadata)) = whole.get_mut("metadata") {
            metadata.retain(|field, _| WRITTEN.contains(&field.as_str()));
        }
        whole
    }

    /// Enters the answer to the replacement. If the API server refuses the object itself, the apply is sent without twins.
    pub fn replaced(&mut self, answer: Result<Value, WriteRefusal>) {
        self.corrections_left = 0;
        match &answer {
            Ok(_) => {
                let kept: Vec<String> = self.duplicates.iter().map(Duplicate::kept).collect();
                for text in &kept {
                    self.note_mended(text);
                }
            }
            Err(refused) if refused.is_forbidden || !refused.invalid.is_empty() => {
                self.note_lost();
                self.answer = None;
                return;
            }
            Err(_) => {}
        }
        self.answered(answer);
    }

    /// What prevented the write is gone, and the object is sent again: with another body, if its fields were reshaped.
    pub fn remedied(&mut self, reshaped: Option<(Map<String, Value>, Option<Notice>)>) {
        if let Some((body, notice)) = reshaped {
            self.body = Some(body);
            self.notices.extend(notice);
        }
        self.again(Remedy::Tried);
    }

    /// The end: reports the fields that the chart dropped and that another manager keeps.
    pub fn outcome(mut self) -> ObjectOutcome {
        let differs = self.policy.previous.is_some_and(|previous| previous.body != self.object.body);
        let (before, now) = if differs { self.manifests() } else { (None, Value::Null) };
        let mut answer = self.answer.take().and_then(Result::ok);
        let found = if let Reading::Found(found, _) = self.live { Some(found) } else { None };
        if let (Some(before), Some(answer)) = (before, &mut answer) {
            match &found {
                _ if !self.policy.dry => self.notices.extend(survivors(answer, &before, &now)),
                Some(found) if managers::needs_hand_over(managed(found)) => drop_handed_over(answer, &before, &now),
                _ => {}
            }
        }
        let body = self.body.unwrap_or_else(|| self.object.into_owned().body);
        ObjectOutcome { found, answer, body, taken: self.taken, notices: self.notices }
    }

    fn again(&mut self, remedy: Remedy) {
        self.answer = None;
        self.purpose = Purpose::Change;
        self.preparation = Preparation::Ready;
        self.remedy = remedy;
        self.corrections_left = MAX_FAULTS;
    }

    /// Whether the next write is a dry run, whose result gets its twins back.
    fn is_trial(&self) -> bool {
        !self.policy.dry && self.corrections_left > 0 && self.twins.can_be_restored()
    }

    fn correct(&mut self, refused: &WriteRefusal) -> Option<Vec<Fault>> {
        let body = self.body.get_or_insert_with(|| self.object.body.clone());
        match &refused.untyped {
            Some(message) => tolerate::correct(body, message, &mut self.twins),
            None => tolerate::leave_out_nulls(body, &refused.null),
        }
    }

    fn note_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Duplicate(duplicate) => self.duplicates.push(duplicate),
            Fault::Unknown(_) | Fault::Null(_) => self.note_mended(&fault.to_string()),
        }
    }

    /// Reports which items were removed.
    fn note_lost(&mut self) {
        let lost: Vec<String> = self.duplicates.iter().map(|d| Fault::Duplicate(d.clone()).to_string()).collect();
        for text in &lost {
            self.note_mended(text);
        }
    }

    fn note_mended(&mut self, text: &str) {
        let bare = "the API server does not accept a part of the object as the chart has it";
        let notice = Notice { reason: "ManifestMended", text: Text::foreign_or(text, bare), warning: true };
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

/// All parts of an object that can be applied. Applying them changes only the owners of the fields.
pub fn whole(found: &Value) -> Map<String, Value> {
    let mut body = found.as_object().cloned().unwrap_or_default();
    body.remove("status");
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.retain(|field, _| WRITTEN.contains(&field.as_str()));
    }
    body
}

fn survivors(answer: &Value, before: &Value, now: &Value) -> Vec<Notice> {
    let notice = |survivor: Survivor| {
        let text =
            format!("the chart no longer has {}, and it stays because {} owns it", survivor.path, survivor.manager);
        Notice { reason: "FieldStays", text: Text::own(text), warning: true }
    };
    managers::survivors(managed(answer), before, now).into_iter().map(notice).collect()
}

/// Removes from the answer to a dry run the fields that an apply would remove after the hand-over from Helm: top fields of maps that
/// only Helm owned, and that the chart no longer has.
fn drop_handed_over(answer: &mut Value, before: &Value, now: &Value) {
    for pointer in dropped(before, now) {
        let Some((parent, key)) = pointer.rsplit_once('/') else { continue };
        if let Some(Value::Object(map)) = answer.pointer_mut(parent) {
            map.shift_remove(&key.replace("~1", "/").replace("~0", "~"));
        }
    }
}

/// The fields of maps that `before` has and `now` lacks, as JSON pointers.
fn dropped(before: &Value, now: &Value) -> Vec<String> {
    let (Value::Object(before), Value::Object(now)) = (before, now) else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in before {
        let step = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        match now.get(key) {
            None => found.push(step),
            Some(now) => found.extend(dropped(value, now).into_iter().map(|rest| format!("{step}{rest}"))),
        }
    }
    found
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
