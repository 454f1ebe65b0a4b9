//! What the phases of a deploy share.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;

use crate::agent::python::NodePython;
use crate::agent::report::Report;
use crate::agent::status::Status;
use crate::event::{Event, Events};
use crate::exit::Exit;
use crate::mesh::ranks::RankPlan;
use crate::model::command::printable;
use crate::model::{Inventory, NodeName, Parallel, Snapshot};
use crate::phase::bundle::{Built, Platform};
use crate::phase::hold::Hold;
use crate::phase::runtime::RuntimeNode;
use crate::playbook::{Playbooks, Scripts};

/// Lines of an engine's log in the report of a failure.
const LOG_LINES: usize = 15;

/// What the operator asked for.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// This bundle, instead of one that is built now.
    pub bundle: Option<PathBuf>,
    /// macluster for the nodes' platform, when a bundle is built for another one.
    pub agent: Option<PathBuf>,
    /// Do not look whether the link networks are as planned.
    pub skip_network: bool,
    /// Where downloads and bundles are kept.
    pub cache: PathBuf,
    /// The Python that downloads packages.
    pub pip_python: Option<PathBuf>,
}

/// One node of the deploy.
pub struct Target {
    /// The node and its connection.
    pub node: RuntimeNode,
    /// User and group id of the SSH session, as the pushed program sees them: the engine runs under them.
    pub owner: Option<(u32, u32)>,
    /// The Python the environment is made with.
    pub python: Option<NodePython>,
    /// What was deployed before.
    pub previous: Option<Report>,
}

/// Everything the phases know and find out.
pub struct Deploy {
    /// The rack.
    pub inventory: Inventory,
    /// All playbooks.
    pub playbooks: Playbooks,
    /// Scripts of the link networks.
    pub scripts: Scripts,
    /// Its facts.
    pub snapshot: Snapshot,
    /// Wishes.
    pub options: Options,
    /// Where progress goes.
    pub events: Events,
    /// Every node, in the order of the inventory.
    pub targets: Vec<Target>,
    /// Nodes that become no rank, and why.
    pub idle: BTreeMap<NodeName, String>,
    /// How the ranks share the model.
    pub parallel: Parallel,
    /// Platform of the nodes, proven there.
    pub platform: Option<Platform>,
    /// The bundle.
    pub bundle: Option<Built>,
    /// Ranks.
    pub plan: Option<RankPlan>,
    /// Id of this launch.
    pub launch: String,
    /// Seconds from go to ready.
    pub start_timeout: f64,
    /// The nodes' locks, held until the end.
    pub holds: Vec<Hold>,
    /// What lies in the nodes' staging is this deploy's: until then another desk may be copying into it.
    pub staging_is_ours: bool,
    /// What came out.
    pub deployed: Option<Deployed>,
    /// Phases begun so far, for the way back.
    pub reached: usize,
    /// The old agents were stopped: they must be started again on the way back.
    pub retired: bool,
    /// The new configuration was put in place on these nodes.
    pub switched: Vec<NodeName>,
    /// The connection to these nodes broke while the bundle was copied: what arrived stays there.
    pub cut_off: BTreeSet<NodeName>,
}

/// What runs now.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// Status of every rank, in order, with its node.
    pub ranks: Vec<(NodeName, Status)>,
    /// Tokens of the answer that proved it.
    pub tokens: u64,
    /// Tokens per second of that answer, from request to end.
    pub tokens_per_second: f64,
}

/// One reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where.
    pub node: Option<NodeName>,
    /// In words.
    pub message: String,
}

/// Why a phase failed.
#[derive(Clone, Debug)]
pub struct PhaseFailure {
    /// The exit code it leads to.
    pub exit: Exit,
    /// One per node that failed, or one for the desk.
    pub causes: Vec<Cause>,
    /// Next actions.
    pub hints: Vec<String>,
    /// Nodes whose engine log tells more.
    pub ask_logs_of: Vec<NodeName>,
    /// The ends of those logs.
    pub logs: Vec<(NodeName, String)>,
}

impl PhaseFailure {
    /// At the desk.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self::of(exit, vec![Cause { node: None, message: message.into() }])
    }

    /// On nodes.
    pub fn of(exit: Exit, causes: Vec<Cause>) -> Self {
        PhaseFailure { exit, causes, hints: Vec::new(), ask_logs_of: Vec::new(), logs: Vec::new() }
    }

    /// On one node.
    pub fn on(node: &NodeName, message: impl Into<String>) -> Self {
        Self::of(Exit::DeployFailed, vec![Cause { node: Some(node.clone()), message: message.into() }])
    }

    /// With a next action.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The engine logs of these nodes tell more.
    #[must_use]
    pub fn with_logs_of(mut self, nodes: impl IntoIterator<Item = NodeName>) -> Self {
        self.ask_logs_of.extend(nodes);
        self
    }
}

impl From<crate::exit::Failure> for PhaseFailure {
    fn from(failure: crate::exit::Failure) -> Self {
        PhaseFailure { hints: failure.hints, ..PhaseFailure::new(failure.exit, failure.message) }
    }
}

impl Deploy {
    /// The bundle, which an earlier phase has provided.
    ///
    /// # Errors
    /// When phases are out of order: a defect.
    pub fn built(&self) -> Result<Built, PhaseFailure> {
        self.bundle.clone().ok_or_else(|| PhaseFailure::new(Exit::Unexpected, "there is no bundle yet"))
    }

    /// Does something on all nodes at once, and gives every node's result in order.
    ///
    /// # Errors
    /// All nodes that failed, not only the first.
    pub async fn each<'a, T, F>(&'a self, what: &str, work: impl Fn(&'a Target) -> F) -> Result<Vec<T>, PhaseFailure>
    where
        F: Future<Output = Result<T, String>>,
    {
        self.on(self.targets.iter(), what, work).await
    }

    async fn on<'a, T, F>(
        &'a self,
        targets: impl Iterator<Item = &'a Target>,
        what: &str,
        work: impl Fn(&'a Target) -> F,
    ) -> Result<Vec<T>, PhaseFailure>
    where
        F: Future<Output = Result<T, String>>,
    {
        let results = futures::future::join_all(targets.map(|target| {
            let name = target.node.name.clone();
            let work = work(target);
            async move {
                self.events.emit(Event::TaskStarted { node: Some(name.clone()), what: what.to_owned() });
                let result = work.await;
                let error = result.as_ref().err().cloned();
                self.events.emit(Event::TaskDone { node: Some(name.clone()), what: what.to_owned(), error });
                result.map_err(|message| Cause { node: Some(name), message })
            }
        }))
        .await;
        let mut good = Vec::new();
        let mut causes = Vec::new();
        for result in results {
            match result {
                Ok(value) => good.push(value),
                Err(cause) => causes.push(cause),
            }
        }
        if causes.is_empty() { Ok(good) } else { Err(PhaseFailure::of(Exit::DeployFailed, causes)) }
    }

    /// The nodes that become ranks.
    pub fn ranked(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|t| !self.is_idle(&t.node.name))
    }

    /// Whether a node becomes no rank.
    pub fn is_idle(&self, node: &NodeName) -> bool {
        self.idle.contains_key(node)
    }

    /// The inventory without the nodes that become no ranks.
    pub fn rank_inventory(&self) -> Inventory {
        self.inventory.narrowed(|name| !self.is_idle(name))
    }

    /// As [`Deploy::each`], on the nodes that become ranks.
    ///
    /// # Errors
    /// As there.
    pub async fn each_rank<'a, T, F>(
        &'a self,
        what: &str,
        work: impl Fn(&'a Target) -> F,
    ) -> Result<Vec<T>, PhaseFailure>
    where
        F: Future<Output = Result<T, String>>,
    {
        self.on(self.ranked(), what, work).await
    }

    /// As [`Deploy::each`], on the way back: failures become remarks.
    pub async fn each_back<'a, F>(&'a self, what: &str, work: impl Fn(&'a Target) -> F) -> Vec<String>
    where
        F: Future<Output = Result<(), String>>,
    {
        match self.each(what, work).await {
            Ok(_) => Vec::new(),
            Err(failure) => failure
                .causes
                .into_iter()
                .map(|c| match c.node {
                    Some(node) => format!("{}: {what} failed: {}", self.inventory.label(&node), c.message),
                    None => format!("{what} failed: {}", c.message),
                })
                .collect(),
        }
    }

    /// Reads the ends of the logs that a failure points to.
    pub async fn add_logs(&self, failure: &mut PhaseFailure) {
        for name in std::mem::take(&mut failure.ask_logs_of) {
            let Some(target) = self.targets.iter().find(|t| t.node.name == name) else { continue };
            let tail = target.node.step("last-words").with("lines", LOG_LINES.to_string()).ok().await;
            if let Ok(output) = tail {
                failure.logs.push((name, printable(output.text().trim_end())));
            }
        }
    }
}
