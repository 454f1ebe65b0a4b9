//! What a wiring is planned on: the receptacles of every Mac, what is plugged into them, and the live bridges.

use std::collections::BTreeMap;

use crate::mesh::ranks;
use crate::mesh::{Cable, CableEnd, LinkGraph, interface_of, leads_to_a_mac};
use crate::model::facts::{Attached, NodeFacts, Receptacle};
use crate::model::hardware::{Family, Mac, Thunderbolt};
use crate::model::{Inventory, NodeName, Snapshot};

/// A receptacle: place of its node on the [`Board`], then its number as macOS counts.
pub type End = (usize, u32);

/// A bridge of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bridge {
    /// `ifconfig` lists the receptacle's interface as its member.
    Named(String),
    /// Nothing tells; macOS puts every receptacle into one bridge unless somebody took it out.
    Unseen,
}

/// One Mac.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Receptacles that a cable of the wiring may use, ascending.
    pub usable: Vec<u32>,
    /// The receptacle that it must not use.
    pub excluded: Option<u32>,
    /// What occupies a receptacle and is no cable of the rack (dock, drive, a Mac outside), in words.
    pub things: BTreeMap<u32, String>,
    /// Receptacles that are members of a live bridge.
    pub bridges: BTreeMap<u32, Bridge>,
    /// Its front ports are USB-C without Thunderbolt.
    pub usb_c_front: bool,
    /// Generation, when it is known.
    pub thunderbolt: Option<Thunderbolt>,
}

/// The rack as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Board {
    /// Names by place: slot order, as ranks are counted.
    pub names: Vec<NodeName>,
    /// Macs by place.
    pub stations: Vec<Station>,
    /// Cables whose two plugs are in these receptacles; both may be in one Mac.
    pub cables: Vec<[End; 2]>,
    /// Links through a dock: they carry Ethernet as cables do, and their ends are things.
    pub docked: Vec<[End; 2]>,
}

/// Why a node cannot be planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The node.
    pub node: NodeName,
    /// What is not known and why, without the node's name.
    pub why: String,
    /// It did not answer at all.
    pub unseen: bool,
}

impl Board {
    /// Reads it from the facts.
    ///
    /// # Errors
    /// Every node whose Mac or cables are not known: a plan that overlooks a cable would plug a second one there.
    pub fn of(inventory: &Inventory, snapshot: &Snapshot, graph: &LinkGraph) -> Result<Board, Vec<Unknown>> {
        let names: Vec<NodeName> = ranks::order(inventory).into_iter().map(|n| n.name.clone()).collect();
        let mut unknown = Vec::new();
        let mut stations = Vec::new();
        for name in &names {
            match station(name, snapshot, graph) {
                Ok(station) => stations.push(station),
                Err(why) => {
                    let unseen = snapshot.facts(name).is_none();
                    unknown.push(Unknown { node: name.clone(), why, unseen });
                }
            }
        }
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let mut board = Board { names, stations, ..Board::default() };
        board.plug_in(graph);
        Ok(board)
    }

    /// An empty rack of these Macs, which nobody has asked: their receptacles are numbered from 1, and may be in a
    /// bridge.
    ///
    /// # Errors
    /// Nodes whose model has an unknown number of receptacles.
    pub fn empty(macs: &[(NodeName, Mac)]) -> Result<Board, Vec<Unknown>> {
        let mut board = Board::default();
        let mut unknown = Vec::new();
        for (name, mac) in macs {
            let Some(count) = mac.receptacles else {
                let why = "is a model whose number of Thunderbolt receptacles is not known".to_owned();
                unknown.push(Unknown { node: name.clone(), why, unseen: true });
                continue;
            };
            let excluded = mac.excluded();
            board.names.push(name.clone());
            board.stations.push(Station {
                usable: (1..=count).filter(|r| Some(*r) != excluded).collect(),
                excluded,
                things: BTreeMap::new(),
                bridges: (1..=count).map(|r| (r, Bridge::Unseen)).collect(),
                usb_c_front: mac.machine.is_some_and(|m| m.usb_c_front),
                thunderbolt: mac.thunderbolt,
            });
        }
        if unknown.is_empty() { Ok(board) } else { Err(unknown) }
    }

    fn plug_in(&mut self, graph: &LinkGraph) {
        for link in graph.links.values() {
            let (Some(a), Some(b)) = (self.end(&link.id.a), self.end(&link.id.b)) else { continue };
            let Some(dock) = &link.via_dock else {
                self.cables.push([a, b]);
                continue;
            };
            self.docked.push([a, b]);
            for (end, other) in [(a, b), (b, a)] {
                let what = format!("{dock} on the way to {}", self.names[other.0]);
                self.stations[end.0].things.insert(end.1, what);
            }
        }
        for cable in &graph.odd {
            let Some(end) = self.end(cable.end()) else { continue };
            let what = match cable {
                Cable::SelfLoop(_, b) => {
                    self.cables.extend(self.end(b).map(|b| [end, b]));
                    continue;
                }
                Cable::Foreign(peer) => format!("cable to a {} outside the rack", peer.what),
                Cable::Unknown(peer, _) | Cable::Untold(peer) => {
                    format!("cable to a {} that does not say which Mac it is", peer.what)
                }
            };
            self.stations[end.0].things.insert(end.1, what);
        }
        // A report of one end alone does not make the other end's receptacle a thing.
        for [a, b] in self.cables.clone() {
            for (node, receptacle) in [a, b] {
                self.stations[node].things.remove(&receptacle);
            }
        }
        self.cables.sort_unstable();
        self.docked.sort_unstable();
    }

    /// Place of a node.
    pub fn place(&self, node: &NodeName) -> Option<usize> {
        self.names.iter().position(|n| n == node)
    }

    /// The end as the board counts it.
    pub fn end(&self, end: &CableEnd) -> Option<End> {
        Some((self.place(&end.node)?, end.receptacle))
    }

    /// The end by the node's name.
    ///
    /// # Panics
    /// For a place that is not on the board.
    pub fn named(&self, end: End) -> CableEnd {
        CableEnd { node: self.names[end.0].clone(), receptacle: end.1 }
    }

    /// A cable of the wiring may end there.
    pub fn usable(&self, end: End) -> bool {
        self.stations[end.0].usable.contains(&end.1)
    }

    /// Both plugs are in receptacles that the wiring may use, of two Macs.
    pub fn good(&self, [a, b]: [End; 2]) -> bool {
        a.0 != b.0 && self.usable(a) && self.usable(b)
    }
}

fn station(name: &NodeName, snapshot: &Snapshot, graph: &LinkGraph) -> Result<Station, String> {
    let facts = match snapshot.nodes.get(name).map(|record| &record.facts) {
        Some(Ok(facts)) => facts,
        Some(Err(failure)) => return Err(format!("was not seen: {}", failure.message)),
        None => return Err("was not seen: the facts do not contain it".to_owned()),
    };
    let receptacles = facts.receptacles.as_ref().map_err(|e| format!("its receptacles are not known ({e})"))?;
    if graph.blind.contains(name) {
        return Err("its cables are not known: a receptacle with a Mac on it reports no domain UUID".to_owned());
    }
    if let Some((_, twins)) = graph.ambiguous.iter().find(|(_, ends)| ends.iter().any(|e| &e.node == name)) {
        let twin = twins.iter().find(|e| &e.node != name).or(twins.first());
        let twin = twin.map_or_else(String::new, ToString::to_string);
        return Err(format!("its cables are not known: {twin} reports the same domain UUID; is one Mac listed twice?"));
    }
    let mac = Mac::of(facts);
    if mac.thunderbolt.is_none() && mac.family == Family::Studio {
        let model = facts.hardware.as_ref().map_or("an unknown model", |h| h.model.as_str());
        return Err(format!(
            "is {model}, whose Thunderbolt generation is not known: whether the receptacle beside Ethernet may be used \
             cannot be told"
        ));
    }
    let excluded = mac.excluded();
    let mut usable: Vec<u32> = receptacles.iter().map(|r| r.id).filter(|id| Some(*id) != excluded).collect();
    usable.sort_unstable();
    usable.dedup();
    Ok(Station {
        usable,
        excluded,
        things: receptacles.iter().filter_map(|r| Some((r.id, thing(r)?))).collect(),
        bridges: receptacles.iter().filter_map(|r| Some((r.id, bridge(facts, r.id)?))).collect(),
        usb_c_front: mac.machine.is_some_and(|m| m.usb_c_front),
        thunderbolt: mac.thunderbolt,
    })
}

/// What is on a receptacle, unless it is another Mac.
fn thing(receptacle: &Receptacle) -> Option<String> {
    if leads_to_a_mac(&receptacle.attached) {
        return None;
    }
    match receptacle.attached.first() {
        Some(Attached::Device { name, .. }) => Some(name.clone()),
        _ => receptacle.connected.then(|| "something that does not say what it is".to_owned()),
    }
}

/// The live bridge of a receptacle.
fn bridge(facts: &NodeFacts, receptacle: u32) -> Option<Bridge> {
    let Ok(interfaces) = &facts.interfaces else { return Some(Bridge::Unseen) };
    let Some(interface) = interface_of(facts, receptacle) else {
        // Which interface it is cannot be told; without any bridge it is in none.
        return interfaces.iter().any(|i| !i.members.is_empty()).then_some(Bridge::Unseen);
    };
    let of = interfaces.iter().find(|b| b.members.iter().any(|m| m == interface));
    of.map(|b| Bridge::Named(b.name.clone()))
}
