//! Credentials for registries: Docker's `config.json`, which `helm registry login` writes too.

use super::http::Login;
use super::{SourceError, fail, user_home};
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Credentials that a registry may receive.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential {
    /// Name and password.
    pub login: Login,
    /// A token that is exchanged for others (`identitytoken`).
    pub refresh_token: String,
    /// A token for the registry itself (`registrytoken`).
    pub access_token: String,
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

impl Credential {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The credential for a registry's host: from Helm's file, else from Docker's.
pub fn find(registry_config: &Path, host: &str) -> Result<Credential, SourceError> {
    let host = if host == "registry-1.docker.io" { "https://index.docker.io/v1/" } else { host };
    for path in [registry_config.to_owned(), docker_config()] {
        let credential = in_file(&path, host)?;
        if !credential.is_empty() {
            return Ok(credential);
        }
    }
    Ok(Credential::default())
}

fn docker_config() -> PathBuf {
    let folder = std::env::var_os("DOCKER_CONFIG").filter(|v| !v.is_empty()).map(PathBuf::from);
    folder.unwrap_or_else(|| user_home().join(".docker")).join("config.json")
}

fn in_file(path: &Path, host: &str) -> Result<Credential, SourceError> {
    if !path.exists() {
        return Ok(Credential::default());
    }
    let name = path.display();
    let data = super::read(path).map_err(|e| SourceError(format!("failed to open config file at {name}: {e}")))?;
    if data.trim_ascii().is_empty() {
        return Ok(Credential::default());
    }
    let config: Map<String, Value> = serde_json::from_slice(&data)
        .map_err(|e| SourceError(format!("failed to decode config file {name}: invalid config format: {e}")))?;
    let helper = config.get("credHelpers").and_then(|h| h.get(host)).or_else(|| config.get("credsStore"));
    if let Some(helper) = helper.and_then(Value::as_str).filter(|h| !h.is_empty()) {
        return ask_helper(helper, host);
    }
    let Some(Value::Object(auths)) = config.get("auths") else { return Ok(Credential::default()) };
    let found = auths.get(host).or_else(|| auths.iter().find(|(key, _)| hostname(key) == host).map(|(_, v)| v));
    found.map_or(Ok(Credential::default()), |entry| read_entry(entry, path))
}

/// Old files have links for keys.
fn hostname(key: &str) -> &str {
    let key = key.strip_prefix("http://").unwrap_or(key);
    let key = key.strip_prefix("https://").unwrap_or(key);
    key.split('/').next().unwrap_or_default()
}

fn read_entry(entry: &Value, path: &Path) -> Result<Credential, SourceError> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut login = Login { username: text("username"), password: text("password") };
    let auth = text("auth");
    if !auth.is_empty() {
        let pair = data_encoding::BASE64.decode(auth.as_bytes()).ok().and_then(|b| String::from_utf8(b).ok());
        let pair = pair.as_deref().and_then(|p| p.split_once(':'));
        let Some((username, password)) = pair else {
            let name = path.display();
            return fail(format!(
                "failed to decode auth field: invalid config format: {name}: not base64(username:password)"
            ));
        };
        login = Login { username: username.into(), password: password.into() };
    }
    Ok(Credential { login, refresh_token: text("identitytoken"), access_token: text("registrytoken") })
}

/// Asks a program of Docker's credential helpers protocol (`docker-credential-NAME get`).
fn ask_helper(helper: &str, host: &str) -> Result<Credential, SourceError> {
    let program = format!("docker-credential-{helper}");
    let failed = |what: String| SourceError(format!("failed to execute {program}: {what}"));
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| failed(tillerman_render::chart::go_io(&e)))?;
    let mut stdin = child.stdin.take().expect("standard input was requested");
    let written = stdin.write_all(host.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        if text.trim() == "credentials not found in native keychain" {
            return Ok(Credential::default());
        }
        return Err(failed(output.status.to_string()));
    }
    written.map_err(|e| failed(e.to_string()))?;
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("its answer is not JSON".to_owned()))?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("Username") == "<token>" {
        return Ok(Credential { refresh_token: text("Secret"), ..Credential::default() });
    }
    Ok(Credential { login: Login { username: text("Username"), password: text("Secret") }, ..Credential::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_found_under_the_host_or_an_old_link_and_never_shown_when_it_is_wrong() {
        let folder = std::env::temp_dir().join(format!("tillerman-credentials-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("config.json");
        let auths = r#"{"auths": {"a.b:5000": {"auth": "dTpw"}, "https://c.d/v1/": {"username": "x", "password": "y"},
            "e.f": {"identitytoken": "t"}, "g.h": {"auth": "c2VjcmV0"}}}"#;
        std::fs::write(&path, auths).unwrap();
        let of = |host| in_file(&path, host);
        let login = |u: &str, p: &str| Login { username: u.into(), password: p.into() };
        assert_eq!(of("a.b:5000").unwrap().login, login("u", "p"));
        assert_eq!(of("c.d").unwrap().login, login("x", "y"));
        assert_eq!(of("e.f").unwrap().refresh_token, "t");
        assert!(of("a.b").unwrap().is_empty());
        let message = of("g.h").unwrap_err().0;
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(message.contains("base64(username:password)") && !message.contains("secret"), "{message}");
        assert_eq!(format!("{:?}", login("u", "p")), "Login(..)");
    }
}
