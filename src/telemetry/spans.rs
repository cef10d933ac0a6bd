//! All spans of traces, with all their attributes: names of Kubernetes, counts and codes. They contain no text of a
//! chart, of an API server or of a Secret.
//!
//! Without a subscriber for traces, a span costs only a look at one number.

use tracing::{Span, info_span};

/// Target of the spans, which separates them from the log.
pub const TARGET: &str = "otel";

/// A pass over one custom resource. [`ended`] adds its purpose and its outcome.
pub fn pass(kind: &str, namespace: &str, name: &str) -> Span {
    info_span!(
        target: TARGET, "pass", kind, namespace, name, step = tracing::field::Empty, outcome = tracing::field::Empty,
        revision = tracing::field::Empty, otel.status_code = tracing::field::Empty
    )
}

/// Adds the purpose and the outcome of the current pass: `success` or a reason.
pub fn ended(step: &str, outcome: &'static str, revision: u64) {
    let span = Span::current();
    span.record("step", step);
    span.record("outcome", outcome);
    span.record("revision", revision);
    span.record("otel.status_code", status(outcome == "success"));
}

/// The rendering of a chart.
pub fn render(chart: &str, version: &str) -> Span {
    info_span!(target: TARGET, "render", chart, version, otel.status_code = tracing::field::Empty)
}

/// Adds the outcome of a rendering.
pub fn rendered(span: &Span, is_ok: bool) {
    span.record("otel.status_code", status(is_ok));
}

/// A request to the API server on behalf of a pass, from its start to the head of the answer. Other requests have no
/// span: every renewal of the lease would be a trace, every two seconds.
pub fn request(verb: &'static str, path: &str) -> Span {
    // Without traces the pass has no span either. `span_enabled!` would leave a mark that makes the log lose its next
    // line.
    if Span::current().is_none() {
        return Span::none();
    }
    let Target { resource, namespace, name } = target(path);
    info_span!(
        target: TARGET, "request", otel.name = format!("{verb} {resource}"), otel.kind = "client", verb, resource,
        namespace, name, http.response.status_code = tracing::field::Empty, otel.status_code = tracing::field::Empty
    )
}

/// Adds the outcome of a request; without a code there was no answer.
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

/// The target of a request.
#[derive(Debug, PartialEq, Eq)]
struct Target<'a> {
    /// The plural, with a subresource: `webs/status`. For a path without a resource, the path.
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
