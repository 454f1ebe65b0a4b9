//! The list of a model's files, by which they are sent, compared and proven.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::phase::bundle::manifest::sha256_file;

/// Version of [`ModelList`].
pub const LIST_VERSION: u32 = 1;
/// The list, kept beside the files, so that they can be proven later.
pub const LIST_FILE: &str = ".macluster-model.json";
/// No list is longer: 16 MiB.
const MAX_LIST: u64 = 16 << 20;

/// Every file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelList {
    /// [`LIST_VERSION`].
    pub schema_version: u32,
    /// Sorted by path.
    pub files: Vec<ModelFile>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Relative path, `/` separated.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

impl ModelList {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Reads a list, and refuses one that could lead out of the folder.
    ///
    /// # Errors
    /// In words.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let list: ModelList = serde_json::from_slice(bytes).map_err(|e| format!("the list of files: {e}"))?;
        list.check().map(|()| list)
    }

    /// Refuses a list that could lead out of the folder.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        if self.schema_version != LIST_VERSION {
            return Err(format!("the list of files has version {}, not {LIST_VERSION}", self.schema_version));
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            check_path(&file.path)?;
            // Parts of files are named by it.
            if file.sha256.len() != 64 || !file.sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("the list has no SHA-256 for {}", file.path));
            }
            // Two names that a Mac takes for one.
            if !seen.insert(file.path.to_lowercase()) {
                return Err(format!("the list names {} twice", file.path));
            }
        }
        Ok(())
    }

    /// The list of only these files.
    #[must_use]
    pub fn only(&self, paths: &[String]) -> Self {
        let files = self.files.iter().filter(|f| paths.contains(&f.path)).cloned().collect();
        ModelList { schema_version: self.schema_version, files }
    }

    /// The list that was kept with the files; none when there is none.
    ///
    /// # Errors
    /// In words.
    pub fn kept(dir: &Path) -> Result<Option<Self>, String> {
        let path = dir.join(LIST_FILE);
        match fs::metadata(&path) {
            Err(_) => return Ok(None),
            Ok(meta) if meta.len() > MAX_LIST => return Err(format!("{} is too long", path.display())),
            Ok(_) => {}
        }
        let bytes = fs::read(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Self::parse(&bytes).map(Some).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Hashes a folder. `progress` is told bytes done in all.
    ///
    /// # Errors
    /// In words, with the file.
    pub fn of(dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<Self, String> {
        let mut files = Vec::new();
        let mut before = 0;
        for (path, size) in walk(dir)? {
            let file = dir.join(&path);
            let sha256 = sha256_file(&file, &mut |done| progress(before + done))
                .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
            before += size;
            files.push(ModelFile { path, size, sha256 });
        }
        Ok(ModelList { schema_version: LIST_VERSION, files })
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let plain = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
    let hidden = path.split('/').any(|part| part.is_empty() || part.starts_with('.'));
    if plain && !hidden && !path.contains(['\\', '\0', '\n']) {
        Ok(())
    } else {
        Err(format!("{path:?} is no path of a model's file"))
    }
}

/// Every file below a folder with its size, sorted by path. Hidden ones are nobody's: downloaders and the Finder leave
/// them behind. Links are followed, as every reader of the model does.
///
/// # Errors
/// In words, with the path.
pub fn walk(dir: &Path) -> Result<Vec<(String, u64)>, String> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let full = dir.join(&folder);
        let wrong = |e: std::io::Error| format!("cannot read {}: {e}", full.display());
        for entry in fs::read_dir(&full).map_err(wrong)? {
            let name = entry.map_err(wrong)?.file_name();
            let Some(name) = name.to_str() else {
                return Err(format!("{} holds a name that is no Unicode", full.display()));
            };
            if name.starts_with('.') {
                continue;
            }
            let path = folder.join(name);
            let meta = fs::metadata(dir.join(&path)).map_err(|e| format!("{}: {e}", dir.join(&path).display()))?;
            if meta.is_dir() {
                // A link that leads back up would never end.
                if depth >= 8 {
                    return Err(format!("{} is nested too deeply for a model", dir.join(&path).display()));
                }
                folders.push((path, depth + 1));
            } else if meta.is_file() {
                found.push((path.to_string_lossy().into_owned(), meta.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_leads_out_of_the_folder_is_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", ".hidden", "a//b", "", "a/.b", "x\ny", "a\\b"] {
            let list = serde_json::json!({"schema_version": 1, "files": [{"path": path, "size": 1, "sha256": "0".repeat(64)}]});
            assert!(ModelList::parse(list.to_string().as_bytes()).is_err(), "{path}");
        }
        let listed = |path: &str, sha256: &str| {
            serde_json::json!({"schema_version": 1, "files": [
                {"path": "a", "size": 1, "sha256": "0".repeat(64)},
                {"path": path, "size": 1, "sha256": sha256},
            ]})
        };
        let parse = |list: serde_json::Value| ModelList::parse(list.to_string().as_bytes());
        assert!(parse(listed("A", &"0".repeat(64))).expect_err("twice").contains("twice"));
        for no_hash in ["", "0", &"../x".repeat(16)] {
            assert!(parse(listed("b", no_hash)).expect_err("no hash").contains("no SHA-256 for b"), "{no_hash}");
        }
        assert!(parse(listed("b", &"a".repeat(64))).is_ok());
        assert!(ModelList::parse(br#"{"schema_version":2,"files":[]}"#).is_err());
    }

    #[test]
    fn a_link_that_leads_in_circles_ends() {
        let dir = tempfile::tempdir().expect("tempdir");
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).expect("a link");
        assert!(walk(dir.path()).expect_err("a circle").contains("nested too deeply"));
    }
}
