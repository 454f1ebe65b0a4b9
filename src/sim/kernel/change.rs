//! Makes the kernel what a state says.

use std::fmt::Write as _;
use std::io;

use super::{Links, ip, set_variable};
use crate::sim::state::{Interface, Kind, NodeState};

/// A node's bridge joins cables that close circles, and nothing stops a real storm among namespaces of one machine: so
/// the kernel's bridges speak the spanning tree protocol, which a Mac's do not.
const BRIDGE: &str = "type bridge stp_state 1 forward_delay 200";

/// Changes whatever differs between the kernel and the state. `before` spares the question when nothing of it concerns
/// the network; without it everything is compared, as at boot.
///
/// # Errors
/// The kernel refuses.
pub(in crate::sim) fn project(before: Option<&NodeState>, state: &NodeState) -> io::Result<()> {
    let same = |old: &NodeState| {
        (&old.interfaces, &old.static_routes, &old.services, &old.sysctl)
            == (&state.interfaces, &state.static_routes, &state.services, &state.sysctl)
    };
    if before.is_some_and(same) {
        return Ok(());
    }
    let script = links(&Links::read()?, state);
    if !script.is_empty() {
        ip(&["-batch", "-"], &script)?;
    }
    let forwarding = state.sysctl.get("net.inet.ip.forwarding").map_or("0", String::as_str);
    set_variable("net/ipv4/ip_forward", if forwarding == "0" { "0" } else { "1" })?;
    // A route whose interface is down is lost, as it would be by itself: no error.
    ip(&["route", "flush", "proto", "static"], "")?;
    ip(&["-force", "-batch", "-"], &routes(state)).map(drop).or(Ok(()))
}

fn links(kernel: &Links, state: &NodeState) -> String {
    let mut script = String::new();
    let mut say = |line: std::fmt::Arguments<'_>| {
        let _ = writeln!(script, "{line}");
    };
    for bridge in state.interfaces.iter().filter(|i| i.kind == Kind::Bridge) {
        if kernel.get(&bridge.name).is_none() {
            let mac = bridge.mac.as_deref().map(|m| format!(" address {m}")).unwrap_or_default();
            say(format_args!("link add {}{mac} {BRIDGE}", bridge.name));
        }
    }
    for gone in kernel.0.iter().filter(|l| l.name.starts_with("bridge") && state.interface(&l.name).is_none()) {
        say(format_args!("link del {}", gone.name));
    }
    for interface in &state.interfaces {
        let bridge = interface.kind == Kind::Bridge;
        let fresh = bridge && kernel.get(&interface.name).is_none();
        let known = kernel.get(&interface.name);
        if interface.kind == Kind::Loopback || (known.is_none() && !fresh) {
            continue;
        }
        let name = &interface.name;
        let wanted = state.bridge_of(name).map(|b| b.name.clone());
        let gone = |master: &String| state.interface(master).is_none();
        // A bridge that is deleted lets its members go.
        let master = known.and_then(|l| l.master.clone()).filter(|m| !gone(m));
        if wanted != master {
            match wanted {
                Some(wanted) => say(format_args!("link set {name} master {wanted}")),
                None => say(format_args!("link set {name} nomaster")),
            }
        }
        let mtu = known.map_or(1500, |l| l.mtu);
        if interface.mtu != mtu {
            say(format_args!("link set {name} mtu {}", interface.mtu));
        }
        if interface.up != known.is_some_and(|l| l.up) {
            say(format_args!("link set {name} {}", if interface.up { "up" } else { "down" }));
        }
        addresses(interface, known.map_or(&[], |l| &l.inet), &mut say);
    }
    script
}

fn addresses(interface: &Interface, there: &[crate::sim::state::Inet], say: &mut dyn FnMut(std::fmt::Arguments<'_>)) {
    let name = &interface.name;
    for inet in there.iter().filter(|i| !interface.inet.contains(i)) {
        say(format_args!("address del {}/{} dev {name}", inet.address, inet.prefix));
    }
    for inet in interface.inet.iter().filter(|i| !there.contains(i)) {
        say(format_args!("address add {}/{} brd + dev {name}", inet.address, inet.prefix));
    }
}

fn routes(state: &NodeState) -> String {
    let mut script = String::new();
    for (service, router) in state.services.iter().filter_map(|s| Some((s, s.router?))) {
        let _ = writeln!(script, "route add default via {router} dev {} proto static", service.device);
    }
    for route in state.static_routes.iter().filter(|r| !r.scoped) {
        let via = route.gateway.map(|g| format!(" via {g}")).unwrap_or_default();
        let _ = writeln!(script, "route add {}{via} dev {} proto static", route.destination, route.interface);
    }
    script
}
