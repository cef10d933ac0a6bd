//! Standard output and standard error: texts, and the messages of what fetches charts.

use crate::source::Messages;
use std::io::Write as _;

/// Text to standard output, at once.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // A reader may close its end early. The work continues.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Text to standard error.
pub fn print_error(text: &str) {
    eprint!("{text}");
}

/// Messages as `helm pull` and `helm dependency` print them.
pub const ON_OUTPUT: Messages<'static> = Messages { out: &print, registry: &print, warn: &print_error };
/// Messages as `helm template` prints them, whose standard output is the manifest.
pub const ON_ERROR: Messages<'static> = Messages { out: &print, registry: &print_error, warn: &print_error };
