//! `host.mixed-models`: tensor parallelism waits for the slowest in every layer.

use std::collections::BTreeMap;

use super::Context;
use super::say::{About, Row, Say, Trouble, at_machine};
use crate::model::{Category, NodeName, Verdict};

pub(super) const CHECKS: &[Row] = &[Row {
    id: "host.mixed-models",
    category: Category::Host,
    title: "all nodes have the same chip and memory",
    run: mixed,
}];

/// FAILURES A14.
fn mixed(ctx: &Context<'_>, say: &mut Say) {
    let mut kinds: BTreeMap<(&str, &str), Vec<&NodeName>> = BTreeMap::new();
    let mut known = 0;
    ctx.each_node(say, |node, facts, say| {
        let Some(hardware) = say.known(About::Node(node), &facts.hardware) else { return };
        known += 1;
        kinds.entry((&hardware.chip, &hardware.memory)).or_default().push(node);
    });
    let of = |(chip, memory): &(&str, &str)| format!("{chip}, {memory}");
    match kinds.keys().collect::<Vec<_>>().as_slice() {
        [] => {}
        [_] if known == 1 && ctx.inventory.nodes.len() > 1 => {
            say.skip(About::Rack, "not checked: only one node could be read, nothing to compare");
        }
        [kind] => say.pass(About::Rack, format!("{known} of {known} have the {}", of(kind))),
        _ => {
            let told: Vec<String> = kinds
                .iter()
                .map(|(kind, nodes)| {
                    let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
                    format!("{} ({})", of(kind), names.join(", "))
                })
                .collect();
            say.trouble(
                Verdict::Warn,
                About::Rack,
                Trouble {
                    message: "the nodes are not alike: each layer waits for the slowest chip, and the smallest memory limits the model on all".to_owned(),
                    observed: told.join("; "),
                    expected: "the same chip and memory on every node".to_owned(),
                    remedy: at_machine([
                        "leave the slower ones out of macluster.yaml if the model fits on the others, and compare".to_owned(),
                    ]),
                },
            );
        }
    }
}
