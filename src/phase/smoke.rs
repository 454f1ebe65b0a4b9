//! Whether a deployed service is whole: what `macluster smoke` looks at, in under a minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::inspect::{self, Condition, NodeStatus};
use super::proof::{self, Answer};
use super::runtime::RuntimeNode;
use crate::agent::status::{State, Status};
use crate::check::{self, Context};
use crate::event::Events;
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::playbook::Playbook;
use crate::remote::Fleet;

/// Seconds for everything, unless the operator says otherwise: a CI job waits for less than a minute.
pub const SECONDS: u64 = 58;

/// How one step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must be.
    Passed(String),
    /// Not so; one line per cause.
    Failed(Vec<String>),
    /// Could not be looked at, because an earlier step failed.
    Skipped(String),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Stable id.
    pub id: &'static str,
    /// What came out.
    pub verdict: Verdict,
    /// What to do about it.
    pub hints: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Smoke {
    /// In order.
    pub steps: Vec<Step>,
    /// What runs; none when that could not be told.
    pub runs: Option<Runs>,
    /// The answer in one piece.
    pub whole: Option<Answer>,
    /// The streamed answer.
    pub streamed: Option<Answer>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Release of all ranks.
    pub release: String,
    /// Start they all belong to.
    pub epoch: u64,
    /// How many.
    pub ranks: usize,
    /// What they use.
    pub backend: String,
    /// Model that they serve.
    pub model: String,
}

impl Smoke {
    /// Nothing failed, nothing was left out.
    pub fn passed(&self) -> bool {
        self.steps.iter().all(|s| matches!(s.verdict, Verdict::Passed(_)))
    }

    fn add(&mut self, id: &'static str, began: std::time::Instant, verdict: Verdict, hints: Vec<String>) {
        self.steps.push(Step { id, verdict, hints, took: began.elapsed() });
    }
}

/// Looks at everything: the launch checks over the facts, the ranks, one answer in one piece and one streamed.
pub async fn smoke(
    inventory: &Inventory,
    snapshot: &Snapshot,
    links_script: &str,
    until: Instant,
    (fleet, book, events): (&Fleet, &Arc<Playbook>, &Events),
) -> (Smoke, Vec<NodeStatus>) {
    let mut smoke = Smoke::default();
    let began = Instant::now();
    let nodes = inspect::inspect(inventory, fleet, book, events).await;
    let ranks = ranks(&nodes);
    let ranked = inventory.narrowed(|name| !idle(&nodes, name));

    let (verdict, hints) = launch_checks(&ranked, snapshot, links_script);
    smoke.add("launch-checks", began, verdict, hints);

    let began = Instant::now();
    match one_service(inventory, &nodes, &ranks) {
        Ok(runs) => {
            let said = format!(
                "{} of {} ranks serve {} over {}, all in epoch {} and release {}",
                runs.ranks, runs.ranks, runs.model, runs.backend, runs.epoch, runs.release
            );
            smoke.runs = Some(runs);
            smoke.add("ranks", began, Verdict::Passed(said), Vec::new());
        }
        Err(causes) => {
            let hint = "`macluster status` tells more; `macluster start` starts what does not run".to_owned();
            smoke.add("ranks", began, Verdict::Failed(causes), vec![hint]);
        }
    }

    let first = ranks.iter().find(|(_, s)| s.rank == 0).and_then(|(n, _)| fleet.remote(n));
    let first = first.map(|remote| RuntimeNode::new(inventory, book, remote, events));
    // A second at least, so that an answer that is there at once counts whatever the rest took.
    let until = until.max(Instant::now() + Duration::from_secs(1));
    for (id, stream) in [("answer", false), ("streamed-answer", true)] {
        let began = Instant::now();
        let Some(node) = &first else {
            let why = "no node reports that it is rank 0".to_owned();
            smoke.add(id, began, Verdict::Skipped(why), Vec::new());
            continue;
        };
        let left = until.saturating_duration_since(began);
        match proof::ask(node, inventory.runtime.api, proof::question(stream), left).await {
            Ok((answer, _)) => {
                let text = match answer.first {
                    Some(first) => format!(
                        "{} tokens at {:.1} tokens/s, the first after {:.2} s",
                        answer.tokens,
                        answer.rate(),
                        first.as_secs_f64()
                    ),
                    None => format!("{} tokens at {:.1} tokens/s", answer.tokens, answer.rate()),
                };
                *(if stream { &mut smoke.streamed } else { &mut smoke.whole }) = Some(answer);
                smoke.add(id, began, Verdict::Passed(text), Vec::new());
            }
            Err(why) => {
                let cause = format!("{}: {why}", inventory.label(&node.name));
                let hint = format!("`macluster logs {}` shows what the engine says", node.name);
                smoke.add(id, began, Verdict::Failed(vec![cause]), vec![hint]);
            }
        }
    }
    (smoke, nodes)
}

fn idle(nodes: &[NodeStatus], name: &NodeName) -> bool {
    nodes.iter().any(|n| n.node == *name && n.condition() == Condition::Idle)
}

/// Every node that says which rank it is.
pub(super) fn ranks(nodes: &[NodeStatus]) -> Vec<(NodeName, Status)> {
    let status = |n: &NodeStatus| n.seen.as_ref().ok()?.report.as_ref()?.believed().cloned();
    nodes.iter().filter_map(|n| Some((n.node.clone(), status(n)?))).collect()
}

fn launch_checks(ranked: &Inventory, snapshot: &Snapshot, links_script: &str) -> (Verdict, Vec<String>) {
    let graph = LinkGraph::build(snapshot);
    let report = check::run(&Context { snapshot, graph: &graph, inventory: ranked, links_script });
    let bad: Vec<_> = report.findings.iter().filter(|f| check::blocks(f, ranked)).collect();
    if bad.is_empty() {
        let text = format!("none of {} findings stands in the way of a launch", report.findings.len());
        return (Verdict::Passed(text), Vec::new());
    }
    let causes = bad.iter().map(|f| format!("{}: {}", f.check, f.message)).collect();
    (Verdict::Failed(causes), vec!["`macluster doctor` says what to do about each".to_owned()])
}

/// All ranks that there must be are ready, in one epoch, of one release and one launch.
pub(super) fn one_service(
    inventory: &Inventory,
    nodes: &[NodeStatus],
    ranks: &[(NodeName, Status)],
) -> Result<Runs, Vec<String>> {
    let mut causes = Vec::new();
    for node in nodes {
        let label = inventory.label(&node.node);
        match (node.condition(), &node.seen) {
            (Condition::Engine(State::Ready) | Condition::Idle, _) => {}
            (_, Err(unseen)) => causes.push(format!("{label}: {}", unseen.message)),
            (condition, Ok(_)) => causes.push(format!("{label} is {}, not ready", condition.as_str())),
        }
    }
    let Some((_, first)) = ranks.iter().find(|(_, s)| s.rank == 0) else {
        causes.push("no node reports that it is rank 0".to_owned());
        return Err(causes);
    };
    for (node, status) in ranks {
        let label = inventory.label(node);
        if (&status.launch, &status.release) != (&first.launch, &first.release) {
            causes.push(format!(
                "{label} runs release {} of another launch than rank 0 ({})",
                status.release, first.release
            ));
        } else if status.epoch != first.epoch {
            causes.push(format!("{label} is in epoch {}, rank 0 in {}", status.epoch, first.epoch));
        }
    }
    let mut numbers: Vec<u32> = ranks.iter().map(|(_, s)| s.rank).collect();
    numbers.sort_unstable();
    if causes.is_empty() && !numbers.iter().copied().eq(0..first.world_size) {
        causes.push(format!("{} of {} ranks report", numbers.len(), first.world_size));
    }
    if !causes.is_empty() {
        return Err(causes);
    }
    Ok(Runs {
        release: first.release.clone(),
        epoch: first.epoch,
        ranks: ranks.len(),
        backend: first.backend.clone(),
        model: first.model.clone(),
    })
}
