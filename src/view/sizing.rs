//! What `macluster sizing` prints.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::ranks::trim;
use crate::model::command::printable;
use crate::sizing::Architecture;
use crate::sizing::choose::{Choice, Load, Need, fits, largest, pipeline_fits, smallest};

/// What was asked and found.
pub struct Question<'a> {
    /// The model.
    pub model: &'a Architecture,
    /// How its weights are stored, in words.
    pub stored: &'a str,
    /// One for each number of ranks.
    pub choices: &'a [Choice],
    /// Nodes asked about.
    pub nodes: u64,
    /// What is asked of the service.
    pub load: Load,
    /// Bytes of a node.
    pub memory: u64,
    /// Bytes a GPU may wire.
    pub limit: u64,
}

/// Billions of bytes, as models are measured.
fn gb(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "three figures are shown")]
    let gb = bytes as f64 / 1e9;
    if gb < 10.0 { format!("{gb:.2} GB") } else { format!("{gb:.1} GB") }
}

/// For people.
pub fn human(q: &Question<'_>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["NODES", "WEIGHTS EACH", "KV CACHE EACH", "LEFT", ""]);
    for choice in q.choices {
        let mine = if choice.ranks == q.nodes { "  <- these nodes" } else { "" };
        match &choice.need {
            Ok(need) => table.add_row(row(choice.ranks, Some(need), q.limit, mine.to_owned())),
            Err(why) if choice.stage.is_some() => {
                let note = format!("only as a pipeline: {why}{mine}");
                table.add_row(row(choice.ranks, choice.stage.as_ref(), q.limit, note))
            }
            Err(why) => table.add_row(row(choice.ranks, None, q.limit, format!("{why}{mine}"))),
        };
    }
    for column in [0, 1, 2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    let parameters = q.choices.first().and_then(|c| c.need.as_ref().ok()).map_or(0, |n| n.share.parameters);
    let _ = writeln!(text, "{}, {parameters} parameters; weights {}", printable(&q.model.model_type), q.stored);
    let _ = writeln!(
        text,
        "{} sequence{} of {} tokens; {} GiB a node, of which a GPU may wire {}",
        q.load.concurrency,
        if q.load.concurrency == 1 { "" } else { "s" },
        q.load.context,
        q.memory >> 30,
        gb(q.limit)
    );
    text.push_str(&trim(&table.to_string()));
    let _ = writeln!(text, "{}", verdict(q));
    text
}

fn row(ranks: u64, need: Option<&Need>, limit: u64, note: String) -> [String; 5] {
    let left = |n: &Need| n.left(limit).map_or_else(|| "does not fit".to_owned(), gb);
    let cell = |text: &dyn Fn(&Need) -> String| need.map(text).unwrap_or_default();
    [ranks.to_string(), cell(&|n| gb(n.share.bytes)), cell(&|n| gb(n.cache)), cell(&left), note]
}

/// What to do, in a sentence or two.
fn verdict(q: &Question<'_>) -> String {
    let split = split_verdict(q);
    let splits = fits(q.choices, q.limit).any(|ranks| ranks == q.nodes);
    if splits || !pipeline_fits(q.choices, q.nodes, q.limit) {
        return split;
    }
    let fewer = fits(q.choices, q.limit).any(|ranks| ranks < q.nodes);
    let taken =
        if fewer { "with runtime.parallel: pipeline" } else { "what deploy takes unless runtime.parallel is tensor" };
    format!("{split}\nas a pipeline it runs on all {} nodes, room but not speed: {taken}", q.nodes)
}

/// What splitting alone can do.
fn split_verdict(q: &Question<'_>) -> String {
    let within: Vec<Choice> = q.choices.iter().filter(|c| c.ranks <= q.nodes).cloned().collect();
    let (most, least) = (largest(&within, q.limit), smallest(q.choices, q.limit));
    match (most, least) {
        (_, Some(1)) => {
            let more = match most {
                Some(n) if n > 1 => format!("; it also splits over {n}, for more room and speed"),
                _ => String::new(),
            };
            format!("one node is enough{more}: a cluster only helps when it must")
        }
        (Some(n), _) if n == q.nodes => format!("splits over {n} nodes and fits"),
        (Some(n), _) => format!("runs on {n} of the {} nodes; the others stay idle", q.nodes),
        (None, Some(n)) => format!("does not fit on {} nodes; {n} would do", q.nodes),
        (None, None) => format!("fits on no number of such nodes up to {}", q.choices.len()),
    }
}

/// For programs.
pub fn json(q: &Question<'_>) -> Value {
    let stage = |c: &Choice| {
        c.stage.as_ref().map(|need| {
            json!({
                "weights_bytes_each": need.share.bytes, "cache_bytes_each": need.cache,
                "fits": need.left(q.limit).is_some(), "left_bytes": need.left(q.limit),
            })
        })
    };
    let choice = |c: &Choice| match &c.need {
        Ok(need) => json!({
            "nodes": c.ranks, "splits": true, "parameters_each": need.share.parameters,
            "weights_bytes_each": need.share.bytes, "cache_bytes_each": need.cache,
            "fits": need.left(q.limit).is_some(), "left_bytes": need.left(q.limit), "why": null,
            "pipeline": stage(c),
        }),
        Err(why) => {
            json!({"nodes": c.ranks, "splits": false, "fits": false, "why": why.to_string(), "pipeline": stage(c)})
        }
    };
    json!({
        "schema_version": 1, "model_type": q.model.model_type, "stored": q.stored, "pipeline": q.model.pipeline,
        "nodes": q.nodes, "context": q.load.context, "concurrency": q.load.concurrency,
        "memory_bytes": q.memory, "wired_limit_bytes": q.limit,
        "choices": q.choices.iter().map(choice).collect::<Vec<_>>(), "verdict": verdict(q),
    })
}
