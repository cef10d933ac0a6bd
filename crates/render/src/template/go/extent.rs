//! The text that a node was parsed from, for excerpts. Go keeps only one position of a node, in its midst.

use super::ast::{At, Command, Expr, ExprKind, Node, Pipe, Source, Span};
use crate::template::stack;
use crate::template::trace::Excerpt;

/// The name of texts given to `tpl`, which belong to the values and not to the chart.
const VALUE_TEXT: &str = "gotpl";

/// The bytes of a node; of a statement, those of its pipeline. `None` for nodes without an expression.
pub fn of(at: At<'_>, source: &Source) -> Option<Span> {
    match at {
        At::Node(Node::Action(pipe)) | At::Pipe(pipe) => of_pipe(pipe, source),
        At::Node(Node::If(branch) | Node::With(branch) | Node::Range(branch)) => of_pipe(&branch.pipe, source),
        At::Node(Node::Template(call)) => {
            let length = source.text[call.pos as usize..].iter().skip(1).position(|b| matches!(b, b'"' | b'`'));
            let end = call.pos + u32::try_from(length? + 2).ok()?;
            Some(Span { start: call.pos, end })
        }
        At::Node(_) => None,
        At::Command(command) => of_command(command, source),
        At::Expr(expr) => of_expr(expr, source),
    }
}

fn of_pipe(pipe: &Pipe, source: &Source) -> Option<Span> {
    let first = pipe.variables.first().map(|v| v.name).or_else(|| of_command(pipe.commands.first()?, source))?;
    let last = of_command(pipe.commands.last()?, source)?;
    Some(Span { start: first.start, end: last.end })
}

fn of_command(command: &Command, source: &Source) -> Option<Span> {
    let first = of_expr(command.args.first()?, source)?;
    let last = of_expr(command.args.last()?, source)?;
    Some(Span { start: first.start, end: last.end })
}

fn of_expr(expr: &Expr, source: &Source) -> Option<Span> {
    let sized = |length: usize| Some(Span { start: expr.pos, end: expr.pos + u32::try_from(length).ok()? });
    match &expr.kind {
        ExprKind::Dot => sized(1),
        ExprKind::Nil => sized(3),
        ExprKind::Bool(b) => sized(if *b { 4 } else { 5 }),
        ExprKind::Number(number) => Some(number.text),
        ExprKind::Str { quoted, .. } => Some(*quoted),
        ExprKind::Function(function) => sized(function.name().len()),
        ExprKind::Field(fields) => {
            let (first, last) = (fields.first()?, fields.last()?);
            Some(Span { start: first.start - 1, end: last.end })
        }
        ExprKind::Variable(variable, fields) => {
            let end = fields.last().map_or(variable.name.end, |last| last.end);
            Some(Span { start: variable.name.start, end })
        }
        ExprKind::Chain(inner, fields) => {
            let inner = stack::deeper(|| of_expr(inner, source))?;
            Some(Span { start: inner.start, end: fields.last()?.end })
        }
        ExprKind::Pipe(pipe) => {
            let inner = stack::deeper(|| of_pipe(pipe, source))?;
            let blank = |b: &&u8| b.is_ascii_whitespace();
            let before = source.text[..inner.start as usize].iter().rev().take_while(blank).count();
            let after = source.text[inner.end as usize..].iter().take_while(blank).count();
            let (before, after) = (u32::try_from(before + 1).ok()?, u32::try_from(after + 1).ok()?);
            Some(Span { start: inner.start.checked_sub(before)?, end: inner.end + after })
        }
    }
}

/// Whether a text belongs to the chart, and is not a value.
pub fn is_of_chart(source: &Source) -> bool {
    *source.name != *VALUE_TEXT
}

/// The line in which a span starts; `None` for a text that is a value.
pub fn excerpt(source: &Source, span: Span) -> Option<Excerpt> {
    if !is_of_chart(source) {
        return None;
    }
    let (line, column) = source.line_column(span.start);
    let start = span.start as usize - column;
    let text = source.text[start..].split(|b| *b == b'\n').next()?;
    let length = (span.end - span.start) as usize;
    Some(Excerpt::new(line, &String::from_utf8_lossy(text), column..column + length))
}

/// The line of a text that a parser's message is about, and in it what the message quotes.
pub fn quoted(text: &[u8], line: usize, message: &str) -> Option<Excerpt> {
    let text = String::from_utf8_lossy(text.split(|b| *b == b'\n').nth(line.checked_sub(1)?)?);
    let word = message.rsplit_once(": ").and_then(|(_, last)| last.split('"').nth(1)).filter(|word| !word.is_empty());
    let found = word.and_then(|word| text.find(word).map(|start| start..start + word.len()));
    Some(found.map_or_else(|| Excerpt::whole(line, &text), |range| Excerpt::new(line, &text, range)))
}
