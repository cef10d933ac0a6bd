//! The meaning of etcd's errors. Codes are ambiguous, and the same text has different codes in 3.5 and 3.6. So
//! the text decides, and the code counts only if the text is unknown. The texts are those of `rpctypes/error.go` of 3.4
//! to 3.6.

use std::time::Duration;

use super::state::Call;
use crate::members::driver::ActionOutcome;

/// gRPC codes.
const CANCELLED: i32 = 1;
const UNKNOWN: i32 = 2;
const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;
const UNAUTHENTICATED: i32 = 16;

/// The ID of an added member depends on the second: the next second gives another ID.
const NEXT_SECOND: Duration = Duration::from_millis(1100);
/// Members count as connected after five seconds (`HealthInterval`).
const CONNECTED: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(1);

/// The answer of a member that, as far as it knows, has not been connected to enough others for five seconds. Another
/// member may know more: a member that returned is inactive for as long as the connections live if the last attempt to
/// reach its old address failed after the new connections had been made (`rafthttp`: a failure of a pipeline makes a
/// peer inactive, and nothing that a stream sends makes it active).
pub(super) const ONE_VIEW: &str = "unhealthy cluster";

/// Refusals that certainly had no effect, and that end soon.
const NOT_NOW: [&str; 5] =
    ["too many learner members", "not supported for learner", "no leader", "not leader", "bad leader transferee"];

/// The outcome of a call that failed with an error.
pub(super) fn of_error(call: &Call, error: &etcd_client::Error) -> ActionOutcome {
    match error {
        etcd_client::Error::GRpcStatus(status) => of_status(call, status.code() as i32, status.message()),
        etcd_client::Error::InvalidArgs(_) | etcd_client::Error::InvalidUri(_) => {
            ActionOutcome::Fatal(error.to_string())
        }
        _ => ActionOutcome::Indeterminate(error.to_string()),
    }
}

/// Whether permission was denied: then only the permission was missing for an answer.
pub(super) fn is_denied(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status) if status.code() as i32 == PERMISSION_DENIED)
}

fn of_status(call: &Call, code: i32, text: &str) -> ActionOutcome {
    let says = |part: &str| text.contains(part);
    let wait = |after| ActionOutcome::Wait { why: text.into(), after };
    if says("Peer URLs already exists") {
        ActionOutcome::Done
    } else if says("member ID already exist") {
        wait(NEXT_SECOND)
    } else if says("member not found") {
        match call {
            Call::Remove { .. } => ActionOutcome::Done,
            Call::AddLearner { .. } | Call::AddVoter { .. } => wait(NEXT_SECOND),
            Call::Promote { .. }
            | Call::Update { .. }
            | Call::MoveLeader { .. }
            | Call::Defragment { .. }
            | Call::Compact { .. }
            | Call::Disarm(_) => wait(SOON),
        }
    } else if says("learner member which is in sync with leader") {
        wait(SOON)
    } else if says("can only promote a learner member") || says("required revision has been compacted") {
        ActionOutcome::Done
    } else if says(ONE_VIEW) {
        wait(CONNECTED)
    } else if NOT_NOW.iter().any(|part| says(part)) {
        wait(SOON)
    } else if says("not enough started members") {
        ActionOutcome::Refused(text.into())
    } else if says("member URLs are invalid") || says("authentication failed") || says("user name is empty") {
        ActionOutcome::Fatal(text.into())
    } else {
        match code {
            PERMISSION_DENIED | UNAUTHENTICATED => ActionOutcome::Fatal(text.into()),
            CANCELLED | UNKNOWN | DEADLINE_EXCEEDED | INTERNAL | UNAVAILABLE => {
                ActionOutcome::Indeterminate(text.into())
            }
            _ => ActionOutcome::Refused(text.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CANCELLED, CONNECTED, DEADLINE_EXCEEDED, NEXT_SECOND, PERMISSION_DENIED, SOON, UNAVAILABLE, of_status,
    };
    use crate::members::driver::ActionOutcome;
    use crate::members::etcd::state::Call;

    const FAILED_PRECONDITION: i32 = 9;
    const NOT_FOUND: i32 = 5;
    const INVALID_ARGUMENT: i32 = 3;

    fn add() -> Call {
        Call::AddLearner { ordinal: 1, peer_url: "http://e-1:2380".into() }
    }

    fn of(call: &Call, code: i32, text: &str) -> ActionOutcome {
        of_status(call, code, &format!("etcdserver: {text}"))
    }

    fn after(outcome: ActionOutcome) -> std::time::Duration {
        match outcome {
            ActionOutcome::Wait { after, .. } => after,
            other => panic!("does not wait: {other:?}"),
        }
    }

    #[test]
    fn what_was_done_before_is_done() {
        assert_eq!(of(&add(), FAILED_PRECONDITION, "Peer URLs already exists"), ActionOutcome::Done);
        let promote = Call::Promote { ordinal: 1, member: 1 };
        assert_eq!(of(&promote, FAILED_PRECONDITION, "can only promote a learner member"), ActionOutcome::Done);
        assert_eq!(of(&Call::Remove { ordinal: 1, member: 1 }, NOT_FOUND, "member not found"), ActionOutcome::Done);
    }

    #[test]
    fn an_id_of_the_same_second_waits_for_the_next() {
        assert_eq!(after(of(&add(), FAILED_PRECONDITION, "member ID already exist")), NEXT_SECOND);
        assert_eq!(after(of(&add(), NOT_FOUND, "member not found")), NEXT_SECOND);
    }

    #[test]
    fn what_is_refused_for_now_is_asked_again() {
        let promote = Call::Promote { ordinal: 1, member: 1 };
        let lead = Call::MoveLeader { to: 1, member: 1 };
        assert_eq!(after(of(&add(), UNAVAILABLE, "unhealthy cluster")), CONNECTED);
        let sync = "can only promote a learner member which is in sync with leader";
        assert_eq!(after(of(&promote, FAILED_PRECONDITION, sync)), SOON);
        assert_eq!(after(of(&promote, NOT_FOUND, "member not found")), SOON);
        assert_eq!(after(of(&lead, NOT_FOUND, "member not found")), SOON);
        assert_eq!(after(of(&lead, FAILED_PRECONDITION, "not leader")), SOON);
        assert_eq!(after(of(&add(), FAILED_PRECONDITION, "too many learner members in cluster")), SOON);
        assert_eq!(after(of(&add(), UNAVAILABLE, "no leader")), SOON);
        for code in [UNAVAILABLE, FAILED_PRECONDITION] {
            assert_eq!(after(of(&add(), code, "rpc not supported for learner")), SOON, "3.5 and 3.6");
        }
    }

    #[test]
    fn what_may_still_happen_is_indeterminate() {
        let timeouts = [
            "request timed out",
            "request timed out, possibly due to previous leader failure",
            "request timed out, possibly due to connection lost",
            "request timed out, waiting for the applied index took too long",
            "leader changed",
            "server stopped",
        ];
        for text in timeouts {
            assert!(matches!(of(&add(), UNAVAILABLE, text), ActionOutcome::Indeterminate(_)), "{text}");
        }
        for (code, text) in [(DEADLINE_EXCEEDED, "context deadline exceeded"), (CANCELLED, "request canceled")] {
            assert!(matches!(of(&add(), code, text), ActionOutcome::Indeterminate(_)), "{text}");
        }
        assert!(matches!(of_status(&add(), UNAVAILABLE, "transport error"), ActionOutcome::Indeterminate(_)));
    }

    #[test]
    fn what_a_quorum_or_a_person_must_decide() {
        let few = "re-configuration failed due to not enough started members";
        assert!(matches!(of(&add(), FAILED_PRECONDITION, few), ActionOutcome::Refused(_)));
        assert!(matches!(of(&add(), INVALID_ARGUMENT, "given member URLs are invalid"), ActionOutcome::Fatal(_)));
        assert!(matches!(of(&add(), PERMISSION_DENIED, "permission denied"), ActionOutcome::Fatal(_)));
        let failed = "authentication failed, invalid user ID or password";
        assert!(matches!(of(&add(), INVALID_ARGUMENT, failed), ActionOutcome::Fatal(_)));
    }
}
