//! A tree for a terminal.

use std::fmt;

use serde::Serialize;

use super::line::line;

/// A line, and the lines below it.
#[derive(Debug, Default, Serialize)]
pub struct TreeNode {
    /// Its kind and name.
    pub name: String,
    /// Its state, in one word.
    pub state: String,
    /// Further facts about it.
    pub message: String,
    /// The lines below it.
    pub below: Vec<TreeNode>,
}

impl TreeNode {
    /// A line with nothing below it.
    pub fn new(name: impl Into<String>, state: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), state: state.into(), message: message.into(), below: Vec::new() }
    }

    fn lines<'a>(&'a self, first: &str, rest: &str, lines: &mut Vec<(String, &'a TreeNode)>) {
        lines.push((format!("{first}{}", self.name), self));
        for (i, node) in self.below.iter().enumerate() {
            let (branch, below) = if i + 1 == self.below.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            node.lines(&format!("{rest}{branch}"), &format!("{rest}{below}"), lines);
        }
    }
}

impl fmt::Display for TreeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.lines("", "", &mut lines);
        // Charts and tenants write these texts. One of several lines would break the tree.
        let rows: Vec<[String; 3]> =
            lines.iter().map(|(name, node)| [name.as_str(), &node.state, &node.message].map(line)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (names, states) = (width(0), width(1));
        for [name, state, message] in &rows {
            writeln!(f, "{}", format!("{name:names$}  {state:states$}  {message}").trim_end())?;
        }
        Ok(())
    }
}
