//! The parts: what each needs and runs.

use std::path::Path;
use std::time::Duration;

/// A part of the tests.
pub struct CiPart {
    pub name: &'static str,
    pub about: &'static str,
    /// Sets of tools that `tests/cluster/build-tools.sh` builds for it.
    pub tools: &'static [&'static str],
    /// Whether it needs the program as it is released.
    pub release: bool,
    /// It keeps all cores busy, or waits for what has to happen within seconds: nothing runs beside it.
    pub alone: bool,
    /// Most of its time goes into compiling.
    pub compiles: bool,
    pub steps: fn() -> Vec<CiStep>,
}

/// One command of a part, with what has to be there before.
pub struct CiStep {
    pub name: String,
    pub command: String,
    pub counts: Counts,
    pub prepare: Vec<String>,
    pub limit: Duration,
    /// It is a command of cargo's test runner of which a share of the tests may be run.
    pub takes_share: bool,
    /// Its command names the tests that failed before.
    pub is_narrowed: bool,
}

/// How the output of a command says what passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// It passes or fails as a whole.
    Whole,
    /// As cargo's test runner.
    Cargo,
    /// Lines `…: N passed, N failed` of a script.
    Lines,
}

impl CiStep {
    pub fn new(name: &str, command: impl Into<String>, counts: Counts) -> Self {
        Self {
            name: name.to_owned(),
            command: command.into(),
            counts,
            prepare: Vec::new(),
            limit: Duration::from_mins(40),
            takes_share: false,
            is_narrowed: false,
        }
    }
    fn whole(name: &str, command: impl Into<String>) -> Self {
        Self::new(name, command, Counts::Whole)
    }
    fn cargo(name: &str, command: impl Into<String>) -> Self {
        Self::new(name, command, Counts::Cargo)
    }
    fn lines(name: &str, command: impl Into<String>) -> Self {
        Self::new(name, command, Counts::Lines)
    }
    fn after<const N: usize>(mut self, commands: [&str; N]) -> Self {
        self.prepare = commands.map(str::to_owned).into();
        self
    }
    fn within(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }
    fn shared(mut self) -> Self {
        self.takes_share = true;
        self
    }
}

const TEST: &str = "nice cargo test --workspace --features tillerman/cluster-tests";
const BUILD: &str = "make --no-print-directory build";
const BUILD_OPERATOR: &str = "nice cargo test --no-run --workspace --features tillerman/cluster-tests --test operator";
/// The agent, which the tests of it run.
const PROGRAM_OF_AGENT: &str = "nice cargo build --workspace --features tillerman/cluster-tests --bin tillerman-agent";
const WITH: &str = "tests/cluster/with.sh";
/// What `make build` makes.
const BIN: &str = "${CARGO_TARGET_DIR:-target}/tillerman";

/// All parts.
pub const PARTS: &[CiPart] = &[
    CiPart {
        name: "format",
        about: "rustfmt",
        tools: &[],
        release: false,
        alone: true,
        compiles: false,
        steps: format,
    },
    CiPart {
        name: "lint",
        about: "clippy, pedantic, warnings are errors; the documentation; licences of crates",
        tools: &[],
        release: false,
        alone: true,
        compiles: true,
        steps: lint,
    },
    CiPart {
        name: "library",
        about: "the crates that are published: the renderer alone, examples, documentation tests, packages",
        tools: &[],
        release: false,
        alone: true,
        compiles: true,
        steps: library,
    },
    CiPart {
        name: "unit",
        about: "unit, case and documentation tests",
        tools: &[],
        release: false,
        alone: true,
        compiles: true,
        steps: unit,
    },
    CiPart {
        name: "cluster",
        about: "tests on a real API server",
        tools: &["control-plane", "sources", "members", "mail", "browser", "external-metrics"],
        release: false,
        alone: false,
        compiles: false,
        steps: cluster,
    },
    CiPart {
        name: "types",
        about: "the types of public charts: what they refuse, and what an API server makes of them",
        tools: &["control-plane"],
        release: true,
        alone: false,
        compiles: false,
        steps: types,
    },
    CiPart {
        name: "documents",
        about: "the command blocks of README.md, the tutorial and how-to pages, on a real API server",
        tools: &["control-plane", "sources", "mail"],
        release: false,
        alone: false,
        compiles: false,
        steps: documents,
    },
    CiPart {
        name: "sources",
        about: "charts from repositories, registries and directories, side by side with helm",
        tools: &["sources"],
        release: false,
        alone: false,
        compiles: false,
        steps: sources,
    },
    CiPart {
        name: "gitops",
        about: "what Argo CD shows of custom resources, by its own package, what Flux' kustomize-controller does with them, and how Karmada reads them",
        tools: &["control-plane", "gitops"],
        release: false,
        alone: false,
        compiles: false,
        steps: gitops,
    },
    CiPart {
        name: "signatures",
        about: "signed images, charts and releases against cosign and helm",
        tools: &["sources", "signatures"],
        release: false,
        alone: false,
        compiles: false,
        steps: signatures,
    },
    CiPart {
        name: "alerts",
        about: "alert rules and dashboard against Prometheus' own tool; the bundle against operator-framework's; workflows against actionlint",
        tools: &["metrics", "bundle"],
        release: false,
        alone: false,
        compiles: false,
        steps: || {
            let scripts = ["alerts", "bundle", "workflows"];
            scripts.map(|name| CiStep::whole(name, format!("tests/{name}.sh"))).into()
        },
    },
    CiPart {
        name: "conformance",
        about: "charts and function vectors against the recorded output of Helm 4.3.1",
        tools: &[],
        release: true,
        alone: false,
        compiles: false,
        steps: || released("conformance", "tests/conformance/run.sh"),
    },
    CiPart {
        name: "instructions",
        about: "how many instructions three charts take, against the recorded counts",
        tools: &[],
        release: true,
        alone: false,
        compiles: false,
        steps: || released("instructions", "tests/instructions/run.sh"),
    },
    CiPart {
        name: "lint-charts",
        about: "`tillerman lint` side by side with `helm lint` on the corpus",
        tools: &["control-plane"],
        release: true,
        alone: false,
        compiles: false,
        steps: lint_charts,
    },
    CiPart {
        name: "rights",
        about: "how much of what values files of real charts render is in the rules of `tillerman rbac`; twenty charts under their rules",
        tools: &["control-plane"],
        release: false,
        alone: false,
        compiles: false,
        steps: rights,
    },
    CiPart {
        name: "members",
        about: "members of etcd clusters, on processes of etcd",
        tools: &["members"],
        release: false,
        alone: false,
        compiles: false,
        steps: members,
    },
    CiPart {
        name: "agent",
        about: "the agents of MariaDB and of Redis, on processes of these; the chart's settings on PHP-FPM and nginx (root on Linux)",
        tools: &["backup"],
        release: false,
        alone: false,
        compiles: false,
        steps: agent,
    },
    CiPart {
        name: "fleet",
        about: "`tillerman fleet` between 726 charts and themselves, where they sleep, and where a default of them changes",
        tools: &[],
        release: true,
        alone: false,
        compiles: false,
        steps: || released("fleet", "tests/conformance/fleet.sh"),
    },
    CiPart {
        name: "upgrade",
        about: "members of MariaDB 10.11 that become 11.8, on processes of both (root on Linux)",
        tools: &[],
        release: false,
        alone: false,
        compiles: false,
        steps: upgrade,
    },
    CiPart {
        name: "mysql",
        about: "the agent with MySQL 9.7 of Debian's unstable suite, on processes of it (root on Linux)",
        tools: &[],
        release: false,
        alone: false,
        compiles: false,
        steps: mysql,
    },
    CiPart {
        name: "backup",
        about: "backups of etcd 3.5 and 3.6 on an S3-compatible server, and restoring from them",
        tools: &["members", "backup"],
        release: false,
        alone: false,
        compiles: false,
        steps: backup,
    },
    CiPart {
        name: "peer",
        about: "beside the real helm-operator: its releases and projects go to us, and releases back",
        tools: &["control-plane", "helm-operator", "operator-sdk"],
        release: false,
        alone: false,
        compiles: false,
        steps: peer,
    },
    CiPart {
        name: "traces",
        about: "traces, as a real collector of OpenTelemetry gets them",
        tools: &["traces"],
        release: false,
        alone: false,
        compiles: false,
        steps: traces,
    },
    CiPart {
        name: "faults",
        about: "kills after each write, requests that fail, an API server that dies, all at random",
        tools: &["control-plane", "members"],
        release: true,
        alone: true,
        compiles: false,
        steps: faults,
    },
    CiPart {
        name: "node",
        about: "the operator as a pod on a real node, under the rights that operator-sdk gives it",
        tools: &["node", "issuer", "members", "backup", "helm", "mail", "exporter", "external-metrics"],
        release: true,
        alone: true,
        compiles: false,
        // The agent for MariaDB and the storage driver take minutes to build: a share leaves out what needs them.
        steps: || {
            let with_agent = format!("make build-agent && agent={BIN}-agent && export WITH_VOLUMES=yes");
            let run = format!(
                "case ${{SWEEP_SHARE:-0/1}} in */1) {with_agent} ;; esac; tests/node/run.sh {BIN} ${{agent:-}}"
            );
            vec![CiStep::cargo("node", run).after([BUILD])]
        },
    },
    CiPart {
        name: "reproducible",
        about: "a second release, from another folder and environment, has the same bytes",
        tools: &[],
        release: true,
        alone: true,
        compiles: true,
        steps: || vec![CiStep::whole("reproducible", "tests/reproducible.sh").within(7200)],
    },
    CiPart {
        name: "walk",
        about: "the commands of the tutorial on a real node, with charts of the corpus, beside operator-sdk's own way",
        tools: &["node", "members", "sources", "helm-operator", "operator-sdk"],
        release: true,
        alone: true,
        compiles: false,
        steps: || {
            let of = |script: &str, page: &str| {
                let walk = format!("tests/node/walk-{script}.sh {BIN} {BIN}-agent{page}");
                format!("case ${{SWEEP_SHARE:-0/1}} in */1) make build-agent && {walk} ;; esac")
            };
            let (mysql, php) = (of("mysql", ""), of("php", ""));
            let (wordpress, own_kind) = (of("php", " wordpress"), of("php", " own-kind"));
            vec![
                CiStep::lines("walk", format!("tests/walk.sh {BIN}")).after([BUILD]).within(900),
                CiStep::lines("docs/how-to/mysql.md", mysql).within(1200),
                CiStep::lines("docs/how-to/php.md", php).within(1200),
                CiStep::lines("docs/how-to/wordpress.md", wordpress).within(600),
                CiStep::lines("docs/how-to/own-kind.md", own_kind).within(600),
            ]
        },
    },
    CiPart {
        name: "demo",
        about: "`make demo` on a local control plane, from end to end",
        tools: &["control-plane"],
        release: true,
        alone: true,
        compiles: false,
        steps: || {
            let of = |name: &str| {
                let demo = format!(
                    "examples/{name}/demo.sh {BIN} {BIN}-agent && examples/{name}/demo-down.sh && echo demo-{name}: 1 passed, 0 failed"
                );
                format!("case ${{SWEEP_SHARE:-0/1}} in */1) make build-agent && {demo} ;; esac")
            };
            let (mysql, stack, wordpress) = (of("mysql"), of("stack"), of("wordpress"));
            vec![
                CiStep::whole("demo", format!("tests/demo.sh {BIN}")).after([BUILD]),
                CiStep::lines("demo-mysql", mysql).within(1200),
                CiStep::lines("demo-stack", stack).within(1200),
                CiStep::lines("demo-wordpress", wordpress).within(1200),
            ]
        },
    },
];

fn released(name: &str, script: &str) -> Vec<CiStep> {
    vec![CiStep::lines(name, format!("{script} {BIN}")).after([BUILD])]
}

fn format() -> Vec<CiStep> {
    vec![
        CiStep::whole("format", "nice cargo fmt --all --check"),
        CiStep::whole("format of xtask", "nice cargo fmt --check --manifest-path tests/xtask/Cargo.toml"),
    ]
}

fn lint() -> Vec<CiStep> {
    let xtask = "--quiet --manifest-path tests/xtask/Cargo.toml --target-dir ${CARGO_TARGET_DIR:-target}/xtask";
    vec![
        CiStep::whole(
            "lint code",
            "nice cargo clippy --workspace --all-targets --features tillerman/cluster-tests -- -D warnings",
        ),
        CiStep::whole("lint documentation", "RUSTDOCFLAGS='-D warnings' nice cargo doc --workspace --no-deps --quiet"),
        CiStep::whole("lint crates", format!("{TEST} --quiet --test crates")),
        CiStep::whole("lint xtask", format!("nice cargo clippy {xtask} --all-targets -- -D warnings")),
        CiStep::cargo("xtask", format!("nice cargo test {xtask}")),
    ]
}

fn library() -> Vec<CiStep> {
    vec![
        CiStep::whole(
            "renderer alone",
            "nice cargo clippy -p tillerman-render --no-default-features --lib -- -D warnings",
        ),
        CiStep::cargo(
            "renderer without its features",
            "nice cargo test -p tillerman-render --no-default-features --test features",
        ),
        // For one test cargo does not build the examples by itself.
        CiStep::cargo("examples", format!("{TEST} --test examples"))
            .after(["nice cargo build --workspace --features tillerman/cluster-tests --examples"]),
        CiStep::cargo("documentation tests", format!("{TEST} --doc")),
        CiStep::whole("packages", "tests/packages.sh"),
    ]
}

fn unit() -> Vec<CiStep> {
    // With the features of the other parts, so that the crate is compiled once for all.
    let tests: Vec<String> = tests_without_a_cluster().iter().map(|name| format!("--test {name}")).collect();
    vec![
        CiStep::cargo("unit", format!("{TEST} --no-fail-fast --lib --bins {}", tests.join(" ")))
            .after(["nice cargo build --workspace --features tillerman/cluster-tests --examples"]),
    ]
}

/// The names of the tests that need no cluster: those that do are declared in Cargo.toml.
fn tests_without_a_cluster() -> Vec<String> {
    let declared = std::fs::read_to_string("Cargo.toml").unwrap_or_default();
    let entries = std::fs::read_dir("tests").into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (test, path) = match name.strip_suffix(".rs") {
                Some(test) => (test.to_owned(), format!("tests/{name}")),
                None => (name.clone(), format!("tests/{name}/main.rs")),
            };
            let is_test = Path::new(&path).is_file() && !declared.contains(&format!("path = \"{path}\""));
            is_test.then_some(test)
        })
        .collect();
    names.sort();
    names
}

fn cluster() -> Vec<CiStep> {
    // Built before the cluster starts, so that it does not idle meanwhile. The tests wait more than they work, whatever the number of cores.
    vec![CiStep::cargo("cluster", format!("{WITH} {TEST} --test operator -- --test-threads=6")).after([
        "need_redis",
        "nice cargo build --workspace --features tillerman/cluster-tests --example custom-driver",
        BUILD_OPERATOR,
    ])]
}

fn signatures() -> Vec<CiStep> {
    let program = "${CARGO_TARGET_DIR:-target}/debug/tillerman";
    vec![CiStep::lines("signatures", format!("tests/sources/run.sh {program} sign")).after([BUILD_OPERATOR])]
}

fn gitops() -> Vec<CiStep> {
    vec![
        CiStep::cargo("gitops", format!("{WITH} {TEST} --test operator -- --ignored argocd:: flux:: clusters::"))
            .after([BUILD_OPERATOR]),
    ]
}

fn types() -> Vec<CiStep> {
    let built = format!("{TEST} --test types --no-run");
    // Rendering to find a sample takes ten times as long in a program that is not optimised.
    let types = format!("TILLERMAN=$(realpath \"{BIN}\") {WITH} {TEST} --test types -- --nocapture");
    vec![CiStep::cargo("types", types).after(["need_corpus", BUILD, &built])]
}

fn documents() -> Vec<CiStep> {
    let built = format!("{TEST} --test documents --no-run");
    vec![
        CiStep::cargo("documents", format!("{WITH} {TEST} --test documents -- --nocapture"))
            .after([&built])
            .within(300),
    ]
}

fn sources() -> Vec<CiStep> {
    // The program is built with its tests, and as for them.
    let program = "${CARGO_TARGET_DIR:-target}/debug/tillerman";
    vec![CiStep::lines("sources", format!("tests/sources/run.sh {program}")).after([BUILD_OPERATOR])]
}

fn lint_charts() -> Vec<CiStep> {
    vec![CiStep::lines("lint-charts", format!("tests/lint.sh {BIN}")).after([BUILD])]
}

fn rights() -> Vec<CiStep> {
    let built = format!("{TEST} --test rights --no-run");
    vec![
        CiStep::cargo("rights of the corpus", "tests/rights.sh").after([&built]).within(900),
        CiStep::cargo("charts of the corpus under their rights", "tests/rights.sh lives")
            .after([BUILD_OPERATOR])
            .within(900),
    ]
}

fn members() -> Vec<CiStep> {
    let members = format!("{TEST} --test members -- --nocapture --test-threads=8");
    let built = format!("{TEST} --test members --no-run");
    vec![
        CiStep::cargo("members", &members).after([&built]).within(1200),
        CiStep::cargo("members of etcd 3.5", format!("ETCD=$TOOLS/etcd-3.5 {members}")).within(1200).shared(),
    ]
}

fn agent() -> Vec<CiStep> {
    let built = format!("{TEST} --test agent --no-run");
    let agent = format!("{TEST} --test agent -- --nocapture --test-threads=2");
    let redis = format!("{TEST} --test redis -- --nocapture --test-threads=2");
    let example = "nice cargo build --workspace --features tillerman/cluster-tests --example redis-agent";
    vec![
        CiStep::cargo("agent", agent).after(["need_mariadb", PROGRAM_OF_AGENT, &built]).within(900),
        CiStep::cargo("agent of Redis", redis).after(["need_redis", example]).within(600),
        CiStep::cargo("servers of PHP", format!("{TEST} --test php_chart -- --ignored")).after(["need_php"]),
    ]
}

fn upgrade() -> Vec<CiStep> {
    let built = format!("{PROGRAM_OF_AGENT} && {TEST} --test agent --no-run");
    let upgrade =
        format!("need_mariadb_11_8 && {TEST} --test agent -- --ignored --nocapture --test-threads=1 upgrade::");
    vec![CiStep::cargo("upgrade", upgrade).after(["need_mariadb", &built]).within(600)]
}

fn mysql() -> Vec<CiStep> {
    let built = format!("{PROGRAM_OF_AGENT} && {TEST} --test agent --no-run");
    // What is left out needs two versions of MariaDB.
    let agent = format!(
        "need_mysql && FLAVOR=mysql {TEST} --test agent -- --include-ignored --nocapture --test-threads=2 --skip upgrade::"
    );
    vec![CiStep::cargo("agent of MySQL", agent).after([&built]).within(1200)]
}

fn backup() -> Vec<CiStep> {
    let built = format!("{TEST} --test backup --no-run");
    vec![
        CiStep::cargo("backup", format!("{TEST} --test backup -- --nocapture --test-threads=3"))
            .after([&built])
            .within(600),
    ]
}

fn peer() -> Vec<CiStep> {
    let built = format!("{TEST} --test peer --no-run");
    vec![CiStep::cargo("peer", format!("{WITH} {TEST} --test peer")).after([&built])]
}

fn traces() -> Vec<CiStep> {
    vec![
        CiStep::cargo("traces", format!("{WITH} {TEST} --test operator -- --ignored traces::")).after([BUILD_OPERATOR]),
    ]
}

fn faults() -> Vec<CiStep> {
    // The program as it is released: what is compiled for tests needs most of the cores for itself.
    let faults = format!("TILLERMAN=$(realpath \"{BIN}\") {WITH} {TEST} --test faults -- --nocapture");
    let built = format!("{TEST} --test faults --no-run");
    vec![
        CiStep::cargo(
            "faults of requests",
            format!("{faults} --skip alone:: --skip etcd:: --skip primary:: --test-threads=6"),
        )
        .after([&built, BUILD]),
        // Members write and vote all the while: not beside what waits for seconds.
        CiStep::cargo("faults of etcd", format!("{faults} --test-threads=7 etcd::")),
        // A share runs the fail-over alone: the four sweeps take minutes.
        CiStep::cargo(
            "faults of a primary",
            format!(
                "case ${{SWEEP_SHARE:-0/1}} in */1) all=primary:: ;; *) all=primary::after_each_write_of_a_fail_over ;; esac; \
                 {faults} --test-threads=2 $all"
            ),
        ),
        CiStep::cargo(
            "faults of the cluster",
            format!("CHAOS_SECONDS=${{CHAOS_SECONDS:-120}} {faults} --test-threads=1 alone::"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::PARTS;
    use std::collections::BTreeSet;

    #[test]
    fn every_part_has_steps_and_a_name_of_its_own() {
        let names: BTreeSet<&str> = PARTS.iter().map(|part| part.name).collect();
        assert_eq!(names.len(), PARTS.len());
        assert!(PARTS.iter().all(|part| !(part.steps)().is_empty()));
    }
}
