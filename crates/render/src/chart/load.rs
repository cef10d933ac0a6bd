//! Loads a chart from a directory or an archive, within limits.

use super::ignore::Rules;
use super::{Chart, File, Metadata, MetadataError, values};
use crate::chart::ENGINE;
use crate::template::go::quote::quoted;
use crate::template::yaml;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// How much a chart may hold, with the archives inside its archive. The sizes are Helm's, which has them for each archive; the
/// other limits keep hostile charts from costing much.
#[derive(Clone, Copy, Debug)]
pub struct ChartLimits {
    /// Bytes of all files together. The content of an archive inside an archive counts, and so does that archive
    /// itself.
    pub total: u64,
    /// Number of files, those of archives inside the archive included.
    pub files: usize,
    /// Depth of `charts/` in `charts/`, and of directories.
    pub depth: usize,
}

impl Default for ChartLimits {
    fn default() -> Self {
        Self { total: 100 * 1024 * 1024, files: 20_000, depth: 64 }
    }
}

/// The rest of the limits while a chart is loaded. An archive within an archive uses the same limits.
struct Left {
    limits: ChartLimits,
    bytes: u64,
    files: usize,
}

impl Left {
    fn new(limits: &ChartLimits) -> Self {
        Self { limits: *limits, bytes: limits.total, files: limits.files }
    }
}

/// Why a chart could not be loaded; the text is Helm's where Helm has one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(pub String);

impl From<String> for LoadError {
    fn from(s: String) -> Self {
        Self(s)
    }
}

impl From<MetadataError> for LoadError {
    fn from(error: MetadataError) -> Self {
        Self(error.to_string())
    }
}

/// Loads the chart directory or `.tgz` archive at `path`.
pub fn load(path: &Path) -> Result<Chart, LoadError> {
    let limits = ChartLimits::default();
    let info = std::fs::metadata(path).map_err(|e| LoadError(format!("stat {}: {}", path.display(), go_io(&e))))?;
    if info.is_dir() {
        let (files, mut left) = read_directory(path, &limits)?;
        return assemble(files, &mut left, 0);
    }
    let data = std::fs::read(path).map_err(|e| LoadError(format!("open {}: {}", path.display(), go_io(&e))))?;
    if !data.starts_with(b"\x1f\x8b\x08") {
        let name = path.display();
        let yaml = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
        return Err(LoadError(if yaml {
            format!("file '{name}' seems to be a YAML file, but expected a gzipped archive")
        } else {
            format!("file '{name}' does not appear to be a gzipped archive; got '{}'", content_type(&data))
        }));
    }
    load_archive(&data, &limits)
}

/// Loads a gzipped tar archive.
pub fn load_archive(data: &[u8], limits: &ChartLimits) -> Result<Chart, LoadError> {
    let mut left = Left::new(limits);
    assemble(read_archive(data, &mut left)?, &mut left, 0)
}

/// The files of a chart directory that `.helmignore` does not leave out.
pub fn directory_files(path: &Path, limits: &ChartLimits) -> Result<Vec<File>, LoadError> {
    Ok(read_directory(path, limits)?.0)
}

/// Makes a chart out of its files.
pub fn load_files(files: Vec<File>, limits: &ChartLimits) -> Result<Chart, LoadError> {
    let mut left = Left::new(limits);
    // Existing content counts.
    left.bytes = left.bytes.saturating_sub(files.iter().map(|file| file.data.len() as u64).sum());
    left.files = left.files.saturating_sub(files.len());
    assemble(files, &mut left, 0)
}

/// The files of a gzipped tar archive, with names below the chart's folder.
pub fn archive_files(data: &[u8], limits: &ChartLimits) -> Result<Vec<File>, LoadError> {
    read_archive(data, &mut Left::new(limits))
}

/// An input/output error in Go's words.
pub fn go_io(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "is a directory".into(),
        _ => error.to_string(),
    }
}

fn content_type(data: &[u8]) -> &'static str {
    let text = data.iter().take(512).all(|b| !matches!(b, 0..=8 | 11 | 14..=26 | 28..=31));
    if text { "text/plain; charset=utf-8" } else { "application/octet-stream" }
}

fn without_bom(mut data: Vec<u8>) -> Vec<u8> {
    if data.starts_with(b"\xef\xbb\xbf") {
        data.drain(..3);
    }
    data
}

fn too_large(limits: &ChartLimits) -> LoadError {
    LoadError(format!("decompressed chart is larger than the maximum size {}", limits.total))
}

fn too_many(limits: &ChartLimits) -> LoadError {
    LoadError(format!("chart has more than the maximum of {} files", limits.files))
}

/// Files of a directory in the order of a depth-first walk by name; symbolic links are followed, as Helm does.
fn read_directory(root: &Path, limits: &ChartLimits) -> Result<(Vec<File>, Left), LoadError> {
    let ignore = match std::fs::read(root.join(".helmignore")) {
        Ok(text) => Rules::parse(&text),
        Err(_) => Rules::parse(b""),
    }
    .map_err(|e| LoadError(e.to_string()))?;
    let mut walk = Walk { ignore, left: Left::new(limits), files: Vec::new(), buffer: vec![0; BUFFER] };
    walk.directory(root, "", 0)?;
    Ok((walk.files, walk.left))
}

struct Walk {
    ignore: Rules,
    left: Left,
    files: Vec<File>,
    buffer: Vec<u8>,
}

/// Most files of charts are smaller, and a page of memory that is touched first costs as much as a short read.
const BUFFER: usize = 16 << 10;

impl Walk {
    fn directory(&mut self, path: &Path, name: &str, depth: usize) -> Result<(), LoadError> {
        let limit = self.left.limits.depth;
        if depth > limit {
            return Err(LoadError(format!("chart is nested deeper than {limit} folders at {name}")));
        }
        let failed = |e: std::io::Error| LoadError(format!("open {}: {}", path.display(), go_io(&e)));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.push((entry.file_name(), entry.file_type().map_err(failed)?));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        for (entry, mut kind) in names {
            let path = path.join(&entry);
            let entry = entry.to_string_lossy();
            let name = if name.is_empty() { entry.into_owned() } else { format!("{name}/{entry}") };
            if kind.is_symlink() {
                kind = std::fs::metadata(&path)
                    .map_err(|e| LoadError(format!("error evaluating symlink {}: {}", path.display(), go_io(&e))))?
                    .file_type();
            }
            if self.ignore.ignores(&name, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.directory(&path, &name, depth + 1)?;
            } else if kind.is_file() {
                self.file(&path, name)?;
            } else {
                let path = path.display();
                return Err(LoadError(format!("cannot load irregular file {path} as it has file mode type bits set")));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String) -> Result<(), LoadError> {
        let data = read_at_most(path, self.left.bytes, &mut self.buffer)
            .map_err(|e| LoadError(format!("error reading {name}: {}", go_io(&e))))?
            .filter(|_| self.left.files > 0)
            .ok_or_else(|| LoadError(format!("error reading {name}: chart exceeds maximum decompressed size")))?;
        self.left.bytes = self.left.bytes.saturating_sub(data.len() as u64);
        self.left.files -= 1;
        self.files.push(File { name, data: without_bom(data).into() });
        Ok(())
    }
}

/// The content of a file, or `None` if it is larger than the limit. `buffer` is for reading into: most files fit, and
/// need no more than one read then.
fn read_at_most(path: &Path, limit: u64, buffer: &mut [u8]) -> std::io::Result<Option<Vec<u8>>> {
    let mut file = std::fs::File::open(path)?;
    let read = file.read(buffer)?;
    let mut data = buffer[..read].to_vec();
    // A read returns fewer bytes than requested only at the end of a file.
    if read == buffer.len() {
        let rest = file.metadata()?.len().min(limit + 1).saturating_sub(read as u64);
        data.reserve_exact(usize::try_from(rest).unwrap_or_default() + 1);
        // One byte more than allowed shows that it is too large.
        file.take((limit + 1).saturating_sub(read as u64)).read_to_end(&mut data)?;
    }
    Ok((data.len() as u64 <= limit).then_some(data))
}

fn read_archive(data: &[u8], left: &mut Left) -> Result<Vec<File>, LoadError> {
    let failed = |e: std::io::Error| LoadError(e.to_string());
    let limits = left.limits;
    // One byte more than allowed is read, so that an archive that unpacks to more is noticed and not cut.
    let unpacked = flate2::read::MultiGzDecoder::new(data).take(left.bytes + (left.files as u64) * 1024 + 1);
    let mut archive = tar::Archive::new(unpacked);
    let mut files = Vec::new();
    for entry in archive.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name = archive_name(&path)?;
        let size = entry.header().size().map_err(failed)?;
        if size > left.bytes {
            return Err(too_large(&limits));
        }
        let mut content = Vec::new();
        let read = entry.take(left.bytes).read_to_end(&mut content).map_err(failed)? as u64;
        if kind.is_file() && read < size {
            return Err(too_large(&limits));
        }
        // A name may be as long as a file.
        left.bytes = left.bytes.checked_sub(read + name.len() as u64).ok_or_else(|| too_large(&limits))?;
        left.files = left.files.checked_sub(1).ok_or_else(|| too_many(&limits))?;
        files.push(File { name, data: without_bom(content).into() });
    }
    if files.is_empty() {
        return Err(LoadError("no files in chart archive".into()));
    }
    Ok(files)
}

/// The name of an archive's entry below the chart's folder. Archives made on Windows may use `\`.
fn archive_name(path: &str) -> Result<String, LoadError> {
    let fail = |s: &str| Err(LoadError(s.into()));
    let delimiter = if path.contains('\\') { '\\' } else { '/' };
    let (first, rest) = path.split_once(delimiter).unwrap_or((path, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return fail("chart illegally contains absolute paths");
    }
    let mut clean: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." if clean.last().is_some_and(|last| *last != "..") => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    let name = clean.join("/");
    if name.is_empty() {
        let path = quoted(path.as_bytes());
        return Err(LoadError(format!("chart illegally contains content outside the base directory: {path}")));
    }
    if name.starts_with("..") {
        return fail("chart illegally references parent directory");
    }
    if name.len() > 2 && name.as_bytes()[0].is_ascii_alphabetic() && &name[1..3] == ":/" {
        return fail("chart contains illegally named files");
    }
    if first == "Chart.yaml" {
        return fail("chart yaml not in base directory");
    }
    Ok(name)
}

fn parse(name: &str, data: &[u8]) -> Result<serde_json::Value, LoadError> {
    yaml::parse(data).map_err(|e| LoadError(format!("cannot load {name}: {e}")))
}

fn update(metadata: &mut Metadata, name: &str, data: &[u8]) -> Result<(), LoadError> {
    let document = parse(name, data)?;
    metadata.update(&document).map_err(|e| match e {
        MetadataError::Validation(_) => e.into(),
        _ => LoadError(format!("cannot load {name}: error unmarshaling JSON: while decoding JSON: {e}")),
    })
}

/// Makes a chart out of its files.
fn assemble(files: Vec<File>, left: &mut Left, depth: usize) -> Result<Chart, LoadError> {
    if depth > left.limits.depth {
        return Err(LoadError(format!("charts are nested deeper than {}", left.limits.depth)));
    }
    let mut chart = Chart::default();
    let mut found = false;
    // The faults that Helm finds only when it has read all files.
    let mut late = None;
    for file in files.iter().filter(|f| f.name == "Chart.yaml") {
        found = true;
        match update(&mut chart.metadata, "Chart.yaml", &file.data) {
            Err(e) if e.0.starts_with("validation: ") => {
                late = Some(e);
                continue;
            }
            result => result?,
        }
        if chart.metadata.api_version.is_empty() {
            chart.metadata.api_version = "v1".into();
        }
        if depth == 0 && !matches!(chart.metadata.api_version.as_str(), "v1" | "v2") {
            return Err(LoadError("unsupported chart version".into()));
        }
    }
    let mut others = Vec::new();
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in files {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => chart.lock = Some(parse("Chart.lock", &file.data)?),
            "values.yaml" => {
                chart.values =
                    values::load(&file.data).map_err(|e| LoadError(format!("cannot load values.yaml: {e}")))?;
                chart.values_text = Some(file.data);
            }
            "values.schema.json" => chart.schema = Some(Arc::unwrap_or_clone(file.data)),
            "requirements.yaml" => {
                found = true;
                update(&mut chart.metadata, "requirements.yaml", &file.data)?;
                if chart.metadata.api_version == "v1" {
                    others.push(file);
                }
            }
            "requirements.lock" => {
                chart.lock = Some(parse("requirements.lock", &file.data)?);
                if chart.metadata.api_version == "v1" {
                    others.push(file);
                }
            }
            name if name.starts_with("templates/") => chart.templates.push(file),
            name if name.starts_with("charts/") => {
                if Path::new(name).extension().is_some_and(|e| e == "prov") {
                    others.push(file);
                    continue;
                }
                let name = file.name["charts/".len()..].to_owned();
                let folder = name.split('/').next().unwrap_or_default().to_owned();
                subcharts.entry(folder).or_default().push(File { name, data: file.data });
            }
            _ => others.push(file),
        }
    }
    chart.files = std::sync::Arc::new(others);
    if !found {
        return Err(LoadError("Chart.yaml file is missing".into()));
    }
    late.map_or(Ok(()), Err)?;
    chart.metadata.validate()?;
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let subchart = subchart(&name, files, &chart.metadata.name, left, depth)
            .map_err(|e| LoadError(format!("error unpacking subchart {name} in {}: {e}", chart.metadata.name)))?;
        chart.dependencies.push(subchart);
    }
    let engine = chart.metadata.annotation(ENGINE);
    match engine {
        None | Some("helm") => {}
        // A chart that cannot be rendered safely is refused here, not at the first custom resource.
        Some("minijinja") => {
            chart.jinja(&chart.metadata.name).map_err(|e| LoadError(e.message))?;
        }
        Some(other) => {
            return Err(LoadError(format!(
                "Chart.yaml: annotation tillerman.dev/engine is {other:?}, but must be \"minijinja\", \"helm\" or absent"
            )));
        }
    }
    Ok(chart)
}

fn subchart(name: &str, files: Vec<File>, parent: &str, left: &mut Left, depth: usize) -> Result<Chart, LoadError> {
    if Path::new(name).extension().is_some_and(|e| e == "tgz") {
        let file = files.into_iter().next().filter(|f| f.name == name);
        let file =
            file.ok_or_else(|| LoadError(format!("error unpacking subchart tar in {parent}: expected {name}")))?;
        return assemble(read_archive(&file.data, left)?, left, depth + 1);
    }
    let files = files
        .into_iter()
        .filter_map(|f| f.name.split_once('/').map(|(_, rest)| rest.to_owned()).map(|name| File { name, data: f.data }))
        .collect();
    assemble(files, left, depth + 1)
}

#[cfg(test)]
mod tests {
    use super::{ChartLimits, load, load_archive};
    use std::io::Write;

    const CHART: &[u8] = b"apiVersion: v2\nname: c\nversion: 0.1.0\n";

    /// A gzipped tar archive of these entries. Names are written as they are, which the `tar` crate would refuse.
    fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (name, data) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append(&header, *data).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn refused(entries: &[(&str, &[u8])]) -> String {
        load_archive(&archive(entries), &ChartLimits::default()).unwrap_err().to_string()
    }

    #[test]
    fn an_archive_holds_templates_values_files_and_subcharts() {
        let chart = load_archive(
            &archive(&[
                ("c/Chart.yaml", CHART),
                ("c/values.yaml", b"\xef\xbb\xbfa: 1\n---\nb: 2\n"),
                ("c/templates/a.yaml", b"x"),
                ("c/README.md", b"y"),
                ("c/charts/s/Chart.yaml", b"name: s\nversion: 1.0.0\n"),
                ("c/charts/_ignored/Chart.yaml", b"name: i\nversion: 1.0.0\n"),
            ]),
            &ChartLimits::default(),
        )
        .unwrap();
        assert_eq!(serde_json::to_value(&chart.values).unwrap(), serde_json::json!({"a": 1.0, "b": 2.0}));
        assert_eq!((chart.templates[0].name.as_str(), chart.files[0].name.as_str()), ("templates/a.yaml", "README.md"));
        assert_eq!(chart.dependencies.len(), 1);
        assert_eq!(chart.dependencies[0].metadata.api_version, "v1");
    }

    #[test]
    fn an_archive_that_reaches_outside_is_refused() {
        assert_eq!(refused(&[("c/../../etc/passwd", b"x")]), "chart illegally references parent directory");
        assert_eq!(refused(&[("c//etc/passwd", b"x")]), "chart illegally contains absolute paths");
        assert_eq!(refused(&[("c\\C:\\x", b"x")]), "chart contains illegally named files");
        assert_eq!(
            refused(&[("Chart.yaml", CHART)]),
            "chart illegally contains content outside the base directory: \"Chart.yaml\""
        );
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused() {
        let zeros = vec![0; 101 * 1024 * 1024];
        let message = refused(&[("c/Chart.yaml", CHART), ("c/big", &zeros)]);
        assert_eq!(message, "decompressed chart is larger than the maximum size 104857600");
        let many: Vec<(String, &[u8])> = (0..200).map(|n| (format!("c/{n}"), &b"x"[..])).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|(name, data)| (name.as_str(), *data)).collect();
        assert!(load_archive(&archive(&many), &ChartLimits { files: 100, ..ChartLimits::default() }).is_err());
    }

    #[test]
    fn charts_in_charts_without_end_are_refused() {
        let mut inner = archive(&[("c/Chart.yaml", CHART)]);
        for _ in 0..10 {
            inner = archive(&[("c/Chart.yaml", CHART), ("c/charts/c.tgz", &inner)]);
        }
        let limits = ChartLimits { depth: 5, ..ChartLimits::default() };
        assert!(load_archive(&inner, &limits).unwrap_err().to_string().contains("nested deeper than 5"));
        assert!(load_archive(&inner, &ChartLimits::default()).is_ok());
    }

    #[test]
    fn archives_in_an_archive_share_one_budget() {
        let zeros = vec![0; 600 << 10];
        let inner = archive(&[("c/Chart.yaml", CHART), ("c/zeros", &zeros)]);
        let names: Vec<String> = (0..3).map(|n| format!("c/charts/c{n}.tgz")).collect();
        let outer: Vec<(&str, &[u8])> =
            [("c/Chart.yaml", CHART)].into_iter().chain(names.iter().map(|name| (&**name, &*inner))).collect();
        let outer = archive(&outer);
        let of = |total: u64, files: usize| {
            let limits = ChartLimits { total, files, ..ChartLimits::default() };
            load_archive(&outer, &limits).map(|chart| chart.dependencies.len()).map_err(|e| e.to_string())
        };
        assert_eq!(of(2 << 20, 100), Ok(3));
        assert!(of(1 << 20, 100).unwrap_err().contains("larger than the maximum size 1048576"));
        assert!(of(2 << 20, 9).unwrap_err().contains("more than the maximum of 9 files"));
        // The same in a folder.
        {
            let files = super::archive_files(&outer, &ChartLimits::default()).unwrap();
            let limits = ChartLimits { total: 1 << 20, ..ChartLimits::default() };
            assert!(
                super::load_files(files, &limits).unwrap_err().to_string().contains("larger than the maximum size")
            );
        }
    }

    #[test]
    fn a_link_that_goes_round_in_circles_ends() {
        let folder = std::env::temp_dir().join(format!("tillerman-load-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::File::create(folder.join("Chart.yaml")).unwrap().write_all(CHART).unwrap();
        std::os::unix::fs::symlink(&folder, folder.join("round")).unwrap();
        let message = load(&folder).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(message.contains("deeper") || message.contains("symbolic links"), "{message}");
    }
}
