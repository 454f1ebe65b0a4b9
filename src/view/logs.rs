//! What `macluster logs` prints.

use crate::model::Inventory;
use crate::model::command::printable;
use crate::phase::logs::Line;

/// Each line behind its node's name, unless there is only one node.
pub fn lines(lines: &[Line], inventory: &Inventory) -> String {
    let width = inventory.nodes.iter().map(|n| n.name.as_str().chars().count()).max().unwrap_or(0);
    let line = |line: &Line| {
        let text = printable(&line.text);
        if inventory.nodes.len() == 1 { text } else { format!("{:width$}  {text}", line.node.as_str()) }
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}
