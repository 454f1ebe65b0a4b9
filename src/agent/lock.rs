//! One agent per node: a lock that the kernel gives back when its holder is gone, however it went.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

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
