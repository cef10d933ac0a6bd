//! The bundle of an operator for the Operator Lifecycle Manager (OLM), from the objects that deploy it.
//!
//! OLM creates the Deployment, the ServiceAccount and the rights itself, from the `ClusterServiceVersion`; the other
//! objects are in files next to it.

use super::{ProjectFiles, ScaffoldError};
use crate::template::yaml;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The facts that the objects do not have.
#[derive(Clone, Debug)]
pub struct BundleSettings {
    /// Version of the operator, such as `0.1.0`.
    pub version: String,
    /// Name of the package; empty for the one that the base names.
    pub package: String,
    /// Channels, divided by commas.
    pub channels: String,
    /// The channel that is chosen by default; empty for the first.
    pub default_channel: String,
}

/// The kinds that the `ClusterServiceVersion` has in it, or that OLM brings.
const TAKEN: [&str; 8] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Deployment",
    "Namespace",
    "Role",
    "RoleBinding",
];

/// The files of the bundle.
///
/// # Errors
/// The missing objects, in a sentence.
pub fn of(objects: &[Value], settings: &BundleSettings) -> Result<ProjectFiles, ScaffoldError> {
    let bases: Vec<&Value> = kind(objects, "ClusterServiceVersion").collect();
    let [base] = bases[..] else {
        return Err(format!(
            "the objects have {} ClusterServiceVersions, not one: are they those of config/manifests?",
            bases.len()
        )
        .into());
    };
    let base_name = text(base, "/metadata/name").split(".v").next().unwrap_or_default().to_owned();
    let package = if settings.package.is_empty() { base_name } else { settings.package.clone() };
    if kind(objects, "Deployment").next().is_none() {
        return Err("the objects have no Deployment: are they those of config/manifests?".into());
    }
    let mut files = ProjectFiles::new();
    let mut add = |path: String, object: &Value| -> Result<(), ScaffoldError> {
        file_name(path.trim_start_matches("bundle/manifests/"))?;
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        files.insert(path, yaml::of_json(&object)?.into_bytes());
        Ok(())
    };
    for definition in kind(objects, "CustomResourceDefinition") {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        add(format!("bundle/manifests/{group}_{plural}.yaml"), definition)?;
    }
    let (version, bound) = service_version(base, objects, &package, &settings.version);
    add(format!("bundle/manifests/{package}.clusterserviceversion.yaml"), &version)?;
    for object in objects {
        let own = text(object, "/kind");
        let is_bound = bound.contains(&(own, text(object, "/metadata/name")));
        let is_role = matches!(own, "ClusterRole" | "Role") && !is_bound;
        let is_account = own == "ServiceAccount" && accounts(objects).contains(&text(object, "/metadata/name"));
        if is_account || is_sample(object, objects) || TAKEN.contains(&own) && !is_role {
            continue;
        }
        let api = text(object, "/apiVersion").replace('/', "_");
        let name = text(object, "/metadata/name");
        add(format!("bundle/manifests/{name}_{api}_{}.yaml", own.to_ascii_lowercase()), object)?;
    }
    let channels: Vec<&str> = settings.channels.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let first = channels.first().copied().unwrap_or("alpha");
    let default = if settings.default_channel.is_empty() { first } else { &settings.default_channel };
    let labels = [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", &package),
        ("channels.v1", &*channels.join(",")),
        ("channel.default.v1", default),
    ]
    .map(|(name, value)| (format!("operators.operatorframework.io.bundle.{name}"), value.to_owned()));
    let annotations: Map<String, Value> = labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    files.insert(
        "bundle/metadata/annotations.yaml".to_owned(),
        yaml::of_json(&json!({"annotations": annotations}))?.into_bytes(),
    );
    let mut dockerfile = "FROM scratch\n\n".to_owned();
    for (name, value) in &labels {
        let _ = writeln!(dockerfile, "LABEL {name}={value}");
    }
    dockerfile += "\nCOPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n";
    files.insert("bundle.Dockerfile".to_owned(), dockerfile.into_bytes());
    Ok(files)
}

/// Checks that the name of a file, which is made of names of objects, leads to no other folder. Names of roles may have colons.
fn file_name(name: &str) -> Result<(), ScaffoldError> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if name.is_empty() || name.len() > 253 || name.contains("..") || !name.chars().all(is_safe) {
        return Err(format!(
            "{name:?} cannot be a file of the bundle: the name of its object must have letters, digits and -._: only, and no two dots together"
        )
        .into());
    }
    Ok(())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn kind<'a>(objects: &'a [Value], kind: &'static str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The `ServiceAccount`s of the Deployments.
fn accounts(objects: &[Value]) -> Vec<&str> {
    kind(objects, "Deployment").map(|object| text(object, "/spec/template/spec/serviceAccountName")).collect()
}

/// Whether an object is a custom resource of a kind that the operator brings.
fn is_sample(object: &Value, objects: &[Value]) -> bool {
    kind(objects, "CustomResourceDefinition").any(|definition| {
        text(definition, "/spec/names/kind") == text(object, "/kind")
            && text(object, "/apiVersion")
                .split_once('/')
                .is_some_and(|(group, _)| group == text(definition, "/spec/group"))
    })
}

/// The `ClusterServiceVersion`, and the roles whose rules it has: kind and name.
fn service_version<'a>(
    base: &Value,
    objects: &'a [Value],
    package: &str,
    version: &str,
) -> (Value, Vec<(&'a str, &'a str)>) {
    let mut made = base.clone();
    made["metadata"]["name"] = json!(format!("{package}.v{version}"));
    made["metadata"]["namespace"] = json!("placeholder");
    made["spec"]["version"] = json!(version);
    let samples: Vec<&Value> = objects.iter().filter(|object| is_sample(object, objects)).collect();
    let examples = serde_json::to_string_pretty(&samples).unwrap_or_default();
    let image = kind(objects, "Deployment").map(|object| text(object, "/spec/template/spec/containers/0/image")).next();
    if !made["metadata"]["annotations"].is_object() {
        made["metadata"]["annotations"] = json!({});
    }
    for (name, value) in [
        ("alm-examples", examples.as_str()),
        ("containerImage", image.unwrap_or_default()),
        ("operators.operatorframework.io/builder", concat!("tillerman-v", env!("CARGO_PKG_VERSION"))),
        ("operators.operatorframework.io/project_layout", "helm.sdk.operatorframework.io/v1"),
    ] {
        made["metadata"]["annotations"][name] = json!(value);
    }
    made["spec"]["customresourcedefinitions"] = json!({"owned": owned(base, objects)});
    let deployments: Vec<Value> = kind(objects, "Deployment")
        .map(|object| json!({"name": text(object, "/metadata/name"), "label": object["metadata"]["labels"], "spec": object["spec"]}))
        .collect();
    let mut spec = json!({"deployments": deployments});
    let mut bound = Vec::new();
    for (binding, role, field) in
        [("ClusterRoleBinding", "ClusterRole", "clusterPermissions"), ("RoleBinding", "Role", "permissions")]
    {
        let mut by_account: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for binding in kind(objects, binding) {
            let name = text(binding, "/roleRef/name");
            let rules = kind(objects, role).filter(|object| text(object, "/metadata/name") == name);
            let rules: Vec<Value> = rules.filter_map(|object| object["rules"].as_array()).flatten().cloned().collect();
            for account in binding["subjects"].as_array().into_iter().flatten() {
                if accounts(objects).contains(&text(account, "/name")) && text(binding, "/roleRef/kind") == role {
                    by_account.entry(text(account, "/name")).or_default().extend(rules.clone());
                    bound.push((role, name));
                }
            }
        }
        let all: Vec<Value> =
            by_account.into_iter().map(|(name, rules)| json!({"serviceAccountName": name, "rules": rules})).collect();
        if !all.is_empty() {
            spec[field] = json!(all);
        }
    }
    made["spec"]["install"] = json!({"strategy": "deployment", "spec": spec});
    // An icon without data is none.
    if let Some(fields) = made["spec"].as_object_mut().filter(|fields| text_of_icon(fields).is_empty()) {
        fields.remove("icon");
    }
    (made, bound)
}

fn text_of_icon(spec: &Map<String, Value>) -> &str {
    spec.get("icon").and_then(|icon| icon.pointer("/0/base64data")).and_then(Value::as_str).unwrap_or_default()
}

/// The kinds that the operator brings, with their descriptions in the base.
fn owned(base: &Value, objects: &[Value]) -> Vec<Value> {
    let mut owned = Vec::new();
    for definition in kind(objects, "CustomResourceDefinition") {
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            let (name, version) = (text(definition, "/metadata/name"), text(version, "/name"));
            let kind = text(definition, "/spec/names/kind");
            let said = base.pointer("/spec/customresourcedefinitions/owned").and_then(Value::as_array);
            let said = said.into_iter().flatten().find(|said| said["name"] == name && said["version"] == version);
            let mut entry = said.cloned().unwrap_or_else(|| {
                json!({"displayName": kind, "description": format!("A release of a chart, whose values are the spec of the {kind}.")})
            });
            entry["name"] = json!(name);
            entry["kind"] = json!(kind);
            entry["version"] = json!(version);
            owned.push(entry);
        }
    }
    owned
}

#[cfg(test)]
mod tests {
    use super::{BundleSettings, of};
    use serde_json::json;

    fn settings() -> BundleSettings {
        BundleSettings {
            version: "1.2.3".into(),
            package: String::new(),
            channels: "stable,fast".into(),
            default_channel: String::new(),
        }
    }

    #[test]
    fn the_rights_and_the_deployment_are_in_the_version_and_the_rest_beside_it() {
        let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "system"}});
        let mut role = named("ClusterRole", "manager");
        role["rules"] = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        let mut binding = named("ClusterRoleBinding", "manager");
        binding["roleRef"] = json!({"kind": "ClusterRole", "name": "manager"});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "runner"}]);
        let mut deployment = named("Deployment", "operator");
        deployment["spec"] =
            json!({"template": {"spec": {"serviceAccountName": "runner", "containers": [{"image": "x:1"}]}}});
        let mut definition = named("CustomResourceDefinition", "webs.example.com");
        definition["spec"] =
            json!({"group": "example.com", "names": {"kind": "Web", "plural": "webs"}, "versions": [{"name": "v1"}]});
        let mut sample = named("Web", "sample");
        sample["apiVersion"] = json!("example.com/v1");
        let version = json!({"kind": "ClusterServiceVersion", "metadata": {"name": "web-operator.v0.0.0"}, "spec": {}});
        let objects = [
            role,
            binding,
            deployment,
            definition,
            sample,
            version,
            named("ServiceAccount", "runner"),
            named("Namespace", "system"),
            named("Service", "metrics"),
            named("ClusterRole", "viewer"),
        ];
        let files = of(&objects, &settings()).unwrap();
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "bundle.Dockerfile",
                "bundle/manifests/example.com_webs.yaml",
                "bundle/manifests/metrics_v1_service.yaml",
                "bundle/manifests/viewer_v1_clusterrole.yaml",
                "bundle/manifests/web-operator.clusterserviceversion.yaml",
                "bundle/metadata/annotations.yaml",
            ]
        );
        let version =
            crate::template::yaml::parse(&files["bundle/manifests/web-operator.clusterserviceversion.yaml"]).unwrap();
        assert_eq!(version["metadata"]["name"], "web-operator.v1.2.3");
        assert_eq!(version["spec"]["install"]["spec"]["clusterPermissions"][0]["rules"][0]["resources"][0], "secrets");
        assert_eq!(version["spec"]["customresourcedefinitions"]["owned"][0]["kind"], "Web");
        assert!(version["metadata"]["annotations"]["alm-examples"].as_str().unwrap().contains("\"kind\": \"Web\""));
        let annotations = String::from_utf8(files["bundle/metadata/annotations.yaml"].clone()).unwrap();
        assert!(annotations.contains("channel.default.v1: stable"), "{annotations}");
    }

    #[test]
    fn a_name_that_leads_out_of_the_bundle_is_refused() {
        for name in ["../../x", "a/b", "..", "a\u{1b}[2J"] {
            assert!(super::file_name(name).is_err(), "{name}");
        }
        assert_eq!(super::file_name("system:webs_rbac.authorization.k8s.io_v1_clusterrole.yaml"), Ok(()));
    }

    #[test]
    fn objects_of_something_else_are_refused() {
        assert_eq!(
            of(&[], &settings()).unwrap_err().to_string(),
            "the objects have 0 ClusterServiceVersions, not one: are they those of config/manifests?"
        );
    }
}
