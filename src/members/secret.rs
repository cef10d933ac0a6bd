//! Secrets with the credentials for calls to members. Their content does not appear in any text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

/// Certificates and keys as PEM texts.
#[derive(Clone)]
pub struct Tls {
    /// The authority that signed the members' certificates.
    pub ca: Vec<u8>,
    /// Our own certificate and its key, if members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A Secret's data.
#[derive(Clone)]
pub struct Secret {
    name: String,
    data: Map<String, Value>,
}

impl Secret {
    /// Reads the data of the object. A Secret without data has no keys.
    pub fn new(name: &str, object: &Value) -> Self {
        Self { name: name.to_owned(), data: object.get("data").and_then(Value::as_object).cloned().unwrap_or_default() }
    }

    fn bytes(&self, key: &str) -> Result<Vec<u8>, String> {
        let text = self.data.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| format!("Secret {} has no key {key}", self.name))?;
        BASE64.decode(text).map_err(|_| format!("key {key} of Secret {} is not base64", self.name))
    }

    /// The text of a key. The error says what is wrong with it.
    pub fn text(&self, key: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(key)?).map_err(|_| format!("key {key} of Secret {} is not a text", self.name))
    }

    fn pem(&self, key: &str) -> Result<Vec<u8>, String> {
        let bytes = self.bytes(key)?;
        let is_pem = bytes.windows(11).any(|part| part == b"-----BEGIN ");
        if is_pem { Ok(bytes) } else { Err(format!("key {key} of Secret {} is not PEM", self.name)) }
    }

    /// The certificates, by the keys of Secrets of type `kubernetes.io/tls`, or by those that coreos' etcd-operator
    /// asks for. The error says which one is missing or wrong.
    pub fn tls(&self) -> Result<Tls, String> {
        const COREOS: [&str; 3] = ["etcd-client-ca.crt", "etcd-client.crt", "etcd-client.key"];
        let has = |key: &str| self.data.contains_key(key);
        let [ca, certificate, key] = if has(COREOS[0]) { COREOS } else { ["ca.crt", "tls.crt", "tls.key"] };
        let authority = self.pem(ca)?;
        let identity = if has(certificate) || has(key) { Some((self.pem(certificate)?, self.pem(key)?)) } else { None };
        Ok(Tls { ca: authority, identity })
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use serde_json::{Map, Value};

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let entry = |(key, text): &(&str, &str)| ((*key).to_owned(), Value::from(BASE64.encode(text)));
        Secret { name: "s".to_owned(), data: entries.iter().map(entry).collect::<Map<_, _>>() }
    }

    #[test]
    fn certificates_have_the_names_of_kubernetes_or_of_coreos() {
        let [a, b, c] = ["-----BEGIN A", "-----BEGIN B", "-----BEGIN C"];
        let kubernetes = secret(&[("ca.crt", a), ("tls.crt", b), ("tls.key", c)]).tls().unwrap();
        let coreos = [("etcd-client-ca.crt", a), ("etcd-client.crt", b), ("etcd-client.key", c)];
        let coreos = secret(&coreos).tls().unwrap();
        for tls in [kubernetes, coreos] {
            assert_eq!((tls.ca, tls.identity), (a.into(), Some((b.into(), c.into()))));
        }
        assert_eq!(secret(&[("ca.crt", a)]).tls().unwrap().identity, None);
        let error = |entries: &[(&str, &str)]| secret(entries).tls().err().unwrap();
        assert_eq!(error(&[("etcd-client-ca.crt", a), ("etcd-client.crt", b)]), "Secret s has no key etcd-client.key");
        assert_eq!(error(&[("tls.crt", b)]), "Secret s has no key ca.crt");
        assert_eq!(error(&[("ca.crt", "hidden")]), "key ca.crt of Secret s is not PEM");
    }
}
