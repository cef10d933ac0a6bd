//! Measures loading and rendering in process, as `benches/render/helm` does with Helm's library.
//!
//! `render TIMES CHART...` prints a line for each chart: its folder, and the shortest of TIMES runs of each part in
//! nanoseconds: load, render (up to sorted manifests and hooks), and render once more (the chart stays loaded, as in
//! the operator; the first of these is not counted).

use std::process::ExitCode;
use std::time::{Duration, Instant};
use tillerman::chart::{self, Chart, Values};
use tillerman::render::{self, Capabilities, Options, Release};
use tillerman::template::function::{FnResult, Host};
use tillerman::template::value::Value;

/// A fixed clock and zeros for randomness.
struct Still;

impl Host for Still {
    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
    fn now(&self) -> i128 {
        1_700_000_000_000_000_000
    }
    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> FnResult {
        Ok(Value::map([]))
    }
    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}

fn load(path: &str) -> Result<(Chart, Duration), String> {
    let start = Instant::now();
    let chart = chart::load(path.as_ref()).map_err(|e| e.to_string())?;
    Ok((chart, start.elapsed()))
}

fn render(chart: &Chart, options: &Options) -> Result<Duration, String> {
    let release = Release { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let start = Instant::now();
    let rendered = render::render(chart, &Values::new(), &release, &Capabilities::default(), options);
    let took = start.elapsed();
    rendered.map(|_| took).map_err(|e| e.to_string())
}

fn measure(path: &str, times: usize, options: &Options) -> Result<[Duration; 3], String> {
    let mut best = [Duration::MAX; 3];
    let mut last = None;
    for _ in 0..times {
        let (chart, load) = load(path)?;
        best[0] = best[0].min(load);
        best[1] = best[1].min(render(&chart, options)?);
        last = Some(chart);
    }
    if let Some(chart) = last {
        for _ in 0..times {
            best[2] = best[2].min(render(&chart, options)?);
        }
    }
    Ok(best)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some((times, charts)) = args.split_first().and_then(|(t, charts)| Some((t.parse().ok()?, charts))) else {
        eprintln!("usage: render TIMES CHART...");
        return ExitCode::from(2);
    };
    let skip_schema = std::env::var_os("SKIP_SCHEMA").is_some();
    let mut options = Options::new(Still);
    options.skip_schema = skip_schema;
    for path in charts {
        match measure(path, times, &options) {
            Ok([load, render, again]) => {
                println!("{path}\t{}\t{}\t{}", load.as_nanos(), render.as_nanos(), again.as_nanos());
            }
            Err(e) => eprintln!("{path}: {e}"),
        }
    }
    ExitCode::SUCCESS
}
