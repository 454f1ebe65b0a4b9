//! What a check of the network is asked of: each node whose cables are known, each link.

use super::super::Context;
use super::super::cabling::why_blind;
use super::super::rdma_link::no_links;
use super::super::say::{About, Say};
use crate::mesh::Link;
use crate::model::{NodeFacts, NodeName};
use crate::network::{Desired, desired};

/// Judges each node whose cables are known; says of the others, and of those that cannot be judged, why they are not.
pub(super) fn node<'a>(
    ctx: &Context<'a>,
    say: &mut Say,
    mut judge: impl FnMut(&'a NodeName, &'a NodeFacts, &mut Say) -> Result<(), String>,
) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let blind = ctx.graph.blind.contains(node);
        let judged = if blind { Err(why_blind(ctx, node)) } else { judge(node, facts, say) };
        if let Err(why) = judged {
            say.skip(About::Node(node), why);
        }
    }
}

/// Judges each link, given the networks that the rack should have; says of those that cannot be judged why they are not.
pub(super) fn link(
    ctx: &Context<'_>,
    say: &mut Say,
    mut judge: impl FnMut(&Link, &Desired, &mut Say) -> Result<(), String>,
) {
    if ctx.graph.links.is_empty() {
        no_links(ctx, say);
        return;
    }
    let wanted = desired(ctx.inventory, ctx.snapshot, ctx.graph);
    for link in ctx.graph.links.values() {
        if let Err(why) = judge(link, &wanted, say) {
            say.skip(About::Link(link), why);
        }
    }
}
