//! Reads `macluster.yaml`. Strict: whatever is not understood is an error with line and column.

mod edit;
mod problem;
mod rules;
mod schema;
mod section;
mod starter;
mod tree;

use std::io::Read as _;
use std::path::{Path, PathBuf};

pub use edit::with_host;
pub use problem::{InventoryError, Place, Problem};
pub use starter::{names_for, starter};

use crate::exit::{Exit, Failure};
use crate::model::Inventory;

/// The file's name when none is given.
pub const FILE_NAME: &str = "macluster.yaml";

/// Bytes an inventory may have; a larger file is something else.
const MAX_BYTES: u64 = 1024 * 1024;

/// Loads the inventory from this file, or from `macluster.yaml` found upwards from the working directory.
///
/// # Errors
/// Exit 3: not found, not readable, or not a valid inventory (with file, line and column).
pub fn load(file: Option<&Path>) -> Result<Inventory, Failure> {
    let path = match file {
        Some(path) => path.to_owned(),
        None => find()?,
    };
    let text = text_of(&path)?;
    read(&text, Some(&path)).map_err(Failure::from)
}

/// Reads an inventory from its text. `source` is named in messages, and relative key files stand beside it.
///
/// # Errors
/// Everything that is wrong with it, each with its place.
pub fn read(text: &str, source: Option<&Path>) -> Result<Inventory, InventoryError> {
    let home = std::env::var_os("HOME").filter(|h| !h.is_empty()).map(PathBuf::from);
    let outside = schema::Outside { source, home: home.as_deref() };
    // Editors on other systems begin files with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    schema::read(text, &outside).map_err(|problems| InventoryError::new(source.map(Path::to_path_buf), problems))
}

/// There is a `macluster.yaml` in the working directory or above it.
pub fn is_near() -> bool {
    find().is_ok()
}

/// Looks for `macluster.yaml` in the working directory and above it.
fn find() -> Result<PathBuf, Failure> {
    let cwd = std::env::current_dir()
        .map_err(|e| Failure::new(Exit::Inventory, format!("the working directory cannot be read: {e}")))?;
    // Relative paths keep the messages short; the working directory does not change while macluster runs.
    let mut up = PathBuf::new();
    for _ in cwd.ancestors() {
        let candidate = up.join(FILE_NAME);
        if candidate.is_file() {
            return Ok(candidate);
        }
        up.push("..");
    }
    Err(Failure::new(Exit::Inventory, format!("no {FILE_NAME} in {} or above it", cwd.display()))
        .hint("macluster init --hosts HOST,HOST writes one; -f FILE names another"))
}

/// The file's text. Pipes are read too (`-f <(…)`).
fn text_of(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let failed = |why: String| Failure::new(Exit::Inventory, format!("{name}: {why}"));
    let unread = |e: std::io::Error| {
        let failure = failed(e.to_string());
        if e.kind() == std::io::ErrorKind::NotFound {
            failure.hint("macluster init --hosts HOST,HOST writes one")
        } else {
            failure
        }
    };
    if path.is_dir() {
        return Err(failed("expected a file, found a folder".to_owned()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(unread)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(format!("this is no inventory: expected at most {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(e.as_bytes().get(..good).unwrap_or_default());
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Failure::new(Exit::Inventory, format!("{name}:{line}:{column}: expected UTF-8 text, found other bytes"))
            .hint("save the file as UTF-8")
    })
}
