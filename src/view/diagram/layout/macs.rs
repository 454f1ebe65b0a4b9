//! Macs below each other, each with room for its own cables.

use std::collections::BTreeMap;

use super::{Area, Label, Layout, MARGIN, PILL, Socket, Style, ends, int, pill_width, text_width};
use crate::model::panel::{Face, Port};
use crate::view::diagram::{Diagram, End, Mac};

/// Width of a Thunderbolt receptacle with the space around it.
const CELL: i32 = 62;
/// Outline of a receptacle.
const SOCKET: (i32, i32) = (36, 18);
/// Space above a cable's label.
const ABOVE: i32 = 8;
/// Height of a Mac's side.
const FACE: i32 = 44;
/// Space below its ports.
const BELOW: i32 = 8;
/// Space beside the ports of a side.
const PAD: i32 = 8;
/// Space between two sides.
const BETWEEN: i32 = 26;
/// Distance of two tracks.
pub(super) const TRACK: i32 = 9;

/// Where a cable's line begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plug {
    pub(super) x: i32,
    pub(super) y: i32,
}

/// What routes need to know of the Macs.
pub(super) struct Placed {
    /// Plugs by end and cable.
    pub(super) plugs: BTreeMap<(End, usize), Plug>,
    /// First track below each Mac.
    pub(super) tracks: Vec<i32>,
    /// Middle of each Mac's side.
    pub(super) middles: Vec<i32>,
    /// Right edge of all Macs and their titles.
    pub(super) right: i32,
    /// Lower edge of everything.
    pub(super) bottom: i32,
}

pub(super) fn place(layout: &mut Layout, diagram: &Diagram, top: i32) -> Placed {
    let mut placed = Placed { plugs: BTreeMap::new(), tracks: vec![], middles: vec![], right: MARGIN, bottom: top };
    // Cables by receptacle, in the order of the table; a self loop is at both of its own.
    let mut plugged: BTreeMap<End, Vec<usize>> = BTreeMap::new();
    for cable in 0..diagram.cables.len() {
        let (near, far) = ends(diagram, cable);
        for end in near.into_iter().chain(far) {
            plugged.entry(end).or_default().push(cable);
        }
    }
    for (index, mac) in diagram.macs.iter().enumerate() {
        let mut y = layout.line(&mac.name, 14, Style::Bold, MARGIN, placed.bottom);
        let x = MARGIN + text_width(&mac.name, 14) + 12;
        layout.line(&mac.about, 11, Style::Faint, x, y - 16);
        placed.right = placed.right.max(x + text_width(&mac.about, 11));
        let mut x = MARGIN;
        for face in &mac.panel.faces {
            let name = seen(face);
            layout.line(name, 9, Style::Faint, x, y);
            let caption = x + text_width(name, 9);
            let cables = |receptacle: u32| plugged.get(&End { mac: index, receptacle }).map_or(&[][..], Vec::as_slice);
            let width = |receptacle: u32| (int(cables(receptacle).len()) * pitch(diagram)).max(SOCKET.0);
            let (right, centres) = side(layout, mac, face, (x, y + 14), width);
            for (receptacle, centre) in centres {
                let end = End { mac: index, receptacle };
                plugs(layout, diagram, &mut placed.plugs, end, cables(receptacle), (centre, y + 14 + FACE));
            }
            placed.right = placed.right.max(right).max(caption);
            x = right.max(caption) + BETWEEN;
        }
        let height = if mac.panel.faces.is_empty() {
            layout.line("its ports are not known", 11, Style::Faint, MARGIN, y + 2);
            PILL
        } else {
            y += 14;
            FACE
        };
        placed.middles.push(y + height / 2);
        y += height;
        let count: usize = plugged.iter().filter(|(end, _)| end.mac == index).map(|(_, cables)| cables.len()).sum();
        y += if count > 0 { ABOVE + PILL + ABOVE } else { 0 };
        placed.tracks.push(y);
        placed.bottom = y + int(count) * TRACK + 14;
    }
    placed
}

/// From where a side is seen.
fn seen(face: &Face) -> &'static str {
    match face.name {
        "back" => "back, seen from behind",
        "front" => "front, seen from the front",
        other => other,
    }
}

/// Draws one side, its receptacles as wide as told; gives its right edge and the receptacles' centres.
fn side(
    layout: &mut Layout,
    mac: &Mac,
    face: &Face,
    (left, y): (i32, i32),
    width: impl Fn(u32) -> i32,
) -> (i32, Vec<(u32, i32)>) {
    let mut centres = Vec::new();
    let mut x = left + PAD;
    let slot = layout.faces.len();
    layout.faces.push(Area { x: left, y, w: 0, h: FACE });
    let top = y + FACE - BELOW - SOCKET.1;
    for port in &face.ports {
        match port {
            Port::Receptacle(number) => {
                let w = width(*number);
                let cell = CELL - SOCKET.0 + w;
                let area = Area { x: x + (CELL - SOCKET.0) / 2, y: top, w, h: SOCKET.1 };
                let excluded = mac.excluded == Some(*number);
                layout.sockets.push(Socket { area, thunderbolt: true, excluded });
                layout.labels.push(Label { text: number.to_string(), size: 12, style: Style::Bold, area });
                if excluded {
                    let w = text_width("no RDMA", 9);
                    layout.line("no RDMA", 9, Style::Bold, x + (cell - w) / 2, y + 3);
                }
                centres.push((*number, x + cell / 2));
                x += cell;
            }
            Port::Other(name) => {
                let w = text_width(name, 9) + 6;
                let area = Area { x: x + 3, y: top, w, h: SOCKET.1 };
                layout.sockets.push(Socket { area, thunderbolt: false, excluded: false });
                layout.labels.push(Label { text: (*name).to_owned(), size: 9, style: Style::Faint, area });
                x += w + 6;
            }
        }
    }
    if let Some(area) = layout.faces.get_mut(slot) {
        area.w = x + PAD - left;
    }
    (x + PAD, centres)
}

/// Labels of the cables in one receptacle, beside each other below it: one where all is well, more where a dock or a
/// false report makes several cables of it.
fn plugs(
    layout: &mut Layout,
    diagram: &Diagram,
    plugs: &mut BTreeMap<(End, usize), Plug>,
    end: End,
    cables: &[usize],
    (x, bottom): (i32, i32),
) {
    let pitch = pitch(diagram);
    let first = x - pitch * (int(cables.len()) - 1) / 2;
    for (k, cable) in (0..).zip(cables) {
        let x = first + k * pitch;
        layout.pill(diagram, *cable, (x, bottom + ABOVE + PILL / 2));
        plugs.insert((end, *cable), Plug { x, y: bottom - BELOW });
    }
}

/// Distance of two labels.
fn pitch(diagram: &Diagram) -> i32 {
    diagram.cables.iter().map(|c| pill_width(&c.label)).max().unwrap_or(0) + 6
}
