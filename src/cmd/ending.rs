//! Everything that asks a command that waits to end: Ctrl-C, a request to terminate, a terminal that is gone.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// From its making on, none of them ends the process by itself.
pub(super) struct Ending([Signal; 3]);

impl Ending {
    pub(super) fn new() -> Result<Self, Failure> {
        let one =
            |kind| signal(kind).map_err(|e| Failure::new(Exit::Unexpected, format!("cannot wait for signals: {e}")));
        Ok(Ending([one(SignalKind::interrupt())?, one(SignalKind::terminate())?, one(SignalKind::hangup())?]))
    }

    /// The next of them.
    pub(super) async fn asked(&mut self) {
        let [one, two, three] = &mut self.0;
        tokio::select! { _ = one.recv() => {}, _ = two.recv() => {}, _ = three.recv() => {} }
    }
}
