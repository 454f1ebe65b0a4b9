//! `macluster logs`: the engines' logs, of one node or of all, merged by time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::check::explain::read;
use crate::exit::{Exit, Failure, Outcome};
use crate::model::command::printable;
use crate::model::{Access, Inventory, NodeName};
use crate::phase::logs::{Line, Lines, Merge, read_log};
use crate::phase::runtime::{PLAYBOOK, RuntimeNode};
use crate::remote::Fleet;
use crate::view::explain::hint;
use crate::view::logs as view;

/// A line that is followed waits this long for older ones of other nodes.
const WAIT: Duration = Duration::from_millis(500);

/// Options of `macluster logs`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every log was shown; 6 some were not; 7 no node answers; 10 there is no such node, or \
                        nothing was deployed"
)]
pub struct Opts {
    /// Name of the node in the inventory [default: all nodes]
    #[arg(value_name = "NODE")]
    node: Option<NodeName>,
    /// All nodes, merged by their own clocks
    #[arg(long, conflicts_with = "node")]
    all: bool,
    /// Last lines to show of each node [default: 100, or all with --since]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    lines: Option<u32>,
    /// Only what was written since then: `90s`, `10m`, `2h`, `3d` ago, or a time as RFC 3339 writes it
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Go on with what is added, until Ctrl-C
    #[arg(short = 'F', long)]
    follow: bool,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// So long before now.
    Ago(SignedDuration),
    /// Then.
    At(Timestamp),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(at) = text.parse() {
        return Ok(Since::At(at));
    }
    let unit = |c| match c {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        _ => None,
    };
    let seconds = text.char_indices().next_back().and_then(|(at, c)| {
        let number: i64 = text.get(..at)?.parse().ok().filter(|n| *n >= 0)?;
        number.checked_mul(unit(c)?)
    });
    let ago = seconds.map(SignedDuration::from_secs).filter(|ago| Timestamp::now().checked_sub(*ago).is_ok());
    ago.map(Since::Ago).ok_or_else(|| "say `90s`, `10m`, `2h`, `3d`, or a time like 2026-12-01T08:00:00Z".to_owned())
}

impl Since {
    fn at(self) -> Timestamp {
        match self {
            Since::At(at) => at,
            Since::Ago(ago) => Timestamp::now().checked_sub(ago).unwrap_or(Timestamp::MIN),
        }
    }
}

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let mut inventory = app.inventory()?;
    if let Some(node) = &opts.node {
        if inventory.node(node).is_none() {
            let known: Vec<&str> = inventory.nodes.iter().map(|n| n.name.as_str()).collect();
            return Err(Failure::new(Exit::NotFound, format!("the inventory has no node {node}"))
                .hint(format!("it has {}", known.join(", "))));
        }
        inventory = inventory.narrowed(|name| name == node);
    }
    let book = Arc::new(app.playbooks()?.book(PLAYBOOK)?.clone());
    let fleet = app.fleet(&inventory, Access::Read).await?;
    let nodes: Vec<RuntimeNode> = inventory
        .nodes
        .iter()
        .filter_map(|n| fleet.remote(&n.name))
        .map(|remote| RuntimeNode::new(&inventory, &book, remote, &app.events))
        .collect();
    let outcome = show(&opts, app, &inventory, &fleet, &nodes).await;
    fleet.close().await;
    outcome
}

async fn show(opts: &Opts, app: &App, inventory: &Inventory, fleet: &Fleet, nodes: &[RuntimeNode]) -> Outcome {
    let mut bad: Vec<(NodeName, String)> = fleet.unreached().map(|(n, e)| (n.clone(), e.message.clone())).collect();
    let hints: Vec<String> = fleet.unreached().filter_map(|(_, e)| e.hint.clone()).collect();
    if nodes.is_empty() {
        let lines: Vec<String> = bad.iter().map(|(n, why)| format!("{}: {why}", inventory.label(n))).collect();
        let failure = Failure::new(Exit::NoNodeReachable, lines.join("\n"));
        return Err(hints.into_iter().fold(failure, Failure::hint));
    }
    // Those that are missing are told before what is long, too.
    for (node, why) in &bad {
        app.printer.err(&format!("{}: {why}", inventory.label(node)));
    }
    let from = opts.since.map(Since::at);
    let count = opts.lines.or(from.is_none().then_some(100));
    let mut out = Out::new(app, inventory);
    let mut none = 0;
    if opts.follow {
        let results = follow(nodes, from, count, &mut out).await;
        bad.extend(results);
    } else {
        let work = nodes.iter().map(|n| async { (n.name.clone(), read_log(n, from, count).await) });
        let mut merge = Merge::default();
        for (node, result) in futures::future::join_all(work).await {
            match result {
                Ok(Some(lines)) => merge.add(&node, lines),
                Ok(None) => none += 1,
                Err(why) => bad.push((node, why)),
            }
        }
        out.lines(&merge.all());
    }
    if none == nodes.len() && bad.is_empty() {
        let labels: Vec<String> = nodes.iter().map(|n| inventory.label(&n.name)).collect();
        return Err(Failure::new(Exit::NotFound, format!("{}: there is no log to show", labels.join(", ")))
            .hint("nothing was deployed there yet, or the log is gone"));
    }
    if bad.is_empty() {
        return Ok(Exit::Ok);
    }
    let lines: Vec<String> = bad.iter().map(|(n, why)| format!("{}: {why}", inventory.label(n))).collect();
    let failure = Failure::new(Exit::SomeNodesFailed, format!("not every log was shown\n{}", lines.join("\n")));
    Err(hints.into_iter().fold(failure, Failure::hint))
}

/// Prints what comes, in order, until every node's end; gives those that ended with an error.
async fn follow(
    nodes: &[RuntimeNode],
    from: Option<Timestamp>,
    count: Option<u32>,
    out: &mut Out<'_>,
) -> Vec<(NodeName, String)> {
    let merge = Arc::new(Mutex::new(Merge::default()));
    let work = nodes.iter().map(|node| {
        let (into, name) = (Arc::clone(&merge), node.name.clone());
        let mut lines = Lines::new(from);
        let take = move |chunk: &[u8]| {
            into.lock().unwrap_or_else(PoisonError::into_inner).add(&name, lines.take(chunk));
        };
        async move {
            // Without a number: what is there is read from its beginning, as `tail` counts.
            let count = count.map_or_else(|| "+1".to_owned(), |n| n.to_string());
            let call = node.step("follow-log").with("lines", count).on_output(Box::new(take));
            let why = match call.answer().await {
                Ok(output) => format!("its log is not followed any more: {}", output.describe()),
                Err(e) => e.to_string(),
            };
            (node.name.clone(), why)
        }
    });
    let print = async {
        loop {
            tokio::time::sleep(WAIT / 2).await;
            let ripe = merge.lock().unwrap_or_else(PoisonError::into_inner).older_than(WAIT);
            out.lines(&ripe);
        }
    };
    let ended = tokio::select! {
        ended = futures::future::join_all(work) => ended,
        () = print => Vec::new(),
    };
    let rest = std::mem::take(&mut *merge.lock().unwrap_or_else(PoisonError::into_inner));
    out.lines(&rest.all());
    ended
}

/// The terminal: lines with their node, and what is known of the errors in them.
struct Out<'a> {
    app: &'a App,
    inventory: &'a Inventory,
    explained: BTreeSet<&'static str>,
}

impl<'a> Out<'a> {
    fn new(app: &'a App, inventory: &'a Inventory) -> Self {
        Out { app, inventory, explained: BTreeSet::new() }
    }

    fn lines(&mut self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        self.app.printer.out(&view::lines(lines, self.inventory));
        for line in lines {
            for found in read(&line.text) {
                // The same error comes a hundred times.
                if self.explained.insert(found.entry.id) {
                    self.app.printer.err(&format!("note: {}", printable(&hint(found.entry))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_or_refused() {
        let ago = |seconds| Ok(Since::Ago(SignedDuration::from_secs(seconds)));
        assert_eq!((since("90s"), since("10m"), since("2h")), (ago(90), ago(600), ago(7200)));
        assert_eq!(since("3d"), ago(259_200));
        assert!(matches!(since("2026-12-01T08:00:00Z"), Ok(Since::At(_))));
        for wrong in ["", "m", "10", "-5m", "10 m", "10w", "ten", "é", "99999999999999999d", "9223372036854775807s"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
