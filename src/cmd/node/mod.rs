//! `macluster node`: one node of the rack.
//!
//! `replace` is for people. The others are the steps of deploy that run on a node, from the binary that was pushed
//! there; their answers are JSON for the macluster at the desk.

mod files;
mod replace;
mod seed;

use std::io::Read;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use crate::agent::ledger::Ledger;
use crate::agent::{Layout, activate, gather, hold, inspect, model, python, releases, report};
use crate::app::App;
use crate::event::Event;
use crate::exit::{Exit, Failure, Outcome};
use crate::phase::bundle::inspect::own_version;
use crate::phase::bundle::manifest::{MAX_MANIFEST, RELEASE_EXTRAS};
use crate::phase::bundle::{Manifest, Platform};

/// Options of `macluster node`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    step: Step,
}

#[derive(Clone, Debug, Subcommand)]
enum Step {
    /// Let another Mac take a node's place: same name, slot and addresses, other machine
    Replace(replace::Opts),
    /// Prove the platform by running here
    #[command(hide = true)]
    Platform,
    /// Prove that a folder is exactly its manifest
    #[command(hide = true)]
    Verify {
        /// Bundle or release
        dir: PathBuf,
    },
    /// Take the files of a bundle that are here already; its manifest is read from standard input
    #[command(hide = true)]
    Gather(Place),
    /// Make a release the active one
    #[command(hide = true)]
    Activate {
        #[command(flatten)]
        place: Place,
        /// The release; without it nothing is active afterwards
        #[arg(long)]
        id: Option<String>,
    },
    /// Ask a Python its version
    #[command(hide = true)]
    Python {
        /// Put in front of the path first
        #[arg(long, default_value = "/")]
        root: String,
        /// Absolute path
        path: String,
    },
    /// Look at a model folder
    #[command(hide = true)]
    Model {
        /// Absolute path
        dir: PathBuf,
    },
    /// Compare, take in or hash the files of a model
    #[command(hide = true)]
    Files {
        #[command(subcommand)]
        step: files::Step,
    },
    /// Give a model's files to other nodes, or take them
    #[command(hide = true)]
    Seed {
        #[command(subcommand)]
        step: seed::Step,
    },
    /// Report what the agent says, and whether it lives
    #[command(hide = true)]
    Status(Place),
    /// Look at everything of the runtime here
    #[command(hide = true)]
    Inspect(Place),
    /// List the releases here
    #[command(hide = true)]
    Releases(Place),
    /// Hold the lock of operations while somebody listens
    #[command(hide = true)]
    Hold {
        #[command(flatten)]
        place: Place,
        /// Shown to whoever comes second
        #[arg(long)]
        who: String,
    },
    /// Count a measuring process that had to be killed
    #[command(hide = true)]
    CountKilled(Place),
    /// Forget the starts that failed
    #[command(hide = true)]
    Forgive(Place),
    /// Put the next configuration in place, keep the one before
    #[command(hide = true)]
    Switch(Place),
    /// Take that back
    #[command(hide = true)]
    Restore(Place),
    /// Exchange the configuration with the one before it
    #[command(hide = true)]
    Swap(Place),
}

#[derive(Clone, Debug, clap::Args)]
struct Place {
    /// Put in front of every path
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: String,
    /// Where releases live
    #[arg(long, value_name = "DIR", default_value = "/opt/macluster")]
    install: String,
}

impl Place {
    fn layout(&self) -> Layout {
        Layout::new(&self.root, &self.install)
    }
}

#[derive(Serialize)]
struct PlatformAnswer {
    schema_version: u32,
    platform: Option<Platform>,
    os: &'static str,
    arch: &'static str,
    version: &'static str,
    /// Of this process: whose session it is.
    uid: u32,
    gid: u32,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let failed = |why: String| Failure::new(Exit::Unexpected, why);
    let answer = match opts.step {
        Step::Replace(opts) => return Box::pin(replace::run(&opts, app)).await,
        Step::Platform => json(&PlatformAnswer {
            schema_version: 1,
            platform: Platform::host(),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            version: own_version(),
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
        }),
        Step::Verify { dir } => {
            let manifest = Manifest::read(&dir).map_err(failed)?;
            let total = manifest.total_bytes();
            let what = "verifying".to_owned();
            let mut progress = |done| {
                app.events.emit(Event::Progress { node: None, what: what.clone(), done, total });
            };
            manifest.verify(&dir, RELEASE_EXTRAS, &mut progress).map_err(failed)?;
            json(&serde_json::json!({"schema_version": 1, "id": manifest.id, "files": manifest.files.len()}))
        }
        Step::Gather(place) => {
            let manifest = std::io::read_to_string(std::io::stdin().take(MAX_MANIFEST + 1))
                .map_err(|e| failed(format!("cannot read the manifest: {e}")))?;
            json(&gather::gather(&place.layout(), &manifest).map_err(failed)?)
        }
        Step::Activate { place, id } => {
            activate::activate(&place.layout(), id.as_deref()).map_err(failed)?;
            json(&serde_json::json!({"schema_version": 1, "active": id}))
        }
        Step::Python { root, path } => json(&python::find(&root, &path).map_err(failed)?),
        Step::Model { dir } => json(&model::look(&dir).map_err(failed)?),
        Step::Inspect(place) => json(&inspect::inspect(&place.layout()).map_err(failed)?),
        Step::Files { step } => files::run(&step).map_err(failed)?,
        Step::Seed { step } => {
            seed::run(&step).await.map_err(failed)?;
            return Ok(Exit::Ok);
        }
        Step::Releases(place) => json(&releases::look(&place.layout()).map_err(failed)?),
        Step::Hold { place, who } => {
            hold::hold(&place.layout(), &who).map_err(failed)?;
            return Ok(Exit::Ok);
        }
        Step::CountKilled(place) => {
            let mut ledger = Ledger::open(place.layout().ledger_file());
            ledger.debit();
            json(&serde_json::json!({"schema_version": 1, "debits": ledger.debits()}))
        }
        Step::Forgive(place) => {
            let mut ledger = Ledger::open(place.layout().ledger_file());
            ledger.keep(0, ledger.epoch());
            json(&serde_json::json!({"schema_version": 1, "debits": ledger.debits()}))
        }
        Step::Switch(place) => {
            releases::switch(&place.layout()).map_err(failed)?;
            json(&serde_json::json!({"schema_version": 1}))
        }
        Step::Restore(place) => {
            releases::restore(&place.layout()).map_err(failed)?;
            json(&serde_json::json!({"schema_version": 1}))
        }
        Step::Swap(place) => {
            releases::swap(&place.layout()).map_err(failed)?;
            json(&serde_json::json!({"schema_version": 1}))
        }
        Step::Status(place) => json(&report::report(&place.layout()).map_err(failed)?),
    };
    app.printer.out(&answer);
    Ok(Exit::Ok)
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
