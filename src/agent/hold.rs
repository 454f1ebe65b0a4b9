//! `macluster node hold`: holds the lock of operations for a desk, as long as the desk listens.

use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::layout::Layout;

/// A desk that was just left still holds the lock for a moment.
const PATIENCE: Duration = Duration::from_secs(12);
/// A sign of life, whose failure tells that the desk is gone.
const BEAT: Duration = Duration::from_secs(2);

/// Says `held` and stays until nobody listens any more, or says `busy WHO` and ends.
///
/// # Errors
/// When the lock file cannot be used.
pub fn hold(layout: &Layout, who: &str) -> Result<(), String> {
    let path = layout.operation_lock_file();
    if let Some(folder) = std::path::Path::new(&path).parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    }
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(&path);
    let mut file = open.map_err(|e| format!("cannot write {path}: {e}"))?;
    let mut out = std::io::stdout();
    let started = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if started.elapsed() >= PATIENCE {
            let mut by = String::new();
            let _ = file.read_to_string(&mut by);
            let by = by.lines().next().filter(|l| !l.is_empty()).unwrap_or("nobody knows whose");
            let _ = writeln!(out, "busy {by}");
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let note = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).and_then(|_| writeln!(file, "{who}"));
    note.map_err(|e| format!("cannot write {path}: {e}"))?;
    let mut say = |text: &str| writeln!(out, "{text}").and_then(|()| out.flush());
    if say("held by us").is_err() {
        return Ok(());
    }
    while say(".").is_ok() {
        std::thread::sleep(BEAT);
    }
    Ok(())
}
