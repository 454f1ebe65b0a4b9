//! What start, restart, releases, rollback and undeploy print.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ranks::trim;
use crate::agent::releases::{Configured, Releases};
use crate::model::command::printable;
use crate::model::{Inventory, NodeName};
use crate::phase::ops::Results;
use crate::phase::proof::Answer;

/// A service that has answered.
pub fn serves(what: &Configured, answer: &Answer) -> String {
    let ranks = if what.world_size == 1 { "1 rank".to_owned() } else { format!("{} ranks", what.world_size) };
    format!(
        "{} is served by {ranks}, release {}; {} tokens at {:.1} tokens/s",
        printable(&what.model),
        what.release,
        answer.tokens,
        answer.rate()
    )
}

/// Before a rollback.
pub fn rollback(from: &Configured, to: &Configured) -> String {
    let name = |c: &Configured| format!("release {} with {} on {} ranks", c.release, printable(&c.model), c.world_size);
    format!("from {}\nto   {}\nthe model does not answer meanwhile", name(from), name(to))
}

/// Why a launch would not come up.
pub fn certificates_ended(whose: &str, end: Timestamp) -> String {
    let day = end.strftime("%Y-%m-%d");
    format!("the certificates of {whose} ended on {day}: its agents would not accept each other")
}

/// Before an undeploy.
pub fn undeploy(inventory: &Inventory, models: bool) -> String {
    let nodes: Vec<String> = inventory.nodes.iter().map(|n| inventory.label(&n.name)).collect();
    let what = if models { "the runtime and the models" } else { "the runtime; the models stay" };
    format!("remove {what}, from {}\nthe link networks stay", nodes.join(", "))
}

/// After it.
pub fn removed(results: &Results<()>, inventory: &Inventory) -> String {
    lines(results, inventory, |()| "removed".to_owned())
}

fn lines<T>(results: &Results<T>, inventory: &Inventory, good: impl Fn(&T) -> String) -> String {
    let line = |(node, result): &(NodeName, Result<T, String>)| match result {
        Ok(value) => format!("{}: {}", inventory.label(node), good(value)),
        Err(why) => format!("{}: failed: {}", inventory.label(node), printable(why)),
    };
    results.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The same, for programs.
pub fn pruned_json(results: &Results<Vec<String>>) -> String {
    per_node(results, |ids| json!({"removed": ids}))
}

/// What is installed where, for programs.
pub fn releases_json(found: &Results<Releases>) -> String {
    per_node(
        found,
        |r| json!({"active": r.active, "current": r.current, "previous": r.previous, "releases": r.releases}),
    )
}

/// What was removed where.
pub fn pruned(results: &Results<Vec<String>>, inventory: &Inventory) -> String {
    lines(results, inventory, |ids| match ids.as_slice() {
        [] => "nothing to remove".to_owned(),
        ids => format!("removed {}", ids.join(", ")),
    })
}

fn per_node<T>(results: &Results<T>, good: impl Fn(&T) -> Value) -> String {
    let one = |(node, result): &(NodeName, Result<T, String>)| {
        let mut row = json!({"node": node, "error": result.as_ref().err()});
        if let (Ok(value), Some(row)) = (result, row.as_object_mut()) {
            row.extend(good(value).as_object().cloned().unwrap_or_default());
        }
        row
    };
    json!({"schema_version": 1, "nodes": results.iter().map(one).collect::<Vec<_>>()}).to_string()
}

/// What is installed where.
pub fn releases(found: &Results<Releases>, inventory: &Inventory) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NODE", "RELEASE", "SIZE", "INSTALLED", ""]);
    let mut remarks = String::new();
    for (node, result) in found {
        let label = inventory.label(node);
        match result {
            Err(why) => {
                let _ = writeln!(remarks, "{label}: {}", printable(why));
            }
            Ok(there) if there.releases.is_empty() => {
                let _ = writeln!(remarks, "{label}: nothing is deployed");
            }
            Ok(there) => {
                for release in &there.releases {
                    let before = there.previous.as_ref().is_some_and(|p| p.release == release.id);
                    let note = match (there.active.as_deref() == Some(release.id.as_str()), before) {
                        (true, _) => "active",
                        (false, true) => "before it",
                        (false, false) => "",
                    };
                    let installed = release.installed_at.map(|t| t.strftime("%Y-%m-%d %H:%M UTC").to_string());
                    table.add_row([
                        label.clone(),
                        printable(&release.id),
                        format!("{} MiB", release.bytes >> 20),
                        installed.unwrap_or_else(|| "never finished".to_owned()),
                        note.to_owned(),
                    ]);
                }
            }
        }
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    if table.row_count() == 0 { remarks } else { trim(&table.to_string()) + &remarks }
}
