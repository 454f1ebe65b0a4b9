//! What became of the nodes of an apply or a revert.

use std::time::Duration;

use crate::model::NodeName;
use crate::playbook::PlaybookError;

/// What became of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The change stands.
    Complete,
    /// Nothing was changed, and why.
    Untouched(String),
    /// It has gone back to what was there before.
    Reverted {
        /// Why.
        why: String,
        /// What it did.
        log: Vec<String>,
    },
    /// It goes back by itself; that could not be watched.
    GoesBack {
        /// Why.
        why: String,
        /// Why it cannot be watched.
        unseen: String,
        /// Within this time.
        within: Duration,
    },
}

/// What happened on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Node.
    pub node: NodeName,
    /// Changes of its plan.
    pub changes: usize,
    /// What became of them.
    pub fate: Fate,
}

impl Fate {
    /// Why the change does not stand.
    pub fn why(&self) -> Option<String> {
        match self {
            Fate::Complete => None,
            Fate::Untouched(why) | Fate::Reverted { why, .. } | Fate::GoesBack { why, .. } => Some(why.clone()),
        }
    }
}

/// Why nothing was applied anywhere.
#[derive(Debug)]
pub enum ApplyError {
    /// Nodes that somebody else works on.
    Locked(Vec<(NodeName, String)>),
    /// The playbook cannot be used.
    Playbook(PlaybookError),
}

impl From<PlaybookError> for ApplyError {
    fn from(e: PlaybookError) -> Self {
        ApplyError::Playbook(e)
    }
}
