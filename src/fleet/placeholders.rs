//! Marks in place of the names of a release, by which changes of different custom resources become equal.

use std::borrow::Cow;

/// The names of a custom resource and its release, each with its mark.
#[derive(Clone, Debug, Default)]
pub struct Placeholders(Vec<(String, &'static str)>);

impl Placeholders {
    /// The marks of a release, and of its custom resource where that is called differently.
    pub fn new(release: (&str, &str), cr: (&str, &str)) -> Self {
        let mut words = vec![(release.1.to_owned(), "{release}")];
        for (name, mark) in [(cr.1, "{name}"), (release.0, "{namespace}"), (cr.0, "{own namespace}")] {
            if !name.is_empty() && !words.iter().any(|(word, _)| word == name) {
                words.push((name.to_owned(), mark));
            }
        }
        // A name may be the beginning of another name.
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        Self(words)
    }

    /// A text with marks in place of the names. A part of a longer word is not a name.
    pub fn put<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (mut out, mut done, mut at) = (String::new(), 0, 0);
        while at < text.len() {
            let starts = text[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric());
            let found = self.0.iter().filter(|_| starts).find(|(word, _)| {
                let rest = text[at..].strip_prefix(word.as_str());
                rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            });
            if let Some((word, mark)) = found {
                out.push_str(&text[done..at]);
                out.push_str(mark);
                at += word.len();
                done = at;
            } else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[done..]);
        Cow::Owned(out)
    }
}

#[cfg(test)]
mod tests {
    use super::Placeholders;

    #[test]
    fn names_of_a_release_are_replaced_as_whole_words() {
        let of = Placeholders::new(("prod", "shop"), ("prod", "shop"));
        for (text, expected) in [
            ("shop", "{release}"),
            ("shop-web.prod.svc", "{release}-web.{namespace}.svc"),
            ("workshop shops", "workshop shops"),
            ("größe/shop", "größe/{release}"),
            ("", ""),
        ] {
            assert_eq!(of.put(text), expected, "{text}");
        }
        let other = Placeholders::new(("t", "shop-web"), ("prod", "shop"));
        assert_eq!(other.put("shop-web shop t prod"), "{release} {name} {namespace} {own namespace}");
        // A release without a name of its own replaces nothing.
        assert_eq!(Placeholders::default().put("shop"), "shop");
    }
}
