//! Link ends that are members of a bridge now.

use super::super::Context;
use super::super::say::{About, Say, Trouble, needs, unknown};
use super::{all_named, each, plan_and_apply};
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
    each::node(ctx, say, |node, facts, say| {
        let about = About::Node(node);
        let label = ctx.label(node);
        let interfaces = facts.interfaces.as_ref().map_err(unknown)?;
        facts.hardware_ports.as_ref().map_err(unknown)?;
        let (captured, where_) = captured(ctx, node, interfaces);
        if captured.is_empty() {
            all_named(ctx, node)?;
            say.pass(about, format!("no link end of {label} is in a bridge"));
            return Ok(());
        }
        // Both are put right by the same command, but the storm first.
        if cycles.iter().flatten().any(|id| [&id.a.node, &id.b.node].contains(&node)) {
            return Err(needs("network.bridge-loop", node));
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
        Ok(())
    });
}
