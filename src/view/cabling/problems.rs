//! What the checks say of the cables: node, cause, next action.

use std::fmt::Write;

use super::Cabling;
use crate::model::{Finding, Remedy, Verdict};
use crate::view::Printer;
use crate::view::remedy::Told;
use crate::view::text::{Tint, hanging, paint};

/// Everything that is wrong and what to do, then what cannot be told; empty when there is nothing.
pub(super) fn problems(cabling: &Cabling<'_>, printer: Printer) -> String {
    let wrong = || cabling.findings.iter().filter(|f| f.verdict > Verdict::Skip);
    let mut out = String::new();
    if wrong().next().is_some() {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, "Problems"));
    }
    let mut told = Told::default();
    for finding in wrong() {
        let (tint, word) = if finding.verdict == Verdict::Warn { (Tint::Yellow, "WARN") } else { (Tint::Red, "FAIL") };
        let head = format!("  {word}  ");
        let text = about(finding);
        out.push_str(&hanging(&head, &text, printer.width).replacen(word, &paint(printer, tint, word), 1));
        if let Some(above) = told.before(finding) {
            out.push_str(&hanging("        → ", &above, printer.width));
            continue;
        }
        let (steps, shown) = match &finding.remedy {
            Some(Remedy::AtMachine { steps }) => (steps.as_slice(), "→ "),
            Some(Remedy::Run { commands }) => (commands.as_slice(), "$ "),
            None => continue,
        };
        for step in steps {
            out.push_str(&hanging(&format!("        {shown}"), step, printer.width));
        }
    }
    let unknown = unknown(cabling.findings);
    if !unknown.is_empty() {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, "Cannot be told"));
    }
    for text in unknown {
        out.push_str(&hanging("  ?  ", &text, printer.width));
    }
    out
}

/// Whom it concerns, and the cause.
fn about(finding: &Finding) -> String {
    let cause = &finding.message;
    match (&finding.node, &finding.link) {
        (Some(node), _) => format!("{node}: {cause}"),
        (None, Some(link)) => {
            format!("{}:{} – {}:{}: {cause}", link.a.node, link.a.receptacle, link.b.node, link.b.receptacle)
        }
        // Its sentence names the nodes.
        (None, None) => cause.clone(),
    }
}

/// Why something could not be checked: each reason once, however many checks meet it.
fn unknown(findings: &[Finding]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for reason in findings.iter().filter(|f| f.verdict == Verdict::Skip).map(about) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}
