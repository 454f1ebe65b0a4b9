//! `macluster cabling diagram`.

use super::answered;
use crate::app::App;
use crate::exit::Outcome;
use crate::mesh::LinkGraph;
use crate::view::cabling::{Cabling, human};

/// Options of `macluster cabling diagram`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Opts {
    /// What it is drawn as
    #[arg(short, long, value_enum, default_value_t)]
    output: Drawing,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Drawing {
    /// For the terminal
    #[default]
    Text,
}

/// Runs it.
pub(super) async fn run(opts: Opts, app: &App) -> Outcome {
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let cabling = Cabling { inventory: &inventory, snapshot: &snapshot, graph: &graph, findings: &[] };
    match opts.output {
        Drawing::Text => app.printer.out(&human(&cabling, app.printer, false)),
    }
    Ok(answered(&inventory, &snapshot))
}
