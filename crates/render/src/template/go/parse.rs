//! Tokens to templates, with Go's messages.
//!
//! Go's parser keeps up to three tokens of look-ahead and names the line of the last token that it *read* in its
//! messages, so the look-ahead is kept the same way here.

use super::ast::{Branch, Call, Command, Expr, ExprKind, Fields, Node, Number, Pipe, Source, Span, Template, Variable};
use super::builtins::Functions;
use super::lex::{Lexer, Token, TokenKind};
use super::{number, quote};
use crate::template::stack;
use smallvec::SmallVec;
use std::mem;
use std::sync::Arc;

/// The definitions of a text, in their order; its own body is last.
pub struct Parsed {
    /// The templates.
    pub templates: Vec<Arc<Template>>,
    /// How many string constants there are, with those counted before.
    pub constants: u32,
    /// The text.
    pub source: Arc<Source>,
}

/// Why a text is not a template: Go's message, as in `template: NAME:LINE: unexpected "}" in operand`.
#[derive(Debug, thiserror::Error)]
#[error("template: {name}:{line}: {message}")]
pub struct ParseError {
    name: String,
    line: u32,
    message: String,
}

/// Nesting of `if`, `range`, `with` and `block` that is accepted. Go has no limit; real charts stay below 30.
const MAX_CONTROL_DEPTH: usize = 2_000;
/// Nesting of parentheses that Go accepts.
const MAX_PAREN_DEPTH: usize = 10_000;

/// Parses a text. `constants` is the number of the first string constant.
pub fn parse(name: &str, text: &Arc<Vec<u8>>, functions: &Functions, constants: u32) -> Result<Parsed, ParseError> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError { name: name.into(), line: 1, message: "template text is larger than 4 GiB".into() });
    }
    let source = Arc::new(Source { name: name.into(), text: Arc::clone(text) });
    let mut parser = Parser {
        lexer: Lexer::new(text),
        source: Arc::clone(&source),
        functions,
        names: vec![b"$"],
        constants,
        tree: Tree::default(),
        templates: Vec::new(),
        control_depth: 0,
    };
    let body = parser.file()?;
    parser.add(Template { name: name.into(), source: Arc::clone(&source), body })?;
    Ok(Parsed { templates: parser.templates, constants: parser.constants, source })
}

type Parse<T> = Result<T, ParseError>;

/// The state of one template while it is parsed. A `define` inside a file has its own.
struct Tree {
    tokens: [Token; 3],
    peeked: usize,
    variables: Vec<u32>,
    action_line: u32,
    range_depth: usize,
    paren_depth: usize,
}

impl Default for Tree {
    fn default() -> Self {
        // Number 0 is `$`, which every template has.
        let variables = vec![0];
        Self { tokens: [Token::NONE; 3], peeked: 0, variables, action_line: 0, range_depth: 0, paren_depth: 0 }
    }
}

struct Parser<'s> {
    lexer: Lexer<'s>,
    source: Arc<Source>,
    functions: &'s Functions,
    names: Vec<&'s [u8]>,
    constants: u32,
    tree: Tree,
    templates: Vec<Arc<Template>>,
    control_depth: usize,
}

/// A statement, or what ends a list of statements.
enum Item {
    Node(Node),
    End,
    Else,
}

impl Item {
    fn show(&self) -> &'static str {
        match self {
            Self::Else => "{{else}}",
            _ => "{{end}}",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

impl Control {
    fn keyword(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

fn position(token: Token) -> u32 {
    token.start
}

fn span(token: Token) -> Span {
    Span { start: token.start, end: token.end }
}

/// The name in the token of a field.
fn field_name(token: Token) -> Span {
    let Span { start, end } = span(token);
    Span { start: start + 1, end }
}

impl Parser<'_> {
    // Tokens.

    fn next(&mut self) -> Token {
        let tree = &mut self.tree;
        if tree.peeked > 0 {
            tree.peeked -= 1;
        } else {
            tree.tokens[0] = self.lexer.next_token();
        }
        tree.tokens[tree.peeked]
    }

    fn backup(&mut self) {
        self.tree.peeked += 1;
    }

    /// Puts `first` back in front of the token that was read last.
    fn backup2(&mut self, first: Token) {
        self.tree.tokens[1] = first;
        self.tree.peeked = 2;
    }

    fn backup3(&mut self, first: Token, second: Token) {
        self.tree.tokens[1] = second;
        self.tree.tokens[2] = first;
        self.tree.peeked = 3;
    }

    fn peek(&mut self) -> Token {
        let tree = &mut self.tree;
        if tree.peeked == 0 {
            tree.peeked = 1;
            tree.tokens[0] = self.lexer.next_token();
        }
        tree.tokens[tree.peeked - 1]
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != TokenKind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.backup();
        token
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Parse<Token> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    // Errors.

    fn error<T>(&self, message: impl Into<String>) -> Parse<T> {
        Err(ParseError { name: self.source.name.to_string(), line: self.tree.tokens[0].line, message: message.into() })
    }

    fn unexpected<T>(&self, token: Token, context: &str) -> Parse<T> {
        if token.kind != TokenKind::Error {
            return self.error(format!("unexpected {} in {context}", self.lexer.show(token)));
        }
        let message = self.lexer.error();
        let started = self.tree.action_line;
        if started == 0 || started == token.line {
            return self.error(message);
        }
        let lead = if message.ends_with(" action") { "" } else { " in action" };
        self.error(format!("{message}{lead} started at {}:{started}", self.source.name))
    }

    // Statements.

    fn file(&mut self) -> Parse<Vec<Node>> {
        let mut body = Vec::new();
        loop {
            match self.peek().kind {
                TokenKind::Eof => {
                    body.shrink_to_fit();
                    return Ok(body);
                }
                TokenKind::LeftDelim => {
                    let delim = self.next();
                    if self.next_non_space().kind == TokenKind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.backup2(delim);
                }
                _ => {}
            }
            match self.text_or_action()? {
                Item::Node(node) => body.push(node),
                item => return self.error(format!("unexpected {}", item.show())),
            }
        }
    }

    /// Adds a template, unless one with the same name was defined in this text and only one of them has a body.
    fn add(&mut self, template: Template) -> Parse<()> {
        match self.templates.iter().position(|t| t.name == template.name) {
            None => self.templates.push(Arc::new(template)),
            Some(i) if self.templates[i].is_empty() => {
                self.templates.remove(i);
                self.templates.push(Arc::new(template));
            }
            Some(_) if template.is_empty() => {}
            Some(_) => {
                let name = quote::quoted(template.name.as_bytes());
                return self.error(format!("template: multiple definition of template {name}"));
            }
        }
        Ok(())
    }

    fn definition(&mut self) -> Parse<()> {
        const CONTEXT: &str = "define clause";
        let outer = mem::take(&mut self.tree);
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(TokenKind::RightDelim, CONTEXT)?;
        let body = self.sub_template(CONTEXT)?;
        self.add(Template { name, source: Arc::clone(&self.source), body })?;
        self.tree = outer;
        Ok(())
    }

    fn sub_template(&mut self, context: &str) -> Parse<Vec<Node>> {
        let (body, end) = self.item_list()?;
        match end {
            Item::End => Ok(body),
            other => self.error(format!("unexpected {} in {context}", other.show())),
        }
    }

    fn template_name(&mut self, token: Token, context: &str) -> Parse<Box<str>> {
        if !matches!(token.kind, TokenKind::Str | TokenKind::RawString) {
            return self.unexpected(token, context);
        }
        match quote::unquote(self.lexer.bytes(token)) {
            Some(name) => Ok(String::from_utf8_lossy(&name).into()),
            None => self.error("invalid syntax"),
        }
    }

    fn item_list(&mut self) -> Parse<(Vec<Node>, Item)> {
        let mut list = SmallVec::<[Node; 6]>::new();
        while self.peek_non_space().kind != TokenKind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => list.push(node),
                end => return Ok((exact(list), end)),
            }
        }
        self.error("unexpected EOF")
    }

    fn text_or_action(&mut self) -> Parse<Item> {
        let token = self.next_non_space();
        match token.kind {
            TokenKind::Text => Ok(Item::Node(Node::Text(span(token)))),
            TokenKind::LeftDelim => {
                self.tree.action_line = token.line;
                let item = self.action();
                self.tree.action_line = 0;
                item
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Parse<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            TokenKind::Block => self.block()?,
            TokenKind::Break => self.jump("{{break}}", Node::Break(position(token)))?,
            TokenKind::Continue => self.jump("{{continue}}", Node::Continue(position(token)))?,
            TokenKind::Else => {
                // `{{else if` and `{{else with` leave their keyword for the control that they belong to.
                if !matches!(self.peek_non_space().kind, TokenKind::If | TokenKind::With) {
                    self.expect(TokenKind::RightDelim, "else")?;
                }
                return Ok(Item::Else);
            }
            TokenKind::End => {
                self.expect(TokenKind::RightDelim, "end")?;
                return Ok(Item::End);
            }
            TokenKind::If => self.control(Control::If)?,
            TokenKind::Range => self.control(Control::Range)?,
            TokenKind::With => self.control(Control::With)?,
            TokenKind::Template => self.template_call()?,
            _ => {
                self.backup();
                self.peek();
                Node::Action(self.pipeline("command", TokenKind::RightDelim)?)
            }
        };
        Ok(Item::Node(node))
    }

    fn jump(&mut self, statement: &str, node: Node) -> Parse<Node> {
        let token = self.next_non_space();
        if token.kind != TokenKind::RightDelim {
            return self.unexpected(token, statement);
        }
        if self.tree.range_depth == 0 {
            return self.error(format!("{statement} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    fn template_call(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != TokenKind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, TokenKind::RightDelim)?);
        }
        Ok(Node::Template(Box::new(Call { pos: position(token), name, pipe })))
    }

    fn block(&mut self) -> Parse<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, TokenKind::RightDelim)?;
        self.enter_control()?;
        let outer = mem::take(&mut self.tree);
        let (body, end) = self.item_list()?;
        if !matches!(end, Item::End) {
            // Go's outer parser reports the error. It has read no further than the clause.
            self.tree = outer;
            return self.error(format!("unexpected {} in {CONTEXT}", end.show()));
        }
        self.add(Template { name: name.clone(), source: Arc::clone(&self.source), body })?;
        self.tree = outer;
        self.control_depth -= 1;
        Ok(Node::Template(Box::new(Call { pos: position(token), name, pipe: Some(pipe) })))
    }

    fn enter_control(&mut self) -> Parse<()> {
        self.control_depth += 1;
        if self.control_depth > MAX_CONTROL_DEPTH || stack::is_exhausted() {
            return self.error("control structures are nested too deeply");
        }
        Ok(())
    }

    fn control(&mut self, control: Control) -> Parse<Node> {
        let variables = self.tree.variables.len();
        let pipe = self.pipeline(control.keyword(), TokenKind::RightDelim)?;
        self.enter_control()?;
        let in_range = usize::from(control == Control::Range);
        self.tree.range_depth += in_range;
        let (body, end) = stack::deeper(|| self.item_list())?;
        self.tree.range_depth -= in_range;
        let mut otherwise = None;
        if let Item::Else = end {
            let chained = match (control, self.peek().kind) {
                (Control::If, TokenKind::If) | (Control::With, TokenKind::With) => Some(control),
                _ => None,
            };
            if let Some(control) = chained {
                // The chained control takes the `{{end}}` of this one.
                self.next();
                otherwise = Some(vec![stack::deeper(|| self.control(control))?]);
            } else {
                let (list, end) = self.item_list()?;
                if !matches!(end, Item::End) {
                    return self.error(format!("expected end; found {}", end.show()));
                }
                otherwise = Some(list);
            }
        }
        self.control_depth -= 1;
        self.tree.variables.truncate(variables);
        let branch = Box::new(Branch { pipe, body, otherwise });
        Ok(match control {
            Control::If => Node::If(branch),
            Control::With => Node::With(branch),
            Control::Range => Node::Range(branch),
        })
    }

    // Pipelines.

    fn variable(&mut self, token: Token) -> Variable {
        let name = self.lexer.bytes(token);
        let id = self.names.iter().position(|n| *n == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        Variable { id: u32::try_from(id).unwrap_or(u32::MAX), name: span(token) }
    }

    fn pipeline(&mut self, context: &str, end: TokenKind) -> Parse<Pipe> {
        let first = self.peek_non_space();
        let (variables, assign) = self.declarations(context)?;
        let variables = exact(variables).into_boxed_slice();
        let mut pipe = Pipe { pos: position(first), assign, variables, commands: SmallVec::new() };
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::Str
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.backup();
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
        if pipe.commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        for (i, command) in pipe.commands.iter().enumerate().skip(1) {
            use ExprKind::{Bool, Dot, Nil, Number, Str};
            if let Some(Expr { kind: Bool(_) | Dot | Nil | Number(_) | Str { .. }, .. }) = command.args.first() {
                return self.error(format!("non executable command in pipeline stage {}", i + 1));
            }
        }
        Ok(pipe)
    }

    /// The variables that a pipeline sets, and whether they exist already.
    fn declarations(&mut self, context: &str) -> Parse<(SmallVec<[Variable; 2]>, bool)> {
        let mut variables = SmallVec::new();
        loop {
            let token = self.peek_non_space();
            if token.kind != TokenKind::Variable {
                return Ok((variables, false));
            }
            self.next();
            let after = self.peek();
            let next = self.peek_non_space();
            let comma = next.kind == TokenKind::Char && self.lexer.bytes(next) == b",";
            if matches!(next.kind, TokenKind::Assign | TokenKind::Declare) || comma {
                self.next_non_space();
                let variable = self.variable(token);
                self.tree.variables.push(variable.id);
                variables.push(variable);
                if !comma {
                    return Ok((variables, next.kind == TokenKind::Assign));
                }
                if context != "range" || variables.len() >= 2 {
                    return self.error(format!("too many declarations in {context}"));
                }
                if !matches!(
                    self.peek_non_space().kind,
                    TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen
                ) {
                    return self.error("range can only initialize variables");
                }
            } else {
                if after.kind == TokenKind::Space {
                    self.backup3(token, after);
                } else {
                    self.backup2(token);
                }
                return Ok((variables, false));
            }
        }
    }

    fn command(&mut self) -> Parse<Command> {
        let pos = position(self.peek_non_space());
        let mut args = SmallVec::<[Expr; 4]>::new();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                args.push(operand);
            }
            let token = self.next();
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.backup(),
                TokenKind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if args.is_empty() {
            return self.error("empty command");
        }
        Ok(Command { pos, args: exact(args).into_boxed_slice() })
    }

    fn operand(&mut self) -> Parse<Option<Expr>> {
        let mut fields: SmallVec<[Span; 8]> = SmallVec::new();
        let Some(mut term) = self.term(&mut fields)? else { return Ok(None) };
        let first = self.peek();
        if first.kind != TokenKind::Field {
            if let ExprKind::Field(all) = &mut term.kind {
                *all = Box::from(&*fields);
            }
            return Ok(Some(term));
        }
        while self.peek().kind == TokenKind::Field {
            let token = self.next();
            fields.push(field_name(token));
        }
        // More fields on a field or variable make one longer chain, whose position is its *second* part's.
        let fields: Fields = Box::from(&*fields);
        let kind = match term.kind {
            ExprKind::Field(_) => ExprKind::Field(fields),
            ExprKind::Variable(variable, _) => ExprKind::Variable(variable, fields),
            ExprKind::Bool(_) | ExprKind::Str { .. } | ExprKind::Number(_) | ExprKind::Nil | ExprKind::Dot => {
                let (_, text) = super::ast::At::Expr(&term).describe(&self.source);
                return self.error(format!("unexpected . after term {}", quote::quoted(text.as_bytes())));
            }
            _ => ExprKind::Chain(Box::new(term), fields),
        };
        Ok(Some(Expr { pos: position(first), kind }))
    }

    /// An operand without fields after it; of one that is itself a field, the name goes to `fields`.
    fn term(&mut self, fields: &mut SmallVec<[Span; 8]>) -> Parse<Option<Expr>> {
        let token = self.next_non_space();
        let kind = match token.kind {
            TokenKind::Identifier => {
                let name = self.lexer.bytes(token);
                match self.functions.get(name) {
                    Some(function) => ExprKind::Function(function),
                    None => {
                        return self.error(format!("function {} not defined", quote::quoted(name)));
                    }
                }
            }
            TokenKind::Dot => ExprKind::Dot,
            TokenKind::Nil => ExprKind::Nil,
            TokenKind::Variable => {
                let variable = self.variable(token);
                if !self.tree.variables.contains(&variable.id) {
                    let name = quote::quoted(self.lexer.bytes(token));
                    return self.error(format!("undefined variable {name}"));
                }
                ExprKind::Variable(variable, Box::default())
            }
            TokenKind::Field => {
                fields.push(field_name(token));
                ExprKind::Field(Fields::default())
            }
            TokenKind::Bool => ExprKind::Bool(self.lexer.bytes(token) == b"true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                ExprKind::Number(Box::new(self.number(token)?))
            }
            TokenKind::LeftParen => {
                if self.tree.paren_depth >= MAX_PAREN_DEPTH || stack::is_exhausted() {
                    return self.error("max expression depth exceeded");
                }
                self.tree.paren_depth += 1;
                let pipe = stack::deeper(|| self.pipeline("parenthesized pipeline", TokenKind::RightParen))?;
                self.tree.paren_depth -= 1;
                return Ok(Some(Expr { pos: pipe.pos, kind: ExprKind::Pipe(Box::new(pipe)) }));
            }
            TokenKind::Str | TokenKind::RawString => {
                let quoted = self.lexer.bytes(token);
                let mut text = None;
                if !quote::is_plain(quoted) {
                    let Some(unquoted) = quote::unquote(quoted) else { return self.error("invalid syntax") };
                    text = Some(unquoted.into());
                }
                let id = self.constants;
                self.constants += 1;
                ExprKind::Str { id, text, quoted: span(token) }
            }
            _ => {
                self.backup();
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: position(token), kind }))
    }

    fn number(&mut self, token: Token) -> Parse<Number> {
        let text = self.lexer.bytes(token);
        match if token.kind == TokenKind::Complex { number::pair(text) } else { number::constant(text) } {
            Ok(c) => Ok(Number {
                int: c.int,
                uint: c.uint,
                float: c.float,
                complex: c.complex,
                prefers_float: c.prefers_float,
                text: span(token),
            }),
            Err(error) => self.error(error.to_string()),
        }
    }
}

/// A list that takes no more memory than it needs: trees live as long as their chart, and a command that renders once
/// waits for the memory that it touches.
fn exact<A: smallvec::Array>(list: SmallVec<A>) -> Vec<A::Item> {
    // A short `Vec` that is collected has room for four, and would have to be moved to lose it.
    let mut exact = Vec::with_capacity(list.len());
    exact.extend(list);
    exact
}
