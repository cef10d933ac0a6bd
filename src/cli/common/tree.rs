//! A tree for a terminal.

use std::fmt;

use serde::Serialize;

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
        let width = |text: &str| text.chars().count();
        let names = lines.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
        let states = lines.iter().map(|(_, node)| width(&node.state)).max().unwrap_or(0);
        for (name, node) in lines {
            // A message of several lines would break the tree.
            let message = node.message.lines().collect::<Vec<_>>().join(" ");
            let line = format!("{name:names$}  {:states$}  {message}", node.state);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
