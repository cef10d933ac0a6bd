//! Volumes of members that grow by themselves. The API server and its controllers are real; the test does the part of a storage driver, and
//! the agents report how full the volumes are.

use serde_json::json;
use tillerman::agent::contract::VolumeSpace;

use crate::harness::{Space, kubectl, repository};
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
