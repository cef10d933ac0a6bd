//! An operator with a driver of its own, for Redis: `cargo run --example custom-driver -- run --watches-file
//! examples/custom-driver/watches.yaml`.
//!
//! A new pod becomes a replica of the primary, and the primary hands over before it leaves. Tillerman does everything else: it changes
//! replicas one at a time, and handles claims, pods, plan and conditions in the status, pauses and crashes. The driver never promotes a
//! replica whose primary is unreachable: that can lose writes, so a person must decide it.

mod redis;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redis::Replication;
use serde_json::{Map, Value};
use tillerman::members::driver::{ActionOutcome, Connection, DriverProfile, MemberDriver, MemberStep};
use tillerman::members::drivers::Drivers;
use tillerman::members::operator::Operator;
use tillerman::members::workload::{Latch, Mode, NoFacts, Workload, WorkloadTarget};

/// The time until the next pass if no pod changes: Redis does not report when a replica has caught up.
const SOON: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    tillerman::cli::main_with(Drivers::new().with::<Redis>())
}

/// The driver of one stateful set.
struct Redis {
    /// The address of a pod, with `$(POD)` and `$(ORDINAL)`.
    address: String,
}

/// The latch: its identity of the cluster is the ordinal of the primary.
type RedisLatch = Latch<NoFacts>;

/// An action on Redis.
enum Action {
    /// This ordinal copies the primary, and loses its own data.
    Follow { ordinal: u32, replica: String, primary: String },
    /// The primary stops writes until this replica has them all, and changes places with it.
    HandOver { to: u32, primary: String, replica: String },
}

impl Redis {
    fn address(&self, workload: &Workload, ordinal: u32) -> String {
        let pod = format!("{}-{ordinal}", workload.name);
        self.address.replace("$(POD)", &pod).replace("$(ORDINAL)", &ordinal.to_string())
    }
}

impl MemberDriver for Redis {
    /// The address.
    type Settings = String;
    type Memory = ();
    type Facts = NoFacts;
    /// By ordinal. Members that do not answer are left out.
    type Observed = BTreeMap<u32, Replication>;
    type Action = Action;

    const PROFILE: DriverProfile = DriverProfile::named("example.com/redis");

    fn read(settings: &Map<String, Value>, _stateful_set: &str) -> Result<String, String> {
        let address = settings.get("address").and_then(Value::as_str).ok_or("spec.settings.address is missing")?;
        if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(format!("spec.settings.address {address:?} has no port"));
        }
        Ok(address.to_owned())
    }

    fn connect(address: String, _with: &Connection, _memory: Arc<()>) -> Result<Self, String> {
        Ok(Self { address })
    }

    async fn observe(&self, workload: &Workload, _latch: &RedisLatch, _operator: &dyn Operator) -> Self::Observed {
        let mut seen = BTreeMap::new();
        for ordinal in
            workload.pods.iter().filter(|(_, pod)| pod.ready && !pod.terminating).map(|(ordinal, _)| *ordinal)
        {
            if let Ok(replication) = redis::replication(&self.address(workload, ordinal)).await {
                seen.insert(ordinal, replication);
            }
        }
        seen
    }

    fn decide(
        &self,
        workload: &Workload,
        seen: &Self::Observed,
        target: &WorkloadTarget,
        latch: &RedisLatch,
        _now: i64,
    ) -> MemberStep<Action, NoFacts> {
        let (size, replicas) = (target.size, workload.replicas);
        let wait = |why: String| MemberStep::Wait { why, after: SOON };
        if target.mode != Mode::Run {
            return MemberStep::Quiet;
        }
        if replicas == 0 {
            return MemberStep::Scale(1);
        }
        // Only the status records which of two primaries has the data: a restarted instance also reports that it is a primary.
        let Some(primary) = latch.cluster.as_ref().and_then(|ordinal| ordinal.parse::<u32>().ok()) else {
            if !seen.contains_key(&0) {
                return wait("the first pod to answer".to_owned());
            }
            return MemberStep::Latch(RedisLatch {
                bootstrapped: true,
                cluster: Some("0".to_owned()),
                ..latch.clone()
            });
        };
        // It has handed over, and the status does not show it yet.
        if let Some(Replication::Replica { of, .. }) = seen.get(&primary)
            && let Some(new) = (0..replicas).find(|k| self.address(workload, *k) == *of)
        {
            return match seen.get(&new) {
                Some(Replication::Primary) => {
                    MemberStep::Latch(RedisLatch { cluster: Some(new.to_string()), ..latch.clone() })
                }
                _ => wait(format!("pod {new} to take over from pod {primary}")),
            };
        }
        if !seen.contains_key(&primary) {
            let why = format!("pod {primary}, which is the primary, does not answer; nobody takes its place by itself");
            return MemberStep::Stop { reason: "PrimaryAway", why };
        }
        let at = |ordinal| self.address(workload, ordinal);
        for ordinal in (0..replicas).filter(|ordinal| *ordinal != primary) {
            match seen.get(&ordinal) {
                None => return wait(format!("pod {ordinal} to answer")),
                Some(Replication::Replica { of, .. }) if *of != at(primary) => {}
                Some(Replication::Replica { in_step: true, .. }) => continue,
                Some(Replication::Replica { .. }) => {
                    return wait(format!("pod {ordinal} to have all data of the primary"));
                }
                Some(Replication::Primary) => {}
            }
            return MemberStep::Act(Action::Follow { ordinal, replica: at(ordinal), primary: at(primary) });
        }
        let left =
            workload.claims.iter().find(|(ordinal, _)| **ordinal >= replicas && !workload.pods.contains_key(ordinal));
        if let Some(claim) =
            left.and_then(|(_, claims)| claims.iter().find(|claim| !claim.terminating)).filter(|_| target.delete_claims)
        {
            return MemberStep::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone() };
        }
        match replicas {
            _ if replicas < size => MemberStep::Scale(replicas + 1),
            // The highest ordinal leaves.
            _ if replicas > size && primary == replicas - 1 => {
                MemberStep::Act(Action::HandOver { to: 0, primary: at(primary), replica: at(0) })
            }
            _ if replicas > size => MemberStep::Scale(replicas - 1),
            _ => {
                let old = |pod: &tillerman::members::workload::Pod| pod.revision != workload.update_revision;
                let mut outdated =
                    workload.pods.iter().filter(|(_, pod)| old(pod)).map(|(ordinal, pod)| (*ordinal, pod));
                match outdated.clone().find(|(ordinal, _)| *ordinal != primary).or_else(|| outdated.next()) {
                    Some((ordinal, _)) if ordinal == primary && replicas > 1 => {
                        let to = u32::from(primary == 0);
                        MemberStep::Act(Action::HandOver { to, primary: at(primary), replica: at(to) })
                    }
                    Some((ordinal, pod)) => MemberStep::EvictPod { ordinal, uid: pod.uid.clone() },
                    None => MemberStep::Quiet,
                }
            }
        }
    }

    async fn act(&self, action: &Action, _operator: &dyn Operator) -> ActionOutcome {
        let (at, command) = match action {
            Action::Follow { replica, primary, .. } => (replica, format!("REPLICAOF {}", primary.replace(':', " "))),
            Action::HandOver { primary, replica, .. } => {
                (primary, format!("FAILOVER TO {} TIMEOUT 10000", replica.replace(':', " ")))
            }
        };
        match redis::ask(at, &command).await {
            Ok(_) => ActionOutcome::Done,
            // The action may have succeeded: the next pass observes it.
            Err(error) => ActionOutcome::Indeterminate(error.to_string()),
        }
    }

    fn describe(&self, action: &Action) -> String {
        match action {
            Action::Follow { ordinal, .. } => format!("pod {ordinal} becomes a replica"),
            Action::HandOver { to, .. } => format!("the primary hands over to pod {to}"),
        }
    }
}
