//! From a word to what runs: a simulated tool, a real program that was brought to the node, or nothing.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::store::Node;
use super::tools::{self, Tool};

/// What a word stands for on a node.
#[derive(Clone, Debug)]
pub(super) enum Resolved {
    /// A simulated tool under this name.
    Tool(String, Tool),
    /// A real executable inside the node (or the declared Python).
    Program(PathBuf),
    /// Exists, but cannot be executed.
    Denied,
    /// Nothing there.
    Missing,
}

/// Resolves the first word of a command: a bare name along the PATH of an SSH session, else a path.
pub(super) fn resolve(node: &Node, word: &str, cwd: &Path) -> Resolved {
    if word.contains('/') {
        return at(node, &cwd.join(word));
    }
    for dir in tools::PATH_DIRS {
        match at(node, &node.rooted(dir).join(word)) {
            Resolved::Missing => {}
            found => return found,
        }
    }
    Resolved::Missing
}

fn at(node: &Node, path: &Path) -> Resolved {
    let Some(place) = inside(node, path) else {
        node.trip(&format!("program outside the node: {}", path.display()));
        return Resolved::Missing;
    };
    let Ok(kind) = fs::symlink_metadata(&place) else { return Resolved::Missing };
    if kind.is_symlink() {
        let relative = place.strip_prefix(&node.root).unwrap_or(&place);
        if let Some(tool) = tools::find(&format!("/{}", relative.display())) {
            let name = place.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            return Resolved::Tool(name, tool);
        }
        let Ok(target) = fs::canonicalize(&place) else { return Resolved::Missing };
        if !target.starts_with(&node.root) && !is_declared_python(node, &target) {
            node.trip(&format!("program is a link that leaves the node: {}", place.display()));
            return Resolved::Missing;
        }
    }
    match fs::metadata(&place) {
        Ok(meta) if meta.is_file() && is_executable(&meta) => Resolved::Program(place),
        Ok(_) => Resolved::Denied,
        Err(_) => Resolved::Missing,
    }
}

fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o111 != 0
}

/// The one program outside the node that may run, and whatever is the same interpreter (a venv's link to it).
fn is_declared_python(node: &Node, target: &Path) -> bool {
    let declared = node.rack().ok().and_then(|r| r.python);
    declared.and_then(|p| fs::canonicalize(p).ok()).is_some_and(|p| p == target)
}

/// The path with every folder's symbolic links followed (not those of its last part), if it lies in the node.
/// Parts that do not exist yet are taken as they are.
pub(super) fn inside(node: &Node, path: &Path) -> Option<PathBuf> {
    // The root itself may be named through a link (macOS: /tmp is one), so only the real place counts.
    let name = match path.components().next_back()? {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    };
    let folder = match &name {
        Some(_) => real(path.parent()?)?,
        None => real(path)?,
    };
    let place = name.map_or_else(|| folder.clone(), |n| folder.join(n));
    place.starts_with(&node.root).then_some(place)
}

/// `canonicalize` that tolerates missing parts at the end, as long as none of them is `..`.
fn real(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match fs::canonicalize(existing) {
            Ok(found) => return Some(missing.into_iter().rev().fold(found, |p: PathBuf, part| p.join(part))),
            Err(_) => match existing.components().next_back()? {
                // A link that leads nowhere would be followed when something is created behind it.
                Component::Normal(_) if fs::symlink_metadata(existing).is_ok() => return None,
                Component::Normal(part) => {
                    missing.push(part.to_owned());
                    existing = existing.parent()?;
                }
                _ => return None,
            },
        }
    }
}
