//! The reasons why a pass fails.

use crate::cluster::error::ApiError;
use crate::mask::Text;
use crate::plan::attempts::Retry;
use crate::plan::hooks::HookEvent;
use crate::release::record::RecordError;
use crate::render::Diagnostic;

/// How a deletion that is held by a hook continues.
const HOW_TO_GO_ON: &str = "The operator tries again with growing pauses; a new text in the annotation \
                            tillerman.dev/reconcile-at makes it try again now, and tillerman.dev/hooks: \"off\" makes \
                            it delete without hooks.";

/// Why a pass failed. `Display` shows no text of other authors; [`Error::text`] contains it.
#[derive(Clone, Debug)]
pub enum Error {
    /// The record could not be read or written.
    Record(RecordError),
    /// Rendering the chart with these values gives nothing that can be applied.
    Render(Diagnostic),
    /// Rendering took too long, or failed with an internal error.
    Renderer(String),
    /// The rendered manifests are not a list of objects, or list too many.
    Manifest(String),
    /// A hook failed.
    Hook {
        /// The event that the hook ran for.
        event: HookEvent,
        /// The object of the hook.
        hook: String,
        /// The report of the object, and the last lines of its pod's log.
        why: Text,
        /// Whether the hook ran into its timeout.
        timeout: bool,
    },
    /// Whether delete hooks have to run before anything is deleted is not known, for this reason.
    HooksUnknown(Text),
    /// The objects did not get ready in time.
    NotReady(Text),
    /// The record does not match what the chart renders, or the two cannot be compared.
    Unverified {
        /// The revision of the record.
        revision: u64,
        /// The reason, as a sentence.
        why: Text,
    },
    /// An object is in a place that the kind does not allow.
    NotAllowed(String),
    /// Slow renderings use all of their slots.
    Busy(String),
    /// A source of values does not contain what it should.
    Values(String),
    /// A request failed.
    Api(ApiError),
    /// The pass panicked, at this place.
    Panic(String),
    /// The process ended twice while it worked on the custom resource as it is.
    SetAside,
}

impl Error {
    /// The text that reports the error.
    pub fn text(&self) -> Text {
        match self {
            Self::Record(error) => Text::own(error.to_string()),
            Self::Render(diagnostic) => Text::foreign_or(
                diagnostic.message.as_str(),
                match &diagnostic.at {
                    Some(at) => format!(
                        "the chart cannot be rendered, see {at} (the message may quote a Secret and is not shown)"
                    ),
                    None => "the chart cannot be rendered (the message may quote a Secret and is not shown)".to_owned(),
                },
            ),
            Self::Manifest(text) => Text::foreign_or(
                text.as_str(),
                "the objects that the chart renders cannot be applied (the message may quote a Secret and is not \
                 shown)",
            ),
            Self::Hook { event, hook, why, .. } if event.is_deletion() => {
                let kept = match event {
                    HookEvent::PreDelete => "nothing is deleted",
                    _ => "the custom resource and its record stay",
                };
                let intro = format!("{event} hook {hook} failed, so {kept}. {HOW_TO_GO_ON} The failure: ");
                Text::own(intro).and(why.clone())
            }
            Self::Hook { event, hook, why, .. } => Text::own(format!("{event} hook {hook} failed: ")).and(why.clone()),
            Self::HooksUnknown(why) => Text::own(format!(
                "nothing is deleted, because the delete hooks of the release are not known. {HOW_TO_GO_ON} The reason: "
            ))
            .and(why.clone()),
            Self::NotReady(why) => Text::own("not ready in time: ").and(why.clone()),
            Self::Unverified { revision, why } => Text::own(format!(
                "the operator takes nothing from the record of revision {revision}, because another client may have \
                 written it: "
            ))
            .and(why.clone()),
            Self::Renderer(text) | Self::Values(text) | Self::NotAllowed(text) | Self::Busy(text) => {
                Text::own(text.as_str())
            }
            Self::Api(error) => error.text(),
            Self::SetAside => Text::own(
                "the operator's process ended twice while it worked on this custom resource, so the operator does \
                 nothing until it changes. Change its spec, or try the same again with a new text in the annotation \
                 tillerman.dev/reconcile-at",
            ),
            Self::Panic(place) => Text::own(format!(
                "the operator has a fault: the pass panicked at {place}; it is repeated after a pause. Please report this place"
            )),
        }
    }

    /// The reason in conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Record(RecordError::TooLarge(_)) => "ReleaseTooLarge",
            Self::Record(RecordError::Corrupted(_)) => "ReleaseCorrupted",
            Self::Render(_) | Self::Renderer(_) => "RenderError",
            Self::Manifest(_) => "InvalidManifest",
            Self::Hook { .. } => "HookFailed",
            Self::HooksUnknown(_) => "HooksUnknown",
            Self::NotReady(_) => "NotReady",
            Self::Record(RecordError::OverLimit(_)) | Self::Unverified { .. } => "RecordNotVerified",
            Self::NotAllowed(_) => "NamespaceNotAllowed",
            Self::Busy(_) => "RenderingWaits",
            Self::Values(_) => "InvalidValuesFrom",
            Self::Api(error) => error.reason(),
            Self::Panic(_) => "Panic",
            Self::SetAside => "InputSetAside",
        }
    }

    /// Whether the operator retries although nothing has changed.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Record(RecordError::TooLarge(_))
            | Self::Render(_)
            | Self::Manifest(_)
            | Self::NotAllowed(_)
            | Self::Values(_)
            | Self::SetAside
            | Self::NotReady(_) => Retry::Never,
            // A deletion loses data for good, so it waits for its hooks (docs/design/applying.md D2).
            Self::Hook { event, .. } if event.is_deletion() => Retry::Always,
            // The author of the hook chose this timeout, so the hook gets no second one.
            Self::Hook { timeout, .. } => {
                if *timeout {
                    Retry::Never
                } else {
                    Retry::Bounded
                }
            }
            Self::Record(RecordError::Corrupted(_) | RecordError::OverLimit(_)) | Self::Renderer(_) => Retry::Bounded,
            Self::Api(error) if error.is_namespace_terminating() => Retry::Never,
            // The object is at fault, not the cluster.
            Self::Api(error) if matches!(error.reason(), "Invalid" | "ImmutableField") => Retry::Bounded,
            Self::Unverified { .. } | Self::HooksUnknown(_) | Self::Panic(_) | Self::Busy(_) | Self::Api(_) => {
                Retry::Always
            }
        }
    }

    /// Whether the API server or the operator is at fault, not the release. The status then reports the error only if
    /// it persists.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Busy(_)) || matches!(self, Self::Api(error) if error.is_outage())
    }

    /// Whether the pass acted on outdated observations. The next pass has newer ones.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Api(error) if error.is_conflict() || matches!(error, ApiError::Remaking { .. }))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().fmt(f)
    }
}

impl std::error::Error for Error {}

impl From<RecordError> for Error {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<Diagnostic> for Error {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Render(diagnostic)
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}
