//! The ports on the case of a Mac, in the order in which a person facing them sees them.
//!
//! Order of the back of a Mac Studio (Thunderbolt ×4, Ethernet, power, USB-A ×2, HDMI, headphones) and of a Mac mini of
//! 2024 and later (power, Ethernet, HDMI, Thunderbolt ×3): Apple's technical specifications and port pictures. Which
//! Thunderbolt port is which receptacle was measured on one Mac15,14 only (see [`super::hardware`]); on other Mac
//! Studios receptacle 1 is taken to be the one beside Ethernet too, on other Macs nothing is known.

use super::hardware::{Family, Mac};

/// A port as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// A Thunderbolt receptacle, by macOS' number.
    Receptacle(u32),
    /// Something else, by its name; there for orientation.
    Other(&'static str),
}

/// One side of a Mac.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// `back`, `front`, or `sides` where it is not known which.
    pub name: &'static str,
    /// Ports from left to right for a person who faces this side.
    pub ports: Vec<Port>,
}

/// How much is known of which port is which receptacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Measured for this model.
    Measured,
    /// Receptacle 1 is beside Ethernet; the others are drawn in the order of the model that was measured.
    OneKnown,
    /// Nothing: receptacles are drawn in the order of their numbers.
    Unknown,
}

/// All sides with ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Sides, the back first.
    pub faces: Vec<Face>,
    /// How far the order of the receptacles can be trusted.
    pub numbering: Numbering,
}

/// The model whose receptacles were measured.
const MEASURED: &str = "Mac15,14";
/// Thunderbolt receptacles in the back of a Mac Studio.
const STUDIO_BACK: u32 = 4;

impl Panel {
    /// The ports of a Mac with these receptacles. Every receptacle is on exactly one side.
    pub fn of(mac: &Mac, receptacles: &[u32]) -> Panel {
        let mut all = receptacles.to_vec();
        if all.is_empty() {
            all = (1..=mac.receptacles.unwrap_or(0)).collect();
        }
        all.sort_unstable();
        all.dedup();
        let numbers =
            |wanted: &dyn Fn(u32) -> bool| -> Vec<u32> { all.iter().copied().filter(|r| wanted(*r)).collect() };
        match mac.family {
            Family::Studio => {
                let back = ports(numbers(&|r| r <= STUDIO_BACK).into_iter().rev());
                let back = [back, others(&["Ethernet", "power", "USB-A", "USB-A", "HDMI", "audio"])].concat();
                let front = ports(numbers(&|r| r > STUDIO_BACK).into_iter().rev());
                let usb_c = mac.machine.is_some_and(|m| m.usb_c_front);
                let front = if front.is_empty() && usb_c { others(&["USB-C", "USB-C"]) } else { front };
                let measured = mac.machine.is_some_and(|m| m.model == MEASURED);
                Panel::new(
                    [("back", back), ("front", front)],
                    if measured { Numbering::Measured } else { Numbering::OneKnown },
                )
            }
            Family::Mini => {
                let back = [others(&["power", "Ethernet", "HDMI"]), ports(all.iter().copied())].concat();
                let usb_c = mac.machine.is_some_and(|m| m.usb_c_front);
                let front = if usb_c { others(&["USB-C", "USB-C"]) } else { Vec::new() };
                Panel::new([("back", back), ("front", front)], Numbering::Unknown)
            }
            Family::MacBookPro | Family::Other => {
                Panel::new([("sides", ports(all.iter().copied())), ("", Vec::new())], Numbering::Unknown)
            }
        }
    }

    fn new(faces: [(&'static str, Vec<Port>); 2], numbering: Numbering) -> Panel {
        let faces = faces.into_iter().filter(|(_, ports)| !ports.is_empty()).map(|(name, ports)| Face { name, ports });
        Panel { faces: faces.collect(), numbering }
    }

    /// Every receptacle, in the order of drawing.
    pub fn receptacles(&self) -> impl Iterator<Item = u32> {
        self.faces.iter().flat_map(|f| &f.ports).filter_map(|p| match p {
            Port::Receptacle(number) => Some(*number),
            Port::Other(_) => None,
        })
    }
}

fn ports(numbers: impl Iterator<Item = u32>) -> Vec<Port> {
    numbers.map(Port::Receptacle).collect()
}

fn others(names: &[&'static str]) -> Vec<Port> {
    names.iter().map(|n| Port::Other(n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hardware::{CATALOGUE, lookup};

    fn mac(model: &str) -> Mac {
        let machine = lookup(model);
        let m = machine.expect(model);
        Mac { machine, family: m.family, thunderbolt: Some(m.thunderbolt), receptacles: m.receptacles }
    }

    #[test]
    fn the_measured_studio_is_drawn_as_its_positions_say() {
        let ultra = mac("Mac15,14");
        let panel = Panel::of(&ultra, &[]);
        assert_eq!(panel.receptacles().collect::<Vec<_>>(), [4, 3, 2, 1, 6, 5]);
        assert_eq!(panel.numbering, Numbering::Measured);
        let beside = panel.faces[0].ports.windows(2).find(|p| p[1] == Port::Other("Ethernet")).expect("Ethernet");
        assert_eq!(beside[0], Port::Receptacle(1), "{}", ultra.place(1, None));
        for (face, side) in panel.faces.iter().zip(["back", "front"]) {
            for port in &face.ports {
                let Port::Receptacle(number) = port else { continue };
                assert!(ultra.position(*number).is_some_and(|p| p.starts_with(side)), "{number} on the {side}");
            }
        }
    }

    #[test]
    fn every_receptacle_of_every_model_is_drawn_once_and_claims_are_not_made_up() {
        for machine in CATALOGUE {
            let panel = Panel::of(&mac(machine.model), &[1, 2, 3, 4, 5, 6, 9]);
            let mut drawn: Vec<u32> = panel.receptacles().collect();
            drawn.sort_unstable();
            assert_eq!(drawn, [1, 2, 3, 4, 5, 6, 9], "{}", machine.model);
            assert_eq!(panel.numbering == Numbering::Measured, machine.model == MEASURED, "{}", machine.model);
        }
        let max = Panel::of(&mac("Mac16,9"), &[]);
        assert_eq!(max.faces[1].ports, others(&["USB-C", "USB-C"]), "they look alike and carry no Thunderbolt");
        let unknown = Mac { machine: None, family: Family::Other, thunderbolt: None, receptacles: None };
        assert!(Panel::of(&unknown, &[]).faces.is_empty());
    }
}
