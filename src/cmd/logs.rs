//! `macluster logs NODE`: the engine's log of one node.

use std::sync::Arc;

use crate::app::App;
use crate::check::explain::read;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::command::printable;
use crate::model::{Access, NodeName};
use crate::phase::runtime::{PLAYBOOK, RuntimeNode};
use crate::view::explain::hint;

/// Options of `macluster logs`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Name of the node in the inventory
    #[arg(value_name = "NODE")]
    node: NodeName,
    /// Last lines to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lines: u32,
    /// Go on with what is added, until Ctrl-C
    #[arg(short = 'F', long)]
    follow: bool,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let mut inventory = app.inventory()?;
    let known: Vec<String> = inventory.nodes.iter().map(|n| n.name.to_string()).collect();
    inventory.nodes.retain(|n| n.name == opts.node);
    if inventory.nodes.is_empty() {
        return Err(Failure::new(Exit::NotFound, format!("the inventory has no node {}", opts.node))
            .hint(format!("it has {}", known.join(", "))));
    }
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let fleet = app.fleet(&inventory, Access::Read).await?;
    let outcome = show(&opts, app, &inventory, &fleet, &book).await;
    fleet.close().await;
    outcome
}

async fn show(
    opts: &Opts,
    app: &App,
    inventory: &crate::model::Inventory,
    fleet: &crate::remote::Fleet,
    book: &Arc<crate::playbook::Playbook>,
) -> Outcome {
    let label = inventory.label(&opts.node);
    let remote = match fleet.nodes.get(&opts.node) {
        Some(Ok(remote)) => remote,
        Some(Err(e)) => {
            let failure = Failure::new(Exit::NoNodeReachable, format!("{label}: {}", e.message));
            return Err(e.hint.iter().fold(failure, |f, hint| f.hint(hint.clone())));
        }
        None => return Err(Failure::new(Exit::NoNodeReachable, format!("{label}: no connection"))),
    };
    let node = RuntimeNode::new(inventory, book, remote, &app.events);
    let printer = app.printer;
    let mut rest = Vec::new();
    let mut explained: Vec<&str> = Vec::new();
    let print = move |chunk: &[u8]| {
        // Whole lines only: a letter may lie across two chunks.
        rest.extend_from_slice(chunk);
        if let Some(end) = rest.iter().rposition(|b| *b == b'\n') {
            let lines: Vec<u8> = rest.drain(..=end).collect();
            let lines = String::from_utf8_lossy(&lines);
            printer.out(&printable(&lines));
            for found in read(&lines) {
                // The same error comes a hundred times.
                if !explained.contains(&found.entry.id) {
                    explained.push(found.entry.id);
                    printer.err(&format!("note: {}", hint(found.entry)));
                }
            }
        }
    };
    let step = if opts.follow { "follow-log" } else { "last-words" };
    let call = node.step(step).with("lines", opts.lines.to_string()).on_output(Box::new(print));
    let output = call.answer().await.map_err(|e| Failure::new(Exit::SomeNodesFailed, format!("{label}: {e}")))?;
    if output.ok() {
        return Ok(Exit::Ok);
    }
    Err(Failure::new(Exit::NotFound, format!("{label}: there is no log to show: {}", output.describe()))
        .hint("nothing was deployed there yet, or the log is gone"))
}
