//! What a change does to a running release, the worst first.

use super::compare::{Existence, ObjectDelta};
use super::fields::FieldDifference;
use super::immutable_fields::is_immutable;
use crate::plan::immutable::{Remake, claim_sizes, differ_in_labels, remake};

/// The effect of a change. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The custom resource can no longer be rendered.
    Fails,
    /// The definition of the new chart refuses the custom resource.
    Refused,
    /// The API server refuses an object.
    Denied,
    /// An object is deleted, and data with it.
    LosesData,
    /// An object is deleted.
    Deleted,
    /// A field cannot be changed, so the release fails.
    Stuck,
    /// An object is deleted and created again.
    Recreated,
    /// A volume changes.
    Volume,
    /// A Service changes its type.
    ServiceType,
    /// The pods of a StatefulSet are replaced.
    SetRolls,
    /// The pods of a Deployment or a `DaemonSet` are replaced.
    Rolls,
    /// The new chart does not know a value of the custom resource.
    Unknown,
    /// No custom resource had an object of this kind, so the operator may lack rights.
    NewKind,
    /// Fields of an object change.
    Changed,
    /// An object is created.
    Created,
    /// The chart no longer has an object, and it stays.
    LeftBehind,
    /// A hook, or a declaration of the chart, changes.
    Hook,
    /// The custom resource could not be rendered, and now it can.
    Repaired,
}

/// The effects that are not listed as hurting.
const HARMLESS: [Effect; 5] = [Effect::Changed, Effect::Created, Effect::LeftBehind, Effect::Hook, Effect::Repaired];

impl Effect {
    /// Whether it hurts.
    pub fn hurts(self) -> bool {
        !HARMLESS.contains(&self)
    }

    /// The effect in one or two words, for tables and documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::LosesData => "loses data",
            Self::Deleted => "deleted",
            Self::Stuck => "immutable",
            Self::Recreated => "recreated",
            Self::Volume => "volume",
            Self::ServiceType => "service type",
            Self::SetRolls | Self::Rolls => "rolls",
            Self::Unknown => "unknown value",
            Self::NewKind => "new kind",
            Self::Changed => "changed",
            Self::Created => "created",
            Self::LeftBehind => "left behind",
            Self::Hook => "hook",
            Self::Repaired => "repaired",
        }
    }

    /// The effect as the end of a sentence that begins with the object.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Fails => "can no longer be rendered",
            Self::Refused => "is refused by the definition that `tillerman crd` makes of the new chart",
            Self::Denied => "is refused by the API server",
            Self::LosesData => "is deleted, and everything in it is lost",
            Self::Deleted => "is deleted",
            Self::Stuck => {
                "has a field that cannot be changed: the release fails until the custom resource allows recreating it"
            }
            Self::Recreated => "is deleted and created again, because a field cannot be changed",
            Self::Volume => "has a volume that changes",
            Self::ServiceType => "changes its type, so addresses and ports may change",
            Self::SetRolls => "replaces its pods, one after the other",
            Self::Rolls => "replaces its pods",
            Self::Unknown => "has a value that the new chart does not know",
            Self::NewKind => {
                "is a kind that no release has now: the operator needs rights for it, which `tillerman rbac` prints"
            }
            Self::Changed => "changes",
            Self::Created => "is created",
            Self::LeftBehind => "is no longer in the chart, and stays",
            Self::Hook => "changes; it has an effect when it runs the next time",
            Self::Repaired => "could not be rendered, and can be rendered then",
        }
    }
}

/// The effect of an object that comes or goes; `None` for one that exists now and then.
pub fn of_object(delta: &ObjectDelta) -> Option<Effect> {
    Some(match delta.existence {
        Existence::Same => return None,
        _ if delta.is_hook => Effect::Hook,
        Existence::Created => Effect::Created,
        Existence::LeftBehind => Effect::LeftBehind,
        Existence::Deleted if remake(&delta.id.gvk).0 == Remake::Never => Effect::LosesData,
        Existence::Deleted => Effect::Deleted,
    })
}

/// The effect of the change of one field. `may_recreate`: the custom resource allows recreating objects.
pub fn of_field(delta: &ObjectDelta, field: &FieldDifference, may_recreate: bool) -> Effect {
    let (group, kind) = (&*delta.id.gvk.group, &*delta.id.gvk.kind);
    let is =
        |prefix: &str| field.path.strip_prefix(prefix).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    match (group, kind) {
        _ if delta.is_hook => Effect::Hook,
        ("apps", "StatefulSet") if is("spec.volumeClaimTemplates") => of_claims(delta, may_recreate),
        _ if delta.now.as_ref().is_some_and(|now| is_immutable(&delta.id.gvk, now, field)) => {
            let never = remake(&delta.id.gvk).0 == Remake::Never;
            if may_recreate && !never { Effect::Recreated } else { Effect::Stuck }
        }
        ("", "PersistentVolumeClaim" | "PersistentVolume") if is("spec") => Effect::Volume,
        ("", "Service") if is("spec.type") => Effect::ServiceType,
        ("apps", "StatefulSet") if is("spec.template") => Effect::SetRolls,
        ("apps", "Deployment" | "DaemonSet") if is("spec.template") => Effect::Rolls,
        _ => Effect::Changed,
    }
}

/// The effect of other templates of claims: labels cost nothing, and claims are enlarged.
fn of_claims(delta: &ObjectDelta, may_recreate: bool) -> Effect {
    let (Some(now), Some(then)) = (&delta.now, &delta.then) else { return Effect::Stuck };
    match () {
        () if differ_in_labels(now, then) => Effect::Changed,
        () if claim_sizes(now, then).is_some() => Effect::Volume,
        () if may_recreate => Effect::Recreated,
        () => Effect::Stuck,
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, of_field, of_object};
    use crate::fleet::compare::{Existence, ObjectDelta};
    use crate::fleet::fields::FieldDifference;
    use crate::object::{Gvk, ObjectId};
    use serde_json::{Value, json};

    fn delta(api_version: &str, kind: &str, existence: Existence) -> ObjectDelta {
        ObjectDelta {
            id: ObjectId { gvk: Gvk::from_api_version(api_version, kind), namespace: None, name: "a".into() },
            is_hook: false,
            existence,
            fields: Vec::new(),
            now: Some(json!({})),
            then: Some(json!({})),
        }
    }

    #[test]
    fn a_field_has_the_effect_of_its_kind() {
        let table = [
            ("apps/v1", "Deployment", "spec.template.spec.containers[a].image", Effect::Rolls),
            ("apps/v1", "Deployment", "spec.templates", Effect::Changed),
            ("apps/v1", "Deployment", "spec.replicas", Effect::Changed),
            ("apps/v1", "Deployment", "spec.selector.matchLabels.a", Effect::Stuck),
            ("apps/v1", "StatefulSet", "spec.template.metadata.labels.a", Effect::SetRolls),
            ("apps/v1", "StatefulSet", "spec.serviceName", Effect::Stuck),
            ("v1", "Service", "spec.type", Effect::ServiceType),
            ("v1", "Service", "spec.ports[http].port", Effect::Changed),
            ("v1", "PersistentVolumeClaim", "spec.resources.requests.storage", Effect::Volume),
            ("v1", "PersistentVolumeClaim", "spec.accessModes", Effect::Stuck),
            ("example.com/v1", "Deployment", "spec.template", Effect::Changed),
        ];
        for (api_version, kind, path, expected) in table {
            let field = FieldDifference { path: path.to_owned(), before: Some(json!(1)), after: Some(json!(2)) };
            assert_eq!(of_field(&delta(api_version, kind, Existence::Same), &field, false), expected, "{kind} {path}");
        }
    }

    #[test]
    fn an_immutable_field_is_recreated_where_that_is_allowed_and_never_for_a_volume() {
        let field =
            |path: &str| FieldDifference { path: path.to_owned(), before: Some(json!(1)), after: Some(json!(2)) };
        let of = |kind: &str, api_version: &str, path: &str| {
            of_field(&delta(api_version, kind, Existence::Same), &field(path), true)
        };
        assert_eq!(of("StatefulSet", "apps/v1", "spec.serviceName"), Effect::Recreated);
        assert_eq!(of("PersistentVolumeClaim", "v1", "spec.storageClassName"), Effect::Stuck);
    }

    #[test]
    fn claims_are_enlarged() {
        let set = |size: &str, label: &str| {
            json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"v": label}},
                "spec": {"resources": {"requests": {"storage": size}}}}]}})
        };
        let field = FieldDifference { path: "spec.volumeClaimTemplates".to_owned(), before: None, after: None };
        let of = |then: Value| {
            let delta = ObjectDelta {
                now: Some(set("1Gi", "1")),
                then: Some(then),
                ..delta("apps/v1", "StatefulSet", Existence::Same)
            };
            of_field(&delta, &field, false)
        };
        assert_eq!(of(set("2Gi", "1")), Effect::Volume);
        assert_eq!(of(set("2Gi", "2")), Effect::Stuck);
        assert_eq!(of(set("1Gi", "2")), Effect::Changed);
    }

    #[test]
    fn an_object_that_goes_hurts_and_most_if_it_has_data() {
        for (api_version, kind, existence, expected) in [
            ("v1", "PersistentVolumeClaim", Existence::Deleted, Effect::LosesData),
            ("v1", "ConfigMap", Existence::Deleted, Effect::Deleted),
            ("v1", "PersistentVolumeClaim", Existence::LeftBehind, Effect::LeftBehind),
            ("v1", "ConfigMap", Existence::Created, Effect::Created),
        ] {
            assert_eq!(of_object(&delta(api_version, kind, existence)), Some(expected), "{kind}");
        }
        let hook = ObjectDelta { is_hook: true, ..delta("batch/v1", "Job", Existence::Deleted) };
        assert_eq!(of_object(&hook), Some(Effect::Hook));
        assert!(Effect::Deleted.hurts() && Effect::Rolls.hurts() && !Effect::Created.hurts());
    }
}
