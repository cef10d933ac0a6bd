//! Who is allowed to see the pages: the browser that opened the link of this start, at the address that the program listens on.
//!
//! # Guarantees
//! - A page of another origin cannot read a page: it has no cookie (`SameSite=Strict`), and its requests name their origin.
//! - A name that an attacker's DNS points at loopback does not work, because `Host` must be the address, or `localhost`.
//!
//! # Caveats
//! - Cookies do not distinguish ports: another program on the same address that the user visits receives the cookie.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest as _, Sha256};

/// Bytes of randomness in a secret.
const RANDOM: usize = 32;
/// The longest header and query that is read, in bytes.
const LONGEST: usize = 4096;
/// The parameter of the link that has the token.
pub const TOKEN: &str = "token";

/// The operating system has no randomness.
#[derive(Debug, thiserror::Error)]
#[error("cannot read random bytes: {0}")]
pub struct RandomError(#[from] getrandom::Error);

/// A random text that opens the pages. It is never printed with `{:?}`.
pub struct PageSecret(String);

impl PageSecret {
    /// A new one.
    pub fn random() -> Result<Self, RandomError> {
        let mut bytes = [0_u8; RANDOM];
        getrandom::fill(&mut bytes)?;
        Ok(Self(data_encoding::BASE64URL_NOPAD.encode(&bytes)))
    }

    /// Whether a text is this one. The time that it takes does not depend on the place where they differ.
    fn is(&self, text: &str) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(text)
    }
}

impl std::fmt::Debug for PageSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageSecret(..)")
    }
}

/// The facts about a request that decide whether it is answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    pub method: &'a str,
    /// The header `Host`; `None` unless there is exactly one.
    pub host: Option<&'a str>,
    /// The header `Origin`.
    pub origin: Option<&'a str>,
    /// The header `Sec-Fetch-Site`.
    pub site: Option<&'a str>,
    /// The header `Cookie`.
    pub cookie: Option<&'a str>,
    /// The token in the query.
    pub token: Option<&'a str>,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is answered.
    Allowed,
    /// It has the token of the link: the answer sets this cookie.
    Enter(String),
    /// It is refused with this status and sentence.
    Refused(u16, &'static str),
}

/// The door of the pages.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    link: PageSecret,
    session: PageSecret,
}

impl Door {
    /// A door with new secrets, for a server that listens on an address.
    pub fn new(address: SocketAddr) -> Result<Self, RandomError> {
        Ok(Self { address, link: PageSecret::random()?, session: PageSecret::random()? })
    }

    /// The link that opens the pages.
    pub fn link(&self) -> String {
        let host = if self.address.ip().is_unspecified() { loopback(self.address) } else { self.address };
        format!("http://{host}/?{TOKEN}={}", self.link.0)
    }

    /// Decides about a request. The first row that fits wins.
    pub fn decide(&self, asked: &Asked<'_>) -> Access {
        let too_long = [asked.host, asked.origin, asked.site, asked.cookie, asked.token].into_iter().flatten();
        match () {
            () if !matches!(asked.method, "GET" | "HEAD") => Access::Refused(405, "This page is read-only."),
            () if too_long.max_by_key(|text| text.len()).is_some_and(|text| text.len() > LONGEST) => {
                Access::Refused(431, "A header of the request is too long.")
            }
            () if !asked.host.is_some_and(|host| self.is_own_host(host)) => {
                Access::Refused(421, "The host name is not the address of this program. Open the link that it printed.")
            }
            () if !is_own_origin(asked) => {
                Access::Refused(403, "Another page requested this one. Open the link that the program printed.")
            }
            () if asked.token.is_some_and(|token| self.link.is(token)) => Access::Enter(self.cookie()),
            () if asked.cookie.is_some_and(|cookie| self.has_session(cookie)) => Access::Allowed,
            () => Access::Refused(401, "Open the link that tillerman ui printed in the terminal."),
        }
    }

    /// The name of the cookie: two programs on different ports must not replace each other's.
    fn cookie_name(&self) -> String {
        format!("tillerman-{}", self.address.port())
    }

    fn cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name(), self.session.0)
    }

    fn has_session(&self, cookies: &str) -> bool {
        let name = self.cookie_name();
        let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(key, value)| key == name && self.session.is(value))
    }

    /// Whether a host is the address that the program listens on. An IP address cannot be an attacker's name.
    fn is_own_host(&self, host: &str) -> bool {
        if host.strip_prefix("localhost:").and_then(|port| port.parse().ok()) == Some(self.address.port()) {
            return self.address.ip().is_loopback() || self.address.ip().is_unspecified();
        }
        let Ok(named) = host.parse::<SocketAddr>() else { return false };
        let fits = |ip: IpAddr| ip == self.address.ip() || self.address.ip().is_unspecified();
        named.port() == self.address.port() && fits(named.ip())
    }
}

/// Whether a request comes from one of the program's own pages, or from the user.
fn is_own_origin(asked: &Asked<'_>) -> bool {
    let is_own = |origin: &str| origin.strip_prefix("http://") == asked.host;
    asked.origin.is_none_or(is_own) && asked.site.is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// The loopback address with the same port.
fn loopback(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::{Access, Asked, Door, LONGEST};

    fn door(address: &str) -> Door {
        Door::new(address.parse().unwrap()).unwrap()
    }

    fn token(door: &Door) -> String {
        door.link().split_once("token=").unwrap().1.to_owned()
    }

    fn status(access: &Access) -> u16 {
        match access {
            Access::Allowed => 200,
            Access::Enter(_) => 201,
            Access::Refused(status, _) => *status,
        }
    }

    #[test]
    fn a_request_is_answered_only_with_the_cookie_that_the_link_gave() {
        let door = door("127.0.0.1:4000");
        let token = token(&door);
        let first = door.decide(&Asked {
            method: "GET",
            host: Some("127.0.0.1:4000"),
            token: Some(&token),
            ..Asked::default()
        });
        let Access::Enter(set) = first else { panic!("{first:?}") };
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Path=/") && set.starts_with("tillerman-4000="), "{set}");
        assert!(!set.contains(&token), "the cookie is another secret than the token");
        let cookie = set.split(';').next().unwrap().to_owned();
        let others = format!("a=b; {cookie}; c=d");
        let wrong = format!("{cookie}x");
        let other_port = cookie.replace("4000", "4001");
        let empty = "tillerman-4000=";
        let long = "x".repeat(LONGEST + 1);
        let host = Some("127.0.0.1:4000");
        let good = Asked { method: "GET", host, cookie: Some(&cookie), ..Asked::default() };
        let table = [
            ("the cookie", 200, good),
            ("among other cookies", 200, Asked { cookie: Some(&others), ..good }),
            ("HEAD", 200, Asked { method: "HEAD", ..good }),
            ("localhost", 200, Asked { host: Some("localhost:4000"), ..good }),
            ("its own origin", 200, Asked { origin: Some("http://127.0.0.1:4000"), site: Some("same-origin"), ..good }),
            ("typed by the user", 200, Asked { site: Some("none"), ..good }),
            ("no cookie", 401, Asked { cookie: None, ..good }),
            ("a wrong cookie", 401, Asked { cookie: Some(&wrong), ..good }),
            ("an empty cookie", 401, Asked { cookie: Some(empty), ..good }),
            ("a cookie of another port", 401, Asked { cookie: Some(&other_port), ..good }),
            ("a wrong token", 401, Asked { cookie: None, token: Some("x"), ..good }),
            ("an empty token", 401, Asked { cookie: None, token: Some(""), ..good }),
            ("no host", 421, Asked { host: None, ..good }),
            ("a name that DNS gives", 421, Asked { host: Some("evil.example.com:4000"), ..good }),
            ("a name that begins well", 421, Asked { host: Some("127.0.0.1.evil.example.com:4000"), ..good }),
            ("another port", 421, Asked { host: Some("127.0.0.1:4001"), ..good }),
            ("no port", 421, Asked { host: Some("127.0.0.1"), ..good }),
            ("another address", 421, Asked { host: Some("10.0.0.1:4000"), ..good }),
            ("localhost with a user", 421, Asked { host: Some("a@localhost:4000"), ..good }),
            ("another origin", 403, Asked { origin: Some("http://evil.example.com"), ..good }),
            ("an origin that begins well", 403, Asked { origin: Some("http://127.0.0.1:40000"), ..good }),
            ("no origin that can be named", 403, Asked { origin: Some("null"), ..good }),
            ("an origin with TLS", 403, Asked { origin: Some("https://127.0.0.1:4000"), ..good }),
            ("a page of another site", 403, Asked { site: Some("cross-site"), ..good }),
            ("a page of another port", 403, Asked { site: Some("same-site"), ..good }),
            (
                "the token from a page of another site",
                403,
                Asked { site: Some("cross-site"), token: Some(&token), ..good },
            ),
            ("POST", 405, Asked { method: "POST", ..good }),
            ("DELETE", 405, Asked { method: "DELETE", ..good }),
            ("a method of nobody", 405, Asked { method: "get", ..good }),
            ("a long token", 431, Asked { token: Some(&long), ..good }),
            ("a long cookie", 431, Asked { cookie: Some(&long), ..good }),
        ];
        for (what, expected, asked) in table {
            assert_eq!(status(&door.decide(&asked)), expected, "{what}");
        }
    }

    #[test]
    fn an_address_for_others_is_reached_by_addresses_alone() {
        let (one, all) = (door("192.0.2.1:4000"), door("0.0.0.0:4000"));
        let ask = |door: &Door, host: &str| {
            status(&door.decide(&Asked { method: "GET", host: Some(host), ..Asked::default() }))
        };
        assert_eq!(
            (ask(&one, "192.0.2.1:4000"), ask(&one, "localhost:4000"), ask(&one, "192.0.2.2:4000")),
            (401, 421, 421)
        );
        assert_eq!(
            (ask(&all, "192.0.2.1:4000"), ask(&all, "[::1]:4000"), ask(&all, "localhost:4000")),
            (401, 401, 401)
        );
        assert_eq!(ask(&all, "evil.example.com:4000"), 421);
        assert!(all.link().starts_with("http://127.0.0.1:4000/?token="));
    }

    #[test]
    fn two_starts_have_different_secrets_that_are_not_printed() {
        let (a, b) = (door("127.0.0.1:1"), door("127.0.0.1:1"));
        assert_ne!(token(&a), token(&b));
        assert_eq!(token(&a).len(), 43);
        assert!(!format!("{a:?}").contains(&token(&a)));
    }
}
