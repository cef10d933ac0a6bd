//! `tillerman adopt`: releases of Helm, or loose objects, become custom resources. The command first finds the changes
//! that the first pass would make.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::chart;
use crate::chart::Values;
use crate::cli::common::changes::{notes, text};
use crate::cli::common::chart_label::name_and_version;
use crate::cli::common::colours::Color;
use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::kinds::kinds;
use crate::cli::common::line::line;
use crate::cli::common::next_pass::asked;
use crate::cli::common::output::{OutputArgs, OutputFormat, as_yaml};
use crate::cli::common::release::is_label_value;
use crate::cli::common::server::Server;
use crate::cli::common::stored::{as_stored, whole_numbers};
use crate::cli::common::streams::print;
use crate::cli::common::target::Target;
use crate::cli::common::values_files;
use crate::cluster::discovery::Resource;
use crate::kind::allow::Reach;
use crate::kind::{ChartRef, Kind};
use crate::names;
use crate::object::Gvk;
use crate::reconcile::history::history;
use crate::reconcile::preview::{Fate, Preview};
use crate::release::record::Status;

/// The object to adopt.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AdoptCommand {
    /// Make a custom resource of a Helm release
    Release(ReleaseArgs),
    /// Make a custom resource of loose objects
    Objects(ObjectsArgs),
}

/// The arguments of both.
#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// The operator's watches.yaml, whose kind and chart the custom resource gets.
    #[arg(long, value_name = "FILE", required = true)]
    watches_file: PathBuf,
    /// The kind [default: the one whose chart has the name of the release's chart].
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Create the custom resources, if the first pass would change nothing. Without it they are only printed.
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Print the custom resources, and the changes that the first pass would make; this is the default.
    #[arg(long)]
    dry_run: bool,
    /// With --apply: create them also if the first pass would change something.
    #[arg(long, requires = "apply")]
    allow_changes: bool,
    /// Colours: on a terminal, unless `NO_COLOR` is set; always; or never.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Arguments of `tillerman adopt release`.
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    /// The release.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Every release of the namespace whose chart is that of a kind.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `tillerman adopt objects`.
#[derive(Debug, clap::Args)]
pub(super) struct ObjectsArgs {
    /// Label selector of the objects: the command names those that the chart does not have.
    #[arg(short = 'l', long, value_name = "SELECTOR", required = true)]
    selector: String,
    /// Name of the custom resource.
    #[arg(long, required = true)]
    name: String,
    /// Values in a YAML file: its spec.
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

/// A custom resource that is proposed.
struct Proposal {
    kind: Kind,
    name: String,
    spec: Values,
    annotations: BTreeMap<&'static str, String>,
    /// The source that it is made of.
    from: String,
}

/// Adopts.
pub(super) fn run(command: &AdoptCommand) -> Result<(), CliError> {
    match command {
        AdoptCommand::Release(args) => releases(args),
        AdoptCommand::Objects(args) => objects(args),
    }
}

fn releases(args: &ReleaseArgs) -> Result<(), CliError> {
    let common = &args.common;
    let of_charts = of_charts(common)?;
    let server = common.connect.connect()?;
    let namespace = common.connect.namespace();
    let wanted = server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let names: Vec<String> = if let Some(name) = &args.name {
            vec![name.clone()]
        } else {
            let secrets = cluster.list_metadata(&Resource::secrets(), Some(&namespace), "owner=helm").await;
            let secrets = secrets.map_err(|e| CliError(line(&e.whole())))?;
            let name = |secret: &Value| secret.pointer("/metadata/labels/name")?.as_str().map(str::to_owned);
            secrets.iter().filter_map(name).collect::<BTreeSet<_>>().into_iter().collect()
        };
        let mut wanted = Vec::new();
        for name in names {
            match proposal(&name, &namespace, common, &of_charts, cluster).await {
                Ok(proposal) => wanted.push(proposal),
                Err(why) if args.all => eprintln!("note: {}", line(&why.0)),
                Err(why) => return Err(CliError(line(&why.0))),
            }
        }
        Ok(wanted)
    })?;
    if wanted.is_empty() {
        return Err(CliError(format!("there is no release to adopt in namespace {namespace}")));
    }
    propose(&server, common, &namespace, &wanted, |_| Ok(()))
}

/// The kinds of the watches file by the names of their charts.
fn of_charts(common: &CommonArgs) -> Result<Vec<(String, Kind)>, CliError> {
    let mut found = Vec::new();
    for kind in kinds(Some(&common.watches_file), &Gvk::new("", "", ""))? {
        let is_meant = common.kind.as_ref().is_none_or(|word| is_called(&kind.gvk, word));
        match &kind.chart {
            ChartRef::Path(path) if is_meant => {
                let chart = chart::load(path).map_err(|e| CliError(format!("{}: {e}", kind.gvk)))?;
                found.push((chart.metadata.name, kind));
            }
            // Its name is known once it is fetched; the last part of its link is as good a guess.
            ChartRef::Link(link) if is_meant => {
                let last = link.rsplit('/').next().unwrap_or_default();
                let name = last.split([':', '@']).next().unwrap_or_default().trim_end_matches(".tgz");
                found.push((name_and_version(name).0.to_owned(), kind));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        let word = common.kind.as_deref().map_or_else(String::new, |word| format!(" {}", line(word)));
        return Err(CliError(format!("{} has no kind{word}", common.watches_file.display())));
    }
    Ok(found)
}

fn is_called(gvk: &Gvk, word: &str) -> bool {
    let (name, group) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
    let plural = crate::crd::plural(&gvk.kind);
    (gvk.kind.eq_ignore_ascii_case(name) || plural.eq_ignore_ascii_case(name)) && group.is_none_or(|g| *gvk.group == *g)
}

/// The custom resource for a release; or why there is none, in a sentence.
async fn proposal(
    name: &str,
    namespace: &str,
    common: &CommonArgs,
    of_charts: &[(String, Kind)],
    cluster: &crate::cluster::client::Cluster,
) -> Result<Proposal, CliError> {
    if !is_label_value(name) {
        return Err(format!("{name} is not a valid name of a release").into());
    }
    let kept = history(namespace, name, cluster).await.map_err(|e| e.whole())?;
    let newest = kept.last().ok_or_else(|| format!("there is no release {name} in namespace {namespace}"))?;
    if let Some(owner) = &newest.revision.owner {
        return Err(format!("release {name} belongs to {owner} already").into());
    }
    if newest.revision.status != Status::Deployed {
        let status = newest.revision.status;
        return Err(format!("release {name} is {status}: only a deployed release can be adopted").into());
    }
    let record = newest.record.as_ref().map_err(|why| format!("release {name}: {why}"))?;
    let of_record = record.chart().name;
    let fits: Vec<&Kind> = of_charts
        .iter()
        .filter(|(chart, _)| *chart == of_record || common.kind.is_some())
        .map(|(_, kind)| kind)
        .collect();
    let kind = match fits.as_slice() {
        [kind] => (*kind).clone(),
        [] => {
            return Err(format!(
                "release {name} has chart {of_record}, and no kind in the watches file has that chart"
            )
            .into());
        }
        several => {
            let words: Vec<String> = several.iter().map(|kind| kind.gvk.kind_group()).collect();
            return Err(format!(
                "release {name} has chart {of_record}, the chart of {}: select one with --kind",
                words.join(" and ")
            )
            .into());
        }
    };
    let mut annotations = take_over(&kind)?;
    let own = match name.strip_suffix(&*kind.release_suffix).filter(|own| !own.is_empty()) {
        Some(own) => own.to_owned(),
        None if kind.allow.iter().any(|reach| reach == Reach::ReleaseName) => {
            annotations.insert(names::RELEASE_NAME, name.to_owned());
            name.to_owned()
        }
        None => {
            return Err(format!(
                "release {name} does not end with {}, the releaseSuffix of {}",
                kind.release_suffix, kind.gvk
            )
            .into());
        }
    };
    if let Some(target) = kind.placement.target.as_deref().filter(|target| *target != namespace) {
        return Err(format!("releases of {} are in namespace {target}, and {name} is in {namespace}", kind.gvk).into());
    }
    let from =
        format!("release {name}, revision {}, chart {of_record}-{}", newest.revision.revision, record.chart().version);
    Ok(Proposal { kind, name: own, spec: record.config(), annotations, from })
}

/// The annotation that lets the operator take over what exists.
fn take_over(kind: &Kind) -> Result<BTreeMap<&'static str, String>, CliError> {
    if kind.switches.take_ownership {
        return Ok(BTreeMap::new());
    }
    if kind.allow.iter().any(|reach| reach == Reach::TakeOwnership) {
        return Ok(BTreeMap::from([(names::TAKE_OWNERSHIP, "true".to_owned())]));
    }
    Err(format!(
        "{} is not allowed to take over existing objects: write allow: [takeOwnership], or takeOwnership: true, into \
         watches.yaml",
        kind.gvk
    )
    .into())
}

fn objects(args: &ObjectsArgs) -> Result<(), CliError> {
    let common = &args.common;
    let of_charts = of_charts(common)?;
    let [(chart, kind)] = of_charts.as_slice() else {
        return Err(CliError::new("the watches file has several kinds: select one with --kind"));
    };
    let mut spec = match &args.values {
        Some(path) => Value::Object(values_files::read(path)?.values),
        None => Value::Object(Map::new()),
    };
    whole_numbers(&mut spec);
    let Value::Object(spec) = spec else { unreachable!("it was an object") };
    let proposal = Proposal {
        kind: kind.clone(),
        name: args.name.clone(),
        spec,
        annotations: take_over(kind)?,
        from: format!("objects with labels {}, for chart {chart}", line(&args.selector)),
    };
    let server = common.connect.connect()?;
    let namespace = common.connect.namespace();
    server.block_on(async |_, discovery| discovery.refresh().await.map_err(CliError::new))?;
    propose(&server, common, &namespace, &[proposal], |preview| left(&server, args, &namespace, preview))
}

/// Names the objects that the selector matches and the chart does not have.
fn left(server: &Server, args: &ObjectsArgs, namespace: &str, preview: &Preview) -> Result<(), CliError> {
    let made: BTreeSet<_> = preview.changes.iter().map(|change| change.id.in_any_version()).collect();
    let gvks: BTreeSet<&Gvk> = preview.changes.iter().map(|change| &change.id.gvk).collect();
    server.block_on(async |cluster, discovery| {
        for gvk in gvks {
            let Some(resource) = discovery.cached(gvk) else { continue };
            let place = Some(namespace).filter(|_| resource.namespaced);
            let found = cluster.list_metadata(&resource, place, &args.selector).await;
            for object in found.map_err(|e| CliError(line(&e.whole())))? {
                let text = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
                let id = (&*gvk.group, &*gvk.kind, text("namespace"), text("name").unwrap_or_default());
                if !made.contains(&id) && object.pointer("/metadata/ownerReferences").is_none() {
                    eprintln!("note: {} {} is not part of the chart, and stays as it is", gvk.kind, line(id.3));
                }
            }
        }
        Ok(())
    })
}

/// Prints the custom resources and the changes of their first pass, and creates them if requested.
fn propose(
    server: &Server,
    common: &CommonArgs,
    namespace: &str,
    wanted: &[Proposal],
    check: impl Fn(&Preview) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let all = kinds(Some(&common.watches_file), &Gvk::new("", "", ""))?;
    let mut found = Vec::new();
    for proposal in wanted {
        let gvk = &proposal.kind.gvk;
        let mut body = json!({"apiVersion": gvk.api_version(), "kind": &*gvk.kind,
            "metadata": {"name": proposal.name, "namespace": namespace}, "spec": proposal.spec});
        if !proposal.annotations.is_empty() {
            body["metadata"]["annotations"] = json!(proposal.annotations);
        }
        let (target, stored) = server.block_on(async |cluster, discovery| {
            let target = Target::find(&gvk.kind_group(), &proposal.name, namespace, discovery).await?;
            if !target.resource.namespaced {
                return Err(CliError(format!("{gvk} is cluster-scoped: write its custom resource by hand")));
            }
            let live = cluster.get(&target.resource, &target.id).await.map_err(|e| CliError(line(&e.whole())))?;
            if live.is_some() {
                return Err(CliError(format!("{} exists already", target.shown())));
            }
            let stored = as_stored(&body, None, &target, cluster).await?;
            Ok((target, stored))
        })?;
        let config = server.config().clone();
        let asking = asked(config, all.clone(), &target, None, namespace.to_owned(), Some(stored));
        let preview = server.block_on(async |_, _| asking.await)?;
        let changes = preview.changes.iter().filter(|change| !change.is_mark);
        let touched = changes.filter(|change| !matches!(change.fate, Fate::Refused(_))).count();
        let is_refused = preview.error.is_some()
            || preview.changes.iter().any(|change| matches!(change.fate, Fate::Refused(_)))
            || matches!(preview.state.0, "Refused" | "Blocked" | "Awaiting" | "Waiting");
        let is_same = touched == 0 && !is_refused && preview.hooks.is_empty();
        let marked = preview.changes.iter().filter(|change| change.is_mark).count();
        if matches!(common.output.output, OutputFormat::Text | OutputFormat::Wide) {
            print(&format!("---\n# {}\n{}", line(&proposal.from), as_yaml(&body)?));
            notes(&preview);
            check(&preview)?;
            let mut rest = Preview { changes: preview.changes.clone(), ..preview };
            rest.changes.retain(|change| !change.is_mark);
            let said = text(&rest, common.color.is_on());
            if !said.is_empty() {
                eprint!("{said}");
            }
            for (event, hook) in &rest.hooks {
                eprintln!("note: the {event} hook {} would run", line(hook));
            }
            if let Some(why) = &rest.error {
                eprintln!("note: the first pass would fail: {}", line(why));
            }
            eprintln!("{}", verdict(is_same, is_refused, touched, marked));
        }
        if common.apply && !is_same && !common.allow_changes {
            let why = "was not created: the first pass would change something. --allow-changes creates it";
            return Err(CliError(format!("{} {why}", target.shown())));
        }
        if common.apply {
            server.block_on(async |cluster, _| {
                let created = cluster.create_by_hand(&target.resource, &target.id, &body).await;
                created.map_err(|e| CliError(line(&e.whole())))
            })?;
            eprintln!("{} created", target.shown());
        }
        found.push(json!({"customResource": body, "from": proposal.from, "unchanged": is_same, "changes": touched, "marked": marked}));
    }
    common.output.print(&json!({"items": found}))?;
    Ok(())
}

fn verdict(is_same: bool, is_refused: bool, touched: usize, marked: usize) -> String {
    match () {
        () if is_refused => "the first pass would not succeed".to_owned(),
        () if is_same => {
            format!("the first pass would change nothing; {marked} objects get the custom resource as their owner")
        }
        () => format!("the first pass would change {touched} objects, besides the owner of {marked}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_called, verdict};
    use crate::object::Gvk;

    #[test]
    fn a_kind_is_called_as_kubectl_takes_it() {
        let gvk = Gvk::new("a.example.com", "v1", "Proxy");
        for word in ["Proxy", "proxy", "proxies", "proxies.a.example.com"] {
            assert!(is_called(&gvk, word), "{word}");
        }
        assert!(!is_called(&gvk, "proxy.b.example.com") && !is_called(&gvk, "web"));
    }

    #[test]
    fn the_verdict_says_whether_anything_changes() {
        assert!(verdict(true, false, 0, 3).contains("change nothing; 3 objects"));
        assert!(verdict(false, false, 2, 3).contains("change 2 objects"));
        assert!(verdict(false, true, 0, 0).contains("not succeed"));
    }
}
