//! Bridges and cables that form a cycle: a broadcast storm, or the next cable starts one (FAILURES C3, Apple TN3205).

use super::super::Context;
use super::super::cabling::why_blind;
use super::super::say::{About, Say, Trouble, at_machine, unknown};
use super::{all_named, plan_and_apply};
use crate::mesh::LinkId;
use crate::mesh::bridged;
use crate::model::Verdict;

pub(super) fn bridge_loop(ctx: &Context<'_>, say: &mut Say) {
    let mut blind = false;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else {
            blind = true;
            continue;
        };
        let why = if ctx.graph.blind.contains(node) {
            Some(why_blind(ctx, node))
        } else {
            let error = facts.interfaces.as_ref().err().or(facts.hardware_ports.as_ref().err());
            error.map(unknown).or_else(|| all_named(ctx, node).err())
        };
        if let Some(why) = why {
            blind = true;
            say.skip(About::Node(node), why);
        }
    }
    let found = bridged::loops(ctx.graph, ctx.snapshot);
    for cycle in &found.cycles {
        say.trouble(Verdict::Fail, About::Rack, storm(ctx, cycle));
    }
    let quiet = found.cycles.is_empty() && found.closing.is_empty();
    if found.cycles.is_empty() && !found.closing.is_empty() {
        let pairs: Vec<String> =
            found.closing.iter().map(|(a, b)| format!("{} and {}", ctx.label(a), ctx.label(b))).collect();
        say.trouble(
            Verdict::Warn,
            About::Rack,
            Trouble {
                message: format!(
                    "do not plug this cable yet: with the bridges still there, a cable between {} closes a cycle, and \
                     every broadcast circles in it for ever",
                    pairs.join(", or ")
                ),
                observed: "bridges that hang together by cables".to_owned(),
                expected: "no link end in a bridge before the next cable".to_owned(),
                remedy: plan_and_apply(),
            },
        );
    }
    if quiet && !blind {
        say.pass(About::Rack, "bridges and cables form no cycle");
    }
}

fn storm(ctx: &Context<'_>, cycle: &[LinkId]) -> Trouble {
    let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
    let mut steps = vec!["run `macluster network apply` now: it takes the links out of the bridges".to_owned()];
    if let Some(first) = cycle.first() {
        let place = ctx.place(&first.a.node, first.a.receptacle);
        steps.push(format!(
            "if the nodes do not answer any more: pull the cable at {place}, which ends the storm, run \
             `macluster network apply`, plug the cable in again, and run it once more"
        ));
    }
    Trouble {
        message: format!(
            "STOP: bridges and cables form a cycle ({}): every broadcast circles for ever and can take the LAN down",
            names.join(", ")
        ),
        observed: format!("{} cables between bridges on a cycle", cycle.len()),
        expected: "no link end in a bridge".to_owned(),
        remedy: at_machine(steps),
    }
}
