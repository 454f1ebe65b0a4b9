//! The plan: what differs, in the playbook's order, with the exact commands, minus what must not be touched.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::desired::{Desired, LinkNetwork, desired};
use super::diff::{Subject, diff};
use super::guard::{self, Touched};
use super::pool::{clashes, free_pool};
use super::problem::{Problem, ProblemKind};
use crate::mesh::{LinkGraph, LinkId};
use crate::model::{Cmd, Inventory, NodeName, Snapshot, Verdict};
use crate::playbook::{By, ForEach, Playbook, PlaybookError, Playbooks};

/// What becomes of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Symbol {
    /// `+`
    Add,
    /// `~`
    Change,
    /// `-`
    Remove,
}

impl Symbol {
    /// The character in front of a line.
    pub fn as_char(self) -> char {
        match self {
            Symbol::Add => '+',
            Symbol::Change => '~',
            Symbol::Remove => '-',
        }
    }
}

/// One change on one node.
#[derive(Clone, Debug)]
pub struct Change {
    /// Node.
    pub node: NodeName,
    /// The playbook step, e.g. `set-address`.
    pub kind: String,
    /// What becomes of it.
    pub symbol: Symbol,
    /// The interface.
    pub interface: String,
    /// As it is.
    pub before: String,
    /// As it will be.
    pub after: String,
    /// What can go wrong.
    pub risk: String,
    /// The commands.
    pub commands: Vec<Cmd>,
    /// What takes it back; empty when nothing does.
    pub undo: Vec<Cmd>,
}

/// All changes of a rack.
#[derive(Clone, Debug, Default)]
pub struct NetworkPlan {
    /// The networks that the rack should have, in order.
    pub links: Vec<LinkNetwork>,
    /// Changes by node in the inventory's order, then as they are done.
    pub changes: Vec<Change>,
    /// What was left out, and why.
    pub problems: Vec<Problem>,
    /// Identifies the facts and the playbook it rests on.
    pub fingerprint: String,
}

impl NetworkPlan {
    /// Changes of one node, in the order they are done.
    pub fn of(&self, node: &NodeName) -> Vec<&Change> {
        self.changes.iter().filter(|c| &c.node == node).collect()
    }

    /// Nodes with changes.
    pub fn nodes(&self) -> BTreeSet<&NodeName> {
        self.changes.iter().map(|c| &c.node).collect()
    }

    /// Something that should be planned is not.
    pub fn blocked(&self) -> bool {
        self.problems.iter().any(|p| p.verdict == Verdict::Fail)
    }

    /// How many are added, changed and removed.
    pub fn counts(&self) -> [usize; 3] {
        [Symbol::Add, Symbol::Change, Symbol::Remove].map(|s| self.changes.iter().filter(|c| c.symbol == s).count())
    }
}

/// Plans the link networks of a rack. The same facts and playbook give the same plan.
///
/// # Errors
/// A playbook whose placeholders cannot be filled.
pub fn plan(
    inventory: &Inventory,
    snapshot: &Snapshot,
    graph: &LinkGraph,
    playbooks: &Playbooks,
) -> Result<NetworkPlan, PlaybookError> {
    let book = playbooks.book("network")?;
    let Desired { links, problems } = desired(inventory, snapshot, graph);
    let mut plan = NetworkPlan { links, problems, ..NetworkPlan::default() };
    let usable = usable_nodes(inventory, snapshot, &mut plan.problems);
    let wanted = Desired { links: plan.links.clone(), problems: Vec::new() };
    let mut subjects: BTreeMap<&NodeName, Vec<Subject>> = BTreeMap::new();
    for node in &usable {
        let Some(facts) = snapshot.facts(node) else { continue };
        let (found, notes) = diff(node, facts, inventory, &wanted);
        plan.problems.extend(notes);
        subjects.insert(node, found);
    }
    refuse(inventory, snapshot, &wanted, &mut subjects, &mut plan.problems);
    for node in &inventory.nodes {
        if let Some(found) = subjects.get(&node.name) {
            plan.changes.extend(changes(&node.name, found, book)?);
        }
    }
    plan.fingerprint = fingerprint(inventory, snapshot, &plan, book);
    Ok(plan)
}

/// Nodes that may be planned: all that answered, when the pool is free everywhere.
fn usable_nodes<'a>(inventory: &'a Inventory, snapshot: &Snapshot, problems: &mut Vec<Problem>) -> Vec<&'a NodeName> {
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
/// use. A node with nothing to change is never refused.
fn refuse(
    inventory: &Inventory,
    snapshot: &Snapshot,
    desired: &Desired,
    subjects: &mut BTreeMap<&NodeName, Vec<Subject>>,
    problems: &mut Vec<Problem>,
) {
    let mut lost: BTreeSet<LinkId> = BTreeSet::new();
    for node in inventory.nodes.iter().map(|n| &n.name) {
        let refusal = match subjects.get(node) {
            Some(found) if found.is_empty() => continue,
            Some(found) => snapshot.facts(node).and_then(|facts| guard::refusal(facts, &touched(node, found, desired))),
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
}

fn touched(node: &NodeName, found: &[Subject], desired: &Desired) -> Touched {
    let mut touched = Touched::default();
    touched.interfaces.extend(found.iter().map(|s| s.interface.clone()));
    touched.interfaces.extend(desired.of(node).map(|(_, own, _)| own.interface.clone()));
    touched.bridges.extend(found.iter().filter_map(|s| s.bridge.clone()));
    touched
}

/// The node's subjects in the order of the playbook.
fn changes(node: &NodeName, found: &[Subject], book: &Playbook) -> Result<Vec<Change>, PlaybookError> {
    let mut changes = Vec::new();
    for step in book.steps.iter().filter(|s| s.by == By::Macluster) {
        for subject in found.iter().filter(|s| s.kind == step.for_each) {
            changes.push(Change {
                node: node.clone(),
                kind: step.id.clone(),
                symbol: match subject.kind {
                    ForEach::MissingAddress => Symbol::Add,
                    ForEach::BridgeMember | ForEach::StrayAddress | ForEach::OtherAddress => Symbol::Remove,
                    _ => Symbol::Change,
                },
                interface: subject.interface.clone(),
                before: subject.before.clone(),
                after: subject.after.clone(),
                risk: step.risk.clone(),
                commands: step.commands(&subject.vars)?,
                undo: step.undo(&subject.vars)?,
            });
        }
    }
    Ok(changes)
}

/// SHA-256 over what the plan rests on: cabling and addresses of every node, and the playbook. What changes by itself
/// (routes that age, temporary IPv6 addresses, tunnels) is left out.
fn fingerprint(inventory: &Inventory, snapshot: &Snapshot, plan: &NetworkPlan, book: &Playbook) -> String {
    let nodes: BTreeMap<&NodeName, serde_json::Value> = snapshot
        .answered()
        .map(|(name, facts)| {
            let interfaces: Vec<_> = facts
                .interfaces
                .iter()
                .flatten()
                .filter(|i| i.name.starts_with("en") || i.name.starts_with("bridge"))
                .map(|i| serde_json::json!([i.name, i.up(), i.inet, i.members]))
                .collect();
            (
                name,
                serde_json::json!([facts.receptacles, facts.hardware_ports, interfaces, facts.session.local_address]),
            )
        })
        .collect();
    let changes: Vec<_> =
        plan.changes.iter().map(|c| (&c.node, c.commands.iter().map(Cmd::display).collect::<Vec<_>>())).collect();
    let order: Vec<_> = inventory.nodes.iter().map(|n| &n.name).collect();
    let all = serde_json::json!([inventory.rack, inventory.pool, order, nodes, changes, plan.problems, book.sha256]);
    hex::encode(Sha256::digest(all.to_string().as_bytes()))
}

#[cfg(test)]
mod tests;
