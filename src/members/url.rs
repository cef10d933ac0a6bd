//! Maps URLs to ordinals. The peer URL is the key of a member: its name is empty until it has started, and its ID
//! changes whenever it is replaced.

use serde_json::Value;

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
    /// The error says what is wrong if the host does not distinguish the pods.
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

    /// The host of the pod of an ordinal.
    pub fn host(&self, ordinal: u32) -> String {
        host(&self.url(ordinal)).to_owned()
    }

    /// The same URL with `https` or `http`, whatever the scheme of the pattern is.
    pub fn url_by(&self, ordinal: u32, secure: bool) -> String {
        let url = self.url(ordinal);
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        format!("{}://{rest}", if secure { "https" } else { "http" })
    }

    /// The ordinal whose host a URL has. Scheme and port are ignored, since both change when a cluster gets
    /// certificates.
    pub fn ordinal(&self, url: &str) -> Option<u32> {
        let digits = host(url).strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        digits.parse().ok().filter(|ordinal: &u32| ordinal.to_string() == digits)
    }
}

/// The variables and the flags with the URLs at which clients reach etcd and at which it listens for them. Flags
/// override variables.
const CLIENT_URLS: [(&str, &str); 2] =
    [("ETCD_ADVERTISE_CLIENT_URLS", "advertise-client-urls"), ("ETCD_LISTEN_CLIENT_URLS", "listen-client-urls")];

/// Whether clients reach a pod's first container over TLS; `None` if its variables and flags do not show it. A pod
/// keeps the template that it was created from, while the StatefulSet may have changed from `http` to `https`.
pub fn takes_tls(pod: &Value) -> Option<bool> {
    let container = pod.pointer("/spec/containers/0")?;
    let list = |key: &str| container.get(key).and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = list("command").chain(list("args")).filter_map(Value::as_str).collect();
    CLIENT_URLS.iter().find_map(|(variable, flag)| {
        let of_flag =
            words.iter().enumerate().find_map(|(at, word)| match word.trim_start_matches('-').strip_prefix(flag)? {
                "" => words.get(at + 1).copied(),
                rest => rest.strip_prefix('='),
            });
        let is_it = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(variable);
        let of_variable = || list("env").find(is_it)?.get("value")?.as_str();
        let urls = of_flag.or_else(of_variable)?;
        let secure = |url: &str| url.trim().starts_with("https://");
        let first = secure(urls);
        // With both schemes, it is unknown which one clients use.
        urls.split(',').all(|url| secure(url) == first).then_some(first)
    })
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
    use super::{Pattern, takes_tls};
    use serde_json::json;

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
    fn a_pod_says_by_which_scheme_it_is_reached() {
        let env = |name: &str, value: &str| json!({"env": [{"name": "A"}, {"name": name, "value": value}]});
        let table = [
            (env("ETCD_LISTEN_CLIENT_URLS", "https://0.0.0.0:2379"), Some(true)),
            (env("ETCD_LISTEN_CLIENT_URLS", "http://0.0.0.0:2379,http://[::]:2379"), Some(false)),
            (env("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:2379,https://0.0.0.0:2379"), None),
            (env("ETCD_ADVERTISE_CLIENT_URLS", "https://$(POD_NAME).e:2379"), Some(true)),
            (
                json!({"env": [{"name": "ETCD_LISTEN_CLIENT_URLS", "value": "http://127.0.0.1:2379,https://0.0.0.0:2379"},
                    {"name": "ETCD_ADVERTISE_CLIENT_URLS", "value": "https://e:2379"}]}),
                Some(true),
            ),
            (env("ETCD_LISTEN_PEER_URLS", "https://0.0.0.0:2380"), None),
            (json!({"env": [{"name": "ETCD_LISTEN_CLIENT_URLS", "valueFrom": {}}]}), None),
            (json!({"command": ["etcd", "--listen-client-urls=https://0.0.0.0:2379"]}), Some(true)),
            (json!({"args": ["-listen-client-urls", "http://0.0.0.0:2379"]}), Some(false)),
            (
                json!({"args": ["--listen-client-urls=https://0.0.0.0:2379"],
                    "env": [{"name": "ETCD_LISTEN_CLIENT_URLS", "value": "http://0.0.0.0:2379"}]}),
                Some(true),
            ),
            (json!({"args": ["--listen-client-urls-x=https://a:1"]}), None),
            (json!({}), None),
        ];
        for (container, expected) in table {
            let pod = json!({"spec": {"containers": [container]}});
            assert_eq!(takes_tls(&pod), expected, "{pod}");
        }
        let pattern = Pattern::new("https://$(POD).peer.ns.svc:2379", "e").unwrap();
        assert_eq!(pattern.url_by(1, false), "http://e-1.peer.ns.svc:2379");
        assert_eq!(pattern.url_by(1, true), pattern.url(1));
    }

    #[test]
    fn a_pattern_tells_pods_apart() {
        for wrong in ["https://etcd:2380", "$(POD):2380", "https://etcd/$(POD)", "https://$(POD)-$(ORDINAL).x:1"] {
            assert!(Pattern::new(wrong, "etcd").is_err(), "{wrong}");
        }
    }
}
