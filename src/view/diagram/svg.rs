//! SVG: self-contained, no script, no font file, no style sheet.

use std::fmt::Write;

use super::color::{color, pattern};
use super::layout::{Label, Layout, Route, Socket, Style, text_width};
use super::{Diagram, Look};

/// Fixed-width fonts of common systems; [`text_width`] holds for all of them.
const FONT: &str = "Menlo, Consolas, 'DejaVu Sans Mono', 'Courier New', monospace";
/// Radius of a cable's corners.
const BEND: i32 = 4;

/// The picture with the table of its cables.
#[must_use]
pub fn draw(diagram: &Diagram) -> String {
    svg(diagram, true)
}

/// The picture, with the table or without.
pub(super) fn svg(diagram: &Diagram, table: bool) -> String {
    let layout = Layout::of(diagram, table);
    let (width, height) = (layout.width, layout.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"{FONT}\">\n<title>{}</title>\n",
        escape(&diagram.title)
    );
    out.push_str(
        "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#fff\"/>\
         <line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#777\" stroke-width=\"2\"/></pattern></defs>\n",
    );
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
    for face in &layout.faces {
        let _ = writeln!(
            out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"7\" fill=\"#f4f4f4\" stroke=\"#555\"/>",
            face.x, face.y, face.w, face.h
        );
    }
    for socket in &layout.sockets {
        out.push_str(&port(socket));
    }
    for route in &layout.routes {
        out.push_str(&cable(diagram, route));
    }
    for (x1, x2, y) in &layout.rules {
        let _ = writeln!(out, "<path d=\"M{x1} {y}H{x2}\" stroke=\"#ccc\"/>");
    }
    for (index, area) in &layout.samples {
        let y = area.y + area.h / 2;
        let _ =
            writeln!(out, "<path d=\"M{} {y}H{}\" {}/>", area.x, area.right(), stroke(*index, look(diagram, *index)));
    }
    for label in &layout.labels {
        out.push_str(&text(diagram, label));
    }
    out.push_str("</svg>\n");
    out
}

fn port(socket: &Socket) -> String {
    let area = socket.area;
    let (radius, fill, stroke) = match (socket.thunderbolt, socket.excluded) {
        (true, true) => (9, "url(#hatch)", "#000"),
        (true, false) => (9, "#fff", "#000"),
        (false, _) => (2, "none", "#aaa"),
    };
    let mut out = format!(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{radius}\" fill=\"{fill}\" stroke=\"{stroke}\"/>\n",
        area.x, area.y, area.w, area.h
    );
    if socket.excluded {
        // The number stays readable on the hatching.
        let (x, y) = (area.x + area.w / 2, area.y + area.h / 2);
        let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"7\" fill=\"#fff\"/>");
    }
    out
}

fn look(diagram: &Diagram, cable: usize) -> Look {
    diagram.cables.get(cable).map_or(Look::Good, |c| c.look)
}

/// Colour, width and pattern of a cable's line.
pub(super) fn stroke(index: usize, look: Look) -> String {
    let width = if look == Look::Removed { 1 } else { 3 };
    let pattern = pattern(index);
    let dashes = if pattern.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{pattern}\"") };
    format!("fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"{dashes}", color(index))
}

fn cable(diagram: &Diagram, route: &Route) -> String {
    let path = path(&route.points);
    let told = diagram.cables.get(route.cable).map_or_else(String::new, |cable| {
        format!("cable {}: {} – {}, {}", cable.label, diagram.place(cable.near), diagram.far(cable), cable.state)
    });
    let mut out = format!("<g><title>{}</title>", escape(&told));
    // A white edge: where two cables cross, one passes over the other.
    let _ = write!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"#fff\" stroke-width=\"6\"/>");
    let _ = write!(out, "<path d=\"{path}\" {}/>", stroke(route.cable, look(diagram, route.cable)));
    if let (true, Some((x, y))) = (route.leaves, route.points.last()) {
        let _ = write!(
            out,
            "<path d=\"M{} {}L{} {y}L{} {}Z\" fill=\"{}\"/>",
            x - 2,
            y - 5,
            x + 8,
            x - 2,
            y + 5,
            color(route.cable)
        );
    }
    out.push_str("</g>\n");
    out
}

/// Level and upright lines with round corners.
fn path(points: &[(i32, i32)]) -> String {
    let mut out = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let (before, after) = (i.checked_sub(1).and_then(|b| points.get(b)), points.get(i + 1));
        match (before, after) {
            (None, _) => {
                let _ = write!(out, "M{x} {y}");
            }
            (Some(_), None) => {
                let _ = write!(out, "L{x} {y}");
            }
            (Some(from), Some(to)) => {
                let (enter, leave) = (towards((*x, *y), *from), towards((*x, *y), *to));
                let _ = write!(out, "L{} {}Q{x} {y} {} {}", enter.0, enter.1, leave.0, leave.1);
            }
        }
    }
    out
}

/// The point a bend's radius away in that direction, half-way at most.
fn towards((x, y): (i32, i32), to: (i32, i32)) -> (i32, i32) {
    let step = |from: i32, to: i32| ((to - from) / 2).clamp(-BEND, BEND);
    (x + step(x, to.0), y + step(y, to.1))
}

fn text(diagram: &Diagram, label: &Label) -> String {
    let area = label.area;
    let mut out = String::new();
    let (mut fill, mut weight) = ("#000", "");
    match label.style {
        Style::Plain => {}
        Style::Bold => weight = " font-weight=\"bold\"",
        Style::Faint => fill = "#555",
        Style::Cable(index) => {
            weight = " font-weight=\"bold\"";
            let look = look(diagram, index);
            let (back, frame, thick) = match look {
                Look::Good => ("#fff".to_owned(), color(index), 1),
                Look::Flawed => ("#fff".to_owned(), "#000".to_owned(), 3),
                Look::New => ("#000".to_owned(), "#000".to_owned(), 1),
                Look::Moved => ("#ccc".to_owned(), "#000".to_owned(), 1),
                Look::Removed => ("#fff".to_owned(), "#000".to_owned(), 1),
            };
            let mut dashes = "";
            match look {
                Look::New => fill = "#fff",
                Look::Removed => (dashes, weight) = (" stroke-dasharray=\"3 2\"", " text-decoration=\"line-through\""),
                Look::Good | Look::Flawed | Look::Moved => {}
            }
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{back}\" stroke=\"{frame}\" \
                 stroke-width=\"{thick}\"{dashes}/>",
                area.x, area.y, area.w, area.h
            );
        }
    }
    // A line of text fills its area; what stands in a port or a frame is centred.
    let fills = area.w == text_width(&label.text, label.size);
    let (x, anchor) = if fills { (area.x, "") } else { (area.x + area.w / 2, " text-anchor=\"middle\"") };
    let y = area.y + area.h / 2 + label.size * 7 / 20;
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{fill}\"{anchor}{weight}>{}</text>",
        label.size,
        escape(&label.text)
    );
    out
}

/// Text for XML and HTML, in elements and attributes. Control characters, which XML cannot carry, become visible.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in crate::model::command::printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
