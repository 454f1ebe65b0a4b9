//! `doctor --watch`: for the person at the rack who moves a cable and wants to see what it did.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::ending::Ending;
use super::Looking;
use crate::app::App;
use crate::collect::{collect, lost, paths, refresh, runtime};
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, Snapshot};
use crate::remote::prompt::Nobody;
use crate::remote::{ConnectOptions, Fleet};
use crate::view::doctor::{Watch, short};
use crate::view::screen::{Screen, quit_key};

/// Between two pictures.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two attempts to reach nodes that do not answer.
const KNOCK: Duration = Duration::from_secs(10);
/// For one such attempt: the picture waits for it.
const PATIENCE: Duration = Duration::from_secs(4);

/// Looks until the person has seen enough; the exit code is that of the last look.
pub(super) async fn run(looking: &Looking<'_>, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let mut fleet = app.fleet(&inventory, Access::Read).await?;
    let mut snapshot = collect(&inventory, &fleet, &app.events).await;
    paths(&inventory, &fleet, &mut snapshot).await;
    runtime(&inventory, &fleet, &mut snapshot).await;
    let last = Cell::new(Exit::Ok);
    let mut ending = Ending::new()?;
    // The ways to end it: nothing is interrupted by them, and the terminal is given back.
    let outcome = tokio::select! {
        outcome = look_on(looking, app, &inventory, &mut fleet, &mut snapshot, &last) => outcome,
        () = ending.asked() => Ok(()),
    };
    fleet.close().await;
    outcome.map(|()| last.get())
}

async fn look_on(
    looking: &Looking<'_>,
    app: &App,
    inventory: &Inventory,
    fleet: &mut Fleet,
    snapshot: &mut Snapshot,
    last: &Cell<Exit>,
) -> Result<(), Failure> {
    let screen = Screen::open();
    let mut quit = quit_key(screen.as_ref());
    let mut watch = Watch::default();
    let mut knocked = Instant::now();
    let mut first = true;
    loop {
        let (report, exit) = looking.judge(inventory, snapshot)?;
        last.set(exit);
        let news = watch.take(&report);
        match &screen {
            Some(screen) => {
                let (printer, height) = screen.size(app.printer);
                let trouble = unreached(inventory, snapshot);
                screen.draw(&watch.picture(&report, trouble.as_deref(), printer, height));
            }
            // A stream: how it was at first, then what changes.
            None if first => app.printer.out(&short(&report, false)),
            None => news.iter().for_each(|line| app.printer.out(line)),
        }
        first = false;
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            Some(()) = quit.recv() => return Ok(()),
        }
        tokio::select! {
            () = look_again(app, inventory, fleet, snapshot, &mut knocked) => {}
            Some(()) = quit.recv() => return Ok(()),
        }
    }
}

/// Reads again what changes, and knocks at nodes that are gone.
async fn look_again(
    app: &App,
    inventory: &Inventory,
    fleet: &mut Fleet,
    snapshot: &mut Snapshot,
    knocked: &mut Instant,
) {
    // Progress has no place beside a picture, and neither has a question.
    let silent = crate::event::silent();
    let gone: BTreeSet<_> = lost(fleet, snapshot).into_iter().collect();
    if !gone.is_empty() && knocked.elapsed() >= KNOCK {
        *knocked = Instant::now();
        let options = ConnectOptions { prompt: Arc::new(Nobody), ..app.connect_options(Access::Read) };
        let again = fleet.again(inventory, &options, &silent, &gone);
        if let Ok(found) = tokio::time::timeout(PATIENCE, again).await {
            fleet.nodes.extend(found.nodes);
        }
    }
    refresh(inventory, fleet, &silent, snapshot).await;
}

fn unreached(inventory: &Inventory, snapshot: &Snapshot) -> Option<String> {
    let silent = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_none());
    let labels: Vec<String> = silent.map(|n| inventory.label(&n.name)).collect();
    (!labels.is_empty()).then(|| format!("{} does not answer: trying again", labels.join(", ")))
}
