//! The ring backend over the cables, and what both networks of that backend share.

use std::net::SocketAddrV4;

use serde_json::json;

use super::planner::{Planner, RING_PORT, no_network, socket};
use super::types::{RankError, RankPlan, Topology};
use crate::model::{Backend, Node, Over};

impl<'a> Planner<'a> {
    /// TCP between neighbours.
    pub(super) fn ring(&self) -> Result<RankPlan, RankError> {
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
}
