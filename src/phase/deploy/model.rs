//! The model folder must be whole, and the same, on every node, before anything that runs is stopped.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use super::{Cause, Deploy, Phase, PhaseFailure};
use crate::agent::model::{ModelFolder, Split};
use crate::event::Event;
use crate::exit::Exit;
use crate::mesh::ranks;
use crate::model::NodeName;
use crate::model::inventory::Paths;
use crate::sizing::choose::wired_limit;

/// From go to ready, without reading weights: joining takes seconds.
const START_SECONDS: f64 = 120.0;
/// A slow disk: what weights are surely read at, bytes per second.
const READ_SPEED: f64 = 500e6;
/// Bytes, for people.
const BILLION: u64 = 1_000_000_000;

pub(super) struct Model;

impl Phase for Model {
    fn id(&self) -> &'static str {
        "model"
    }

    fn title(&self) -> &'static str {
        "Look at the model on every node"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(look(deploy))
    }
}

/// The model's path on a node.
pub(super) fn path(model: &str, root: &str) -> String {
    Paths::rooted(root, model)
}

async fn look(deploy: &mut Deploy) -> Result<(), PhaseFailure> {
    let id = deploy.built()?.manifest.id;
    let model = deploy
        .inventory
        .runtime
        .model
        .clone()
        .ok_or_else(|| PhaseFailure::new(Exit::Inventory, "the inventory names no model"))?;
    let folders: Vec<ModelFolder> = deploy
        .each_rank("looking at the model", |t| {
            let (id, path) = (id.clone(), path(&model, t.node.layout.root()));
            async move {
                let output = t.node.step("look-at-model").release(&id).with("model", path).ok().await;
                let output = output.map_err(|e| e.words())?;
                serde_json::from_slice(&output.stdout).map_err(|e| format!("its answer cannot be read: {e}"))
            }
        })
        .await
        .map_err(|f| f.hint("every node needs the same complete model folder; nothing that runs was touched"))?;
    let kinds: BTreeSet<(&str, u64)> = folders.iter().map(|f| (f.model_type.as_str(), f.bytes)).collect();
    if kinds.len() > 1 {
        let causes = deploy.ranked().zip(&folders).map(|(target, folder)| Cause {
            node: Some(target.node.name.clone()),
            message: format!(
                "has a {} of {} bytes in {} files; all nodes must have the same model",
                folder.model_type, folder.bytes, folder.files
            ),
        });
        return Err(PhaseFailure::of(Exit::DeployFailed, causes.collect()));
    }
    if let Some(folder) = folders.first() {
        choose(deploy, &folder.splits.clone())?;
    }
    let bytes = folders.iter().map(|f| f.bytes).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "seconds, roughly")]
    let reading = bytes as f64 / READ_SPEED;
    deploy.start_timeout = (START_SECONDS + reading).ceil();
    Ok(())
}

/// Takes as many nodes as the model runs on; the others stay idle. An architecture that is not known is left to the
/// engine, which says itself whether it can split it.
fn choose(deploy: &mut Deploy, splits: &[Split]) -> Result<(), PhaseFailure> {
    let all = deploy.rank_inventory();
    let count = all.nodes.len() as u64;
    let Some(wanted) = splits.iter().find(|s| s.ranks == count) else { return Ok(()) };
    let memory = all.nodes.iter().filter_map(|n| memory(deploy, &n.name)).min();
    let problem = |split: &Split| match (&split.why, split.bytes, memory) {
        (Some(why), _, _) => Some(why.clone()),
        // More than all of it: no limit could make it fit. What macOS leaves to the GPU is a guess, and only said.
        (None, Some(bytes), Some(memory)) if bytes > memory => {
            Some(format!("each would hold {} GB of weights and has {} GB of memory", bytes / BILLION, memory / BILLION))
        }
        _ => None,
    };
    let Some(why) = problem(wanted) else {
        if let (Some(bytes), Some(memory)) = (wanted.bytes, memory)
            && bytes > wired_limit(memory, None)
        {
            let text = format!(
                "each node would hold {} GB of weights; macOS lets a GPU wire about three quarters of the memory: see `macluster sizing`",
                bytes / BILLION
            );
            deploy.events.emit(Event::Warning { node: None, text });
        }
        return Ok(());
    };
    let good = splits.iter().filter(|s| s.ranks < count && problem(s).is_none()).map(|s| s.ranks).max();
    let nodes = |n: u64| if n == 1 { "1 node".to_owned() } else { format!("{n} nodes") };
    let Some(fewer) = good.filter(|_| deploy.inventory.runtime.nodes.is_none()) else {
        let failure =
            PhaseFailure::new(Exit::DeployFailed, format!("the model does not run on {}: {why}", nodes(count)));
        return Err(match good {
            Some(n) => failure.hint(format!("it runs on {}: name them in runtime.nodes of the inventory", nodes(n))),
            None => failure.hint("`macluster sizing` shows what it needs"),
        });
    };
    let order: Vec<NodeName> = ranks::order(&all).into_iter().map(|n| n.name.clone()).collect();
    let idle: Vec<NodeName> = order.into_iter().skip(usize::try_from(fewer).unwrap_or(usize::MAX)).collect();
    let names: Vec<String> = idle.iter().map(|n| deploy.inventory.label(n)).collect();
    let text = format!(
        "the model does not run on {} ({why}), but on {}: idle stay {}",
        nodes(count),
        nodes(fewer),
        names.join(", ")
    );
    deploy.events.emit(Event::Warning { node: None, text });
    deploy.idle.extend(idle.into_iter().map(|n| (n, why.clone())));
    Ok(())
}

/// Bytes of a node's memory, as `system_profiler` says it: Apple counts in powers of two.
fn memory(deploy: &Deploy, node: &NodeName) -> Option<u64> {
    let text = &deploy.snapshot.facts(node)?.hardware.as_ref().ok()?.memory;
    let (number, unit) = text.split_once(' ')?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "GB" => Some(number << 30),
        "TB" => Some(number << 40),
        _ => None,
    }
}
