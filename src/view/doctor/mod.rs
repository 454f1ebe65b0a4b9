//! `doctor`: grouped by category for people, the documented report for programs.

mod formats;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::check::{Check, Report, Summary, is_urgent};
use crate::model::{Category, Finding, Inventory, Remedy, Verdict};
use crate::view::Printer;
use crate::view::remedy::Told;
use crate::view::text::{Tint, hanging, paint, rows};

pub use formats::{junit, markdown, short};
pub use watch::Watch;

/// Indent of what is told below a row.
const BELOW: &str = "         ";
/// Width of the verdict's column.
const WORD: u16 = 5;

/// The report as JSON, with a newline.
pub fn json(report: &Report) -> String {
    // Every part serialises: no maps with other keys than text, no numbers that JSON lacks.
    serde_json::to_string_pretty(report).unwrap_or_default()
}

/// The report for people. Passing and skipped rows are collapsed unless `verbose`.
pub fn human(report: &Report, inventory: &Inventory, printer: Printer, verbose: bool) -> String {
    let mut out = String::new();
    let nodes = inventory.nodes.len();
    let plural = if nodes == 1 { "node" } else { "nodes" };
    let title = format!("Rack {}, {nodes} {plural}, facts of {:.0}", report.rack, report.taken_at);
    let _ = writeln!(out, "{title}");
    let subject = report.findings.iter().map(|f| subject(f, verbose).chars().count()).max().unwrap_or(0).min(28);
    let widths = [WORD, u16::try_from(subject).unwrap_or(28)];
    let (urgent, others): (Vec<&Finding>, Vec<&Finding>) = report.findings.iter().partition(|f| is_urgent(f));
    let mut told = Told::default();
    if !urgent.is_empty() {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, "first of all"));
        out.push_str(&group(&urgent, &widths, printer, verbose, &mut told));
    }
    let mut categories: Vec<Category> = others.iter().map(|f| f.category).collect();
    categories.sort_unstable();
    categories.dedup();
    for category in categories {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, category.as_str()));
        let findings: Vec<&Finding> = others.iter().copied().filter(|f| f.category == category).collect();
        out.push_str(&group(&findings, &widths, printer, verbose, &mut told));
    }
    let _ = write!(out, "\n{}", closing(report.verdict, report.summary, printer));
    out
}

/// What a finding is about, for its row.
fn subject(finding: &Finding, verbose: bool) -> String {
    match (&finding.node, &finding.link) {
        (Some(node), _) => node.to_string(),
        (None, Some(link)) if verbose || finding.verdict > Verdict::Skip => {
            format!("{}:{} – {}:{}", link.a.node, link.a.receptacle, link.b.node, link.b.receptacle)
        }
        (None, Some(_)) => "links".to_owned(),
        (None, None) => "rack".to_owned(),
    }
}

fn word(verdict: Verdict) -> (Tint, &'static str) {
    match verdict {
        Verdict::Pass => (Tint::Green, "ok"),
        Verdict::Skip => (Tint::Cyan, "skip"),
        Verdict::Warn => (Tint::Yellow, "WARN"),
        Verdict::Crash => (Tint::Red, "CRASH"),
        Verdict::Fail => (Tint::Red, "FAIL"),
    }
}

fn row(finding: &Finding, subject: String, message: String) -> (Tint, Vec<String>) {
    let (tint, word) = word(finding.verdict);
    (tint, vec![word.to_owned(), subject, message])
}

fn group<'a>(findings: &[&'a Finding], widths: &[u16], printer: Printer, verbose: bool, told: &mut Told<'a>) -> String {
    let mut out = String::new();
    if verbose {
        for finding in findings {
            let message = match finding.verdict {
                Verdict::Pass | Verdict::Skip => format!("{}: {}", finding.check, finding.message),
                _ => finding.message.clone(),
            };
            out.push_str(&rows(printer, widths, &[row(finding, subject(finding, true), message)]));
            out.push_str(&below(finding, printer, told));
        }
        return out;
    }
    // What is right or cannot be told is counted; what is wrong is told in full.
    let mut passed: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    let mut skipped: BTreeMap<(String, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        let subject = subject(finding, false);
        match finding.verdict {
            Verdict::Pass => passed.entry(subject).or_default().push(finding),
            Verdict::Skip => skipped.entry((subject, &finding.message)).or_default().push(finding),
            _ => {}
        }
    }
    let mut table = Vec::new();
    for (subject, all) in passed {
        // One result speaks for itself.
        let message = match all.as_slice() {
            [one] => one.message.clone(),
            many => checks(many),
        };
        if let Some(first) = all.first() {
            table.push(row(first, subject, message));
        }
    }
    for ((subject, message), all) in skipped {
        if let Some(first) = all.first() {
            let message = if all.len() == 1 {
                format!("{}: {message}", first.check)
            } else {
                format!("{}: {message}", checks(&all))
            };
            table.push(row(first, subject, message));
        }
    }
    if !table.is_empty() {
        out.push_str(&rows(printer, widths, &table));
    }
    for finding in findings.iter().filter(|f| f.verdict > Verdict::Skip) {
        out.push_str(&rows(printer, widths, &[row(finding, subject(finding, false), finding.message.clone())]));
        out.push_str(&below(finding, printer, told));
    }
    out
}

/// `3 checks`, or `6 results of 2 checks`.
fn checks(findings: &[&Finding]) -> String {
    let mut names: Vec<&str> = findings.iter().map(|f| f.check.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let of = if names.len() == 1 { "1 check".to_owned() } else { format!("{} checks", names.len()) };
    if findings.len() == names.len() { of } else { format!("{} results of {of}", findings.len()) }
}

/// Observed, expected, remedy and where it is explained, under a row that is not right.
fn below<'a>(finding: &'a Finding, printer: Printer, told: &mut Told<'a>) -> String {
    let mut out = String::new();
    if finding.verdict <= Verdict::Skip {
        return out;
    }
    let width = printer.width;
    for (title, text) in [("observed", &finding.observed), ("expected", &finding.expected)] {
        if let Some(text) = text {
            out.push_str(&hanging(&format!("{BELOW}{title}  "), text, width));
        }
    }
    let above = told.before(finding);
    let heading = |words: &str| {
        let colon = paint(printer, Tint::Bold, &format!("{words}:"));
        above.as_ref().map_or_else(|| format!("{BELOW}{colon}\n"), |a| hanging(&format!("{BELOW}{colon} "), a, width))
    };
    match &finding.remedy {
        Some(Remedy::Run { commands }) => {
            out.push_str(&heading("run this"));
            let commands = commands.iter().filter(|_| above.is_none());
            for command in commands {
                // Not wrapped: it is there to be copied.
                let _ = writeln!(out, "{BELOW}  $ {command}");
            }
        }
        Some(Remedy::AtMachine { steps }) => {
            out.push_str(&heading("do this at the machine"));
            for (i, step) in steps.iter().filter(|_| above.is_none()).enumerate() {
                out.push_str(&hanging(&format!("{BELOW}  {}. ", i + 1), step, width));
            }
        }
        None => {}
    }
    let _ = writeln!(out, "{BELOW}see {}", finding.docs);
    out
}

fn closing(verdict: Verdict, summary: Summary, printer: Printer) -> String {
    let (tint, words) = match verdict {
        Verdict::Pass => (Tint::Green, "everything is right"),
        Verdict::Skip => (Tint::Cyan, "nothing wrong was found, but not everything could be checked"),
        Verdict::Warn => (Tint::Yellow, "works, but see the warnings"),
        Verdict::Crash => (Tint::Red, "a check broke"),
        Verdict::Fail => (Tint::Red, "something is wrong"),
    };
    let (_, word) = word(verdict);
    format!("{}: {words}\n{}\n", paint(printer, tint, word), counted(summary))
}

/// `1 failed, 0 warned, …`.
fn counted(summary: Summary) -> String {
    let Summary { pass, warn, fail, skip, crash } = summary;
    format!("{fail} failed, {warn} warned, {crash} crashed, {skip} skipped, {pass} passed")
}

/// `--list-checks`.
pub fn list(checks: &[&dyn Check], printer: Printer) -> String {
    let widest = checks.iter().map(|c| c.id().len()).max().unwrap_or(0);
    let table: Vec<(Tint, Vec<String>)> =
        checks.iter().map(|c| (Tint::Bold, vec![c.id().to_owned(), c.title().to_owned()])).collect();
    rows(printer, &[u16::try_from(widest).unwrap_or(40)], &table)
}

/// `--list-checks -o json`.
pub fn list_json(checks: &[&dyn Check]) -> String {
    let all: Vec<serde_json::Value> = checks
        .iter()
        .map(|c| serde_json::json!({"id": c.id(), "category": c.category(), "title": c.title()}))
        .collect();
    serde_json::to_string_pretty(&serde_json::json!({"schema_version": crate::check::SCHEMA_VERSION, "checks": all}))
        .unwrap_or_default()
}
