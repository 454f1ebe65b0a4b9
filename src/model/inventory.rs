//! The inventory as commands use it: every default filled in. `parse::inventory` reads it from YAML.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::NodeName;

/// A rack: its nodes and how to reach and run them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The rack's name.
    pub rack: String,
    /// Where the inventory was read from, for messages; none for one inside a snapshot.
    pub source: Option<PathBuf>,
    /// The text it was read from, kept so that a snapshot is complete in itself.
    pub text: String,
    /// Nodes in the order of the file (slot order is the reader's business). Names are unique.
    pub nodes: Vec<Node>,
    /// Nodes that this narrowed inventory does not have, by their place in the file: empty for a whole one. See
    /// [`Inventory::places`].
    pub left_out: BTreeMap<usize, NodeName>,
    /// Defaults of all connections.
    pub ssh: Ssh,
    /// Pool from which the link networks (one /30 each) are taken.
    pub pool: Ipv4Net,
    /// What runs on the nodes.
    pub runtime: Runtime,
    /// Node-side paths.
    pub paths: Paths,
}

impl Inventory {
    /// The node of that name.
    pub fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.iter().find(|n| &n.name == name)
    }

    /// All names in the order of the file, those that are left out included: their numbers give the link networks, which do
    /// not change when fewer nodes take part in something.
    pub fn places(&self) -> Vec<&NodeName> {
        let mut all: Vec<&NodeName> = self.nodes.iter().map(|n| &n.name).collect();
        for (place, name) in &self.left_out {
            all.insert((*place).min(all.len()), name);
        }
        all
    }

    /// This inventory with these nodes only.
    #[must_use]
    pub fn narrowed(&self, keep: impl Fn(&NodeName) -> bool) -> Inventory {
        let places = self.places().into_iter().cloned().enumerate();
        let left_out = places.filter(|(_, name)| self.node(name).is_none() || !keep(name)).collect();
        let nodes = self.nodes.iter().filter(|n| keep(&n.name)).cloned().collect();
        Inventory { nodes, left_out, ..self.clone() }
    }

    /// How a node is called for people: `studio-2 (slot 2)`.
    pub fn label(&self, name: &NodeName) -> String {
        match self.node(name).and_then(|n| n.slot) {
            Some(slot) => format!("{name} (slot {slot})"),
            None => name.to_string(),
        }
    }
}

/// One Mac.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique name.
    pub name: NodeName,
    /// Host name, address, or alias of `~/.ssh/config`.
    pub host: String,
    /// Place in the rack, counted by the owner.
    pub slot: Option<u32>,
    /// Overrides `ssh.port`.
    pub port: Option<u16>,
    /// Overrides `ssh.user`.
    pub user: Option<String>,
    /// Overrides `ssh.identity`.
    pub identity: Option<PathBuf>,
    /// Port of the agent on this node.
    pub agent_port: u16,
    /// Overrides of `paths.root` for this node alone.
    pub root: Option<String>,
}

/// Defaults of all connections. `None` means: as `~/.ssh/config` says, else OpenSSH's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ssh {
    /// Login name.
    pub user: Option<String>,
    /// TCP port.
    pub port: Option<u16>,
    /// Private key file, `~` expanded.
    pub identity: Option<PathBuf>,
    /// Known hosts file, `~` expanded.
    pub known_hosts: Option<PathBuf>,
    /// Jump host, `[user@]host[:port]`, comma separated for several.
    pub jump: Option<String>,
    /// `false` for the OpenSSH agent and `~/.ssh/config` to be left alone.
    pub use_config: bool,
}

/// How tensors cross the rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The best the cabling and the platform allow; announced.
    Auto,
    /// RDMA over a full mesh of cables.
    Jaccl,
    /// RDMA over a ring of cables.
    JacclRing,
    /// TCP over a ring.
    Ring,
}

/// Which network the ring backend uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// The cables' link networks.
    Links,
    /// The network that carries SSH: slow and unprotected, announced as such; ring only.
    Management,
}

/// How the ranks share a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parallel {
    /// Every rank computes a part of every layer.
    #[default]
    Tensor,
    /// Every rank computes some of the layers, one rank after the other.
    Pipeline,
}

/// What runs on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Model folder on every node (mlx-lm layout), before `paths.root` is put in front.
    pub model: Option<String>,
    /// Backend.
    pub backend: Backend,
    /// Network of the ring backend.
    pub over: Over,
    /// How the ranks share the model; none for as deploy finds best.
    pub parallel: Option<Parallel>,
    /// Absolute path of a Python on the nodes; none = the bundle's.
    pub python: Option<String>,
    /// Where rank 0's node serves the API; loopback only.
    pub api: SocketAddr,
    /// Lets a model's own code run (Kimi's tokenizer needs it).
    pub trust_remote_code: bool,
    /// The nodes that become ranks; none for as many as the model runs on.
    pub nodes: Option<Vec<NodeName>>,
}

/// Node-side paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Put in front of every node-side path; `/` on a real rack.
    pub root: String,
    /// Where releases live, below the root.
    pub install: String,
}

impl Paths {
    /// A node-side path with the node's root in front: `/opt/x` → `<root>/opt/x`.
    pub fn rooted(root: &str, path: &str) -> String {
        let root = root.trim_end_matches('/');
        if path.starts_with('/') { format!("{root}{path}") } else { format!("{root}/{path}") }
    }
}

/// Facts of the rack that do not come from the nodes, by node: kept small on purpose.
pub type ByNode<T> = BTreeMap<NodeName, T>;
