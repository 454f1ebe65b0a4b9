//! `macluster status`: what runs where.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ending::Ending;
use crate::agent::status::State;
use crate::app::App;
use crate::cli::Format;
use crate::event::silent;
use crate::exit::{Exit, Outcome};
use crate::model::{Access, Inventory};
use crate::phase::inspect::{Condition, NodeStatus, inspect};
use crate::phase::runtime::PLAYBOOK;
use crate::playbook::Playbook;
use crate::remote::prompt::Nobody;
use crate::remote::{ConnectOptions, Fleet};
use crate::view::screen::{Screen, quit_key};
use crate::view::status as view;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two attempts to reach nodes that do not answer.
const KNOCK: Duration = Duration::from_secs(10);
/// For one such attempt: the picture waits for it.
const PATIENCE: Duration = Duration::from_secs(4);

/// Options of `macluster status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 every rank serves; 6 some node does not answer or does not serve; \
                        7 no node answers; 10 nothing is deployed")]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Look again every 2 s, until `q` or Ctrl-C; without a terminal each look is printed, one JSON object a line with -o json
    #[arg(short, long)]
    watch: bool,
}

impl Opts {
    /// It ends by signals, with the exit code of the last look.
    pub fn owns_signals(&self) -> bool {
        self.watch
    }
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let mut fleet = app.fleet(&inventory, Access::Read).await?;
    if opts.watch {
        let outcome = watch(&opts, app, &inventory, &mut fleet, &book).await;
        fleet.close().await;
        return outcome;
    }
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

/// Looks until the person has seen enough; the exit code is that of the last look.
async fn watch(opts: &Opts, app: &App, inventory: &Inventory, fleet: &mut Fleet, book: &Arc<Playbook>) -> Outcome {
    let last = Cell::new(Exit::Ok);
    let mut ending = Ending::new()?;
    tokio::select! {
        () = look_on(opts, app, inventory, fleet, book, &last) => {}
        () = ending.asked() => {}
    }
    Ok(last.get())
}

async fn look_on(
    opts: &Opts,
    app: &App,
    inventory: &Inventory,
    fleet: &mut Fleet,
    book: &Arc<Playbook>,
    last: &Cell<Exit>,
) {
    let screen = if opts.output == Format::Human { Screen::open() } else { None };
    let mut quit = quit_key(screen.as_ref());
    let mut knocked = Instant::now();
    // Progress has no place beside a picture.
    let events = silent();
    loop {
        let look = async {
            let nodes = inspect(inventory, fleet, book, &events).await;
            last.set(verdict(&nodes));
            nodes
        };
        let nodes = tokio::select! {
            nodes = look => nodes,
            Some(()) = quit.recv() => return,
        };
        let text = match opts.output {
            Format::Human => view::human(&nodes, inventory),
            Format::Json => view::json(&nodes, inventory).to_string(),
        };
        match &screen {
            Some(screen) => screen.draw(&view::picture(&text, inventory, screen.size(app.printer).1)),
            None => app.printer.out(&text),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            Some(()) = quit.recv() => return,
        }
        let gone: BTreeSet<_> = nodes.iter().filter(|n| n.seen.is_err()).map(|n| n.node.clone()).collect();
        if !gone.is_empty() && knocked.elapsed() >= KNOCK {
            knocked = Instant::now();
            let options = ConnectOptions { prompt: Arc::new(Nobody), ..app.connect_options(Access::Read) };
            let again = fleet.again(inventory, &options, &events, &gone);
            if let Ok(found) = tokio::time::timeout(PATIENCE, again).await {
                fleet.nodes.extend(found.nodes);
            }
        }
    }
}
