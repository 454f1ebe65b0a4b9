//! Real processes that belong to a node: what was started, found again across processes and after crashes.

use std::fs;

use serde::{Deserialize, Serialize};

use super::store::{Node, read_json, write_json};

/// A process the simulator started for a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// Process id, also its group's.
    pub pid: u32,
    /// Command line.
    pub argv: Vec<String>,
    /// Simulated user.
    pub uid: u32,
    /// Unix seconds.
    pub at: i64,
}

fn file(node: &Node) -> std::path::PathBuf {
    node.dir.join("state").join(format!("{}.processes", node.name))
}

/// Processes recorded as started and not yet as ended.
pub(super) fn recorded(node: &Node) -> Vec<Started> {
    read_json(&file(node)).unwrap_or_default()
}

fn change(node: &Node, edit: impl FnOnce(&mut Vec<Started>)) {
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(file(node).with_extension("plock"));
    let Ok(lock) = lock else { return };
    if rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).is_err() {
        return;
    }
    let mut list = recorded(node);
    edit(&mut list);
    // Best effort: the record only serves `ps`, `kill` and the end of the rack.
    let _ = write_json(&file(node), &list);
}

/// Records a start.
pub(super) fn started(node: &Node, pid: u32, argv: &[String], uid: u32) {
    let entry = Started { pid, argv: argv.to_vec(), uid, at: jiff::Timestamp::now().as_second() };
    change(node, |list| list.push(entry));
}

/// Records an end.
pub(super) fn ended(node: &Node, pid: u32) {
    change(node, |list| list.retain(|p| p.pid != pid));
}
