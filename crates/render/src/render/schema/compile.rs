//! Compiles schemas.

use super::constant::Constant;
use super::draft::{self, Draft, string};
use super::error::quoted_list;
use super::format::Format;
use super::keywords::Keywords;
use super::number::Decimal;
use super::place::{self, SchemaPlace, below};
use super::plain::Plain;
use super::validate;
use crate::chart::{File, SchemaDocument, SchemaDocuments};
use crate::render::schema_error::SchemaError;
use crate::template::functions::re2::Pattern;
use crate::template::functions::text::quoted;
use crate::template::value::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Which of the compiled schemas.
pub type Id = usize;

/// `additionalProperties` and its like.
pub enum Additional {
    Allowed(bool),
    Schema(Id),
}

/// `items` before 2020.
pub enum Items {
    All(Id),
    Each(Vec<Id>),
}

/// `dependencies`
pub enum Dependency {
    Keys(Vec<String>),
    Schema(Id),
}

/// A compiled schema; the fields are the keywords.
#[derive(Default)]
pub struct Schema {
    pub place: SchemaPlace,
    pub draft: Option<Draft>,
    pub resource: Id,
    pub dynamic_anchors: BTreeMap<String, Id>,
    pub constant: Option<bool>,
    pub reference: Option<Id>,
    pub recursive_ref: Option<Id>,
    pub recursive_anchor: bool,
    pub dynamic_ref: Option<(Id, String)>,
    pub dynamic_anchor: String,
    pub types: Vec<&'static str>,
    pub only: Option<Constant>,
    pub one_of_values: Option<Vec<Constant>>,
    pub format: Option<Format>,
    pub not: Option<Id>,
    pub all_of: Vec<Id>,
    pub any_of: Vec<Id>,
    pub one_of: Vec<Id>,
    pub condition: Option<Id>,
    pub then: Option<Id>,
    pub otherwise: Option<Id>,
    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub required: Vec<String>,
    pub properties: BTreeMap<String, Id>,
    pub patterns: Vec<(Arc<Pattern>, Id)>,
    pub additional_properties: Option<Additional>,
    pub property_names: Option<Id>,
    pub dependencies: Vec<(String, Dependency)>,
    pub dependent_schemas: BTreeMap<String, Id>,
    pub dependent_required: BTreeMap<String, Vec<String>>,
    pub unevaluated_properties: Option<Id>,
    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    pub items: Option<Items>,
    pub additional_items: Option<Additional>,
    pub prefix_items: Vec<Id>,
    pub rest_items: Option<Id>,
    pub contains: Option<Id>,
    pub min_contains: Option<i64>,
    pub max_contains: Option<i64>,
    pub unevaluated_items: Option<Id>,
    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub pattern: Option<(Arc<Pattern>, String)>,
    pub minimum: Option<Decimal>,
    pub maximum: Option<Decimal>,
    pub exclusive_minimum: Option<Decimal>,
    pub exclusive_maximum: Option<Decimal>,
    pub multiple_of: Option<Decimal>,
}

/// A part of a document with an address of its own.
#[derive(Clone)]
pub struct Resource {
    pointer: String,
    id: String,
    draft: Draft,
    anchors: BTreeMap<String, String>,
    dynamic: BTreeSet<String>,
}

/// A document.
#[derive(Clone)]
struct Root {
    document: Value,
    /// By their pointers.
    resources: BTreeMap<String, Resource>,
    seen: HashSet<String>,
}

impl Root {
    /// The resource that a place belongs to.
    fn resource(&self, pointer: &str) -> &Resource {
        let mut pointer = pointer;
        loop {
            if let Some(found) = self.resources.get(pointer) {
                return found;
            }
            pointer = pointer.rfind('/').map_or("", |slash| &pointer[..slash]);
        }
    }
}

/// The documents besides the chart's schema: files of the chart, by their paths in it, and the operator's documents for
/// other addresses.
#[derive(Default)]
pub struct Others {
    pub files: Arc<Vec<File>>,
    pub documents: Arc<SchemaDocuments>,
}

impl Others {
    fn document(&self, url: &str) -> Option<Compiled<Value>> {
        let text = match self.documents.get(url) {
            Some(SchemaDocument::Any) => return Some(Ok(Value::Bool(true))),
            Some(SchemaDocument::Text(text)) => text,
            None => {
                let path = url.strip_prefix("file:///")?;
                &self.files.iter().find(|file| file.name == path)?.data
            }
        };
        Some(draft::parse(text).map_err(|why| format!("failing loading {}: {why}", quoted(url)).into()))
    }

    fn is_any(&self, url: &str) -> bool {
        self.documents.get(url) == Some(&SchemaDocument::Any)
    }
}

/// Compiles schemas, and those that they refer to.
#[derive(Default)]
pub struct Compiler {
    pub schemas: Vec<Schema>,
    known: HashMap<SchemaPlace, Id>,
    roots: HashMap<String, Root>,
    documents: HashMap<String, Value>,
    others: Others,
    compiled: usize,
    /// The schemas of the drafts are checked against nothing, and look at every `format`.
    pub is_meta: bool,
}

pub type Compiled<T> = Result<T, SchemaError>;

/// The drafts' own schemas.
struct Metas {
    schemas: Vec<Schema>,
    ids: HashMap<Draft, Id>,
}

impl Metas {
    /// The schemas of these drafts, compiled once. Most documents keep to one draft.
    fn of(drafts: &BTreeSet<Draft>) -> Compiled<&'static Self> {
        const ALL: [Draft; 5] = [Draft::D4, Draft::D6, Draft::D7, Draft::D2019, Draft::D2020];
        static EACH: [OnceLock<Compiled<Metas>>; 5] = [const { OnceLock::new() }; 5];
        static TOGETHER: OnceLock<Compiled<Metas>> = OnceLock::new();
        let one = drafts.first().filter(|_| drafts.len() == 1);
        let metas = match one.and_then(|one| ALL.iter().position(|draft| draft == one)) {
            Some(i) => EACH[i].get_or_init(|| Self::compile(&ALL[i..=i])),
            None => TOGETHER.get_or_init(|| Self::compile(&ALL)),
        };
        metas.as_ref().map_err(Clone::clone)
    }

    fn compile(drafts: &[Draft]) -> Compiled<Self> {
        let mut compiler = Compiler { is_meta: true, ..Compiler::default() };
        let mut ids = HashMap::new();
        for &draft in drafts {
            ids.insert(draft, compiler.compile(draft.url())?);
        }
        Ok(Self { schemas: compiler.schemas, ids })
    }
}

impl Compiler {
    /// A compiler that knows a document.
    pub fn new(url: &str, document: Value, others: Others) -> Self {
        Self { documents: HashMap::from([(url.to_owned(), document)]), others, ..Self::default() }
    }

    /// Compiles the schema at an address.
    pub fn compile(&mut self, url: &str) -> Compiled<Id> {
        self.load(url)?;
        let id = self.enqueue(SchemaPlace { url: url.to_owned(), pointer: String::new() });
        while self.compiled < self.schemas.len() {
            self.compile_next()?;
            self.compiled += 1;
        }
        Ok(id)
    }

    /// The schema at a place, which will be compiled.
    pub fn enqueue(&mut self, place: SchemaPlace) -> Id {
        if let Some(id) = self.known.get(&place) {
            return *id;
        }
        let id = self.schemas.len();
        self.known.insert(place.clone(), id);
        self.schemas.push(Schema { place, ..Schema::default() });
        id
    }

    // Documents.

    fn document(&mut self, url: &str) -> Compiled<Value> {
        if let Some(document) = self.documents.get(url) {
            return Ok(document.clone());
        }
        let document = match self.others.document(url) {
            Some(document) => document?,
            None => place::load(url)?,
        };
        self.documents.insert(url.to_owned(), document.clone());
        Ok(document)
    }

    fn load(&mut self, url: &str) -> Compiled<()> {
        if self.roots.contains_key(url) {
            return Ok(());
        }
        let document = self.document(url)?;
        let mut root = Root { document: document.clone(), resources: BTreeMap::new(), seen: HashSet::new() };
        self.collect(&mut root, &document, url, url, "", Draft::D2020)?;
        let is_meta = url.starts_with("http://json-schema.org/") || url.starts_with("https://json-schema.org/");
        if !is_meta {
            self.check(&root, &document, url, "")?;
        }
        self.roots.insert(url.to_owned(), root);
        Ok(())
    }

    /// Checks a schema against the schema of its draft.
    fn check(&self, root: &Root, value: &Value, url: &str, pointer: &str) -> Compiled<()> {
        if self.is_meta {
            return Ok(());
        }
        let drafts: BTreeSet<Draft> = root.resources.values().map(|r| r.draft).collect();
        if drafts.len() == 1 && pointer.is_empty() && Plain::new(value).is_valid(value) {
            return Ok(());
        }
        let metas = Metas::of(&drafts)?;
        let resources: BTreeMap<&str, Id> =
            root.resources.values().map(|r| (r.pointer.as_str(), metas.ids[&r.draft])).collect();
        let id = metas.ids[&root.resource(pointer).draft];
        validate::check_schema(&metas.schemas, id, &resources, value).map_err(|text| {
            let place = SchemaPlace { url: url.into(), pointer: pointer.into() };
            let meta = metas.schemas[id].place.to_string();
            let lead = format!("{} is not valid against metaschema", quoted(&place.to_string()));
            format!("{lead}: jsonschema validation failed with {}{text}", quoted_list(&[meta])).into()
        })
    }

    /// The draft that a schema names, or that of the schema around it.
    fn draft_of(&mut self, value: &Map, here: &SchemaPlace, around: Draft, path: &mut Vec<String>) -> Compiled<Draft> {
        let Some(name) = string(value, "$schema") else { return Ok(around) };
        if let Some(draft) = Draft::named(&name) {
            return Ok(draft);
        }
        let url = name.split('#').next().unwrap_or_default().to_owned();
        if here.pointer.is_empty() && url == here.url {
            return Err(format!("draft {} is not supported", quoted(&url)).into());
        }
        if path.contains(&url) {
            return Err(format!("cycle in resolving $schema in {}", quoted(&url)).into());
        }
        path.push(url.clone());
        match self.document(&url)? {
            Value::Map(document) => {
                self.draft_of(&document, &SchemaPlace { url, pointer: String::new() }, around, path)
            }
            _ => Ok(around),
        }
    }

    /// Notes the resources and anchors of a document.
    fn collect(
        &mut self,
        root: &mut Root,
        value: &Value,
        url: &str,
        base: &str,
        pointer: &str,
        around: Draft,
    ) -> Compiled<()> {
        if root.seen.contains(pointer) {
            return Ok(());
        }
        let here = SchemaPlace { url: url.to_owned(), pointer: pointer.to_owned() };
        let resource = |id: &str, draft| Resource {
            pointer: pointer.to_owned(),
            id: id.to_owned(),
            draft,
            anchors: BTreeMap::new(),
            dynamic: BTreeSet::new(),
        };
        let Value::Map(object) = value else {
            if pointer.is_empty() {
                root.resources.insert(String::new(), resource(base, around));
            }
            root.seen.insert(pointer.to_owned());
            return Ok(());
        };
        let mut draft = self.draft_of(object, &here, around, &mut Vec::new())?;
        let mut id = id_of(object, draft);
        if id.is_empty() && !pointer.is_empty() {
            draft = around;
            id = id_of(object, draft);
        }
        let mut base = base.to_owned();
        if !id.is_empty() {
            let joined = place::join(&base, &id);
            base = joined.map_err(|_| format!("error in parsing id at {}", quoted(&here.to_string())))?.0;
        }
        if !id.is_empty() || pointer.is_empty() {
            match root.resources.values().find(|r| r.id == base) {
                Some(other) if other.pointer != pointer => {
                    let (id, url) = (quoted(&base), quoted(url));
                    let places = format!("{} and {}", quoted(pointer), quoted(&other.pointer));
                    return Err(format!("duplicate id {id} in {url} at {places}").into());
                }
                Some(_) => {}
                None => {
                    root.resources.insert(pointer.to_owned(), resource(&base, draft));
                }
            }
        }
        let owner = root.resources.values_mut().find(|r| r.id == base).ok_or_else(|| "baseres is nil".to_owned())?;
        collect_anchors(owner, object, &here)?;
        let inner = owner.draft;
        for (pointer, schema) in subschemas(object, draft, pointer) {
            self.collect(root, &schema, url, &base, &pointer, inner)?;
        }
        root.seen.insert(pointer.to_owned());
        Ok(())
    }

    /// A schema where the draft has none is checked when something refers to it.
    fn ensure(&mut self, place: &SchemaPlace) -> Compiled<Value> {
        self.load(&place.url)?;
        let root = &self.roots[&place.url];
        let value = place.lookup(&root.document)?;
        if root.seen.contains(&place.pointer) {
            return Ok(value);
        }
        let mut root = root.clone();
        let owner = root.resource(&place.pointer).clone();
        self.collect(&mut root, &value, &place.url, &owner.id, &place.pointer, owner.draft)?;
        self.check(&root, &value, &place.url, &place.pointer)?;
        self.roots.insert(place.url.clone(), root);
        Ok(value)
    }

    // Schemas.

    fn compile_next(&mut self) -> Compiled<()> {
        let place = self.schemas[self.compiled].place.clone();
        let value = self.ensure(&place)?;
        let owner = self.roots[&place.url].resource(&place.pointer).clone();
        let mut schema = Schema { place: place.clone(), draft: Some(owner.draft), ..Schema::default() };
        schema.resource = self.enqueue(SchemaPlace { url: place.url.clone(), pointer: owner.pointer.clone() });
        if owner.draft >= Draft::D2020 && schema.resource == self.compiled {
            for anchor in &owner.dynamic {
                let pointer = owner.anchors.get(anchor).cloned().unwrap_or_default();
                let id = self.enqueue(SchemaPlace { url: place.url.clone(), pointer });
                schema.dynamic_anchors.insert(anchor.clone(), id);
            }
        }
        match &value {
            Value::Bool(b) => schema.constant = Some(*b),
            Value::Map(object) if object.is_empty() => schema.constant = Some(true),
            Value::Map(object) => {
                let mut keywords = Keywords { compiler: self, object, place: &place, owner: &owner };
                keywords.compile(&mut schema, owner.draft)?;
            }
            _ => {}
        }
        self.schemas[self.compiled] = schema;
        Ok(())
    }

    /// The schema that a reference leads to.
    pub fn refer(&mut self, from: &SchemaPlace, owner: &Resource, reference: &str) -> Compiled<Id> {
        let (url, fragment) = place::join(&owner.id, reference)?;
        let here = &self.roots[&from.url];
        let local = if url == from.url {
            Some(here.resource("").clone())
        } else {
            here.resources.values().find(|r| r.id == url).cloned()
        };
        let (document, resource) = if let Some(resource) = local {
            (from.url.clone(), resource)
        } else {
            self.load(&url)?;
            (url.clone(), self.roots[&url].resource("").clone())
        };
        // Every place in a document that is not available accepts every value.
        let fragment = if self.others.is_any(&document) { String::new() } else { fragment };
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{}{fragment}", resource.pointer)
        } else {
            resource.anchors.get(&fragment).cloned().ok_or_else(|| {
                let reference = format!("{}#{}", resource.id, place::encoded(&fragment));
                format!("anchor in {} not found in schema {}", quoted(&reference), quoted(&document))
            })?
        };
        Ok(self.enqueue(SchemaPlace { url: document, pointer }))
    }
}

/// The address that a schema gives itself.
fn id_of(object: &Map, draft: Draft) -> String {
    if draft < Draft::D2019 && object.get("$ref").is_some() {
        return String::new();
    }
    let id = string(object, draft.id()).unwrap_or_default();
    id.split('#').next().unwrap_or_default().to_owned()
}

fn collect_anchors(owner: &mut Resource, object: &Map, here: &SchemaPlace) -> Compiled<()> {
    let mut found = Vec::new();
    if owner.draft < Draft::D2019 {
        if object.get("$ref").is_some() {
            return Ok(());
        }
        if let Some(id) = string(object, owner.draft.id()) {
            let wrong = |_| format!("error in parsing anchor at {}", quoted(&here.to_string()));
            let (_, fragment) = place::split(&id).map_err(wrong)?;
            if !fragment.is_empty() && !fragment.starts_with('/') {
                found.push(fragment);
            }
        }
    } else {
        found.extend(string(object, "$anchor"));
    }
    if owner.draft >= Draft::D2020
        && let Some(anchor) = string(object, "$dynamicAnchor")
    {
        owner.dynamic.insert(anchor.clone());
        found.push(anchor);
    }
    for anchor in found {
        let pointer = owner.anchors.entry(anchor.clone()).or_insert_with(|| here.pointer.clone());
        if *pointer != here.pointer {
            let (anchor, url) = (quoted(&anchor), quoted(&here.url));
            let places = format!("{} and {}", quoted(pointer), quoted(&here.pointer));
            return Err(format!("duplicate anchor {anchor} in {url} at {places}").into());
        }
    }
    Ok(())
}

/// The schemas within a schema, with their pointers.
fn subschemas(object: &Map, draft: Draft, pointer: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for place in draft.places() {
        let (key, of) = place.split_once('/').unwrap_or((place, ""));
        let Some(value) = object.get(key) else { continue };
        let here = below(pointer, key);
        match (of, &value) {
            ("", _) => {
                found.insert(here, value);
            }
            ("*", Value::Map(map)) => {
                found.extend(map.borrow().iter().map(|(k, v)| (below(&here, &k.text()), v.clone())));
            }
            ("[]", Value::List(list)) => {
                found.extend(list.items.iter().enumerate().map(|(i, v)| (format!("{here}/{i}"), v.clone())));
            }
            _ => {}
        }
    }
    found
}
