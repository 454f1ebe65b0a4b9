//! The ring backend over the network that carries SSH.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use super::planner::{Planner, RING_PORT, socket, unreachable_by_loopback};
use super::types::RankError;
use crate::model::{Node, NodeName, Snapshot};

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

impl Planner<'_> {
    /// One port for each rank on the management network: above its own agent's, or, where nodes share an address
    /// and agents' ports stand too close, above the highest of all.
    pub(super) fn management_rows(&self) -> Result<Vec<Vec<SocketAddrV4>>, RankError> {
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

    /// Loopback addresses serve only nodes that all share one host.
    pub(super) fn reachable(&self, rows: &[Vec<SocketAddrV4>]) -> Result<(), RankError> {
        let loopback = |row: &Vec<SocketAddrV4>| row.iter().any(|s| s.ip().is_loopback());
        match self.nodes.iter().zip(rows).find(|(_, row)| loopback(row)) {
            Some((node, _)) if !rows.iter().all(loopback) => Err(unreachable_by_loopback(node)),
            _ => Ok(()),
        }
    }

    /// The node's address on that network.
    pub(super) fn management(&self, node: &Node) -> Result<Ipv4Addr, RankError> {
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
}
