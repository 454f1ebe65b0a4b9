//! The table of ranks, as `deploy` prints it.

use comfy_table::{CellAlignment, Table, presets};

use crate::agent::status::Status;
use crate::model::{Inventory, NodeName};

/// Rank, node, state and processes.
pub fn table<'a>(ranks: impl Iterator<Item = (&'a NodeName, &'a Status)>, inventory: &Inventory) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["RANK", "NODE", "STATE", "AGENT", "ENGINE"]);
    for (node, status) in ranks {
        table.add_row([
            status.rank.to_string(),
            inventory.label(node),
            status.state.as_str().to_owned(),
            status.agent_pid.to_string(),
            status.engine_pid.map_or_else(|| "-".to_owned(), |p| p.to_string()),
        ]);
    }
    if let Some(column) = table.column_mut(0) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    trim(&table.to_string())
}

/// Without blanks at the ends of lines.
pub fn trim(table: &str) -> String {
    table.lines().flat_map(|l| [l.trim_end(), "\n"]).collect()
}
