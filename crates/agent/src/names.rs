//! Names in orders. They are written into statements and settings of databases, so nothing else is accepted.

use std::net::IpAddr;

/// Whether a text is a name of a member: a DNS label.
pub fn is_member(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(allowed) && !name.starts_with('-') && !name.ends_with('-')
}

/// Whether a text is an address or a DNS name.
pub fn is_host(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
        || (name.len() <= 253 && name.split('.').all(|label| is_member(&label.to_ascii_lowercase())))
}
