//! The limit: what a bare client needs for the writes without which there is no release. It renders nothing meanwhile, watches nothing
//! and waits for nothing but answers.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tillerman::chart;
use tillerman::release::record::{New, Record, Status, chart_json};
use tillerman::render::{self, Capabilities, Options, Release};
use tokio::task::JoinSet;

use crate::api::{Api, Error};
use crate::scene::{GROUP_VERSION, Scene};

/// Custom resources that are worked on at a time, each over a connection of its own.
const AT_A_TIME: usize = 12;

/// How a write is sent.
#[derive(Clone, Copy)]
enum How {
    Merge,
    Apply,
    Create,
}

type Write = (How, String, Value);

/// How long the limit takes.
pub struct Times {
    /// The custom resources alone, made before. An operator's time has this in it.
    pub crs: Duration,
    /// The writes of all of them: a finalizer, four applied objects, a release Secret, and the status.
    pub writes: Duration,
}

/// The times for all custom resources of a scene.
pub async fn time(scene: &Scene, kubeconfig: &Path, chart: &Path) -> Result<Times, Error> {
    let mut work: Vec<Vec<Vec<Write>>> = vec![Vec::new(); AT_A_TIME];
    let from = Instant::now();
    let made = scene.create_all().await?;
    let crs = from.elapsed();
    for (i, cr) in made.iter().enumerate() {
        work[i % AT_A_TIME].push(writes(scene, cr, chart)?);
    }
    let mut ready = Vec::new();
    for part in work {
        let api = Api::new(kubeconfig).await?;
        // The connection is there.
        api.version().await?;
        ready.push((api, part));
    }
    let from = Instant::now();
    let mut tasks = JoinSet::new();
    for (api, part) in ready {
        tasks.spawn(async move {
            for (how, path, body) in part.iter().flatten() {
                match how {
                    How::Merge => api.merge(path, body).await?,
                    How::Apply => api.apply(path, body).await?,
                    How::Create => api.create(path, body).await?,
                };
            }
            Ok::<_, Error>(())
        });
    }
    tasks.join_all().await.into_iter().collect::<Result<(), _>>()?;
    Ok(Times { crs, writes: from.elapsed() })
}

/// The writes for one custom resource, with the very objects and record that Tillerman writes.
fn writes(scene: &Scene, cr: &Value, path: &Path) -> Result<Vec<Write>, Error> {
    let name = cr["metadata"]["name"].as_str().unwrap_or_default();
    let owner = json!([{"apiVersion": GROUP_VERSION, "kind": "Web", "name": name, "uid": cr["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true}]);
    let chart = chart::load(path)?;
    let Value::Object(values) = cr["spec"].clone() else { return Err("a custom resource has a spec".into()) };
    let release = Release { name: name.into(), namespace: scene.namespace.clone(), revision: 1, is_upgrade: false };
    let rendered = render::render(&chart, &values, &release, &Capabilities::default(), &Options::default())?;
    let cr_path = format!("{}/{name}", scene.crs());
    let finalizer = json!({"metadata": {"finalizers": ["helm.sdk.operatorframework.io/uninstall-release"]}});
    let mut writes = vec![(How::Merge, cr_path.clone(), finalizer)];
    for manifest in &rendered.manifests {
        let mut object: Value = serde_saphyr::from_str(&manifest.text)?;
        object["metadata"]["ownerReferences"] = owner.clone();
        object["metadata"]["labels"]["helm.sdk.operatorframework.io/chart"] = json!("web");
        let api = if manifest.api_version == "v1" { "api/v1" } else { "apis/apps/v1" };
        let collection = scene.collection(api, &format!("{}s", manifest.kind.to_lowercase()));
        writes.push((How::Apply, format!("{collection}/{}", manifest.name), object));
    }
    let now = jiff::Timestamp::now().to_string();
    let record = Record::new(&New {
        name,
        namespace: &scene.namespace,
        revision: 1,
        status: Status::Deployed,
        description: "Install complete",
        first_deployed: &now,
        now: &now,
        chart: &chart_json(&chart),
        config: &values,
        rendered: &rendered,
    });
    let labels = json!({"owner": "helm", "name": name, "status": "deployed", "version": "1"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": format!("sh.helm.release.v1.{name}.v1"), "labels": labels, "ownerReferences": owner},
        "stringData": {"release": record.encode()?}});
    writes.push((How::Create, scene.collection("api/v1", "secrets"), secret));
    let condition = |name: &str| {
        json!({"type": name, "status": "True", "reason": "InstallSuccessful", "message": "",
            "lastTransitionTime": now, "observedGeneration": 1})
    };
    let conditions: Vec<_> = ["Initialized", "Deployed", "Ready"].map(condition).into();
    let status = json!({"status": {"conditions": conditions, "deployedRelease": {"name": name}}});
    writes.push((How::Merge, format!("{cr_path}/status"), status));
    Ok(writes)
}
