//! The functions that reach outside of a template, under the names that Helm's templates have for them, and `fail`.
//!
//! Certificates are maps of two PEM texts, `Cert` and `Key`, as in sprig; `lookup` returns a map, which is empty when there is no
//! such object; `now` counts seconds since 1970.

use crate::template::function::{Context, FnError, SharedHost};
use crate::template::functions::{self, json};
use crate::template::value::Value as Go;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minijinja::value::{Rest, Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The error of a template or of a function that it called. It is reported as it is. minijinja's own details may quote values.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(String);

impl TemplateError {
    fn error(message: impl Into<String>) -> Error {
        let message = message.into();
        Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Self(message))
    }

    /// The message of an error that has one of these inside.
    pub fn of(error: &Error) -> Option<String> {
        let sources = std::iter::successors(std::error::Error::source(error), |error| error.source());
        sources.filter_map(|error| error.downcast_ref::<Self>()).map(ToString::to_string).next()
    }
}

/// The functions that need no host.
pub fn add_pure(environment: &mut Environment<'_>) {
    environment.add_function("fail", |message: String| -> Result<Value, Error> { Err(TemplateError::error(message)) });
    environment.add_filter("b64decode", |text: String| {
        let decoded = BASE64.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.ok_or_else(|| TemplateError::error("b64decode: the text is not base64 of a text"))
    });
}

/// The functions that ask the host.
pub fn add(environment: &mut Environment<'_>, host: &SharedHost) {
    let shared = Arc::clone(host);
    environment.add_function("now", move || i64::try_from(shared.now() / 1_000_000_000).unwrap_or(i64::MAX));
    let shared = Arc::clone(host);
    environment.add_function("lookup", move |version: &str, kind: &str, namespace: &str, name: &str| {
        let found =
            shared.lookup(version, kind, namespace, name).map_err(|error| TemplateError::error(error.to_string()))?;
        let json =
            json::write(&found, json::Style::default()).map_err(|error| TemplateError::error(error.to_string()))?;
        let json: serde_json::Value =
            serde_json::from_slice(&json).map_err(|error| TemplateError::error(error.to_string()))?;
        Ok(Value::from(Serde(&json)))
    });
    let shared = Arc::clone(host);
    environment.add_function("genPrivateKey", move |kind: &str| {
        match call(&shared, "genPrivateKey", &[kind.into()])? {
            Go::Str(key) => Ok(key.text().into_owned()),
            _ => Err(TemplateError::error("genPrivateKey gave no key")),
        }
    });
    let shared = Arc::clone(host);
    environment.add_function("randAlphaNum", move |length: i64| {
        match call(&shared, "randAlphaNum", &[Go::int(length)])? {
            Go::Str(text) => Ok(text.text().into_owned()),
            _ => Err(TemplateError::error("randAlphaNum gave no text")),
        }
    });
    let shared = Arc::clone(host);
    environment.add_function("genCA", move |name: &str, days: i64| {
        certificate(call(&shared, "genCA", &[name.into(), Go::int(days)]))
    });
    let shared = Arc::clone(host);
    environment.add_function("genCAWithKey", move |name: &str, days: i64, key: &str| {
        certificate(call(&shared, "genCAWithKey", &[name.into(), Go::int(days), key.into()]))
    });
    let shared = Arc::clone(host);
    environment.add_function(
        "genSignedCert",
        move |name: &str, ips: Vec<String>, names: Vec<String>, days: i64, ca: Value| {
            let ca = authority(&shared, &ca)?;
            certificate(call(&shared, "genSignedCert", &[name.into(), texts(ips), texts(names), Go::int(days), ca]))
        },
    );
    let shared = Arc::clone(host);
    environment.add_function(
        "genSignedCertWithKey",
        move |name: &str, ips: Vec<String>, names: Vec<String>, days: i64, with: Rest<Value>| {
            // minijinja takes functions of five parameters.
            let [ca, key] = &with[..] else {
                return Err(TemplateError::error("genSignedCertWithKey takes an authority and a key at the end"));
            };
            let key = key.as_str().ok_or_else(|| TemplateError::error("the key is not a text"))?;
            let ca = authority(&shared, ca)?;
            let args = [name.into(), texts(ips), texts(names), Go::int(days), ca, key.into()];
            certificate(call(&shared, "genSignedCertWithKey", &args))
        },
    );
}

/// Calls a function of Go templates, with arguments of the types that it asks for.
fn call(host: &SharedHost, name: &str, args: &[Go]) -> Result<Go, Error> {
    let context = Context { host: Rc::new(Arc::clone(host)) };
    let function = functions::all().find(|function| function.name == name);
    let result = function.map_or_else(|| Err(FnError::from("there is no such function")), |f| (f.run)(&context, args));
    result.map_err(|error| TemplateError::error(format!("{name}: {error}")))
}

fn texts(texts: Vec<String>) -> Go {
    Go::list(texts.into_iter().map(Go::from).collect())
}

/// `Cert` and `Key` as the template's own map.
fn certificate(made: Result<Go, Error>) -> Result<Value, Error> {
    let Go::Object(made) = made? else { return Err(TemplateError::error("no certificate was made")) };
    let part = |name: &str| match made.field(name) {
        Some(Go::Str(text)) => text.text().into_owned(),
        _ => String::new(),
    };
    Ok(BTreeMap::from([("Cert", part("Cert")), ("Key", part("Key"))]).into())
}

/// A certificate of a template as one of sprig's.
fn authority(host: &SharedHost, ca: &Value) -> Result<Go, Error> {
    let part = |name: &str| {
        let value = ca.get_attr(name).ok().and_then(|value| value.as_str().map(|text| BASE64.encode(text)));
        value.map(Go::from).ok_or_else(|| TemplateError::error("the authority is not a certificate with Cert and Key"))
    };
    call(host, "buildCustomCert", &[part("Cert")?, part("Key")?])
}

#[cfg(test)]
mod tests {
    use crate::template::function::{FnResult, Host, SharedHost};
    use crate::template::jinja::{JinjaError, Templates};
    use crate::template::value::Value as Go;
    use serde_json::json;
    use std::sync::Arc;

    /// One Secret, and the year 2026.
    struct World;

    impl Host for World {
        fn random(&self, buffer: &mut [u8]) {
            buffer.fill(7);
        }
        fn now(&self) -> i128 {
            1_767_225_600_000_000_000
        }
        fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> FnResult {
            match (api_version, kind, namespace, name) {
                ("v1", "Secret", "ns", "kept") => Ok(Go::from(&json!({"data": {"password": "aHVudGVyMg=="}}))),
                ("v1", "Secret", "ns", "forbidden") => Err("secrets \"forbidden\" is forbidden".into()),
                _ => Ok(Go::map([])),
            }
        }
        fn resolve(&self, _: &str) -> String {
            String::new()
        }
    }

    fn render(text: &str) -> Result<String, JinjaError> {
        let templates = Templates::compile(1, &[("c/templates/a.yaml".to_owned(), text.into())])?;
        let host: SharedHost = Arc::new(World);
        let rendered = templates.render(&json!({"values": {}}), &host, &crate::template::budget::Limits::default())?;
        Ok(rendered.into_iter().next().map(|(_, text)| text).unwrap_or_default())
    }

    #[test]
    fn lookup_reads_an_object_or_gives_an_empty_map() {
        let text = "a: {{ lookup('v1', 'Secret', 'ns', 'kept').data.password | b64decode }}";
        assert_eq!(render(text).unwrap(), "a: \"hunter2\"");
        let text = "a: {{ lookup('v1', 'Secret', 'ns', 'none').data is defined }}";
        assert_eq!(render(text).unwrap(), "a: false");
        let message = render("x: 1\na: {{ lookup('v1', 'Secret', 'ns', 'forbidden') }}").unwrap_err().message;
        assert_eq!(message, "c/templates/a.yaml:2:7: secrets \"forbidden\" is forbidden");
    }

    #[test]
    fn fail_says_what_the_chart_says() {
        let message = render("{% macro m() %}{% set _ = fail('size is ' ~ 9) %}{% endmacro %}\na: {{ m() }}")
            .unwrap_err()
            .message;
        assert!(message.ends_with(": size is 9"), "{message}");
    }

    #[test]
    fn a_password_has_as_many_letters_and_digits_as_it_shall() {
        let password = render("{{ randAlphaNum(24) }}").unwrap();
        let password = password.trim_matches('"');
        assert!(password.len() == 24 && password.bytes().all(|b| b.is_ascii_alphanumeric()), "{password}");
        assert!(render("{{ randAlphaNum(90000000) }}").is_err());
    }

    #[test]
    fn now_is_in_seconds() {
        assert_eq!(render("a: {{ now() + 1 }}").unwrap(), "a: 1767225601");
    }

    #[test]
    fn what_is_no_text_in_base64_is_refused_without_being_quoted() {
        let message = render("a: {{ '/w==' | b64decode }}").unwrap_err().message;
        assert!(message.contains("is not base64 of a text") && !message.contains("/w=="), "{message}");
    }

    #[test]
    fn a_certificate_is_signed_by_the_authority_of_the_template() {
        let text = "{% set ca = genCAWithKey('ca', 10, genPrivateKey('ed25519')) %}\n\
                    {% set leaf = genSignedCertWithKey('me', ['10.0.0.1'], ['a.b'] + ['c.d'], 5, ca, genPrivateKey('ed25519')) %}\n\
                    ca: {{ ca }}\nleaf: {{ leaf }}";
        let read = crate::template::yaml::parse(render(text).unwrap().as_bytes()).unwrap();
        let part = |whose: &str, what: &str| read[whose][what].as_str().unwrap().to_owned();
        assert!(part("leaf", "Key").starts_with("-----BEGIN PRIVATE KEY-----"));
        let der = |pem: &str| {
            let body: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, body).unwrap()
        };
        let parse = |pem: &str| <x509_cert::Certificate as der::Decode>::from_der(&der(pem)).unwrap();
        let (ca, leaf) = (parse(&part("ca", "Cert")), parse(&part("leaf", "Cert")));
        assert_eq!(leaf.tbs_certificate().issuer(), ca.tbs_certificate().subject());
        assert_eq!(leaf.tbs_certificate().subject().to_string(), "CN=me");
        let raw = der(&part("leaf", "Cert"));
        assert!(raw.windows(3).any(|w| w == b"a.b") && raw.windows(3).any(|w| w == b"c.d"));
        assert!(render("a: {{ genSignedCert('me', [], [], 5, {'Cert': 'x', 'Key': 'y'}) }}").is_err());
    }
}
