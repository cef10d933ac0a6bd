//! The files `credentials` and `config` of AWS's command line.

use std::path::Path;

use super::BackupError;

/// The settings of a profile in the files.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Profile {
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    pub session_token: Option<String>,
    pub region: Option<String>,
    pub endpoint: Option<String>,
}

impl Profile {
    /// Reads a profile from two files, of which either may be missing. The first file takes precedence.
    pub fn read(name: &str, credentials: Option<&Path>, config: Option<&Path>) -> Result<Self, BackupError> {
        let mut profile = Self::default();
        for (path, heads) in [
            (credentials, vec![name.to_owned()]),
            // In `config`, sections other than `default` have the word before their name.
            (config, vec![format!("profile {name}"), name.to_owned()]),
        ] {
            let Some(path) = path else { continue };
            let text = std::fs::read_to_string(path).map_err(BackupError::file(path))?;
            profile.add(&text, &heads);
        }
        Ok(profile)
    }

    fn add(&mut self, text: &str, heads: &[String]) {
        let mut inside = false;
        for line in text.lines() {
            // Lines that are indented belong to a setting that has several.
            if line.starts_with([' ', '\t', '#', ';']) {
                continue;
            }
            if let Some(head) = line.trim_end().strip_prefix('[').and_then(|head| head.strip_suffix(']')) {
                let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
                inside = heads.contains(&head);
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| inside) else { continue };
            let field = match key.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => &mut self.access_key_id,
                "aws_secret_access_key" => &mut self.secret_access_key,
                "aws_session_token" => &mut self.session_token,
                "region" => &mut self.region,
                "endpoint_url" => &mut self.endpoint,
                _ => continue,
            };
            let value = value.trim();
            if field.is_none() && !value.is_empty() {
                *field = Some(value.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Profile;

    fn of(text: &str, heads: &[&str]) -> Profile {
        let mut profile = Profile::default();
        profile.add(text, &heads.iter().map(ToString::to_string).collect::<Vec<_>>());
        profile
    }

    #[test]
    fn a_profile_is_what_is_below_its_name() {
        let text = "# mine\n[default]\naws_access_key_id = A\r\naws_secret_access_key=b=c\ns3 =\n  region = deep\n\n[other]\nregion = r2\n";
        let default = of(text, &["default"]);
        assert_eq!(default.access_key_id.as_deref(), Some("A"));
        assert_eq!(default.secret_access_key.as_deref(), Some("b=c"));
        assert!(default.region.is_none());
        assert_eq!(of(text, &["profile other", "other"]).region.as_deref(), Some("r2"));
        assert_eq!(of("[profile  x]\nregion = r3", &["profile x", "x"]).region.as_deref(), Some("r3"));
        assert!(of("region = nowhere", &["default"]) == Profile::default());
    }

    #[test]
    fn what_was_said_first_counts() {
        let mut profile = of("[default]\nregion = one", &["default"]);
        profile.add("[default]\nregion = two\nendpoint_url = http://s3", &["default".to_owned()]);
        assert_eq!(profile.region.as_deref(), Some("one"));
        assert_eq!(profile.endpoint.as_deref(), Some("http://s3"));
    }
}
