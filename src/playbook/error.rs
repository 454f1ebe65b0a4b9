//! What can be wrong with a playbook, and where.

use std::fmt;

use crate::exit::{Exit, Failure};

/// A playbook that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaybookError {
    /// The file as the reader knows it: a path given with `--playbooks`, else `playbooks/NAME.yaml` (built in).
    pub file: String,
    /// Line and column, counted from 1; none when the trouble has no place.
    pub at: Option<(u64, u64)>,
    /// What is wrong and what was expected.
    pub message: String,
}

impl PlaybookError {
    pub(super) fn new(file: &str, at: Option<(u64, u64)>, message: impl Into<String>) -> Self {
        PlaybookError { file: file.to_owned(), at, message: message.into() }
    }
}

impl fmt::Display for PlaybookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for PlaybookError {}

impl From<PlaybookError> for Failure {
    fn from(e: PlaybookError) -> Self {
        Failure::new(Exit::Inventory, e.to_string()).hint("docs/playbooks.md describes every key and placeholder")
    }
}
