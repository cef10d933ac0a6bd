//! Helm's log.

use crate::source::logged;

/// A line of Helm's log on standard error; `more` are its fields.
pub fn log(level: &str, message: &str, more: &[(&str, &str)]) {
    let mut fields = String::new();
    for (key, value) in more {
        fields.extend([" ", key, "=", &logged(value)]);
    }
    eprintln!("level={level} msg={}{fields}", logged(message));
}
