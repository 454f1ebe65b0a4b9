//! What is done with a deployed runtime: start, stop, step back, tidy up, remove. Each of it on all nodes at once, and
//! each can be done again.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::folders;
use super::hold::{self, Hold};
use super::proof::{self, Answer};
use super::runtime::RuntimeNode;
use super::service;
use crate::agent::releases::{Configured, Releases};
use crate::agent::status::{State, Status};
use crate::event::{Event, Events};
use crate::mesh::ranks;
use crate::model::{Inventory, NodeName};
use crate::playbook::Playbook;
use crate::remote::Fleet;

/// From the agents' start to all ranks serving: arming and loading a large model.
pub const READY_LIMIT: Duration = Duration::from_secs(1800);
/// Releases that stay after a deploy: the active one, and one to go back to.
pub const KEEP: usize = 2;
/// For the first answer after a start, which also warms the GPUs up.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// All nodes that were reached, for operations on the runtime.
pub struct Ops<'a> {
    /// The rack.
    pub inventory: &'a Inventory,
    /// Nodes with a connection.
    pub nodes: Vec<RuntimeNode>,
    events: Events,
    /// None for all: only these nodes are started and waited for.
    ranks: Option<Vec<NodeName>>,
}

/// What came out, node by node.
pub type Results<T> = Vec<(NodeName, Result<T, String>)>;

impl<'a> Ops<'a> {
    /// Of these connections.
    pub fn new(inventory: &'a Inventory, fleet: &Fleet, book: &Arc<Playbook>, events: &Events) -> Self {
        let remotes = inventory.nodes.iter().filter_map(|n| fleet.remote(&n.name));
        let nodes = remotes.map(|remote| RuntimeNode::new(inventory, book, remote, events)).collect();
        Ops { inventory, nodes, events: Arc::clone(events), ranks: None }
    }

    /// From now on only these nodes are started and waited for; the others are idle.
    pub fn only(&mut self, ranks: Vec<NodeName>) {
        self.ranks = Some(ranks);
    }

    fn is_rank(&self, node: &NodeName) -> bool {
        self.ranks.as_ref().is_none_or(|r| r.contains(node))
    }

    /// Does something on every node at once.
    pub async fn each<'n, T, F>(&'n self, what: &str, work: impl Fn(&'n RuntimeNode) -> F) -> Results<T>
    where
        F: Future<Output = Result<T, String>>,
    {
        self.on(self.nodes.iter(), what, work).await
    }

    /// Does something on every rank at once.
    async fn each_rank<'n, T, F>(&'n self, what: &str, work: impl Fn(&'n RuntimeNode) -> F) -> Results<T>
    where
        F: Future<Output = Result<T, String>>,
    {
        self.on(self.nodes.iter().filter(|n| self.is_rank(&n.name)), what, work).await
    }

    async fn on<'n, T, F>(
        &self,
        nodes: impl Iterator<Item = &'n RuntimeNode>,
        what: &str,
        work: impl Fn(&'n RuntimeNode) -> F,
    ) -> Results<T>
    where
        F: Future<Output = Result<T, String>>,
    {
        futures::future::join_all(nodes.map(|node| {
            let work = work(node);
            async move {
                let (name, what) = (node.name.clone(), what.to_owned());
                self.events.emit(Event::TaskStarted { node: Some(name.clone()), what: what.clone() });
                let result = work.await;
                let error = result.as_ref().err().cloned();
                self.events.emit(Event::TaskDone { node: Some(name.clone()), what, error });
                (name, result)
            }
        }))
        .await
    }

    /// Takes the lock of every node that has a release; held until dropped. Who begins to change something says so:
    /// [`Hold::begin_work`].
    ///
    /// # Errors
    /// Per node, who has it.
    pub async fn hold(&self) -> Result<Vec<Hold>, Vec<(NodeName, String)>> {
        let answers = hold::take_all(self.nodes.iter(), |n| hold::take(n, "hold", None)).await;
        let (mut all, mut bad) = (Vec::new(), Vec::new());
        for (node, answer) in self.nodes.iter().zip(answers) {
            match answer {
                Ok(hold::Answer::Held(hold)) => all.push(hold),
                Ok(hold::Answer::NoProgram) => {}
                Err(why) => bad.push((node.name.clone(), why)),
            }
        }
        if bad.is_empty() { Ok(all) } else { Err(bad) }
    }

    /// Starts the agents; those that run stay as they are.
    pub async fn start(&self) -> Results<()> {
        self.each_rank("starting the agent", |node| async move { service::start(node).await }).await
    }

    /// Stops agents and engines.
    pub async fn stop(&self) -> Results<service::Stopped> {
        self.each("stopping", |node| async move { service::stop(node).await }).await
    }

    /// Forgets the starts that failed, so that the agents try again; only while they are stopped.
    pub async fn forgive(&self) -> Results<()> {
        self.each_rank("clearing the count of failed starts", |node| async move {
            node.step("forgive").ok().await.map(drop).map_err(|e| e.to_string())
        })
        .await
    }

    /// Waits until every rank of this launch serves.
    pub async fn ready(&self, launch: &str) -> Results<Status> {
        self.each_rank("starting the engine", |node| async move {
            let name = node.name.clone();
            let tell = |state: State| {
                let text = format!("engine {}", state.as_str());
                self.events.emit(Event::Note { node: Some(name.clone()), text });
            };
            service::wait_for(node, launch, &[State::Ready], READY_LIMIT, &tell).await.map_err(|t| t.message)
        })
        .await
    }

    /// What is installed where.
    pub async fn releases(&self) -> Results<Releases> {
        self.each("listing releases", |node| async move { releases(node).await }).await
    }

    /// The node of this name, if it was reached.
    pub fn node(&self, name: &NodeName) -> Option<&RuntimeNode> {
        self.nodes.iter().find(|n| n.name == *name)
    }

    /// The node that serves the API.
    pub fn first(&self) -> Option<&RuntimeNode> {
        let order = ranks::order(self.inventory);
        let first = order.into_iter().find(|n| self.is_rank(&n.name))?;
        self.node(&first.name)
    }

    /// Asks for an answer.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn prove(&self) -> Result<Answer, String> {
        let first = self.first().ok_or("rank 0's node was not reached")?;
        let api: SocketAddr = self.inventory.runtime.api;
        proof::ask(first, api, proof::question(false), ANSWER_LIMIT).await.map(|(answer, _)| answer)
    }
}

/// What is installed on a node; nothing when there is no active release.
///
/// # Errors
/// In words.
pub async fn releases(node: &RuntimeNode) -> Result<Releases, String> {
    let output = node.step("list-releases").answer().await.map_err(|e| e.to_string())?;
    match output.exit {
        Some(0) => {
            serde_json::from_slice(&output.stdout).map_err(|e| format!("its list of releases cannot be read: {e}"))
        }
        Some(127) => Ok(Releases::default()),
        _ => Err(format!("its releases cannot be listed: {}", output.describe())),
    }
}

/// Removes all releases but the active one, the one before it, and the newest others up to `keep`. Gives their ids.
///
/// # Errors
/// In words.
pub async fn prune(node: &RuntimeNode, keep: usize) -> Result<Vec<String>, String> {
    let there = releases(node).await?;
    let used = [there.active.clone(), there.current.map(|c| c.release), there.previous.map(|c| c.release)];
    let (used, free): (Vec<_>, Vec<_>) = there.releases.iter().partition(|r| used.iter().flatten().any(|u| *u == r.id));
    let mut removed = Vec::new();
    for release in free.into_iter().skip(keep.saturating_sub(used.len())) {
        node.step("remove-release").release(&release.id).ok().await.map_err(|e| e.to_string())?;
        removed.push(release.id.clone());
    }
    Ok(removed)
}

/// Where a rollback would lead: to one launch of which every rank is there, or it is refused.
///
/// # Errors
/// Per node, why it cannot go there.
pub fn rollback_target(found: &Results<Releases>) -> Result<Configured, Vec<(NodeName, String)>> {
    let mut problems = Vec::new();
    let mut target: Option<&Configured> = None;
    let mut ranks = 0;
    for (node, releases) in found {
        let mut problem = |text: String| problems.push((node.clone(), text));
        let there = match releases {
            Ok(there) => there,
            Err(why) => {
                problem(why.clone());
                continue;
            }
        };
        // Without one the node was idle, or the launch is not whole: counted below.
        let Some(previous) = &there.previous else { continue };
        ranks += 1;
        if !there.releases.iter().any(|r| r.id == previous.release && r.installed_at.is_some()) {
            problem(format!("does not have release {} any more", previous.release));
        }
        match target {
            None => target = Some(previous),
            Some(other) if (&other.release, &other.launch) != (&previous.release, &previous.launch) => {
                problem(format!("would go back to another launch (release {})", previous.release));
            }
            Some(_) => {}
        }
    }
    match target {
        Some(target) if problems.is_empty() && ranks == target.world_size => Ok(target.clone()),
        Some(target) if problems.is_empty() => {
            let text =
                format!("had another configuration: {ranks} of {} ranks have one to go back to", target.world_size);
            Err(found.iter().take(1).map(|(node, _)| (node.clone(), text.clone())).collect())
        }
        None if problems.is_empty() => {
            let text = "has no configuration before the one in place";
            Err(found.iter().map(|(node, _)| (node.clone(), text.to_owned())).collect())
        }
        _ => Err(problems),
    }
}

/// Since when a configuration's certificates do not hold any more on some node; none while all do. Agents with ended
/// certificates do not accept each other, so such a launch would never come up.
pub fn certificates_ended(
    found: &Results<Releases>,
    of: fn(&Releases) -> &Option<Configured>,
    now: Timestamp,
) -> Option<Timestamp> {
    let until = found.iter().filter_map(|(_, r)| Some(of(r.as_ref().ok()?).as_ref()?.certificates_until));
    until.min().filter(|end| *end <= now)
}

/// Exchanges configuration and release on one node with those before. `idle`: it is no rank then.
///
/// # Errors
/// In words.
pub async fn exchange(node: &RuntimeNode, program: &str, to: &str, idle: bool) -> Result<(), String> {
    let step = if idle { "swap-to-idle" } else { "swap-configuration" };
    node.step(step).release(program).ok().await.map_err(|e| e.words())?;
    node.step("activate").release(to).ok().await.map(drop).map_err(|e| e.words())
}

/// Removes what deploy has brought. What is not empty stays: models, and what belongs to the link networks.
///
/// # Errors
/// In words.
pub async fn remove(node: &RuntimeNode, models: bool) -> Result<(), String> {
    service::stop(node).await?;
    folders::remove(node, models).await.map_err(|e| e.to_string())
}
