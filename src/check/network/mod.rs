//! `network`: the link networks. One idea for each file.

mod addresses;
mod bridge;
mod bridge_latent;
mod bridge_loop;
mod default_route;
mod dhcp;
mod each;
mod foreign_daemon;
mod forwarding;
mod link_ping;
mod mtu;
mod peer_route;
mod persistent;
mod pool_overlap;
mod subnets;

use super::Context;
use super::say::{Row, Say, run, unknown, unread};
use crate::mesh::{Link, SeenBy};
use crate::model::facts::Interface;
use crate::model::hardware::Mac;
use crate::model::{Category, NodeName, Remedy};
use crate::network::{Desired, LinkNetwork, NetworkEnd};

const fn row(id: &'static str, title: &'static str, run: fn(&Context<'_>, &mut Say)) -> Row {
    Row { id, category: Category::Network, title, run }
}

/// A storm comes before everything else.
pub(super) const URGENT: &str = "network.bridge-loop";

pub(super) const CHECKS: &[Row] = &[
    row(URGENT, "bridges and cables form no cycle", bridge_loop::bridge_loop),
    row("network.bridge", "no link end is a member of a bridge", bridge::bridge),
    row("network.bridge-latent", "no bridge takes the links back at the next restart", bridge_latent::bridge_latent),
    row("network.pool-overlap", "nothing on any node overlaps the pool of link networks", pool_overlap::pool_overlap),
    row("network.foreign-daemon", "no other program's daemon sets the links", foreign_daemon::foreign_daemon),
    row("network.dhcp-on-link", "no network service asks for an address on a link", dhcp::dhcp_on_link),
    row("network.subnets-disjoint", "no subnet of a link overlaps another one of its node", subnets::subnets_disjoint),
    row("network.addresses", "both ends of every link have their address", addresses::addresses),
    row("network.mtu", "both ends of every link have the same MTU", mtu::mtu),
    row("network.link-ping", "both ends of every link answer each other", link_ping::link_ping),
    row("network.peer-route", "the way to every peer leaves by the link", peer_route::peer_route),
    row("network.default-route", "no default route leaves by Thunderbolt", default_route::default_route),
    row("network.forwarding", "no node passes packets on from one link to another", forwarding::forwarding),
    row("network.persistent", "the links come back after a restart", persistent::persistent),
];

fn plan_and_apply() -> Remedy {
    run(["macluster network plan", "macluster network apply"])
}

/// What keeps a link from having a network, in the words of the check that tells it.
fn no_network(ctx: &Context<'_>, link: &Link) -> String {
    let on = |check: &str| format!("not checked (needs {check} on this link)");
    if link.seen_by != SeenBy::Both {
        return on("cabling.one-sided");
    }
    if link.via_dock.is_some() {
        return on("cabling.via-dock");
    }
    for (end, interface) in link.ends() {
        let Some(facts) = ctx.snapshot.facts(&end.node) else { return unread(ctx, &end.node) };
        if Mac::of(facts).excluded() == Some(end.receptacle) {
            return on("cabling.excluded-receptacle");
        }
        if let (Err(error), _) | (_, Err(error)) = (&facts.hardware_ports, facts.interfaces.as_ref()) {
            return unknown(error);
        }
        if interface.is_none() {
            return format!("not checked: no hardware port of {} is called Thunderbolt {}", end.node, end.receptacle);
        }
    }
    format!("not checked: no network can be planned for {}", link.id)
}

/// Why nothing can be said of a link before its addresses are right; else its network.
fn addressed<'w>(ctx: &Context<'_>, wanted: &'w Desired, link: &Link) -> Result<&'w LinkNetwork, String> {
    let Some(network) = wanted.link(&link.id) else { return Err(no_network(ctx, link)) };
    let prefix = network.network.prefix_len();
    for end in [&network.a, &network.b] {
        match ctx.snapshot.facts(&end.node).map(|f| &f.interfaces) {
            None => return Err(unread(ctx, &end.node)),
            Some(Err(error)) => return Err(unknown(error)),
            Some(Ok(_)) => {}
        }
        let ready = |i: &Interface| carries_address(i, end, prefix) && i.up() && i.active != Some(false);
        if !interface(ctx, &end.node, end).is_some_and(ready) {
            return Err("not checked (needs network.addresses on this link)".to_owned());
        }
    }
    Ok(network)
}

fn carries_address(interface: &Interface, end: &NetworkEnd, prefix: u8) -> bool {
    interface.inet.iter().any(|i| i.address == end.address && i.prefix == Some(prefix))
}

/// The interfaces of this node's link ends.
fn link_ends<'a>(ctx: &Context<'a>, node: &NodeName) -> Vec<&'a str> {
    ctx.graph.of(node).filter_map(|link| link.interface(node)).collect()
}

/// Whether this node's link ends are all known by their interface: else nothing that is not seen proves anything.
///
/// # Errors
/// The first that is not.
fn all_named(ctx: &Context<'_>, node: &NodeName) -> Result<(), String> {
    let nameless = ctx.graph.of(node).find(|link| link.interface(node).is_none());
    match nameless.and_then(|link| link.end(node)) {
        None => Ok(()),
        Some(end) => Err(format!("not checked: no hardware port of {node} is called Thunderbolt {}", end.receptacle)),
    }
}

/// `ssh HOST sudo …`, as it would be typed.
fn over_ssh(ctx: &Context<'_>, node: &NodeName, command: &str) -> String {
    let ssh = &ctx.inventory.ssh;
    let found = ctx.inventory.nodes.iter().find(|n| &n.name == node);
    let mut words = vec!["ssh".to_owned()];
    if let Some(port) = found.and_then(|n| n.port).or(ssh.port) {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    let host = found.map_or(node.as_str(), |n| n.host.as_str());
    words.push(match found.and_then(|n| n.user.as_ref()).or(ssh.user.as_ref()) {
        Some(user) => format!("{user}@{host}"),
        None => host.to_owned(),
    });
    let words: Vec<String> = words.iter().map(|w| crate::model::command::quote(w)).collect();
    format!("{} sudo {command}", words.join(" "))
}

fn interface<'a>(ctx: &Context<'a>, node: &NodeName, end: &NetworkEnd) -> Option<&'a Interface> {
    ctx.snapshot.facts(node)?.interfaces.as_ref().ok()?.iter().find(|i| i.name == end.interface)
}
