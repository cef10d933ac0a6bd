//! Pods and claims of members, read from their objects.

use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::readiness::pod_reason;
use crate::mask::Text;
use crate::members::url::takes_tls;
use crate::members::workload::{ClaimSize, Exit, Pod, PodPhase, VolumeClaim};
use crate::names;
use crate::object::Gvk;
use crate::object::conditions::Conditions;
use crate::object::quantity;

pub fn core(kind: &str, plural: &str) -> Resource {
    Resource { gvk: Gvk::new("", "v1", kind), plural: plural.into(), namespaced: true }
}

pub fn job_resource() -> Resource {
    Resource { gvk: Gvk::new("batch", "v1", "Job"), plural: "jobs".into(), namespaced: true }
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn seconds(object: &Value, pointer: &str) -> i64 {
    text(object, pointer).parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second)
}

/// The ordinal in the name of a pod, or of a claim of a template.
pub fn ordinal(name: &str, template: &str, set: &str) -> Option<u32> {
    let name = if template.is_empty() { name } else { name.strip_prefix(template)?.strip_prefix('-')? };
    let digits = name.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(ordinal)
}

pub fn pod(object: &Value, shown: impl Fn(&Text) -> String) -> Pod {
    let ready = Conditions::of_object(object).is_true("Ready");
    let statuses = object.pointer("/status/containerStatuses").and_then(Value::as_array);
    let restarts = statuses.into_iter().flatten().filter_map(|s| s.get("restartCount")?.as_u64()).sum::<u64>();
    let first = text(object, "/spec/containers/0/name");
    let first = statuses.and_then(|all| all.iter().find(|s| text(s, "/name") == first));
    let exit = first.and_then(|s| s.pointer("/state/terminated").or_else(|| s.pointer("/lastState/terminated")));
    let exit = exit.and_then(|t| {
        let code = t.get("exitCode")?.as_i64().and_then(|code| i32::try_from(code).ok())?;
        let started = first.filter(|s| s.pointer("/state/running/startedAt").is_some());
        let running_since = started.map(|s| seconds(s, "/state/running/startedAt"));
        Some(Exit { code, message: text(t, "/message").into(), running_since })
    });
    let phase = match text(object, "/status/phase") {
        "Pending" if text(object, "/spec/nodeName").is_empty() => PodPhase::Unscheduled,
        "Running" => PodPhase::Running,
        "Succeeded" | "Failed" => PodPhase::Ended,
        "Unknown" => PodPhase::Unknown,
        _ => PodPhase::Pending,
    };
    Pod {
        uid: text(object, "/metadata/uid").into(),
        revision: text(object, "/metadata/labels/controller-revision-hash").into(),
        created: seconds(object, "/metadata/creationTimestamp"),
        phase,
        ready,
        terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
        restarts: u32::try_from(restarts).unwrap_or(u32::MAX),
        exit,
        reason: if ready { "".into() } else { pod_reason(object).map(|text| shown(&text)).unwrap_or_default().into() },
        role: object.pointer(&escaped("labels", names::MEMBER_ROLE)).and_then(Value::as_str).map(Into::into),
        secure: takes_tls(object),
    }
}

/// The pointer to a label or an annotation.
fn escaped(field: &str, name: &str) -> String {
    format!("/metadata/{field}/{}", name.replace('/', "~1"))
}

/// A claim of a template.
pub fn claim(object: &Value, template: &str) -> VolumeClaim {
    let bytes = |pointer: &str| quantity::bytes(text(object, pointer)).unwrap_or(0);
    VolumeClaim {
        name: text(object, "/metadata/name").into(),
        uid: text(object, "/metadata/uid").into(),
        created: seconds(object, "/metadata/creationTimestamp"),
        terminating: object.pointer("/metadata/deletionTimestamp").is_some(),
        lost: text(object, "/status/phase") == "Lost",
        size: ClaimSize {
            template: template.into(),
            requested: bytes("/spec/resources/requests/storage"),
            capacity: bytes("/status/capacity/storage"),
            grown: text(object, &escaped("annotations", names::GROWN)).parse().ok().map(jiff::Timestamp::as_second),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::ordinal;

    #[test]
    fn ordinals_are_read_off_names() {
        for (name, template, expected) in [
            ("db-0", "", Some(0)),
            ("db-12", "", Some(12)),
            ("db-x", "", None),
            ("db-01", "", None),
            ("db-a-1", "", None),
            ("data-db-3", "data", Some(3)),
            ("data-db-x-3", "data", None),
        ] {
            assert_eq!(ordinal(name, template, "db"), expected, "{name}");
        }
    }
}
