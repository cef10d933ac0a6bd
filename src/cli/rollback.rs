//! `tillerman rollback`: gives a custom resource the values of an earlier revision. The operator does the rest, as after any change.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use serde_json::{Value, json};

use crate::chart::Values;
use crate::cli::common::colours::Color;
use crate::cli::common::connect::ConnectArgs;
use crate::cli::common::error::CliError;
use crate::cli::common::line::line;
use crate::cli::common::output::as_yaml;
use crate::cli::common::release::{release_of, revisions};
use crate::cli::common::target::{Target, words};
use crate::cli::common::unified::{Mark, unified};
use crate::cluster::client::Cluster;
use crate::plan::status::difference;
use crate::reconcile::history::Kept;
use crate::release::changes::{is_of_spec_alone, without_overrides};
use crate::release::record::{Record, Status};
use crate::render::Capabilities;

/// How often the spec is written again after a change of the status.
const ATTEMPTS: usize = 5;

/// Arguments of `tillerman rollback`.
#[derive(Debug, clap::Args)]
pub(super) struct RollbackArgs {
    /// The custom resource, KIND NAME or KIND/NAME, and the revision [default: the last good one before the newest].
    #[arg(required = true, num_args = 1..=3, value_names = ["KIND", "NAME", "REVISION"])]
    what: Vec<String>,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Colours: on a terminal, unless `NO_COLOR` is set; always; or never.
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Shows what would change, asks, and changes the spec.
pub(super) fn run(args: &RollbackArgs) -> Result<(), CliError> {
    let (kind, name, rest) = words(&args.what)?;
    let revision = match rest {
        [] => None,
        [number] => Some(number.parse().map_err(|_| CliError(format!("{} is not a revision", line(number))))?),
        [_, more, ..] => return Err(CliError(format!("unexpected argument {more:?}"))),
    };
    let server = args.connect.connect()?;
    let namespace = args.connect.namespace();
    server.block_on(async |cluster, discovery| {
        discovery.refresh().await.map_err(CliError::new)?;
        let target = Target::find(kind, name, &namespace, discovery).await?;
        let cr = target.get(cluster).await?;
        let kept = revisions(&cr, cluster).await?;
        let info = discovery.info();
        let capabilities =
            Capabilities { kube_version: info.kube_version.clone(), api_versions: info.api_versions.clone() };
        let (number, spec) = chosen(&cr, &kept, revision, &capabilities).map_err(|why| CliError(line(&why.0)))?;
        let (before, after) = (cr.get("spec").cloned().unwrap_or_else(|| json!({})), Value::Object(spec));
        if before == after {
            println!("{} has the values of revision {number} already", target.shown());
            return Ok(());
        }
        println!("{} gets the values of revision {number}; its chart stays as it is:", target.shown());
        show(&as_yaml(&before)?, &as_yaml(&after)?, args.color.is_on());
        if !args.yes && !confirmed()? {
            return Err(CliError::new("nothing was changed"));
        }
        write(&target, cr, &difference(&before, &after), cluster).await?;
        println!("{} rolled back to revision {number}", target.shown());
        Ok(())
    })
}

/// Changes the spec, if no other client has. The operator may have written the status meanwhile.
async fn write(target: &Target, mut cr: Value, spec: &Value, cluster: &Cluster) -> Result<(), CliError> {
    let seen = |cr: &Value| ["uid", "generation"].map(|field| cr["metadata"][field].clone());
    for _ in 0..ATTEMPTS {
        let patch = json!({"metadata": {"resourceVersion": cr["metadata"]["resourceVersion"]}, "spec": spec});
        match cluster.edit(&target.resource, &target.id, &patch).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_conflict() => {
                let now = target.get(cluster).await?;
                if seen(&now) != seen(&cr) {
                    break;
                }
                cr = now;
            }
            Err(e) => return Err(CliError(line(&e.whole()))),
        }
    }
    Err(CliError(format!("{} changed meanwhile: run the command again", target.shown())))
}

/// The revision to roll back to, and the spec that it had.
fn chosen(
    cr: &Value,
    kept: &[Kept],
    revision: Option<u64>,
    capabilities: &Capabilities,
) -> Result<(u64, Values), CliError> {
    let (newest, older) = kept.split_last().ok_or("there is no release")?;
    let is_good = |kept: &&Kept| matches!(kept.revision.status, Status::Deployed | Status::Superseded);
    let target = match revision {
        Some(number) => kept.iter().find(|kept| kept.revision.revision == number).ok_or_else(|| {
            let known: Vec<String> = kept.iter().map(|kept| kept.revision.revision.to_string()).collect();
            format!("there is no revision {number}; there are {}", known.join(", "))
        })?,
        None => older.iter().rev().find(is_good).ok_or("there is no earlier revision that was deployed")?,
    };
    // A revision that rolled back to an earlier one has the inputs of the change that failed.
    let source = target.revision.rollback.and_then(|to| kept.iter().find(|kept| kept.revision.revision == to));
    let source = source.unwrap_or(target);
    let number = target.revision.revision;
    let config = source.record.as_ref().map_err(|why| format!("revision {number} cannot be read: {why}"))?.config();
    let (namespace, release) = release_of(cr);
    if source.revision.inputs.is_none() {
        return Err(format!(
            "revision {number} was made by another client, such as `helm`: its values are not those of a spec. `helm \
             get values {release} --revision {number}` shows them"
        )
        .into());
    }
    if !is_of_spec_alone(&config, &source.revision, &release, &namespace, capabilities) {
        return Err(format!(
            "the values of revision {number} cannot be separated: its record has them together with those of Secrets, \
             ConfigMaps or other custom resources (valuesFrom, dependsOn), or the API server has changed since. None \
             of them is written into the spec: `helm get values {release} --revision {number}` shows all of them"
        )
        .into());
    }
    let spec = cr.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_observed = cr.pointer("/status/observedGeneration") == cr.pointer("/metadata/generation");
    let present = newest.record.as_ref().map(Record::config).unwrap_or_default();
    Ok((number, if is_observed { without_overrides(config, &present, &spec) } else { config }))
}

fn show(before: &str, after: &str, color: bool) {
    for (mark, text) in unified(before, after) {
        let text = line(&text);
        match mark {
            Mark::Removed if color => println!("\u{1b}[31m{text}\u{1b}[0m"),
            Mark::Added if color => println!("\u{1b}[32m{text}\u{1b}[0m"),
            _ => println!("{text}"),
        }
    }
}

/// Asks whether to continue.
pub(super) fn confirmed() -> Result<bool, CliError> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(CliError::new(
            "nothing was changed: without a terminal, the command cannot ask you; --yes does it without asking",
        ));
    }
    print!("Change it? [y/N] ");
    std::io::stdout().flush().map_err(CliError::new)?;
    let mut answer = String::new();
    input.lock().read_line(&mut answer).map_err(CliError::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::chosen;
    use crate::chart::Chart;
    use crate::reconcile::history::Kept;
    use crate::release::digest::{Inputs, inputs};
    use crate::release::record::{New, Record, Status, chart_json};
    use crate::release::secret::Revision;
    use crate::render::{Capabilities, Rendered};
    use serde_json::{Value, json};

    fn kept(number: u64, status: &str, values: Value, extras: Option<&str>) -> Kept {
        let values = serde_json::from_value(values).unwrap();
        let record = Record::new(&New {
            name: "app",
            namespace: "ns",
            revision: number,
            status: Status::Deployed,
            description: "",
            first_deployed: "",
            now: "",
            chart: &chart_json(&Chart::default()),
            config: &values,
            rendered: &Rendered::default(),
        });
        let mut annotations = json!({"tillerman.dev/chart": "c"});
        if let Some(extras) = extras {
            let of = Inputs { chart: "c", values: &values, name: "app", namespace: "ns", capabilities: "", extras };
            annotations["tillerman.dev/inputs"] = inputs(&of).into();
        }
        let labels = json!({"name": "app", "version": number.to_string(), "status": status});
        let (_, revision) = Revision::read(&json!({"labels": labels, "annotations": annotations})).unwrap();
        Kept { revision, record: Ok(record) }
    }

    #[test]
    fn it_goes_back_to_the_last_good_revision_and_writes_nothing_that_came_from_elsewhere() {
        let cr = json!({"metadata": {"name": "app", "namespace": "ns", "generation": 4}, "spec": {"a": 4},
            "status": {"observedGeneration": 4}});
        let kept = [
            kept(1, "superseded", json!({"a": 1}), None),
            kept(2, "superseded", json!({"a": 2, "over": 1}), Some("")),
            kept(3, "failed", json!({"a": 3}), Some("sources")),
            kept(4, "deployed", json!({"a": 4, "over": 1}), Some("")),
        ];
        let go =
            |revision| chosen(&cr, &kept, revision, &Capabilities::default()).map(|(n, spec)| (n, Value::Object(spec)));
        assert_eq!(go(None), Ok((2, json!({"a": 2}))));
        assert!(go(Some(1)).unwrap_err().0.contains("another client"));
        assert!(go(Some(3)).unwrap_err().0.contains("cannot be separated"));
        assert!(go(Some(9)).unwrap_err().0.ends_with("there are 1, 2, 3, 4"));
    }
}
