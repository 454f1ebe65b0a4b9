//! A Mac was swapped for another one: who it is, whether it may take the place, and which cables it gets.

use std::collections::BTreeSet;

use crate::mesh::wiring::{Board, Choice, Cost, Demand, End, Job, Target, WiringPlan, mesh, order, ring};
use crate::mesh::{LinkGraph, wiring};
use crate::model::facts::RdmaSwitch;
use crate::model::hardware::{Mac, Thunderbolt};
use crate::model::{Backend, Inventory, NodeFacts, NodeName, Over, Snapshot};

/// What tells one Mac from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Serial number; none when it is not known (or a virtual machine has none).
    pub serial: Option<String>,
    /// Model identifier and its name for people.
    pub model: Option<String>,
    /// Domain UUIDs of its receptacles.
    pub domains: BTreeSet<String>,
}

impl Identity {
    /// From a Mac's facts.
    pub fn of(facts: &NodeFacts) -> Identity {
        let hardware = facts.hardware.as_ref().ok();
        let name = |model: &str| match Mac::of(facts).name() {
            Some(name) => format!("{model} ({name})"),
            None => model.to_owned(),
        };
        Identity {
            serial: hardware.map(|h| h.serial.clone()).filter(|s| !s.is_empty()),
            model: hardware.map(|h| name(&h.model)),
            domains: facts.receptacles.iter().flatten().filter_map(|r| r.domain_uuid.clone()).collect(),
        }
    }

    /// One Mac beyond doubt: the same serial number, or a domain UUID in common when a serial number is not known.
    pub fn same(&self, other: &Identity) -> bool {
        match (&self.serial, &other.serial) {
            (Some(one), Some(two)) => one == two,
            _ => !self.domains.is_disjoint(&other.domains),
        }
    }
}

/// Why this Mac cannot take the node's place; none when it can.
///
/// `before` is the node as it was recorded, `rack` the other nodes as far as they are known.
pub fn refusal(
    node: &NodeName,
    new: &NodeFacts,
    before: Option<&NodeFacts>,
    rack: &Snapshot,
    inventory: &Inventory,
) -> Option<String> {
    let identity = Identity::of(new);
    if before.is_some_and(|old| Identity::of(old).same(&identity)) {
        let serial = identity.serial.as_deref().unwrap_or("unknown");
        return Some(format!(
            "{node} is still the same Mac as in the recording (serial {serial}): nothing is to replace"
        ));
    }
    let twin = rack.answered().find(|(name, facts)| *name != node && Identity::of(facts).same(&identity));
    if let Some((twin, _)) = twin {
        return Some(format!("the Mac that answers for {node} is {}: one Mac is one node", inventory.label(twin)));
    }
    let mac = Mac::of(new);
    let model = identity.model.as_deref().unwrap_or("a Mac of unknown model");
    let rdma = matches!(inventory.runtime.backend, Backend::Auto | Backend::Jaccl | Backend::JacclRing);
    let others = || rack.answered().filter(|(name, _)| *name != node).map(|(_, f)| Mac::of(f).thunderbolt);
    if rdma && mac.thunderbolt.is_some_and(|t| t < Thunderbolt::Five) && others().any(|t| t == Some(Thunderbolt::Five))
    {
        let has = mac.thunderbolt.map_or_else(String::new, |t| t.to_string());
        return Some(format!("{model} has {has}: RDMA needs Thunderbolt 5, which the other Macs of this rack have"));
    }
    if inventory.runtime.backend == Backend::Ring && inventory.runtime.over == Over::Management {
        return None;
    }
    let peers = inventory.nodes.len().saturating_sub(1);
    let needed = if ring_wanted(inventory) { 2.min(peers) } else { peers };
    let usable = usize::try_from(mac.receptacles?).ok()?.saturating_sub(usize::from(mac.excluded().is_some()));
    (usable < needed).then(|| {
        let what = if ring_wanted(inventory) { "ring" } else { "full mesh" };
        format!(
            "{model} has {usable} usable Thunderbolt receptacles; the {what} of these {} nodes needs {needed}",
            inventory.nodes.len()
        )
    })
}

fn ring_wanted(inventory: &Inventory) -> bool {
    matches!(inventory.runtime.backend, Backend::JacclRing | Backend::Ring)
}

/// The cables of the new Mac.
pub struct Recabling {
    /// The rack as it is now.
    pub board: Board,
    /// The steps.
    pub plan: WiringPlan,
    /// The cables go where they were; else they are planned anew.
    pub as_recorded: bool,
}

/// Plans it. With the cables of a recording they return to the same receptacles, as far as the new Mac has them free;
/// without one, or when it has not, the wiring is planned.
///
/// # Errors
/// Why nothing can be planned, with node names: facts are missing, or the receptacles do not suffice.
pub fn recable(
    node: &NodeName,
    inventory: &Inventory,
    now: &Snapshot,
    recorded: Option<&LinkGraph>,
) -> Result<Recabling, String> {
    let board = Board::of(inventory, now, &LinkGraph::build(now)).map_err(|unknown| {
        let lines: Vec<String> = unknown.iter().map(|u| format!("{} {}", inventory.label(&u.node), u.why)).collect();
        lines.join("; ")
    })?;
    if let Some(plan) = recorded.and_then(|graph| restored(node, &board, graph)) {
        return Ok(Recabling { board, plan, as_recorded: true });
    }
    let planned = if ring_wanted(inventory) { ring(&board) } else { mesh(&board) };
    match planned {
        Ok(plan) => Ok(Recabling { board, plan, as_recorded: false }),
        Err(no) => {
            let short: Vec<String> = no.short.iter().map(|s| inventory.label(&s.node)).collect();
            Err(format!("too few usable receptacles: {}", short.join(", ")))
        }
    }
}

/// The recorded cables of the node, plugged in where they were; none when one of the receptacles cannot be used.
fn restored(node: &NodeName, board: &Board, recorded: &LinkGraph) -> Option<WiringPlan> {
    let mut missing: Vec<[End; 2]> = Vec::new();
    for link in recorded.of(node).filter(|l| l.via_dock.is_none()) {
        let ends = [board.end(&link.id.a)?, board.end(&link.id.b)?];
        if !board.cables.iter().any(|c| *c == ends || [c[1], c[0]] == ends) {
            missing.push(ends);
        }
    }
    if missing.is_empty() && recorded.of(node).next().is_none() {
        return None;
    }
    let taken = |end: &End| {
        board.cables.iter().flatten().any(|e| e == end) || board.stations[end.0].things.contains_key(&end.1)
    };
    if !missing.iter().all(|ends| board.good(*ends)) || missing.iter().flatten().any(taken) {
        return None;
    }
    let target =
        Target { cables: board.cables.iter().map(|c| Some(*c)).collect(), new: missing.clone(), displaced: Vec::new() };
    let steps = order::order(board, &target);
    let cost = Cost { cables: missing.len(), ends: 2 * missing.len(), new: missing.len() };
    let new = missing.iter().map(|[a, b]| wiring::demand::pair(a.0, b.0)).collect();
    let choice = Choice { jobs: vec![Job::Stay; board.cables.len()], new, cost, proven: true };
    Some(WiringPlan { demand: Demand::mesh(board.stations.len()), choice, target, steps })
}

/// What is to be done after the cables, in order, as commands and actions.
pub fn next_actions(node: &NodeName, new: &NodeFacts) -> Vec<String> {
    let mut next = Vec::new();
    match &new.rdma_switch {
        Ok(RdmaSwitch::Enabled) => {}
        switch => {
            if *switch == Ok(RdmaSwitch::NoCommand) {
                next.push(format!("update macOS on {node}: it has no `rdma_ctl`, which came with macOS 26.2"));
            }
            next.push(format!("start {node} in Recovery and run `rdma_ctl enable` (`macluster checklist` prints how)"));
        }
    }
    let then = [
        "`macluster doctor`",
        "`macluster network apply`",
        "`macluster model push`: the nodes that have the model give it to this one",
        "`macluster deploy`",
    ];
    next.extend(then.map(str::to_owned));
    next
}
