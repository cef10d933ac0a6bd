//! Checks values against compiled schemas.

use super::compile::{Id, Schema};
use super::constant::Constant;
use super::draft::Draft;
use super::error::{self, Violation, ViolationKind, quoted};
use super::number::count;
use super::values::{Unevaluated, is_integer, type_name};
use crate::render::schema_error::SchemaError;
use crate::template::budget;
use crate::template::functions::text;
use crate::template::value::Value;
use std::collections::BTreeMap;

/// The faults of values, each violation after a line break; `Ok` if there are none.
pub fn check(schemas: &[Schema], schema: Id, value: &Value) -> Result<(), SchemaError> {
    run(&Checker { schemas, resources: None }, schema, None, value)
}

/// As [`check`], of a schema: parts of it that name another draft are checked against that.
pub fn check_schema(
    schemas: &[Schema],
    schema: Id,
    resources: &BTreeMap<&str, Id>,
    value: &Value,
) -> Result<(), SchemaError> {
    run(&Checker { schemas, resources: Some(resources) }, schema, Some(schema), value)
}

fn run(checker: &Checker<'_>, schema: Id, meta: Option<Id>, value: &Value) -> Result<(), SchemaError> {
    let scope = Scope { schema, keyword: "", value: 0, parent: None };
    let root = ValuePlace { value, path: &mut Vec::new(), scope: &scope, meta };
    match checker.validate(root, false) {
        Ok(_) => Ok(()),
        Err(violation) => Err(SchemaError(error::list(&violation.ungrouped()))),
    }
}

pub struct Checker<'s> {
    schemas: &'s [Schema],
    resources: Option<&'s BTreeMap<&'s str, Id>>,
}

/// The way through the schemas to the one that is being applied.
pub struct Scope<'p> {
    pub schema: Id,
    /// Of a reference: the keyword.
    pub keyword: &'static str,
    /// Counts the values on the way.
    pub value: usize,
    pub parent: Option<&'p Scope<'p>>,
}

/// A value, and the schema that it is to fit.
pub struct ValuePlace<'v, 'p> {
    pub value: &'v Value,
    pub path: &'p mut Vec<String>,
    pub scope: &'p Scope<'p>,
    pub meta: Option<Id>,
}

/// The state of one schema's application to one value.
pub struct Run<'c, 's, 'v, 'p> {
    pub checker: &'c Checker<'s>,
    pub schema: &'s Schema,
    pub value: &'v Value,
    pub path: &'p mut Vec<String>,
    scope: &'p Scope<'p>,
    pub meta: Option<Id>,
    pub unevaluated: Unevaluated,
    pub errors: Vec<Violation>,
}

impl Checker<'_> {
    pub fn validate(&self, place: ValuePlace<'_, '_>, caller_asks: bool) -> Result<Unevaluated, Violation> {
        let ValuePlace { value, path, scope, meta } = place;
        let schema = &self.schemas[scope.schema];
        // Schemas that refer to each other more than once can be applied exponentially often.
        if let Err(spent) = budget::work(2) {
            return Err(Violation::text(path, spent.into()));
        }
        let mut run = Run {
            checker: self,
            schema,
            value,
            path,
            scope,
            meta,
            unevaluated: Unevaluated::of(value, schema, caller_asks),
            errors: Vec::new(),
        };
        if schema.constant == Some(true) {
            return Ok(run.unevaluated);
        }
        if let Some(text) = run.first_fault() {
            // The message says where, and a cycle how it came there.
            let place = 20 * (run.path.len() + text.len() / 16 + 1);
            if let Err(spent) = budget::work_of(place).and_then(|()| budget::make(text.len() + place)) {
                return Err(Violation::text(run.path, spent.into()));
            }
            return Err(Violation::text(run.path, text));
        }
        if let Some(id) = schema.reference {
            let found = run.refer(id, "$ref");
            if schema.draft < Some(Draft::D2019) {
                return found.map(|()| run.unevaluated);
            }
            run.errors.extend(found.err());
        }
        run.rest();
        match run.errors.len() {
            0 => Ok(run.unevaluated),
            1 => Err(run.errors.remove(0)),
            _ => Err(Violation { at: run.path.clone(), kind: ViolationKind::Group, causes: run.errors }),
        }
    }
}

impl Run<'_, '_, '_, '_> {
    pub fn add(&mut self, text: String) {
        self.errors.push(Violation::text(self.path, text));
    }

    // The end of the check.

    fn first_fault(&self) -> Option<String> {
        let s = self.schema;
        if s.constant == Some(false) {
            return Some("false schema".into());
        }
        if let Some(other) = self.cycle() {
            let (one, two) = (self.checker.location(self.scope), self.checker.location(other));
            let place = text::quoted(&s.place.to_string());
            return Some(format!("both {one} and {two} resolve to {place} causing reference cycle"));
        }
        let found = type_name(self.value);
        if found.is_empty() || matches!(self.value, Value::Float(f) if !f.is_finite()) {
            return Some(format!("invalid jsonType {}", crate::template::go::fmt::type_name(self.value)));
        }
        let fits = |t: &&str| *t == found || (*t == "integer" && found == "number" && is_integer(self.value));
        if !s.types.is_empty() && !s.types.iter().any(fits) {
            return Some(format!("got {found}, want {}", s.types.join(" or ")));
        }
        if let Some(only) = s.only.as_ref().filter(|only| !only.equals(self.value)) {
            return Some(if only.is_collection() {
                "'const' failed".into()
            } else {
                format!("value must be {}", only.shown())
            });
        }
        if let Some(values) = s.one_of_values.as_ref().filter(|values| !values.iter().any(|v| v.equals(self.value))) {
            return Some(match values.as_slice() {
                values if values.iter().any(Constant::is_collection) => "'enum' failed".into(),
                [one] => format!("value must be {}", one.shown()),
                values => {
                    let shown: Vec<_> = values.iter().map(Constant::shown).collect();
                    format!("value must be one of {}", shown.join(", "))
                }
            });
        }
        let (Some(format), Value::Str(text)) = (&s.format, self.value) else { return None };
        let fault = (format.check)(&text.text()).err()?;
        Some(format!("{} is not valid {}: {fault}", quoted(&text.text()), format.name))
    }

    /// Where the same schema is already being applied to the same value.
    fn cycle(&self) -> Option<&Scope<'_>> {
        let mut scope = self.scope.parent;
        while let Some(outer) = scope.filter(|outer| outer.value == self.scope.value) {
            if outer.schema == self.scope.schema {
                return Some(outer);
            }
            scope = outer.parent;
        }
        None
    }

    // The others.

    fn rest(&mut self) {
        match self.value {
            Value::Map(map) => self.object(map),
            Value::List(list) => self.array(&list.items),
            Value::Str(text) => self.string(&text.text()),
            Value::Int(..) | Value::Float(_) | Value::Object(_) => self.number(),
            Value::Nil | Value::Bool(_) => {}
        }
        if self.schema.draft >= Some(Draft::D2019) {
            self.dynamic_references();
        }
        self.combined();
        if self.schema.draft >= Some(Draft::D2019) {
            self.unevaluated();
        }
    }

    fn combined(&mut self) {
        let s = self.schema;
        if let Some(id) = s.not
            && self.same(id, "").is_ok()
        {
            self.add("'not' failed".into());
        }
        let mut causes = Vec::new();
        for id in &s.all_of {
            causes.extend(self.same(*id, "").err());
        }
        if !causes.is_empty() {
            let kind = ViolationKind::Text("'allOf' failed".into());
            self.errors.push(Violation { at: self.path.clone(), kind, causes });
        }
        if !s.any_of.is_empty() {
            self.any_of();
        }
        if !s.one_of.is_empty() {
            self.one_of();
        }
        if let Some(condition) = s.condition {
            let branch = if self.same(condition, "").is_ok() { s.then } else { s.otherwise };
            if let Some(id) = branch {
                let found = self.same(id, "");
                self.errors.extend(found.err());
            }
        }
    }

    fn any_of(&mut self) {
        let (mut matched, mut causes) = (false, Vec::new());
        for id in &self.schema.any_of {
            if let Err(violation) = self.same(*id, "") {
                causes.push(violation);
                continue;
            }
            matched = true;
            if self.unevaluated.is_empty() {
                break;
            }
        }
        if !matched {
            let kind = ViolationKind::Text("'anyOf' failed".into());
            self.errors.push(Violation { at: self.path.clone(), kind, causes });
        }
    }

    fn one_of(&mut self) {
        let (mut matched, mut causes) = (None, Vec::new());
        for (i, id) in self.schema.one_of.iter().enumerate() {
            match (self.same(*id, ""), matched) {
                (Err(violation), None) => causes.push(violation),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(i),
                (Ok(()), Some(first)) => {
                    let (first, second) = (count(first), count(i));
                    self.add(format!("'oneOf' failed, subschemas {first}, {second} matched"));
                    break;
                }
            }
        }
        if matched.is_none() {
            let kind = ViolationKind::Text("'oneOf' failed, none matched".into());
            self.errors.push(Violation { at: self.path.clone(), kind, causes });
        }
    }

    fn unevaluated(&mut self) {
        let s = self.schema;
        match self.value {
            Value::Map(map) => {
                let Some(id) = s.unevaluated_properties else { return };
                for key in std::mem::take(&mut self.unevaluated.keys) {
                    if let Some(value) = map.get(&key) {
                        self.child(id, &value, &key);
                    }
                }
            }
            Value::List(list) => {
                let Some(id) = s.unevaluated_items else { return };
                for i in std::mem::take(&mut self.unevaluated.items) {
                    self.child(id, &list.items[i], &i.to_string());
                }
            }
            _ => {}
        }
    }

    // Other schemas.

    /// The schema that replaces the draft's own at this place.
    fn effective(&self, id: Id) -> (Id, Option<Id>) {
        let Some(resources) = self.checker.resources.filter(|_| Some(id) == self.meta) else { return (id, self.meta) };
        resources.get(error::pointer(self.path).as_str()).map_or((id, self.meta), |other| (*other, Some(*other)))
    }

    /// Applies another schema to the same value.
    pub fn same(&mut self, id: Id, keyword: &'static str) -> Result<(), Violation> {
        let (schema, meta) = self.effective(id);
        let scope = Scope { schema, keyword, value: self.scope.value, parent: Some(self.scope) };
        let asks = !self.unevaluated.is_empty();
        let place = ValuePlace { value: self.value, path: self.path, scope: &scope, meta };
        let found = self.checker.validate(place, asks)?;
        self.unevaluated.merge(&found);
        Ok(())
    }

    /// Applies a schema to a part of the value.
    pub fn below(&mut self, id: Id, value: &Value, key: &str) -> Result<(), Violation> {
        self.path.push(key.to_owned());
        let (schema, meta) = self.effective(id);
        let scope = Scope { schema, keyword: "", value: self.scope.value + 1, parent: Some(self.scope) };
        let place = ValuePlace { value, path: self.path, scope: &scope, meta };
        let found = self.checker.validate(place, false);
        self.path.pop();
        found.map(|_| ())
    }

    pub fn child(&mut self, id: Id, value: &Value, key: &str) {
        let found = self.below(id, value, key);
        self.errors.extend(found.err());
    }

    fn refer(&mut self, id: Id, keyword: &'static str) -> Result<(), Violation> {
        self.same(id, keyword).map_err(|inner| {
            let causes = inner.ungrouped();
            Violation { at: self.path.clone(), kind: ViolationKind::Reference, causes }
        })
    }

    fn dynamic_references(&mut self) {
        let schemas = self.checker.schemas;
        if let Some(first) = self.schema.recursive_ref {
            let mut target = first;
            if schemas[first].recursive_anchor {
                for scope in self.scopes() {
                    if schemas[schemas[scope.schema].resource].recursive_anchor {
                        target = scope.schema;
                    }
                }
            }
            let found = self.refer(target, "$recursiveRef");
            self.errors.extend(found.err());
        }
        if let Some((first, anchor)) = &self.schema.dynamic_ref {
            let mut target = *first;
            if !anchor.is_empty() && schemas[*first].dynamic_anchor == *anchor {
                for scope in self.scopes() {
                    let resource = &schemas[schemas[scope.schema].resource];
                    target = resource.dynamic_anchors.get(anchor).copied().unwrap_or(target);
                }
            }
            let found = self.refer(target, "$dynamicRef");
            self.errors.extend(found.err());
        }
    }

    /// From the innermost to the outermost.
    fn scopes(&self) -> impl Iterator<Item = &Scope<'_>> {
        std::iter::successors(Some(self.scope), |scope| scope.parent)
    }
}

impl Checker<'_> {
    /// The keywords on the way to a schema.
    fn location(&self, scope: &Scope<'_>) -> String {
        let mut out = String::new();
        let mut scope = scope;
        while let Some(parent) = scope.parent {
            let step = if scope.keyword.is_empty() {
                let (here, outer) = (&self.schemas[scope.schema].place, &self.schemas[parent.schema].place);
                here.to_string().get(outer.to_string().len()..).unwrap_or_default().to_owned()
            } else {
                format!("/{}", scope.keyword)
            };
            out.insert_str(0, &step);
            scope = parent;
        }
        out
    }
}
