//! Real processes that belong to a node: what was started for it and whatever that started.
//!
//! They are found again by process id and birth, so that a reused number never hits a stranger.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde::{Deserialize, Serialize};

use super::store::{Node, read_json, write_json};

mod host;

pub(super) use host::Row;

/// A process of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    /// Process id.
    pub pid: u32,
    /// When it began, as the host tells; with the id it names a process for good.
    pub birth: String,
    /// Simulated user.
    pub uid: u32,
}

fn file(node: &Node) -> std::path::PathBuf {
    node.dir.join("state").join(format!("{}.processes", node.name))
}

/// Processes recorded as started and not yet as ended.
fn recorded(node: &Node) -> Vec<Started> {
    read_json(&file(node)).unwrap_or_default()
}

fn change(node: &Node, edit: impl FnOnce(&mut Vec<Started>)) {
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(file(node).with_extension("plock"));
    let Ok(lock) = lock else { return };
    if rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).is_err() {
        return;
    }
    let mut list = recorded(node);
    let before = list.clone();
    edit(&mut list);
    if list != before {
        // Best effort: the record only serves `ps`, `kill` and the end of the rack.
        let _ = write_json(&file(node), &list);
    }
}

/// Forgets every process: the node was turned off.
pub(super) fn forget(node: &Node) -> std::io::Result<()> {
    match fs::remove_file(file(node)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Records a start.
pub(super) fn started(node: &Node, pid: u32, uid: u32) {
    let Some(birth) = host::birth(pid) else { return };
    change(node, |list| list.push(Started { pid, birth, uid }));
}

/// Records an end. What the process leaves behind in its group stays the node's.
pub(super) fn ended(node: &Node, pid: u32) {
    let left: Vec<Row> = host::rows().into_iter().filter(|r| r.pgid == pid && r.pid != pid).collect();
    change(node, |list| {
        let uid = list.iter().find(|p| p.pid == pid).map_or(501, |p| p.uid);
        list.retain(|p| p.pid != pid);
        list.extend(left.into_iter().map(|r| Started { pid: r.pid, birth: r.birth, uid }));
    });
}

/// A live process of a node.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// As the host sees it.
    pub row: Row,
    /// Simulated user.
    pub uid: u32,
}

/// Everything alive that was started for the node, or descends from it, or shares its process group.
/// What is found is recorded, so that it stays known when its parent goes.
pub(super) fn alive(node: &Node) -> Vec<Process> {
    let known = recorded(node);
    if known.is_empty() {
        return Vec::new();
    }
    let rows = host::rows();
    let mut found: Vec<Process> = Vec::new();
    for entry in &known {
        if let Some(row) = rows.iter().find(|r| r.pid == entry.pid && r.birth == entry.birth) {
            found.push(Process { row: row.clone(), uid: entry.uid });
        }
    }
    // Groups of processes that are gone may still have members.
    let groups: Vec<(u32, u32)> = known.iter().map(|k| (k.pid, k.uid)).collect();
    let mut grew = true;
    while grew {
        grew = false;
        for row in &rows {
            if found.iter().any(|p| p.row.pid == row.pid) {
                continue;
            }
            let parent = found.iter().find(|p| p.row.pid == row.ppid).map(|p| p.uid);
            let group = groups.iter().find(|(g, _)| *g == row.pgid && row.pgid != row.pid).map(|(_, uid)| *uid);
            if let Some(uid) = parent.or(group) {
                found.push(Process { row: row.clone(), uid });
                grew = true;
            }
        }
    }
    change(node, |list| {
        *list = found.iter().map(|p| Started { pid: p.row.pid, birth: p.row.birth.clone(), uid: p.uid }).collect();
    });
    found
}

/// Sends a signal to a process of this machine; `false` when it is gone.
pub(super) fn signal(pid: u32, signal: Option<Signal>) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match signal {
        Some(signal) => kill_process(pid, signal).is_ok(),
        None => test_kill_process(pid).is_ok(),
    }
}

/// Ends what is left of a process group whose leader is gone.
pub(super) fn end_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Ends every process of a node at once.
pub(super) fn kill_all(node: &Node) {
    // What a process starts while the list is made is found in the next round.
    for _ in 0..10 {
        let left = alive(node);
        if left.is_empty() {
            return;
        }
        for process in &left {
            signal(process.row.pid, Some(Signal::KILL));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends every process of a node: asked first, forced after `patience`.
pub(super) async fn end_all(node: &Node, patience: Duration) {
    let asked = alive(node);
    for process in &asked {
        signal(process.row.pid, Some(Signal::TERM));
    }
    let end = tokio::time::Instant::now() + patience;
    loop {
        let left = alive(node);
        if left.is_empty() {
            return;
        }
        if tokio::time::Instant::now() >= end {
            for process in &left {
                signal(process.row.pid, Some(Signal::KILL));
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
