//! What `macluster status` and `macluster stop` print.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::explain::hint;
use super::ranks::trim;
use crate::agent::status::Status;
use crate::agent::wire::GroupPhase;
use crate::check::explain;
use crate::model::command::printable;
use crate::model::{Inventory, NodeName};
use crate::phase::inspect::{NodeStatus, Seen};
use crate::phase::service::Stopped;

/// One row per node, then what is wrong.
pub fn human(nodes: &[NodeStatus], inventory: &Inventory) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "NODE",
        "RELEASE",
        "RANK",
        "STATE",
        "EPOCH",
        "AGENT",
        "ENGINE",
        "UP",
        "MEMORY",
        "BACKEND",
        "LAST TOKEN",
    ]);
    let mut remarks = String::new();
    for node in nodes {
        let status = reported(node);
        let pid = |pid: Option<u32>| pid.map_or_else(|| "-".to_owned(), |p| p.to_string());
        let text = |text: Option<&str>| text.filter(|t| !t.is_empty()).map_or_else(|| "-".to_owned(), printable);
        let runs = status.filter(|s| !s.state.ended());
        table.add_row([
            inventory.label(&node.node),
            text(active(node)),
            status.map_or_else(|| "-".to_owned(), |s| format!("{}/{}", s.rank, s.world_size)),
            node.condition().as_str().to_owned(),
            status.filter(|s| s.epoch > 0).map_or_else(|| "-".to_owned(), |s| s.epoch.to_string()),
            pid(status.map(|s| s.agent_pid)),
            pid(status.and_then(|s| s.engine_pid)),
            text(runs.and_then(|s| uptime(node, s)).as_deref()),
            runs.and_then(|s| s.peak_memory).map_or_else(|| "-".to_owned(), memory),
            text(status.map(|s| s.backend.as_str())),
            text(last_token(node).as_deref()),
        ]);
        for remark in wrong(node) {
            let _ = writeln!(remarks, "{}: {remark}", inventory.label(&node.node));
        }
    }
    for column in [2, 4, 5, 6, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let serving =
        nodes.iter().find_map(|n| reported(n).and_then(|s| s.api.clone().map(|api| (n, s.model.clone(), api))));
    let mut out = trim(&table.to_string());
    if let Some((node, model, api)) = serving {
        let _ = writeln!(out, "{model} at http://{api}/v1 on {}", inventory.label(&node.node));
    }
    out + &group(nodes, inventory) + &remarks
}

/// What fits on the screen of `status --watch`.
pub fn picture(text: &str, inventory: &Inventory, height: usize) -> String {
    let title = format!("{}: looked at every 2 s; q ends it", inventory.rack);
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(2).max(1);
    let mut shown: Vec<String> =
        std::iter::once(title).chain(lines.iter().take(room).map(|l| (*l).to_owned())).collect();
    if lines.len() > room {
        shown.pop();
        shown.push(format!("… {} more lines", lines.len() - room + 1));
    }
    shown.join("\n")
}

/// Bytes, for people.
fn memory(bytes: u64) -> String {
    if bytes >= 10 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

/// All of it, for programs.
pub fn json(nodes: &[NodeStatus], inventory: &Inventory) -> Value {
    let rows: Vec<Value> = nodes.iter().map(row).collect();
    json!({"schema_version": 1, "rack": inventory.rack, "nodes": rows})
}

fn row(node: &NodeStatus) -> Value {
    let status = reported(node);
    json!({
        "node": node.node,
        "state": node.condition().as_str(),
        "release": active(node),
        "rank": status.map(|s| s.rank),
        "world_size": status.map(|s| s.world_size),
        "backend": status.map(|s| &s.backend),
        "model": status.map(|s| &s.model),
        "agent_pid": status.map(|s| s.agent_pid),
        "engine_pid": status.and_then(|s| s.engine_pid),
        "since": status.map(|s| s.since),
        "last_token_at": status.and_then(|s| s.last_token_at),
        "last_token_age_s": token_age(node),
        "api": status.and_then(|s| s.api.as_ref()),
        "epoch": status.map(|s| s.epoch),
        "uptime_s": status.and_then(|s| uptime_s(node, s)),
        "weights_bytes": status.and_then(|s| s.weights_bytes),
        "peak_memory_bytes": status.and_then(|s| s.peak_memory),
        "killed_engines_since_boot": status.map(|s| s.debits),
        "failures": status.map(|s| &s.failures),
        "group": status.and_then(|s| s.group.as_ref()),
        "certificates_until": status.and_then(|s| s.certificates_until),
        "error": status.and_then(|s| s.error.as_ref()),
        "exit": status.and_then(|s| s.exit.as_ref()),
        "reason": status.and_then(|s| s.reason.as_ref()),
        "problem": node.seen.as_ref().err().map(|u| &u.message),
        "processes": node.seen.as_ref().map(|s| s.processes.iter().map(|p| json!({
            "pid": p.pid, "ppid": p.parent, "elapsed": p.elapsed, "command": p.command,
        })).collect::<Vec<_>>()).unwrap_or_default(),
    })
}

fn seen(node: &NodeStatus) -> Option<&Seen> {
    node.seen.as_ref().ok()
}

/// What the agent says, if it can be believed.
fn reported(node: &NodeStatus) -> Option<&Status> {
    seen(node)?.report.as_ref()?.believed()
}

fn active(node: &NodeStatus) -> Option<&str> {
    seen(node)?.report.as_ref()?.active.as_deref()
}

/// Of the engine, by the node's own clock.
fn uptime_s(node: &NodeStatus, status: &Status) -> Option<i64> {
    let now = seen(node)?.report.as_ref()?.now;
    let since = status.engine_since.filter(|_| status.engine_pid.is_some())?;
    Some((now.as_second() - since.as_second()).max(0))
}

/// What rank 0's agent says of all ranks: what happens now, what has happened, what a person must do.
fn group(nodes: &[NodeStatus], inventory: &Inventory) -> String {
    let group = nodes.iter().find_map(|n| reported(n)?.group.as_ref());
    let Some(group) = group else { return String::new() };
    let mut text = String::new();
    let labels = |names: &[NodeName]| names.iter().map(|n| inventory.label(n)).collect::<Vec<_>>().join(", ");
    let why = group.why.as_ref().map(|w| format!(" ({})", printable(w))).unwrap_or_default();
    let budget = format!("start {} of {}", group.attempts + 1, group.budget);
    let _ = match group.phase {
        GroupPhase::Serving => Ok(()),
        GroupPhase::Gathering if !group.missing.is_empty() => {
            writeln!(text, "waits for the agent of {}{why}", labels(&group.missing))
        }
        GroupPhase::Gathering => writeln!(text, "all agents are there{why}"),
        GroupPhase::Starting => writeln!(text, "all ranks are being started: {budget} before a person must look{why}"),
        GroupPhase::Stopping => writeln!(text, "all ranks are being stopped{why}"),
        GroupPhase::Pausing => writeln!(text, "{budget} follows after a pause{why}"),
        GroupPhase::Degraded => writeln!(text, "degraded: nothing is started any more{why}"),
    };
    if group.phase == GroupPhase::Degraded {
        if group.reboot.is_empty() {
            let _ = writeln!(text, "mend the cause (`macluster logs --all`), then `macluster restart`");
        } else {
            let order: Vec<String> = group
                .reboot
                .iter()
                .map(|r| match r.filevault {
                    Some(true) => format!("{} (FileVault: somebody must unlock it there)", inventory.label(&r.node)),
                    _ => inventory.label(&r.node),
                })
                .collect();
            let _ = writeln!(
                text,
                "engines that had to be killed may have kept RDMA resources: restart these nodes, in this order: {}",
                order.join(", ")
            );
        }
    }
    for restart in group.restarts.iter().rev().take(3) {
        let node = restart.node.as_ref().map(|n| format!("{}: ", inventory.label(n))).unwrap_or_default();
        let at = restart.at.strftime("%Y-%m-%d %H:%M:%S UTC");
        let _ = writeln!(text, "epoch {} ended at {at}: {node}{}", restart.epoch, printable(&restart.why));
    }
    text
}

fn uptime(node: &NodeStatus, status: &Status) -> Option<String> {
    let engine = status.engine_pid?;
    seen(node)?.processes.iter().find(|p| p.pid == engine).map(|p| p.elapsed.clone())
}

/// Seconds, by the node's own clock.
fn token_age(node: &NodeStatus) -> Option<i64> {
    let report = seen(node)?.report.as_ref()?;
    let at: Timestamp = report.believed()?.last_token_at?;
    Some((report.now.as_second() - at.as_second()).max(0))
}

fn last_token(node: &NodeStatus) -> Option<String> {
    let age = token_age(node)?;
    Some(match age {
        0..=119 => format!("{age} s ago"),
        120..=7199 => format!("{} min ago", age / 60),
        _ => format!("{} h ago", age / 3600),
    })
}

fn wrong(node: &NodeStatus) -> Vec<String> {
    use crate::phase::inspect::Condition;
    let seen = match &node.seen {
        Err(unseen) => return vec![printable(&unseen.message)],
        Ok(seen) => seen,
    };
    let mut lines = Vec::new();
    if let Some(status) = reported(node) {
        if let Some(error) = &status.error {
            lines.push(printable(&format!("{}: {}", error.kind, error.message)));
        } else if let Some(reason) = status.reason.as_ref().filter(|_| status.state.ended()) {
            lines.push(printable(&format!("stopped: {reason}")));
        }
    }
    match node.condition() {
        Condition::Silent => {
            let pids: Vec<String> = seen.processes.iter().map(|p| p.pid.to_string()).collect();
            lines.push(match pids.as_slice() {
                [] => "its agent reports a process that does not exist".to_owned(),
                _ => format!("no living agent reports, but processes run: {}", pids.join(", ")),
            });
        }
        Condition::Down => {
            let last = seen.report.as_ref().and_then(|r| r.status.as_ref());
            let error =
                last.and_then(|s| s.error.as_ref()).map(|e| format!("; it ended with {}: {}", e.kind, e.message));
            lines.push(printable(&format!("nothing runs{}", error.unwrap_or_default())));
        }
        _ => {}
    }
    let known: Vec<String> = lines.iter().flat_map(|l| explain::read(l)).map(|found| hint(found.entry)).collect();
    lines.extend(known);
    lines
}

/// What stopping did on each node.
pub fn stopped(results: &[(NodeName, Result<Stopped, String>)], inventory: &Inventory) -> String {
    results.iter().fold(String::new(), |mut text, (node, result)| {
        let said = match result {
            Ok(Stopped { ran: false, .. }) => "nothing ran".to_owned(),
            Ok(Stopped { killed, .. }) if killed.is_empty() => "stopped".to_owned(),
            Ok(Stopped { killed, .. }) => {
                let pids: Vec<String> = killed.iter().map(ToString::to_string).collect();
                format!("stopped; killed what did not end: {}", pids.join(", "))
            }
            Err(why) => format!("not stopped: {}", printable(why)),
        };
        let _ = writeln!(text, "{}: {said}", inventory.label(node));
        text
    })
}
