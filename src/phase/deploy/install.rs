//! Makes the Python environment of the release on every node, from its own wheels, by hash, without network.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{Deploy, Phase, PhaseFailure, Target};
use crate::model::Stdin;
use crate::phase::bundle::Manifest;
use crate::phase::runtime::StepError;
use crate::phase::service;

/// For the installation of a deploy that was cut off to come to its end.
const EARLIER_LIMIT: Duration = Duration::from_secs(300);

pub(super) struct Install;

impl Phase for Install {
    fn id(&self) -> &'static str {
        "install"
    }

    fn title(&self) -> &'static str {
        "Install the release"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(async move {
            let built = deploy.built()?;
            let manifest = &built.manifest;
            deploy.each("installing", |t| install(t, manifest)).await.map(drop)
        })
    }
}

async fn install(target: &Target, manifest: &Manifest) -> Result<(), String> {
    let words = |e: StepError| e.to_string();
    let node = &target.node;
    let id = manifest.id.as_str();
    let (uid, gid) = target.owner.ok_or("nobody knows whose the engine is")?;
    let python = match (&target.python, &manifest.python) {
        (Some(python), _) => python.path.clone(),
        (None, Some(inside)) => format!("{}/{inside}", node.layout.release(id)),
        (None, None) => return Err("there is no Python for this node".to_owned()),
    };
    node.step("own-engine-home").with("uid", uid.to_string()).with("gid", gid.to_string()).ok().await.map_err(words)?;
    // Another interpreter, or another owner, makes another environment.
    let mark = format!("{id} {uid} {python}\n");
    let there = node.step("check-installed").release(id).answer().await.map_err(words)?;
    if there.ok() && there.stdout == mark.as_bytes() {
        return Ok(());
    }
    service::wait_for_installers(node, EARLIER_LIMIT).await?;
    let clear = || node.step("clear-environment").release(id).with("uid", uid.to_string()).with("gid", gid.to_string());
    clear().ok().await.map_err(words)?;
    let made = make(target, id, &python).await;
    if let Err(why) = made {
        // Nothing half-done stays; the mark is missing, so the next deploy begins anew in any case.
        let _ = clear().ok().await;
        return Err(why);
    }
    node.step("mark-installed").release(id).stdin(Stdin::Bytes(mark.into_bytes())).ok().await.map(drop).map_err(words)
}

async fn make(target: &Target, id: &str, python: &str) -> Result<(), String> {
    let said = |e: StepError| match &e {
        // uv says what is wrong in several lines.
        StepError::Ended { output, .. } => {
            let text = crate::model::command::printable(output.err_text().trim());
            format!("{e}\n{text}")
        }
        _ => e.to_string(),
    };
    target.node.step("make-environment").release(id).with("python", python).ok().await.map_err(said)?;
    target.node.step("install").release(id).ok().await.map(drop).map_err(said)
}
