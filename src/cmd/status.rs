//! `macluster status`: what runs where.

use std::sync::Arc;

use crate::agent::status::State;
use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::model::Access;
use crate::phase::inspect::{Condition, NodeStatus, inspect};
use crate::phase::runtime::PLAYBOOK;
use crate::view::status as view;

/// Options of `macluster status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 every rank serves; 6 some node does not answer or does not serve; \
                        7 no node answers; 10 nothing is deployed")]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let fleet = app.fleet(&inventory, Access::Read).await?;
    let nodes = inspect(&inventory, &fleet, &book, &app.events).await;
    fleet.close().await;
    app.printer.out(&match opts.output {
        Format::Human => view::human(&nodes, &inventory),
        Format::Json => serde_json::to_string_pretty(&view::json(&nodes, &inventory)).unwrap_or_default(),
    });
    Ok(verdict(&nodes))
}

/// The documented exit status.
fn verdict(nodes: &[NodeStatus]) -> Exit {
    let conditions: Vec<Condition> = nodes.iter().map(NodeStatus::condition).collect();
    let all = |wanted: Condition| conditions.iter().all(|c| *c == wanted);
    let unreached = nodes.iter().all(|n| n.seen.as_ref().is_err_and(|u| !u.reached));
    if unreached {
        Exit::NoNodeReachable
    } else if all(Condition::NotDeployed) {
        Exit::NotFound
    } else if conditions.contains(&Condition::Engine(State::Ready))
        && conditions.iter().all(|c| matches!(c, Condition::Engine(State::Ready) | Condition::Idle))
    {
        Exit::Ok
    } else {
        Exit::SomeNodesFailed
    }
}
