//! What `macluster status` and `macluster stop` print.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::explain::hint;
use super::ranks::trim;
use crate::agent::status::Status;
use crate::check::explain;
use crate::model::command::printable;
use crate::model::{Inventory, NodeName};
use crate::phase::inspect::{NodeStatus, Seen};
use crate::phase::service::Stopped;

/// One row per node, then what is wrong.
pub fn human(nodes: &[NodeStatus], inventory: &Inventory) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NODE", "RELEASE", "RANK", "STATE", "AGENT", "ENGINE", "UP", "BACKEND", "LAST TOKEN"]);
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
            pid(status.map(|s| s.agent_pid)),
            pid(status.and_then(|s| s.engine_pid)),
            text(runs.and_then(|s| uptime(node, s)).as_deref()),
            text(status.map(|s| s.backend.as_str())),
            text(last_token(node).as_deref()),
        ]);
        for remark in wrong(node) {
            let _ = writeln!(remarks, "{}: {remark}", inventory.label(&node.node));
        }
    }
    for column in [2, 4, 5] {
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
    out + &remarks
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
