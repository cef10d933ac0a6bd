//! Compares renderings with Helm's: `diff ORACLE MINUTES SEED`, where ORACLE is the program of `fuzz/oracle`. What
//! differs is printed as JSON, one case a line, and makes the status 1. `diff ORACLE replay FILE` looks at what was
//! printed again.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tillerman::chart::{self, File};
use tillerman::render::{self, Capabilities, Release};
use tillerman_fuzz::chart::{Case, of_dependencies, of_functions};
use tillerman_fuzz::entry;
use tillerman_fuzz::random::Random;
use tillerman_fuzz::whole::of_files;

/// Seconds after which Helm is not waited for any longer.
const MAX_WAIT: u64 = 20;
/// How often Helm is asked again. Go begins at any of eight places of a small map, so of two entries the one that was added last comes
/// first in one of eight times.
const AGAIN: usize = 50;
/// Differences after which it is enough.
const MAX_FOUND: usize = 40;

struct Oracle {
    program: String,
    child: Arc<Mutex<Child>>,
    /// Seconds since the last answer, while one is waited for.
    waited: Arc<AtomicU64>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(program: &str) -> Self {
        let mut child = Command::new(program)
            .env("TZ", "UTC")
            .env("GOMEMLIMIT", "1GiB")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the oracle can be started");
        let input = child.stdin.take().expect("it was asked for");
        let output = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (child, waited) = (Arc::new(Mutex::new(child)), Arc::new(AtomicU64::new(0)));
        let watched = (Arc::downgrade(&child), Arc::clone(&waited));
        std::thread::spawn(move || {
            while let Some(child) = watched.0.upgrade() {
                if watched.1.fetch_add(1, Ordering::Relaxed) > MAX_WAIT
                    && let Ok(mut child) = child.lock()
                {
                    let _ = child.kill();
                }
                drop(child);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self { program: program.to_owned(), child, waited, input, output }
    }

    /// What Helm answers; `None` if it died, as Go does when it runs out of stack.
    fn ask(&mut self, case: &Case) -> Option<Value> {
        let request = json!({"files": case.all_files(), "values": case.values()});
        self.waited.store(0, Ordering::Relaxed);
        let asked = writeln!(self.input, "{request}").and_then(|()| self.input.flush());
        let mut line = String::new();
        let answered = asked.and_then(|()| self.output.read_line(&mut line));
        if answered.is_ok_and(|length| length > 0) {
            return serde_json::from_str(&line).ok();
        }
        let _ = self.child.lock().map(|mut child| child.wait());
        eprintln!("Helm has no answer to {request}");
        *self = Self::start(&self.program);
        None
    }
}

/// The same of Tillerman.
fn ours(case: &Case) -> Value {
    let files =
        case.all_files().into_iter().map(|(name, text)| File { name, data: text.into_bytes().into() }).collect();
    let chart = match chart::load_files(files, &chart::ChartLimits::default()) {
        Ok(chart) => chart,
        Err(e) => return json!({"error": e.0}),
    };
    let user = chart::values::load(case.values().as_bytes()).expect("the values are JSON");
    let release = Release { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    match render::render(&chart, &user, &release, &Capabilities::default(), &entry::options(render::Limits::default()))
    {
        Err(e) => json!({"error": e.message}),
        Ok(rendered) => json!({
            "notes": rendered.notes,
            "manifests": rendered.manifests.iter().map(|m| json!([m.source, m.kind, m.text])).collect::<Vec<_>>(),
            "hooks": rendered.hooks.iter()
                .map(|h| json!([h.manifest.source, h.manifest.kind, h.manifest.name, h.manifest.text, h.weight.to_string()]))
                .collect::<Vec<_>>(),
        }),
    }
}

/// A part of an answer without what differs from run to run: bytes that are no UTF-8 become one or more U+FFFD on the
/// way here, Go's addresses are its own, and schemas are applied to the entries of a map in any order.
fn comparable(answer: &Value, key: &str) -> String {
    let mut text = answer.get(key).map(Value::to_string).unwrap_or_default();
    while text.contains("\u{fffd}\u{fffd}") {
        text = text.replace("\u{fffd}\u{fffd}", "\u{fffd}");
    }
    let mut parts = text.split("0xc000000000");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out = out + "ADDRESS" + part;
    }
    let mut masked = String::new();
    let mut rest = out.as_str();
    while let Some(at) = rest.find("0x") {
        let is_digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        let digits = rest[at + 2..].bytes().take_while(is_digit).take(12).count();
        masked += &rest[..at];
        masked += if digits >= 7 { "ADDRESS" } else { &rest[at..at + 2 + digits] };
        rest = &rest[at + 2 + digits..];
    }
    masked += rest;
    // Helm takes subcharts in any order until they are named, and tells of the first.
    for any in ["error unpacking subchart", "type mismatch on"] {
        if let Some(at) = masked.find(any) {
            masked.truncate(at + any.len());
        }
    }
    if masked.contains("values don't meet the specifications") {
        let mut lines: Vec<_> = masked.split("\\n").collect();
        lines.sort_unstable();
        return lines.join("\n");
    }
    masked
}

/// How the two answers differ.
fn difference(oracle: &mut Oracle, case: &Case) -> Option<(Value, Value)> {
    let got = ours(case);
    let want = oracle.ask(case)?;
    let keys: &[&str] = if want.get("error").is_some() || got.get("error").is_some() {
        &["error"]
    } else {
        &["notes", "manifests", "hooks"]
    };
    // Of addresses that are printed as numbers, nobody can tell which digits are theirs.
    if ["824633720832", "14000000000000", "1100000000000000000000000000000000000000", " c000000000"]
        .iter()
        .any(|address| keys.iter().any(|key| got.get(key).is_some_and(|part| part.to_string().contains(address))))
    {
        return None;
    }
    let differ = |a: &Value, b: &Value| keys.iter().any(|key| comparable(a, key) != comparable(b, key));
    if !differ(&got, &want) {
        return None;
    }
    // What Helm itself tells otherwise another time, such as an address in decimal, nobody can tell alike.
    for _ in 0..AGAIN {
        if differ(&want, &oracle.ask(case)?) {
            return None;
        }
    }
    Some((want, got))
}

/// Leaves out what the difference does not need.
fn shrink(oracle: &mut Oracle, mut case: Case) -> Case {
    let mut at = 0;
    while at < case.statements.len() && case.statements.len() > 1 {
        let mut smaller = case.clone();
        smaller.statements.remove(at);
        if difference(oracle, &smaller).is_some() { case = smaller } else { at += 1 }
    }
    for name in case.files.keys().cloned().collect::<Vec<_>>() {
        let mut smaller = case.clone();
        smaller.files.remove(&name);
        if difference(oracle, &smaller).is_some() {
            case = smaller;
        }
    }
    case
}

/// Looks at the cases of a file again.
fn replay(oracle: &mut Oracle, file: &str) {
    let (mut count, mut found) = (0, 0);
    for line in std::fs::read_to_string(file).expect("the file can be read").lines() {
        let mut row: Value = serde_json::from_str(line).expect("a case is JSON");
        let files = serde_json::from_value(row["files"].take()).expect("a case has files");
        let case = Case { files, statements: Vec::new(), values: row["values"].take() };
        count += 1;
        if let Some((want, got)) = difference(oracle, &case) {
            found += 1;
            println!("{}", json!({"files": case.files, "values": case.values, "helm": want, "tillerman": got}));
        }
    }
    eprintln!("{count} cases, {found} differences");
    std::process::exit(i32::from(found > 0));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, program, minutes, seed] = arguments.as_slice() else {
        eprintln!("usage: diff ORACLE MINUTES SEED");
        std::process::exit(2);
    };
    if minutes == "replay" {
        return replay(&mut Oracle::start(program), seed);
    }
    let minutes: f64 = minutes.parse().expect("MINUTES is a number");
    let seed: u64 = seed.parse().expect("SEED is a number");
    let mut oracle = Oracle::start(program);
    let (start, mut count, mut found) = (Instant::now(), 0u64, 0);
    while start.elapsed() < Duration::from_secs_f64(minutes * 60.0) && found < MAX_FOUND {
        let mut random = Random::new(seed.wrapping_add(count).wrapping_mul(0x1_0000_0001));
        let case = match count % 8 {
            3 => of_dependencies(&mut random),
            5 | 7 => of_files(&mut random),
            _ => of_functions(&mut random),
        };
        count += 1;
        if difference(&mut oracle, &case).is_none() {
            continue;
        }
        let case = shrink(&mut oracle, case);
        let Some((want, got)) = difference(&mut oracle, &case) else { continue };
        found += 1;
        println!("{}", json!({"files": case.all_files(), "values": case.values, "helm": want, "tillerman": got}));
    }
    let seconds = start.elapsed().as_secs();
    eprintln!("{count} cases in {seconds} s, {found} differences");
    std::process::exit(i32::from(found > 0));
}
