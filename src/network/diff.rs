//! What differs on one node, as subjects for the steps of `playbooks/network.yaml`. The playbook says what is done
//! about each kind and in which order; this file alone says what there is to do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::address::pair_of;
use super::desired::{Desired, LinkNetwork, NetworkEnd};
use super::persist::netmask;
use super::pool::receptacle_interfaces;
use super::problem::{Problem, ProblemKind};
use crate::mesh::LinkId;
use crate::model::facts::{Inet, Interface, NodeFacts};
use crate::model::{Inventory, NodeName};
use crate::playbook::{ForEach, Vars};

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// What kind of thing.
    pub(super) kind: ForEach,
    /// The interface that changes.
    pub(super) interface: String,
    /// The bridge that loses it.
    pub(super) bridge: Option<String>,
    /// As it is.
    pub(super) before: String,
    /// As it should be.
    pub(super) after: String,
    /// The link it is for; none for leftovers.
    pub(super) link: Option<LinkId>,
    /// Values for the playbook.
    pub(super) vars: Vars,
    /// What steps read on their standard input, by step.
    pub(super) texts: BTreeMap<String, Vec<u8>>,
}

impl Subject {
    /// All steps of its kind together are one change.
    pub(super) fn joins(&self) -> bool {
        matches!(self.kind, ForEach::LinksDaemon | ForEach::BridgeEntry)
    }
}

/// Everything that differs on this node, by interface; and what is left alone on purpose.
pub(super) fn diff(
    node: &NodeName,
    facts: &NodeFacts,
    inventory: &Inventory,
    desired: &Desired,
) -> (Vec<Subject>, Vec<Problem>) {
    let mut subjects = Vec::new();
    let mut notes = Vec::new();
    let Ok(interfaces) = &facts.interfaces else { return (subjects, notes) };
    let mut linked = BTreeSet::new();
    let earlier = earlier(facts);
    let ours = |inet: &Inet| inventory.pool.contains(&inet.address) || earlier.contains(&inet.address);
    for (link, own, peer) in desired.of(node) {
        let Some(interface) = interfaces.iter().find(|i| i.name == own.interface) else { continue };
        linked.insert(own.interface.as_str());
        of_link(interface, interfaces, link, own, peer, &ours, &mut subjects);
    }
    let idle = receptacle_interfaces(facts).unwrap_or_default();
    for interface in interfaces.iter().filter(|i| idle.contains(i.name.as_str()) && !linked.contains(i.name.as_str())) {
        for inet in interface.inet.iter().filter(|i| ours(i)) {
            match leftover(node, inet, inventory, desired) {
                Some(why) => subjects.push(stray(node, interface, inet, format!("removed: {why}"), None)),
                None => notes.push(
                    Problem::new(
                        ProblemKind::Idle,
                        format!("{node} {} keeps {}: its link is not there now", interface.name, show(inet)),
                    )
                    .node(node),
                ),
            }
        }
    }
    (subjects, notes)
}

/// Link addresses that macluster gave this node, whatever pool they were taken from.
fn earlier(facts: &NodeFacts) -> BTreeSet<Ipv4Addr> {
    let configured = facts.network.configured.iter().flatten().flat_map(|c| &c.links).map(|l| l.address);
    let history = facts.network.history.iter().flatten().map(|h| h.address);
    configured.chain(history).collect()
}

/// `10.254.0.1/30`.
fn show(inet: &Inet) -> String {
    inet.prefix.map_or_else(|| inet.address.to_string(), |prefix| format!("{}/{prefix}", inet.address))
}

fn of_link(
    interface: &Interface,
    all: &[Interface],
    link: &LinkNetwork,
    own: &NetworkEnd,
    peer: &NetworkEnd,
    ours: &impl Fn(&Inet) -> bool,
    subjects: &mut Vec<Subject>,
) {
    let base = || {
        Vars::new()
            .with("node", own.node.as_str())
            .with("interface", own.interface.as_str())
            .with("receptacle", own.receptacle.to_string())
    };
    let mut push = |kind, bridge: Option<&str>, before: String, after: String, vars: Vars| {
        let (interface, link) = (own.interface.clone(), Some(link.id.clone()));
        subjects.push(Subject {
            kind,
            interface,
            bridge: bridge.map(str::to_owned),
            before,
            after,
            link,
            vars,
            texts: BTreeMap::new(),
        });
    };
    let bridges: Vec<&str> =
        all.iter().filter(|b| b.members.contains(&own.interface)).map(|b| b.name.as_str()).collect();
    for bridge in &bridges {
        let vars = base().with("bridge", *bridge);
        push(ForEach::BridgeMember, Some(bridge), format!("member of {bridge}"), "on its own, up".to_owned(), vars);
    }
    // One that leaves a bridge is brought up by that step.
    if !interface.up() && bridges.is_empty() {
        push(ForEach::DownInterface, None, "down".to_owned(), "up".to_owned(), base());
    }
    let right = |inet: &Inet| inet.address == own.address && inet.prefix == Some(link.network.prefix_len());
    for inet in interface.inet.iter().filter(|i| !right(i)) {
        let vars = of_address(&own.node, &own.interface, inet);
        let kind =
            if inet.address.is_link_local() || ours(inet) { ForEach::StrayAddress } else { ForEach::OtherAddress };
        push(kind, None, show(inet), "removed".to_owned(), vars);
    }
    if !interface.inet.iter().any(right) {
        let prefix = link.network.prefix_len();
        let vars = base()
            .with("address", own.address.to_string())
            .with("netmask", netmask(prefix))
            .with("prefix", prefix.to_string())
            .with("network", link.network.to_string())
            .with("peer", peer.node.as_str())
            .with("peer_address", peer.address.to_string());
        push(ForEach::MissingAddress, None, "no link address".to_owned(), format!("{}/{prefix}", own.address), vars);
    }
}

fn of_address(node: &NodeName, interface: &str, inet: &Inet) -> Vars {
    let prefix = inet.prefix.unwrap_or(32);
    Vars::new()
        .with("node", node.as_str())
        .with("interface", interface)
        .with("address", inet.address.to_string())
        .with("netmask", netmask(prefix))
        .with("prefix", prefix.to_string())
}

fn stray(node: &NodeName, interface: &Interface, inet: &Inet, after: String, link: Option<LinkId>) -> Subject {
    Subject {
        kind: ForEach::StrayAddress,
        interface: interface.name.clone(),
        bridge: None,
        before: show(inet),
        after,
        link,
        vars: of_address(node, &interface.name, inet),
        texts: BTreeMap::new(),
    }
}

/// Why a pool address must go from an interface without a link; none when it may wait there for its cable.
///
/// An address whose cable is only unplugged harms nobody. One that a moved cable now needs elsewhere would take
/// that link's traffic, and one of another pair (an inventory in another order) could take any link's.
fn leftover(node: &NodeName, inet: &Inet, inventory: &Inventory, desired: &Desired) -> Option<String> {
    if let Some((_, own, _)) = desired.of(node).find(|(link, _, _)| link.network.contains(&inet.address)) {
        return Some(format!("the cable is now at {}", own.interface));
    }
    if !inventory.pool.contains(&inet.address) {
        return Some("it is of an earlier pool".to_owned());
    }
    let places = inventory.places();
    let owner = pair_of(inventory.pool, inet.address, places.len()).filter(|_| inet.prefix == Some(30));
    let Some((low, high, _, first)) = owner else { return Some("no link of this rack has it".to_owned()) };
    let own = places.get(if first { low } else { high });
    (own != Some(&node)).then(|| "it belongs to another node".to_owned())
}
