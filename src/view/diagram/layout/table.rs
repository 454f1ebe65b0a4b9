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

/// Columns after the sample and the label.
const HEADS: [&str; 5] = ["from", "to", "network", "Gb/s", "state"];

/// What stands in the table for a cable.
pub(in crate::view::diagram) fn columns(diagram: &Diagram, cable: &Cable) -> [String; 5] {
    [
        diagram.place(cable.near),
        diagram.far(cable),
        cable.network.clone().unwrap_or_else(|| "–".to_owned()),
        cable.gbps.map_or_else(|| "–".to_owned(), |g| g.to_string()),
        cable.state.clone(),
    ]
}

/// Places the table; gives its lower edge.
pub(super) fn place(layout: &mut Layout, diagram: &Diagram, top: i32) -> i32 {
    if diagram.cables.is_empty() {
        return top;
    }
    let rows: Vec<[Vec<String>; 5]> =
        diagram.cables.iter().map(|c| columns(diagram, c).map(|text| wrapped(&text, MOST))).collect();
    let pill = diagram.cables.iter().map(|c| super::pill_width(&c.label)).max().unwrap_or(0);
    let first = MARGIN + SAMPLE + GAP / 2 + pill.max(text_width("cable", SIZE)) + GAP;
    let mut lefts = Vec::new();
    let mut x = first;
    for (column, head) in HEADS.iter().enumerate() {
        lefts.push(x);
        let texts = rows.iter().filter_map(|r| r.get(column)).flatten().map(|t| text_width(t, SIZE));
        x += texts.max().unwrap_or(0).max(text_width(head, SIZE)) + GAP;
    }
    let right = x - GAP;
    let mut y = top + 10;
    layout.line("cable", SIZE, Style::Bold, MARGIN, y);
    for (head, x) in HEADS.iter().zip(&lefts) {
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
    let signs = signs(diagram).into_iter().map(|s| (s, Style::Faint));
    for (text, style) in remarks.chain(signs) {
        for line in wrapped(&text, most) {
            y = layout.line(&line, SIZE, style, MARGIN, y) + 1;
        }
    }
    y
}

/// What the signs of this picture mean, and what of it is not certain.
pub(in crate::view::diagram) fn signs(diagram: &Diagram) -> Vec<String> {
    let mut signs = Vec::new();
    if diagram.macs.iter().any(|m| m.panel.receptacles().any(|r| m.excluded == Some(r))) {
        signs.push("Hatched, “no RDMA”: leave that receptacle empty, RDMA must not use it.".to_owned());
    }
    if diagram.cables.iter().any(|c| c.look == Look::Flawed) {
        signs.push("Label with a thick frame: something is wrong with that cable, its state says what.".to_owned());
    }
    if diagram.cables.iter().any(|c| c.look == Look::New) {
        signs.push("White label on black: a cable to plug in.".to_owned());
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
