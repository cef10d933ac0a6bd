//! `tillerman init`: starts a project of an operator, with the flags of `operator-sdk init`.

use clap::builder::PossibleValue;

use crate::cli::common::error::CliError;
use crate::cli::common::project::api::{ApiArgs, api, built_in};
use crate::cli::common::project::generate;
use crate::cli::common::project::written::Written;
use crate::kind::dns;
use crate::scaffold::built_in::BuiltIn;
use crate::scaffold::project::Project;

/// The project, and the first kind.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The suffix of the groups of the kinds [default: my.domain].
    #[arg(long)]
    domain: Option<String>,
    /// Name of the project: the prefix of its objects, and the first part of its namespace [default: the name of this folder].
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,
    /// The operator carries out notices: mail and webhooks about releases. Also for an existing project.
    #[arg(long)]
    notices: bool,
    /// Kinds of Tillerman's own, with their charts: `mysql` (`MySQLCluster`), `php` (`PhpApp`), `wordpress` (`WordPress`), `etcd`
    /// (`EtcdCluster`, `EtcdBackup` and `EtcdRestore`). Also for a project that is there.
    #[arg(long, value_name = "KIND", value_delimiter = ',', hide_possible_values = true,
        conflicts_with_all = ["group", "version", "kind", "plural", "helm_chart", "native"])]
    built_in: Vec<BuiltIn>,
    #[command(flatten)]
    api: ApiArgs,
    /// Accepted as of operator-sdk: helm is the only one.
    #[arg(long, hide = true, value_delimiter = ',')]
    plugins: Vec<String>,
    /// Accepted as of operator-sdk: 3 is the only one.
    #[arg(long, hide = true, default_value = "3")]
    project_version: String,
}

impl clap::ValueEnum for BuiltIn {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (word, kinds) = match self {
            Self::Mysql => ("mysql", "`MySQLCluster`"),
            Self::Php => ("php", "`PhpApp`"),
            Self::Wordpress => ("wordpress", "`WordPress`"),
            Self::Etcd => ("etcd", "`EtcdCluster`, `EtcdBackup` and `EtcdRestore`"),
        };
        Some(PossibleValue::new(word).help(kinds))
    }
}

/// The longest name of a project: what Kubernetes adds to names of pods of its Deployment must fit.
const LONGEST: usize = 40;

/// Writes the project, and its first kind if a chart or a kind is given.
pub fn run(args: &InitArgs) -> Result<(), CliError> {
    if let Some(other) = args.plugins.iter().find(|name| !name.split('/').next().is_some_and(is_helm)) {
        return Err(CliError(format!("the plugin {other} is not known: projects are made of charts (--plugins helm)")));
    }
    if args.project_version != "3" {
        return Err(CliError(format!("project version {} is not known: it is 3", args.project_version)));
    }
    let known = generate::read()?;
    let mut project = match known.clone() {
        Some(project) => {
            for (given, flag, is) in
                [(&args.project_name, "--project-name", &project.name), (&args.domain, "--domain", &project.domain)]
            {
                if given.as_ref().is_some_and(|given| given != is) {
                    return Err(CliError(format!(
                        "there is a project here, and its {flag} is {is}: leave out {flag}, or use another folder"
                    )));
                }
            }
            project
        }
        None => new(args)?,
    };
    let before = known.unwrap_or_else(|| project.clone());
    project.notices |= args.notices;
    let mut written = Written::default();
    generate::project(&project, &before, &mut written)?;
    if !args.built_in.is_empty() {
        return built_in(&args.built_in, project, written);
    }
    if args.api.is_given() {
        return api(&args.api, project, written);
    }
    written.report()?;
    println!("Next: add a kind with\n  tillerman create api --helm-chart CHART");
    Ok(())
}

fn is_helm(name: &str) -> bool {
    name == "helm" || name.ends_with("helm.sdk.operatorframework.io")
}

fn new(args: &InitArgs) -> Result<Project, CliError> {
    let folder = std::env::current_dir().map_err(CliError::new)?;
    let name = args.project_name.clone().unwrap_or_else(|| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        name.replace(['_', '.', ' '], "-")
    });
    if !dns::is_label(&name) || name.len() > LONGEST {
        return Err(CliError(format!(
            "{name:?} is not a valid name of a project: give one with --project-name, of at most {LONGEST} lower-case \
             letters, digits and dashes"
        )));
    }
    let domain = args.domain.clone().unwrap_or_else(|| "my.domain".to_owned());
    if !dns::is_subdomain(&domain) {
        return Err(CliError(format!("--domain: {domain:?} is not a DNS name such as example.com")));
    }
    Ok(Project::new(&name, &domain))
}
