//! The parsed form of templates: immutable, and shareable between threads. It has no copy of the source text. Nodes
//! refer to the text by position, so that error messages can quote it.

use super::builtins::FuncRef;
use super::quote;
use crate::template::stack;
use smallvec::SmallVec;
use std::fmt::Write as _;
use std::sync::Arc;

/// A template file, or the text given to `tpl`.
#[derive(Debug)]
pub struct Source {
    /// The name that error locations show.
    pub name: Box<str>,
    /// The text; of a file, the chart's own.
    pub text: Arc<Vec<u8>>,
}

impl Source {
    /// The text between two positions, for messages.
    pub fn slice(&self, span: Span) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(span))
    }

    /// The identifier between two positions. The lexer accepts only UTF-8.
    pub fn word(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }

    /// The text between two positions.
    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Line from 1, and column in bytes from 0 as Go counts it.
    pub fn line_column(&self, pos: u32) -> (usize, usize) {
        let before = &self.text[..pos as usize];
        let line = before.split(|&b| b == b'\n').count();
        let column = before.iter().rposition(|&b| b == b'\n').map_or(before.len(), |nl| before.len() - nl - 1);
        (line, column)
    }
}

/// A range of bytes of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A named template: a file's own text, or a `define` or `block` in it.
#[derive(Debug)]
pub struct Template {
    /// The name it is called by.
    pub name: Box<str>,
    /// The place of its text.
    pub source: Arc<Source>,
    /// Its effect.
    pub body: Vec<Node>,
}

impl Template {
    /// Whether there are only blanks; such a definition does not replace an earlier one.
    pub fn is_empty(&self) -> bool {
        self.body.iter().all(|node| match node {
            Node::Text(span) => {
                self.source.slice(*span).trim_matches(|c: char| c.is_whitespace() || c == '\u{85}').is_empty()
            }
            _ => false,
        })
    }
}

/// A step of a template.
#[derive(Debug)]
pub enum Node {
    /// Text to copy.
    Text(Span),
    /// `{{ pipeline }}`
    Action(Pipe),
    /// `{{ if }}`
    If(Box<Branch>),
    /// `{{ with }}`
    With(Box<Branch>),
    /// `{{ range }}`
    Range(Box<Branch>),
    /// `{{ template "name" pipeline }}`, or the call that a `block` makes
    Template(Box<Call>),
    /// `{{ break }}`
    Break(u32),
    /// `{{ continue }}`
    Continue(u32),
}

/// `if`, `with` or `range`.
#[derive(Debug)]
pub struct Branch {
    /// The condition, or the value that is ranged over.
    pub pipe: Pipe,
    /// The body.
    pub body: Vec<Node>,
    /// The body of `else`.
    pub otherwise: Option<Vec<Node>>,
}

impl Drop for Branch {
    fn drop(&mut self) {
        stack::deeper(|| drop((std::mem::take(&mut self.body), self.otherwise.take())));
    }
}

/// A call of another template.
#[derive(Debug)]
pub struct Call {
    /// Position of the name.
    pub pos: u32,
    /// The template.
    pub name: Box<str>,
    /// The value that it gets as dot.
    pub pipe: Option<Pipe>,
}

/// A variable, by its number among the names of a source.
#[derive(Debug)]
pub struct Variable {
    /// Number of the name; the same name has the same number throughout a source.
    pub id: u32,
    /// The name with its dollar sign.
    pub name: Span,
}

/// Commands joined by `|`, and the variables that take their result.
#[derive(Debug)]
pub struct Pipe {
    /// Position of its first token.
    pub pos: u32,
    /// `=` rather than `:=`.
    pub assign: bool,
    /// Variables to set.
    pub variables: Box<[Variable]>,
    /// The commands; never empty.
    pub commands: SmallVec<[Command; 1]>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        stack::deeper(|| drop(std::mem::take(&mut self.commands)));
    }
}

/// A function or value with its arguments.
#[derive(Debug)]
pub struct Command {
    /// Position of its first token.
    pub pos: u32,
    /// The function or value, then the arguments; never empty.
    pub args: Box<[Expr]>,
}

/// An operand.
#[derive(Debug)]
pub struct Expr {
    /// Position that error messages name.
    pub pos: u32,
    /// Its kind.
    pub kind: ExprKind,
}

/// Names of fields, without their dots.
pub type Fields = Box<[Span]>;

/// The kinds of operands.
#[derive(Debug)]
pub enum ExprKind {
    /// `.`
    Dot,
    /// `nil`
    Nil,
    /// `true`, `false`
    Bool(bool),
    /// A number or character.
    Number(Box<Number>),
    /// A string; the number indexes the strings that a renderer has already made of constants.
    Str {
        /// Number of the constant.
        id: u32,
        /// The text after unquoting, unless it equals the text between the quotes.
        text: Option<Box<[u8]>>,
        /// The text with its quotes.
        quoted: Span,
    },
    /// `.a.b`
    Field(Fields),
    /// `$x.a.b`
    Variable(Variable, Fields),
    /// A function's name.
    Function(FuncRef),
    /// `(pipeline).a.b`
    Chain(Box<Expr>, Fields),
    /// `(pipeline)`
    Pipe(Box<Pipe>),
}

/// A number under every type that can hold it, as Go's constants are.
#[derive(Debug)]
pub struct Number {
    /// As a signed integer.
    pub int: Option<i64>,
    /// As an unsigned integer.
    pub uint: Option<u64>,
    /// As a float.
    pub float: Option<f64>,
    /// As a complex number, if that is how it was written.
    pub complex: Option<(f64, f64)>,
    /// Whether, where any type would do, it is a float.
    pub prefers_float: bool,
    /// The text in the source.
    pub text: Span,
}

/// Where an execution is, for error messages.
#[derive(Clone, Copy)]
pub enum At<'t> {
    /// A statement.
    Node(&'t Node),
    /// A pipeline.
    Pipe(&'t Pipe),
    /// A command.
    Command(&'t Command),
    /// An operand.
    Expr(&'t Expr),
}

impl At<'_> {
    /// The position and, in Go's words, the text of the node.
    pub fn describe(self, source: &Source) -> (u32, String) {
        let mut w = Writer { source, out: String::new() };
        let pos = match self {
            At::Node(n) => w.node(n),
            At::Pipe(p) => w.pipe(p),
            At::Command(c) => w.command(c),
            At::Expr(e) => w.expr(e),
        };
        (pos, w.out)
    }
}

/// Writes nodes as Go's `Node.String` does; each method returns the node's position.
struct Writer<'s> {
    source: &'s Source,
    out: String,
}

impl Writer<'_> {
    fn span(&mut self, span: Span) {
        let text = self.source.slice(span);
        self.out.push_str(&text);
    }

    fn list(&mut self, nodes: &[Node]) {
        for node in nodes {
            stack::deeper(|| self.node(node));
        }
    }

    fn branch(&mut self, keyword: &str, branch: &Branch) -> u32 {
        let _ = write!(self.out, "{{{{{keyword} ");
        self.pipe(&branch.pipe);
        self.out.push_str("}}");
        self.list(&branch.body);
        if let Some(otherwise) = &branch.otherwise {
            self.out.push_str("{{else}}");
            self.list(otherwise);
        }
        self.out.push_str("{{end}}");
        branch.pipe.pos
    }

    fn node(&mut self, node: &Node) -> u32 {
        match node {
            Node::Text(span) => {
                self.span(*span);
                span.start
            }
            Node::Action(pipe) => {
                self.out.push_str("{{");
                self.pipe(pipe);
                self.out.push_str("}}");
                pipe.pos
            }
            Node::If(b) => self.branch("if", b),
            Node::With(b) => self.branch("with", b),
            Node::Range(b) => self.branch("range", b),
            Node::Template(call) => {
                let _ = write!(self.out, "{{{{template {}", quote::quoted(call.name.as_bytes()));
                if let Some(pipe) = &call.pipe {
                    self.out.push(' ');
                    self.pipe(pipe);
                }
                self.out.push_str("}}");
                call.pos
            }
            Node::Break(pos) => {
                self.out.push_str("{{break}}");
                *pos
            }
            Node::Continue(pos) => {
                self.out.push_str("{{continue}}");
                *pos
            }
        }
    }

    fn pipe(&mut self, pipe: &Pipe) -> u32 {
        for (i, variable) in pipe.variables.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.span(variable.name);
        }
        if !pipe.variables.is_empty() {
            self.out.push_str(if pipe.assign { " = " } else { " := " });
        }
        for (i, command) in pipe.commands.iter().enumerate() {
            if i > 0 {
                self.out.push_str(" | ");
            }
            self.command(command);
        }
        pipe.pos
    }

    fn command(&mut self, command: &Command) -> u32 {
        for (i, arg) in command.args.iter().enumerate() {
            if i > 0 {
                self.out.push(' ');
            }
            self.operand(arg);
        }
        command.pos
    }

    /// An operand inside a command or chain, where a pipeline is in parentheses.
    fn operand(&mut self, expr: &Expr) {
        let parens = matches!(expr.kind, ExprKind::Pipe(_));
        if parens {
            self.out.push('(');
        }
        self.expr(expr);
        if parens {
            self.out.push(')');
        }
    }

    fn fields(&mut self, fields: &[Span]) {
        for field in fields {
            self.out.push('.');
            self.span(*field);
        }
    }

    fn expr(&mut self, expr: &Expr) -> u32 {
        match &expr.kind {
            ExprKind::Dot => self.out.push('.'),
            ExprKind::Nil => self.out.push_str("nil"),
            ExprKind::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            ExprKind::Number(n) => self.span(n.text),
            ExprKind::Str { quoted, .. } => self.span(*quoted),
            ExprKind::Field(fields) => self.fields(fields),
            ExprKind::Variable(variable, fields) => {
                self.span(variable.name);
                self.fields(fields);
            }
            ExprKind::Function(function) => self.out.push_str(function.name()),
            ExprKind::Chain(inner, fields) => {
                self.operand(inner);
                self.fields(fields);
            }
            ExprKind::Pipe(pipe) => {
                stack::deeper(|| self.pipe(pipe));
            }
        }
        expr.pos
    }
}
