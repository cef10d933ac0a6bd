//! Documents with their formatting: quotes, flow and block style, anchors, tags and comments, so that a changed document can
//! be written again as go-yaml v3 writes it.

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StructureStyle, Tag};
use std::collections::HashMap;

/// Where something begins or ends: the line from 1, the column from 0.
type At = (usize, usize);

/// How a scalar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text and its style.
    Scalar(String, Style),
    /// Items; whether in brackets.
    Sequence(Vec<CommentedNode>, bool),
    /// Keys and values; whether in braces.
    Mapping(Vec<(CommentedNode, CommentedNode)>, bool),
    /// The name of an anchor.
    Alias(String),
}

/// A node with its comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentedNode {
    /// Its kind.
    pub content: Content,
    /// Its tag as written.
    pub tag: Option<String>,
    /// The name of its anchor.
    pub anchor: Option<String>,
    /// Comments above, with their `#`.
    pub head: String,
    /// The comment after it.
    pub line: String,
    /// Comments below; those of a pair are at the key.
    pub foot: String,
    start: At,
    end: At,
}

impl CommentedNode {
    /// A scalar without comments.
    pub fn scalar(text: &str, style: Style) -> Self {
        Self::new(Content::Scalar(text.to_owned(), style))
    }

    /// A node without comments.
    pub fn new(content: Content) -> Self {
        let text = String::new;
        Self { content, tag: None, anchor: None, head: text(), line: text(), foot: text(), start: (0, 0), end: (0, 0) }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Content::Mapping(pairs, _) = &self.content else { return None };
        pairs.iter().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Content::Mapping(pairs, _) = &mut self.content else { return None };
        pairs.iter_mut().find(|(k, _)| k.text() == Some(key)).map(|(_, value)| value)
    }

    /// The line where it begins, from 1.
    pub fn line_number(&self) -> usize {
        self.start.0
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(text, _) => Some(text),
            _ => None,
        }
    }
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Comments above that a blank line parts from the content.
    pub head: String,
    /// Its content.
    pub root: CommentedNode,
    /// Comments below that a blank line parts from the content.
    pub foot: String,
}

/// Why a text is not YAML, in the words of the parser.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DocumentError(#[from] ScanError);

/// Reads the first document; `None` if there is none, or nothing in it.
pub fn read(text: &str) -> Result<Option<Document>, DocumentError> {
    let mut reader = Reader::default();
    let mut options = Options::default();
    options.emit_anchor_events = true;
    let mut events = Vec::new();
    let mut begun = false;
    for event in Parser::new_from_str_with_options(text, options) {
        match event? {
            (Event::Comment(text, _), span) => reader.comments.push(Comment::of(&text, &span)),
            (Event::DocumentStart(..), _) if begun => break,
            (Event::DocumentStart(..), _) => begun = true,
            (Event::StreamStart | Event::StreamEnd | Event::DocumentEnd, _) => {}
            event => events.push(event),
        }
    }
    let lines: Vec<&str> = text.split('\n').collect();
    let names = anchors(&events);
    let mut events = events.into_iter().filter(|(event, _)| !matches!(event, Event::Anchor(..)));
    let Some(first) = events.next() else { return Ok(None) };
    let mut root = build(first, &mut events, &names, &lines);
    if matches!(&root.content, Content::Scalar(text, Style::Plain) if text.is_empty()) {
        return Ok(None);
    }
    let (head, foot) = reader.attach(&mut root, &lines);
    Ok(Some(Document { head, root, foot }))
}

/// The names of anchors by their numbers.
fn anchors(events: &[(Event<'_>, Span)]) -> HashMap<usize, String> {
    let name = |(event, _): &(Event<'_>, Span)| match event {
        Event::Anchor(id, name) => Some((*id, name.to_string())),
        _ => None,
    };
    events.iter().filter_map(name).collect()
}

fn place(marker: &granit_parser::Marker) -> At {
    (marker.line(), marker.col())
}

fn build<'a>(
    (event, span): (Event<'a>, Span),
    rest: &mut impl Iterator<Item = (Event<'a>, Span)>,
    names: &HashMap<usize, String>,
    lines: &[&str],
) -> CommentedNode {
    let (mut start, mut end) = (place(&span.start), place(&span.end));
    let mut children = |last: fn(&Event<'_>) -> bool| {
        let mut nodes = Vec::new();
        while let Some(next) = rest.next() {
            if last(&next.0) {
                end = place(&next.1.end);
                break;
            }
            nodes.push(build(next, rest, names, lines));
        }
        nodes
    };
    let (content, anchor, tag) = match event {
        Event::SequenceStart(style, anchor, tag) => {
            let items = children(|event| matches!(event, Event::SequenceEnd));
            if let (StructureStyle::Block, Some(first)) = (style, items.first()) {
                start = dash(lines, first.start);
            }
            (Content::Sequence(items, style == StructureStyle::Flow), anchor, tag)
        }
        Event::MappingStart(style, anchor, tag) => {
            let mut nodes = children(|event| matches!(event, Event::MappingEnd)).into_iter();
            let mut pairs = Vec::new();
            while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
                pairs.push((key, value));
            }
            (Content::Mapping(pairs, style == StructureStyle::Flow), anchor, tag)
        }
        Event::Scalar(value, style, anchor, tag) => {
            let style = match style {
                ScalarStyle::SingleQuoted => Style::Single,
                ScalarStyle::DoubleQuoted => Style::Double,
                ScalarStyle::Literal => Style::Literal,
                ScalarStyle::Folded => Style::Folded,
                ScalarStyle::Plain => Style::Plain,
            };
            if matches!(style, Style::Literal | Style::Folded) {
                start = block_start(start, lines);
                end = block_end(start.0, lines);
            }
            (Content::Scalar(written_null(&value, style, start, end, lines), style), anchor, tag)
        }
        Event::Alias(id) => (Content::Alias(names.get(&id).cloned().unwrap_or_default()), 0, None),
        _ => (Content::Scalar(String::new(), Style::Plain), 0, None),
    };
    let tag = tag.map(|tag: std::borrow::Cow<'_, Tag>| tag.original());
    CommentedNode { tag, anchor: names.get(&anchor).cloned(), start, end, ..CommentedNode::new(content) }
}

/// Where the header of a block scalar is; its place may be that of its text.
fn block_start((line, column): At, lines: &[&str]) -> At {
    let is_header = |line: usize| lines[line - 1].trim_end().contains(['|', '>']);
    let text = lines.get(line.wrapping_sub(1)).and_then(|text| text.chars().nth(column));
    match (1..line).rev().find(|line| !lines[line - 1].trim().is_empty()) {
        Some(above) if !matches!(text, Some('|' | '>')) && is_header(above) => (above, 0),
        _ => (line, column),
    }
}

/// Where the text of a block scalar ends, whose header is on a line.
fn block_end(header: usize, lines: &[&str]) -> At {
    let blank = |line: &str| line.trim().is_empty();
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let text = || lines.iter().enumerate().skip(header);
    let least = text().find(|(_, line)| !blank(line)).map_or(0, |(_, line)| indent(line));
    let inside = text().take_while(|(_, line)| blank(line) || indent(line) >= least && !line.starts_with('#'));
    let end = inside.filter(|(_, line)| !blank(line)).last().map_or(header, |(at, _)| at + 1);
    (end, usize::MAX)
}

/// Where the `-` of an item is, whose content begins at a place.
fn dash(lines: &[&str], (line, column): At) -> At {
    let before = |line: usize, column: usize| {
        let text = lines.get(line.checked_sub(1)?)?;
        let found = text.chars().take(column).collect::<Vec<_>>().into_iter().rposition(|c| c == '-');
        found.map(|column| (line, column))
    };
    let above = || (1..line).rev().find(|line| !lines[line - 1].trim().is_empty());
    before(line, column).or_else(|| before(above()?, usize::MAX)).unwrap_or((line, column))
}

/// An absent value is the same as `~` to the parser; here it is empty, as it was written.
fn written_null(value: &str, style: Style, start: At, end: At, lines: &[&str]) -> String {
    let written = lines.get(start.0.wrapping_sub(1)).is_some_and(|line| line.chars().nth(start.1) == Some('~'));
    if style == Style::Plain && value == "~" && (start == end || !written) { String::new() } else { value.to_owned() }
}

/// A comment.
struct Comment {
    text: String,
    line: usize,
    column: usize,
}

impl Comment {
    fn of(text: &str, span: &Span) -> Self {
        Self { text: format!("#{text}"), line: span.start.line(), column: span.start.col() }
    }
}

/// A pair's key or an item, which a comment may precede.
struct Site {
    line: usize,
    column: usize,
    /// Which key or item it is, counted in the order of [`visit`].
    number: usize,
    /// The last line of what belongs to it.
    end: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    /// An item; whether its content begins with another site.
    Item {
        nested: bool,
        /// Whether its list is in the column of the key above.
        indentless: bool,
    },
}

/// The node that a comment is below.
#[derive(Clone, Copy)]
enum Below {
    /// The last content above it.
    Content,
    /// Something around that content, which begins further left: in this column.
    Around(usize),
}

#[derive(Default)]
struct Reader {
    comments: Vec<Comment>,
}

/// Calls for each key and each item of block collections with where it begins and ends, in the order of the text. The
/// column is that of the key above.
fn visit(node: &mut CommentedNode, column: Option<usize>, seen: &mut impl FnMut(&mut CommentedNode, Kind, At, At)) {
    match &mut node.content {
        Content::Mapping(pairs, false) => {
            for (key, value) in pairs {
                let (start, end) = (key.start, last(value).max(key.end));
                seen(key, Kind::Key, start, end);
                visit(value, Some(start.1), seen);
            }
        }
        Content::Sequence(items, false) => {
            for item in items {
                let nested = matches!(item.content, Content::Mapping(_, false) | Content::Sequence(_, false));
                let kind = Kind::Item { nested, indentless: column == Some(node.start.1) };
                let (start, end) = ((item.start.0, node.start.1), last(item));
                seen(item, kind, start, end);
                visit(item, None, seen);
            }
        }
        _ => {}
    }
}

/// Where the last content of a node ends.
fn last(node: &CommentedNode) -> At {
    match &node.content {
        Content::Mapping(pairs, false) => pairs.last().map_or(node.end, |(key, value)| last(value).max(key.end)),
        Content::Sequence(items, false) => items.last().map_or(node.end, last),
        _ => node.end,
    }
}

/// Adds a line to comments.
fn join(comments: &mut String, text: &str) {
    if !comments.is_empty() {
        comments.push('\n');
    }
    comments.push_str(text);
}

impl Reader {
    /// Assigns each comment to a node; returns those of the document.
    fn attach(&mut self, root: &mut CommentedNode, lines: &[&str]) -> (String, String) {
        let mut sites = Vec::new();
        visit(root, None, &mut |_, kind, (line, column), (end, _)| {
            sites.push(Site { line, column, number: sites.len(), end, kind });
        });
        let (mut heads, mut feet) = (HashMap::<usize, String>::new(), HashMap::<usize, String>::new());
        let own = |comment: &Comment| {
            lines.get(comment.line - 1).is_some_and(|line| line.trim_start_matches([' ', '\t']).starts_with('#'))
        };
        let (whole, behind): (Vec<Comment>, Vec<Comment>) =
            std::mem::take(&mut self.comments).into_iter().partition(own);
        for comment in behind {
            if !behind_node(root, &comment)
                && let Some(next) = sites.iter().find(|site| site.line > comment.line)
            {
                join(heads.entry(next.number).or_default(), &comment.text);
            }
        }
        let mut foot = String::new();
        let mut at = 0;
        while at < whole.len() {
            let next = sites.iter().find(|site| site.line > whole[at].line);
            let count = whole[at..].iter().take_while(|c| next.is_none_or(|next| c.line < next.line)).count();
            let gap = &whole[at..at + count];
            at += count;
            let (below, above) = split(gap, &sites, next, lines);
            for (what, text) in below {
                match owner(&sites, gap[0].line, next, what) {
                    Some(number) => join(feet.entry(number).or_default(), &text),
                    None => join(&mut foot, &text),
                }
            }
            if !above.is_empty() {
                match next {
                    Some(next) => join(heads.entry(next.number).or_default(), &above),
                    None => join(&mut foot, &above),
                }
            }
        }
        let head = heads.get_mut(&0).map(document_head).unwrap_or_default();
        let mut number = 0;
        visit(root, None, &mut |node, _, _, _| {
            node.head = heads.remove(&number).unwrap_or_default();
            node.foot = feet.remove(&number).unwrap_or_default();
            number += 1;
        });
        (head, foot)
    }
}

/// The comments of a gap: those of the node above, and those of the node below.
fn split(gap: &[Comment], sites: &[Site], next: Option<&Site>, lines: &[&str]) -> (Vec<(Below, String)>, String) {
    let before = sites.iter().filter(|site| site.line < gap[0].line);
    let prior = before.clone().map(|site| site.end).filter(|end| *end < gap[0].line).max();
    let indent = before.clone().next_back().map_or(0, |site| site.column);
    let last_line = gap.last().map_or(0, |comment| comment.line);
    // At the end of the text a blank line may be thought of.
    let ends = next.map_or(usize::MAX, |next| next.line);
    let mut below = Vec::new();
    let mut text = String::new();
    let mut start: Option<&Comment> = None;
    let mut first_empty = prior.is_none_or(|line| line + 1 == gap[0].line);
    // A comment after a key without a value is not below that key.
    let opens = prior.and_then(|line| lines.get(line - 1)).is_some_and(|line| ends_with_key(line));
    for (i, comment) in gap.iter().enumerate() {
        if let Some(begin) = start
            && comment.column < indent
            && comment.column != begin.column
        {
            below.push((Below::Content, std::mem::take(&mut text)));
            start = None;
        }
        join(&mut text, &comment.text);
        let begin = *start.get_or_insert(comment);
        let following = gap.get(i + 1).map_or(ends, |next| next.line);
        if following == comment.line + 1 {
            continue;
        }
        let is_foot = prior.is_some_and(|line| begin.line == line + 1) && !opens || begin.column < indent;
        if first_empty && is_foot {
            let what = if begin.column < indent { Below::Around(begin.column) } else { Below::Content };
            below.push((what, std::mem::take(&mut text)));
            start = None;
        } else if comment.line != last_line || next.is_some() {
            text.push('\n');
        }
        first_empty = false;
    }
    if let (Some(begin), Some(next)) = (start, next)
        && next.column < indent
        && next.column != begin.column
        && !text.is_empty()
    {
        below.push((Below::Content, std::mem::take(&mut text)));
    }
    (below, text)
}

fn ends_with_key(line: &str) -> bool {
    let text = line.find(" #").map_or(line, |at| &line[..at]);
    text.trim_end().ends_with(':')
}

/// The node whose foot a comment is, by its number; a comment without a node is the document's. go-yaml decides this
/// while collections end, so a comment below a list that continues comes after the list's next item.
fn owner(sites: &[Site], line: usize, next: Option<&Site>, what: Below) -> Option<usize> {
    let above = || sites.iter().rev().filter(move |site| site.line < line);
    let Below::Around(column) = what else { return above().next().map(|site| site.number) };
    let mut least = usize::MAX;
    let open = above().filter(|site| {
        let is_open = site.column < least && !matches!(site.kind, Kind::Item { indentless: true, .. });
        if is_open {
            least = site.column;
        }
        is_open
    });
    let (keys, items): (Vec<&Site>, Vec<&Site>) = open.partition(|site| site.kind == Kind::Key);
    let key = |column: usize| keys.iter().find(|site| site.column == column).map(|site| site.number);
    if next.is_none_or(|next| next.column < column) {
        let list = || items.iter().any(|site| site.column == column);
        let around = || keys.iter().find(|site| site.column < column && list()).map(|site| site.number);
        if let Some(closed) = key(column).or_else(around) {
            return Some(closed);
        }
    }
    let next = next?;
    match next.kind {
        Kind::Key => key(next.column).or(Some(next.number)),
        Kind::Item { nested: false, .. } => Some(next.number),
        Kind::Item { .. } => {
            let mut rest = sites[next.number + 1..].iter();
            rest.find(|site| !matches!(site.kind, Kind::Item { nested: true, .. })).map(|site| site.number)
        }
    }
}

/// Takes the comments off a head that a blank line parts from the rest.
fn document_head(head: &mut String) -> String {
    let at =
        if head.ends_with('\n') { Some((head.len() - 1, head.len())) } else { head.rfind("\n\n").map(|i| (i, i + 2)) };
    let Some((end, rest)) = at else { return String::new() };
    let kept = head.split_off(rest);
    let mut document = std::mem::replace(head, kept);
    document.truncate(end);
    document
}

/// Assigns a comment to the node that ends before it on its line; returns whether there is one.
fn behind_node(root: &mut CommentedNode, comment: &Comment) -> bool {
    fn find<'n>(node: &'n mut CommentedNode, comment: &Comment, best: &mut Option<(At, &'n mut String)>) {
        let is_block = matches!(node.content, Content::Scalar(_, Style::Literal | Style::Folded));
        let is_open = matches!(node.content, Content::Mapping(_, false) | Content::Sequence(_, false));
        let end = if is_block { node.start } else { node.end };
        let is_empty = matches!(&node.content, Content::Scalar(text, Style::Plain) if text.is_empty());
        let is_before = end.0 == comment.line && end.1 <= comment.column && !is_open && !is_empty;
        match &mut node.content {
            Content::Mapping(pairs, _) => {
                for (key, value) in pairs {
                    find(key, comment, best);
                    find(value, comment, best);
                }
            }
            Content::Sequence(items, _) => items.iter_mut().for_each(|item| find(item, comment, best)),
            _ => {}
        }
        if is_before && best.as_ref().is_none_or(|(at, _)| *at <= end) {
            *best = Some((end, &mut node.line));
        }
    }
    let mut best = None;
    find(root, comment, &mut best);
    let Some((_, line)) = best else { return false };
    join(line, &comment.text);
    true
}
