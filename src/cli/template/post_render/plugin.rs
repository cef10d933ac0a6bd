//! Helm's plugins, for post-rendering only: found by name, run as programs.

use crate::chart::go_io;
use crate::cli::common::error::CliError;
use crate::cli::common::helm_log::log;
use crate::template::yaml;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The type of plugins that are post-renderers.
const TYPE: &str = "postrenderer/v1";
/// Go's names of this system and processor.
const OS: &str = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
const ARCH: &str = if cfg!(target_arch = "x86_64") {
    "amd64"
} else if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    std::env::consts::ARCH
};

/// A plugin that can be run.
pub struct Plugin {
    /// Its name; of a program, its path.
    pub name: String,
    folder: Option<PathBuf>,
    commands: Vec<PlatformCommand>,
}

/// `plugin.yaml`, in Helm 4's form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    runtime: String,
    #[serde(default)]
    runtime_config: Option<RuntimeConfig>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuntimeConfig {
    platform_command: Vec<PlatformCommand>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct PlatformCommand {
    os: String,
    arch: String,
    command: String,
    args: Vec<String>,
}

impl Plugin {
    /// A program at a path.
    pub fn program(path: &str) -> Self {
        Self { name: path.to_owned(), folder: None, commands: Vec::new() }
    }

    /// The post-renderer of this name in the folders of `HELM_PLUGINS`, or of Helm's data.
    pub fn find(name: &str) -> Result<Self, CliError> {
        let folders = std::env::var_os("HELM_PLUGINS").map_or_else(
            || vec![crate::source::data_home().join("plugins")],
            |list| std::env::split_paths(&list).collect(),
        );
        let mut found = None;
        for folder in folders {
            found = found.or(find_in(&folder, name)?);
        }
        let (metadata, folder) = found.ok_or_else(|| format!("plugin: {{Name:{name} Type:{TYPE}}} not found"))?;
        if metadata.runtime != "subprocess" {
            return Err(format!(
                "plugin {name:?} needs the runtime {:?}; only plugins of the runtime \"subprocess\" can be run",
                metadata.runtime
            )
            .into());
        }
        let commands = metadata.runtime_config.unwrap_or_default().platform_command;
        Ok(Self { name: metadata.name, folder: Some(folder), commands })
    }

    /// Passes a text to the program; returns its output. Its standard error is not shown, as in Helm.
    pub fn run(&self, args: &[String], input: &str) -> Result<String, CliError> {
        let mut command = self.command()?;
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| unstarted(&command, &e))?;
        let mut stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // A program need not read all of its input.
            scope.spawn(move || stdin.as_mut().map(|pipe| pipe.write_all(input.as_bytes())));
            child.wait_with_output()
        });
        let output = output.map_err(|e| go_io(&e))?;
        if !output.status.success() {
            return Err(format!("plugin {:?} exited with error", self.name).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Result<Command, CliError> {
        let Some(folder) = &self.folder else { return Ok(Command::new(&self.name)) };
        let mut env: HashMap<String, String> = std::env::vars().collect();
        env.insert("HELM_PLUGIN_NAME".into(), self.name.clone());
        env.insert("HELM_PLUGIN_DIR".into(), folder.display().to_string());
        let chosen = choose(&self.commands).filter(|chosen| !chosen.command.split(' ').next().unwrap_or("").is_empty());
        let chosen = chosen.ok_or("failed to prepare plugin command: no plugin command is applicable")?;
        let mut words =
            chosen.command.split(' ').chain(chosen.args.iter().map(String::as_str)).map(|w| expand(w, &env));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(&env);
        Ok(command)
    }
}

/// The plugin of a name in a folder of plugins. Plugins that cannot be read are reported and left out.
fn find_in(folder: &Path, name: &str) -> Result<Option<(Metadata, PathBuf)>, CliError> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|p| p.join("plugin.yaml").exists()).collect();
    paths.sort();
    let mut seen: HashMap<String, PathBuf> = HashMap::new();
    let mut found = None;
    for path in paths {
        let file = path.join("plugin.yaml").display().to_string();
        let metadata = match load(&path) {
            Ok(metadata) => metadata,
            Err(e) => {
                log("WARN", "failed to load plugin (ignoring)", &[("plugin_yaml", &file), ("error", &e.0)]);
                continue;
            }
        };
        if let Some(other) = seen.insert(metadata.name.clone(), path.clone()) {
            let (name, other, path) = (&metadata.name, other.display().to_string(), path.display().to_string());
            return Err(format!("two plugins claim the name {name:?} at {other:?} and {path:?}").into());
        }
        if found.is_none() && metadata.name == name && metadata.kind == TYPE {
            found = Some((metadata, path));
        }
    }
    Ok(found)
}

fn load(folder: &Path) -> Result<Metadata, CliError> {
    let (file, shown) = (folder.join("plugin.yaml"), folder.display().to_string());
    let data = std::fs::read(&file).map_err(|e| {
        format!("failed to read plugin at {:?}: open {}: {}", file.display().to_string(), file.display(), go_io(&e))
    })?;
    let failed = |e: &dyn Display| format!("failed to load plugin {shown:?}: {e}");
    let parsed = yaml::parse(&data).map_err(|e| failed(&e))?;
    let metadata: Metadata = serde_json::from_value(parsed).map_err(|e| failed(&e))?;
    check(&metadata).map_err(|e| failed(&e))?;
    Ok(metadata)
}

fn check(metadata: &Metadata) -> Result<(), CliError> {
    match metadata.api_version.as_str() {
        "v1" => {}
        // Plugins of Helm 3 are not post-renderers and are ignored.
        "" => return Ok(()),
        other => return Err(format!("invalid plugin apiVersion: {other:?}").into()),
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let missing = if metadata.name.is_empty() || !metadata.name.chars().all(allowed) {
        "invalid plugin `name`"
    } else if metadata.version.is_empty() {
        "plugin `version` is required"
    } else if metadata.kind.is_empty() {
        "`type` missing"
    } else if metadata.runtime.is_empty() {
        "`runtime` missing"
    } else {
        return Ok(());
    };
    Err(missing.into())
}

/// The command for this system: the one for its processor, else the system's, else the one for all.
fn choose(commands: &[PlatformCommand]) -> Option<&PlatformCommand> {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let exact = commands.iter().find(|c| same(&c.os, OS) && same(&c.arch, ARCH));
    let os = || commands.iter().find(|c| same(&c.os, OS) && c.arch.is_empty());
    exact.or_else(os).or_else(|| commands.iter().find(|c| c.os.is_empty() && c.arch.is_empty()))
}

/// Go's `os.Expand`: `$NAME` and `${NAME}`; an unset variable is empty.
fn expand(text: &str, env: &HashMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let name = if let Some((name, behind)) = braced {
            rest = behind;
            name
        } else {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            rest = &rest[end..];
            if name.is_empty() {
                out.push('$');
            }
            name
        };
        out.push_str(env.get(name).map_or("", String::as_str));
    }
    out.push_str(rest);
    out
}

/// Go's words for a program that cannot be started.
fn unstarted(command: &Command, error: &std::io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    if program.contains('/') {
        return format!("fork/exec {program}: {}", go_io(error));
    }
    format!("exec: {program:?}: executable file not found in $PATH")
}

#[cfg(test)]
mod tests {
    use super::{HashMap, OS, PlatformCommand, choose, expand};

    #[test]
    fn variables_are_expanded_as_gos_expand_does() {
        let env = HashMap::from([("A".to_owned(), "x".to_owned())]);
        assert_eq!(expand("$A/${A}b/$NONE/$A-c", &env), "x/xb//x-c");
    }

    #[test]
    fn the_command_of_the_system_goes_before_the_one_for_all() {
        let command = |os: &str, command: &str| PlatformCommand {
            os: os.into(),
            command: command.into(),
            ..PlatformCommand::default()
        };
        let commands = [command("", "all"), command(OS, "ours"), command("plan9", "other")];
        assert_eq!(choose(&commands).map(|c| c.command.as_str()), Some("ours"));
        assert_eq!(choose(&commands[..1]).map(|c| c.command.as_str()), Some("all"));
        assert!(choose(&commands[2..]).is_none());
    }
}
