//! Evaluates pipelines: operands, fields, and calls with arguments checked against the parameters' types.

use super::ast::{At, Command, Expr, ExprKind, Number, Pipe, Span};
use super::builtins::{Engine, FuncRef, length, truth};
use super::error::{Failure, WARN_END, WARN_START};
use super::exec::{Exec, Frame, Rv};
use super::fmt::type_name;
use super::values::{self, Complex};
use crate::template::budget;
use crate::template::function::{FnError, FnResult, Param};
use crate::template::stack;
use crate::template::value::{Elem, IntType, Kind, Map, MapType, Object, Value};
use std::rc::Rc;

/// The function that is called.
#[derive(Clone, Copy)]
enum Callee<'c> {
    Function(FuncRef),
    Method(&'c Rc<dyn Object>, &'c str, &'static [Param]),
    Values(&'c Map, &'c str, &'static [Param]),
    Int(IntType, i64, &'c str, &'static [Param]),
}

/// The arguments of a call: expressions, and the value that a pipeline passes on.
struct Args<'t, 'd> {
    dot: &'d Rv,
    exprs: &'t [Expr],
    last: Option<Rv>,
}

impl Args<'_, '_> {
    fn is_empty(&self) -> bool {
        self.exprs.is_empty() && self.last.is_none()
    }
}

/// The name of a parameter's Go type.
fn param_name(param: Param) -> &'static str {
    match param {
        Param::Any => "interface {}",
        Param::Reflect => "reflect.Value",
        Param::Str => "string",
        Param::Int => "int",
        Param::Int64 => "int64",
        Param::Float => "float64",
        Param::Bool => "bool",
        Param::Map => "map[string]interface {}",
        Param::List => "[]interface {}",
        Param::Strings => "[]string",
        Param::StringMap => "map[string]string",
        Param::Named(name) => name,
    }
}

fn can_be_nil(param: Param) -> bool {
    match param {
        Param::Any | Param::Reflect | Param::Map | Param::List | Param::Strings | Param::StringMap => true,
        Param::Str | Param::Int | Param::Int64 | Param::Float | Param::Bool => false,
        Param::Named(name) => name.starts_with(['*', '[']) || name.starts_with("map[") || name.starts_with("func("),
    }
}

/// The value as the parameter's type holds it, or `None` when Go could not assign it.
fn assign(value: &Value, param: Param) -> Option<Value> {
    let fits = match (param, value) {
        (Param::Any | Param::Reflect, _)
        | (Param::Str, Value::Str(_))
        | (Param::Int, Value::Int(IntType::Int, _))
        | (Param::Int64, Value::Int(IntType::Int64, _))
        | (Param::Float, Value::Float(_))
        | (Param::Bool, Value::Bool(_)) => true,
        (Param::Map, Value::Map(map)) => {
            // `common.Values` is a map type like any other once it has been passed on.
            return (map.kind != MapType::Str).then(|| map.with_type(MapType::Any).into());
        }
        (Param::List, Value::List(list)) => list.elem == Elem::Any,
        (Param::Strings, Value::List(list)) => list.elem == Elem::Str,
        (Param::StringMap, Value::Map(map)) => map.kind == MapType::Str,
        (Param::Named(name), value) => {
            let got = type_name(value);
            got == name || got.strip_prefix('*') == Some(name)
        }
        _ => false,
    };
    fits.then(|| value.clone())
}

impl<'t> Frame<'t, '_, '_> {
    /// The value of a pipeline, without its interface. Variables that it declares stay on the stack.
    pub fn pipeline(&mut self, dot: &Rv, pipe: &'t Pipe) -> Exec<Rv> {
        self.at(At::Pipe(pipe));
        self.step()?;
        let Some((first, rest)) = pipe.commands.split_first() else { return Ok(Rv::INVALID) };
        let mut result = self.command(dot, first, None);
        if let Ok(value) = &mut result {
            value.interface = false;
        }
        if rest.is_empty() && pipe.variables.is_empty() {
            // Handing on the result as it is saves two moves on the path that nearly every action takes.
            return result;
        }
        let mut value = result?;
        for command in rest {
            value = self.command(dot, command, Some(value))?;
            value.interface = false;
        }
        for variable in &pipe.variables {
            if pipe.assign {
                *self.find(variable.id, variable.name)? = value.clone();
            } else {
                self.push(variable.id, value.clone());
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Rv, command: &'t Command, last: Option<Rv>) -> Exec<Rv> {
        let Some((first, exprs)) = command.args.split_first() else { return Ok(Rv::INVALID) };
        let args = Args { dot, exprs, last };
        match &first.kind {
            ExprKind::Field(fields) => {
                self.at(At::Expr(first));
                self.chain(dot, fields, first, args)
            }
            ExprKind::Chain(inner, fields) => self.chained(inner, fields, first, args),
            ExprKind::Variable(variable, fields) => {
                self.at(At::Expr(first));
                let value = self.find(variable.id, variable.name)?.clone();
                if fields.is_empty() {
                    self.not_a_function(first, &args)?;
                    return Ok(value);
                }
                self.chain(&value, fields, first, args)
            }
            ExprKind::Function(function) => {
                self.at(At::Expr(first));
                self.call(Callee::Function(*function), At::Command(command), args)
            }
            ExprKind::Pipe(pipe) => {
                self.not_a_function(first, &args)?;
                stack::deeper(|| self.pipeline(dot, pipe))
            }
            kind => {
                self.at(At::Expr(first));
                self.not_a_function(first, &args)?;
                match kind {
                    ExprKind::Dot => Ok(dot.clone()),
                    ExprKind::Nil => self.error("nil is not a command"),
                    _ => self.literal(first),
                }
            }
        }
    }

    fn not_a_function(&self, first: &'t Expr, args: &Args<'t, '_>) -> Exec<()> {
        if args.is_empty() {
            return Ok(());
        }
        let node = self.text(first);
        self.error(format!("can't give argument to non-function {node}"))
    }

    /// A constant where every type will do.
    fn literal(&mut self, expr: &'t Expr) -> Exec<Rv> {
        self.at(At::Expr(expr));
        Ok(Rv::concrete(match &expr.kind {
            ExprKind::Bool(b) => Value::Bool(*b),
            ExprKind::Str { id, text, quoted } => Value::Str(self.constant(*id, text.as_deref(), *quoted)),
            other => {
                if let ExprKind::Number(number) = other
                    && let Some(value) = number_value(number)
                {
                    return Ok(Rv::concrete(value));
                }
                let node = self.text(expr);
                return self.error(format!("{node} overflows int"));
            }
        }))
    }

    // Fields.

    fn chained(&mut self, inner: &'t Expr, fields: &'t [Span], whole: &'t Expr, args: Args<'t, '_>) -> Exec<Rv> {
        self.at(At::Expr(whole));
        let receiver = self.argument(args.dot, None, inner)?;
        self.chain(&receiver, fields, whole, args)
    }

    fn chain(&mut self, receiver: &Rv, fields: &'t [Span], node: &'t Expr, args: Args<'t, '_>) -> Exec<Rv> {
        let Some((last, path)) = fields.split_last() else { return Ok(receiver.clone()) };
        let Some((first, path)) = path.split_first() else { return self.field(receiver, *last, node, args) };
        let dot = args.dot;
        let without = || Args { dot, exprs: &[], last: None };
        let mut value = self.field(receiver, *first, node, without())?;
        for field in path {
            value = self.field(&value, *field, node, without())?;
        }
        self.field(&value, *last, node, args)
    }

    fn field(&mut self, receiver: &Rv, span: Span, node: &'t Expr, args: Args<'t, '_>) -> Exec<Rv> {
        match &receiver.value {
            Value::Nil if !receiver.interface => Ok(Rv::INVALID),
            Value::Nil => {
                let missing = self.missing_key(args.dot, node, span);
                self.miss(&format!("nil pointer evaluating interface {{}}.{}", self.word(span)), missing)
            }
            Value::Map(map) => {
                let name = self.word_bytes(span);
                if map.kind == MapType::Values
                    && let name = self.word(span)
                    && let Some(params) = values::method(name)
                {
                    return self.call(Callee::Values(map, name, params), At::Expr(node), args);
                }
                if !args.is_empty() {
                    return self.error(format!("{} is not a method but has arguments", self.word(span)));
                }
                Ok(match (map.get(name), map.kind) {
                    (Some(value), MapType::Str) => Rv::concrete(value),
                    (None, MapType::Str) => Rv::concrete(Value::str("")),
                    (value, _) => Rv::interface(value.unwrap_or(Value::Nil)),
                })
            }
            Value::Object(object) => self.object_field(object, receiver, span, node, args),
            Value::Int(int, n) => {
                let name = self.word(span);
                match values::int_method(*int, name) {
                    Some(params) => self.call(Callee::Int(*int, *n, name, params), At::Expr(node), args),
                    None => self.no_field(receiver, span, node, args.dot),
                }
            }
            _ => self.no_field(receiver, span, node, args.dot),
        }
    }

    fn object_field(
        &mut self,
        object: &Rc<dyn Object>,
        receiver: &Rv,
        span: Span,
        node: &'t Expr,
        args: Args<'t, '_>,
    ) -> Exec<Rv> {
        let name = self.word(span);
        if let Some(params) = object.method(name) {
            return self.call(Callee::Method(object, name, params), At::Expr(node), args);
        }
        let is_map = object.kind() == Kind::Map;
        match object.field(name) {
            None if !is_map => self.no_field(receiver, span, node, args.dot),
            _ if !args.is_empty() && is_map => self.error(format!("{name} is not a method but has arguments")),
            _ if !args.is_empty() => self.error(format!("{name} has arguments but cannot be invoked as function")),
            Some(value) => Ok(Rv { interface: matches!(value, Value::Nil), value }),
            None => Ok(Rv::interface(Value::Nil)),
        }
    }

    fn no_field<T>(&self, receiver: &Rv, span: Span, node: &Expr, dot: &Rv) -> Exec<T> {
        let kind = if receiver.interface { "interface {}".into() } else { type_name(&receiver.value) };
        let missing = self.missing_field(receiver, dot, node, span);
        self.miss(&format!("can't evaluate field {} in type {kind}", self.word(span)), missing)
    }

    // Calls.

    fn call(&mut self, callee: Callee<'_>, node: At<'t>, args: Args<'t, '_>) -> Exec<Rv> {
        let (name, params, variadic) = match &callee {
            Callee::Function(function) => {
                let function = function.signature();
                (function.name, function.params, function.variadic)
            }
            Callee::Method(_, name, params) | Callee::Values(_, name, params) | Callee::Int(_, _, name, params) => {
                (*name, *params, false)
            }
        };
        let given = args.exprs.len() + usize::from(args.last.is_some());
        let fixed = if variadic { params.len() - 1 } else { params.len() };
        if variadic && given < fixed {
            let got = args.exprs.len();
            return self.error(format!("wrong number of args for {name}: want at least {fixed} got {got}"));
        }
        if !variadic && given != fixed {
            return self.error(format!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        if let Callee::Function(FuncRef::Engine(engine @ (Engine::And | Engine::Or), _)) = callee {
            return self.short_circuit(engine == Engine::Or, args);
        }
        let base = self.state.args.len();
        let mut nil_interface = false;
        for (i, expr) in args.exprs.iter().enumerate() {
            let param = params[i.min(params.len() - 1)];
            let value = self.argument(args.dot, Some(param), expr)?;
            nil_interface = value.interface;
            self.state.args.push(passed(value.value, param));
        }
        if let Some(last) = args.last {
            let param = params[(given - 1).min(params.len() - 1)];
            let value = self.validate(last, param)?;
            nil_interface = value.interface;
            self.state.args.push(passed(value.value, param));
        }
        self.pay(budget::read(&self.state.args[base..]))?;
        let result = match callee {
            Callee::Function(FuncRef::Plain(function)) => {
                plain((function.run)(&self.state.context, &self.state.args[base..]))
            }
            Callee::Function(FuncRef::Engine(engine, _)) => self.engine(engine, base, nil_interface, args.exprs),
            Callee::Method(object, name, _) => plain(object.call(name, &self.state.args[base..])),
            Callee::Int(int, n, name, _) => Ok(values::call_int(int, n, name, &self.state.args[base..])),
            Callee::Values(map, name, _) => {
                let to_yaml = |args: &[Value]| self.state.call_function("mustToYaml", args);
                plain(values::call(map, name, &self.state.args[base..], to_yaml))
            }
        };
        self.state.args.truncate(base);
        match result {
            Ok(value) => self.result(value),
            Err(cause) => {
                self.at(node);
                self.fail(&format!("error calling {name}: "), Some(cause))
            }
        }
    }

    fn result(&mut self, value: Value) -> Exec<Rv> {
        let limit = self.state.limits.output;
        self.pay(budget::made(&value))?;
        match &value {
            Value::Str(s) if s.len() > limit => self.error(format!("template made a text of more than {limit} bytes")),
            _ => Ok(Rv { interface: matches!(value, Value::Nil), value }),
        }
    }

    /// `and` and `or`, which return the argument that decided.
    fn short_circuit(&mut self, is_or: bool, args: Args<'t, '_>) -> Exec<Rv> {
        let mut value = Rv::INVALID;
        for expr in args.exprs {
            value = self.argument(args.dot, Some(Param::Reflect), expr)?;
            if truth(&value.value) == is_or {
                return Ok(value);
            }
        }
        Ok(args.last.unwrap_or(value))
    }

    fn engine(
        &mut self,
        engine: Engine,
        base: usize,
        nil_interface: bool,
        exprs: &'t [Expr],
    ) -> Result<Value, Failure> {
        let warn = |message: String| Failure::plain(format!("{WARN_START}{message}{WARN_END}"));
        match (engine, &self.state.args[base..]) {
            (Engine::Fail, [Value::Str(_)]) if self.state.lenient => Ok(Value::str("")),
            (Engine::Required, [Value::Str(_), value]) if self.state.lenient => Ok(match value {
                Value::Nil => Value::str(""),
                value => value.clone(),
            }),
            (Engine::Include, [Value::Str(name), data]) => {
                let (name, data) = (name.clone(), data.clone());
                self.state.include(&name, data).map(Value::Str)
            }
            (Engine::Tpl, [Value::Str(text), data]) => {
                let (text, data) = (text.clone(), data.clone());
                self.state.tpl(&text, data).map(Value::Str)
            }
            (Engine::Required, [Value::Str(message), value]) => match value {
                Value::Nil => Err(warn(message.text().into_owned())),
                Value::Str(s) if s.is_empty() => Err(warn(message.text().into_owned())),
                value => Ok(value.clone()),
            },
            (Engine::Fail, [Value::Str(message)]) => Err(warn(message.text().into_owned())),
            (Engine::Lookup, [Value::Str(version), Value::Str(kind), Value::Str(namespace), Value::Str(name)]) => {
                let host = &self.state.context.host;
                plain(host.lookup(&version.text(), &kind.text(), &namespace.text(), &name.text()))
            }
            (Engine::Len, [value]) => plain(length(value, nil_interface)),
            (Engine::Call, [Value::Nil, ..]) => Err(Failure::plain("call of nil")),
            (Engine::Call, [function, ..]) => {
                let callee = exprs.first().map_or_else(|| Self::show_reflect(function), |first| self.text(first));
                Err(Failure::plain(format!("non-function {callee} of type {}", type_name(function))))
            }
            _ => Err(Failure::plain("wrong arguments")),
        }
    }

    /// `reflect.Value.String`, which `call` uses to name what a pipeline passes to it.
    fn show_reflect(value: &Value) -> String {
        match value {
            Value::Str(s) => s.text().into_owned(),
            other => format!("<{} Value>", type_name(other)),
        }
    }

    // Arguments.

    /// An argument for a parameter; for no parameter, anything.
    fn argument(&mut self, dot: &Rv, param: Option<Param>, expr: &'t Expr) -> Exec<Rv> {
        self.at(At::Expr(expr));
        let none = Args { dot, exprs: &[], last: None };
        let result = match &expr.kind {
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::Nil => match param {
                Some(param) if !can_be_nil(param) => {
                    return self.error(format!("cannot assign nil to {}", param_name(param)));
                }
                _ => return Ok(Rv::INVALID),
            },
            ExprKind::Field(fields) => self.chain(dot, fields, expr, none),
            ExprKind::Variable(variable, fields) => {
                let value = self.find(variable.id, variable.name)?.clone();
                if fields.is_empty() { Ok(value) } else { self.chain(&value, fields, expr, none) }
            }
            ExprKind::Pipe(pipe) => stack::deeper(|| self.pipeline(dot, pipe)),
            ExprKind::Function(function) => self.call(Callee::Function(*function), At::Expr(expr), none),
            ExprKind::Chain(inner, fields) => self.chained(inner, fields, expr, none),
            _ => return self.constant_argument(param.unwrap_or(Param::Any), expr),
        };
        match param {
            None | Some(Param::Any | Param::Reflect) => result,
            Some(param) => self.validate(result?, param),
        }
    }

    fn constant_argument(&mut self, param: Param, expr: &'t Expr) -> Exec<Rv> {
        if let ExprKind::Number(number) = &expr.kind {
            let value = match param {
                Param::Int => number.int.map(Value::int),
                Param::Int64 => number.int.map(|i| Value::Int(IntType::Int64, i)),
                Param::Float => number.float.map(Value::Float),
                _ => None,
            };
            if let Some(value) = value {
                return Ok(Rv::concrete(value));
            }
        }
        let expected = match (param, &expr.kind) {
            (Param::Any | Param::Reflect, _)
            | (Param::Bool, ExprKind::Bool(_))
            | (Param::Str, ExprKind::Str { .. }) => return self.literal(expr),
            (Param::Named(name), kind) => return self.named_argument(name, kind, expr),
            (Param::Bool, _) => "bool",
            (Param::Str, _) => "string",
            (Param::Int | Param::Int64, _) => "integer",
            (Param::Float, _) => "float",
            (Param::Map | Param::List | Param::Strings | Param::StringMap, _) => {
                let node = self.text(expr);
                return self.error(format!("can't handle {node} for arg of type {}", param_name(param)));
            }
        };
        let node = self.text(expr);
        self.error(format!("expected {expected}; found {node}"))
    }

    /// A constant for a parameter of a type that only objects and odd integers have.
    fn named_argument(&mut self, name: &str, kind: &ExprKind, expr: &'t Expr) -> Exec<Rv> {
        let int = match name {
            "uint" => IntType::Uint,
            "uint8" => IntType::Uint8,
            "uint16" => IntType::Uint16,
            "uint32" => IntType::Uint32,
            "uint64" => IntType::Uint64,
            "int8" => IntType::Int8,
            "int16" => IntType::Int16,
            "int32" => IntType::Int32,
            "time.Duration" => IntType::Duration,
            "time.Month" => IntType::Month,
            "time.Weekday" => IntType::Weekday,
            _ => {
                let node = self.text(expr);
                return self.error(format!("can't handle {node} for arg of type {name}"));
            }
        };
        let unsigned = name.starts_with('u');
        let number = match kind {
            ExprKind::Number(number) if unsigned => number.uint.map(u64::cast_signed),
            ExprKind::Number(number) => number.int,
            _ => None,
        };
        if let Some(number) = number {
            return Ok(Rv::concrete(Value::Int(int, number)));
        }
        let node = self.text(expr);
        let expected = if unsigned { "unsigned integer" } else { "integer" };
        self.error(format!("expected {expected}; found {node}"))
    }

    /// The value as a parameter takes it.
    fn validate(&mut self, value: Rv, param: Param) -> Exec<Rv> {
        if matches!(param, Param::Any | Param::Reflect) {
            return Ok(value);
        }
        if value.is_invalid() {
            if can_be_nil(param) {
                return Ok(value);
            }
            return self.error(format!("invalid value; expected {}", param_name(param)));
        }
        if let Some(assigned) = assign(&value.value, param) {
            return Ok(Rv { value: assigned, interface: value.interface });
        }
        let got = match &value.value {
            Value::Nil => "interface {}".into(),
            other => type_name(other),
        };
        self.error(format!("wrong type for value; expected {}; got {got}", param_name(param)))
    }
}

/// A value as a parameter holds it.
fn passed(value: Value, param: Param) -> Value {
    match &value {
        Value::Object(object) if param == Param::Any => object.passed().unwrap_or(value),
        _ => value,
    }
}

fn plain(result: FnResult) -> Result<Value, Failure> {
    result.map_err(|(FnError::Message(text) | FnError::Nested(text))| Failure::plain(text))
}

/// A number where every type will do; `None` if it does not fit into its type.
fn number_value(number: &Number) -> Option<Value> {
    if let Some((real, imaginary)) = number.complex {
        return Some(Value::Object(Rc::new(Complex { real, imaginary })));
    }
    match number.float {
        Some(f) if number.prefers_float => Some(Value::Float(f)),
        _ => number.int.map(Value::int),
    }
}
