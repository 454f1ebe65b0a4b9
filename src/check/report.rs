//! All findings of one run, in a stable order, and what they come to.

use jiff::Timestamp;
use serde::Serialize;

use super::Context;
use crate::model::{Finding, NodeName, Verdict};

/// Version of the JSON report.
pub const SCHEMA_VERSION: u32 = 1;

/// What doctor says. Serialises as the documented JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The rack's name.
    pub rack: String,
    /// The worst verdict of all findings.
    pub verdict: Verdict,
    /// When the facts were read.
    pub taken_at: Timestamp,
    /// How many findings of each verdict.
    pub summary: Summary,
    /// Every result, passes and skips too: what is urgent first, then by category, check, node, link.
    pub findings: Vec<Finding>,
}

/// How many findings of each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Right.
    pub pass: usize,
    /// Works, but deserves attention.
    pub warn: usize,
    /// Wrong.
    pub fail: usize,
    /// Could not be checked.
    pub skip: usize,
    /// The check broke.
    pub crash: usize,
}

/// Comes before everything else: the rack, and the network around it, suffer now.
pub fn is_urgent(finding: &Finding) -> bool {
    finding.check == super::network::URGENT && finding.verdict > Verdict::Skip
}

impl Report {
    pub(super) fn new(ctx: &Context<'_>, findings: Vec<Finding>) -> Report {
        let mut report = Report {
            schema_version: SCHEMA_VERSION,
            rack: ctx.inventory.rack.clone(),
            verdict: Verdict::Skip,
            taken_at: ctx.snapshot.taken_at,
            summary: Summary::default(),
            findings,
        };
        report.findings.sort_by(|x, y| {
            let key = |f: &Finding| {
                (!is_urgent(f), f.category, f.check.clone(), f.node.clone(), f.link.clone(), f.message.clone())
            };
            key(x).cmp(&key(y))
        });
        report.count();
        report
    }

    /// Keeps the findings that concern one of these nodes, and those of the rack as a whole.
    pub fn keep_nodes(&mut self, nodes: &[NodeName]) {
        self.findings.retain(|f| {
            let named: Vec<&NodeName> =
                f.node.iter().chain(f.link.iter().flat_map(|l| [&l.a.node, &l.b.node])).collect();
            named.is_empty() || named.into_iter().any(|n| nodes.contains(n))
        });
        self.count();
    }

    /// Failures of these checks only warn.
    pub fn soften(&mut self, checks: &[String]) {
        let fails = |f: &&mut Finding| f.verdict == Verdict::Fail && checks.contains(&f.check);
        self.findings.iter_mut().filter(fails).for_each(|f| f.verdict = Verdict::Warn);
        self.count();
    }

    fn count(&mut self) {
        let of = |v: Verdict| self.findings.iter().filter(|f| f.verdict == v).count();
        self.summary = Summary {
            pass: of(Verdict::Pass),
            warn: of(Verdict::Warn),
            fail: of(Verdict::Fail),
            skip: of(Verdict::Skip),
            crash: of(Verdict::Crash),
        };
        // Nothing looked at is no pass.
        self.verdict = self.findings.iter().map(|f| f.verdict).max().unwrap_or(Verdict::Skip);
    }
}
