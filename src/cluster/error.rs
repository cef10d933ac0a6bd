//! The errors of requests, in words for a condition.

use std::fmt;
use std::sync::Arc;

use kube::core::Status;

use super::access::Account;
use super::forbidden;
use crate::mask::Text;

/// The message of server-side apply for an object that does not match its kind's schema.
const UNTYPED: &str = "failed to create typed patch object";

/// The words of Kubernetes' validations for a field that cannot be changed (`pkg/apis/*/validation` of 1.36).
const IMMUTABLE: [&str; 6] =
    ["immutable", "may not change", "may not be changed", "cannot change", "updates to", "cannot be changed"];

/// The content of a request, which the answer may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Nothing: it was a read.
    Nothing,
    /// An object.
    Object,
    /// A Secret.
    Secret,
}

/// The causes of a refusal.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    reasons: Vec<String>,
    /// The fields that are invalid.
    fields: Vec<String>,
    /// Fields that cannot be changed, with the API server's sentence.
    immutable: Vec<(String, String)>,
    /// Fields that are null and have a type that null is not of.
    null: Vec<String>,
}

/// Why a request failed. `Display` does not show anything that may repeat a sent object; [`ApiError::text`] contains
/// it.
#[derive(Clone, Debug)]
pub enum ApiError {
    /// The API server answered with an error.
    Refused {
        /// The attempted action, such as `apply Deployment web in namespace x`.
        what: String,
        /// The API server's message, without values of a Secret that was sent.
        message: String,
        /// A message without any values, if `message` may repeat some.
        bare: Option<Box<str>>,
        /// HTTP status.
        code: u16,
        /// The reason of the API server, such as `Forbidden`.
        reason: Box<str>,
        /// The causes that the API server lists.
        causes: Box<Causes>,
        /// The account with whose rights the request was sent; `None` for the operator's own.
        account: Option<Arc<Account>>,
    },
    /// There was no answer.
    Unreachable {
        /// The attempted action.
        what: String,
        /// The error of the transport.
        message: String,
    },
    /// The API server does not serve the kind.
    UnknownKind {
        /// The attempted action.
        what: String,
        kind: String,
    },
    /// The API server answers, but the server of an aggregated API behind it does not.
    Away {
        /// The group and version.
        api: String,
        /// The kind that was looked up.
        kind: String,
    },
    /// Fields of an object are immutable.
    Immutable {
        /// The attempted action.
        what: String,
        fields: String,
        /// The loss if it were recreated.
        lost: &'static str,
        /// How to allow it.
        remedy: String,
    },
    /// An object was deleted to be recreated, and still exists.
    Remaking {
        /// The attempted action.
        what: String,
    },
    /// An object of this name exists and has another owner.
    Foreign {
        /// The attempted action.
        what: String,
        /// The evidence for that.
        why: String,
    },
}

impl ApiError {
    /// Converts a Status. If the answer may repeat values of a Secret, only the names of fields are kept.
    pub fn refused(what: &str, code: u16, status: &Status, sent: Sent) -> Self {
        let secret = sent == Sent::Secret;
        let causes = status.details.iter().flat_map(|d| &d.causes);
        let fields: Vec<&str> = causes.clone().map(|c| c.field.as_str()).filter(|f| !f.is_empty()).collect();
        let without_values = match fields.as_slice() {
            [] if code == 422 => "invalid: (values hidden)".to_owned(),
            [] if status.reason.is_empty() => format!("HTTP status {code}"),
            [] => format!("{} (the API server's words are not shown: they may quote a Secret)", status.reason),
            fields => format!("invalid: {}", fields.join(", ")),
        };
        let message = if secret && code == 422 {
            without_values.clone()
        } else if secret && status.message.contains(UNTYPED) {
            status
                .message
                .lines()
                .map(|line| line.split(", got ").next().unwrap_or_default())
                .collect::<Vec<_>>()
                .join("\n")
        } else {
            status.message.clone()
        };
        let fixed = |c: &&kube::core::response::StatusCause| IMMUTABLE.iter().any(|words| c.message.contains(words));
        let sentence = |c: &kube::core::response::StatusCause| {
            (c.field.clone(), if secret { String::new() } else { c.message.clone() })
        };
        let immutable = causes.clone().filter(fixed).filter(|_| code == 422).map(sentence).collect();
        let invalid = causes.clone().filter(|_| code == 422).map(|c| c.field.clone()).collect();
        let is_null = |c: &&kube::core::response::StatusCause| {
            c.message.contains("must be of type") && c.message.ends_with(": \"null\"")
        };
        let null = causes.clone().filter(is_null).filter(|_| code == 422).map(|c| c.field.clone()).collect();
        let reasons = causes.map(|c| c.reason.clone()).collect();
        let causes = Box::new(Causes { reasons, fields: invalid, immutable, null });
        let bare = (sent != Sent::Nothing && message != without_values).then(|| without_values.into());
        let reason = status.reason.as_str().into();
        Self::Refused { what: what.to_owned(), message, bare, code, reason, causes, account: None }
    }

    /// Enters the account with whose rights the request was sent.
    #[must_use]
    pub fn seen_by(mut self, by: Option<&Arc<Account>>) -> Self {
        if let Self::Refused { account, .. } = &mut self {
            *account = by.cloned();
        }
        self
    }

    /// Converts an error of the client library.
    pub fn from_kube(what: &str, error: &kube::Error, sent: Sent) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(what, status.code, status, sent),
            other => Self::Unreachable { what: what.to_owned(), message: short(other) },
        }
    }

    /// The text that reports the error.
    pub fn text(&self) -> Text {
        match self {
            Self::Refused { what, message, bare, code, account, .. } => {
                let text = match bare {
                    None => Text::own(format!("{what}: {message}")),
                    Some(bare) => Text::own(format!("{what}: ")).and(Text::foreign_or(message.as_str(), bare.clone())),
                };
                match forbidden::remedy(message, account.as_deref()).filter(|_| *code == 403) {
                    None => text,
                    Some(remedy) => text.and(Text::own(format!(". {remedy}"))),
                }
            }
            Self::Unreachable { what, message } => {
                Text::own(format!("{what}: the API server cannot be reached: {message}"))
            }
            Self::UnknownKind { what, kind } => Text::own(format!("{what}: the API server does not know {kind}")),
            Self::Away { api, kind } => Text::own(format!(
                "{kind} is served by the aggregated API {api}, whose server does not answer; the state of such objects \
                 is unknown until it answers. If the server is gone for good, delete the APIService of {api}"
            )),
            Self::Immutable { what, fields, lost, remedy } => Text::own(format!(
                "{what}: {fields} cannot be changed once the object exists; if it were recreated, {lost}{remedy}"
            )),
            Self::Remaking { what } => Text::own(format!("{what}: its predecessor is being deleted")),
            Self::Foreign { what, why } => {
                Text::own(format!("{what}: it exists and is not part of this release ({why})"))
            }
        }
    }

    /// The rule to add, where an account lacks a right.
    pub fn remedy_of_account(&self) -> Option<String> {
        match self {
            Self::Refused { message, code: 403, account: Some(account), .. } => {
                forbidden::remedy(message, Some(account))
            }
            _ => None,
        }
    }

    /// The whole text, including repeated values. Only for requests without a tenant's data: a lease, or a request of a
    /// command.
    pub fn whole(&self) -> String {
        self.text().whole()
    }

    /// The reason in conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused { code, .. } => match code {
                401 => "Unauthorized",
                403 if self.is_namespace_terminating() => "NamespaceTerminating",
                403 => "Forbidden",
                404 => "NotFound",
                409 => "Conflict",
                400 | 422 => "Invalid",
                429 => "TooManyRequests",
                500 if self.is_untyped() => "Invalid",
                _ => "ApiServerError",
            },
            Self::Unreachable { .. } => "ApiServerUnreachable",
            Self::UnknownKind { .. } => "UnknownKind",
            Self::Away { .. } => "ApiServiceUnavailable",
            Self::Foreign { .. } => "ObjectExists",
            Self::Immutable { .. } => "ImmutableField",
            Self::Remaking { .. } => "Remaking",
        }
    }
    /// Whether the API server is at fault, not the request. The status then reports the error only if it persists.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            // A plain 500 is an answer to this request: a webhook failed, or the object does not match its type.
            Self::Refused { code, .. } => *code == 429 || *code > 500,
            Self::UnknownKind { .. }
            | Self::Away { .. }
            | Self::Foreign { .. }
            | Self::Immutable { .. }
            | Self::Remaking { .. } => false,
        }
    }
    /// Whether the object does not match its schema. Server-side apply answers 500 if the type of a field differs from
    /// the kind's schema (tried on 1.36).
    pub fn is_untyped(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(UNTYPED))
    }
    /// The API server's message.
    pub fn message(&self) -> &str {
        match self {
            Self::Refused { message, .. } => message,
            _ => "",
        }
    }
    /// The immutable fields, if the request failed because of them.
    pub fn immutable(&self) -> &[(String, String)] {
        match self {
            Self::Refused { causes, .. } => &causes.immutable,
            _ => &[],
        }
    }
    /// The invalid fields, if the request failed because of them: `spec.strategy.rollingUpdate`.
    pub fn invalid(&self) -> &[String] {
        match self {
            Self::Refused { causes, .. } => &causes.fields,
            _ => &[],
        }
    }
    /// The fields that are null and may not be, if the request failed because of them.
    pub fn null(&self) -> &[String] {
        match self {
            Self::Refused { causes, .. } => &causes.null,
            _ => &[],
        }
    }
    /// 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
    /// 403.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }
    /// 409.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }
    /// Whether nothing can be created because the namespace is being deleted.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Refused { causes, .. } if causes.reasons.iter().any(|c| c == "NamespaceTerminating"))
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

impl std::error::Error for ApiError {}

fn short(error: &kube::Error) -> String {
    let mut text = error.to_string();
    if let Some((at, _)) = text.char_indices().nth(300) {
        text.truncate(at);
    }
    text
}
