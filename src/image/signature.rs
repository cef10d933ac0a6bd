//! Signatures and statements as Sigstore bundles (version 0.3), which `cosign` 3 writes by default and verifies without a network if it is
//! given the public key. Rules: Sigstore's protobuf specifications (`sigstore_bundle.proto`), the DSSE protocol, in-toto Statement v1.
//!
//! The same key and bytes make the same signature (RFC 6979).

use super::{Blob, EMPTY, ImageError, MANIFEST, fail};
use data_encoding::{BASE64, HEXLOWER};
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey as EcdsaKey};
use p256::pkcs8::{DecodePrivateKey as _, EncodePublicKey as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The media type of a bundle.
pub const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The type of a statement that says no more than that the image is signed, as `cosign sign` writes it.
const SIGNED: &str = "https://sigstore.dev/cosign/sign/v1";
/// The type of a statement about how something was built.
const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A private key on the curve P-256.
pub struct SigningKey {
    key: EcdsaKey,
    /// By which a verifier finds the public key: the digest of its DER form.
    hint: String,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("hint", &self.hint).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads a key in PEM: `BEGIN PRIVATE KEY` (PKCS #8) or `BEGIN EC PRIVATE KEY` (SEC 1).
    ///
    /// # Errors
    /// If it is not such a key. The text shows nothing of it.
    pub fn from_pem(pem: &str) -> Result<Self, ImageError> {
        let read = SecretKey::from_pkcs8_pem(pem).ok().or_else(|| SecretKey::from_sec1_pem(pem).ok());
        let Some(secret) = read else {
            return fail(
                "it is not an unencrypted private key of the curve P-256 in PEM; \
                 `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem` makes one",
            );
        };
        let public = secret.public_key().to_public_key_der().map_err(|e| ImageError(e.to_string()))?;
        Ok(Self { hint: BASE64.encode(&Sha256::digest(public.as_bytes())), key: secret.into() })
    }

    fn sign(&self, data: &[u8]) -> String {
        let signature: DerSignature = self.key.sign(data);
        BASE64.encode(signature.as_bytes())
    }

    fn bundle(&self, content: (&str, Value)) -> Vec<u8> {
        let (name, content) = content;
        json!({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": self.hint}}, name: content})
            .to_string()
            .into_bytes()
    }

    /// The signature of a file, which `cosign verify-blob --bundle` accepts.
    pub fn file(&self, data: &[u8]) -> Vec<u8> {
        let digest = json!({"algorithm": "SHA2_256", "digest": BASE64.encode(&Sha256::digest(data))});
        self.bundle(("messageSignature", json!({"messageDigest": digest, "signature": self.sign(data)})))
    }

    /// How these files were built, which `cosign verify-blob-attestation --bundle` accepts for each of them. `files` are names and contents,
    /// `predicate` is that of SLSA's provenance.
    pub fn provenance<'a>(&self, files: impl Iterator<Item = (&'a str, &'a [u8])>, predicate: &Value) -> Vec<u8> {
        let subjects = files
            .map(|(name, data)| json!({"name": name, "digest": {"sha256": HEXLOWER.encode(&Sha256::digest(data))}}));
        self.statement(&subjects.collect(), PROVENANCE, predicate)
    }

    fn statement(&self, subjects: &Value, kind: &str, predicate: &Value) -> Vec<u8> {
        let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": kind,
            "predicate": predicate})
        .to_string();
        // DSSE signs this text: the lengths keep the parts apart.
        let signed = format!("DSSEv1 {} {IN_TOTO} {} {statement}", IN_TOTO.len(), statement.len());
        self.bundle((
            "dsseEnvelope",
            json!({"payload": BASE64.encode(statement.as_bytes()), "payloadType": IN_TOTO,
                "signatures": [{"sig": self.sign(signed.as_bytes())}]}),
        ))
    }

    /// Manifests that attach the signature of an image, and how it was built if that is known, to its manifest or index; each with the blobs
    /// that it consists of.
    pub fn attached(&self, image: &Blob, provenance: Option<&Value>) -> Vec<(Blob, Vec<Blob>)> {
        let subjects = json!([{"digest": {"sha256": image.hex()}}]);
        let none = json!({});
        let statements = std::iter::once((SIGNED, &none)).chain(provenance.map(|predicate| (PROVENANCE, predicate)));
        let attach = |(kind, predicate): (&str, &Value)| {
            let bundle = Blob::new(BUNDLE, self.statement(&subjects, kind, predicate));
            let empty = Blob::new(EMPTY, b"{}".to_vec());
            let manifest = json!({
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "artifactType": BUNDLE,
                "config": empty.descriptor(),
                "layers": [bundle.descriptor()],
                "subject": image.descriptor(),
                "annotations": {
                    "dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": kind,
                },
            });
            (Blob::json(MANIFEST, &manifest), vec![empty, bundle])
        };
        statements.map(attach).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Blob, MANIFEST, SigningKey};
    use serde_json::{Value, json};

    /// Of this test alone.
    const KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
-----END PRIVATE KEY-----
";

    #[test]
    fn a_signature_is_the_same_twice_and_names_its_key() {
        let key = SigningKey::from_pem(KEY).unwrap();
        let bundle = key.file(b"text");
        assert_eq!(bundle, key.file(b"text"));
        assert_ne!(bundle, key.file(b"texts"));
        let bundle: Value = serde_json::from_slice(&bundle).unwrap();
        assert_eq!(bundle["verificationMaterial"]["publicKey"]["hint"].as_str().map(str::len), Some(44));
        assert!(!format!("{key:?}").contains("EcdsaKey"));
    }

    #[test]
    fn what_is_attached_refers_to_the_image() {
        let key = SigningKey::from_pem(KEY).unwrap();
        let image = Blob::new(MANIFEST, b"{}".to_vec());
        assert_eq!(key.attached(&image, None).len(), 1);
        for (manifest, blobs) in key.attached(&image, Some(&json!({"buildDefinition": {}}))) {
            let manifest: Value = serde_json::from_slice(&manifest.data).unwrap();
            assert_eq!(manifest["subject"]["digest"], image.digest.as_str());
            assert_eq!(manifest["layers"][0]["digest"], blobs[1].digest.as_str());
        }
    }

    #[test]
    fn what_is_not_a_key_is_refused_without_showing_it() {
        for text in ["", "secret", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"] {
            let error = SigningKey::from_pem(text).unwrap_err().to_string();
            assert!(error.contains("P-256 in PEM") && !error.contains("c2VjcmV0"), "{error}");
        }
    }
}
