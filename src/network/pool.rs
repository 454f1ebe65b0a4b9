//! The pool must not overlap any address or route of any node: the link networks would take traffic away from it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::mesh::interface_of;
use crate::model::facts::NodeFacts;
use crate::model::{Inventory, NodeName, Snapshot};

/// A network that a node already knows inside the pool, or around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    /// Node.
    pub node: NodeName,
    /// Interface.
    pub interface: String,
    /// For people: `address 10.254.3.4/16` or `route to 10.0.0.0/8`.
    pub what: String,
    /// The network it takes.
    pub network: Ipv4Net,
}

/// The interfaces of a node's receptacles; none when they cannot be known.
pub(super) fn receptacle_interfaces(facts: &NodeFacts) -> Option<BTreeSet<&str>> {
    facts.hardware_ports.as_ref().ok()?;
    let receptacles = facts.receptacles.as_ref().ok()?;
    Some(receptacles.iter().filter_map(|r| interface_of(facts, r.id)).collect())
}

/// Networks a node knows besides link networks: by address, then by route, once per interface and network.
/// None when a fact that is needed is missing.
fn known(node: &NodeName, facts: &NodeFacts, pool: Ipv4Net) -> Option<Vec<Clash>> {
    let (interfaces, routes) = (facts.interfaces.as_ref().ok()?, facts.routes.as_ref().ok()?);
    let own = receptacle_interfaces(facts)?;
    // A link network on an interface that no hardware port names: surely a link's, although nobody can say which.
    let named = |interface: &str| facts.hardware_ports.iter().flatten().any(|p| p.device == interface);
    let nameless_link = interfaces.iter().filter(|i| !named(&i.name)).flat_map(|i| &i.inet);
    let all_named = facts.receptacles.iter().flatten().all(|r| interface_of(facts, r.id).is_some());
    if !all_named && nameless_link.into_iter().any(|i| i.prefix == Some(30) && pool.contains(&i.address)) {
        return None;
    }
    let is_own = |interface: &str| own.contains(interface);
    let mut found: Vec<Clash> = Vec::new();
    let mut add = |interface: &str, network: Ipv4Net, what: String| {
        // The route of a network that is already told by its address says nothing new.
        if !found.iter().any(|c| c.interface == interface && c.network.contains(&network)) {
            found.push(Clash { node: node.clone(), interface: interface.to_owned(), what, network });
        }
    };
    let mut links: BTreeSet<Ipv4Addr> = BTreeSet::new();
    for interface in interfaces {
        for inet in &interface.inet {
            if is_own(&interface.name) && pool.contains(&inet.address) {
                links.insert(inet.address);
                continue;
            }
            let prefix = inet.prefix.unwrap_or(32);
            let network =
                Ipv4Net::new(inet.address, prefix).map_or_else(|_| Ipv4Net::from(inet.address), |n| n.trunc());
            add(&interface.name, network, format!("address {}/{prefix}", inet.address));
            if let Some(peer) = inet.peer {
                add(&interface.name, Ipv4Net::from(peer), format!("peer address {peer}"));
            }
        }
    }
    for route in routes {
        let network = route.destination.trunc();
        // The default route, and the two halves that VPN clients use in its place, lie around everything.
        let default = network.prefix_len() <= 1;
        let of_link = is_own(&route.interface) && pool.contains(&network);
        // macOS keeps a host route over lo0 for each of its own addresses.
        let own_host = network.prefix_len() == 32 && links.contains(&network.network());
        if !default && !of_link && !own_host {
            add(&route.interface, network, format!("route to {network}"));
        }
    }
    Some(found)
}

fn overlap(a: Ipv4Net, b: Ipv4Net) -> bool {
    a.contains(&b) || b.contains(&a)
}

/// What overlaps the pool, node by node; and the nodes where that could not be found out.
pub fn clashes(inventory: &Inventory, snapshot: &Snapshot) -> (Vec<Clash>, Vec<NodeName>) {
    let (mut found, mut unchecked) = (Vec::new(), Vec::new());
    for node in &inventory.nodes {
        let Some(facts) = snapshot.facts(&node.name) else { continue };
        match known(&node.name, facts, inventory.pool) {
            Some(all) => found.extend(all.into_iter().filter(|c| overlap(c.network, inventory.pool))),
            None => unchecked.push(node.name.clone()),
        }
    }
    (found, unchecked)
}

/// A pool of the same size that overlaps nothing on any node that answered.
pub fn free_pool(inventory: &Inventory, snapshot: &Snapshot) -> Option<Ipv4Net> {
    let prefix = inventory.pool.prefix_len().max(16);
    let taken: Vec<Ipv4Net> = snapshot
        .answered()
        .filter_map(|(node, facts)| known(node, facts, inventory.pool))
        .flatten()
        .map(|c| c.network)
        .collect();
    // From the far ends of the private ranges (RFC 1918), where fewest networks live.
    let tens = (0..=254).rev().map(|n| [10, n, 0, 0]);
    let seventeens = (16..=31).rev().map(|n| [172, n, 0, 0]);
    let homes = std::iter::once([192, 168, 0, 0]);
    tens.chain(seventeens)
        .chain(homes)
        .filter_map(|octets| Ipv4Net::new(Ipv4Addr::from(octets), 16).ok())
        .flat_map(|net| net.subnets(prefix).into_iter().flatten().take(256).collect::<Vec<_>>())
        .find(|candidate| !taken.iter().any(|t| overlap(*t, *candidate)))
}
