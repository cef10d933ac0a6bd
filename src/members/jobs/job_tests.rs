use serde_json::{Value, json};

use super::{Ended, JobRun, JobState, LABEL, RUN, Sizes, body, read};
use crate::members::document::{ScaleEvent, ScaleHook, Set};
use crate::release::owner::owner;

fn run() -> JobRun {
    JobRun {
        set: "m".into(),
        hook: "join".into(),
        event: ScaleEvent::AfterReady,
        ordinal: 1,
        since: 900,
        attempt: 2,
        digest: "d".into(),
    }
}

fn hook(job: &Value) -> ScaleHook {
    ScaleHook {
        set: "m".into(),
        name: "join".into(),
        events: vec![ScaleEvent::AfterReady],
        weight: 0,
        container: None,
        digest: "d".into(),
        job: job.as_object().unwrap().clone(),
    }
}

fn made() -> Value {
    let set = Set::example();
    let job = json!({
        "metadata": {"name": "join", "annotations": {"helm.sh/hook": "after-ready", "helm.sh/hook-weight": "1", "a": "b"}},
        "spec": {
            "backoffLimit": 6, "ttlSecondsAfterFinished": 1, "completions": 3, "activeDeadlineSeconds": 60,
            "template": {"spec": {"restartPolicy": "OnFailure", "containers": [
                {"name": "a", "env": [{"name": "POD", "value": "mine"}, {"name": "X", "value": "$(ORDINAL)"}]},
            ]}},
        },
    });
    body(&hook(&job), &run(), &set, Sizes { from: 1, to: 2 }, &owner())
}

#[test]
fn a_job_runs_once_and_knows_what_for() {
    let job = made();
    let spec = &job["spec"];
    assert_eq!((&spec["backoffLimit"], &spec["podReplacementPolicy"]), (&json!(0), &json!("Failed")));
    assert_eq!((spec.get("ttlSecondsAfterFinished"), spec.get("completions")), (None, None));
    assert_eq!(spec["activeDeadlineSeconds"], 60);
    assert_eq!(spec["template"]["metadata"]["labels"][LABEL], "app");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    let container = &pod["containers"][0];
    assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    let env: Vec<_> =
        container["env"].as_array().unwrap().iter().map(|e| (e["name"].as_str(), e["value"].as_str())).collect();
    let expected = [
        ("ORDINAL", "1"),
        ("POD", "db-1"),
        ("SIZE_FROM", "1"),
        ("SIZE_TO", "2"),
        ("PEERS", "db-0.peer"),
        ("X", "$(ORDINAL)"),
    ];
    assert_eq!(env, expected.map(|(name, value)| (Some(name), Some(value))));
    let metadata = &job["metadata"];
    assert_eq!(metadata["annotations"], json!({"a": "b", RUN: "m join after-ready 1 900 2 d"}));
    assert_eq!(metadata["ownerReferences"][0]["uid"], "uid");
    assert_eq!(metadata["namespace"], "ns");
}

#[test]
fn the_name_says_hook_and_ordinal_and_fits_into_a_label() {
    let name = run().name();
    assert!(name.starts_with("join-1-") && name.len() == "join-1-".len() + 8, "{name}");
    assert_ne!(JobRun { attempt: 3, ..run() }.name(), name);
    assert_ne!(JobRun { since: 901, ..run() }.name(), name);
    let long = JobRun { hook: "x".repeat(70), ordinal: 42, ..run() };
    assert_eq!(long.name().len(), 63);
    assert!(long.name().contains("-42-"));
}

#[test]
fn how_a_run_came_out_is_read_from_the_job_and_its_pod() {
    let seen = |status: Value, pods: &[Value]| {
        let mut job = made();
        job["metadata"]["uid"] = "u".into();
        job["status"] = status;
        read(&job, pods, &[hook(&json!({}))])
    };
    let conditions = |name: &str| json!({"conditions": [{"type": name, "status": "True", "lastTransitionTime": "1970-01-01T00:16:00Z"}]});
    assert_eq!(seen(json!({}), &[]).unwrap().state, JobState::Running);
    assert_eq!(seen(json!({}), &[]).unwrap().run, run());
    assert_eq!(seen(conditions("Complete"), &[]).unwrap().state, JobState::Ended(Ended::Done, 960));
    let pod = |uid: &str, state: Value| {
        json!({"metadata": {"ownerReferences": [{"uid": uid}]}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"containerStatuses": [{"name": "b", "state": {"running": {}}}, {"name": "a", "state": state}]}})
    };
    let code = |code: i64| json!({"terminated": {"exitCode": code, "message": "one\n two \n\n"}});
    for (state, expected) in [
        (code(75), Ended::Later("two".into())),
        (code(64), Ended::Refused("two".into())),
        (code(1), Ended::Failed(1, "two".into())),
        (json!({"running": {}}), Ended::Unknown { pod_remains: true }),
    ] {
        let pods = [pod("other", code(0)), pod("u", state)];
        assert_eq!(seen(conditions("Failed"), &pods).unwrap().state, JobState::Ended(expected, 960));
    }
    assert_eq!(
        seen(conditions("Failed"), &[]).unwrap().state,
        JobState::Ended(Ended::Unknown { pod_remains: false }, 960)
    );
    let mut going = made();
    going["metadata"]["deletionTimestamp"] = "1970-01-01T00:16:00Z".into();
    assert_eq!(read(&going, &[], &[]), None);
}
