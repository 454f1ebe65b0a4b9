//! The catalogue of Macs: what their receptacles are. One table knows the models.
//!
//! Model ids, Thunderbolt generations and receptacle counts: Apple's "Identify your …" pages and technical
//! specifications. Positions: measured on one Mac15,14 (device tree `port-location`, public capture of 2026-09);
//! no other model's are known, so none are claimed.

use std::fmt;

use super::facts::{NodeFacts, Receptacle};

/// Thunderbolt generation of a Mac's receptacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thunderbolt {
    /// No Thunderbolt at all.
    None,
    /// Thunderbolt 3 or 4: 40 Gb/s, no RDMA whatever the RDMA switch says.
    Four,
    /// Thunderbolt 5: 80 Gb/s (120 one way), RDMA.
    Five,
}

impl fmt::Display for Thunderbolt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Thunderbolt::None => "no Thunderbolt",
            Thunderbolt::Four => "Thunderbolt 4",
            Thunderbolt::Five => "Thunderbolt 5",
        })
    }
}

/// Families that differ in how they are cabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Mac Studio.
    Studio,
    /// Mac mini.
    Mini,
    /// `MacBook Pro`.
    MacBookPro,
    /// Any other Mac.
    Other,
}

/// One row of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `hw.model`, e.g. `Mac15,14`.
    pub model: &'static str,
    /// For people, e.g. `Mac Studio M3 Ultra (2025)`.
    pub name: &'static str,
    /// Family.
    pub family: Family,
    /// Generation of its receptacles.
    pub thunderbolt: Thunderbolt,
    /// Receptacles with Thunderbolt; none where no source states it.
    pub receptacles: Option<u32>,
    /// The front ports are USB-C only: they look alike and carry no Thunderbolt.
    pub usb_c_front: bool,
}

use Family::{MacBookPro, Mini, Other, Studio};
use Thunderbolt::{Five, Four};

const fn mac(
    model: &'static str,
    name: &'static str,
    family: Family,
    thunderbolt: Thunderbolt,
    receptacles: Option<u32>,
    usb_c_front: bool,
) -> Machine {
    Machine { model, name, family, thunderbolt, receptacles, usb_c_front }
}

/// Every Mac that is known here.
pub const CATALOGUE: &[Machine] = &[
    mac("Mac13,1", "Mac Studio M1 Max (2022)", Studio, Four, Some(4), true),
    mac("Mac13,2", "Mac Studio M1 Ultra (2022)", Studio, Four, Some(6), false),
    mac("Mac14,13", "Mac Studio M2 Max (2023)", Studio, Four, Some(4), true),
    mac("Mac14,14", "Mac Studio M2 Ultra (2023)", Studio, Four, Some(6), false),
    mac("Mac15,14", "Mac Studio M3 Ultra (2025)", Studio, Five, Some(6), false),
    mac("Mac16,9", "Mac Studio M4 Max (2025)", Studio, Five, Some(4), true),
    mac("Mac17,14", "Mac Studio M5 Max (2026)", Studio, Five, Some(4), true),
    mac("Mac17,15", "Mac Studio M5 Ultra (2026)", Studio, Five, Some(6), false),
    mac("Mac16,10", "Mac mini M4 (2024)", Mini, Four, Some(3), true),
    mac("Mac16,11", "Mac mini M4 Pro (2024)", Mini, Five, Some(3), true),
    mac("Mac17,16", "Mac mini M5 Pro (2026)", Mini, Five, Some(3), true),
    mac("Mac18,5", "Mac mini M6 (2026)", Mini, Four, Some(3), true),
    mac("Mac16,1", "MacBook Pro 14-inch M4 (2024)", MacBookPro, Four, None, false),
    mac("Mac16,5", "MacBook Pro 16-inch M4 Max (2024)", MacBookPro, Five, Some(3), false),
    mac("Mac16,6", "MacBook Pro 14-inch M4 Max (2024)", MacBookPro, Five, Some(3), false),
    mac("Mac16,7", "MacBook Pro 16-inch M4 Pro (2024)", MacBookPro, Five, Some(3), false),
    mac("Mac16,8", "MacBook Pro 14-inch M4 Pro (2024)", MacBookPro, Five, Some(3), false),
    mac("Mac17,2", "MacBook Pro 14-inch M5 (2025)", MacBookPro, Four, None, false),
    mac("Mac17,6", "MacBook Pro M5 Max (2026)", MacBookPro, Five, Some(3), false),
    mac("Mac17,7", "MacBook Pro M5 Max (2026)", MacBookPro, Five, Some(3), false),
    mac("Mac17,8", "MacBook Pro M5 Pro (2026)", MacBookPro, Five, Some(3), false),
    mac("Mac17,9", "MacBook Pro M5 Pro (2026)", MacBookPro, Five, Some(3), false),
    mac("Mac17,5", "MacBook Neo (2026)", Other, Thunderbolt::None, Some(0), false),
];

/// Most nodes in MLX's mesh, the node itself included (`MESH_MAX_PEERS` in MLX's `mesh_impl.h`).
pub const MESH_MAX_NODES: u32 = 8;

/// The row of that model id.
pub fn lookup(model: &str) -> Option<&'static Machine> {
    CATALOGUE.iter().find(|m| m.model == model)
}

/// What can be said of a node's Mac: from the catalogue, else from what the Mac itself reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac {
    /// The catalogue's row, if the model is in it.
    pub machine: Option<&'static Machine>,
    /// Family; by the marketing name for a model that is not in the catalogue.
    pub family: Family,
    /// Generation; none when nothing tells.
    pub thunderbolt: Option<Thunderbolt>,
    /// Receptacles: as reported by the Mac, else as the catalogue says.
    pub receptacles: Option<u32>,
}

impl Mac {
    /// Resolves a node's Mac from its facts.
    pub fn of(facts: &NodeFacts) -> Mac {
        // `hw.model` says the same as the hardware report and survives when that one is garbage.
        let model = match &facts.hardware {
            Ok(hardware) => Some(hardware.model.as_str()),
            Err(_) => facts.sysctl.as_ref().ok().and_then(|s| s.get("hw.model")).map(String::as_str),
        };
        let machine = model.and_then(lookup);
        let reported = facts.receptacles.as_deref().ok().filter(|r| !r.is_empty());
        let by_name = facts.hardware.as_ref().map_or(Other, |h| match h.name.as_str() {
            "Mac Studio" => Studio,
            "Mac mini" => Mini,
            "MacBook Pro" => MacBookPro,
            _ => Other,
        });
        Mac {
            machine,
            family: machine.map_or(by_name, |m| m.family),
            thunderbolt: machine.map(|m| m.thunderbolt).or_else(|| reported.and_then(generation)),
            receptacles: reported
                .and_then(|r| u32::try_from(r.len()).ok())
                .or_else(|| machine.and_then(|m| m.receptacles)),
        }
    }

    /// A Mac of this model that nobody has asked.
    pub fn of_model(machine: &'static Machine) -> Mac {
        Mac {
            machine: Some(machine),
            family: machine.family,
            thunderbolt: Some(machine.thunderbolt),
            receptacles: machine.receptacles,
        }
    }

    /// The receptacle that RDMA must not use: on a Mac Studio with Thunderbolt 5 the one beside Ethernet.
    /// Reported for Mac Studio only; on a Mac mini Apple's own example uses receptacle 1 (TN3205).
    pub fn excluded(&self) -> Option<u32> {
        (self.family == Studio && self.thunderbolt == Some(Five)).then_some(1)
    }

    /// Most nodes of this kind in a full mesh: one receptacle for each peer.
    pub fn mesh_size(&self) -> Option<u32> {
        let usable = self.receptacles?.saturating_sub(u32::from(self.excluded().is_some()));
        Some((usable + 1).min(MESH_MAX_NODES))
    }

    /// Where a receptacle is found on the case, when that is known.
    pub fn position(&self, receptacle: u32) -> Option<&'static str> {
        let ultra = self.machine.is_some_and(|m| m.model == "Mac15,14");
        Some(match receptacle {
            1 if ultra => "back right, beside Ethernet",
            2 if ultra => "back, second from the right",
            3 if ultra => "back, third from the right",
            4 if ultra => "back left",
            5 if ultra => "front right",
            6 if ultra => "front left",
            1 if self.family == Studio => "beside Ethernet",
            _ => return None,
        })
    }

    /// `receptacle 2 (back, second from the right; en3)`.
    pub fn place(&self, receptacle: u32, interface: Option<&str>) -> String {
        match (self.position(receptacle), interface) {
            (Some(position), Some(interface)) => format!("receptacle {receptacle} ({position}; {interface})"),
            (Some(word), None) | (None, Some(word)) => format!("receptacle {receptacle} ({word})"),
            (None, None) => format!("receptacle {receptacle}"),
        }
    }

    /// The name for people: the catalogue's, else none.
    pub fn name(&self) -> Option<&'static str> {
        self.machine.map(|m| m.name)
    }
}

/// Generation by speed: an idle Thunderbolt 5 receptacle says `Up to 120 Gb/s`, an older one `Up to 40 Gb/s`.
/// A link above 40 Gb/s proves Thunderbolt 5; a 40 Gb/s link proves nothing (the cable may be the cause).
fn generation(receptacles: &[Receptacle]) -> Option<Thunderbolt> {
    let speeds = || receptacles.iter().filter_map(|r| Some((r.idle_speed(), r.gbps()?)));
    if speeds().any(|(_, gbps)| gbps > 40) {
        return Some(Five);
    }
    speeds().any(|(idle, _)| idle).then_some(Four)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receptacle(speed: &str) -> Receptacle {
        Receptacle {
            id: 1,
            bus: "b".to_owned(),
            domain_uuid: None,
            speed: Some(speed.to_owned()),
            connected: false,
            attached: vec![],
        }
    }

    #[test]
    fn ids_are_unique() {
        for (i, a) in CATALOGUE.iter().enumerate() {
            assert!(CATALOGUE[i + 1..].iter().all(|b| a.model != b.model), "{} twice", a.model);
        }
    }

    #[test]
    fn mesh_sizes_and_exclusions_follow_the_hardware() {
        let of = |model: &str| Mac::of_model(lookup(model).expect(model));
        for (model, size, excluded) in [
            ("Mac15,14", 6, Some(1)),
            ("Mac17,15", 6, Some(1)),
            ("Mac16,9", 4, Some(1)),
            ("Mac17,14", 4, Some(1)),
            ("Mac16,11", 4, None),
            ("Mac17,16", 4, None),
        ] {
            assert_eq!(of(model).mesh_size(), Some(size), "{model}");
            assert_eq!(of(model).excluded(), excluded, "{model}");
        }
        assert_eq!(of("Mac14,14").excluded(), None, "no RDMA there, nothing to exclude");
    }

    #[test]
    fn speed_tells_the_generation_of_an_unknown_model() {
        assert_eq!(generation(&[receptacle("Up to 120 Gb/s")]), Some(Five));
        assert_eq!(generation(&[receptacle("40 Gb/s"), receptacle("Up to 40 Gb/s")]), Some(Four));
        assert_eq!(generation(&[receptacle("40 Gb/s")]), None, "a slow cable proves nothing");
        assert_eq!(generation(&[receptacle("80 Gb/s")]), Some(Five));
    }

    #[test]
    fn positions_are_claimed_only_where_measured() {
        let machine = lookup("Mac15,14");
        let ultra = Mac { machine, family: Studio, thunderbolt: Some(Five), receptacles: Some(6) };
        assert_eq!(ultra.place(1, Some("en2")), "receptacle 1 (back right, beside Ethernet; en2)");
        let max = Mac { machine: lookup("Mac16,9"), ..ultra };
        assert_eq!(max.place(2, Some("en3")), "receptacle 2 (en3)");
        assert_eq!(max.place(1, None), "receptacle 1 (beside Ethernet)");
    }
}
