//! `arp` and `ndp` (samples/network): who was heard on which interface.

use std::io;

use super::Call;
use crate::sim::ids;
use crate::sim::state::Kind;
use crate::sim::world::World;

/// `arp -an [-i IF]`, `arp -n ADDRESS`.
pub(super) fn arp(call: &mut Call<'_>) -> io::Result<i32> {
    let flags: String = call.args.iter().filter_map(|a| a.strip_prefix('-')).collect();
    if flags.chars().any(|c| !"ani".contains(c)) {
        writeln!(call.err, "usage: arp [-n] [-i interface] hostname\n       arp [-n] [-i interface] [-l] [-x] -a")?;
        return Ok(1);
    }
    let mut operands: Vec<&String> = call.args.iter().filter(|a| !a.starts_with('-')).collect();
    let only = if flags.contains('i') && !operands.is_empty() { Some(operands.remove(0).clone()) } else { None };
    let asked = operands.first().map(|a| (*a).clone());
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    let mut found = false;
    for interface in state.interfaces.iter().filter(|i| only.as_ref().is_none_or(|o| *o == i.name)) {
        let mut rows = world.neighbours(state, interface);
        let router = state.services.iter().find(|s| s.device == interface.name).and_then(|s| s.router);
        if let Some(router) = router.filter(|_| world.carrier(state, interface)) {
            rows.insert(0, (router, ids::mac("router", 0x9e, 0x7b)));
        }
        for (address, mac) in rows {
            if asked.as_ref().is_some_and(|a| *a != address.to_string()) {
                continue;
            }
            found = true;
            writeln!(call.out, "? ({address}) at {} on {} ifscope [ethernet]", ids::unpadded(&mac), interface.name)?;
        }
    }
    match asked {
        Some(address) if !found => {
            let on = only.map(|i| format!(" on {i}")).unwrap_or_default();
            writeln!(call.out, "{address} ({address}) -- no entry{on}").map(|()| 1)
        }
        _ => Ok(0),
    }
}

/// `ndp -an`.
pub(super) fn ndp(call: &mut Call<'_>) -> io::Result<i32> {
    let flags: String = call.args.iter().filter_map(|a| a.strip_prefix('-')).collect();
    if !flags.contains('a') || flags.chars().any(|c| !"an".contains(c)) {
        writeln!(call.err, "macsim: ndp is simulated with -an only")?;
        return Ok(1);
    }
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    writeln!(call.out, "{:<39} {:<17} {:>6} {:<9} St Flgs Prbs", "Neighbor", "Linklayer Address", "Netif", "Expire")?;
    let mut row = |address: &str, name: &str, mac: &str, expire: &str, status: &str| {
        writeln!(call.out, "{:<39} {mac:<17} {name:>6} {expire:<9} {status}      ", format!("{address}%{name}"))
    };
    row("fe80::1", "lo0", "(incomplete)", "permanent", "R")?;
    for interface in &state.interfaces {
        let Some(own) = world.automatic_link_local(state, interface) else { continue };
        let mac = interface.mac.as_deref().map_or("(incomplete)".to_owned(), ids::unpadded);
        if interface.kind == Kind::Thunderbolt {
            let peer = state.receptacle_of(&interface.name).and_then(|r| world.peer(&state.name, r.id));
            let other = peer.and_then(|(node, r)| node.interface(&r.interface).map(|i| (node, i)));
            if let Some((node, other)) = other
                && let Some(address) = world.automatic_link_local(node, other)
            {
                let mac = other.mac.as_deref().map(ids::unpadded).unwrap_or_default();
                row(&address.to_string(), &interface.name, &mac, "23h59m58s", "S")?;
            }
        }
        row(&own.to_string(), &interface.name, &mac, "permanent", "R")?;
    }
    Ok(0)
}
