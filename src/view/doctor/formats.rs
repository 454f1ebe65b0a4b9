//! The report as lines to search, for CI servers, and for a ticket.

use std::fmt::Write;

use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use super::{counted, word};
use crate::check::Report;
use crate::model::{Finding, Remedy, Verdict};

/// What a finding is about, whole: node, link or rack.
pub(super) fn about(finding: &Finding) -> String {
    let link =
        finding.link.as_ref().map(|l| format!("{}:{}–{}:{}", l.a.node, l.a.receptacle, l.b.node, l.b.receptacle));
    match (&finding.node, link) {
        (Some(node), Some(link)) => format!("{node} ({link})"),
        (Some(node), None) => node.to_string(),
        (None, Some(link)) => link,
        (None, None) => "rack".to_owned(),
    }
}

/// One line, whatever a name holds: line breaks of every kind, and the mark that turns the direction of letters.
fn flat(text: &str) -> String {
    text.replace(['\n', '\r', '\t', '\u{2028}', '\u{2029}', '\u{61c}'], " ")
}

const RUN: &str = "run";

/// What to do about it, each step with how it is done.
fn steps(finding: &Finding) -> impl Iterator<Item = (&'static str, &str)> {
    let (how, steps): (_, &[String]) = match &finding.remedy {
        Some(Remedy::Run { commands }) => (RUN, commands),
        Some(Remedy::AtMachine { steps }) => ("at the machine", steps),
        None => ("", &[]),
    };
    steps.iter().map(move |step| (how, step.as_str()))
}

/// The first thing to do about it.
pub(super) fn first_step(finding: &Finding) -> Option<&str> {
    steps(finding).next().map(|(_, step)| step)
}

/// One line for each finding that is not right, then one with the counts. `verbose`: passes and skips too.
///
/// `FAIL cabling.speed studio-1:2–studio-2:2: the link … | replace the cable …`.
pub fn short(report: &Report, verbose: bool) -> String {
    let mut out = String::new();
    for finding in report.findings.iter().filter(|f| verbose || f.verdict > Verdict::Skip) {
        let (_, word) = word(finding.verdict);
        let _ = write!(out, "{word} {} {}: {}", finding.check, about(finding), flat(&finding.message));
        if let Some(step) = first_step(finding) {
            let _ = write!(out, " | {}", flat(step));
        }
        out.push('\n');
    }
    let (_, word) = word(report.verdict);
    let _ = writeln!(out, "{word}: {}", counted(report.summary));
    out
}

/// What is known of a finding beyond its message, one thing a line.
fn details(finding: &Finding) -> String {
    let mut out = String::new();
    for (title, text) in [("observed", &finding.observed), ("expected", &finding.expected)] {
        if let Some(text) = text {
            let _ = writeln!(out, "{title}: {text}");
        }
    }
    for (how, step) in steps(finding) {
        let _ = writeln!(out, "{how}: {step}");
    }
    let _ = write!(out, "see {}", finding.docs);
    out
}

/// `JUnit` XML: a suite for each category, a test case for each finding. A failed check is a failure, one that broke an
/// error, one that could not look a skipped test; a warning passes, with its text as the case's output.
pub fn junit(report: &Report) -> String {
    let mut junit = Junit::new(format!("macluster doctor {}", report.rack));
    let mut categories: Vec<_> = report.findings.iter().map(|f| f.category).collect();
    categories.sort_unstable();
    categories.dedup();
    for category in categories {
        let mut suite = TestSuite::new(category.as_str());
        for finding in report.findings.iter().filter(|f| f.category == category) {
            let mut status = match finding.verdict {
                Verdict::Pass | Verdict::Warn => TestCaseStatus::success(),
                Verdict::Skip => TestCaseStatus::skipped(),
                Verdict::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
                Verdict::Crash => TestCaseStatus::non_success(NonSuccessKind::Error),
            };
            if !matches!(finding.verdict, Verdict::Pass | Verdict::Warn) {
                status.set_message(finding.message.as_str());
            }
            if matches!(finding.verdict, Verdict::Fail | Verdict::Crash) {
                status.set_type(finding.check.as_str()).set_description(details(finding));
            }
            let mut case = TestCase::new(format!("{} {}", finding.check, about(finding)), status);
            case.set_classname(format!("{}.{}", report.rack, finding.check));
            if finding.verdict == Verdict::Warn {
                case.set_system_out(format!("warning: {}\n{}", finding.message, details(finding)));
            }
            suite.add_test_case(case);
        }
        junit.add_test_suite(suite);
    }
    // Texts hold no characters that XML cannot: findings are printable.
    junit.to_string().unwrap_or_default()
}

/// Text that Markdown would read as its own marks.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in flat(text).chars() {
        if r"\`*_{}[]<>()#+-!|~&$".contains(c) && !matches!(c, '-' | '(' | ')' | '+') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A command as Markdown's code, whatever back quotes it holds.
fn code(text: &str) -> String {
    let text = &flat(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// For a ticket: what is wrong in full, what could not be checked as a list, the rest as a number.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# Rack {}: {}\n\n", plain(&report.rack), word(report.verdict).1);
    let _ = writeln!(out, "Facts of {:.0}; {}.", report.taken_at, counted(report.summary));
    for finding in report.findings.iter().filter(|f| f.verdict > Verdict::Skip) {
        let (_, word) = word(finding.verdict);
        let _ = writeln!(
            out,
            "\n## {word} {}: {}\n\n{}\n",
            code(&finding.check),
            plain(&about(finding)),
            plain(&finding.message)
        );
        for (title, text) in [("observed", &finding.observed), ("expected", &finding.expected)] {
            if let Some(text) = text {
                let _ = writeln!(out, "- {title}: {}", plain(text));
            }
        }
        for (how, step) in steps(finding) {
            let text = if how == RUN { format!("run {}", code(step)) } else { format!("{how}: {}", plain(step)) };
            let _ = writeln!(out, "- {text}");
        }
    }
    let skipped: Vec<&Finding> = report.findings.iter().filter(|f| f.verdict == Verdict::Skip).collect();
    if !skipped.is_empty() {
        out.push_str("\n## Not checked\n\n");
    }
    for finding in skipped {
        let _ = writeln!(out, "- {} {}: {}", code(&finding.check), plain(&about(finding)), plain(&finding.message));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_markdown_in_names_are_only_letters() {
        assert_eq!(plain("a*b_c|d<e>`f`"), r"a\*b\_c\|d\<e\>\`f\`");
        assert_eq!(code("echo `x`"), "`` echo `x` ``");
        assert_eq!(code("ls"), "`ls`");
        assert_eq!(plain("a\n# b\u{2028}c"), r"a \# b c");
    }
}
