//! Runs a plan. Nodes are worked on side by side; every node can go back by itself at any moment, and does unless a new
//! SSH session confirms the change.
//!
//! lock → record what is there → arm the dead-man → change → prove → confirm over a new session → disarm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use super::change::{change, record};
use super::deadman::{self, Armed, Back};
use super::fate::{Applied, ApplyError, Fate};
use super::keeper;
use super::lock::{self, NotTaken, Operator};
use super::prove::{Prover, prove};
use super::steps::NetNode;
use super::verify::Verified;
use crate::event::{Event, Events};
use crate::model::network_facts::HistoryEntry;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::network::persist::{boot_session, history};
use crate::network::{Change, NetworkPlan, PlanOptions};
use crate::playbook::{PlaybookError, Playbooks, Scripts};
use crate::remote::{Fleet, SharedRemote};

/// What an apply needs.
#[derive(Clone, Copy)]
pub struct Applying<'a> {
    /// Nodes and pool.
    pub inventory: &'a Inventory,
    /// The facts of the plan.
    pub snapshot: &'a Snapshot,
    /// The plan.
    pub plan: &'a NetworkPlan,
    /// Commands.
    pub playbooks: &'a Playbooks,
    /// What is laid on the nodes.
    pub scripts: &'a Scripts,
    /// Wishes, for plans made on the way.
    pub options: PlanOptions,
    /// How long a node waits for its confirmation after the last sign of life.
    pub window: Duration,
    /// How long links may take to come up.
    pub settle: Duration,
    /// Who does it.
    pub operator: &'a Operator,
    /// The person wants to stop: nodes go back.
    pub stop: &'a CancellationToken,
    /// Where progress goes.
    pub events: &'a Events,
}

/// New connections to these nodes, made from nothing.
pub type Again<'a> = dyn Fn(BTreeSet<NodeName>) -> BoxFuture<'a, Fleet> + Send + Sync + 'a;

/// One node at work.
pub(super) struct Work<'a> {
    pub(super) node: NetNode,
    pub(super) changes: Vec<&'a Change>,
    armed: Option<Armed>,
    fate: Option<Fate>,
}

impl Work<'_> {
    /// Its dead-man, while it waits for a confirmation.
    fn kept(&self) -> Option<(&NetNode, &Armed)> {
        self.armed.as_ref().filter(|_| self.fate.is_none()).map(|armed| (&self.node, armed))
    }
}

/// Applies the plan to the nodes that have changes in it. A node that fails goes back and does not stop the others.
///
/// # Errors
/// Somebody else works on a node: nothing was changed anywhere, told by node.
pub async fn apply(
    a: &Applying<'_>,
    remotes: &BTreeMap<NodeName, SharedRemote>,
    fleet: &Fleet,
    again: &Again<'_>,
) -> Result<(Vec<Applied>, Verified), ApplyError> {
    let book = Arc::new(a.playbooks.book("network")?.clone());
    let mut works: Vec<Work<'_>> = Vec::new();
    let mut lost = Vec::new();
    for name in a.plan.nodes() {
        match remotes.get(name) {
            Some(remote) => works.push(Work {
                node: NetNode::new(remote, &book, a.events),
                changes: a.plan.of(name),
                armed: None,
                fate: None,
            }),
            None => lost.push(Applied {
                node: name.clone(),
                changes: a.plan.of(name).len(),
                fate: Fate::Untouched("no connection to this node".to_owned()),
            }),
        }
    }
    a.events.emit(Event::PhaseStarted { id: "lock", title: "Take the lock of every node".to_owned() });
    let locked = lock_all(a, &mut works).await;
    a.events.emit(Event::PhaseDone { id: "lock", ok: locked.is_ok() && works.iter().all(|w| w.fate.is_none()) });
    locked.map_err(ApplyError::Locked)?;
    each(a, &mut works, "arm", "Record what is there and arm the dead-man", |w, all| Box::pin(prepare(a, w, all)))
        .await;
    each(a, &mut works, "change", "Set up the link networks", |w, all| Box::pin(work(a, w, all))).await;
    a.events.emit(Event::PhaseStarted { id: "verify", title: "Prove the link networks".to_owned() });
    let verified = verify(a, &mut works, fleet).await;
    a.events.emit(Event::PhaseDone { id: "verify", ok: verified.as_ref().is_ok_and(Verified::ok) });
    let names: BTreeSet<NodeName> = alive(&works).map(|w| w.node.name.clone()).collect();
    let fresh = if names.is_empty() {
        None
    } else {
        let waiting: Vec<_> = alive(&works).filter_map(Work::kept).collect();
        Some(keeper::alongside(&waiting, again(names)).await)
    };
    // Whoever can confirm does so at once: no node waits for another.
    each(a, &mut works, "confirm", "Confirm over new SSH sessions", |w, _| Box::pin(confirm(a, w, fresh.as_ref())))
        .await;
    if let Some(fresh) = fresh {
        fresh.close().await;
    }
    let done = works.into_iter().map(|w| Applied {
        node: w.node.name,
        changes: w.changes.len(),
        fate: w.fate.unwrap_or(Fate::Complete),
    });
    let mut applied: Vec<Applied> = done.chain(lost).collect();
    applied.sort_by_key(|d| a.inventory.nodes.iter().position(|n| n.name == d.node));
    Ok((applied, verified?))
}

fn alive<'a, 'w>(works: &'a [Work<'w>]) -> impl Iterator<Item = &'a Work<'w>> {
    works.iter().filter(|w| w.fate.is_none())
}

/// Somebody who works on one node works on the rack: then no lock is kept. A node that cannot be told to take a lock is
/// left out and holds nobody up.
async fn lock_all(a: &Applying<'_>, works: &mut [Work<'_>]) -> Result<(), Vec<(NodeName, String)>> {
    let taken = join_all(works.iter().map(|w| lock::take(&w.node, a.operator, a.window))).await;
    let mut held: Vec<(NodeName, String)> = Vec::new();
    for (work, taken) in works.iter_mut().zip(taken) {
        match taken {
            Ok(()) => {}
            Err(NotTaken::Held(why)) => held.push((work.node.name.clone(), why)),
            Err(NotTaken::Failed(why)) => work.fate = Some(Fate::Untouched(why)),
        }
    }
    if held.is_empty() {
        return Ok(());
    }
    let own = works.iter().filter(|w| w.fate.is_none() && !held.iter().any(|(n, _)| *n == w.node.name));
    join_all(own.map(|w| w.node.run("unlock"))).await;
    Err(held)
}

/// Does a phase on all nodes that are still at work. Each is given the place where they meet at its end.
async fn each<'a, 'w, F>(a: &Applying<'_>, works: &'a mut [Work<'w>], id: &'static str, title: &str, phase: F)
where
    F: Fn(&'a mut Work<'w>, Arc<Barrier>) -> BoxFuture<'a, Option<Fate>>,
{
    let at_work: Vec<&mut Work<'_>> = works.iter_mut().filter(|w| w.fate.is_none()).collect();
    if at_work.is_empty() {
        return;
    }
    a.events.emit(Event::PhaseStarted { id, title: title.to_owned() });
    let all = Arc::new(Barrier::new(at_work.len()));
    let work = at_work.into_iter().map(|w| {
        let name = w.node.name.clone();
        let what = title.to_lowercase();
        let phase = phase(w, Arc::clone(&all));
        async move {
            a.events.emit(Event::TaskStarted { node: Some(name.clone()), what: what.clone() });
            let fate = phase.await;
            let error = fate.as_ref().and_then(Fate::why);
            a.events.emit(Event::TaskDone { node: Some(name), what, error });
            fate
        }
    });
    let ok = join_all(work).await.iter().all(Option::is_none);
    a.events.emit(Event::PhaseDone { id, ok });
}

/// Stopped by the person?
fn stopped(a: &Applying<'_>) -> Result<(), String> {
    if a.stop.is_cancelled() { Err("interrupted".to_owned()) } else { Ok(()) }
}

/// Waits for the other nodes without being taken for lost.
async fn meet(work: &Work<'_>, all: &Barrier) {
    let kept: Vec<_> = work.kept().into_iter().collect();
    keeper::alongside(&kept, all.wait()).await;
}

async fn prepare(a: &Applying<'_>, work: &mut Work<'_>, all: Arc<Barrier>) -> Option<Fate> {
    let result = async {
        stopped(a)?;
        let facts = a.snapshot.facts(&work.node.name).ok_or("its facts are not known")?;
        let boot = boot_session(facts).ok_or("which boot it is in is not known (sysctl kern.bootsessionuuid)")?;
        // What it had to go back to may have changed what the plan was made from.
        if deadman::settle_earlier(&work.node, a.scripts).await? {
            return Err("an earlier change was taken back only now: run it again".to_owned());
        }
        record(&work.node, facts, a.plan, &work.changes).await?;
        deadman::arm(&work.node, a.scripts, boot, a.window, a.operator).await
    }
    .await;
    match result {
        Ok(armed) => work.armed = Some(armed),
        Err(why) => {
            let _ = work.node.run("unlock").await;
            work.fate = Some(Fate::Untouched(why));
        }
    }
    meet(work, &all).await;
    work.fate.clone()
}

async fn work(a: &Applying<'_>, work: &mut Work<'_>, all: Arc<Barrier>) -> Option<Fate> {
    if let Err(why) = make(a, work).await {
        back(a, work, why).await;
    }
    meet(work, &all).await;
    work.fate.clone()
}

/// Makes the changes of a node.
async fn make(a: &Applying<'_>, work: &Work<'_>) -> Result<(), String> {
    let armed = work.armed.as_ref().ok_or("its dead-man is not armed")?;
    for one in &work.changes {
        stopped(a)?;
        deadman::beat(&work.node, armed).await?;
        change(&work.node, one, armed).await?;
    }
    Ok(())
}

/// Lets a node go back.
async fn back(a: &Applying<'_>, work: &mut Work<'_>, why: String) -> Fate {
    let fate = match deadman::give_back(&work.node).await {
        Back::Done(log) => Fate::Reverted { why, log },
        Back::Unseen(unseen) => Fate::GoesBack { why, unseen, within: a.window },
    };
    work.fate = Some(fate.clone());
    fate
}

/// Proves the links, lets nodes go back that are wrong at their own end, and proves the rest once more.
async fn verify(a: &Applying<'_>, works: &mut [Work<'_>], fleet: &Fleet) -> Result<Verified, PlaybookError> {
    loop {
        let given_up: BTreeSet<NodeName> = works
            .iter()
            .filter(|w| w.fate.is_some())
            .map(|w| w.node.name.clone())
            .chain(a.plan.problems.iter().filter(|_| a.plan.blocked()).filter_map(|p| p.node.clone()))
            .collect();
        let prover = Prover {
            inventory: a.inventory,
            playbooks: a.playbooks,
            scripts: a.scripts,
            options: a.options,
            given_up: &given_up,
            limit: a.settle,
            events: a.events,
        };
        let at_work: Vec<(&NetNode, &Armed)> = alive(works).filter_map(Work::kept).collect();
        let verified = prove(&prover, fleet, &at_work, a.stop).await?;
        drop(at_work);
        let mut wrong: BTreeMap<NodeName, String> = verified.own_failures(&given_up);
        for w in alive(works) {
            if a.stop.is_cancelled() {
                wrong.entry(w.node.name.clone()).or_insert_with(|| "interrupted".to_owned());
            }
        }
        let (turn_back, others): (Vec<_>, Vec<_>) =
            works.iter_mut().filter(|w| w.fate.is_none()).partition(|w| wrong.contains_key(&w.node.name));
        if turn_back.is_empty() {
            return Ok(verified);
        }
        let others: Vec<_> = others.iter().filter_map(|w| w.kept()).collect();
        let going = turn_back.into_iter().map(|w| {
            let why = wrong.get(&w.node.name).cloned().unwrap_or_default();
            back(a, w, why)
        });
        keeper::alongside(&others, join_all(going)).await;
    }
}

async fn confirm(a: &Applying<'_>, work: &mut Work<'_>, fresh: Option<&Fleet>) -> Option<Fate> {
    let name = work.node.name.clone();
    let remote = fresh.and_then(|f| f.nodes.get(&name));
    let why = match remote {
        Some(Ok(remote)) if !a.stop.is_cancelled() => match deadman::confirm(&work.node.over(remote)).await {
            Ok(()) => {
                let node = work.node.over(remote);
                finish(a, &node).await;
                return None;
            }
            Err(e) => format!("could not be confirmed: {e}"),
        },
        Some(Ok(_)) => "interrupted".to_owned(),
        Some(Err(e)) => format!("no new SSH session could be opened: {}", e.message),
        None => "no new SSH session was opened".to_owned(),
    };
    Some(back(a, work, why).await)
}

/// Confirmed: what is left is tidying up, which the next run does if it fails here.
async fn finish(a: &Applying<'_>, node: &NetNode) {
    let facts = a.snapshot.facts(&node.name);
    let mut left = Vec::new();
    if let Some((facts, boot)) = facts.and_then(|f| boot_session(f).map(|b| (f, b))) {
        let known: &[HistoryEntry] = facts.network.history.as_deref().unwrap_or_default();
        let links = a.plan.kept.get(&node.name).map(|c| c.links.as_slice()).unwrap_or_default();
        left.extend(node.write("note-addresses", history(known, boot, links)).await.err());
    }
    left.extend(deadman::disarm(node).await.err());
    left.extend(node.run("unlock").await.err());
    for e in left {
        let text = format!("the change is confirmed, but tidying up failed: {e}");
        a.events.emit(Event::Warning { node: Some(node.name.clone()), text });
    }
}
