//! The inventory under pseudonyms, written anew: comments may hold anything.

use super::pseudonyms::Pseudonyms;
use crate::model::Inventory;

pub(super) fn text(inventory: &Inventory, names: &mut Pseudonyms) -> String {
    let mut nodes = Vec::new();
    for node in &inventory.nodes {
        let mut one = serde_json::json!({ "name": names.node(&node.name), "host": names.host(&node.host) });
        let optional = [
            ("slot", node.slot.map(Into::into)),
            ("port", node.port.map(Into::into)),
            ("user", node.user.as_deref().map(|u| names.user(u).into())),
            ("agent_port", Some(node.agent_port.into())),
        ];
        for (key, value) in optional {
            if let (Some(value), Some(one)) = (value, one.as_object_mut()) {
                one.insert(key.to_owned(), value);
            }
        }
        nodes.push(one);
    }
    let runtime = &inventory.runtime;
    let mut whole = serde_json::json!({
        "rack": "rack",
        "ssh": {},
        "nodes": nodes,
        "network": { "pool": names.network(inventory.pool).to_string() },
        "runtime": { "backend": runtime.backend, "over": runtime.over },
    });
    if let Some(user) = &inventory.ssh.user {
        whole["ssh"]["user"] = names.user(user).into();
    }
    if runtime.model.is_some() {
        whole["runtime"]["model"] = "/opt/macluster/models/model".into();
    }
    // JSON is YAML.
    format!("{whole:#}\n")
}
