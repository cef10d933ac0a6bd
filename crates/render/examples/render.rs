//! Prints the rendered chart: `cargo run --example render -- CHART [VALUES]`.
//!
//! Nothing here asks a cluster, a clock or the system for randomness: the same chart and values give the same text.

use std::path::Path;
use tillerman_render::chart::{self, Values};
use tillerman_render::render::{self, Capabilities, Options, Release};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: render CHART [VALUES]")?;
    let values = match args.next() {
        Some(file) => chart::values::load(&std::fs::read(file)?)?,
        None => Values::new(),
    };
    let chart = chart::load(Path::new(&path))?;
    let release = Release::new("example", "default");
    let rendered = render::render(&chart, &values, &release, &Capabilities::default(), &Options::default());
    let rendered = rendered.map_err(|e| format!("{e}\n\n{}", e.explanation.text(false)))?;
    print!("{}", rendered.manifest());
    for hook in &rendered.hooks {
        println!("# {} runs at {}", hook.manifest.name, hook.events.join(", "));
    }
    if !rendered.notes.is_empty() {
        eprintln!("{}", rendered.notes.trim_end());
    }
    Ok(())
}
