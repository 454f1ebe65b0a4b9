//! Puts the new configuration and release in place. On the way back the previous ones return.

use futures::future::BoxFuture;

use super::{Deploy, Phase, PhaseFailure, Target};
use crate::model::NodeName;

pub(super) struct Activate;

impl Phase for Activate {
    fn id(&self) -> &'static str {
        "activate"
    }

    fn title(&self) -> &'static str {
        "Make the release the active one"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(async move {
            let id = deploy.built()?.manifest.id;
            // Noted before it is done: a switch that was cut off half-way is taken back too.
            deploy.switched = deploy.targets.iter().map(|t| t.node.name.clone()).collect();
            let deploy: &Deploy = deploy;
            let switch = |t: &'_ Target| {
                let (node, id) = (t.node.clone(), id.clone());
                let idle = deploy.is_idle(&node.name);
                async move {
                    node.step(if idle { "switch-to-idle" } else { "switch-configuration" })
                        .release(&id)
                        .ok()
                        .await
                        .map_err(|e| e.to_string())?;
                    node.step("activate").release(&id).ok().await.map(drop).map_err(|e| e.words())
                }
            };
            deploy.each("activating", switch).await.map(drop)
        })
    }

    fn undo<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let Ok(built) = deploy.built() else { return Vec::new() };
            let switched: Vec<NodeName> = std::mem::take(&mut deploy.switched);
            let back = |t: &'_ Target| {
                let mine = switched.contains(&t.node.name);
                let (node, new) = (t.node.clone(), built.manifest.id.clone());
                let old = t.previous.as_ref().and_then(|r| r.active.clone());
                let idle = t.previous.as_ref().is_some_and(|r| r.configured.is_none());
                async move {
                    if !mine {
                        return Ok(());
                    }
                    let (files, link, id) = match &old {
                        Some(old) if idle => ("restore-idle", "activate", old),
                        Some(old) => ("restore-configuration", "activate", old),
                        None => ("remove-configuration", "deactivate", &new),
                    };
                    let files = node.step(files).release(&new).ok().await.map_err(|e| e.to_string());
                    // The link goes back in any case: the agent must never find a release without its configuration.
                    node.step(link).release(id).ok().await.map_err(|e| e.words())?;
                    files.map(drop)
                }
            };
            deploy.each_back("putting the previous release back", back).await
        })
    }
}
