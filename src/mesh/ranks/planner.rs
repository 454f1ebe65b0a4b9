//! What every backend's planning needs: the nodes in order, the rails of a pair, a ring among the cables.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use serde_json::Value;

use super::types::{Rank, RankError, RankPlan, Request, Topology};
use crate::mesh::graph::Link;
use crate::mesh::{ring, usable};
use crate::model::{Backend, Node, NodeName};

/// Most devices per neighbour in JACCL's ring (`RING_MAX_CONNS` in MLX's `ring_impl.h`).
const RING_MAX_RAILS: usize = 4;
/// Added to the agent's port: the ring's first TCP port.
pub const RING_PORT: u16 = 1;

/// One planning: the request and its nodes in the order of ranks.
pub(super) struct Planner<'a> {
    pub(super) request: &'a Request<'a>,
    pub(super) nodes: Vec<&'a Node>,
}

/// A ring of nodes and, for each member, the rails to the next one.
pub(super) struct Ring<'a> {
    pub(super) nodes: Vec<&'a Node>,
    pub(super) rails: Vec<Vec<&'a Link>>,
}

impl<'a> Planner<'a> {
    /// Links of a pair that serve, in order of rails; else why there are none.
    pub(super) fn rails(&self, one: &NodeName, other: &NodeName, rdma: bool) -> Result<Vec<&'a Link>, String> {
        let mut good = Vec::new();
        let mut why = Vec::new();
        for link in self.request.graph.between(one, other) {
            let addresses = (self.request.addresses)(&link.id);
            let verdict = if rdma {
                usable::rdma_ready(link, self.request.snapshot, addresses)
            } else {
                addresses.map(|_| ()).ok_or_else(|| "has no link network".to_owned())
            };
            match verdict {
                Ok(()) => good.push(link),
                Err(reason) => why.push(format!("the cable {} {reason}", link.id)),
            }
        }
        if !good.is_empty() {
            return Ok(good);
        }
        Err(if why.is_empty() { format!("no cable joins {one} and {other}") } else { why.join(", ") })
    }

    /// A ring through all nodes over as many rails as every pair of neighbours in it has.
    pub(super) fn find_ring(&self, rdma: bool) -> Result<Ring<'a>, RankError> {
        let n = self.nodes.len();
        let mut rails: BTreeMap<(usize, usize), Vec<&'a Link>> = BTreeMap::new();
        let mut problems = Vec::new();
        for (i, one) in self.nodes.iter().enumerate() {
            for (j, other) in self.nodes.iter().enumerate().skip(i + 1) {
                match self.rails(&one.name, &other.name, rdma) {
                    Ok(links) => {
                        rails.insert((i, j), links);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
        }
        let count = |a: usize, b: usize| rails.get(&(a.min(b), a.max(b))).map_or(0, Vec::len);
        let most = rails.values().map(Vec::len).max().unwrap_or(0).min(RING_MAX_RAILS);
        // As many rails as a whole ring can have: every neighbour pair needs the same number.
        for wanted in (1..=most).rev() {
            if let Some(cycle) = ring::cycle(n, &|a, b| count(a, b) >= wanted) {
                let pairs = cycle.iter().zip(cycle.iter().cycle().skip(1));
                let chosen = pairs
                    .map(|(a, b)| {
                        let links = rails.get(&(*a.min(b), *a.max(b))).map_or(&[][..], Vec::as_slice);
                        links.iter().take(wanted).copied().collect()
                    })
                    .collect();
                let nodes = cycle.iter().filter_map(|i| self.nodes.get(*i).copied()).collect();
                return Ok(Ring { nodes, rails: chosen });
            }
        }
        let what = if rdma { "RDMA-ready links" } else { "links" };
        Err(RankError::new(
            format!("no ring of {what} runs through all {n} nodes: {}", several(&problems)),
            "run `macluster cabling` to see who is connected to whom",
        ))
    }

    /// Environment and files of every rank.
    pub(super) fn finish(
        &self,
        backend: Backend,
        mlx_backend: &'static str,
        topology: Topology,
        nodes: &[&'a Node],
        of: impl Fn(&str) -> (Vec<(&'static str, String)>, Option<(&'static str, Value)>),
    ) -> RankPlan {
        let ranks = nodes
            .iter()
            .enumerate()
            .map(|(rank, node)| {
                let (env, file) = of((self.request.etc)(&node.name).trim_end_matches('/'));
                let mut env: BTreeMap<String, String> = env.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
                if topology != Topology::Single {
                    env.insert("MLX_RANK".to_owned(), rank.to_string());
                }
                let files = file.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                Rank { rank, node: node.name.clone(), env, files }
            })
            .collect();
        RankPlan { backend, mlx_backend, topology, ranks, notes: Vec::new() }
    }
}

/// A port of the node, `offset` above its agent's.
pub(super) fn socket(ip: Ipv4Addr, node: &Node, offset: u16) -> Result<SocketAddrV4, RankError> {
    node.agent_port.checked_add(offset).map(|port| SocketAddrV4::new(ip, port)).ok_or_else(|| {
        RankError::new(
            format!("{}: agent port {} leaves no room for the {offset} ports above it", node.name, node.agent_port),
            "choose an `agent_port` below 65500",
        )
    })
}

pub(super) fn unreachable_by_loopback(node: &Node) -> RankError {
    RankError::new(
        format!("{} is managed over its loopback address, where no other node reaches it", node.name),
        "give the node's address on the management network as its `host`",
    )
}

pub(super) fn no_network(link: &Link) -> RankError {
    RankError::new(format!("the link {} has no link network", link.id), "run `macluster network plan`")
}

/// The first few, and how many more.
pub(super) fn several(problems: &[String]) -> String {
    let shown = problems.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match problems.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
