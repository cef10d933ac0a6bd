//! Runs parts of the tests: `xtask [OPTION...] PART...`. It ends with a table of the parts with their seconds, and one line that sums
//! the tests.
//!
//! What failed runs once more by itself at the end. What passes then is listed as unstable; a run passes with two such tests at most.
//! Parts that mostly wait run two at a time. `--share` takes of each sweep the cells that the newest commit chooses; without it
//! sweeps are whole. With `--minutes` a slow machine ends in time: parts that have not begun by then are left out, and listed.

mod again;
mod parts;
mod report;
mod run;
mod share;

use std::collections::VecDeque;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use again::Unstable;
use parts::{CiPart, PARTS};
use report::Report;
use share::Share;

const USAGE: &str = "usage: xtask [--share] [--jobs N] [--busy N] [--minutes N] [--compare] [--record] PART...
  --share    of each sweep only the cells that the newest commit chooses, and of the parts that take turns those whose turn it is
  --jobs N   parts that run at the same time (default: 2)
  --busy N   busy loops that run beside the parts (default: 0)
  --minutes N  parts that have not begun so long after the start are left out
  --compare  name the parts that take more than twice as long as recorded
  --record   write the seconds of the parts to tests/xtask/seconds.tsv
parts:";

struct Options {
    share: Share,
    jobs: usize,
    busy: usize,
    /// When the last part may begin, from the start.
    last_begin: Duration,
    compare: bool,
    record: bool,
    parts: VecDeque<&'static CiPart>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        share: Share::whole(),
        jobs: 2,
        busy: 0,
        last_begin: Duration::MAX,
        compare: false,
        record: false,
        parts: VecDeque::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--share" => options.share = Share::of_commit()?,
            "--compare" => options.compare = true,
            "--record" => options.record = true,
            "--jobs" => {
                let number = arguments.next().and_then(|text| text.parse().ok()).filter(|jobs| *jobs > 0);
                options.jobs = number.ok_or("--jobs needs a number")?;
            }
            "--busy" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                options.busy = number.ok_or("--busy needs a number")?;
            }
            "--minutes" => {
                let number = arguments.next().and_then(|text| text.parse().ok());
                options.last_begin = Duration::from_mins(number.ok_or("--minutes needs a number")?);
            }
            name => {
                let part = PARTS.iter().find(|part| part.name == name);
                options.parts.push_back(part.ok_or_else(|| format!("unknown part or option {name:?}"))?);
            }
        }
    }
    if options.parts.is_empty() {
        return Err("no part is given".to_owned());
    }
    let share = options.share;
    options.parts.retain(|part| {
        let runs = share.has(part.name);
        if !runs {
            println!("not run: {}, whose turn comes with another commit", part.name);
        }
        runs
    });
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("error: {why}\n{USAGE}");
            for part in PARTS {
                eprintln!("  {:<13}{}", part.name, part.about);
            }
            return ExitCode::from(2);
        }
    };
    println!("{}", options.share);
    let mut builder = build_ahead(&options.parts);
    let mut busy: Vec<Child> = (0..options.busy).filter_map(|_| run::start_quietly(run::BUSY)).collect();
    let (mut reports, left_out) = run_all(&options);
    busy.iter_mut().for_each(run::end_group);
    if let Some(builder) = &mut builder {
        run::end_group(builder);
    }
    let unstable = again::failed(&mut reports, options.share);
    let end = finish(&options, &reports, &unstable);
    for part in left_out {
        println!("not run: {} had not begun in time", part.name);
    }
    end
}

/// Runs the parts in their order, as many at a time as may; with those for which there was no time.
fn run_all(options: &Options) -> (Vec<Report>, VecDeque<&'static CiPart>) {
    let began = Instant::now();
    let mut waiting = options.parts.clone();
    let mut reports = Vec::new();
    let (sender, receiver) = mpsc::channel();
    let (mut running, mut is_alone) = (0, false);
    std::thread::scope(|scope| {
        loop {
            while let Some(part) = waiting.front().copied().filter(|_| began.elapsed() < options.last_begin) {
                let has_room = running == 0 || (!is_alone && !part.alone && running < options.jobs);
                if !has_room {
                    break;
                }
                waiting.pop_front();
                running += 1;
                is_alone = part.alone;
                let (sender, share) = (sender.clone(), options.share);
                println!("== {}, after {} min", part.name, began.elapsed().as_secs() / 60);
                scope.spawn(move || {
                    let report = run::part(part, share);
                    println!("== {} ends: {}\n", part.name, report.seconds());
                    sender.send(report).expect("the receiver lives as long as the parts");
                });
            }
            if running == 0 {
                break;
            }
            let report: Report = receiver.recv().expect("a part that runs sends its report");
            running -= 1;
            reports.push(report);
        }
    });
    (reports, waiting)
}

/// Builds what the parts need while others run: the compiler often has work for one core only, and tests mostly wait. What fails here
/// fails again in the part that needs it.
fn build_ahead(parts: &VecDeque<&'static CiPart>) -> Option<Child> {
    let runs_nodes =
        Command::new("tests/cluster/node-can.sh").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    let needed = || parts.iter().filter(|part| runs_nodes || part.name != "node");
    let tools: Vec<&str> = needed().flat_map(|part| part.tools).copied().collect();
    let mut commands = Vec::new();
    if needed().any(|part| part.release) {
        commands.push("nice -n 19 make build".to_owned());
    }
    if !tools.is_empty() {
        commands.push(format!("nice -n 19 tests/cluster/build-tools.sh {}", tools.join(" ")));
    }
    (!commands.is_empty()).then(|| run::start_quietly(&commands.join("; "))).flatten()
}

fn finish(options: &Options, reports: &[Report], unstable: &[Unstable]) -> ExitCode {
    let recorded = report::recorded();
    println!("{}", report::table(reports, &recorded));
    if let Err(error) = report::write_junit(reports) {
        eprintln!("error: the report cannot be written: {error}");
    }
    if options.record
        && let Err(error) = report::record(reports, &recorded)
    {
        eprintln!("error: the seconds cannot be recorded: {error}");
    }
    let passed: usize = reports.iter().map(Report::passed).sum();
    let mut failed: usize = reports.iter().map(Report::failed).sum();
    // A warning: the time depends on what runs beside a part, and on the machine.
    if options.compare {
        for slow in report::slow(reports, &recorded) {
            println!("warning: {slow}");
        }
    }
    print!("{}", report::unstable(unstable));
    if unstable.len() > again::MOST {
        failed += unstable.len();
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
