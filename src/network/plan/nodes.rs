//! Which nodes may be changed, and who is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::super::desired::Desired;
use super::super::diff::Subject;
use super::super::guard::{self, Touched};
use super::super::pool::{clashes, free_pool};
use super::super::problem::{Problem, ProblemKind};
use super::PlanOptions;
use crate::mesh::LinkId;
use crate::model::network_facts::EXO_JOB;
use crate::model::{Inventory, NodeFacts, NodeName, Snapshot};

/// Nodes that may be planned: all that answered, when the pool is free everywhere.
pub(super) fn usable_nodes<'a>(
    inventory: &'a Inventory,
    snapshot: &Snapshot,
    problems: &mut Vec<Problem>,
) -> Vec<&'a NodeName> {
    let (clashes, unchecked) = clashes(inventory, snapshot);
    let free = || match free_pool(inventory, snapshot) {
        Some(pool) => format!("set `network: {{ pool: {pool} }}` in the inventory: nothing on these nodes uses it"),
        None => "set `network.pool` in the inventory to a network that no node uses".to_owned(),
    };
    for clash in &clashes {
        let message = format!(
            "{}: the pool {} overlaps the {} on {}",
            inventory.label(&clash.node),
            inventory.pool,
            clash.what,
            clash.interface
        );
        problems.push(Problem::new(ProblemKind::PoolClash, message).node(&clash.node).action(free()));
    }
    let mut usable = Vec::new();
    for node in &inventory.nodes {
        let name = &node.name;
        match snapshot.nodes.get(name).map(|r| &r.facts) {
            None => {
                let message = format!("{}: not planned: the recording does not have it", inventory.label(name));
                problems.push(Problem::new(ProblemKind::Unreachable, message).node(name));
            }
            Some(Err(failure)) => {
                let message = format!("{}: not planned: {}", inventory.label(name), failure.message);
                let mut problem = Problem::new(ProblemKind::Unreachable, message).node(name);
                problem.action.clone_from(&failure.hint);
                problems.push(problem);
            }
            Some(Ok(facts)) if unchecked.contains(name) => {
                let missing = [
                    facts.interfaces.as_ref().err(),
                    facts.routes.as_ref().err(),
                    facts.hardware_ports.as_ref().err(),
                    facts.receptacles.as_ref().err(),
                ];
                let why = missing.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                let message = format!("{}: not planned: {why}", inventory.label(name));
                problems.push(
                    Problem::new(ProblemKind::Unreadable, message)
                        .node(name)
                        .action("run `macluster doctor`: it tells what is wrong with this node"),
                );
            }
            Some(Ok(_)) => usable.push(name),
        }
    }
    if clashes.is_empty() { usable } else { Vec::new() }
}

/// Takes nodes out whose change could cut the way in, and their links at the other ends too: half a link is of no
/// use: those links are given back. A node with nothing to change is never refused.
pub(super) fn refuse(
    inventory: &Inventory,
    snapshot: &Snapshot,
    desired: &Desired,
    options: PlanOptions,
    subjects: &mut BTreeMap<&NodeName, Vec<Subject>>,
    problems: &mut Vec<Problem>,
) -> BTreeSet<LinkId> {
    let mut lost: BTreeSet<LinkId> = BTreeSet::new();
    for node in inventory.nodes.iter().map(|n| &n.name) {
        let refusal = match subjects.get(node) {
            Some(found) if found.is_empty() => continue,
            Some(found) => snapshot.facts(node).and_then(|facts| {
                foreign(facts, options).or_else(|| guard::refusal(facts, &touched(node, found, desired)))
            }),
            None => {
                // Not planned at all: told already.
                lost.extend(desired.of(node).map(|(link, _, _)| link.id.clone()));
                continue;
            }
        };
        if let Some((why, action)) = refusal {
            subjects.remove(node);
            lost.extend(desired.of(node).map(|(link, _, _)| link.id.clone()));
            let message = format!("{}: not changed: {why}", inventory.label(node));
            problems.push(Problem::new(ProblemKind::Refused, message).node(node).action(action));
        }
    }
    for found in subjects.values_mut() {
        found.retain(|s| !s.link.as_ref().is_some_and(|link| lost.contains(link)));
    }
    lost
}

/// Another program's daemon would change back what we change, and the other way round (FAILURES C8).
pub(in crate::network) fn foreign(facts: &NodeFacts, options: PlanOptions) -> Option<(String, &'static str)> {
    let loaded = facts.network.job(EXO_JOB).ok().flatten().filter(|_| !options.replace_foreign_daemon)?;
    let why = format!(
        "exo's network daemon ({}) is running there: it sets these interfaces to DHCP every half hour",
        loaded.label
    );
    Some((
        why,
        "`--replace-foreign-daemon` stops it and keeps its job file; `macluster network revert` starts it again",
    ))
}

fn touched(node: &NodeName, found: &[Subject], desired: &Desired) -> Touched {
    let mut touched = Touched::default();
    touched.interfaces.extend(found.iter().map(|s| s.interface.clone()));
    touched.interfaces.extend(desired.of(node).map(|(_, own, _)| own.interface.clone()));
    touched.bridges.extend(found.iter().filter_map(|s| s.bridge.clone()));
    touched
}
