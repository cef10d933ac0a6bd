//! Executes the statements of a template.

use super::ast::{At, Branch, Call, Expr, ExprKind, Node, Pipe, Span, Template};
use super::builtins::{has_interfaces, truth};
use super::error::Failure;
use super::render::{Slot, State};
use super::{extent, fmt, quote};
use crate::template::budget;
use crate::template::function::FnError;
use crate::template::stack;
use crate::template::trace::{Location, Missing};
use crate::template::value::{Items, Kind, MapType, Str, Value};

/// How deep `{{ template }}` may be nested in Go. A thread without a large stack answers with the same words earlier.
const MAX_DEPTH: u32 = 100_000;

/// A value as Go's `reflect` sees it while a template is executed.
///
/// Go knows whether a value was taken out of an interface, such as an element of a `map[string]interface {}`; this
/// decides what a nil is (`interface: true`, a nil interface; else no value at all) and how types are named.
#[derive(Clone)]
pub(super) struct Rv {
    pub value: Value,
    pub interface: bool,
}

impl Rv {
    /// No value at all.
    pub const INVALID: Self = Self { value: Value::Nil, interface: false };

    /// A value of its own type.
    pub fn concrete(value: Value) -> Self {
        Self { value, interface: false }
    }

    /// A value inside an interface.
    pub fn interface(value: Value) -> Self {
        Self { value, interface: true }
    }

    /// Whether there is no value at all.
    pub fn is_invalid(&self) -> bool {
        !self.interface && matches!(self.value, Value::Nil)
    }
}

/// Why a statement did not end normally.
pub(super) enum Stop {
    Break,
    Continue,
    Fail(Failure),
}

pub(super) type Exec<T> = Result<T, Stop>;

/// One execution of one template.
pub(super) struct Frame<'t, 'r, 's> {
    pub state: &'r mut State<'s>,
    template: &'t Template,
    /// The expression that is being evaluated, for messages.
    at: At<'t>,
    /// Where the variables of this execution start.
    base: usize,
}

impl<'t, 'r, 's> Frame<'t, 'r, 's> {
    /// Executes a template.
    pub fn run(state: &'r mut State<'s>, template: &'t Template, dot: &Rv) -> Result<(), Failure> {
        let Some(first) = template.body.first() else { return Ok(()) };
        let base = state.variables.len();
        state.variables.push(Slot { id: 0, value: dot.clone() });
        let mut frame = Frame { state, template, at: At::Node(first), base };
        let result = frame.walk(dot, &template.body);
        frame.state.variables.truncate(base);
        match result {
            Err(Stop::Fail(failure)) => Err(failure),
            // The parser accepts `break` and `continue` only inside of `range`.
            Ok(()) | Err(Stop::Break | Stop::Continue) => Ok(()),
        }
    }

    // Errors.

    /// Notes what is being evaluated.
    pub fn at(&mut self, at: At<'t>) {
        self.at = at;
    }

    /// Fails at the present expression.
    pub fn error<T>(&self, message: impl AsRef<str>) -> Exec<T> {
        self.fail(message.as_ref(), None)
    }

    /// Fails at the present expression, because of another failure whose text follows.
    pub fn fail<T>(&self, message: &str, cause: Option<Failure>) -> Exec<T> {
        Err(Stop::Fail(self.failure(message, cause)))
    }

    /// Fails at the present expression, because something is missing.
    pub fn miss<T>(&self, message: &str, missing: Option<Missing>) -> Exec<T> {
        Err(Stop::Fail(self.failure(message, None).with_missing(missing)))
    }

    #[cold]
    fn failure(&self, message: &str, cause: Option<Failure>) -> Failure {
        let source = &self.template.source;
        let (pos, node) = self.at.describe(source);
        let (line, column) = source.line_column(pos);
        let (file, name) = (&source.name, quote::quoted(self.template.name.as_bytes()));
        let text = format!("template: {file}:{line}:{column}: executing {name} at <{node}>: {message}");
        let location = Location {
            file: file.to_string(),
            line,
            column: Some(column),
            template: self.template.name.to_string(),
            excerpt: extent::of(self.at, source).and_then(|span| extent::excerpt(source, span)),
        };
        Failure::exec(text, location, cause)
    }

    /// The text of an operand, for messages.
    pub fn text(&self, expr: &Expr) -> String {
        At::Expr(expr).describe(&self.template.source).1
    }

    /// A value in a message.
    pub fn show(&self, value: &Value) -> Exec<String> {
        match fmt::sprint(std::slice::from_ref(value)) {
            Ok(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            Err(FnError::Message(message) | FnError::Nested(message)) => self.error(message),
        }
    }

    // Limits.

    /// Counts a step, and checks whether there is stack for another level.
    pub fn step(&mut self) -> Exec<()> {
        self.pay(budget::work(1))?;
        if stack::is_exhausted() { self.error("template is nested too deeply") } else { Ok(()) }
    }

    /// Fails if a limit has been reached.
    pub fn pay(&self, result: Result<(), budget::Spent>) -> Exec<()> {
        result.or_else(|spent| self.error(spent.to_string()))
    }

    fn check_output(&self) -> Exec<()> {
        let limit = self.state.limits.output;
        if self.state.out.len() > limit {
            return self.error(format!("template wrote more than {limit} bytes"));
        }
        Ok(())
    }

    /// The bytes of an identifier of the template.
    pub fn word_bytes(&self, span: Span) -> &'t [u8] {
        self.template.source.bytes(span)
    }

    /// An identifier of the template.
    pub fn word(&self, span: Span) -> &'t str {
        self.template.source.word(span)
    }

    /// A constant of the template.
    pub fn constant(&mut self, id: u32, text: Option<&[u8]>, quoted: Span) -> Str {
        let inner = Span { start: quoted.start + 1, end: quoted.end - 1 };
        let source = &self.template.source;
        self.state.constant(id, text.unwrap_or_else(|| source.bytes(inner)))
    }

    // Variables.

    pub fn push(&mut self, id: u32, value: Rv) {
        self.state.variables.push(Slot { id, value });
    }

    pub fn find(&mut self, id: u32, name: Span) -> Exec<&mut Rv> {
        let found = self.state.variables[self.base..].iter().rposition(|slot| slot.id == id);
        match found {
            Some(i) => Ok(&mut self.state.variables[self.base + i].value),
            None => self.error(format!("undefined variable: {}", self.word(name))),
        }
    }

    /// The value of a variable, if there is one.
    pub fn peek(&self, id: u32) -> Option<Value> {
        let slots = &self.state.variables[self.base..];
        slots.iter().rfind(|slot| slot.id == id).map(|slot| slot.value.value.clone())
    }

    // Statements.

    fn walk(&mut self, dot: &Rv, nodes: &'t [Node]) -> Exec<()> {
        for node in nodes {
            self.at(At::Node(node));
            self.step()?;
            if let Some(origins) = &mut self.state.origins {
                origins.note(self.state.out.len(), node, &self.template.source);
            }
            match node {
                Node::Text(span) => {
                    self.state.out.extend_from_slice(self.template.source.bytes(*span));
                    self.check_output()?;
                }
                Node::Action(pipe) => {
                    let value = self.pipeline(dot, pipe)?;
                    if pipe.variables.is_empty() {
                        self.at(At::Node(node));
                        match addressed(pipe, &value.value) {
                            Some(text) => self.state.out.extend_from_slice(text.as_bytes()),
                            None => self.print(&value.value)?,
                        }
                    }
                }
                Node::If(branch) => self.condition(dot, branch, false)?,
                Node::With(branch) => self.condition(dot, branch, true)?,
                Node::Range(branch) => self.range(dot, branch)?,
                Node::Template(call) => self.call_template(dot, call)?,
                Node::Break(_) => return Err(Stop::Break),
                Node::Continue(_) => return Err(Stop::Continue),
            }
        }
        Ok(())
    }

    fn print(&mut self, value: &Value) -> Exec<()> {
        let result = match value {
            Value::Nil => {
                self.state.out.extend_from_slice(b"<no value>");
                Ok(())
            }
            // A pointer to a struct without a text of its own is printed as the struct.
            Value::Object(o) if o.kind() == Kind::Ptr && o.display().is_none() => {
                let start = self.state.out.len();
                let result = fmt::print_value(&mut self.state.out, value);
                if self.state.out.get(start) == Some(&b'&') {
                    self.state.out.remove(start);
                }
                result
            }
            value => fmt::print_value(&mut self.state.out, value),
        };
        match result {
            Ok(()) => self.check_output(),
            Err(FnError::Message(message) | FnError::Nested(message)) => self.error(message),
        }
    }

    fn condition(&mut self, dot: &Rv, branch: &'t Branch, is_with: bool) -> Exec<()> {
        let mark = self.state.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let result = if truth(&value.value) {
            stack::deeper(|| self.walk(if is_with { &value } else { dot }, &branch.body))
        } else {
            branch.otherwise.as_ref().map_or(Ok(()), |list| self.walk(dot, list))
        };
        self.state.variables.truncate(mark);
        result
    }

    fn call_template(&mut self, dot: &Rv, call: &'t Call) -> Exec<()> {
        let Some(template) = self.state.lookup(&call.name) else {
            let message = format!("template {} not defined", quote::quoted(call.name.as_bytes()));
            return self.miss(&message, Some(self.state.missing_template(&call.name)));
        };
        if self.state.depth == MAX_DEPTH || stack::is_short() {
            return self.error(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        let dot = match &call.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Rv::INVALID,
        };
        self.state.depth += 1;
        let result = stack::deeper(|| Frame::run(self.state, &template, &dot)).map_err(Stop::Fail);
        self.state.depth -= 1;
        result
    }

    fn range(&mut self, dot: &Rv, branch: &'t Branch) -> Exec<()> {
        let mark = self.state.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?.value;
        let mut ran = false;
        let mut result = self.iterate(&value, branch, &mut ran);
        if let (Ok(()), false, Some(list)) = (&result, ran, &branch.otherwise) {
            result = self.walk(dot, list);
        }
        // A `break` in the `else` of a range ends this range too, not the one around it.
        if let Err(Stop::Break) = result {
            result = Ok(());
        }
        self.state.variables.truncate(mark);
        result
    }

    fn iterate(&mut self, value: &Value, branch: &'t Branch, ran: &mut bool) -> Exec<()> {
        match value {
            Value::Nil => {}
            Value::Int(int, count) => {
                if branch.pipe.variables.len() > 1 {
                    let shown = self.show(value)?;
                    return self.error(format!("can't use {shown} to iterate over more than one variable"));
                }
                for i in 0..*count {
                    *ran = true;
                    self.iteration(branch, Rv::INVALID, &Rv::concrete(Value::Int(*int, i)))?;
                }
            }
            Value::List(list) => {
                let interface = has_interfaces(list);
                // The body of the loop may reorder the other elements.
                for (index, i) in (0_i64..).zip(0..list.items.len()) {
                    *ran = true;
                    let item = Rv { value: list.items.get(i).cloned().unwrap_or(Value::Nil), interface };
                    self.iteration(branch, Rv::concrete(Value::int(index)), &item)?;
                }
            }
            Value::Map(map) => {
                let interface = map.kind != MapType::Str;
                self.pay(budget::work_of(map.len() / 8))?;
                for (key, value) in map.entries() {
                    *ran = true;
                    self.iteration(branch, Rv::concrete(Value::Str(key)), &Rv { value, interface })?;
                }
            }
            Value::Object(object) if object.kind() == Kind::Map => {
                for key in object.fields() {
                    *ran = true;
                    let item = object.field(&key.text()).unwrap_or(Value::Nil);
                    self.iteration(branch, Rv::concrete(Value::Str(key)), &Rv::concrete(item))?;
                }
            }
            Value::Object(object) if object.kind() == Kind::Slice => {
                let items = match object.json() {
                    Value::List(list) => list.items,
                    _ => Items::default(),
                };
                for (index, item) in (0_i64..).zip(items.iter()) {
                    *ran = true;
                    self.iteration(branch, Rv::concrete(Value::int(index)), &Rv::concrete(item.clone()))?;
                }
            }
            other => {
                let shown = self.show(other)?;
                // Go ranges over what a pointer points to.
                let is_pointer = matches!(other, Value::Object(o) if o.kind() == Kind::Ptr);
                let shown = if is_pointer { shown.trim_start_matches('&') } else { &shown };
                return self.error(format!("range can't iterate over {shown}"));
            }
        }
        Ok(())
    }

    fn iteration(&mut self, branch: &'t Branch, index: Rv, item: &Rv) -> Exec<()> {
        self.step()?;
        let Pipe { assign, variables, .. } = &branch.pipe;
        let mark = self.state.variables.len();
        match (&**variables, assign) {
            ([], _) => {}
            ([only], true) => *self.find(only.id, only.name)? = item.clone(),
            ([first, second, ..], true) => {
                *self.find(first.id, first.name)? = index;
                *self.find(second.id, second.name)? = item.clone();
            }
            ([_], false) => self.state.variables[mark - 1].value = item.clone(),
            ([_, _, ..], false) => {
                self.state.variables[mark - 1].value = item.clone();
                self.state.variables[mark - 2].value = index;
            }
        }
        let result = stack::deeper(|| self.walk(item, &branch.body));
        self.state.variables.truncate(mark);
        match result {
            Err(Stop::Continue) => Ok(()),
            other => other,
        }
    }
}

/// The text of a value that an action names, if only the pointer to the value has one.
fn addressed(pipe: &Pipe, value: &Value) -> Option<String> {
    let Value::Object(object) = value else { return None };
    let is_named = |kind: &ExprKind| match kind {
        ExprKind::Field(_) | ExprKind::Variable(..) | ExprKind::Chain(..) => true,
        ExprKind::Function(function) => matches!(function.name(), "and" | "or"),
        _ => false,
    };
    let last = pipe.commands.last()?;
    last.args.first().filter(|first| is_named(&first.kind))?;
    object.addressed()
}
