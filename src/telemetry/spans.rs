//! The spans that traces are made of, all of them, with all their attributes: names of Kubernetes, counts and codes. No text of a chart,
//! of an API server or of a Secret is among them.
//!
//! Where nobody has asked for traces no subscriber takes them, and what would be a span is a look at one number.

use tracing::{Span, info_span};

/// Target of the spans, which separates them from the log.
pub const TARGET: &str = "otel";

/// A pass over one custom resource. What it was for, and how it ended, is entered by [`ended`].
pub fn pass(kind: &str, namespace: &str, name: &str) -> Span {
    info_span!(
        target: TARGET, "pass", kind, namespace, name, step = tracing::field::Empty, outcome = tracing::field::Empty,
        revision = tracing::field::Empty, otel.status_code = tracing::field::Empty
    )
}

/// Enters into the pass that runs what it was for, and how it ended: `success` or a reason.
pub fn ended(step: &str, outcome: &'static str, revision: u64) {
    let span = Span::current();
    span.record("step", step);
    span.record("outcome", outcome);
    span.record("revision", revision);
    span.record("otel.status_code", status(outcome == "success"));
}

/// A chart is rendered.
pub fn render(chart: &str, version: &str) -> Span {
    info_span!(target: TARGET, "render", chart, version, otel.status_code = tracing::field::Empty)
}

/// Enters how a rendering ended.
pub fn rendered(span: &Span, is_ok: bool) {
    span.record("otel.status_code", status(is_ok));
}

/// A request to the API server on behalf of a pass, from its being sent to the answer's head. Others have none: renewals of the lease
/// would be a trace each, every two seconds.
pub fn request(verb: &'static str, path: &str) -> Span {
    // Without traces there is no span of the pass either. `span_enabled!` would leave a mark by which the log loses its next line.
    if Span::current().is_none() {
        return Span::none();
    }
    let Target { resource, namespace, name } = target(path);
    info_span!(
        target: TARGET, "request", otel.name = format!("{verb} {resource}"), otel.kind = "client", verb, resource,
        namespace, name, http.response.status_code = tracing::field::Empty, otel.status_code = tracing::field::Empty
    )
}

/// Enters how a request ended; without a code there was no answer.
pub fn answered(span: &Span, code: Option<u16>) {
    if let Some(code) = code {
        span.record("http.response.status_code", code);
    }
    span.record("otel.status_code", status(code.is_some_and(|code| code < 400)));
}

/// The values of `otel.status_code` that tracing-opentelemetry knows.
fn status(is_ok: bool) -> &'static str {
    if is_ok { "OK" } else { "ERROR" }
}

/// What a request is about.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    /// Plural, with a subresource: `webs/status`; of a path that is no resource's, the path.
    resource: String,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

fn target(path: &str) -> Target<'_> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
        rest => (None, rest),
    };
    match rest {
        [] => Target { resource: path.to_owned(), namespace, name: None },
        [resource] => Target { resource: (*resource).to_owned(), namespace, name: None },
        [resource, name] => Target { resource: (*resource).to_owned(), namespace, name: Some(name) },
        [resource, name, sub @ ..] => {
            Target { resource: format!("{resource}/{}", sub.join("/")), namespace, name: Some(name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn a_path_tells_what_a_request_is_about() {
        for (path, resource, namespace, name) in [
            ("/api/v1/namespaces/a/secrets/b", "secrets", Some("a"), Some("b")),
            ("/api/v1/namespaces/a/pods/b/log", "pods/log", Some("a"), Some("b")),
            ("/apis/apps/v1/deployments", "deployments", None, None),
            ("/apis/g/v1/namespaces/a/webs/b/status", "webs/status", Some("a"), Some("b")),
            ("/api/v1/namespaces/a", "namespaces", None, Some("a")),
            ("/version", "/version", None, None),
            ("/apis", "/apis", None, None),
        ] {
            let found = target(path);
            assert_eq!((found.resource.as_str(), found.namespace, found.name), (resource, namespace, name), "{path}");
        }
    }
}
