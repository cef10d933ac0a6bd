//! Directives, tags and anchors.

use super::Fallible;
use super::scanner::{Scanner, TagParts, Token};

fn is_alpha(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl<'a> Scanner<'a> {
    /// The letters, digits, `_` and `-` from here.
    fn name(&mut self) -> Fallible<&'a str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&b| !is_alpha(b)).unwrap_or(rest.len());
        let from = self.at;
        self.go_to(from + length, 1)?;
        Ok(self.slice(from, from + length))
    }

    fn skip_blanks(&mut self) -> Fallible<()> {
        while self.is_blank() {
            self.at += 1;
            self.ensure(1)?;
        }
        Ok(())
    }

    /// The name of an anchor or alias, whose indicator is here.
    pub(super) fn anchor(&mut self) -> Fallible<&'a str> {
        self.at += 1;
        self.ensure(1)?;
        let name = self.name()?;
        let ends = self.is_blankz(0) || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return self.fail("did not find expected alphabetic or numeric character");
        }
        Ok(name)
    }

    pub(super) fn directive(&mut self) -> Fallible<Token> {
        self.at += 1;
        self.ensure(1)?;
        let name = self.name()?;
        if name.is_empty() {
            return self.fail("could not find expected directive name");
        }
        if !self.is_blankz(0) {
            return self.fail("found unexpected non-alphabetical character");
        }
        let token = match name {
            "YAML" => self.version()?,
            "TAG" => self.tag_directive()?,
            _ => return self.fail("found unknown directive name"),
        };
        self.ensure(1)?;
        self.skip_blanks()?;
        if self.byte(0) == b'#' {
            self.skip_comment()?;
        }
        if !self.is_breakz() {
            return self.fail("did not find expected comment or line break");
        }
        if self.is_break() {
            self.ensure(2)?;
            self.skip_line();
        }
        Ok(token)
    }

    fn version(&mut self) -> Fallible<Token> {
        self.ensure(1)?;
        self.skip_blanks()?;
        let major = self.version_number()?;
        if self.byte(0) != b'.' {
            return self.fail("did not find expected digit or '.' character");
        }
        self.at += 1;
        Ok(Token::Version(major, self.version_number()?))
    }

    fn version_number(&mut self) -> Fallible<u8> {
        self.ensure(1)?;
        let (mut number, mut length) = (0, 0);
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return self.fail("found extremely long version number");
            }
            number = number * 10 + (self.byte(0) - b'0');
            self.at += 1;
            self.ensure(1)?;
        }
        if length == 0 {
            return self.fail("did not find expected version number");
        }
        Ok(number)
    }

    fn tag_directive(&mut self) -> Fallible<Token> {
        self.ensure(1)?;
        self.skip_blanks()?;
        let handle = self.tag_handle(true)?;
        self.ensure(1)?;
        if !self.is_blank() {
            return self.fail("did not find expected whitespace");
        }
        self.skip_blanks()?;
        let prefix = self.tag_uri(b"")?;
        self.ensure(1)?;
        if !self.is_blankz(0) {
            return self.fail("did not find expected whitespace or line break");
        }
        self.push_tag((handle, prefix));
        Ok(Token::TagDirective)
    }

    /// The handle and the suffix of the tag that is here.
    pub(super) fn tag(&mut self) -> Fallible<TagParts> {
        self.ensure(2)?;
        let (handle, suffix) = if self.byte(1) == b'<' {
            self.at += 2;
            let suffix = self.tag_uri(b"")?;
            if self.byte(0) != b'>' {
                return self.fail("did not find the expected '>'");
            }
            self.at += 1;
            (Vec::new(), suffix)
        } else {
            let handle = self.tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with(b"!") {
                let suffix = self.tag_uri(b"")?;
                (handle, suffix)
            } else {
                match self.tag_uri(&handle)? {
                    suffix if suffix.is_empty() => (suffix, handle),
                    suffix => (b"!".to_vec(), suffix),
                }
            }
        };
        self.ensure(1)?;
        if !self.is_blankz(0) {
            return self.fail("did not find expected whitespace or line break");
        }
        Ok((handle, suffix))
    }

    fn tag_handle(&mut self, directive: bool) -> Fallible<Vec<u8>> {
        self.ensure(1)?;
        if self.byte(0) != b'!' {
            return self.fail("did not find expected '!'");
        }
        let mut handle = b"!".to_vec();
        self.at += 1;
        self.ensure(1)?;
        handle.extend_from_slice(self.name()?.as_bytes());
        if self.byte(0) == b'!' {
            handle.push(b'!');
            self.at += 1;
        } else if directive && handle != b"!" {
            return self.fail("did not find expected '!'");
        }
        Ok(handle)
    }

    /// The rest of a tag, behind what was taken for a handle.
    fn tag_uri(&mut self, head: &[u8]) -> Fallible<Vec<u8>> {
        let mut uri = head.get(1..).unwrap_or_default().to_vec();
        let mut found = !head.is_empty();
        self.ensure(1)?;
        loop {
            match self.byte(0) {
                b'%' => self.uri_escape(&mut uri)?,
                byte if is_alpha(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    uri.push(byte);
                    self.at += 1;
                }
                _ => break,
            }
            self.ensure(1)?;
            found = true;
        }
        if found { Ok(uri) } else { self.fail("did not find expected tag URI") }
    }

    /// One escaped character of a tag.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Fallible<()> {
        let mut left = None;
        while left != Some(0) {
            self.ensure(3)?;
            let digit = |ahead| char::from(self.byte(ahead)).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (b'%', Some(high), Some(low)) = (self.byte(0), digit(1), digit(2)) else {
                return self.fail("did not find URI escaped octet");
            };
            let octet = high << 4 | low;
            left = Some(match left {
                Some(_) if octet & 0xC0 != 0x80 => return self.fail("found an incorrect trailing UTF-8 octet"),
                Some(left) => left - 1,
                None => match octet {
                    0..=0x7F => 0,
                    0xC0..=0xDF => 1,
                    0xE0..=0xEF => 2,
                    0xF0..=0xF7 => 3,
                    _ => return self.fail("found an incorrect leading UTF-8 octet"),
                },
            });
            uri.push(octet);
            self.at += 3;
        }
        Ok(())
    }
}
