//! What `macluster accept` prints and files away.

use std::fmt::Write;

use crate::model::Inventory;
use crate::model::command::printable;
use crate::phase::accept::compare::Comparison;
use crate::phase::accept::report::{Figures, Report, Word};

/// What will happen, before the question. Without requests there is no idle time either.
pub fn announcement(inventory: &Inventory, idle_s: Option<u64>) -> String {
    let first = idle_s.map(|s| format!("requests are measured (at least {s} s); then ")).unwrap_or_default();
    format!(
        "{}: {first}the service is stopped, its links are measured, and it is started again; the model does not answer \
         meanwhile",
        inventory.rack
    )
}

/// A line for each step, what to do about those that failed, and what got slower.
pub fn human(report: &Report) -> String {
    let mut out = String::new();
    for step in &report.steps {
        let word = if step.verdict == Word::Fail { "FAIL" } else { step.verdict.as_str() };
        for (number, line) in step.messages.iter().enumerate() {
            let (word, id) = if number == 0 { (word, step.step.as_str()) } else { ("", "") };
            let _ = writeln!(out, "{word:4}  {id:13}  {}", printable(line));
        }
        for hint in &step.hints {
            let _ = writeln!(out, "{:4}  {:13}  → {hint}", "", "");
        }
    }
    if let Some(comparison) = &report.comparison {
        out.push('\n');
        for line in compared(comparison) {
            let _ = writeln!(out, "{line}");
        }
    }
    let count = |word| report.steps.iter().filter(|s| s.verdict == word).count();
    let (of, failed, left_out) = (report.steps.len(), count(Word::Fail), count(Word::Skip));
    let verdict = match failed {
        0 => "passed".to_owned(),
        n => format!("{n} of {of} steps failed"),
    };
    let skipped = if left_out == 0 { String::new() } else { format!(", {left_out} left out") };
    let _ = write!(out, "\n{}: {verdict}{skipped}", report.rack);
    out
}

/// A comparison in lines.
fn compared(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<String> = comparison.differs.iter().map(|d| format!("differs: {d}")).collect();
    for s in &comparison.slower {
        let (old, new) = (number(s.old), number(s.new));
        lines.push(format!("slower: {}: {old} → {new} {}, {:.0} % worse", s.figure, s.unit, s.percent));
    }
    lines.extend(comparison.only_old.iter().map(|f| format!("only before: {f}")));
    lines.extend(comparison.only_new.iter().map(|f| format!("only now: {f}")));
    let slower = comparison.slower.len();
    lines
        .push(format!("{slower} of {} figures are more than 10 % worse than {}", comparison.compared, comparison.with));
    lines.iter().map(|l| printable(l)).collect()
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// The report as a page.
pub fn markdown(report: &Report) -> String {
    let (service, mut out) = (&report.service, String::new());
    let _ = writeln!(out, "# Acceptance of {}\n", cell(&report.rack));
    let verdict = if report.verdict == Word::Pass { "**passed**" } else { "**failed**" };
    let _ = writeln!(
        out,
        "{verdict}, measured {} in {:.0} s by macluster {}\n",
        report.started_at, report.seconds, report.tool_version
    );
    let _ = writeln!(
        out,
        "{} on {} ranks, backend {} over {}, release {}, launch {}\n",
        cell(&service.model),
        service.ranks,
        service.backend,
        service.over,
        service.release,
        service.launch
    );
    out.push_str("## Steps\n\n| step | verdict | what | time |\n|---|---|---|---|\n");
    for step in &report.steps {
        let lines = step.messages.iter().map(|m| cell(m)).chain(step.hints.iter().map(|h| format!("→ {}", cell(h))));
        let text = lines.collect::<Vec<_>>().join("<br>");
        let _ = writeln!(out, "| {} | {} | {text} | {:.1} s |", step.step, step.verdict.as_str(), step.seconds);
    }
    out.push_str("\n## Nodes\n\n| node | slot | rank | Mac | chip | memory | serial | macOS | build |\n");
    out.push_str("|---|---|---|---|---|---|---|---|---|\n");
    for n in &report.nodes {
        let text = |value: &Option<String>| value.as_deref().map_or_else(|| "unknown".to_owned(), cell);
        let digit = |value: Option<u32>| value.map_or_else(|| "–".to_owned(), |v| v.to_string());
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            n.node,
            digit(n.slot),
            digit(n.rank),
            text(&n.model),
            text(&n.chip),
            text(&n.memory),
            text(&n.serial),
            text(&n.macos),
            text(&n.build)
        );
    }
    figures(&report.figures, &mut out);
    if let Some(comparison) = &report.comparison {
        out.push_str("\n## Against an older report\n\n");
        for line in compared(comparison) {
            let _ = writeln!(out, "- {}", cell(&line));
        }
    }
    let fence = if report.inventory.contains("```") { "````" } else { "```" };
    let _ = write!(out, "\n## Inventory\n\n{fence}yaml\n{}\n{fence}\n", printable(report.inventory.trim_end()));
    out
}

fn figures(f: &Figures, out: &mut String) {
    out.push_str("\n## Requests\n\n| what | figure |\n|---|---|\n");
    let mut row = |what: String, figure: String| {
        let _ = writeln!(out, "| {what} | {figure} |");
    };
    if let Some(a) = &f.answer {
        row("one answer".to_owned(), rate_and_first(a.tokens_per_second, a.first_token_s));
    }
    if let Some(n) = &f.needle {
        let found = if n.found { "found" } else { "not found" };
        row(format!("needle in {} tokens", n.size.prompt_tokens), format!("{found} in {:.2} s", n.seconds));
    }
    for r in &f.requests {
        let each: Vec<String> = r.each_tokens_per_second.iter().map(|t| format!("{t:.1}")).collect();
        let sum = format!("{:.1} tokens/s in sum; each {}", r.tokens_per_second, each.join(", "));
        row(format!("{} requests at once", r.requests), sum);
    }
    if let Some(i) = &f.idle {
        row(format!("after {} s idle", i.idle_s), rate_and_first(i.tokens_per_second, i.first_token_s));
    }
    if let Some(s) = &f.start {
        let text = format!(
            "stopped in {:.1} s, serving after {:.1} s, answered after {:.1} s",
            s.stop_s, s.ready_s, s.answer_s
        );
        row("restart".to_owned(), text);
    }
    if !f.links.is_empty() {
        out.push_str("\n## Links\n\n| link | round | Gb/s | latency | worst | remark |\n|---|---|---|---|---|---|\n");
    }
    for l in &f.links {
        let remark = l.outlier.as_ref().map(|o| format!("outlier: {}", cell(o))).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {} | {:.2} | {:.0} µs | {:.0} µs | {remark} |",
            cell(&l.name()),
            l.round,
            l.gbps,
            l.latency_us,
            l.worst_latency_us
        );
    }
    if !f.all_reduce.is_empty() {
        out.push_str(
            "\n## All-reduce over all ranks\n\n| bytes | median | worst | Gb/s on each link |\n|---|---|---|---|\n",
        );
    }
    for r in &f.all_reduce {
        let (median, worst) = (r.median_s * 1e3, r.worst_s * 1e3);
        let _ = writeln!(out, "| {} | {median:.3} ms | {worst:.3} ms | {:.2} |", r.bytes, r.gbps);
    }
}

fn rate_and_first(rate: f64, first: f64) -> String {
    format!("{rate:.1} tokens/s, the first token after {first:.2} s")
}

/// Text from a node or a model in a cell of a table: on one line, and nothing but text.
fn cell(text: &str) -> String {
    let line = printable(text).replace(['\n', '\t'], " ");
    line.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

/// The report as JSON.
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default()
}
