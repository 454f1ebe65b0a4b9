//! Copies to all nodes at once what they do not have of the bundle, and lets each node prove that it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use serde::Deserialize;

use super::space::available_kib;
use super::{Deploy, Phase, PhaseFailure, Target};
use crate::agent::gather::Gathered;
use crate::event::Event;
use crate::model::command::TarEntry;
use crate::model::{NodeName, Stdin};
use crate::phase::bundle::manifest::MANIFEST_FILE;
use crate::phase::bundle::{Built, FileEntry};
use crate::phase::runtime::{RuntimeNode, StepError};
use crate::remote::RemoteError;

/// A connection that breaks is opened again so often, and what is still missing is sent over the new one.
const ATTEMPTS: u32 = 3;
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
        Box::pin(async move {
            let mut attempts = 1..=ATTEMPTS;
            loop {
                attempts.next();
                let lost = Lost::default();
                let pushed = push_and_tidy(deploy, &lost).await;
                let cut_off = lost.nodes();
                let Err(failure) = pushed else {
                    deploy.cut_off = BTreeSet::new();
                    return Ok(());
                };
                let only_lost = failure.causes.iter().all(|c| c.node.as_ref().is_some_and(|n| cut_off.contains(n)));
                if only_lost && !attempts.is_empty() {
                    say_that_it_goes_on(deploy, &failure);
                    continue;
                }
                deploy.cut_off = cut_off;
                if deploy.cut_off.is_empty() {
                    return Err(failure);
                }
                return Err(failure.hint("deploy again: what has arrived there is not sent a second time"));
            }
        })
    }
}

/// What `macluster node verify` prints.
#[derive(Deserialize)]
struct Verified {
    id: String,
}

/// Nodes whose connection broke.
#[derive(Default)]
struct Lost(Mutex<BTreeSet<NodeName>>);

impl Lost {
    /// The error in words, remembering whose connection is gone.
    fn note(&self, node: &RuntimeNode, error: &StepError) -> String {
        if matches!(error, StepError::Remote(RemoteError::Lost(_) | RemoteError::Connect(_))) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.name.clone());
        }
        error.words()
    }

    fn nodes(self) -> BTreeSet<NodeName> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

fn say_that_it_goes_on(deploy: &Deploy, failure: &PhaseFailure) {
    for cause in &failure.causes {
        let text = format!("{}: copying goes on where it stopped", cause.message);
        deploy.events.emit(Event::Warning { node: cause.node.clone(), text });
    }
}

async fn push_and_tidy(deploy: &mut Deploy, lost: &Lost) -> Result<(), PhaseFailure> {
    push(deploy, lost).await?;
    let id = deploy.built()?.manifest.id.clone();
    deploy.holds.iter().for_each(|hold| hold.taken_again_with(&id));
    let clear = |t: &'_ Target| {
        let node = t.node.clone();
        async move { node.step("clear-arrivals").ok().await.map(drop).map_err(|e| lost.note(&node, &e)) }
    };
    deploy.each("tidying up", clear).await.map(drop)
}

async fn push(deploy: &Deploy, lost: &Lost) -> Result<(), PhaseFailure> {
    let built = deploy.built()?;
    let built = &built;
    let look = |t: &'_ Target| {
        let node = t.node.clone();
        async move { missing(&node, built).await.map_err(|e| lost.note(&node, &e)) }
    };
    let found = deploy.each("looking what is there", look).await?;
    let names = deploy.targets.iter().map(|t| t.node.name.clone());
    let lacking: BTreeMap<NodeName, Missing> =
        names.zip(found).filter_map(|(name, found)| Some((name, found?))).collect();
    for (node, missing) in &lacking {
        say_what_is_there(deploy, node, missing, built);
    }
    let total = lacking.values().map(|m| m.bytes).sum();
    let sent = Arc::new(AtomicU64::new(0));
    let bring = |t: &'_ Target| {
        let missing = lacking.get(&t.node.name);
        let (node, sent) = (t.node.clone(), Arc::clone(&sent));
        async move {
            let Some(missing) = missing else { return Ok(()) };
            let transfer = Transfer { deploy, node: &node, built, missing, sent, total };
            transfer.run(lost).await
        }
    };
    let whole = |event: fn(String) -> Event| {
        if total > 0 {
            deploy.events.emit(event(ALL.to_owned()));
        }
    };
    whole(|what| Event::TaskStarted { node: None, what });
    let copied = deploy.each("copying the bundle", bring).await;
    whole(|what| Event::TaskDone { node: None, what, error: None });
    copied.map(drop)
}

/// What a node lacks of the bundle.
struct Missing {
    files: Vec<FileEntry>,
    /// Of these files.
    bytes: u64,
    /// What the node has found itself.
    gathered: Gathered,
}

/// None when the node has the release, whole.
async fn missing(node: &RuntimeNode, built: &Built) -> Result<Option<Missing>, StepError> {
    let id = built.manifest.id.as_str();
    let output = node.step("verify-release").release(id).answer().await?;
    if output.ok() && serde_json::from_slice::<Verified>(&output.stdout).is_ok_and(|v| v.id == id) {
        return Ok(None);
    }
    let manifest = Stdin::File(built.dir.join(MANIFEST_FILE));
    let output = node.step("gather").release(id).stdin(manifest).ok().await?;
    let wrong = |why: String| StepError::Answer(format!("the list of missing files cannot be used: {why}"));
    let gathered: Gathered = serde_json::from_slice(&output.stdout).map_err(|e| wrong(e.to_string()))?;
    if gathered.id != id {
        return Err(wrong(format!("it is of bundle {}", gathered.id.escape_debug())));
    }
    // Only what the manifest lists is ever sent, whatever the node asks for.
    let asked: BTreeSet<&str> = gathered.missing.iter().map(String::as_str).collect();
    let files: Vec<FileEntry> =
        built.manifest.files.iter().filter(|f| asked.contains(f.path.as_str())).cloned().collect();
    let bytes = files.iter().map(|f| f.size).sum();
    Ok(Some(Missing { files, bytes, gathered }))
}

fn say_what_is_there(deploy: &Deploy, node: &NodeName, missing: &Missing, built: &Built) {
    let Gathered { kept, copied, .. } = missing.gathered;
    let (all, mib) = (built.manifest.files.len(), missing.bytes.div_ceil(1024 * 1024));
    let text = format!(
        "{} of {all} files are sent ({mib} MiB); {copied} were on the node, {kept} are left of a transfer that broke off",
        missing.files.len()
    );
    deploy.events.emit(Event::Note { node: Some(node.clone()), text });
}

/// Brings one node what it lacks.
struct Transfer<'a> {
    deploy: &'a Deploy,
    node: &'a RuntimeNode,
    built: &'a Built,
    missing: &'a Missing,
    /// Bytes sent to all nodes so far.
    sent: Arc<AtomicU64>,
    /// Bytes that all nodes need.
    total: u64,
}

impl Transfer<'_> {
    async fn run(self, lost: &Lost) -> Result<(), String> {
        let node = self.node;
        let words = |e: StepError| lost.note(node, &e);
        let id = self.built.manifest.id.as_str();
        // What is still to come, and the packages twice more when they are installed, with some air.
        let needed = self.missing.bytes / 1024 + self.built.manifest.total_bytes() / 1024 * 5 / 2;
        let df = node.step("ask-space").ok().await.map_err(words)?;
        match available_kib(&df.text()) {
            Some(free) if free < needed => {
                return Err(format!("the disk has {} MiB left, {} MiB are needed", free / 1024, needed / 1024));
            }
            Some(_) => {}
            None => return Err(format!("cannot read how much room is left: {}", df.describe())),
        }
        if !self.missing.files.is_empty() {
            let receive = node.step("receive").release(id).stdin(Stdin::Tar(self.entries()));
            receive.on_sent(Box::new(self.progress())).ok().await.map_err(words)?;
        }
        let proof = node.step("verify-staging").release(id).ok().await.map_err(words)?;
        if !serde_json::from_slice::<Verified>(&proof.stdout).is_ok_and(|v| v.id == id) {
            return Err("what arrived is another bundle".to_owned());
        }
        node.step("adopt").release(id).ok().await.map(drop).map_err(words)
    }

    fn entries(&self) -> Vec<TarEntry> {
        let entry = |f: &FileEntry| TarEntry {
            path: f.path.clone(),
            source: self.built.dir.join(&f.path).into(),
            mode: f.mode,
            size: f.size,
        };
        self.missing.files.iter().map(entry).collect()
    }

    /// Tells how far this node, and all nodes, are.
    fn progress(&self) -> impl FnMut(u64) + Send + 'static {
        let (events, name, sum) = (self.deploy.events.clone(), self.node.name.clone(), Arc::clone(&self.sent));
        let (bytes, total) = (self.missing.bytes, self.total);
        let mut before = 0;
        move |done: u64| {
            let what = "copying the bundle".to_owned();
            events.emit(Event::Progress { node: Some(name.clone()), what, done: done.min(bytes), total: bytes });
            let all = sum.fetch_add(done.saturating_sub(before), Ordering::Relaxed) + done.saturating_sub(before);
            before = done;
            events.emit(Event::Progress { node: None, what: ALL.to_owned(), done: all.min(total), total });
        }
    }
}
