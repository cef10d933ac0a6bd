//! Private keys: `genPrivateKey`, and reading, writing and signing with the keys that charts bring.

use super::inputs::{Random, string};
use super::pem::Block;
use crate::template::budget::{self, Spent};
use crate::template::function::{Context, FnResult};
use crate::template::value::Value;
use der::asn1::{Any, BitString, ObjectIdentifier, OctetString, OctetStringRef, Uint};
use der::{Decode, Encode, Reader, Sequence, SliceReader};
use dsa::{Components, KeySize};
use p256::ecdsa::signature::Signer;
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey};
use rsa::pkcs1v15;
use rsa::signature::{RandomizedSigner, SignatureEncoding};
use rsa::traits::PublicKeyParts;
use sha2::Sha256;
use std::sync::PoisonError;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");

/// Steps to charge for each bit of a new key.
const STEPS_A_BIT: usize = 1_000;

/// Go refuses to sign with smaller RSA keys.
const RSA_MIN_BITS: usize = 1024;

const USE_EC: &str = "x509: failed to parse private key (use ParseECPrivateKey instead for this key format)";
const USE_PKCS1: &str = "x509: failed to parse private key (use ParsePKCS1PrivateKey instead for this key format)";
const USE_PKCS8: &str = "x509: failed to parse private key (use ParsePKCS8PrivateKey instead for this key format)";

/// Why a private key cannot be made, read, written or used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Der(#[from] der::Error),
    #[error(transparent)]
    Pkcs1(#[from] rsa::pkcs1::Error),
    #[error(transparent)]
    Rsa(#[from] rsa::Error),
    #[error(transparent)]
    Signature(#[from] rsa::signature::Error),
    #[error(transparent)]
    Spent(#[from] Spent),
    /// The words of Go or sprig.
    #[error("{0}")]
    Other(String),
}

impl From<String> for KeyError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for KeyError {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// A private key of a type that sprig knows.
pub enum PrivateKey {
    /// RSA with two primes.
    Rsa(Box<rsa::RsaPrivateKey>),
    /// DSA, which can be written and read but signs no certificate.
    Dsa(Box<DsaKey>),
    /// ECDSA.
    Ec(Box<EcKey>),
    /// Ed25519.
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

/// An ECDSA key on one of the curves that Go knows (but P-224, which no chart is known to use).
pub enum EcKey {
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(p521::ecdsa::SigningKey),
}

/// OpenSSL's old form of a DSA key.
#[derive(Clone, Debug, Sequence)]
pub struct DsaKey {
    version: u8,
    p: Uint,
    q: Uint,
    g: Uint,
    y: Uint,
    x: Uint,
}

/// RFC 5915.
#[derive(Sequence)]
struct EcPrivateKey {
    version: u8,
    private_key: OctetString,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT", optional = "true")]
    curve: Option<ObjectIdentifier>,
    #[asn1(context_specific = "1", tag_mode = "EXPLICIT", optional = "true")]
    public_key: Option<BitString>,
}

/// PKCS 8 without attributes.
#[derive(Sequence)]
struct Pkcs8 {
    version: u8,
    algorithm: AlgorithmIdentifierOwned,
    private_key: OctetString,
}

#[expect(clippy::unnecessary_wraps, reason = "the type of a template function")]
pub fn gen_private_key(ctx: &Context, args: &[Value]) -> FnResult {
    let key = match string(args, 0) {
        b"" | b"rsa" => PrivateKey::rsa(ctx, 4096),
        b"dsa" => PrivateKey::dsa(ctx),
        b"ecdsa" => Ok(PrivateKey::p256(ctx)),
        b"ed25519" => Ok(PrivateKey::Ed25519(Box::new((&Random(ctx).bytes()).into()))),
        other => return Ok(Value::str([b"Unknown type ", other].concat())),
    };
    let text = key.and_then(|key| key.to_pem()).unwrap_or_else(|e| format!("failed to generate private key: {e}"));
    Ok(text.into())
}

fn new_rsa(ctx: &Context, bits: usize) -> rsa::Result<rsa::RsaPrivateKey> {
    rsa::RsaPrivateKey::new(&mut Random(ctx), bits)
}

impl PrivateKey {
    /// An RSA key, new unless the host keeps some; certificates have 2048 bits.
    pub fn rsa(ctx: &Context, bits: usize) -> Result<Self, KeyError> {
        budget::work_of(bits.saturating_mul(STEPS_A_BIT))?;
        let Some(kept) = ctx.host.kept_keys() else { return Ok(Self::Rsa(Box::new(new_rsa(ctx, bits)?))) };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = kept.get(&bits).and_then(|der| rsa::RsaPrivateKey::from_pkcs1_der(der).ok()) {
            return Ok(Self::Rsa(Box::new(key)));
        }
        let key = new_rsa(ctx, bits)?;
        kept.insert(bits, key.to_pkcs1_der()?.as_bytes().to_vec());
        Ok(Self::Rsa(Box::new(key)))
    }

    fn dsa(ctx: &Context) -> Result<Self, KeyError> {
        budget::work_of(STEPS_A_BIT * 2048)?;
        let mut random = Random(ctx);
        let Ok(components) = Components::try_generate_from_rng_with_key_size(&mut random, KeySize::DSA_2048_256);
        let Ok(key) = dsa::SigningKey::try_generate_from_rng_with_components(&mut random, components);
        let public = key.verifying_key();
        let components = public.components();
        Ok(Self::Dsa(Box::new(DsaKey {
            version: 0,
            p: Uint::new(&components.p().to_be_bytes())?,
            q: Uint::new(&components.q().to_be_bytes())?,
            g: Uint::new(&components.g().to_be_bytes())?,
            y: Uint::new(&public.y().to_be_bytes())?,
            x: Uint::new(&key.x().to_be_bytes())?,
        })))
    }

    fn p256(ctx: &Context) -> Self {
        loop {
            // Nearly every 32 bytes are a scalar of this curve.
            if let Ok(key) = p256::ecdsa::SigningKey::from_slice(&Random(ctx).bytes::<32>()) {
                return Self::Ec(Box::new(EcKey::P256(key)));
            }
        }
    }

    /// Reads the first PEM block of a text: PKCS 8, PKCS 1, RFC 5915 or OpenSSL's DSA, with sprig's messages.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let block = Block::decode(text).ok_or("no PEM data in input")?;
        let label = block.label.as_str();
        let der = block.bytes.as_slice();
        if label == "PRIVATE KEY" {
            return Self::from_pkcs8(der).map_err(|e| format!("decoding PEM as PKCS#8: {e}").into());
        }
        let Some(kind) = label.strip_suffix(" PRIVATE KEY") else {
            return Err(format!("no private key data in PEM block of type {label}").into());
        };
        let key = match kind {
            "RSA" => Self::from_pkcs1(der),
            "EC" => Self::from_ec(None, der),
            "DSA" => match DsaKey::from_der(der) {
                Ok(key) => Ok(Self::Dsa(Box::new(key))),
                Err(e) => Err(asn1(der, &e).into()),
            },
            _ => return Err(format!("invalid private key type {label}").into()),
        };
        key.map_err(|e| format!("parsing {kind} private key from PEM: {e}").into())
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        let (algorithm, key) = match pkcs8_parts(der) {
            Ok(parts) => parts,
            Err(_) if is_ec(der) => return Err(USE_EC.into()),
            Err(_) if is_pkcs1(der) => return Err(USE_PKCS1.into()),
            Err(e) => return Err(asn1(der, &e).into()),
        };
        match algorithm.oid {
            RSA => Self::from_pkcs1(key)
                .map_err(|e| format!("x509: failed to parse RSA private key embedded in PKCS#8: {e}").into()),
            EC => {
                let curve = algorithm.parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
                Self::from_ec(curve, key)
                    .map_err(|e| format!("x509: failed to parse EC private key embedded in PKCS#8: {e}").into())
            }
            ED25519 if algorithm.parameters.is_some() => Err("x509: invalid Ed25519 private key parameters".into()),
            ED25519 => {
                let seed = <&OctetStringRef>::from_der(key)
                    .map_err(|e| format!("x509: invalid Ed25519 private key: {}", asn1(key, &e)))?
                    .as_bytes();
                let seed: &[u8; 32] =
                    seed.try_into().map_err(|_| format!("x509: invalid Ed25519 private key length: {}", seed.len()))?;
                Ok(Self::Ed25519(Box::new(seed.into())))
            }
            other => Err(format!("x509: PKCS#8 wrapping contained private key with unknown algorithm: {other}").into()),
        }
    }

    fn from_pkcs1(der: &[u8]) -> Result<Self, KeyError> {
        if !is_pkcs1(der) {
            return Err(match () {
                () if is_ec(der) => USE_EC.into(),
                () if pkcs8_parts(der).is_ok() => USE_PKCS8.into(),
                () => match Any::from_der(der) {
                    Ok(_) => "asn1: structure error: tags don't match".into(),
                    Err(e) => asn1(der, &e).into(),
                },
            });
        }
        // The crate's own error says only that a number is wrong.
        let key = rsa::RsaPrivateKey::from_pkcs1_der(der).map_err(|_| "crypto/rsa: invalid private key")?;
        Ok(Self::Rsa(Box::new(key)))
    }

    fn from_ec(curve: Option<ObjectIdentifier>, der: &[u8]) -> Result<Self, KeyError> {
        let parts = match EcPrivateKey::from_der(der) {
            Ok(parts) => parts,
            Err(_) if pkcs8_parts(der).is_ok() => return Err(USE_PKCS8.into()),
            Err(_) if is_pkcs1(der) => return Err(USE_PKCS1.into()),
            Err(e) => return Err(format!("x509: failed to parse EC private key: {}", asn1(der, &e)).into()),
        };
        if parts.version != 1 {
            return Err(format!("x509: unknown EC private key version {}", parts.version).into());
        }
        let curve = curve.or(parts.curve);
        let size = match curve {
            Some(P256) => 32,
            Some(P384) => 48,
            Some(P521) => 66,
            _ => return Err("x509: unknown elliptic curve".into()),
        };
        // Go forgives zeros at the front, too many and too few: OpenSSL once left them out.
        let given = parts.private_key.as_bytes();
        let (excess, given) = given.split_at(given.len().saturating_sub(size));
        if excess.iter().any(|b| *b != 0) {
            return Err("x509: invalid private key length".into());
        }
        let mut scalar = vec![0; size];
        scalar[size - given.len()..].copy_from_slice(given);
        let key = match curve {
            Some(P256) => p256::ecdsa::SigningKey::from_slice(&scalar).map(EcKey::P256).ok(),
            Some(P384) => p384::ecdsa::SigningKey::from_slice(&scalar).map(EcKey::P384).ok(),
            _ => p521::ecdsa::SigningKey::from_slice(&scalar).map(EcKey::P521).ok(),
        };
        match key {
            Some(key) => Ok(Self::Ec(Box::new(key))),
            None if scalar.iter().all(|b| *b == 0) => Err("ecdsa: private key scalar is zero or negative".into()),
            None => Err("ecdsa: private key scalar too large".into()),
        }
    }

    /// The PEM text in the form sprig chooses for the type, whatever form the key was read from.
    pub fn to_pem(&self) -> Result<String, KeyError> {
        let (label, der) = match self {
            Self::Rsa(key) => {
                let der = key.to_pkcs1_der()?;
                ("RSA PRIVATE KEY", der.as_bytes().to_vec())
            }
            Self::Dsa(key) => ("DSA PRIVATE KEY", key.to_der()?),
            Self::Ec(key) => ("EC PRIVATE KEY", key.to_der()?),
            Self::Ed25519(key) => ("PRIVATE KEY", ed25519_der(key)?),
        };
        Ok(Block::new(label, der).encode())
    }

    /// The public half as certificates hold it.
    pub fn public(&self) -> Result<SubjectPublicKeyInfoOwned, KeyError> {
        let (oid, parameters, key) = match self {
            Self::Rsa(key) => {
                let public = RsaPublicKey { modulus: Uint::new(&key.n_bytes())?, exponent: Uint::new(&key.e_bytes())? };
                (RSA, Some(Any::null()), public.to_der()?)
            }
            Self::Dsa(_) => return Err("x509: unsupported public key type: *dsa.PublicKey".into()),
            Self::Ec(key) => {
                let curve = Any::encode_from(&key.curve())?;
                (EC, Some(curve), key.point())
            }
            Self::Ed25519(key) => (ED25519, None, key.verifying_key().to_bytes().to_vec()),
        };
        Ok(SubjectPublicKeyInfoOwned {
            algorithm: AlgorithmIdentifierOwned { oid, parameters },
            subject_public_key: BitString::from_bytes(&key)?,
        })
    }

    /// The algorithm that Go chooses for certificates signed by this key.
    pub fn signature_algorithm(&self) -> Result<AlgorithmIdentifierOwned, KeyError> {
        let (oid, parameters) = match self {
            Self::Rsa(_) => (RSA_SHA256, Some(Any::null())),
            Self::Dsa(_) => return Err("x509: certificate private key does not implement crypto.Signer".into()),
            Self::Ec(key) => (key.signature(), None),
            Self::Ed25519(_) => (ED25519, None),
        };
        Ok(AlgorithmIdentifierOwned { oid, parameters })
    }

    /// Signs a message with that algorithm.
    pub fn sign(&self, ctx: &Context, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        Ok(match self {
            Self::Rsa(key) => {
                let bits = key.size() * 8;
                if bits < RSA_MIN_BITS {
                    return Err(format!(
                        "crypto/rsa: {bits}-bit keys are insecure \
                         (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
                    )
                    .into());
                }
                let signer = pkcs1v15::SigningKey::<Sha256>::new(key.as_ref().clone());
                signer.try_sign_with_rng(&mut Random(ctx), message)?.to_vec()
            }
            Self::Dsa(_) => return Err("x509: only RSA, ECDSA and Ed25519 keys supported".into()),
            Self::Ec(key) => key.sign(message)?,
            Self::Ed25519(key) => key.try_sign(message)?.to_bytes().to_vec(),
        })
    }
}

impl EcKey {
    fn curve(&self) -> ObjectIdentifier {
        match self {
            Self::P256(_) => P256,
            Self::P384(_) => P384,
            Self::P521(_) => P521,
        }
    }

    fn signature(&self) -> ObjectIdentifier {
        match self {
            Self::P256(_) => ECDSA_SHA256,
            Self::P384(_) => ECDSA_SHA384,
            Self::P521(_) => ECDSA_SHA512,
        }
    }

    /// The public point, uncompressed.
    fn point(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
            Self::P384(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
            Self::P521(key) => key.verifying_key().to_sec1_point(false).as_bytes().to_vec(),
        }
    }

    fn to_der(&self) -> der::Result<Vec<u8>> {
        let scalar = match self {
            Self::P256(key) => key.to_bytes().to_vec(),
            Self::P384(key) => key.to_bytes().to_vec(),
            Self::P521(key) => key.to_bytes().to_vec(),
        };
        let key = EcPrivateKey {
            version: 1,
            private_key: OctetString::new(scalar)?,
            curve: Some(self.curve()),
            public_key: Some(BitString::from_bytes(&self.point())?),
        };
        key.to_der()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rsa::signature::Error> {
        Ok(match self {
            Self::P256(key) => Signer::<p256::ecdsa::DerSignature>::try_sign(key, message)?.as_bytes().to_vec(),
            Self::P384(key) => Signer::<p384::ecdsa::DerSignature>::try_sign(key, message)?.as_bytes().to_vec(),
            Self::P521(key) => Signer::<p521::ecdsa::DerSignature>::try_sign(key, message)?.as_bytes().to_vec(),
        })
    }
}

/// PKCS 1's public key.
#[derive(Sequence)]
struct RsaPublicKey {
    modulus: Uint,
    exponent: Uint,
}

fn ed25519_der(key: &ed25519_dalek::SigningKey) -> der::Result<Vec<u8>> {
    let seed = OctetString::new(key.to_bytes())?;
    let wrapped = Pkcs8 {
        version: 0,
        algorithm: AlgorithmIdentifierOwned { oid: ED25519, parameters: None },
        private_key: OctetString::new(seed.to_der()?)?,
    };
    wrapped.to_der()
}

/// The algorithm and the inner key of PKCS 8; like Go this ignores what follows them.
fn pkcs8_parts(der: &[u8]) -> der::Result<(AlgorithmIdentifierOwned, &[u8])> {
    let mut reader = SliceReader::new(der)?;
    reader.sequence(|reader| {
        u8::decode(reader)?;
        let algorithm = AlgorithmIdentifierOwned::decode(reader)?;
        let key = <&OctetStringRef>::decode(reader)?;
        reader.read_slice(reader.remaining_len())?;
        Ok((algorithm, key.as_bytes()))
    })
}

fn is_pkcs1(der: &[u8]) -> bool {
    rsa::pkcs1::RsaPrivateKeyRef::from_der(der).is_ok()
}

fn is_ec(der: &[u8]) -> bool {
    EcPrivateKey::from_der(der).is_ok()
}

/// About what Go's `encoding/asn1` says of malformed input.
fn asn1(der: &[u8], error: &der::Error) -> String {
    match error.kind() {
        _ if der.is_empty() => "asn1: syntax error: sequence truncated".into(),
        der::ErrorKind::TrailingData { .. } => "asn1: syntax error: trailing data".into(),
        der::ErrorKind::Incomplete { .. } => "asn1: syntax error: data truncated".into(),
        der::ErrorKind::TagUnexpected { .. } => "asn1: structure error: tags don't match".into(),
        kind => format!("asn1: structure error: {kind}"),
    }
}
