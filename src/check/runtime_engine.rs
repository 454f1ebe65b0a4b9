//! `runtime`: what runs: whether macOS lets it, and whether it serves.

use std::collections::BTreeSet;

use super::Context;
use super::runtime::{Deployed, ranks};
use super::say::{About, Row, Say, Trouble, at_machine, needs, run};
use crate::model::runtime_facts::RuntimeFacts;
use crate::model::{Category, NodeFacts, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row {
        id: "runtime.local-network-privacy",
        category: Category::Runtime,
        title: "macOS lets the engine reach the other nodes",
        run: local_network_privacy,
    },
    Row { id: "runtime.engine-health", category: Category::Runtime, title: "every rank serves", run: engine_health },
];

/// Addresses that the engine got no route to.
fn refused(runtime: &RuntimeFacts) -> BTreeSet<&str> {
    let all = runtime.agent.iter().flat_map(|a| &a.reach);
    all.filter(|r| r.name == "EHOSTUNREACH").map(|r| r.address.as_str()).collect()
}

/// Those of them that `ping` reaches: macOS keeps the engine away from them.
fn kept_away(facts: &NodeFacts, runtime: &RuntimeFacts) -> Vec<String> {
    let serves = runtime.agent.as_ref().is_some_and(|a| a.engine == "ready");
    let refused = refused(runtime);
    let answered = facts.network.paths.iter().flatten().filter(|p| p.answered == Ok(true));
    let reached = answered.map(|p| p.peer_address.to_string());
    reached.filter(|a| !serves && refused.contains(a.as_str())).collect()
}

/// FAILURES D1 to D5: only the engine's own attempt tells, in the context that launchd gives it; no setting does. The
/// system's own `ping` is exempt from the privacy: where it gets through and the engine does not, it is that.
fn local_network_privacy(ctx: &Context<'_>, say: &mut Say) {
    for (Deployed { node, facts, runtime }, rank) in ranks(ctx, say) {
        let (about, label) = (About::Node(node), ctx.label(node));
        if rank.world_size < 2 {
            say.pass(about, format!("the engine of {label} needs no other node"));
            continue;
        }
        let Some(agent) = &runtime.agent else {
            say.skip(about, needs("runtime.engine-health", node));
            continue;
        };
        if agent.engine == "ready" {
            say.pass(about, format!("the engine of {label} has reached the other ranks"));
            continue;
        }
        let reached = kept_away(facts, runtime);
        if !reached.is_empty() {
            say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!(
                        "macOS keeps the engine of {label} from the local network: ping gets through to {}, the engine gets `No route to host`",
                        reached.join(", ")
                    ),
                    observed: format!("EHOSTUNREACH from the engine's process, an answer to ping: {}", reached.join(", ")),
                    expected: "the engine reaches what ping reaches".to_owned(),
                    remedy: at_machine([
                        format!("at {label}: System Settings > Privacy & Security > Local Network: allow what is named Python there; if it is on already, switch it off and on again"),
                        format!("if it is not in the list, or nothing changes: restart {label}"),
                        "then: macluster restart".to_owned(),
                    ]),
                },
            );
        } else if agent.reach.is_empty() {
            say.skip(about, format!("not checked: the engine of {label} has not tried to reach another node yet"));
        } else if refused(runtime).is_empty() {
            say.pass(about, format!("nothing keeps the engine of {label} from the local network"));
        } else {
            let who = refused(runtime).into_iter().collect::<Vec<_>>().join(", ");
            say.skip(
                about,
                format!(
                    "not checked: the engine of {label} found no route to {who}, and neither is it known that ping does"
                ),
            );
        }
    }
}

fn engine_health(ctx: &Context<'_>, say: &mut Say) {
    let all = ranks(ctx, say);
    if !all.is_empty() && all.iter().all(|(d, _)| d.runtime.agent.is_none()) {
        say.trouble(
            Verdict::Warn,
            About::Rack,
            Trouble {
                message: "the runtime is deployed, and nothing of it runs".to_owned(),
                observed: "no agent lives on any rank".to_owned(),
                expected: "one on every rank".to_owned(),
                remedy: run(["macluster start"]),
            },
        );
        return;
    }
    for (Deployed { node, runtime, facts }, rank) in all {
        let (about, label) = (About::Node(node), ctx.label(node));
        if !kept_away(facts, runtime).is_empty() {
            say.skip(about, needs("runtime.local-network-privacy", node));
            continue;
        }
        let (observed, message, remedy) = match &runtime.agent {
            None => (
                "no living agent".to_owned(),
                format!(
                    "the agent of rank {} on {label} does not live, or has not reported lately: the others wait for it",
                    rank.rank
                ),
                run(["macluster start".to_owned(), format!("macluster logs {node}")]),
            ),
            Some(agent) if agent.engine == "ready" => {
                say.pass(about, format!("rank {} on {label} serves, epoch {}", rank.rank, agent.epoch));
                continue;
            }
            Some(agent) if agent.degraded.is_some() => (
                agent.degraded.clone().unwrap_or_default(),
                format!(
                    "the engines were started in vain too often, and are not started any more: rank {} on {label}",
                    rank.rank
                ),
                run(["macluster status", "macluster restart"]),
            ),
            Some(agent) if agent.error.is_some() => (
                agent.error.clone().unwrap_or_default(),
                format!("the engine of rank {} on {label} has failed", rank.rank),
                run(["macluster status".to_owned(), format!("macluster logs {node}")]),
            ),
            Some(agent) => {
                say.trouble(
                    Verdict::Warn,
                    about,
                    Trouble {
                        message: format!(
                            "rank {} on {label} does not serve yet: its engine is {}",
                            rank.rank, agent.engine
                        ),
                        observed: agent.engine.clone(),
                        expected: "ready".to_owned(),
                        remedy: run(["macluster status --watch"]),
                    },
                );
                continue;
            }
        };
        say.trouble(Verdict::Fail, about, Trouble { message, observed, expected: "ready".to_owned(), remedy });
    }
}
