//! Prints which objects differ between two files of values: `cargo run --example diff -- CHART OLD NEW`.

use std::collections::BTreeMap;
use std::path::Path;
use tillerman_render::chart::{self, Chart};
use tillerman_render::render::{self, Capabilities, Fixed, Options, Release};

/// Objects by their identity.
type Objects = BTreeMap<String, String>;

fn objects(chart: &Chart, file: &str) -> Result<Objects, Box<dyn std::error::Error>> {
    let values = chart::values::load(&std::fs::read(file)?)?;
    // The same seed for both, so that passwords which the chart makes up do not differ.
    let options = Options::new(Fixed::new(1, 0));
    let rendered =
        render::render(chart, &values, &Release::new("example", "default"), &Capabilities::default(), &options)?;
    let all = rendered.manifests.into_iter().chain(rendered.hooks.into_iter().map(|hook| hook.manifest));
    Ok(all.map(|m| (format!("{} {}/{}", m.api_version, m.kind, m.name), m.text)).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, old, new] = args.as_slice() else { return Err("usage: diff CHART OLD NEW".into()) };
    let chart = chart::load(Path::new(path))?;
    let (old, new) = (objects(&chart, old)?, objects(&chart, new)?);
    for (name, text) in &old {
        match new.get(name) {
            None => println!("- {name}"),
            Some(other) if other != text => println!("~ {name}"),
            Some(_) => {}
        }
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        println!("+ {name}");
    }
    Ok(())
}
