//! Opens the user's browser.

use std::process::{Command, Stdio};

/// Programs that open a link, in the order in which they are tried.
const OPENERS: &[&str] = if cfg!(target_os = "macos") { &["open"] } else { &["xdg-open", "wslview", "gio"] };

/// Opens a link. The user has it on the terminal, so a browser that does not start is not an error.
pub fn open(link: &str) {
    let started = OPENERS.iter().any(|opener| {
        let mut command = Command::new(opener);
        if *opener == "gio" {
            command.arg("open");
        }
        command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The thread waits for the opener, so that it does not remain as a zombie.
        command.spawn().map(|mut child| std::thread::spawn(move || child.wait())).is_ok()
    });
    if !started {
        eprintln!("note: no browser could be opened: open the link by hand");
    }
}
