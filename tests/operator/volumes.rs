//! Volumes that grow: those of a plain chart when their size is changed, and those of members by themselves. The API server and its controllers are real; the test does the part of a storage driver, and
//! the agents report how full the volumes are.

use serde_json::json;
use tillerman::agent::contract::VolumeSpace;

use crate::harness::{Space, eventually, kubectl, repository};
use crate::primary::PrimaryCluster;
use crate::rights::with_exactly;

/// Volumes for the claims of `a-db`, of a class of the same name as the namespace, which may grow. They go with this value.
pub struct ExpandableVolumes {
    class: String,
    volumes: Vec<String>,
}

impl ExpandableVolumes {
    pub fn of(space: &Space, count: u32, size: &str) -> Self {
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": space.name},
            "provisioner": "kubernetes.io/no-provisioner", "allowVolumeExpansion": true});
        kubectl(&["create", "-f", "-"], Some(&class.to_string())).unwrap();
        let volumes: Vec<String> = (0..count).map(|k| format!("{}-{k}", space.name)).collect();
        for (k, name) in volumes.iter().enumerate() {
            let claim = json!({"namespace": space.name, "name": format!("data-a-db-{k}")});
            let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": space.name,
                    "hostPath": {"path": "/nowhere"}, "claimRef": claim}});
            kubectl(&["create", "-f", "-"], Some(&volume.to_string())).unwrap();
        }
        Self { class: space.name.clone(), volumes }
    }
}

impl Drop for ExpandableVolumes {
    fn drop(&mut self) {
        let volumes: Vec<&str> = self.volumes.iter().map(String::as_str).collect();
        let _ = kubectl(&[&["delete", "pv", "--wait=false"][..], &volumes].concat(), None);
        let _ = kubectl(&["delete", "storageclass", &self.class], None);
    }
}

/// A volume that is nearly full grows, and those of the other members with it. A larger size of the chart counts afterwards, a smaller one
/// leaves what has grown. A class that forbids it is reported. The operator has exactly the rights that `tillerman rbac` prints.
#[test]
fn volumes_grow_by_themselves_together_and_not_above_the_limit() {
    let space = with_exactly("primaryroom", &repository("tests/charts/primary"), &[]);
    let volumes = ExpandableVolumes::of(&space, 2, "100Mi");
    let mut cluster = PrimaryCluster::within(space);
    cluster.secret("certificates", "client.key");
    let _operator = cluster.operator();
    let class = cluster.space.name.clone();
    cluster.set(&json!({"size": 2, "class": class, "storage": "100Mi", "grow": {"claim": "data", "max": "130Mi"}}));
    cluster.wait(2);
    let claim = |k: u32| format!("pvc/data-a-db-{k}");
    let request = "/spec/resources/requests/storage";
    let use_percent = |k: u32, percent: u64| {
        let (capacity, used) = (100 << 20, percent << 20);
        cluster.agents.database().volumes.insert(k, VolumeSpace { capacity, used });
    };
    // What the resizer of a storage driver does.
    let resize = |size: &str| {
        for k in 0..2 {
            let patch = json!({"status": {"capacity": {"storage": size}}}).to_string();
            cluster.space.kubectl(&["patch", &claim(k), "--subresource=status", "--type=merge", "-p", &patch]).unwrap();
        }
    };
    use_percent(0, 79);
    use_percent(1, 10);
    cluster.space.wait_field(&claim(0), "/status/capacity/storage", &json!("100Mi"));
    use_percent(0, 80);
    for k in 0..2 {
        cluster.space.wait_field(&claim(k), request, &json!("120Mi"));
    }
    let events = cluster.space.wait_event("VolumeEnlarged");
    assert!(events.contains("claim data-a-db-0 is enlarged to 120Mi, because 80% of its volume is used"), "{events}");
    resize("120Mi");
    cluster.wait(2);
    // An hour later it is full again: it gets what is left up to the limit.
    let earlier = (jiff::Timestamp::now() - jiff::SignedDuration::from_mins(61)).to_string();
    let hour = format!("tillerman.dev/grown={earlier}");
    for k in [1, 0] {
        cluster.space.kubectl(&["annotate", &claim(k), "--overwrite", &hour]).unwrap();
    }
    cluster.space.wait_field(&claim(0), request, &json!("130Mi"));
    cluster.space.wait_field(&claim(1), request, &json!("130Mi"));
    resize("130Mi");
    // The chart's own size is smaller, and nothing is made smaller.
    cluster.set(&json!({"storage": "110Mi"}));
    cluster.space.wait_field(
        "statefulset/a-db",
        "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
        &json!("110Mi"),
    );
    cluster.wait(2);
    assert_eq!(cluster.space.get(&claim(0)).unwrap().pointer(request), Some(&json!("130Mi")));
    // A class that forbids it.
    kubectl(&["patch", "storageclass", &class, "-p", r#"{"allowVolumeExpansion": false}"#], None).unwrap();
    cluster.space.kubectl(&["annotate", &claim(0), "--overwrite", &hour]).unwrap();
    cluster.set(&json!({"grow": {"claim": "data", "max": "1Gi", "by": "50%"}}));
    let why = cluster.space.wait_event("VolumeNotEnlarged");
    assert!(why.contains("80% of its volume is used, but claim data-a-db-0 cannot be enlarged to 195Mi"), "{why}");
    cluster.wait(2);
    drop(volumes);
}

/// A larger size in a chart: the claim is enlarged, and the StatefulSet is recreated around its pod. The operator has exactly the rights that
/// `tillerman rbac` prints; without the right to change claims, it says so.
#[test]
fn claims_of_a_plain_chart_are_enlarged_when_their_size_is_changed() {
    let space = with_exactly("plainroom", &repository("tests/charts/fixed"), &[]);
    let _volumes = ExpandableVolumes::of(&space, 1, "1Gi");
    let _operator = space.operator(&space.watches(&[("Web", "fixed")]), &[]);
    let apply = |size: &str| space.apply("Web", "a", &json!({"size": size, "className": space.name}));
    let request = "/spec/resources/requests/storage";
    let template = "/spec/volumeClaimTemplates/0/spec/resources/requests/storage";
    apply("1Gi");
    space.wait_field("pvc/data-a-db-0", "/status/phase", &json!("Bound"));
    space.wait("web/a", "Deployed", "True");
    let uid = |object: &str| space.get(object).unwrap()["metadata"]["uid"].clone();
    let (set, pod) = (uid("statefulset/a-db"), uid("pod/a-db-0"));
    apply("2Gi");
    space.wait_field("statefulset/a-db", template, &json!("2Gi"));
    assert_eq!(space.get("pvc/data-a-db-0").unwrap().pointer(request), Some(&json!("2Gi")));
    let larger = uid("statefulset/a-db");
    assert_ne!(larger, set);
    space.wait_field("pod/a-db-0", "/metadata/ownerReferences/0/uid", &larger);
    assert_eq!(uid("pod/a-db-0"), pod);
}

/// A role as operator-sdk writes it has no right to claims.
#[test]
fn without_the_right_to_change_claims_the_failure_names_it() {
    let space = Space::new("plainroom-old");
    space.restrict(&[
        "--verb=*",
        "--resource=webs.test.tillerman.dev,webs.test.tillerman.dev/status,statefulsets.apps,deployments.apps,secrets,events,pods",
    ]);
    let _volumes = ExpandableVolumes::of(&space, 1, "1Gi");
    let _operator = space.operator(&space.watches(&[("Web", "fixed")]), &[]);
    let apply = |size: &str| space.apply("Web", "a", &json!({"size": size, "className": space.name}));
    apply("1Gi");
    space.wait("web/a", "Deployed", "True");
    apply("2Gi");
    let message = eventually("it says which right is missing", || {
        let failed = space.condition("web/a", "ReleaseFailed")?["message"].to_string();
        if failed.contains("persistentvolumeclaims") { Ok(failed) } else { Err(failed) }
    });
    assert!(message.contains("add to its ClusterRole"), "{message}");
    assert!(message.contains("resources: [persistentvolumeclaims], verbs: [get]"), "{message}");
}
