//! A fact, or why it is not known.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fact, or why it is not known.
pub type Fact<T> = Result<T, FactError>;

/// Why a fact is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactError {
    /// The tool that should have told, e.g. `ibv_devinfo`.
    pub tool: String,
    /// What kind of trouble.
    pub kind: FactErrorKind,
    /// Line of the tool's output, counted from 1, where reading stopped.
    pub line: Option<usize>,
    /// What went wrong, in words, already safe to print.
    pub message: String,
}

/// Kinds of [`FactError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactErrorKind {
    /// The program does not exist on the node (exit 127).
    CommandMissing,
    /// The program ran and failed.
    Failed,
    /// The program gave no answer in time.
    Timeout,
    /// The output has no shape that is known.
    Malformed,
    /// The output was cut at the size limit.
    Truncated,
    /// It was never asked.
    NotCollected,
}

impl fmt::Display for FactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.tool, self.message),
            None => write!(f, "{}: {}", self.tool, self.message),
        }
    }
}

impl std::error::Error for FactError {}

/// A fact of a recording that is older than the question.
pub(super) fn not_asked<T>(tool: &str) -> Fact<T> {
    let (tool, message) = (tool.to_owned(), "was not asked".to_owned());
    Err(FactError { tool, kind: FactErrorKind::NotCollected, line: None, message })
}
