//! The walk of the statements and expressions of templates.

use super::super::ast::{Branch, Command, Expr, ExprKind, Node, Pipe, Span, Template};
use super::super::render::TemplateSet;
use super::{ANY, Entry, Path, Usage, Uses, Ways};
use crate::template::stack;
use crate::template::trace::Location;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

/// Longer paths are those of a recursion.
const MAX_PATH: usize = 16;
/// Limit of walks of a template with different contexts. After it, everything counts as read.
const MAX_WALKS: usize = 20_000;
/// Bytes of text in front of an expression that are looked at.
const BEFORE: usize = 200;

/// A key of a YAML text, followed only by blanks and one quote.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|\n)[ \t-]*"?([A-Za-z0-9_.$/-]+)"?:[ \t]*["']?[ \t]*\n?[ \t]*$"#).expect("the pattern is valid")
});

/// The possible values of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Abstract {
    /// Nothing that values are reached through.
    Other,
    /// A text of the template.
    Text(Box<str>),
    /// The root object of a chart, whose values have this path.
    Root(Path),
    /// A value, and whether there is a substitute when it is missing.
    Value(Path, bool),
    /// The output of `toYaml`.
    Yaml(Box<Abstract>),
    /// A dictionary that the template made.
    Dict(BTreeMap<Box<str>, Abstract>),
    /// A list that the template made, of such items.
    List(Box<Abstract>),
    /// One of several.
    OneOf(Vec<Abstract>),
}

impl Abstract {
    pub(super) fn one_of(all: Vec<Self>) -> Self {
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
    pub(super) fn guarded(self) -> Self {
        match self {
            Self::Value(path, _) => Self::Value(path, true),
            Self::OneOf(all) => Self::OneOf(all.into_iter().map(Self::guarded).collect()),
            other => other,
        }
    }
}

/// See [`TemplateSet::usage`].
pub(super) fn usage(set: &TemplateSet, files: &[Entry<'_>], partials: &[&str]) -> Usage {
    let mut walk = Walk {
        set,
        usage: Usage::default(),
        roots: files.iter().map(|(_, path)| path.clone()).chain([Path::new()]).collect(),
        walked: HashSet::new(),
        variables: Vec::new(),
        template: None,
        conditions: 0,
    };
    for (name, path) in files {
        walk.call(name, &Abstract::Root(path.clone()));
    }
    walk.conditions = 1;
    let uncalled: Vec<_> = set
        .templates()
        .filter(|t| partials.contains(&&*t.source.name) && !walk.walked.iter().any(|(name, ..)| *name == t.name))
        .map(|t| t.name.clone())
        .collect();
    for name in uncalled {
        walk.call(&name, &Abstract::Root(Path::new()));
    }
    walk.usage
}

pub(super) struct Walk<'s> {
    pub(super) set: &'s TemplateSet,
    pub(super) usage: Usage,
    /// The paths of the values of charts, each of which has the global ones.
    roots: HashSet<Path>,
    /// Templates, with what they were given, and whether that was in any case.
    walked: HashSet<(Box<str>, Abstract, bool)>,
    variables: Vec<(Box<str>, Abstract)>,
    template: Option<Arc<Template>>,
    /// Conditions and loops around.
    pub(super) conditions: usize,
}

impl Walk<'_> {
    fn word(&self, span: Span) -> Box<str> {
        self.template.as_ref().map_or("", |t| t.source.word(span)).into()
    }

    /// Walks a template, unless that was done.
    pub(super) fn call(&mut self, name: &str, dot: &Abstract) {
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
        stack::deeper(|| self.list(&template.body, dot, String::new()));
        self.template = outer;
        self.variables = variables;
    }

    /// Walks statements that follow a text.
    fn list(&mut self, nodes: &[Node], dot: &Abstract, mut before: String) {
        for node in nodes {
            match node {
                Node::Break(_) | Node::Continue(_) => {}
                Node::Text(span) => {
                    if let Some(template) = &self.template {
                        before.push_str(&template.source.slice(*span));
                    }
                    let cut = before.len().saturating_sub(BEFORE);
                    before.drain(..(cut..=before.len()).find(|at| before.is_char_boundary(*at)).unwrap_or(cut));
                }
                Node::Action(pipe) => {
                    let value = self.pipe(pipe, dot);
                    if pipe.variables.is_empty() {
                        self.print(&value, pipe.pos, &before);
                        before.push('x');
                    }
                }
                Node::If(branch) => self.branch(branch, dot, &before, |_, _| dot.clone()),
                Node::With(branch) => self.branch(branch, dot, &before, |_, value| value.clone()),
                Node::Range(branch) => self.range(branch, dot, &before),
                Node::Template(call) => {
                    let value = call.pipe.as_ref().map_or(Abstract::Other, |pipe| self.pipe(pipe, dot));
                    self.call(&call.name, &value);
                    before.push('x');
                }
            }
        }
    }

    /// `if` and `with`.
    fn branch(
        &mut self,
        branch: &Branch,
        dot: &Abstract,
        before: &str,
        enter: impl Fn(&mut Self, &Abstract) -> Abstract,
    ) {
        let mark = self.variables.len();
        self.conditions += 1;
        let value = self.pipe(&branch.pipe, dot);
        self.note(&value, Ways::TESTED);
        let inner = enter(self, &value);
        self.block(&branch.body, &inner, before);
        self.otherwise(branch, dot, before);
        self.conditions -= 1;
        self.variables.truncate(mark);
    }

    fn range(&mut self, branch: &Branch, dot: &Abstract, before: &str) {
        let mark = self.variables.len();
        self.conditions += 1;
        let value = self.pipe(&branch.pipe, dot);
        self.note(&value, Ways::RANGE);
        let item = self.item(&value);
        let names = branch.pipe.variables.len();
        let last = self.variables.len();
        if !branch.pipe.assign && names > 0 {
            self.variables[last - 1].1 = item.clone();
            if names > 1 {
                self.variables[last - 2].1 = Abstract::Other;
            }
        } else if let Some(variable) = branch.pipe.variables.last() {
            let name = self.word(variable.name);
            self.assign(&name, item.clone());
        }
        // Twice: one iteration may read what the one before assigned.
        for _ in 0..2 {
            self.block(&branch.body, &item, before);
        }
        self.otherwise(branch, dot, before);
        self.conditions -= 1;
        self.variables.truncate(mark);
    }

    fn block(&mut self, nodes: &[Node], dot: &Abstract, before: &str) {
        let mark = self.variables.len();
        stack::deeper(|| self.list(nodes, dot, before.to_owned()));
        self.variables.truncate(mark);
    }

    fn otherwise(&mut self, branch: &Branch, dot: &Abstract, before: &str) {
        if let Some(otherwise) = &branch.otherwise {
            stack::deeper(|| self.list(otherwise, dot, before.to_owned()));
        }
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
                self.note(arg, Ways::PASSED);
            }
            return value;
        };
        let is_test = matches!(function.name(), "and" | "or" | "ternary" | "coalesce" | "default");
        self.conditions += usize::from(is_test);
        let args: Vec<_> = exprs.iter().map(|arg| self.expr(arg, dot)).chain(last).collect();
        self.conditions -= usize::from(is_test);
        // A table that no expression but this one has.
        let is_new = exprs.first().is_some_and(|first| matches!(first.kind, ExprKind::Pipe(_)));
        self.function(function.name(), args, is_new, first.pos)
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
            ExprKind::Function(function) => self.function(function.name(), Vec::new(), false, expr.pos),
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

    /// The entry of a table with a name.
    pub(super) fn field(&mut self, value: &Abstract, name: &str) -> Abstract {
        match value {
            Abstract::Root(path) if name == "Values" => Abstract::Value(path.clone(), false),
            // `.Subcharts.NAME` is the root object of a subchart.
            Abstract::Root(path) if name == "Subcharts" => Abstract::Dict(
                self.roots
                    .iter()
                    .filter(|root| root.len() == path.len() + 1 && root.starts_with(path))
                    .filter_map(|root| Some((root.last()?.clone(), Abstract::Root(root.clone()))))
                    .collect(),
            ),
            Abstract::Root(_) | Abstract::Other | Abstract::Text(_) | Abstract::Yaml(_) | Abstract::List(_) => {
                Abstract::Other
            }
            Abstract::Value(path, _)
                if matches!(name, "AsMap" | "YAML" | "Encode" | "Table") && self.roots.contains(path) =>
            {
                self.usage.whole.insert(path.clone());
                Abstract::Other
            }
            Abstract::Value(path, guarded) => {
                let is_global = name == "global" && self.roots.contains(path);
                let mut below = if is_global { Path::new() } else { path.clone() };
                below.push(name.into());
                if below.len() > MAX_PATH {
                    self.usage.whole.insert(below);
                    return Abstract::Other;
                }
                self.add(path, Ways::FIELD);
                self.add(&below, Ways::TOUCHED);
                self.usage.touched.insert(below.clone());
                Abstract::Value(below, *guarded)
            }
            Abstract::Dict(entries) => entries.get(name).cloned().unwrap_or(Abstract::Other),
            Abstract::OneOf(all) => {
                let fields = all.iter().map(|one| self.field(one, name)).collect();
                Abstract::one_of(fields)
            }
        }
    }

    /// Any entry of a table or list.
    pub(super) fn item(&mut self, value: &Abstract) -> Abstract {
        match value {
            Abstract::Value(path, _) => {
                self.add(path, Ways::ITEMS);
                let mut below = path.clone();
                below.push(ANY.into());
                if below.len() > MAX_PATH {
                    self.usage.whole.insert(below);
                    return Abstract::Other;
                }
                self.usage.touched.insert(below.clone());
                Abstract::Value(below, true)
            }
            Abstract::Dict(entries) => Abstract::one_of(entries.values().cloned().collect()),
            Abstract::List(item) => (**item).clone(),
            Abstract::OneOf(all) => {
                let items = all.iter().map(|one| self.item(one)).collect();
                Abstract::one_of(items)
            }
            Abstract::Root(path) => {
                self.usage.whole.insert(path.clone());
                Abstract::Root(path.clone())
            }
            Abstract::Other | Abstract::Text(_) | Abstract::Yaml(_) => Abstract::Other,
        }
    }

    /// Notes that a value is printed behind a text.
    fn print(&mut self, value: &Abstract, pos: u32, before: &str) {
        self.read(value, pos);
        let key = || KEY.captures(before).map(|found| Box::from(&found[1]));
        let (paths, is_yaml) = match value {
            Abstract::Yaml(inner) => (paths(inner), true),
            value => (paths(value), false),
        };
        for path in paths {
            let uses = self.usage.uses.entry(path).or_default();
            if is_yaml {
                uses.written_under.insert(key());
            } else {
                uses.ways |= Ways::PRINTED;
                uses.printed_under.insert(key());
            }
        }
    }

    /// Notes that a value is read with everything in it.
    pub(super) fn read(&mut self, value: &Abstract, pos: u32) {
        match value {
            // The content of a YAML text was read when the text was made.
            Abstract::Other | Abstract::Text(_) | Abstract::Yaml(_) => {}
            Abstract::Root(path) => drop(self.usage.whole.insert(path.clone())),
            Abstract::Value(path, guarded) => {
                if !guarded && self.conditions == 0 && !path.is_empty() {
                    let place = self.place(pos);
                    self.usage.bare.entry(path.clone()).or_insert(place);
                }
                self.usage.whole.insert(path.clone());
            }
            Abstract::Dict(entries) => entries.values().for_each(|value| self.read_quietly(value, pos)),
            Abstract::List(item) => self.read_quietly(item, pos),
            Abstract::OneOf(all) => all.iter().for_each(|value| self.read(value, pos)),
        }
    }

    /// Notes how a value is used.
    pub(super) fn note(&mut self, value: &Abstract, ways: Ways) {
        for path in paths(value) {
            self.usage.uses.entry(path).or_default().ways |= ways;
        }
    }

    fn add(&mut self, path: &Path, ways: Ways) {
        if let Some(uses) = self.usage.uses.get_mut(path) {
            uses.ways |= ways;
        } else {
            self.usage.uses.insert(path.clone(), Uses { ways, ..Uses::default() });
        }
    }

    /// Records that a table is changed. If the root is changed, nothing is known after that.
    pub(super) fn write(&mut self, table: &Abstract) {
        match table {
            Abstract::Other | Abstract::Text(_) | Abstract::Dict(_) | Abstract::List(_) | Abstract::Yaml(_) => {}
            Abstract::Root(path) => {
                self.usage.written.insert(path.clone());
                self.usage.whole.insert(path.clone());
            }
            Abstract::Value(path, _) => drop(self.usage.written.insert(path.clone())),
            Abstract::OneOf(all) => all.iter().for_each(|one| self.write(one)),
        }
    }

    /// As [`Walk::read`], where a missing value does no harm.
    pub(super) fn read_quietly(&mut self, value: &Abstract, pos: u32) {
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

/// The values that something may be.
fn paths(value: &Abstract) -> BTreeSet<Path> {
    match value {
        Abstract::Value(path, _) => BTreeSet::from([path.clone()]),
        Abstract::OneOf(all) => all.iter().flat_map(paths).collect(),
        _ => BTreeSet::new(),
    }
}
