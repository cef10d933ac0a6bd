//! The place in the YAML of an expression of a minijinja template.
//!
//! JSON is allowed only where a whole value is allowed: after `key:` or `- `, in a flow sequence or mapping, or alone
//! on a line. The check reads the text of the template, before anything is rendered: tags and comments are removed,
//! each expression becomes one mark, and a small scanner follows quotes, block scalars and flow brackets.

use std::fmt;

/// An expression where JSON would not be read as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The expression's source.
    pub expression: String,
    /// Its place.
    pub place: ExpressionPlace,
}

/// The places where an expression is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionPlace {
    /// In a quoted text.
    Quotes,
    /// As the key of a mapping.
    Key,
    /// In the text after `|` or `>`.
    BlockScalar,
    /// Beside text or another expression.
    BesideText,
}

impl std::error::Error for Misplaced {}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = &self.expression;
        match self.place {
            ExpressionPlace::Quotes => {
                write!(
                    f,
                    "the expression `{{{{ {x} }}}}` is inside quotes, but prints its own: leave the quotes out, and \
                           join text inside the expression, as in `{{{{ {x} ~ '-web' }}}}`"
                )
            }
            ExpressionPlace::Key => write!(
                f,
                "the expression `{{{{ {x} }}}}` is used as a key, where a value could break the YAML: build the whole \
                 mapping in one expression, as in `{{{{ {{{x}: 'value'}} }}}}`, or write the key out"
            ),
            ExpressionPlace::BlockScalar => write!(
                f,
                "the expression `{{{{ {x} }}}}` is in a block scalar (`|` or `>`), where a value could break out: make \
                 the whole value one expression, as in `key: {{{{ 'text ' ~ {x} }}}}`"
            ),
            ExpressionPlace::BesideText => write!(
                f,
                "the expression `{{{{ {x} }}}}` is next to plain text, but prints quotes: make the whole value one \
                 expression, as in `{{{{ {x} ~ '-web' }}}}`"
            ),
        }
    }
}

/// Finds the first expression at a place where JSON is not a value.
pub fn check(template: &str) -> Result<(), Misplaced> {
    let flat = Flat::new(template);
    Scanner { text: &flat.text, at: 0 }.scan().map_err(|(mark, place)| {
        let (offset, expression) = &flat.expressions[mark];
        let before = &template[..*offset];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        Misplaced { line, column, expression: expression.clone(), place }
    })
}

/// A character or an expression of the text without tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Char(char),
    /// Index into the expressions.
    Mark(usize),
}

/// A template without tags and comments.
struct Flat {
    text: Vec<Unit>,
    /// Offset and source of each expression.
    expressions: Vec<(usize, String)>,
}

impl Flat {
    fn new(template: &str) -> Self {
        let mut flat = Self { text: Vec::new(), expressions: Vec::new() };
        let mut at = 0;
        let mut trim_next = false;
        while at < template.len() {
            let rest = &template[at..];
            let opens = |(at, _): &(usize, &str)| matches!(rest.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#'));
            let next = rest.match_indices('{').find(opens).map_or(rest.len(), |(at, _)| at);
            flat.text(&rest[..next], trim_next);
            at += next;
            let rest = &template[at..];
            if rest.is_empty() {
                break;
            }
            let close = match &rest[..2] {
                "{{" => "}}",
                "{%" => "%}",
                _ => "#}",
            };
            // A block without an end is a syntax error, which minijinja reports with its place.
            let Some(length) = end_of(rest, close) else { break };
            let inner = &rest[2..length - 2];
            if inner.starts_with('-') {
                while matches!(flat.text.last(), Some(Unit::Char(c)) if c.is_whitespace()) {
                    flat.text.pop();
                }
            }
            trim_next = inner.ends_with('-');
            let inner = inner.trim_matches(['-', '+']).trim();
            if close == "}}" {
                flat.text.push(Unit::Mark(flat.expressions.len()));
                flat.expressions.push((at, inner.to_owned()));
            }
            at += length;
            if close == "%}" && inner == "raw" {
                let raw = &template[at..];
                let end = raw.find("{%").filter(|_| raw.contains("endraw")).unwrap_or(raw.len());
                flat.text(&raw[..end], trim_next);
                trim_next = false;
                at += end;
            }
        }
        flat
    }

    fn text(&mut self, text: &str, trim: bool) {
        let text = if trim { text.trim_start() } else { text };
        self.text.extend(text.chars().map(Unit::Char));
    }
}

/// Length of a tag with both its delimiters; quotes inside are skipped.
fn end_of(rest: &str, close: &str) -> Option<usize> {
    if close == "#}" {
        return rest.find(close).map(|at| at + 2);
    }
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(2) {
        match quote {
            Some(q) => {
                if !escaped && c == q {
                    quote = None;
                }
                escaped = !escaped && c == '\\';
            }
            None if c == '"' || c == '\'' => quote = Some(c),
            None if rest[at..].starts_with(close) => return Some(at + 2),
            None => {}
        }
    }
    None
}

type Found = (usize, ExpressionPlace);

/// Follows YAML as far as needed to know whether a whole value is allowed at a place.
struct Scanner<'a> {
    text: &'a [Unit],
    at: usize,
}

/// The state at the start of a line.
#[derive(Default)]
struct Lines {
    /// The block scalar that is open: deeper lines than this column belong to it; -1 for that of a whole document.
    block: Option<isize>,
    /// Column of the node whose plain text a deeper line would continue.
    plain: Option<usize>,
    /// Depth of `[` and `{`.
    flow: usize,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<Unit> {
        self.text.get(self.at + ahead).copied()
    }

    fn is(&self, ahead: usize, c: char) -> bool {
        self.peek(ahead) == Some(Unit::Char(c))
    }

    /// A blank or the end of the line or text.
    fn blank(&self, ahead: usize) -> bool {
        matches!(self.peek(ahead), None | Some(Unit::Char(' ' | '\t' | '\n' | '\r')))
    }

    fn scan(mut self) -> Result<(), Found> {
        let mut lines = Lines::default();
        while self.at < self.text.len() {
            self.line(&mut lines)?;
        }
        Ok(())
    }

    fn line(&mut self, lines: &mut Lines) -> Result<(), Found> {
        let mut column = 0_usize;
        while self.is(0, ' ') || self.is(0, '\t') {
            self.at += 1;
            column += 1;
        }
        if self.is(0, '\n') || self.peek(0).is_none() || self.is(0, '\r') {
            self.skip_line(None)?;
            return Ok(());
        }
        if let Some(parent) = lines.block {
            if column.cast_signed() > parent {
                return self.skip_line(Some(ExpressionPlace::BlockScalar));
            }
            lines.block = None;
        }
        if let (Some(Unit::Mark(mark)), Some(parent)) = (self.peek(0), lines.plain)
            && column > parent
        {
            return Err((mark, ExpressionPlace::BesideText));
        }
        if lines.flow == 0 {
            lines.plain = None;
        }
        self.nodes(column, lines)
    }

    /// The rest of a line from the first thing that is not blank.
    fn nodes(&mut self, mut column: usize, lines: &mut Lines) -> Result<(), Found> {
        // Whether a whole value may start here.
        let mut fresh = true;
        // The column of the key, or of the dash in front, that a value here belongs to.
        let mut parent: Option<usize> = None;
        let mut node = column;
        while let Some(unit) = self.peek(0) {
            match unit {
                Unit::Char('\n') => break,
                Unit::Mark(mark) => {
                    if !fresh {
                        return Err((mark, ExpressionPlace::BesideText));
                    }
                    self.at += 1;
                    self.behind(mark, lines.flow)?;
                    fresh = false;
                    continue;
                }
                Unit::Char(' ' | '\t' | '\r') => {}
                Unit::Char('#')
                    if self.at == 0 || matches!(self.text[self.at - 1], Unit::Char(c) if c.is_whitespace()) =>
                {
                    return self.skip_line(None);
                }
                Unit::Char(quote @ ('"' | '\'')) if fresh => {
                    self.quoted(quote)?;
                    fresh = false;
                    continue;
                }
                Unit::Char('-' | '?') if fresh && self.blank(1) => {
                    parent = Some(column);
                    node = column + 2;
                }
                Unit::Char('[' | '{') if fresh || lines.flow > 0 => {
                    lines.flow += 1;
                    fresh = true;
                }
                Unit::Char(']' | '}') if lines.flow > 0 => {
                    lines.flow -= 1;
                    fresh = false;
                }
                Unit::Char(',') if lines.flow > 0 => fresh = true,
                Unit::Char(':') if self.blank(1) || lines.flow > 0 && !fresh => {
                    parent = Some(node);
                    fresh = true;
                }
                Unit::Char('|' | '>') if fresh && lines.flow == 0 && self.block_header() => {
                    lines.block = Some(parent.map_or(-1, usize::cast_signed));
                    return self.skip_line(Some(ExpressionPlace::BlockScalar));
                }
                // A tag or an anchor goes before the value.
                Unit::Char('!' | '&') if fresh => {
                    while !self.blank(0) {
                        self.at += 1;
                        column += 1;
                    }
                    continue;
                }
                Unit::Char(_) => {
                    fresh = false;
                    lines.plain = Some(parent.unwrap_or(column.saturating_sub(1)).min(node));
                }
            }
            if matches!(unit, Unit::Char(':')) && fresh {
                lines.plain = None;
            }
            self.at += 1;
            column += 1;
        }
        self.skip_line(None)
    }

    /// The text after an expression on its line must end the value.
    fn behind(&self, mark: usize, flow: usize) -> Result<(), Found> {
        let mut ahead = 0;
        while self.is(ahead, ' ') || self.is(ahead, '\t') || self.is(ahead, '\r') {
            ahead += 1;
        }
        match self.peek(ahead) {
            None | Some(Unit::Char('\n')) => Ok(()),
            Some(Unit::Char('#')) if ahead > 0 => Ok(()),
            Some(Unit::Char(',' | ']' | '}')) if flow > 0 => Ok(()),
            Some(Unit::Char(':')) if self.blank(ahead + 1) || flow > 0 => Err((mark, ExpressionPlace::Key)),
            _ => Err((mark, ExpressionPlace::BesideText)),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<(), Found> {
        self.at += 1;
        while let Some(unit) = self.peek(0) {
            self.at += 1;
            match unit {
                Unit::Mark(mark) => return Err((mark, ExpressionPlace::Quotes)),
                Unit::Char('\\') if quote == '"' => self.at += 1,
                Unit::Char(c) if c == quote => {
                    if quote == '\'' && self.is(0, '\'') {
                        self.at += 1;
                    } else {
                        return Ok(());
                    }
                }
                Unit::Char(_) => {}
            }
        }
        Ok(())
    }

    /// Whether `|` or `>` here starts a block scalar: digits and signs, then the end of the line or a comment.
    fn block_header(&self) -> bool {
        let mut ahead = 1;
        while matches!(self.peek(ahead), Some(Unit::Char('0'..='9' | '+' | '-'))) {
            ahead += 1;
        }
        while self.is(ahead, ' ') || self.is(ahead, '\r') {
            ahead += 1;
        }
        matches!(self.peek(ahead), None | Some(Unit::Char('\n' | '#') | Unit::Mark(_)))
    }

    /// Skips to the next line. An expression on the way is an error where a place is given.
    fn skip_line(&mut self, place: Option<ExpressionPlace>) -> Result<(), Found> {
        while let Some(unit) = self.peek(0) {
            self.at += 1;
            match (unit, place) {
                (Unit::Char('\n'), _) => return Ok(()),
                (Unit::Mark(mark), Some(place)) => return Err((mark, place)),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpressionPlace, check};

    #[test]
    fn an_expression_may_stand_where_a_whole_value_may() {
        for template in [
            "a: {{ values.a }}",
            "a: {{ values.a }} # why",
            "a:\n  {{ values.a }}\n",
            "- {{ values.a }}",
            "- a: {{ values.a }}\n  b: {{ values.b }}",
            "a: [{{ values.a }}, {{ values.b }}]",
            "a: {b: {{ values.a }}, c: 1}",
            "{% if x %}\na: {{ values.a }}\n{% endif %}",
            "a: {% if x %}{{ values.a }}{% else %}{{ values.b }}{% endif %}\nb: 1".split("{% else").next().unwrap(),
            "# about {{ values.a }}",
            "a: |\n  text\nb: {{ values.a }}",
            "a: >-\n  text\n  more\n- b: |\n    x\n  c: {{ values.a }}",
            "a: !!str {{ values.a }}",
            "'it''s': {{ values.a }}",
            "\"a\\\"b\": {{ '}}' ~ values.a }}",
            "{% raw %}a: '{{ not.an.expression }}'{% endraw %}",
            "{{ labels() }}",
            "url: http://host\nb: {{ values.a }}",
            "a: text\n{{ labels() }}",
        ] {
            assert_eq!(check(template), Ok(()), "{template}");
        }
    }

    #[test]
    fn an_expression_anywhere_else_is_refused_with_its_place() {
        for (template, line, place) in [
            ("a: '{{ values.a }}'", 1, ExpressionPlace::Quotes),
            ("a: \"x {{ values.a }}\"", 1, ExpressionPlace::Quotes),
            ("a: \"x\n  {{ values.a }}\"", 2, ExpressionPlace::Quotes),
            ("b: 1\n{{ values.a }}: 1", 2, ExpressionPlace::Key),
            ("a: {{ '{' }} {{ values.a }}: 1}", 1, ExpressionPlace::BesideText),
            ("a: { {{ values.a }}: 1}", 1, ExpressionPlace::Key),
            ("a: |\n  x: {{ values.a }}", 2, ExpressionPlace::BlockScalar),
            ("- a: >2-\n    {{ values.a }}", 2, ExpressionPlace::BlockScalar),
            ("- |\n  {{ values.a }}", 2, ExpressionPlace::BlockScalar),
            ("a: {{ values.a }}-web", 1, ExpressionPlace::BesideText),
            ("a: web-{{ values.a }}", 1, ExpressionPlace::BesideText),
            ("a: {{ values.a }}{{ values.b }}", 1, ExpressionPlace::BesideText),
            ("a: {{ values.a }} {{ values.b }}", 1, ExpressionPlace::BesideText),
            ("a: text\n  {{ values.a }}", 2, ExpressionPlace::BesideText),
            ("name{{ values.a }}: 1", 1, ExpressionPlace::BesideText),
            ("a: {% if x -%}\n  x{{ values.a }}\n{% endif %}", 2, ExpressionPlace::BesideText),
        ] {
            let found = check(template).unwrap_err();
            assert_eq!((found.line, found.place), (line, place), "{template}");
        }
    }

    #[test]
    fn the_message_says_how_to_write_it() {
        let message = check("a: {{ values.a }}-web").unwrap_err().to_string();
        assert!(message.contains("{{ values.a ~ '-web' }}"), "{message}");
    }
}
