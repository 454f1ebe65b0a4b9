//! Changes that could cut the way in are refused: what carries the SSH session, or the default route, is not touched.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::model::facts::{Interface, NodeFacts, Route, Sudo};

/// What a node's changes touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Interfaces that change, and the ends of its links.
    pub(super) interfaces: BTreeSet<String>,
    /// Bridges that lose a member.
    pub(super) bridges: BTreeSet<String>,
}

/// Why this node must not be changed now, and what to do.
pub(super) fn refusal(facts: &NodeFacts, touched: &Touched) -> Option<(String, &'static str)> {
    if matches!(facts.sudo, Ok(Sudo::NotAllowed)) {
        return Some((
            "this user may not use sudo there".to_owned(),
            "let the user of `ssh.user` use sudo on this node",
        ));
    }
    session(facts, touched).or_else(|| default_route(facts, touched))
}

const ANOTHER_WAY: &str = "connect over Ethernet or Wi-Fi: set the node's `host` to an address of such an interface";

/// The session must be known to ride on something that stays as it is.
fn session(facts: &NodeFacts, touched: &Touched) -> Option<(String, &'static str)> {
    let Some(address) = facts.session.local_address else {
        let why =
            "which address of the node carries the SSH session is not known, so that changing its network could cut it";
        return Some((why.to_owned(), ANOTHER_WAY));
    };
    let address = address.to_canonical();
    if address.is_loopback() {
        return None;
    }
    let interfaces = facts.interfaces.as_deref().unwrap_or_default();
    let carriers: Vec<&Interface> = interfaces.iter().filter(|i| carries(i, address)).collect();
    if carriers.is_empty() {
        let why = format!(
            "the SSH session's address {address} is on no interface that ifconfig lists, so that changing the network could cut it"
        );
        return Some((why, ANOTHER_WAY));
    }
    let unsafe_one = carriers.into_iter().find_map(|i| {
        let what = if is_bridge(i) {
            "a bridge"
        } else if touched.interfaces.contains(&i.name) {
            "the interface of a link"
        } else {
            return None;
        };
        Some(format!("the SSH session rides on {} ({what}): changing it could cut the way in", i.name))
    });
    unsafe_one.map(|why| (why, ANOTHER_WAY))
}

/// Any bridge counts, not only the one that loses members: what hangs together behind it is not for us to guess.
fn is_bridge(interface: &Interface) -> bool {
    !interface.members.is_empty() || interface.name.starts_with("bridge")
}

fn carries(interface: &Interface, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => interface.inet.iter().any(|i| i.address == v4),
        IpAddr::V6(v6) => interface.inet6.contains(&v6),
    }
}

/// The default route in use (not one that is only for sockets bound to its interface).
pub(super) fn default_routes(routes: &[Route]) -> impl Iterator<Item = &Route> {
    // Flag I: scoped to its interface.
    routes.iter().filter(|r| r.destination.prefix_len() == 0 && !r.flags.contains('I'))
}

/// The interfaces of a node's receptacles; none when they cannot be known.
pub fn thunderbolt_interfaces(facts: &NodeFacts) -> Option<BTreeSet<&str>> {
    let known = super::pool::receptacle_interfaces(facts)?;
    let all = facts.receptacles.as_ref().ok()?;
    (all.is_empty() || !known.is_empty()).then_some(known)
}

/// The interface of a default route in use that is a receptacle's, or a bridge with receptacles in it.
pub fn default_over_thunderbolt(facts: &NodeFacts) -> Option<&str> {
    let own = thunderbolt_interfaces(facts)?;
    let is_own = |name: &str| {
        let bridge = facts.interfaces.iter().flatten().find(|i| i.name == name);
        own.contains(name) || bridge.is_some_and(|b| b.members.iter().any(|m| own.contains(m.as_str())))
    };
    let routes = facts.routes.as_deref().unwrap_or_default();
    default_routes(routes).find(|r| is_own(&r.interface)).map(|r| r.interface.as_str())
}

fn default_route(facts: &NodeFacts, touched: &Touched) -> Option<(String, &'static str)> {
    let action =
        "switch the Thunderbolt service's own router off, or connect Ethernet, so that the default route moves";
    let routes = match &facts.routes {
        Ok(routes) => routes,
        Err(e) => return Some((format!("its routes are not known ({e})"), "run `macluster doctor` for this node")),
    };
    let over = default_routes(routes)
        .find(|r| touched.interfaces.contains(&r.interface) || touched.bridges.contains(&r.interface))?;
    Some((format!("its default route uses {}, which would change", over.interface), action))
}

#[cfg(test)]
mod tests;
