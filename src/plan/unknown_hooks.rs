//! Hooks that nobody runs. Helm skips a document if it does not know one of its hook names. So a misspelt name makes an
//! object vanish without a message.

use crate::members::document::{self, ScaleEvent};
use crate::release::status_fields;
use crate::render::Hook;
use crate::render::order::EVENTS as HOOK_EVENTS;
use crate::template::trace::nearest;

use super::operations;

/// The hooks that neither Helm nor the operator knows: a sentence for each.
pub fn describe(unknown: &[Hook]) -> Vec<String> {
    let is_known = |event: &str| {
        event == document::MEMBERS
            || event == status_fields::STATUS
            || ScaleEvent::parse(event).is_some()
            || event.starts_with(operations::document::PREFIX)
    };
    let mut sentences = Vec::new();
    for hook in unknown {
        let is_helms = |event: &&String| HOOK_EVENTS.contains(&event.as_str());
        let Some(event) = hook.events.iter().find(|event| !is_known(event) && !is_helms(event)) else { continue };
        let names = HOOK_EVENTS
            .into_iter()
            .chain(ScaleEvent::ALL.map(ScaleEvent::as_str))
            .chain([document::MEMBERS, status_fields::STATUS]);
        let meant = nearest(event, names).map(|name| format!("; {name:?} may be meant")).unwrap_or_default();
        let (kind, name) = (&hook.manifest.kind, &hook.manifest.name);
        sentences.push(format!(
            "{kind} {name}: neither Helm nor Tillerman knows the hook {event:?}, so the object is never created{meant}"
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::render::{Hook, Manifest};

    fn hook(events: &[&str]) -> Hook {
        Hook {
            manifest: Manifest { kind: "Job".into(), name: "j".into(), ..Manifest::default() },
            events: events.iter().map(|event| (*event).to_owned()).collect(),
            weight: 0,
            delete_policies: Vec::new(),
            output_log_policies: Vec::new(),
        }
    }

    #[test]
    fn a_misspelt_name_is_said_with_the_nearest_one() {
        for (events, expected) in [
            (
                &["post-instal"][..],
                Some("\"post-instal\", so the object is never created; \"post-install\" may be meant"),
            ),
            (&["somebody-elses"], Some("\"somebody-elses\", so the object is never created")),
            (
                &["post-install", "after-raedy"],
                Some("\"after-raedy\", so the object is never created; \"after-ready\" may be meant"),
            ),
            (&["members"], None),
            (&["status"], None),
            (&["before-scale-up", "after-ready"], None),
            (&["operation/backup"], None),
        ] {
            let said = describe(&[hook(events)]);
            assert_eq!(said.len(), usize::from(expected.is_some()), "{events:?}");
            if let Some(expected) = expected {
                assert!(said[0].ends_with(expected), "{said:?}");
            }
        }
    }
}
