//! Turns a node of a running rack off and on again.

use std::io;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::boot;
use super::super::processes;
use super::super::server::Outage;
use super::RunningRack;

/// How long the work of a node may go on after its processes were killed.
const LIMIT: Duration = Duration::from_secs(30);

impl RunningRack {
    /// Restarts a node as a power failure does: every connection breaks, every process and job is gone, and with them
    /// what [`boot::restart`] takes away. Then launchd loads `/Library/LaunchDaemons`, and connections are taken again.
    ///
    /// # Errors
    /// No such node, its files cannot be read or written, or a command on it does not end within 30 s.
    pub async fn reboot(&self, name: &str) -> io::Result<()> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("no node is called `{name}`"));
        let node = &self.node(name).ok_or_else(unknown)?.node;
        self.launchd.forget(node);
        let (off, mut idle) = oneshot::channel();
        let (on, resume) = oneshot::channel();
        // A node without a server has nothing to wait for.
        let served = match self.switches.get(name) {
            Some(switch) => switch.send(Outage { off, on: resume }).await.is_ok(),
            None => false,
        };
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            // Commands wait for their programs, and may start more until they have ended.
            let target = node.clone();
            tokio::task::spawn_blocking(move || processes::kill_all(&target)).await.map_err(io::Error::other)?;
            if !served || idle.try_recv().is_ok() {
                break;
            }
            if tokio::time::Instant::now() >= end {
                return Err(io::Error::new(io::ErrorKind::TimedOut, format!("a command on {name} does not end")));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        boot::restart(node)?;
        self.launchd.boot(node)?;
        let _ = on.send(());
        Ok(())
    }
}
