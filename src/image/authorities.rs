//! The certificates of the authorities that an image trusts: Mozilla's list, which does not depend on the machine, and the user's own.

use super::{ImageError, fail};
use std::collections::BTreeSet;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Mozilla's list and what lies in `own` files, as PEM, each certificate once.
///
/// # Errors
/// If a file has no certificate, something that is none, or a private key, which must not get into an image.
pub fn pem(own: &[(String, Vec<u8>)]) -> Result<String, ImageError> {
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        if seen.insert(certificate.to_vec()) {
            add(&mut text, certificate);
        }
    }
    for (name, data) in own {
        for certificate in read(name, data)? {
            if !seen.contains(&certificate) {
                add(&mut text, &certificate);
                seen.insert(certificate);
            }
        }
    }
    Ok(text)
}

fn add(text: &mut String, der: &[u8]) {
    text.push_str("-----BEGIN CERTIFICATE-----\n");
    for line in data_encoding::BASE64.encode(der).as_bytes().chunks(64) {
        text.extend(line.iter().copied().map(char::from));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
}

/// The certificates of a file in PEM.
fn read(name: &str, data: &[u8]) -> Result<Vec<Vec<u8>>, ImageError> {
    let text = String::from_utf8_lossy(data);
    let mut found = Vec::new();
    for block in text.split(BEGIN).skip(1) {
        let (label, rest) = block.split_once("-----").unwrap_or_default();
        if label.contains("PRIVATE KEY") {
            return fail(format!(
                "{name} has a private key, which every user of the image could read; give certificates only"
            ));
        }
        if !matches!(label, "CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE") {
            continue;
        }
        let body: String = rest.split(END).next().unwrap_or_default().split_whitespace().collect();
        let der = data_encoding::BASE64.decode(body.as_bytes()).ok();
        let der = der.filter(|der| <x509_cert::Certificate as der::Decode>::from_der(der).is_ok());
        let Some(der) = der else {
            return fail(format!("{name}: its certificate number {} cannot be read", found.len() + 1));
        };
        found.push(der);
    }
    if found.is_empty() { fail(format!("{name} has no certificate in PEM")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::pem;

    #[test]
    fn the_list_is_the_same_each_time_and_has_the_known_authorities() {
        let text = pem(&[]).unwrap();
        assert!(text.matches("BEGIN CERTIFICATE").count() > 100);
        assert!(text.len() < 400_000, "{}", text.len());
        // A list behind itself adds nothing.
        assert_eq!(pem(&[("x".into(), text.clone().into_bytes())]).unwrap(), text);
    }

    #[test]
    fn a_file_without_certificates_or_with_a_key_is_refused() {
        let message = |text: &str| pem(&[("x.pem".into(), text.into())]).unwrap_err().0;
        assert_eq!(message("hello"), "x.pem has no certificate in PEM");
        assert_eq!(
            message("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "x.pem: its certificate number 1 cannot be read"
        );
        let key = message("-----BEGIN EC PRIVATE KEY-----\nc2VjcmV0\n-----END EC PRIVATE KEY-----\n");
        assert!(key.contains("private key") && !key.contains("c2VjcmV0"), "{key}");
    }
}
