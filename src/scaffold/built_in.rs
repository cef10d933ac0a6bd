//! The charts that are part of the program, for `tillerman init --built-in`.

use super::ProjectFiles;

/// Every file of `charts/`: its path from there, and its content. `build.rs` writes the list.
const FILES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/built_in_charts.rs"));

/// Kinds with charts in the program. The words are those of `builtIn` in the chart that installs Tillerman.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// `MySQLCluster`.
    Mysql,
    /// `PhpApp`.
    Php,
    /// `WordPress`.
    Wordpress,
    /// `EtcdCluster`, `EtcdBackup` and `EtcdRestore`.
    Etcd,
}

impl BuiltIn {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mysql, Self::Php, Self::Wordpress, Self::Etcd];

    /// The names of its charts.
    pub fn charts(self) -> &'static [&'static str] {
        match self {
            Self::Mysql => &["mysql"],
            Self::Php => &["php"],
            Self::Wordpress => &["wordpress"],
            Self::Etcd => &["etcd", "etcd-backup", "etcd-restore"],
        }
    }
}

/// The files of a chart, by their path in it.
pub fn files(chart: &str) -> ProjectFiles {
    let of_it = FILES.iter().filter_map(|(path, data)| {
        let path = path.strip_prefix(chart)?.strip_prefix('/')?;
        Some((path.to_owned(), data.to_vec()))
    });
    of_it.collect()
}

#[cfg(test)]
mod tests {
    use super::{BuiltIn, FILES, files};

    #[test]
    fn every_chart_is_of_one_kind_and_whole() {
        let charts: Vec<&str> = BuiltIn::ALL.iter().flat_map(|kind| kind.charts()).copied().collect();
        for chart in &charts {
            let files = files(chart);
            assert!(files.contains_key("Chart.yaml") && files.contains_key("values.schema.json"), "{chart}");
        }
        for (path, _) in FILES {
            assert!(charts.iter().any(|chart| path.split('/').next() == Some(chart)), "{path} is of no kind");
        }
    }
}
