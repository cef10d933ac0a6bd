//! The conditions of a status: the one place where they are read, and the one where they are set.
//!
//! Reading is lenient, because other programs write statuses too: a condition that is not an object, and a text that is not a string, count
//! as absent.

use serde_json::{Map, Value, json};

/// Bytes of a condition's message.
pub const MAX_MESSAGE: usize = 2048;

/// A condition of an object.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    /// Its type, such as `Ready`.
    pub fn name(self) -> &'a str {
        self.text("type")
    }
    /// `True`, `False` or `Unknown`.
    pub fn status(self) -> &'a str {
        self.text("status")
    }
    /// Whether its status is `True`.
    pub fn is_true(self) -> bool {
        self.status() == "True"
    }
    /// Whether its status is `False`.
    pub fn is_false(self) -> bool {
        self.status() == "False"
    }
    /// The reason, a word for programs.
    pub fn reason(self) -> &'a str {
        self.text("reason")
    }
    /// The message for people.
    pub fn message(self) -> &'a str {
        self.text("message")
    }
    /// Since when it has its status, in RFC 3339.
    pub fn since(self) -> &'a str {
        self.text("lastTransitionTime")
    }
    fn text(self, key: &str) -> &'a str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The conditions of a status, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a>(&'a [Value]);

impl<'a> Conditions<'a> {
    /// Those of a status.
    pub fn of(status: &'a Map<String, Value>) -> Self {
        Self(status.get("conditions").and_then(Value::as_array).map_or(&[], Vec::as_slice))
    }
    /// Those of an object, by its field `status`.
    pub fn of_object(object: &'a Value) -> Self {
        object.get("status").and_then(Value::as_object).map_or(Self(&[]), Self::of)
    }
    /// The condition of a type.
    pub fn get(self, name: &str) -> Option<Condition<'a>> {
        self.iter().find(|condition| condition.name() == name)
    }
    /// Whether the condition of a type is `True`.
    pub fn is_true(self, name: &str) -> bool {
        self.get(name).is_some_and(Condition::is_true)
    }
    /// All of them, in the order of the status.
    pub fn iter(self) -> impl Iterator<Item = Condition<'a>> {
        self.0.iter().map(Condition)
    }
}

/// The conditions of a status while it is written. `lastTransitionTime` stays as long as the status of a condition does.
#[derive(Clone, Debug)]
pub struct ConditionsWriter<'a> {
    list: Vec<Value>,
    now: &'a str,
    generation: i64,
}

impl<'a> ConditionsWriter<'a> {
    /// Begins with the conditions of a status, for a `metadata.generation`. `now` is in RFC 3339.
    pub fn new(status: &Map<String, Value>, generation: i64, now: &'a str) -> Self {
        let list = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { list, now, generation }
    }

    /// Their present state.
    pub fn read(&self) -> Conditions<'_> {
        Conditions(&self.list)
    }

    /// Removes a condition.
    pub fn remove(&mut self, name: &str) {
        self.list.retain(|condition| Condition(condition).name() != name);
    }

    /// Sets a condition to `True` or `False`.
    pub fn set(&mut self, name: &str, on: bool, reason: &str, message: &str) {
        self.set_status(name, if on { "True" } else { "False" }, reason, message);
    }

    /// Sets a condition to a status. A message of more than [`MAX_MESSAGE`] bytes is cut.
    pub fn set_status(&mut self, name: &str, status: &str, reason: &str, message: &str) {
        let at = self.list.iter().position(|condition| Condition(condition).name() == name);
        let before = at.map(|at| Condition(&self.list[at])).filter(|before| before.status() == status);
        let since = before.map(Condition::since).filter(|since| !since.is_empty()).unwrap_or(self.now);
        let condition = json!({"type": name, "status": status, "reason": reason, "message": bound(message.trim_end()),
            "lastTransitionTime": since, "observedGeneration": self.generation});
        match at {
            Some(at) => self.list[at] = condition,
            None => self.list.push(condition),
        }
    }

    /// As [`Self::set`], and with `lastUpdateTime`: since when the status, the reason and the message are these.
    pub fn set_with_update_time(&mut self, name: &str, on: bool, reason: &str, message: &str) {
        let is_same = |before: &Condition<'_>| {
            before.is_true() == on && before.reason() == reason && before.message() == bound(message.trim_end())
        };
        let before = self.read().get(name).filter(is_same);
        let updated = before.map_or("", |before| before.text("lastUpdateTime"));
        let updated = if updated.is_empty() { self.now } else { updated }.to_owned();
        self.set(name, on, reason, message);
        if let Some(condition) = self.list.iter_mut().find(|condition| Condition(condition).name() == name) {
            condition["lastUpdateTime"] = updated.into();
        }
    }

    /// Writes them into a status.
    pub fn write(self, status: &mut Map<String, Value>) {
        status.insert("conditions".into(), Value::Array(self.list));
    }
}

/// Cuts a message to [`MAX_MESSAGE`].
pub fn bound(message: &str) -> String {
    const MARK: &str = " …";
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let end = (0..=MAX_MESSAGE - MARK.len()).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{MARK}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::{Conditions, ConditionsWriter, MAX_MESSAGE, bound};
    use serde_json::{Map, Value, json};

    fn status(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn what_others_wrote_is_read_leniently() {
        for (written, expected) in [
            (json!({}), None),
            (json!({"conditions": "Ready"}), None),
            (json!({"conditions": ["Ready", {"type": "Ready", "status": true}]}), Some(("", ""))),
            (
                json!({"conditions": [{"type": "A", "status": "True"}, {"type": "Ready", "status": "False", "reason": "R"}]}),
                Some(("False", "R")),
            ),
        ] {
            let written = status(&written);
            let ready = Conditions::of(&written).get("Ready");
            assert_eq!(ready.map(|ready| (ready.status(), ready.reason())), expected, "{written:?}");
        }
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_alone() {
        let mut written = Map::new();
        for (now, on, reason, since) in
            [("1", true, "A", "1"), ("2", true, "B", "1"), ("3", false, "B", "3"), ("4", false, "B", "3")]
        {
            let mut conditions = ConditionsWriter::new(&written, 7, now);
            conditions.set("Ready", on, reason, "m\n");
            conditions.write(&mut written);
            let ready = Conditions::of(&written).get("Ready").unwrap();
            assert_eq!((ready.since(), ready.reason(), ready.message(), ready.is_true()), (since, reason, "m", on));
        }
        assert_eq!(written["conditions"].as_array().unwrap().len(), 1);
        let mut conditions = ConditionsWriter::new(&written, 7, "5");
        conditions.remove("Ready");
        assert!(conditions.read().get("Ready").is_none());
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let long = "é".repeat(MAX_MESSAGE);
        assert!(bound(&long).len() <= MAX_MESSAGE && bound(&long).ends_with("é …"));
        assert_eq!(bound("short"), "short");
    }
}
