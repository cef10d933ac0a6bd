//! Which ordinal a URL belongs to. The peer URL is the key of a member: its name is empty until it has started, and its ID changes
//! whenever it is replaced.

/// A URL with `$(POD)` or `$(ORDINAL)` in its host, such as `https://$(POD).etcd-peer.ns.svc:2380`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// The host before and after the ordinal, for one StatefulSet.
    before: String,
    after: String,
}

impl Pattern {
    /// A pattern for the pods of a StatefulSet of this name.
    ///
    /// Fails, with what is wrong, when the host does not tell the pods apart.
    pub fn new(text: &str, stateful_set: &str) -> Result<Self, String> {
        if !(text.starts_with("http://") || text.starts_with("https://")) {
            return Err(format!("{text:?} is not a URL of http or https"));
        }
        let resolved = text.replace("$(POD)", &format!("{stateful_set}-$(ORDINAL)"));
        match host(&resolved).split("$(ORDINAL)").collect::<Vec<_>>()[..] {
            [before, after] => Ok(Self { before: before.into(), after: after.into(), text: resolved }),
            _ => Err(format!("the host of {text:?} must have $(POD) or $(ORDINAL) once")),
        }
    }

    /// The URL of the pod of an ordinal.
    pub fn url(&self, ordinal: u32) -> String {
        self.text.replace("$(ORDINAL)", &ordinal.to_string())
    }

    /// The ordinal whose host a URL has. Scheme and port do not count, as both change when a cluster is given certificates.
    pub fn ordinal(&self, url: &str) -> Option<u32> {
        let digits = host(url).strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        digits.parse().ok().filter(|ordinal: &u32| ordinal.to_string() == digits)
    }
}

/// The host of a URL, without brackets.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn urls_are_mapped_to_ordinals_by_their_host_alone() {
        let pattern = Pattern::new("https://$(POD).peer.ns.svc:2380", "my-etcd").unwrap();
        assert_eq!(pattern.url(11), "https://my-etcd-11.peer.ns.svc:2380");
        assert_eq!(pattern.ordinal("https://my-etcd-11.peer.ns.svc:2380"), Some(11));
        assert_eq!(pattern.ordinal("http://my-etcd-2.peer.ns.svc:7001"), Some(2));
        for foreign in
            ["https://other-1.peer.ns.svc:2380", "https://my-etcd-01.peer.ns.svc", "https://my-etcd-.peer.ns.svc", ""]
        {
            assert_eq!(pattern.ordinal(foreign), None, "{foreign}");
        }
        let pattern = Pattern::new("http://127.1.2.$(ORDINAL):2379", "e").unwrap();
        assert_eq!(pattern.ordinal("http://127.1.2.30:2379"), Some(30));
        assert_eq!(Pattern::new("http://[fd00::$(ORDINAL)]:1", "e").unwrap().ordinal("http://[fd00::7]:1"), Some(7));
    }

    #[test]
    fn a_pattern_tells_pods_apart() {
        for wrong in ["https://etcd:2380", "$(POD):2380", "https://etcd/$(POD)", "https://$(POD)-$(ORDINAL).x:1"] {
            assert!(Pattern::new(wrong, "etcd").is_err(), "{wrong}");
        }
    }
}
