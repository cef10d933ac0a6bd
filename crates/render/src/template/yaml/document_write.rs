//! Documents as go-yaml v3 writes them with an indent of two and lists that are not indented below their keys.

use super::document::{CommentedNode, Content, Document, Style};
use super::emit::{Analysis, Emitter, Place, Style as Library, is_break};

/// The longest text that may be a key without `? `.
const MAX_KEY: usize = 128;

/// Documents, one behind the other.
pub fn write(documents: &[Document]) -> String {
    let mut writer = Writer { out: Emitter::new(Library::Pretty), foot: None, tail: String::new(), flow: 0 };
    for (i, document) in documents.iter().enumerate() {
        writer.document(document, i == 0);
    }
    String::from_utf8_lossy(&writer.out.out).into_owned()
}

struct Writer {
    out: Emitter,
    /// The indent of a comment that was written below something: what comes next at this indent is parted from it.
    foot: Option<usize>,
    /// Comments below a pair that are to be written before what follows the pair.
    tail: String,
    flow: usize,
}

impl Writer {
    fn document(&mut self, document: &Document, first: bool) {
        if !first {
            self.indent(0);
            self.out.indicator(b"---", true, false, false);
            self.indent(0);
        }
        if !document.head.is_empty() {
            self.head(&document.head, 0);
            self.line_break();
        }
        self.head(&document.root.head, 0);
        self.node(&document.root, Place::default(), &document.root.line);
        self.line(&document.root.line);
        self.foot(&document.root.foot, 0);
        self.foot = Some(0);
        self.foot(&document.foot, 0);
        self.foot = None;
        self.indent(0);
    }

    fn indent(&mut self, indent: usize) {
        if self.foot == Some(indent) {
            self.line_break();
        }
        self.foot = None;
        let column = self.out.column;
        if !self.out.indention || column > indent || column == indent && !self.out.whitespace {
            self.line_break();
        }
        while self.out.column < indent {
            self.out.put(b' ');
        }
        self.out.whitespace = true;
    }

    fn line_break(&mut self) {
        self.out.line_break();
        self.out.indention = true;
    }

    fn comment(&mut self, text: &str, indent: usize) {
        let mut breaks = false;
        for line in text.split_inclusive('\n') {
            let content = line.trim_end_matches('\n');
            if !content.is_empty() {
                if breaks {
                    self.indent(indent);
                }
                for c in content.chars() {
                    self.out.put_char(c);
                }
                self.out.indention = false;
                breaks = false;
            }
            if line.ends_with('\n') {
                self.line_break();
                breaks = true;
            }
        }
        if !breaks {
            self.line_break();
        }
        self.out.whitespace = true;
    }

    fn head(&mut self, head: &str, indent: usize) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.indent(indent);
            self.comment(&tail, indent);
            self.foot = Some(indent);
        }
        if !head.is_empty() {
            self.indent(indent);
            self.comment(head, indent);
        }
    }

    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        if !self.out.whitespace {
            self.out.put(b' ');
        }
        self.comment(line, 0);
    }

    fn foot(&mut self, foot: &str, indent: usize) {
        if !foot.is_empty() {
            self.indent(indent);
            self.comment(foot, indent);
            self.foot = Some(indent);
        }
    }

    fn node(&mut self, node: &CommentedNode, place: Place, line: &str) {
        if let Some(anchor) = &node.anchor {
            self.out.indicator(format!("&{anchor}").as_bytes(), true, false, false);
        }
        // go-yaml takes a merge for something that needs its tag.
        let is_merge = matches!(&node.content, Content::Scalar(text, Style::Plain) if text == "<<");
        if let Some(tag) = node.tag.as_deref().or(is_merge.then_some("!!merge")) {
            self.out.indicator(tag.as_bytes(), true, false, false);
        }
        match &node.content {
            Content::Alias(name) => self.out.indicator(format!("*{name}").as_bytes(), true, false, false),
            Content::Scalar(text, style) => self.scalar(text, *style, place, line),
            Content::Sequence(items, flow) if *flow || self.flow > 0 || items.is_empty() => self.flow_sequence(items),
            Content::Mapping(pairs, flow) if *flow || self.flow > 0 || pairs.is_empty() => self.flow_mapping(pairs),
            Content::Sequence(items, _) => self.sequence(items, place),
            Content::Mapping(pairs, _) => self.mapping(pairs, place),
        }
    }

    fn flow_sequence(&mut self, items: &[CommentedNode]) {
        self.out.indicator(b"[", true, true, false);
        self.flow += 1;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.indicator(b",", false, false, false);
            }
            self.node(item, Place::default(), "");
        }
        self.flow -= 1;
        self.out.indicator(b"]", false, false, false);
    }

    fn flow_mapping(&mut self, pairs: &[(CommentedNode, CommentedNode)]) {
        self.out.indicator(b"{", true, true, false);
        self.flow += 1;
        for (i, (key, value)) in pairs.iter().enumerate() {
            if i > 0 {
                self.out.indicator(b",", false, false, false);
            }
            self.node(key, Place { simple_key: true, ..Place::default() }, "");
            self.out.indicator(b":", false, false, false);
            self.node(value, Place::default(), "");
        }
        self.flow -= 1;
        self.out.indicator(b"}", false, false, false);
    }

    fn sequence(&mut self, items: &[CommentedNode], place: Place) {
        let indent = match place.indent {
            None => 0,
            // The items of a list under a key are below the key.
            Some(indent) if place.in_mapping => indent,
            Some(indent) => indent + 2,
        };
        for item in items {
            self.head(&item.head, indent);
            self.indent(indent);
            self.out.indicator(b"-", true, false, true);
            self.node(item, Place { indent: Some(indent), ..Place::default() }, &item.line);
            if !has_own_line(item) {
                self.line(&item.line);
            }
            self.foot(&item.foot, indent);
        }
    }

    fn mapping(&mut self, pairs: &[(CommentedNode, CommentedNode)], place: Place) {
        let indent = place.indent.map_or(0, |indent| indent + 2);
        let place = Place { indent: Some(indent), in_mapping: true, simple_key: false };
        for (key, value) in pairs {
            self.head(&key.head, indent);
            self.indent(indent);
            if is_simple(key) {
                self.node(key, Place { simple_key: true, ..place }, "");
                self.out.indicator(b":", false, false, false);
            } else {
                self.out.indicator(b"?", true, false, true);
                self.node(key, place, "");
                self.indent(indent);
                self.out.indicator(b":", true, false, true);
            }
            let is_block = matches!(&value.content, Content::Mapping(pairs, false) if !pairs.is_empty())
                || matches!(&value.content, Content::Sequence(items, false) if !items.is_empty());
            if is_block {
                self.line(&key.line);
                self.node(value, place, "");
            } else {
                let line = if value.line.is_empty() { &key.line } else { &value.line };
                self.node(value, place, line);
                if !has_own_line(value) {
                    self.line(line);
                }
            }
            self.tail.clone_from(&key.foot);
        }
        self.head("", indent);
    }

    fn scalar(&mut self, text: &str, style: Style, place: Place, line: &str) {
        let analysis = Analysis::of(text, Library::Pretty);
        let in_flow = self.flow > 0;
        let plain = analysis.plain && !(in_flow && text.contains([',', '?', '[', ']', '{', '}', ':']));
        let mut style = style;
        if place.simple_key && text.contains(is_break) {
            style = Style::Double;
        }
        if style == Style::Plain && text.contains('\n') {
            style = Style::Literal;
        }
        if style == Style::Plain && (!plain || text.is_empty() && (in_flow || place.simple_key)) {
            style = Style::Single;
        }
        if style == Style::Single && !analysis.single_quoted
            || matches!(style, Style::Literal | Style::Folded) && (!analysis.block || in_flow || place.simple_key)
        {
            style = Style::Double;
        }
        let indent = place.indent.map_or(2, |indent| indent + 2);
        match style {
            // Nothing is written for nothing, not even a blank.
            Style::Plain if text.is_empty() => {}
            Style::Plain => self.out.plain_text(text, indent, false, analysis.simple),
            Style::Single => self.out.single_quoted(text, indent, false),
            Style::Double => self.out.double_quoted(text, indent, false),
            Style::Literal => self.block(b"|", text, indent, line),
            Style::Folded => self.block(b">", text, indent, line),
        }
    }

    fn block(&mut self, indicator: &[u8], text: &str, indent: usize, line: &str) {
        self.out.indicator(indicator, true, false, false);
        self.out.block_hints(text);
        if line.is_empty() {
            self.line_break();
        } else {
            self.line(line);
        }
        self.out.whitespace = true;
        // In folded text one break more parts lines; go-yaml looks at the first line alone to see whether it may.
        let first = text.trim_start_matches(is_break);
        let parts = indicator == b">" && !first.is_empty() && !first.starts_with([' ', '\t']);
        let (mut breaks, mut leading) = (true, true);
        for c in text.chars() {
            if is_break(c) {
                if parts && !breaks && !leading && c == '\n' {
                    self.line_break();
                }
                self.out.break_char(c);
                self.out.indention = true;
                breaks = true;
                continue;
            }
            if breaks {
                self.indent(indent);
                leading = c == ' ' || c == '\t';
            }
            self.out.put_char(c);
            self.out.indention = false;
            breaks = false;
        }
    }
}

/// Block scalars have their comment behind their head.
fn has_own_line(node: &CommentedNode) -> bool {
    matches!(&node.content, Content::Scalar(text, Style::Literal | Style::Folded)
        if Analysis::of(text, Library::Pretty).block)
}

fn is_simple(key: &CommentedNode) -> bool {
    match &key.content {
        Content::Scalar(text, _) => text.len() <= MAX_KEY && !text.contains(is_break),
        Content::Alias(_) => true,
        Content::Sequence(items, _) => items.is_empty(),
        Content::Mapping(pairs, _) => pairs.is_empty(),
    }
}
