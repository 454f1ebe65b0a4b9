//! `macluster start` and `macluster restart`.

use std::sync::Arc;

use jiff::Timestamp;

use crate::app::App;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory};
use crate::phase::hold::Hold;
use crate::phase::ops::{self, Ops, Results};
use crate::phase::runtime::PLAYBOOK;
use crate::remote::Fleet;
use crate::view::ops as view;
use crate::view::prompt::Terminal;

/// Options of `macluster start` and `macluster restart`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 every rank serves and answered; 6 some node failed; 7 no node answers; \
                        10 nothing is deployed")]
pub struct Opts {}

/// What to do with a runtime that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Leave alone what runs.
    Start,
    /// Stop it first.
    Restart,
}

/// Runs it.
pub async fn run(_opts: Opts, app: &App, way: Way) -> Outcome {
    let inventory = app.inventory()?;
    let fleet = app.lasting_fleet(&inventory, Access::Write).await?;
    let outcome = on_fleet(app, &inventory, &fleet, way).await;
    fleet.close().await;
    outcome
}

async fn on_fleet(app: &App, inventory: &Inventory, fleet: &Fleet, way: Way) -> Outcome {
    need_all(inventory, fleet)?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let mut ops = Ops::new(inventory, fleet, &book, &app.events);
    let phase = |title: &str| {
        app.events.emit(Event::PhaseStarted { id: "service", title: title.to_owned() });
    };
    let held = lock(&ops).await?;
    phase("Look at what is deployed");
    let found = ops.releases().await;
    let ranks: Vec<_> =
        found.iter().filter_map(|(n, r)| Some((n.clone(), r.as_ref().ok()?.current.clone()?))).collect();
    let ended = ops::certificates_ended(&found, |r| &r.current, Timestamp::now());
    good(found, inventory)?;
    let Some((_, current)) = ranks.first() else {
        return Err(Failure::new(Exit::NotFound, "the runtime is not deployed")
            .hint("`macluster deploy` brings it there; `macluster releases` lists what is there"));
    };
    if ranks.iter().any(|(_, c)| c.launch != current.launch) || ranks.len() != current.world_size as usize {
        return Err(Failure::new(Exit::SomeNodesFailed, "the nodes are not configured for one and the same launch")
            .hint("`macluster deploy` makes them one again"));
    }
    if let Some(end) = ended {
        return Err(Failure::new(Exit::SomeNodesFailed, view::certificates_ended("this launch", end))
            .hint("nothing was changed; `macluster deploy` makes new ones"));
    }
    // Nodes without a configuration stay idle.
    ops.only(ranks.iter().map(|(n, _)| n.clone()).collect());
    if way == Way::Restart {
        phase("Stop the runtime");
        held.iter().for_each(Hold::begin_work);
        good(ops.stop().await, inventory)?;
    }
    held.iter().for_each(Hold::begin_work);
    good(ops.forgive().await, inventory)?;
    phase("Start the engines");
    good(ops.start().await, inventory)?;
    good(ops.ready(&current.launch).await, inventory)?;
    phase("Ask for the first tokens");
    let answer = ops.prove().await.map_err(|why| Failure::new(Exit::SomeNodesFailed, why))?;
    app.events.emit(Event::PhaseDone { id: "service", ok: true });
    app.printer.out(&view::serves(current, &answer));
    Ok(Exit::Ok)
}

/// All ranks or none: refused before anything is touched.
///
/// # Errors
/// The nodes that were not reached, with why.
pub(super) fn need_all(inventory: &Inventory, fleet: &Fleet) -> Result<(), Failure> {
    let missing: Vec<_> = fleet.unreached().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = missing.iter().map(|(n, e)| format!("  {}: {}", inventory.label(n), e.message)).collect();
    let message = format!("nothing was changed: every node is needed, and not all were reached\n{}", lines.join("\n"));
    let failure = Failure::new(fleet.exit(), message);
    Err(missing.iter().filter_map(|(_, e)| e.hint.clone()).fold(failure, Failure::hint))
}

/// Takes the nodes' locks.
///
/// # Errors
/// Who has one.
pub(super) async fn lock(ops: &Ops<'_>) -> Result<Vec<Hold>, Failure> {
    ops.hold().await.map_err(|bad| {
        let lines: Vec<String> = bad.iter().map(|(n, why)| format!("{}: {why}", ops.inventory.label(n))).collect();
        Failure::new(Exit::SomeNodesFailed, lines.join("\n"))
            .hint("nothing was changed; try again when the other operation has ended")
    })
}

/// The results, if all are good.
///
/// # Errors
/// Every node that failed.
pub(super) fn good<T>(results: Results<T>, inventory: &Inventory) -> Result<Vec<T>, Failure> {
    let (mut all, mut bad) = (Vec::new(), Vec::new());
    for (node, result) in results {
        match result {
            Ok(value) => all.push(value),
            Err(why) => bad.push(format!("{}: {why}", inventory.label(&node))),
        }
    }
    if bad.is_empty() { Ok(all) } else { Err(Failure::new(Exit::SomeNodesFailed, bad.join("\n"))) }
}

/// Asks at the terminal.
///
/// # Errors
/// The answer was no, or there is nobody to ask.
pub(super) async fn ask_yes(app: &App, question: &'static str, no: &str) -> Result<(), Failure> {
    let terminal = Terminal::new(app.printer, Arc::clone(&app.events));
    let asked = tokio::task::spawn_blocking(move || terminal.literal_yes(question));
    let answer = tokio::select! {
        answer = asked => answer.unwrap_or(Some(false)),
        _ = tokio::signal::ctrl_c() => Some(false),
    };
    match answer {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Interrupted, no)),
        None => Err(Failure::new(Exit::Usage, format!("{no}: there is no terminal to ask at"))
            .hint("--yes goes on without asking")),
    }
}
