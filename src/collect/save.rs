//! Writes a snapshot to a file.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::exit::{Exit, Failure};
use crate::model::Snapshot;

/// Writes it whole or not at all, readable by its owner only: transcripts hold serial numbers and addresses.
///
/// # Errors
/// The file exists and `force` is not set (exit 2), or it cannot be written (exit 1).
pub fn save(snapshot: &Snapshot, path: &Path, force: bool) -> Result<(), Failure> {
    let shown = path.display();
    let cannot = |e: &dyn std::fmt::Display| Failure::new(Exit::Unexpected, format!("cannot write {shown}: {e}"));
    let mut text = serde_json::to_vec_pretty(snapshot).map_err(|e| cannot(&e))?;
    text.push(b'\n');
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".macluster-snapshot-").tempfile_in(dir).map_err(|e| cannot(&e))?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(|e| cannot(&e))?;
    file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(|e| cannot(&e))?;
    if force {
        file.persist(path).map_err(|e| cannot(&e.error))?;
        return Ok(());
    }
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(e) => Err(cannot(&e.error)),
    }
}

/// The refusal to overwrite; also given before anything is read from the nodes.
pub(super) fn exists(path: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("{} exists already", path.display())).hint("overwrite it with --force")
}
