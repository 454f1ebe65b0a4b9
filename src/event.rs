//! What work says while it goes on. Work emits, views print.

use std::sync::Arc;

use crate::model::NodeName;

/// One thing that happened during a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A phase of apply or deploy begins; `title` is for people.
    PhaseStarted {
        /// Stable id, e.g. `push`.
        id: &'static str,
        /// Human title, e.g. `Copy the bundle to the nodes`.
        title: String,
    },
    /// The phase ended.
    PhaseDone {
        /// Stable id.
        id: &'static str,
        /// `false` when it failed.
        ok: bool,
    },
    /// Something slow begins on a node; the view may show a spinner until the matching `TaskDone`.
    TaskStarted {
        /// The node, or none for work at the desk.
        node: Option<NodeName>,
        /// What is being done, e.g. `reading facts`.
        what: String,
    },
    /// Bytes moved for a task (push, bundle download).
    Progress {
        /// The node, or none for work at the desk.
        node: Option<NodeName>,
        /// Same text as in `TaskStarted`.
        what: String,
        /// Bytes (or items) done.
        done: u64,
        /// Bytes (or items) in all; 0 when unknown.
        total: u64,
    },
    /// The task ended.
    TaskDone {
        /// The node, or none for work at the desk.
        node: Option<NodeName>,
        /// Same text as in `TaskStarted`.
        what: String,
        /// The reason when it failed.
        error: Option<String>,
    },
    /// A privileged or changing command that runs now, as it would be typed.
    Command {
        /// Where.
        node: NodeName,
        /// The command line, secrets left out.
        line: String,
    },
    /// One of the many commands of a long playbook; shown only to those who want to see everything.
    Detail {
        /// Where.
        node: NodeName,
        /// The command line, secrets left out.
        line: String,
    },
    /// A remark for the person.
    Note {
        /// The node, if it concerns one.
        node: Option<NodeName>,
        /// One line.
        text: String,
    },
    /// A remark that deserves attention (a slower path, an unprotected one).
    Warning {
        /// The node, if it concerns one.
        node: Option<NodeName>,
        /// One line.
        text: String,
    },
}

/// Takes events. Implemented by the views; must not block for long.
pub trait Sink: Send + Sync {
    /// Takes one event.
    fn emit(&self, event: Event);

    /// Runs `question` while nothing is drawn, so that a prompt stays readable.
    fn quietly(&self, question: &mut dyn FnMut()) {
        question();
    }
}

/// A shared sink, handed down to all work.
pub type Events = Arc<dyn Sink>;

/// Drops everything: for tests and for work without a viewer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Sink for Silent {
    fn emit(&self, _event: Event) {}
}

/// A sink that drops everything.
#[must_use]
pub fn silent() -> Events {
    Arc::new(Silent)
}
