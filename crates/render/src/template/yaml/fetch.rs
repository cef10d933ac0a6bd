//! From characters to tokens: simple keys, indentation, indicators.

use super::reader::characters;
use super::scanner::{MAX_KEY, Scanner, SimpleKey, Token};
use super::{Fallible, MAX_LEVELS};

impl Scanner<'_> {
    pub(super) fn fetch_more(&mut self) -> Fallible<()> {
        while self.tokens.is_empty() || self.head_may_be_key()? {
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    /// Whether the next token may turn out to be a simple key.
    fn head_may_be_key(&mut self) -> Fallible<bool> {
        // The numbers grow with the level.
        let from = if self.keys.len() == 1 { 0 } else { self.keys.partition_point(|key| key.token < self.taken) };
        for level in from..self.keys.len() {
            let key = self.keys[level];
            if key.token != self.taken {
                break;
            }
            if key.awaited && key.possible {
                return self.is_valid(level);
            }
        }
        Ok(false)
    }

    fn is_valid(&mut self, level: usize) -> Fallible<bool> {
        let key = self.keys[level];
        if !key.possible {
            return Ok(false);
        }
        let length = self.at.saturating_sub(key.at);
        let is_long =
            || length > 4 * MAX_KEY || self.bytes.get(key.at..self.at).is_some_and(|k| characters(k) > MAX_KEY);
        if key.line < self.line || length > MAX_KEY && is_long() {
            if key.required {
                return self.fail("could not find expected ':'");
            }
            self.keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self, column: isize) -> Fallible<()> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = self.flow_level == 0 && self.indent == column;
        self.remove_key()?;
        let token = self.taken + self.tokens.len();
        let key = SimpleKey { possible: true, required, awaited: true, token, at: self.at, line: self.line, column };
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Fallible<()> {
        if let Some(key) = self.keys.last_mut().filter(|key| key.possible) {
            if key.required {
                return self.fail("could not find expected ':'");
            }
            self.forget_key();
        }
        Ok(())
    }

    /// Starts a block collection if the column is right of the current one.
    fn roll_indent(&mut self, column: isize, number: usize, token: Token, line: usize) -> Fallible<()> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_LEVELS {
            return self.fail(&format!("exceeded max depth of {MAX_LEVELS}"));
        }
        self.insert(token, line, number);
        Ok(())
    }

    /// Ends the block collections right of the column.
    fn unroll_indent(&mut self, column: isize) {
        while self.indent > column {
            self.push(Token::BlockEnd, self.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Fallible<()> {
        self.ensure(1)?;
        if !self.started {
            self.started = true;
            self.push(Token::StreamStart, self.line);
            return Ok(());
        }
        self.skip_to_token()?;
        // Columns do not matter in the flow context.
        let mut column = 0;
        if self.flow_level == 0 {
            column = self.column();
            self.unroll_indent(column);
        }
        self.ensure(4)?;
        if self.at >= self.bytes.len() {
            return self.fetch_stream_end();
        }
        let byte = self.byte(0);
        if byte.is_ascii_alphanumeric() {
            return self.fetch_content(byte, column);
        }
        if self.is_line_start() && (byte == b'%' || self.is_document_indicator()) {
            return self.fetch_outside(byte);
        }
        let in_flow = self.flow_level > 0;
        match byte {
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart, column),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart, column),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.simple_key_allowed = true;
                self.indicator(Token::FlowEntry);
                Ok(())
            }
            b'-' if self.is_blankz(1) => self.fetch_block_entry(column),
            b'?' if in_flow || self.is_blankz(1) => self.fetch_key(column),
            b':' if in_flow || self.is_blankz(1) => self.fetch_value(column),
            b'|' | b'>' if !in_flow => {
                self.remove_key()?;
                self.simple_key_allowed = true;
                let line = self.line;
                let text = self.block_scalar(byte == b'|')?;
                self.texts.push(text);
                self.push(Token::OtherScalar, line);
                Ok(())
            }
            b'#' | b'@' | b'`' | b'%' | b'|' | b'>' | b'\t' => self.fail("found character that cannot start any token"),
            _ => self.fetch_content(byte, column),
        }
    }

    /// A possible simple key.
    fn fetch_content(&mut self, first: u8, column: isize) -> Fallible<()> {
        self.save_key(column)?;
        let is_saved = self.simple_key_allowed;
        self.simple_key_allowed = false;
        let (at, line) = (self.at, self.line);
        let (token, text) = match first {
            b'*' => (Token::Alias, self.anchor()?.into()),
            b'&' => (Token::Anchor, self.anchor()?.into()),
            b'!' => {
                let tag = self.tag()?;
                self.push_tag(tag);
                self.push(Token::Tag, line);
                return Ok(());
            }
            b'\'' => (Token::OtherScalar, self.quoted_scalar(true)?),
            b'"' => (Token::OtherScalar, self.quoted_scalar(false)?),
            _ => (Token::PlainScalar, self.plain_scalar()?),
        };
        self.texts.push(text);
        // The result of fetching the `:`, at once: most scalars of a block mapping are such keys.
        let is_key = is_saved
            && self.byte(0) == b':'
            && self.flow_level == 0
            && line == self.line
            && self.at - at <= MAX_KEY
            && self.is_blankz(1)
            && self.indents.len() < MAX_LEVELS
            && !self.is_careful();
        if !is_key {
            self.push(token, line);
            return Ok(());
        }
        self.forget_key();
        self.roll_indent(column, usize::MAX, Token::BlockMappingStart, line)?;
        self.push(Token::Key, line);
        self.push(token, line);
        self.indicator(Token::Value);
        Ok(())
    }

    /// The last potential key is none, or is found to be one.
    fn forget_key(&mut self) {
        if let Some(key) = self.keys.last_mut() {
            key.possible = false;
            key.awaited = false;
        }
    }

    fn indicator(&mut self, token: Token) {
        self.push(token, self.line);
        self.at += 1;
    }

    fn fetch_stream_end(&mut self) -> Fallible<()> {
        if !self.is_line_start() {
            self.line += 1;
            self.line_start = self.at;
        }
        self.end_blocks()?;
        self.push(Token::StreamEnd, self.line);
        Ok(())
    }

    fn end_blocks(&mut self) -> Fallible<()> {
        if self.flow_level == 0 {
            self.unroll_indent(-1);
        }
        self.remove_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    /// A directive, `---` or `...`.
    fn fetch_outside(&mut self, first: u8) -> Fallible<()> {
        self.end_blocks()?;
        let line = self.line;
        let token = match first {
            b'%' => self.directive()?,
            b'-' => Token::DocumentStart,
            _ => Token::DocumentEnd,
        };
        if first != b'%' {
            self.at += 3;
        }
        self.push(token, line);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token, column: isize) -> Fallible<()> {
        self.save_key(column)?;
        let number = self.taken + self.tokens.len();
        self.keys.push(SimpleKey { token: number, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return self.fail(&format!("exceeded max depth of {MAX_LEVELS}"));
        }
        self.simple_key_allowed = true;
        self.indicator(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token) -> Fallible<()> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let inner = self.keys.pop().unwrap_or_default();
            if let Some(outer) = self.keys.last_mut().filter(|outer| outer.token == inner.token) {
                outer.awaited = false;
            }
        }
        self.simple_key_allowed = false;
        self.indicator(token);
        Ok(())
    }

    fn fetch_block_entry(&mut self, column: isize) -> Fallible<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("block sequence entries are not allowed in this context");
            }
            self.roll_indent(column, usize::MAX, Token::BlockSequenceStart, self.line)?;
        }
        self.remove_key()?;
        self.simple_key_allowed = true;
        self.indicator(Token::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self, column: isize) -> Fallible<()> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return self.fail("mapping keys are not allowed in this context");
            }
            self.roll_indent(column, usize::MAX, Token::BlockMappingStart, self.line)?;
        }
        self.remove_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.indicator(Token::Key);
        Ok(())
    }

    fn fetch_value(&mut self, column: isize) -> Fallible<()> {
        let level = self.keys.len() - 1;
        if self.is_valid(level)? {
            let key = self.keys[level];
            self.insert(Token::Key, key.line, key.token);
            self.roll_indent(key.column, key.token, Token::BlockMappingStart, key.line)?;
            self.forget_key();
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return self.fail("mapping values are not allowed in this context");
                }
                self.roll_indent(column, usize::MAX, Token::BlockMappingStart, self.line)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.indicator(Token::Value);
        Ok(())
    }
}
