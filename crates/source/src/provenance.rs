//! Signatures of charts: the `.prov` file that `helm package --sign` writes, and the keyrings of GnuPG.

use super::{SourceError, fail, read, sha256};
use pgp::composed::{CleartextSignedMessage, PublicOrSecret, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{PacketParser, PacketTrait, Signature, SignatureType};
use pgp::ser::Serialize;
use pgp::types::{KeyDetails, Tag, VerifyingKey};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tillerman_render::template::yaml;

const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const END: &str = "-----END PGP SIGNATURE-----";

/// The content of a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The names of the signing key, sorted.
    pub signed_by: Vec<String>,
    /// The fingerprint of its primary key, in upper case.
    pub fingerprint: String,
    /// The digest of the archive, with `sha256:` in front.
    pub file_hash: String,
}

/// Keys to verify with.
#[derive(Clone, Debug)]
pub enum Keyring {
    /// A file: GnuPG's old or new format, or armored text.
    File(PathBuf),
    /// The content of one, and its name for messages.
    Data(Vec<u8>, String),
}

impl Keyring {
    fn read(&self) -> Result<(Vec<u8>, String), SourceError> {
        match self {
            Self::File(path) => Ok((read(path)?, path.display().to_string())),
            Self::Data(data, name) => Ok((data.clone(), name.clone())),
        }
    }
}

/// The keyring that is used unless another is named: GnuPG's, in its old form if there is one.
pub fn default_keyring() -> PathBuf {
    let home = std::env::var_os("GNUPGHOME").map_or_else(|| super::user_home().join(".gnupg"), PathBuf::from);
    let (old, new) = (home.join("pubring.gpg"), home.join("pubring.kbx"));
    if !old.exists() && new.exists() { new } else { old }
}

/// Checks an archive on disk, whose provenance file is next to it.
pub fn verify_file(path: &Path, keyring: &Keyring) -> Result<Verification, SourceError> {
    let info = std::fs::metadata(path)
        .map_err(|e| SourceError(format!("stat {}: {}", path.display(), tillerman_render::chart::go_io(&e))))?;
    if info.is_dir() {
        return fail("unpacked charts cannot be verified");
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check_name(&name)?;
    let provenance = PathBuf::from(format!("{}.prov", path.display()));
    if let Err(e) = std::fs::metadata(&provenance) {
        let at = provenance.display();
        return fail(format!("could not load provenance file {at}: stat {at}: {}", tillerman_render::chart::go_io(&e)));
    }
    verify(&read(path)?, &read(&provenance)?, &name, keyring)
}

fn check_name(name: &str) -> Result<(), SourceError> {
    let tgz = Path::new(name).extension().is_some_and(|e| e.eq_ignore_ascii_case("tgz"));
    if tgz { Ok(()) } else { fail("chart must be a tgz file") }
}

/// Checks that `provenance` is signed with a key of the keyring, and names this archive under this file name.
pub fn verify(archive: &[u8], provenance: &[u8], name: &str, keyring: &Keyring) -> Result<Verification, SourceError> {
    check_name(name)?;
    let keys = load_keyring(keyring).map_err(|e| SourceError(format!("failed to load keyring: {e}")))?;
    let text = String::from_utf8_lossy(provenance);
    let message = cut(&text).and_then(|block| CleartextSignedMessage::from_string(block).ok());
    let Some((message, _)) = message else { return fail("signature block not found") };
    let signer = signer(&message, &keys)?;
    let sums = message.signed_text().replace("\r\n", "\n");
    let mut parts = sums.split("\n...\n").skip(1);
    let Some(sums) = parts.next() else { return fail("message block must have at least two parts") };
    let sums = yaml::parse(sums.as_bytes()).map_err(|e| SourceError(e.to_string()))?;
    let file_hash = format!("sha256:{}", sha256(archive));
    match sums.get("files").and_then(|files| files.get(name)).and_then(serde_json::Value::as_str) {
        None => fail(format!("provenance does not contain a SHA for a file named {name:?}")),
        Some(sum) if sum != file_hash => {
            fail(format!("sha256 sum does not match for {name}: {sum:?} != {file_hash:?}"))
        }
        Some(_) => {
            let names = signer.details.users.iter().map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
            let mut signed_by: Vec<String> = names.collect();
            signed_by.sort();
            let fingerprint = data_encoding::HEXUPPER.encode(signer.primary_key.fingerprint().as_bytes());
            Ok(Verification { signed_by, fingerprint, file_hash })
        }
    }
}

/// The signed message in a file that may have text around it.
fn cut(text: &str) -> Option<&str> {
    let start = if text.starts_with(BEGIN) { 0 } else { text.find(&format!("\n{BEGIN}"))? + 1 };
    let end = start + text[start..].find(END)? + END.len();
    Some(&text[start..end])
}

/// The key that made the message's signature, which must have been allowed to.
fn signer<'a>(
    message: &CleartextSignedMessage,
    keys: &'a [SignedPublicKey],
) -> Result<&'a SignedPublicKey, SourceError> {
    let text = message.signed_text();
    let mut error = SourceError("openpgp: signature made by unknown entity".into());
    for signature in message.signatures() {
        if !matches!(signature.typ(), Some(SignatureType::Text | SignatureType::Binary)) {
            continue;
        }
        for key in keys {
            let result = if made_by(signature, &key.primary_key) {
                primary(key, signature, &text)
            } else if let Some(subkey) = key.public_subkeys.iter().find(|s| made_by(signature, &s.key)) {
                with_subkey(key, subkey, signature, &text)
            } else {
                continue;
            };
            match result {
                Ok(()) => return Ok(key),
                Err(e) => error = e,
            }
        }
    }
    Err(error)
}

fn made_by(signature: &Signature, key: &impl KeyDetails) -> bool {
    let ids = signature.issuer_key_id();
    let fingerprints = signature.issuer_fingerprint();
    ids.iter().any(|id| **id == key.legacy_key_id()) || fingerprints.iter().any(|f| **f == key.fingerprint())
}

fn primary(key: &SignedPublicKey, signature: &Signature, text: &str) -> Result<(), SourceError> {
    let own = own_signature(key)?;
    let flags = own.key_flags();
    // A key without flags may do everything.
    if own.config().is_some_and(|c| c.hashed_subpackets().any(is_key_flags)) && !flags.sign() {
        return fail("openpgp: signature made by unknown entity");
    }
    check(signature, &key.primary_key, text)
}

fn is_key_flags(packet: &pgp::packet::Subpacket) -> bool {
    matches!(packet.data, pgp::packet::SubpacketData::KeyFlags(_))
}

fn with_subkey(
    key: &SignedPublicKey,
    subkey: &SignedPublicSubKey,
    signature: &Signature,
    text: &str,
) -> Result<(), SourceError> {
    own_signature(key)?;
    let valid = |s: &&Signature| s.verify_subkey_binding(&key.primary_key, &subkey.key).is_ok();
    let of = |typ: SignatureType| subkey.signatures.iter().filter(move |s| s.typ() == Some(typ)).filter(valid);
    if of(SignatureType::SubkeyRevocation).next().is_some() {
        return fail("openpgp: signature made by revoked key");
    }
    let binding = newest(of(SignatureType::SubkeyBinding));
    let Some(binding) = binding.filter(|b| b.key_flags().sign()) else {
        return fail("openpgp: signature made by unknown entity");
    };
    // The subkey itself must have agreed, or anybody could claim another's signatures.
    let agreed = binding
        .embedded_signature()
        .is_some_and(|back| back.verify_primary_key_binding(&subkey.key, &key.primary_key).is_ok());
    if !agreed {
        return fail("openpgp: invalid data: signing subkey is missing cross-signature");
    }
    not_expired(&subkey.key, binding)?;
    check(signature, &subkey.key, text)
}

/// The newest statement of a key about itself that is valid; fails for a key that is revoked or expired, or has none.
fn own_signature(key: &SignedPublicKey) -> Result<&Signature, SourceError> {
    let details = &key.details;
    let valid_direct = |s: &&Signature| s.verify_key(&key.primary_key).is_ok();
    if details.revocation_signatures.iter().any(|s| valid_direct(&s)) {
        return fail("openpgp: signature made by revoked key");
    }
    let mut statements: Vec<&Signature> = details.direct_signatures.iter().filter(valid_direct).collect();
    for user in &details.users {
        let valid = |s: &&Signature| s.verify_certification(&key.primary_key, Tag::UserId, &user.id).is_ok();
        let revoked = |s: &&Signature| s.typ() == Some(SignatureType::CertRevocation);
        let newest_revocation = newest(user.signatures.iter().filter(revoked).filter(valid));
        let newest_statement = newest(user.signatures.iter().filter(|s| !revoked(s)).filter(valid));
        if let Some(statement) = newest_statement
            && newest_revocation.is_none_or(|r| r.created() < statement.created())
        {
            statements.push(statement);
        }
    }
    let Some(own) = newest(statements.into_iter()) else {
        return fail("openpgp: invalid data: entity without any identities");
    };
    not_expired(&key.primary_key, own)?;
    Ok(own)
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.max_by_key(|s| s.created())
}

fn not_expired(key: &impl KeyDetails, statement: &Signature) -> Result<(), SourceError> {
    let lifetime = statement.key_expiration_time().map(|d| u64::from(d.as_secs()));
    over(u64::from(key.created_at().as_secs()), lifetime, "openpgp: key expired")
}

/// Fails when something made at `from` and valid for `lifetime` seconds (none or 0 is for ever) is no longer valid.
fn over(from: u64, lifetime: Option<u64>, message: &str) -> Result<(), SourceError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    if lifetime.is_some_and(|lifetime| lifetime != 0 && from.saturating_add(lifetime) < now) {
        return fail(message);
    }
    Ok(())
}

fn check(signature: &Signature, key: &impl VerifyingKey, text: &str) -> Result<(), SourceError> {
    if matches!(signature.hash_alg(), None | Some(HashAlgorithm::Md5 | HashAlgorithm::Sha1 | HashAlgorithm::Ripemd160))
    {
        return fail("openpgp: invalid data: insecure hash algorithm");
    }
    if signature.verify(key, text.as_bytes()).is_err() {
        let kind = match key.algorithm() {
            PublicKeyAlgorithm::RSA | PublicKeyAlgorithm::RSASign => "RSA",
            PublicKeyAlgorithm::DSA => "DSA",
            PublicKeyAlgorithm::ECDSA => "ECDSA",
            PublicKeyAlgorithm::EdDSALegacy => "EdDSA",
            PublicKeyAlgorithm::Ed25519 => "Ed25519",
            PublicKeyAlgorithm::Ed448 => "ed448",
            _ => return fail("openpgp: invalid signature: Unsupported public key algorithm used in signature"),
        };
        return fail(format!("openpgp: invalid signature: {kind} verification failure"));
    }
    let created = signature.created().map(|t| u64::from(t.as_secs())).unwrap_or_default();
    let lifetime = signature.signature_expiration_time().map(|d| u64::from(d.as_secs()));
    over(created, lifetime, "openpgp: signature expired")
}

/// The keys of a keyring.
fn load_keyring(keyring: &Keyring) -> Result<Vec<SignedPublicKey>, SourceError> {
    let (data, at) = keyring.read()?;
    if data.len() >= 12 && data[4] == 1 && &data[8..12] == b"KBXf" {
        let keys = keybox(&data).map_err(|e| SourceError(format!("reading keybox {at}: {e}")))?;
        return keys_of(&keys);
    }
    let text = data.trim_ascii_start();
    if !text.starts_with(b"-----BEGIN PGP") {
        return keys_of(&data);
    }
    let invalid = |what: String| SourceError(format!("reading armored keyring {at}: {what}"));
    let mut keys = Vec::new();
    for block in String::from_utf8_lossy(text).split_inclusive("KEY BLOCK-----\n") {
        // Each block has two such lines; the first begins it.
        if block.contains("-----BEGIN PGP") {
            keys.push(block.to_owned());
        } else if let Some(last) = keys.last_mut() {
            last.push_str(block);
        }
    }
    let mut found = Vec::new();
    for block in keys {
        let (all, _) = PublicOrSecret::from_armor_many(block.as_bytes()).map_err(|e| invalid(e.to_string()))?;
        for key in all {
            found.push(public(key.map_err(|e| invalid(e.to_string()))?));
        }
    }
    if found.is_empty() { Err(invalid("no keys found".into())) } else { Ok(found) }
}

fn keys_of(data: &[u8]) -> Result<Vec<SignedPublicKey>, SourceError> {
    let invalid = |e: pgp::errors::Error| SourceError(format!("openpgp: invalid data: {e}"));
    // GnuPG writes its trust packets in between, which end a key for this parser.
    let mut packets = Vec::new();
    for packet in PacketParser::new(data).filter_map(Result::ok).filter(|packet| packet.tag() != Tag::Trust) {
        packet.to_writer(&mut packets).map_err(invalid)?;
    }
    let keys = PublicOrSecret::from_bytes_many(packets.as_slice()).map_err(invalid)?;
    // A key that the library does not understand is not a reason to refuse all others.
    let keys: Vec<_> = keys.filter_map(Result::ok).map(public).collect();
    if keys.is_empty() && !data.is_empty() { fail("openpgp: invalid data: no keys found") } else { Ok(keys) }
}

fn public(key: PublicOrSecret) -> SignedPublicKey {
    match key {
        PublicOrSecret::Public(key) => key,
        PublicOrSecret::Secret(key) => key.to_public_key(),
    }
}

/// The OpenPGP keys of a keybox (`kbx/keybox-blob.c` of GnuPG), one after the other.
fn keybox(data: &[u8]) -> Result<Vec<u8>, SourceError> {
    let number = |at: &[u8]| at.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b) as usize);
    let mut keys = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        let rest = &data[offset..];
        let length = number(rest);
        if length < 5 || length > rest.len() {
            return fail(format!("invalid blob length {length} at offset {offset}"));
        }
        let blob = &rest[..length];
        let (openpgp, ephemeral) = (blob[4] == 2, blob.get(7).is_some_and(|flags| flags & 2 != 0));
        if openpgp {
            let block = blob.get(8..16).and_then(|header| {
                let (start, size) = (number(header), number(&header[4..]));
                blob.get(start..start.checked_add(size)?)
            });
            let block = block
                .ok_or_else(|| SourceError(format!("OpenPGP blob at offset {offset} has an out-of-range keyblock")))?;
            if !ephemeral {
                keys.extend_from_slice(block);
            }
        }
        offset += length;
    }
    if keys.is_empty() { fail("keybox contains no OpenPGP keys") } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_keybox_is_an_error_and_no_panic() {
        assert!(keybox(&[0, 0, 0, 4, 1]).unwrap_err().0.contains("invalid blob length"));
        assert!(keybox(&[0, 0, 0, 9, 2, 1, 0, 0, 0]).unwrap_err().0.contains("out-of-range"));
        let mut blob = vec![0, 0, 0, 18, 2, 1, 0, 0, 0, 0, 0, 16, 0, 0, 0, 2, 7, 8];
        assert_eq!(keybox(&blob).unwrap(), [7, 8]);
        blob[15] = 3;
        assert!(keybox(&blob).is_err());
    }

    #[test]
    fn a_message_may_stand_between_other_text() {
        let text = format!("x\n{BEGIN}\nHash: SHA512\n\nt\n-----BEGIN PGP SIGNATURE-----\n{END}\ny");
        assert!(cut(&text).is_some_and(|block| block.starts_with(BEGIN) && block.ends_with(END)));
        assert_eq!(cut("nothing"), None);
    }
}
