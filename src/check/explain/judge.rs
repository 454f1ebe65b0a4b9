//! Which cause holds, by what the checks of doctor found.

use serde::Serialize;

use super::{Cause, Found};
use crate::check::Report;
use crate::mesh::usable::rdma_device;
use crate::model::{Finding, NodeName, Remedy, Snapshot, Verdict};

/// Whether a cause holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// A check found it.
    Holds,
    /// No check can see it, or those that could were skipped.
    Possible,
    /// Every check that sees it passed.
    Excluded,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Check.
    pub check: String,
    /// Node it was found on.
    pub node: Option<NodeName>,
    /// What it says.
    pub message: String,
    /// What was seen.
    pub observed: Option<String>,
    /// What to do.
    pub remedy: Option<Remedy>,
}

/// A cause with the answer.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What it would be.
    pub cause: &'static str,
    /// Whether it is.
    pub state: State,
    /// Checks that see it.
    pub checks: &'static [&'static str],
    /// How to tell it by hand.
    pub how: &'static str,
    /// What to do when it is it.
    pub remedy: &'static str,
    /// What the checks found, or why they could not look.
    pub evidence: Vec<Evidence>,
}

/// A known text, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Stable id.
    pub id: &'static str,
    /// The text as people know it.
    pub title: &'static str,
    /// The line it was found in.
    pub line: String,
    /// Its number, counted from 1.
    pub number: usize,
    /// What it says.
    pub meaning: &'static str,
    /// Facts of the rack about what the line names.
    pub notes: Vec<String>,
    /// Causes: those that hold first, then those that cannot be told, then those that are excluded; in each the order
    /// in which to look.
    pub causes: Vec<Judged>,
}

/// Looks for each cause among the findings; without a rack every cause is possible. `node` is the one whose log it
/// was, when that is known: what concerns it is told first.
pub fn explain(found: &Found, rack: Option<(&Report, &Snapshot)>, node: Option<&NodeName>) -> Explained {
    let entry = found.entry;
    let mut causes: Vec<Judged> = entry.causes.iter().map(|c| judge(c, rack.map(|(r, _)| r), node)).collect();
    // Stable: the order in which to look stays.
    causes.sort_by_key(|c| c.state);
    let notes = match (&found.device, rack) {
        (Some(device), Some((_, snapshot))) => devices(device, snapshot),
        _ => Vec::new(),
    };
    Explained {
        id: entry.id,
        title: entry.title,
        line: found.line.clone(),
        number: found.number,
        meaning: entry.meaning,
        notes,
        causes,
    }
}

fn judge(cause: &Cause, report: Option<&Report>, node: Option<&NodeName>) -> Judged {
    let findings = report.map(|r| r.findings.as_slice()).unwrap_or_default();
    let mut of: Vec<&Finding> = findings.iter().filter(|f| cause.checks.contains(&f.check.as_str())).collect();
    of.sort_by_key(|f| node.is_some() && !concerns(f, node));
    let wrong: Vec<&Finding> =
        of.iter().copied().filter(|f| matches!(f.verdict, Verdict::Warn | Verdict::Fail)).collect();
    let unseen: Vec<&Finding> =
        of.iter().copied().filter(|f| matches!(f.verdict, Verdict::Skip | Verdict::Crash)).collect();
    let (state, shown) = if !wrong.is_empty() {
        (State::Holds, wrong)
    } else if of.is_empty() || !unseen.is_empty() || !cause.excludes {
        (State::Possible, unseen)
    } else {
        (State::Excluded, Vec::new())
    };
    Judged {
        cause: cause.text,
        state,
        checks: cause.checks,
        how: cause.how,
        remedy: cause.remedy,
        evidence: shown.into_iter().map(evidence).collect(),
    }
}

fn concerns(finding: &Finding, node: Option<&NodeName>) -> bool {
    let ends = finding.link.iter().flat_map(|l| [&l.a.node, &l.b.node]);
    ends.chain(&finding.node).any(|n| Some(n) == node)
}

fn evidence(finding: &Finding) -> Evidence {
    Evidence {
        check: finding.check.clone(),
        node: finding.node.clone(),
        message: finding.message.clone(),
        observed: finding.observed.clone(),
        remedy: finding.remedy.clone(),
    }
}

/// What each node has of the device that the line names.
fn devices(device: &str, snapshot: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, record) in &snapshot.nodes {
        let Some(Ok(listed)) = record.facts.as_ref().ok().map(|f| &f.rdma_devices) else { continue };
        let all = if listed.is_empty() { "none".to_owned() } else { listed.join(", ") };
        if !listed.iter().any(|d| d == device) {
            notes.push(format!("{name} has no {device}; its RDMA devices: {all}"));
        }
    }
    if notes.is_empty() && snapshot.nodes.values().any(|r| r.facts.is_ok()) {
        let carrier = snapshot.nodes.iter().filter_map(|(name, record)| {
            let interfaces = record.facts.as_ref().ok()?.interfaces.as_ref().ok()?;
            let own = interfaces.iter().find(|i| rdma_device(&i.name) == device)?;
            (own.active == Some(false))
                .then(|| format!("{device} of {name} has no carrier: no cable, or its far end is off"))
        });
        notes.extend(carrier);
    }
    notes
}
