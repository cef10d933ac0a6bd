//! The log of the operator, by zap's flags (controller-runtime, `pkg/log/zap`).

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use super::trace::Traces;
use crate::cli::common::error::FlagError;

/// The settings of zap's flags.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub(super) struct LogArgs {
    /// Development mode of the log: text instead of JSON, and debug messages.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", value_parser = super::flag)]
    zap_devel: bool,
    /// `json` or `console`.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FORMAT", value_parser = encoder)]
    zap_encoder: String,
    /// `debug`, `info`, `error`, `panic`, or a number: a higher number logs more.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "LEVEL", value_parser = level)]
    zap_log_level: String,
    /// Accepted for helm-operator's sake.
    #[arg(long, hide = true, default_value = "", value_parser = stack_level)]
    zap_stacktrace_level: String,
    /// `epoch`, `millis`, `nano`, `iso8601`, `rfc3339` or `rfc3339nano`, which is the default.
    #[arg(long, default_value = "rfc3339nano", hide_default_value = true, value_name = "FORMAT", value_parser = Time::parse)]
    zap_time_encoding: Time,
}

fn one_of(text: &str, known: &[&str], what: &str) -> Result<String, FlagError> {
    let lower = text.to_lowercase();
    if known.contains(&lower.as_str()) { Ok(lower) } else { Err(format!("invalid {what} {text:?}").into()) }
}

fn encoder(text: &str) -> Result<String, FlagError> {
    one_of(text, &["", "json", "console"], "encoder value")
}

fn level(text: &str) -> Result<String, FlagError> {
    match text.parse::<u32>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => one_of(text, &["", "debug", "info", "warn", "error", "panic"], "log level"),
    }
}

fn stack_level(text: &str) -> Result<String, FlagError> {
    one_of(text, &["", "info", "error", "panic"], "stacktrace level")
}

/// How a line's time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    Epoch,
    Millis,
    Nano,
    Iso8601,
    Rfc3339,
    Rfc3339Nano,
}

impl Time {
    fn parse(text: &str) -> Result<Self, FlagError> {
        Ok(match text.to_lowercase().as_str() {
            "epoch" => Self::Epoch,
            "millis" => Self::Millis,
            "nano" => Self::Nano,
            "iso8601" => Self::Iso8601,
            "rfc3339" => Self::Rfc3339,
            "rfc3339nano" | "" => Self::Rfc3339Nano,
            _ => return Err(format!("invalid time encoding {text:?}").into()),
        })
    }

    fn write(self, now: jiff::Timestamp, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        let nanoseconds = now.as_nanosecond();
        match self {
            Self::Epoch => write!(out, "{}.{:06}", now.as_second(), nanoseconds / 1000 % 1_000_000),
            Self::Millis => write!(out, "{}.{:06}", nanoseconds / 1_000_000, nanoseconds % 1_000_000),
            Self::Nano => write!(out, "{nanoseconds}"),
            Self::Iso8601 => write!(out, "{now:.3}"),
            Self::Rfc3339 => write!(out, "{now:.0}"),
            Self::Rfc3339Nano => write!(out, "{now:.9}"),
        }
    }
}

impl FormatTime for Time {
    fn format_time(&self, out: &mut Writer<'_>) -> std::fmt::Result {
        self.write(jiff::Timestamp::now(), out)
    }
}

/// The client library logs every answer that is not a success as an error. The messages of passes are more precise.
/// `RUST_LOG` wins over `--zap-log-level`. zap's numbers count verbosity: 0 is info, more is debug.
pub(super) fn start(args: &LogArgs, traces: Option<&Traces>) {
    let level = match args.zap_log_level.as_str() {
        "" if args.zap_devel => "debug",
        "" | "info" | "0" => "info",
        "error" | "panic" => "error",
        "warn" => "warn",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("warn,kube_client::client::builder=off,tillerman={level}")));
    // A second log in one process changes nothing. A filter of a single layer caches decisions if there is no other
    // layer, and lines get lost: without another layer it is that of all.
    let _ = match traces {
        None => tracing_subscriber::registry().with(layer(args)).with(filter).try_init(),
        Some(traces) => {
            let log = layer(args).with_filter(filter);
            tracing_subscriber::registry().with(log).with(traces.layer()).try_init()
        }
    };
}

fn layer<S>(args: &LogArgs) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let text = match args.zap_encoder.as_str() {
        "" => args.zap_devel || std::io::IsTerminal::is_terminal(&std::io::stderr()),
        encoder => encoder == "console",
    };
    let log = tracing_subscriber::fmt::layer().with_timer(args.zap_time_encoding).with_writer(std::io::stderr);
    if text { log.with_ansi(false).with_target(false).boxed() } else { log.json().flatten_event(true).boxed() }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn times_are_written_as_zap_writes_them() {
        let now: jiff::Timestamp = "2026-11-21T09:00:00.123456789Z".parse().unwrap();
        for (name, expected) in [
            ("epoch", "1795251600.123456"),
            ("millis", "1795251600123.456789"),
            ("nano", "1795251600123456789"),
            ("iso8601", "2026-11-21T09:00:00.123Z"),
            ("rfc3339", "2026-11-21T09:00:00Z"),
            ("RFC3339Nano", "2026-11-21T09:00:00.123456789Z"),
        ] {
            let mut text = String::new();
            Time::parse(name).unwrap().write(now, &mut text).unwrap();
            assert_eq!(text, expected, "{name}");
        }
        assert!(Time::parse("sundial").is_err());
    }
}
