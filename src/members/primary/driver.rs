//! The driver: asks the agents, and carries out decisions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Map, Value};

use super::client::{ANSWER, Agents, BRIEF, Failed};
use super::decide::decide;
use super::document::{LABEL, PrimaryDocument};
use super::refusals::{OrderKey, Refusals};
use super::report::{describe_change, report, restarts, sight};
use super::state::{
    ChangeKind, Latched, ObservedPrimary, PrimaryAction, PrimaryFacts, PrimaryLatch, PrimarySettings, PrimaryStep,
    Refused, RequestResult, Roles,
};
use crate::agent::client::MAX_NAME;
use crate::agent::contract::{At, MemberState, Role, Verb, VolumeSpace};
use crate::members::driver::{
    ActionOutcome, Connection, CreatedObjects, DriverEvent, DriverNeeds, DriverProfile, Happened, MemberDriver,
    NeededSecret, RestPeriod, Shown, Sight,
};
use crate::members::operator::Operator;
use crate::members::secret::Secret;
use crate::members::workload::{PodPhase, Workload, WorkloadTarget};

/// Keys of the `ConfigMap`, which are environment variables of the agents.
const PRIMARY: &str = "PRIMARY";
const EPOCH: &str = "EPOCH";
const ACKS: &str = "ACKS";
const DATA: &str = "DATA";

/// Treated as a refusal: the member did not answer when it was asked for its state.
const STATE: &str = "state";

/// The pause before the next check of a member that has not obeyed yet.
const SOON: Duration = Duration::from_secs(1);

/// Characters of a text of an agent in the status.
const MAX_TEXT: usize = 300;

/// The field of the document that names the Secret with certificates.
const TLS: &str = "primary.tls";

/// The driver of one cluster.
pub struct Primary {
    /// The settings in the Members document.
    pub settings: PrimarySettings,
    /// The name of the StatefulSet.
    pub name: String,
    pub agents: Agents,
    /// The orders that were refused, and the members that gave no state: a short while ago, and to this driver.
    refused: Mutex<BTreeMap<OrderKey, Refused>>,
    /// Those that the next pass does not repeat.
    memory: Arc<Refusals>,
    /// How texts of agents are shown.
    pub shown: Shown,
}

impl MemberDriver for Primary {
    type Settings = PrimaryDocument;
    type Memory = Refusals;
    type Facts = PrimaryFacts;
    type Observed = ObservedPrimary;
    type Action = PrimaryAction;

    const PROFILE: DriverProfile = DriverProfile {
        field: Some("primary"),
        // A lost primary does not wait for the end of a backup.
        keeps: true,
        // An operator that was suspended would latch a second primary in the same epoch.
        latches_alone: true,
        labels_pods: true,
        // A fail-over with two replicas takes ten steps, and while no client can write, each pass would cost a tenth of a
        // second. The state of pods is as old as the pass.
        steps: 12,
        // A primary counts as lost after seconds, and only its agent knows that its database hangs.
        rest: Some(RestPeriod { every: Duration::from_secs(2), again: Duration::from_millis(500) }),
        creates: Some(CreatedObjects::ConfigMap(LABEL)),
        shows_texts: true,
        measures_volumes: true,
        reports: &["primary", "safeToFailOver", "unsafeBecause", "members", "import", "lastChange", "switchOver"],
        facts: &["primary", "safeToFailOver", "import"],
        ..DriverProfile::named("primary")
    };

    fn read(settings: &Map<String, Value>, stateful_set: &str) -> Result<PrimaryDocument, String> {
        PrimaryDocument::read(settings, stateful_set)
    }

    fn needs(document: &PrimaryDocument) -> DriverNeeds {
        let secret = |name: &String| NeededSecret { field: TLS, name: name.clone(), masked: &[] };
        DriverNeeds {
            config_map: Some(document.config_map.clone()),
            secrets: document.tls_secret.iter().map(secret).collect(),
            version: None,
        }
    }

    fn connect(document: PrimaryDocument, with: &Connection, memory: Arc<Refusals>) -> Result<Self, String> {
        let tls = with.secrets.get(TLS).map(Secret::tls).transpose()?;
        let name = document.tls_secret.unwrap_or_default();
        Ok(Self {
            settings: document.settings,
            name: with.set.target.clone(),
            agents: Agents::new(tls.as_ref()).map_err(|why| format!("Secret {name}: {why}"))?,
            refused: Mutex::new(memory.now()),
            memory,
            shown: Arc::clone(&with.shown),
        })
    }

    async fn observe(&self, workload: &Workload, latch: &PrimaryLatch, operator: &dyn Operator) -> ObservedPrimary {
        // A pod that ends may be the primary still.
        let may_answer = |phase: PodPhase| matches!(phase, PodPhase::Running | PodPhase::Unknown);
        let ordinals: Vec<u32> =
            workload.pods.iter().filter(|(_, pod)| may_answer(pod.phase)).map(|(ordinal, _)| *ordinal).collect();
        let p = latch.own.primary.as_ref().and_then(|held| held.ordinal).filter(|p| ordinals.contains(p));
        let others = ordinals.iter().filter(|ordinal| Some(**ordinal) != p).map(|ordinal| self.ask(*ordinal, false));
        let (roles, mut said) = tokio::join!(operator.read_config_map(), join_all(others));
        // The primary is asked last, so it has everything that a replica has.
        if let Some(p) = p {
            said.push(self.ask(p, true).await);
        }
        let (mut answers, mut silent) = (BTreeMap::new(), BTreeMap::new());
        for (ordinal, answer) in said {
            match answer {
                Ok(state) => drop(answers.insert(ordinal, state)),
                Err(why) => drop(silent.insert(ordinal, why)),
            }
        }
        let mut refused = self.refused();
        refused.retain(|(_, verb), _| *verb != STATE);
        ObservedPrimary { roles: roles.map(|data| data.as_ref().and_then(of_data)), answers, silent, refused }
    }

    fn decide(
        &self,
        workload: &Workload,
        observed: &ObservedPrimary,
        target: &WorkloadTarget,
        latch: &PrimaryLatch,
        now: i64,
    ) -> PrimaryStep {
        decide(&self.settings, workload, observed, target, latch, now)
    }

    async fn act(&self, action: &PrimaryAction, operator: &dyn Operator) -> ActionOutcome {
        match action {
            PrimaryAction::WriteRoles(roles) => match operator.write_config_map(to_data(roles)).await {
                Ok(()) => ActionOutcome::Done,
                Err(why) => ActionOutcome::Indeterminate(why),
            },
            PrimaryAction::Tell { ordinal, verb } => {
                let url = self.settings.agent_url.url(*ordinal);
                let answer = self.agents.order(&url, &self.pod(*ordinal), verb).await;
                self.outcome(*ordinal, verb, answer)
            }
        }
    }

    fn describe(&self, action: &PrimaryAction) -> String {
        match action {
            PrimaryAction::WriteRoles(roles) if roles.data.is_empty() => {
                format!("let {} create the data", roles.primary)
            }
            PrimaryAction::WriteRoles(roles) if roles.primary.is_empty() => "let no member be the primary".to_owned(),
            PrimaryAction::WriteRoles(roles) => format!("let {} be the primary (epoch {})", roles.primary, roles.epoch),
            PrimaryAction::Tell { ordinal, verb } => {
                let pod = self.pod(*ordinal);
                match verb {
                    Verb::Fence(order) => format!("fence {pod} (epoch {})", order.epoch),
                    Verb::Promote(order) => format!(
                        "{pod} is the primary (epoch {}), {} follow, and {} acknowledge each write",
                        order.epoch,
                        order.admitted.len(),
                        order.acks
                    ),
                    Verb::Follow(order) => {
                        let more = if order.acknowledge { " and acknowledges" } else { "" };
                        format!("{pod} follows {}{more}", order.source)
                    }
                    Verb::Demote(_) => format!("{pod} hands over"),
                    Verb::Seed(order) => format!("{pod} gets a copy of the data of {}", order.donor),
                    Verb::Reload(_) => format!("{pod} reads its certificates and passwords again"),
                }
            }
        }
    }

    fn describe_facts(&self, before: &PrimaryLatch, after: &PrimaryLatch) -> Option<String> {
        let held = |latch: &PrimaryLatch| latch.own.primary.clone().unwrap_or_default();
        (before.own != after.own).then(|| describe_change(&self.name, &held(before), &held(after)))
    }

    fn report(&self, workload: &Workload, seen: &ObservedPrimary, latch: &PrimaryLatch) -> Option<Map<String, Value>> {
        Some(report(&self.settings, workload, seen, latch))
    }

    fn sight(&self, workload: &Workload, seen: &ObservedPrimary, latch: &PrimaryLatch) -> Option<Sight> {
        Some(sight(&self.settings, workload, seen, latch))
    }

    fn volumes(&self, _: &Workload, seen: &ObservedPrimary) -> BTreeMap<u32, VolumeSpace> {
        seen.answers.iter().filter_map(|(ordinal, state)| Some((*ordinal, state.volume?))).collect()
    }

    fn events(&self, happened: Happened<'_, PrimaryAction, PrimaryFacts>) -> Vec<DriverEvent> {
        match happened {
            Happened::Acted(action) => {
                vec![DriverEvent { is_warning: false, reason: "MembersChanged", text: self.describe(action) }]
            }
            Happened::Latched { before, after } => self.changes(before, after),
            Happened::Reported { before, now } => {
                let text = |(name, why)| format!("the database of {name} hung, and its agent ended it: {why}");
                let event = |text| DriverEvent { is_warning: true, reason: "DatabaseRestarted", text };
                restarts(before, now).into_iter().map(text).map(event).collect()
            }
        }
    }

    /// Whether the database of the primary has ended or started again.
    async fn is_disturbed(&self, latch: &PrimaryLatch, within: Duration) -> bool {
        let started = latch.own.primary.as_ref().and_then(|held| {
            let p = held.ordinal?;
            Some((p, held.starts.get(&p)?))
        });
        let Some((p, start)) = started else { return false };
        self.agents.leaves(&self.settings.agent_url.url(p), &self.pod(p), start, within).await
    }
}

impl Primary {
    fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.name)
    }

    /// Asks for a state. Whether the primary is lost is decided with all patience.
    async fn ask(&self, ordinal: u32, is_primary: bool) -> (u32, Result<MemberState, String>) {
        let url = self.settings.agent_url.url(ordinal);
        let was_silent = self.refused().contains_key(&(ordinal, STATE));
        let within = if was_silent && !is_primary { BRIEF } else { ANSWER };
        let said = self.agents.state(&url, &self.pod(ordinal), within).await;
        if let Err(why) = &said {
            let silent = Refused { why: why.clone(), passing: false };
            self.memory.note((ordinal, STATE), silent.clone());
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry((ordinal, STATE)).or_insert(silent);
        }
        let said = said.map(|mut state| {
            state.problem = state.problem.map(|text| self.shown(&text));
            state.version = state.version.map(|text| self.shown(&text));
            if let Some(busy) = &mut state.busy {
                busy.work = self.shown(&busy.work);
            }
            if let Some(restarted) = &mut state.restarted {
                restarted.why = self.shown(&restarted.why);
            }
            state
        });
        (ordinal, said)
    }

    /// The events about a different primary.
    fn changes(&self, before: &PrimaryLatch, after: &PrimaryLatch) -> Vec<DriverEvent> {
        let nothing = Latched::default();
        let (old, new) =
            (before.own.primary.as_ref().unwrap_or(&nothing), after.own.primary.as_ref().unwrap_or(&nothing));
        let mut events = Vec::new();
        let mut event = |is_warning, reason, text: String| events.push(DriverEvent { is_warning, reason, text });
        let begun = new.change.as_ref().filter(|begun| old.change.as_ref() != Some(begun));
        if let Some(begun) = begun.filter(|begun| begun.kind == ChangeKind::FailOver) {
            event(true, "PrimaryLost", begun.why.clone());
        }
        let refused = new.requested.as_ref().filter(|request| request.result == RequestResult::Refused);
        if let Some(request) = refused.filter(|request| old.requested.as_ref() != Some(request)) {
            let why = request.why.as_deref().unwrap_or_default();
            event(true, "SwitchOverRefused", format!("{}: {why}", request.text));
        }
        if let Some(last) = new.last.as_ref().filter(|last| old.last.as_ref() != Some(last)) {
            match last.to {
                None => event(true, "SwitchOverGivenUp", last.why.clone()),
                Some(to) => {
                    let from = last.from.map_or_else(String::new, |from| format!(" in place of {}", self.pod(from)));
                    let what = format!("{} is the primary{from}: {}", self.pod(to), last.why);
                    event(last.kind == ChangeKind::FailOver, "PrimaryChanged", what);
                }
            }
        }
        events
    }

    /// A text of an agent: masked, and then cut.
    fn shown(&self, text: &str) -> String {
        (self.shown)(text).chars().take(MAX_TEXT).collect()
    }

    /// The orders that were refused, and the members that gave no state.
    fn refused(&self) -> BTreeMap<OrderKey, Refused> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The meaning of an answer to an order. An order to follow or to be seeded that was refused is left for a while:
    /// the others are not to wait for it.
    fn outcome(&self, ordinal: u32, verb: &Verb, answer: Result<MemberState, Failed>) -> ActionOutcome {
        let (why, passing) = match answer {
            Ok(state) if is_obeyed(verb, &state) => return ActionOutcome::Done,
            Ok(state) => {
                let why = state.problem.map_or_else(|| "it has not obeyed yet".to_owned(), |text| self.shown(&text));
                return ActionOutcome::Wait { why, after: SOON };
            }
            Err(Failed::Unknown(why)) => (why, true),
            Err(Failed::Refused(refusal)) => (self.shown(&refusal.to_string()), refusal.reason.is_passing()),
        };
        if matches!(verb, Verb::Follow(_) | Verb::Seed(_)) {
            let refused = Refused { why: why.clone(), passing };
            self.memory.note((ordinal, verb.name()), refused.clone());
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert((ordinal, verb.name()), refused);
        }
        ActionOutcome::Wait { why, after: SOON }
    }
}

/// Whether an order shows in the state that answers it. If it does not, it is not repeated at once.
fn is_obeyed(verb: &Verb, state: &MemberState) -> bool {
    let obeyed = At { epoch: state.epoch, number: state.number };
    if verb.order().is_some_and(|(at, _)| obeyed.is_before(at)) && !matches!(verb, Verb::Seed(_)) {
        return false;
    }
    match verb {
        Verb::Fence(order) => state.role == Role::Fenced && state.epoch == order.epoch,
        Verb::Promote(order) => {
            let same = order.admitted.len() == state.admitted.len();
            let same = same && order.admitted.iter().all(|name| state.admitted.contains(name));
            state.role == Role::Primary && state.epoch == order.epoch && state.acks == order.acks && same
        }
        Verb::Follow(order) => {
            let source = state.source.as_deref() == Some(&*order.source);
            let follows = state.role == Role::Replica && source && state.acknowledges == order.acknowledge;
            state.epoch == order.epoch && (follows || state.diverged)
        }
        Verb::Demote(_) => state.role != Role::Primary,
        Verb::Seed(order) => state.busy.is_some() || state.data.as_deref() == Some(&*order.data),
        Verb::Reload(_) => true,
    }
}

fn to_data(roles: &Roles) -> BTreeMap<String, String> {
    BTreeMap::from([
        (PRIMARY.into(), roles.primary.clone()),
        (EPOCH.into(), roles.epoch.to_string()),
        (ACKS.into(), roles.acks.to_string()),
        (DATA.into(), roles.data.clone()),
    ])
}

/// The highest epoch that is believed from the map. It leaves as many for orders as a cluster can ever need: agents take up to 2^53.
const BELIEVED: u64 = 1 << 40;
/// Bytes of the name of a pod.
const MAX_PRIMARY: usize = 253;

/// Reads the written text. Any other content counts as missing, and is rewritten.
fn of_data(data: &BTreeMap<String, String>) -> Option<Roles> {
    let text = |key: &str| data.get(key).cloned();
    let roles = Roles {
        primary: text(PRIMARY)?,
        epoch: text(EPOCH)?.parse().ok()?,
        acks: text(ACKS)?.parse().ok()?,
        data: text(DATA)?,
    };
    // The same bounds as for answers of an agent, because others can write the map.
    let is_name = |text: &str| text.len() <= MAX_NAME && text.chars().all(|c| c.is_ascii_graphic());
    let is_sound = roles.epoch <= BELIEVED && is_name(&roles.data) && roles.primary.len() <= MAX_PRIMARY;
    (is_sound && to_data(&roles) == *data).then_some(roles)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Roles, is_obeyed, of_data, to_data};
    use crate::agent::contract::{Follow, MemberState, Order, Role, Verb};

    #[test]
    fn roles_are_read_as_they_are_written_and_anything_else_counts_as_missing() {
        let roles = Roles { primary: "db-0".into(), epoch: 7, acks: 1, data: "u".into() };
        let data = to_data(&roles);
        assert_eq!(of_data(&data), Some(roles));
        let changed = |key: &str, value: &str| {
            let mut data = data.clone();
            data.insert(key.into(), value.into());
            of_data(&data)
        };
        assert_eq!(changed("EPOCH", "x"), None);
        assert_eq!(changed("EPOCH", "07"), None);
        assert_eq!(changed("OTHER", ""), None);
        assert_eq!(changed("ACKS", "-1"), None);
        assert_eq!(changed("EPOCH", "18446744073709551615"), None);
        assert_eq!(changed("DATA", "z\u{7}<b>"), None);
        assert_eq!(changed("DATA", &"d".repeat(200)), None);
        assert_eq!(changed("PRIMARY", &"p".repeat(300)), None);
        assert_eq!(of_data(&BTreeMap::new()), None);
    }

    #[test]
    fn an_order_that_does_not_show_in_the_answer_is_not_repeated_at_once() {
        let fence = Verb::Fence(Order { epoch: 2, number: Some(3), data: "u".into() });
        let state = MemberState { epoch: 2, number: Some(3), role: Role::Fenced, ..MemberState::default() };
        assert!(is_obeyed(&fence, &state));
        assert!(!is_obeyed(&fence, &MemberState { epoch: 1, ..state.clone() }));
        assert!(!is_obeyed(&fence, &MemberState { number: Some(2), ..state.clone() }));
        assert!(!is_obeyed(&fence, &MemberState { role: Role::Replica, ..state.clone() }));
        let unnumbered = Verb::Fence(Order { epoch: 2, number: None, data: "u".into() });
        assert!(is_obeyed(&unnumbered, &MemberState { number: None, ..state }), "the agent is older than numbers");
        let follow =
            Verb::Follow(Follow { epoch: 2, number: Some(3), data: "u".into(), source: "a".into(), acknowledge: true });
        let state = MemberState {
            epoch: 2,
            number: Some(3),
            role: Role::Replica,
            source: Some("a".into()),
            acknowledges: true,
            ..MemberState::default()
        };
        assert!(is_obeyed(&follow, &state));
        assert!(!is_obeyed(&follow, &MemberState { acknowledges: false, ..state.clone() }));
        assert!(!is_obeyed(&follow, &MemberState { source: Some("b".into()), ..state }));
    }
}
