//! A project as operator-sdk makes it, the operators that run it, and how the tests observe them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{MANAGER, Operator, Space, eventually, repository};

/// uid and generation of every object: what changes when one is recreated or its spec changes. And the records of releases.
pub type Snapshot = BTreeMap<String, Value>;

/// A request of the operator that runs.
#[derive(Clone, Debug)]
pub struct Request {
    verb: String,
    resource: String,
    name: String,
}

impl Request {
    /// Whether it may change something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// The working directory of an image that operator-sdk 1.42.3 makes, with two charts: `helm create`'s, and one with a
/// cluster-scoped object.
pub struct PeerProject {
    pub space: Space,
}

impl PeerProject {
    pub fn new() -> Self {
        let space = Space::new("peer");
        let charts = space.dir().join("helm-charts");
        std::fs::create_dir_all(&charts).unwrap();
        space.helm(&["create", charts.join("web").to_str().unwrap()]).unwrap();
        std::os::unix::fs::symlink(repository("tests/peer/wide"), charts.join("wide")).unwrap();
        // `create api` writes these; the period is added so that looking does not take minutes.
        let entry = |kind: &str, chart: &str| {
            format!(
                "- group: test.tillerman.dev\n  version: v1\n  kind: {kind}\n  chart: helm-charts/{chart}\n  reconcilePeriod: 4s\n"
            )
        };
        let head = "# Use the 'create api' subcommand to add watches to this file.\n";
        let text = [head, &entry("Web", "web"), &entry("Other", "wide"), "# +kubebuilder:scaffold:watch\n"].concat();
        space.file("watches.yaml", &text);
        Self { space }
    }

    /// A project that the real operator-sdk makes here of the chart that `helm create` makes.
    pub fn of_operator_sdk() -> Self {
        let space = Space::new("migrate");
        let (chart, project) = (space.dir().join("web"), space.dir().join("web-operator"));
        space.helm(&["create", chart.to_str().unwrap()]).unwrap();
        std::fs::create_dir(&project).unwrap();
        let chart = chart.to_str().unwrap();
        let init = ["init", "--plugins", "helm", "--domain", "tillerman.dev", "--project-name", "web-operator"];
        let api = ["create", "api", "--group", "test", "--version", "v1", "--kind", "Web", "--helm-chart", chart];
        for args in [&init[..], &api[..]] {
            // Without a cluster it writes the rules that it knows.
            let mut run = std::process::Command::new("operator-sdk");
            run.args(args).current_dir(&project).env("KUBECONFIG", space.dir().join("none"));
            let output = run.output().expect("operator-sdk is on PATH");
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        // Operators run in the folder of the test, as in the image's.
        std::fs::remove_dir_all(chart).unwrap();
        for entry in std::fs::read_dir(&project).unwrap().map(Result::unwrap) {
            std::fs::rename(entry.path(), space.dir().join(entry.file_name())).unwrap();
        }
        Self { space }
    }

    /// What `tillerman migrate` prints of the project, and how it ends.
    pub fn migrate(&self, more: &[&str]) -> (Option<i32>, String) {
        let program = env!("CARGO_BIN_EXE_tillerman");
        let output =
            std::process::Command::new(program).arg("migrate").args(more).current_dir(self.space.dir()).output();
        let output = output.unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// What the audit log says of whichever operator runs; watches and the lease apart.
    pub fn requests(&self) -> Vec<Request> {
        let of_ours = |entry: &Value| -> Option<Request> {
            let part = |name: &str| entry["objectRef"][name].as_str().unwrap_or_default().to_owned();
            let request =
                Request { verb: entry["verb"].as_str()?.to_owned(), resource: part("resource"), name: part("name") };
            (entry["stage"] == "ResponseComplete" && request.verb != "watch" && request.resource != "leases")
                .then_some(request)
        };
        self.space.audited().iter().filter_map(of_ours).collect()
    }

    /// Waits until each of these objects is read once more, so many times.
    pub fn wait_looked_at(&self, objects: &[&str], times: usize) {
        let from = self.requests().len();
        eventually("it looks at everything", || {
            let requests = self.requests();
            let seen = |name: &&&str| requests[from..].iter().filter(|r| r.verb == "get" && r.name == **name).count();
            match objects.iter().find(|name| seen(name) < times) {
                Some(missing) => Err(format!("{missing} was read {} times", seen(&missing))),
                None => Ok(()),
            }
        });
    }

    /// All objects of the namespace and the cluster-scoped one, without the custom resources.
    fn objects(&self) -> Vec<Value> {
        let kinds = "deployments,replicasets,pods,services,serviceaccounts,configmaps";
        let text = self.space.kubectl(&["get", kinds, "-o", "json"]).unwrap();
        let mut all: Value = serde_json::from_str(&text).unwrap();
        let mut objects = all["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        objects.extend(self.space.get(&self.cluster_role()));
        objects
    }

    /// What is there now.
    pub fn snapshot(&self) -> Snapshot {
        let seen = |object: &Value| {
            let metadata = &object["metadata"];
            let key = format!("{} {}", object["kind"].as_str().unwrap(), metadata["name"].as_str().unwrap());
            (key, json!([metadata["uid"], metadata["generation"]]))
        };
        let mut snapshot: Snapshot = self.objects().iter().map(seen).collect();
        for (name, revision, status) in self.releases() {
            snapshot.insert(format!("release {name}"), json!([revision, status]));
        }
        snapshot
    }

    /// Waits until the controllers have done their part and nothing changes from one look to the next; what is there then.
    pub fn settled(&self) -> Snapshot {
        let mut last = (Snapshot::new(), 0);
        eventually("all come to rest", || {
            std::thread::sleep(std::time::Duration::from_secs(1));
            let behind =
                |o: &&Value| o["status"].get("observedGeneration").is_some_and(|g| g != &o["metadata"]["generation"]);
            if let Some(object) = self.objects().iter().find(behind) {
                return Err(format!("the controllers have not seen {}", object["metadata"]["name"]));
            }
            let writes = self.requests().iter().filter(|r| r.writes()).count();
            let now = (self.snapshot(), writes);
            let still = now == last;
            last = now;
            if still { Ok(last.0.clone()) } else { Err(format!("{} writes", last.1)) }
        })
    }

    /// The releases that helm lists: names, revisions and statuses.
    pub fn releases(&self) -> Vec<(String, u64, String)> {
        let text = self.space.helm(&["list", "-o", "json"]).unwrap();
        let releases: Vec<Value> = serde_json::from_str(&text).unwrap();
        let text = |release: &Value, field: &str| release[field].as_str().unwrap().to_owned();
        let row = |r: &Value| (text(r, "name"), text(r, "revision").parse().unwrap(), text(r, "status"));
        releases.iter().map(row).collect()
    }

    /// The revision that a release has now.
    pub fn revision(&self, release: &str) -> u64 {
        self.releases().into_iter().find(|(name, ..)| name == release).expect("there is such a release").1
    }

    /// These releases and no others, at these revisions, deployed.
    pub fn assert_deployed(&self, expected: &[(&str, u64)]) {
        let row = |(name, revision): &(&str, u64)| ((*name).to_owned(), *revision, "deployed".to_owned());
        assert_eq!(self.releases(), expected.iter().map(row).collect::<Vec<_>>());
    }

    /// What `helm history` says of a release.
    pub fn history(&self, release: &str) -> Vec<(u64, String)> {
        let text = self.space.helm(&["history", release, "-o", "json"]).unwrap();
        let revisions: Vec<Value> = serde_json::from_str(&text).unwrap();
        let row = |r: &Value| (r["revision"].as_u64().unwrap(), r["status"].as_str().unwrap().to_owned());
        revisions.iter().map(row).collect()
    }

    /// Waits until a release is deployed with these values.
    ///
    /// The revision does not say it: helm-operator reads its records from a cache (`secrets_watch.go`), and when the cache is
    /// behind it takes the new revision for a leftover, deletes all records and installs again, as revision 1.
    pub fn wait_deployed(&self, release: &str, values: &Value) {
        eventually(&format!("{release} with {values}"), || {
            let text = self.space.helm(&["status", release, "-o", "json"])?;
            let status: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            // Without values helm leaves the field out.
            let found = (&status["info"]["status"], status.get("config").cloned().unwrap_or(json!({})));
            if found == (&json!("deployed"), values.clone()) { Ok(()) } else { Err(format!("{found:?}")) }
        });
    }

    /// Deployed, with nothing wrong.
    pub fn assert_good(&self, object: &str, reason: &str) {
        let condition = self.space.wait(object, "Deployed", "True");
        assert_eq!(condition["reason"], reason, "{object}: {condition}");
        assert_eq!(self.space.condition(object, "Initialized").unwrap()["status"], "True");
        for bad in ["ReleaseFailed", "Irreconcilable"] {
            let found = self.space.condition(object, bad).is_ok_and(|c| c["status"] == "True");
            assert!(!found, "{object}: {:?}", self.space.condition(object, bad));
        }
        let name = object.split_once('/').expect("kind and name").1;
        assert_eq!(self.space.get(object).unwrap()["status"]["deployedRelease"]["name"], name);
    }

    /// Who owns fields of an object, the controllers too.
    pub fn managers(&self, object: &str) -> Vec<String> {
        let object = self.space.get(object).unwrap();
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .map(|e| format!("{}/{}", e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap()))
            .collect()
    }

    /// The cluster-scoped object of the release `wide`.
    pub fn cluster_role(&self) -> String {
        format!("clusterrole/{}-wide", self.space.name)
    }
}

/// One of the two operators, with the arguments of operator-sdk's manager Deployment.
pub struct Running(Operator);

impl Running {
    pub fn helm_operator(project: &PeerProject) -> Self {
        Self::start(project, Path::new("helm-operator"))
    }

    pub fn tillerman(project: &PeerProject) -> Self {
        Self::start(project, Path::new(env!("CARGO_BIN_EXE_tillerman")))
    }

    /// As operator-sdk starts it; and the namespace of the lease, which a pod has from its service account.
    fn start(project: &PeerProject, program: &Path) -> Self {
        let space = &project.space;
        let namespace = format!("--leader-election-namespace={}", space.name);
        let args = [&MANAGER[..], &[&namespace]].concat();
        let kubeconfig = space.kubeconfig(None);
        let env = [("KUBECONFIG", kubeconfig.to_str().unwrap()), ("WATCH_NAMESPACE", &space.name)];
        Self(space.program_as(program.to_str().expect("it is text"), &args, &env))
    }

    /// As a Deployment that is scaled down.
    pub fn stop(self) {
        assert!(self.0.stop(), "it ends well");
    }
}
