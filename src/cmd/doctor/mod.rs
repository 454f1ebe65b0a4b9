//! `macluster doctor`.

mod watch;

use std::time::{Duration, Instant};

use crate::app::App;
use crate::check::{self, Check, Context, Report};
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::remote::glob;
use crate::view;

/// What doctor prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Human,
    /// One line for each finding that is not right
    Short,
    /// For programs; carries `schema_version`
    Json,
    /// `JUnit` XML for CI servers
    Junit,
    /// For a ticket
    Markdown,
}

/// Options of `macluster doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 nothing failed (warnings included); 4 a check failed; 6 some nodes do not answer; 7 none does;\n\
                        10 an unknown check or node"
)]
pub struct Opts {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Output,
    /// Only these checks or categories (see --list-checks)
    #[arg(long = "check", value_name = "ID|CATEGORY", value_delimiter = ',')]
    checks: Vec<String>,
    /// Only what concerns these nodes; * and ? stand for any letters
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    on: Vec<String>,
    /// Failures of these checks only warn
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    warn_only: Vec<String>,
    /// Look again until nothing fails, for at most this long (90s, 10m)
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
    /// Look again every 2 s and draw what is wrong and what has changed, until q or Ctrl-C
    #[arg(long, conflicts_with = "wait")]
    watch: bool,
    /// List the checks and end
    #[arg(long, conflicts_with_all = ["wait", "watch"])]
    list_checks: bool,
}

impl Opts {
    /// It ends by a signal as by a key: the caller leaves signals to it.
    pub fn owns_signals(&self) -> bool {
        self.watch
    }
}

/// `90s`, `10m`, `1h 30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<jiff::SignedDuration, _> = text.parse();
    let duration = parsed.map_err(|_| "a duration is a number and a unit, as in 90s, 10m or 1h".to_owned())?;
    let duration = Duration::try_from(duration).map_err(|_| "a duration is not negative".to_owned())?;
    if duration > LONGEST { Err("at most 24h".to_owned()) } else { Ok(duration) }
}

/// Nobody waits longer for a rack.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Between two looks of `--wait`.
const PAUSE: Duration = Duration::from_secs(5);

/// What is looked at.
struct Looking<'a> {
    checks: Vec<&'static dyn Check>,
    on: &'a [String],
    warn_only: &'a [String],
    script: String,
}

impl Looking<'_> {
    /// What doctor says of these facts, and the exit code that it leads to.
    fn judge(&self, inventory: &Inventory, snapshot: &Snapshot) -> Result<(Report, Exit), Failure> {
        let nodes = named(self.on, inventory)?;
        let graph = LinkGraph::build(snapshot);
        let context = Context { snapshot, graph: &graph, inventory, links_script: &self.script };
        let mut report = check::run_these(&context, &self.checks);
        if !self.on.is_empty() {
            report.keep_nodes(&nodes);
        }
        report.soften(self.warn_only);
        let exit = exit(&report, snapshot, &nodes);
        Ok((report, exit))
    }
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let checks = chosen(&opts.checks)?;
    if opts.list_checks {
        app.printer.out(&match opts.output {
            Output::Json => view::doctor::list_json(&checks),
            _ => view::doctor::list(&checks, app.printer),
        });
        return Ok(Exit::Ok);
    }
    for id in &opts.warn_only {
        if !check::registry().iter().any(|c| c.id() == id) {
            let ids = check::registry().iter().map(|c| c.id());
            return Err(nothing_named("check", id, ids).hint("`macluster doctor --list-checks` lists them"));
        }
    }
    let script = app.templates()?.scripts()?.links.sha256;
    let looking = Looking { checks, on: &opts.on, warn_only: &opts.warn_only, script };
    if app.global.from.is_some() && (opts.watch || opts.wait.is_some()) {
        return Err(Failure::new(
            Exit::Usage,
            "a recording does not change: --watch and --wait need the nodes themselves",
        ));
    }
    if opts.watch {
        if !matches!(opts.output, Output::Human | Output::Short) {
            return Err(Failure::new(Exit::Usage, "--watch draws for people: it has no other output format"));
        }
        return watch::run(&looking, app).await;
    }
    let (inventory, report, exit) = settled(&opts, &looking, app).await?;
    app.printer.out(&match opts.output {
        Output::Human => view::doctor::human(&report, &inventory, app.printer, app.global.verbose),
        Output::Short => view::doctor::short(&report, app.global.verbose),
        Output::Json => view::doctor::json(&report),
        Output::Junit => view::doctor::junit(&report),
        Output::Markdown => view::doctor::markdown(&report),
    });
    Ok(exit)
}

/// The state of the rack, or with `--wait` the first one in which nothing fails, or the last one before time is over.
async fn settled(opts: &Opts, looking: &Looking<'_>, app: &App) -> Result<(Inventory, Report, Exit), Failure> {
    let begun = Instant::now();
    let limit = opts.wait.unwrap_or_default();
    loop {
        let (inventory, snapshot) = app.facts().await?;
        let (report, exit) = looking.judge(&inventory, &snapshot)?;
        let left = limit.saturating_sub(begun.elapsed());
        if exit == Exit::Ok || left.is_zero() {
            if opts.wait.is_some() && exit != Exit::Ok {
                app.printer.err(&format!("waited {} s in vain", begun.elapsed().as_secs()));
            }
            return Ok((inventory, report, exit));
        }
        let silent = inventory.nodes.iter().filter(|n| snapshot.facts(&n.name).is_none()).count();
        let answer = if silent == 1 { "node does" } else { "nodes do" };
        let mut failed: Vec<&str> =
            report.findings.iter().filter(|f| check::counts_as_failed(f.verdict)).map(|f| f.check.as_str()).collect();
        let count = failed.len();
        failed.dedup();
        let names = if failed.is_empty() { String::new() } else { format!(" ({})", failed.join(", ")) };
        app.printer.err(&format!(
            "{count} failed{names}, {silent} {answer} not answer: looking again for up to {} s",
            left.as_secs()
        ));
        tokio::time::sleep(PAUSE.min(left)).await;
    }
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

/// The nodes whose names fit one of these patterns; all of them when there is none.
fn named(wanted: &[String], inventory: &Inventory) -> Result<Vec<NodeName>, Failure> {
    for word in wanted {
        if !inventory.nodes.iter().any(|n| glob(word, n.name.as_str())) {
            return Err(nothing_named("node", word, inventory.nodes.iter().map(|n| n.name.as_str())));
        }
    }
    let names = inventory.nodes.iter().map(|n| n.name.clone());
    Ok(names.filter(|n| wanted.is_empty() || wanted.iter().any(|w| glob(w, n.as_str()))).collect())
}

fn nothing_named<'a>(kind: &str, word: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let near = known
        .map(|k| (strsim::jaro_winkler(k, word), k))
        .filter(|(score, _)| *score > 0.75)
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let failure = Failure::new(Exit::NotFound, format!("there is no {kind} named `{}`", word.escape_debug()));
    match near {
        Some((_, near)) => failure.hint(format!("did you mean `{near}`?")),
        None => failure,
    }
}
