//! What a plan rests on, in lines that a person can compare: a rack that has moved since is found out, and told how.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{NetworkPlan, PlanOptions, PlanRequest};
use crate::model::facts::{Attached, NodeFacts};
use crate::model::network_facts::EXO_JOB;
use crate::model::{Cmd, NodeName};

/// Everything that, if it changes, makes a plan stale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// Rack, pool and nodes in order.
    pub inventory: Vec<String>,
    /// Cabling and addresses of every node that answered. What changes by itself (routes that age, temporary IPv6
    /// addresses, tunnels) is left out.
    pub nodes: BTreeMap<NodeName, Vec<String>>,
    /// SHA-256 of playbook and scripts, by file.
    pub files: BTreeMap<String, String>,
    /// Wishes.
    pub options: PlanOptions,
    /// SHA-256 of what is planned from all that.
    pub changes: String,
}

/// One thing that moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where; none for what lies at the desk.
    pub node: Option<NodeName>,
    /// What was, when something was.
    pub before: Option<String>,
    /// What is, when something is.
    pub now: Option<String>,
}

impl Basis {
    pub(super) fn of(request: &PlanRequest<'_>, plan: &NetworkPlan) -> Basis {
        let inventory = request.inventory;
        let mut lines = vec![format!("rack {}", inventory.rack), format!("pool {}", inventory.pool)];
        lines.extend(inventory.nodes.iter().enumerate().map(|(n, node)| format!("node {} is {}", n + 1, node.name)));
        let mut files = BTreeMap::from([
            ("links.sh".to_owned(), request.scripts.links.sha256.clone()),
            ("restore.sh".to_owned(), request.scripts.restore.sha256.clone()),
        ]);
        if let Ok(book) = request.playbooks.book("network") {
            files.insert("network.yaml".to_owned(), book.sha256.clone());
        }
        let changes: Vec<_> =
            plan.changes.iter().map(|c| (&c.node, c.commands.iter().map(Cmd::display).collect::<Vec<_>>())).collect();
        let planned = serde_json::json!([changes, plan.problems]);
        Basis {
            inventory: lines,
            nodes: request.snapshot.answered().map(|(name, facts)| (name.clone(), told(facts))).collect(),
            files,
            options: request.options,
            changes: hex::encode(Sha256::digest(planned.to_string().as_bytes())),
        }
    }

    /// SHA-256, hexadecimal.
    pub fn fingerprint(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        hex::encode(Sha256::digest(text.as_bytes()))
    }

    /// What differs in `now`, in order: desk first, then nodes.
    pub fn moved(&self, now: &Basis) -> Vec<Moved> {
        let mut moved = lines(None, &self.inventory, &now.inventory);
        let hash = |b: &Basis| b.files.iter().map(|(f, sha)| format!("{f} {}", sha.get(..12).unwrap_or(sha))).collect();
        let (before, after): (Vec<String>, Vec<String>) = (hash(self), hash(now));
        moved.extend(lines(None, &before, &after));
        let names = self.nodes.keys().chain(now.nodes.keys().filter(|n| !self.nodes.contains_key(*n)));
        for name in names {
            match (self.nodes.get(name), now.nodes.get(name)) {
                (Some(before), Some(after)) => moved.extend(lines(Some(name), before, after)),
                (before, _) => {
                    let (answered, silent) = (Some("answered".to_owned()), Some("did not answer".to_owned()));
                    let (before, now) = if before.is_some() { (answered, silent) } else { (silent, answered) };
                    moved.push(Moved { node: Some(name.clone()), before, now });
                }
            }
        }
        moved
    }
}

/// Lines of which only one side has them; those that begin with the same words belong together.
fn lines(node: Option<&NodeName>, before: &[String], now: &[String]) -> Vec<Moved> {
    let gone = before.iter().filter(|l| !now.contains(l));
    let mut come: Vec<&String> = now.iter().filter(|l| !before.contains(l)).collect();
    let subject = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let mut moved = Vec::new();
    for line in gone {
        let twin = come.iter().position(|l| subject(l) == subject(line)).map(|n| come.remove(n).clone());
        moved.push(Moved { node: node.cloned(), before: Some(line.clone()), now: twin });
    }
    moved.extend(come.into_iter().map(|l| Moved { node: node.cloned(), before: None, now: Some(l.clone()) }));
    moved
}

fn told(facts: &NodeFacts) -> Vec<String> {
    let mut lines = Vec::new();
    match &facts.receptacles {
        Ok(receptacles) => {
            for r in receptacles {
                let peers: Vec<String> = r.attached.iter().map(peer).collect();
                let own = r.domain_uuid.as_deref().unwrap_or("no identity");
                let what = if peers.is_empty() { "nothing".to_owned() } else { peers.join(", ") };
                let cable = if r.connected { "" } else { " (no cable)" };
                lines.push(format!("receptacle {} ({own}): {what}{cable}", r.id));
            }
        }
        Err(e) => lines.push(format!("receptacles unknown: {e}")),
    }
    match &facts.hardware_ports {
        Ok(ports) => lines.extend(ports.iter().map(|p| format!("port {} is {}", p.name, p.device))),
        Err(e) => lines.push(format!("ports unknown: {e}")),
    }
    match &facts.interfaces {
        Ok(interfaces) => {
            let meant = |name: &str| name.starts_with("en") || name.starts_with("bridge");
            for i in interfaces.iter().filter(|i| meant(&i.name)) {
                let state = if i.up() { "up" } else { "down" };
                let addresses: Vec<String> = i
                    .inet
                    .iter()
                    .map(|a| a.prefix.map_or_else(|| a.address.to_string(), |p| format!("{}/{p}", a.address)))
                    .collect();
                let mut line = format!("interface {} {state}", i.name);
                if !addresses.is_empty() {
                    let _ = write!(line, ", {}", addresses.join(", "));
                }
                if !i.members.is_empty() {
                    let _ = write!(line, ", members {}", i.members.join(" "));
                }
                lines.push(line);
            }
        }
        Err(e) => lines.push(format!("interfaces unknown: {e}")),
    }
    if let Some(address) = facts.session.local_address {
        lines.push(format!("session at {address}"));
    }
    if facts.network.job(EXO_JOB).ok().flatten().is_some() {
        lines.push(format!("daemon {EXO_JOB} is running"));
    }
    lines
}

fn peer(attached: &Attached) -> String {
    match attached {
        Attached::Mac(mac) => format!("{} {}", mac.name, mac.domain_uuid.as_deref().unwrap_or("without identity")),
        Attached::Device { name, behind, .. } if behind.is_empty() => name.clone(),
        Attached::Device { name, behind, .. } => {
            format!("{name} with {}", behind.iter().map(peer).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture::{Rack, inet};

    #[test]
    fn a_rack_that_moved_is_told_in_words() {
        let mut rack = Rack::new(2, true);
        let before = rack.plan().basis;
        assert_eq!(before.moved(&rack.plan().basis), []);
        rack.interface(2, "en4").inet.push(inet("192.0.2.99/24"));
        let moved = before.moved(&rack.plan().basis);
        assert_eq!(moved.len(), 1, "{moved:?}");
        assert_eq!(moved[0].before.as_deref(), Some("interface en4 up"));
        assert_eq!(moved[0].now.as_deref(), Some("interface en4 up, 192.0.2.99/24"));
        assert_ne!(before.fingerprint(), rack.plan().basis.fingerprint());
        let facts = rack.snapshot.nodes.remove(&super::super::super::fixture::name("studio-2")).expect("a node");
        let without = rack.plan().basis;
        assert_eq!(before.moved(&without)[0].now.as_deref(), Some("did not answer"));
        drop(facts);
    }
}
