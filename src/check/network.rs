//! `network`: the link networks.

use super::Context;
use super::cabling::why_blind;
use super::judge::Purpose;
use super::rdma_link::no_links;
use super::say::{About, Row, Say, Trouble, at_machine, needs, run, unknown};
use crate::mesh::{Link, SeenBy};
use crate::model::facts::Interface;
use crate::model::hardware::Mac;
use crate::model::{Category, NodeName, Remedy, Verdict};
use crate::network::{Desired, NetworkEnd, clashes, desired, free_pool};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "network.pool",
        category: Category::Network,
        title: "nothing on any node overlaps the pool of link networks",
        run: pool,
    },
    Row {
        id: "network.bridge",
        category: Category::Network,
        title: "no link end is a member of a bridge",
        run: bridge,
    },
    Row {
        id: "network.addresses",
        category: Category::Network,
        title: "both ends of every link have their address",
        run: addresses,
    },
];

fn plan_and_apply() -> Remedy {
    run(["macluster network plan", "macluster network apply --no-deadman"])
}

fn pool(ctx: &Context<'_>, say: &mut Say) {
    let (found, blind) = clashes(ctx.inventory, ctx.snapshot);
    let pool = ctx.inventory.pool;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let mut quiet = true;
        for clash in found.iter().filter(|c| &c.node == node) {
            quiet = false;
            say.trouble(
                Purpose::of(ctx.inventory).for_links(),
                about,
                Trouble {
                    message: format!(
                        "the pool {pool} overlaps the {} on {} of {}: link networks would take its traffic",
                        clash.what,
                        clash.interface,
                        ctx.label(node)
                    ),
                    observed: format!("{} on {}", clash.what, clash.interface),
                    expected: format!("nothing else inside {pool}"),
                    remedy: run([
                        match free_pool(ctx.inventory, ctx.snapshot) {
                            Some(free) => format!("edit macluster.yaml: network: {{ pool: {free} }}"),
                            None => "edit macluster.yaml: choose another `network.pool`".to_owned(),
                        },
                        "macluster network plan".to_owned(),
                    ]),
                },
            );
        }
        if blind.contains(node) {
            let error = [
                facts.interfaces.as_ref().err(),
                facts.routes.as_ref().err(),
                facts.hardware_ports.as_ref().err(),
                facts.receptacles.as_ref().err(),
            ];
            say.skip(
                about,
                match error.into_iter().flatten().next() {
                    Some(error) => unknown(error),
                    None => format!("not checked: the networks of {node} are not known"),
                },
            );
        } else if quiet {
            say.pass(about, format!("nothing on {} overlaps {pool}", ctx.label(node)));
        }
    }
}

fn bridge(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        if ctx.graph.blind.contains(node) {
            say.skip(about, why_blind(Some(facts), node));
            continue;
        }
        let interfaces = match (&facts.interfaces, &facts.hardware_ports) {
            (Ok(interfaces), Ok(_)) => interfaces,
            (Err(error), _) | (_, Err(error)) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        // By membership and receptacle: the service's name is translated, renamed, or missing.
        let mut captured = Vec::new();
        let mut where_ = Vec::new();
        for bridge in interfaces {
            for link in ctx.graph.of(node) {
                if let Some(name) = link.interface(node).filter(|n| bridge.members.iter().any(|m| m == n)) {
                    captured.push(name.to_owned());
                    if !where_.contains(&bridge.name) {
                        where_.push(bridge.name.clone());
                    }
                }
            }
        }
        if captured.is_empty() {
            say.pass(about, format!("no link end of {label} is in a bridge"));
            continue;
        }
        let (members, bridges) = (captured.join(", "), where_.join(", "));
        say.trouble(
            Verdict::Fail,
            about,
            Trouble {
                message: format!(
                    "{members} of {label} in {bridges} (Thunderbolt Bridge): a bridge in a mesh floods the rack, and its members get no GID for RDMA"
                ),
                observed: format!("{bridges} has the members {members}"),
                expected: "no link end in a bridge".to_owned(),
                remedy: plan_and_apply(),
            },
        );
    }
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
        let Some(facts) = ctx.snapshot.facts(&end.node) else { return needs("ssh.reachable", &end.node) };
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

fn addresses(ctx: &Context<'_>, say: &mut Say) {
    if ctx.graph.links.is_empty() {
        no_links(ctx, say);
        return;
    }
    if !clashes(ctx.inventory, ctx.snapshot).0.is_empty() {
        say.skip(About::Rack, "not checked (needs network.pool: no address of the pool can be used)");
        return;
    }
    let wanted = desired(ctx.inventory, ctx.snapshot, ctx.graph);
    let verdict = Purpose::of(ctx.inventory).for_links();
    // A mesh uses one cable for each pair: a second one needs no address.
    let mesh = !Purpose::of(ctx.inventory).ring();
    for link in ctx.graph.links.values() {
        let mut twins = ctx.graph.between(&link.id.a.node, &link.id.b.node).filter(|l| l.id != link.id);
        if mesh && !addressed(ctx, &wanted, link) && twins.any(|l| addressed(ctx, &wanted, l)) {
            say.skip(About::Link(link), "not checked (needs cabling.duplicate on this link)");
        } else {
            judge_addresses(ctx, &wanted, link, verdict, say);
        }
    }
}

/// Both ends have the address they should have.
fn addressed(ctx: &Context<'_>, wanted: &Desired, link: &Link) -> bool {
    wanted.link(&link.id).is_some_and(|network| {
        [&network.a, &network.b].into_iter().all(|end| {
            interface(ctx, &end.node, end).is_some_and(|i| has_address(i, end, network.network.prefix_len()))
        })
    })
}

fn has_address(interface: &Interface, end: &NetworkEnd, prefix: u8) -> bool {
    interface.inet.iter().any(|i| i.address == end.address && i.prefix == Some(prefix))
}

fn judge_addresses(ctx: &Context<'_>, wanted: &Desired, link: &Link, verdict: Verdict, say: &mut Say) {
    let Some(network) = wanted.link(&link.id) else {
        let exhausted = wanted
            .problems
            .iter()
            .find(|p| p.kind == crate::network::ProblemKind::PoolExhausted && p.link.as_ref() == Some(&link.to_ref()));
        match exhausted {
            Some(problem) => say.trouble(
                verdict,
                About::Link(link),
                Trouble {
                    message: problem.message.clone(),
                    observed: format!("the pool {}", ctx.inventory.pool),
                    expected: "a /30 for every cable".to_owned(),
                    remedy: run(["edit macluster.yaml: choose a larger `network.pool`", "macluster network plan"]),
                },
            ),
            None => say.skip(About::Link(link), no_network(ctx, link)),
        }
        return;
    };
    let mut quiet = true;
    for end in [&network.a, &network.b] {
        let prefix = network.network.prefix_len();
        let Some(found) = interface(ctx, &end.node, end) else {
            quiet = false;
            say.skip(About::End(link, &end.node), format!("not checked: ifconfig does not list {}", end.interface));
            continue;
        };
        if has_address(found, end, prefix) && found.up() && found.active != Some(false) {
            continue;
        }
        quiet = false;
        if has_address(found, end, prefix) {
            say.trouble(verdict, About::End(link, &end.node), carries_nothing(ctx, end, found));
            continue;
        }
        let bridges = ctx.snapshot.facts(&end.node).and_then(|f| f.interfaces.as_ref().ok()).into_iter().flatten();
        if found.inet.is_empty() && bridges.flat_map(|b| &b.members).any(|m| *m == end.interface) {
            say.skip(About::End(link, &end.node), needs("network.bridge", &end.node));
            continue;
        }
        let has: Vec<String> = found
            .inet
            .iter()
            .map(|i| i.prefix.map_or_else(|| i.address.to_string(), |p| format!("{}/{p}", i.address)))
            .collect();
        let expected = format!("{}/{prefix}", end.address);
        let message = if has.is_empty() {
            format!(
                "{} of {} has no IPv4 address: nothing reaches {} over this cable",
                end.interface,
                ctx.label(&end.node),
                link.other(&end.node).map_or("the peer", NodeName::as_str)
            )
        } else {
            format!(
                "{} of {} has {} instead of the address of its link, {expected}",
                end.interface,
                ctx.label(&end.node),
                has.join(", ")
            )
        };
        let observed = if has.is_empty() { "no IPv4 address".to_owned() } else { has.join(", ") };
        say.trouble(
            verdict,
            About::End(link, &end.node),
            Trouble { message, observed, expected, remedy: plan_and_apply() },
        );
    }
    if quiet {
        say.pass(About::Link(link), format!("both ends are addressed ({})", network.network));
    }
}

/// Addressed, yet nothing passes: switched off, or without carrier.
fn carries_nothing(ctx: &Context<'_>, end: &NetworkEnd, found: &Interface) -> Trouble {
    let label = ctx.label(&end.node);
    let down = !found.up();
    let (state, remedy) = if down {
        ("down", plan_and_apply())
    } else {
        let place = ctx.place(&end.node, end.receptacle);
        (
            "without carrier",
            at_machine([format!("reseat the cable at {place}"), "run macluster doctor again".to_owned()]),
        )
    };
    Trouble {
        message: format!("{} of {label} has its address but is {state}: nothing passes over this cable", end.interface),
        observed: format!("{} is {state}", end.interface),
        expected: "up, status: active".to_owned(),
        remedy,
    }
}

fn interface<'a>(ctx: &Context<'a>, node: &NodeName, end: &NetworkEnd) -> Option<&'a Interface> {
    ctx.snapshot.facts(node)?.interfaces.as_ref().ok()?.iter().find(|i| i.name == end.interface)
}
