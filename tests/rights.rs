//! `tillerman rbac` over many real charts: how much of what their values files render is in the rules that are made without these files.
//!
//! `tests/rights.sh` unpacks the charts and runs this. What API servers serve no more (`extensions/*`, `PodSecurityPolicy`) does not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tillerman::chart::{self, Chart, Values, values};
use tillerman::crd::Evidence;
use tillerman::host;
use tillerman::rbac::{Pair, Rights, kinds};
use tillerman::render::{Capabilities, Options, Release, render};

/// Of the pairs that values files render, those in the rules made without them, in thousandths.
const PAIRS: usize = 990;
/// Of the values files, those whose pairs are all in the rules made without that file, in thousandths.
const FILES: usize = 960;
/// What a tenth of the charts may have less, since a single chart counts more.
const OF_SHARE: usize = 60;

/// The charts below a folder that are in no other chart.
fn charts(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.join("Chart.yaml").exists() {
        return found.push(folder.to_owned());
    }
    let mut below: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    below.sort();
    below.iter().filter(|path| path.is_dir()).for_each(|path| charts(path, found));
}

fn values_files(chart: &Path) -> Vec<Evidence> {
    let Ok(entries) = fs::read_dir(chart.join("ci")) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Some(Evidence { name, values: values::load(&fs::read(&path).unwrap()).ok()? })
    };
    paths.into_iter().filter_map(read).collect()
}

/// What a chart renders, read off its manifests alone.
fn rendered(chart: &Chart, values: &Values) -> Option<BTreeSet<Pair>> {
    let mut options: Options = host::options();
    options.skip_schema = true;
    let made = render(chart, values, &Release::new("rel", "ns"), &Capabilities::default(), &options).ok()?;
    let hooks = made.hooks.iter().filter(|hook| !hook.events.iter().all(|event| event.starts_with("test")));
    let mut pairs = BTreeSet::new();
    for manifest in made.manifests.iter().chain(hooks.map(|hook| &hook.manifest)) {
        if manifest.kind != "List" {
            pairs.insert(Pair::of(&manifest.api_version, &manifest.kind));
            continue;
        }
        let list = tillerman::template::yaml::parse(manifest.text.as_bytes()).ok()?;
        for item in list["items"].as_array().into_iter().flatten() {
            let text = |key: &str| item[key].as_str().unwrap_or_default();
            pairs.insert(Pair::of(text("apiVersion"), text("kind")));
        }
    }
    pairs.retain(|pair| !pair.kind.is_empty() && !kinds::is_gone(&pair.group, &pair.kind));
    Some(pairs)
}

fn thousandths(part: usize, of: usize) -> usize {
    (part * 1000).checked_div(of).unwrap_or(1000)
}

fn percent(part: usize, of: usize) -> String {
    let share = thousandths(part, of);
    format!("{part} of {of} ({}.{} %)", share / 10, share % 10)
}

#[derive(Default)]
struct Sum {
    charts: usize,
    with_files: usize,
    pairs: usize,
    covered: usize,
    beyond: usize,
    beyond_covered: usize,
    by_default: usize,
    files: usize,
    whole: usize,
    whole_with_others: usize,
    missed: Vec<String>,
}

impl Sum {
    fn add(&mut self, path: &Path) {
        let Ok(chart) = chart::load(path) else { return };
        if chart.is_library() {
            return;
        }
        self.charts += 1;
        let files = values_files(path);
        let base = Rights::kinds(&chart, &[]);
        let default = rendered(&chart, &Values::new()).unwrap_or_default();
        assert!(default.is_subset(&base), "{}: what it renders by default is missing", path.display());
        let of_files: Vec<BTreeSet<Pair>> = files.iter().filter_map(|file| rendered(&chart, &file.values)).collect();
        if of_files.is_empty() {
            return;
        }
        self.with_files += 1;
        let all: BTreeSet<Pair> = of_files.iter().flatten().cloned().collect();
        assert!(all.is_subset(&Rights::kinds(&chart, &files)), "{}: what its files render is missing", path.display());
        self.pairs += all.len();
        self.by_default += all.intersection(&default).count();
        self.beyond += all.difference(&default).count();
        self.beyond_covered += all.difference(&default).filter(|pair| base.contains(pair)).count();
        self.covered += all.intersection(&base).count();
        let missed: Vec<String> = all.difference(&base).map(ToString::to_string).collect();
        if !missed.is_empty() {
            self.missed.push(format!("{}: {}", path.display(), missed.join(", ")));
        }
        for (number, pairs) in of_files.iter().enumerate() {
            self.files += 1;
            let others = of_files.iter().enumerate().filter(|(other, _)| *other != number).flat_map(|(_, pairs)| pairs);
            let with_others: BTreeSet<Pair> = base.iter().chain(others).cloned().collect();
            self.whole += usize::from(pairs.is_subset(&base));
            self.whole_with_others += usize::from(pairs.is_subset(&with_others));
        }
    }
}

/// `REMAINDER/OF`: of the charts, those whose number leaves the remainder.
fn share() -> (usize, usize) {
    let text = std::env::var("SWEEP_CHARTS").unwrap_or_else(|_| "0/1".to_owned());
    let read = |text: &str| -> Option<(usize, usize)> {
        let (remainder, of) = text.split_once('/')?;
        Some((remainder.parse().ok()?, of.parse().ok().filter(|of| *of > 0)?))
    };
    read(&text).unwrap_or_else(|| panic!("SWEEP_CHARTS is {text:?}, and must be REMAINDER/OF"))
}

#[test]
#[ignore = "needs the corpus of charts: tests/rights.sh"]
fn rules_made_without_values_files_cover_what_these_render() {
    let root = std::env::var_os("RIGHTS_CORPUS").expect("run me with tests/rights.sh");
    std::env::set_current_dir(root).unwrap();
    let mut all = Vec::new();
    charts(Path::new("charts"), &mut all);
    let (remainder, of) = share();
    let chosen: Vec<PathBuf> = (0..).zip(all).filter(|(n, _)| n % of == remainder).map(|(_, path)| path).collect();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let sums: Vec<Sum> = std::thread::scope(|scope| {
        let chosen = &chosen;
        let work = |first: usize| {
            // A rendering needs more stack than a thread has by default, without optimisation.
            let run = move || {
                let mut sum = Sum::default();
                chosen.iter().skip(first).step_by(threads).for_each(|path| sum.add(path));
                sum
            };
            std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, run).unwrap()
        };
        let running: Vec<_> = (0..threads).map(work).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut sum = Sum::default();
    for one in sums {
        sum.charts += one.charts;
        sum.with_files += one.with_files;
        sum.pairs += one.pairs;
        sum.covered += one.covered;
        sum.beyond += one.beyond;
        sum.beyond_covered += one.beyond_covered;
        sum.by_default += one.by_default;
        sum.files += one.files;
        sum.whole += one.whole;
        sum.whole_with_others += one.whole_with_others;
        sum.missed.extend(one.missed);
    }
    sum.missed.sort();
    println!("{} charts, {} with values files", sum.charts, sum.with_files);
    println!("pairs of values files, rendered by default: {}", percent(sum.by_default, sum.pairs));
    println!("pairs of values files, in the rules without them: {}", percent(sum.covered, sum.pairs));
    println!("pairs beyond the default rendering, in the rules: {}", percent(sum.beyond_covered, sum.beyond));
    println!("values files wholly covered, without any: {}", percent(sum.whole, sum.files));
    println!("values files wholly covered, left out one at a time: {}", percent(sum.whole_with_others, sum.files));
    sum.missed.iter().for_each(|line| println!("  missed: {line}"));
    assert!(sum.pairs > 0, "there is nothing to cover");
    let less = if of == 1 { 0 } else { OF_SHARE };
    assert!(thousandths(sum.covered, sum.pairs) >= PAIRS - less, "fewer pairs than {} thousandths", PAIRS - less);
    assert!(thousandths(sum.whole, sum.files) >= FILES - less, "fewer files than {} thousandths", FILES - less);
}
