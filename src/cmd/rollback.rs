//! `macluster rollback`: the release and the configuration before the ones in place, running again.

use std::sync::Arc;

use jiff::Timestamp;

use super::service::{ask_yes, good, lock, need_all};
use crate::agent::releases::{Configured, Releases};
use crate::app::App;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, NodeName};
use crate::phase::hold::Hold;
use crate::phase::ops::{self, Ops};
use crate::phase::runtime::PLAYBOOK;
use crate::remote::Fleet;
use crate::view::ops as view;

/// Options of `macluster rollback`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "A second rollback leads forward again.\n\
                        Exit status: 0 the release before serves; 9 it does not, and what ran before runs again; \
                        10 there is nothing to go back to")]
pub struct Opts {
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let fleet = app.lasting_fleet(&inventory, Access::Write).await?;
    let outcome = on_fleet(&opts, app, &inventory, &fleet).await;
    fleet.close().await;
    outcome
}

async fn on_fleet(opts: &Opts, app: &App, inventory: &Inventory, fleet: &Fleet) -> Outcome {
    need_all(inventory, fleet)?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let mut rack = Ops::new(inventory, fleet, &book, &app.events);
    let held = lock(&rack).await?;
    let found = rack.releases().await;
    let target = ops::rollback_target(&found).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|(n, why)| format!("{} {why}", inventory.label(n))).collect();
        Failure::new(Exit::NotFound, format!("there is nothing to go back to:\n{}", lines.join("\n")))
            .hint("nothing was changed; `macluster releases` lists what is there, `macluster deploy` brings another")
    })?;
    if let Some(end) = ops::certificates_ended(&found, |r| &r.previous, Timestamp::now()) {
        return Err(Failure::new(Exit::NotFound, view::certificates_ended("the configuration before", end)).hint(
            format!(
                "nothing was changed; `macluster deploy` with the bundle of release {} makes new ones for it",
                target.release
            ),
        ));
    }
    // The target is on every node, so each node has a configuration in place too.
    let now = found.iter().find_map(|(_, r)| r.as_ref().ok().and_then(|r| r.current.clone()));
    let now = now.ok_or_else(|| Failure::new(Exit::NotFound, "no configuration is in place"))?;
    app.printer.err(&view::rollback(&now, &target));
    if !opts.yes {
        ask_yes(app, "Roll back?", "not rolled back; nothing was changed").await?;
    }
    let phase = |title: &str| app.events.emit(Event::PhaseStarted { id: "rollback", title: title.to_owned() });
    phase("Go back to the release before");
    held.iter().for_each(Hold::begin_work);
    let ranks_of = |of: fn(&Releases) -> &Option<Configured>| -> Vec<NodeName> {
        let is = |r: &Result<Releases, String>| r.as_ref().is_ok_and(|r| of(r).is_some());
        found.iter().filter(|(_, r)| is(r)).map(|(n, _)| n.clone()).collect()
    };
    let (to, from) = (ranks_of(|r| &r.previous), ranks_of(|r| &r.current));
    rack.only(to.clone());
    match go(&rack, inventory, &target, &now, &to).await {
        Ok(text) => {
            app.events.emit(Event::PhaseDone { id: "rollback", ok: true });
            app.printer.out(&text);
            Ok(Exit::Ok)
        }
        Err(failure) => {
            app.events.emit(Event::PhaseDone { id: "rollback", ok: false });
            phase("Take the rollback back");
            rack.only(from.clone());
            let returned = back(&rack, inventory, &now, &from).await;
            let aftermath = match returned {
                Ok(_) => format!("release {} is running again", now.release),
                Err(again) => format!("and what ran before does not run again: {}", again.message),
            };
            Err(Failure { exit: Exit::DeployFailed, message: format!("{}\n{aftermath}", failure.message), ..failure })
        }
    }
}

async fn go(
    ops: &Ops<'_>,
    inventory: &Inventory,
    to: &Configured,
    from: &Configured,
    ranks: &[NodeName],
) -> Result<String, Failure> {
    good(ops.stop().await, inventory)?;
    let exchange = ops
        .each("exchanging release and configuration", |n| async move {
            ops::exchange(n, &from.release, &to.release, !ranks.contains(&n.name)).await
        })
        .await;
    good(exchange, inventory)?;
    serve(ops, inventory, to).await
}

/// Every node to what it had, wherever it stands now.
async fn back(ops: &Ops<'_>, inventory: &Inventory, from: &Configured, ranks: &[NodeName]) -> Result<String, Failure> {
    good(ops.stop().await, inventory)?;
    let restore = ops
        .each("putting back what was there", |n| async move {
            let there = ops::releases(n).await?;
            let mine = ranks.contains(&n.name);
            let launch = there.current.as_ref().map(|c| &c.launch);
            if (mine && launch == Some(&from.launch)) || (!mine && launch.is_none()) {
                return n.step("activate").release(&from.release).ok().await.map(drop).map_err(|e| e.words());
            }
            ops::exchange(n, &from.release, &from.release, !mine).await
        })
        .await;
    good(restore, inventory)?;
    serve(ops, inventory, from).await
}

async fn serve(ops: &Ops<'_>, inventory: &Inventory, what: &Configured) -> Result<String, Failure> {
    good(ops.forgive().await, inventory)?;
    good(ops.start().await, inventory)?;
    good(ops.ready(&what.launch).await, inventory)?;
    let answer = ops.prove().await.map_err(|why| Failure::new(Exit::SomeNodesFailed, why))?;
    Ok(view::serves(what, &answer))
}
