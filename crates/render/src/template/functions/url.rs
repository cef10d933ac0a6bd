//! `urlParse` and `urlJoin`: Go's `net/url`.

use super::address::{self, Address, AddressError};
use super::args::{NIL_POINTER, bytes, kind_name, map};
use super::fixed;
use super::text::{escaped, quoted, unescaped};
use crate::template::function::{Context, FnError, FnResult, Function, Param};
use crate::template::value::{Kind, Map, MapType, Value};
use std::fmt::Write as _;

use Param::{Map as M, Str as S};

/// The functions of this family.
pub const FUNCTIONS: &[Function] = &[fixed("urlParse", &[S], url_parse), fixed("urlJoin", &[M], url_join)];

/// The place of a text in a URL: it decides which characters must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Segment,
    Host,
    Zone,
    User,
    Fragment,
}

/// A URL as Go's `net/url` takes it apart.
#[derive(Clone, Default)]
pub struct Url {
    scheme: String,
    opaque: String,
    user: Option<(String, Option<String>)>,
    host: String,
    path: String,
    /// The path as it was written, where [`escape`] would write it in another way.
    raw_path: String,
    force_query: bool,
    query: String,
    fragment: String,
}

/// Why a text is not a URL: Go's words after `parse "…": `.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// An escape that is not valid, or not in its place.
    #[error("invalid URL escape {0}")]
    Escape(String),
    /// What follows the host is not a port.
    #[error("invalid port {0} after host")]
    Port(String),
    /// A character that a host does not have.
    #[error("invalid character {0} in host name")]
    Character(String),
    /// The text between brackets is not an address.
    #[error("invalid host: {0}")]
    Host(#[from] AddressError),
    /// Another fault.
    #[error("{0}")]
    Other(&'static str),
}

fn url_parse(_: &Context, args: &[Value]) -> FnResult {
    let text = escaped(bytes(args, 0));
    let whole = Url::parse(&text).map_err(|e| {
        // A mistake before the fragment is shown without it.
        let before = text.split('#').next().unwrap_or_default();
        let shown = if Url::parse(before).is_err() { before } else { &text };
        format!("unable to parse url: parse {}: {e}", quoted(shown))
    });
    let url = whole?;
    let map = Map::new(MapType::Any);
    let insert = |key: &str, text: &str| map.insert(key, Value::str(&*unescaped(text)));
    insert("hostname", url.hostname());
    insert("userinfo", &url.user.as_ref().map(userinfo).unwrap_or_default());
    insert("scheme", &url.scheme);
    insert("host", &url.host);
    insert("path", &url.path);
    insert("query", &url.query);
    insert("opaque", &url.opaque);
    insert("fragment", &url.fragment);
    Ok(map.into())
}

fn url_join(_: &Context, args: &[Value]) -> FnResult {
    let part = |key: &str| -> Result<String, FnError> {
        match map(args, 0).and_then(|m| m.get(key)) {
            None => Ok(String::new()),
            Some(Value::Str(s)) => Ok(escaped(s.bytes()).into_owned()),
            Some(Value::Nil) => Err(NIL_POINTER.into()),
            Some(other) => {
                let kind: Kind = other.kind();
                Err(format!("unable to parse {key} key, must be of type string, but {} found", kind_name(kind)).into())
            }
        }
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        ..Url::default()
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let whole = format!("proto://{user}@host");
        let parsed = Url::parse(&whole)
            .map_err(|e| format!("unable to parse userinfo in dict: parse {}: {e}", quoted(&whole)))?;
        url.user = parsed.user;
    }
    Ok(Value::str(&*unescaped(&url.text())))
}

impl Url {
    /// `url.Parse`
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let (text, fragment) = text.split_once('#').map_or((text, None), |(t, f)| (t, Some(f)));
        let mut url = Self::parse_reference(text)?;
        if let Some(fragment) = fragment {
            url.fragment = unescape(fragment, Part::Fragment)?;
        }
        Ok(url)
    }

    fn parse_reference(text: &str) -> Result<Self, UrlError> {
        let mut url = Self::default();
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(UrlError::Other("net/url: invalid control character in URL"));
        }
        if text == "*" {
            url.path = "*".into();
            return Ok(url);
        }
        let (scheme, mut rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        if rest.ends_with('?') && rest.matches('?').count() == 1 {
            url.force_query = true;
            rest = &rest[..rest.len() - 1];
        } else if let Some((before, query)) = rest.split_once('?') {
            url.query = query.into();
            rest = before;
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.into();
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err(UrlError::Other("first path segment in URL cannot contain colon"));
            }
        }
        if (!url.scheme.is_empty() || !rest.starts_with("///")) && rest.starts_with("//") {
            let authority = &rest[2..];
            let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            rest = path;
            url.authority(authority)?;
        }
        url.path = unescape(rest, Part::Path)?;
        if escape(&url.path, Part::Path) != rest {
            url.raw_path = rest.into();
        }
        Ok(url)
    }

    fn authority(&mut self, authority: &str) -> Result<(), UrlError> {
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = user else { return Ok(()) };
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(fits) {
            return Err(UrlError::Other("net/url: invalid userinfo"));
        }
        let (name, password) = user.split_once(':').map_or((user, None), |(n, p)| (n, Some(p)));
        let password = password.map(|p| unescape(p, Part::User)).transpose()?;
        self.user = Some((unescape(name, Part::User)?, password));
        Ok(())
    }

    /// The text before the first colon; empty when there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The path, without escapes.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `RawPath`
    pub fn raw_path(&self) -> &str {
        &self.raw_path
    }

    /// The host, with its port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `PathEscape`
    pub fn escape_segment(text: &str) -> String {
        escape(text, Part::Segment)
    }

    /// `PathUnescape`
    pub fn unescape_segment(text: &str) -> Result<String, UrlError> {
        unescape(text, Part::Segment)
    }

    /// `ResolveReference`, as text. An opaque base stays under a relative reference.
    pub fn resolve(&self, reference: &Self) -> String {
        let mut url = reference.clone();
        if reference.scheme.is_empty() {
            url.scheme.clone_from(&self.scheme);
            if !self.opaque.is_empty() {
                url.opaque.clone_from(&self.opaque);
            }
        }
        if !reference.scheme.is_empty() || !reference.host.is_empty() || reference.user.is_some() {
            url.path = resolved_path(&reference.path, "");
            return url.text();
        }
        if reference.path.is_empty() && !reference.force_query && reference.query.is_empty() {
            url.query.clone_from(&self.query);
        }
        url.host.clone_from(&self.host);
        url.user.clone_from(&self.user);
        url.path = resolved_path(&self.path, &reference.path);
        url.text()
    }

    /// The host without its port.
    pub fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => &self.host,
        };
        host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
    }

    /// `URL.String`
    fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            let _ = write!(out, "{}:", self.scheme);
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.push_str("//");
                }
                if let Some(user) = &self.user {
                    let _ = write!(out, "{}@", userinfo(user));
                }
                out.push_str(&escape(&self.host, Part::Host));
            }
            // The path of `OPTIONS *` stays as it is.
            let path = if self.path == "*" { "*".to_owned() } else { escape(&self.path, Part::Path) };
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            // A colon in the first segment would be taken for a scheme.
            if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if self.force_query || !self.query.is_empty() {
            let _ = write!(out, "?{}", self.query);
        }
        if !self.fragment.is_empty() {
            let _ = write!(out, "#{}", escape(&self.fragment, Part::Fragment));
        }
        out
    }
}

/// A path without `.` and `..`, starting from the folder of another.
fn resolved_path(base: &str, reference: &str) -> String {
    let full = match reference {
        "" => base.to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("{}{relative}", &base[..base.rfind('/').map_or(0, |i| i + 1)]),
    };
    if full.is_empty() {
        return full;
    }
    let mut kept: Vec<&str> = Vec::new();
    for part in full.split('/') {
        match part {
            "." => {}
            ".." => {
                kept.pop();
            }
            part => kept.push(part),
        }
    }
    if matches!(full.rsplit('/').next(), Some("." | "..")) {
        kept.push("");
    }
    let path = kept.join("/");
    format!("/{}", path.trim_start_matches('/'))
}

fn userinfo(user: &(String, Option<String>)) -> String {
    let name = escape(&user.0, Part::User);
    match &user.1 {
        Some(password) => format!("{name}:{}", escape(password, Part::User)),
        None => name,
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err(UrlError::Other("missing protocol scheme")),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, UrlError> {
    let valid_port =
        |port: &str| port.is_empty() || port.starts_with(':') && port[1..].bytes().all(|b| b.is_ascii_digit());
    let wrong_port = |port: &str| UrlError::Port(quoted(port));
    match host.rfind('[') {
        Some(1..) => return Err(UrlError::Other("invalid IP-literal")),
        Some(_) => {
            let Some(end) = host.rfind(']') else { return Err(UrlError::Other("missing ']' in host")) };
            let (name, port) = (&host[1..end], &host[end + 1..]);
            if !valid_port(port) {
                return Err(wrong_port(port));
            }
            let zone = name.find("%25").unwrap_or(name.len());
            let name = unescape(&name[..zone], Part::Host)? + &unescape(&name[zone..], Part::Zone)?;
            if address::parse(&name)? == Address::V4 {
                return Err(UrlError::Other("invalid IP-literal"));
            }
            return Ok(format!("[{name}]{port}"));
        }
        None => {}
    }
    // Other schemes may have several hosts in a row, each with a port.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    if let Some(port) = colon.map(|at| &host[at..]).filter(|port| !valid_port(port)) {
        return Err(wrong_port(port));
    }
    unescape(host, Part::Host)
}

fn should_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() {
        return false;
    }
    if matches!(part, Part::Host | Part::Zone) && b"!$&'()*+,;=:[]<>\"".contains(&byte) {
        return false;
    }
    match byte {
        b'-' | b'_' | b'.' | b'~' => false,
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => byte == b'?',
            Part::Segment => matches!(byte, b'/' | b';' | b',' | b'?'),
            Part::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Part::Fragment => false,
            Part::Host | Part::Zone => true,
        },
        b'!' | b'(' | b')' | b'*' => part != Part::Fragment,
        _ => true,
    }
}

fn escape(text: &str, part: Part) -> String {
    let mut out = Vec::with_capacity(text.len());
    for &b in &*unescaped(text) {
        if should_escape(b, part) {
            out.extend_from_slice(format!("%{b:02X}").as_bytes());
        } else {
            out.push(b);
        }
    }
    escaped(&out).into_owned()
}

fn unescape(text: &str, part: Part) -> Result<String, UrlError> {
    let bytes = &*unescaped(text);
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let b = bytes[i];
        if b != b'%' {
            if matches!(part, Part::Host | Part::Zone) && b < 0x80 && should_escape(b, part) {
                return Err(UrlError::Character(quoted(&escaped(&bytes[i..=i]))));
            }
            out.push(b);
            i += 1;
            continue;
        }
        let digits = bytes.get(i + 1..i + 3).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            let end = (i + 3).min(bytes.len());
            return Err(UrlError::Escape(quoted(&escaped(&bytes[i..end]))));
        };
        let value = u8::from_str_radix(&String::from_utf8_lossy(digits), 16).unwrap_or(0);
        let shown = || Err(UrlError::Escape(quoted(&escaped(&bytes[i..i + 3]))));
        if part == Part::Host && value < 0x80 && digits != b"25" {
            return shown();
        }
        if part == Part::Zone && digits != b"25" && value != b' ' && should_escape(value, Part::Host) {
            return shown();
        }
        out.push(value);
        i += 3;
    }
    Ok(escaped(&out).into_owned())
}
