//! `macluster doctor`.

use crate::app::App;
use crate::check::{self, Check, Context, Report};
use crate::cli::Format;
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::view;

/// Options of `macluster doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
    /// Only these checks or categories (see --list-checks)
    #[arg(long = "check", value_name = "ID|CATEGORY", value_delimiter = ',')]
    pub checks: Vec<String>,
    /// Only what concerns these nodes
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    pub on: Vec<String>,
    /// List the checks and end
    #[arg(long)]
    pub list_checks: bool,
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let checks = chosen(&opts.checks)?;
    if opts.list_checks {
        app.printer.out(&match opts.output {
            Format::Human => view::doctor::list(&checks, app.printer),
            Format::Json => view::doctor::list_json(&checks),
        });
        return Ok(Exit::Ok);
    }
    let (inventory, snapshot) = app.facts().await?;
    let nodes = named(&opts.on, &inventory)?;
    let graph = LinkGraph::build(&snapshot);
    let script = app.templates()?.scripts()?.links.sha256;
    let context = Context { snapshot: &snapshot, graph: &graph, inventory: &inventory, links_script: &script };
    let mut report = check::run_these(&context, &checks);
    if !opts.on.is_empty() {
        report.keep_nodes(&nodes);
    }
    app.printer.out(&match opts.output {
        Format::Human => view::doctor::human(&report, &inventory, app.printer, app.global.verbose),
        Format::Json => view::doctor::json(&report),
    });
    Ok(exit(&report, &snapshot, &nodes))
}

/// Failed checks, and nodes that gave no facts.
fn exit(report: &Report, snapshot: &Snapshot, nodes: &[NodeName]) -> Exit {
    let failed = report.findings.iter().any(|f| check::counts_as_failed(f.verdict));
    let silent = nodes.iter().filter(|n| snapshot.facts(n).is_none()).count();
    let reached = match silent {
        0 => Exit::Ok,
        all if all == nodes.len() => Exit::NoNodeReachable,
        _ => Exit::SomeNodesFailed,
    };
    Exit::worst([reached, if failed { Exit::ChecksFailed } else { Exit::Ok }])
}

/// The checks of these ids and categories; all of them when none is named.
fn chosen(wanted: &[String]) -> Result<Vec<&'static dyn Check>, Failure> {
    let all = check::registry();
    let fits = |check: &dyn Check, word: &str| check.id() == word || check.category().as_str() == word;
    for word in wanted {
        if !all.iter().any(|c| fits(*c, word)) {
            let ids = all.iter().flat_map(|c| [c.id(), c.category().as_str()]);
            return Err(nothing_named("check", word, ids).hint("`macluster doctor --list-checks` lists them"));
        }
    }
    Ok(all.iter().copied().filter(|c| wanted.is_empty() || wanted.iter().any(|w| fits(*c, w))).collect())
}

/// The nodes of these names; all of them when none is named.
fn named(wanted: &[String], inventory: &Inventory) -> Result<Vec<NodeName>, Failure> {
    for word in wanted {
        if !inventory.nodes.iter().any(|n| n.name.as_str() == word) {
            return Err(nothing_named("node", word, inventory.nodes.iter().map(|n| n.name.as_str())));
        }
    }
    let names = inventory.nodes.iter().map(|n| n.name.clone());
    Ok(names.filter(|n| wanted.is_empty() || wanted.iter().any(|w| w == n.as_str())).collect())
}

fn nothing_named<'a>(kind: &str, word: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let near = known
        .map(|k| (strsim::jaro_winkler(k, word), k))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let failure = Failure::new(Exit::NotFound, format!("there is no {kind} named `{}`", word.escape_debug()));
    match near {
        Some((_, near)) => failure.hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}
