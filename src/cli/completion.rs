//! `tillerman completion`: scripts by which shells complete the command line.

use crate::cli::common::streams::print;
use clap_complete::Shell;

/// A shell.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell that reads the script.
    #[arg(value_parser = ["bash", "fish", "zsh"])]
    shell: String,
}

/// Prints the script: `source <(tillerman completion bash)`. `program` is the whole command line.
pub fn run(args: &CompletionArgs, program: &mut clap::Command) {
    let shell = match &*args.shell {
        "fish" => Shell::Fish,
        "zsh" => Shell::Zsh,
        _ => Shell::Bash,
    };
    let mut out = Vec::new();
    clap_complete::generate(shell, program, "tillerman", &mut out);
    print(&String::from_utf8_lossy(&out));
}
