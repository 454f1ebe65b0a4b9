//! What a node's own macluster says of the runtime that is deployed there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of [`RuntimeFacts`] as the node prints it.
pub const RUNTIME_VERSION: u32 = 1;

/// A node with an active release, as `macluster node inspect` finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFacts {
    /// [`RUNTIME_VERSION`].
    pub schema_version: u32,
    /// The active release.
    pub release: String,
    /// Files of it that are missing or have another size, at most a few.
    pub damaged: Vec<String>,
    /// What the configuration in place says; none on a node that stays idle.
    pub rank: Option<RankFacts>,
    /// What the agent says; none when none lives, or its word is old.
    pub agent: Option<AgentFacts>,
    /// What the release's Python said when it was started: the version of MLX.
    pub python: Result<String, String>,
    /// The node's clock.
    pub now: Timestamp,
}

/// One rank's configuration, and what it needs of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFacts {
    /// The launch it belongs to.
    pub launch: String,
    /// The release it was made for.
    pub release: String,
    /// From 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    /// `jaccl`, `jaccl-ring` or `ring`.
    pub backend: String,
    /// Folder of the model.
    pub model: String,
    /// What was seen there.
    pub folder: Result<FolderFacts, String>,
    /// Until when the agents' certificates hold.
    pub certificates_until: Timestamp,
    /// What it will listen at.
    pub ports: Vec<PortFacts>,
}

/// A model folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderFacts {
    /// `model_type` of its configuration.
    pub model_type: String,
    /// Bytes of its weight files.
    pub bytes: u64,
    /// SHA-256 over the names and sizes of all files, the headers of the weights, and the small files' contents.
    pub digest: String,
    /// Bytes of weights that a rank holds; none for an architecture that is not known.
    pub share: Option<Result<u64, String>>,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// Whose: `agent` or `API`.
    pub what: String,
    /// Address and port.
    pub at: String,
    /// Why it cannot be had; none when it can, or when the agent or engine that it is for has it.
    pub taken: Option<String>,
}

/// A living agent's word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFacts {
    /// What the engine is doing, e.g. `ready`.
    pub engine: String,
    /// Start of the whole group.
    pub epoch: u64,
    /// Why the engine ended, or does not start.
    pub error: Option<String>,
    /// Nothing is started any more: what led to it.
    pub degraded: Option<String>,
    /// What the engine's own process could reach when it started, in the context that launchd gives it.
    pub reach: Vec<Reach>,
}

/// One attempt of the engine to open a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Where to.
    pub address: String,
    /// The error's number on that system; 0 when it was opened.
    pub errno: i32,
    /// Its name, e.g. `EHOSTUNREACH`; empty without one.
    pub name: String,
}
