//! Learns which secrets the texts of a release may quote, so that they can be masked.

use super::values;
use crate::mask::Secrets;
use crate::object::Object;
use crate::reconcile::context::Context;
use crate::reconcile::error::Error;
use crate::reconcile::observed::Observed;
use crate::reconcile::records::read_record;

/// Makes sure that the secrets which the texts of a release may quote are known. After a restart they are unknown until
/// a pass renders or repairs something. Returns whether they are known.
pub async fn learn(observed: &Observed, ctx: &Context) -> bool {
    let (masks, key) = (&ctx.memory.masks, &observed.key);
    if !observed.extras.sources.is_empty() && !masks.knows_sources(key) {
        values::learn(observed, ctx).await;
    }
    if !masks.knows_objects(key)
        && let Some(newest) = observed.facts.history.last()
    {
        let record = match &observed.record {
            Ok(Some(record)) => Ok(Some(record.clone())),
            _ => read_record(&observed.owner, newest.revision, ctx).await,
        };
        match record.map(|record| record.map(|record| record.objects())) {
            Ok(Some(Ok(objects))) => learn_secrets(&objects, observed, ctx),
            // There is no record of ours, or no readable one: no known object can hold a secret.
            Ok(None | Some(Err(_))) | Err(Error::Record(_)) => {}
            Err(error) => {
                tracing::debug!(%error, name = %key.name, "the secrets that texts of a release can quote are unknown");
            }
        }
    }
    (observed.extras.sources.is_empty() || masks.knows_sources(key)) && masks.knows_objects(key)
}

/// Masks the content of the release's own Secrets in all texts, including the notes.
pub fn learn_secrets(objects: &[Object], observed: &Observed, ctx: &Context) {
    let owner = &observed.owner;
    let names = objects.iter().flat_map(|object| [object.name.as_str(), &*object.gvk.kind]);
    let mut secrets =
        Secrets::of_objects(names.chain([&*owner.release_name, &*owner.release_namespace, &*owner.chart]));
    for object in objects.iter().filter(|o| o.gvk.group.is_empty() && &*o.gvk.kind == "Secret") {
        secrets.add_secret_object(&object.body);
    }
    ctx.memory.masks.learn(&observed.key, secrets);
}
