//! `network plan` and `network apply`: for people in the manner of terraform, for programs as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::model::command::printable;
use crate::model::{Cmd, Inventory, NodeName, Verdict};
use crate::network::{Change, LinkNetwork, NetworkEnd, NetworkPlan, Problem, ProblemKind, Symbol};
use crate::phase::network::{Applied, Fate, LinkResult, Verified};
use crate::view::Printer;

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// Colours the text, when colours are wanted.
fn paint(printer: Printer, code: &str, text: &str) -> String {
    if printer.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn symbol(printer: Printer, symbol: Symbol) -> String {
    let code = match symbol {
        Symbol::Add => "32",
        Symbol::Change => "33",
        Symbol::Remove => "31",
    };
    paint(printer, code, &symbol.as_char().to_string())
}

/// `fail`, `warn` or `note`, coloured.
fn word(printer: Printer, verdict: Verdict) -> String {
    match verdict {
        Verdict::Pass => paint(printer, "32", "pass"),
        Verdict::Skip => paint(printer, "36", "note"),
        Verdict::Warn => paint(printer, "33", "warn"),
        Verdict::Fail | Verdict::Crash => paint(printer, "31", "fail"),
    }
}

/// The plan for people.
pub fn human(plan: &NetworkPlan, inventory: &Inventory, printer: Printer, verbose: bool) -> String {
    let mut out = String::new();
    links(&mut out, plan, inventory, printer);
    changes(&mut out, plan, inventory, printer, verbose);
    problems(&mut out, &plan.problems, printer);
    out.push_str(&closing(plan));
    printable_lines(&out, printer)
}

/// Everything but our own colours is made safe for a terminal.
fn printable_lines(text: &str, printer: Printer) -> String {
    if printer.color { text.split('\u{1b}').map(printable).collect::<Vec<_>>().join("\u{1b}") } else { printable(text) }
}

fn heading(out: &mut String, printer: Printer, text: &str) {
    if !out.is_empty() && out != "\n" {
        out.push('\n');
    }
    let _ = writeln!(out, "{}\n", paint(printer, "1", text));
}

fn links(out: &mut String, plan: &NetworkPlan, inventory: &Inventory, printer: Printer) {
    heading(out, printer, &format!("Link networks of {} from {}", inventory.rack, inventory.pool));
    if plan.links.is_empty() {
        out.push_str("  None: no link between two nodes is beyond doubt.\n");
        return;
    }
    let ends = || plan.links.iter().flat_map(|l| [&l.a, &l.b]);
    let widest = |text: fn(&NetworkEnd) -> usize| ends().map(text).max().unwrap_or(0);
    let node = widest(|e| e.node.as_str().len());
    let receptacle = widest(|e| e.receptacle.to_string().len());
    let interface = widest(|e| e.interface.len());
    let network = plan.links.iter().map(|l| l.network.to_string().len()).max().unwrap_or(0);
    for link in &plan.links {
        for (i, end) in [&link.a, &link.b].into_iter().enumerate() {
            let name = if i == 0 { link.network.to_string() } else { String::new() };
            let _ = write!(
                out,
                "  {name:network$}  {:node$}  receptacle {:receptacle$}  {:interface$}  {}",
                end.node, end.receptacle, end.interface, end.address
            );
            if i == 0 && link.rail > 0 {
                let _ = write!(out, "  (cable {} of this pair)", link.rail + 1);
            }
            out.push('\n');
        }
    }
}

fn changes(out: &mut String, plan: &NetworkPlan, inventory: &Inventory, printer: Printer, verbose: bool) {
    if plan.changes.is_empty() {
        return;
    }
    let legend = [(Symbol::Add, "add"), (Symbol::Change, "change"), (Symbol::Remove, "remove")];
    let legend = legend.map(|(s, word)| format!("{} {word}", symbol(printer, s))).join(", ");
    heading(out, printer, &format!("Changes ({legend})"));
    for node in inventory.nodes.iter().map(|n| &n.name) {
        let of_node = plan.of(node);
        if of_node.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  {}", paint(printer, "1", &inventory.label(node)));
        for change in of_node {
            let Change { interface, before, after, .. } = change;
            let _ = writeln!(out, "    {} {interface}: {before} → {after}", symbol(printer, change.symbol));
            // What runs on an interface is short and matters most; files and jobs are many lines that say little.
            if change.commands.len() > 3 && !verbose {
                let _ = writeln!(out, "        {} commands, shown with -v", change.commands.len());
                continue;
            }
            for cmd in &change.commands {
                let _ = writeln!(out, "        {}", cmd.display());
            }
            if verbose {
                for cmd in &change.undo {
                    let _ = writeln!(out, "        taken back with: {}", cmd.display());
                }
            }
        }
    }
    heading(out, printer, "Risks");
    let mut told = Vec::new();
    for change in &plan.changes {
        if !told.contains(&&change.kind) {
            told.push(&change.kind);
            let _ = writeln!(out, "  {}: {}", change.kind, change.risk);
        }
    }
}

fn problems(out: &mut String, problems: &[Problem], printer: Printer) {
    if problems.is_empty() {
        return;
    }
    heading(out, printer, "To know");
    let mut worst_first: Vec<&Problem> = problems.iter().collect();
    worst_first.sort_by_key(|p| std::cmp::Reverse(p.verdict));
    let mut told: Option<&str> = None;
    for problem in worst_first {
        let _ = writeln!(out, "  {}: {}", word(printer, problem.verdict), problem.message);
        if let Some(action) = problem.action.as_deref().filter(|a| told != Some(*a)) {
            let _ = writeln!(out, "        {action}");
        }
        told = problem.action.as_deref();
    }
}

/// The line that sums it up.
fn closing(plan: &NetworkPlan) -> String {
    let mut out = String::from("\n");
    if plan.changes.is_empty() {
        let silent = plan.problems.iter().any(|p| p.kind == ProblemKind::Unreachable);
        out.push_str(if plan.blocked() {
            "Nothing is planned until the failures above are resolved.\n"
        } else if silent && plan.links.is_empty() {
            "Nothing is planned: no link between two nodes that answered.\n"
        } else if silent {
            "No changes on the nodes that answered.\n"
        } else if plan.links.is_empty() {
            "No changes: there is no link to configure.\n"
        } else {
            "No changes. Every link has its network.\n"
        });
        return out;
    }
    let [add, change, remove] = plan.counts();
    let nodes = plan.nodes().len();
    let s = if nodes == 1 { "" } else { "s" };
    let _ = writeln!(out, "Plan: {add} to add, {change} to change, {remove} to remove on {nodes} node{s}.");
    out.push_str(
        "Each node takes its changes back unless a new SSH session confirms them; then they outlast restarts.\n",
    );
    out
}

fn commands(all: &[Cmd]) -> Vec<String> {
    all.iter().map(Cmd::display).collect()
}

/// The plan for programs.
pub fn json(plan: &NetworkPlan, inventory: &Inventory) -> Value {
    let end = |e: &NetworkEnd| json!({"node": e.node, "receptacle": e.receptacle, "interface": e.interface, "address": e.address});
    let link = |l: &LinkNetwork| json!({"network": l.network, "rail": l.rail, "a": end(&l.a), "b": end(&l.b)});
    let change = |c: &Change| {
        json!({
            "node": c.node, "kind": c.kind, "action": c.symbol, "interface": c.interface,
            "before": c.before, "after": c.after,
            "commands": commands(&c.commands), "risk": c.risk, "undo": commands(&c.undo),
        })
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": inventory.rack,
        "pool": inventory.pool,
        "links": plan.links.iter().map(link).collect::<Vec<_>>(),
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "problems": plan.problems,
        "fingerprint": plan.fingerprint(),
    })
}

/// What apply did, for people.
pub fn applied_human(applied: &[Applied], verified: &Verified, inventory: &Inventory, printer: Printer) -> String {
    // It follows the plan on the same screen.
    let mut out = String::from("\n");
    if !applied.is_empty() {
        heading(&mut out, printer, "Applied");
    }
    for node in applied {
        let label = inventory.label(&node.node);
        fate(&mut out, &label, node, printer);
    }
    heading(&mut out, printer, "Verified");
    for link in &verified.links {
        let _ = writeln!(out, "  {}: {}  {}", word(printer, link.verdict), link.network.network, ends(link));
        for line in link.failures.iter().chain(&link.notes) {
            let _ = writeln!(out, "        {line}");
        }
    }
    for (node, why) in &verified.nodes {
        let _ = writeln!(out, "  {}: {}: {why}", word(printer, Verdict::Fail), inventory.label(node));
    }
    problems(&mut out, &verified.problems, printer);
    out.push('\n');
    let count = |verdict| verified.links.iter().filter(|l| l.verdict == verdict).count();
    let _ = write!(out, "{} of {} link networks are in place", count(Verdict::Pass), verified.links.len());
    match count(Verdict::Skip) {
        0 => out.push_str(".\n"),
        n => {
            let _ = writeln!(out, "; {n} could not be pinged.");
        }
    }
    printable_lines(&out, printer)
}

/// What became of a node.
fn fate(out: &mut String, label: &str, node: &Applied, printer: Printer) {
    let changes = node.changes;
    let s = if changes == 1 { "" } else { "s" };
    let verdict = if node.fate == Fate::Complete { Verdict::Pass } else { Verdict::Fail };
    let head = word(printer, verdict);
    let _ = match &node.fate {
        Fate::Complete => writeln!(out, "  {head}: {label}: {changes} change{s}, confirmed over a new SSH session"),
        Fate::Untouched(why) => writeln!(out, "  {head}: {label}: nothing was changed: {why}"),
        Fate::Reverted { why, .. } => {
            writeln!(out, "  {head}: {label}: {why}\n        the node has taken its changes back; it is as before")
        }
        Fate::GoesBack { why, unseen, within } => writeln!(
            out,
            "  {head}: {label}: {why}\n        it takes its changes back by itself within {} s; that could not be \
             watched: {unseen}",
            within.as_secs()
        ),
    };
    if let Fate::Reverted { log, .. } = &node.fate {
        for line in log.iter().filter(|l| l.contains(" failed: ")) {
            let _ = writeln!(out, "        {line}");
        }
    }
}

fn fate_json(node: &Applied) -> Value {
    let (fate, why, log) = match &node.fate {
        Fate::Complete => ("complete", None, None),
        Fate::Untouched(why) => ("untouched", Some(why.clone()), None),
        Fate::Reverted { why, log } => ("reverted", Some(why.clone()), Some(log.clone())),
        Fate::GoesBack { why, unseen, .. } => ("goes-back", Some(format!("{why}; not watched: {unseen}")), None),
    };
    json!({"node": node.node, "changes": node.changes, "fate": fate, "why": why, "log": log})
}

/// What revert did, for people.
pub fn reverted_human(done: &[Applied], unreached: &[&NodeName], inventory: &Inventory, printer: Printer) -> String {
    let mut out = String::new();
    heading(&mut out, printer, "Reverted");
    for node in done {
        let label = inventory.label(&node.node);
        let (verdict, text) = match &node.fate {
            Fate::Complete => (Verdict::Pass, "macluster has changed nothing there".to_owned()),
            Fate::Reverted { .. } => (Verdict::Pass, "as it was before the first apply".to_owned()),
            Fate::Untouched(why) => (Verdict::Fail, format!("nothing was changed: {why}")),
            Fate::GoesBack { unseen, .. } => (Verdict::Fail, format!("it goes back by itself; not watched: {unseen}")),
        };
        let _ = writeln!(out, "  {}: {label}: {text}", word(printer, verdict));
        if let Fate::Reverted { log, .. } = &node.fate {
            for line in log.iter().filter(|l| l.contains(" failed: ")) {
                let _ = writeln!(out, "        {line}");
            }
        }
    }
    for node in unreached {
        let _ = writeln!(out, "  {}: {}: not reached", word(printer, Verdict::Fail), inventory.label(node));
    }
    printable_lines(&out, printer)
}

/// What revert did, for programs.
pub fn reverted_json(done: &[Applied], unreached: &[&NodeName], inventory: &Inventory) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": inventory.rack,
        "reverted": done.iter().map(fate_json).collect::<Vec<_>>(),
        "unreached": unreached,
    })
}

fn ends(link: &LinkResult) -> String {
    let end = |e: &NetworkEnd| format!("{} {}", e.node, e.interface);
    format!("{} ↔ {}", end(&link.network.a), end(&link.network.b))
}

/// What apply did, for programs.
pub fn applied_json(plan: &NetworkPlan, applied: &[Applied], verified: &Verified, inventory: &Inventory) -> Value {
    let nodes: Vec<Value> = applied.iter().map(fate_json).collect();
    let links: Vec<Value> = verified
        .links
        .iter()
        .map(|l| json!({"network": l.network.network, "verdict": l.verdict, "failures": l.failures, "notes": l.notes}))
        .collect();
    let node_failures: BTreeMap<_, _> = verified.nodes.iter().map(|(n, why)| (n, why)).collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": inventory.rack,
        "plan": json(plan, inventory),
        "applied": nodes,
        "verified": {"links": links, "nodes": node_failures, "problems": verified.problems},
    })
}
