//! How a check says what it found: one builder, so that no finding lacks its parts, and words used by many checks.

use super::{Check, Context};
use crate::mesh::Link;
use crate::model::command::printable;
use crate::model::hardware::Mac;
use crate::model::{Category, Fact, FactError, FailureKind, Finding, NodeFacts, NodeName, Remedy, Verdict};

/// A check as a row of its file's table.
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) category: Category,
    pub(super) title: &'static str,
    pub(super) run: fn(&Context<'_>, &mut Say),
}

impl Check for Row {
    fn id(&self) -> &'static str {
        self.id
    }

    fn category(&self) -> Category {
        self.category
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn evaluate(&self, ctx: &Context<'_>) -> Vec<Finding> {
        let mut say = Say::new(self.id, self.category);
        (self.run)(ctx, &mut say);
        say.done()
    }
}

/// What a finding is about.
#[derive(Clone, Copy)]
pub(super) enum About<'a> {
    Rack,
    Node(&'a NodeName),
    Link(&'a Link),
    End(&'a Link, &'a NodeName),
}

/// What a warn or fail must come with.
pub(super) struct Trouble {
    pub(super) message: String,
    pub(super) observed: String,
    pub(super) expected: String,
    pub(super) remedy: Remedy,
}

/// Collects the findings of one check.
pub(super) struct Say {
    check: &'static str,
    category: Category,
    findings: Vec<Finding>,
}

impl Say {
    pub(super) fn new(check: &'static str, category: Category) -> Self {
        Say { check, category, findings: Vec::new() }
    }

    fn push(&mut self, verdict: Verdict, about: About<'_>, message: &str) -> &mut Finding {
        let (node, link) = match about {
            About::Rack => (None, None),
            About::Node(node) => (Some(node.clone()), None),
            About::Link(link) => (None, Some(link.to_ref())),
            About::End(link, node) => (Some(node.clone()), Some(link.to_ref())),
        };
        let index = self.findings.len();
        self.findings.push(Finding {
            check: self.check.to_owned(),
            category: self.category,
            verdict,
            node,
            link,
            message: printable(message),
            observed: None,
            expected: None,
            remedy: None,
            docs: format!("docs/checks.md#{}", self.check.replace('.', "-")),
        });
        &mut self.findings[index]
    }

    /// Looked at and right.
    pub(super) fn pass(&mut self, about: About<'_>, message: impl AsRef<str>) {
        self.push(Verdict::Pass, about, message.as_ref());
    }

    /// Could not be looked at, and why.
    pub(super) fn skip(&mut self, about: About<'_>, why: impl AsRef<str>) {
        self.push(Verdict::Skip, about, why.as_ref());
    }

    /// A fact; else says `skip` with why it is not known.
    pub(super) fn known<'f, T>(&mut self, about: About<'_>, fact: &'f Fact<T>) -> Option<&'f T> {
        match fact {
            Ok(value) => Some(value),
            Err(error) => {
                self.skip(about, unknown(error));
                None
            }
        }
    }

    /// Wrong, or worth attention.
    pub(super) fn trouble(&mut self, verdict: Verdict, about: About<'_>, trouble: Trouble) {
        let finding = self.push(verdict, about, &trouble.message);
        finding.observed = Some(printable(&trouble.observed));
        finding.expected = Some(printable(&trouble.expected));
        finding.remedy = Some(match trouble.remedy {
            Remedy::Run { commands } => Remedy::Run { commands: commands.iter().map(|c| printable(c)).collect() },
            Remedy::AtMachine { steps } => Remedy::AtMachine { steps: steps.iter().map(|s| printable(s)).collect() },
        });
    }

    /// The check itself broke.
    pub(super) fn crash(&mut self, why: &str) {
        let message = format!("the check itself broke (a defect of macluster, please report it): {why}");
        self.push(Verdict::Crash, About::Rack, &message);
    }

    /// Whether nothing was said yet.
    pub(super) fn silent(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn done(self) -> Vec<Finding> {
        self.findings
    }
}

/// Commands to type at the desk.
pub(super) fn run<S: Into<String>>(commands: impl IntoIterator<Item = S>) -> Remedy {
    Remedy::Run { commands: commands.into_iter().map(Into::into).collect() }
}

/// Steps at the machine.
pub(super) fn at_machine<S: Into<String>>(steps: impl IntoIterator<Item = S>) -> Remedy {
    Remedy::AtMachine { steps: steps.into_iter().map(Into::into).collect() }
}

/// Bytes as `76.8 GiB`.
pub(super) fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// `(needs rdma.enabled on studio-3)`: why a check is skipped.
pub(super) fn needs(check: &str, node: &NodeName) -> String {
    format!("not checked (needs {check} on {node})")
}

/// Why a check is skipped: nothing is known of a node, and this is what to see to first.
pub(super) fn unread(ctx: &Context<'_>, node: &NodeName) -> String {
    let failure = ctx.snapshot.nodes.get(node).and_then(|record| record.facts.as_ref().err());
    let check = match failure.map(|f| f.kind) {
        Some(FailureKind::UnknownHostKey | FailureKind::ChangedHostKey) => "ssh.host-key",
        Some(FailureKind::Authentication | FailureKind::OwnKey) => "ssh.login",
        Some(FailureKind::Unreachable | FailureKind::Lost) | None => "ssh.reachable",
    };
    needs(check, node)
}

/// Why a check is skipped: a fact is not known.
pub(super) fn unknown(error: &FactError) -> String {
    format!("not checked: {error}")
}

impl<'a> Context<'a> {
    /// Every node of the inventory.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a NodeName> + use<'a> {
        self.inventory.nodes.iter().map(|n| &n.name)
    }

    /// Facts of a node; else says `skip` for it.
    pub(super) fn facts_or_skip(&self, node: &NodeName, say: &mut Say) -> Option<&'a NodeFacts> {
        let facts = self.snapshot.facts(node);
        if facts.is_none() {
            say.skip(About::Node(node), unread(self, node));
        }
        facts
    }

    /// Judges every node whose facts are known; says `skip` for the others.
    pub(super) fn each_node(&self, say: &mut Say, mut judge: impl FnMut(&'a NodeName, &'a NodeFacts, &mut Say)) {
        for node in self.nodes() {
            if let Some(facts) = self.facts_or_skip(node, say) {
                judge(node, facts, say);
            }
        }
    }

    /// `studio-2 (slot 2)`.
    pub(super) fn label(&self, node: &NodeName) -> String {
        self.inventory.label(node)
    }

    /// `studio-2 (slot 2), receptacle 3 (back, third from the right; en4)`.
    pub(super) fn place(&self, node: &NodeName, receptacle: u32) -> String {
        let place = match self.snapshot.facts(node) {
            Some(facts) => Mac::of(facts).place(receptacle, crate::mesh::interface_of(facts, receptacle)),
            None => format!("receptacle {receptacle}"),
        };
        format!("{}, {place}", self.label(node))
    }

    /// The Mac of a node that answered.
    pub(super) fn mac(&self, node: &NodeName) -> Option<Mac> {
        self.snapshot.facts(node).map(Mac::of)
    }
}
