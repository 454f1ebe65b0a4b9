//! `macluster cabling`.

use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::mesh::LinkGraph;
use crate::view::cabling::{Cabling, human, json};

/// Options of `macluster cabling`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let cabling = Cabling { inventory: &inventory, snapshot: &snapshot, graph: &graph };
    app.printer.out(&match opts.output {
        Format::Human => human(&cabling, app.printer),
        Format::Json => json(&cabling),
    });
    let silent = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_none()).count();
    Ok(match silent {
        0 => Exit::Ok,
        all if all == inventory.nodes.len() => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    })
}
