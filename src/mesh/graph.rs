//! Joins the receptacles of all nodes into cables, on domain UUIDs and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::facts::{Attached, NodeFacts, PeerMac, Receptacle};
use crate::model::{LinkEnd, LinkRef, NodeName, Snapshot};

/// One end of a cable. Orders by node, then receptacle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CableEnd {
    /// Node.
    pub node: NodeName,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
}

impl fmt::Display for CableEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} receptacle {}", self.node, self.receptacle)
    }
}

/// A link's identity: its two ends, smaller first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId {
    /// Smaller end.
    pub a: CableEnd,
    /// Greater end.
    pub b: CableEnd,
}

impl LinkId {
    /// Puts the ends in order.
    pub fn new(one: CableEnd, other: CableEnd) -> Self {
        if one <= other { LinkId { a: one, b: other } } else { LinkId { a: other, b: one } }
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} – {}", self.a, self.b)
    }
}

/// A cable between two nodes of the rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its ends.
    pub id: LinkId,
    /// Interface at each end (`en3`), joined over `Thunderbolt N` of the hardware ports; none when that join fails.
    pub interfaces: (Option<String>, Option<String>),
    /// Lower of the two reported speeds, Gb/s.
    pub gbps: Option<u32>,
    /// Both ends name each other; else only `a` or only `b` reports it.
    pub seen_by: SeenBy,
    /// Rail among the cables of this node pair, from 0, in order of receptacles.
    pub rail: u32,
    /// A dock or hub lies between the two Macs (seen from at least one end).
    pub via_dock: Option<String>,
}

impl Link {
    /// The end at that node.
    pub fn end(&self, node: &NodeName) -> Option<&CableEnd> {
        [&self.id.a, &self.id.b].into_iter().find(|e| &e.node == node)
    }

    /// The node at the other end.
    pub fn other(&self, node: &NodeName) -> Option<&NodeName> {
        if &self.id.a.node == node {
            Some(&self.id.b.node)
        } else {
            (&self.id.b.node == node).then_some(&self.id.a.node)
        }
    }

    /// The interface at that node's end.
    pub fn interface(&self, node: &NodeName) -> Option<&str> {
        if &self.id.a.node == node {
            self.interfaces.0.as_deref()
        } else {
            self.interfaces.1.as_deref().filter(|_| &self.id.b.node == node)
        }
    }

    /// Both ends with their interfaces, smaller first.
    pub fn ends(&self) -> [(&CableEnd, Option<&str>); 2] {
        [(&self.id.a, self.interfaces.0.as_deref()), (&self.id.b, self.interfaces.1.as_deref())]
    }

    /// The link as findings name it.
    pub fn to_ref(&self) -> LinkRef {
        let end = |e: &CableEnd, interface: &Option<String>| LinkEnd {
            node: e.node.clone(),
            receptacle: e.receptacle,
            interface: interface.clone(),
        };
        LinkRef { a: end(&self.id.a, &self.interfaces.0), b: end(&self.id.b, &self.interfaces.1) }
    }
}

/// Which ends report a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenBy {
    /// Both.
    Both,
    /// Only the smaller end.
    OnlyA,
    /// Only the greater end.
    OnlyB,
}

/// A cable to a Mac that is not in the rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPeer {
    /// Our end.
    pub end: CableEnd,
    /// Its model or marketing name.
    pub what: String,
}

/// A cable that is no proper link, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Both ends in the same Mac.
    SelfLoop(CableEnd, CableEnd),
    /// To a Mac outside the rack.
    Foreign(ForeignPeer),
    /// To a Mac that may be outside the rack or one of these nodes, whose own receptacles are not known.
    Unknown(ForeignPeer, Vec<NodeName>),
    /// To a Mac whose report carries no domain UUID: nothing can be joined.
    Untold(ForeignPeer),
}

impl Cable {
    /// The end it is reported from.
    pub fn end(&self) -> &CableEnd {
        match self {
            Cable::SelfLoop(end, _) => end,
            Cable::Foreign(peer) | Cable::Unknown(peer, _) | Cable::Untold(peer) => &peer.end,
        }
    }
}

/// All cables of the rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkGraph {
    /// Links by id.
    pub links: BTreeMap<LinkId, Link>,
    /// Cables that are no links, in order of their ends.
    pub odd: Vec<Cable>,
    /// Nodes whose receptacles are not (completely) known: their missing cables prove nothing.
    pub blind: BTreeSet<NodeName>,
    /// Domain UUIDs that two receptacles claim as their own (the same Mac listed twice, a doctored snapshot).
    pub ambiguous: BTreeMap<String, Vec<CableEnd>>,
}

/// What one end says of its peer.
struct Claim<'a> {
    from: CableEnd,
    peer: &'a PeerMac,
    dock: Option<&'a str>,
}

impl LinkGraph {
    /// Joins all facts. The same facts give the same graph, whatever their order.
    pub fn build(snapshot: &Snapshot) -> LinkGraph {
        let mut graph = LinkGraph::default();
        let mut owners: BTreeMap<&str, Vec<CableEnd>> = BTreeMap::new();
        let mut reported: BTreeMap<CableEnd, (&NodeFacts, &Receptacle)> = BTreeMap::new();
        for (node, record) in &snapshot.nodes {
            let Some((facts, receptacles)) =
                record.facts.as_ref().ok().and_then(|f| Some((f, f.receptacles.as_ref().ok()?)))
            else {
                graph.blind.insert(node.clone());
                continue;
            };
            for receptacle in receptacles {
                let end = CableEnd { node: node.clone(), receptacle: receptacle.id };
                match receptacle.domain_uuid.as_deref() {
                    Some(uuid) => owners.entry(uuid).or_default().push(end.clone()),
                    // One that nothing hangs on hides no cable.
                    None if receptacle.connected && !leads_elsewhere(&receptacle.attached) => {
                        graph.blind.insert(node.clone());
                    }
                    None => {}
                }
                reported.insert(end, (facts, receptacle));
            }
        }
        graph.ambiguous = owners
            .iter()
            .filter(|(_, ends)| ends.len() > 1)
            .map(|(uuid, ends)| ((*uuid).to_owned(), ends.clone()))
            .collect();
        let mut claims = Vec::new();
        for (end, (_, receptacle)) in &reported {
            collect_claims(end, &receptacle.attached, None, &mut claims);
        }
        for claim in &claims {
            graph.place(claim, &owners, &reported);
        }
        graph.number_rails();
        // An end that already is a link's has its one cable explained.
        let linked: BTreeSet<CableEnd> = graph.links.keys().flat_map(|id| [id.a.clone(), id.b.clone()]).collect();
        graph.odd.retain(|c| !matches!(c, Cable::Unknown(..) | Cable::Untold(..)) || !linked.contains(c.end()));
        graph.odd.sort_by(|x, y| x.end().cmp(y.end()));
        graph.odd.dedup();
        graph
    }

    fn place(
        &mut self,
        claim: &Claim<'_>,
        owners: &BTreeMap<&str, Vec<CableEnd>>,
        reported: &BTreeMap<CableEnd, (&NodeFacts, &Receptacle)>,
    ) {
        let what = claim.peer.model.clone().unwrap_or_else(|| claim.peer.name.clone());
        let peer = ForeignPeer { end: claim.from.clone(), what };
        let Some(uuid) = claim.peer.domain_uuid.as_deref() else {
            self.odd.push(Cable::Untold(peer));
            return;
        };
        let Some(target) = owners.get(uuid).and_then(|ends| ends.first()) else {
            self.odd.push(if self.blind.is_empty() {
                Cable::Foreign(peer)
            } else {
                Cable::Unknown(peer, self.blind.iter().cloned().collect())
            });
            return;
        };
        if target.node == claim.from.node {
            // Reported from both ends: kept once, smaller end first.
            let id = LinkId::new(claim.from.clone(), target.clone());
            self.odd.push(Cable::SelfLoop(id.a, id.b));
            return;
        }
        let id = LinkId::new(claim.from.clone(), target.clone());
        let from_a = id.a == claim.from;
        let end = |end: &CableEnd| reported.get(end).copied();
        let link = self.links.entry(id.clone()).or_insert_with(|| Link {
            interfaces: (
                end(&id.a).and_then(|(f, r)| interface_of(f, r.id)).map(str::to_owned),
                end(&id.b).and_then(|(f, r)| interface_of(f, r.id)).map(str::to_owned),
            ),
            gbps: [&id.a, &id.b]
                .into_iter()
                .filter_map(|e| end(e).filter(|(_, r)| !r.idle_speed()).and_then(|(_, r)| r.gbps()))
                .min(),
            seen_by: if from_a { SeenBy::OnlyA } else { SeenBy::OnlyB },
            rail: 0,
            via_dock: None,
            id,
        });
        let first = if from_a { SeenBy::OnlyA } else { SeenBy::OnlyB };
        if link.seen_by != first {
            link.seen_by = SeenBy::Both;
        }
        if let Some(dock) = claim.dock {
            link.via_dock.get_or_insert_with(|| dock.to_owned());
        }
    }

    fn number_rails(&mut self) {
        let mut next: BTreeMap<(NodeName, NodeName), u32> = BTreeMap::new();
        // Keys are ordered by receptacle within a pair.
        let ids: Vec<LinkId> = self.links.keys().cloned().collect();
        for id in ids {
            let rail = next.entry((id.a.node.clone(), id.b.node.clone())).or_default();
            if let Some(link) = self.links.get_mut(&id) {
                link.rail = *rail;
            }
            *rail += 1;
        }
    }

    /// Links of one node, in order.
    pub fn of(&self, node: &NodeName) -> impl Iterator<Item = &Link> {
        self.links.values().filter(move |l| l.end(node).is_some())
    }

    /// Links between two nodes, in order of rails.
    pub fn between(&self, one: &NodeName, other: &NodeName) -> impl Iterator<Item = &Link> {
        self.links.values().filter(move |l| l.end(one).is_some() && l.other(one) == Some(other))
    }

    /// Pairs of these nodes that no link joins, in the nodes' order.
    pub fn pairs_missing(&self, nodes: &[NodeName]) -> Vec<(NodeName, NodeName)> {
        self.pairs_without(nodes, |_| true)
    }

    /// Pairs of these nodes without a link that satisfies `good`.
    pub fn pairs_without(&self, nodes: &[NodeName], good: impl Fn(&Link) -> bool) -> Vec<(NodeName, NodeName)> {
        let mut missing = Vec::new();
        for (i, one) in nodes.iter().enumerate() {
            for other in nodes.iter().skip(i + 1) {
                if !self.between(one, other).any(&good) {
                    missing.push((one.clone(), other.clone()));
                }
            }
        }
        missing
    }

    /// Whether a cable is known to end there.
    pub fn occupied(&self, end: &CableEnd) -> bool {
        self.links.keys().any(|id| &id.a == end || &id.b == end)
            || self.odd.iter().any(|c| match c {
                Cable::SelfLoop(a, b) => a == end || b == end,
                other => other.end() == end,
            })
    }
}

/// The interface of a receptacle: the device of the hardware port named `Thunderbolt N`. Never by arithmetic:
/// on a `MacBook Pro` receptacles 1, 2, 3 were seen as en1, en6, en2.
pub fn interface_of(facts: &NodeFacts, receptacle: u32) -> Option<&str> {
    let name = format!("Thunderbolt {receptacle}");
    let ports = facts.hardware_ports.as_ref().ok()?;
    let mut devices = ports.iter().filter(|p| p.name == name && !p.device.is_empty()).map(|p| p.device.as_str());
    let device = devices.next()?;
    // Two ports of one name and different devices: which one is it? Nobody can tell.
    devices.all(|d| d == device).then_some(device)
}

/// A Mac hangs on it, directly or behind a dock.
pub fn leads_to_a_mac(attached: &[Attached]) -> bool {
    attached.iter().any(|a| match a {
        Attached::Mac(_) => true,
        Attached::Device { behind, .. } => leads_to_a_mac(behind),
    })
}

/// Something hangs on it, and no Mac.
fn leads_elsewhere(attached: &[Attached]) -> bool {
    !attached.is_empty() && !leads_to_a_mac(attached)
}

fn collect_claims<'a>(from: &CableEnd, attached: &'a [Attached], dock: Option<&'a str>, claims: &mut Vec<Claim<'a>>) {
    for item in attached {
        match item {
            Attached::Mac(peer) => claims.push(Claim { from: from.clone(), peer, dock }),
            Attached::Device { name, behind, .. } => {
                collect_claims(from, behind, Some(dock.unwrap_or(name.as_str())), claims);
            }
        }
    }
}
