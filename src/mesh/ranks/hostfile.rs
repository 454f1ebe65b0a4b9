//! A rank plan as the hostfile that MLX's own launcher reads.
//!
//! Format after MLX 0.32.4, `mlx/_distributed_utils/common.py` (`Hostfile`) and `launch.py`: an object with `backend`,
//! `envs` and `hosts`; each host has `ssh`, `ips` (ring: its own row; jaccl: only rank 0's first, the coordinator) and
//! `rdma` (its row of the device matrix). The launcher chooses the TCP ports itself.

use serde_json::{Map, Value, json};

use super::types::{RankPlan, Topology};
use crate::model::{Backend, Inventory, Node};

/// The hostfile of a plan, hosts in the order of ranks. `None` for a plan whose parts do not fit together.
#[must_use]
pub fn hostfile(plan: &RankPlan, inventory: &Inventory) -> Option<Value> {
    let backend = match plan.backend {
        Backend::Jaccl => "jaccl",
        Backend::JacclRing => "jaccl-ring",
        Backend::Ring | Backend::Auto => "ring",
    };
    let hosts = plan
        .ranks
        .iter()
        .map(|rank| {
            let node = inventory.nodes.iter().find(|n| n.name == rank.node)?;
            let row = || rank.files.first()?.1.get(rank.rank).cloned();
            let (ips, rdma) = match (plan.topology, plan.mlx_backend) {
                // One rank talks to nobody, but the launcher wants an address of every host.
                (Topology::Single, _) => (vec![node.host.clone()], json!([])),
                (_, "jaccl") => {
                    let coordinator = rank.env.get("MLX_JACCL_COORDINATOR").filter(|_| rank.rank == 0);
                    (coordinator.and_then(|c| without_port(c)).into_iter().collect(), row()?)
                }
                _ => {
                    let row = row()?;
                    let ips = row.as_array()?.iter().map(|s| without_port(s.as_str()?)).collect::<Option<_>>()?;
                    (ips, json!([]))
                }
            };
            Some(json!({ "ssh": ssh(node, inventory), "ips": ips, "rdma": rdma }))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(json!({ "backend": backend, "envs": [], "hosts": hosts }))
}

/// Can this text be a hostfile that MLX or macluster wrote: nothing in it but the fields of the format, at least one
/// host, and of every host where `ssh` goes? MLX also reads a bare list of hosts.
#[must_use]
pub fn is_hostfile(text: &str) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let only = |object: &Map<String, Value>, names: &[&str]| object.keys().all(|k| names.contains(&k.as_str()));
    let hosts = match &value {
        Value::Object(object) if only(object, &["backend", "envs", "hosts"]) => object.get("hosts"),
        Value::Array(_) => Some(&value),
        _ => None,
    };
    let host = |host: &Value| {
        host.as_object().is_some_and(|h| only(h, &["ssh", "ips", "rdma"]) && h.get("ssh").is_some_and(Value::is_string))
    };
    hosts.and_then(Value::as_array).is_some_and(|hosts| !hosts.is_empty() && hosts.iter().all(host))
}

fn without_port(socket: &str) -> Option<String> {
    socket.rsplit_once(':').map(|(ip, _)| ip.to_owned())
}

/// What `ssh` takes as its destination: the launcher passes no option for a port, so a port needs the URI form.
fn ssh(node: &Node, inventory: &Inventory) -> String {
    let user = node.user.as_ref().or(inventory.ssh.user.as_ref()).map(|u| format!("{u}@")).unwrap_or_default();
    match node.port.or(inventory.ssh.port) {
        Some(port) if node.host.contains(':') => format!("ssh://{user}[{}]:{port}", node.host),
        Some(port) => format!("ssh://{user}{}:{port}", node.host),
        None => format!("{user}{}", node.host),
    }
}
