//! `macluster accept`: measures a serving rack before it is handed over, and files the figures away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::ending::Ending;
use super::service::{ask_yes, lock, need_all};
use crate::app::App;
use crate::cli::Format;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory};
use crate::phase::accept::compare::{compare, read};
use crate::phase::accept::report::Report;
use crate::phase::accept::{Acceptance, Options, serving};
use crate::phase::hold::Hold;
use crate::phase::inspect::{Condition, inspect};
use crate::phase::ops::Ops;
use crate::phase::runtime::PLAYBOOK;
use crate::remote::Fleet;
use crate::view::accept as view;

/// Options of `macluster accept`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Exit status: 0 passed; 2 wrong usage; 3 --compare names no usable report; 4 a link is an \
                        outlier or something got slower; 6 a step failed; 7 no node answers; 9 the service did not come \
                        back; 10 nothing serves")]
pub struct Opts {
    /// Do not ask before the service is stopped
    #[arg(long)]
    yes: bool,
    /// Leave out what needs the service stopped: links, sums over all ranks, the restart
    #[arg(long)]
    no_stop: bool,
    /// Leave out what the service is asked, as after a cable was exchanged
    #[arg(long, conflicts_with = "no_stop")]
    no_requests: bool,
    /// Tokens of the prompt in which the needle is hidden, at least
    #[arg(long, value_name = "N", default_value_t = 4200, value_parser = clap::value_parser!(u32).range(50..=1_000_000))]
    needle_tokens: u32,
    /// How long nothing is asked before the request after an idle time
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    idle: u64,
    /// New folder for report.md and report.json [default: accept-RACK-DATE]
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Say what got slower since this report.json
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted")
}

/// Runs it. A service that was stopped is started again, whatever happens here; a second Ctrl-C does not wait for that.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let mut ending = Ending::new()?;
    let inventory = app.inventory()?;
    let old = opts.compare.as_deref().map(older).transpose()?;
    let folder = new_folder(&opts, &inventory)?;
    let fleet = tokio::select! {
        fleet = app.lasting_fleet(&inventory, Access::Write) => fleet?,
        () = ending.asked() => return Err(interrupted()),
    };
    let measured = on_fleet(&opts, app, &inventory, &fleet, &mut ending).await;
    fleet.close().await;
    let mut report = measured?;
    report.comparison = old.map(|old| compare(&old, &report));
    // The figures are printed first: nothing is lost when they cannot be written.
    app.printer.out(&match opts.output {
        Format::Human => view::human(&report),
        Format::Json => view::json(&report),
    });
    write(&folder, &report)?;
    app.printer.err(&format!("report: {}", folder.join("report.md").display()));
    Ok(report.exit())
}

fn older(path: &Path) -> Result<Report, Failure> {
    let unusable = |why: String| {
        Failure::new(Exit::Inventory, format!("{} {why}", path.display()))
            .hint("--compare takes the report.json of an earlier `macluster accept`")
    };
    let text = std::fs::read_to_string(path).map_err(|e| unusable(format!("cannot be read: {e}")))?;
    read(&text).map_err(unusable)
}

/// The folder of the report, which must not be there yet.
fn new_folder(opts: &Opts, inventory: &Inventory) -> Result<PathBuf, Failure> {
    let folder = opts.report.clone().unwrap_or_else(|| {
        let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let rack: String = inventory.rack.chars().map(safe).collect();
        format!("accept-{rack}-{}", jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S")).into()
    });
    if folder.symlink_metadata().is_ok() {
        return Err(Failure::new(
            Exit::Usage,
            format!("{} is there already: reports are not overwritten", folder.display()),
        )
        .hint("name another folder with --report"));
    }
    Ok(folder)
}

async fn on_fleet(
    opts: &Opts,
    app: &App,
    inventory: &Inventory,
    fleet: &Fleet,
    ending: &mut Ending,
) -> Result<Report, Failure> {
    need_all(inventory, fleet)?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let mut rack = Ops::new(inventory, fleet, &book, &app.events);
    let options = Options {
        needle_tokens: opts.needle_tokens,
        idle: Duration::from_secs(opts.idle),
        requests: !opts.no_requests,
        stop: !opts.no_stop,
    };
    let looked = async {
        let held = lock(&rack).await?;
        app.events.emit(Event::PhaseStarted { id: "facts", title: "Read the facts".to_owned() });
        let snapshot = crate::collect::collect_facts(inventory, fleet, &app.events).await;
        let nodes = inspect(inventory, fleet, &book, &app.events).await;
        if nodes.iter().all(|n| n.condition() == Condition::NotDeployed) {
            return Err(Failure::new(Exit::NotFound, "the runtime is not deployed")
                .hint("`macluster deploy` brings it there; then run `macluster accept` again"));
        }
        let statuses = serving(inventory, &nodes).map_err(|causes| {
            Failure::new(Exit::NotFound, format!("there is no service to accept:\n  {}", causes.join("\n  ")))
                .hint("`macluster status` tells more; `macluster start` starts what does not run")
        })?;
        if options.stop && !opts.yes {
            app.printer.err(&view::announcement(inventory, options.requests.then_some(opts.idle)));
            ask_yes(app, "Measure, and stop the service for that?", "nothing was measured or stopped").await?;
        }
        Ok((held, snapshot, statuses))
    };
    let (held, snapshot, statuses) = tokio::select! {
        looked = looked => looked?,
        () = ending.asked() => return Err(interrupted()),
    };
    rack.only(statuses.iter().map(|(n, _)| n.clone()).collect());
    let prepared = Acceptance::prepare(&rack, &snapshot, &app.events, statuses, options).await;
    let mut acceptance = prepared.map_err(|why| Failure::new(Exit::SomeNodesFailed, why))?;
    tokio::select! {
        () = acceptance.while_serving() => {}
        () = ending.asked() => return Err(interrupted()),
    }
    if options.stop {
        held.iter().for_each(Hold::begin_work);
        stopped(app, &mut acceptance, ending).await?;
    } else {
        acceptance.leave_it_running();
    }
    Ok(acceptance.report())
}

/// Stops, measures, starts. From the first stop on, nothing leaves here before the service was started again.
async fn stopped(app: &App, acceptance: &mut Acceptance<'_>, ending: &mut Ending) -> Result<(), Failure> {
    let stopped = acceptance.stop().await;
    let measuring = async {
        if stopped {
            acceptance.while_stopped().await;
        }
    };
    let broken_off = tokio::select! {
        () = measuring => false,
        () = ending.asked() => true,
    };
    let warn = || {
        let text = "interrupted: the service is started again; once more ends at once".to_owned();
        app.events.emit(Event::Warning { node: None, text });
    };
    if broken_off {
        warn();
    }
    let start = acceptance.start();
    tokio::pin!(start);
    let mut asked = broken_off;
    let back = loop {
        tokio::select! {
            back = &mut start => break back,
            () = ending.asked() => {
                if asked {
                    return Err(interrupted().hint("the service may not run: `macluster start` starts it"));
                }
                asked = true;
                warn();
            }
        }
    };
    match (broken_off, back) {
        // What was measured is whole, and is filed away with how the start went.
        (false, _) => Ok(()),
        (true, true) => Err(interrupted().hint("the service runs again; nothing was filed away")),
        (true, false) => Err(interrupted().hint("the service did not come back: `macluster status` tells more")),
    }
}

fn write(folder: &Path, report: &Report) -> Result<(), Failure> {
    let trouble = |e: std::io::Error| {
        Failure::new(Exit::Unexpected, format!("the report cannot be written to {}: {e}", folder.display()))
            .hint("its figures are printed above; `-o json` prints all of them")
    };
    if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(trouble)?;
    }
    // Fails when somebody else made it meanwhile.
    std::fs::create_dir(folder).map_err(trouble)?;
    std::fs::write(folder.join("report.json"), view::json(report) + "\n").map_err(trouble)?;
    std::fs::write(folder.join("report.md"), view::markdown(report)).map_err(trouble)
}
