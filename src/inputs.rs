//! Every place where the operator reads bytes that a tenant or a stranger wrote, with its limits and the tests that show them.
//!
//! `docs/explanation/security.md` has this table. `tests/hostile.rs` has a hostile text for each limit of each place that is a text, and
//! `tests/inputs.rs` fails for a file of the operator that parses bytes and is not named here.

use crate::agent::contract;
use crate::bounds::{self, Bounds};
use crate::chart::ChartLimits;
use crate::notices::{document, template};
use crate::reconcile::RENDERING;
use crate::source::http;

/// A place where the operator reads data of others.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its name. The rows of `tests/hostile.rs` about it begin with it.
    pub name: &'static str,
    /// Its description.
    pub what: &'static str,
    pub limits: Vec<Limit>,
    /// The effect of exceeding them.
    pub beyond: &'static str,
    /// Tests besides those of `tests/hostile.rs`.
    pub tests: &'static [&'static str],
    /// The files of `src` that parse it.
    pub files: &'static [&'static str],
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes, after unpacking.
    Bytes(usize),
    /// Scalars, lists and maps.
    Values(usize),
    /// Levels of nesting.
    Levels(usize),
    /// In words, with the name that its row in `tests/hostile.rs` has; an empty one if [`Input::tests`] show it.
    Words(&'static str, String),
}

impl Limit {
    /// The name of its row in `tests/hostile.rs`.
    pub fn row(&self) -> &'static str {
        match self {
            Self::Bytes(_) => "text",
            Self::Values(_) => "values",
            Self::Levels(_) => "levels",
            Self::Words(row, _) => row,
        }
    }

    /// In words.
    pub fn text(&self) -> String {
        match self {
            Self::Bytes(bytes) => bytes_text(*bytes),
            Self::Values(count) => format!("{count} values"),
            Self::Levels(count) => format!("{count} levels"),
            Self::Words(_, text) => text.clone(),
        }
    }
}

fn bytes_text(bytes: usize) -> String {
    match (bytes >> 20, bytes >> 10) {
        (mebi, _) if mebi > 0 && bytes.is_multiple_of(1 << 20) => format!("{mebi} MiB"),
        (_, kibi) if kibi > 0 && bytes.is_multiple_of(1 << 10) => format!("{kibi} KiB"),
        _ => format!("{bytes} bytes"),
    }
}

fn of(bounds: Bounds) -> Vec<Limit> {
    vec![Limit::Bytes(bounds.bytes), Limit::Values(bounds.values), Limit::Levels(bounds.depth)]
}

/// Of data that is JSON already, as the API server has it.
fn parsed(bounds: Bounds) -> Vec<Limit> {
    vec![Limit::Values(bounds.values), Limit::Levels(bounds.depth)]
}

fn with(bounds: Bounds, more: impl IntoIterator<Item = (&'static str, String)>) -> Vec<Limit> {
    let more = more.into_iter().map(|(row, text)| Limit::Words(row, text));
    of(bounds).into_iter().chain(more).collect()
}

fn words(text: impl Into<String>) -> Vec<Limit> {
    vec![Limit::Words("", text.into())]
}

/// The effect of an annotation that is over a limit.
const ANNOTATION: &str = "The condition names the limit; the release stays as it is.";

/// All places.
pub fn inputs() -> Vec<Input> {
    let mut all = of_annotations();
    all.extend(of_custom_resources());
    all.extend(of_records());
    all.extend(of_notices());
    all.extend(of_others());
    all
}

fn of_custom_resources() -> Vec<Input> {
    let archive = ChartLimits::default();
    let rendering = RENDERING;
    vec![
        Input {
            name: "spec",
            what: "the spec of a custom resource",
            limits: of(bounds::SPEC),
            beyond: ANNOTATION,
            tests: &[],
            files: &["bounds.rs", "reconcile/render/mod.rs"],
        },
        Input {
            name: "status",
            what: "the status of a custom resource, which a user with that right can write",
            limits: of(bounds::STATUS),
            beyond: "The status counts as empty and is written again.",
            tests: &[],
            files: &["cluster/cr.rs"],
        },
        Input {
            name: "values",
            what: "values in a key of a Secret or a ConfigMap",
            limits: with(
                bounds::SOURCE,
                [("aliases", "content that an alias of YAML repeats counts each time".to_owned())],
            ),
            beyond: ANNOTATION,
            tests: &[],
            files: &["chart/values.rs"],
        },
        Input {
            name: "rendering",
            what: "values that make a chart render for long",
            limits: words(format!(
                "{} million steps, {} of values, {} of output, 60 seconds; after 5 seconds in places of its own",
                rendering.steps.unwrap_or_default() / 1_000_000,
                bytes_text(usize::try_from(rendering.memory.unwrap_or_default()).unwrap_or_default()),
                bytes_text(rendering.output),
            )),
            beyond: "The rendering is stopped (`RenderError`), and no other custom resource waits for it.",
            tests: &["charts_that_render_for_long_do_not_keep_another_from_being_rendered"],
            files: &[
                "object/mod.rs",
                "crd/mod.rs",
                "crd/comments.rs",
                "plan/tolerate.rs",
                "render/fixed.rs",
                "render/mod.rs",
            ],
        },
        Input {
            name: "kinds",
            what: "the annotation `kinds`",
            limits: words("16 KiB, thirty kinds, one list each, no watch"),
            beyond: "It counts as absent.",
            tests: &["a_thousand_kinds_that_an_annotation_names_start_no_watch"],
            files: &[],
        },
        Input {
            name: "durations",
            what: "durations",
            limits: words("a century"),
            beyond: "A longer one counts as a century.",
            tests: &["a_period_longer_than_any_clock_is_as_good_as_never"],
            files: &[],
        },
        Input {
            name: "archives",
            what: "charts: archives, `.helmignore`, `values.schema.json`, also those in a ConfigMap or a kept Secret",
            limits: words(format!(
                "{} and {} files, with all archives in it",
                bytes_text(usize::try_from(archive.total).unwrap_or_default()),
                archive.files
            )),
            beyond: "The chart cannot be used; the operator continues to serve the previous one.",
            tests: &["an_archive_that_unpacks_to_too_much_is_refused", "archives_in_an_archive_share_one_budget"],
            files: &[
                "source/dependency/save.rs",
                "chart/load.rs",
                "chart/floats.rs",
                "chart/strvals.rs",
                "source/archive.rs",
            ],
        },
    ]
}

fn of_annotations() -> Vec<Input> {
    vec![
        Input {
            name: "patches",
            what: "the annotation `patches`",
            limits: with(
                bounds::ANNOTATION,
                [
                    ("number", format!("{} patches", bounds::PATCHES)),
                    ("operations", format!("{} operations", bounds::OPERATIONS)),
                    ("copies", format!("{} of an object", bytes_text(bounds::OBJECT))),
                    ("lists by key", "3 million steps".to_owned()),
                    ("one for all", "128 MiB for all objects".to_owned()),
                    ("size of an expression", format!("{} of an expression", bytes_text(bounds::COMPILED))),
                ],
            ),
            beyond: ANNOTATION,
            tests: &["a_hostile_annotation_is_refused_with_its_limit_and_others_go_on"],
            files: &["release/fields.rs", "release/owned.rs"],
        },
        Input {
            name: "values-from",
            what: "the annotation `values-from`",
            limits: with(bounds::ANNOTATION, [("number", format!("{} sources", bounds::SOURCES))]),
            beyond: ANNOTATION,
            tests: &[],
            files: &[],
        },
        Input {
            name: "depends-on",
            what: "the annotation `depends-on`",
            limits: with(bounds::ANNOTATION, [("number", format!("{} dependencies", bounds::DEPENDENCIES))]),
            beyond: ANNOTATION,
            tests: &[],
            files: &[],
        },
        Input {
            name: "ignore-drift",
            what: "the annotation `ignore-drift`",
            limits: with(
                bounds::ANNOTATION,
                [("rules", format!("{} rules", bounds::RULES)), ("paths", format!("{} paths", bounds::PATHS))],
            ),
            beyond: ANNOTATION,
            tests: &[],
            files: &[],
        },
    ]
}

fn of_records() -> Vec<Input> {
    vec![
        Input {
            name: "record",
            what: "a release record, unpacked",
            limits: with(bounds::RECORD, [("hooks", format!("{} hooks", bounds::HOOKS))]),
            beyond: "Nothing is taken from it (`RecordNotVerified`), and the release is taken over from its live objects.",
            tests: &["a_forged_record_that_is_too_large_is_data_that_is_not_used"],
            files: &["release/record.rs"],
        },
        Input {
            name: "chunks",
            what: "the chunks of a release record, unpacked",
            limits: with(bounds::CHUNKS, [("", "all large records that are read at one time together".to_owned())]),
            beyond: "As for a record. A pass that finds no room is repeated.",
            tests: &["large_records_have_room_one_after_the_other"],
            files: &[],
        },
        Input {
            name: "manifest",
            what: "the manifest of a release record",
            limits: vec![Limit::Values(bounds::MANIFEST.values)],
            beyond: "Nothing is taken from it.",
            tests: &[],
            files: &[],
        },
        Input {
            name: "hook",
            what: "the manifest of a hook of a release record",
            limits: vec![Limit::Bytes(bounds::HOOK.bytes), Limit::Values(bounds::HOOK.values)],
            beyond: "The hook does not count.",
            tests: &[],
            files: &[],
        },
        Input {
            name: "packed",
            what: "annotations of a release record: `Members`, operations, `Status` documents with their paths",
            limits: of(bounds::PACKED),
            beyond: "The annotation counts as absent.",
            tests: &["a_document_that_somebody_wrote_into_a_record_shows_nothing"],
            files: &["release/packed.rs"],
        },
    ]
}

fn of_notices() -> Vec<Input> {
    let limits = template::LIMITS;
    vec![
        Input {
            name: "notice",
            what: "the spec of a Notice",
            limits: [
                parsed(bounds::NOTICE),
                vec![Limit::Words("list", format!("{} entries of a list", document::MAX_LIST))],
            ]
            .concat(),
            beyond: "The Notice says `InvalidSpec`.",
            tests: &[],
            files: &[],
        },
        Input {
            name: "notice status",
            what: "the status of a Notice, which a user with that right can write",
            limits: parsed(bounds::NOTICE_STATE),
            beyond: "It counts as absent: no old message is sent.",
            tests: &[],
            files: &[],
        },
        Input {
            name: "notice template",
            what: "a template of a Notice",
            limits: vec![
                Limit::Bytes(document::MAX_BODY),
                Limit::Words("grammar", "only paths, texts and filters are expressions".to_owned()),
                Limit::Words("instructions", format!("{} instructions", limits.instructions)),
                Limit::Words("output", format!("{} printed", bytes_text(limits.output))),
                Limit::Words("filtered", format!("{} through filters", bytes_text(limits.filtered))),
                Limit::Words("", format!("{} seconds", limits.time.as_secs())),
            ],
            beyond: "The message has the usual words. After three messages in a row the template is left out (`TemplateFailed`).",
            tests: &["a_rendering_ends_at_its_deadline", "a_template_that_fails_three_times_is_left_out"],
            files: &["notices/template.rs"],
        },
        Input {
            name: "answers of targets",
            what: "answers of mail servers and receivers of webhooks",
            limits: words("64 KiB and 30 seconds for a message; nothing of a webhook but its status"),
            beyond: "The message waits, and the Notice says `SendFailed`.",
            tests: &["a_server_of_mail_that_never_ends_its_answer_is_left"],
            files: &[],
        },
        Input {
            name: "messages",
            what: "how many messages notices send",
            limits: words(
                "1,000 recipients of a namespace in an hour, ten times as many of all (`--notice-recipients-per-hour`)",
            ),
            beyond: "Messages wait (`Limited`).",
            tests: &["a_namespace_writes_to_no_more_recipients_than_it_can"],
            files: &[],
        },
    ]
}

fn of_others() -> Vec<Input> {
    vec![
        Input {
            name: "answers of agents",
            what: "answers of agents of databases, also to orders",
            limits: words(format!("{} and 3 seconds; no redirect", bytes_text(contract::LIMIT))),
            beyond: "The member counts as one that does not answer.",
            tests: &[
                "a_hostile_answer_is_an_error_of_that_request_alone",
                "an_endless_answer_and_a_slow_one_are_given_up",
            ],
            files: &[],
        },
        Input {
            name: "last words",
            what: "last words of pods and results of runs",
            limits: words("4 KiB, as Kubernetes keeps them"),
            beyond: "They are cut, and masked where the release has Secrets.",
            tests: &["a_failure_has_a_reason_and_leaves_what_the_last_success_said"],
            files: &["plan/results.rs"],
        },
        Input {
            name: "live objects",
            what: "live objects and statuses of other operators",
            limits: words("3 MiB, which is the API server's limit; the caches keep single fields"),
            beyond: "The API server refuses them.",
            tests: &["a_custom_resource_may_nest_as_deep_as_it_likes"],
            files: &["cluster/client.rs"],
        },
        Input {
            name: "ConfigMaps of roles",
            what: "the ConfigMaps that members of databases start from",
            limits: words(
                "the keys that the driver writes, an epoch of 2^40, 128 characters for the identity of the data",
            ),
            beyond: "The operator writes the map again, also if it is immutable or a finalizer holds it.",
            tests: &[
                "roles_are_read_as_they_are_written_and_anything_else_counts_as_missing",
                "a_config_map_that_others_write_into_holds_up_no_fail_over",
            ],
            files: &[],
        },
        Input {
            name: "names of objects",
            what: "names and namespaces of objects in lookups, charts, annotations and specs",
            limits: words("one part of a path: ASCII without spaces and / % ? # \\"),
            beyond: "No request is sent; the condition names the name.",
            tests: &[
                "a_name_that_is_more_than_a_part_of_a_path_is_asked_for_nowhere",
                "a_name_in_a_lookup_that_is_a_path_is_not_sent",
            ],
            files: &[],
        },
        Input {
            name: "repositories",
            what: "answers of repositories and registries",
            limits: words(format!(
                "{} of an archive or an index, {} of anything else, 120 seconds for a request",
                bytes_text(usize::try_from(http::ARCHIVE_LIMIT).unwrap_or_default()),
                bytes_text(usize::try_from(http::SMALL_LIMIT).unwrap_or_default()),
            )),
            beyond: "The chart cannot be used; other ChartDefinitions are carried out meanwhile.",
            tests: &["a_chart_server_that_does_not_answer_delays_no_other_definition"],
            files: &[
                "source/index.rs",
                "source/registry/mod.rs",
                "source/registry/auth.rs",
                "source/registry/push.rs",
                "source/provenance.rs",
                "source/http.rs",
            ],
        },
        Input {
            name: "ports",
            what: "requests to the operator's ports",
            limits: words("a number of connections, time for headers and handshakes, one page of metrics a second"),
            beyond: "The connection is closed.",
            tests: &[
                "thousands_of_slow_clients_keep_nobody_waiting",
                "a_client_that_says_nothing_or_does_not_read_is_left",
            ],
            files: &[],
        },
    ]
}
