//! Going back to what was there before macluster ever changed the links of a node. The node does it by itself, as the
//! dead-man would: it goes on whatever becomes of this desk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::deadman::{self, Back};
use super::lock::{self, Operator};
use super::steps::NetNode;
use crate::event::{Event, Events};
use crate::model::network_facts::{DEADMAN_JOB, LINKS_JOB};
use crate::model::{NodeName, Snapshot};
use crate::phase::network::{Applied, Fate};
use crate::playbook::{PlaybookError, Playbooks, Scripts};
use crate::remote::SharedRemote;

/// For a node to go back.
const LIMIT: Duration = Duration::from_secs(120);

/// What a revert needs.
#[derive(Clone, Copy)]
pub struct Reverting<'a> {
    /// Commands.
    pub playbooks: &'a Playbooks,
    /// What is laid on the nodes.
    pub scripts: &'a Scripts,
    /// Who does it.
    pub operator: &'a Operator,
    /// Where progress goes.
    pub events: &'a Events,
}

/// Takes these nodes back, all at once.
///
/// # Errors
/// The playbook cannot be used.
pub async fn revert(
    r: &Reverting<'_>,
    remotes: &BTreeMap<NodeName, SharedRemote>,
) -> Result<Vec<Applied>, PlaybookError> {
    let book = Arc::new(r.playbooks.book("network")?.clone());
    r.events.emit(Event::PhaseStarted { id: "revert", title: "Go back to what was there first".to_owned() });
    let done = join_all(remotes.values().map(|remote| {
        let node = NetNode::new(remote, &book, r.events);
        async move {
            let what = "going back".to_owned();
            r.events.emit(Event::TaskStarted { node: Some(node.name.clone()), what: what.clone() });
            let fate = one(r, &node).await;
            r.events.emit(Event::TaskDone { node: Some(node.name.clone()), what, error: fate.failure() });
            Applied { node: node.name, changes: 0, fate }
        }
    }))
    .await;
    let ok = done.iter().all(|d| d.fate.failure().is_none());
    r.events.emit(Event::PhaseDone { id: "revert", ok });
    Ok(done)
}

impl Fate {
    /// Why a revert did not do what it should.
    fn failure(&self) -> Option<String> {
        match self {
            Fate::Reverted { .. } | Fate::Complete => None,
            Fate::Untouched(why) => Some(why.clone()),
            Fate::GoesBack { unseen, .. } => Some(unseen.clone()),
        }
    }
}

async fn one(r: &Reverting<'_>, node: &NetNode) -> Fate {
    let why = "asked for".to_owned();
    match begin(r, node).await {
        Ok(true) => {}
        Ok(false) => return Fate::Complete,
        Err(why) => return Fate::Untouched(why),
    }
    match deadman::wait_back(node, LIMIT).await {
        Back::Done(log) => {
            for label in [DEADMAN_JOB, LINKS_JOB] {
                if let Err(e) = node.job("unload", label).await {
                    node.say(format!("{label}: {e}"));
                }
            }
            if let Err(e) = node.run("forget").await {
                node.say(format!("it has gone back, but its own files are still there: {e}"));
            }
            Fate::Reverted { why, log }
        }
        Back::Unseen(unseen) => Fate::GoesBack { why, unseen, within: LIMIT },
    }
}

/// Tells the node to go back. False when macluster has never changed its links.
async fn begin(r: &Reverting<'_>, node: &NetNode) -> Result<bool, String> {
    let words = |e: crate::phase::runtime::StepError| e.to_string();
    let names = node.state().await.map_err(words)?;
    if !names.iter().any(|n| n == "first") {
        return Ok(false);
    }
    deadman::settle_earlier(node, r.scripts).await?;
    lock::take(node, r.operator, LIMIT).await?;
    deadman::install(node, r.scripts).await?;
    node.write("write-fire", "0\n-\nfirst\n").await.map_err(words)?;
    node.run("go-back").await.map_err(words)?;
    node.job("load", DEADMAN_JOB).await.map_err(words)?;
    Ok(true)
}

/// Nodes where an earlier change was cut off: waits until they have taken it back by themselves. Gives those that had
/// something to take back.
///
/// # Errors
/// By node: somebody else works there, or it does not go back.
pub async fn settle(
    r: &Reverting<'_>,
    snapshot: &Snapshot,
    remotes: &BTreeMap<NodeName, SharedRemote>,
) -> Result<Vec<NodeName>, Vec<(NodeName, String)>> {
    let Ok(book) = r.playbooks.book("network") else { return Ok(Vec::new()) };
    let book = Arc::new(book.clone());
    let armed = remotes
        .values()
        .filter(|remote| snapshot.facts(remote.node()).is_some_and(|facts| facts.network.armed == Ok(true)));
    let waits = armed.map(|remote| {
        let node = NetNode::new(remote, &book, r.events);
        async move {
            let name = node.name.clone();
            if let Err(why) = lock::none_lives(&node, r.operator).await {
                return Err((name, why));
            }
            deadman::settle_earlier(&node, r.scripts)
                .await
                .map(|settled| settled.then(|| name.clone()))
                .map_err(|why| (name, why))
        }
    });
    let (mut settled, mut refused) = (Vec::new(), Vec::new());
    for result in join_all(waits).await {
        match result {
            Ok(name) => settled.extend(name),
            Err(why) => refused.push(why),
        }
    }
    if refused.is_empty() { Ok(settled) } else { Err(refused) }
}
