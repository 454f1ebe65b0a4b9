//! Which links get a network: only those that are beyond doubt, each told why not otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::address::{RAILS, pair_index, pair_of, rail_network};
use super::problem::{Problem, ProblemKind};
use crate::mesh::{Cable, CableEnd, Link, LinkGraph, LinkId, SeenBy};
use crate::model::facts::NodeFacts;
use crate::model::hardware::Mac;
use crate::model::{Inventory, LinkRef, NodeName, Snapshot};

/// The network of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkNetwork {
    /// The /30.
    pub network: Ipv4Net,
    /// Rail of the node pair, from 0.
    pub rail: u32,
    /// The link.
    pub id: LinkId,
    /// Its smaller end.
    pub a: NetworkEnd,
    /// Its greater end.
    pub b: NetworkEnd,
}

/// One end of a link network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkEnd {
    /// Node.
    pub node: NodeName,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
    /// Interface, e.g. `en3`.
    pub interface: String,
    /// Its address in the network.
    pub address: Ipv4Addr,
}

impl LinkNetwork {
    /// This node's end and the other one.
    pub fn at(&self, node: &NodeName) -> Option<(&NetworkEnd, &NetworkEnd)> {
        if &self.a.node == node {
            Some((&self.a, &self.b))
        } else {
            (&self.b.node == node).then_some((&self.b, &self.a))
        }
    }

    /// The link as findings name it.
    pub fn to_ref(&self) -> LinkRef {
        let end = |e: &NetworkEnd| crate::model::LinkEnd {
            node: e.node.clone(),
            receptacle: e.receptacle,
            interface: Some(e.interface.clone()),
        };
        LinkRef { a: end(&self.a), b: end(&self.b) }
    }
}

/// What the rack should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Networks, by node pair in the inventory's order, then rail.
    pub links: Vec<LinkNetwork>,
    /// Cables without a network, and why.
    pub problems: Vec<Problem>,
}

impl Desired {
    /// The networks that end at this node, with its own end first.
    pub fn of<'a>(
        &'a self,
        node: &'a NodeName,
    ) -> impl Iterator<Item = (&'a LinkNetwork, &'a NetworkEnd, &'a NetworkEnd)> {
        self.links.iter().filter_map(move |l| l.at(node).map(|(own, peer)| (l, own, peer)))
    }

    /// The network of a link.
    pub fn link(&self, id: &LinkId) -> Option<&LinkNetwork> {
        self.links.iter().find(|l| &l.id == id)
    }
}

/// Names go into commands that run as root: letters, then digits, as macOS names interfaces.
fn usable(interface: &str) -> bool {
    let digits = interface.trim_start_matches(|c: char| c.is_ascii_lowercase());
    interface.len() <= 15
        && digits.len() < interface.len()
        && !digits.is_empty()
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// Gives every proper link its network. The same facts give the same networks; addresses that are right stay.
pub fn desired(inventory: &Inventory, snapshot: &Snapshot, graph: &LinkGraph) -> Desired {
    let mut out = Desired::default();
    let places = inventory.places();
    let place: BTreeMap<&NodeName, usize> = places.iter().enumerate().map(|(i, n)| (*n, i)).collect();
    let taking_part = |id: &LinkId| [&id.a, &id.b].iter().all(|end| inventory.node(&end.node).is_some());
    let mut pairs: BTreeMap<(usize, usize), Vec<&Link>> = BTreeMap::new();
    for link in graph.links.values() {
        let (Some(one), Some(other)) = (place.get(&link.id.a.node), place.get(&link.id.b.node)) else { continue };
        // A link to a node that takes no part needs nothing; its network stays its own.
        if !taking_part(&link.id) {
            continue;
        }
        match unfit(link, inventory, snapshot, graph) {
            Some(problem) => out.problems.push(problem),
            None => pairs.entry(((*one).min(*other), (*one).max(*other))).or_default().push(link),
        }
    }
    out.problems.extend(graph.odd.iter().map(|cable| odd(cable, inventory)));
    let all = pair_index(0, places.len());
    for ((low, high), links) in pairs {
        let rails = assign(
            &links,
            snapshot,
            |address| {
                pair_of(inventory.pool, address, places.len())
                    .filter(|(l, h, _, _)| (*l, *h) == (low, high))
                    .map(|(_, _, rail, first)| (rail, first))
            },
            |node| place.get(node) == Some(&low),
        );
        for (link, rail) in links.into_iter().zip(rails) {
            let network =
                rail.and_then(|r| rail_network(inventory.pool, pair_index(low, high), r, all).map(|n| (n, r)));
            let Some((network, rail)) = network else {
                let message = format!("{}: the pool {} has no network left for this cable", link.id, inventory.pool);
                out.problems.push(
                    Problem::new(ProblemKind::PoolExhausted, message)
                        .link(link.to_ref())
                        .action("use a larger `network.pool` in the inventory, or take the extra cable out"),
                );
                continue;
            };
            let end = |end: &CableEnd, interface: &Option<String>| NetworkEnd {
                node: end.node.clone(),
                receptacle: end.receptacle,
                interface: interface.clone().unwrap_or_default(),
                address: host(network, place.get(&end.node) == Some(&low)),
            };
            out.links.push(LinkNetwork {
                network,
                rail,
                a: end(&link.id.a, &link.interfaces.0),
                b: end(&link.id.b, &link.interfaces.1),
                id: link.id.clone(),
            });
        }
    }
    let key = |l: &LinkNetwork| {
        let (one, other) = (place.get(&l.a.node), place.get(&l.b.node));
        (one.min(other).copied(), one.max(other).copied(), l.rail)
    };
    out.links.sort_by_key(key);
    out
}

/// First host of the network for the node that stands first in the inventory, second for the other.
fn host(network: Ipv4Net, first: bool) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(network.network()) + if first { 1 } else { 2 })
}

/// Rails of the cables of one pair. A cable whose ends already carry a rail's addresses keeps it, then one with a
/// single such end; the rest take the lowest free ones in order of receptacles.
fn assign(
    links: &[&Link],
    snapshot: &Snapshot,
    rail_of: impl Fn(Ipv4Addr) -> Option<(u32, bool)>,
    is_first: impl Fn(&NodeName) -> bool,
) -> Vec<Option<u32>> {
    let carried = |link: &Link| -> [BTreeSet<u32>; 2] {
        link.ends().map(|(end, interface)| {
            let inet = snapshot.facts(&end.node).and_then(|f| f.interfaces.as_ref().ok()).into_iter().flatten();
            let of_end = inet.filter(|i| Some(i.name.as_str()) == interface).flat_map(|i| &i.inet);
            let own = of_end.filter_map(|i| rail_of(i.address)).filter(|(_, first)| *first == is_first(&end.node));
            own.map(|(rail, _)| rail).collect()
        })
    };
    let hints: Vec<[BTreeSet<u32>; 2]> = links.iter().map(|l| carried(l)).collect();
    let mut rails: Vec<Option<u32>> = vec![None; links.len()];
    let mut taken = BTreeSet::new();
    let mut settle = |rails: &mut Vec<Option<u32>>, wanted: &dyn Fn(&[BTreeSet<u32>; 2]) -> Option<u32>| {
        for (rail, hint) in rails.iter_mut().zip(&hints) {
            if let (None, Some(wanted)) = (*rail, wanted(hint))
                && taken.insert(wanted)
            {
                *rail = Some(wanted);
            }
        }
    };
    settle(&mut rails, &|[a, b]| a.intersection(b).next().copied());
    settle(&mut rails, &|[a, b]| {
        let mut both = a.union(b);
        both.next().copied().filter(|_| both.next().is_none())
    });
    for rail in rails.iter_mut().filter(|r| r.is_none()) {
        *rail = (0..RAILS).find(|r| !taken.contains(r));
        taken.extend(*rail);
    }
    rails
}

/// Why this link gets no network.
fn unfit(link: &Link, inventory: &Inventory, snapshot: &Snapshot, graph: &LinkGraph) -> Option<Problem> {
    let problem = |kind, message: String| Some(Problem::new(kind, message).link(link.to_ref()));
    if let Some(end) = graph.ambiguous.values().flatten().find(|e| **e == link.id.a || **e == link.id.b) {
        return problem(
            ProblemKind::Ambiguous,
            format!("{end}: another receptacle reports the same identity; no network until that is resolved"),
        )
        .map(|p| p.action("check that no Mac stands twice in the inventory"));
    }
    if link.seen_by != SeenBy::Both {
        let (sees, blind) =
            if link.seen_by == SeenBy::OnlyA { (&link.id.a, &link.id.b) } else { (&link.id.b, &link.id.a) };
        return problem(ProblemKind::OneSided, format!("{sees} sees {blind}, which does not see it: no network"))
            .map(|p| p.action("re-seat the cable at both ends, then run `macluster doctor`"));
    }
    if let Some(dock) = &link.via_dock {
        return problem(ProblemKind::ViaDock, format!("{} runs through `{dock}`: no network", link.id))
            .map(|p| p.action("connect the two Macs directly"));
    }
    for (end, interface) in link.ends() {
        let facts = snapshot.facts(&end.node)?;
        let mac = Mac::of(facts);
        if mac.excluded() == Some(end.receptacle) {
            let message = format!(
                "{} {} must not carry RDMA on this Mac: the cable to {} gets no network",
                inventory.label(&end.node),
                mac.place(end.receptacle, interface),
                link.other(&end.node).map(ToString::to_string).unwrap_or_default(),
            );
            return problem(ProblemKind::ExcludedReceptacle, message)
                .map(|p| p.node(&end.node).action("move the cable to another receptacle"));
        }
        if let Some(why) = no_interface(facts, end, interface, graph) {
            let action = "`networksetup -listallhardwareports` on that node should name the interface; `macluster doctor` \
                          tells more";
            return problem(ProblemKind::NoInterface, format!("{end}: {why}: no network"))
                .map(|p| p.node(&end.node).action(action));
        }
    }
    None
}

/// Why the interface of an end cannot be worked with.
fn no_interface(facts: &NodeFacts, end: &CableEnd, interface: Option<&str>, graph: &LinkGraph) -> Option<String> {
    let Some(name) = interface else {
        return Some(match &facts.hardware_ports {
            Ok(_) => format!("no hardware port is called Thunderbolt {}", end.receptacle),
            Err(e) => format!("its interface is not known ({e})"),
        });
    };
    if !usable(name) {
        return Some(format!("{name:?} is no usable interface name"));
    }
    let sharing = graph.of(&end.node).filter(|l| l.interface(&end.node) == Some(name)).count();
    if sharing > 1 {
        return Some(format!("{name} is named as the interface of several receptacles"));
    }
    match &facts.interfaces {
        Ok(interfaces) if interfaces.iter().any(|i| i.name == name) => None,
        Ok(_) => Some(format!("ifconfig does not list its interface {name}")),
        Err(e) => Some(format!("the state of {name} is not known ({e})")),
    }
}

/// A cable that is no link.
fn odd(cable: &Cable, inventory: &Inventory) -> Problem {
    let label = |end: &CableEnd| format!("{} receptacle {}", inventory.label(&end.node), end.receptacle);
    let problem = match cable {
        Cable::SelfLoop(a, b) => Problem::new(
            ProblemKind::SelfLoop,
            format!(
                "{}: both ends of the cable are in this Mac (receptacles {} and {})",
                inventory.label(&a.node),
                a.receptacle,
                b.receptacle
            ),
        ),
        Cable::Foreign(peer) => Problem::new(
            ProblemKind::Foreign,
            format!("{}: a {} that is not in the inventory", label(&peer.end), peer.what),
        ),
        Cable::Unknown(peer, blind) => {
            let names = blind.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Problem::new(
                ProblemKind::Foreign,
                format!(
                    "{}: a {}; whether it is in the rack cannot be told while {names} is not readable",
                    label(&peer.end),
                    peer.what
                ),
            )
        }
        Cable::Untold(peer) => Problem::new(
            ProblemKind::Foreign,
            format!("{}: a {} that does not tell its identity", label(&peer.end), peer.what),
        ),
    };
    problem.node(&cable.end().node)
}
