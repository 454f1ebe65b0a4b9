//! A file that a command leaves for the operator.

use std::io::Write;
use std::path::Path;

/// Writes it whole or not at all: beside its place first, then renamed.
///
/// # Errors
/// The folder is missing or cannot be written, or `path` is a folder.
pub(super) fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".macluster-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}
