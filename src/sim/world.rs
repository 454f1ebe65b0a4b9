//! What follows from the states and the cables together: carrier, RDMA port state, GIDs, routes, reachability.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::ids;
use super::kernel::Links;
use super::rack::MESH;
use super::state::{Cable, Interface, Kind, NodeState, Outsider, Plug, RackState, Receptacle, SeenBy};
use super::store::Node;

/// The whole rack at one moment.
#[derive(Clone, Debug)]
pub struct World {
    /// Cables and outsiders.
    pub rack: RackState,
    /// Every node.
    pub nodes: BTreeMap<String, NodeState>,
    /// The node that asks and its interfaces, where they are real ones.
    real: Option<(String, Links)>,
}

/// What a receptacle is cabled to.
#[derive(Clone, Copy, Debug)]
pub struct Far<'a> {
    /// The cable.
    pub cable: &'a Cable,
    /// Its other end.
    pub plug: &'a Plug,
    /// The near end is the cable's end `a`.
    pub near_is_a: bool,
}

impl Far<'_> {
    /// The near end names the far one.
    pub fn seen(&self) -> bool {
        match self.cable.seen_by {
            SeenBy::Both => true,
            SeenBy::A => self.near_is_a,
            SeenBy::B => !self.near_is_a,
        }
    }
}

/// A row of the IPv4 routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRow {
    /// Destination network.
    pub destination: Ipv4Net,
    /// Printed without a prefix length although it is a single address.
    pub host: bool,
    /// Gateway as printed.
    pub gateway: String,
    /// Flag letters.
    pub flags: String,
    /// Interface.
    pub interface: String,
    /// Expire column.
    pub expire: String,
}

impl World {
    /// Reads every state of the node's rack.
    pub fn load(node: &Node) -> io::Result<World> {
        let rack = node.rack()?;
        let at = |plug: &Plug| plug.node == node.name;
        // In a large rack the files of all would take most of the time: a node sees those it is cabled to.
        let near = |n: &&String| {
            let joins = |c: &Cable| (at(&c.a) && c.b.node == **n) || (at(&c.b) && c.a.node == **n);
            rack.nodes.len() <= MESH || **n == node.name || rack.cables.iter().any(joins)
        };
        let mut nodes: BTreeMap<String, NodeState> = rack
            .nodes
            .iter()
            .filter(near)
            .map(|n| Ok((n.clone(), node.sibling(n).load()?)))
            .collect::<io::Result<_>>()?;
        let mut real = None;
        if node.inside {
            let links = Links::read()?;
            if let Some(own) = nodes.get_mut(&node.name) {
                links.show_in(own);
            }
            real = Some((node.name.clone(), links));
        }
        Ok(World { rack, nodes, real })
    }

    /// A node's state. Every name in `rack.json` has one.
    pub fn node(&self, name: &str) -> io::Result<&NodeState> {
        self.nodes.get(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no state of {name}")))
    }

    /// The outsider of that name.
    pub fn outsider(&self, name: &str) -> Option<&Outsider> {
        self.rack.outsiders.iter().find(|o| o.name == name)
    }

    /// What this receptacle is cabled to.
    pub fn far(&self, node: &str, receptacle: u32) -> Option<Far<'_>> {
        let here = |plug: &Plug| plug.node == node && plug.receptacle == receptacle;
        self.rack.cables.iter().find_map(|cable| {
            if here(&cable.a) {
                Some(Far { cable, plug: &cable.b, near_is_a: true })
            } else if here(&cable.b) {
                Some(Far { cable, plug: &cable.a, near_is_a: false })
            } else {
                None
            }
        })
    }

    /// The rack's own node and receptacle at the other end, if it is one.
    pub fn peer(&self, node: &str, receptacle: u32) -> Option<(&NodeState, &Receptacle)> {
        let far = self.far(node, receptacle)?;
        let state = self.nodes.get(&far.plug.node)?;
        Some((state, state.receptacle(far.plug.receptacle)?))
    }

    /// `status: active`: the interface is up and another Mac answers. A downed far interface keeps the carrier (guess).
    pub fn carrier(&self, state: &NodeState, interface: &Interface) -> bool {
        if let Some((own, links)) = &self.real
            && *own == state.name
            // A bridge follows its members at once; the kernel's waits for its spanning tree.
            && interface.kind != Kind::Bridge
            && let Some(link) = links.get(&interface.name)
        {
            return interface.up && link.carrier;
        }
        match interface.kind {
            Kind::Thunderbolt => {
                let far = state.receptacle_of(&interface.name).and_then(|r| self.far(&state.name, r.id));
                interface.up && far.is_some_and(|f| f.cable.seen_by == SeenBy::Both)
            }
            Kind::Bridge => interface.members.iter().filter_map(|m| state.interface(m)).any(|m| self.carrier(state, m)),
            // Only the management interface is connected; Wi-Fi of a desktop is not.
            Kind::Ethernet | Kind::Wifi => interface.up && !interface.inet.is_empty(),
            Kind::Awdl | Kind::Loopback => true,
            _ => false,
        }
    }

    /// The link-local address macOS adds by itself, while it shows. When exactly it appears on a port without a
    /// network service is a guess; no verdict may rest on it.
    pub fn automatic_link_local(&self, state: &NodeState, interface: &Interface) -> Option<std::net::Ipv6Addr> {
        let address = interface.link_local?;
        let shown = match interface.kind {
            Kind::Thunderbolt => state.bridge_of(&interface.name).is_none() && self.carrier(state, interface),
            Kind::Ethernet | Kind::Wifi => self.carrier(state, interface),
            _ => true,
        };
        shown.then_some(address)
    }

    /// `PORT_ACTIVE`: cabled directly, RDMA enabled at both ends (TN3205).
    pub fn port_active(&self, state: &NodeState, receptacle: &Receptacle) -> bool {
        let Some(far) = self.far(&state.name, receptacle.id) else { return false };
        if state.quirks.rdma_ports_down {
            return false;
        }
        let far_rdma = match self.nodes.get(&far.plug.node) {
            Some(peer) => peer.rdma_usable(),
            None => self.outsider(&far.plug.node).is_some_and(|o| o.rdma),
        };
        // Through a dock: no capture; a guess.
        state.rdma_usable() && far_rdma && far.cable.seen_by == SeenBy::Both && far.cable.dock.is_none()
    }

    /// The GID table: index 0 the EUI-64 address of the port, index 1 the IPv4 address mapped, then the interface's
    /// own link-local (TN3205). A bridge member or a downed port has index 0 alone (guess: the samples only say
    /// that index 1 is missing then).
    pub fn gids(&self, state: &NodeState, receptacle: &Receptacle) -> BTreeMap<u32, String> {
        let mut table = BTreeMap::new();
        let Some(interface) = state.interface(&receptacle.interface) else { return table };
        if let Some(gid) = interface.mac.as_deref().and_then(ids::eui64) {
            table.insert(0, gid.to_string());
        }
        // 0: the address has not landed anywhere yet.
        if state.bridge_of(&interface.name).is_some() || !interface.up || state.rdma.ipv4_gid_index == 0 {
            return table;
        }
        let mapped: Vec<String> = interface.inet.iter().map(|i| format!("::ffff:{}", i.address)).collect();
        let link_local = self.automatic_link_local(state, interface).map(|a| a.to_string());
        let (first, second) = if state.rdma.ipv4_gid_index == 1 {
            (mapped, link_local.into_iter().collect())
        } else {
            (link_local.into_iter().collect(), mapped)
        };
        table.extend((1..).zip(first.into_iter().chain::<Vec<String>>(second)));
        table
    }

    /// The IPv4 routing table in the order of `netstat` (by destination).
    pub fn routes(&self, state: &NodeState) -> Vec<RouteRow> {
        let mut rows = Vec::new();
        let mut add = |destination: Ipv4Net, host, gateway: String, flags: &str, interface: &str, expire: &str| {
            rows.push(RouteRow {
                destination,
                host,
                gateway,
                flags: flags.to_owned(),
                interface: interface.to_owned(),
                expire: expire.to_owned(),
            });
        };
        let single = |a: Ipv4Addr| Ipv4Net::from(a);
        let net = |a: [u8; 4], prefix| Ipv4Net::new(a.into(), prefix).unwrap_or_default();
        let local = Ipv4Addr::LOCALHOST;
        add(net([127, 0, 0, 0], 8), false, local.to_string(), "UCS", "lo0", "");
        add(single(local), true, local.to_string(), "UH", "lo0", "");
        let mut first = true;
        for (service, router) in state.services.iter().filter_map(|s| s.router.map(|r| (s, r))) {
            let Some(interface) = state.interface(&service.device).filter(|i| self.carrier(state, i)) else { continue };
            let flags = if first { "UGScg" } else { "UGScIg" };
            add(Ipv4Net::default(), false, router.to_string(), flags, &interface.name, "");
            if first {
                let link = format!("link#{}", interface.index);
                add(net([169, 254, 0, 0], 16), false, link.clone(), "UCS", &interface.name, "!");
                add(net([224, 0, 0, 0], 4), false, link.clone(), "UmCS", &interface.name, "!");
                add(single(Ipv4Addr::new(224, 0, 0, 251)), true, "1:0:5e:0:0:fb".into(), "UHmLWI", &interface.name, "");
                add(single(Ipv4Addr::BROADCAST), false, link.clone(), "UCS", &interface.name, "!");
                add(single(router), false, link, "UCS", &interface.name, "!");
                let mac = ids::unpadded(&ids::mac("router", 0x9e, 0x7b));
                add(single(router), true, mac, "UHLWIir", &interface.name, "1177");
            }
            first = false;
        }
        for interface in state.interfaces.iter().filter(|i| i.kind != Kind::Loopback && i.up) {
            let link = format!("link#{}", interface.index);
            for inet in &interface.inet {
                let Some(network) = inet.network() else { continue };
                add(network, false, link.clone(), "UCS", &interface.name, "!");
                add(single(inet.address), false, link.clone(), "UCS", &interface.name, "!");
                if inet.prefix < 31 {
                    let broadcast = "ff:ff:ff:ff:ff:ff".to_owned();
                    add(single(network.broadcast()), true, broadcast, "UHLWbI", &interface.name, "!");
                }
            }
            for (address, mac) in self.neighbours(state, interface) {
                add(single(address), true, ids::unpadded(&mac), "UHLWIi", &interface.name, "1193");
            }
        }
        for route in &state.static_routes {
            let gateway = route.gateway.map_or_else(|| route.interface.clone(), |g| g.to_string());
            let flags = match (route.gateway.is_some(), route.host) {
                (true, true) => "UGHS",
                (true, false) => "UGSc",
                (false, true) => "UHS",
                (false, false) => "USc",
            };
            let flags = format!("{flags}{}", if route.scoped { "I" } else { "" });
            add(route.destination, route.host, gateway, &flags, &route.interface, "");
        }
        // `default` first, then by address; a network before the hosts in it, as in every sample.
        rows.sort_by_key(|r| (r.destination.addr(), r.host, r.destination.prefix_len()));
        rows
    }

    /// The most specific route to an address; unscoped rows win over scoped ones.
    pub fn route_to(&self, state: &NodeState, address: Ipv4Addr) -> Option<RouteRow> {
        let rows = self.routes(state).into_iter().filter(|r| r.destination.contains(&address));
        rows.max_by_key(|r| (r.destination.prefix_len(), r.host, !r.flags.contains('I')))
    }

    /// The most specific route to an address by this interface.
    pub fn route_by(&self, state: &NodeState, address: Ipv4Addr, interface: &str) -> Option<RouteRow> {
        let fits = |r: &RouteRow| r.destination.contains(&address) && r.interface == interface;
        self.routes(state).into_iter().filter(fits).max_by_key(|r| (r.destination.prefix_len(), r.host))
    }

    /// Who answers on this interface: address and hardware address.
    pub fn neighbours(&self, state: &NodeState, interface: &Interface) -> Vec<(Ipv4Addr, String)> {
        let networks: Vec<Ipv4Net> = interface.inet.iter().filter_map(super::state::Inet::network).collect();
        let inside = |a: &Ipv4Addr| networks.iter().any(|n| n.contains(a));
        let answers = |other: &Interface| -> Vec<(Ipv4Addr, String)> {
            let mac = other.mac.clone().unwrap_or_default();
            other.inet.iter().map(|i| i.address).filter(inside).map(|a| (a, mac.clone())).collect()
        };
        if !self.carrier(state, interface) {
            return Vec::new();
        }
        match interface.kind {
            Kind::Thunderbolt => {
                let peer = state.receptacle_of(&interface.name).and_then(|r| self.peer(&state.name, r.id));
                let other = peer.and_then(|(node, r)| node.interface(&r.interface).map(|i| (node, i)));
                match other {
                    Some((node, other)) if other.up && node.bridge_of(&other.name).is_none() => answers(other),
                    _ => Vec::new(),
                }
            }
            Kind::Ethernet | Kind::Wifi => self
                .nodes
                .values()
                .filter(|n| n.name != state.name)
                .flat_map(|n| &n.interfaces)
                .filter(|i| matches!(i.kind, Kind::Ethernet | Kind::Wifi))
                .flat_map(answers)
                .collect(),
            _ => Vec::new(),
        }
    }
}
