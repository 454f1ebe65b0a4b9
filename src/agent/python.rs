//! Which Python the node has at the place the inventory names.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::model::command::printable;
use crate::model::inventory::Paths;

/// A Python of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePython {
    /// Absolute path.
    pub path: String,
    /// Its minor, e.g. `3.12`.
    pub minor: String,
}

/// Finds `<root><python>`, else `python` as given, and asks it its version.
///
/// # Errors
/// Names both places when there is nothing; else what the program answered.
pub fn find(root: &str, python: &str) -> Result<NodePython, String> {
    let rooted = Paths::rooted(root, python);
    let places = if rooted == python { vec![rooted] } else { vec![rooted, python.to_owned()] };
    let Some(path) = places.iter().find(|p| Path::new(p).is_file()) else {
        return Err(format!("there is no Python at {}", places.join(" nor at ")));
    };
    let output = Command::new(path)
        .args(["-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {path}: {e}"))?;
    let minor = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let plain = minor.split_once('.').is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok());
    if !plain {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it printed no version");
        return Err(format!("{path} is no usable Python: {}", printable(last)));
    }
    Ok(NodePython { path: path.clone(), minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rooted_place_comes_first_and_both_are_named() {
        let dir = tempfile::tempdir().expect("tempdir");
        let root = dir.path().to_string_lossy().into_owned();
        let why = find(&root, "/nowhere/python3").expect_err("nothing");
        assert!(why.contains(&format!("{root}/nowhere/python3 nor at /nowhere/python3")), "{why}");
        let script = |path: &Path, text: &str| {
            std::fs::write(path, text).expect("written");
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("mode");
        };
        let plain = dir.path().join("py");
        script(&plain, "#!/bin/sh\necho 3.12\n");
        let found = find("/", &plain.to_string_lossy()).expect("found");
        assert_eq!(found.minor, "3.12");
        script(&plain, "#!/bin/sh\necho 'xcode-select: note: no developer tools' >&2\nexit 1\n");
        assert!(find("/", &plain.to_string_lossy()).expect_err("stub").contains("no developer tools"));
    }
}
