//! What runs where: every node's report, believed only as far as the node's own process table goes.

use std::sync::Arc;

use super::runtime::RuntimeNode;
use super::service::{self, Process};
use crate::agent::report::Report;
use crate::agent::status::State;
use crate::event::Events;
use crate::model::{Inventory, NodeName};
use crate::playbook::Playbook;
use crate::remote::Fleet;

/// One node as it is now.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Node.
    pub node: NodeName,
    /// What is known, or why nothing is.
    pub seen: Result<Seen, Unseen>,
}

/// A node that answered.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What it reports; none when nothing is deployed there.
    pub report: Option<Report>,
    /// Processes of the runtime, from `ps`.
    pub processes: Vec<Process>,
}

/// A node that did not.
#[derive(Clone, Debug)]
pub struct Unseen {
    /// It could be reached.
    pub reached: bool,
    /// Why.
    pub message: String,
}

/// What a node's engine is doing, as far as it is proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Proven: the agent lives, its word is fresh, the processes are there.
    Engine(State),
    /// A release is active, but the node is no rank of what is deployed.
    Idle,
    /// A release is active, and nothing runs.
    Down,
    /// A process runs, but there is no fresh word of a living agent.
    Silent,
    /// No release is active.
    NotDeployed,
    /// The node did not answer.
    Unknown,
}

impl Condition {
    /// The word for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::Engine(state) => state.as_str(),
            Condition::Idle => "idle",
            Condition::Down => "down",
            Condition::Silent => "silent",
            Condition::NotDeployed => "not-deployed",
            Condition::Unknown => "unknown",
        }
    }
}

impl NodeStatus {
    /// What is proven.
    pub fn condition(&self) -> Condition {
        let Ok(seen) = &self.seen else { return Condition::Unknown };
        let runs = !seen.processes.is_empty();
        match &seen.report {
            None if runs => Condition::Silent,
            None => Condition::NotDeployed,
            Some(report) if report.active.is_none() && !runs => Condition::NotDeployed,
            Some(report) => match report.believed() {
                Some(status) => {
                    // The word of the agent alone does not prove a process.
                    let alive = |pid: u32| seen.processes.iter().any(|p| p.pid == pid);
                    let proven = alive(status.agent_pid) && status.engine_pid.is_none_or(alive);
                    if proven { Condition::Engine(status.state) } else { Condition::Silent }
                }
                None if runs => Condition::Silent,
                None if report.configured.is_none() => Condition::Idle,
                None => Condition::Down,
            },
        }
    }
}

/// Asks all nodes at once. The order is the inventory's.
pub async fn inspect(inventory: &Inventory, fleet: &Fleet, book: &Arc<Playbook>, events: &Events) -> Vec<NodeStatus> {
    let work = inventory.nodes.iter().map(|node| async {
        let seen = match fleet.nodes.get(&node.name) {
            Some(Ok(remote)) => look(&RuntimeNode::new(inventory, book, remote, events)).await,
            Some(Err(e)) => Err(Unseen { reached: false, message: e.message.clone() }),
            None => Err(Unseen { reached: false, message: "no connection".to_owned() }),
        };
        NodeStatus { node: node.name.clone(), seen }
    });
    futures::future::join_all(work).await
}

async fn look(node: &RuntimeNode) -> Result<Seen, Unseen> {
    let unseen = |message: String| Unseen { reached: true, message };
    let (report, processes) = futures::join!(service::report(node), service::runtime_processes(node));
    Ok(Seen { report: report.map_err(unseen)?, processes: processes.map_err(|e| unseen(e.to_string()))? })
}
