//! What a login shell prints before any command's own output: taken off, lest a greeting be read as data.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::exec::Watch;
use super::program::Programs;
use super::session::Session;
use crate::model::{Cmd, Output};

/// The noise of one node's logins.
#[derive(Clone, Debug, Default)]
pub(super) struct Noise {
    pub(super) stdout: Arc<[u8]>,
    pub(super) stderr: Arc<[u8]>,
}

/// Measured once per connection, by a command that prints nothing itself.
#[derive(Default)]
pub(super) struct Ear(OnceCell<Noise>);

/// More than this is no greeting.
const MAX: usize = 64 * 1024;

impl Ear {
    pub(super) async fn noise(&self, session: &Session, programs: &Programs) -> Noise {
        let listen = async {
            let mut cmd = Cmd::read("/usr/bin/true", [""; 0]).timeout(Duration::from_secs(10));
            cmd.max_output = MAX;
            match programs.run(session, &cmd, &[], None, &mut Watch::default()).await {
                Ok(Output { exit: Some(0), stdout, stderr, truncated: false, .. }) => {
                    Noise { stdout: stdout.into(), stderr: stderr.into() }
                }
                // Had it not run, this would be its error message, and no noise.
                _ => Noise::default(),
            }
        };
        self.0.get_or_init(|| listen).await.clone()
    }
}

/// Takes a known beginning off a stream that arrives in pieces.
#[derive(Debug)]
pub(super) struct Skip {
    beginning: Arc<[u8]>,
    /// Bytes of the beginning that came so far; none once it is decided.
    seen: Option<usize>,
}

impl Skip {
    pub(super) fn new(beginning: Arc<[u8]>) -> Self {
        Skip { beginning, seen: Some(0) }
    }

    /// Hands on what is not the beginning: first what was held back wrongly, then the rest of this piece.
    pub(super) fn pass(&mut self, piece: &[u8], mut to: impl FnMut(&[u8])) {
        let Some(seen) = self.seen else {
            return to(piece);
        };
        let expected = self.beginning.get(seen..).unwrap_or_default();
        let common = expected.len().min(piece.len());
        let (Some(start), Some(rest)) = (piece.get(..common), piece.get(common..)) else {
            return;
        };
        if expected.get(..common) != Some(start) {
            self.seen = None;
            self.held(seen, &mut to);
            to(piece);
        } else if common == expected.len() {
            self.seen = None;
            if !rest.is_empty() {
                to(rest);
            }
        } else {
            self.seen = Some(seen + common);
        }
    }

    /// The stream ended: what looked like the beginning and is not all of it belongs to the command.
    pub(super) fn end(&mut self, mut to: impl FnMut(&[u8])) {
        if let Some(seen) = self.seen.take() {
            self.held(seen, &mut to);
        }
    }

    fn held(&self, seen: usize, to: &mut impl FnMut(&[u8])) {
        if let Some(held) = self.beginning.get(..seen).filter(|h| !h.is_empty()) {
            to(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(beginning: &str, pieces: &[&str]) -> String {
        let mut skip = Skip::new(beginning.as_bytes().into());
        let mut out = Vec::new();
        for piece in pieces {
            skip.pass(piece.as_bytes(), |b| out.extend_from_slice(b));
        }
        skip.end(|b| out.extend_from_slice(b));
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn only_the_whole_beginning_is_taken_off() {
        for (beginning, pieces, expected) in [
            ("", vec!["data"], "data"),
            ("hi\n", vec!["hi\ndata"], "data"),
            ("hi\n", vec!["h", "i", "\n", "da", "ta"], "data"),
            ("hi\n", vec!["h", "i\nhi\n"], "hi\n"),
            ("hi\n", vec!["h", "o"], "ho"),
            ("hi\n", vec!["hi"], "hi"),
            ("hi\n", vec![], ""),
            ("hi\n", vec!["hi\n"], ""),
            ("hi\n", vec!["data"], "data"),
        ] {
            assert_eq!(through(beginning, &pieces), expected, "{pieces:?}");
        }
    }
}
