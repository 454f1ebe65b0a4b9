//! What is wrong with an inventory: place, message, next action.

use std::fmt;
use std::path::PathBuf;

use crate::exit::{Exit, Failure};

/// Problems shown of one file; more would only scroll the first ones away.
const SHOWN: usize = 20;

/// Line and column, both counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl From<serde_yaml::Location> for Place {
    fn from(location: serde_yaml::Location) -> Self {
        Place { line: location.line().max(1), column: location.column().max(1) }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Place,
    /// What, and what was expected.
    pub message: String,
    /// Next action.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub(super) fn new(at: Place, message: impl Into<String>) -> Self {
        Problem { at, message: message.into(), hint: None }
    }

    /// With a next action.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why an inventory cannot be used: at least one problem, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryError {
    /// The file; none for the inventory inside a snapshot.
    pub source: Option<PathBuf>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl InventoryError {
    /// Sorts the problems by place.
    pub(super) fn new(source: Option<PathBuf>, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|p| p.at);
        InventoryError { source, problems }
    }
}

impl fmt::Display for InventoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.source {
            Some(path) => path.display().to_string(),
            None => "inventory".to_owned(),
        };
        for (n, problem) in self.problems.iter().take(SHOWN).enumerate() {
            let newline = if n == 0 { "" } else { "\n" };
            write!(f, "{newline}{name}:{}:{}: {}", problem.at.line, problem.at.column, problem.message)?;
        }
        match self.problems.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, "\n{name}: and {more} more"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for InventoryError {}

impl From<InventoryError> for Failure {
    fn from(error: InventoryError) -> Self {
        let failure = Failure::new(Exit::Inventory, error.to_string());
        let several = error.problems.len() > 1;
        error.problems.into_iter().take(SHOWN).fold(failure, |failure, problem| match problem.hint {
            Some(hint) if several => failure.hint(format!("line {}: {hint}", problem.at.line)),
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }
}
