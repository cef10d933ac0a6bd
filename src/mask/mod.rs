//! Masks: contents of Secrets appear in no text that leaves the operator.
//!
//! # Guarantees
//! - A message is a [`Text`]: our own words and names, and texts of others (the API server, templates, pods). Only in texts of
//!   others is anything replaced. `Display` of a [`Text`], and so of every error, shows none of them: a log line that is about no
//!   release needs no mask.
//! - Secrets are kept by release: a text is never compared with the Secrets of another release, so it cannot be used to
//!   guess them.
//! - A text of others that holds a known string, plain, in base64 or as JSON or Go quote it, is shown with `****` in its place.
//!   The names of the release's own objects stay.
//! - A line that has a string too short to be replaced as a word, or quotes a common one, is left out; of the API server's
//!   answer the fields are named without their values.
//! - When there are too many strings, or they are not known yet, texts of others are not shown at all.
//!
//! # Caveats
//! - A value that a template derives from a secret, such as a hash or a part, is not known here.
//! - Numbers of up to five digits, truth values and common words (`admin`, `postgres`) are shown where they are not in quotes.

mod dictionary;
pub mod secret_data;
mod text;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value};

use dictionary::Dictionary;
pub use dictionary::{MASK, Secrets};
pub use text::{Part, Text, WITHHELD};

/// The secrets, by release.
pub struct Masks<K>(RwLock<HashMap<K, Known>>);

#[derive(Default)]
struct Known {
    secrets: Secrets,
    dictionary: Arc<Dictionary>,
}

impl<K> Default for Masks<K> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Hash + Eq + Clone> Masks<K> {
    /// Adds secrets that a release's texts may quote from now on.
    pub fn learn(&self, release: &K, secrets: Secrets) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(release.clone()).or_default();
        if known.secrets.extend(secrets) {
            known.dictionary = Arc::new(Dictionary::new(&known.secrets));
        }
    }

    /// Whether a release's sources of values were read, so that texts that quote them can be masked.
    pub fn knows_sources(&self, release: &K) -> bool {
        self.with(release, |known| known.secrets.sources)
    }

    /// Whether the release's own Secrets were read.
    pub fn knows_objects(&self, release: &K) -> bool {
        self.with(release, |known| known.secrets.objects)
    }

    fn with(&self, release: &K, question: impl FnOnce(&Known) -> bool) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(release).is_some_and(question)
    }

    /// A release is gone.
    pub fn forget(&self, release: &K) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(release);
    }

    fn dictionary(&self, release: &K) -> Option<Arc<Dictionary>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(release).map(|known| Arc::clone(&known.dictionary))
    }

    /// A text about a release, without its secrets.
    pub fn show(&self, release: &K, text: &Text) -> String {
        let dictionary = if text.is_foreign() { self.dictionary(release) } else { None };
        let part = |part: &Part| match (part, &dictionary) {
            (Part::Foreign { text, bare }, Some(dictionary)) => dictionary.clean(text, bare),
            (Part::Own(text) | Part::Foreign { text, .. }, _) => text.to_string(),
        };
        text.parts().iter().map(part).collect()
    }

    /// A text of others, without the secrets of a release.
    pub fn clean(&self, release: &K, text: &str) -> String {
        self.dictionary(release).map_or_else(|| text.to_owned(), |dictionary| dictionary.clean(text, ""))
    }

    /// A document without the secrets of a release; its lines all stay. `None` when too much is secret to replace it.
    pub fn replace(&self, release: &K, text: &str) -> Option<String> {
        self.dictionary(release).map_or_else(|| Some(text.to_owned()), |dictionary| dictionary.replace(text))
    }

    /// A value with [`Masks::clean`] texts.
    pub fn clean_value(&self, release: &K, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.clean(release, text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(release, item)),
            Value::Object(map) => self.clean_map(release, map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn clean_map(&self, release: &K, map: &mut Map<String, Value>) {
        map.values_mut().for_each(|value| self.clean_value(release, value));
    }
}

#[cfg(test)]
mod tests {
    use super::{Masks, Secrets, Text};

    #[test]
    fn the_masks_of_a_release_are_its_own() {
        let masks: Masks<u8> = Masks::default();
        let mut secrets = Secrets::default();
        secrets.add("gateway");
        masks.learn(&0, secrets);
        let text = Text::own("Deployment gateway: ").and(Text::foreign("no gateway"));
        assert_eq!(masks.show(&0, &text), "Deployment gateway: no ****");
        assert_eq!(masks.show(&1, &text), "Deployment gateway: no gateway");
        masks.learn(&1, Secrets::all_sources());
        assert!(masks.knows_sources(&1) && !masks.knows_sources(&0) && !masks.knows_objects(&1));
        masks.forget(&0);
        assert_eq!(masks.clean(&0, "gateway"), "gateway");
    }
}
