//! Where everything goes: all places are computed here, in whole pixels, before anything is drawn.
//!
//! Macs stand below each other as in the rack. A cable leaves its receptacle downwards, runs on a track of its own in the
//! gap below its Mac to the right, and on a lane of its own beside the Macs to the other one. Tracks are ordered so
//! that a cable never crosses another one before the lanes; lanes are shared only by cables that do not pass each
//! other. Text is set in a fixed-width font, so its size is known without a font file.

mod macs;
mod routes;
pub(super) mod table;

use super::{Diagram, End};

/// Space around everything.
const MARGIN: i32 = 28;
/// Height of a cable's label.
const PILL: i32 = 16;

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Left edge.
    pub x: i32,
    /// Top edge.
    pub y: i32,
    /// Width.
    pub w: i32,
    /// Height.
    pub h: i32,
}

impl Area {
    /// Whether the two share a pixel.
    #[must_use]
    pub fn meets(&self, other: &Area) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    /// Right edge, exclusive.
    #[must_use]
    pub fn right(&self) -> i32 {
        self.x + self.w
    }

    /// Bottom edge, exclusive.
    #[must_use]
    pub fn bottom(&self) -> i32 {
        self.y + self.h
    }
}

/// How a text is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Black.
    Plain,
    /// Black, bold.
    Bold,
    /// Grey: there for orientation.
    Faint,
    /// The label of the cable with this index, framed.
    Cable(usize),
}

/// A text and the rectangle it fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// One line.
    pub text: String,
    /// Font size.
    pub size: i32,
    /// Style.
    pub style: Style,
    /// Where; the text is centred in it.
    pub area: Area,
}

/// A port as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its outline.
    pub area: Area,
    /// A Thunderbolt receptacle; else another port.
    pub thunderbolt: bool,
    /// RDMA must not use it.
    pub excluded: bool,
}

/// The line of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the cable.
    pub cable: usize,
    /// Corners, from one end to the other; each piece is level or upright.
    pub points: Vec<(i32, i32)>,
    /// The last point is the way out of the picture.
    pub leaves: bool,
}

/// Everything placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Width of the page.
    pub width: i32,
    /// Height of the page.
    pub height: i32,
    /// Sides of Macs.
    pub faces: Vec<Area>,
    /// Ports on them.
    pub sockets: Vec<Socket>,
    /// Cables.
    pub routes: Vec<Route>,
    /// Samples of the cables' lines in the table, with the cable's index.
    pub samples: Vec<(usize, Area)>,
    /// Rules of the table: left, right, height.
    pub rules: Vec<(i32, i32, i32)>,
    /// All text.
    pub labels: Vec<Label>,
}

impl Layout {
    /// Places the diagram; with the table of cables below the Macs or without.
    #[must_use]
    pub fn of(diagram: &Diagram, table: bool) -> Layout {
        let mut layout = Layout::default();
        let mut y = MARGIN;
        y = layout.line(&diagram.title, 20, Style::Bold, MARGIN, y) + 2;
        y = layout.line(&diagram.subtitle, 12, Style::Faint, MARGIN, y) + 18;
        let placed = macs::place(&mut layout, diagram, y);
        let right = routes::place(&mut layout, diagram, &placed);
        let mut y = placed.bottom;
        if table {
            y = table::place(&mut layout, diagram, y);
        }
        let widest = layout.labels.iter().map(|l| l.area.right()).max().unwrap_or(0).max(right);
        layout.width = widest + MARGIN;
        layout.height = table::notes(&mut layout, diagram, y) + MARGIN;
        layout
    }

    /// Puts a line of text with its upper left corner there; gives its lower edge.
    fn line(&mut self, text: &str, size: i32, style: Style, x: i32, y: i32) -> i32 {
        let area = Area { x, y, w: text_width(text, size), h: size + 4 };
        self.labels.push(Label { text: text.to_owned(), size, style, area });
        area.bottom()
    }

    /// Puts a cable's label with its centre there.
    fn pill(&mut self, diagram: &Diagram, cable: usize, (x, y): (i32, i32)) {
        let Some(text) = diagram.cables.get(cable).map(|c| c.label.clone()) else { return };
        let w = pill_width(&text);
        let area = Area { x: x - w / 2, y: y - PILL / 2, w, h: PILL };
        self.labels.push(Label { text, size: 11, style: Style::Cable(cable), area });
    }
}

/// Width of a cable's label.
fn pill_width(text: &str) -> i32 {
    text_width(text, 11).max(7) + 10
}

/// Width of a text in a fixed-width font, whose letters are 0.6 em wide in all common ones. Others count one em, and
/// emoji 1.3 em: Noto Color Emoji, the widest that was seen, draws them 1.25 em wide.
#[must_use]
pub fn text_width(text: &str, size: i32) -> i32 {
    let tenths = |c: char| match u32::from(c) {
        0..0x2600 => 6,
        0x2600..0x1f000 => 10,
        _ => 13,
    };
    let tenths: i32 = text.chars().map(tenths).sum();
    (tenths * size + 9) / 10
}

/// Breaks a text into lines of at most this many characters; longer words are broken too.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while !rest.is_empty() {
            let Some(line) = lines.last_mut() else { break };
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            if used + gap + rest.len() <= most {
                line.push_str(if gap == 1 { " " } else { "" });
                line.extend(rest.drain(..));
            } else if used > 0 {
                lines.push(String::new());
            } else {
                line.extend(rest.drain(..most.max(1).min(rest.len())));
            }
        }
    }
    lines
}

/// A number of things as pixels or steps.
fn int(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX / 1024)
}

/// Both ends of a cable that are drawn.
fn ends(diagram: &Diagram, cable: usize) -> (Option<End>, Option<End>) {
    let Some(cable) = diagram.cables.get(cable) else { return (None, None) };
    let far = match &cable.far {
        super::Far::End(end) => Some(*end),
        super::Far::Outside(_) => None,
    };
    (Some(cable.near), far)
}
