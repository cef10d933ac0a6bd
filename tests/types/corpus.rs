//! The charts of the corpus with the values files that come with them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tillerman::chart::{self, Chart, Values};
use tillerman::cli::common::values_files;
use tillerman::crd::{self, CrdSettings, Evidence, Typed};

/// A chart of the corpus.
pub struct Entry {
    /// Its folder below the corpus.
    pub name: String,
    /// The chart.
    pub chart: Chart,
    /// The files of `ci/`, and others that are called values.
    pub files: Vec<Evidence>,
    /// Its types, for which the files were looked at.
    pub typed: Typed,
}

impl Entry {
    /// The default values, with those of dependencies.
    pub fn defaults(&self) -> &Values {
        self.typed.defaults()
    }

    /// The files of `ci/`.
    pub fn ci(&self) -> impl Iterator<Item = &Evidence> {
        self.files.iter().filter(|file| file.name.starts_with("ci/"))
    }
}

/// Which charts are looked at: those whose number leaves a remainder.
fn share() -> (usize, usize) {
    let share = std::env::var("SWEEP_CHARTS").unwrap_or_default();
    share.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?))).unwrap_or((0, 1))
}

/// Whether all charts are looked at.
pub fn is_whole() -> bool {
    share().1 == 1
}

/// The charts, or the share of them that is looked at; none where the corpus is not beside the checkout.
pub fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let Some((selection, root)) = places() else {
            println!("types: skipped, because the corpus is not there or not unpacked (make conformance)");
            return Vec::new();
        };
        let chosen = names(&selection);
        let half = chosen.len().div_ceil(2);
        let load = |dirs: &[String]| dirs.iter().map(|dir| entry(&root, dir)).collect::<Vec<_>>();
        std::thread::scope(|threads| {
            let halves: Vec<_> = chosen.chunks(half.max(1)).map(|dirs| threads.spawn(move || load(dirs))).collect();
            halves.into_iter().flat_map(|half| half.join().expect("nothing panics")).collect()
        })
    })
}

/// The names of the charts that are looked at.
fn names(selection: &Path) -> Vec<String> {
    let (part, of) = share();
    let text = std::fs::read_to_string(selection).expect("the selection can be read");
    let name = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a row is JSON");
        row["dir"].as_str().expect("a row has a folder").to_owned()
    };
    text.lines().map(name).enumerate().filter(|(at, _)| at % of == part).map(|(_, name)| name).collect()
}

/// The names of the charts that are looked at, and where they are.
pub fn folders() -> Vec<(String, PathBuf)> {
    let Some((selection, root)) = places() else { return Vec::new() };
    names(&selection).into_iter().map(|name| (name.clone(), root.join(name))).collect()
}

/// The list of charts, and where they are unpacked.
fn places() -> Option<(PathBuf, PathBuf)> {
    let corpus = std::env::var_os("CORPUS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus"), PathBuf::from);
    let selection = corpus.join("charts/selection.jsonl");
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let unpacked = std::fs::read_dir(cache.join("chart-conformance")).ok()?.flatten().map(|entry| entry.path());
    let root = unpacked.into_iter().find(|path| path.join("charts").is_dir())?;
    selection.is_file().then_some((selection, root))
}

fn entry(root: &Path, name: &str) -> Entry {
    let path = root.join(name);
    let chart = chart::load(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
    let files = values_files::beside(&path, &chart);
    let typed = crd::types(&chart, CrdSettings::default(), &files).unwrap_or_else(|e| panic!("{name}: {e}"));
    Entry { name: name.to_owned(), chart, files, typed }
}
