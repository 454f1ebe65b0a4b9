//! `cabling plan`: the steps for the person at the rack, and the same for programs.

mod human;
mod impossible;
mod json;
mod notes;
mod steps;

pub use human::{human, steps_human};
pub use impossible::{impossible_human, impossible_json};
pub use json::json;
pub(super) use notes::{closing, notes};

use serde_json::{Value, json};

use crate::mesh::CableEnd;
use crate::mesh::wiring::{Board, End, Plugs, Topology};
use crate::model::Inventory;
use crate::model::hardware::Mac;

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// What a plan is shown with.
pub struct Wiring<'a> {
    /// Labels.
    pub inventory: &'a Inventory,
    /// The Macs in the board's order.
    pub macs: &'a [Mac],
    /// What was there.
    pub board: &'a Board,
    /// New cables are those of a Mac that was taken out.
    pub at_hand: bool,
}

impl Wiring<'_> {
    fn label(&self, node: usize) -> String {
        self.inventory.label(&self.board.names[node])
    }

    fn place(&self, end: End) -> String {
        format!("{}, {}", self.label(end.0), self.macs[end.0].place(end.1, None))
    }

    fn end_json(&self, end: End) -> Value {
        let CableEnd { node, receptacle } = self.board.named(end);
        json!({"node": node, "receptacle": receptacle, "position": self.macs[end.0].position(end.1)})
    }

    fn ends_json(&self, ends: Plugs) -> Value {
        ends.iter().map(|e| e.map_or(Value::Null, |end| self.end_json(end))).collect()
    }
}

/// `1 cable`, `2 cables`.
fn counted(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

/// The topology as people call it.
pub(super) fn name(topology: Topology) -> &'static str {
    match topology {
        Topology::Mesh => "full mesh",
        Topology::Ring => "ring",
    }
}

/// The topology as the option and the JSON call it.
fn word(topology: Topology) -> &'static str {
    match topology {
        Topology::Mesh => "mesh",
        Topology::Ring => "ring",
    }
}
