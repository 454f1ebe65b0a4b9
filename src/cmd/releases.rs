//! `macluster releases`: what is installed where, and what may go.

use std::sync::Arc;

use clap::Subcommand;

use crate::app::App;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::model::Access;
use crate::phase::ops::{self, Ops};
use crate::phase::runtime::PLAYBOOK;
use crate::view::ops as view;

/// Options of `macluster releases`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    #[command(subcommand)]
    step: Option<Step>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Step {
    /// List them (the default)
    List,
    /// Remove old ones; the active one and the one before it always stay
    Prune {
        /// So many stay
        #[arg(long, value_name = "N", default_value_t = ops::KEEP, value_parser = keep)]
        keep: usize,
    },
}

fn keep(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n >= 1).ok_or_else(|| "at least 1 stays: the active one".to_owned())
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let inventory = app.inventory()?;
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let prune = match opts.step {
        Some(Step::Prune { keep }) => Some(keep),
        Some(Step::List) | None => None,
    };
    let access = if prune.is_some() { Access::Write } else { Access::Read };
    let fleet = app.fleet(&inventory, access).await?;
    let rack = Ops::new(&inventory, &fleet, &book, &app.events);
    let (text, failed) = if let Some(keep) = prune {
        let removed = rack.each("removing old releases", |n| async move { ops::prune(n, keep).await }).await;
        let text = match opts.output {
            Format::Human => view::pruned(&removed, &inventory),
            Format::Json => view::pruned_json(&removed),
        };
        (text, removed.iter().any(|(_, r)| r.is_err()))
    } else {
        let found = rack.releases().await;
        let text = match opts.output {
            Format::Human => view::releases(&found, &inventory),
            Format::Json => view::releases_json(&found),
        };
        (text, found.iter().any(|(_, r)| r.is_err()))
    };
    app.printer.out(&text);
    let exit = fleet.exit();
    drop(rack);
    fleet.close().await;
    Ok(Exit::worst([exit, if failed { Exit::SomeNodesFailed } else { Exit::Ok }]))
}
