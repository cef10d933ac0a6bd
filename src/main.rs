//! The command `tillerman`.

fn main() -> std::process::ExitCode {
    tillerman::cli::main()
}
