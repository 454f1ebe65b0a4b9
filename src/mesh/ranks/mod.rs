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

mod hostfile;
mod jaccl;
mod management;
mod planner;
mod ring;
mod types;

pub use hostfile::{hostfile, is_hostfile};
pub use jaccl::COORDINATOR_PORT;
pub use management::management_address;
pub use planner::RING_PORT;
pub use types::{Addresses, Rank, RankError, RankPlan, Request, Topology};

use crate::model::{Backend, Inventory, Node};
use planner::Planner;

/// Nodes in the order of ranks: by slot, those without a slot last, then as in the file. Rings permute all but the
/// first.
pub fn order(inventory: &Inventory) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = inventory.nodes.iter().collect();
    nodes.sort_by_key(|n| (n.slot.is_none(), n.slot));
    nodes
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

impl Planner<'_> {
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
}
