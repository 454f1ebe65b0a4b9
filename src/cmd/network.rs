//! `macluster network`: plan and apply the link networks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::app::App;
use crate::cli::Format;
use crate::collect::collect;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Access, Inventory, NodeName, Snapshot};
use crate::network::{NetworkPlan, plan};
use crate::phase::network::{Verified, apply, prove, remotes};
use crate::playbook::Playbooks;
use crate::remote::Fleet;
use crate::view::plan as view;
use crate::view::prompt::Terminal;

/// How long the links may take to come up after their last change.
const SETTLE: Duration = Duration::from_secs(15);

/// Options of `macluster network`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Action {
    /// Show each link's network and the exact commands that are missing; changes nothing
    Plan(PlanOpts),
    /// Run what the plan shows, then prove every link
    Apply(ApplyOpts),
}

#[derive(Clone, Debug, clap::Args)]
struct PlanOpts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Exit with 5 when there are changes, 0 when there are none
    #[arg(long)]
    detailed_exitcode: bool,
}

#[derive(Clone, Debug, clap::Args)]
struct ApplyOpts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Apply without the timer on each node that would take changes back if it were cut off
    #[arg(long)]
    no_deadman: bool,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    match opts.action {
        Action::Plan(opts) => run_plan(&opts, app).await,
        Action::Apply(opts) => run_apply(&opts, app).await,
    }
}

fn planned(inventory: &Inventory, snapshot: &Snapshot, playbooks: &Playbooks) -> Result<NetworkPlan, Failure> {
    Ok(plan(inventory, snapshot, &LinkGraph::build(snapshot), playbooks)?)
}

/// 7 when no node answered, 6 when some did not, else 0.
fn reached(inventory: &Inventory, snapshot: &Snapshot) -> Exit {
    let answered = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_some()).count();
    match answered {
        all if all == inventory.nodes.len() => Exit::Ok,
        0 => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    }
}

async fn run_plan(opts: &PlanOpts, app: &App) -> Outcome {
    let playbooks = app.playbooks()?;
    let (inventory, snapshot) = app.facts().await?;
    let plan = planned(&inventory, &snapshot, &playbooks)?;
    match opts.output {
        Format::Human => app.printer.out(&view::human(&plan, &inventory, app.printer, app.global.verbose)),
        Format::Json => print_json(app, &view::json(&plan, &inventory)),
    }
    let pending = opts.detailed_exitcode && !plan.changes.is_empty();
    Ok(Exit::worst([
        reached(&inventory, &snapshot),
        if plan.blocked() { Exit::ChecksFailed } else { Exit::Ok },
        if pending { Exit::ChangesPending } else { Exit::Ok },
    ]))
}

async fn run_apply(opts: &ApplyOpts, app: &App) -> Outcome {
    if !opts.no_deadman {
        return Err(Failure::new(
            Exit::Usage,
            "refused: this version has no timer on the nodes that would take the changes back if a node were cut off",
        )
        .hint("`macluster network plan` shows the changes; none touches what carries SSH, and a restart undoes all")
        .hint("`macluster network apply --no-deadman` applies them without that timer"));
    }
    let playbooks = app.playbooks()?;
    let inventory = app.inventory()?;
    let fleet = app.fleet(&inventory, Access::Write).await?;
    let outcome = apply_on(opts, app, &playbooks, &inventory, &fleet).await;
    fleet.close().await;
    outcome
}

async fn apply_on(opts: &ApplyOpts, app: &App, playbooks: &Playbooks, inventory: &Inventory, fleet: &Fleet) -> Outcome {
    let snapshot = collect(inventory, fleet, &app.events).await;
    let plan = planned(inventory, &snapshot, playbooks)?;
    let shown = view::human(&plan, inventory, app.printer, app.global.verbose);
    match opts.output {
        Format::Human => app.printer.out(&shown),
        // Standard output is for the one JSON document; the person who is asked still sees the plan.
        Format::Json if !opts.yes => app.printer.err(&shown),
        Format::Json => {}
    }
    let mut exits = vec![reached(inventory, &snapshot)];
    if plan.blocked() {
        exits.push(Exit::ChecksFailed);
    }
    let mut applied = Vec::new();
    if !plan.changes.is_empty() {
        if !opts.yes {
            confirm(app, inventory, fleet, playbooks, &plan).await?;
        }
        applied = run_phase(app, "apply", "Set up the link networks", async {
            let applied = apply(&plan, &remotes(fleet), &app.events).await;
            let ok = applied.iter().all(|a| a.failure.is_none());
            (applied, ok)
        })
        .await;
    }
    let given_up: BTreeSet<NodeName> = applied
        .iter()
        .filter(|a| a.failure.is_some())
        .map(|a| a.node.clone())
        .chain(plan.problems.iter().filter(|_| plan.blocked()).filter_map(|p| p.node.clone()))
        .collect();
    let verified = if plan.links.is_empty() || (plan.changes.is_empty() && plan.blocked()) {
        Ok(Verified::default())
    } else {
        run_phase(app, "verify", "Prove the link networks", async {
            let verified = prove(inventory, fleet, playbooks, &given_up, SETTLE, &app.events).await;
            let ok = verified.as_ref().is_ok_and(Verified::ok);
            (verified, ok)
        })
        .await
    }?;
    if applied.iter().any(|a| a.failure.is_some()) {
        exits.push(Exit::SomeNodesFailed);
    }
    if !verified.ok() {
        exits.push(Exit::ChecksFailed);
    }
    match opts.output {
        Format::Human if verified.links.is_empty() => {}
        Format::Human => app.printer.out(&view::applied_human(&applied, &verified, inventory, app.printer)),
        Format::Json => print_json(app, &view::applied_json(&plan, &applied, &verified, inventory)),
    }
    Ok(Exit::worst(exits))
}

/// Tells the views that a phase begins and how it ended.
async fn run_phase<T>(app: &App, id: &'static str, title: &str, work: impl Future<Output = (T, bool)>) -> T {
    app.events.emit(Event::PhaseStarted { id, title: title.to_owned() });
    let (done, ok) = work.await;
    app.events.emit(Event::PhaseDone { id, ok });
    done
}

/// Asks, and makes sure that the rack is still as it was shown.
async fn confirm(
    app: &App,
    inventory: &Inventory,
    fleet: &Fleet,
    playbooks: &Playbooks,
    shown: &NetworkPlan,
) -> Result<(), Failure> {
    let terminal = Terminal::new(app.printer, Arc::clone(&app.events));
    let asked = tokio::task::spawn_blocking(move || terminal.literal_yes("Apply these changes?")).await;
    match asked.unwrap_or(Some(false)) {
        Some(true) => {}
        Some(false) => return Err(Failure::new(Exit::Interrupted, "not applied")),
        None => {
            return Err(Failure::new(Exit::Usage, "not applied: there is no terminal to ask at")
                .hint("--yes applies without asking"));
        }
    }
    let snapshot = collect(inventory, fleet, &app.events).await;
    let now = planned(inventory, &snapshot, playbooks)?;
    if now.fingerprint == shown.fingerprint {
        return Ok(());
    }
    Err(Failure::new(Exit::StalePlan, "not applied: the rack has changed since the plan was shown")
        .hint("run `macluster network apply` again: it makes a new plan"))
}

fn print_json(app: &App, value: &serde_json::Value) {
    app.printer.out(&serde_json::to_string_pretty(value).unwrap_or_default());
}
