//! Applies faults to a healthy rack.

use super::super::fault::{Fault, FaultAt};
use super::super::models;
use super::super::state::{
    Cable, Dock, Inet, Kind, NodeState, Outsider, Plug, RackState, SeenBy, Service, StaticRoute, SudoPolicy,
};
use super::{RackError, host};

/// Is this node hit by that fault? `last` is the node chosen when none is named.
pub(super) fn hits(faults: &[FaultAt], fault: Fault, node: &str, last: &str) -> bool {
    faults.iter().filter(|f| f.fault == fault).any(|f| f.nodes.first().map_or(last, String::as_str) == node)
}

/// Changes the rack and its nodes accordingly.
pub(super) fn apply(faults: &[FaultAt], rack: &mut RackState, states: &mut [NodeState]) -> Result<(), RackError> {
    for at in faults {
        if let Some(unknown) = at.nodes.iter().find(|n| !rack.nodes.contains(n)) {
            let known = rack.nodes.join(", ");
            return Err(RackError::Description(format!(
                "fault `{at}`: no node is called `{unknown}` (there are {known})"
            )));
        }
        if at.fault.takes_a_pair() {
            between(at, rack, states)?;
        } else {
            on_node(at, rack, states)?;
        }
    }
    Ok(())
}

fn description(at: &FaultAt, why: &str) -> RackError {
    RackError::Description(format!("fault `{at}`: {why}"))
}

/// Faults of a cable. One node named: its first cable; none: the last cable of the rack.
fn between(at: &FaultAt, rack: &mut RackState, states: &[NodeState]) -> Result<(), RackError> {
    let touches = |c: &Cable, n: &String| c.a.node == *n || c.b.node == *n;
    let position = match at.nodes.as_slice() {
        [] => rack.cables.len().checked_sub(1),
        named => rack.cables.iter().position(|c| named.iter().all(|n| touches(c, n))),
    };
    let position = position.ok_or_else(|| description(at, "there is no such cable"))?;
    match at.fault {
        Fault::MissingCable => drop(rack.cables.remove(position)),
        Fault::DuplicateCable => {
            let mut second = rack.cables[position].clone();
            for plug in [&mut second.a, &mut second.b] {
                plug.receptacle =
                    free(rack, states, &plug.node).ok_or_else(|| description(at, "no receptacle is free"))?;
            }
            rack.cables.push(second);
        }
        Fault::ReceptacleOne => {
            let taken = |plug: &Plug| rack.cables.iter().any(|c| [&c.a, &c.b].contains(&plug));
            let one = |plug: &Plug| Plug { node: plug.node.clone(), receptacle: 1 };
            // The second node named is the one whose plug moves; a single one is itself.
            let cable = &rack.cables[position];
            let move_a = at.nodes.last().is_some_and(|n| *n == cable.a.node);
            let target = one(if move_a { &cable.a } else { &cable.b });
            if taken(&target) {
                return Err(description(at, "receptacle 1 is in use already"));
            }
            let cable = &mut rack.cables[position];
            if move_a {
                cable.a = target;
            } else {
                cable.b = target;
            }
        }
        Fault::SlowCable => rack.cables[position].gbps = 40,
        Fault::OneSided => rack.cables[position].seen_by = SeenBy::A,
        Fault::Dock => {
            let cable = &mut rack.cables[position];
            cable.gbps = 40;
            cable.dock = Some(Dock {
                name: "Rack Dock 4".to_owned(),
                vendor: "Example Docks".to_owned(),
                vendor_id: "0x2EB9".to_owned(),
                device_id: "0x501".to_owned(),
                mode: "thunderbolt_three".to_owned(),
            });
        }
        _ => {}
    }
    Ok(())
}

/// The lowest receptacle without a cable, receptacle 1 last (it is excluded on a Mac Studio).
fn free(rack: &RackState, states: &[NodeState], node: &str) -> Option<u32> {
    let state = states.iter().find(|s| s.name == node)?;
    let used = |id: u32| rack.cables.iter().flat_map(|c| [&c.a, &c.b]).any(|p| p.node == node && p.receptacle == id);
    let mut ids: Vec<u32> = state.receptacles.iter().map(|r| r.id).collect();
    ids.sort_by_key(|id| (*id == 1, *id));
    ids.into_iter().find(|id| !used(*id))
}

fn on_node(at: &FaultAt, rack: &mut RackState, states: &mut [NodeState]) -> Result<(), RackError> {
    let name = at.nodes.first().or(rack.nodes.last()).cloned().unwrap_or_default();
    match at.fault {
        Fault::ForeignMac => {
            let receptacle = free(rack, states, &name).ok_or_else(|| description(at, "no receptacle is free"))?;
            rack.outsiders.push(Outsider {
                name: "visitor".to_owned(),
                model: "Mac17,6".to_owned(),
                model_name: "MacBook Pro".to_owned(),
                rdma: true,
            });
            let far = Plug { node: "visitor".to_owned(), receptacle: 1 };
            rack.cables.push(plain(Plug { node: name, receptacle }, far));
            return Ok(());
        }
        Fault::SelfLoop => {
            let none = || description(at, "two receptacles must be free");
            let first = free(rack, states, &name).ok_or_else(none)?;
            let here = |receptacle| Plug { node: name.clone(), receptacle };
            rack.cables.push(plain(here(first), here(first)));
            let second = free(rack, states, &name).ok_or_else(none)?;
            if let Some(cable) = rack.cables.last_mut() {
                cable.b = here(second);
            }
            return Ok(());
        }
        Fault::BridgeLoop => {
            states.iter_mut().for_each(bridged);
            return Ok(());
        }
        _ => {}
    }
    let slot = rack.nodes.iter().position(|n| *n == name).unwrap_or(0) + 1;
    let Some(state) = states.iter_mut().find(|s| s.name == name) else { return Ok(()) };
    match at.fault {
        Fault::OddBuild => "25G80".clone_into(&mut state.os.build),
        Fault::OldMacos => {
            "26.1".clone_into(&mut state.os.version);
            "25B78".clone_into(&mut state.os.build);
            "25.1.0".clone_into(&mut state.os.darwin);
            state.rdma.enabled = false;
            state.nvram.remove("rdma-enable");
        }
        Fault::RdmaOff => {
            state.rdma.enabled = false;
            state.nvram.remove("rdma-enable");
        }
        Fault::Tb4 => {
            let model = models::find("Mac14,13").ok_or_else(|| description(at, "model unknown"))?;
            let old = std::mem::replace(state, model.stock(&rack.rack, &name, u32::try_from(slot).unwrap_or(1)));
            // Link networks that were set up stay.
            for interface in &mut state.interfaces {
                if let Some(before) = old.interface(&interface.name) {
                    interface.inet.clone_from(&before.inet);
                    interface.members.retain(|m| before.members.contains(m));
                }
            }
            let fits = rack
                .cables
                .iter()
                .flat_map(|c| [&c.a, &c.b])
                .all(|p| p.node != name || state.receptacle(p.receptacle).is_some());
            if !fits {
                return Err(description(at, "a Mac14,13 has only 4 receptacles; use a smaller rack"));
            }
            for cable in rack.cables.iter_mut().filter(|c| c.a.node == name || c.b.node == name) {
                cable.gbps = 40;
            }
        }
        Fault::Bridge => bridged(state),
        Fault::NoAddress
        | Fault::SharedSubnet
        | Fault::PoolClash
        | Fault::DhcpLink
        | Fault::StrayRoute
        | Fault::DefaultRoute
        | Fault::Mtu => link(at, rack, state)?,
        Fault::Mute => state.quirks.mute = true,
        Fault::Forwarding => drop(state.sysctl.insert("net.inet.ip.forwarding".to_owned(), "1".to_owned())),
        Fault::NoGid => state.rdma.ipv4_gid_index = 2,
        Fault::SudoPassword => state.sudo = SudoPolicy::Password,
        Fault::SudoNotAllowed => state.sudo = SudoPolicy::NotAllowed,
        Fault::LoginNoise => {
            state.quirks.login_noise = Some(format!("Welcome to {name}!\n{{ \"not\": json }}\nfastfetch: 26.6.2\n"));
        }
        Fault::Garbage => state.quirks.truncated_profiler = true,
        Fault::SlowProfiler => state.quirks.profiler_delay_ms = 3000,
        // Seen by the rack's start, its known_hosts and the files of its nodes.
        _ => host::apply(at.fault, state),
    }
    Ok(())
}

/// All receptacles are members of the Thunderbolt Bridge, as before the first `network apply`.
fn bridged(state: &mut NodeState) {
    let ports: Vec<String> = state.receptacles.iter().map(|r| r.interface.clone()).collect();
    for port in &ports {
        if let Some(interface) = state.interface_mut(port) {
            interface.inet.clear();
        }
    }
    if let Some(bridge) = state.interface_mut("bridge0") {
        bridge.members = ports;
    }
}

/// Faults of a node's ends of links.
fn link(at: &FaultAt, rack: &RackState, state: &mut NodeState) -> Result<(), RackError> {
    let cabled =
        |id: u32| rack.cables.iter().flat_map(|c| [&c.a, &c.b]).any(|p| p.node == state.name && p.receptacle == id);
    let ends: Vec<(u32, String)> =
        state.receptacles.iter().filter(|r| cabled(r.id)).map(|r| (r.id, r.interface.clone())).collect();
    let [(first, interface), others @ ..] = ends.as_slice() else { return Err(description(at, "it has no cable")) };
    let network = state.interface(interface).and_then(|i| i.inet.first()).map(|i| (i.address, i.network()));
    // The other address of the /30.
    let peer = network.and_then(|(own, net)| net?.hosts().find(|a| *a != own));
    let service = |router| Service {
        name: format!("Thunderbolt {first}"),
        port: format!("Thunderbolt {first}"),
        device: interface.clone(),
        enabled: true,
        manual: at.fault != Fault::DhcpLink,
        router,
    };
    match at.fault {
        Fault::NoAddress | Fault::SharedSubnet => {
            for (_, name) in &ends {
                let Some(interface) = state.interface_mut(name) else { continue };
                if at.fault == Fault::NoAddress {
                    interface.inet.clear();
                }
                interface.inet.iter_mut().for_each(|i| i.prefix = 16);
            }
        }
        Fault::PoolClash => {
            let wifi = state.interfaces.iter_mut().find(|i| i.kind == Kind::Wifi);
            let inside = Inet { address: [10, 254, 200, 7].into(), prefix: 24 };
            wifi.ok_or_else(|| description(at, "it has no Wi-Fi"))?.inet.push(inside);
        }
        Fault::DhcpLink => state.services.push(service(None)),
        Fault::DefaultRoute => {
            let router = peer.ok_or_else(|| description(at, "its links have no addresses (see --prepared)"))?;
            state.services.insert(0, service(Some(router)));
        }
        Fault::StrayRoute => {
            let peer = peer.ok_or_else(|| description(at, "its links have no addresses (see --prepared)"))?;
            let [(_, other), ..] = others else { return Err(description(at, "it has only one cable")) };
            state.static_routes.push(StaticRoute {
                destination: peer.into(),
                host: true,
                gateway: None,
                interface: other.clone(),
                scoped: false,
            });
        }
        Fault::Mtu => {
            if let Some(interface) = state.interface_mut(interface) {
                interface.mtu = 9000;
            }
        }
        _ => {}
    }
    Ok(())
}

fn plain(a: Plug, b: Plug) -> Cable {
    Cable { a, b, gbps: 80, dock: None, seen_by: SeenBy::Both }
}
