//! The plan: what differs, in the playbook's order, with the exact commands, minus what must not be touched.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::desired::{Desired, LinkNetwork, desired};
use super::diff::{Subject, diff};
use super::keeping::{self, Keeping};
use super::problem::{Problem, ProblemKind};
use crate::mesh::LinkGraph;
use crate::model::network_facts::LinksConfig;
use crate::model::{Cmd, Inventory, NodeName, Snapshot, Stdin, Verdict};
use crate::playbook::{By, ForEach, Playbook, PlaybookError, Playbooks, Scripts};
pub use basis::{Basis, Moved};
pub(super) use nodes::foreign as foreign_daemon;

mod basis;
mod nodes;

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// Nodes and pool.
    pub inventory: &'a Inventory,
    /// Facts.
    pub snapshot: &'a Snapshot,
    /// Cables.
    pub graph: &'a LinkGraph,
    /// Commands.
    pub playbooks: &'a Playbooks,
    /// What runs on the nodes afterwards.
    pub scripts: &'a Scripts,
    /// Wishes.
    pub options: PlanOptions,
}

/// What is only done when it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanOptions {
    /// Stop another program's daemon that sets these interfaces.
    pub replace_foreign_daemon: bool,
    /// Remove the bridge of the links from the network preferences.
    pub remove_bridge_entry: bool,
}

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
    /// What the step is done for.
    pub for_each: ForEach,
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
    /// What it rests on.
    pub basis: Basis,
    /// What a node's links daemon is to keep.
    pub kept: BTreeMap<NodeName, LinksConfig>,
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

    /// Identifies the facts, playbooks and scripts it rests on.
    pub fn fingerprint(&self) -> String {
        self.basis.fingerprint()
    }

    /// Addresses that would be changed under RDMA in one boot.
    pub fn readdresses(&self) -> bool {
        self.problems.iter().any(|p| p.kind == ProblemKind::Readdress)
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

/// Plans the link networks of a rack. The same facts and playbooks give the same plan.
///
/// # Errors
/// A playbook whose placeholders cannot be filled.
pub fn plan(request: &PlanRequest<'_>) -> Result<NetworkPlan, PlaybookError> {
    let PlanRequest { inventory, snapshot, graph, options, .. } = *request;
    let book = request.playbooks.book("network")?;
    let Desired { links, problems } = desired(inventory, snapshot, graph);
    let mut plan = NetworkPlan { links, problems, ..NetworkPlan::default() };
    let usable = nodes::usable_nodes(inventory, snapshot, &mut plan.problems);
    let wanted = Desired { links: plan.links.clone(), problems: Vec::new() };
    let mut subjects: BTreeMap<&NodeName, Vec<Subject>> = BTreeMap::new();
    for node in &usable {
        let Some(facts) = snapshot.facts(node) else { continue };
        let (found, notes) = diff(node, facts, inventory, &wanted);
        plan.problems.extend(notes);
        subjects.insert(node, found);
    }
    let lost = nodes::refuse(inventory, snapshot, &wanted, options, &mut subjects, &mut plan.problems);
    let whole = &plan.links;
    // What cannot be set up now is not to be asserted by a daemon later either.
    let wanted = Desired { links: wanted.links.into_iter().filter(|l| !lost.contains(&l.id)).collect(), ..wanted };
    for (node, found) in &mut subjects {
        let Some(facts) = snapshot.facts(node) else { continue };
        let lost_here = whole.iter().filter(|l| lost.contains(&l.id)).filter_map(|l| l.at(node));
        let left_alone: BTreeSet<&str> = lost_here.map(|(own, _)| own.interface.as_str()).collect();
        let Keeping { config, first, last, notes } =
            keeping::keeping(node, facts, request, &wanted, &left_alone, found);
        plan.problems.extend(notes);
        plan.kept.insert((*node).clone(), config);
        found.splice(0..0, first);
        found.extend(last);
    }
    plan.problems.extend(keeping::loops(request));
    for node in &inventory.nodes {
        if let Some(found) = subjects.get(&node.name) {
            plan.changes.extend(changes(&node.name, found, book)?);
        }
    }
    plan.basis = Basis::of(request, &plan);
    Ok(plan)
}

/// The node's subjects in the order of the playbook.
fn changes(node: &NodeName, found: &[Subject], book: &Playbook) -> Result<Vec<Change>, PlaybookError> {
    let mut changes: Vec<Change> = Vec::new();
    for step in book.steps.iter().filter(|s| s.by == By::Macluster) {
        for subject in found.iter().filter(|s| s.kind == step.for_each) {
            let mut commands = step.commands(&subject.vars)?;
            if let (Some(text), Some(last)) = (subject.texts.get(&step.id), commands.last_mut()) {
                last.stdin = Stdin::Bytes(text.clone());
            }
            let undo = step.undo(&subject.vars)?;
            // Several steps about one thing (write this, write that, load it) are one change.
            let same =
                |c: &&mut Change| c.for_each == subject.kind && c.interface == subject.interface && subject.joins();
            if let Some(change) = changes.iter_mut().find(same) {
                change.commands.extend(commands);
                change.undo.extend(undo);
                change.kind.clone_from(&step.id);
                change.risk.clone_from(&step.risk);
                continue;
            }
            changes.push(Change {
                node: node.clone(),
                kind: step.id.clone(),
                for_each: subject.kind,
                symbol: match subject.kind {
                    ForEach::MissingAddress => Symbol::Add,
                    ForEach::LinksDaemon if subject.before == keeping::NOTHING => Symbol::Add,
                    ForEach::BridgeMember
                    | ForEach::StrayAddress
                    | ForEach::OtherAddress
                    | ForEach::ForeignDaemon
                    | ForEach::BridgeEntry => Symbol::Remove,
                    _ => Symbol::Change,
                },
                interface: subject.interface.clone(),
                before: subject.before.clone(),
                after: subject.after.clone(),
                risk: step.risk.clone(),
                commands,
                undo,
            });
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests;
