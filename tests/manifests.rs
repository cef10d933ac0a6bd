//! What `deploy/` has for installing Tillerman is made from one chart, `deploy/chart`: its files of rules and definitions from what the program
//! prints, `deploy/install` for kustomize and `deploy/bundle` for the Operator Lifecycle Manager from what the chart renders.
//! `make manifests` writes all of it again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tillerman::template::yaml;

/// The operator's namespace in `deploy/install`.
const NAMESPACE: &str = "tillerman-system";
/// The namespace that `deploy/install/namespaced` serves.
const SERVED: &str = "default";
/// A custom resource of each built-in kind that `deploy/bundle.yaml` has none of.
const EXAMPLES: [&str; 5] = [
    "examples/etcd/cluster.yaml",
    "examples/etcd/restore.yaml",
    "examples/mysql/cluster.yaml",
    "examples/php/cr.yaml",
    "examples/wordpress/cr.yaml",
];
const WRITTEN: &str = "# Written by `make manifests` from deploy/chart.\n";

/// The files to write, by path below the repository.
type Files = BTreeMap<String, String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What the program prints.
fn tillerman(args: &[&str]) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_tillerman")).args(args).current_dir(root()).output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// A YAML document. Its reader makes a float of each number, as Go's of JSON does; whole ones are integers here.
fn parse(document: &str) -> Value {
    fn whole(value: &mut Value) {
        match value {
            Value::Number(number) => {
                if let Ok(integer) = number.to_string().trim_end_matches(".0").parse::<i64>() {
                    *value = integer.into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(whole),
            Value::Object(fields) => fields.values_mut().for_each(whole),
            _ => {}
        }
    }
    let mut value = yaml::parse(document.as_bytes()).unwrap();
    whole(&mut value);
    value
}

fn to_yaml(value: &Value) -> String {
    let text = yaml::emit_pretty(&value.into()).unwrap();
    String::from_utf8(text).unwrap()
}

fn documents(objects: &[Value]) -> String {
    objects.iter().map(to_yaml).collect::<Vec<_>>().join("---\n")
}

/// The rules of the roles that `tillerman rbac` prints for a watches file: in the namespaces that are served, and for the lease.
fn rights(watches: &str) -> (String, String) {
    let args = ["rbac", "--watches", watches, "--namespace", "served", "--service-account", "own:tillerman"];
    let text = tillerman(&args);
    let role = |namespace: &str| {
        let head = format!("kind: Role\nmetadata:\n  name: tillerman\n  namespace: {namespace}\nrules:\n");
        let (_, rest) = text.split_once(&head).unwrap_or_else(|| panic!("{watches}: no Role in {namespace}"));
        rest.split("---\n").next().unwrap().to_owned()
    };
    assert!(
        !text.contains("kind: ClusterRole\n"),
        "{watches}: a rule for cluster-scoped objects has no place in the chart"
    );
    (outdented(&role("served")), outdented(&role("own")))
}

fn outdented(rules: &str) -> String {
    rules.lines().flat_map(|line| [line.strip_prefix("  ").unwrap_or(line), "\n"]).collect()
}

/// The rules of `deploy/definitions-role.yaml`: those of no namespace, and the others. The lease has a Role of its own.
fn rights_of_definitions() -> (String, String) {
    let text = read("deploy/definitions-role.yaml");
    let (_, rest) = text.split_once("\nrules:\n").unwrap();
    let rules = outdented(rest.split("---\n").next().unwrap());
    let (mut apis, mut others, mut rule) = (String::new(), String::new(), String::new());
    for line in rules.lines() {
        writeln!(rule, "{line}").unwrap();
        if !line.trim_start().starts_with("verbs:") {
            continue;
        }
        let rule = std::mem::take(&mut rule);
        match () {
            () if rule.contains("[leases]") => {}
            () if rule.contains("[tillerman.dev]") || rule.contains("[apiextensions.k8s.io]") => apis += &rule,
            () => others += &rule,
        }
    }
    (apis, others)
}

/// What the chart reads from its folder `files`.
fn files_of_the_chart() -> Files {
    let mut files = Files::new();
    let mut put = |path: &str, text: String| drop(files.insert(format!("deploy/chart/files/{path}"), text));
    put("crds/definitions/chartdefinitions.yaml", read("deploy/chart-definition.yaml"));
    for (kind, chart, plural) in [
        ("etcd", "etcd", "etcdclusters"),
        ("etcd", "etcd-backup", "etcdbackups"),
        ("etcd", "etcd-restore", "etcdrestores"),
        ("mysql", "mysql", "mysqlclusters"),
        ("php", "php", "phpapps"),
        ("wordpress", "wordpress", "wordpresses"),
    ] {
        put(&format!("crds/{kind}/{plural}.yaml"), tillerman(&["crd", &format!("charts/{chart}")]));
    }
    for kind in ["etcd", "mysql", "php", "wordpress"] {
        let watches = format!("examples/{kind}/watches.yaml");
        let (served, lease) = rights(&watches);
        put(&format!("rights-{kind}.yaml"), served);
        put("rights-lease.yaml", lease);
        put(&format!("watches-{kind}.yaml"), read(&watches));
    }
    // The entries of PhpApp and WordPress in an operator that serves MySQLCluster, too.
    let stack = read("examples/stack/watches.yaml");
    let (_, entry) = stack.split_once("- group: apps.tillerman.dev\n").unwrap();
    put("watches-php-with-mysql.yaml", format!("- group: apps.tillerman.dev\n{entry}"));
    let (_, depends) = entry.split_once("  dependsOn:\n").unwrap();
    let alone = read("examples/wordpress/watches.yaml");
    put("watches-wordpress-with-mysql.yaml", format!("{alone}  dependsOn:\n{depends}"));
    let (apis, others) = rights_of_definitions();
    put("rights-apis.yaml", apis);
    put("rights-definitions.yaml", others);
    put("crds/notices/notices.yaml", read("deploy/notice.yaml"));
    let role = read("deploy/notices-role.yaml");
    put("rights-notices.yaml", outdented(role.split_once("\nrules:\n").unwrap().1));
    put("alerts.yaml", read("deploy/alerts.yaml"));
    put("dashboard.json", read("deploy/dashboard.json"));
    files.insert("deploy/chart/README.md".to_owned(), readme_of_the_chart());
    files
}

/// `Chart.yaml` of the chart: what is written by hand, and the annotations that Artifact Hub reads.
fn chart_file() -> String {
    let text = read("deploy/chart/Chart.yaml");
    let own = text.split_once("# Written by").map_or(&*text, |(own, _)| own);
    let texts = parse(&read("deploy/bundle.yaml"));
    let crds: Vec<Value> = definitions()
        .iter()
        .map(|definition| {
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
            json!({"kind": kind, "version": definition["spec"]["versions"][0]["name"], "name": name(definition),
                "displayName": kind, "description": texts["kinds"][kind]})
        })
        .collect();
    let mut examples: Vec<Value> = EXAMPLES.iter().map(|path| parse(&read(path))).collect();
    examples.extend(texts["examples"].as_array().unwrap().iter().cloned());
    let version = env!("CARGO_PKG_VERSION");
    let image = |name: &str, image: &str| json!({"name": name, "image": format!("{image}:{version}"), "platforms": ["linux/amd64", "linux/arm64"]});
    let text = |value: &Value| json!(to_yaml(value));
    let annotations = json!({"annotations": {
        "artifacthub.io/category": "integration-delivery",
        "artifacthub.io/crds": text(&json!(crds)),
        "artifacthub.io/crdsExamples": text(&json!(examples)),
        "artifacthub.io/images": text(&json!([image("operator", "tillerman"), image("agent", "tillerman-agent")])),
        "artifacthub.io/license": env!("CARGO_PKG_LICENSE"),
        "artifacthub.io/links": text(&texts["spec"]["links"]),
        "artifacthub.io/operator": "true",
        "artifacthub.io/operatorCapabilities": texts["annotations"]["capabilities"],
    }});
    format!("{own}# Written by `make manifests`.\n{}", to_yaml(&annotations))
}

/// How Karmada reads the built-in kinds.
fn customizations_of_karmada() -> Files {
    let script = json!({"luaScript": read("deploy/karmada/interpreter.lua")});
    let of_kind = |definition: &Value| {
        let spec = &definition["spec"];
        let version = format!("{}/{}", spec["group"].as_str().unwrap(), spec["versions"][0]["name"].as_str().unwrap());
        to_yaml(&json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": definition["metadata"]["name"]},
            "spec": {"target": {"apiVersion": version, "kind": spec["names"]["kind"]}, "customizations": {
                "healthInterpretation": script, "statusReflection": script, "statusAggregation": script}}}))
    };
    let documents: Vec<String> = definitions().iter().map(of_kind).collect();
    let usage = "#   kubectl --kubeconfig KARMADA apply -f deploy/karmada/customizations.yaml\n";
    let text = format!("{WRITTEN}{usage}{}", documents.join("---\n"));
    Files::from([("deploy/karmada/customizations.yaml".to_owned(), text)])
}

/// The health checks of the built-in kinds for Argo CD, and `Chart.yaml`.
fn what_follows_from_the_definitions() -> Files {
    let check = read("src/scaffold/files/config/argocd/health.lua");
    let of_kind = |definition: &Value| {
        let (group, kind) = (&definition["spec"]["group"], &definition["spec"]["names"]["kind"]);
        let key = format!("resource.customizations.health.{}_{}", group.as_str().unwrap(), kind.as_str().unwrap());
        (key, json!(check))
    };
    let data: Map<String, Value> = definitions().iter().map(of_kind).collect();
    let text = to_yaml(&json!({"data": data}));
    let usage =
        "#   kubectl -n argocd patch configmap argocd-cm --type merge --patch-file deploy/argocd/argocd-cm.yaml\n";
    Files::from([
        ("deploy/argocd/argocd-cm.yaml".to_owned(), format!("{WRITTEN}{usage}{text}")),
        ("deploy/chart/Chart.yaml".to_owned(), chart_file()),
    ])
}

/// The README of each built-in chart: what is written by hand, and the table of all values that `tillerman explain` prints.
fn readmes() -> Files {
    let mut files = Files::new();
    for chart in fs::read_dir(root().join("charts")).unwrap() {
        let chart = format!("charts/{}", chart.unwrap().file_name().display());
        let path = format!("{chart}/README.md");
        let text = read(&path);
        let title = format!("\n## All values\nThis is what `tillerman explain {chart} --output markdown` prints.\n\n");
        let own = text.split_once("\n## All values\n").map_or(&*text, |(own, _)| own);
        files.insert(path, format!("{own}{title}{}", tillerman(&["explain", &chart, "--output", "markdown"])));
    }
    files
}

/// The table of the chart's values.
fn readme_of_the_chart() -> String {
    fn rows(path: &str, value: &Value, schema: &Value, table: &mut String) {
        let text = schema["description"].as_str().unwrap_or_default();
        let fields = value.as_object().filter(|_| schema["properties"].is_object());
        if fields.is_none() {
            writeln!(table, "| `{path}` | `{value}` | {text} |").unwrap();
        } else if !path.is_empty() {
            writeln!(table, "| `{path}` | | {text} |").unwrap();
        }
        for (name, value) in fields.into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            rows(&path, value, &schema["properties"][name], table);
        }
    }
    let values = parse(&read("deploy/chart/values.yaml"));
    let schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap();
    let mut table = String::new();
    rows("", &values, &schema, &mut table);
    format!(
        "# The chart of Tillerman\n\n[How to install it.](../../docs/how-to/install.md) The table is written by `make manifests` from \
         values.yaml and values.schema.json.\n\n| value | default | |\n|---|---|---|\n{table}"
    )
}

/// What the chart renders, without what says that Helm has installed it.
fn render(flags: &[&str]) -> Vec<Value> {
    let text = tillerman(&[&["template", "tillerman", "deploy/chart", "--namespace", NAMESPACE], flags].concat());
    let mut objects: Vec<Value> = text.split("\n---\n").map(parse).filter(Value::is_object).collect();
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove("helm.sh/chart");
            labels.remove("app.kubernetes.io/managed-by");
        }
        metadata.remove("annotations");
    }
    objects
}

fn is(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn definitions() -> Vec<Value> {
    render(&[]).into_iter().filter(|object| is(object, "CustomResourceDefinition")).collect()
}

fn without_definitions(flags: &[&str]) -> Vec<Value> {
    render(&[&["--set", "crds.install=false"], flags].concat())
}

/// `deploy/install`, but for the files kustomization.yaml, which are written by hand.
fn kustomize() -> Files {
    let mut files = Files::new();
    let mut put =
        |path: &str, text: String| drop(files.insert(format!("deploy/install/{path}"), format!("{WRITTEN}{text}")));
    for definition in definitions() {
        put(&format!("crds/{}.yaml", name(&definition)), to_yaml(&definition));
    }
    put("base/operator.yaml", documents(&without_definitions(&[])));
    let set = format!("watchNamespaces={{{SERVED}}}");
    let bindings: Vec<Value> = without_definitions(&["--set", &set])
        .into_iter()
        .filter(|object| is(object, "RoleBinding") && name(object) != "tillerman-leader-election")
        .collect();
    put("namespaced/bindings.yaml", documents(&bindings));
    files
}

/// `deploy/bundle`.
fn bundle() -> Files {
    let mut files = Files::new();
    let objects = without_definitions(&[]);
    let mut put =
        |path: String, text: String| drop(files.insert(format!("deploy/bundle/{path}"), format!("{WRITTEN}{text}")));
    let version = env!("CARGO_PKG_VERSION");
    for definition in definitions() {
        put(format!("manifests/{}.yaml", name(&definition)), to_yaml(&definition));
    }
    for object in &objects {
        let kind = object["kind"].as_str().unwrap();
        // Bound by the manager itself, or made by it: the Deployment, its account, and the roles that are bound to it.
        let stays = match kind {
            "ConfigMap" | "Service" | "PodDisruptionBudget" | "NetworkPolicy" => true,
            "ClusterRole" => ["charts", "metrics-reader", "edit", "view"]
                .iter()
                .any(|role| name(object) == format!("tillerman-{role}")),
            _ => false,
        };
        if stays {
            let mut object = object.clone();
            object["metadata"].as_object_mut().unwrap().remove("namespace");
            put(format!("manifests/{}.{}.yaml", name(&object), kind.to_lowercase()), to_yaml(&object));
        }
    }
    put(
        "manifests/tillerman.clusterserviceversion.yaml".to_owned(),
        to_yaml(&cluster_service_version(version, &objects)),
    );
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": "tillerman",
        "operators.operatorframework.io.bundle.channels.v1": "alpha",
        "operators.operatorframework.io.bundle.channel.default.v1": "alpha",
    }});
    put("metadata/annotations.yaml".to_owned(), to_yaml(&annotations));
    let labels = annotations["annotations"].as_object().unwrap();
    let labels = labels
        .iter()
        .map(|(key, value)| format!("LABEL {key}={}", value.as_str().unwrap()))
        .collect::<Vec<_>>()
        .join("\n");
    put(
        "Dockerfile".to_owned(),
        format!("FROM scratch\n{labels}\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n"),
    );
    files
}

/// The description of the operator for the Operator Lifecycle Manager.
fn cluster_service_version(version: &str, objects: &[Value]) -> Value {
    let rules = |role: &str| {
        let found =
            objects.iter().find(|object| name(object) == format!("tillerman-{role}") && !object["rules"].is_null());
        found.unwrap_or_else(|| panic!("no role {role}"))["rules"].as_array().unwrap().clone()
    };
    let permissions = |roles: &[&str]| {
        let rules: Vec<Value> = roles.iter().flat_map(|role| rules(role)).collect();
        json!([{"serviceAccountName": "tillerman", "rules": rules}])
    };
    let deployment = objects.iter().find(|object| is(object, "Deployment")).unwrap();
    let mut spec = deployment["spec"].clone();
    let container = &mut spec["template"]["spec"]["containers"][0];
    let image = container["image"].as_str().unwrap().to_owned();
    let variables = container["env"].as_array().unwrap();
    let agent = variables.iter().find(|variable| variable["name"] == "TILLERMAN_AGENT_IMAGE").unwrap()["value"].clone();
    // The manager says which namespaces are served.
    let watched =
        container["env"].as_array_mut().unwrap().iter_mut().find(|variable| variable["name"] == "WATCH_NAMESPACE");
    *watched.unwrap() = json!({"name": "WATCH_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}});
    let texts = parse(&read("deploy/bundle.yaml"));
    let mut examples = Vec::new();
    for path in EXAMPLES {
        examples.push(parse(&read(path)));
    }
    examples.extend(texts["examples"].as_array().unwrap().iter().cloned());
    let owned: Vec<Value> = definitions()
        .iter()
        .map(|definition| {
            let (names, group) = (&definition["spec"]["names"], definition["spec"]["group"].as_str().unwrap());
            let kind = names["kind"].as_str().unwrap();
            let description =
                texts["kinds"][kind].as_str().unwrap_or_else(|| panic!("deploy/bundle.yaml says nothing of {kind}"));
            assert!(examples.iter().any(|example| example["kind"] == kind), "there is no example of {kind} ({group})");
            json!({"name": name(definition), "kind": kind, "version": definition["spec"]["versions"][0]["name"],
            "displayName": kind, "description": description})
        })
        .collect();
    let mut annotations = Map::new();
    annotations.insert("alm-examples".to_owned(), json!(serde_json::to_string_pretty(&examples).unwrap()));
    annotations.insert("containerImage".to_owned(), json!(image));
    annotations.extend(texts["annotations"].as_object().unwrap().clone());
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes = modes.map(|mode| json!({"type": mode, "supported": true}));
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("tillerman.v{version}"), "namespace": "placeholder", "annotations": annotations},
        "spec": {
            "version": version,
            "minKubeVersion": "1.28.0",
            "icon": [{"mediatype": "image/svg+xml", "base64data": STANDARD.encode(read("deploy/icon.svg"))}],
            "installModes": modes,
            "customresourcedefinitions": {"owned": owned},
            "relatedImages": [{"name": "tillerman", "image": image}, {"name": "agent", "image": agent}],
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "tillerman", "label": deployment["metadata"]["labels"], "spec": spec}],
                "permissions": permissions(&["leader-election", "etcd", "mysql", "php", "wordpress", "definitions"]),
                "clusterPermissions": permissions(&["apis", "metrics-auth"]),
            }},
        },
    });
    csv["spec"].as_object_mut().unwrap().extend(texts["spec"].as_object().unwrap().clone());
    csv
}

/// The files below a folder that the program writes: all but those that are written by hand.
fn present(folder: &str) -> BTreeSet<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let path = |path: PathBuf| path.strip_prefix(root()).unwrap().display().to_string();
    found
        .into_iter()
        .map(path)
        .filter(|path| !["/kustomization.yaml", "/namespace.yaml", ".lua"].iter().any(|end| path.ends_with(end)))
        .collect()
}

#[test]
fn the_files_of_deploy_are_what_the_chart_and_the_program_make() {
    let rewrite = std::env::var_os("REWRITE_MANIFESTS").is_some();
    let mut wrong = Vec::new();
    // The chart is rendered with the files that were written before.
    for folder in ["charts", "deploy/chart/files", "deploy/argocd", "deploy/karmada", "deploy/install", "deploy/bundle"]
    {
        let files = match folder {
            "charts" => readmes(),
            "deploy/argocd" => what_follows_from_the_definitions(),
            "deploy/karmada" => customizations_of_karmada(),
            "deploy/chart/files" => files_of_the_chart(),
            "deploy/install" => kustomize(),
            _ => bundle(),
        };
        for (path, text) in &files {
            let file = root().join(path);
            if fs::read_to_string(&file).is_ok_and(|present| present == *text) {
                continue;
            }
            if !rewrite {
                wrong.push(path.clone());
                continue;
            }
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
        }
        for path in present(folder).into_iter().filter(|_| folder != "charts") {
            if files.contains_key(&path) {
                continue;
            }
            if rewrite { fs::remove_file(root().join(&path)).unwrap() } else { wrong.push(path) }
        }
    }
    assert!(wrong.is_empty(), "run `make manifests`: {}", wrong.join(", "));
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = parse(&read("deploy/chart/Chart.yaml"));
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

/// What Artifact Hub's documentation says about the annotations of charts, and about the fields of `Chart.yaml` that it shows.
#[test]
fn every_chart_has_what_artifact_hub_shows() {
    const CATEGORIES: [&str; 9] = [
        "ai-machine-learning",
        "database",
        "integration-delivery",
        "monitoring-logging",
        "networking",
        "security",
        "skip-prediction",
        "storage",
        "streaming-messaging",
    ];
    const LEVELS: [&str; 5] = ["basic install", "seamless upgrades", "full lifecycle", "deep insights", "auto pilot"];
    let charts = fs::read_dir(root().join("charts")).unwrap();
    let mut charts: Vec<String> = charts.map(|e| format!("charts/{}", e.unwrap().file_name().display())).collect();
    charts.push("deploy/chart".to_owned());
    for chart in charts {
        let file = parse(&read(&format!("{chart}/Chart.yaml")));
        for field in ["home", "icon", "description"] {
            assert!(file[field].as_str().is_some_and(|text| !text.is_empty()), "{chart}: {field}");
        }
        assert!(file["sources"][0].is_string() && file["maintainers"][0]["name"].is_string(), "{chart}");
        let annotation =
            |name: &str| file["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap_or_default();
        assert_eq!(annotation("license"), env!("CARGO_PKG_LICENSE"), "{chart}");
        assert!(CATEGORIES.contains(&annotation("category")), "{chart}: {:?}", annotation("category"));
        if chart != "deploy/chart" {
            continue;
        }
        let list = |name: &str| parse(annotation(name)).as_array().cloned().unwrap_or_default();
        for crd in list("crds") {
            for field in ["kind", "version", "name", "displayName", "description"] {
                assert!(crd[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {crd}");
            }
        }
        let kinds = |name: &str| list(name).iter().map(|item| item["kind"].to_string()).collect::<BTreeSet<_>>();
        assert_eq!(kinds("crds"), kinds("crdsExamples"));
        assert_eq!(list("images").len(), 2);
        assert!(list("links").iter().all(|link| link["name"].is_string() && link["url"].is_string()));
        assert_eq!(annotation("operator"), "true");
        assert!(LEVELS.contains(&&*annotation("operatorCapabilities").to_lowercase()));
    }
}

/// Each value has a description in the schema, and no value is left out of it.
#[test]
fn the_schema_of_the_chart_describes_each_value() {
    fn compare(path: &str, value: &Value, schema: &Value, wrong: &mut Vec<String>) {
        if schema["description"].as_str().is_none_or(str::is_empty) && !path.is_empty() {
            wrong.push(format!("{path} has no description"));
        }
        let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object()) else { return };
        for (name, schema) in properties {
            match fields.get(name) {
                Some(value) => compare(&format!("{path}.{name}"), value, schema, wrong),
                None if name == "global" => {}
                None => wrong.push(format!("{path}.{name} is no value")),
            }
        }
        wrong.extend(
            fields
                .keys()
                .filter(|name| !properties.contains_key(*name))
                .map(|name| format!("{path}.{name} is not in the schema")),
        );
    }
    let values = parse(&read("deploy/chart/values.yaml"));
    let schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap();
    let mut wrong = Vec::new();
    compare("", &values, &schema, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a release consists of, but for the image, which needs a static program.
#[test]
fn a_release_is_the_same_twice_and_names_its_image() {
    let folder = std::env::temp_dir().join(format!("tillerman-release-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    // The program that is tested is large, and it would be compressed.
    let program = folder.join("program");
    fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_tillerman"))).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let release = |name: &str| {
        let out = folder.join(name);
        let run = Command::new("deploy/release.sh")
            .arg(&out)
            .arg(format!("x86_64-unknown-linux-gnu={}", program.display()))
            .envs([("WITHOUT_IMAGE", "1"), ("IMAGE", "registry.example.com/tillerman")])
            .env("AGENTS", format!("x86_64-unknown-linux-gnu={}", program.display()))
            .current_dir(root())
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        out
    };
    let (first, second) = (release("first"), release("second"));
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&second));
    let mut check = Command::new("sha256sum");
    let check = check.args(["--check", "--strict", "--quiet", "SHA256SUMS"]).current_dir(&first);
    assert!(check.status().unwrap().success());
    let version = env!("CARGO_PKG_VERSION");
    assert!(first.join(format!("tillerman-agent-{version}-linux-amd64.tar.gz")).exists());
    let image = format!("image: registry.example.com/tillerman:{version}");
    let chart = first.join(format!("tillerman-{version}.tgz")).display().to_string();
    let rendered = tillerman(&["template", "tillerman", &chart, "--namespace", NAMESPACE]);
    let install = fs::read_to_string(first.join("install.yaml")).unwrap();
    for text in [&rendered, &install] {
        assert!(text.lines().any(|line| line.trim() == image), "{text}");
    }
    let agent = format!("value: registry.example.com/tillerman-agent:{version}");
    assert!(install.lines().any(|line| line.trim() == agent), "{install}");
    let kinds = |text: &str| text.lines().filter(|line| line.starts_with("kind: ")).count();
    assert_eq!(kinds(&install), kinds(&rendered) + 1, "all of the chart, and the namespace");
    fs::remove_dir_all(folder).unwrap();
}
