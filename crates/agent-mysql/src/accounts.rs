//! The accounts of members: names, hashes, and whom a primary admits. Texts of SQL are made of checked names and hashes only.

use tillerman_agent::names::is_member;

/// The agent's own account.
pub const AGENT: &str = "tillerman-agent";
/// Accounts of members that acknowledge begin with it.
const ACKNOWLEDGES: &str = "tillerman.ack.";
/// Accounts of members that follow, and acknowledge nothing.
const READS: &str = "tillerman.read.";

/// The account with which a member follows.
pub fn of(member: &str, acknowledges: bool) -> String {
    format!("{}{member}", if acknowledges { ACKNOWLEDGES } else { READS })
}

/// The member that an account of a follower is of, and whether it acknowledges.
pub fn member(account: &str) -> Option<(&str, bool)> {
    let (name, acknowledges) = match account.strip_prefix(ACKNOWLEDGES) {
        Some(name) => (name, true),
        None => (account.strip_prefix(READS)?, false),
    };
    is_member(name).then_some((name, acknowledges))
}

/// Statements that admit members, without the binary log, as every primary does it for itself. `REPLICATION SLAVE` lets them follow,
/// and nothing else. `identified` is the text after `IDENTIFIED`.
pub fn admit(members: &[String], identified: &str, tls: bool) -> Vec<String> {
    let require = if tls { "X509" } else { "NONE" };
    let accounts = members.iter().filter(|name| is_member(name)).flat_map(|name| [of(name, true), of(name, false)]);
    accounts
        .flat_map(|account| {
            [
                format!("CREATE USER IF NOT EXISTS '{account}'@'%' ACCOUNT LOCK"),
                format!("GRANT REPLICATION SLAVE ON *.* TO '{account}'@'%'"),
                format!("ALTER USER '{account}'@'%' IDENTIFIED {identified} REQUIRE {require} ACCOUNT UNLOCK"),
            ]
        })
        .collect()
}

/// The accounts that members must no longer use.
pub fn refused<'a>(accounts: &'a [String], admitted: &[String]) -> Vec<&'a str> {
    let is_refused = |account: &&String| member(account).is_some_and(|(name, _)| !admitted.iter().any(|n| n == name));
    accounts.iter().filter(is_refused).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::{admit, member, of, refused};
    use tillerman_agent::names::{is_host, is_member};

    #[test]
    fn names_that_reach_a_statement_are_dns_names() {
        for name in ["db-0", "a", "0"] {
            assert!(is_member(name) && is_host(name), "{name}");
            assert_eq!(member(&of(name, true)), Some((name, true)));
            assert_eq!(member(&of(name, false)), Some((name, false)));
        }
        for name in ["", "-a", "a-", "a'b", "a b", "a`", "A_b", "a\\", &"a".repeat(64)] {
            assert!(!is_member(name) && !is_host(name), "{name}");
        }
        assert!(
            is_host("db-0.db.ns.svc") && is_host("127.0.0.2") && is_host("::1") && !is_host("a..b") && !is_host("a/b")
        );
        assert!(member("app").is_none() && member("tillerman.ack.").is_none());
        assert_eq!(admit(&["a'b".into()], "*A", true), Vec::<String>::new());
    }

    #[test]
    fn accounts_of_others_are_refused() {
        let accounts = ["tillerman.ack.a", "tillerman.read.a", "tillerman.ack.b", "app"].map(str::to_owned);
        assert_eq!(refused(&accounts, &["b".into()]), ["tillerman.ack.a", "tillerman.read.a"]);
        assert_eq!(refused(&accounts, &["a".into(), "b".into()]), Vec::<&str>::new());
    }
}
