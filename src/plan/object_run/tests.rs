use std::borrow::Cow;

use serde_json::{Value, json};

use super::step::ObjectStep;
use super::{Notice, ObjectPolicy, ObjectRun, WriteRefusal};
use crate::object::{Gvk, ObjectId};
use crate::plan::claim::Ownership;
use crate::plan::stamp::Stamped;

/// The result of a step.
enum Entered {
    Absent,
    Found(Value, Ownership),
    Autoscaled(bool),
    HandedOver(bool),
    Written(Value),
    Refused(WriteRefusal),
}
use Entered::{Absent, Autoscaled, Found, HandedOver, Refused, Written};

fn object(kind: &Gvk, spec: &Value) -> Stamped {
    let id = ObjectId { gvk: kind.clone(), namespace: Some("ns".into()), name: "web".into() };
    Stamped { id, body: json!({"metadata": {"name": "web"}, "spec": spec}).as_object().unwrap().clone(), kept: false }
}

fn deployment() -> Stamped {
    object(&Gvk::new("apps", "v1", "Deployment"), &json!({"paused": false}))
}

fn policy() -> ObjectPolicy<'static> {
    ObjectPolicy {
        known: true,
        dry: false,
        repaired: false,
        suspect: false,
        stepped: false,
        autoscaled: false,
        forced: false,
        before: None,
        previous: None,
        rules: &[],
    }
}

fn live(managers: &[Value], spec: &Value) -> Value {
    json!({"metadata": {"uid": "u", "managedFields": managers}, "spec": spec})
}

fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsV1": {"f:spec": fields}})
}

fn plain() -> Value {
    live(&[entry("tillerman", "Apply", &json!({"f:paused": {}}))], &json!({"paused": false}))
}

fn of_helm() -> Value {
    live(&[entry("helm", "Update", &json!({"f:paused": {}}))], &json!({"paused": false}))
}

fn conflict() -> WriteRefusal {
    WriteRefusal { is_conflict: true, ..WriteRefusal::default() }
}

fn immutable(field: &str) -> WriteRefusal {
    let why = "field is immutable".to_owned();
    WriteRefusal { immutable: vec![(field.into(), why)], invalid: vec![field.into()], ..WriteRefusal::default() }
}

fn invalid(field: &str) -> WriteRefusal {
    WriteRefusal { invalid: vec![field.into()], ..WriteRefusal::default() }
}

fn untyped(fault: &str) -> WriteRefusal {
    let message = format!("failed to create typed patch object (ns/web; apps/v1, Kind=Deployment): {fault}");
    WriteRefusal { untyped: Some(message), ..WriteRefusal::default() }
}

/// The word for a step in a transcript.
fn word(step: &ObjectStep) -> String {
    match step {
        ObjectStep::Send { new, dry } => {
            format!("{}{}", if *dry { "try to " } else { "" }, if *new { "create" } else { "apply" })
        }
        ObjectStep::Replace { new } => if *new { "create whole" } else { "replace" }.to_owned(),
        ObjectStep::Recreate { fields, remake, sizes } => format!("{remake:?} for {fields}, claims {}", sizes.len()),
        ObjectStep::Retain { fields, remedy, .. } => format!("retain for {fields}{remedy}"),
        ObjectStep::Refuse(why) => format!("refuse: {why}"),
        ObjectStep::Reshape { managers, .. } => format!("reshape, owners {}", managers.is_some()),
        step => format!("{step:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase(),
    }
}

/// Takes the steps with these results, and returns their transcript and the run.
fn play<'a>(object: &'a Stamped, policy: ObjectPolicy<'a>, results: Vec<Entered>) -> (Vec<String>, ObjectRun<'a>) {
    let mut run = ObjectRun::new(Cow::Borrowed(object), policy, None);
    let (transcript, rest) = continue_with(&mut run, results);
    assert_eq!(rest, 0, "results are left after {transcript:?}");
    (transcript, run)
}

fn continue_with(run: &mut ObjectRun<'_>, results: Vec<Entered>) -> (Vec<String>, usize) {
    let mut results = results.into_iter();
    let mut transcript = Vec::new();
    loop {
        let step = run.next_step();
        transcript.push(word(&step));
        assert!(transcript.len() < 100, "there is no end: {transcript:?}");
        let is_last = matches!(step, ObjectStep::Recreate { .. }) && run.is_dry();
        match step {
            ObjectStep::ReleaseReplicas(_) => run.released(),
            ObjectStep::LeaveFields => run.leave_fields(),
            ObjectStep::ApplyFirst(_) => run.applied_first(&json!({"metadata": {"resourceVersion": "7"}})),
            ObjectStep::Reshape { body, notice, .. } => run.remedied(Some((body, notice))),
            ObjectStep::Recreate { .. } if !is_last => run.remedied(None),
            ObjectStep::Read => match results.next() {
                Some(Absent) => run.read(None),
                Some(Found(found, ownership)) => run.read(Some((found, ownership))),
                _ => panic!("{transcript:?} needs an object"),
            },
            ObjectStep::LookForAutoscalers => match results.next() {
                Some(Autoscaled(autoscaled)) => run.looked(autoscaled),
                _ => panic!("{transcript:?} needs an answer about autoscalers"),
            },
            ObjectStep::HandOver => match results.next() {
                Some(HandedOver(taken)) => run.handed_over(taken),
                _ => panic!("{transcript:?} needs an answer about the hand-over"),
            },
            ObjectStep::Send { .. } => run.answered(answer(results.next(), &transcript)),
            ObjectStep::Replace { .. } => run.replaced(answer(results.next(), &transcript)),
            _ => return (transcript, results.count()),
        }
    }
}

fn answer(entered: Option<Entered>, transcript: &[String]) -> Result<Value, WriteRefusal> {
    match entered {
        Some(Written(answer)) => Ok(answer),
        Some(Refused(refusal)) => Err(refusal),
        _ => panic!("{transcript:?} needs an answer to a write"),
    }
}

fn reasons(notices: &[Notice]) -> Vec<&str> {
    notices.iter().map(|notice| notice.reason).collect()
}

/// The name of a case, the object, its policy, the results of its steps; the steps and the reasons of notices that are expected.
type Transcript<'a> = (&'a str, Stamped, ObjectPolicy<'a>, Vec<Entered>, &'a [&'a str], &'a [&'a str]);

/// Checks transcripts of the steps of one object, and the reasons of the notices.
#[track_caller]
fn check(rows: Vec<Transcript<'_>>) {
    for (name, object, policy, results, expected, noted) in rows {
        let (transcript, run) = play(&object, policy, results);
        assert_eq!(transcript, expected, "{name}");
        assert_eq!(reasons(&run.outcome().notices), noted, "{name}");
    }
}

#[test]
fn an_object_of_ours_is_applied_at_once_and_any_other_is_created_or_taken_over() {
    let new = || ObjectPolicy { known: false, ..policy() };
    let foreign = || Ownership::Refused("it belongs to Web other".into());
    let adopted = || Found(plain(), Ownership::Adopted);
    check(vec![
        ("it is ours", deployment(), policy(), vec![Written(plain())], &["apply", "done"], &[]),
        ("it is new", deployment(), new(), vec![Written(plain())], &["create", "done"], &[]),
        ("it cannot be created", deployment(), new(), vec![Refused(invalid("spec"))], &["create", "fail"], &[]),
        (
            "it exists and has no owner",
            deployment(),
            new(),
            vec![Refused(conflict()), adopted(), HandedOver(true), Written(plain())],
            &["create", "read", "leavefields", "handover", "apply", "done"],
            &["ObjectAdopted"],
        ),
        (
            "it exists and has another owner",
            deployment(),
            new(),
            vec![Refused(conflict()), Found(plain(), foreign())],
            &["create", "read", "refuse: it belongs to Web other"],
            &[],
        ),
        (
            "it was deleted in between",
            deployment(),
            new(),
            vec![Refused(conflict()), Absent],
            &["create", "read", "fail"],
            &[],
        ),
        ("it is ours and has changed", deployment(), policy(), vec![Refused(conflict())], &["apply", "fail"], &[]),
    ]);
}

#[test]
fn an_object_is_read_first_if_others_may_own_its_fields() {
    let suspect = || ObjectPolicy { suspect: true, repaired: true, ..policy() };
    let scaled = || ObjectPolicy { autoscaled: true, ..policy() };
    let replicas = live(&[entry("tillerman", "Apply", &json!({"f:replicas": {}}))], &json!({"replicas": 1}));
    let zero = live(&[entry("tillerman", "Apply", &json!({"f:paused": {}}))], &json!({"replicas": 0}));
    let shared = live(
        &[entry("tillerman", "Apply", &json!({"f:paused": {}})), entry("edit", "Update", &json!({"f:paused": {}}))],
        &json!({"paused": false}),
    );
    let ours = |object| Found(object, Ownership::Ours);
    check(vec![
        (
            "it drifts again and again",
            deployment(),
            suspect(),
            vec![ours(plain()), HandedOver(false), Written(plain())],
            &["read", "leavefields", "handover", "apply", "done"],
            &[],
        ),
        ("and it is gone", deployment(), suspect(), vec![Absent, Written(plain())], &["read", "apply", "done"], &[]),
        (
            "an editor shares the field",
            deployment(),
            suspect(),
            vec![ours(plain()), HandedOver(false), Written(shared)],
            &["read", "leavefields", "handover", "apply", "relinquish"],
            &[],
        ),
        (
            "the replicas are still ours",
            deployment(),
            scaled(),
            vec![ours(replicas), HandedOver(false), Written(plain())],
            &["read", "releasereplicas", "leavefields", "handover", "apply", "done"],
            &[],
        ),
        (
            "they are not ours",
            deployment(),
            scaled(),
            vec![ours(plain()), HandedOver(false), Written(plain())],
            &["read", "leavefields", "handover", "apply", "done"],
            &[],
        ),
        (
            "somebody scaled it to zero",
            deployment(),
            suspect(),
            vec![ours(zero), Autoscaled(true), HandedOver(false), Written(plain())],
            &["read", "lookforautoscalers", "leavefields", "handover", "apply", "done"],
            &[],
        ),
    ]);
}

#[test]
fn fields_of_helm_are_taken_over_and_the_object_is_sent_once_more() {
    check(vec![
        (
            "there were fields to take over",
            deployment(),
            policy(),
            vec![Written(of_helm()), HandedOver(true), Written(of_helm())],
            &["apply", "handover", "apply", "done"],
            &[],
        ),
        (
            "there were none",
            deployment(),
            policy(),
            vec![Written(of_helm()), HandedOver(false)],
            &["apply", "handover", "done"],
            &[],
        ),
        (
            "of a new object",
            deployment(),
            ObjectPolicy { known: false, ..policy() },
            vec![Written(of_helm()), HandedOver(true), Written(plain())],
            &["create", "handover", "apply", "done"],
            &[],
        ),
    ]);
}

#[test]
fn an_object_that_cannot_be_changed_is_recreated_if_this_is_allowed() {
    let forced = || ObjectPolicy { forced: true, ..policy() };
    let found = || Found(plain(), Ownership::Ours);
    let mut deleted = plain();
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-28T09:00:00Z");
    let volume = || object(&Gvk::new("", "v1", "PersistentVolumeClaim"), &json!({"a": 1}));
    let not_allowed = "retain for spec.selector. The annotation helm.sdk.operatorframework.io/upgrade-force: \"true\" on \
                       the custom resource allows it";
    let refused = || Refused(immutable("spec.selector"));
    check(vec![
        ("it is not allowed", deployment(), policy(), vec![refused(), found()], &["apply", "read", not_allowed], &[]),
        (
            "it is allowed",
            deployment(),
            forced(),
            vec![refused(), found(), Written(plain())],
            &["apply", "read", "Delete for spec.selector, claims 0", "apply", "done"],
            &[],
        ),
        (
            "and it is refused again",
            deployment(),
            forced(),
            vec![refused(), found(), refused()],
            &["apply", "read", "Delete for spec.selector, claims 0", "apply", "fail"],
            &[],
        ),
        (
            "its predecessor is being deleted",
            deployment(),
            forced(),
            vec![refused(), Found(deleted, Ownership::Ours)],
            &["apply", "read", "awaitdeletion"],
            &[],
        ),
        (
            "it is gone",
            deployment(),
            policy(),
            vec![refused(), Absent, Written(plain())],
            &["apply", "read", "apply", "done"],
            &[],
        ),
        (
            "its data would be lost",
            volume(),
            forced(),
            vec![refused(), found()],
            &["apply", "read", "retain for spec.selector, so it never is"],
            &[],
        ),
    ]);
}

#[test]
fn claims_are_enlarged_before_their_set_is_recreated() {
    let size = |size: &str| {
        json!({"volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": size}}}}]})
    };
    let set = || object(&Gvk::new("apps", "v1", "StatefulSet"), &size("2Gi"));
    let forced = ObjectPolicy { forced: true, ..policy() };
    let refused = || Refused(immutable("spec.volumeClaimTemplates"));
    let found = || Found(live(&[], &size("1Gi")), Ownership::Ours);
    for (name, policy, expected) in [
        ("with its claims", policy(), "Orphan for spec.volumeClaimTemplates, claims 1"),
        ("the set alone, as the custom resource says", forced, "Orphan for spec.volumeClaimTemplates, claims 0"),
    ] {
        let object = set();
        let mut run = ObjectRun::new(Cow::Borrowed(&object), policy, None);
        run.answered(answer(Some(refused()), &[]));
        let Found(found, ownership) = found() else { unreachable!() };
        run.read(Some((found, ownership)));
        let step = word(&run.next_step());
        assert!(step.starts_with(expected), "{name}: {step}");
    }
}

#[test]
fn fields_that_conflict_with_the_new_shape_are_removed_once() {
    let recreate = json!({"strategy": {"type": "Recreate"}});
    let wanted = || object(&Gvk::new("apps", "v1", "Deployment"), &recreate);
    let rolling = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
    let fields = json!({"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}});
    let of = |managers: &[Value]| Found(live(managers, &rolling), Ownership::Ours);
    let refused = || Refused(invalid("spec.strategy.rollingUpdate"));
    check(vec![
        (
            "the API server's default",
            wanted(),
            policy(),
            vec![refused(), of(&[]), Written(plain())],
            &["apply", "read", "reshape, owners true", "apply", "done"],
            &[],
        ),
        (
            "another client's field",
            wanted(),
            policy(),
            vec![refused(), of(&[entry("edit", "Update", &fields)]), Written(plain())],
            &["apply", "read", "reshape, owners true", "apply", "done"],
            &["FieldRemoved"],
        ),
        (
            "it is refused again",
            wanted(),
            policy(),
            vec![refused(), of(&[]), refused()],
            &["apply", "read", "reshape, owners true", "apply", "fail"],
            &[],
        ),
        ("it is gone", wanted(), policy(), vec![refused(), Absent], &["apply", "read", "fail"], &[]),
        ("nothing conflicts", deployment(), policy(), vec![refused(), of(&[])], &["apply", "read", "fail"], &[]),
    ]);
}

#[test]
fn faults_are_corrected_and_twins_are_replaced() {
    let ports = json!({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}], "more": 1});
    let wanted = || object(&Gvk::new("", "v1", "Service"), &ports);
    let twins = || Refused(untyped(".spec.ports: duplicate entries for key [name=\"a\"]"));
    let unknown = || Refused(untyped(".spec.more: field not declared in schema"));
    let tried = || Written(live(&[], &json!({"ports": [{"name": "a", "port": 2}]})));
    let mended: &[&str] = &["ManifestMended"];
    check(vec![
        (
            "an unknown field",
            wanted(),
            policy(),
            vec![unknown(), Written(plain())],
            &["apply", "apply", "done"],
            mended,
        ),
        (
            "a second item",
            wanted(),
            policy(),
            vec![twins(), tried(), Written(plain())],
            &["apply", "try to apply", "replace", "done"],
            mended,
        ),
        (
            "a second item of a new object",
            wanted(),
            ObjectPolicy { known: false, ..policy() },
            vec![twins(), tried(), Written(plain())],
            &["create", "try to create", "create whole", "done"],
            mended,
        ),
        (
            "the API server refuses both items",
            wanted(),
            policy(),
            vec![twins(), tried(), Refused(invalid("spec.ports")), Written(plain())],
            &["apply", "try to apply", "replace", "apply", "done"],
            mended,
        ),
        (
            "the object has changed meanwhile",
            wanted(),
            policy(),
            vec![twins(), tried(), Refused(conflict())],
            &["apply", "try to apply", "replace", "fail"],
            &[],
        ),
        (
            "a fault that nobody can correct",
            wanted(),
            policy(),
            vec![Refused(untyped(".spec.ports: expected list"))],
            &["apply", "fail"],
            &[],
        ),
    ]);
}

#[test]
fn an_object_is_corrected_twenty_times_and_then_sent_as_it_is() {
    let fields: serde_json::Map<String, Value> = (0..30).map(|n| (format!("f{n}"), json!(1))).collect();
    let wanted = object(&Gvk::new("", "v1", "Service"), &Value::Object(fields));
    let fault = |n: usize| Refused(untyped(&format!(".spec.f{n}: field not declared in schema")));
    let (transcript, run) = play(&wanted, policy(), (0..21).map(fault).collect());
    assert_eq!(transcript.len(), 22);
    assert_eq!(transcript.last().map(String::as_str), Some("fail"));
    assert_eq!(run.body()["spec"].as_object().map(serde_json::Map::len), Some(10));
}

#[test]
fn a_dry_run_reads_the_object_and_stores_nothing() {
    let dry = |known: bool| ObjectPolicy { dry: true, known, ..policy() };
    let forced = || ObjectPolicy { forced: true, ..dry(true) };
    let foreign = || Ownership::Refused("it belongs to Web other".into());
    let found = || Found(plain(), Ownership::Ours);
    let refused = || Refused(immutable("spec.selector"));
    check(vec![
        (
            "it is new",
            deployment(),
            dry(false),
            vec![Absent, Written(plain())],
            &["read", "try to create", "done"],
            &[],
        ),
        (
            "it is ours",
            deployment(),
            dry(true),
            vec![found(), Written(of_helm())],
            &["read", "leavefields", "try to apply", "done"],
            &[],
        ),
        (
            "it has another owner",
            deployment(),
            dry(false),
            vec![Found(plain(), foreign())],
            &["read", "refuse: it belongs to Web other"],
            &[],
        ),
        (
            "it would be recreated",
            deployment(),
            forced(),
            vec![found(), refused()],
            &["read", "leavefields", "try to apply", "Delete for spec.selector, claims 0"],
            &[],
        ),
        (
            "it would be reshaped, which a dry run cannot show",
            deployment(),
            dry(true),
            vec![found(), Refused(invalid("spec.strategy"))],
            &["read", "leavefields", "try to apply", "fail"],
            &[],
        ),
    ]);
}

#[test]
fn a_stateful_set_takes_its_strategy_over_before_it_is_applied() {
    let object = deployment();
    let first = object.body.clone();
    let mut run = ObjectRun::new(Cow::Borrowed(&object), policy(), Some(first));
    let (transcript, _) = continue_with(&mut run, vec![Written(plain())]);
    assert_eq!(transcript, ["applyfirst", "apply", "done"]);
    assert_eq!(run.body()["metadata"]["resourceVersion"], "7");
    let dry = ObjectPolicy { dry: true, ..policy() };
    let mut run = ObjectRun::new(Cow::Borrowed(&object), dry, Some(object.body.clone()));
    let (transcript, _) = continue_with(&mut run, vec![Absent, Written(plain())]);
    assert_eq!(transcript, ["read", "try to create", "done"]);
}

#[test]
fn a_field_that_the_chart_dropped_is_reported_after_an_apply_and_left_out_after_a_dry_run() {
    let before = object(&Gvk::new("apps", "v1", "Deployment"), &json!({"paused": false, "minReadySeconds": 5}));
    let fields = json!({"f:minReadySeconds": {}});
    let kept = |manager: &str| live(&[entry(manager, "Update", &fields)], &json!({"minReadySeconds": 5}));
    let with = |dry: bool| ObjectPolicy { dry, previous: Some(&before), ..policy() };
    let now = deployment();
    let (_, run) = play(&now, with(false), vec![Written(kept("edit"))]);
    assert_eq!(reasons(&run.outcome().notices), ["FieldStays"]);
    for (manager, expected) in [("helm", json!({})), ("edit", json!({"minReadySeconds": 5}))] {
        let results = vec![Found(kept(manager), Ownership::Ours), Written(kept(manager))];
        let (_, run) = play(&now, with(true), results);
        assert_eq!(run.outcome().answer.unwrap()["spec"], expected, "{manager}");
    }
}
