//! `macluster deploy`: from the desk to the first token, and back when anything fails.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::service::ask_yes;
use crate::app::App;
use crate::cli::Format;
use crate::collect::collect;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory, NodeName, Parallel};
use crate::phase::bundle::cache_dir;
use crate::phase::deploy::{self, Broken, Deploy, LOOKING, Options, PHASES, Target};
use crate::phase::ops;
use crate::phase::runtime::{PLAYBOOK, RuntimeNode};
use crate::remote::Fleet;
use crate::view::deploy as view;

/// Options of `macluster deploy`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Serve this model folder of the nodes [default: runtime.model of the inventory]
    #[arg(long, value_name = "PATH", value_parser = super::model::absolute)]
    model: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Go on where an earlier deploy broke off: what deploy always does, said for scripts
    #[arg(long)]
    resume: bool,
    /// Deploy this bundle [default: one without a Python, which needs runtime.python, from the cache or built now]
    #[arg(long, value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// Do not compare the link networks with their plan
    #[arg(long)]
    skip_network: bool,
    /// macluster for the nodes' platform, for the bundle that is built [default: this program]
    #[arg(long, value_name = "PATH", conflicts_with = "bundle")]
    agent: Option<PathBuf>,
    /// The Python ≥ 3.11 with pip that downloads the packages [default: the first on PATH]
    #[arg(long, value_name = "PATH", conflicts_with = "bundle")]
    pip_python: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// Runs it. Ctrl-C takes back what was done so far; a second one does not wait for that.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let interrupt = || Failure::new(Exit::Interrupted, "interrupted");
    let mut inventory = app.inventory()?;
    if let Some(model) = &opts.model {
        inventory.runtime.model = Some(model.clone());
    }
    let fleet = tokio::select! {
        fleet = app.lasting_fleet(&inventory, Access::Write) => fleet?,
        _ = tokio::signal::ctrl_c() => return Err(interrupt()),
    };
    let outcome = on_fleet(&opts, app, inventory, &fleet).await;
    fleet.close().await;
    outcome
}

async fn on_fleet(opts: &Opts, app: &App, inventory: Inventory, fleet: &Fleet) -> Outcome {
    if let Some(failure) = unreached(&inventory, fleet) {
        return Err(failure);
    }
    let mut deploy = prepare(opts, app, inventory, fleet).await?;
    if opts.resume {
        let text = "what an earlier deploy has brought, and is whole, is not sent again".to_owned();
        app.events.emit(Event::Note { node: None, text });
    }
    let (looking, doing) = PHASES.split_at(LOOKING);
    if let Err(broken) = deploy::run(looking, &mut deploy).await {
        return Err(view::failure(&broken, &deploy.inventory));
    }
    if !opts.yes {
        confirm(app, &deploy).await?;
    }
    let result = tokio::select! {
        result = deploy::run(doing, &mut deploy) => Some(result),
        _ = tokio::signal::ctrl_c() => None,
    };
    match result {
        Some(Ok(())) => {
            prune(app, &deploy).await;
            app.printer.out(&match opts.output {
                Format::Human => view::human(&deploy),
                Format::Json => view::json(&deploy),
            });
            Ok(Exit::Ok)
        }
        Some(Err(broken)) => Err(broke(opts, app, &broken, &deploy)),
        None => Err(interrupted(app, &mut deploy).await),
    }
}

fn broke(opts: &Opts, app: &App, broken: &Broken, deploy: &Deploy) -> Failure {
    if opts.output == Format::Json {
        app.printer.out(&view::broken_json(broken));
    }
    view::failure(broken, &deploy.inventory)
}

/// All ranks or none: a deploy needs every node.
fn unreached(inventory: &Inventory, fleet: &Fleet) -> Option<Failure> {
    let idle = not_chosen(inventory);
    let missing: Vec<_> = fleet.unreached().filter(|(n, _)| !idle.contains_key(*n)).collect();
    if missing.is_empty() {
        return None;
    }
    let lines: Vec<String> = missing.iter().map(|(n, e)| format!("  {}: {}", inventory.label(n), e.message)).collect();
    let message =
        format!("nothing was changed: a deploy needs every node, and not all were reached\n{}", lines.join("\n"));
    let mut failure = Failure::new(fleet.exit(), message);
    for hint in missing.iter().filter_map(|(_, e)| e.hint.clone()) {
        if !failure.hints.contains(&hint) {
            failure.hints.push(hint);
        }
    }
    Some(failure)
}

async fn prepare(opts: &Opts, app: &App, inventory: Inventory, fleet: &Fleet) -> Result<Deploy, Failure> {
    let playbooks = app.playbooks()?;
    let book = Arc::new(playbooks.book(PLAYBOOK)?.clone());
    let snapshot = collect(&inventory, fleet, &app.events).await;
    let target = |remote| Target {
        node: RuntimeNode::new(&inventory, &book, remote, &app.events),
        owner: None,
        python: None,
        previous: None,
    };
    let targets = inventory.nodes.iter().filter_map(|n| fleet.remote(&n.name)).map(target).collect();
    Ok(Deploy {
        playbooks,
        scripts: app.templates()?.scripts()?,
        snapshot,
        options: Options {
            bundle: opts.bundle.clone(),
            agent: opts.agent.clone(),
            skip_network: opts.skip_network,
            cache: cache_dir()?,
            pip_python: opts.pip_python.clone(),
        },
        events: Arc::clone(&app.events),
        targets,
        idle: not_chosen(&inventory),
        platform: None,
        bundle: None,
        plan: None,
        parallel: Parallel::default(),
        launch: launch_id()?,
        start_timeout: 0.0,
        deployed: None,
        holds: Vec::new(),
        staging_is_ours: false,
        reached: 0,
        retired: false,
        switched: Vec::new(),
        cut_off: BTreeSet::new(),
        inventory,
    })
}

/// Nodes that `runtime.nodes` leaves out.
fn not_chosen(inventory: &Inventory) -> BTreeMap<NodeName, String> {
    let Some(chosen) = &inventory.runtime.nodes else { return BTreeMap::new() };
    let others = inventory.nodes.iter().map(|n| &n.name).filter(|n| !chosen.contains(n));
    others.map(|n| (n.clone(), "runtime.nodes leaves it out".to_owned())).collect()
}

/// 16 random hexadecimal digits.
fn launch_id() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut bytes))
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot read /dev/urandom: {e}")))?;
    Ok(hex::encode(bytes))
}

/// Old releases go once the new one serves. That one of them stays is no reason to fail.
async fn prune(app: &App, deploy: &Deploy) {
    let work = deploy.targets.iter().map(|t| async { (t.node.name.clone(), ops::prune(&t.node, ops::KEEP).await) });
    for (node, result) in futures::future::join_all(work).await {
        if let Err(why) = result {
            let text = format!("old releases are still there: {why}");
            app.events.emit(Event::Warning { node: Some(node), text });
        }
    }
}

async fn confirm(app: &App, deploy: &Deploy) -> Result<(), Failure> {
    app.printer.err(&view::announcement(deploy));
    ask_yes(app, "Deploy?", "not deployed; nothing was changed").await
}

async fn interrupted(app: &App, deploy: &mut Deploy) -> Failure {
    let text = "interrupted: taking back what was done; once more ends at once".to_owned();
    app.events.emit(Event::Warning { node: None, text });
    let aftermath = tokio::select! {
        aftermath = deploy::undo(deploy) => aftermath,
        _ = tokio::signal::ctrl_c() => vec!["the way back was interrupted too: run `macluster deploy` again".to_owned()],
    };
    let mut failure = Failure::new(Exit::Interrupted, "interrupted");
    failure.hints.extend(aftermath);
    failure
}
