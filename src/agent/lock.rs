//! One agent per node: a lock that the kernel gives back when its holder is gone, however it went.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group};

use super::layout::Layout;

/// Held until dropped.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "closing it gives the lock back")] File);

impl Lock {
    /// Waits for the lock.
    ///
    /// # Errors
    /// When somebody else holds it all that time, or the file cannot be made.
    pub async fn acquire(path: &str, limit: Duration) -> Result<Self, String> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .open(path)
            .map_err(|e| format!("cannot write {path}: {e}"))?;
        let started = Instant::now();
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if started.elapsed() >= limit {
                return Err(format!("another agent runs on this node: {path} is held"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(Lock(file))
    }

    /// Whether somebody holds the lock. A missing file is held by nobody.
    pub fn held(path: &str) -> bool {
        File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
    }
}

/// Held by the engine's own process: it inherits the open file, and the kernel gives the lock back when it is gone.
/// So the next agent knows whether an engine outlived the last one, and which process that is.
#[derive(Debug)]
pub struct EngineLock(File);

impl EngineLock {
    /// Takes the lock for an engine that is about to start.
    ///
    /// # Errors
    /// When an engine holds it.
    pub fn take(layout: &Layout) -> Result<Self, String> {
        let path = layout.engine_lock_file();
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(&path);
        let file = open.map_err(|e| format!("cannot write {path}: {e}"))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("an engine of an earlier agent still runs: {path} is held"))?;
        Ok(EngineLock(file))
    }

    /// Starts a process that inherits the lock.
    ///
    /// # Errors
    /// When the file cannot be passed on.
    pub fn passed<T>(&self, start: impl FnOnce() -> T) -> Result<T, String> {
        let set = |flags| fcntl_setfd(&self.0, flags).map_err(|e| format!("cannot pass the engine's lock on: {e}"));
        set(FdFlags::empty())?;
        let started = start();
        set(FdFlags::CLOEXEC)?;
        Ok(started)
    }

    /// Notes whose it is. Without the note the lock still says that an engine lives.
    pub fn name(&self, pid: u32) {
        let _ = self.0.set_len(0);
        let _ = (&self.0).write_all(pid.to_string().as_bytes());
    }
}

/// Waits until no engine of an earlier agent is left, and ends one that does not end by itself. Gives what was done.
///
/// # Errors
/// When it is there after all that.
pub async fn clear_orphan(layout: &Layout, limit: Duration) -> Result<Option<String>, String> {
    let path = layout.engine_lock_file();
    let started = Instant::now();
    let mut killed = None;
    while Lock::held(&path) {
        let waited = started.elapsed();
        if waited >= limit && killed.is_none() {
            // It holds the lock, so it lives, and the number is its own.
            let pid = std::fs::read_to_string(&path).ok().and_then(|t| t.trim().parse::<i32>().ok());
            let pid = pid.and_then(Pid::from_raw).ok_or_else(|| format!("{path} is held, nobody knows by whom"))?;
            let _ = kill_process_group(pid, Signal::KILL);
            killed = Some(pid.as_raw_nonzero());
        } else if waited >= limit * 2 {
            return Err(format!("an engine of an earlier agent cannot be ended: {path} is held; restart the node"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(killed.map(|pid| format!("ended process {pid}, an engine that had outlived its agent")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_holder_waits_and_then_says_why() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("lock").to_string_lossy().into_owned();
        assert!(!Lock::held(&path));
        let first = Lock::acquire(&path, Duration::ZERO).await.expect("free");
        assert!(Lock::held(&path));
        assert!(Lock::acquire(&path, Duration::from_millis(150)).await.expect_err("held").contains("another agent"));
        drop(first);
        assert!(!Lock::held(&path));
        Lock::acquire(&path, Duration::ZERO).await.expect("free again");
    }
}
