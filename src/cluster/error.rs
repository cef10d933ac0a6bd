//! What went wrong with a request, in words for a condition.

use kube::core::Status;

/// How server-side apply says that an object is not of its kind's type.
const UNTYPED: &str = "failed to create typed patch object";

/// How validations of Kubernetes say that a field cannot be changed (`pkg/apis/*/validation` of 1.36).
const IMMUTABLE: [&str; 6] =
    ["immutable", "may not change", "may not be changed", "cannot change", "updates to", "cannot be changed"];

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The API server answered with an error.
    #[error("{what}: {message}")]
    Refused {
        /// What was tried, such as `apply Deployment web in namespace x`.
        what: String,
        /// The API server's sentence, without values of Secrets.
        message: String,
        /// HTTP status.
        code: u16,
        /// The API server's reason, such as `Forbidden`.
        reason: String,
        /// Its causes' reasons.
        causes: Box<[String]>,
        /// Fields that cannot be changed, with the API server's sentence.
        immutable: Box<[(String, String)]>,
    },
    /// No answer.
    #[error("{what}: the API server cannot be reached: {message}")]
    Unreachable {
        /// What was tried.
        what: String,
        /// The transport's error.
        message: String,
    },
    /// No such kind.
    #[error("{what}: the API server does not know {kind}")]
    UnknownKind {
        /// What was tried.
        what: String,
        /// The kind.
        kind: String,
    },
    /// The API server answers, and the server behind it that serves an aggregated API does not.
    #[error(
        "{kind} is of {api}, whose own server does not answer; nothing can be said of such objects until it does. If it is gone for good, \
         delete the APIService of {api}"
    )]
    Away {
        /// The group and version.
        api: String,
        /// What was looked for.
        kind: String,
    },
    /// Fields of an object cannot be changed.
    #[error("{what}: {fields} cannot be changed once the object exists; were it made anew, {lost}{remedy}")]
    Immutable {
        /// What was tried.
        what: String,
        /// Which fields.
        fields: String,
        /// What making it anew would cost.
        lost: &'static str,
        /// What allows it.
        remedy: String,
    },
    /// An object was deleted to be made anew, and is not gone yet.
    #[error("{what}: its predecessor is being deleted")]
    Remaking {
        /// What was tried.
        what: String,
    },
    /// An object of this name is there, and it is somebody else's.
    #[error("{what}: it exists and is not part of this release ({why})")]
    Foreign {
        /// What was tried.
        what: String,
        /// How that shows.
        why: String,
    },
}

impl ApiError {
    /// From a Status. `secret` says that the message may repeat values of a Secret: then only the names of fields are kept.
    pub fn refused(what: &str, code: u16, status: &Status, secret: bool) -> Self {
        let causes = status.details.iter().flat_map(|d| &d.causes);
        let message = if secret && code == 422 {
            let fields: Vec<&str> = causes.clone().map(|c| c.field.as_str()).filter(|f| !f.is_empty()).collect();
            format!("invalid: {}", if fields.is_empty() { "(values hidden)".to_owned() } else { fields.join(", ") })
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
        let causes = causes.map(|c| c.reason.clone()).collect();
        Self::Refused { what: what.to_owned(), message, code, reason: status.reason.clone(), causes, immutable }
    }

    /// From an error of the client library.
    pub fn from_kube(what: &str, error: &kube::Error, secret: bool) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(what, status.code, status, secret),
            other => Self::Unreachable { what: what.to_owned(), message: short(other) },
        }
    }

    /// Reason of a condition, an event and a metric.
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
    /// Whether the API server, and not the request, is the trouble: no status is written for it unless it lasts.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            // A plain 500 is an answer to this request: a webhook that failed, an object that is not of its type.
            Self::Refused { code, .. } => *code == 429 || *code > 500,
            Self::UnknownKind { .. }
            | Self::Away { .. }
            | Self::Foreign { .. }
            | Self::Immutable { .. }
            | Self::Remaking { .. } => false,
        }
    }
    /// Server-side apply answers 500 when a field has another type than the kind's schema says (tried on 1.36).
    pub fn is_untyped(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(UNTYPED))
    }
    /// The API server's sentence.
    pub fn message(&self) -> &str {
        match self {
            Self::Refused { message, .. } => message,
            _ => "",
        }
    }
    /// The fields that cannot be changed, if that is why.
    pub fn immutable(&self) -> &[(String, String)] {
        match self {
            Self::Refused { immutable, .. } => immutable,
            _ => &[],
        }
    }
    /// 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
    /// 409.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, .. })
    }
    /// Nothing can be created because the namespace is going.
    pub fn is_namespace_terminating(&self) -> bool {
        matches!(self, Self::Refused { causes, .. } if causes.iter().any(|c| c == "NamespaceTerminating"))
    }
}

fn short(error: &kube::Error) -> String {
    let mut text = error.to_string();
    if let Some((at, _)) = text.char_indices().nth(300) {
        text.truncate(at);
    }
    text
}
