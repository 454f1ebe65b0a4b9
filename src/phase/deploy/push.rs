//! Copies the bundle to all nodes at once, and lets each node prove that it arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use serde::Deserialize;

use super::space::available_kib;
use super::{Deploy, Phase, PhaseFailure, Target};
use crate::event::Event;
use crate::model::Stdin;
use crate::model::command::TarEntry;
use crate::phase::bundle::Built;
use crate::phase::bundle::manifest::MANIFEST_FILE;
use crate::phase::runtime::StepError;

/// The bar over all nodes.
const ALL: &str = "copying to all nodes";

pub(super) struct Push;

impl Phase for Push {
    fn id(&self) -> &'static str {
        "push"
    }

    fn title(&self) -> &'static str {
        "Copy the bundle to the nodes"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(push(deploy))
    }
}

/// What `macluster node verify` prints.
#[derive(Deserialize)]
struct Verified {
    id: String,
}

async fn push(deploy: &Deploy) -> Result<(), PhaseFailure> {
    let built = deploy.built()?;
    let missing = deploy.each("looking for the release", |t| has(t, &built.manifest.id)).await?;
    let total = built.manifest.total_bytes() * missing.iter().filter(|there| !**there).count() as u64;
    let sent = Arc::new(AtomicU64::new(0));
    let built = &built;
    let work = |t: &'_ Target| {
        let there = missing.iter().zip(&deploy.targets).any(|(there, other)| *there && other.node.name == t.node.name);
        let sent = Arc::clone(&sent);
        let node = t.node.clone();
        async move {
            if there {
                return Ok(());
            }
            send(deploy, &node, built, &sent, total).await
        }
    };
    let whole = |event: fn(String) -> Event| {
        if total > 0 {
            deploy.events.emit(event(ALL.to_owned()));
        }
    };
    whole(|what| Event::TaskStarted { node: None, what });
    let copied = deploy.each("copying the bundle", work).await;
    whole(|what| Event::TaskDone { node: None, what, error: None });
    copied?;
    let clear = |t: &'_ Target| {
        let node = t.node.clone();
        async move { node.step("clear-arrivals").ok().await.map(drop).map_err(|e| e.to_string()) }
    };
    deploy.each("tidying up", clear).await.map(drop)
}

/// The node has this release, whole.
async fn has(target: &Target, id: &str) -> Result<bool, String> {
    let output = target.node.step("verify-release").release(id).answer().await.map_err(|e| e.to_string())?;
    Ok(output.ok() && serde_json::from_slice::<Verified>(&output.stdout).is_ok_and(|v| v.id == id))
}

async fn send(
    deploy: &Deploy,
    node: &crate::phase::runtime::RuntimeNode,
    built: &Built,
    sent: &Arc<AtomicU64>,
    total: u64,
) -> Result<(), String> {
    let words = |e: StepError| e.to_string();
    let id = built.manifest.id.as_str();
    let bytes = built.manifest.total_bytes();
    // The bundle itself, and its packages once more when they are installed, with some air.
    let needed = bytes / 1024 * 7 / 2;
    let df = node.step("ask-space").ok().await.map_err(words)?;
    match available_kib(&df.text()) {
        Some(free) if free < needed => {
            return Err(format!("the disk has {} MiB left, {} MiB are needed", free / 1024, needed / 1024));
        }
        Some(_) => {}
        None => return Err(format!("cannot read how much room is left: {}", df.describe())),
    }
    node.step("clear-staging").release(id).ok().await.map_err(words)?;
    let manifest = built.dir.join(MANIFEST_FILE);
    let size = std::fs::metadata(&manifest).map_err(|e| format!("{}: {e}", manifest.display()))?.len();
    let mut entries = vec![TarEntry { path: MANIFEST_FILE.into(), source: manifest, mode: 0o644, size }];
    entries.extend(built.manifest.files.iter().map(|f| TarEntry {
        path: f.path.clone(),
        source: built.dir.join(&f.path),
        mode: f.mode,
        size: f.size,
    }));
    let (events, name, sum) = (deploy.events.clone(), node.name.clone(), Arc::clone(sent));
    let mut before = 0;
    let tell = move |done: u64| {
        let what = "copying the bundle".to_owned();
        events.emit(Event::Progress { node: Some(name.clone()), what, done: done.min(bytes), total: bytes });
        let all = sum.fetch_add(done.saturating_sub(before), Ordering::Relaxed) + done.saturating_sub(before);
        before = done;
        let what = ALL.to_owned();
        events.emit(Event::Progress { node: None, what, done: all.min(total), total });
    };
    node.step("receive").release(id).stdin(Stdin::Tar(entries)).on_sent(Box::new(tell)).ok().await.map_err(words)?;
    let proof = node.step("verify-staging").release(id).ok().await.map_err(|e| e.words())?;
    if !serde_json::from_slice::<Verified>(&proof.stdout).is_ok_and(|v| v.id == id) {
        return Err("what arrived is another bundle".to_owned());
    }
    node.step("adopt").release(id).ok().await.map(drop).map_err(words)
}
