use super::super::encoding;
use super::certificate::Certificate;
use super::{FUNCTIONS, pem::Block};
use crate::template::function::{Context, FnResult, Host};
use crate::template::value::{Elem, IntType, List, Value};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// 2026-05-04 03:02:01.5 UTC.
const NOW: i128 = 1_777_863_721_500_000_000;

/// A host whose randomness is a counter through `SplitMix64`, and whose clock is stopped.
struct Seeded {
    state: Cell<u64>,
    now: i128,
}

impl Host for Seeded {
    fn random(&self, buffer: &mut [u8]) {
        for byte in buffer {
            let state = self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.state.set(state);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *byte = (mixed ^ (mixed >> 31)).to_le_bytes()[0];
        }
    }
    fn now(&self) -> i128 {
        self.now
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult {
        Ok(Value::Nil)
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

fn context(seed: u64) -> Context {
    context_at(seed, NOW)
}

fn context_at(seed: u64, now: i128) -> Context {
    Context { host: Rc::new(Seeded { state: Cell::new(seed), now }) }
}

fn try_call(ctx: &Context, name: &str, args: &[Value]) -> FnResult {
    let function = FUNCTIONS.iter().find(|f| f.name == name).expect("the function is listed");
    assert_eq!(function.params.len(), args.len(), "{name}");
    (function.run)(ctx, args)
}

fn call(ctx: &Context, name: &str, args: &[Value]) -> Value {
    try_call(ctx, name, args).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn error(name: &str, args: &[Value]) -> String {
    match try_call(&context(1), name, args) {
        Ok(_) => panic!("{name} did not fail"),
        Err(e) => e.to_string(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Str(s) => s.text().into_owned(),
        _ => panic!("not a string"),
    }
}

fn strings(items: &[&str]) -> Value {
    Value::list(items.iter().map(|s| Value::str(*s)).collect())
}

fn field(value: &Value, name: &str) -> String {
    match value {
        Value::Object(object) => text(&object.field(name).expect("the field exists")),
        _ => panic!("not a certificate"),
    }
}

fn counter(i: i64) -> Value {
    Value::Int(IntType::Uint32, i)
}

fn derived(count: i64, kind: &str, password: &str, user: &str, site: &str) -> String {
    let args = [counter(count), kind.into(), password.into(), user.into(), site.into()];
    text(&call(&context(1), "derivePassword", &args))
}

/// Files of a test, gone at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tillerman-crypto-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }
    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a temporary file");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The output of `openssl`, or a panic with its complaint.
fn openssl(args: &[&str]) -> String {
    let output = Command::new("openssl").args(args).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("openssl prints text")
}

fn private_key(seed: u64, kind: &str) -> Value {
    call(&context(seed), "genPrivateKey", &[kind.into()])
}

/// Asserts that the key in a certificate is the public half of the key next to it.
fn assert_key_fits(folder: &Folder, certificate: &Value) {
    let cert = folder.write("fits.crt", &field(certificate, "Cert"));
    let key = folder.write("fits.key", &field(certificate, "Key"));
    assert_eq!(openssl(&["x509", "-in", &cert, "-noout", "-pubkey"]), openssl(&["pkey", "-in", &key, "-pubout"]));
}

fn assert_verifies(folder: &Folder, ca: &Value, certificate: &Value) {
    let ca = folder.write("ca.crt", &field(ca, "Cert"));
    let cert = folder.write("leaf.crt", &field(certificate, "Cert"));
    let time = (NOW / 1_000_000_000 + 1).to_string();
    openssl(&["verify", "-x509_strict", "-attime", &time, "-CAfile", &ca, &cert]);
}

#[test]
fn derive_password_gives_what_helm_gives() {
    assert_eq!(derived(1, "long", "password", "user", "example.com"), "ZedaFaxcZaso9*");
    assert_eq!(derived(1, "maximum", "password", "user", "example.com"), "pf4zS1LjCg&LjhsZ7T2~");
    assert_eq!(derived(1, "pin", "password", "user", "example.com"), "6685");
    assert_eq!(derived(1, "long", "", "", ""), "YavoDajh9;Zafn");
    assert_eq!(derived(1, "nosuch", "", "", ""), "cannot find password template nosuch");
}

#[test]
fn the_counter_of_derive_password_keeps_its_low_32_bits() {
    assert_eq!(derived(1 << 32, "long", "p", "u", "s"), "WupeHanuFiyi6@");
    assert_eq!(derived(0, "long", "p", "u", "s"), "WupeHanuFiyi6@");
}

#[test]
fn a_bcrypt_hash_has_gos_version_and_cost_and_fits_its_password() {
    let ctx = context(1);
    for password in ["", "secret", "with\0zero", &"x".repeat(72)] {
        let hash = text(&call(&ctx, "bcrypt", &[password.into()]));
        assert!(hash.starts_with("$2a$10$") && hash.len() == 60, "{hash}");
        assert!(bcrypt::verify(password, &hash).expect("the hash is well formed"));
    }
    assert_eq!(
        text(&call(&ctx, "bcrypt", &["x".repeat(73).into()])),
        "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    );
}

#[test]
fn htpasswd_refuses_a_user_with_a_colon() {
    let ctx = context(1);
    assert!(text(&call(&ctx, "htpasswd", &["user".into(), "pass".into()])).starts_with("user:$2a$10$"));
    assert_eq!(text(&call(&ctx, "htpasswd", &["us:er".into(), "pass".into()])), "invalid username: us:er");
}

#[test]
fn what_is_encrypted_can_be_decrypted() {
    let ctx = context(1);
    for plain in ["t", "fifteen bytes..", "sixteen byte msg", &"long ".repeat(100)] {
        for password in ["", "k", "a very long key that is more than thirty-two bytes"] {
            let encrypted = call(&ctx, "encryptAES", &[password.into(), plain.into()]);
            assert_eq!(text(&call(&ctx, "decryptAES", &[password.into(), encrypted])), plain);
        }
    }
    assert_eq!(text(&call(&ctx, "encryptAES", &["k".into(), "".into()])), "");
    assert_eq!(text(&call(&ctx, "decryptAES", &["k".into(), "".into()])), "");
}

#[test]
fn decrypting_nonsense_gives_gos_panics_as_errors() {
    let decrypt = |encrypted: &str| error("decryptAES", &["wrong".into(), encrypted.into()]);
    assert_eq!(
        decrypt("30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ="),
        "runtime error: slice bounds out of range [:-44]"
    );
    assert_eq!(decrypt("YQ=="), "runtime error: slice bounds out of range [:16] with capacity 3");
    assert_eq!(decrypt(&encoding::encode(&[0; 15])), "runtime error: slice bounds out of range [:16] with capacity 15");
    assert_eq!(decrypt(&(encoding::encode(&[0; 15]) + "\n\n\n\n")), "runtime error: slice bounds out of range [16:15]");
    assert_eq!(decrypt(&encoding::encode(&[0; 16])), "runtime error: index out of range [-1]");
    assert_eq!(decrypt(&encoding::encode(&[0; 17])), "crypto/cipher: input not full blocks");
    assert_eq!(decrypt("YQ"), "illegal base64 data at input byte 0");
    assert_eq!(decrypt("YWFh*"), "illegal base64 data at input byte 4");
}

#[test]
fn private_keys_have_gos_forms_and_openssl_reads_them() {
    let folder = Folder::new();
    for (kind, label) in [("", "RSA "), ("dsa", "DSA "), ("ecdsa", "EC "), ("ed25519", "")] {
        // With this seed the search for a DSA prime is short.
        let pem = text(&private_key(3, kind));
        assert!(pem.starts_with(&format!("-----BEGIN {label}PRIVATE KEY-----\n")), "{pem}");
        assert!(pem.ends_with(&format!("-----END {label}PRIVATE KEY-----\n")), "{pem}");
        let path = folder.write("key.pem", &pem);
        openssl(&["pkey", "-in", &path, "-check", "-noout"]);
    }
    assert_eq!(text(&private_key(7, "ed25519")).len(), 119);
    assert_eq!(text(&private_key(7, "nosuch")), "Unknown type nosuch");
}

#[test]
fn the_same_seed_gives_the_same_keys_and_certificates() {
    for kind in ["ecdsa", "ed25519"] {
        assert_eq!(text(&private_key(3, kind)), text(&private_key(3, kind)));
        assert_ne!(text(&private_key(3, kind)), text(&private_key(4, kind)));
    }
    let ca = |seed| field(&call(&context(seed), "genCA", &["ca".into(), Value::int(1)]), "Cert");
    assert_eq!(ca(3), ca(3));
    assert_ne!(ca(3), ca(4));
}

#[test]
fn an_authority_and_what_it_signs_verify_with_openssl_for_every_type_of_key() {
    let folder = Folder::new();
    let ctx = context(5);
    let p384 = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]);
    let p521 = openssl(&["ecparam", "-name", "secp521r1", "-genkey", "-noout"]);
    let pkcs8_rsa = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    let keys: [Value; 5] =
        [private_key(7, "ecdsa"), private_key(7, "ed25519"), p384.into(), p521.into(), pkcs8_rsa.into()];
    let mut authorities = vec![call(&ctx, "genCA", &["ca".into(), Value::int(365)])];
    for key in &keys {
        authorities.push(call(&ctx, "genCAWithKey", &["ca".into(), Value::int(365), key.clone()]));
    }
    let args = |ca: &Value| {
        vec!["leaf".into(), strings(&["10.0.0.1", "fd00::1"]), strings(&["a.b"]), Value::int(30), ca.clone()]
    };
    for ca in &authorities {
        assert_key_fits(&folder, ca);
        assert_verifies(&folder, ca, ca);
        for key in &keys {
            let args = [args(ca), vec![key.clone()]].concat();
            let leaf = call(&ctx, "genSignedCertWithKey", &args);
            assert_key_fits(&folder, &leaf);
            assert_verifies(&folder, ca, &leaf);
        }
    }
    let leaf = call(&ctx, "genSignedCert", &args(&authorities[0]));
    assert_key_fits(&folder, &leaf);
    assert_verifies(&folder, &authorities[0], &leaf);
}

#[test]
fn a_certificate_says_what_it_was_asked_to_say() {
    let folder = Folder::new();
    let ctx = context(5);
    let ca = call(&ctx, "genCA", &["my ca".into(), Value::int(365)]);
    let list = strings(&["10.0.0.1", "::ffff:10.0.0.2", "fd00::1"]);
    let leaf =
        call(&ctx, "genSignedCert", &["leaf".into(), list, strings(&["a.b", "*.c"]), Value::int(30), ca.clone()]);
    let show = |certificate: &Value| {
        let path = folder.write("show.crt", &field(certificate, "Cert"));
        openssl(&["x509", "-in", &path, "-noout", "-text"])
    };
    let (ca, leaf) = (show(&ca), show(&leaf));
    for expected in [
        "Version: 3 (0x2)",
        "Issuer: CN = my ca",
        "Subject: CN = leaf",
        "Not Before: May  4 03:02:01 2026 GMT",
        "Not After : Jun  3 03:02:01 2026 GMT",
        "X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment\n",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "X509v3 Basic Constraints: critical\n                CA:FALSE",
        "DNS:a.b, DNS:*.c, IP Address:10.0.0.1, IP Address:10.0.0.2, IP Address:FD00:0:0:0:0:0:0:1",
        "Signature Algorithm: sha256WithRSAEncryption",
        "Public-Key: (2048 bit)",
    ] {
        assert!(leaf.contains(expected), "{expected} is not in {leaf}");
    }
    for expected in [
        "Not After : May  4 03:02:01 2027 GMT",
        "X509v3 Key Usage: critical\n                Digital Signature, Key Encipherment, Certificate Sign\n",
        "X509v3 Basic Constraints: critical\n                CA:TRUE\n",
    ] {
        assert!(ca.contains(expected), "{expected} is not in {ca}");
    }
    let id = |text: &str, heading: &str| {
        let mut lines = text.lines().skip_while(|l| !l.contains(heading)).skip(1);
        lines.next().map(|l| l.trim().trim_start_matches("keyid:").to_owned())
    };
    assert_eq!(id(&ca, "Subject Key Identifier"), id(&leaf, "Authority Key Identifier"));
    assert!(!ca.contains("Authority Key Identifier") && !leaf.contains("Subject Key Identifier"));
}

#[test]
fn names_and_times_take_the_encodings_that_go_chooses() {
    let folder = Folder::new();
    let key = private_key(7, "ecdsa");
    let dump = |cn: &str, days: i64| {
        let ca = call(&context(5), "genCAWithKey", &[cn.into(), Value::int(days), key.clone()]);
        let path = folder.write("dump.crt", &field(&ca, "Cert"));
        openssl(&["asn1parse", "-in", &path])
    };
    assert!(dump("plain", 1).contains("PRINTABLESTRING   :plain"));
    assert!(dump("*.star", 1).contains("UTF8STRING        :*.star"));
    assert!(dump("é", 1).contains("UTF8STRING"));
    assert!(!dump("", 1).contains("commonName"));
    assert!(dump("x", 365 * 30).contains("GENERALIZEDTIME   :20560426030201Z"));
    assert!(dump("x", -1).contains("UTCTIME           :260503030201Z"));
    assert!(dump("x", -365 * 100).contains("GENERALIZEDTIME   :19260529030201Z"));
    // 106752 days overflow Go's duration, which lasts 292 years.
    assert!(dump("x", 106_752).contains("GENERALIZEDTIME   :17340"));
}

#[test]
fn nil_and_empty_lists_leave_the_alternative_names_out() {
    let folder = Folder::new();
    let key = private_key(7, "ecdsa");
    for empty in [Value::Nil, Value::List(List::nil(Elem::Any)), Value::list(Vec::new())] {
        let args = ["x".into(), empty.clone(), empty, Value::int(1), key.clone()];
        let certificate = call(&context(5), "genSelfSignedCertWithKey", &args);
        assert_key_fits(&folder, &certificate);
        let path = folder.write("empty.crt", &field(&certificate, "Cert"));
        assert!(!openssl(&["x509", "-in", &path, "-noout", "-text"]).contains("Alternative"));
    }
}

#[test]
fn wrong_arguments_give_sprigs_messages() {
    let key = private_key(7, "ecdsa");
    let signed = |ips: Value, names: Value| {
        error("genSelfSignedCertWithKey", &["x".into(), ips, names, Value::int(1), key.clone()])
    };
    assert_eq!(signed(strings(&["300.1.1.1"]), Value::Nil), "error parsing ip: 300.1.1.1");
    assert_eq!(signed(Value::list(vec![Value::int(5)]), Value::Nil), "error parsing ip: 5 is not a string");
    assert_eq!(signed(Value::list(vec![Value::Nil]), Value::Nil), "error parsing ip: <nil> is not a string");
    let names = Value::list(vec![Value::int(5)]);
    assert_eq!(signed(Value::Nil, names), "error processing alternate dns name: 5 is not a string");
    assert_eq!(
        signed(Value::Nil, strings(&["ü"])),
        "error creating certificate: x509: \"ü\" cannot be encoded as an IA5String"
    );
    let not_utf8 = Value::str(&b"\xff"[..]);
    assert_eq!(
        error("genCAWithKey", &[not_utf8, Value::int(1), key.clone()]),
        "error creating certificate: asn1: string not valid UTF-8"
    );
    let with = |pem: &str| error("genCAWithKey", &["x".into(), Value::int(1), pem.into()]);
    assert_eq!(with("bad"), "parsing private key: no PEM data in input");
    let block = |label: &str, bytes: &[u8]| Block::new(label, bytes.to_vec()).encode();
    assert_eq!(
        with(&block("CERTIFICATE", b"x")),
        "parsing private key: no private key data in PEM block of type CERTIFICATE"
    );
    assert_eq!(with(&block("NEW PRIVATE KEY", b"x")), "parsing private key: invalid private key type NEW PRIVATE KEY");
    assert_eq!(
        with(&text(&key).replace("EC PRIVATE", "RSA PRIVATE")),
        "parsing private key: parsing RSA private key from PEM: \
         x509: failed to parse private key (use ParseECPrivateKey instead for this key format)"
    );
    assert_eq!(
        with(&block(
            "DSA PRIVATE KEY",
            b"\x30\x12\x02\x01\x00\x02\x01\x07\x02\x01\x03\x02\x01\x02\x02\x01\x02\x02\x01\x01"
        )),
        "error creating certificate: x509: certificate private key does not implement crypto.Signer"
    );
}

#[test]
fn an_authority_must_have_its_own_key() {
    let ctx = context(5);
    let (one, other) = (private_key(7, "ecdsa"), private_key(8, "ecdsa"));
    let ca = call(&ctx, "genCAWithKey", &["ca".into(), Value::int(1), one.clone()]);
    let cert = encoding::encode(field(&ca, "Cert").as_bytes());
    let key = encoding::encode(text(&other).as_bytes());
    let mixed = call(&ctx, "buildCustomCert", &[cert.into(), key.into()]);
    assert_eq!(
        error("genSignedCertWithKey", &["x".into(), Value::Nil, Value::Nil, Value::int(1), mixed, one]),
        "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey"
    );
}

#[test]
fn build_custom_cert_keeps_both_texts_and_names_what_is_wrong() {
    let ctx = context(5);
    let ca = call(&ctx, "genCAWithKey", &["ca".into(), Value::int(1), private_key(7, "ecdsa")]);
    let encoded = |name: &str| Value::str(encoding::encode(field(&ca, name).as_bytes()));
    let built = call(&ctx, "buildCustomCert", &[encoded("Cert"), encoded("Key")]);
    assert_eq!((field(&built, "Cert"), field(&built, "Key")), (field(&ca, "Cert"), field(&ca, "Key")));

    let fails = |cert: Value, key: Value| error("buildCustomCert", &[cert, key]);
    assert_eq!(fails("*".into(), "".into()), "unable to decode base64 certificate");
    assert_eq!(fails(encoded("Cert"), "*".into()), "unable to decode base64 private key");
    assert_eq!(fails("YQ==".into(), "YQ==".into()), "unable to decode certificate");
    assert_eq!(fails(encoded("Cert"), "YQ==".into()), "error parsing private key: no PEM data in input");
    let broken = encoding::encode(Block::new("CERTIFICATE", b"x".to_vec()).encode().as_bytes());
    assert_eq!(
        fails(broken.into(), encoded("Key")),
        "error parsing certificate: decodedCert.Bytes: x509: malformed certificate"
    );
}

#[test]
fn pem_is_read_as_go_reads_it() {
    let read = |text: &str| Block::decode(text.as_bytes()).map(|b| (b.label, b.bytes));
    let good = Some(("A".to_owned(), b"a".to_vec()));
    for text in [
        "-----BEGIN A-----\nYQ==\n-----END A-----",
        "-----BEGIN A-----\r\nYQ==\r\n-----END A-----\r\n",
        "text\n-----BEGIN A-----\nYQ==\n-----END A-----\nmore",
        "-----BEGIN A-----  \nY Q =\t=\n-----END A-----",
        "-----BEGIN A-----\nProc-Type: 4\nX: y\n\nYQ==\n-----END A-----",
        "-----BEGIN B-----\n-----BEGIN A-----\nYQ==\n-----END A-----",
        "-----BEGIN B-----\n*\n-----END B-----\n-----BEGIN A-----\nYQ==\n-----END A-----",
    ] {
        assert_eq!(read(text), good, "{text}");
    }
    assert_eq!(read("-----BEGIN A-----\n-----END A-----"), Some(("A".to_owned(), Vec::new())));
    for text in [
        "",
        "-----BEGIN A-----",
        "-----BEGIN A-----\nYQ==",
        " -----BEGIN A-----\nYQ==\n-----END A-----",
        "-----BEGIN A-----\nYQ==\n-----END B-----",
        "-----BEGIN A-----\nYQ==\n-----END A----- x",
        "-----BEGIN A-----\nYQ\n-----END A-----",
        "-----BEGIN A\nYQ==\n-----END A",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

/// Numbers that no key may have must be refused by the parser, not by a panic in the arithmetic.
#[test]
fn damaged_keys_and_certificates_are_errors() {
    let ctx = context(9);
    let rsa = openssl(&["genrsa", "-traditional", "1024"]);
    let ca = call(&ctx, "genCAWithKey", &["ca".into(), Value::int(1), private_key(7, "ecdsa")]);
    let cert = field(&ca, "Cert");
    let texts = [rsa, text(&private_key(7, "ecdsa")), text(&private_key(7, "ed25519")), cert];
    for whole in texts {
        let block = Block::decode(whole.as_bytes()).expect("the text is PEM");
        for at in 0..block.bytes.len() {
            for value in [0, 0xff] {
                let mut bytes = block.bytes.clone();
                bytes[at] = value;
                let damaged = Block::new(&block.label, bytes).encode();
                let _ = try_call(&ctx, "genCAWithKey", &["x".into(), Value::int(1), damaged.as_str().into()]);
                let encoded = encoding::encode(damaged.as_bytes());
                let _ = try_call(&ctx, "buildCustomCert", &[encoded.as_str().into(), encoded.as_str().into()]);
            }
        }
    }
}

#[test]
fn a_certificate_is_a_struct_with_two_fields() {
    let ca = call(&context(5), "genCAWithKey", &["ca".into(), Value::int(1), private_key(7, "ecdsa")]);
    let Value::Object(object) = &ca else { panic!("not an object") };
    assert_eq!(object.type_name(), "sprig.certificate");
    assert!(object.as_any().is::<Certificate>());
    assert!(object.field("cert").is_none());
    let Value::Map(json) = object.json() else { panic!("not a map") };
    assert_eq!(text(&json.get("Cert").expect("present")), field(&ca, "Cert"));
    assert_eq!(json.len(), 2);
}
