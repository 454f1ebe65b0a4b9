//! Why a node did not get a model: a connection that broke is another matter than everything else.

use std::fmt;

use crate::phase::runtime::StepError;
use crate::remote::RemoteError;

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The desk's connection to the node; what has arrived is still there.
    Broke(String),
    /// Anything else, in words.
    Other(String),
}

impl From<StepError> for Trouble {
    fn from(error: StepError) -> Self {
        let text = error.words();
        match error {
            StepError::Remote(RemoteError::Lost(_) | RemoteError::Connect(_)) => Trouble::Broke(text),
            _ => Trouble::Other(text),
        }
    }
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Trouble::Other(text)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Trouble::Broke(text) | Trouble::Other(text)) = self;
        f.write_str(text)
    }
}
