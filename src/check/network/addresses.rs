//! The addresses of links.

use super::super::Context;
use super::super::judge::Purpose;
use super::super::rdma_link::no_links;
use super::super::say::{About, Say, Trouble, at_machine, needs, run};
use super::{carries_address, interface, no_network, plan_and_apply, subnets};
use crate::mesh::Link;
use crate::model::facts::Interface;
use crate::model::{NodeName, Verdict};
use crate::network::{Desired, NetworkEnd, ProblemKind, clashes, desired};

pub(super) fn addresses(ctx: &Context<'_>, say: &mut Say) {
    if ctx.graph.links.is_empty() {
        no_links(ctx, say);
        return;
    }
    if !clashes(ctx.inventory, ctx.snapshot).0.is_empty() {
        say.skip(About::Rack, "not checked (needs network.pool-overlap: no address of the pool can be used)");
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
            interface(ctx, &end.node, end).is_some_and(|i| carries_address(i, end, network.network.prefix_len()))
        })
    })
}

fn judge_addresses(ctx: &Context<'_>, wanted: &Desired, link: &Link, verdict: Verdict, say: &mut Say) {
    let Some(network) = wanted.link(&link.id) else {
        let exhausted = wanted
            .problems
            .iter()
            .find(|p| p.kind == ProblemKind::PoolExhausted && p.link.as_ref() == Some(&link.to_ref()));
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
        if carries_address(found, end, prefix) && found.up() && found.active != Some(false) {
            continue;
        }
        quiet = false;
        if carries_address(found, end, prefix) {
            say.trouble(verdict, About::End(link, &end.node), carries_nothing(ctx, end, found));
            continue;
        }
        let bridges = ctx.snapshot.facts(&end.node).and_then(|f| f.interfaces.as_ref().ok()).into_iter().flatten();
        if found.inet.is_empty() && bridges.flat_map(|b| &b.members).any(|m| *m == end.interface) {
            say.skip(About::End(link, &end.node), needs("network.bridge", &end.node));
            continue;
        }
        if subnets::overlaps(ctx, &end.node).iter().any(|o| o.link == end.interface) {
            say.skip(About::End(link, &end.node), needs("network.subnets-disjoint", &end.node));
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
