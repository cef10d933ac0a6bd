//! The driver: asks the agents, and carries out decisions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;

use super::client::{ANSWER, Agents, BRIEF, Failed};
use super::decide::decide;
use super::state::{ObservedPrimary, PrimaryAction, PrimarySettings, Refused, Roles};
use crate::agent::client::MAX_NAME;
use crate::agent::contract::{At, MemberState, Role, Verb};
use crate::members::config_maps::ConfigMaps;
use crate::members::driver::{ActionOutcome, MemberDriver, MemberStep};
use crate::members::workload::{Latch, PodPhase, Workload, WorkloadTarget};

/// Keys of the `ConfigMap`, which are environment variables of the agents.
const PRIMARY: &str = "PRIMARY";
const EPOCH: &str = "EPOCH";
const ACKS: &str = "ACKS";
const DATA: &str = "DATA";

/// Treated as a refusal: the member did not answer when it was asked for its state.
const STATE: &str = "state";

/// When a member is looked at again that did not obey, or not yet.
const SOON: Duration = Duration::from_secs(1);

/// Characters of a text of an agent in the status.
const MAX_TEXT: usize = 300;

/// How texts of agents are shown: without what is secret.
pub type Shown = Box<dyn Fn(&str) -> String + Send + Sync>;

/// The driver of one cluster.
pub struct Primary<C> {
    /// The settings in the Members document.
    pub settings: PrimarySettings,
    /// The name of the StatefulSet.
    pub name: String,
    /// The agents.
    pub agents: Agents,
    /// The `ConfigMap` of roles.
    pub config_maps: C,
    /// The orders that were refused, and who gave no state: a short while ago, and to this driver.
    pub refused: Mutex<BTreeMap<(u32, &'static str), Refused>>,
    /// How texts of agents are shown.
    pub shown: Shown,
}

impl<C: ConfigMaps> MemberDriver for Primary<C> {
    type Observed = ObservedPrimary;
    type Action = PrimaryAction;

    async fn observe(&self, workload: &Workload, latch: &Latch) -> ObservedPrimary {
        // A pod that ends may be the primary still.
        let may_answer = |phase: PodPhase| matches!(phase, PodPhase::Running | PodPhase::Unknown);
        let ordinals: Vec<u32> =
            workload.pods.iter().filter(|(_, pod)| may_answer(pod.phase)).map(|(ordinal, _)| *ordinal).collect();
        let p = latch.primary.as_ref().and_then(|held| held.ordinal).filter(|p| ordinals.contains(p));
        let others = ordinals.iter().filter(|ordinal| Some(**ordinal) != p).map(|ordinal| self.ask(*ordinal, false));
        let (roles, mut said) = tokio::join!(self.config_maps.read(), join_all(others));
        // The primary is asked last: what a replica has, the primary has too.
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
        latch: &Latch,
        now: i64,
    ) -> MemberStep<PrimaryAction> {
        decide(&self.settings, workload, observed, target, latch, now)
    }

    async fn act(&self, action: PrimaryAction) -> ActionOutcome {
        match action {
            PrimaryAction::WriteRoles(roles) => match self.config_maps.write(to_data(&roles)).await {
                Ok(()) => ActionOutcome::Done,
                Err(why) => ActionOutcome::Indeterminate(why),
            },
            PrimaryAction::Tell { ordinal, verb } => {
                let url = self.settings.agent_url.url(ordinal);
                let answer = self.agents.order(&url, &self.pod(ordinal), &verb).await;
                self.outcome(ordinal, &verb, answer)
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
}

impl<C> Primary<C> {
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

    /// Returns when the database of the primary has ended or started again, and after `within` at the latest; whether it has.
    pub async fn primary_leaves(&self, latch: &Latch, within: Duration) -> bool {
        let started = latch.primary.as_ref().and_then(|held| {
            let p = held.ordinal?;
            Some((p, held.starts.get(&p)?))
        });
        let Some((p, start)) = started else { return false };
        self.agents.leaves(&self.settings.agent_url.url(p), &self.pod(p), start, within).await
    }

    /// A text of an agent: masked, and then cut.
    fn shown(&self, text: &str) -> String {
        (self.shown)(text).chars().take(MAX_TEXT).collect()
    }

    /// The orders that were refused, and who gave no state.
    pub fn refused(&self) -> BTreeMap<(u32, &'static str), Refused> {
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

/// Reads what was written. Any other content counts as missing, and is rewritten.
fn of_data(data: &BTreeMap<String, String>) -> Option<Roles> {
    let text = |key: &str| data.get(key).cloned();
    let roles = Roles {
        primary: text(PRIMARY)?,
        epoch: text(EPOCH)?.parse().ok()?,
        acks: text(ACKS)?.parse().ok()?,
        data: text(DATA)?,
    };
    // The same bounds as for what an agent says: others can write the map.
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
