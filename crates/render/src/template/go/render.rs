//! Sets of templates, and their execution as Helm's engine does it.

use super::ast::{Source, Template};
use super::builtins::{FuncRef, Functions};
use super::error::{Error, Failure};
use super::exec::{Frame, Rv};
use super::origin::Origins;
use super::{extent, parse, quote};
use crate::template::budget::{self, Budget, Limits};
use crate::template::function::{Context, FnResult, Function};
use crate::template::stack;
use crate::template::trace::{self, Missing};
use crate::template::value::{Str, Value};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The name that Helm gives to the template all others are associated with, and to every text of `tpl`.
const ROOT: &str = "gotpl";

/// How often Helm lets a template be included while it is being included.
const MAX_INCLUDES: usize = 1_000;

/// Templates that know each other by name.
pub struct TemplateSet {
    templates: HashMap<Box<str>, Arc<Template>, RandomState>,
    /// The texts, in the order in which they were parsed.
    sources: Vec<Arc<Source>>,
    functions: Arc<Functions>,
    constants: u32,
}

impl TemplateSet {
    /// An empty set whose templates may call these functions.
    pub fn new(functions: impl Into<Arc<Functions>>) -> Self {
        Self { templates: HashMap::default(), sources: Vec::new(), functions: functions.into(), constants: 0 }
    }

    /// Parses a file and adds it, and its definitions, to the set.
    ///
    /// A later definition replaces an earlier one, unless it is blank: Helm adds the files with the longest paths
    /// first.
    ///
    /// # Errors
    /// Helm's `parse error at (FILE:LINE): …`.
    pub fn parse(&mut self, name: &str, text: impl AsRef<[u8]>) -> Result<(), Error> {
        self.parse_shared(name, &Arc::new(text.as_ref().to_vec()))
    }

    /// [`TemplateSet::parse`] of a text that has another owner, too.
    ///
    /// # Errors
    /// Those of [`TemplateSet::parse`].
    pub fn parse_shared(&mut self, name: &str, text: &Arc<Vec<u8>>) -> Result<(), Error> {
        let parsed = self.parse_text(name, text, self.constants);
        let parsed = parsed.map_err(|error| self.unparsed(name, text, &error.to_string()))?;
        self.constants = parsed.constants;
        self.sources.push(parsed.source);
        for template in parsed.templates {
            if !(template.is_empty() && self.templates.contains_key(&template.name)) {
                self.templates.insert(template.name.clone(), template);
            }
        }
        Ok(())
    }

    /// A template by its name.
    pub(super) fn template(&self, name: &str) -> Option<Arc<Template>> {
        self.templates.get(name).cloned()
    }

    /// All templates, in no order.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Arc<Template>> {
        self.templates.values()
    }

    /// Whether there is a template with this name.
    pub fn contains(&self, name: &str) -> bool {
        self.templates.contains_key(name)
    }

    /// Whether the set was made by parsing exactly these files, by name and text, in this order.
    pub fn is_made_of<'a>(&self, files: impl ExactSizeIterator<Item = (&'a str, &'a Arc<Vec<u8>>)>) -> bool {
        self.sources.len() == files.len()
            && self
                .sources
                .iter()
                .zip(files)
                .all(|(source, (name, text))| *source.name == *name && source.text == *text)
    }

    /// Whether templates may call these functions of the program's own, and no others of its own.
    pub fn has_own_functions(&self, own: &[&'static Function]) -> bool {
        self.functions.are_own(own)
    }

    /// The error of a text that could not be parsed, with its place in the text.
    fn unparsed(&self, name: &str, text: &[u8], message: &str) -> Error {
        let mut error = Error::from_parse(name, message);
        error.missing = self.missing_function(message).map(Box::new);
        if let Some(place) = error.trace.last_mut() {
            place.excerpt = extent::quoted(text, place.line, message);
        }
        error
    }

    /// The name that a parser's message reports as not defined.
    fn missing_function(&self, message: &str) -> Option<Missing> {
        let (_, rest) = message.split_once(": function \"")?;
        let name = rest.strip_suffix("\" not defined")?;
        let nearest = trace::nearest(name, self.functions.names());
        Some(Missing::Function { name: name.into(), nearest })
    }

    fn parse_text(&self, name: &str, text: &Arc<Vec<u8>>, constants: u32) -> Result<parse::Parsed, parse::ParseError> {
        parse::parse(name, text, &self.functions, constants)
    }
}

/// Executes the templates of a set for one rendering.
pub struct Renderer<'s> {
    state: State<'s>,
    budget: Budget,
}

impl<'s> Renderer<'s> {
    /// A renderer with its own count of includes and its own memory of texts given to `tpl`.
    pub fn new(set: &'s TemplateSet, context: Context, limits: Limits) -> Self {
        Self {
            state: State {
                set,
                context,
                limits,
                out: Vec::new(),
                variables: Vec::new(),
                args: Vec::new(),
                constants: Vec::new(),
                next_constant: set.constants,
                includes: HashMap::default(),
                scope: None,
                depth: 0,
                tpl_cache: HashMap::default(),
                origins: None,
                lenient: false,
            },
            budget: Budget::new(limits),
        }
    }

    /// Whether `required` and `fail` stop nothing and return an empty text, as in `helm lint`.
    pub fn set_lenient(&mut self, lenient: bool) {
        self.state.lenient = lenient;
    }

    /// As [`Renderer::render`], and where the text comes from.
    ///
    /// # Errors
    /// Those of [`Renderer::render`].
    pub fn render_traced(&mut self, name: &str, root: Value) -> Result<(Vec<u8>, Origins), Error> {
        self.state.origins = Some(Origins::default());
        let result = self.render(name, root);
        let origins = self.state.origins.take().unwrap_or_default();
        result.map(|text| (text, origins))
    }

    /// The text of a template, with dot and `$` being `root`. Like Helm, it leaves out `<no value>`.
    ///
    /// # Errors
    /// Helm's message. The renderer may be used again afterwards.
    pub fn render(&mut self, name: &str, root: Value) -> Result<Vec<u8>, Error> {
        let state = &mut self.state;
        let result = self.budget.run(|| state.execute(name, &Rv::concrete(root)));
        let out = std::mem::take(&mut state.out);
        state.variables.clear();
        state.args.clear();
        if let Err(failure) = result {
            state.includes.clear();
            state.scope = None;
            state.depth = 0;
            return Err(Error::from_failure(name, &failure));
        }
        Ok(match without_no_value(&out) {
            Cow::Borrowed(_) => out,
            Cow::Owned(cleaned) => {
                // No text is at the place where it was written.
                state.origins = None;
                cleaned
            }
        })
    }
}

/// Helm cannot keep Go from printing missing values, so it removes them from the text.
fn without_no_value(text: &[u8]) -> Cow<'_, [u8]> {
    const NO_VALUE: &[u8] = b"<no value>";
    let find = |text: &[u8]| memchr::memmem::find(text, NO_VALUE);
    let Some(mut at) = find(text) else { return Cow::Borrowed(text) };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + NO_VALUE.len()..];
        match find(rest) {
            Some(next) => at = next,
            None => break,
        }
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// The templates that a text of `tpl` adds to those around it.
struct Scope {
    templates: Vec<Arc<Template>>,
    outer: Option<Rc<Scope>>,
}

/// A variable on the stack: the number of its name, and its value.
pub(super) struct Slot {
    pub id: u32,
    pub value: Rv,
}

/// The state that all nested executions of a renderer share.
pub(super) struct State<'s> {
    set: &'s TemplateSet,
    pub context: Context,
    pub limits: Limits,
    /// The output of the innermost execution comes after that of the outer ones.
    pub out: Vec<u8>,
    pub variables: Vec<Slot>,
    /// Arguments of the calls being made.
    pub args: Vec<Value>,
    constants: Vec<Option<Str>>,
    next_constant: u32,
    includes: HashMap<Box<[u8]>, usize, RandomState>,
    scope: Option<Rc<Scope>>,
    /// How deep `{{ template }}` is nested in the innermost execution.
    pub depth: u32,
    tpl_cache: HashMap<Str, Rc<Vec<Arc<Template>>>, RandomState>,
    /// The source of the output, if requested.
    pub origins: Option<Origins>,
    /// Whether `required` and `fail` stop nothing.
    pub lenient: bool,
}

impl State<'_> {
    /// A string constant of a template, made once per renderer.
    pub fn constant(&mut self, id: u32, text: &[u8]) -> Str {
        let id = id as usize;
        if id >= self.constants.len() {
            self.constants.resize(self.next_constant.max(1) as usize, None);
        }
        match self.constants.get_mut(id) {
            Some(slot) => slot.get_or_insert_with(|| text.into()).clone(),
            None => text.into(),
        }
    }

    pub fn lookup(&self, name: &str) -> Option<Arc<Template>> {
        let mut scope = self.scope.as_deref();
        while let Some(inner) = scope {
            if let Some(template) = inner.templates.iter().find(|t| *t.name == *name) {
                return Some(Arc::clone(template));
            }
            scope = inner.outer.as_deref();
        }
        self.set.templates.get(name).map(Arc::clone)
    }

    /// A template that is not there, and the one that may be meant.
    pub fn missing_template(&self, name: &str) -> Missing {
        let scopes = std::iter::successors(self.scope.as_deref(), |scope| scope.outer.as_deref());
        let local = scopes.flat_map(|scope| scope.templates.iter().map(|t| &*t.name));
        let names = local.chain(self.set.templates.keys().map(|name| &**name));
        Missing::Template { name: name.into(), nearest: trace::nearest(name, names) }
    }

    /// Calls a function of the set's table by name.
    pub fn call_function(&self, name: &str, args: &[Value]) -> FnResult {
        match self.set.functions.get(name) {
            Some(FuncRef::Plain(function)) => (function.run)(&self.context, args),
            _ => Err(format!("{} is not a defined function", quote::quoted(name.as_bytes())).into()),
        }
    }

    fn execute(&mut self, name: &str, dot: &Rv) -> Result<(), Failure> {
        let Some(template) = self.lookup(name) else {
            let missing = self.missing_template(name);
            let name = quote::quoted(name.as_bytes());
            let text = format!("template: no template {name} associated with template \"{ROOT}\"");
            return Err(Failure::plain(text).with_missing(Some(missing)));
        };
        stack::deeper(|| Frame::run(self, &template, dot))
    }

    /// Runs a function that writes output, and returns the output.
    fn capture(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(), Failure>,
        take: impl FnOnce(&[u8]) -> Str,
    ) -> Result<Str, Failure> {
        let start = self.out.len();
        let depth = std::mem::take(&mut self.depth);
        let origins = self.origins.take();
        let result = run(self);
        self.origins = origins;
        self.depth = depth;
        result?;
        let text = take(&self.out[start..]);
        self.out.truncate(start);
        Ok(text)
    }

    /// Helm's `include`.
    pub fn include(&mut self, name: &Str, data: Value) -> Result<Str, Failure> {
        match self.includes.get_mut(name.bytes()) {
            Some(count) if *count > MAX_INCLUDES => {
                let text = format!("rendering template has a nested reference name: {}: ", name.text());
                return Err(Failure::wrap(text, Failure::plain("unable to execute template")));
            }
            Some(count) => *count += 1,
            None => {
                self.includes.insert(name.bytes().into(), 1);
            }
        }
        let result = self.capture(|state| state.execute(&name.text(), &Rv::concrete(data)), |out| out.into());
        if let Some(count) = self.includes.get_mut(name.bytes()) {
            *count -= 1;
        }
        result
    }

    /// Helm's `tpl`: the definitions of the text are known only while it is executed.
    pub fn tpl(&mut self, text: &Str, data: Value) -> Result<Str, Failure> {
        if memchr::memmem::find(text.bytes(), b"{{").is_none() {
            return Ok(match without_no_value(text.bytes()) {
                Cow::Borrowed(_) => text.clone(),
                Cow::Owned(cleaned) => cleaned.into(),
            });
        }
        let templates = self.parse_tpl(text)?;
        let is_new = |t: &&Arc<Template>| !t.is_empty() || *t.name == *ROOT || self.lookup(&t.name).is_none();
        let templates = templates.iter().filter(is_new).map(Arc::clone).collect();
        let outer = self.scope.clone();
        self.scope = Some(Rc::new(Scope { templates, outer: outer.clone() }));
        let run = |state: &mut Self| state.execute(ROOT, &Rv::concrete(data));
        let result = self.capture(run, |out| without_no_value(out).as_ref().into());
        self.scope = outer;
        result.map_err(|failure| {
            let text = format!("error during tpl function execution for {}: ", quote::quoted(text.bytes()));
            Failure::wrap(text, failure)
        })
    }

    fn parse_tpl(&mut self, text: &Str) -> Result<Rc<Vec<Arc<Template>>>, Failure> {
        if let Some(templates) = self.tpl_cache.get(text.bytes()) {
            return Ok(Rc::clone(templates));
        }
        budget::parse(text.bytes()).map_err(|spent| Failure::plain(spent.to_string()))?;
        let parsed = self.set.parse_text(ROOT, &text.shared(), self.next_constant).map_err(|error| {
            let message = error.to_string();
            let lead = format!("cannot parse template {}: ", quote::quoted(text.bytes()));
            let missing = self.set.missing_function(&message);
            Failure::wrap(lead, Failure::plain(message).with_missing(missing))
        })?;
        self.next_constant = parsed.constants;
        let templates = Rc::new(parsed.templates);
        self.tpl_cache.insert(text.clone(), Rc::clone(&templates));
        Ok(templates)
    }
}
