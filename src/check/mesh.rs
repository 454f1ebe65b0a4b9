//! `mesh`: all cables together.

use std::collections::BTreeMap;

use super::Context;
use super::cabling::{better_than, blind, free_receptacles, skip_blind, why_blind};
use super::judge::Purpose;
use super::say::{About, Row, Say, Trouble, at_machine, unknown, unread};
use crate::mesh::usable::cable_fit;
use crate::mesh::{Link, leads_to_a_mac, ranks, ring};
use crate::model::hardware::Mac;
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "mesh.complete",
        category: Category::Mesh,
        title: "a cable joins every pair of nodes (ring backends: a ring joins all nodes)",
        run: complete,
    },
    Row {
        id: "mesh.ring-possible",
        category: Category::Mesh,
        title: "where the mesh is broken, whether a ring would do",
        run: ring_possible,
    },
    Row { id: "mesh.size", category: Category::Mesh, title: "the rack is not larger than a mesh can be", run: size },
];

/// The node that allows the smallest mesh, and how many nodes that is.
fn limit<'a>(ctx: &Context<'a>) -> Option<(&'a NodeName, u32)> {
    ctx.nodes().filter_map(|n| Some((n, ctx.mac(n)?.mesh_size()?))).min_by_key(|(_, size)| *size)
}

fn too_large(ctx: &Context<'_>) -> bool {
    limit(ctx).is_some_and(|(_, most)| ctx.inventory.nodes.len() > most as usize)
}

fn size(ctx: &Context<'_>, say: &mut Say) {
    let count = ctx.inventory.nodes.len();
    let purpose = Purpose::of(ctx.inventory);
    if purpose.ring() {
        say.pass(About::Rack, format!("a ring has room for {count} nodes"));
        return;
    }
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        if Mac::of(facts).mesh_size().is_none() {
            say.skip(
                About::Node(node),
                match &facts.receptacles {
                    Err(error) => unknown(error),
                    Ok(_) => format!("not checked: how many receptacles {node} has is not known"),
                },
            );
        }
    }
    let Some((node, most)) = limit(ctx) else { return };
    if count <= most as usize {
        say.pass(About::Rack, format!("{count} nodes; a mesh of these Macs has room for {most}"));
        return;
    }
    let usable = most.saturating_sub(1);
    say.trouble(
        purpose.for_jaccl(),
        About::Rack,
        Trouble {
            message: format!(
                "{count} nodes are too many for a full mesh: {} has {usable} receptacles for it, so {most} nodes at most",
                ctx.label(node)
            ),
            observed: format!("{count} nodes"),
            expected: format!("{most} nodes or fewer"),
            remedy: at_machine([
                "cable the nodes as a ring and set `runtime.backend: jaccl-ring` in macluster.yaml".to_owned(),
                format!("or take {} nodes out of macluster.yaml", count.saturating_sub(most as usize)),
            ]),
        },
    );
}

fn complete(ctx: &Context<'_>, say: &mut Say) {
    let nodes: Vec<NodeName> = ranks::order(ctx.inventory).into_iter().map(|n| n.name.clone()).collect();
    if nodes.len() < 2 {
        say.pass(About::Rack, "one node needs no cable");
    } else if Purpose::of(ctx.inventory).ring() {
        complete_ring(ctx, &nodes, say);
    } else if too_large(ctx) {
        say.skip(About::Rack, "not checked (needs mesh.size)");
    } else {
        complete_mesh(ctx, &nodes, say);
    }
}

/// A broken mesh is no reason to stand still when a ring of good cables joins all nodes.
fn ring_possible(ctx: &Context<'_>, say: &mut Say) {
    let nodes: Vec<NodeName> = ranks::order(ctx.inventory).into_iter().map(|n| n.name.clone()).collect();
    if nodes.len() < 3 {
        say.pass(About::Rack, "with fewer than three nodes, ring and mesh are the same");
        return;
    }
    if Purpose::of(ctx.inventory).ring() {
        say.pass(About::Rack, "the backend wants no more than a ring, which mesh.complete judges");
        return;
    }
    let good = |link: &Link| cable_fit(link, ctx.snapshot).is_ok();
    let broken = ctx.graph.pairs_without(&nodes, good);
    if broken.is_empty() {
        say.pass(About::Rack, "the mesh holds a ring through all nodes");
        return;
    }
    let joined = |a: usize, b: usize| match (nodes.get(a), nodes.get(b)) {
        (Some(a), Some(b)) => ctx.graph.between(a, b).any(good),
        _ => false,
    };
    let Some(cycle) = ring::cycle(nodes.len(), &joined) else {
        skip_blind(ctx, say);
        if say.silent() {
            say.pass(About::Rack, "no ring of good cables joins all nodes either: the mesh comes first");
        }
        return;
    };
    let way = cycle.iter().filter_map(|i| nodes.get(*i)).map(NodeName::as_str).collect::<Vec<_>>().join(" – ");
    // A large rack lacks thousands.
    let pairs: Vec<String> = broken.iter().take(6).map(|(a, b)| format!("{a} – {b}")).collect();
    let more = broken.len().saturating_sub(pairs.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    say.trouble(
        Verdict::Warn,
        About::Rack,
        Trouble {
            message: format!("the mesh is broken, but a ring of good cables joins all nodes: {way}"),
            observed: format!("no good cable: {}{more}", pairs.join(", ")),
            expected: "a good cable for each pair".to_owned(),
            remedy: at_machine([
                "to go on until the cables are right: `runtime.backend: jaccl-ring` in macluster.yaml (`auto` chooses it by itself)"
                    .to_owned(),
            ]),
        },
    );
}

fn complete_mesh(ctx: &Context<'_>, nodes: &[NodeName], say: &mut Say) {
    let mut free = Free::default();
    for (one, other) in ctx.graph.pairs_missing(nodes) {
        match [&one, &other].into_iter().find(|n| blind(ctx, n)) {
            Some(unseen) => {
                let why = why_blind(ctx, unseen);
                say.skip(About::Rack, format!("{one} – {other}: {why}"));
            }
            None => missing(ctx, &one, &other, &mut free, "a mesh needs one for each pair", say),
        }
    }
    if say.silent() {
        let pairs = nodes.len() * (nodes.len() - 1) / 2;
        say.pass(About::Rack, format!("all {pairs} pairs of the {} nodes are cabled", nodes.len()));
    }
}

fn complete_ring(ctx: &Context<'_>, nodes: &[NodeName], say: &mut Say) {
    let joined = |a: usize, b: usize| match (nodes.get(a), nodes.get(b)) {
        (Some(a), Some(b)) => ctx.graph.between(a, b).next().is_some(),
        _ => false,
    };
    if let Some(cycle) = ring::cycle(nodes.len(), &joined) {
        let way = cycle.iter().filter_map(|i| nodes.get(*i)).map(NodeName::as_str).collect::<Vec<_>>().join(" – ");
        say.pass(About::Rack, format!("a ring joins all {} nodes: {way}", nodes.len()));
        return;
    }
    skip_blind(ctx, say);
    if !say.silent() {
        return;
    }
    // Cables between neighbours in the order of ranks complete a ring, whatever else is there.
    let mut free = Free::default();
    for (i, one) in nodes.iter().enumerate() {
        let next = (i + 1) % nodes.len();
        let Some(other) = nodes.get(next).filter(|_| i < next || nodes.len() > 2) else { continue };
        if !joined(i, next) {
            missing(ctx, one, other, &mut free, "no ring joins all nodes without it", say);
        }
    }
}

/// Receptacles already promised to an earlier pair, by node.
#[derive(Default)]
struct Free(BTreeMap<NodeName, Vec<u32>>);

impl Free {
    /// The next free, allowed receptacle of a node.
    fn take(&mut self, ctx: &Context<'_>, node: &NodeName) -> Option<u32> {
        let left = self.0.entry(node.clone()).or_insert_with(|| {
            let mut left: Vec<u32> = free_receptacles(ctx, node).iter().rev().map(|r| r.id).collect();
            // The first is promised to the cable that has to leave the excluded receptacle.
            let excluded = ctx.mac(node).and_then(|m| m.excluded());
            let leaves = |l: &Link| l.end(node).map(|e| e.receptacle) == excluded && better_than(ctx, l).is_none();
            if excluded.is_some() && ctx.graph.of(node).any(leaves) {
                left.pop();
            }
            left
        });
        left.pop()
    }
}

fn missing(ctx: &Context<'_>, one: &NodeName, other: &NodeName, free: &mut Free, why: &str, say: &mut Say) {
    let mut steps = Vec::new();
    let ends: Vec<String> = [one, other]
        .into_iter()
        .map(|node| {
            if let Some(receptacle) = free.take(ctx, node) {
                return ctx.place(node, receptacle);
            }
            steps.push(make_room(ctx, node));
            format!("the freed receptacle of {}", ctx.label(node))
        })
        .collect();
    steps.push(format!("connect {} by a Thunderbolt 5 cable", ends.join(" and ")));
    for node in [one, other] {
        if let Some(machine) = ctx.mac(node).and_then(|m| m.machine).filter(|m| m.usb_c_front) {
            steps.push(format!("(the front ports of {node}, a {}, are USB-C only)", machine.name));
        }
    }
    say.trouble(
        Verdict::Fail,
        About::Rack,
        Trouble {
            message: format!("no cable joins {} and {}: {why}", ctx.label(one), ctx.label(other)),
            observed: "no cable".to_owned(),
            expected: "one Thunderbolt 5 cable".to_owned(),
            remedy: at_machine(steps),
        },
    );
}

/// What to take out of a Mac whose allowed receptacles are all taken.
fn make_room(ctx: &Context<'_>, node: &NodeName) -> String {
    let label = ctx.label(node);
    let Some(facts) = ctx.snapshot.facts(node) else { return unread(ctx, node) };
    let excluded = Mac::of(facts).excluded();
    let receptacles = || facts.receptacles.iter().flatten().filter(|r| Some(r.id) != excluded);
    if let Some(device) = receptacles().find(|r| r.connected && !leads_to_a_mac(&r.attached)) {
        let place = ctx.place(node, device.id);
        return match excluded.filter(|e| facts.receptacles.iter().flatten().any(|r| r.id == *e && !r.connected)) {
            Some(excluded) => {
                format!("move what is plugged in at {place} to receptacle {excluded}, which is of no use for RDMA")
            }
            None => format!("unplug what is at {place}"),
        };
    }
    // A second cable of a pair, or one that is no link.
    let spare = receptacles().find(|r| {
        let link = ctx.graph.of(node).find(|l| l.end(node).is_some_and(|e| e.receptacle == r.id));
        link.is_none_or(|l| better_than(ctx, l).is_some())
    });
    match spare {
        Some(spare) => format!("take out the cable at {}", ctx.place(node, spare.id)),
        None => format!("{label} has no receptacle left"),
    }
}
