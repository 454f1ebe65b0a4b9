//! What this boot of the node has already cost: starts that failed, and engines that did not end by themselves.
//!
//! An engine that is killed does not give its RDMA resources back (FAILURES F1: a handful of such ends, and nothing
//! starts any more until the node is restarted). The count must survive the agent, but not the boot.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The two counts, and the epoch, which only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Counts {
    boot: String,
    attempts: u32,
    debits: u32,
    epoch: u64,
}

/// The counts of this node.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    counts: Counts,
}

impl Ledger {
    /// Reads the file; of another boot only the epoch counts. One that cannot be read is begun anew.
    pub fn open(path: impl AsRef<Path>) -> Self {
        Self::open_in(path, boot())
    }

    fn open_in(path: impl AsRef<Path>, boot: String) -> Self {
        let path = path.as_ref().to_owned();
        let read = || serde_json::from_str(&std::fs::read_to_string(&path).ok()?).ok();
        let old: Counts = read().unwrap_or_default();
        let counts = if old.boot == boot { old } else { Counts { boot, epoch: old.epoch, ..Counts::default() } };
        Ledger { path, counts }
    }

    /// Starts that failed.
    pub fn attempts(&self) -> u32 {
        self.counts.attempts
    }

    /// Engines that did not end by themselves.
    pub fn debits(&self) -> u32 {
        self.counts.debits
    }

    /// The last epoch.
    pub fn epoch(&self) -> u64 {
        self.counts.epoch
    }

    /// One more engine did not end by itself.
    pub fn debit(&mut self) {
        self.counts.debits = self.counts.debits.saturating_add(1);
        self.save();
    }

    /// Keeps what the leader counts.
    pub fn keep(&mut self, attempts: u32, epoch: u64) {
        if (self.counts.attempts, self.counts.epoch) != (attempts, epoch) {
            self.counts.attempts = attempts;
            self.counts.epoch = epoch;
            self.save();
        }
    }

    /// A disk that is full stops nothing: the counts then live as long as the agent.
    fn save(&self) {
        let write = || -> std::io::Result<()> {
            let fresh = self.path.with_extension("new");
            let mut file = std::fs::File::create(&fresh)?;
            file.write_all(&serde_json::to_vec(&self.counts)?)?;
            file.sync_all()?;
            std::fs::rename(&fresh, &self.path)
        };
        let _ = write();
    }
}

/// What names this boot of the machine.
///
/// xnu has `kern.bootsessionuuid`; where it is missing, the time of the boot, and Linux has a file.
fn boot() -> String {
    let sysctl = |name: &str| {
        let output = Command::new("sysctl").args(["-n", name]).stdin(std::process::Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    sysctl("kern.bootsessionuuid")
        .or_else(|| sysctl("kern.boottime"))
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok())
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outlive_the_agent_and_end_with_the_boot() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("ledger.json");
        let mut ledger = Ledger::open_in(&path, "one".into());
        ledger.debit();
        ledger.keep(3, 7);
        let again = Ledger::open_in(&path, "one".into());
        assert_eq!((again.attempts(), again.debits(), again.epoch()), (3, 1, 7));
        let booted = Ledger::open_in(&path, "two".into());
        assert_eq!((booted.attempts(), booted.debits(), booted.epoch()), (0, 0, 7));
        std::fs::write(&path, "{").expect("written");
        assert_eq!(Ledger::open_in(&path, "two".into()).epoch(), 0);
    }
}
