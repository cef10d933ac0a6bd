//! Which addresses a notice may reach. The author of a notice names its host, and could use the operator to reach what is behind
//! the firewall: services of the operator's own machine, and the servers of clouds that give credentials to every client inside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Servers of metadata that have no link-local address: those of Alibaba, Azure, Oracle and AWS (IPv6).
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Why an address is refused, if it is. Addresses of private networks are allowed: mail servers of clusters have them.
pub fn refused(address: IpAddr) -> Option<&'static str> {
    if let IpAddr::V6(six) = address {
        if six.segments()[..3] == LOCAL_NAT64 {
            return Some("the network translates it to an address that it does not show");
        }
        if let Some(why) = translated(six).into_iter().find_map(|four| refused_itself(IpAddr::V4(four))) {
            return Some(why);
        }
    }
    refused_itself(address)
}

/// Whether everybody can reach an address, so that nobody learns from its answers what only the operator can reach.
pub fn is_public(address: IpAddr) -> bool {
    let is_private = |four: &Ipv4Addr| {
        // 100.64.0.0/10 is shared by the customers of one provider (RFC 6598).
        four.is_private() || (four.octets()[0] == 100 && four.octets()[1] & 0xc0 == 64)
    };
    let is_open = match address {
        IpAddr::V4(four) => !is_private(&four),
        IpAddr::V6(six) => !six.is_unique_local() && !translated(six).iter().any(is_private),
    };
    is_open && refused(address).is_none()
}

fn refused_itself(address: IpAddr) -> Option<&'static str> {
    let (this, link_local) = match address {
        IpAddr::V4(four) => (four.octets()[0] == 0, four.is_link_local()),
        IpAddr::V6(six) => (six.is_unspecified(), six.is_unicast_link_local()),
    };
    match address {
        _ if METADATA.contains(&address) => Some("it is the address of a metadata server"),
        _ if address.is_loopback() => Some("it is a loopback address"),
        _ if link_local => Some("it is a link-local address"),
        _ if this => Some("it is an address of this host"),
        _ if address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST) => Some("it is a multicast address"),
        _ => None,
    }
}

/// The prefix `64:ff9b:1::/48` of translators inside a network (RFC 8215). Each chooses where in the address that of IPv4 is.
const LOCAL_NAT64: [u16; 3] = [0x64, 0xff9b, 1];

/// The addresses of IPv4 that a well-known translation or tunnel makes of an address: mapped and compatible ones (RFC 4291), SIIT (RFC
/// 7915), NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380: its server, and its client with all bits turned) and ISATAP (RFC 5214).
fn translated(six: Ipv6Addr) -> Vec<Ipv4Addr> {
    let four = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match six.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [0, 0, 0, 0, 0 | 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [_, _, _, _, 0 | 0x200, 0x5efe, high, low]
            // `::` and `::1` are addresses of IPv6.
            if high != 0 || six.segments()[..6] != [0; 6] =>
        {
            vec![four(high, low)]
        }
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            vec![four(server_high, server_low), four(!high, !low)]
        }
        _ => Vec::new(),
    }
}

/// Whether the operator's administrator allows a host although its addresses are refused.
pub fn is_allowed(host: &str, address: IpAddr, allowed: &[String]) -> bool {
    allowed.iter().any(|entry| entry.eq_ignore_ascii_case(host) || entry.parse() == Ok(address))
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, is_public, refused};

    #[test]
    fn what_is_behind_the_firewall_is_refused() {
        for (address, ok) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("100.100.100.200", false),
            ("168.63.129.16", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("::127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::", false),
            ("64:ff9b:1::7f00:1", false),
            ("64:ff9b:1:7f00:0:100::", false),
            ("64:ff9b:1::cb00:7101", false),
            ("2001:0:7f00:1::", false),
            ("2001:0:cb00:7101::80ff:fffe", false),
            ("2001:db8::5efe:127.0.0.1", false),
            ("2001:db8::200:5efe:169.254.169.254", false),
            ("64:ff9b::203.0.113.1", true),
            ("2002:cb00:7101::", true),
            ("10.0.0.1", true),
            ("192.168.1.1", true),
            ("203.0.113.1", true),
            ("2001:db8::1", true),
            ("fd00::1", true),
        ] {
            assert_eq!(refused(address.parse().unwrap()).is_none(), ok, "{address}");
        }
    }

    #[test]
    fn the_addresses_of_private_networks_are_not_public() {
        for (address, public) in [
            ("203.0.113.1", true),
            ("2001:db8::1", true),
            ("64:ff9b::203.0.113.1", true),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("fd00::1", false),
            ("::ffff:10.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }

    #[test]
    fn an_administrator_allows_names_and_addresses() {
        let allowed = ["mail.local".to_owned(), "127.0.0.1".to_owned()];
        let at = "127.0.0.1".parse().unwrap();
        assert!(is_allowed("anything", at, &allowed) && is_allowed("MAIL.local", "::1".parse().unwrap(), &allowed));
        assert!(!is_allowed("other", "::1".parse().unwrap(), &allowed));
    }
}
