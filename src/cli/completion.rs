//! `tillerman completion`: scripts by which shells complete the command line.

use super::chart_path::print;
use clap_complete::Shell;

/// A shell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell that reads the script.
    #[arg(value_parser = ["bash", "fish", "zsh"])]
    shell: String,
}

/// Prints the script: `source <(tillerman completion bash)`.
pub fn run(args: &Args) {
    let shell = match &*args.shell {
        "fish" => Shell::Fish,
        "zsh" => Shell::Zsh,
        _ => Shell::Bash,
    };
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut super::whole(), "tillerman", &mut out);
    print(&String::from_utf8_lossy(&out));
}
