//! X.509 certificates, field for field as Go's `x509.CreateCertificate` writes them for sprig.

use super::super::encoding;
use super::super::layout::date_of;
use super::inputs::{Random, integer, items, string};
use super::key::{KeyError, PrivateKey};
use super::pem::Block;
use crate::template::budget;
use crate::template::function::{Context, FnError, FnResult};
use crate::template::go::fmt::sprint;
use crate::template::value::{Kind, Object, Str, Value};
use der::asn1::{Any, BitString, ObjectIdentifier, OctetString, OctetStringRef, SetOfVec, Uint};
use der::{Decode, Encode, Sequence, Tag, ValueOrd};
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::rc::Rc;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::ext::Extension;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

/// sprig does not ask for more; Go's minimum is 1024.
const RSA_BITS: usize = 2048;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const SUBJECT_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.14");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const AUTHORITY_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.35");
const EXT_KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// Digital signature and key encipherment: bits 0 and 2 of a bit string of three.
const LEAF_USAGE: &[u8] = &[0x03, 0x02, 0x05, 0xa0];
/// The same and certificate signing: bits 0, 2 and 5 of a bit string of six.
const CA_USAGE: &[u8] = &[0x03, 0x02, 0x02, 0xa4];
/// Basic constraints without and with `cA TRUE`, which is not the default.
const LEAF_CONSTRAINTS: &[u8] = &[0x30, 0x00];
const CA_CONSTRAINTS: &[u8] = &[0x30, 0x03, 0x01, 0x01, 0xff];

/// Why a certificate cannot be made; the words are Go's.
#[derive(Debug, thiserror::Error)]
enum CertificateError {
    #[error("asn1: structure error: {0}")]
    Malformed(#[from] der::Error),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0}")]
    Other(String),
}

impl From<String> for CertificateError {
    fn from(text: String) -> Self {
        Self::Other(text)
    }
}

impl From<&str> for CertificateError {
    fn from(text: &str) -> Self {
        Self::Other(text.into())
    }
}

/// A certificate and its key as PEM texts; `.Cert` and `.Key` in templates.
#[derive(Clone, Debug)]
pub struct Certificate {
    cert: Str,
    key: Str,
}

impl Object for Certificate {
    fn type_name(&self) -> &'static str {
        super::CERTIFICATE_TYPE
    }
    fn kind(&self) -> Kind {
        Kind::Struct
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(self.cert.clone().into()),
            "Key" => Some(self.key.clone().into()),
            _ => None,
        }
    }
    fn fields(&self) -> Vec<Str> {
        vec!["Cert".into(), "Key".into()]
    }
    fn json(&self) -> Value {
        Value::map([("Cert".into(), self.cert.clone().into()), ("Key".into(), self.key.clone().into())])
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl From<Certificate> for Value {
    fn from(certificate: Certificate) -> Self {
        Self::Object(Rc::new(certificate))
    }
}

/// `buildCustomCert`: checks that two base64 texts hold a certificate and a key, which need not belong together.
pub fn build_custom_cert(_: &Context, args: &[Value]) -> FnResult {
    let cert = encoding::decode(string(args, 0)).map_err(|_| "unable to decode base64 certificate")?;
    let key = encoding::decode(string(args, 1)).map_err(|_| "unable to decode base64 private key")?;
    parse(&cert, "decodedCert")?;
    PrivateKey::from_pem(&key).map_err(|e| format!("error parsing private key: {e}"))?;
    Ok(Certificate { cert: cert.into(), key: key.into() }.into())
}

/// `genCA cn days` and `genCAWithKey cn days key`.
pub fn gen_ca(ctx: &Context, args: &[Value]) -> FnResult {
    let key = own_key(ctx, args.get(2))?;
    let request = Request::new(ctx, string(args, 0), &[], &[], integer(args, 1), true)?;
    request.certificate(ctx, &key, None)
}

/// `genSelfSignedCert cn ips names days` and `genSelfSignedCertWithKey cn ips names days key`.
pub fn gen_self_signed(ctx: &Context, args: &[Value]) -> FnResult {
    let key = own_key(ctx, args.get(4))?;
    Request::leaf(ctx, args)?.certificate(ctx, &key, None)
}

/// `genSignedCert cn ips names days ca` and `genSignedCertWithKey cn ips names days ca key`.
pub fn gen_signed(ctx: &Context, args: &[Value]) -> FnResult {
    let key = own_key(ctx, args.get(5))?;
    let ca = match args.get(4) {
        Some(Value::Object(ca)) => ca.as_any().downcast_ref::<Certificate>(),
        _ => None,
    };
    let ca = ca.ok_or("the authority is not a certificate")?;
    let parent = Parent::new(ca)?;
    Request::leaf(ctx, args)?.certificate(ctx, &key, Some(&parent))
}

/// Steps to charge for a signature with a given key.
const SIGNING_STEPS: u64 = 100_000;

/// The key that the template gives, or a new one. sprig checks it before anything else.
fn own_key(ctx: &Context, pem: Option<&Value>) -> Result<PrivateKey, FnError> {
    budget::work(SIGNING_STEPS)?;
    Ok(match pem {
        Some(Value::Str(pem)) => PrivateKey::from_pem(pem.bytes()).map_err(|e| format!("parsing private key: {e}"))?,
        _ => PrivateKey::rsa(ctx, RSA_BITS).map_err(|e| format!("error generating rsa key: {e}"))?,
    })
}

/// Reads a certificate's first PEM block. `what` is sprig's name of the variable, which its message contains.
fn parse(pem: &[u8], what: &str) -> Result<CertificateInner<Raw>, FnError> {
    let block = Block::decode(pem).ok_or("unable to decode certificate")?;
    CertificateInner::from_der(&block.bytes)
        .map_err(|_| format!("error parsing certificate: {what}.Bytes: x509: malformed certificate").into())
}

/// The certificate authority of a signed certificate.
struct Parent {
    /// The encoded subject, which becomes the issuer byte for byte.
    subject: Vec<u8>,
    public: SubjectPublicKeyInfoOwned,
    key_id: Option<Vec<u8>>,
    key: PrivateKey,
}

impl Parent {
    fn new(ca: &Certificate) -> Result<Self, FnError> {
        let parsed = parse(ca.cert.bytes(), "decodedSignerCert")?;
        let key = PrivateKey::from_pem(ca.key.bytes()).map_err(|e| format!("error parsing private key: {e}"))?;
        let parsed = parsed.tbs_certificate();
        let extensions = parsed.extensions().map(Vec::as_slice).unwrap_or_default();
        let key_id = extensions.iter().find(|e| e.extn_id == SUBJECT_KEY_ID);
        let key_id = key_id.and_then(|e| <&OctetStringRef>::from_der(e.extn_value.as_bytes()).ok());
        Ok(Self {
            subject: parsed.subject().to_der().map_err(|e| format!("error parsing certificate: {e}"))?,
            public: parsed.subject_public_key_info().clone(),
            key_id: key_id.map(|id| id.as_bytes().to_vec()),
            key,
        })
    }
}

/// The contents of a certificate: sprig's `x509.Certificate` template.
struct Request {
    cn: Str,
    ips: Vec<IpAddr>,
    names: Vec<Str>,
    serial: [u8; 16],
    not_before: i128,
    not_after: i128,
    is_ca: bool,
}

impl Request {
    /// From the arguments that all functions but `genCA` have in common.
    fn leaf(ctx: &Context, args: &[Value]) -> Result<Self, FnError> {
        Self::new(ctx, string(args, 0), items(args, 1), items(args, 2), integer(args, 3), false)
    }

    fn new(ctx: &Context, cn: &[u8], ips: &[Value], names: &[Value], days: i64, is_ca: bool) -> Result<Self, FnError> {
        let ips = ips.iter().map(ip).collect::<Result<_, _>>()?;
        let names = names.iter().map(dns_name).collect::<Result<_, _>>()?;
        let now = ctx.host.now();
        // Go's `time.Duration` is an `int64` and wraps.
        let validity = days.wrapping_mul(24 * 60 * 60 * 1_000_000_000);
        Ok(Self {
            cn: cn.into(),
            ips,
            names,
            serial: Random(ctx).bytes(),
            not_before: now,
            not_after: now.saturating_add(validity.into()),
            is_ca,
        })
    }

    /// Signs for a key, by itself when there is no parent.
    fn certificate(&self, ctx: &Context, key: &PrivateKey, parent: Option<&Parent>) -> FnResult {
        let der = self.create(ctx, key, parent).map_err(|e| format!("error creating certificate: {e}"))?;
        let key = key.to_pem().map_err(|e| format!("error pem-encoding key: {e}"))?;
        Ok(Certificate { cert: Block::new("CERTIFICATE", der).encode().into(), key: key.into() }.into())
    }

    /// The order of the checks is that of Go's `CreateCertificate`, so that the first error is the same.
    fn create(&self, ctx: &Context, key: &PrivateKey, parent: Option<&Parent>) -> Result<Vec<u8>, CertificateError> {
        let signer = parent.map_or(key, |parent| &parent.key);
        let algorithm = signer.signature_algorithm()?;
        let public = key.public()?;
        let subject = self.subject()?;
        if let Some(parent) = parent {
            let same = signer.public()?;
            if same.subject_public_key != parent.public.subject_public_key
                || same.algorithm.oid != parent.public.algorithm.oid
            {
                return Err("x509: provided PrivateKey doesn't match parent's PublicKey".into());
            }
        }
        let issuer = parent.map_or(&subject, |parent| &parent.subject);
        // A certificate with its issuer's name passes for a self-signed one.
        let authority = parent.filter(|_| *issuer != subject).and_then(|parent| parent.key_id.as_deref());
        let tbs = TbsCertificate {
            version: 2,
            serial: Uint::new(&self.serial)?,
            signature: algorithm.clone(),
            issuer: Any::from_der(issuer)?,
            validity: Validity { not_before: time(self.not_before)?, not_after: time(self.not_after)? },
            extensions: self.extensions(&public, authority, subject == LEAF_CONSTRAINTS)?,
            subject: Any::from_der(&subject)?,
            public,
        };
        let signature = signer.sign(ctx, &tbs.to_der()?)?;
        let signature = BitString::from_bytes(&signature)?;
        Ok(SignedCertificate { tbs, algorithm, signature }.to_der()?)
    }

    /// The encoded name: one common name, or nothing when it is empty.
    fn subject(&self) -> Result<Vec<u8>, CertificateError> {
        let cn = self.cn.bytes();
        if cn.is_empty() {
            return Ok(Vec::<Any>::new().to_der()?);
        }
        let tag = match cn {
            _ if cn.iter().copied().all(is_printable) => Tag::PrintableString,
            _ if std::str::from_utf8(cn).is_ok() => Tag::Utf8String,
            _ => return Err("asn1: string not valid UTF-8".into()),
        };
        let attribute = Attribute { oid: COMMON_NAME, value: Any::new(tag, cn)? };
        Ok(vec![SetOfVec::try_from(vec![attribute])?].to_der()?)
    }

    fn extensions(
        &self,
        public: &SubjectPublicKeyInfoOwned,
        authority: Option<&[u8]>,
        nameless: bool,
    ) -> Result<Vec<Extension>, CertificateError> {
        let (usage, constraints) = if self.is_ca { (CA_USAGE, CA_CONSTRAINTS) } else { (LEAF_USAGE, LEAF_CONSTRAINTS) };
        let mut extensions = vec![
            extension(KEY_USAGE, true, usage)?,
            extension(EXT_KEY_USAGE, false, &vec![SERVER_AUTH, CLIENT_AUTH].to_der()?)?,
            extension(BASIC_CONSTRAINTS, true, constraints)?,
        ];
        if self.is_ca {
            // RFC 7093, method 1, which Go took up with 1.25.
            let hash = Sha256::digest(public.subject_public_key.raw_bytes());
            let id = OctetString::new(&hash[..20]).and_then(|id| id.to_der())?;
            extensions.push(extension(SUBJECT_KEY_ID, false, &id)?);
        }
        if let Some(id) = authority.filter(|id| !id.is_empty()) {
            let id = vec![context_specific(0, id)?].to_der()?;
            extensions.push(extension(AUTHORITY_KEY_ID, false, &id)?);
        }
        if !self.names.is_empty() || !self.ips.is_empty() {
            extensions.push(extension(SUBJECT_ALT_NAME, nameless, &self.alternative_names()?)?);
        }
        Ok(extensions)
    }

    /// DNS names first, then addresses. An IPv4 address in IPv6 form is an IPv4 address.
    fn alternative_names(&self) -> Result<Vec<u8>, CertificateError> {
        let mut names = Vec::new();
        for name in &self.names {
            if !name.bytes().is_ascii() {
                return Err(format!("x509: {} cannot be encoded as an IA5String", quoted(name)).into());
            }
            names.push(context_specific(2, name.bytes())?);
        }
        for ip in &self.ips {
            names.push(match ip.to_canonical() {
                IpAddr::V4(ip) => context_specific(7, &ip.octets())?,
                IpAddr::V6(ip) => context_specific(7, &ip.octets())?,
            });
        }
        Ok(names.to_der()?)
    }
}

/// RFC 5280's signed certificate, with the parts that sprig uses.
#[derive(Sequence)]
struct SignedCertificate {
    tbs: TbsCertificate,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

#[derive(Sequence)]
struct TbsCertificate {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: Uint,
    signature: AlgorithmIdentifierOwned,
    issuer: Any,
    validity: Validity,
    subject: Any,
    public: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct Validity {
    not_before: Any,
    not_after: Any,
}

#[derive(Clone, Debug, PartialEq, Eq, Sequence, ValueOrd)]
struct Attribute {
    oid: ObjectIdentifier,
    value: Any,
}

fn extension(id: ObjectIdentifier, critical: bool, value: &[u8]) -> der::Result<Extension> {
    Ok(Extension { extn_id: id, critical, extn_value: OctetString::new(value)? })
}

/// A value under an implicit tag.
fn context_specific(number: u32, value: &[u8]) -> der::Result<Any> {
    let tag = Tag::ContextSpecific { constructed: false, number: der::TagNumber(number) };
    Any::new(tag, value)
}

/// ASN.1's `PrintableString`, without the `*` and `&` that Go reads but does not write.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'\'' | b'(' | b')' | b'+'..=b'/' | b' ' | b':' | b'=' | b'?')
}

/// A time as Go encodes it: with two digits of the year from 1950 to 2049, else with four.
fn time(nanoseconds: i128) -> Result<Any, CertificateError> {
    const UNENCODABLE: &str = "asn1: structure error: cannot represent time as GeneralizedTime";
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).map_err(|_| UNENCODABLE)?;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(days);
    let rest = format!("{month:02}{day:02}{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
    let (tag, text) = match year {
        1950..=2049 => (Tag::UtcTime, format!("{:02}{rest}", year % 100)),
        0..=9999 => (Tag::GeneralizedTime, format!("{year:04}{rest}")),
        _ => return Err(UNENCODABLE.into()),
    };
    Ok(Any::new(tag, text.into_bytes())?)
}

fn ip(value: &Value) -> Result<IpAddr, FnError> {
    let Value::Str(text) = value else {
        return Err(format!("error parsing ip: {} is not a string", printed(value)?).into());
    };
    text.text().parse().map_err(|_| format!("error parsing ip: {}", text.text()).into())
}

fn dns_name(value: &Value) -> Result<Str, FnError> {
    match value {
        Value::Str(name) => Ok(name.clone()),
        other => Err(format!("error processing alternate dns name: {} is not a string", printed(other)?).into()),
    }
}

/// Go's `%v`.
fn printed(value: &Value) -> Result<String, FnError> {
    Ok(String::from_utf8_lossy(&sprint(std::slice::from_ref(value))?).into_owned())
}

/// Go's `%q`.
fn quoted(text: &Str) -> String {
    match crate::template::go::fmt::sprintf(b"%q", &[Value::Str(text.clone())]) {
        Ok(quoted) => String::from_utf8_lossy(&quoted).into_owned(),
        Err(_) => text.text().into_owned(),
    }
}
