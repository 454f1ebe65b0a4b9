//! The rack as a picture: the receptacles of every Mac and the cables between them.
//!
//! [`Diagram`] is plain data: what a live rack has ([`from_rack`]) or what a plan wants to have ([`from_plan`]). [`draw`] and its
//! siblings turn it into SVG, a page to print, Graphviz, or text for a terminal. Pure: the same diagram gives the same
//! bytes.

mod color;
mod dot;
mod from_plan;
mod from_rack;
mod html;
pub mod layout;
mod svg;
mod text;

pub use dot::dot;
pub use from_plan::from_plan;
pub use from_rack::from_rack;
pub use html::html;
pub use svg::draw;
pub use text::text;

use crate::model::panel::Panel;

/// Everything that is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// Headline, e.g. `Rack bench`.
    pub title: String,
    /// Line below it, e.g. when the facts were read or that this is a plan.
    pub subtitle: String,
    /// Macs from top to bottom.
    pub macs: Vec<Mac>,
    /// Cables in the order of the table.
    pub cables: Vec<Cable>,
    /// Sentences below the table, e.g. pairs without a cable.
    pub remarks: Vec<String>,
}

/// One Mac.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mac {
    /// Node name.
    pub name: String,
    /// Where and what it is, e.g. `slot 1 · Mac Studio M3 Ultra (2025)`.
    pub about: String,
    /// Its ports; every receptacle that a cable ends in is among them, else that end is not drawn.
    pub panel: Panel,
    /// The receptacle that RDMA must not use.
    pub excluded: Option<u32>,
}

/// A receptacle of one of the Macs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Index in [`Diagram::macs`].
    pub mac: usize,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
}

/// What a cable leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Far {
    /// A receptacle, of the same Mac for a self loop.
    End(End),
    /// Something that is not drawn, in words.
    Outside(String),
}

/// One cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Short and unique, e.g. `1`: at both ends, along the cable and in the table. Three characters fit.
    pub label: String,
    /// One end.
    pub near: End,
    /// The other end.
    pub far: Far,
    /// Its link network, e.g. `10.254.0.0/30`.
    pub network: Option<String>,
    /// Gb/s.
    pub gbps: Option<u32>,
    /// How it is drawn.
    pub look: Look,
    /// Its state in words, e.g. `good` or `new`.
    pub state: String,
}

/// How a cable's labels look; its line has its own colour and pattern in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// As it should be: white label.
    Good,
    /// Something is wrong: label with a thick frame.
    Flawed,
    /// To be plugged in: white on black.
    New,
    /// Goes elsewhere, drawn where it is to be: black on grey.
    Moved,
    /// To be taken out, drawn where it is: thin line, label struck through in a dashed frame.
    Removed,
}

impl Look {
    /// Its sign beside a label in text.
    fn sign(self) -> &'static str {
        match self {
            Look::Good => "",
            Look::Flawed => "!",
            Look::New => "+",
            Look::Moved => "~",
            Look::Removed => "-",
        }
    }

    /// What its label is like in a picture and in text, and what that means; none for a cable as it should be.
    fn meaning(self) -> Option<[&'static str; 3]> {
        Some(match self {
            Look::Good => return None,
            Look::Flawed => {
                ["Label with a thick frame", "Label with !", "something is wrong with that cable, its state says what."]
            }
            Look::New => ["White label on black", "Label with +", "a cable to plug in."],
            Look::Moved => ["Label on grey", "Label with ~", "a cable that moves, drawn where it is to be."],
            Look::Removed => {
                ["Label struck through, thin line", "Label with -", "a cable to take out, drawn where it is now."]
            }
        })
    }
}

impl Diagram {
    /// `studio-1 receptacle 2`; empty for a Mac that does not exist.
    pub fn place(&self, end: End) -> String {
        self.macs.get(end.mac).map_or_else(String::new, |m| format!("{} receptacle {}", m.name, end.receptacle))
    }

    /// The other end in words.
    pub fn far(&self, cable: &Cable) -> String {
        match &cable.far {
            Far::End(end) => self.place(*end),
            Far::Outside(what) => what.clone(),
        }
    }
}
