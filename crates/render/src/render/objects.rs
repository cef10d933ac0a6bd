//! The objects that Helm gives to templates beside values: `.Files`, `.Capabilities` and `.Chart`.

use super::Capabilities;
use super::capabilities::KubeVersion;
use crate::chart::{File, Metadata};
use crate::template::budget;
use crate::template::function::{FnError, Param};
use crate::template::functions::glob;
use crate::template::value::{Elem, Items, Kind, List, Map, MapType, Object, Str, Value};
use crate::template::yaml;
use base64::Engine;
use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

/// `.Files`, and what its `Glob` answers with: a map from names to bytes, with methods.
pub struct Files {
    all: Arc<Vec<File>>,
    /// Indices into `all`, in the order of the names.
    sorted: Vec<usize>,
}

impl Files {
    /// The files of a chart. Of two with the same name, the later counts.
    pub fn new(all: &Arc<Vec<File>>) -> Self {
        let mut sorted: Vec<usize> = (0..all.len()).collect();
        sorted.sort_by(|a, b| all[*a].name.cmp(&all[*b].name).then(b.cmp(a)));
        sorted.dedup_by(|b, a| all[*a].name == all[*b].name);
        Self { all: Arc::clone(all), sorted }
    }

    fn get(&self, name: &str) -> Option<&Arc<Vec<u8>>> {
        let at = self.sorted.binary_search_by(|i| self.all[*i].name.as_str().cmp(name)).ok()?;
        Some(&self.all[self.sorted[at]].data)
    }

    fn each(&self) -> impl Iterator<Item = &File> {
        self.sorted.iter().map(|i| &self.all[*i])
    }

    fn by_base_name(&self, content: impl Fn(&[u8]) -> Str) -> Value {
        let map = Map::new(MapType::Str);
        for file in self.each() {
            let base = file.name.rsplit('/').next().unwrap_or(&file.name);
            map.insert(base, Value::Str(content(&file.data)));
        }
        // Helm's `toYAML` swallows errors, and takes the last line break off.
        let text = yaml::emit(&Value::Map(map)).unwrap_or_default();
        Value::str(text.strip_suffix(b"\n").unwrap_or(&text))
    }
}

fn bytes(data: &Arc<Vec<u8>>) -> Value {
    Value::List(List::of_bytes(data))
}

fn argument(args: &[Value]) -> std::borrow::Cow<'_, str> {
    match args.first() {
        Some(Value::Str(s)) => s.text(),
        _ => "".into(),
    }
}

impl Object for Files {
    fn type_name(&self) -> &'static str {
        "engine.files"
    }
    fn kind(&self) -> Kind {
        Kind::Map
    }
    fn field(&self, name: &str) -> Option<Value> {
        // A missing key of a Go map is the zero value of the map's type.
        Some(self.get(name).map_or_else(|| Value::List(List::nil(Elem::Byte)), bytes))
    }
    fn fields(&self) -> Vec<Str> {
        self.each().map(|f| f.name.as_str().into()).collect()
    }
    fn method(&self, name: &str) -> Option<&'static [Param]> {
        match name {
            "Get" | "GetBytes" | "Glob" | "Lines" => Some(&[Param::Str]),
            "AsConfig" | "AsSecrets" => Some(&[]),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, FnError> {
        let argument = argument(args);
        match name {
            "Get" => Ok(self.get(&argument).map_or_else(|| "".into(), Value::str)),
            "GetBytes" => Ok(self.get(&argument).map_or_else(|| Value::List(List::of_bytes("")), bytes)),
            "Glob" => {
                // The pattern is compiled, and each of its parts may look at each character of a name.
                budget::work_of(argument.len().saturating_mul(128))?;
                let names: usize = self.sorted.iter().map(|i| self.all[*i].name.len()).sum();
                budget::work_of(self.sorted.len() + argument.len().saturating_mul(names) / 64)?;
                // A pattern that is malformed matches everything, as in Helm.
                let pattern = glob::compile(&argument);
                let fits = |i: &usize| pattern.as_ref().is_none_or(|p| p.is_match(&self.all[*i].name));
                let sorted = self.sorted.iter().copied().filter(fits).collect();
                Ok(Value::Object(Rc::new(Self { all: Arc::clone(&self.all), sorted })))
            }
            "Lines" => {
                let data = self.get(&argument).map_or(&[][..], |data| data.as_slice());
                if data.is_empty() {
                    return Ok(Value::strings(std::iter::empty::<Str>()));
                }
                let data = data.strip_suffix(b"\n").unwrap_or(data);
                Ok(Value::strings(data.split(|b| *b == b'\n')))
            }
            "AsConfig" => Ok(self.by_base_name(|data| data.into())),
            _ => Ok(self.by_base_name(|data| base64::engine::general_purpose::STANDARD.encode(data).into())),
        }
    }
    fn truth(&self) -> bool {
        !self.sorted.is_empty()
    }
    fn json(&self) -> Value {
        let encode = |data: &[u8]| Value::str(base64::engine::general_purpose::STANDARD.encode(data));
        Value::map(self.each().map(|f| (Str::from(f.name.as_str()), encode(&f.data))))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A Go struct whose fields are known.
#[derive(Clone)]
struct Struct {
    type_name: &'static str,
    kind: Kind,
    fields: Vec<(&'static str, Value)>,
    /// The names of the fields in JSON; a field without one is left out.
    keys: Vec<Option<&'static str>>,
    /// Methods without parameters.
    methods: Vec<(&'static str, Value)>,
    /// The fields with the unexported ones, if there are any.
    shown: Vec<(&'static str, Value)>,
    /// The text that the pointer to the struct has.
    addressed: Option<String>,
}

impl Object for Struct {
    fn type_name(&self) -> &'static str {
        self.type_name
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn field(&self, name: &str) -> Option<Value> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone())
    }
    fn fields(&self) -> Vec<Str> {
        self.fields.iter().map(|(n, _)| Str::from(*n)).collect()
    }
    fn method(&self, name: &str) -> Option<&'static [Param]> {
        self.methods.iter().any(|(n, _)| *n == name).then_some(&[])
    }
    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, FnError> {
        let found = self.methods.iter().find(|(n, _)| *n == name);
        found.map(|(_, v)| v.clone()).ok_or_else(|| "no such method".into())
    }
    fn equals(&self, other: &dyn Object) -> bool {
        let text = |value: &Value| if let Value::Str(s) = value { Some(s.clone()) } else { None };
        let texts =
            |object: &dyn Object| object.shown().iter().map(|(_, value)| text(value)).collect::<Option<Vec<_>>>();
        self.kind == Kind::Struct && texts(self).is_some_and(|own| texts(other) == Some(own))
    }
    fn addressed(&self) -> Option<String> {
        self.addressed.clone()
    }
    fn passed(&self) -> Option<Value> {
        self.addressed.as_ref()?;
        Some(Value::Object(Rc::new(Self { addressed: None, methods: Vec::new(), ..self.clone() })))
    }
    fn copied(&self) -> Option<Value> {
        let deep = |value: &Value| match value {
            Value::Object(object) => object.copied().unwrap_or_else(|| value.clone()),
            other => other.clone(),
        };
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (*name, deep(value))).collect();
        let exported = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
        let shown = self.shown.iter().map(|(name, _)| (*name, exported(name).unwrap_or_else(|| "".into()))).collect();
        Some(Value::Object(Rc::new(Self { fields, shown, ..self.clone() })))
    }
    fn shown(&self) -> Vec<(Str, Value)> {
        let fields = if self.shown.is_empty() { &self.fields } else { &self.shown };
        fields.iter().map(|(name, value)| (Str::from(*name), value.clone())).collect()
    }
    fn json(&self) -> Value {
        Value::map(self.members().into_iter().flatten().map(|(n, v)| (Str::from(n), v)))
    }
    fn members(&self) -> Option<Vec<(&'static str, Value)>> {
        let named = self.keys.iter().zip(&self.fields);
        Some(named.filter_map(|(key, (_, value))| Some(((*key)?, value.clone()))).collect())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Capabilities.APIVersions`: a list with the method `Has`.
struct VersionSet {
    names: Items,
}

impl Object for VersionSet {
    fn type_name(&self) -> &'static str {
        "common.VersionSet"
    }
    fn kind(&self) -> Kind {
        Kind::Slice
    }
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    fn fields(&self) -> Vec<Str> {
        Vec::new()
    }
    fn items(&self) -> Option<Items> {
        Some(self.names.clone())
    }
    fn with_items(&self, names: Items) -> Option<Value> {
        Some(Value::Object(Rc::new(Self { names })))
    }
    fn method(&self, name: &str) -> Option<&'static [Param]> {
        (name == "Has").then_some(&[Param::Str])
    }
    fn call(&self, _name: &str, args: &[Value]) -> Result<Value, FnError> {
        let wanted = argument(args);
        let has = self.names.iter().any(|n| matches!(n, Value::Str(s) if s.bytes() == wanted.as_bytes()));
        Ok(Value::Bool(has))
    }
    fn truth(&self) -> bool {
        !self.names.is_empty()
    }
    fn json(&self) -> Value {
        Value::List(List { elem: Elem::Str, items: self.names.clone() })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Capabilities`.
pub fn capabilities(capabilities: &Capabilities, kube: &KubeVersion) -> Value {
    let version = Struct {
        type_name: "common.KubeVersion",
        kind: Kind::Struct,
        fields: vec![
            ("Version", kube.version.as_str().into()),
            ("Major", kube.major.to_string().into()),
            ("Minor", kube.minor.to_string().into()),
        ],
        keys: ["Version", "Major", "Minor"].map(Some).to_vec(),
        methods: vec![("String", kube.normalized.as_str().into()), ("GitVersion", kube.version.as_str().into())],
        shown: vec![
            ("Version", kube.version.as_str().into()),
            ("normalizedVersion", kube.normalized.as_str().into()),
            ("Major", kube.major.to_string().into()),
            ("Minor", kube.minor.to_string().into()),
        ],
        addressed: Some(kube.normalized.clone()),
    };
    let names = capabilities.api_versions.iter().map(|v| Value::str(v.as_str())).collect();
    let helm = Struct {
        type_name: "version.BuildInfo",
        kind: Kind::Struct,
        fields: vec![
            ("Version", super::capabilities::HELM_VERSION.into()),
            ("GitCommit", "".into()),
            ("GitTreeState", "".into()),
            ("GoVersion", super::capabilities::GO_VERSION.into()),
            ("KubeClientVersion", super::capabilities::KUBE_CLIENT_VERSION.into()),
        ],
        // Empty documents are left out.
        keys: vec![Some("version"), None, None, Some("go_version"), Some("kube_client_version")],
        methods: Vec::new(),
        shown: Vec::new(),
        addressed: None,
    };
    Value::Object(Rc::new(Struct {
        type_name: "*common.Capabilities",
        kind: Kind::Ptr,
        fields: vec![
            ("KubeVersion", Value::Object(Rc::new(version))),
            ("APIVersions", Value::Object(Rc::new(VersionSet { names }))),
            ("HelmVersion", Value::Object(Rc::new(helm))),
        ],
        keys: ["KubeVersion", "APIVersions", "HelmVersion"].map(Some).to_vec(),
        methods: Vec::new(),
        shown: Vec::new(),
        addressed: None,
    }))
}

/// The list behind `.Capabilities.APIVersions`.
pub fn api_versions(capabilities: &Value) -> Value {
    let Value::Object(capabilities) = capabilities else { return Value::Nil };
    match capabilities.field("APIVersions") {
        Some(Value::Object(set)) => set.json(),
        _ => Value::Nil,
    }
}

/// `.Chart`: the fields of Chart.yaml under their Go names, and `IsRoot`.
pub fn chart(metadata: &Metadata, is_root: bool) -> Value {
    let text = |s: &str| Value::str(s);
    let texts = |list: &[String]| Value::list(list.iter().map(|s| Value::str(s.as_str())).collect());
    let table = |entries: Vec<(&str, Value)>| Value::map(entries.into_iter().map(|(k, v)| (Str::from(k), v)));
    let maintainers = metadata
        .maintainers
        .iter()
        .map(|m| table(vec![("Name", text(&m.name)), ("Email", text(&m.email)), ("URL", text(&m.url))]))
        .collect();
    let dependencies = metadata
        .dependencies
        .iter()
        .map(|d| {
            table(vec![
                ("Name", text(&d.name)),
                ("Version", text(&d.version)),
                ("Repository", text(&d.repository)),
                ("Condition", text(&d.condition)),
                ("Tags", texts(&d.tags)),
                ("Enabled", Value::Bool(d.enabled)),
                ("ImportValues", Value::list(d.import_values.iter().map(Value::from).collect())),
                ("Alias", text(&d.alias)),
            ])
        })
        .collect();
    let annotations = match &metadata.annotations {
        None => Map::nil(MapType::Str),
        Some(entries) => {
            let map = Map::new(MapType::Str);
            map.borrow_mut().extend(entries.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())));
            map
        }
    };
    table(vec![
        ("Name", text(&metadata.name)),
        ("Home", text(&metadata.home)),
        ("Sources", texts(&metadata.sources)),
        ("Version", text(&metadata.version)),
        ("Description", text(&metadata.description)),
        ("Keywords", texts(&metadata.keywords)),
        ("Maintainers", Value::list(maintainers)),
        ("Icon", text(&metadata.icon)),
        ("APIVersion", text(&metadata.api_version)),
        ("Condition", text(&metadata.condition)),
        ("Tags", text(&metadata.tags)),
        ("AppVersion", text(&metadata.app_version)),
        ("Deprecated", Value::Bool(metadata.deprecated)),
        ("Annotations", Value::Map(annotations)),
        ("KubeVersion", text(&metadata.kube_version)),
        ("Dependencies", Value::list(dependencies)),
        ("Type", text(&metadata.r#type)),
        ("IsRoot", Value::Bool(is_root)),
    ])
}
