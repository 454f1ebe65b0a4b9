//! `host`: each Mac by itself, and that each stands once in the inventory. What macOS they run: `macos`.

use std::collections::BTreeMap;

use super::say::{About, Row, Say, Trouble, at_machine, run, unknown};
use super::{Context, macos};
use crate::model::facts::{FactError, FactErrorKind};
use crate::model::hardware::Mac;
use crate::model::{Category, NodeFacts, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[
    Row { id: "host.facts", category: Category::Host, title: "the Mac's own tools can be read", run: facts_readable },
    Row { id: "host.model-supported", category: Category::Host, title: "every node is a known Mac", run: model },
    Row { id: "host.distinct", category: Category::Host, title: "no Mac stands twice in the inventory", run: distinct },
    Row { id: "host.macos-min", category: Category::Host, title: "macOS is 26.2 or newer", run: macos::minimum },
    Row {
        id: "host.macos-identical",
        category: Category::Host,
        title: "every node runs the identical macOS build",
        run: macos::identical,
    },
];

/// Tools whose silence leaves nearly everything unchecked. Without this, a node that prints garbage would only skip.
fn facts_readable(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let label = ctx.label(node);
        let errors: Vec<&FactError> = [
            facts.hardware.as_ref().err(),
            facts.os.as_ref().err(),
            facts.receptacles.as_ref().err(),
            facts.hardware_ports.as_ref().err(),
            facts.interfaces.as_ref().err(),
        ]
        .into_iter()
        .flatten()
        .collect();
        if errors.is_empty() {
            drifted(facts, node, &label, say);
            continue;
        }
        let mut tools: Vec<&str> = errors.iter().map(|e| e.tool.as_str()).collect();
        tools.dedup();
        let observed: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let steps = if errors.iter().any(|e| e.kind == FactErrorKind::Malformed) {
            vec![SEND]
        } else if errors.iter().any(|e| e.kind == FactErrorKind::Timeout) {
            vec!["macluster doctor   # once more: a busy Mac may have been too slow"]
        } else {
            vec!["macluster doctor   # once more", "macluster snapshot rack.json   # it holds what was really printed"]
        };
        say.trouble(
            Verdict::Fail,
            About::Node(node),
            Trouble {
                message: format!("{label} could not be checked: {} cannot be read", tools.join(", ")),
                observed: observed.join("; "),
                expected: "an answer, in a known shape".to_owned(),
                remedy: run(steps),
            },
        );
    }
}

/// What helps everybody whose macOS says it in the same new way.
const SEND: &str = "macluster snapshot --redact drift.json   # please send it to the project: names are replaced in it";

/// What the essential tools say is understood; what else is not, is told rather than guessed.
fn drifted(facts: &NodeFacts, node: &NodeName, label: &str, say: &mut Say) {
    let malformed = facts.unknown().into_iter().filter(|e| e.kind == FactErrorKind::Malformed);
    let observed: Vec<String> = malformed.map(ToString::to_string).chain(facts.drift.iter().cloned()).collect();
    if observed.is_empty() {
        say.pass(About::Node(node), format!("the tools of {label} can be read"));
        return;
    }
    say.trouble(
        Verdict::Warn,
        About::Node(node),
        Trouble {
            message: format!(
                "{label} says things that this macluster does not know: what rests on them is not checked, or may be incomplete"
            ),
            observed: observed.join("; "),
            expected: "output in a known shape".to_owned(),
            remedy: run([SEND]),
        },
    );
}

fn model(ctx: &Context<'_>, say: &mut Say) {
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        let about = About::Node(node);
        let label = ctx.label(node);
        let hardware = match &facts.hardware {
            Ok(hardware) => hardware,
            Err(error) => {
                say.skip(about, unknown(error));
                continue;
            }
        };
        let observed = format!("{} {} ({})", hardware.name, hardware.model, hardware.chip);
        if let Some(machine) = Mac::of(facts).machine {
            say.pass(about, format!("{label} is a {} ({}, {})", machine.name, hardware.model, hardware.memory));
        } else if !hardware.chip.is_empty() && !hardware.chip.starts_with("Apple") {
            say.trouble(
                Verdict::Fail,
                about,
                Trouble {
                    message: format!("{label} has no Apple silicon ({}): the runtime cannot run there", hardware.chip),
                    observed,
                    expected: "a Mac with Apple silicon".to_owned(),
                    remedy: at_machine([format!("replace {label}, or take it out of macluster.yaml")]),
                },
            );
        } else {
            say.trouble(
                Verdict::Warn,
                about,
                Trouble {
                    message: format!(
                        "{label} is a {}, which this version of macluster does not know: what its receptacles can do is told from what they report",
                        hardware.model
                    ),
                    observed,
                    expected: "a model of the catalogue".to_owned(),
                    remedy: run(["macluster snapshot rack.json   # send this to the project, or use a newer macluster"]),
                },
            );
        }
    }
}

fn distinct(ctx: &Context<'_>, say: &mut Say) {
    let mut serials: BTreeMap<&str, Vec<&NodeName>> = BTreeMap::new();
    let mut known = true;
    for node in ctx.nodes() {
        let Some(facts) = ctx.facts_or_skip(node, say) else { continue };
        match &facts.hardware {
            Ok(hardware) if !hardware.serial.is_empty() => serials.entry(&hardware.serial).or_default().push(node),
            Ok(_) => {}
            Err(error) => {
                known = false;
                say.skip(About::Node(node), unknown(error));
            }
        }
    }
    let mut twins: Vec<Vec<&NodeName>> = serials.into_values().filter(|nodes| nodes.len() > 1).collect();
    // The same receptacle under two names proves it too, serial numbers or not.
    for ends in ctx.graph.ambiguous.values() {
        let mut nodes: Vec<&NodeName> = ctx.nodes().filter(|n| ends.iter().any(|e| &e.node == *n)).collect();
        nodes.dedup();
        if nodes.len() > 1 && !twins.contains(&nodes) {
            twins.push(nodes);
        }
    }
    for nodes in &twins {
        let names = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let hosts = nodes.iter().filter_map(|n| ctx.inventory.node(n)).map(|n| n.host.as_str());
        say.trouble(
            Verdict::Fail,
            About::Rack,
            Trouble {
                message: format!("{names} are the same Mac: the inventory names it twice"),
                observed: format!("equal identities behind {}", hosts.collect::<Vec<_>>().join(" and ")),
                expected: "a Mac of its own behind each name".to_owned(),
                remedy: run([format!("edit macluster.yaml: correct the host of one of {names}")]),
            },
        );
    }
    if twins.is_empty() && known {
        say.pass(About::Rack, "every name stands for a Mac of its own");
    }
}
