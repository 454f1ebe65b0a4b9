//! The link networks must be as planned, when the ranks will use them.

use futures::future::BoxFuture;

use super::{Cause, Deploy, Phase, PhaseFailure};
use crate::event::Event;
use crate::exit::Exit;
use crate::mesh::LinkGraph;
use crate::model::{Backend, NodeName, Over, Verdict};
use crate::network::{Change, PlanOptions, PlanRequest, plan};
use crate::playbook::ForEach;

pub(super) struct Network;

impl Phase for Network {
    fn id(&self) -> &'static str {
        "network"
    }

    fn title(&self) -> &'static str {
        "Check the link networks"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(async move { judge(deploy) })
    }
}

fn judge(deploy: &Deploy) -> Result<(), PhaseFailure> {
    let inventory = deploy.rank_inventory();
    let runtime = &deploy.inventory.runtime;
    let rdma = matches!(runtime.backend, Backend::Jaccl | Backend::JacclRing);
    let used = rdma || runtime.over == Over::Links;
    if !used || inventory.nodes.len() < 2 {
        return Ok(());
    }
    if deploy.options.skip_network {
        let text = "the link networks were not compared with their plan (--skip-network)".to_owned();
        deploy.events.emit(Event::Warning { node: None, text });
        return Ok(());
    }
    let graph = LinkGraph::build(&deploy.snapshot);
    let plan = plan(&PlanRequest {
        inventory: &inventory,
        snapshot: &deploy.snapshot,
        graph: &graph,
        playbooks: &deploy.playbooks,
        scripts: &deploy.scripts,
        options: PlanOptions::default(),
    })
    .map_err(|e| PhaseFailure::new(Exit::Inventory, e.to_string()))?;
    // A launch needs the links themselves. What keeps them after a restart is said, and is no reason to wait.
    let (later, now): (Vec<&Change>, Vec<&Change>) =
        plan.changes.iter().partition(|c| c.for_each == ForEach::LinksDaemon);
    if now.is_empty() && !later.is_empty() {
        let text = format!(
            "the link networks are in place, but not kept after a restart on {}: `macluster network apply` installs what keeps them",
            labels(deploy, &later)
        );
        deploy.events.emit(Event::Warning { node: None, text });
    }
    if !now.is_empty() {
        let nodes = labels(deploy, &now);
        let count = now.len();
        let message = format!("the link networks are not set up: {count} changes are pending on {nodes}");
        return Err(PhaseFailure::new(Exit::ChecksFailed, message)
            .hint("`macluster network plan` shows them, `macluster network apply` makes them"));
    }
    let problems = plan.problems.iter().filter(|p| p.verdict == Verdict::Fail);
    if runtime.backend == Backend::Auto {
        // `auto` takes the best path that is left; the choice is announced with the ranks.
        for problem in problems {
            deploy.events.emit(Event::Warning { node: problem.node.clone(), text: problem.message.clone() });
        }
        return Ok(());
    }
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() {
        return Ok(());
    }
    let causes = problems.iter().map(|p| Cause { node: p.node.clone(), message: p.message.clone() }).collect();
    let mut failure = PhaseFailure::of(Exit::ChecksFailed, causes);
    failure.hints.extend(problems.iter().filter_map(|p| p.action.clone()));
    Err(failure)
}

/// The nodes of these changes.
fn labels(deploy: &Deploy, changes: &[&Change]) -> String {
    let of = |name: &NodeName| changes.iter().any(|c| c.node == *name);
    let nodes = deploy.inventory.nodes.iter().map(|n| &n.name).filter(|n| of(n));
    nodes.map(|n| deploy.inventory.label(n)).collect::<Vec<_>>().join(", ")
}
