//! `macluster cabling`: who is connected to whom, the picture of it, and how it should be.

mod diagram;
mod plan;

use crate::app::App;
use crate::check::{self, Context};
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, Snapshot};
use crate::view::cabling::{Cabling, human, json};

/// Options of `macluster cabling`.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Draw the receptacles of every Mac and the cables between them
    Diagram(diagram::Opts),
    /// Plan the wiring: which cable goes where, as steps for a person at the rack
    Plan(plan::Opts),
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    match opts.action {
        None => matrix(opts.output, app).await,
        Some(Action::Diagram(opts)) => diagram::run(opts, app).await,
        Some(Action::Plan(opts)) => plan::run(&opts, app).await,
    }
}

async fn matrix(output: Format, app: &App) -> Outcome {
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    // Checks of cables know nothing of scripts.
    let context = Context { snapshot: &snapshot, graph: &graph, inventory: &inventory, links_script: "" };
    let report = check::of_cables(&context);
    let cabling = Cabling { inventory: &inventory, snapshot: &snapshot, graph: &graph, findings: &report.findings };
    app.printer.out(&match output {
        Format::Human => human(&cabling, app.printer, app.global.verbose),
        Format::Json => json(&cabling),
    });
    Ok(answered(&inventory, &snapshot))
}

/// How the command ends by the nodes that answered.
fn answered(inventory: &Inventory, snapshot: &Snapshot) -> Exit {
    let silent = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_none()).count();
    match silent {
        0 => Exit::Ok,
        all if all == inventory.nodes.len() => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    }
}
