//! The tables of decisions of the drivers, as their pages show them (docs/design/primary.md, docs/design/members.md).

/// A phase of a driver: rows that follow each other, and decide about one matter.
#[derive(Debug, PartialEq, Eq)]
pub struct Phase {
    pub name: &'static str,
    /// When its rows apply, as Markdown.
    pub about: &'static str,
}

/// A row of a table of decisions.
#[derive(Debug)]
pub struct Row {
    pub phase: &'static Phase,
    /// The name of its function.
    pub name: &'static str,
    /// When it applies, as Markdown.
    pub when: &'static str,
    /// The effect, as Markdown.
    pub then: &'static str,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Row;
    use crate::members::{etcd, primary};

    #[test]
    fn the_rows_of_a_phase_are_tried_one_after_the_other_and_have_names_of_their_own() {
        let tables: [Vec<&Row>; 2] = [primary::decide::rows().collect(), etcd::decide::rows().collect()];
        for rows in tables {
            let mut phases: Vec<&str> = rows.iter().map(|row| row.phase.name).collect();
            phases.dedup();
            assert_eq!(phases.len(), phases.iter().collect::<BTreeSet<_>>().len(), "{phases:?}");
            assert_eq!(rows.len(), rows.iter().map(|row| row.name).collect::<BTreeSet<_>>().len());
        }
    }
}
