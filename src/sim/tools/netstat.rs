//! `netstat -rn` (samples/routing).

use std::io::{self, Write};

use ipnet::Ipv4Net;

use super::Call;
use crate::sim::ids;
use crate::sim::state::{Kind, NodeState};
use crate::sim::world::World;

/// `netstat -rn [-f inet|inet6]`; nothing else is simulated.
pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let mut flags = String::new();
    let mut family = None;
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix('-') {
            Some("f") => family = args.next().cloned(),
            Some(letters) => flags.push_str(letters),
            None => {
                writeln!(call.err, "netstat: {arg}: unknown argument")?;
                return Ok(1);
            }
        }
    }
    if let Some(bad) = flags.chars().find(|c| !"rnl".contains(*c)) {
        writeln!(call.err, "netstat: illegal option -- {bad}")?;
        return Ok(1);
    }
    if !flags.contains('r') || !flags.contains('n') {
        writeln!(call.err, "macsim: netstat is simulated with -rn only")?;
        return Ok(1);
    }
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    writeln!(call.out, "Routing tables")?;
    match family.as_deref() {
        None => {
            inet(call.out, &world, state)?;
            inet6(call.out, &world, state)?;
        }
        Some("inet") => inet(call.out, &world, state)?,
        Some("inet6") => inet6(call.out, &world, state)?,
        Some(other) => {
            writeln!(call.err, "netstat: {other}: unknown address family")?;
            return Ok(1);
        }
    }
    Ok(0)
}

fn inet(out: &mut dyn Write, world: &World, state: &NodeState) -> io::Result<()> {
    writeln!(out, "\nInternet:")?;
    row(out, 18, ["Destination", "Gateway", "Flags", "Netif", "Expire"])?;
    for r in world.routes(state) {
        let destination = if r.host { r.destination.addr().to_string() } else { shorten(r.destination) };
        row(out, 18, [&destination, &r.gateway, &r.flags, &r.interface, &r.expire])?;
    }
    Ok(())
}

/// Column widths of macOS 26; every row ends in the six columns of Expire, blank or not.
fn row(out: &mut dyn Write, width: usize, cells: [&str; 5]) -> io::Result<()> {
    let [destination, gateway, flags, netif, expire] = cells;
    writeln!(out, "{destination:<width$} {gateway:<width$} {flags:<10} {netif:>14} {expire:>6}")
}

/// A network as netstat shortens it: octets by the address's class, `/n` unless n is the class's own.
fn shorten(network: Ipv4Net) -> String {
    if network.prefix_len() == 0 {
        return "default".to_owned();
    }
    let [a, b, c, d] = network.network().octets();
    let class = match a {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    };
    let digits = if class <= 8 && (b, c, d) == (0, 0, 0) {
        a.to_string()
    } else if class <= 16 && (c, d) == (0, 0) {
        format!("{a}.{b}")
    } else if d == 0 {
        format!("{a}.{b}.{c}")
    } else {
        format!("{a}.{b}.{c}.{d}")
    };
    if network.prefix_len() == class { digits } else { format!("{digits}/{}", network.prefix_len()) }
}

fn inet6(out: &mut dyn Write, world: &World, state: &NodeState) -> io::Result<()> {
    writeln!(out, "\nInternet6:")?;
    row(out, 39, ["Destination", "Gateway", "Flags", "Netif", "Expire"])?;
    let mut print = |d: &str, g: &str, f: &str, n: &str| row(out, 39, [d, g, f, n, ""]);
    let shown = |i: &&crate::sim::state::Interface| world.automatic_link_local(state, i).is_some();
    let with: Vec<_> = state.interfaces.iter().filter(|i| i.kind != Kind::Loopback).filter(shown).collect();
    for i in with.iter().filter(|i| i.kind == Kind::Tunnel) {
        print("default", &format!("fe80::%{}", i.name), "UGcIg", &i.name)?;
    }
    print("::1", "::1", "UHL", "lo0")?;
    print("fe80::%lo0/64", "fe80::1%lo0", "UcI", "lo0")?;
    print("fe80::1%lo0", "link#1", "UHLI", "lo0")?;
    for i in &with {
        let Some(address) = world.automatic_link_local(state, i) else { continue };
        let (own, link) = (format!("{address}%{}", i.name), format!("link#{}", i.index));
        if i.kind == Kind::Tunnel {
            print(&format!("fe80::%{}/64", i.name), &own, "UcI", &i.name)?;
            print(&own, &link, "UHLI", &i.name)?;
        } else {
            print(&format!("fe80::%{}/64", i.name), &link, "UCI", &i.name)?;
            let mac = i.mac.as_deref().map(ids::unpadded).unwrap_or_default();
            print(&own, &mac, "UHLI", "lo0")?;
        }
    }
    print("ff00::/8", "::1", "UmCI", "lo0")?;
    for i in &with {
        print("ff00::/8", &format!("link#{}", i.index), "UmCI", &i.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_shortened_as_in_the_samples() {
        // samples/routing/netstat-rn-f-inet-static-routes-26.6.2.txt; the last two follow the same rule.
        for (network, printed) in [
            ("0.0.0.0/0", "default"),
            ("100.64.0.0/10", "100.64/10"),
            ("127.0.0.0/8", "127"),
            ("128.0.0.0/1", "128.0/1"),
            ("169.254.0.0/16", "169.254"),
            ("192.0.2.2/32", "192.0.2.2/32"),
            ("192.0.2.128/25", "192.0.2.128/25"),
            ("192.168.64.0/24", "192.168.64"),
            ("198.18.0.0/15", "198.18.0/15"),
            ("198.51.100.0/26", "198.51.100/26"),
            ("224.0.0.0/4", "224.0.0/4"),
            ("10.254.0.0/30", "10.254/30"),
            ("10.254.0.4/30", "10.254.0.4/30"),
        ] {
            assert_eq!(shorten(network.parse().expect(network)), printed);
        }
    }
}
