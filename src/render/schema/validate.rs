//! Checks values against compiled schemas.

use super::compile::{Additional, Dependency, Id, Items, Schema};
use super::draft::Draft;
use super::error::{self, Kind, Violation, escaped, quoted, quoted_list};
use super::number::{Decimal, count};
use crate::template::functions::json::Number;
use crate::template::functions::text;
use crate::template::value::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong with values, each violation after a line break; `Ok` when nothing is.
pub fn check(schemas: &[Schema], schema: Id, value: &Value) -> Result<(), String> {
    run(&Checker { schemas, resources: None }, schema, None, value)
}

/// As [`check`], of a schema: parts of it that name another draft are checked against that.
pub fn check_schema(
    schemas: &[Schema],
    schema: Id,
    resources: &BTreeMap<&str, Id>,
    value: &Value,
) -> Result<(), String> {
    run(&Checker { schemas, resources: Some(resources) }, schema, Some(schema), value)
}

fn run(checker: &Checker<'_>, schema: Id, meta: Option<Id>, value: &Value) -> Result<(), String> {
    let scope = Scope { schema, keyword: "", value: 0, parent: None };
    let root = Place { value, path: &mut Vec::new(), scope: &scope, meta };
    match checker.validate(root, false) {
        Ok(_) => Ok(()),
        Err(violation) => Err(error::list(&violation.ungrouped())),
    }
}

struct Checker<'s> {
    schemas: &'s [Schema],
    resources: Option<&'s BTreeMap<&'s str, Id>>,
}

/// The way through the schemas to the one that is being applied.
struct Scope<'p> {
    schema: Id,
    /// Of a reference: the keyword.
    keyword: &'static str,
    /// Counts the values on the way.
    value: usize,
    parent: Option<&'p Scope<'p>>,
}

/// A value, and the schema that it is to fit.
struct Place<'v, 'p> {
    value: &'v Value,
    path: &'p mut Vec<String>,
    scope: &'p Scope<'p>,
    meta: Option<Id>,
}

/// Which parts of a value no schema has looked at.
#[derive(Default)]
struct Unevaluated {
    keys: BTreeSet<String>,
    items: BTreeSet<usize>,
}

impl Unevaluated {
    fn of(value: &Value, schema: &Schema, caller_asks: bool) -> Self {
        let mut found = Self::default();
        match value {
            Value::Map(map) if caller_asks || schema.unevaluated_properties.is_some() => {
                if schema.additional_properties.is_none() {
                    found.keys = map.borrow().keys().map(|k| k.text().into_owned()).collect();
                }
            }
            Value::List(list) if caller_asks || schema.unevaluated_items.is_some() => {
                let (all, first) = if schema.draft >= Some(Draft::D2020) {
                    (schema.rest_items.is_some(), schema.prefix_items.len())
                } else {
                    match &schema.items {
                        Some(Items::All(_)) => (true, 0),
                        Some(Items::Each(each)) => (schema.additional_items.is_some(), each.len()),
                        None => (schema.additional_items.is_some(), 0),
                    }
                };
                if !all {
                    found.items = (first..list.items.len()).collect();
                }
            }
            _ => {}
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.items.is_empty()
    }

    fn merge(&mut self, other: &Self) {
        self.keys.retain(|k| other.keys.contains(k));
        self.items.retain(|i| other.items.contains(i));
    }
}

/// The state of one schema's application to one value.
struct Run<'c, 's, 'v, 'p> {
    checker: &'c Checker<'s>,
    schema: &'s Schema,
    value: &'v Value,
    path: &'p mut Vec<String>,
    scope: &'p Scope<'p>,
    meta: Option<Id>,
    unevaluated: Unevaluated,
    errors: Vec<Violation>,
}

impl<'s> Checker<'s> {
    fn validate(&self, place: Place<'_, '_>, caller_asks: bool) -> Result<Unevaluated, Violation> {
        let schema = &self.schemas[place.scope.schema];
        let mut run = Run {
            checker: self,
            schema,
            value: place.value,
            path: place.path,
            scope: place.scope,
            meta: place.meta,
            unevaluated: Unevaluated::of(place.value, schema, caller_asks),
            errors: Vec::new(),
        };
        if schema.constant == Some(true) {
            return Ok(run.unevaluated);
        }
        if let Some(text) = run.first_fault() {
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
            _ => Err(Violation { at: run.path.clone(), kind: Kind::Group, causes: run.errors }),
        }
    }
}

/// The name of a value's type.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "null",
        Value::Bool(_) => "boolean",
        Value::Int(..) | Value::Float(_) => "number",
        Value::Object(object) if object.as_any().is::<Number>() => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        Value::Object(_) => "",
    }
}

fn is_integer(value: &Value) -> bool {
    Decimal::of(value).is_some_and(|n| n.is_integer())
}

/// JSON's equality: numbers are equal when their values are.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len() && a.borrow().iter().zip(b.borrow().iter()).all(|((j, a), (k, b))| j == k && equal(a, b))
        }
        (Value::List(a), Value::List(b)) => {
            a.items.len() == b.items.len() && a.items.iter().zip(b.items.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        _ => matches!((Decimal::of(a), Decimal::of(b)), (Some(a), Some(b)) if a == b),
    }
}

fn number_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Run<'_, '_, '_, '_> {
    fn add(&mut self, text: String) {
        self.errors.push(Violation::text(self.path, text));
    }

    fn limits(&mut self, name: &str, got: usize, least: Option<i64>, most: Option<i64>) {
        let got = number_of(got);
        if let Some(least) = least.filter(|least| got < *least) {
            self.add(format!("min{name}: got {}, want {}", count(got), count(least)));
        }
        if let Some(most) = most.filter(|most| got > *most) {
            self.add(format!("max{name}: got {}, want {}", count(got), count(most)));
        }
    }

    // What ends the check.

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
        if let Some(only) = s.only.as_ref().filter(|only| !equal(self.value, only)) {
            return Some(match only {
                Value::List(_) | Value::Map(_) => "'const' failed".into(),
                only => format!("value must be {}", error::shown(only)),
            });
        }
        if let Some(values) = s.one_of_values.as_ref().filter(|values| !values.iter().any(|v| equal(self.value, v))) {
            return Some(match values.as_slice() {
                values if values.iter().any(|v| matches!(v, Value::List(_) | Value::Map(_))) => "'enum' failed".into(),
                [one] => format!("value must be {}", error::shown(one)),
                values => {
                    let shown: Vec<_> = values.iter().map(error::shown).collect();
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

    fn missing(map: &Map, required: &[String]) -> Vec<String> {
        required.iter().filter(|key| map.get(key).is_none()).cloned().collect()
    }

    fn required_by(&mut self, map: &Map, key: &str, required: &[String]) {
        let missing = Self::missing(map, required);
        if !missing.is_empty() {
            self.add(format!("properties {} required, if {} exists", quoted_list(&missing), quoted(key)));
        }
    }

    fn object(&mut self, map: &Map) {
        let s = self.schema;
        self.limits("Properties", map.len(), s.min_properties, s.max_properties);
        let missing = Self::missing(map, &s.required);
        if let [one] = missing.as_slice() {
            self.add(format!("missing property {}", quoted(one)));
        } else if !missing.is_empty() {
            self.add(format!("missing properties {}", quoted_list(&missing)));
        }
        for (key, dependency) in &s.dependencies {
            if map.get(key).is_none() {
                continue;
            }
            match dependency {
                Dependency::Keys(required) => self.required_by(map, key, required),
                Dependency::Schema(id) => {
                    let found = self.same(*id, "");
                    self.errors.extend(found.err());
                }
            }
        }
        self.properties(map);
        if let Some(id) = s.property_names {
            for (key, _) in map.entries() {
                let name = key.text().into_owned();
                if let Err(inner) = self.name(id, &key.into()) {
                    let causes = inner.ungrouped();
                    let kind = Kind::Text(format!("invalid propertyName {}", quoted(&name)));
                    self.errors.push(Violation { at: self.path.clone(), kind, causes });
                }
            }
        }
        for (key, id) in &s.dependent_schemas {
            if map.get(key).is_some() {
                let found = self.same(*id, "");
                self.errors.extend(found.err());
            }
        }
        for (key, required) in &s.dependent_required {
            if map.get(key).is_some() {
                self.required_by(map, key, required);
            }
        }
    }

    /// Checks the name of a key, which is a value of its own at no place.
    fn name(&self, id: Id, name: &Value) -> Result<(), Violation> {
        let scope = Scope { schema: id, keyword: "", value: 0, parent: None };
        let place = Place { value: name, path: &mut Vec::new(), scope: &scope, meta: self.meta };
        self.checker.validate(place, false).map(|_| ())
    }

    fn properties(&mut self, map: &Map) {
        let s = self.schema;
        let mut additional = Vec::new();
        for (key, value) in map.entries() {
            let name = key.text().into_owned();
            let mut evaluated = false;
            if let Some(id) = s.properties.get(&name) {
                evaluated = true;
                self.child(*id, &value, &name);
            }
            for (pattern, id) in &s.patterns {
                if pattern.is_match(key.bytes()) {
                    evaluated = true;
                    self.child(*id, &value, &name);
                }
            }
            match &s.additional_properties {
                Some(_) if evaluated => {}
                Some(Additional::Allowed(allowed)) => {
                    evaluated = true;
                    if !allowed {
                        additional.push(name.clone());
                    }
                }
                Some(Additional::Schema(id)) => {
                    evaluated = true;
                    self.child(*id, &value, &name);
                }
                None => {}
            }
            if evaluated {
                self.unevaluated.keys.remove(&name);
            }
        }
        if !additional.is_empty() {
            self.add(format!("additional properties {} not allowed", quoted_list(&additional)));
        }
    }

    fn array(&mut self, items: &[Value]) {
        let s = self.schema;
        self.limits("Items", items.len(), s.min_items, s.max_items);
        if s.unique_items {
            let equal_pair =
                (1..items.len()).find_map(|i| (0..i).find(|j| equal(&items[i], &items[*j])).map(|j| (j, i)));
            if let Some((j, i)) = equal_pair {
                self.add(format!("items at {} and {} are equal", count(number_of(j)), count(number_of(i))));
            }
        }
        let mut evaluated = 0;
        match &s.items {
            Some(Items::All(id)) => {
                self.each(*id, items, 0);
                evaluated = items.len();
            }
            Some(Items::Each(ids)) => {
                evaluated = ids.len().min(items.len());
                for (i, (id, item)) in ids.iter().zip(items).enumerate() {
                    self.child(*id, item, &i.to_string());
                }
            }
            None => {}
        }
        match &s.additional_items {
            Some(Additional::Allowed(false)) if evaluated < items.len() => {
                let more = count(number_of(items.len() - evaluated));
                self.add(format!("last {more} additionalItem(s) not allowed"));
            }
            Some(Additional::Schema(id)) => self.each(*id, items, evaluated),
            _ => {}
        }
        for (i, (id, item)) in s.prefix_items.iter().zip(items).enumerate() {
            self.child(*id, item, &i.to_string());
        }
        if let Some(id) = s.rest_items {
            self.each(id, items, s.prefix_items.len().min(items.len()));
        }
        if let Some(id) = s.contains {
            self.contains(id, items);
        }
    }

    fn each(&mut self, id: Id, items: &[Value], from: usize) {
        for (i, item) in items.iter().enumerate().skip(from) {
            self.child(id, item, &i.to_string());
        }
    }

    fn contains(&mut self, id: Id, items: &[Value]) {
        let s = self.schema;
        let (mut causes, mut matched) = (Vec::new(), Vec::new());
        for (i, item) in items.iter().enumerate() {
            match self.below(id, item, &i.to_string()) {
                Err(violation) => causes.push(violation),
                Ok(()) => {
                    matched.push(i.to_string());
                    if s.draft >= Some(Draft::D2020) {
                        self.unevaluated.items.remove(&i);
                    }
                }
            }
        }
        let found = number_of(matched.len());
        let items_at = || format!("{} items at {}", count(found), matched.join(" "));
        let too_few = match s.min_contains {
            Some(least) if found < least && found == 0 => {
                Some(format!("min {} items required to match contains schema, but none matched", count(least)))
            }
            Some(least) if found < least => Some(format!(
                "min {} items required to match contains schema, but matched {}",
                count(least),
                items_at()
            )),
            None if found == 0 => Some("no items match contains schema".into()),
            _ => None,
        };
        if let Some(text) = too_few {
            self.errors.push(Violation { at: self.path.clone(), kind: Kind::Text(text), causes });
        }
        if let Some(most) = s.max_contains.filter(|most| found > *most) {
            self.add(format!(
                "max {} items required to match contains schema, but matched {}",
                count(most),
                items_at()
            ));
        }
    }

    fn string(&mut self, text: &str) {
        let s = self.schema;
        if s.min_length.is_some() || s.max_length.is_some() {
            self.limits("Length", text.chars().count(), s.min_length, s.max_length);
        }
        if let Some((pattern, source)) = &s.pattern
            && !pattern.is_match(text.as_bytes())
        {
            self.add(format!("{} does not match pattern {}", quoted(text), quoted(source)));
        }
    }

    fn number(&mut self) {
        let s = self.schema;
        let limits = [
            ("minimum", &s.minimum, Decimal::lt as fn(&Decimal, &Decimal) -> bool),
            ("maximum", &s.maximum, Decimal::gt),
            ("exclusiveMinimum", &s.exclusive_minimum, Decimal::le),
            ("exclusiveMaximum", &s.exclusive_maximum, Decimal::ge),
            ("multipleOf", &s.multiple_of, |got, want| !got.is_multiple_of(want)),
        ];
        if limits.iter().all(|(_, limit, _)| limit.is_none()) {
            return;
        }
        let Some(got) = Decimal::of(self.value) else { return };
        for (name, want, violates) in limits {
            if let Some(want) = want
                && violates(&got, want)
            {
                self.add(format!("{name}: got {got}, want {want}"));
            }
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
            let kind = Kind::Text("'allOf' failed".into());
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
            match self.same(*id, "") {
                Err(violation) => causes.push(violation),
                Ok(()) => {
                    matched = true;
                    if self.unevaluated.is_empty() {
                        break;
                    }
                }
            }
        }
        if !matched {
            let kind = Kind::Text("'anyOf' failed".into());
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
                    let (first, second) = (count(number_of(first)), count(number_of(i)));
                    self.add(format!("'oneOf' failed, subschemas {first}, {second} matched"));
                    break;
                }
            }
        }
        if matched.is_none() {
            let kind = Kind::Text("'oneOf' failed, none matched".into());
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

    /// The schema that stands for the draft's own at this place.
    fn effective(&self, id: Id) -> (Id, Option<Id>) {
        let Some(resources) = self.checker.resources.filter(|_| Some(id) == self.meta) else { return (id, self.meta) };
        let pointer: String = self.path.iter().map(|key| format!("/{}", escaped(key))).collect();
        resources.get(pointer.as_str()).map_or((id, self.meta), |other| (*other, Some(*other)))
    }

    /// Applies another schema to the same value.
    fn same(&mut self, id: Id, keyword: &'static str) -> Result<(), Violation> {
        let (schema, meta) = self.effective(id);
        let scope = Scope { schema, keyword, value: self.scope.value, parent: Some(self.scope) };
        let asks = !self.unevaluated.is_empty();
        let place = Place { value: self.value, path: self.path, scope: &scope, meta };
        let found = self.checker.validate(place, asks)?;
        self.unevaluated.merge(&found);
        Ok(())
    }

    /// Applies a schema to a part of the value.
    fn below(&mut self, id: Id, value: &Value, key: &str) -> Result<(), Violation> {
        self.path.push(key.to_owned());
        let (schema, meta) = self.effective(id);
        let scope = Scope { schema, keyword: "", value: self.scope.value + 1, parent: Some(self.scope) };
        let place = Place { value, path: self.path, scope: &scope, meta };
        let found = self.checker.validate(place, false);
        self.path.pop();
        found.map(|_| ())
    }

    fn child(&mut self, id: Id, value: &Value, key: &str) {
        let found = self.below(id, value, key);
        self.errors.extend(found.err());
    }

    fn refer(&mut self, id: Id, keyword: &'static str) -> Result<(), Violation> {
        self.same(id, keyword).map_err(|inner| {
            let causes = inner.ungrouped();
            Violation { at: self.path.clone(), kind: Kind::Reference, causes }
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
