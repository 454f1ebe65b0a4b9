//! The table of cables, and what there is to say below it.

use super::{Area, Layout, MARGIN, PILL, Style, int, text_width, wrapped};
use crate::model::panel::Numbering;
use crate::view::diagram::{Cable, Diagram, Look};

/// Font size of the table.
const SIZE: i32 = 11;
/// Height of a line.
const LINE: i32 = 17;
/// Space between columns.
const GAP: i32 = 16;
/// Length of a line's sample.
const SAMPLE: i32 = 44;
/// Longest line in a column, characters.
const MOST: usize = 40;

/// Whether the picture or text tells of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::view::diagram) enum Medium {
    /// Frames and hatching.
    Picture,
    /// Signs.
    Text,
}

/// Whether networks and speeds are known of any cable; of those of a plan they are not.
fn measured(diagram: &Diagram) -> bool {
    diagram.cables.iter().any(|c| c.network.is_some() || c.gbps.is_some())
}

/// Columns after the sample and the label.
pub(in crate::view::diagram) fn heads(diagram: &Diagram) -> Vec<&'static str> {
    if measured(diagram) { vec!["from", "to", "network", "Gb/s", "state"] } else { vec!["from", "to", "state"] }
}

/// What stands in the table for a cable, below [`heads`].
pub(in crate::view::diagram) fn columns(diagram: &Diagram, cable: &Cable) -> Vec<String> {
    let mut columns = vec![diagram.place(cable.near), diagram.far(cable)];
    if measured(diagram) {
        columns.push(cable.network.clone().unwrap_or_else(|| "–".to_owned()));
        columns.push(cable.gbps.map_or_else(|| "–".to_owned(), |g| g.to_string()));
    }
    columns.push(cable.state.clone());
    columns
}

/// Places the table; gives its lower edge.
pub(super) fn place(layout: &mut Layout, diagram: &Diagram, top: i32) -> i32 {
    if diagram.cables.is_empty() {
        return top;
    }
    let cells = |c: &Cable| columns(diagram, c).iter().map(|text| wrapped(text, MOST)).collect();
    let rows: Vec<Vec<Vec<String>>> = diagram.cables.iter().map(cells).collect();
    let heads = heads(diagram);
    let pill = diagram.cables.iter().map(|c| super::pill_width(&c.label)).max().unwrap_or(0);
    let first = MARGIN + SAMPLE + GAP / 2 + pill.max(text_width("cable", SIZE)) + GAP;
    let mut lefts = Vec::new();
    let mut x = first;
    for (column, head) in heads.iter().enumerate() {
        lefts.push(x);
        let texts = rows.iter().filter_map(|r| r.get(column)).flatten().map(|t| text_width(t, SIZE));
        x += texts.max().unwrap_or(0).max(text_width(head, SIZE)) + GAP;
    }
    let right = x - GAP;
    let mut y = top + 10;
    layout.line("cable", SIZE, Style::Bold, MARGIN, y);
    for (head, x) in heads.iter().zip(&lefts) {
        layout.line(head, SIZE, Style::Bold, *x, y);
    }
    y += LINE + 2;
    for (cable, row) in rows.iter().enumerate() {
        layout.rules.push((MARGIN, right, y - 1));
        layout.samples.push((cable, Area { x: MARGIN, y: y + 1, w: SAMPLE, h: PILL }));
        layout.pill(diagram, cable, (MARGIN + SAMPLE + GAP / 2 + pill / 2, y + 1 + PILL / 2));
        for (lines, x) in row.iter().zip(&lefts) {
            for (i, line) in lines.iter().enumerate() {
                layout.line(line, SIZE, Style::Plain, *x, y + 2 + int(i) * LINE);
            }
        }
        y += int(row.iter().map(Vec::len).max().unwrap_or(1)) * LINE + 3;
    }
    layout.rules.push((MARGIN, right, y - 1));
    y + 6
}

/// Places the remarks and what the signs mean, no wider than the page; gives their lower edge.
pub(super) fn notes(layout: &mut Layout, diagram: &Diagram, top: i32) -> i32 {
    let most = usize::try_from((layout.width - 2 * MARGIN) * 10 / (6 * SIZE)).unwrap_or(80).max(20);
    let mut y = top + 4;
    let remarks = diagram.remarks.iter().map(|r| (r.clone(), Style::Bold));
    let signs = signs(diagram, Medium::Picture).into_iter().map(|s| (s, Style::Faint));
    for (text, style) in remarks.chain(signs) {
        for line in wrapped(&text, most) {
            y = layout.line(&line, SIZE, style, MARGIN, y) + 1;
        }
    }
    y
}

/// What the signs of this picture mean, and what of it is not certain.
pub(in crate::view::diagram) fn signs(diagram: &Diagram, medium: Medium) -> Vec<String> {
    let mut signs = Vec::new();
    if diagram.macs.iter().any(|m| m.panel.receptacles().any(|r| m.excluded == Some(r))) {
        let sign = if medium == Medium::Picture { "Hatched, “no RDMA”" } else { "✕" };
        signs.push(format!("{sign}: no cable to a Mac in that receptacle, RDMA must not use it."));
    }
    for look in [Look::Flawed, Look::New, Look::Moved, Look::Removed] {
        if let (true, Some([picture, text, means])) = (diagram.cables.iter().any(|c| c.look == look), look.meaning()) {
            signs.push(format!("{}: {means}", if medium == Medium::Picture { picture } else { text }));
        }
    }
    let mut add = |numbering: Numbering, words: &str| {
        let names: Vec<&str> = diagram
            .macs
            .iter()
            .filter(|m| m.panel.numbering == numbering && m.panel.receptacles().nth(1).is_some())
            .map(|m| m.name.as_str())
            .collect();
        if !names.is_empty() {
            signs.push(format!("{}: {words}", names.join(", ")));
        }
    };
    add(
        Numbering::OneKnown,
        "on this model only the place of receptacle 1 is known; the order of the others is that of the Mac Studio M3 Ultra and may differ.",
    );
    add(
        Numbering::Unknown,
        "which port of the case is which receptacle is not known for this model; they are drawn in the order of their numbers.",
    );
    signs
}
