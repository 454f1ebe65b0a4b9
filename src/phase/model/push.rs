//! Brings a model to every node at once: only files that a node does not have, each proven by its hash there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::program;
use super::trouble::Trouble;
use crate::agent::store::{Lacks, ModelList};
use crate::event::{Event, Events};
use crate::model::command::TarEntry;
use crate::model::{NodeName, Stdin};
use crate::phase::deploy::available_kib;
use crate::phase::runtime::RuntimeNode;

/// The bar of a node.
pub(super) const COPYING: &str = "copying the model";
/// The bar over all nodes.
const ALL: &str = "copying to all nodes";
/// A connection that breaks is opened again so often, and what is still missing is sent over the new one.
pub(super) const ATTEMPTS: u32 = 3;
/// Left free on a disk that takes a model, KiB: macOS needs room to swap.
const SPARE_KIB: u64 = 1 << 20;

/// What is brought where.
pub struct Push<'a> {
    /// Folder at the desk.
    pub source: &'a Path,
    /// Its files.
    pub list: &'a ModelList,
    /// Folder on every node, without a node's root.
    pub to: &'a str,
    /// This program, for nodes that have none.
    pub own: PathBuf,
    /// Where progress goes.
    pub events: Events,
}

/// What it came to on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Files that were sent.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The node that sent them; none for the desk.
    pub from: Option<NodeName>,
}

/// A node that is ready to receive.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The model's folder there.
    pub(super) folder: String,
    /// Files that are to come.
    pub(super) missing: Vec<String>,
    /// Bytes that will be sent.
    pub bytes: u64,
}

impl Push<'_> {
    /// Looks what a node lacks, and whether it has room for it. Changes nothing but an empty folder.
    ///
    /// # Errors
    /// In words.
    pub async fn prepare(&self, node: &RuntimeNode) -> Result<Ready, Trouble> {
        program::provide(node, &self.own).await?;
        let folder = crate::model::inventory::Paths::rooted(node.layout.root(), self.to);
        node.step("make-model-folder").with("model", &folder).ok().await?;
        let lacks = lacks(node, &folder, self.list).await?;
        if !lacks.extra.is_empty() {
            let extra = shown(&lacks.extra);
            let text = format!("{folder} holds files that the model does not have: {extra}");
            return Err(Trouble::Other(format!("{text}; remove them, or choose another folder with --to")));
        }
        let bytes = self.list.files.iter().filter(|f| lacks.missing.contains(&f.path)).map(|f| f.size).sum();
        let df = node.step("ask-model-space").with("model", &folder).ok().await?;
        let needed = bytes / 1024 + SPARE_KIB;
        match available_kib(&df.text()) {
            Some(free) if free < needed && bytes > 0 => {
                let text = format!("the disk has {} MiB left, {} MiB are needed", free / 1024, needed / 1024);
                return Err(Trouble::Other(text));
            }
            Some(_) => {}
            None => return Err(Trouble::Other(format!("cannot read how much room is left: {}", df.describe()))),
        }
        Ok(Ready { folder, missing: lacks.missing, bytes })
    }

    /// Sends what is missing, proves it and puts it in its place. `sent`: bytes to all nodes so far, of `total`.
    ///
    /// # Errors
    /// In words; what has arrived whole stays for the next time.
    pub(super) async fn send(
        &self,
        node: &RuntimeNode,
        ready: &Ready,
        sent: Arc<AtomicU64>,
        total: u64,
    ) -> Result<Pushed, String> {
        let mut now = Ok(ready.clone());
        let mut attempts = 1..=ATTEMPTS;
        loop {
            attempts.next();
            let whole = async {
                let now = now?;
                self.transfer(node, &now, &sent, total).await?;
                self.adopt(node, &now).await
            };
            match whole.await {
                Ok(()) => return Ok(Pushed { files: ready.missing.len(), bytes: ready.bytes, from: None }),
                Err(Trouble::Broke(why)) if !attempts.is_empty() => {
                    let text = format!("{why}: copying goes on with what is still missing");
                    self.events.emit(Event::Warning { node: Some(node.name.clone()), text });
                }
                Err(why) => return Err(why.to_string()),
            }
            now = self.prepare(node).await;
        }
    }

    async fn transfer(
        &self,
        node: &RuntimeNode,
        ready: &Ready,
        sent: &Arc<AtomicU64>,
        total: u64,
    ) -> Result<(), Trouble> {
        if !ready.missing.is_empty() {
            let sent = Arc::clone(sent);
            let files = self.list.files.iter().filter(|f| ready.missing.contains(&f.path));
            let entries = files.map(|f| TarEntry {
                path: f.path.clone(),
                source: self.source.join(&f.path).into(),
                mode: 0o644,
                size: f.size,
            });
            let (events, name, bytes) = (Arc::clone(&self.events), node.name.clone(), ready.bytes);
            let mut before = 0;
            let tell = move |done: u64| {
                // The archive is a little longer than what is in it.
                let done = done.min(bytes);
                let what = COPYING.to_owned();
                events.emit(Event::Progress { node: Some(name.clone()), what, done, total: bytes });
                let step = done.saturating_sub(before);
                let all = sent.fetch_add(step, Ordering::Relaxed) + step;
                before = done;
                events.emit(Event::Progress { node: None, what: ALL.to_owned(), done: all.min(total), total });
            };
            let call = node.step("receive-model").with("model", &ready.folder).stdin(Stdin::Tar(entries.collect()));
            call.on_sent(Box::new(tell)).ok().await?;
        }
        Ok(())
    }

    /// Lets a node prove what has arrived, and put it in its place.
    pub(super) async fn adopt(&self, node: &RuntimeNode, ready: &Ready) -> Result<(), Trouble> {
        let list = serde_json::to_vec(self.list).map_err(|e| e.to_string())?;
        let call = node.step("adopt-model").with("model", &ready.folder);
        call.stdin(Stdin::Bytes(list)).ok().await.map(drop).map_err(Trouble::from)
    }

    /// A bar over all nodes, while something is sent.
    pub(super) fn begin(&self) {
        self.events.emit(Event::TaskStarted { node: None, what: ALL.to_owned() });
    }

    /// Its end.
    pub(super) fn end(&self) {
        self.events.emit(Event::TaskDone { node: None, what: ALL.to_owned(), error: None });
    }
}

/// Asks a node what it lacks of a list.
///
/// # Errors
/// In words.
async fn lacks(node: &RuntimeNode, folder: &str, list: &ModelList) -> Result<Lacks, Trouble> {
    let list = serde_json::to_vec(list).map_err(|e| e.to_string())?;
    let call = node.step("compare-model").with("model", folder).stdin(Stdin::Bytes(list));
    let output = call.ok().await?;
    serde_json::from_slice(&output.stdout).map_err(|e| Trouble::Other(format!("its answer cannot be read: {e}")))
}

/// A few names, and how many more.
pub(super) fn shown(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let rest = names.len() - first.len();
    if rest == 0 { first.join(", ") } else { format!("{} and {rest} more", first.join(", ")) }
}
