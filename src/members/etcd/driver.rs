//! The driver: asks the members, and carries out decisions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{AlarmAction, AlarmOptions, AlarmType, CompactionOptions, MemberAddOptions};
use futures::future::join_all;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::client::{Access, read};
use super::decide::decide;
use super::document::{EtcdDocument, LABEL};
use super::state::{
    AlarmKind, Call, ClusterState, EtcdAction, EtcdFacts, EtcdLatch, EtcdSettings, EtcdStep, InitialCluster,
    ListedMember, MemberAnswer, ObservedEtcd,
};
use super::verdict::{ONE_VIEW, of_error};
use crate::agent::contract::VolumeSpace;
use crate::members::driver::{
    ActionOutcome, Connection, CreatedObjects, DriverEvent, DriverNeeds, DriverProfile, Happened, MemberDriver,
    NeededSecret, RestPeriod,
};
use crate::members::operator::Operator;
use crate::members::secret::Secret;
use crate::members::workload::{PodPhase, Workload, WorkloadTarget};

/// Keys of the `ConfigMap`, which are environment variables of etcd.
const MEMBERS: &str = "ETCD_INITIAL_CLUSTER";
const STATE: &str = "ETCD_INITIAL_CLUSTER_STATE";
const FORCE: &str = "ETCD_FORCE_NEW_CLUSTER";

/// The additional time that a member may take to rewrite its file: some seconds per GiB, and minutes on a slow disk.
const REWRITE: Duration = Duration::from_secs(180);

/// The bytes of a volume that etcd's log needs besides the data: it keeps five files of 64 MiB (`--max-wals`), and prepares the next one.
/// No member reports how full its volume is.
const LOG: u64 = 6 * (64 << 20);

/// How long a member may take to answer. A write takes milliseconds. An election, which a read waits for, takes about a
/// second.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The fields of the document that name Secrets.
const TLS: &str = "etcd.tls";
const AUTH: &str = "etcd.auth";

/// The driver of one cluster of etcd.
pub struct Etcd {
    /// The name of the StatefulSet.
    pub stateful_set: String,
    /// The settings in the Members document.
    pub settings: EtcdSettings,
    /// How to connect to members.
    pub access: Access,
}

impl MemberDriver for Etcd {
    type Settings = EtcdDocument;
    type Memory = ();
    type Facts = EtcdFacts;
    type Observed = ObservedEtcd;
    type Action = EtcdAction;

    const PROFILE: DriverProfile = DriverProfile {
        field: Some("etcd"),
        lists_pods: true,
        // Kubelets report pods that are not ready, and watches report deleted pods, at once. The checks find facts that only
        // etcd knows: alarms, foreign members, partitions.
        rest: Some(RestPeriod { every: Duration::from_secs(20), again: Duration::from_secs(2) }),
        creates: Some(CreatedObjects::ConfigMap(LABEL)),
        measures_volumes: true,
        ..DriverProfile::named("etcd")
    };

    fn read(settings: &Map<String, Value>, stateful_set: &str) -> Result<EtcdDocument, String> {
        EtcdDocument::read(settings, stateful_set)
    }

    fn needs(document: &EtcdDocument) -> DriverNeeds {
        let tls = document.tls_secret.as_ref().map(|name| (TLS, name, &[][..]));
        let user = document.user_secret.as_ref().map(|name| (AUTH, name, &["password"][..]));
        let secrets = tls.into_iter().chain(user);
        DriverNeeds {
            config_map: Some(document.config_map.clone()),
            secrets: secrets.map(|(field, name, masked)| NeededSecret { field, name: name.clone(), masked }).collect(),
            version: document.version.clone(),
        }
    }

    fn connect(document: EtcdDocument, with: &Connection, _: Arc<()>) -> Result<Self, String> {
        let tls = with.secrets.get(TLS).map(Secret::tls).transpose()?;
        let user =
            with.secrets.get(AUTH).map(|secret| Ok::<_, String>((secret.text("username")?, secret.text("password")?)));
        let access = Access { tls, user: user.transpose()?, timeout: TIMEOUT };
        Ok(Self { stateful_set: with.set.target.clone(), settings: document.settings, access })
    }

    async fn observe(&self, workload: &Workload, _: &EtcdLatch, operator: &dyn Operator) -> ObservedEtcd {
        let may_answer = workload.pods.iter().filter(|(_, pod)| !pod.terminating && pod.phase == PodPhase::Running);
        let ordinals: Vec<u32> = may_answer.map(|(ordinal, _)| *ordinal).collect();
        let urls: Vec<String> = ordinals.iter().map(|ordinal| self.settings.client_url(*ordinal, workload)).collect();
        let asked = ordinals.iter().zip(&urls).map(|(ordinal, url)| async {
            let said = Box::pin(self.access.ask(url, &urls)).await;
            said.map(|said| (*ordinal, said))
        });
        let (initial, said) = tokio::join!(operator.read_config_map(), join_all(asked));
        let said: Vec<_> = said.into_iter().flatten().collect();
        // Every list is one that a quorum agreed on. The newest list is that of the member with the highest index.
        let furthest = said.iter().filter(|(_, (_, list))| list.is_some()).max_by_key(|(_, (answer, _))| answer.index);
        if let Some((voter, _)) = furthest
            && said.len() < ordinals.len()
        {
            let url = self.settings.client_url(*voter, workload);
            // The next observation shows whether this worked, and asks again if it did not.
            drop(timeout(self.access.timeout, Box::pin(self.asked_for_alarms(&url))).await);
        }
        let members = furthest.and_then(|(_, (_, list))| list.clone());
        let answers = said.into_iter().map(|(ordinal, (answer, _))| (ordinal, answer)).collect();
        ObservedEtcd { initial: initial.map(|data| data.as_ref().and_then(of_data)), members, answers }
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &ObservedEtcd,
        target: &WorkloadTarget,
        latch: &EtcdLatch,
        now: i64,
    ) -> EtcdStep {
        decide(&self.settings, workload, observed, target, latch, now)
    }

    fn volumes(&self, workload: &Workload, observed: &ObservedEtcd) -> BTreeMap<u32, VolumeSpace> {
        volumes(workload, observed)
    }

    async fn act(&self, action: &EtcdAction, operator: &dyn Operator) -> ActionOutcome {
        match action {
            EtcdAction::WriteInitialCluster(initial) => match operator.write_config_map(to_data(initial)).await {
                Ok(()) => ActionOutcome::Done,
                Err(why) => ActionOutcome::Indeterminate(why),
            },
            EtcdAction::Call { call, url, others, cluster, .. } => {
                let mut outcome = self.called(url, call, *cluster).await;
                for other in others {
                    match &outcome {
                        ActionOutcome::Wait { why, .. } if why.contains(ONE_VIEW) => {
                            outcome = self.called(other, call, *cluster).await;
                        }
                        _ => break,
                    }
                }
                outcome
            }
        }
    }

    fn describe(&self, action: &EtcdAction) -> String {
        match action {
            EtcdAction::WriteInitialCluster(InitialCluster { state: ClusterState::New, .. }) => {
                "let the first member start a cluster".into()
            }
            EtcdAction::WriteInitialCluster(InitialCluster { state: ClusterState::Forced, .. }) => {
                "let the remaining member continue alone".into()
            }
            EtcdAction::WriteInitialCluster(_) => "write the list of members".into(),
            EtcdAction::Call { call, .. } => match call {
                Call::AddLearner { ordinal, .. } => format!("add member {ordinal} as a learner"),
                Call::AddVoter { ordinal, .. } => format!("add member {ordinal} as a voter"),
                Call::Promote { ordinal, .. } => format!("give member {ordinal} a vote"),
                Call::Update { ordinal, peer_url, .. } => {
                    format!("announce member {ordinal} at {peer_url} to the others")
                }
                Call::Remove { ordinal, .. } => format!("remove member {ordinal}"),
                Call::MoveLeader { to, .. } => format!("let member {to} lead"),
                Call::Defragment { ordinal, .. } => format!("defragment member {ordinal}"),
                Call::Compact { revision } => format!("compact the history before revision {revision}"),
                Call::Disarm(alarm) => match alarm.kind {
                    AlarmKind::NoSpace => "disarm the alarm NOSPACE".into(),
                    AlarmKind::Corrupt => "disarm the alarm CORRUPT".into(),
                },
            },
        }
    }

    fn describe_facts(&self, before: &EtcdLatch, after: &EtcdLatch) -> Option<String> {
        if before.own.recovery != after.own.recovery {
            return Some(describe_recovery(&self.stateful_set, before, after));
        }
        (before.own.reclaimed != after.own.reclaimed).then(|| "record that writes are allowed again".to_owned())
    }

    fn recovery(stateful_set: &str, latch: &EtcdLatch) -> Option<String> {
        let survivor = latch.own.recovery.as_ref()?.survivor;
        Some(format!("{stateful_set}-{survivor} continues alone, and the others join it again"))
    }

    fn events(&self, happened: Happened<'_, EtcdAction, EtcdFacts>) -> Vec<DriverEvent> {
        let event = |is_warning, reason, what: &str| DriverEvent { is_warning, reason, text: what.to_owned() };
        match happened {
            Happened::Acted(action @ EtcdAction::Call { call, .. }) => {
                let what = self.describe(action);
                let cost = "etcd before 3.4 has no learners: until its pod has started, the cluster tolerates one failure \
                            fewer, and a cluster of two cannot write";
                let votes = matches!(call, Call::AddVoter { .. })
                    .then(|| event(true, "MemberVotesAtOnce", &format!("{what}; {cost}")));
                votes.into_iter().chain([event(false, "MembersChanged", &what)]).collect()
            }
            Happened::Latched { before, after } if before.own.recovery != after.own.recovery => {
                vec![event(true, "RecoveringQuorum", &describe_recovery(&self.stateful_set, before, after))]
            }
            _ => Vec::new(),
        }
    }
}

impl Etcd {
    /// Calls one member. Preparation and call have a timeout each: if the preparation fails, the call has certainly not
    /// happened.
    async fn called(&self, url: &str, call: &Call, cluster: u64) -> ActionOutcome {
        let client = match timeout(self.access.timeout, self.prepared(url, call, cluster)).await {
            Err(_) => return ActionOutcome::Wait { why: format!("{url} does not answer"), after: self.access.timeout },
            Ok(Err(outcome)) => return outcome,
            Ok(Ok(client)) => client,
        };
        let patience = match call {
            Call::Compact { .. } | Call::Defragment { .. } => self.access.timeout + REWRITE,
            _ => self.access.timeout,
        };
        let sent = timeout(patience, send(&client, call)).await;
        sent.unwrap_or_else(|_| ActionOutcome::Indeterminate(format!("{url} did not answer in time")))
    }

    /// Creates a log entry that changes nothing. A member that received a snapshot counts its content as applied only
    /// when another entry follows. While etcd is 5,000 entries behind by its own count, it accepts no request, not even
    /// its own request to announce itself to the others. Without writes to the cluster it would never start.
    async fn asked_for_alarms(&self, url: &str) -> Result<(), etcd_client::Error> {
        let client = self.access.client(url).await?;
        client.maintenance_client().alarm(AlarmAction::Get, AlarmType::None, None).await.map(drop)
    }

    /// A client that is verified to be connected to the right cluster, right before the call: another operator may have
    /// acted since the members were asked. The error is the outcome if no call is necessary.
    async fn prepared(&self, url: &str, call: &Call, cluster: u64) -> Result<etcd_client::Client, ActionOutcome> {
        let again = |why: String| ActionOutcome::Wait { why, after: Duration::from_secs(1) };
        let client = self.access.client(url).await.map_err(|error| again(error.to_string()))?;
        let now = read(&client).await.map_err(|error| again(error.to_string()))?;
        if now.cluster != cluster {
            return Err(ActionOutcome::Refused(format!(
                "{url} belongs to cluster {:x}, and not to {cluster:x}",
                now.cluster
            )));
        }
        if matches!(call, Call::Defragment { member, .. } if now.member != *member) {
            return Err(again(format!("{url} is a different member now")));
        }
        match self.still_wanted(call, &now.members) {
            Ok(()) => Ok(client),
            Err(None) => Err(ActionOutcome::Done),
            Err(Some(why)) => Err(again(why.into())),
        }
    }

    /// Checks that a call is still right for the current members. The error is `None` if the call has already happened.
    fn still_wanted(&self, call: &Call, members: &[ListedMember]) -> Result<(), Option<&'static str>> {
        let of = |id: u64| members.iter().find(|member| member.id == id);
        match call {
            Call::AddLearner { ordinal, .. } | Call::AddVoter { ordinal, .. } => {
                let is_it = |url: &String| self.settings.peer_url.ordinal(url) == Some(*ordinal);
                if members.iter().flat_map(|member| &member.peer_urls).any(is_it) {
                    return Err(None);
                }
                let busy = members.iter().any(|member| member.learner || !member.started());
                if busy { Err(Some("another member is joining")) } else { Ok(()) }
            }
            Call::Promote { member, .. } => match of(*member) {
                Some(member) if member.learner => Ok(()),
                Some(_) => Err(None),
                None => Err(Some("the learner has left")),
            },
            Call::Update { member, peer_url, .. } => match of(*member) {
                Some(member) if member.peer_urls == [peer_url.as_str()] => Err(None),
                Some(member) if !member.learner => Ok(()),
                _ => Err(Some("it is not a voter now")),
            },
            Call::Remove { member, .. } => of(*member).map(|_| ()).ok_or(None),
            Call::MoveLeader { member, .. } => match of(*member) {
                Some(member) if !member.learner => Ok(()),
                _ => Err(Some("the next leader has left")),
            },
            Call::Defragment { .. } => {
                let busy = members.iter().any(|member| member.learner || !member.started());
                if busy { Err(Some("another member is joining")) } else { Ok(()) }
            }
            Call::Compact { .. } | Call::Disarm(_) => Ok(()),
        }
    }
}

async fn send(client: &etcd_client::Client, call: &Call) -> ActionOutcome {
    let mut members = client.cluster_client();
    let sent = match call {
        Call::AddLearner { peer_url, .. } => {
            let learner = MemberAddOptions::new().with_is_learner();
            members.member_add(vec![peer_url.clone()], Some(learner)).await.map(drop)
        }
        Call::AddVoter { peer_url, .. } => members.member_add(vec![peer_url.clone()], None).await.map(drop),
        Call::Promote { member, .. } => members.member_promote(*member).await.map(drop),
        Call::Update { member, peer_url, .. } => members.member_update(*member, vec![peer_url.clone()]).await.map(drop),
        Call::Remove { member, .. } => members.member_remove(*member).await.map(drop),
        Call::MoveLeader { member, .. } => client.maintenance_client().move_leader(*member).await.map(drop),
        Call::Defragment { .. } => client.maintenance_client().defragment().await.map(drop),
        Call::Compact { revision } => {
            // Physical: the data is deleted when etcd answers, so that a defragmentation finds the holes.
            let physical = CompactionOptions::new().with_physical();
            client.kv_client().compact(i64::try_from(*revision).unwrap_or(i64::MAX), Some(physical)).await.map(drop)
        }
        Call::Disarm(alarm) => {
            let kind = match alarm.kind {
                AlarmKind::NoSpace => AlarmType::Nospace,
                AlarmKind::Corrupt => AlarmType::Corrupt,
            };
            let mut of = AlarmOptions::new();
            of.with_member(alarm.member);
            client.maintenance_client().alarm(AlarmAction::Deactivate, kind, Some(of)).await.map(drop)
        }
    };
    match sent {
        Ok(()) => ActionOutcome::Done,
        Err(error) => of_error(call, &error),
    }
}

/// Describes a change of a recovery in words.
fn describe_recovery(stateful_set: &str, old: &EtcdLatch, new: &EtcdLatch) -> String {
    let name = |ordinal: u32| format!("{stateful_set}-{ordinal}");
    match (&old.own.recovery, &new.own.recovery) {
        (None, Some(begun)) => format!(
            "{} continues without the others, as requested ({}): writes that only they had acknowledged are lost",
            name(begun.survivor),
            begun.statement
        ),
        (Some(ended), None) if new.replicas == Some(ended.survivor + 1) && new.position != old.position => format!(
            "{} continued without the others: the cluster has a quorum again, and writes that only they had \
             acknowledged are lost",
            name(ended.survivor)
        ),
        (Some(_), None) => "a quorum is back by itself: no member continues alone".to_owned(),
        _ => "record which pod does not yet know that it is alone".to_owned(),
    }
}

fn to_data(initial: &InitialCluster) -> BTreeMap<String, String> {
    let state = match initial.state {
        ClusterState::New => "new",
        ClusterState::Existing | ClusterState::Forced => "existing",
    };
    let mut data = BTreeMap::from([(MEMBERS.into(), initial.members.clone()), (STATE.into(), state.into())]);
    if initial.state == ClusterState::Forced {
        data.insert(FORCE.into(), "true".into());
    }
    data
}

/// Reads the written text. Any other content counts as missing, and is rewritten.
fn of_data(data: &BTreeMap<String, String>) -> Option<InitialCluster> {
    if data.keys().any(|key| ![MEMBERS, STATE, FORCE].contains(&key.as_str())) {
        return None;
    }
    let state = match data.get(STATE)?.as_str() {
        "new" => ClusterState::New,
        "existing" if data.contains_key(FORCE) => ClusterState::Forced,
        "existing" => ClusterState::Existing,
        _ => return None,
    };
    Some(InitialCluster { state, members: data.get(MEMBERS)?.clone() })
}

/// How full the volumes of members are, by the sizes of their files.
pub(super) fn volumes(workload: &Workload, observed: &ObservedEtcd) -> BTreeMap<u32, VolumeSpace> {
    let capacity = |ordinal: &u32| workload.claims.get(ordinal)?.iter().map(|claim| claim.size.capacity).max();
    let space = |(ordinal, answer): (&u32, &MemberAnswer)| {
        Some((*ordinal, VolumeSpace { capacity: capacity(ordinal)?, used: answer.size.saturating_add(LOG) }))
    };
    observed.answers.iter().filter_map(space).collect()
}
