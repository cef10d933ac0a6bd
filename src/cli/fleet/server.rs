//! The same with dry runs of the next passes, which a live API server answers.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::FleetArgs;
use super::sides::{FleetCase, Sides};
use super::work::{CaseResult, demanded, is_same, of_whole};
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::stored::whole_numbers;
use crate::fleet::compare::{FleetDrawing, FleetObject, compare};
use crate::fleet::effect::Effect;
use crate::fleet::findings::{FleetEntry, FleetSubject, entries};
use crate::fleet::placeholders::Placeholders;
use crate::kind::Kind;
use crate::object::Gvk;
use crate::plan::immutable::is_allowed;
use crate::reconcile::charts::Loaded;
use crate::reconcile::offline::PlainResource;
use crate::reconcile::preview::{AskedKind, Fate, Preview, Previews};
use crate::template::yaml;

/// Asks about all, in their order. Progress is on standard error, if that is a terminal.
pub(super) fn all(cases: &[FleetCase], sides: &Sides, args: &FleetArgs) -> Result<Vec<CaseResult>, CliError> {
    let server = args.connect.connect()?;
    let namespaces = if args.all_namespaces { Vec::new() } else { vec![args.connect.namespace()] };
    let config = server.config().clone();
    server.block_on(async |_, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let mut kinds: Vec<Kind> = Vec::new();
        let mut asked = Vec::new();
        for served in &sides.then {
            let gvk = served.resource(discovery).await?.gvk.clone();
            asked.push(AskedKind { gvk: gvk.clone(), chart: Some(Arc::new(Loaded::new(served.chart.clone()))) });
            kinds.push(Kind { gvk, ..served.kind.clone() });
        }
        let gvks: Vec<Gvk> = kinds.iter().map(|kind| kind.gvk.clone()).collect();
        let previews = Previews::start(kinds, asked, namespaces, config).await.map_err(|why| CliError(line(&why)))?;
        let (began, mut done) = (Instant::now(), Vec::with_capacity(cases.len()));
        for (number, case) in cases.iter().enumerate() {
            let gvk = gvks.iter().find(|gvk| gvk.kind == case.gvk.kind && gvk.group == case.gvk.group);
            done.push(one(case, gvk, &previews).await);
            let due = Duration::from_millis(previews.requests() * 1000 / u64::from(args.qps));
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            show_progress(number + 1, cases.len(), began.elapsed());
        }
        Ok(done)
    })
}

/// Shows how many are done, and how long the others will take at the same pace.
fn show_progress(done: usize, total: usize, took: Duration) {
    let mut error = std::io::stderr();
    if !error.is_terminal() {
        return;
    }
    let left = took.as_secs() * u64::try_from(total - done).unwrap_or(0) / u64::try_from(done).unwrap_or(1);
    let end = if done == total { "\n" } else { "" };
    // Without a terminal to write to, nobody reads it.
    let _ = write!(error, "\r{done} of {total} custom resources, about {left} s left \x1b[K{end}");
}

async fn one(case: &FleetCase, gvk: Option<&Gvk>, previews: &Previews) -> CaseResult {
    let mut result = CaseResult::default();
    let (Some((cr, served)), Some(gvk)) = (&case.then, gvk) else {
        result.notes.push("a dry run does not show its deletion: compare without --server".to_owned());
        return result;
    };
    if is_same(case) {
        return result;
    }
    let owner = cr.owner(&served.kind, &served.chart);
    let own = (&*case.id.0, &*case.id.1);
    result.entries.placeholders = Placeholders::new((&*owner.release_namespace, &*owner.release_name), own);
    let changed = case.now.as_ref().is_none_or(|(now, _)| now != cr).then(|| cr.object());
    match previews.of(gvk, own.0, own.1, changed.as_ref()).await {
        Ok(preview) => entered(case, cr, preview, &mut result),
        Err(why) => result.entries.entries.push(of_whole(case, Effect::Fails, why)),
    }
    demanded(case, &mut result);
    result
}

/// Enters what a preview shows.
fn entered(case: &FleetCase, cr: &PlainResource, preview: Preview, result: &mut CaseResult) {
    let Preview { state, changes, notes, error, .. } = preview;
    result.notes.extend(notes);
    if let Some(why) = error {
        result.entries.entries.push(of_whole(case, Effect::Fails, why));
    }
    match state {
        ("Refused", why) => result.entries.entries.push(of_whole(case, Effect::Fails, why)),
        (word @ ("Awaiting" | "Waiting" | "Blocked"), why) => result.notes.push(format!("{word}: {why}")),
        _ => {}
    }
    let (mut now, mut then) = (FleetDrawing::default(), FleetDrawing::default());
    for change in changes.into_iter().filter(|change| !change.is_mark) {
        if let Fate::Refused(why) = change.fate {
            let subject = FleetSubject::of(&change.id);
            let put = |text: &str| result.entries.placeholders.put(text).into_owned();
            let subject = FleetSubject { name: put(&subject.name), namespace: put(&subject.namespace), ..subject };
            let (path, after) = (String::new(), Some(put(&why)));
            let entry = FleetEntry { effect: Effect::Denied, subject, path, before: None, after };
            result.entries.entries.push((entry, None));
            continue;
        }
        for (text, side) in [(&change.before, &mut now), (&change.after, &mut then)] {
            // The text is our own; a Secret that is not shown is a comment, and so nothing.
            let mut body = yaml::parse(text.as_bytes()).unwrap_or_default();
            whole_numbers(&mut body);
            if !body.is_null() {
                side.objects.push(FleetObject { id: change.id.clone(), body, is_hook: false, is_kept: false });
            }
        }
    }
    let may_recreate = is_allowed(&cr.annotations, false);
    let compared = compare(now, then);
    result.entries.entries.extend(entries(&compared, may_recreate, &|text| Some(text.to_owned())));
}
