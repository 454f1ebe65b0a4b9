//! What `macluster model` prints.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::agent::store::ModelList;
use crate::model::command::printable;
use crate::model::size::size;
use crate::model::{Inventory, NodeName};
use crate::phase::model::check::{Seen, Verdict};
use crate::phase::model::push::Pushed;
use crate::phase::ops::Results;

/// What was sent where.
pub fn pushed(results: &Results<Pushed>, to: &str, list: &ModelList, inventory: &Inventory) -> String {
    let mut out = String::new();
    for (node, result) in results {
        let label = inventory.label(node);
        let _ = match result {
            Ok(Pushed { files: 0, .. }) => writeln!(out, "{label}: had all of it"),
            Ok(sent) => {
                let from = sent.from.as_ref().map(|n| format!(", from {}", inventory.label(n))).unwrap_or_default();
                writeln!(out, "{label}: {} of {} files sent, {}{from}", sent.files, list.files.len(), size(sent.bytes))
            }
            Err(why) => writeln!(out, "{label}: failed: {}", printable(why)),
        };
    }
    if results.iter().all(|(_, r)| r.is_ok()) {
        let _ = writeln!(
            out,
            "{to} is the same on {} nodes: {} files, {}",
            results.len(),
            list.files.len(),
            size(list.bytes())
        );
    }
    out
}

/// The same, for programs.
pub fn pushed_json(results: &Results<Pushed>, to: &str, list: &ModelList) -> Value {
    let row = |(node, result): &(NodeName, Result<Pushed, String>)| {
        let sent = result.as_ref().ok();
        json!({
            "node": node,
            "files_sent": sent.map(|s| s.files),
            "bytes_sent": sent.map(|s| s.bytes),
            "from": sent.and_then(|s| s.from.as_ref()),
            "error": result.as_ref().err(),
        })
    };
    json!({
        "schema_version": 1,
        "to": to,
        "files": list.files.len(),
        "bytes": list.bytes(),
        "nodes": results.iter().map(row).collect::<Vec<_>>(),
    })
}

/// What every node has.
pub fn checked(
    seen: &[(NodeName, Seen)],
    verdicts: &[(NodeName, Verdict)],
    problems: &[(NodeName, String)],
    inventory: &Inventory,
) -> String {
    let mut out = String::new();
    for ((node, one), (_, verdict)) in seen.iter().zip(verdicts) {
        let label = inventory.label(node);
        let _ = match verdict {
            Verdict::Whole => {
                let proof = if one.kept.is_some() { "as it came" } else { "came without a list: only compared" };
                writeln!(out, "{label}: {} files, {}, {proof}", one.list.files.len(), size(one.list.bytes()))
            }
            Verdict::Wrong(why) => writeln!(out, "{label}: WRONG, {}", printable(why)),
        };
    }
    for (node, why) in problems {
        let _ = writeln!(out, "{}: {}", inventory.label(node), printable(why));
    }
    if verdicts.iter().any(|(_, v)| *v != Verdict::Whole) {
        out.push_str("`macluster model push` sends what is not right\n");
    }
    out
}

/// The same, for programs.
pub fn checked_json(
    seen: &[(NodeName, Seen)],
    verdicts: &[(NodeName, Verdict)],
    problems: &[(NodeName, String)],
    model: &str,
) -> Value {
    let row = |((node, one), (_, verdict)): (&(NodeName, Seen), &(NodeName, Verdict))| {
        let why = match verdict {
            Verdict::Whole => None,
            Verdict::Wrong(why) => Some(why),
        };
        json!({
            "node": node,
            "verdict": if why.is_none() { "pass" } else { "fail" },
            "message": why,
            "came_with_list": one.kept.is_some(),
            "files": one.list.files,
        })
    };
    let problem = |(node, why): &(NodeName, String)| json!({"node": node, "message": why});
    json!({
        "schema_version": 1,
        "model": model,
        "nodes": seen.iter().zip(verdicts).map(row).collect::<Vec<_>>(),
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    })
}
