//! Link ends that are members of a bridge now.

use super::super::Context;
use super::super::cabling::why_blind;
use super::super::say::{About, Say, Trouble, needs, unknown};
use super::{nameless, plan_and_apply};
use crate::mesh::bridged;
use crate::model::facts::Interface;
use crate::model::{NodeName, Verdict};

/// The link ends of this node that are members of a bridge, and those bridges. By membership and receptacle: the
/// service's name is translated, renamed, or missing.
pub(super) fn captured(ctx: &Context<'_>, node: &NodeName, interfaces: &[Interface]) -> (Vec<String>, Vec<String>) {
    let (mut captured, mut bridges) = (Vec::new(), Vec::new());
    for bridge in interfaces {
        for link in ctx.graph.of(node) {
            if let Some(name) = link.interface(node).filter(|n| bridge.members.iter().any(|m| m == n)) {
                captured.push(name.to_owned());
                if !bridges.contains(&bridge.name) {
                    bridges.push(bridge.name.clone());
                }
            }
        }
    }
    (captured, bridges)
}

pub(super) fn bridge(ctx: &Context<'_>, say: &mut Say) {
    let cycles = bridged::loops(ctx.graph, ctx.snapshot).cycles;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        if ctx.graph.blind.contains(node) {
            say.skip(about, why_blind(ctx, node));
            continue;
        }
        let interfaces = match (&facts.interfaces, &facts.hardware_ports) {
            (Ok(interfaces), Ok(_)) => interfaces,
            (Err(error), _) | (_, Err(error)) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        let (captured, where_) = captured(ctx, node, interfaces);
        if let (true, Some(why)) = (captured.is_empty(), nameless(ctx, node)) {
            say.skip(about, why);
            continue;
        }
        if captured.is_empty() {
            say.pass(about, format!("no link end of {label} is in a bridge"));
            continue;
        }
        // Both are put right by the same command, but the storm first.
        if cycles.iter().flatten().any(|id| [&id.a.node, &id.b.node].contains(&node)) {
            say.skip(about, needs("network.bridge-loop", node));
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
