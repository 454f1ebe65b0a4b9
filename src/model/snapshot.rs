//! The recorded facts of a rack, raw transcripts included. Everything read-only can run from one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{NodeFacts, NodeName};

/// Version of the snapshot file.
pub const SNAPSHOT_VERSION: u32 = 1;

/// A rack at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`].
    pub schema_version: u32,
    /// When collection began, UTC.
    pub taken_at: Timestamp,
    /// Version of macluster that took it.
    pub tool_version: String,
    /// The inventory's text, so that the file is complete in itself.
    pub inventory: String,
    /// Every node of the inventory.
    pub nodes: BTreeMap<NodeName, NodeRecord>,
}

impl Snapshot {
    /// Facts of a node that answered.
    pub fn facts(&self, node: &NodeName) -> Option<&NodeFacts> {
        self.nodes.get(node)?.facts.as_ref().ok()
    }

    /// Nodes that answered, with their facts.
    pub fn answered(&self) -> impl Iterator<Item = (&NodeName, &NodeFacts)> {
        self.nodes.iter().filter_map(|(n, r)| r.facts.as_ref().ok().map(|f| (n, f)))
    }
}

/// One node's facts or failure, and what was really printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Facts, or why there are none.
    pub facts: Result<NodeFacts, CollectFailure>,
    /// What ran and what it printed, in the order of the probe table.
    pub transcripts: Vec<Transcript>,
}

/// Why a node gave no facts at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectFailure {
    /// Kind of trouble.
    pub kind: FailureKind,
    /// What happened, safe to print, without the node's name.
    pub message: String,
    /// Next action.
    pub hint: Option<String>,
}

/// Kinds of [`CollectFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Name resolution, TCP or the SSH handshake failed or took too long.
    Unreachable,
    /// The host's key is not known yet.
    UnknownHostKey,
    /// The host's key differs from the known one, or is revoked.
    ChangedHostKey,
    /// The host did not accept the user's keys.
    Authentication,
    /// No key of the user's could be used: there is none, or the file meant is missing, unreadable or locked.
    OwnKey,
    /// The connection broke while facts were read.
    Lost,
}

/// One command and what it printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    /// Id of the probe, e.g. `thunderbolt`.
    pub probe: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Exit status; none on a signal or when it did not end.
    pub exit: Option<i32>,
    /// Standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Standard error, invalid UTF-8 replaced.
    pub stderr: String,
    /// Output was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Why it did not run or end (timeout, channel refused).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
