//! Texts whose parts say where they come from.

use std::fmt;

/// A text in parts: our own words and names, which are shown as they are, and texts of others, which may quote a Secret.
///
/// Its `Display` shows no text of others, but a substitute for each such part. [`Masks::show`](super::Masks::show), which knows the
/// secrets of a release, shows the whole text.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Box<[Part]>);

/// A part of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Our own words, names of objects, kinds, namespaces, reasons.
    Own(Box<str>),
    /// Text from another source: the API server, a template, a pod, another controller.
    Foreign {
        text: Box<str>,
        /// The substitute where it cannot be shown; empty for [`WITHHELD`].
        bare: Box<str>,
    },
}

/// The replacement for a text that cannot be shown.
pub const WITHHELD: &str = "(not shown: it may quote a Secret)";

impl Text {
    /// Our own words and names.
    pub fn own(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self(Box::new([Part::Own(text)])) }
    }

    /// A text of others.
    pub fn foreign(text: impl Into<Box<str>>) -> Self {
        Self::foreign_or(text, "")
    }

    /// A text of others, and the substitute where it cannot be shown.
    pub fn foreign_or(text: impl Into<Box<str>>, bare: impl Into<Box<str>>) -> Self {
        let (text, bare) = (text.into(), bare.into());
        if text.is_empty() { Self::default() } else { Self(Box::new([Part::Foreign { text, bare }])) }
    }

    /// `REASON: MESSAGE` of a condition, of which the reason is one of a few words and the message may say anything.
    pub fn reason(reason: &str, message: &str) -> Self {
        match (reason, message) {
            ("", message) => Self::foreign(message),
            (reason, "") => Self::own(reason),
            (reason, message) => Self::own(format!("{reason}: ")).and(Self::foreign(message)),
        }
    }

    /// This text, followed by another text.
    #[must_use]
    pub fn and(self, more: impl Into<Self>) -> Self {
        let more = more.into();
        Self(self.0.into_iter().chain(more.0).collect())
    }

    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a part of it comes from another source.
    pub fn is_foreign(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Foreign { .. }))
    }

    /// Our own words that it begins with.
    pub fn beginning(&self) -> &str {
        match self.0.first() {
            Some(Part::Own(text)) => text,
            _ => "",
        }
    }

    /// The whole text, unmasked. Only for users who are allowed to read its subject: those of the command line.
    pub fn whole(&self) -> String {
        let part = |part: &Part| match part {
            Part::Own(text) | Part::Foreign { text, .. } => text.clone(),
        };
        self.0.iter().map(part).collect()
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::own(text)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Own(text) => f.write_str(text),
            Part::Foreign { bare, .. } => f.write_str(or_withheld(bare)),
        })
    }
}

pub(super) fn or_withheld(bare: &str) -> &str {
    if bare.is_empty() { WITHHELD } else { bare }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn a_text_shows_nothing_of_others_by_itself() {
        let text = Text::own("apply Service a: ").and(Text::foreign_or("hunter2 is wrong", "Invalid"));
        assert_eq!(text.to_string(), "apply Service a: Invalid");
        assert_eq!(text.whole(), "apply Service a: hunter2 is wrong");
        assert_eq!(Text::foreign("hunter2").to_string(), super::WITHHELD);
        assert!(Text::foreign("").is_empty() && !Text::own("a").is_foreign() && text.is_foreign());
    }
}
