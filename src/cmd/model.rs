//! `macluster model`: models on the nodes, brought there and proven.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;

use super::service::need_all;
use crate::agent::store::{self, ModelList};
use crate::app::App;
use crate::cli::Format;
use crate::collect::collect_facts;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::{Access, Inventory};
use crate::phase::bundle::cache_dir;
use crate::phase::model::check::{self, Verdict};
use crate::phase::model::hub::{self, Hub};
use crate::phase::model::push::Push;
use crate::phase::model::relay::{Reach, reach};
use crate::phase::ops::{Ops, Results};
use crate::phase::runtime::PLAYBOOK;
use crate::remote::Fleet;
use crate::view::model as view;

/// Options of `macluster model`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    step: Step,
}

#[derive(Clone, Debug, Subcommand)]
enum Step {
    /// Bring a model to every node; files that a node has are not sent again
    #[command(
        after_help = "Exit status: 0 every node has it; 3 it is no model; 6 or 7 nodes were not reached; 9 it did not \
                            arrive everywhere (run it again: what arrived stays); 10 there is no such model"
    )]
    Push(PushOpts),
    /// Read every byte of the model on every node, and compare
    #[command(
        after_help = "Exit status: 0 the same on every node, and as it came; 4 it is not; 6 some node could not be \
                            asked; 7 no node answers"
    )]
    Check(CheckOpts),
}

#[derive(Clone, Debug, clap::Args)]
struct PushOpts {
    /// A model folder at this desk, or OWNER/NAME on the Hugging Face Hub (`HF_TOKEN`, `HF_ENDPOINT`)
    #[arg(value_name = "SRC")]
    source: String,
    /// Folder on the nodes [default: models/NAME in the install folder]
    #[arg(long, value_name = "PATH", value_parser = absolute)]
    to: Option<String>,
    /// Branch, tag or commit on the Hub
    #[arg(long, value_name = "REVISION", default_value = "main", value_parser = revision)]
    revision: String,
    /// Send everything from here, instead of to one node that gives it to the others over the links
    #[arg(long)]
    from_desk: bool,
    /// macluster for the nodes' platform, for nodes where nothing is deployed [default: this program]
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Debug, clap::Args)]
struct CheckOpts {
    /// Folder on the nodes [default: runtime.model of the inventory]
    #[arg(value_name = "PATH", value_parser = absolute)]
    model: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

pub(super) fn absolute(text: &str) -> Result<String, String> {
    let plain = text.split('/').skip(1).all(|p| !p.is_empty() && p != "." && p != "..");
    let good = text.starts_with('/') && text.len() > 1 && plain && !text.chars().any(char::is_control);
    // Deep enough that it cannot be a folder of the system itself.
    if good && text.matches('/').count() >= 2 {
        Ok(text.to_owned())
    } else {
        Err("an absolute path without `.` and `..`, at least two folders deep, e.g. /opt/macluster/models/NAME"
            .to_owned())
    }
}

fn revision(text: &str) -> Result<String, String> {
    let good = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    if good && !text.contains("..") { Ok(text.to_owned()) } else { Err("a branch, a tag or a commit".to_owned()) }
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    match opts.step {
        Step::Push(opts) => push(opts, app).await,
        Step::Check(opts) => check(opts, app).await,
    }
}

async fn push(opts: PushOpts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let (source, name) = source(&opts, app).await?;
    let list = hashed(app, &source).await?;
    let to =
        opts.to.clone().unwrap_or_else(|| format!("{}/models/{name}", inventory.paths.install.trim_end_matches('/')));
    let own = match &opts.agent {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot find this program's own file: {e}")))?,
    };
    let fleet = app.lasting_fleet(&inventory, Access::Write).await?;
    let push = Push { source: &source, list: &list, to: &to, own, events: Arc::clone(&app.events) };
    let outcome = push_to(&opts, app, &inventory, &fleet, &push).await;
    fleet.close().await;
    outcome
}

async fn push_to(opts: &PushOpts, app: &App, inventory: &Inventory, fleet: &Fleet, push: &Push<'_>) -> Outcome {
    need_all(inventory, fleet)?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let rack = Ops::new(inventory, fleet, &book, &app.events);
    let phase = |title: String| app.events.emit(Event::PhaseStarted { id: "model", title });
    phase("Look what every node has".to_owned());
    let found = rack.each("comparing", |n| async move { push.prepare(n).await.map_err(|why| why.to_string()) }).await;
    let ready = good(found, inventory)?;
    let ready: BTreeMap<_, _> = rack.nodes.iter().map(|n| n.name.clone()).zip(ready).collect();
    // One node's share has to leave this desk in any case; the links are worth a look when others want it too.
    let lacking = ready.values().filter(|r| r.bytes > 0).count();
    let reach = if opts.from_desk || lacking == 0 || ready.len() < 2 {
        Reach::new()
    } else {
        phase("Look for links between the nodes".to_owned());
        reach(&collect_facts(inventory, fleet, &app.events).await)
    };
    let results = push.bring(&rack, &ready, &reach).await;
    app.printer.out(&match opts.output {
        Format::Human => view::pushed(&results, push.to, push.list, inventory),
        Format::Json => view::pushed_json(&results, push.to, push.list).to_string(),
    });
    good(results, inventory)?;
    if inventory.runtime.model.as_deref() != Some(push.to) {
        app.printer.err(&format!(
            "hint: `runtime: {{ model: {} }}` in macluster.yaml makes it the model that deploy serves",
            push.to
        ));
    }
    Ok(Exit::Ok)
}

/// The results, if all are good.
fn good<T>(results: Results<T>, inventory: &Inventory) -> Result<Vec<T>, Failure> {
    super::service::good(results, inventory).map_err(|e| {
        Failure::new(Exit::DeployFailed, e.message)
            .hint("run it again when that is mended: what has arrived is not sent again")
    })
}

/// The folder at the desk, downloaded if need be, and its name.
async fn source(opts: &PushOpts, app: &App) -> Result<(PathBuf, String), Failure> {
    let path = Path::new(&opts.source);
    let folder = if path.is_dir() {
        path.to_owned()
    } else if hub::is_id(&opts.source) {
        app.events.emit(Event::PhaseStarted { id: "model", title: format!("Get {} from the Hub", opts.source) });
        Hub::new(&opts.source, &app.events).fetch(&opts.revision, &cache_dir()?).await?
    } else {
        return Err(Failure::new(Exit::NotFound, format!("there is no folder {}", path.display()))
            .hint("SRC is a model folder, or OWNER/NAME on the Hugging Face Hub"));
    };
    let no_model = |why: String| {
        Failure::new(Exit::Inventory, why).hint("a model in mlx-lm's format has model*.safetensors and a config.json")
    };
    crate::agent::model::look(&folder).map_err(no_model)?;
    let name = match opts.source.rsplit_once('/') {
        Some((_, name)) if !path.is_dir() => Some(name.to_owned()),
        _ => folder.canonicalize().ok().and_then(|p| Some(p.file_name()?.to_str()?.to_owned())),
    };
    let usable = |n: &String| n.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) && !n.starts_with('.');
    match name.filter(usable) {
        Some(name) => Ok((folder, name)),
        None if opts.to.is_some() => Ok((folder, String::new())),
        None => {
            Err(Failure::new(Exit::Usage, "the folder's name is none for the nodes")
                .hint("--to names the folder there"))
        }
    }
}

/// Hashes the folder, with a bar.
async fn hashed(app: &App, folder: &Path) -> Result<ModelList, Failure> {
    let bad = |why: String| Failure::new(Exit::Inventory, why);
    let total = store::walk(folder).map_err(bad)?.iter().map(|(_, size)| size).sum();
    let what = "hashing the model".to_owned();
    app.events.emit(Event::TaskStarted { node: None, what: what.clone() });
    let (events, folder, bar) = (Arc::clone(&app.events), folder.to_owned(), what.clone());
    let work = move || {
        ModelList::of(&folder, &mut |done| events.emit(Event::Progress { node: None, what: bar.clone(), done, total }))
    };
    let list = tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(e.to_string()));
    app.events.emit(Event::TaskDone { node: None, what, error: list.as_ref().err().cloned() });
    list.map_err(bad)
}

async fn check(opts: CheckOpts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let Some(model) = opts.model.clone().or_else(|| inventory.runtime.model.clone()) else {
        return Err(
            Failure::new(Exit::Usage, "which model?").hint("name its folder, or set runtime.model in macluster.yaml")
        );
    };
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let fleet = app.fleet(&inventory, Access::Read).await?;
    let rack = Ops::new(&inventory, &fleet, &book, &app.events);
    let model = &model;
    let results = rack.each("hashing the model", |n| async move { check::look(n, model).await }).await;
    let unreached: Vec<_> = fleet.unreached().map(|(n, e)| (n.clone(), e.message.clone())).collect();
    fleet.close().await;
    let mut problems = unreached;
    let mut seen = Vec::new();
    for (node, result) in results {
        match result {
            Ok(one) => seen.push((node, one)),
            Err(why) => problems.push((node, why)),
        }
    }
    let verdicts = check::judge(&seen);
    app.printer.out(&match opts.output {
        Format::Human => view::checked(&seen, &verdicts, &problems, &inventory),
        Format::Json => view::checked_json(&seen, &verdicts, &problems, model).to_string(),
    });
    Ok(if fleet.exit() == Exit::NoNodeReachable {
        Exit::NoNodeReachable
    } else if !problems.is_empty() {
        Exit::SomeNodesFailed
    } else if verdicts.iter().any(|(_, v)| *v != Verdict::Whole) {
        Exit::ChecksFailed
    } else {
        Exit::Ok
    })
}
