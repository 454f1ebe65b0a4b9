//! The two files that deploy writes for a node: `rank.json` for the engine, `agent.json` for the agent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::{NodeName, Parallel};

/// Version of both files.
pub const CONFIG_VERSION: u32 = 1;

/// `rank.json`: the engine's whole configuration. The engine refuses keys it does not know, and so does the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankFile {
    /// [`CONFIG_VERSION`].
    pub schema_version: u32,
    /// The rack.
    pub rack: String,
    /// This node.
    pub node: NodeName,
    /// The release it runs.
    pub release: String,
    /// From 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    /// What is announced: `jaccl`, `jaccl-ring` or `ring`.
    pub backend: String,
    /// What MLX is asked for: `jaccl` or `ring`.
    pub mlx_backend: String,
    /// Environment for MLX, complete.
    pub env: BTreeMap<String, String>,
    /// The model.
    pub model: ModelRef,
    /// The model's own code may run.
    pub trust_remote_code: bool,
    /// How the ranks share the model; a file from before the key means tensor parallelism.
    #[serde(default)]
    pub parallel: Parallel,
    /// Where rank 0 serves; null on all others.
    pub api: Option<Api>,
    /// Seconds from `go` to ready.
    pub start_timeout_s: f64,
    /// Seconds between the meetings of idle ranks.
    pub idle_sync_s: f64,
}

/// A model folder on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelRef {
    /// Absolute path.
    pub path: String,
    /// The name clients use.
    pub id: String,
}

/// Where rank 0 serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// A loopback address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// `agent.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFile {
    /// [`CONFIG_VERSION`].
    pub schema_version: u32,
    /// Id of this launch: agents of different launches have nothing to do with each other.
    pub launch: String,
    /// User id the engine runs under.
    pub uid: u32,
    /// Group id the engine runs under.
    pub gid: u32,
    /// Every rank's agent, in order. Rank 0's listens at its address; the others connect to it.
    pub agents: Vec<AgentAt>,
    /// Until when the certificates hold.
    pub certificates_until: Timestamp,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentAt {
    /// Its node.
    pub node: NodeName,
    /// On the management network.
    pub address: SocketAddr,
    /// Whether its disk must be unlocked at the machine after a restart; none when nobody knows.
    pub filevault: Option<bool>,
}

/// Reads one of the two files.
///
/// # Errors
/// In words, with the path.
pub fn read<T: DeserializeOwned>(path: &str) -> Result<T, String> {
    let text = std::fs::read_to_string(Path::new(path)).map_err(|e| format!("cannot read {path}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))
}
