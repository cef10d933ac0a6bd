//! The interface of a driver: one trait, which the built-in drivers and those of a program implement. The driver acts on its
//! application; the operator acts on the StatefulSet.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::document::{ScaleHook, Set};
use super::growth::LargerClaim;
use super::operator::Operator;
use super::secret::Secret;
use super::workload::{Latch, StoredFacts, Workload, WorkloadTarget};
use crate::agent::contract::VolumeSpace;
use crate::release::owner::Owner;

/// The single step of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStep<A, O = StoredFacts> {
    /// Nothing: everything is as it should be.
    Quiet,
    /// Nothing yet.
    Wait {
        /// The condition that the pass waits for, in words.
        why: String,
        /// When to look again if no event arrives earlier.
        after: Duration,
    },
    /// Nothing except a condition. Passes continue to observe, and the first pass that finds the problem solved
    /// continues: a quorum may return without help.
    Stop {
        /// The reason of the condition, such as `QuorumLost`.
        reason: &'static str,
        /// The fault, and the remedy.
        why: String,
    },
    /// Store this latch in the status, and do nothing else.
    Latch(Latch<O>),
    /// Set the number of replicas of the StatefulSet. [`Latch::replicas`] is written first, so that a pass that finds
    /// fewer replicas knows that another client has lowered them.
    Scale(u32),
    /// Run only the pod of this ordinal. [`MemberStep::Scale`] ends this.
    Only(u32),
    /// Make a claim larger, but only the one with this uid.
    EnlargeClaim(LargerClaim),
    /// Delete a claim, but only the one with this uid.
    DeleteClaim { name: std::sync::Arc<str>, uid: Box<str> },
    /// Delete a pod, but only the one with this uid. The pod is broken, so disruption budgets do not count.
    DeletePod { ordinal: u32, uid: Box<str> },
    /// Evict a pod, so that it is recreated from the current template. Disruption budgets count.
    EvictPod { ordinal: u32, uid: Box<str> },
    /// Give a pod its role by a label, by which Services select it; `None` removes the label.
    LabelPod { ordinal: u32, uid: Box<str>, role: Option<&'static str> },
    /// Carry out an action of the driver.
    Act(A),
    /// Carry out an action of the driver, and store this latch in the status when it is done. After a crash in between,
    /// the action is repeated.
    ActThen { action: A, latch: Latch<O> },
}

impl<A, O: Serialize> MemberStep<A, O> {
    /// The same step for another type of actions, with the latch as the status has it.
    pub fn untyped<B>(self, other: impl FnOnce(A) -> B) -> MemberStep<B> {
        match self {
            Self::Quiet => MemberStep::Quiet,
            Self::Wait { why, after } => MemberStep::Wait { why, after },
            Self::Stop { reason, why } => MemberStep::Stop { reason, why },
            Self::Latch(latch) => MemberStep::Latch(latch.untyped()),
            Self::Scale(replicas) => MemberStep::Scale(replicas),
            Self::Only(ordinal) => MemberStep::Only(ordinal),
            Self::EnlargeClaim(claim) => MemberStep::EnlargeClaim(claim),
            Self::DeleteClaim { name, uid } => MemberStep::DeleteClaim { name, uid },
            Self::DeletePod { ordinal, uid } => MemberStep::DeletePod { ordinal, uid },
            Self::EvictPod { ordinal, uid } => MemberStep::EvictPod { ordinal, uid },
            Self::LabelPod { ordinal, uid, role } => MemberStep::LabelPod { ordinal, uid, role },
            Self::Act(action) => MemberStep::Act(other(action)),
            Self::ActThen { action, latch } => MemberStep::ActThen { action: other(action), latch: latch.untyped() },
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action is done, or was done before.
    Done,
    /// Not now: the pass has to ask again.
    Wait {
        /// The condition that the action waits for, in words.
        why: String,
        /// When to ask again.
        after: Duration,
    },
    /// The application does not allow it, for example to protect a quorum.
    Refused(String),
    /// The outcome is unknown: the action may have happened, or may still happen. The next observation will show it.
    Indeterminate(String),
    /// It cannot work until somebody changes something.
    Fatal(String),
}

/// How the operator treats the stateful sets of a driver.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact")]
pub struct DriverProfile {
    /// Its name in `spec.driver` of a Members document. The name of a driver of your own is a domain and a name, as in
    /// `example.com/database`.
    pub name: &'static str,
    /// The field of `spec` with its settings; `None` if it has none. For a driver of your own it is `settings`.
    pub field: Option<&'static str>,
    /// It acts also while something else about the release is under way, or fails ([`Mode::Keep`](super::workload::Mode)).
    pub keeps: bool,
    /// Latches are written alone, before anything depends on them, and only over the status that the decision was made
    /// from. A driver needs this if its application cannot refuse the orders of an operator that was suspended.
    pub latches_alone: bool,
    /// It gives pods labels with their roles ([`MemberStep::LabelPod`]), for which the operator needs a permission.
    pub labels_pods: bool,
    /// The status lists the pods and has the conditions of coreos' etcd-operator, if there is no other stateful set.
    pub lists_pods: bool,
    /// It runs the scale hooks of the chart ([`Connection::hooks`]).
    pub runs_hooks: bool,
    /// The most steps of a pass. Only steps that change nothing of the StatefulSet, its pods and its claims are followed
    /// by a further step in the same pass.
    pub steps: u32,
    /// How often members at rest are checked; `None` for never.
    pub rest: Option<RestPeriod>,
    /// The objects that the driver creates. A change of such an object triggers a pass.
    pub creates: Option<CreatedObjects>,
    /// It repeats texts of the application in the status, from which secrets of the release are removed
    /// ([`Connection::shown`]).
    pub shows_texts: bool,
    /// It knows how full the volumes of members are ([`MemberDriver::volumes`]).
    pub measures_volumes: bool,
    /// The fields of its report about the application ([`MemberDriver::report`]).
    pub reports: &'static [&'static str],
    /// The fields of the report that a `Status` document can show.
    pub facts: &'static [&'static str],
}

impl DriverProfile {
    /// A driver of your own that changes only the StatefulSet and its application.
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            field: Some(OWN_SETTINGS),
            keeps: false,
            latches_alone: false,
            labels_pods: false,
            lists_pods: false,
            runs_hooks: false,
            steps: 1,
            rest: None,
            creates: None,
            shows_texts: false,
            measures_volumes: false,
            reports: &[],
            facts: &[],
        }
    }
}

/// The field of `spec` with the settings of a program's own driver.
pub const OWN_SETTINGS: &str = "settings";

/// How often members at rest are checked.
#[derive(Clone, Copy, Debug)]
pub struct RestPeriod {
    /// The longest time between two checks.
    pub every: Duration,
    /// If a check fails once, it is repeated after this time before the API server is asked.
    pub again: Duration,
}

/// The objects that a driver creates, with a label whose value is the name of the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatedObjects {
    /// The `ConfigMap` from which containers start ([`DriverNeeds::config_map`]), with this label.
    ConfigMap(&'static str),
    /// Jobs with this label.
    Jobs(&'static str),
}

/// The objects that the settings of a stateful set name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverNeeds {
    /// The `ConfigMap` that belongs to the driver. No chart may have it.
    pub config_map: Option<String>,
    /// The Secrets with the credentials for calls to members.
    pub secrets: Vec<NeededSecret>,
    /// The intended version of the members, for the status.
    pub version: Option<String>,
}

/// A Secret in the namespace of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededSecret {
    /// The field of `spec` that names it, such as `etcd.tls`.
    pub field: &'static str,
    pub name: String,
    /// The keys whose values must not appear in any text.
    pub masked: &'static [&'static str],
}

/// How texts of an application are shown: without secrets.
pub type Shown = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// What a driver gets of the operator for a stateful set.
#[derive(Clone)]
pub struct Connection {
    /// The stateful set.
    pub set: Set,
    /// Its scale hooks, if hooks are enabled.
    pub hooks: Vec<ScaleHook>,
    /// The owner of the release and its objects.
    pub owner: Owner,
    /// When the custom resource was created, in seconds since 1970.
    pub created: i64,
    /// The Secrets of [`DriverNeeds::secrets`], by field.
    pub secrets: BTreeMap<&'static str, Secret>,
    /// How texts of the application are shown.
    pub shown: Shown,
}

/// An event about a stateful set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverEvent {
    /// Whether somebody should look at it.
    pub is_warning: bool,
    /// Its reason, such as `MembersChanged`.
    pub reason: &'static str,
    /// What happened.
    pub text: String,
}

/// What happened in a pass.
#[derive(Debug)]
pub enum Happened<'a, A, O = StoredFacts> {
    /// An action is done.
    Acted(&'a A),
    /// The latch of the status has changed.
    Latched {
        /// As it was.
        before: &'a Latch<O>,
        /// As it is.
        after: &'a Latch<O>,
    },
    /// The driver has reported about the application.
    Reported {
        /// The entry of the last status.
        before: Option<&'a Value>,
        /// The report.
        now: &'a Map<String, Value>,
    },
}

/// The metrics of a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Sight {
    /// Whether another member can take over; `None` if there is only one.
    pub safe: Option<bool>,
    /// Whether the primary takes writes, and as many members acknowledge as commits wait for.
    pub takes_writes: bool,
    /// When another member became the primary, in seconds since 1970.
    pub last_change: Option<i64>,
    /// The members, by ordinal.
    pub members: Vec<MemberSight>,
}

/// The metrics of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberSight {
    pub pod: String,
    pub role: &'static str,
    /// Whether it answers.
    pub answers: bool,
    /// How far it lags behind, in seconds; `None` if that is unknown, or if it is not a replica.
    pub lag: Option<f64>,
    /// Commits that wait for an acknowledgement; `None` if that is unknown, or if it is not the primary.
    pub waiting: Option<u32>,
    /// How full its volume is; `None` if that is unknown.
    pub volume: Option<VolumeSpace>,
}

/// An application whose members have to be announced before they are added and removed.
///
/// A pass connects ([`connect`](Self::connect)), calls [`observe`](Self::observe), then [`decide`](Self::decide) and, if
/// the decision requires it, [`act`](Self::act). Then it ends. While the custom resource is paused or deleted, a driver is
/// not called.
pub trait MemberDriver: Sized + Send + Sync + 'static {
    /// The settings in a Members document.
    type Settings;
    /// What the operator keeps in memory of a stateful set between passes. It is lost at a restart.
    type Memory: Default + Send + Sync + 'static;
    /// The facts that only the status keeps, beside those of every [`Latch`]. Their names must differ from these.
    type Facts: Serialize + DeserializeOwned + Clone + Debug + Default + PartialEq + Send + Sync + 'static;
    /// The application's report about itself.
    type Observed: Send + Sync + 'static;
    /// The actions on the application.
    type Action: Send + Sync + 'static;

    /// How the operator treats the stateful sets of this driver.
    const PROFILE: DriverProfile;

    /// Reads the settings for the StatefulSet of this name. The error is a sentence for the condition.
    fn read(settings: &Map<String, Value>, stateful_set: &str) -> Result<Self::Settings, String>;

    /// The objects that the settings name.
    fn needs(_settings: &Self::Settings) -> DriverNeeds {
        DriverNeeds::default()
    }

    /// The driver of one stateful set. The error is a sentence for the condition.
    fn connect(settings: Self::Settings, with: &Connection, memory: Arc<Self::Memory>) -> Result<Self, String>;

    /// Asks the application. Members that do not answer are part of the result. This never fails, and ends within
    /// seconds.
    fn observe(
        &self,
        workload: &Workload,
        latch: &Latch<Self::Facts>,
        operator: &dyn Operator,
    ) -> impl Future<Output = Self::Observed> + Send;

    /// Decides what to do now, by its arguments only. `now` is in seconds since 1970.
    fn decide(
        &self,
        workload: &Workload,
        observed: &Self::Observed,
        target: &WorkloadTarget,
        latch: &Latch<Self::Facts>,
        now: i64,
    ) -> MemberStep<Self::Action, Self::Facts>;

    /// Carries out an action. Every call has a deadline; a call that passes it is [`ActionOutcome::Indeterminate`].
    fn act(&self, action: &Self::Action, operator: &dyn Operator) -> impl Future<Output = ActionOutcome> + Send;

    /// Describes an action in words, for the plan in the status.
    fn describe(&self, action: &Self::Action) -> String;

    /// Describes a change of its facts in words; `None` if they have not changed.
    fn describe_facts(&self, _before: &Latch<Self::Facts>, _after: &Latch<Self::Facts>) -> Option<String> {
        None
    }

    /// The recovery of a lost quorum that is under way, in words. While there is one, the reason of `Ready` is
    /// `RecoveringQuorum`.
    fn recovery(_stateful_set: &str, _latch: &Latch<Self::Facts>) -> Option<String> {
        None
    }

    /// The report about the application in the status; `None` keeps the last one. Its fields are those of
    /// [`DriverProfile::reports`].
    fn report(
        &self,
        _workload: &Workload,
        _observed: &Self::Observed,
        _latch: &Latch<Self::Facts>,
    ) -> Option<Map<String, Value>> {
        None
    }

    /// The metrics of the application; `None` if it has none.
    fn sight(&self, _workload: &Workload, _observed: &Self::Observed, _latch: &Latch<Self::Facts>) -> Option<Sight> {
        None
    }

    /// How full the volumes of members are, by ordinal; without those that are unknown.
    fn volumes(&self, _workload: &Workload, _observed: &Self::Observed) -> BTreeMap<u32, VolumeSpace> {
        BTreeMap::new()
    }

    /// The events about what happened.
    fn events(&self, _happened: Happened<'_, Self::Action, Self::Facts>) -> Vec<DriverEvent> {
        Vec::new()
    }

    /// Between two checks of members at rest: returns `true` as soon as the application reports a change by itself. The
    /// operator drops the call after `within`.
    fn is_disturbed(&self, _latch: &Latch<Self::Facts>, _within: Duration) -> impl Future<Output = bool> + Send {
        std::future::pending()
    }
}
