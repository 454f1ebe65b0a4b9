//! The model folder must be whole, and the same, on every node, before anything that runs is stopped.

use std::collections::BTreeSet;

use futures::future::BoxFuture;

use super::{Cause, Deploy, Phase, PhaseFailure};
use crate::agent::model::ModelFolder;
use crate::exit::Exit;
use crate::model::inventory::Paths;

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
        .each("looking at the model", |t| {
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
        let causes = deploy.targets.iter().zip(&folders).map(|(target, folder)| Cause {
            node: Some(target.node.name.clone()),
            message: format!(
                "has a {} of {} bytes in {} files; all nodes must have the same model",
                folder.model_type, folder.bytes, folder.files
            ),
        });
        return Err(PhaseFailure::of(Exit::DeployFailed, causes.collect()));
    }
    let bytes = folders.iter().map(|f| f.bytes).max().unwrap_or(0);
    #[allow(clippy::cast_precision_loss, reason = "seconds, roughly")]
    let reading = bytes as f64 / READ_SPEED;
    deploy.start_timeout = (START_SECONDS + reading).ceil();
    for (target, folder) in deploy.targets.iter_mut().zip(folders) {
        target.model = Some(folder);
    }
    Ok(())
}
