//! The demands of a schema on objects, arrays, strings and numbers.

use super::compile::{Additional, Dependency, Id, Items};
use super::draft::Draft;
use super::error::{Violation, ViolationKind, quoted, quoted_list};
use super::number::{Decimal, count};
use super::validate::{Run, Scope, ValuePlace};
use super::values::equal;
use crate::template::value::{Map, Value};

fn number_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Run<'_, '_, '_, '_> {
    fn limits(&mut self, name: &str, got: usize, least: Option<i64>, most: Option<i64>) {
        let got = number_of(got);
        if let Some(least) = least.filter(|least| got < *least) {
            self.add(format!("min{name}: got {}, want {}", count(got), count(least)));
        }
        if let Some(most) = most.filter(|most| got > *most) {
            self.add(format!("max{name}: got {}, want {}", count(got), count(most)));
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

    /// The keywords that concern objects.
    pub fn object(&mut self, map: &Map) {
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
                    let kind = ViolationKind::Text(format!("invalid propertyName {}", quoted(&name)));
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

    /// Checks the name of a key, which is a value without a place of its own.
    fn name(&self, id: Id, name: &Value) -> Result<(), Violation> {
        let scope = Scope { schema: id, keyword: "", value: 0, parent: None };
        let place = ValuePlace { value: name, path: &mut Vec::new(), scope: &scope, meta: self.meta };
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
                // If the budget refuses a search, the rendering ends at its next step.
                if pattern.is_match(key.bytes()).unwrap_or(false) {
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

    /// The keywords that concern arrays.
    pub fn array(&mut self, items: &[Value]) {
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
            if let Err(violation) = self.below(id, item, &i.to_string()) {
                causes.push(violation);
                continue;
            }
            matched.push(i.to_string());
            if s.draft >= Some(Draft::D2020) {
                self.unevaluated.items.remove(&i);
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
            self.errors.push(Violation { at: self.path.clone(), kind: ViolationKind::Text(text), causes });
        }
        if let Some(most) = s.max_contains.filter(|most| found > *most) {
            self.add(format!(
                "max {} items required to match contains schema, but matched {}",
                count(most),
                items_at()
            ));
        }
    }

    /// The keywords that concern strings.
    pub fn string(&mut self, text: &str) {
        let s = self.schema;
        if s.min_length.is_some() || s.max_length.is_some() {
            self.limits("Length", text.chars().count(), s.min_length, s.max_length);
        }
        if let Some((pattern, source)) = &s.pattern
            && !pattern.is_match(text.as_bytes()).unwrap_or(true)
        {
            self.add(format!("{} does not match pattern {}", quoted(text), quoted(source)));
        }
    }

    /// The keywords that concern numbers.
    pub fn number(&mut self) {
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
}
