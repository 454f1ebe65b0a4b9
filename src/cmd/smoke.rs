//! `macluster smoke`: whether what is deployed serves, as a CI job asks after a deploy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::app::App;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::Access;
use crate::phase::inspect::Condition;
use crate::phase::runtime::PLAYBOOK;
use crate::phase::smoke::{self, Verdict};
use crate::view::smoke as view;

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Human,
    /// For programs; carries `schema_version`.
    Json,
    /// For CI servers.
    Junit,
}

/// Options of `macluster smoke`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 everything passed; 4 only launch checks failed; 6 ranks or answers failed; \
                        7 no node answers; 10 nothing is deployed")]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Seconds for everything: both answers get what the facts have left of it
    #[arg(long, value_name = "SECONDS", default_value_t = smoke::SECONDS, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let until = Instant::now() + Duration::from_secs(opts.timeout);
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let scripts = app.templates()?.scripts()?;
    let fleet = app.fleet(&inventory, Access::Read).await?;
    let phase = |title: &str| app.events.emit(Event::PhaseStarted { id: "smoke", title: title.to_owned() });
    phase("Read the facts");
    let mut snapshot = crate::collect::collect_facts(&inventory, &fleet, &app.events).await;
    crate::collect::paths(&inventory, &fleet, &mut snapshot).await;
    phase("Look at the service");
    let with = (&fleet, &book, &app.events);
    let (smoke, nodes) = smoke::smoke(&inventory, &snapshot, &scripts.links.sha256, until, with).await;
    let reached = fleet.exit();
    fleet.close().await;
    app.events.emit(Event::PhaseDone { id: "smoke", ok: smoke.passed() });
    // Nothing to look at is no report with failures: a job that comes too early is told so.
    if nodes.iter().all(|n| n.condition() == Condition::NotDeployed) {
        return Err(
            Failure::new(Exit::NotFound, "the runtime is not deployed").hint("`macluster deploy` brings it there")
        );
    }
    app.printer.out(&match opts.output {
        Format::Human => view::human(&smoke, &inventory),
        Format::Json => serde_json::to_string_pretty(&view::json(&smoke, &inventory)).unwrap_or_default(),
        Format::Junit => view::junit(&smoke, &inventory),
    });
    let bad: Vec<&str> =
        smoke.steps.iter().filter(|s| !matches!(s.verdict, Verdict::Passed(_))).map(|s| s.id).collect();
    Ok(match bad.as_slice() {
        _ if reached == Exit::NoNodeReachable => reached,
        [] => Exit::Ok,
        ["launch-checks"] => Exit::ChecksFailed,
        _ => Exit::SomeNodesFailed,
    })
}
