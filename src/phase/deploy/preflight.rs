//! First: the checks that matter for a launch. Every one that fails stops the deploy, with its remedy.

use futures::future::BoxFuture;

use super::{Cause, Deploy, Phase, PhaseFailure};
use crate::check::{self, Context};
use crate::exit::Exit;
use crate::mesh::LinkGraph;
use crate::model::{Finding, Remedy};

pub(super) struct Preflight;

impl Phase for Preflight {
    fn id(&self) -> &'static str {
        "preflight"
    }

    fn title(&self) -> &'static str {
        "Check what a launch needs"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(async move { judge(deploy) })
    }
}

fn judge(deploy: &Deploy) -> Result<(), PhaseFailure> {
    let inventory = &deploy.rank_inventory();
    if inventory.runtime.model.is_none() {
        return Err(PhaseFailure::new(Exit::Inventory, "the inventory names no model")
            .hint("set runtime.model to a folder that every node has, e.g. /opt/macluster/models/NAME"));
    }
    let graph = LinkGraph::build(&deploy.snapshot);
    let report = check::run(&Context {
        snapshot: &deploy.snapshot,
        graph: &graph,
        inventory,
        links_script: &deploy.scripts.links.sha256,
    });
    let bad: Vec<&Finding> = report.findings.iter().filter(|f| check::blocks(f, inventory)).collect();
    if bad.is_empty() {
        return Ok(());
    }
    let causes =
        bad.iter().map(|f| Cause { node: f.node.clone(), message: format!("{}: {}", f.check, f.message) }).collect();
    let mut failure = PhaseFailure::of(Exit::ChecksFailed, causes);
    for remedy in bad.iter().filter_map(|f| f.remedy.as_ref()) {
        let lines = match remedy {
            Remedy::Run { commands } => commands,
            Remedy::AtMachine { steps } => steps,
        };
        for line in lines {
            if !failure.hints.contains(line) {
                failure.hints.push(line.clone());
            }
        }
    }
    Err(failure.hint("`macluster doctor` tells more"))
}
