//! Traces by OpenTelemetry, where its environment variables ask for them: `OTEL_EXPORTER_OTLP_ENDPOINT` or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. The library reads the rest of them (sampler, batches, headers, time-outs, resource). Spans
//! are sent as http/protobuf by the client that also fetches charts.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use crate::cli::common::error::CliError;
use crate::source::http::{Client, SMALL_LIMIT, Tls};
use crate::telemetry::spans;

/// OpenTelemetry's default for one export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last spans may take when the operator stops.
const LAST: Duration = Duration::from_secs(3);
/// How they are sent, and the port that is for it.
const PROTOCOL: &str = "http/protobuf";

/// Where spans are collected and sent from.
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    /// As the environment says: `None` when it does not request traces; an error names the unsupported request.
    pub(super) fn from_env(service: &str) -> Result<Option<Self>, CliError> {
        let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if !is_asked(env)? {
            return Ok(None);
        }
        let file = |name: &str| {
            let value = env(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
            value.or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{name}"))).unwrap_or_default().into()
        };
        let tls = Tls {
            stay_secure: false,
            cert_file: file("CLIENT_CERTIFICATE"),
            key_file: file("CLIENT_KEY"),
            ca_file: file("CERTIFICATE"),
            insecure: false,
        };
        let client = Client::new(&tls)?;
        let timeout = env("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| env("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let timeout = timeout.and_then(|t| t.parse().ok()).map_or(TIMEOUT, Duration::from_millis);
        let sender = Sender { client, timeout, failing: AtomicBool::new(false) };
        let exporter = SpanExporter::builder().with_http().with_http_client(sender).build();
        let exporter = exporter.map_err(CliError::new)?;
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
        let attributes = env("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let is_named = attributes.split(',').any(|pair| pair.trim_start().starts_with("service.name="));
        if env("OTEL_SERVICE_NAME").is_none() && !is_named {
            resource = resource.with_service_name(service.to_owned());
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build());
        Ok(Some(Self(provider.build())))
    }

    /// The layer for spans. It gets nothing of the log, whose lines hold texts of charts and of the API server.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let spans = filter_fn(|metadata| metadata.is_span() && metadata.target() == spans::TARGET);
        // Without this filter everything that libraries log at the lowest level would be processed.
        let spans = spans.with_max_level_hint(LevelFilter::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("tillerman"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(spans)
    }

    /// Sends the remaining traces.
    pub(super) fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Whether traces are requested.
fn is_asked(env: impl Fn(&str) -> Option<String>) -> Result<bool, CliError> {
    let either = |name: &str| {
        env(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| env(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    let is_off = env("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || env("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if is_off || either("ENDPOINT").is_none() {
        return Ok(false);
    }
    match either("PROTOCOL") {
        Some(other) if other != PROTOCOL => {
            Err(format!("traces are sent by {PROTOCOL} (a collector's port 4318), and not by {other}").into())
        }
        _ => Ok(true),
    }
}

/// Sends batches, on the library's own thread.
#[derive(Debug)]
struct Sender {
    client: Client,
    timeout: Duration,
    /// The last batch could not be sent; this is reported once.
    failing: AtomicBool,
}

impl Sender {
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.post(request.map(|body| body.to_vec()), self.timeout, SMALL_LIMIT);
        let failure = match &answer {
            Ok(answer) if answer.status < 300 => None,
            Ok(answer) => Some(format!("the collector answers {}", answer.status)),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        if let Some(error) = failure.filter(|_| !was_failing) {
            tracing::warn!(%error, "traces cannot be sent");
        }
        let answer = answer?;
        let mut response = Response::new(Bytes::from(answer.body));
        *response.status_mut() = answer.status.try_into()?;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

impl HttpClient for Sender {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(self.send(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::is_asked;

    #[test]
    fn traces_are_off_unless_an_endpoint_is_given() {
        for (variables, expected) in [
            (&[][..], Some(false)),
            (&[("OTEL_SERVICE_NAME", "x")], Some(false)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x:4318")], Some(true)),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://x:4318/v1/traces")], Some(true)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_SDK_DISABLED", "TRUE")], Some(false)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_TRACES_EXPORTER", "none")], Some(false)),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                Some(true),
            ),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], None),
        ] {
            let env = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(is_asked(env).ok(), expected, "{variables:?}");
        }
    }
}
