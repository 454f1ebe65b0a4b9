//! `macluster network`: plan, apply and take back the link networks.

mod apply;
mod plan;
mod revert;
mod saved;

use std::time::Duration;

use crate::app::App;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, Snapshot};
use crate::network::{NetworkPlan, PlanOptions, PlanRequest};
use crate::playbook::{Playbooks, Scripts};

/// How long the links may take to come up after their last change.
const SETTLE: Duration = Duration::from_secs(15);

/// Options of `macluster network`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Show each link's network and the exact commands that are missing; changes nothing
    Plan(plan::Opts),
    /// Run what the plan shows, prove every link, and keep it across restarts
    Apply(apply::Opts),
    /// Go back to what was there before macluster ever changed the links of a node
    Revert(revert::Opts),
}

/// What is only done when it is asked for.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Wishes {
    /// Stop another program's daemon that sets these interfaces (exo's); its job file is kept
    #[arg(long)]
    replace_foreign_daemon: bool,
    /// Remove the bridge of the links from the network preferences, so that it does not come back at a restart
    #[arg(long)]
    remove_bridge_entry: bool,
}

impl From<Wishes> for PlanOptions {
    fn from(wishes: Wishes) -> Self {
        PlanOptions {
            replace_foreign_daemon: wishes.replace_foreign_daemon,
            remove_bridge_entry: wishes.remove_bridge_entry,
        }
    }
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    match opts.action {
        Action::Plan(opts) => tokio::select! {
            outcome = plan::run(&opts, app) => outcome,
            _ = tokio::signal::ctrl_c() => Err(interrupted()),
        },
        // They own their signals: a node that is being changed has to go back first.
        Action::Apply(opts) => apply::run(&opts, app).await,
        Action::Revert(opts) => revert::run(&opts, app).await,
    }
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted; nothing was changed")
}

/// What plans are made from, besides facts.
struct Books {
    playbooks: Playbooks,
    scripts: Scripts,
}

impl Books {
    fn load(app: &App) -> Result<Self, Failure> {
        Ok(Books { playbooks: app.playbooks()?, scripts: app.templates()?.scripts()? })
    }

    fn plan(&self, inventory: &Inventory, snapshot: &Snapshot, options: PlanOptions) -> Result<NetworkPlan, Failure> {
        let graph = LinkGraph::build(snapshot);
        let (playbooks, scripts) = (&self.playbooks, &self.scripts);
        let request = PlanRequest { inventory, snapshot, graph: &graph, playbooks, scripts, options };
        Ok(crate::network::plan(&request)?)
    }
}

/// 7 when no node answered, 6 when some did not, else 0.
fn reached(inventory: &Inventory, snapshot: &Snapshot) -> Exit {
    let answered = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_some()).count();
    match answered {
        all if all == inventory.nodes.len() => Exit::Ok,
        0 => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    }
}

fn print_json(app: &App, value: &serde_json::Value) {
    app.printer.out(&serde_json::to_string_pretty(value).unwrap_or_default());
}
