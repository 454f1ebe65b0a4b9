//! What a rank plan is made from, what it consists of, and why there may be none.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use serde_json::Value;

use crate::mesh::graph::{LinkGraph, LinkId};
use crate::model::{Backend, Inventory, NodeName, Over, Snapshot};

/// Addresses of a link's two ends, in the order of its id; none when it has no link network.
pub type Addresses<'a> = dyn Fn(&LinkId) -> Option<(Ipv4Addr, Ipv4Addr)> + 'a;

/// What a plan is made from.
pub struct Request<'a> {
    /// Cables.
    pub graph: &'a LinkGraph,
    /// Nodes, their order and ports.
    pub inventory: &'a Inventory,
    /// Facts: management addresses, RDMA devices.
    pub snapshot: &'a Snapshot,
    /// Wanted backend.
    pub backend: Backend,
    /// Network of the ring backend.
    pub over: Over,
    /// The runtime that will be installed has JACCL (MLX for Linux has not).
    pub jaccl_available: bool,
    /// The link networks.
    pub addresses: &'a Addresses<'a>,
    /// Absolute path of the folder for a node's files, root included.
    pub etc: &'a dyn Fn(&NodeName) -> String,
}

/// How the ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One rank.
    Single,
    /// Every pair over its own cable.
    Mesh,
    /// Neighbours over cables.
    Ring,
    /// Neighbours over the management network.
    Management,
}

/// One rank's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number.
    pub rank: usize,
    /// Where it runs.
    pub node: NodeName,
    /// Its complete MLX environment. The process must inherit no other `MLX_*` or `JACCL_*` variable: JACCL
    /// prefers `JACCL_RANK` and its kin, and takes the mere presence of `MLX_JACCL_RING` as yes.
    pub env: BTreeMap<String, String>,
    /// Files it reads: name inside the node's folder, content.
    pub files: Vec<(String, Value)>,
}

/// Every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankPlan {
    /// What is announced; never `Auto`.
    pub backend: Backend,
    /// What `mx.distributed.init` gets: `jaccl` or `ring`.
    pub mlx_backend: &'static str,
    /// Topology.
    pub topology: Topology,
    /// Ranks in order.
    pub ranks: Vec<Rank>,
    /// Remarks that must be shown: every slower or less protected path than the best, and why.
    pub notes: Vec<String>,
}

/// Why no plan can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankError {
    /// What is wrong, naming nodes.
    pub message: String,
    /// Next actions.
    pub hints: Vec<String>,
}

impl RankError {
    pub(super) fn new(message: impl Into<String>, hint: &str) -> Self {
        RankError { message: message.into(), hints: vec![hint.to_owned()] }
    }
}

impl fmt::Display for RankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RankError {}
