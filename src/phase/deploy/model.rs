//! The model folder must be whole, and the same, on every node, before anything that runs is stopped.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use super::divide::{BILLION, Rack, divide, nodes};
use super::{Cause, Deploy, Phase, PhaseFailure};
use crate::agent::model::ModelFolder;
use crate::event::Event;
use crate::exit::Exit;
use crate::mesh::ranks;
use crate::model::inventory::Paths;
use crate::model::{NodeFacts, NodeName};
use crate::sizing::choose::wired_limit;

/// From go to ready, without reading weights: joining takes seconds.
const START_SECONDS: f64 = 120.0;
/// A slow disk: what weights are surely read at, bytes per second.
const READ_SPEED: f64 = 500e6;

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
        choose(deploy, folder)?;
    }
    let bytes = folders.iter().map(|f| f.bytes).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "seconds, roughly")]
    let reading = bytes as f64 / READ_SPEED;
    deploy.start_timeout = (START_SECONDS + reading).ceil();
    Ok(())
}

/// Decides how the model is divided, tells what the operator should know of it, and lets the other nodes stay idle.
fn choose(deploy: &mut Deploy, folder: &ModelFolder) -> Result<(), PhaseFailure> {
    let all = deploy.rank_inventory();
    let facts = || all.nodes.iter().filter_map(|n| deploy.snapshot.facts(&n.name));
    let rack = Rack {
        nodes: all.nodes.len() as u64,
        memory: facts().filter_map(NodeFacts::memory_bytes).min(),
        limit: facts().filter_map(|f| Some(wired_limit(f.memory_bytes()?, f.set_wired_limit()))).min(),
        set: facts().filter_map(NodeFacts::set_wired_limit).min().map(|mib| mib << 20),
        named: deploy.inventory.runtime.nodes.is_some(),
    };
    let division = divide(deploy.inventory.runtime.parallel, folder, &rack)
        .map_err(|no| PhaseFailure::new(Exit::DeployFailed, no.message).hint(no.hint))?;
    deploy.parallel = division.parallel;
    let warn = |text: String| deploy.events.emit(Event::Warning { node: None, text });
    if let Some(remark) = division.remark {
        warn(remark);
    }
    if let (Some(bytes), Some(limit)) = (division.bytes, rack.limit)
        && bytes > limit
    {
        warn(format!(
            "a node would hold {} GB of weights, and its GPU may wire about {} GB, three quarters of the memory: \
             `macluster sizing` compares",
            bytes / BILLION,
            limit / BILLION
        ));
    }
    let Some(why) = division.idle else { return Ok(()) };
    let order = ranks::order(&all).into_iter().map(|n| n.name.clone());
    let idle: Vec<NodeName> = order.skip(usize::try_from(division.ranks).unwrap_or(usize::MAX)).collect();
    let names: Vec<String> = idle.iter().map(|n| deploy.inventory.label(n)).collect();
    warn(format!(
        "the model does not run on {} ({why}), but on {}: idle stay {}",
        nodes(rack.nodes),
        nodes(division.ranks),
        names.join(", ")
    ));
    deploy.idle.extend(idle.into_iter().map(|n| (n, why.clone())));
    Ok(())
}
