//! The same for a terminal: every Mac's ports with the cables' labels below them, then the table.

use std::fmt::Write;

use comfy_table::{Cell, ContentArrangement, Table, presets};

use super::layout::table::{Medium, columns, heads, signs};
use super::{Diagram, Far, Mac};
use crate::model::command::printable;
use crate::model::panel::{Face, Port};
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

/// The diagram as text.
#[must_use]
pub fn text(diagram: &Diagram, printer: Printer) -> String {
    let mut out = format!("{}, {}\n", printable(&diagram.title), printable(&diagram.subtitle));
    for (index, mac) in diagram.macs.iter().enumerate() {
        let _ = writeln!(out, "\n{}  {}", paint(printer, Tint::Bold, &printable(&mac.name)), printable(&mac.about));
        if mac.panel.faces.is_empty() {
            out.push_str("  its ports are not known\n");
        }
        for face in &mac.panel.faces {
            out.push_str(&side(diagram, index, mac, face));
        }
    }
    if !diagram.cables.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).force_no_tty();
        table.set_width(u16::try_from(printer.width).unwrap_or(80));
        table.add_row(["cable"].into_iter().chain(heads(diagram)).map(Cell::new));
        for cable in &diagram.cables {
            table.add_row(
                std::iter::once(format!("{}{}", printable(&cable.label), cable.look.sign()))
                    .chain(columns(diagram, cable).iter().map(|c| printable(c)))
                    .map(Cell::new),
            );
        }
        out.push('\n');
        for line in table.lines() {
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    let notes: Vec<String> = diagram.remarks.iter().cloned().chain(signs(diagram, Medium::Text)).collect();
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        out.push_str(&hanging("  ", &printable(&note), printer.width));
    }
    out
}

/// One side of a Mac: numbers above, labels of cables below.
fn side(diagram: &Diagram, index: usize, mac: &Mac, face: &Face) -> String {
    let cells: Vec<(String, String)> = face
        .ports
        .iter()
        .map(|port| match port {
            Port::Receptacle(number) => {
                let cross = if mac.excluded == Some(*number) { " ✕" } else { "" };
                (format!("{number}{cross}"), labels(diagram, index, *number))
            }
            Port::Other(name) => ((*name).to_owned(), String::new()),
        })
        .collect();
    let widths: Vec<usize> = cells.iter().map(|(a, b)| a.chars().count().max(b.chars().count()).max(4)).collect();
    let rule = |left: char, cross: &str, right: char| {
        let bars: Vec<String> = widths.iter().map(|w| "─".repeat(w + 2)).collect();
        format!("  {left}{}{right}\n", bars.join(cross))
    };
    let row = |pick: fn(&(String, String)) -> &str| {
        let cells: Vec<String> = cells.iter().zip(&widths).map(|(c, w)| format!(" {:^w$} ", pick(c), w = *w)).collect();
        format!("  │{}│\n", cells.join("│"))
    };
    let name = match face.name {
        "back" => "back, seen from behind",
        "front" => "front, seen from the front",
        other => other,
    };
    format!("  {name}\n{}{}{}{}", rule('┌', "┬", '┐'), row(|c| &c.0), row(|c| &c.1), rule('└', "┴", '┘'))
}

/// Labels of the cables in a receptacle, with a sign where something is wrong.
fn labels(diagram: &Diagram, mac: usize, receptacle: u32) -> String {
    let here = super::End { mac, receptacle };
    let all = diagram.cables.iter().filter(|c| c.near == here || c.far == Far::End(here));
    let labels: Vec<String> = all.map(|c| format!("{}{}", printable(&c.label), c.look.sign())).collect();
    labels.join(" ")
}
