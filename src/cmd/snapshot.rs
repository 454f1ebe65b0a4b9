//! `macluster snapshot`.

use std::path::PathBuf;

use crate::app::App;
use crate::collect;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::Snapshot;

/// Options of `macluster snapshot`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Where to write it (JSON; readable by its owner only: it holds serial numbers and addresses)
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Overwrite the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Put names, serial numbers, addresses and everything else that names somebody under pseudonyms, for a public report
    #[arg(long)]
    pub redact: bool,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    if opts.path.exists() && !opts.force {
        return Err(Failure::new(Exit::Usage, format!("{} exists already", opts.path.display()))
            .hint("overwrite it with --force"));
    }
    let (inventory, snapshot) = app.recording().await?;
    let failures: Vec<Failure> =
        collect::failures(&snapshot).map(|(name, failure)| failed(name.as_str(), failure)).collect();
    let snapshot = if opts.redact { collect::redact(&inventory, &snapshot)? } else { snapshot };
    collect::save(&snapshot, &opts.path, opts.force)?;
    let read = snapshot.answered().count();
    app.printer.err(&format!("wrote {} ({read} of {} nodes)", opts.path.display(), snapshot.nodes.len()));
    for failure in &failures {
        app.printer.failure(failure);
    }
    if opts.redact {
        let look =
            "look through it before you publish it: a pseudonym stands for whatever looked like a name, and no more";
        app.printer.err(&format!("note: {look}"));
    }
    Ok(exit(&snapshot))
}

fn failed(node: &str, failure: &crate::model::CollectFailure) -> Failure {
    let said = Failure::new(Exit::SomeNodesFailed, format!("{node}: {}", failure.message));
    match &failure.hint {
        Some(hint) => said.hint(hint.clone()),
        None => said,
    }
}

fn exit(snapshot: &Snapshot) -> Exit {
    match snapshot.answered().count() {
        0 if !snapshot.nodes.is_empty() => Exit::NoNodeReachable,
        n if n < snapshot.nodes.len() => Exit::SomeNodesFailed,
        _ => Exit::Ok,
    }
}
