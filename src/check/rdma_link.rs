//! `rdma`, link by link: the ports' state and the address JACCL finds its peer by.

use std::net::Ipv4Addr;

use super::Context;
use super::cabling::skip_blind;
use super::judge::Purpose;
use super::rdma::before_devices;
use super::say::{About, Row, Say, Trouble, at_machine, needs, run, unknown, unread};
use crate::mesh::usable::{RDMA_MIN_GBPS, rdma_device};
use crate::mesh::{Link, SeenBy};
use crate::model::facts::{Attached, Gid, PeerMac, RdmaPort, RdmaSwitch};
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{Category, NodeFacts, NodeName};
use crate::network::{Desired, desired};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "rdma.port-active",
        category: Category::Rdma,
        title: "the RDMA port at both ends of every link is active",
        run: port_active,
    },
    Row {
        id: "rdma.gid",
        category: Category::Rdma,
        title: "GID 1 at both ends of every link is the link's IPv4 address",
        run: gid,
    },
];

/// What must be right with a link before its RDMA ports can be judged.
fn before_ports(ctx: &Context<'_>, link: &Link) -> Result<(), String> {
    let on = |check: &str| format!("not checked (needs {check} on this link)");
    if link.seen_by != SeenBy::Both {
        return Err(on("cabling.one-sided"));
    }
    if link.via_dock.is_some() {
        return Err(on("cabling.via-dock"));
    }
    for (end, _) in link.ends() {
        let facts = ctx.snapshot.facts(&end.node).ok_or_else(|| unread(ctx, &end.node))?;
        let mac = Mac::of(facts);
        if mac.thunderbolt != Some(Thunderbolt::Five) {
            return Err(needs("rdma.hardware", &end.node));
        }
        if mac.excluded() == Some(end.receptacle) {
            return Err(on("cabling.excluded-receptacle"));
        }
    }
    if link.gbps.is_some_and(|gbps| gbps < RDMA_MIN_GBPS) {
        return Err(on("cabling.speed"));
    }
    Ok(())
}

/// The RDMA port at one end.
fn port<'a>(facts: &'a NodeFacts, node: &NodeName, interface: Option<&str>) -> Result<&'a RdmaPort, String> {
    let interface = interface.ok_or_else(|| format!("not checked: the interface on {node} is not known"))?;
    let ports = facts.rdma_ports.as_ref().map_err(unknown)?;
    let device = rdma_device(interface);
    ports.iter().find(|p| p.device == device).ok_or_else(|| {
        if facts.rdma_devices.as_ref().is_ok_and(|d| d.contains(&device)) {
            format!("not checked: ibv_devinfo on {node} does not tell of {device}")
        } else {
            needs("rdma.devices", node)
        }
    })
}

/// How this end sees the Mac at the other end.
fn peer<'a>(facts: &'a NodeFacts, link: &Link, node: &NodeName) -> Option<&'a PeerMac> {
    let receptacle = link.end(node)?.receptacle;
    let attached = &facts.receptacles.as_ref().ok()?.iter().find(|r| r.id == receptacle)?.attached;
    attached.iter().find_map(|a| match a {
        Attached::Mac(peer) => Some(peer),
        Attached::Device { .. } => None,
    })
}

fn port_active(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    for link in ctx.graph.links.values() {
        if let Err(why) = before_ports(ctx, link) {
            say.skip(About::Link(link), why);
            continue;
        }
        let mut bad = false;
        for (end, interface) in link.ends() {
            let node = &end.node;
            let (Some(facts), Some(other)) = (ctx.snapshot.facts(node), link.other(node)) else { continue };
            let port = match before_devices(facts, node).and_then(|()| port(facts, node, interface)) {
                Ok(port) => port,
                Err(why) => {
                    bad = true;
                    say.skip(About::End(link, node), why);
                    continue;
                }
            };
            if port.is_active() {
                continue;
            }
            bad = true;
            // A port is active only if RDMA is on at both ends (Apple TN3205): the cause may be the other Mac.
            let switch = ctx.snapshot.facts(other).and_then(|f| f.rdma_switch.as_ref().ok());
            let silent = peer(facts, link, node).and_then(|p| p.rdma_service) == Some(false);
            if matches!(switch, Some(RdmaSwitch::Disabled | RdmaSwitch::NoCommand)) {
                say.skip(About::End(link, node), needs("rdma.enabled", other));
                continue;
            }
            let place = ctx.place(node, end.receptacle);
            let far = link.end(other).map_or_else(String::new, |e| ctx.place(other, e.receptacle));
            let (message, steps) = if silent && switch.is_none() {
                (
                    format!(
                        "{} is {} on {node} because RDMA is off on {}: it offers none on this cable",
                        port.device,
                        port.state,
                        ctx.label(other)
                    ),
                    vec![format!(
                        "enable RDMA on {} in Recovery (`macluster checklist` has the steps)",
                        ctx.label(other)
                    )],
                )
            } else if silent {
                (
                    format!(
                        "{} is {} on {node} because {} offers no RDMA on this cable, although its switch says enabled",
                        port.device,
                        port.state,
                        ctx.label(other)
                    ),
                    vec![
                        format!("pull and plug the cable at {far}"),
                        format!("if that does not help, restart {}", ctx.label(other)),
                    ],
                )
            } else {
                (
                    format!("{} is {} on {node} with the cable in place", port.device, port.state),
                    vec![
                        format!("pull and plug the cable at {place}, then at {far}"),
                        format!("if that does not help, restart {} and {}", ctx.label(node), ctx.label(other)),
                    ],
                )
            };
            say.trouble(
                verdict,
                About::End(link, node),
                Trouble {
                    message,
                    observed: format!("{} {}", port.device, port.state),
                    expected: format!("{} PORT_ACTIVE", port.device),
                    remedy: at_machine(steps),
                },
            );
        }
        if !bad {
            say.pass(About::Link(link), "the RDMA ports at both ends are active");
        }
    }
    skip_blind(ctx, say);
    if say.silent() {
        no_links(ctx, say);
    }
}

/// Said by checks of links when there is none.
pub(super) fn no_links(ctx: &Context<'_>, say: &mut Say) {
    if ctx.inventory.nodes.len() > 1 {
        say.skip(About::Rack, "not checked (needs mesh.complete: there is no link yet)");
    } else {
        say.pass(About::Rack, "one node needs no link");
    }
}

/// The address this end should have, once it has it; else why its GIDs cannot be judged.
fn address(ctx: &Context<'_>, desired: &Desired, link: &Link, node: &NodeName) -> Result<Ipv4Addr, String> {
    let later = || "not checked (needs network.addresses on this link)".to_owned();
    let (own, _) = desired.link(&link.id).and_then(|l| l.at(node)).ok_or_else(later)?;
    let facts = ctx.snapshot.facts(node).ok_or_else(|| unread(ctx, node))?;
    let interfaces = facts.interfaces.as_ref().map_err(unknown)?;
    let interface = interfaces.iter().find(|i| i.name == own.interface);
    let there = interface.is_some_and(|i| i.inet.iter().any(|a| a.address == own.address));
    if there { Ok(own.address) } else { Err(later()) }
}

fn gid(ctx: &Context<'_>, say: &mut Say) {
    let verdict = Purpose::of(ctx.inventory).for_rdma();
    let desired = desired(ctx.inventory, ctx.snapshot, ctx.graph);
    for link in ctx.graph.links.values() {
        if let Err(why) = before_ports(ctx, link) {
            say.skip(About::Link(link), why);
            continue;
        }
        let mut bad = false;
        for (end, interface) in link.ends() {
            let node = &end.node;
            let Some(facts) = ctx.snapshot.facts(node) else { continue };
            let judged = before_devices(facts, node)
                .and_then(|()| port(facts, node, interface))
                .and_then(|port| Ok((port, address(ctx, &desired, link, node)?)));
            let (port, address) = match judged {
                Ok(judged) => judged,
                Err(why) => {
                    bad = true;
                    say.skip(About::End(link, node), why);
                    continue;
                }
            };
            let holds = |index: u32| port.gids.get(&index).and_then(Gid::ipv4) == Some(address);
            if holds(1) {
                continue;
            }
            bad = true;
            let device = &port.device;
            let expected = format!("GID[1] ::ffff:{address}");
            let table = port.gids.iter().map(|(i, g)| format!("GID[{i}] {}", g.text)).collect::<Vec<_>>().join(", ");
            let elsewhere = port.gids.keys().copied().find(|i| holds(*i));
            let label = ctx.label(node);
            let place = ctx.place(node, end.receptacle);
            let (message, remedy) = match elsewhere {
                Some(index) => (
                    format!("{device} on {label} has its IPv4 address as GID {index}: JACCL uses GID 1 and no other"),
                    at_machine([
                        format!("pull the cable at {place}, wait ten seconds, plug it in again"),
                        format!("if the address is still not GID 1, restart {label}"),
                    ]),
                ),
                None => (
                    format!("{device} on {label} has no GID for its IPv4 address: no RDMA peer can be found by it"),
                    run(["macluster network plan", "macluster network apply", "macluster doctor --check rdma.gid"]),
                ),
            };
            let observed = if table.is_empty() { "an empty GID table".to_owned() } else { table };
            say.trouble(verdict, About::End(link, node), Trouble { message, observed, expected, remedy });
        }
        if !bad {
            say.pass(About::Link(link), "GID 1 is the IPv4 address at both ends");
        }
    }
    skip_blind(ctx, say);
    if say.silent() {
        no_links(ctx, say);
    }
}
