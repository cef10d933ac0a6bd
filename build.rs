//! Puts the charts of `charts/` into the program, for `tillerman init --built-in`: writes `built_in_charts.rs`, which
//! `src/scaffold/built_in.rs` includes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let charts = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it")).join("charts");
    println!("cargo:rerun-if-changed={}", charts.display());
    let mut text = "[\n".to_owned();
    for chart in entries(&charts)? {
        let mut files = Vec::new();
        below(&chart, &mut files)?;
        for file in files {
            let name = file.strip_prefix(&charts).expect("it is below").display().to_string();
            // The text is the same in each folder: its length is in the compiled crate.
            let from = format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?})", format!("/charts/{name}"));
            writeln!(text, "({name:?}, include_bytes!({from})),").expect("it is a text");
        }
    }
    text += "]\n";
    fs::write(Path::new(&env::var("OUT_DIR").expect("Cargo sets it")).join("built_in_charts.rs"), text)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    found.sort();
    Ok(found)
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in entries(folder)? {
        if path.is_dir() { below(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
