//! The facts that the agent itself knows, and the answer that it makes of them and of the database's reports.

use std::sync::Arc;
use std::time::Instant;

use super::measured::Measured;
use super::process::Process;
use tillerman_agent::contract::{Busy, MemberState, Restarted, Role};
use tillerman_agent::position::Position;
use tillerman_agent::store::{Identity, Obeyed};

/// Whether the database is to run, and how it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// It waits for an order.
    #[default]
    No,
    /// It keeps everything that its log has.
    Keeping,
    /// It takes back writes that no member acknowledged.
    TakingBack,
}

/// The facts that the agent itself knows.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct AgentFacts {
    /// The identity of the data; `None` if there is none.
    pub identity: Option<Identity>,
    /// The last order that was obeyed.
    pub obeyed: Obeyed,
    /// Whether the database is to run.
    pub wanted: Wanted,
    /// The database, while it runs and answers.
    pub running: Option<Arc<Process>>,
    /// The database, while it starts.
    pub starting: Option<Arc<Process>>,
    /// The start of the database; with another number after each loss of writes that it had received.
    pub start: String,
    /// The earlier starts whose acknowledged writes are all still here.
    pub continues: Vec<String>,
    /// By the last order.
    pub role: Role,
    /// The source that it follows.
    pub source: Option<ReplicaSource>,
    /// How many acknowledgements a commit waits for by the last order.
    pub acks: u32,
    /// How many it waits for in fact. An open primary that waited for none begins when enough members acknowledge: it would send nothing
    /// again of what others have received before.
    pub waits_for: u32,
    /// How many everything has.
    pub confirmed: u32,
    /// Increases with each order that changes the condition that a commit waits for.
    pub generation: u64,
    /// The members that can connect and follow.
    pub admitted: Vec<String>,
    /// Whether it was opened for writes. Then it stays so, and commits wait if nobody acknowledges.
    pub opened: bool,
    /// Whether events of clients run.
    pub schedules: bool,
    /// All commits of this start were acknowledged: it handed over.
    pub handed_over: bool,
    /// The order by which the data is being replaced, as it was sent.
    pub seeding: Option<String>,
    /// Work that takes long.
    pub busy: Option<Busy>,
    /// The agent ends.
    pub stopping: bool,
    /// The database runs and does not answer.
    pub hung: Option<Hung>,
    /// How often it was ended because it hung, since it was last well for long.
    pub ends: u32,
    /// When that was last.
    pub restarted: Option<Restarted>,
    /// The problem.
    pub problem: Option<String>,
    /// Why declared databases or users are missing.
    pub undeclared: Option<String>,
    /// How far an import is, in words.
    pub import: Option<String>,
    /// Why a changed setting is not in use.
    pub unset: Option<String>,
    /// Why certificates or passwords that were renewed are not in use.
    pub stale: Option<String>,
    /// A temporary problem: after this time the operator can give the same order again.
    pub passing: Option<(Instant, String)>,
}

/// A database that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hung {
    /// Since when.
    pub since: Instant,
    /// When it is ended; why it is not, in words.
    pub ends: Result<Instant, String>,
}

impl Hung {
    /// The seconds until it is ended.
    fn restarts_in(&self) -> Option<u64> {
        self.ends.as_ref().ok().map(|at| at.saturating_duration_since(Instant::now()).as_secs())
    }

    /// Its fate, in words.
    fn text(&self) -> String {
        match &self.ends {
            Ok(_) => format!("its agent starts it again in {} seconds", self.restarts_in().unwrap_or_default()),
            Err(why) => format!("its agent does not start it again: {why}"),
        }
    }
}

/// The source of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSource {
    /// The host.
    pub host: String,
    /// Whether it may acknowledge.
    pub acknowledge: bool,
    /// The epoch of the order.
    pub epoch: u64,
}

impl AgentFacts {
    /// The role ends with the database.
    pub fn ended(&mut self) {
        let keeps = self.wanted != Wanted::No && self.obeyed.promoted.is_none_or(|acks| acks == 0);
        self.wanted = if keeps { Wanted::Keeping } else { Wanted::No };
        (self.running, self.hung) = (None, None);
        self.start.clear();
        self.continues.clear();
        self.idle(Role::Waiting);
    }

    /// Nothing is received, and nothing is taken.
    pub fn idle(&mut self, role: Role) {
        self.role = role;
        (self.source, self.acks, self.waits_for, self.confirmed) = (None, 0, 0, 0);
        (self.opened, self.schedules, self.handed_over) = (false, false, false);
        self.generation += 1;
        self.admitted.clear();
    }

    /// Whether commits of this start, or of an earlier one, may wait for an acknowledgement that does not come.
    pub fn may_have_unacknowledged(&self) -> bool {
        self.obeyed.promoted.is_some_and(|acks| acks > 0) && !self.handed_over
    }

    /// The answer. `late` says for how long the database has not answered.
    pub fn state(
        &self,
        member: &str,
        measured: Option<&Measured>,
        purged: Position,
        late: Option<String>,
    ) -> MemberState {
        let nothing = Measured::default();
        let own = measured.unwrap_or(&nothing);
        let is_primary = self.role == Role::Primary;
        let passing = self.passing.as_ref().filter(|(until, _)| *until > Instant::now()).map(|(_, why)| why.clone());
        let starting = (self.wanted != Wanted::No && self.running.is_none()).then(|| "the database starts".to_owned());
        let diverged = self.identity.as_ref().is_some_and(|identity| identity.diverged);
        let hangs = late.is_some();
        let silent = match (late, self.hung.as_ref().map(Hung::text)) {
            (Some(late), Some(then)) => Some(format!("{late}; {then}")),
            (None, Some(then)) => Some(format!("the database takes no new connections; {then}")),
            (late, None) => late,
        };
        MemberState {
            member: member.to_owned(),
            start: self.start.clone(),
            continues: self.continues.clone(),
            data: self.identity.as_ref().map(|identity| identity.data.clone()),
            epoch: self.obeyed.epoch,
            number: Some(self.obeyed.number),
            role: self.role,
            writable: is_primary && measured.is_some_and(|own| !own.read_only),
            source: self.source.as_ref().map(|source| source.host.clone()),
            receiving: own.receiving,
            applying: own.applying && !is_primary,
            got: own.got.clone(),
            has: own.has.clone(),
            purged: purged.with(&own.purged),
            waiting: own.waiting,
            acks: self.acks,
            confirmed: self.confirmed,
            admitted: self.admitted.clone(),
            acknowledging: if is_primary { own.acknowledging.clone() } else { Vec::new() },
            acknowledges: self.source.as_ref().is_some_and(|source| source.acknowledge),
            lag: own.lag,
            version: Some(own.version.clone()).filter(|version| !version.is_empty()),
            busy: self.busy.clone(),
            diverged: diverged || own.is_out_of_order(),
            hangs,
            restarts_in: self.hung.as_ref().and_then(Hung::restarts_in),
            restarted: self.restarted.clone(),
            import: self.import.clone(),
            // The member adds it.
            volume: None,
            problem: silent
                .or(passing)
                .or_else(|| self.problem.clone())
                .or(starting)
                .or_else(|| own.problem())
                .or_else(|| self.stale.clone())
                .or_else(|| self.undeclared.clone())
                .or_else(|| self.unset.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentFacts, Wanted};
    use tillerman_agent::contract::Role;
    use tillerman_agent::store::Obeyed;

    #[test]
    fn a_primary_that_waited_for_acknowledgements_does_not_start_again_by_itself() {
        for (promoted, before, wanted) in [
            (Some(1), Wanted::Keeping, Wanted::No),
            (Some(1), Wanted::TakingBack, Wanted::No),
            (Some(0), Wanted::Keeping, Wanted::Keeping),
            (None, Wanted::TakingBack, Wanted::Keeping),
            (None, Wanted::No, Wanted::No),
        ] {
            let obeyed = Obeyed { epoch: 1, number: 0, promoted };
            let mut facts =
                AgentFacts { obeyed, wanted: before, start: "s".into(), role: Role::Primary, ..AgentFacts::default() };
            facts.ended();
            assert_eq!((facts.wanted, facts.role, facts.start.as_str()), (wanted, Role::Waiting, ""), "{promoted:?}");
        }
    }

    #[test]
    fn what_was_handed_over_has_nothing_to_take_back() {
        for (promoted, handed_over, expected) in
            [(None, false, false), (Some(0), false, false), (Some(1), false, true), (Some(1), true, false)]
        {
            let obeyed = Obeyed { epoch: 1, number: 0, promoted };
            let facts = AgentFacts { obeyed, handed_over, ..AgentFacts::default() };
            assert_eq!(facts.may_have_unacknowledged(), expected, "{promoted:?}");
        }
    }
}
