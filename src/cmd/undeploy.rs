//! `macluster undeploy`: the nodes' files as they were before the first deploy.

use std::sync::Arc;

use super::service::{ask_yes, lock};
use crate::app::App;
use crate::event::Event;
use crate::exit::{Exit, Outcome};
use crate::model::Access;
use crate::phase::hold::Hold;
use crate::phase::ops::{self, Ops};
use crate::phase::runtime::PLAYBOOK;
use crate::view::ops as view;

/// Options of `macluster undeploy`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Link networks stay: `macluster network revert` takes them back.")]
pub struct Opts {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Remove the models in the install folder too
    #[arg(long)]
    models: bool,
}

/// Runs it. Nothing there is fine; so is doing it twice.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    app.printer.err(&view::undeploy(&inventory, opts.models));
    if !opts.yes {
        ask_yes(app, "Undeploy?", "nothing was changed").await?;
    }
    let fleet = app.fleet(&inventory, Access::Write).await?;
    let rack = Ops::new(&inventory, &fleet, &book, &app.events);
    let held = lock(&rack).await?;
    held.iter().for_each(Hold::begin_work);
    app.events.emit(Event::PhaseStarted { id: "undeploy", title: "Remove the runtime".to_owned() });
    let results = rack.each("removing", |n| async move { ops::remove(n, opts.models).await }).await;
    let failed = results.iter().any(|(_, r)| r.is_err());
    app.events.emit(Event::PhaseDone { id: "undeploy", ok: !failed });
    app.printer.out(&view::removed(&results, &inventory));
    let exit = fleet.exit();
    drop(rack);
    fleet.close().await;
    Ok(Exit::worst([exit, if failed { Exit::SomeNodesFailed } else { Exit::Ok }]))
}
