//! Who is rank 0, and what every rank's process gets: environment, hostfile, device matrix.
//!
//! Shapes after MLX 0.32.4 (`mlx/_distributed_utils`, `distributed/ring/ring.cpp`, `distributed/jaccl/lib`):
//! - ring: `MLX_HOSTFILE` is a list by rank of `ip:port` lists. Rank r listens on its own row, rank r−1 dials it;
//!   so row r holds r's addresses towards r−1. Every row has as many entries.
//! - jaccl: `MLX_IBV_DEVICES` is a matrix rank × rank of null, a device or a list of devices. A mesh uses the first
//!   device of every pair; a ring (`MLX_JACCL_RING` present, whatever its value) all devices of both neighbours,
//!   the k-th on both sides the same cable. `MLX_JACCL_COORDINATOR` is split at the first colon: IPv4 only.
//!
//! `MLX_METAL_FAST_SYNCH` stays unset: it hangs GPUs (MLX's own documentation advises against it).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use serde_json::{Value, json};

use super::graph::{Link, LinkGraph, LinkId};
use super::{ring, usable};
use crate::model::hardware::MESH_MAX_NODES;
use crate::model::{Backend, Inventory, Node, NodeName, Over, Snapshot};

/// Most devices per neighbour in JACCL's ring (`RING_MAX_CONNS` in MLX's `ring_impl.h`).
const RING_MAX_RAILS: usize = 4;
/// Added to the agent's port: the ring's first TCP port.
const RING_PORT: u16 = 1;
/// Added to rank 0's agent port: JACCL's coordinator.
const COORDINATOR_PORT: u16 = 9;

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
    fn new(message: impl Into<String>, hint: &str) -> Self {
        RankError { message: message.into(), hints: vec![hint.to_owned()] }
    }
}

impl fmt::Display for RankError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RankError {}

/// Nodes in the order of ranks: by slot, those without a slot last, then as in the file. Rings permute all but the
/// first.
pub fn order(inventory: &Inventory) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = inventory.nodes.iter().collect();
    nodes.sort_by_key(|n| (n.slot.is_none(), n.slot));
    nodes
}

/// The numeric IPv4 address by which a node is managed: its end of the SSH session; for a session over IPv6 the
/// IPv4 address of the same interface.
pub fn management_address(snapshot: &Snapshot, node: &NodeName) -> Option<Ipv4Addr> {
    let facts = snapshot.facts(node)?;
    match facts.session.local_address? {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => v6.to_ipv4_mapped().or_else(|| {
            let interfaces = facts.interfaces.as_ref().ok()?;
            interfaces.iter().find(|i| i.inet6.contains(&v6))?.inet.first().map(|a| a.address)
        }),
    }
}

/// Makes the plan.
///
/// # Errors
/// Names the nodes or links that make the wanted backend impossible. `Backend::Auto` fails only when no path is left.
pub fn plan(request: &Request<'_>) -> Result<RankPlan, RankError> {
    let nodes = order(request.inventory);
    if let Some(silent) = nodes.iter().find(|n| request.snapshot.facts(&n.name).is_none()) {
        return Err(RankError::new(
            format!(
                "{} did not answer: ranks are planned for all nodes or none",
                request.inventory.label(&silent.name)
            ),
            "run `macluster doctor` to see why; take a node that is gone out of macluster.yaml",
        ));
    }
    let planner = Planner { request, nodes };
    let mut plan = match (planner.nodes.len(), request.backend) {
        (0, _) => return Err(RankError::new("the inventory has no nodes", "add nodes to macluster.yaml")),
        (1, _) => Ok(planner.single()),
        (_, Backend::Auto) => planner.auto(),
        (_, Backend::Jaccl) => planner.jaccl(),
        (_, Backend::JacclRing) => planner.jaccl_ring(),
        (_, Backend::Ring) => planner.ring(),
    }?;
    if plan.topology == Topology::Management {
        plan.notes.push(
            "ring over the management network: tensors cross it unencrypted and at its speed, far slower than \
             Thunderbolt"
                .to_owned(),
        );
    }
    Ok(plan)
}

struct Planner<'a> {
    request: &'a Request<'a>,
    nodes: Vec<&'a Node>,
}

/// A ring of nodes and, for each member, the rails to the next one.
struct Ring<'a> {
    nodes: Vec<&'a Node>,
    rails: Vec<Vec<&'a Link>>,
}

impl<'a> Planner<'a> {
    fn auto(&self) -> Result<RankPlan, RankError> {
        let mut notes = Vec::new();
        for backend in ["jaccl", "jaccl-ring", "ring"] {
            let plan = match backend {
                "jaccl" => self.jaccl(),
                // The note on jaccl already says that there is no JACCL at all.
                "jaccl-ring" if !self.request.jaccl_available => continue,
                "jaccl-ring" => self.jaccl_ring(),
                _ => self.ring(),
            };
            match plan {
                Ok(mut plan) => {
                    notes.append(&mut plan.notes);
                    plan.notes = notes;
                    return Ok(plan);
                }
                Err(error) => notes.push(format!("not {backend}: {error}")),
            }
        }
        Err(RankError {
            message: format!("no backend is possible:\n  {}", notes.join("\n  ")),
            hints: vec![
                "run `macluster doctor` for each cause and its remedy".to_owned(),
                "`runtime.over: management` runs without Thunderbolt: slow and unprotected".to_owned(),
            ],
        })
    }

    fn single(&self) -> RankPlan {
        self.finish(Backend::Ring, "ring", Topology::Single, &self.nodes, |_| (vec![], None))
    }

    fn jaccl(&self) -> Result<RankPlan, RankError> {
        self.jaccl_exists()?;
        if self.nodes.len() > MESH_MAX_NODES as usize {
            return Err(RankError::new(
                format!("a mesh has at most {MESH_MAX_NODES} nodes, the rack has {}", self.nodes.len()),
                "use `runtime.backend: jaccl-ring`",
            ));
        }
        let mut row = vec![vec![Value::Null; self.nodes.len()]; self.nodes.len()];
        let mut problems = Vec::new();
        for (i, one) in self.nodes.iter().enumerate() {
            for (j, other) in self.nodes.iter().enumerate().skip(i + 1) {
                match self.rails(&one.name, &other.name, true) {
                    Ok(rails) => {
                        // A mesh uses one device for each pair: the first rail.
                        for (from, to, node) in [(i, j, *one), (j, i, *other)] {
                            let device = rails.first().and_then(|l| l.interface(&node.name)).map(usable::rdma_device);
                            if let (Some(device), Some(cell)) = (device, row.get_mut(from).and_then(|r| r.get_mut(to)))
                            {
                                *cell = json!(device);
                            }
                        }
                    }
                    Err(problem) => problems.push(problem),
                }
            }
        }
        if !problems.is_empty() {
            return Err(RankError::new(
                format!("the mesh is not complete: {}", several(&problems)),
                "run `macluster doctor --check mesh.complete`, or use `runtime.backend: auto`",
            ));
        }
        self.finish_jaccl(Backend::Jaccl, Topology::Mesh, &self.nodes, &json!(row), false)
    }

    fn jaccl_ring(&self) -> Result<RankPlan, RankError> {
        self.jaccl_exists()?;
        let ring = self.find_ring(true)?;
        let n = ring.nodes.len();
        let mut matrix = vec![vec![Value::Null; n]; n];
        for (i, rails) in ring.rails.iter().enumerate() {
            let next = (i + 1) % n;
            for (from, to) in [(i, next), (next, i)] {
                let Some(node) = ring.nodes.get(from) else { continue };
                let devices: Vec<String> =
                    rails.iter().filter_map(|l| l.interface(&node.name)).map(usable::rdma_device).collect();
                let cell = if let [device] = devices.as_slice() { json!(device) } else { json!(devices) };
                if let Some(target) = matrix.get_mut(from).and_then(|r| r.get_mut(to)) {
                    *target = cell;
                }
            }
        }
        self.finish_jaccl(Backend::JacclRing, Topology::Ring, &ring.nodes, &json!(matrix), true)
    }

    /// One port for each rank on the management network: above its own agent's, or, where nodes share an address
    /// and agents' ports stand too close, above the highest of all.
    fn management_rows(&self) -> Result<Vec<Vec<SocketAddrV4>>, RankError> {
        let addresses = self.nodes.iter().map(|n| self.management(n)).collect::<Result<Vec<_>, _>>()?;
        let agents = self.nodes.iter().zip(&addresses).map(|(n, ip)| SocketAddrV4::new(*ip, n.agent_port));
        let mut taken: BTreeSet<SocketAddrV4> = agents.collect();
        let near = self.nodes.iter().zip(&addresses).map(|(n, ip)| socket(*ip, n, RING_PORT));
        let near = near.collect::<Result<Vec<_>, _>>()?;
        if near.iter().all(|s| taken.insert(*s)) {
            return Ok(near.into_iter().map(|s| vec![s]).collect());
        }
        let Some(highest) = self.nodes.iter().max_by_key(|n| n.agent_port) else { return Ok(Vec::new()) };
        (RING_PORT..).zip(&addresses).map(|(offset, ip)| Ok(vec![socket(*ip, highest, offset)?])).collect()
    }

    fn ring(&self) -> Result<RankPlan, RankError> {
        if self.request.over == Over::Management {
            let rows = self.management_rows()?;
            self.reachable(&rows)?;
            return self.finish_ring(Topology::Management, &self.nodes, &rows);
        }
        let ring = self.find_ring(false)?;
        let n = ring.nodes.len();
        let mut rows = Vec::new();
        for (i, node) in ring.nodes.iter().enumerate() {
            // Rank i listens towards rank i−1: the rails that begin there.
            let rails = ring.rails.get((i + n - 1) % n).map_or(&[][..], Vec::as_slice);
            let row = (RING_PORT..)
                .zip(rails)
                .map(|(offset, link)| {
                    let (a, b) = (self.request.addresses)(&link.id).ok_or_else(|| no_network(link))?;
                    socket(if link.id.a.node == node.name { a } else { b }, node, offset)
                })
                .collect::<Result<Vec<_>, RankError>>()?;
            rows.push(row);
        }
        self.finish_ring(Topology::Ring, &ring.nodes, &rows)
    }

    /// Loopback addresses serve only nodes that all share one host.
    fn reachable(&self, rows: &[Vec<SocketAddrV4>]) -> Result<(), RankError> {
        let loopback = |row: &Vec<SocketAddrV4>| row.iter().any(|s| s.ip().is_loopback());
        match self.nodes.iter().zip(rows).find(|(_, row)| loopback(row)) {
            Some((node, _)) if !rows.iter().all(loopback) => Err(unreachable_by_loopback(node)),
            _ => Ok(()),
        }
    }

    fn jaccl_exists(&self) -> Result<(), RankError> {
        if !self.request.jaccl_available {
            return Err(RankError::new(
                "the runtime for the nodes' platform has no JACCL: RDMA needs macOS on Apple silicon",
                "use `runtime.backend: ring`",
            ));
        }
        let mut builds: BTreeMap<String, &NodeName> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(Ok(os)) = self.request.snapshot.facts(&node.name).map(|f| &f.os) {
                builds.entry(os.to_string()).or_insert(&node.name);
            }
        }
        if builds.len() > 1 {
            let seen = builds.iter().map(|(os, node)| format!("{node} {os}")).collect::<Vec<_>>().join(", ");
            return Err(RankError::new(
                format!("macOS differs between the nodes ({seen}): RDMA needs the identical build everywhere"),
                "run `macluster doctor --check host.macos-identical`",
            ));
        }
        Ok(())
    }

    /// Links of a pair that serve, in order of rails; else why there are none.
    fn rails(&self, one: &NodeName, other: &NodeName, rdma: bool) -> Result<Vec<&'a Link>, String> {
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

    fn find_ring(&self, rdma: bool) -> Result<Ring<'a>, RankError> {
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

    fn management(&self, node: &Node) -> Result<Ipv4Addr, RankError> {
        management_address(self.request.snapshot, &node.name).ok_or_else(|| {
            RankError::new(
                format!(
                    "{} has no known IPv4 address on its management network (MLX takes no IPv6)",
                    self.request.inventory.label(&node.name)
                ),
                "give the node an IPv4 address on the network that carries SSH",
            )
        })
    }

    fn finish_jaccl(
        &self,
        backend: Backend,
        topology: Topology,
        nodes: &[&'a Node],
        matrix: &Value,
        ring: bool,
    ) -> Result<RankPlan, RankError> {
        let Some(first) = nodes.first() else { return Ok(self.single()) };
        let coordinator = socket(self.management(first)?, first, COORDINATOR_PORT)?;
        if coordinator.ip().is_loopback() {
            return Err(unreachable_by_loopback(first));
        }
        Ok(self.finish(backend, "jaccl", topology, nodes, |etc| {
            let mut env = vec![
                ("MLX_IBV_DEVICES", format!("{etc}/devices.json")),
                ("MLX_JACCL_COORDINATOR", coordinator.to_string()),
            ];
            if ring {
                env.push(("MLX_JACCL_RING", "1".to_owned()));
            }
            (env, Some(("devices.json", matrix.clone())))
        }))
    }

    fn finish_ring(
        &self,
        topology: Topology,
        nodes: &[&'a Node],
        rows: &[Vec<SocketAddrV4>],
    ) -> Result<RankPlan, RankError> {
        let taken: Vec<(SocketAddrV4, String)> = nodes
            .iter()
            .zip(rows)
            .flat_map(|(node, row)| {
                let ring = row.iter().map(|s| (*s, format!("ring port of {}", node.name)));
                // The agent listens on the management address only.
                let agent = row
                    .iter()
                    .filter(|_| topology == Topology::Management)
                    .map(|s| (SocketAddrV4::new(*s.ip(), node.agent_port), format!("agent port of {}", node.name)));
                ring.chain(agent).collect::<Vec<_>>()
            })
            .collect();
        for (i, (address, what)) in taken.iter().enumerate() {
            if let Some((_, other)) = taken.iter().skip(i + 1).find(|(a, w)| a == address && w != what) {
                return Err(RankError::new(
                    format!("{address} would be both the {what} and the {other}"),
                    "nodes that share an address need `agent_port`s at least 10 apart",
                ));
            }
        }
        let hostfile = json!(rows.iter().map(|r| r.iter().map(ToString::to_string).collect()).collect::<Vec<Vec<_>>>());
        Ok(self.finish(Backend::Ring, "ring", topology, nodes, |etc| {
            (vec![("MLX_HOSTFILE", format!("{etc}/hostfile.json"))], Some(("hostfile.json", hostfile.clone())))
        }))
    }

    fn finish(
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

fn socket(ip: Ipv4Addr, node: &Node, offset: u16) -> Result<SocketAddrV4, RankError> {
    node.agent_port.checked_add(offset).map(|port| SocketAddrV4::new(ip, port)).ok_or_else(|| {
        RankError::new(
            format!("{}: agent port {} leaves no room for the {offset} ports above it", node.name, node.agent_port),
            "choose an `agent_port` below 65500",
        )
    })
}

fn unreachable_by_loopback(node: &Node) -> RankError {
    RankError::new(
        format!("{} is managed over its loopback address, where no other node reaches it", node.name),
        "give the node's address on the management network as its `host`",
    )
}

fn no_network(link: &Link) -> RankError {
    RankError::new(format!("the link {} has no link network", link.id), "run `macluster network plan`")
}

/// The first few, and how many more.
fn several(problems: &[String]) -> String {
    let shown = problems.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    match problems.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
