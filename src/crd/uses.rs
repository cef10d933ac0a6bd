//! How the templates of a chart and its dependencies use values.

use super::defaults::subcharts;
use crate::chart::Chart;
use crate::template::functions;
use crate::template::go::TemplateSet;
use crate::template::go::usage::{Path, Usage};

/// The values that the templates of a chart and of all its dependencies use, whether enabled or not. `None` for a
/// minijinja chart. A file that does not parse is left out; rendering reports it.
pub fn of_chart(chart: &Chart) -> Option<Usage> {
    parsed(chart).map(|(usage, _)| usage)
}

/// The values that the templates of a chart use; nothing if a file does not parse, because then not all of them are found.
pub fn usage(chart: &Chart) -> Option<Usage> {
    parsed(chart).filter(|(_, is_whole)| *is_whole).map(|(usage, _)| usage)
}

fn parsed(chart: &Chart) -> Option<(Usage, bool)> {
    if chart.is_minijinja() {
        return None;
    }
    let mut files = Vec::new();
    gather(chart, &chart.metadata.name, &Path::new(), &mut files);
    // As Helm does: of two templates with one name, that of the file with the shorter path counts.
    files.sort_by_key(|file| std::cmp::Reverse((file.name.matches('/').count(), file.name.clone())));
    let mut set = TemplateSet::new(functions::table());
    let mut seen = std::collections::HashSet::new();
    let mut is_whole = true;
    for file in &files {
        if seen.insert(&file.name) {
            is_whole &= set.parse(&file.name, file.text).is_ok();
        }
    }
    let is_partial = |name: &str| name.rsplit('/').next().is_some_and(|base| base.starts_with('_'));
    let executed = files.iter().filter(|file| file.is_executed && !is_partial(&file.name) && set.contains(&file.name));
    let entries: Vec<_> = executed.map(|file| (file.name.as_str(), file.path.clone())).collect();
    Some((set.usage(&entries, &[]), is_whole))
}

struct Template<'c> {
    name: String,
    text: &'c [u8],
    /// Where the values of its chart are.
    path: Path,
    is_executed: bool,
}

fn gather<'c>(chart: &'c Chart, name: &str, path: &Path, files: &mut Vec<Template<'c>>) {
    if !chart.is_minijinja() {
        files.extend(chart.templates.iter().map(|file| Template {
            name: format!("{name}/{}", file.name),
            text: file.data.as_slice(),
            path: path.clone(),
            is_executed: !chart.is_library(),
        }));
    }
    for subchart in subcharts(chart) {
        let below = path.iter().cloned().chain([subchart.key.into()]).collect();
        let name = format!("{name}/charts/{}", subchart.chart.metadata.name);
        gather(subchart.chart, &name, &below, files);
    }
}
