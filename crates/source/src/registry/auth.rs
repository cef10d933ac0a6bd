//! Authentication of a client of a registry: basic authentication, or a token that another server gives.
//! (<https://distribution.github.io/distribution/spec/auth/>)

use super::refusal;
use crate::credentials::Credential;
use crate::http::{Client, Response, SMALL_LIMIT};
use crate::link::{origin, same_origin, shown};
use crate::{SourceError, fail};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The last accepted value of an `Authorization` header, by host.
#[derive(Default)]
pub struct Tokens(HashMap<String, String>);

/// The credentials that a server wants.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: String, scope: String },
    Unknown,
}

impl Tokens {
    /// Sends a request without a body. If the server asks for authentication, sends it again with credentials.
    pub fn send(
        &mut self,
        client: &Client,
        host: &str,
        (method, link): (&str, &str),
        accept: Option<&str>,
        limit: u64,
        credential: &dyn Fn() -> Result<Credential, SourceError>,
    ) -> Result<Response, SourceError> {
        let send = |authorization: Option<&str>| {
            let headers: Vec<(&str, &str)> = [("accept", accept), ("authorization", authorization)]
                .into_iter()
                .filter_map(|(name, value)| value.map(|v| (name, v)))
                .collect();
            client.send(method, link, &headers, limit)
        };
        self.send_with(client, host, (method, link), &send, credential)
    }

    /// The same for a request that `send` sends with the value of an `Authorization` header.
    pub fn send_with(
        &mut self,
        client: &Client,
        host: &str,
        (method, link): (&str, &str),
        send: &dyn Fn(Option<&str>) -> Result<Response, SourceError>,
        credential: &dyn Fn() -> Result<Credential, SourceError>,
    ) -> Result<Response, SourceError> {
        let answer = send(self.0.get(host).map(String::as_str))?;
        // A server that the registry redirects to does not receive credentials.
        if answer.status != 401 || !same_origin(link, &answer.link) {
            return Ok(answer);
        }
        let failed = |e: SourceError| SourceError(format!("{method} \"{}\": {e}", shown(link)));
        let authorization = match challenge(answer.header("www-authenticate")) {
            Challenge::Unknown => return Ok(answer),
            Challenge::Basic => {
                let credential =
                    credential().map_err(|e| failed(SourceError(format!("failed to resolve credential: {e}"))))?;
                if credential.is_empty() {
                    return Err(failed(SourceError("basic credential not found".into())));
                }
                credential
                    .login
                    .basic()
                    .ok_or_else(|| failed(SourceError("missing username or password for basic auth".into())))?
            }
            Challenge::Bearer { realm, service, scope } => {
                check_realm(&realm, link).map_err(failed)?;
                let credential = credential().map_err(failed)?;
                format!("Bearer {}", token(client, &realm, &service, &scope, &credential).map_err(failed)?)
            }
        };
        let answer = send(Some(&authorization))?;
        self.0.insert(host.to_owned(), authorization);
        Ok(answer)
    }
}

/// Reads a `WWW-Authenticate` header.
fn challenge(header: &str) -> Challenge {
    let (scheme, mut rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Challenge::Basic;
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Challenge::Unknown;
    }
    let (mut realm, mut service, mut scope) = (String::new(), String::new(), String::new());
    while let Some((key, value)) = rest.split_once('=') {
        let (value, after) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_once(',').unwrap_or((value, "")),
        };
        match key.trim_matches([' ', ',', '\t']) {
            "realm" => value.clone_into(&mut realm),
            "service" => value.clone_into(&mut service),
            "scope" => value.clone_into(&mut scope),
            _ => {}
        }
        rest = after;
    }
    Challenge::Bearer { realm, service, scope }
}

/// A server of tokens gets the user's password: it must be as safe as the registry, and no address of the inner network
/// unless the registry is at the same one (oras-go's rule).
fn check_realm(realm: &str, registry: &str) -> Result<(), SourceError> {
    let Some(at) = origin(realm) else { return fail(format!("failed to parse bearer realm {:?}", shown(realm))) };
    let registry = origin(registry);
    match at.scheme.as_str() {
        "http" if registry.as_ref().is_some_and(|r| r.scheme == "https") => {
            return fail(format!("bearer realm {:?} uses http but registry was contacted over https", shown(realm)));
        }
        "http" | "https" => {}
        other => return fail(format!("bearer realm {:?} uses unsupported scheme {other:?}", shown(realm))),
    }
    let host = bare(&at.host);
    let inner = match host.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local() || ip.is_private() || ip.is_unspecified(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unicast_link_local() || ip.is_unique_local()
        }
        // Resolvers read 2130706433, 0x7f.1 and 127.1 as addresses, too. No name of a host ends with a number.
        Err(_) => is_number(host.trim_end_matches('.').rsplit('.').next().unwrap_or_default()),
    };
    if inner && registry.is_none_or(|r| bare(&r.host) != host) {
        return fail(format!("bearer realm host {host:?} is a loopback, link-local, private, or unspecified address"));
    }
    Ok(())
}

/// Whether a resolver reads the text as a number: of decimal digits, or of hexadecimal ones after `0x`.
fn is_number(text: &str) -> bool {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    !text.is_empty() && digits.chars().all(|c| c.is_digit(radix))
}

/// A host without its port and brackets.
fn bare(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn token(
    client: &Client,
    realm: &str,
    service: &str,
    scope: &str,
    credential: &Credential,
) -> Result<String, SourceError> {
    if !credential.access_token.is_empty() {
        return Ok(credential.access_token.clone());
    }
    let mut fields = Vec::new();
    if !service.is_empty() {
        fields.push(("service", service));
    }
    let (method, answer) = if credential.refresh_token.is_empty() {
        fields.extend(scope.split(' ').filter(|s| !s.is_empty()).map(|s| ("scope", s)));
        let separator = if realm.contains('?') { '&' } else { '?' };
        let link = format!("{realm}{separator}{}", form(&fields));
        let authorization = credential.login.basic();
        let headers: Vec<(&str, &str)> = authorization.iter().map(|a| ("authorization", a.as_str())).collect();
        ("GET", client.send("GET", &link, &headers, SMALL_LIMIT)?)
    } else {
        fields.extend([
            ("grant_type", "refresh_token"),
            ("refresh_token", credential.refresh_token.as_str()),
            ("client_id", "tillerman"),
        ]);
        if !scope.is_empty() {
            fields.push(("scope", scope));
        }
        ("POST", client.post_form(realm, &form(&fields), SMALL_LIMIT)?)
    };
    if answer.status != 200 {
        return Err(refusal(method, &answer));
    }
    let body: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| SourceError(format!("{method} \"{}\": failed to decode response", shown(&answer.link))))?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
    match text("access_token").or_else(|| text("token")) {
        Some(token) => Ok(token.to_owned()),
        None => fail(format!("{method} \"{}\": empty token returned", shown(&answer.link))),
    }
}

/// Fields as `application/x-www-form-urlencoded`, sorted as Go's are.
fn form(fields: &[(&str, &str)]) -> String {
    let mut fields = fields.to_vec();
    fields.sort_by_key(|(key, _)| *key);
    let escaped = |text: &str| {
        let mut out = String::new();
        for b in text.bytes() {
            if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
                out.push(char::from(b));
            } else {
                let _ = write!(out, "%{b:02X}");
            }
        }
        out
    };
    fields.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_with_and_without_quotes() {
        let bearer = |realm: &str, service: &str, scope: &str| Challenge::Bearer {
            realm: realm.into(),
            service: service.into(),
            scope: scope.into(),
        };
        let table = [
            ("Basic realm=\"x\"", Challenge::Basic),
            (
                "bearer realm=\"https://a.b/t\",service=\"s\",scope=\"repository:x:pull,push\"",
                bearer("https://a.b/t", "s", "repository:x:pull,push"),
            ),
            ("Bearer realm=https://a.b/t, service=s", bearer("https://a.b/t", "s", "")),
            ("Negotiate", Challenge::Unknown),
            ("", Challenge::Unknown),
        ];
        for (header, expected) in table {
            assert_eq!(challenge(header), expected, "{header}");
        }
        assert_eq!(
            form(&[("scope", "repository:x:pull,push"), ("a", "b c")]),
            "a=b%20c&scope=repository%3Ax%3Apull%2Cpush"
        );
    }

    #[test]
    fn a_password_goes_to_no_server_that_is_less_safe_than_the_registry() {
        let ok = |realm: &str, registry: &str| check_realm(realm, registry).is_ok();
        assert!(ok("https://auth.docker.io/token", "https://registry-1.docker.io/v2/"));
        assert!(ok("http://127.0.0.1:5001/token", "http://127.0.0.1:5000/v2/"));
        assert!(!ok("http://a.b/token", "https://a.b/v2/"));
        assert!(!ok("https://169.254.169.254/token", "https://a.b/v2/"));
        assert!(!ok("https://[::1]/token", "https://a.b/v2/"));
        for host in ["[::ffff:127.0.0.3]", "2130706434", "0x7f.2", "127.2", "127.0.0.1."] {
            assert!(!ok(&format!("https://{host}:5999/token"), "https://a.b/v2/"), "{host}");
        }
        assert!(ok("https://7.a.b/token", "https://a.b/v2/"));
        assert!(!ok("file:///etc/passwd", "https://a.b/v2/"));
    }
}
