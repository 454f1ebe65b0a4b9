//! `macluster explain TEXT`: what an error means, and which of its causes holds on this rack.

use std::io::Read;

use crate::app::App;
use crate::check::explain::{Explained, entries, explain, named, read};
use crate::check::{self, Context, Report};
use crate::cli::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{NodeName, Snapshot};
use crate::view::explain as view;

/// Bytes of a log that are read from standard input.
const MAX_LOG: u64 = 64 * 1024 * 1024;

/// Options of `macluster explain`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Reads the rack's state (changes nothing) when there is a macluster.yaml or --from; else lists the causes.\n\
                        Exit status: 0 explained, whatever was found; 10 the text is not known"
)]
pub struct Opts {
    /// A line from a log, the id of a known text (see --list), or - to read a whole log from standard input
    #[arg(value_name = "TEXT", required_unless_present = "list")]
    text: Option<String>,
    /// The node whose log it was: what concerns it is told first
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
    /// List the causes without asking the rack
    #[arg(long)]
    offline: bool,
    /// List the known texts and end
    #[arg(long, conflicts_with_all = ["text", "node", "offline"])]
    list: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    if opts.list {
        app.printer.out(&match opts.output {
            Format::Human => view::list(entries(), app.printer),
            Format::Json => view::list_json(entries()),
        });
        return Ok(Exit::Ok);
    }
    let text = match opts.text.as_deref() {
        Some("-") => {
            tokio::task::spawn_blocking(log).await.map_err(|e| Failure::new(Exit::Unexpected, e.to_string()))??
        }
        text => text.unwrap_or_default().to_owned(),
    };
    let found = named(&text).map_or_else(|| read(&text), |one| vec![one]);
    if found.is_empty() {
        return Err(Failure::new(Exit::NotFound, "no error that macluster knows is in this text")
            .hint("`macluster explain --list` shows the known ones; `macluster doctor` looks at the rack itself"));
    }
    let rack = if asks(&opts, app) { Some(state(app).await?) } else { None };
    if let (Some(node), Some((_, snapshot))) = (&opts.node, &rack)
        && !snapshot.nodes.contains_key(node)
    {
        let known: Vec<String> = snapshot.nodes.keys().map(ToString::to_string).collect();
        return Err(Failure::new(Exit::NotFound, format!("the inventory has no node {node}"))
            .hint(format!("it has {}", known.join(", "))));
    }
    let seen = rack.as_ref().map(|(report, snapshot)| (report, snapshot));
    let all: Vec<Explained> = found.iter().map(|f| explain(f, seen, opts.node.as_ref())).collect();
    app.printer.out(&match opts.output {
        Format::Human => view::human(&all, rack.is_some(), app.printer),
        Format::Json => view::json(&all, rack.is_some()),
    });
    Ok(Exit::Ok)
}

/// There is a rack to ask, and it is wanted.
fn asks(opts: &Opts, app: &App) -> bool {
    let named = app.global.from.is_some() || app.global.file.is_some();
    !opts.offline && (named || crate::parse::inventory::is_near())
}

/// The rack's state, as doctor sees it.
async fn state(app: &App) -> Result<(Report, Snapshot), Failure> {
    let (inventory, snapshot) = app.facts().await?;
    let graph = LinkGraph::build(&snapshot);
    let script = app.templates()?.scripts()?.links.sha256;
    let context = Context { snapshot: &snapshot, graph: &graph, inventory: &inventory, links_script: &script };
    let report = check::run(&context);
    Ok((report, snapshot))
}

/// What comes on standard input.
fn log() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(MAX_LOG + 1);
    let read = input.read_to_end(&mut bytes).map_err(|e| Failure::new(Exit::Usage, format!("standard input: {e}")))?;
    if read as u64 > MAX_LOG {
        return Err(Failure::new(Exit::Usage, "the log is longer than 64 MiB")
            .hint("give its end: tail -c 60000000 LOG | macluster explain -"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
