//! JACCL: the device matrix of a mesh and of a ring.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::planner::{Planner, several, socket, unreachable_by_loopback};
use super::types::{RankError, RankPlan, Topology};
use crate::mesh::usable;
use crate::model::hardware::MESH_MAX_NODES;
use crate::model::{Backend, Node, NodeName};

/// Added to rank 0's agent port: JACCL's coordinator.
pub const COORDINATOR_PORT: u16 = 9;

impl<'a> Planner<'a> {
    /// Every pair over its own cable.
    pub(super) fn jaccl(&self) -> Result<RankPlan, RankError> {
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

    /// Neighbours over all rails that every pair of neighbours has.
    pub(super) fn jaccl_ring(&self) -> Result<RankPlan, RankError> {
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
}
