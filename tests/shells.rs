//! What shells and `man` make of `tillerman completion` and `tillerman man`.

use std::fs;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tillerman");

fn printed(program: &str, arguments: &[&str]) -> String {
    let run = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(run.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_their_flags() {
    for (words, expected) in
        [("tillerman rol", "rollback"), ("tillerman rollback --ye", "--yes"), ("tillerman completion b", "bash")]
    {
        let script = format!(
            "source <({PROGRAM} completion bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _tillerman tillerman \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\""
        );
        let found = printed("bash", &["-c", &script]);
        assert!(found.split_whitespace().any(|word| word == expected), "{words}: {found}");
    }
}

/// The other shells are not on every machine. Where one is, it reads its script.
#[test]
fn zsh_and_fish_have_scripts_that_name_each_command() {
    for (shell, check) in [("zsh", "-n"), ("fish", "-n")] {
        let script = printed(PROGRAM, &["completion", shell]);
        for command in ["rollback", "completion", "migrate"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
        let file = std::env::temp_dir().join(format!("tillerman-{}.{shell}", std::process::id()));
        fs::write(&file, &script).unwrap();
        let read = Command::new(shell).arg(check).arg(&file).stderr(Stdio::piped()).output();
        let _ = fs::remove_file(&file);
        if let Ok(read) = read {
            assert!(read.status.success(), "{shell}: {}", String::from_utf8_lossy(&read.stderr));
        }
    }
    let wrong = Command::new(PROGRAM).args(["completion", "tcsh"]).output().unwrap();
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("bash, fish, zsh"));
}

#[test]
fn each_command_has_a_manual_page() {
    let folder = std::env::temp_dir().join(format!("tillerman-man-{}", std::process::id()));
    printed(PROGRAM, &["man", "--output", folder.to_str().unwrap()]);
    let page =
        |name: &str| fs::read_to_string(folder.join(format!("{name}.1"))).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(page("tillerman"), printed(PROGRAM, &["man"]));
    let help = printed(PROGRAM, &["--help"]);
    let commands = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<_> =
        commands.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names.iter().filter(|name| !["help", "man"].contains(name)) {
        let text = page(&format!("tillerman-{name}"));
        assert!(text.contains(".SH SYNOPSIS") && text.contains(".SH OPTIONS"), "{name}: {text}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
