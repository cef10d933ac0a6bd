//! E-mail addresses and URLs, by the rules of the validator that Helm uses (`asaskevich/govalidator`).

use crate::template::functions::url::Url;
use regex::Regex;
use std::sync::LazyLock;

/// Letters beyond ASCII that the rules take.
const WIDE: &str = r"\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}";

static EMAIL: LazyLock<Regex> = LazyLock::new(|| {
    let atom = format!("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{WIDE}-]+");
    let quoted = r#""(?:[^"\\\r\n]|\\[\x01-\x7f])*""#;
    let label = format!("[A-Za-z0-9{WIDE}](?:[A-Za-z0-9._~{WIDE}-]*[A-Za-z0-9{WIDE}])?");
    let top = format!("[A-Za-z{WIDE}](?:[A-Za-z0-9_~{WIDE}-]*[A-Za-z{WIDE}])?");
    let local = format!(r"(?:{atom}(?:\.{atom})*|{quoted})");
    Regex::new(&format!(r"^{local}@(?:{label}\.)+{top}\.?$")).expect("the pattern is valid")
});

static URL: LazyLock<Regex> = LazyLock::new(|| {
    let host = r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9\x{A1}-\x{FFFF}](?:[A-Za-z0-9\x{A1}-\x{FFFF}_-]|\.[A-Za-z0-9\x{A1}-\x{FFFF}])*)";
    let pattern =
        format!(r"^(?:(?:ftp|tcp|udp|wss?|https?)://)?(?:\S+(?::\S*)?@)?{host}\.?(?::\d{{1,5}})?(?:[/?#]\S*)?$");
    Regex::new(&pattern).expect("the pattern is valid")
});

/// Whether it has the form of an e-mail address.
pub fn is_email(text: &str) -> bool {
    EMAIL.is_match(text)
}

/// Whether it may be the address of a page; the scheme may be left out.
pub fn is_url(text: &str) -> bool {
    if text.len() <= 3 || text.chars().count() >= 2083 || text.starts_with('.') {
        return false;
    }
    let whole = if text.contains(':') && !text.contains("://") { format!("http://{text}") } else { text.to_owned() };
    let Ok(url) = Url::parse(&whole) else { return false };
    let host = url.host();
    let is_word = host.is_empty() && !url.path().is_empty() && !url.path().contains('.');
    !(host.starts_with('.') || is_word) && URL.is_match(text)
}

/// Whether a request may name it: an absolute URI.
pub fn is_request_url(text: &str) -> bool {
    // A request has no fragment, and what follows `#` would be checked as one.
    let text = text.split('#').next().unwrap_or_default();
    Url::parse(text).is_ok_and(|url| !url.scheme().is_empty())
}

#[cfg(test)]
mod tests {
    use super::{is_email, is_request_url, is_url};

    #[test]
    fn addresses_are_distinguished_from_other_texts() {
        for good in ["a@b.io", "a.b+c@sub.example.com", "\"a b\"@c.de", "é@b.fr"] {
            assert!(is_email(good), "{good}");
        }
        for bad in ["", "a", "a@b", "@b.io", "a b@c.io", "a@b.io ", "a..b@c.io"] {
            assert!(!is_email(bad), "{bad}");
        }
    }

    #[test]
    fn urls_are_distinguished_from_other_texts() {
        for good in ["https://example.com", "example.com/a?b", "http://localhost:80/x", "github.com", "a.b:80"] {
            assert!(is_url(good), "{good}");
        }
        for bad in ["", "a", ".example.com", "http://", "exa mple.com", "nodots"] {
            assert!(!is_url(bad), "{bad}");
        }
        for (text, want) in
            [("https://a.b/c", true), ("a.b/c", false), ("/c", false), ("https://a b/", false), ("", false)]
        {
            assert_eq!(is_request_url(text), want, "{text}");
        }
    }
}
