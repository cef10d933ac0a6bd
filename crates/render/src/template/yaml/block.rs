//! Literal and folded block scalars.

use super::Fallible;
use super::scalars::spaces;
use super::scanner::{Scanner, break_at};
use std::borrow::Cow;

/// The treatment of the line breaks at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl<'a> Scanner<'a> {
    /// The scalar whose `|` or `>` is here.
    pub(super) fn block_scalar(&mut self, literal: bool) -> Fallible<Cow<'a, str>> {
        self.at += 1;
        self.ensure(1)?;
        let (chomping, increment) = self.block_header()?;
        self.ensure(1)?;
        while self.is_blank() {
            self.at += 1;
            self.ensure(1)?;
        }
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
        let mut indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        let mut text = String::new();
        let mut trailing = String::new();
        let mut leading = "";
        let mut after_blank = false;
        self.block_breaks(&mut indent, &mut trailing)?;
        self.ensure(1)?;
        while self.column() == indent && self.at < self.bytes.len() {
            let blank = self.is_blank();
            if !literal && !after_blank && !blank && leading == "\n" {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(leading);
            }
            text.push_str(&trailing);
            trailing.clear();
            after_blank = blank;
            let from = self.at;
            self.go_to(self.line_end(), 1)?;
            text.push_str(self.slice(from, self.at));
            self.ensure(2)?;
            leading = break_at(self.bytes, self.at).map_or("", |(_, text)| text);
            self.skip_line();
            self.block_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(leading);
        }
        if chomping == Chomping::Keep {
            text.push_str(&trailing);
        }
        Ok(text.into())
    }

    /// The chomping and the indentation, in either order.
    fn block_header(&mut self) -> Fallible<(Chomping, isize)> {
        let mut chomping = self.chomping();
        if chomping.is_some() {
            self.ensure(1)?;
        }
        let mut increment = 0;
        if self.byte(0).is_ascii_digit() {
            if self.byte(0) == b'0' {
                return self.fail("found an indentation indicator equal to 0");
            }
            increment = isize::from(self.byte(0) - b'0');
            self.at += 1;
            if chomping.is_none() {
                self.ensure(1)?;
                chomping = self.chomping();
            }
        }
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.byte(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return None,
        };
        self.at += 1;
        Some(chomping)
    }

    /// Skips indentation and empty lines, collects their line breaks, and detects the indentation if it is unknown.
    fn block_breaks(&mut self, indent: &mut isize, breaks: &mut String) -> Fallible<()> {
        let mut deepest = 0;
        loop {
            self.ensure(1)?;
            let mut column = self.column();
            if *indent > column && !self.is_careful() {
                let count = spaces(self.bytes, self.at).min((*indent - column).cast_unsigned());
                self.at += count;
                column += count.cast_signed();
            }
            while (*indent == 0 || column < *indent) && self.byte(0) == b' ' {
                self.at += 1;
                column += 1;
                self.ensure(1)?;
            }
            deepest = deepest.max(column);
            if (*indent == 0 || column < *indent) && self.byte(0) == b'\t' {
                return self.fail("found a tab character where an indentation space is expected");
            }
            let Some((_, text)) = break_at(self.bytes, self.at) else { break };
            self.ensure(2)?;
            self.skip_line();
            breaks.push_str(text);
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
