//! One pass over one release: the diagram of ARCHITECTURE.md in code.

use super::apply::{Planned, apply};
use super::context::Context;
use super::error::Error;
use super::observe::observe;
use super::render::render;
use super::report::done::Done;
use super::report::next::Next;
use super::report::report;
use super::trust::verify;
use super::{members, operations};
use crate::cluster::cache::ReleaseKey;

/// Brings one release closer to the state that its custom resource describes. Each step takes the result of an earlier
/// step as an argument, so a pass that leaves out a step does not compile.
pub async fn reconcile(key: &ReleaseKey, ctx: &Context) -> Result<Next, Error> {
    let Some(observed) = observe(key, ctx).await else {
        ctx.forget(key);
        return Ok(Next::Event);
    };
    observed.follow(ctx);
    let verified = match verify(observed, ctx).await {
        Ok(verified) => verified,
        Err(failed) => return report(&failed.observed, Done::stopped(failed.error), ctx).await,
    };
    if let Some(held) = members::before_deletion(&verified, ctx).await {
        return report(&verified, Done::only(held), ctx).await;
    }
    let applied = if let Some(held) = operations::hold(&verified) {
        held
    } else {
        let planned = render(&verified, ctx).await.map(|prepared| Planned::new(&verified, prepared));
        apply(&verified, planned, ctx).await
    };
    let members = members::step(&verified, &applied, ctx).await;
    let operations = operations::step(&verified, &applied, &members, ctx).await;
    report(&verified, Done { applied, members, operations }, ctx).await
}
