//! The plan for people.

use std::fmt::Write;

use super::notes::notes;
use super::steps::tell;
use super::{Wiring, counted, name};
use crate::mesh::wiring::{Topology, WiringPlan};
use crate::model::command::printable;
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

/// The plan for people.
pub fn human(wiring: &Wiring<'_>, plan: &WiringPlan, printer: Printer) -> String {
    let mut out = String::new();
    let (inventory, what) = (wiring.inventory, name(plan.demand.topology));
    let (macs, cables) = (counted(wiring.macs.len(), "Mac"), counted(plan.demand.pairs.len(), "cable"));
    let title = format!("Wiring of {} as a {what}: {macs}, {cables}", inventory.rack);
    let _ = writeln!(out, "{}", paint(printer, Tint::Bold, &title));
    if plan.demand.topology == Topology::Ring && wiring.macs.len() > 2 {
        let order: Vec<&str> = plan.demand.order.iter().map(|n| wiring.board.names[*n].as_str()).collect();
        out.push_str(&hanging("  ", &format!("in the order {}, and back", order.join(", ")), printer.width));
    }
    if !plan.steps.is_empty() {
        out.push('\n');
    }
    out.push_str(&steps_human(wiring, plan, printer));
    let notes = notes(wiring, plan);
    if !notes.is_empty() {
        let _ = writeln!(out, "\n{}\n", paint(printer, Tint::Bold, "To know"));
        for note in &notes {
            out.push_str(&hanging("  - ", &printable(note), printer.width));
        }
    }
    let _ = writeln!(out, "\n{}", super::notes::closing(wiring, plan));
    out
}

/// The steps alone, numbered.
pub fn steps_human(wiring: &Wiring<'_>, plan: &WiringPlan, printer: Printer) -> String {
    let mut out = String::new();
    for (i, step) in plan.steps.iter().enumerate() {
        let told = tell(wiring, plan, i, step);
        let tint = if told.urgent { Tint::Red } else { Tint::Bold };
        let number = format!("{:>3}. ", i + 1);
        for (line, text) in hanging(&number, &printable(&told.head), printer.width).lines().enumerate() {
            let (margin, text) = text.split_at(number.len());
            let _ = writeln!(out, "{}{}", if line == 0 { &number } else { margin }, paint(printer, tint, text));
        }
        for (word, place) in &told.places {
            let _ = writeln!(out, "       {word:5} {}", printable(place));
        }
    }
    out
}
