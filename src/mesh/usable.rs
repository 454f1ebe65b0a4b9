//! Whether a link can carry RDMA, and if not, why.

use std::net::Ipv4Addr;

use super::graph::{CableEnd, Link, SeenBy};
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{NodeFacts, Snapshot};

/// Slowest link that carries RDMA, Gb/s. A 40 Gb/s link is Thunderbolt 4 or a Thunderbolt 4 cable.
pub const RDMA_MIN_GBPS: u32 = 80;

/// The RDMA device of an interface (Apple TN3205: `rdma_enN` pairs with `enN`).
pub fn rdma_device(interface: &str) -> String {
    format!("rdma_{interface}")
}

/// Whether the cable itself is fit for RDMA: direct, seen from both ends, in allowed receptacles, fast enough.
///
/// # Errors
/// The reason, in words that follow the link's name.
pub fn cable_fit(link: &Link, snapshot: &Snapshot) -> Result<(), String> {
    match link.seen_by {
        SeenBy::Both => {}
        SeenBy::OnlyA => return Err(format!("is seen by {} only", link.id.a.node)),
        SeenBy::OnlyB => return Err(format!("is seen by {} only", link.id.b.node)),
    }
    if let Some(dock) = &link.via_dock {
        return Err(format!("runs through {dock}"));
    }
    for (end, interface) in link.ends() {
        let facts = facts(snapshot, end)?;
        let mac = Mac::of(facts);
        match mac.thunderbolt {
            Some(Thunderbolt::Five) => {}
            Some(other) => return Err(format!("ends in {}, which has {other}", end.node)),
            None => return Err(format!("ends in {}, whose Thunderbolt generation is unknown", end.node)),
        }
        if mac.excluded() == Some(end.receptacle) {
            return Err(format!("uses {end}, which RDMA must not use"));
        }
        if interface.is_none() {
            return Err(format!("ends in {end}, whose interface is unknown"));
        }
    }
    match link.gbps {
        Some(gbps) if gbps >= RDMA_MIN_GBPS => Ok(()),
        Some(gbps) => Err(format!("runs at {gbps} Gb/s")),
        None => Err("runs at an unknown speed".to_owned()),
    }
}

/// The cable of a pair to keep when one is enough: the first that is fit for RDMA, else the first.
pub fn best_of<'a>(pair: &[&'a Link], snapshot: &Snapshot) -> Option<&'a Link> {
    pair.iter().find(|l| cable_fit(l, snapshot).is_ok()).or_else(|| pair.first()).copied()
}

/// As [`cable_fit`], and the RDMA devices at both ends are ready: listed, active, with the end's own IPv4 address
/// as GID 1, the one JACCL uses.
///
/// # Errors
/// The reason, in words that follow the link's name.
pub fn rdma_ready(link: &Link, snapshot: &Snapshot, addresses: Option<(Ipv4Addr, Ipv4Addr)>) -> Result<(), String> {
    cable_fit(link, snapshot)?;
    let Some((a, b)) = addresses else { return Err("has no link network".to_owned()) };
    for ((end, interface), address) in link.ends().into_iter().zip([a, b]) {
        let node = &end.node;
        let device = rdma_device(interface.unwrap_or_default());
        let facts = facts(snapshot, end)?;
        let ports = facts.rdma_ports.as_ref().map_err(|e| format!("cannot be judged on {node} ({e})"))?;
        let Some(port) = ports.iter().find(|p| p.device == device) else {
            return Err(format!("has no RDMA device {device} on {node}"));
        };
        if !port.is_active() {
            return Err(format!("has {device} on {node} in state {}", port.state));
        }
        if port.gids.get(&1).and_then(crate::model::facts::Gid::ipv4) != Some(address) {
            return Err(format!("lacks {address} as GID 1 of {device} on {node}"));
        }
    }
    Ok(())
}

fn facts<'a>(snapshot: &'a Snapshot, end: &CableEnd) -> Result<&'a NodeFacts, String> {
    snapshot.facts(&end.node).ok_or_else(|| format!("ends in {}, which did not answer", end.node))
}

/// The IPv4 addresses that a link's ends have now: the pair that lies in one network of its own (/30 or /31).
pub fn live_addresses(link: &Link, snapshot: &Snapshot) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let of = |end: &CableEnd, interface: Option<&str>| {
        let interfaces = snapshot.facts(&end.node)?.interfaces.as_ref().ok()?;
        interfaces.iter().find(|i| Some(i.name.as_str()) == interface).map(|i| i.inet.as_slice())
    };
    let [(a, on_a), (b, on_b)] = link.ends();
    let (ours, theirs) = (of(a, on_a)?, of(b, on_b)?);
    ours.iter().find_map(|x| {
        let net = ipnet::Ipv4Net::new(x.address, x.prefix.filter(|p| (30..=31).contains(p))?).ok()?;
        let y = theirs.iter().find(|y| y.prefix == x.prefix && y.address != x.address && net.contains(&y.address))?;
        Some((x.address, y.address))
    })
}
