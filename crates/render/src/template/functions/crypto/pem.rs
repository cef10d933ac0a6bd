//! PEM as Go's `encoding/pem` reads and writes it, which is laxer than RFC 7468: text around the block, headers,
//! and lines of any length are accepted.

use super::super::encoding;

/// The content between a pair of armour lines.
#[derive(Debug)]
pub struct Block {
    /// The words after `BEGIN`.
    pub label: String,
    /// The decoded bytes.
    pub bytes: Vec<u8>,
}

impl Block {
    pub fn new(label: &str, bytes: Vec<u8>) -> Self {
        Self { label: label.into(), bytes }
    }

    /// The armoured text, 64 characters a line.
    pub fn encode(&self) -> String {
        let label = &self.label;
        let body = encoding::encode(&self.bytes);
        let mut text = format!("-----BEGIN {label}-----\n");
        for line in body.as_bytes().chunks(64) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text + &format!("-----END {label}-----\n")
    }

    /// The first well-formed block of a text. Go looks for an `END` line, then for the last `BEGIN` line before it,
    /// so it skips a broken block.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let mut from = 0;
        loop {
            let end = from + find(&text[from..], b"\n-----END ")?;
            let next = end + b"\n-----END ".len();
            if let Some(begin) = rfind(&text[from..end], b"-----BEGIN ") {
                let begin = from + begin;
                let starts_line = begin == from && from == 0 || begin > 0 && text[begin - 1] == b'\n';
                if starts_line
                    && let Some(block) = Self::between(&text[begin + b"-----BEGIN ".len()..end], &text[next..])
                {
                    return Some(block);
                }
            }
            from = next;
        }
    }

    /// Reads a block from what follows `BEGIN ` up to the line break before the `END` line, and what follows `END `.
    fn between(head: &[u8], tail: &[u8]) -> Option<Self> {
        let (first, mut body) = line(head);
        let label = first.strip_suffix(b"-----")?;
        let rest = tail.strip_prefix(label)?.strip_prefix(b"-----")?;
        if !line(rest).0.is_empty() {
            return None;
        }
        // Header lines are those with a colon, which base64 has not.
        while let (header, rest) = line(body)
            && header.contains(&b':')
        {
            body = rest;
        }
        let dense: Vec<u8> = body.iter().copied().filter(|b| !matches!(b, b' ' | b'\t')).collect();
        let bytes = encoding::decode(&dense).ok()?;
        Some(Self { label: String::from_utf8_lossy(label).into_owned(), bytes })
    }
}

/// The first line without white space at its end, and what comes after it.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match text.iter().position(|b| *b == b'\n') {
        Some(at) => (text[..at].strip_suffix(b"\r").unwrap_or(&text[..at]), &text[at + 1..]),
        None => (text, &[][..]),
    };
    let blank = line.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
    (&line[..line.len() - blank], rest)
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

fn rfind(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|w| w == what)
}
