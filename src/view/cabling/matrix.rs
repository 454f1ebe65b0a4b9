//! Node by node: one cell for each pair, one line in it for each cable.

use comfy_table::{Cell, ContentArrangement, Table, presets};

use super::Cabling;
use super::state::{GOOD, flaws, marks};
use crate::mesh::Cable;
use crate::model::NodeName;

/// The drawn matrix.
#[derive(Default)]
pub(super) struct Matrix {
    /// Lines, without a newline at the end.
    pub(super) text: String,
    /// The marks that occur and what they mean.
    pub(super) legend: String,
    /// Columns it needs.
    pub(super) width: usize,
}

/// Marks that occur, in order of appearance in the list below.
struct Legend(Vec<(String, &'static str)>);

impl Legend {
    fn note(&mut self, mark: impl Into<String>, meaning: &'static str) {
        let mark = mark.into();
        if !self.0.iter().any(|(m, _)| *m == mark) {
            self.0.push((mark, meaning));
        }
    }

    fn words(&self) -> String {
        self.0.iter().map(|(mark, meaning)| format!("{mark} {meaning}")).collect::<Vec<_>>().join(" · ")
    }
}

pub(super) fn matrix(cabling: &Cabling<'_>, nodes: &[NodeName]) -> Matrix {
    let mut legend = Legend(Vec::new());
    let mut table = Table::new();
    // Never wrapped: what does not fit is shown as a list instead.
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table.add_row(std::iter::once(Cell::new("")).chain(nodes.iter().map(Cell::new)));
    for row in nodes {
        let cells: Vec<Cell> = nodes.iter().map(|column| Cell::new(cell(cabling, row, column, &mut legend))).collect();
        table.add_row(std::iter::once(Cell::new(row)).chain(cells));
    }
    let text = super::text(&table);
    let width = text.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    Matrix { text, legend: legend.words(), width }
}

fn cell(cabling: &Cabling<'_>, row: &NodeName, column: &NodeName, legend: &mut Legend) -> String {
    if row == column {
        return diagonal(cabling, row, legend);
    }
    let lines: Vec<String> = cabling
        .graph
        .between(row, column)
        .map(|link| {
            let flaws = flaws(link, cabling.graph, cabling.snapshot);
            if flaws.is_empty() {
                legend.note(GOOD, "good");
            }
            for flaw in &flaws {
                legend.note(flaw.mark(), flaw.meaning());
            }
            let number = |n: &NodeName| link.end(n).map_or(0, |e| e.receptacle);
            let speed = link.gbps.map_or_else(|| "?".to_owned(), |g| g.to_string());
            format!("{}↔{} {speed} {}", number(row), number(column), marks(&flaws))
        })
        .collect();
    if !lines.is_empty() {
        return lines.join("\n");
    }
    if cabling.graph.blind.contains(row) || cabling.graph.blind.contains(column) {
        legend.note("(?)", "cannot be told");
        return "(?)".to_owned();
    }
    legend.note("–", "no cable");
    "–".to_owned()
}

/// A node with itself: its self loops.
fn diagonal(cabling: &Cabling<'_>, node: &NodeName, legend: &mut Legend) -> String {
    let loops: Vec<String> = cabling
        .graph
        .odd
        .iter()
        .filter(|c| &c.end().node == node)
        .filter_map(|cable| match cable {
            Cable::SelfLoop(a, b) => Some(format!("{}↺{}", a.receptacle, b.receptacle)),
            _ => None,
        })
        .collect();
    if loops.is_empty() {
        return "·".to_owned();
    }
    legend.note("↺", "self loop");
    loops.join("\n")
}
