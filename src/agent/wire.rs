//! What agents say to each other: JSON lines over mutual TLS. Rank 0's agent leads, the others follow.
//!
//! Everything is said again every second, so that a line that was lost, or a connection that was made anew, changes
//! nothing: an order is the state that is wanted, a report the state that is.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::status::{EngineError, State};
use crate::model::NodeName;

/// Version of this protocol; agents of one launch are of one release, so it only guards against strangers.
pub const PROTOCOL: u32 = 1;
/// Orders and reports are repeated this often.
pub const REPEAT: Duration = Duration::from_secs(1);
/// Nobody heard for so long is lost.
pub const LOST: Duration = Duration::from_secs(6);
/// Longest line, bytes.
pub const MAX_LINE: usize = 64 * 1024;

/// The first line of a follower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// Who it is.
    pub node: NodeName,
    /// Its rank, from 1.
    pub rank: u32,
    /// The release it runs.
    pub release: String,
    /// The launch it belongs to.
    pub launch: String,
}

/// What a node's engine is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The epoch its last engine belongs to; 0 before the first.
    pub epoch: u64,
    /// What it is doing.
    pub state: State,
    /// A process of the engine exists.
    pub runs: bool,
    /// Why it ended, when it should not have.
    pub failure: Option<EngineError>,
    /// Engines that did not end by themselves since this boot of the node: each can have kept RDMA resources.
    pub debits: u32,
}

impl Report {
    /// Of an agent that has just begun.
    pub fn idle() -> Self {
        Report { epoch: 0, state: State::Waiting, runs: false, failure: None, debits: 0 }
    }
}

/// What rank 0's agent wants of every engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Want {
    /// No engine.
    Stop,
    /// An engine of this epoch, which waits.
    Prepare,
    /// That engine has joined the others.
    Go,
}

/// A line of the leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Counts starts of the whole group.
    pub epoch: u64,
    /// What is wanted.
    pub want: Want,
    /// What the group is doing, for the status of every node.
    pub group: Group,
}

/// What all ranks together are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPhase {
    /// Waits for agents.
    Gathering,
    /// All engines are being started.
    Starting,
    /// All engines serve.
    Serving,
    /// All engines are being stopped.
    Stopping,
    /// Waits before the next start.
    Pausing,
    /// Starts no more by itself.
    Degraded,
}

impl GroupPhase {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            GroupPhase::Gathering => "gathering",
            GroupPhase::Starting => "starting",
            GroupPhase::Serving => "serving",
            GroupPhase::Stopping => "stopping",
            GroupPhase::Pausing => "pausing",
            GroupPhase::Degraded => "degraded",
        }
    }
}

/// The group as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What it is doing.
    pub phase: GroupPhase,
    /// Since when.
    pub since: Timestamp,
    /// Why, in words; none when all is well.
    pub why: Option<String>,
    /// Starts that failed since the service last held.
    pub attempts: u32,
    /// How many of them end it.
    pub budget: u32,
    /// Nodes whose agent is not there.
    pub missing: Vec<NodeName>,
    /// The newest ends that nobody had asked for, oldest first.
    pub restarts: Vec<Restart>,
    /// When degraded: nodes to restart, in this order.
    pub reboot: Vec<Reboot>,
}

/// A node to restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reboot {
    /// Which.
    pub node: NodeName,
    /// Its disk must be unlocked by somebody at the machine; none when nobody knows.
    pub filevault: Option<bool>,
}

/// One end that nobody had asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// When.
    pub at: Timestamp,
    /// The epoch that ended.
    pub epoch: u64,
    /// Where it began, if that is known.
    pub node: Option<NodeName>,
    /// Kind as the engine names it, or `agent` or `lost`.
    pub kind: String,
    /// In words.
    pub why: String,
}
