//! `cabling`: who is connected to whom, as a matrix (a list where that does not fit) with what is wrong below it for
//! people, as JSON for programs.

mod json;
mod list;
mod matrix;
mod problems;
pub mod state;

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table, presets};

use crate::mesh::{Cable, CableEnd, LinkGraph, interface_of, ranks};
use crate::model::hardware::Mac;
use crate::model::{Finding, Inventory, NodeName, Snapshot};
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

pub use json::json;

/// What is shown.
pub struct Cabling<'a> {
    /// Names and order.
    pub inventory: &'a Inventory,
    /// Facts.
    pub snapshot: &'a Snapshot,
    /// Cables.
    pub graph: &'a LinkGraph,
    /// What the checks of the cables say.
    pub findings: &'a [Finding],
}

impl Cabling<'_> {
    /// All nodes in the order of ranks.
    fn nodes(&self) -> Vec<NodeName> {
        ranks::order(self.inventory).into_iter().map(|n| n.name.clone()).collect()
    }

    fn interface(&self, end: &CableEnd) -> Option<&str> {
        self.snapshot.facts(&end.node).and_then(|f| interface_of(f, end.receptacle))
    }

    fn position(&self, end: &CableEnd) -> Option<&'static str> {
        self.snapshot.facts(&end.node).and_then(|f| Mac::of(f).position(end.receptacle))
    }

    /// Pairs without a cable, as far as both nodes can be seen.
    fn missing(&self) -> Vec<(NodeName, NodeName)> {
        let seen: Vec<NodeName> = self.nodes().into_iter().filter(|n| !self.graph.blind.contains(n)).collect();
        self.graph.pairs_missing(&seen)
    }
}

/// For people. With `verbose`, each link's interfaces too.
pub fn human(cabling: &Cabling<'_>, printer: Printer, verbose: bool) -> String {
    let mut out = format!("Rack {}, facts of {:.0}\n", cabling.inventory.rack, cabling.snapshot.taken_at);
    let nodes = cabling.nodes();
    let matrix = if nodes.len() > 1 { matrix::matrix(cabling, &nodes) } else { matrix::Matrix::default() };
    let fits = matrix.width <= printer.width;
    if nodes.len() > 1 && fits {
        let title = "Receptacle of the row ↔ receptacle of the column, speed in Gb/s, state";
        let _ = writeln!(out, "\n{}\n{}", paint(printer, Tint::Bold, title), matrix.text);
        out.push('\n');
        out.push_str(&hanging("  ", &matrix.legend, printer.width));
    }
    if !cabling.graph.links.is_empty() && (verbose || !fits) {
        let _ = writeln!(out, "\n{}\n{}", paint(printer, Tint::Bold, "Links"), list::links(cabling, printer));
    }
    if !cabling.graph.odd.is_empty() {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, "Other cables"));
        for cable in &cabling.graph.odd {
            out.push_str(&hanging("  ", &list::odd(cabling, cable), printer.width));
        }
    }
    out.push_str(&problems::problems(cabling, printer));
    out.push('\n');
    out.push_str(&hanging("", &closing(cabling), printer.width));
    if !fits {
        let text = format!("the matrix needs {} columns, this terminal has {}", matrix.width, printer.width);
        out.push_str(&hanging("hint: ", &text, printer.width));
    }
    out
}

fn closing(cabling: &Cabling<'_>) -> String {
    let counted = |n: usize, word: &str| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    let links = cabling.graph.links.values();
    let flawed = links.filter(|l| !state::flaws(l, cabling.graph, cabling.snapshot).is_empty()).count();
    let links = counted(cabling.graph.links.len(), "link");
    let pairs = counted(cabling.missing().len(), "pair");
    let loops = cabling.graph.odd.iter().filter(|c| matches!(c, Cable::SelfLoop(..))).count();
    let others = cabling.graph.odd.len() - loops;
    let mut line = format!("{links}, {flawed} with a remark; {pairs} without a cable");
    if loops > 0 {
        let _ = write!(line, "; {}", counted(loops, "self loop"));
    }
    if others > 0 {
        let _ = write!(line, "; {} to an unknown Mac", counted(others, "cable"));
    }
    line
}

/// A table without borders, as wide as the terminal at most.
fn grid(printer: Printer) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty().set_width(u16::try_from(printer.width).unwrap_or(80));
    table
}

fn text(table: &Table) -> String {
    table.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
