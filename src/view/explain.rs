//! `explain` for people: which cause holds first, then what cannot be told, then what it is not.

use std::fmt::Write;

use crate::check::explain::{Entry, Evidence, Explained, Judged, State};
use crate::model::Remedy;
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

/// Findings of one cause that are told; the rest is counted.
const SHOWN: usize = 3;

/// The explanations. `looked`: the rack's state was asked.
pub fn human(all: &[Explained], looked: bool, printer: Printer) -> String {
    let mut out = String::new();
    for (n, one) in all.iter().enumerate() {
        if n == 1 {
            let more = "\nThe text holds more errors. The first one is usually the cause of the others.\n";
            out.push_str(more);
        }
        if n > 0 {
            out.push('\n');
        }
        explained(one, looked, printer, &mut out);
    }
    if !looked {
        let asked =
            "No rack was asked: with a macluster.yaml, or --from a snapshot, the causes are checked against its state.";
        let _ = write!(out, "\n{}", hanging("", asked, printer.width));
    }
    out
}

fn explained(one: &Explained, looked: bool, printer: Printer, out: &mut String) {
    let width = printer.width;
    let _ = writeln!(out, "{}", paint(printer, Tint::Bold, one.title));
    if one.number > 1 {
        out.push_str(&hanging(&format!("  line {}  ", one.number), &one.line, width));
    }
    out.push_str(&hanging("  ", &sentence(one.meaning), width));
    for note in &one.notes {
        out.push_str(&hanging("  on this rack: ", note, width));
    }
    let any = |state| one.causes.iter().any(|c| c.state == state);
    if looked && !any(State::Holds) {
        out.push_str("  No check finds a cause now.\n");
    }
    for (state, title, tint) in [
        (State::Holds, "this is so now", Tint::Red),
        (
            State::Possible,
            if looked { "this cannot be told from here" } else { "possible causes, in this order" },
            Tint::Yellow,
        ),
        (State::Excluded, "it is not", Tint::Green),
    ] {
        if !any(state) {
            continue;
        }
        let _ = writeln!(out, "\n  {}", paint(printer, tint, title));
        for (n, cause) in one.causes.iter().filter(|c| c.state == state).enumerate() {
            match state {
                State::Excluded => out.push_str(&hanging("   - ", cause.cause, width)),
                _ => told(n + 1, cause, state, printer, out),
            }
        }
    }
}

fn told(n: usize, cause: &Judged, state: State, printer: Printer, out: &mut String) {
    let width = printer.width;
    out.push_str(&hanging(&format!("  {n}. "), cause.cause, width));
    if state == State::Possible {
        out.push_str(&hanging("     how to tell   ", cause.how, width));
        out.push_str(&hanging("     then          ", cause.remedy, width));
        for seen in cause.evidence.iter().take(1) {
            out.push_str(&hanging("     not known     ", &format!("{}: {}", seen.check, seen.message), width));
        }
        return;
    }
    for seen in cause.evidence.iter().take(SHOWN) {
        out.push_str(&hanging("     seen          ", &format!("{} ({})", seen.message, seen.check), width));
        if let Some(observed) = &seen.observed {
            out.push_str(&hanging("                   ", observed, width));
        }
        out.push_str(&remedy(seen, printer));
    }
    if let Some(more) = cause.evidence.len().checked_sub(SHOWN + 1) {
        let _ = writeln!(out, "     and {} more: macluster doctor --check {}", more + 1, cause.checks.join(","));
    }
}

fn remedy(seen: &Evidence, printer: Printer) -> String {
    let mut out = String::new();
    match &seen.remedy {
        // Not wrapped: it is there to be copied.
        Some(Remedy::Run { commands }) => {
            for command in commands {
                let _ = writeln!(out, "     $ {command}");
            }
        }
        Some(Remedy::AtMachine { steps }) => {
            for step in steps {
                out.push_str(&hanging("     do this       ", step, printer.width));
            }
        }
        None => {}
    }
    out
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// `--list`: what is known.
pub fn list(entries: &[&Entry], printer: Printer) -> String {
    let each = entries.iter().map(|e| {
        let meaning = hanging("    ", &sentence(e.meaning), printer.width);
        format!("{}  {}\n{meaning}", paint(printer, Tint::Bold, e.id), e.title)
    });
    each.collect()
}

/// The same as JSON, with a newline.
pub fn list_json(entries: &[&Entry]) -> String {
    let texts: Vec<_> =
        entries.iter().map(|e| serde_json::json!({ "id": e.id, "title": e.title, "meaning": e.meaning })).collect();
    format!("{:#}\n", serde_json::json!({ "schema_version": 1, "texts": texts }))
}

/// What `logs` and `status` say below a known text: what it means, and how to learn which cause holds.
pub fn hint(entry: &Entry) -> String {
    format!("\u{201c}{}\u{201d}: {}. Which cause holds: macluster explain {}", entry.title, entry.meaning, entry.id)
}

/// The explanations as JSON, with a newline.
pub fn json(all: &[Explained], looked: bool) -> String {
    let value = serde_json::json!({ "schema_version": 1, "rack_asked": looked, "explained": all });
    format!("{value:#}\n")
}
