//! Which kinds of objects templates may make, read off them without executing them.
//!
//! Both branches of each condition are read, one after the other, and each `---` begins a document. The output of a
//! line `kind:` or `apiVersion:` is known if it is constant: a text, a text that a helper prints, or a default of the
//! values.

use super::ast::{Command, Expr, ExprKind, Fields, Node, Pipe, Source, Template};
pub use super::documents::TemplateDocument;
use super::documents::{MARK, documents, mark};
use super::render::TemplateSet;
use crate::template::stack;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The maximum number of texts that one value can represent; a value with more is not constant.
const MAX_TEXTS: usize = 64;
/// How deep helpers are followed.
const MAX_DEPTH: usize = 12;

/// An object, or the objects, that `lookup` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The files that may do it.
    pub files: BTreeSet<Box<str>>,
    /// The values that the argument `apiVersion` may have.
    pub api_versions: BTreeSet<String>,
    /// The values that the argument `kind` may have.
    pub kinds: BTreeSet<String>,
    /// The namespace, if it is constant; empty for all of them.
    pub namespace: Option<String>,
}

/// The objects that templates can make, and their lookups.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The documents, by the name of their template.
    pub documents: Vec<TemplateDocument>,
    /// The calls of `lookup`.
    pub lookups: Vec<Lookup>,
}

/// The defaults of a value by its path, of which there may be several: one for each chart that has it.
pub type Defaults<'d> = dyn Fn(&[String]) -> Vec<String> + 'd;

impl TemplateSet {
    /// The kinds that these files may make, with the templates that they may call. A template that nobody can call counts for nothing.
    pub fn kinds(&self, files: &[&str], defaults: &Defaults<'_>) -> Kinds {
        let mut calls = HashMap::new();
        let mut bodies: BTreeMap<Box<str>, Body> = BTreeMap::new();
        for name in files {
            for template in self.reached(name, &mut calls) {
                let body = bodies.entry(template.name.clone());
                let body = body.or_insert_with(|| Body { template, files: BTreeSet::new() });
                body.files.insert((*name).into());
            }
        }
        let mut kinds = Kinds::default();
        for Body { template, files } in bodies.values() {
            let mut reader = Reader::new(self, template, defaults);
            let is_part = template.name != template.source.name;
            let mut text = String::new();
            reader.flatten(&template.body, &mut text);
            let resolve = |value: &str, separator| reader.resolve(value, separator);
            documents(&text, is_part, resolve, |document| {
                kinds.documents.push(TemplateDocument { files: files.clone(), ..document });
            });
            reader.lookups(files, &mut kinds.lookups);
        }
        kinds
    }

    /// A file, and the templates that it may call.
    fn reached(&self, file: &str, calls: &mut HashMap<Box<str>, Calls>) -> Vec<Arc<Template>> {
        let mut reached: BTreeMap<Box<str>, Arc<Template>> = BTreeMap::new();
        let mut next: Vec<Arc<Template>> = self.template(file).into_iter().collect();
        let mut is_any = false;
        while let Some(template) = next.pop() {
            if reached.insert(template.name.clone(), Arc::clone(&template)).is_some() {
                continue;
            }
            let calls = calls.entry(template.name.clone()).or_insert_with(|| self.calls(&template));
            next.extend(calls.named.iter().cloned());
            if calls.any && !is_any {
                is_any = true;
                next.extend(self.templates().filter(|template| is_helper(template)).cloned());
            }
        }
        reached.into_values().collect()
    }

    /// The calls of a template. A text that equals the name of a helper counts as a call.
    fn calls(&self, template: &Template) -> Calls {
        let mut calls = Calls { named: Vec::new(), any: false };
        commands(&template.body, &mut |seen| {
            let names: Vec<String> = match seen {
                Seen::Call(name) => vec![name.to_owned()],
                Seen::Command(command) => {
                    let is_any =
                        |name: &Expr| !is_file(name, &template.source) && text_of(name, &template.source).is_none();
                    calls.any |= is_function(command, "include") && command.args.get(1).is_none_or(is_any);
                    command.args.iter().filter_map(|arg| text_of(arg, &template.source)).collect()
                }
                Seen::Declares(_) => Vec::new(),
            };
            calls.named.extend(names.iter().filter_map(|name| self.template(name)).filter(is_helper));
        });
        calls
    }
}

/// A template, and the files that may call it.
struct Body {
    template: Arc<Template>,
    files: BTreeSet<Box<str>>,
}

/// The templates that a template calls.
struct Calls {
    named: Vec<Arc<Template>>,
    /// A name is made at run time, so it may be any.
    any: bool,
}

/// Whether a template is a `define`, not a file.
fn is_helper(template: &Arc<Template>) -> bool {
    template.name != template.source.name
}

/// Whether the name of a file is made, as for a checksum of it: `print $.Template.BasePath "/config.yaml"`.
fn is_file(name: &Expr, source: &Source) -> bool {
    let ExprKind::Pipe(pipe) = &name.kind else { return false };
    let mut texts = pipe.commands.iter().flat_map(|command| &command.args).filter_map(|arg| text_of(arg, source));
    texts.any(|text| matches!(text.rsplit('.').next(), Some("yaml" | "yml" | "tpl")))
}

/// A place of a template that matters here.
enum Seen<'t> {
    Command(&'t Command),
    Call(&'t str),
    Declares(&'t Pipe),
}

/// Visits all commands, those in parentheses and in branches too.
fn commands<'t>(nodes: &'t [Node], see: &mut dyn FnMut(Seen<'t>)) {
    fn in_pipe<'t>(pipe: &'t Pipe, see: &mut dyn FnMut(Seen<'t>)) {
        if !pipe.variables.is_empty() {
            see(Seen::Declares(pipe));
        }
        for command in &pipe.commands {
            see(Seen::Command(command));
            for arg in &command.args {
                in_expr(arg, see);
            }
        }
    }
    fn in_expr<'t>(expr: &'t Expr, see: &mut dyn FnMut(Seen<'t>)) {
        match &expr.kind {
            ExprKind::Pipe(pipe) => stack::deeper(|| in_pipe(pipe, see)),
            ExprKind::Chain(inner, _) => stack::deeper(|| in_expr(inner, see)),
            _ => {}
        }
    }
    for node in nodes {
        match node {
            Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
            Node::Action(pipe) => in_pipe(pipe, see),
            Node::If(branch) | Node::With(branch) | Node::Range(branch) => stack::deeper(|| {
                in_pipe(&branch.pipe, see);
                commands(&branch.body, see);
                commands(branch.otherwise.as_deref().unwrap_or_default(), see);
            }),
            Node::Template(call) => {
                see(Seen::Call(&call.name));
                if let Some(pipe) = &call.pipe {
                    in_pipe(pipe, see);
                }
            }
        }
    }
}

fn is_function(command: &Command, name: &str) -> bool {
    matches!(command.args.first().map(|first| &first.kind), Some(ExprKind::Function(function)) if function.name() == name)
}

/// The text of a constant.
fn text_of(expr: &Expr, source: &Source) -> Option<String> {
    match &expr.kind {
        ExprKind::Str { text: Some(text), .. } => Some(String::from_utf8_lossy(text).into_owned()),
        ExprKind::Str { text: None, quoted, .. } => {
            let quoted = source.slice(*quoted);
            Some(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned())
        }
        _ => None,
    }
}

/// The replacement for an action in a text.
enum Act<'t> {
    /// A pipeline, and the path in the values that the dot means there.
    Pipe(&'t Pipe, Option<Vec<String>>),
    Call(&'t str),
    /// One of these texts, which may contain marks.
    Either(Vec<String>),
}

/// Reads one template.
struct Reader<'r> {
    set: &'r TemplateSet,
    template: &'r Template,
    defaults: &'r Defaults<'r>,
    acts: Vec<Act<'r>>,
    /// The path in the values that the dot means while the template is flattened.
    dot: Option<Vec<String>>,
    /// The values of variables, by name.
    variables: BTreeMap<Box<str>, Vec<&'r Pipe>>,
}

impl<'r> Reader<'r> {
    fn new(set: &'r TemplateSet, template: &'r Template, defaults: &'r Defaults<'r>) -> Self {
        let mut variables: BTreeMap<Box<str>, Vec<&Pipe>> = BTreeMap::new();
        commands(&template.body, &mut |seen| {
            if let Seen::Declares(pipe) = seen {
                for variable in &pipe.variables {
                    variables.entry(template.source.word(variable.name).into()).or_default().push(pipe);
                }
            }
        });
        Self { set, template, defaults, acts: Vec::new(), dot: None, variables }
    }

    fn mark(&mut self, act: Act<'r>, out: &mut String) {
        self.acts.push(act);
        mark(self.acts.len() - 1, out);
    }

    /// The text with a mark in place of each action.
    fn flatten(&mut self, nodes: &'r [Node], out: &mut String) {
        for node in nodes {
            match node {
                Node::Text(span) => out.extend(self.template.source.slice(*span).chars().filter(|c| *c != MARK)),
                Node::Action(pipe) if pipe.variables.is_empty() => {
                    let dot = self.dot.clone();
                    self.mark(Act::Pipe(pipe, dot), out);
                }
                Node::Action(_) | Node::Break(_) | Node::Continue(_) => {}
                Node::Template(call) => self.mark(Act::Call(&call.name), out),
                Node::If(branch) | Node::With(branch) | Node::Range(branch) => {
                    let (mut body, mut other) = (String::new(), String::new());
                    let inner = match node {
                        Node::With(_) => self.path_of(&branch.pipe),
                        Node::Range(_) => None,
                        _ => self.dot.clone(),
                    };
                    stack::deeper(|| {
                        let dot = std::mem::replace(&mut self.dot, inner);
                        self.flatten(&branch.body, &mut body);
                        self.dot = dot;
                        self.flatten(branch.otherwise.as_deref().unwrap_or_default(), &mut other);
                    });
                    if !body.contains('\n') && !other.contains('\n') && !matches!(node, Node::Range(_)) {
                        self.mark(Act::Either(vec![body, other]), out);
                        continue;
                    }
                    // Trimmed blanks may have been between this and the line before.
                    let starts = ["apiVersion", "kind:", "---"].iter().any(|word| body.trim_start().starts_with(word));
                    if starts && !out.ends_with('\n') && !out.is_empty() {
                        out.push('\n');
                    }
                    out.push_str(&body);
                    out.push('\n');
                    out.push_str(&other);
                    if !other.is_empty() {
                        out.push('\n');
                    }
                }
            }
        }
    }

    /// The texts that a value with marks can represent. `separator` is the text that may be before an unknown part: `/`
    /// in `apps/…`.
    fn resolve(&self, value: &str, separator: Option<char>) -> BTreeSet<String> {
        self.expand(value, separator, 0)
    }

    fn expand(&self, value: &str, separator: Option<char>, depth: usize) -> BTreeSet<String> {
        let mut all = BTreeSet::from([String::new()]);
        for (at, part) in value.split(MARK).enumerate() {
            let texts = if at % 2 == 0 {
                BTreeSet::from([part.to_owned()])
            } else {
                part.parse()
                    .ok()
                    .and_then(|n: usize| self.acts.get(n))
                    .map_or_else(BTreeSet::new, |act| self.act(act, depth))
            };
            if texts.is_empty() {
                // The text after a group is always a version.
                let group = |text: &String| separator.is_some_and(|separator| text.ends_with(separator));
                return all.into_iter().filter(group).map(|text| text + "v1").collect();
            }
            all = all.iter().flat_map(|before| texts.iter().map(move |text| format!("{before}{text}"))).collect();
            if all.len() > MAX_TEXTS {
                return BTreeSet::new();
            }
        }
        all
    }

    fn act(&self, act: &Act<'_>, depth: usize) -> BTreeSet<String> {
        if depth > MAX_DEPTH {
            return BTreeSet::new();
        }
        match act {
            Act::Pipe(pipe, dot) => self.texts(pipe, dot.as_deref(), depth + 1),
            Act::Call(name) => self.printed(name, depth + 1),
            Act::Either(texts) => texts.iter().flat_map(|text| self.expand(text, None, depth + 1)).collect(),
        }
    }

    /// The constants that a pipeline may print.
    fn texts(&self, pipe: &Pipe, dot: Option<&[String]>, depth: usize) -> BTreeSet<String> {
        if depth > MAX_DEPTH {
            return BTreeSet::new();
        }
        let mut texts = BTreeSet::new();
        for command in &pipe.commands {
            let includes = is_function(command, "include");
            for (at, arg) in command.args.iter().enumerate() {
                match &arg.kind {
                    ExprKind::Str { .. } => {
                        let text = text_of(arg, &self.template.source).unwrap_or_default();
                        if includes && at == 1 {
                            texts.extend(self.printed(&text, depth + 1));
                        } else {
                            texts.insert(text);
                        }
                    }
                    ExprKind::Pipe(inner) => texts.extend(stack::deeper(|| self.texts(inner, dot, depth + 1))),
                    ExprKind::Field(fields) => texts.extend(self.default_of(fields, dot)),
                    ExprKind::Variable(variable, fields) => match self.template.source.word(variable.name) {
                        "$" => texts.extend(self.default_of(fields, None)),
                        name if fields.is_empty() => {
                            let pipes = self.variables.get(name).into_iter().flatten();
                            texts.extend(pipes.flat_map(|pipe| self.texts(pipe, None, depth + 1)));
                        }
                        _ => {}
                    },
                    _ => {}
                }
            }
        }
        texts
    }

    fn default_of(&self, fields: &Fields, dot: Option<&[String]>) -> Vec<String> {
        self.path(fields, dot).map_or_else(Vec::new, |path| (self.defaults)(&path))
    }

    /// The path in the values that fields of the dot lead to.
    fn path(&self, fields: &Fields, dot: Option<&[String]>) -> Option<Vec<String>> {
        let names: Vec<String> = fields.iter().map(|field| self.template.source.word(*field).to_owned()).collect();
        match (names.split_first(), dot) {
            (Some((first, rest)), None) if first == "Values" => Some(rest.to_vec()),
            (Some(_), Some(dot)) => Some([dot, &names].concat()),
            _ => None,
        }
    }

    /// The path in the values that a pipeline means.
    fn path_of(&self, pipe: &Pipe) -> Option<Vec<String>> {
        let [command] = pipe.commands.as_slice() else { return None };
        let [only] = &*command.args else { return None };
        match &only.kind {
            ExprKind::Field(fields) => self.path(fields, self.dot.as_deref()),
            ExprKind::Variable(variable, fields) if self.template.source.word(variable.name) == "$" => {
                self.path(fields, None)
            }
            _ => None,
        }
    }

    /// The constants that another template may print.
    fn printed(&self, name: &str, depth: usize) -> BTreeSet<String> {
        let Some(template) = self.set.template(name).filter(|_| depth <= MAX_DEPTH) else { return BTreeSet::new() };
        let reader = Reader::new(self.set, &template, self.defaults);
        let mut texts = BTreeSet::new();
        reader.printed_by(&template.body, depth, &mut texts);
        texts.remove("");
        texts
    }

    fn printed_by(&self, nodes: &[Node], depth: usize, texts: &mut BTreeSet<String>) {
        for node in nodes {
            match node {
                Node::Text(span) => {
                    let text = self.template.source.slice(*span);
                    texts.extend(text.lines().map(|line| line.trim().to_owned()));
                }
                Node::Action(pipe) if pipe.variables.is_empty() => texts.extend(self.texts(pipe, None, depth + 1)),
                Node::Action(_) | Node::Break(_) | Node::Continue(_) => {}
                Node::Template(call) => texts.extend(self.printed(&call.name, depth + 1)),
                Node::If(branch) | Node::With(branch) | Node::Range(branch) => stack::deeper(|| {
                    self.printed_by(&branch.body, depth, texts);
                    self.printed_by(branch.otherwise.as_deref().unwrap_or_default(), depth, texts);
                }),
            }
        }
    }

    /// The calls of `lookup` in the template.
    fn lookups(&self, files: &BTreeSet<Box<str>>, found: &mut Vec<Lookup>) {
        commands(&self.template.body, &mut |seen| {
            let Seen::Command(command) = seen else { return };
            if !is_function(command, "lookup") {
                return;
            }
            let texts = |at: usize| command.args.get(at).map_or_else(BTreeSet::new, |arg| self.of_argument(arg));
            let namespace = command.args.get(3).and_then(|arg| text_of(arg, &self.template.source));
            found.push(Lookup { files: files.clone(), api_versions: texts(1), kinds: texts(2), namespace });
        });
    }

    fn of_argument(&self, expr: &Expr) -> BTreeSet<String> {
        match &expr.kind {
            ExprKind::Pipe(pipe) => self.texts(pipe, None, 0),
            ExprKind::Variable(variable, fields) if fields.is_empty() => {
                let pipes = self.variables.get(self.template.source.word(variable.name)).into_iter().flatten();
                pipes.flat_map(|pipe| self.texts(pipe, None, 0)).collect()
            }
            _ => text_of(expr, &self.template.source).into_iter().collect(),
        }
    }
}
