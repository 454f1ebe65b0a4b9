//! `macluster node status`: what the agent wrote, and whether it can be believed.

use std::path::Path;

use jiff::Timestamp;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::activate;
use super::layout::Layout;
use super::lock::Lock;
use super::releases::{self, Configured};
use super::status::Status;

/// A report that is older is not believed.
pub const FRESH_MS: i64 = 10_000;

/// One node's answer, made on the node with the node's own clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// 1.
    pub schema_version: u32,
    /// Active release.
    pub active: Option<String>,
    /// What the configuration in place belongs to; none on a node that has none, or stays idle.
    #[serde(default)]
    pub configured: Option<Configured>,
    /// What the agent wrote last; none without an agent so far.
    pub status: Option<Status>,
    /// Milliseconds since then.
    pub age_ms: Option<i64>,
    /// The agent's process lives and holds the agent's lock.
    pub agent_alive: bool,
    /// The engine's process lives.
    pub engine_alive: bool,
    /// The node's clock.
    pub now: Timestamp,
}

impl Report {
    /// The status, if it is the word of a living agent, and recent.
    pub fn believed(&self) -> Option<&Status> {
        let fresh = self.age_ms.is_some_and(|age| (-FRESH_MS..=FRESH_MS).contains(&age));
        self.status.as_ref().filter(|_| self.agent_alive && fresh)
    }
}

/// Looks at this node.
///
/// # Errors
/// When there is a status file that cannot be read.
pub fn report(layout: &Layout) -> Result<Report, String> {
    let path = layout.status_file();
    let status: Option<Status> = if Path::new(&path).exists() { Some(super::config::read(&path)?) } else { None };
    let now = Timestamp::now();
    let lives = |pid: u32| {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // Not permitted to signal it: it lives, and is somebody else's.
        pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)))
    };
    Ok(Report {
        schema_version: 1,
        active: activate::active(layout),
        configured: releases::configured(&layout.etc()),
        age_ms: status.as_ref().map(|s| now.as_millisecond() - s.written_at.as_millisecond()),
        agent_alive: status.as_ref().is_some_and(|s| lives(s.agent_pid)) && Lock::held(&layout.lock_file()),
        engine_alive: status.as_ref().and_then(|s| s.engine_pid).is_some_and(lives),
        status,
        now,
    })
}
