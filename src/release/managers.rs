//! Which manager owns which fields of an object, and which fields are handed over (docs/design/applying.md B1, B2, C2).

use serde_json::{Value, json};

use super::fields::Fields;
use super::owned::{MANAGER, has_subresource, is_ours};
use crate::object::metadata;

/// Helm 4 applies under this name, and Helm 3 and its libraries update; helm-operator's is that of its binary.
const HELM: [&str; 2] = ["helm", "helm-operator"];
/// The name that the API server uses for the owner of fields when it does not know it: for objects without
/// managedFields, and for entries beyond its limit. They may have fields of any client, so only those that a manifest
/// of ours names are taken.
const UNKNOWN: [&str; 2] = ["before-first-apply", "ancient-changes"];
/// Helm writes it into every object of a release. Its owner is Helm under another name: Helm's library uses the name of the program.
const HELM_MARK: &str = "/fieldsV1/f:metadata/f:annotations/f:meta.helm.sh~1release-name";
/// kubectl, by its verbs. Its users copy and edit objects with that mark in them.
const KUBECTL: &str = "kubectl";

/// The entries of `metadata.managedFields` of an object.
pub fn managed(object: &Value) -> &[Value] {
    metadata(object).get("managedFields").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether fields need [`hand_over`]: without it they would stay when the chart drops them.
pub fn needs_hand_over(managed: &[Value]) -> bool {
    let main = || managed.iter().filter(|e| !has_subresource(e));
    if main().any(is_helm) {
        return true;
    }
    let mut unknown = main().filter(|e| UNKNOWN.contains(&manager(e))).peekable();
    unknown.peek().is_some() && {
        let ours = ours(managed);
        unknown.any(|e| !shared(&fields(e), &ours).is_empty())
    }
}

/// Whether fields that are ours, or need [`hand_over`], were written in another version of the object's group. They have
/// other names there, and an apply does not remove all of them (tried on 1.36: the API server translates dropped fields only in
/// part). After an apply of the whole object in this version they are ours in it.
pub fn is_in_other_version(managed: &[Value], api_version: &str) -> bool {
    managed.iter().filter(|e| !has_subresource(e)).any(|entry| {
        let concerns = is_ours(entry) || is_helm(entry) || UNKNOWN.contains(&manager(entry));
        concerns && !is_of(entry, api_version) && !fields(entry).without(&fields(entry).only("metadata")).is_empty()
    })
}

/// `managedFields` in which Helm's fields are ours, or `None` when there is nothing to take. From an unknown owner
/// the fields that one of `manifests` has are taken. From an entry in another version only the metadata is taken, which is the same in all.
pub fn hand_over(managed: &[Value], api_version: &str, manifests: &[&Value]) -> Option<Vec<Value>> {
    let mut taken = Fields::default();
    let mut others = Vec::new();
    for entry in managed.iter().filter(|e| !is_ours(e)) {
        if has_subresource(entry) {
            others.push(entry.clone());
        } else if is_helm(entry) {
            let all = fields(entry);
            taken = taken.union(if is_of(entry, api_version) { all } else { all.only("metadata") });
        } else if UNKNOWN.contains(&manager(entry)) {
            let all = fields(entry);
            let named = manifests.iter().fold(Fields::default(), |named, body| named.union(all.within(body)));
            others.extend(with_fields(entry, &all.without(&named)));
            taken = taken.union(named);
        } else {
            others.push(entry.clone());
        }
    }
    if taken.is_empty() && !managed.iter().any(|e| !has_subresource(e) && !is_ours(e) && is_helm(e)) {
        return None;
    }
    let entry = json!({"manager": MANAGER, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": taken.union(ours(managed)).write()});
    others.push(entry);
    Some(others)
}

/// Owns the replicas after the chart has stopped writing them and before the autoscaler has set them.
const AUTOSCALER: &str = "tillerman-autoscaler";

/// `managedFields` in which the replicas are no longer ours, or `None` when they are not: an apply that leaves out a field of ours would
/// set it back to its default.
pub fn release_replicas(managed: &[Value], api_version: &str) -> Option<Vec<Value>> {
    let replicas = Fields::read(&json!({"f:spec": {"f:replicas": {}}}));
    if shared(&ours(managed), &replicas).is_empty() {
        return None;
    }
    let without = |entry: &Value| {
        if is_ours(entry) { with_fields(entry, &fields(entry).without(&replicas)) } else { Some(entry.clone()) }
    };
    let mut entries: Vec<Value> = managed.iter().filter_map(without).collect();
    entries.push(
        json!({"manager": AUTOSCALER, "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": replicas.write()}),
    );
    Some(entries)
}

/// `managedFields` in which only we own these fields, so that the next apply removes them, and their earlier owners.
pub fn take(managed: &[Value], api_version: &str, taken: &Fields) -> (Vec<Value>, Vec<String>) {
    let (mut entries, mut owners) = (Vec::new(), Vec::new());
    for entry in managed.iter().filter(|e| !is_ours(e)) {
        let all = fields(entry);
        let left = all.without(taken);
        if left.write() != all.write() {
            owners.push(manager(entry).to_owned());
        }
        entries.extend(with_fields(entry, &left));
    }
    entries.push(json!({"manager": MANAGER, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": ours(managed).union(taken.clone()).write()}));
    (entries, owners)
}

/// `managedFields` after an object was replaced by `replacer` with the result that an apply would have had: our fields
/// are as after that apply (`wanted`), and the replacement owns nothing. `None` when it is already like that.
pub fn replaced(managed: &[Value], wanted: &[Value], replacer: &str) -> Option<Vec<Value>> {
    let is_replacement = |e: &Value| manager(e) == replacer && !has_subresource(e);
    let left = managed.iter().filter(|e| !is_ours(e) && !is_replacement(e));
    let entries: Vec<Value> = left.chain(wanted.iter().filter(|e| is_ours(e))).cloned().collect();
    let is_so = !managed.iter().any(is_replacement) && ours(managed).write() == ours(wanted).write();
    (!is_so).then_some(entries)
}

/// `managedFields` in which no `Update` of others owns a field together with us, or `None` when none does: a field that
/// somebody edited away and back would stay when the chart drops it. Other appliers keep their share.
pub fn relinquish(managed: &[Value]) -> Option<Vec<Value>> {
    let ours = ours(managed);
    let mut changed = false;
    let mut entries = Vec::new();
    for entry in managed {
        let subresource = entry.get("subresource").and_then(Value::as_str).unwrap_or_default();
        let update = entry.get("operation").and_then(Value::as_str) == Some("Update");
        let shared = if update && matches!(subresource, "" | "scale") {
            shared(&fields(entry), &ours)
        } else {
            Fields::default()
        };
        if shared.is_empty() {
            entries.push(entry.clone());
        } else {
            changed = true;
            entries.extend(with_fields(entry, &fields(entry).without(&shared)));
        }
    }
    changed.then_some(entries)
}

/// A field of another manager: one that the chart dropped and that stays because of the other manager, or one that it took from us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// As people write it.
    pub path: String,
    /// The JSON pointer to it in the object as the chart writes it; `None` where it is not there, or was not looked for.
    pub pointer: Option<String>,
    pub manager: String,
}

/// The fields that `before` had and `now` lacks, and that `managed`, from the answer to the apply, still has.
pub fn survivors(managed: &[Value], before: &Value, now: &Value) -> Vec<Survivor> {
    let mut survivors = Vec::new();
    for entry in managed.iter().filter(|e| !is_ours(e)) {
        let all = fields(entry);
        let left = all.within(before).without(&all.within(now));
        let of = |path: String| Survivor { path, pointer: None, manager: manager(entry).to_owned() };
        survivors.extend(left.paths().into_iter().map(of));
    }
    survivors
}

/// The fields of `wanted` that others own and we do not.
pub fn taken(managed: &[Value], wanted: &Value) -> Vec<Survivor> {
    let ours = ours(managed);
    let of = |entry: &Value| {
        let taken = fields(entry).within(wanted).without(&ours);
        let of = |(path, pointer)| Survivor { path, pointer, manager: manager(entry).to_owned() };
        taken.paths_in(wanted).into_iter().map(of).collect::<Vec<_>>()
    };
    managed.iter().filter(|e| !is_ours(e)).flat_map(of).collect()
}

/// Whether Helm or we applied an object, or the owner is unknown. A copy that a user made has another owner.
pub fn is_applied(managed: &[Value]) -> bool {
    let mut main = managed.iter().filter(|e| !has_subresource(e));
    let mut others = main.clone().filter(|e| !UNKNOWN.contains(&manager(e)));
    others.next().is_none() || main.any(|e| is_ours(e) || is_helm(e))
}

/// Whether a user has made or changed an object with kubectl.
pub fn is_by_kubectl(managed: &[Value]) -> bool {
    managed.iter().any(|entry| !has_subresource(entry) && manager(entry).starts_with(KUBECTL))
}

/// `managedFields` in which what `applier` wrote by a create or an update, and what Helm wrote, is as if `applier` had applied it: the next
/// apply removes what it lacks. `None` when it is already like that.
pub fn as_applied(managed: &[Value], applier: &str, api_version: &str) -> Option<Vec<Value>> {
    let is_applied = |e: &Value| manager(e) == applier && e.get("operation").is_some_and(|o| o == "Apply");
    let (taken, mut entries): (Vec<&Value>, Vec<&Value>) = managed.iter().partition(|entry| {
        !has_subresource(entry) && is_of(entry, api_version) && (manager(entry) == applier || is_helm(entry))
    });
    if taken.iter().all(|entry| is_applied(entry)) {
        return None;
    }
    let all = taken.into_iter().fold(Fields::default(), |all, entry| all.union(fields(entry)));
    let entry = json!({"manager": applier, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1",
        "fieldsV1": all.write()});
    entries.push(&entry);
    Some(entries.into_iter().cloned().collect())
}

/// The owner of `spec.replicas` through the subresource `scale`.
pub fn scalers(managed: &[Value]) -> Vec<&str> {
    let scales = |e: &&Value| {
        e.get("subresource").and_then(Value::as_str) == Some("scale")
            && e.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    };
    managed.iter().filter(scales).map(manager).collect()
}

/// Whether an object has no replicas and no manager owns that: a client that scales to zero through the subresource
/// `scale` owns nothing (tried on 1.36).
pub fn is_scaled_to_zero(managed: &[Value], object: &Value) -> bool {
    let owns = |entry: &Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    object.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0) && !managed.iter().any(owns)
}

/// Our fields.
pub fn ours(managed: &[Value]) -> Fields {
    managed.iter().filter(|e| is_ours(e)).fold(Fields::default(), |all, entry| all.union(fields(entry)))
}

/// Fields that both own. A list or map of which each owns different parts is not shared.
fn shared(a: &Fields, b: &Fields) -> Fields {
    a.leaves().intersection(&b.leaves())
}

fn is_helm(entry: &Value) -> bool {
    let name = manager(entry);
    let other_program = || {
        entry.pointer(HELM_MARK).is_some() && name != MANAGER && !name.starts_with(KUBECTL) && !UNKNOWN.contains(&name)
    };
    HELM.contains(&name) || other_program()
}

fn is_of(entry: &Value, api_version: &str) -> bool {
    entry.get("apiVersion").and_then(Value::as_str) == Some(api_version)
}

fn manager(entry: &Value) -> &str {
    entry.get("manager").and_then(Value::as_str).unwrap_or_default()
}

fn fields(entry: &Value) -> Fields {
    entry.get("fieldsV1").map(Fields::read).unwrap_or_default()
}

/// The entry with other fields; none without any.
fn with_fields(entry: &Value, fields: &Fields) -> Option<Value> {
    let mut entry = entry.clone();
    entry["fieldsV1"] = fields.write();
    (!fields.is_empty()).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::{as_applied, hand_over, is_applied, is_in_other_version, needs_hand_over, ours, relinquish, survivors};
    use serde_json::{Value, json};

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn data(names: &[&str]) -> Value {
        let names = names.iter().map(|n| (format!("f:{n}"), json!({}))).collect::<serde_json::Map<_, _>>();
        json!({"f:data": names})
    }

    /// B1.
    #[test]
    fn what_helm_owned_is_ours_and_what_others_own_is_theirs() {
        let marked = json!({"f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}});
        for (manager, operation, fields, taken) in [
            ("helm", "Update", data(&["a"]), true),
            ("helm", "Apply", data(&["a"]), true),
            ("helm-operator", "Update", data(&["a"]), true),
            ("nginx-operator", "Update", marked.clone(), true),
            ("kubectl-create", "Update", marked, false),
            ("kubectl-edit", "Update", data(&["a"]), false),
        ] {
            let managed = [entry("tillerman", "Apply", &data(&["b"])), entry(manager, operation, &fields)];
            assert_eq!(needs_hand_over(&managed), taken, "{manager}");
            let after = hand_over(&managed, "v1", &[]);
            assert_eq!(after.is_some(), taken, "{manager}");
            if let Some(after) = after {
                assert_eq!(after.len(), 1, "{after:?}");
                assert!(ours(&after).names(&["data", "b"]));
                assert_eq!(hand_over(&after, "v1", &[]), None);
            }
        }
    }

    /// B1.
    #[test]
    fn what_was_written_in_another_version_is_known_and_only_its_metadata_is_taken() {
        let labelled = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:old": {}}});
        let managed = [entry("helm", "Update", &labelled), entry("tillerman", "Apply", &data(&["b"]))];
        assert!(!is_in_other_version(&managed, "v1"));
        let mut others = managed.clone();
        others[0]["apiVersion"] = "v0".into();
        assert!(is_in_other_version(&others, "v1"));
        let after = hand_over(&others, "v1", &[]).unwrap();
        assert_eq!(ours(&after).write(), json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:b": {}}}));
        assert!(!is_in_other_version(&after, "v1"));
        // An entry without metadata is removed, too: its fields are ours since the apply before.
        let mut bare = entry("helm", "Update", &data(&["old"]));
        bare["apiVersion"] = "v0".into();
        assert_eq!(hand_over(&[managed[1].clone(), bare], "v1", &[]).unwrap(), managed[1..]);
        // Ours as well, and no other manager's.
        assert!(is_in_other_version(&managed[1..], "v2"));
        assert!(!is_in_other_version(&[entry("kubectl-edit", "Update", &data(&["a"]))], "v2"));
    }

    /// B1.
    #[test]
    fn entries_of_subresources_stay_where_they_are() {
        let mut status = entry("helm-operator", "Update", &json!({"f:status": {}}));
        status["subresource"] = "status".into();
        assert!(!needs_hand_over(std::slice::from_ref(&status)));
        assert_eq!(hand_over(&[status], "v1", &[]), None);
    }

    /// B2.
    #[test]
    fn of_an_unknown_owner_only_what_our_manifests_name_is_taken() {
        let unknown = json!({"f:data": {"f:a": {}, "f:b": {}, "f:theirs": {}}});
        let managed = [entry("before-first-apply", "Update", &unknown), entry("tillerman", "Apply", &data(&["a"]))];
        assert!(needs_hand_over(&managed));
        let previous = json!({"data": {"b": "1"}});
        let now = json!({"data": {"a": "1"}});
        let after = hand_over(&managed, "v1", &[&previous, &now]).unwrap();
        assert_eq!(ours(&after).write(), data(&["a", "b"]));
        assert_eq!(after[0]["fieldsV1"], data(&["theirs"]));
        assert!(!needs_hand_over(&after));
    }

    /// C2.
    #[test]
    fn a_repaired_field_is_taken_from_an_update_and_not_from_another_applier() {
        let both = json!({"f:data": {".": {}, "f:a": {}, "f:x": {}}});
        let managed = [
            entry("tillerman", "Apply", &json!({"f:data": {".": {}, "f:a": {}}})),
            entry("kubectl-edit", "Update", &both),
            entry("somebody", "Apply", &both),
        ];
        let after = relinquish(&managed).unwrap();
        assert_eq!(after[1]["fieldsV1"], json!({"f:data": {".": {}, "f:x": {}}}));
        assert_eq!(after[2], managed[2]);
        // A map in which each has its own keys is not shared.
        assert_eq!(relinquish(&after), None);
    }

    #[test]
    fn what_was_created_is_as_if_it_was_applied() {
        let (ours, somebody) = (entry("us", "Update", &data(&["a"])), entry("kubectl-edit", "Update", &data(&["c"])));
        let managed = [ours, entry("helm", "Apply", &data(&["b"])), somebody.clone()];
        let after = as_applied(&managed, "us", "v1").unwrap();
        assert_eq!(after, [somebody.clone(), entry("us", "Apply", &data(&["a", "b"]))]);
        assert_eq!(as_applied(&after, "us", "v1"), None);
        assert_eq!(as_applied(&[somebody], "us", "v1"), None);
    }

    /// D1.
    #[test]
    fn a_copy_by_a_user_is_not_ours_whatever_it_says() {
        let marked = json!({"f:metadata": {"f:annotations": {"f:meta.helm.sh/release-name": {}}}});
        for (entries, applied) in [
            (vec![("tillerman", "Apply"), ("kubectl-edit", "Update")], true),
            (vec![("helm", "Update")], true),
            (vec![("nginx-operator", "Update")], true),
            (vec![("kubectl-create", "Update")], false),
            (vec![("before-first-apply", "Update")], true),
            (vec![("before-first-apply", "Update"), ("kubectl", "Apply")], false),
            (vec![], true),
        ] {
            let managed: Vec<Value> = entries.iter().map(|(name, operation)| entry(name, operation, &marked)).collect();
            assert_eq!(is_applied(&managed), applied, "{entries:?}");
        }
    }

    /// B2.
    #[test]
    fn a_field_that_survives_is_named_with_its_owner() {
        let managed = [entry("kubectl-edit", "Update", &data(&["a", "b"])), entry("tillerman", "Apply", &data(&["b"]))];
        let found = survivors(&managed, &json!({"data": {"a": "1", "b": "1"}}), &json!({"data": {"b": "2"}}));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].manager.as_str()), ("data.a", "kubectl-edit"));
    }
}
