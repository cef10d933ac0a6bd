//! Which template a piece of output comes from, for errors that appear only in the output.

use super::ast::{Node, Source};
use super::extent;
use crate::template::trace::{Excerpt, Location};
use std::sync::Arc;

/// Where the text of a rendering comes from. The output of an `include` or `tpl` comes from the action that printed it.
#[derive(Clone, Debug, Default)]
pub struct Origins(Vec<Origin>);

#[derive(Clone, Debug)]
struct Origin {
    /// Where its output starts.
    start: usize,
    /// Position in the source.
    pos: u32,
    /// Whether the output is the source's text from there on.
    is_text: bool,
    source: Arc<Source>,
}

impl Origins {
    /// Records that the output from here on comes from a statement.
    pub(super) fn note(&mut self, start: usize, node: &Node, source: &Arc<Source>) {
        let (pos, is_text) = match node {
            Node::Text(span) => (span.start, true),
            Node::Action(pipe) => (pipe.pos, false),
            Node::Template(call) => (call.pos, false),
            // Their bodies write, not they.
            Node::If(_) | Node::With(_) | Node::Range(_) | Node::Break(_) | Node::Continue(_) => return,
        };
        self.0.push(Origin { start, pos, is_text, source: Arc::clone(source) });
    }

    /// The line of a template that an offset in the output comes from.
    pub fn at(&self, offset: usize) -> Option<Location> {
        let behind = self.0.partition_point(|origin| origin.start <= offset);
        let origin = self.0[..behind].last()?;
        let delta = if origin.is_text { offset - origin.start } else { 0 };
        let pos = (origin.pos + u32::try_from(delta).ok()?).min(u32::try_from(origin.source.text.len()).ok()?);
        let (line, column) = origin.source.line_column(pos);
        let mut location = Location::line(&origin.source.name, line);
        location.column = Some(column);
        let text = origin.source.text.split(|b| *b == b'\n').nth(line - 1)?;
        location.excerpt =
            extent::is_of_chart(&origin.source).then(|| Excerpt::whole(line, &String::from_utf8_lossy(text)));
        Some(location)
    }
}
