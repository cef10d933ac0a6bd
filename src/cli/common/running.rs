//! The work in progress: the plan of members, or of an operation.

use serde_json::Value;

use super::fields::{list, text};
use super::tree::TreeNode;

/// The plan of members or of an operation that is being carried out.
pub fn plan(plan: &Value) -> TreeNode {
    let since = plan.get("since").and_then(Value::as_i64).and_then(|at| jiff::Timestamp::from_second(at).ok());
    let since = since.map(|at| format!("since {at}")).unwrap_or_default();
    let name = match text(plan, "operation") {
        "" => format!("plan for {}", text(plan, "members")),
        operation => format!("operation {operation}"),
    };
    let mut node = TreeNode::new(name, text(plan, "state"), since);
    for phase in list(plan, "/phases") {
        let mut below = TreeNode::new(text(phase, "name"), text(phase, "state"), "");
        let steps = list(phase, "/steps").iter();
        below.below = steps.map(|step| TreeNode::new(text(step, "name"), text(step, "state"), "")).collect();
        node.below.push(below);
    }
    node
}
