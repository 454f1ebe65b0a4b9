//! What `macluster deploy` prints.

use std::fmt::Write;

use serde_json::{Value, json};

use super::ranks;
use crate::exit::Failure;
use crate::model::Inventory;
use crate::phase::deploy::{Broken, Cause, Deploy};

/// Before the person is asked: what will happen.
pub fn announcement(deploy: &Deploy) -> String {
    let nodes: Vec<String> = deploy.targets.iter().map(|t| deploy.inventory.label(&t.node.name)).collect();
    let model = deploy.inventory.runtime.model.as_deref().unwrap_or_default();
    let bundle = match &deploy.options.bundle {
        Some(dir) => format!("the bundle in {}", dir.display()),
        None => "a bundle for the nodes' platform".to_owned(),
    };
    format!(
        "deploy {bundle} to {} nodes: {}\nmodel {model}\nwhat runs there is stopped once everything else is ready\n",
        nodes.len(),
        nodes.join(", ")
    )
}

/// The report, for people.
pub fn human(deploy: &Deploy) -> String {
    let mut text = String::new();
    let Some(done) = &deploy.deployed else { return text };
    let api = deploy.inventory.runtime.api;
    let first = done.ranks.first();
    let model = first.map(|(_, s)| s.model.as_str()).unwrap_or_default();
    let backend = first.map(|(_, s)| s.backend.as_str()).unwrap_or_default();
    let release = first.map(|(_, s)| s.release.as_str()).unwrap_or_default();
    let _ = writeln!(text, "{model} is served by {}, backend {backend}, release {release}", count(done.ranks.len()));
    text.push_str(&ranks::table(done.ranks.iter().map(|(n, s)| (n, s)), &deploy.inventory));
    let _ = writeln!(text, "{} tokens in the first answer, {:.1} tokens/s", done.tokens, done.tokens_per_second);
    if let Some((node, _)) = first {
        let _ = writeln!(text, "endpoint http://{api}/v1 on {} (loopback only)", deploy.inventory.label(node));
        let _ = writeln!(text, "hint: `macluster tunnel` brings it to this machine");
    }
    text
}

fn count(ranks: usize) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

/// The report, for programs.
pub fn json(deploy: &Deploy) -> String {
    let Some(done) = &deploy.deployed else { return String::new() };
    let first = done.ranks.first().map(|(_, s)| s);
    let ranks: Vec<Value> = done.ranks.iter().map(|(node, status)| json!({"node": node, "status": status})).collect();
    json!({
        "schema_version": 1, "ok": true, "rack": deploy.inventory.rack,
        "release": first.map(|s| &s.release), "backend": first.map(|s| &s.backend), "model": first.map(|s| &s.model),
        "endpoint": {"node": done.ranks.first().map(|(n, _)| n), "url": format!("http://{}/v1", deploy.inventory.runtime.api)},
        "ranks": ranks, "idle": deploy.idle, "probe": {"tokens": done.tokens, "tokens_per_second": done.tokens_per_second},
    })
    .to_string()
}

/// What went wrong, for people: step, node, cause, the last lines of the failing rank's log, what was taken back.
pub fn failure(broken: &Broken, inventory: &Inventory) -> Failure {
    let line = |c: &Cause| match &c.node {
        Some(node) => format!("{}: {}", inventory.label(node), c.message),
        None => c.message.clone(),
    };
    let mut message = match broken.failure.causes.as_slice() {
        [one] => format!("{}: {}", broken.phase, line(one)),
        many => many.iter().fold(format!("{} failed", broken.phase), |m, c| format!("{m}\n  {}", line(c))),
    };
    for (node, log) in &broken.failure.logs {
        let _ = write!(message, "\nlast lines of the engine's log on {}:", inventory.label(node));
        for line in log.lines() {
            let _ = write!(message, "\n  {line}");
        }
    }
    for line in &broken.aftermath {
        let _ = write!(message, "\n{line}");
    }
    Failure { exit: broken.failure.exit, message, hints: broken.failure.hints.clone() }
}

/// The same for programs.
pub fn broken_json(broken: &Broken) -> String {
    let causes: Vec<Value> =
        broken.failure.causes.iter().map(|c| json!({"node": c.node, "message": c.message})).collect();
    let logs: Vec<Value> = broken
        .failure
        .logs
        .iter()
        .map(|(n, log)| json!({"node": n, "lines": log.lines().collect::<Vec<_>>()}))
        .collect();
    json!({
        "schema_version": 1, "ok": false, "step": broken.phase, "causes": causes, "logs": logs,
        "aftermath": broken.aftermath, "hints": broken.failure.hints, "exit": broken.failure.exit.code(),
    })
    .to_string()
}
