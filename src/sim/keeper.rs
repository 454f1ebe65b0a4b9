//! A process beside a running rack that outlives it: when the rack's own process is gone, however it ended, it ends what
//! was started for the nodes. It waits at a pipe whose other end only the rack holds.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::processes;
use super::store::Node;

/// How long the keeper of a rack that has stopped may take to end.
const LIMIT: Duration = Duration::from_secs(10);

/// The keeper of one rack. Dropping it lets it do its work.
#[derive(Debug)]
pub(super) struct Keeper(Child);

impl Keeper {
    /// Starts it for the rack in `dir`, out of this macluster binary.
    ///
    /// # Errors
    /// The binary cannot be run.
    pub(super) fn start(binary: &Path, dir: &Path) -> io::Result<Keeper> {
        let child = Command::new(binary)
            .args(["sim", "--keeper"])
            .arg(dir)
            // An interrupt typed at the rack's terminal is not for the keeper.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Keeper(child))
    }

    /// Lets it go and waits until it has ended.
    pub(super) async fn end(mut self) {
        drop(self.0.stdin.take());
        // Nothing depends on it: the rack has ended its processes itself.
        let _ = tokio::time::timeout(LIMIT, self.0.wait()).await;
    }
}

/// The keeper's work: ends every process that a rack's nodes still have. For a rack whose own process is gone.
///
/// # Errors
/// The folder cannot be read; one that is gone has nothing left.
pub fn end_what_is_left(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir.join("nodes")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        processes::kill_all(&Node::of(dir, &entry?.file_name().to_string_lossy()));
    }
    Ok(())
}
