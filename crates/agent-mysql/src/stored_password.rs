//! The form in which a database stores a password. Statements have it instead of the password.
//!
//! MariaDB has `mysql_native_password`, two digests without salt. MySQL has had only `caching_sha2_password` since 9.0:
//! `$A$005$`, a salt of 20 characters, and 43 characters of the scheme "SHA-crypt" with 5,000 rounds
//! (<https://www.akkadia.org/drepper/SHA-crypt.txt>), which takes the whole salt instead of its first 16 characters.

use data_encoding::HEXUPPER;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::flavor::Flavor;

/// The text before the salt: the kind of digest, and the thousands of rounds.
const PREFIX: &str = "$A$005$";
/// The rounds.
const ROUNDS: usize = 5000;
/// The length of a salt.
const SALT: usize = 20;
/// The digits of the scheme.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The form in which `mysql_native_password` stores a password.
pub fn native(password: &str) -> String {
    let twice = Sha1::digest(Sha1::digest(password.as_bytes()));
    format!("*{}", HEXUPPER.encode(&twice))
}

/// The form in which `caching_sha2_password` stores a password with a salt of 20 characters.
fn caching_sha2(password: &str, salt: &str) -> String {
    format!("{PREFIX}{salt}{}", crypt(password.as_bytes(), salt.as_bytes()))
}

/// Whether this is what `caching_sha2_password` stores of a password.
fn is_of(stored: &str, password: &str) -> bool {
    let salt = stored.strip_prefix(PREFIX).and_then(|rest| rest.get(..SALT));
    salt.is_some_and(|salt| caching_sha2(password, salt) == stored)
}

/// The text of a statement after `IDENTIFIED`. `is` is what it would say of what the database stores now, which stays
/// if it is of this password. The error is a sentence.
pub fn clause(flavor: Flavor, password: &str, is: Option<&str>) -> Result<String, String> {
    match flavor {
        Flavor::Mariadb => Ok(stored(flavor, &native(password))),
        Flavor::Mysql => match is.filter(|is| of_clause(is).is_some_and(|is| is_of(&is, password))) {
            Some(is) => Ok(is.to_owned()),
            None => Ok(stored(flavor, &caching_sha2(password, &salt()?))),
        },
    }
}

/// The same of the stored form.
pub fn stored(flavor: Flavor, text: &str) -> String {
    match flavor {
        Flavor::Mariadb => format!("VIA mysql_native_password USING '{text}'"),
        // In a text, a salt would have to be quoted.
        Flavor::Mysql => format!("WITH caching_sha2_password AS 0x{}", HEXUPPER.encode(text.as_bytes())),
    }
}

/// The stored form in a clause of MySQL that [`stored`] made.
fn of_clause(clause: &str) -> Option<String> {
    let digits = clause.strip_prefix("WITH caching_sha2_password AS 0x")?;
    String::from_utf8(HEXUPPER.decode(digits.as_bytes()).ok()?).ok()
}

/// A salt of the digits of the scheme. The database takes all but `$` and 0.
fn salt() -> Result<String, String> {
    let mut bytes = [0; SALT];
    getrandom::fill(&mut bytes).map_err(|error| format!("cannot read random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| char::from(DIGITS[usize::from(byte & 63)])).collect())
}

/// SHA-crypt with SHA-256. Its description calls the digests B, A, DP, DS and C, in this order, and the sequences P and S.
fn crypt(key: &[u8], salt: &[u8]) -> String {
    let sequence = |digest: &[u8], length: usize| digest.iter().copied().cycle().take(length).collect::<Vec<u8>>();
    let other = Sha256::new().chain_update(key).chain_update(salt).chain_update(key).finalize();
    let mut first = Sha256::new().chain_update(key).chain_update(salt).chain_update(sequence(&other, key.len()));
    let mut length = key.len();
    while length > 0 {
        if length & 1 == 1 {
            first.update(other);
        } else {
            first.update(key);
        }
        length >>= 1;
    }
    let mut digest = first.finalize();
    let of_key = key.iter().fold(Sha256::new(), |all, _| all.chain_update(key)).finalize();
    let keys = sequence(&of_key, key.len());
    let of_salt = (0..16 + usize::from(digest[0])).fold(Sha256::new(), |all, _| all.chain_update(salt)).finalize();
    let salts = sequence(&of_salt, salt.len());
    for round in 0..ROUNDS {
        let mut next = Sha256::new();
        if round % 2 == 1 {
            next.update(&keys);
        } else {
            next.update(digest);
        }
        if round % 3 != 0 {
            next.update(&salts);
        }
        if round % 7 != 0 {
            next.update(&keys);
        }
        if round % 2 == 1 {
            next.update(digest);
        } else {
            next.update(&keys);
        }
        digest = next.finalize();
    }
    encoded(&digest)
}

/// The digits of a digest, three bytes at a time, in the order of the scheme.
fn encoded(digest: &[u8]) -> String {
    let mut text = String::with_capacity(43);
    let mut put = |mut word: u32, count: usize| {
        for _ in 0..count {
            text.push(char::from(DIGITS[(word & 63) as usize]));
            word >>= 6;
        }
    };
    let byte = |at: usize| u32::from(digest[at]);
    let (mut x, mut y, mut z) = (0, 10, 20);
    for _ in 0..10 {
        put(byte(x) << 16 | byte(y) << 8 | byte(z), 4);
        (x, y, z) = ((z + 1) % 30, (x + 1) % 30, (y + 1) % 30);
    }
    put(byte(31) << 8 | byte(30), 3);
    text
}

#[cfg(test)]
mod tests {
    use super::{clause, crypt, is_of, native, of_clause};
    use crate::flavor::Flavor;

    #[test]
    fn a_native_hash_is_what_the_database_stores() {
        // SELECT PASSWORD('x') of MariaDB 10.11.
        assert_eq!(native("x"), "*B69027D44F6E5EDC07F1AEAD1477967B16F28227");
    }

    #[test]
    fn the_scheme_is_that_of_its_description() {
        // The result of crypt(3) of glibc.
        for (key, hash) in [
            ("Hello world!", "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (
                "it is longer than thirty-two characters, so that the digest is repeated",
                "cHqmhNxzUzmb7mkDEpI0lwMivTQPlDfohKeKBD/lhb9",
            ),
        ] {
            assert_eq!(crypt(key.as_bytes(), b"saltstring"), hash, "{key}");
        }
    }

    #[test]
    fn a_clause_stays_as_long_as_the_password_does() {
        let first = clause(Flavor::Mysql, "it's \"a\"", None).unwrap();
        let is = of_clause(&first).unwrap();
        assert!(is_of(&is, "it's \"a\"") && !is_of(&is, "another"));
        assert_eq!(clause(Flavor::Mysql, "it's \"a\"", Some(&first)).unwrap(), first);
        assert_ne!(clause(Flavor::Mysql, "another", Some(&first)).unwrap(), first);
        assert_eq!(
            clause(Flavor::Mariadb, "x", None).unwrap(),
            "VIA mysql_native_password USING '*B69027D44F6E5EDC07F1AEAD1477967B16F28227'"
        );
    }
}
