//! Which values templates read, found without executing them.
//!
//! Templates are walked with an abstract context: a field becomes a longer path, `include` walks the other template with
//! what it is given, and what is passed to a function is read as a whole. If it is not known what is read, more is
//! reported as read than is: a value that is reported as unread is certainly unread.

use super::ast::{Branch, Command, Expr, ExprKind, Node, Pipe, Span, Template};
use super::render::TemplateSet;
use crate::template::stack;
use crate::template::trace::Location;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Keys from the values inwards; [`ANY`] stands for every key or item.
pub type Path = Vec<Box<str>>;

/// Every key of a table, and every item of a list.
pub const ANY: &str = "*";

/// Longer paths are those of a recursion.
const MAX_PATH: usize = 16;
/// Limit of walks of a template with different contexts. After it, everything counts as read.
const MAX_WALKS: usize = 20_000;

/// What templates read.
#[derive(Debug, Default)]
pub struct Usage {
    /// Values that are looked at themselves: tested, or read on the way to others.
    pub touched: BTreeSet<Path>,
    /// Values that are read with all that is in them.
    pub whole: BTreeSet<Path>,
    /// Values that are always printed and have no default, and the first place of each.
    pub bare: BTreeMap<Path, Location>,
    /// Values that templates change, so that what is in them is not only what the chart and the user gave.
    pub written: BTreeSet<Path>,
    /// Whether texts are executed that are not part of the templates.
    pub has_tpl: bool,
}

impl Usage {
    /// Whether templates may change a value.
    pub fn is_written(&self, path: &[Box<str>]) -> bool {
        self.written.iter().any(|written| written.iter().zip(path).all(|(a, b)| **a == *ANY || a == b))
    }

    /// Whether a value, or something in it, may be read.
    pub fn is_read(&self, path: &[Box<str>]) -> bool {
        let along = |read: &Path| read.iter().zip(path).all(|(a, b)| **a == *ANY || **b == *ANY || a == b);
        self.whole.iter().any(along) || self.touched.iter().any(|read| read.len() >= path.len() && along(read))
    }
}

/// What an expression may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Abstract {
    /// Nothing that values are reached through.
    Other,
    /// A text of the template.
    Text(Box<str>),
    /// The root object.
    Root,
    /// A value, and whether there is a substitute when it is missing.
    Value(Path, bool),
    /// A dictionary that the template made.
    Dict(BTreeMap<Box<str>, Abstract>),
    /// A list that the template made, or one of several.
    OneOf(Vec<Abstract>),
}

impl Abstract {
    fn one_of(all: Vec<Self>) -> Self {
        let mut distinct = Vec::new();
        for one in all {
            match one {
                Self::Other | Self::Text(_) => {}
                Self::OneOf(more) => distinct.extend(more),
                one => distinct.push(one),
            }
        }
        let mut seen = HashSet::new();
        distinct.retain(|one| seen.insert(one.clone()));
        match distinct.len() {
            0 => Self::Other,
            1 => distinct.remove(0),
            _ => Self::OneOf(distinct),
        }
    }

    /// The same, with a substitute when it is missing.
    fn guarded(self) -> Self {
        match self {
            Self::Value(path, _) => Self::Value(path, true),
            Self::OneOf(all) => Self::OneOf(all.into_iter().map(Self::guarded).collect()),
            other => other,
        }
    }
}

impl TemplateSet {
    /// What the named templates read when each is executed with the root object, and what the templates that only
    /// others call would read.
    pub fn usage(&self, files: &[&str], partials: &[&str]) -> Usage {
        let mut walk = Walk {
            set: self,
            usage: Usage::default(),
            walked: HashSet::new(),
            variables: Vec::new(),
            template: None,
            conditions: 0,
        };
        for name in files {
            walk.call(name, &Abstract::Root);
        }
        walk.conditions = 1;
        let uncalled: Vec<_> = self
            .templates()
            .filter(|t| partials.contains(&&*t.source.name) && !walk.walked.iter().any(|(name, ..)| *name == t.name))
            .map(|t| t.name.clone())
            .collect();
        for name in uncalled {
            walk.call(&name, &Abstract::Root);
        }
        walk.usage
    }
}

struct Walk<'s> {
    set: &'s TemplateSet,
    usage: Usage,
    /// Templates, with what they were given, and whether that was in any case.
    walked: HashSet<(Box<str>, Abstract, bool)>,
    variables: Vec<(Box<str>, Abstract)>,
    template: Option<Arc<Template>>,
    /// Conditions and loops around.
    conditions: usize,
}

impl Walk<'_> {
    fn word(&self, span: Span) -> Box<str> {
        self.template.as_ref().map_or("", |t| t.source.word(span)).into()
    }

    /// Walks a template, unless that was done.
    fn call(&mut self, name: &str, dot: &Abstract) {
        let Some(template) = self.set.template(name) else { return };
        if self.walked.len() > MAX_WALKS || stack::is_exhausted() {
            self.usage.whole.insert(Path::new());
            return;
        }
        if !self.walked.insert((name.into(), dot.clone(), self.conditions == 0)) {
            return;
        }
        let variables = std::mem::replace(&mut self.variables, vec![("$".into(), dot.clone())]);
        let outer = self.template.replace(Arc::clone(&template));
        stack::deeper(|| self.list(&template.body, dot));
        self.template = outer;
        self.variables = variables;
    }

    fn list(&mut self, nodes: &[Node], dot: &Abstract) {
        for node in nodes {
            match node {
                Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
                Node::Action(pipe) => {
                    let value = self.pipe(pipe, dot);
                    if pipe.variables.is_empty() {
                        self.read(&value, pipe.pos);
                    }
                }
                Node::If(branch) => self.branch(branch, dot, |_, _| dot.clone()),
                Node::With(branch) => self.branch(branch, dot, |_, value| value.clone()),
                Node::Range(branch) => self.branch(branch, dot, |walk, value| {
                    let item = walk.item(value);
                    let names = branch.pipe.variables.len();
                    let last = walk.variables.len();
                    if !branch.pipe.assign && names > 0 {
                        walk.variables[last - 1].1 = item.clone();
                        if names > 1 {
                            walk.variables[last - 2].1 = Abstract::Other;
                        }
                    } else if let Some(variable) = branch.pipe.variables.last() {
                        let name = walk.word(variable.name);
                        walk.assign(&name, item.clone());
                    }
                    item
                }),
                Node::Template(call) => {
                    let value = call.pipe.as_ref().map_or(Abstract::Other, |pipe| self.pipe(pipe, dot));
                    self.call(&call.name, &value);
                }
            }
        }
    }

    fn branch(&mut self, branch: &Branch, dot: &Abstract, enter: impl Fn(&mut Self, &Abstract) -> Abstract) {
        let mark = self.variables.len();
        self.conditions += 1;
        let value = self.pipe(&branch.pipe, dot);
        let inner = enter(self, &value);
        // Twice: one iteration of a loop may read what the one before assigned.
        for _ in 0..2 {
            let mark = self.variables.len();
            stack::deeper(|| self.list(&branch.body, &inner));
            self.variables.truncate(mark);
        }
        if let Some(otherwise) = &branch.otherwise {
            stack::deeper(|| self.list(otherwise, dot));
        }
        self.conditions -= 1;
        self.variables.truncate(mark);
    }

    fn assign(&mut self, name: &str, value: Abstract) {
        if let Some((_, old)) = self.variables.iter_mut().rfind(|(n, _)| **n == *name) {
            let before = std::mem::replace(old, Abstract::Other);
            *old = Abstract::one_of(vec![before, value]);
        }
    }

    fn pipe(&mut self, pipe: &Pipe, dot: &Abstract) -> Abstract {
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(command, dot, value));
        }
        let value = value.unwrap_or(Abstract::Other);
        for variable in &pipe.variables {
            let name = self.word(variable.name);
            if pipe.assign {
                self.assign(&name, value.clone());
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        value
    }

    fn command(&mut self, command: &Command, dot: &Abstract, last: Option<Abstract>) -> Abstract {
        let Some((first, exprs)) = command.args.split_first() else { return Abstract::Other };
        let ExprKind::Function(function) = &first.kind else {
            let value = self.expr(first, dot);
            let args: Vec<_> = exprs.iter().map(|arg| self.expr(arg, dot)).chain(last).collect();
            for arg in &args {
                self.read(arg, first.pos);
            }
            return value;
        };
        let is_test = matches!(function.name(), "and" | "or" | "ternary" | "coalesce" | "default");
        self.conditions += usize::from(is_test);
        let args: Vec<_> = exprs.iter().map(|arg| self.expr(arg, dot)).chain(last).collect();
        self.conditions -= usize::from(is_test);
        self.function(function.name(), args, exprs, first.pos)
    }

    /// What a function answers with; what it reads is noted.
    fn function(&mut self, name: &str, mut args: Vec<Abstract>, exprs: &[Expr], pos: u32) -> Abstract {
        match name {
            "include" => {
                if let [name, data] = args.as_slice() {
                    match name {
                        Abstract::Text(name) => self.call(name, data),
                        _ => self.any_template(data, pos),
                    }
                }
                Abstract::Other
            }
            "tpl" => {
                self.usage.has_tpl = true;
                for arg in args.iter().filter(|arg| **arg != Abstract::Root) {
                    self.read_quietly(arg, pos);
                }
                Abstract::Other
            }
            "default" | "coalesce" | "and" | "or" | "ternary" => Abstract::one_of(args).guarded(),
            "required" => args.pop().unwrap_or(Abstract::Other).guarded(),
            "deepCopy" | "mustDeepCopy" => args.pop().unwrap_or(Abstract::Other),
            "not" | "empty" | "kindIs" | "kindOf" | "typeIs" | "typeOf" => Abstract::Other,
            "hasKey" | "get" | "index" => self.at(args, name != "index"),
            "dig" => self.dig(args),
            "dict" => Self::dict(args),
            "list" | "tuple" | "append" | "mustAppend" | "prepend" | "mustPrepend" | "concat" | "mustConcat" => {
                Abstract::one_of(args)
            }
            "first" | "last" | "mustFirst" | "mustLast" => args.pop().map_or(Abstract::Other, |list| self.item(&list)),
            "merge" | "mustMerge" | "mergeOverwrite" | "mustMergeOverwrite" => {
                // The first is changed, and may be known by another name.
                let is_new = |arg: &Expr| matches!(arg.kind, ExprKind::Pipe(_));
                if let Some(first) = args.first().filter(|_| !exprs.first().is_some_and(is_new)) {
                    let first = first.clone();
                    self.write(&first);
                }
                if !exprs.first().is_some_and(is_new) {
                    for arg in args.iter().skip(1) {
                        self.read_quietly(arg, pos);
                    }
                }
                Abstract::one_of(args).guarded()
            }
            "set" => {
                if let Some(value) = args.get(2).cloned() {
                    self.read_quietly(&value, pos);
                }
                let changed = args.into_iter().next().unwrap_or(Abstract::Other);
                self.write(&changed);
                changed
            }
            _ => {
                for arg in &args {
                    self.read(arg, pos);
                }
                Abstract::Other
            }
        }
    }

    /// `include` of a name that is only known at run time.
    fn any_template(&mut self, data: &Abstract, pos: u32) {
        if *data != Abstract::Root {
            return self.read_quietly(data, pos);
        }
        self.conditions += 1;
        let names: Vec<_> = self.set.templates().map(|t| t.name.clone()).collect();
        for name in names {
            self.call(&name, data);
        }
        self.conditions -= 1;
    }

    /// A table's or list's entry by keys.
    fn at(&mut self, args: Vec<Abstract>, guarded: bool) -> Abstract {
        let mut args = args.into_iter();
        let mut value = args.next().unwrap_or(Abstract::Other);
        for key in args {
            value = match &key {
                Abstract::Text(key) => self.field(&value, key),
                _ => self.item(&value),
            };
        }
        if guarded { value.guarded() } else { value }
    }

    fn dig(&mut self, mut args: Vec<Abstract>) -> Abstract {
        let Some(table) = args.pop() else { return Abstract::Other };
        let default = args.pop().unwrap_or(Abstract::Other);
        args.insert(0, table);
        let found = self.at(args, true);
        Abstract::one_of(vec![found, default]).guarded()
    }

    fn dict(args: Vec<Abstract>) -> Abstract {
        let mut entries = BTreeMap::new();
        let mut unnamed = Vec::new();
        let mut args = args.into_iter();
        while let (Some(key), Some(value)) = (args.next(), args.next()) {
            match key {
                Abstract::Text(key) => drop(entries.insert(key, value)),
                _ => unnamed.push(value),
            }
        }
        if unnamed.is_empty() {
            return Abstract::Dict(entries);
        }
        unnamed.extend(entries.into_values());
        Abstract::one_of(unnamed)
    }

    fn expr(&mut self, expr: &Expr, dot: &Abstract) -> Abstract {
        match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Nil | ExprKind::Bool(_) | ExprKind::Number(_) => Abstract::Other,
            ExprKind::Str { text: Some(text), .. } => Abstract::Text(String::from_utf8_lossy(text).into()),
            ExprKind::Str { text: None, quoted, .. } => {
                let quoted = self.word(*quoted);
                Abstract::Text(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().into())
            }
            ExprKind::Field(fields) => self.fields(dot.clone(), fields),
            ExprKind::Variable(variable, fields) => {
                let name = self.word(variable.name);
                let value = self.variables.iter().rfind(|(n, _)| *n == name);
                let value = value.map_or(Abstract::Other, |(_, value)| value.clone());
                self.fields(value, fields)
            }
            ExprKind::Function(function) => self.function(function.name(), Vec::new(), &[], expr.pos),
            ExprKind::Chain(inner, fields) => {
                let value = stack::deeper(|| self.expr(inner, dot));
                self.fields(value, fields)
            }
            ExprKind::Pipe(pipe) => stack::deeper(|| self.pipe(pipe, dot)),
        }
    }

    fn fields(&mut self, mut value: Abstract, fields: &[Span]) -> Abstract {
        for field in fields {
            let name = self.word(*field);
            value = self.field(&value, &name);
        }
        value
    }

    fn field(&mut self, value: &Abstract, name: &str) -> Abstract {
        match value {
            Abstract::Root if name == "Values" => Abstract::Value(Path::new(), false),
            Abstract::Root | Abstract::Other | Abstract::Text(_) => Abstract::Other,
            Abstract::Value(path, _) if path.is_empty() && matches!(name, "AsMap" | "YAML" | "Encode" | "Table") => {
                self.usage.whole.insert(Path::new());
                Abstract::Other
            }
            Abstract::Value(path, guarded) => {
                let mut path = path.clone();
                path.push(name.into());
                if path.len() > MAX_PATH {
                    self.usage.whole.insert(path);
                    return Abstract::Other;
                }
                self.usage.touched.insert(path.clone());
                Abstract::Value(path, *guarded)
            }
            Abstract::Dict(entries) => entries.get(name).cloned().unwrap_or(Abstract::Other),
            Abstract::OneOf(all) => {
                let fields = all.iter().map(|one| self.field(one, name)).collect();
                Abstract::one_of(fields)
            }
        }
    }

    /// Any entry of a table or list.
    fn item(&mut self, value: &Abstract) -> Abstract {
        match value {
            Abstract::Value(..) => self.field(value, ANY).guarded(),
            Abstract::Dict(entries) => Abstract::one_of(entries.values().cloned().collect()),
            Abstract::OneOf(all) => {
                // The list that the template made, or the lists that it may be.
                let mut items: Vec<_> = all.iter().map(|one| self.item(one)).collect();
                items.extend(all.iter().cloned());
                Abstract::one_of(items)
            }
            // A list of one element is that element here.
            Abstract::Root => {
                self.usage.whole.insert(Path::new());
                Abstract::Root
            }
            Abstract::Other | Abstract::Text(_) => Abstract::Other,
        }
    }

    /// Notes that a value is read with all that is in it.
    fn read(&mut self, value: &Abstract, pos: u32) {
        match value {
            Abstract::Other | Abstract::Text(_) => {}
            Abstract::Root => drop(self.usage.whole.insert(Path::new())),
            Abstract::Value(path, guarded) => {
                if !guarded && self.conditions == 0 && !path.is_empty() {
                    let place = self.place(pos);
                    self.usage.bare.entry(path.clone()).or_insert(place);
                }
                self.usage.whole.insert(path.clone());
            }
            Abstract::Dict(entries) => entries.values().for_each(|value| self.read_quietly(value, pos)),
            Abstract::OneOf(all) => all.iter().for_each(|value| self.read(value, pos)),
        }
    }

    /// Records that a table is changed. If the root is changed, nothing is known any more.
    fn write(&mut self, table: &Abstract) {
        match table {
            Abstract::Other | Abstract::Text(_) | Abstract::Dict(_) => {}
            Abstract::Root => {
                self.usage.written.insert(Path::new());
                self.usage.whole.insert(Path::new());
            }
            Abstract::Value(path, _) => drop(self.usage.written.insert(path.clone())),
            Abstract::OneOf(all) => all.iter().for_each(|one| self.write(one)),
        }
    }

    /// As [`Walk::read`], where a missing value does no harm.
    fn read_quietly(&mut self, value: &Abstract, pos: u32) {
        self.conditions += 1;
        self.read(value, pos);
        self.conditions -= 1;
    }

    fn place(&self, pos: u32) -> Location {
        let Some(template) = &self.template else { return Location::default() };
        let mut place = Location::line(&template.source.name, template.source.line_column(pos).0);
        place.template = template.name.to_string();
        place
    }
}

#[cfg(test)]
mod tests {
    use super::super::TemplateSet;
    use crate::template::functions;

    /// What a template reads: whole values, then bare ones.
    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let mut set = TemplateSet::new(functions::table());
        set.parse("c/templates/a.yaml", text).unwrap();
        let usage = set.usage(&["c/templates/a.yaml"], &[]);
        let show = |path: &super::Path| path.join(".");
        (usage.whole.iter().map(show).collect(), usage.bare.keys().map(show).collect())
    }

    #[test]
    fn what_is_printed_or_passed_on_is_read() {
        for (text, whole, bare) in [
            ("{{ .Values.a.b }}", "a.b", "a.b"),
            ("{{ with .Values.a }}{{ .b }}{{ $.Values.c }}{{ end }}", "a.b c", ""),
            ("{{ range $k, $v := .Values.a }}{{ $v.b }}{{ end }}", "a.*.b", ""),
            ("{{ if .Values.a }}{{ end }}", "", ""),
            ("{{ .Values.a | default .Values.b | quote }}", "a b", ""),
            ("{{ $x := .Values.a }}{{ toYaml $x.b | nindent 2 }}", "a.b", "a.b"),
            ("{{ define \"t\" }}{{ .ctx.Values.a }}{{ end }}{{ include \"t\" (dict \"ctx\" $) }}", "a", "a"),
            ("{{ define \"t\" }}{{ .Values.a }}{{ end }}{{ include (print \"t\" .Chart.Name) . }}", "a", ""),
            ("{{ index .Values \"a\" \"b-c\" }}", "a.b-c", "a.b-c"),
            ("{{ index .Values.a .Values.b }}", "a.*", ""),
            ("{{ dig \"a\" \"b\" \"x\" .Values.c }}", "c.a.b", ""),
            ("{{ $x := \"\" }}{{ range .Values.l }}{{ $x = .y }}{{ end }}{{ $x }}", "l.*.y", ""),
            ("{{ $m := merge (dict) .Values.a .Values.b }}{{ $m.c }}", "a.c b.c", ""),
            ("{{ toYaml .Values }}", "", ""),
            ("{{ required \"x\" .Values.a }}", "a", ""),
        ] {
            let (got_whole, got_bare) = read(text);
            assert_eq!((got_whole.join(" "), got_bare.join(" ")), (whole.into(), bare.into()), "{text}");
        }
    }

    #[test]
    fn a_recursion_ends() {
        let (whole, _) =
            read("{{ define \"t\" }}{{ range . }}{{ include \"t\" . }}{{ end }}{{ end }}{{ include \"t\" .Values.a }}");
        assert!(whole.iter().all(|path| path.starts_with("a.*")), "{whole:?}");
    }
}
