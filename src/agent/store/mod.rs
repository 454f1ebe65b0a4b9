//! A model's files on a node: what is missing of a list, and taking in what has arrived. Every file is proven by hash.

mod list;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use list::{LIST_FILE, LIST_VERSION, ModelFile, ModelList, walk};

use crate::phase::bundle::manifest::sha256_file;

/// Where files arrive, inside the model's folder: the same disk, so that taking in is a rename.
pub const INCOMING: &str = ".incoming";
/// What a node lacks of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lacks {
    /// Files that are not there, or not as listed.
    pub missing: Vec<String>,
    /// Of those, files that are there and differ.
    pub differing: Vec<String>,
    /// Files that the list does not have.
    pub extra: Vec<String>,
}

impl Lacks {
    /// The folder is exactly the list.
    pub fn nothing(&self) -> bool {
        self.missing.is_empty() && self.extra.is_empty()
    }
}

/// Whether this is the file: by size first, which costs nothing.
fn is(path: &Path, file: &ModelFile) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == file.size)
        && sha256_file(path, &mut |_| {}).is_ok_and(|sum| sum == file.sha256)
}

/// What a folder lacks. Files that arrived earlier and wait to be taken in count as there.
///
/// # Errors
/// In words.
pub fn lacks(list: &ModelList, dir: &Path) -> Result<Lacks, String> {
    let mut lacks = Lacks::default();
    for file in &list.files {
        let own = dir.join(&file.path);
        if is(&own, file) || is(&dir.join(INCOMING).join(&file.path), file) {
            continue;
        }
        if own.exists() {
            lacks.differing.push(file.path.clone());
        }
        lacks.missing.push(file.path.clone());
    }
    if dir.is_dir() {
        let listed: BTreeSet<&str> = list.files.iter().map(|f| f.path.as_str()).collect();
        lacks.extra = walk(dir)?.into_iter().map(|(path, _)| path).filter(|p| !listed.contains(p.as_str())).collect();
    }
    Ok(lacks)
}

/// Takes in what has arrived: each file is proven and renamed to its place; then the list is kept beside them.
///
/// # Errors
/// The first file that is not as listed: nothing of it is taken in, and nothing before it is lost.
pub fn adopt(list: &ModelList, dir: &Path) -> Result<(), String> {
    let incoming = dir.join(INCOMING);
    for file in &list.files {
        let (from, to) = (incoming.join(&file.path), dir.join(&file.path));
        if from.exists() {
            if !is(&from, file) {
                return Err(format!("{} did not arrive whole", file.path));
            }
            let wrong = |e: std::io::Error| format!("cannot put {} in its place: {e}", file.path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(wrong)?;
            }
            fs::rename(&from, &to).map_err(wrong)?;
        } else if !fs::metadata(&to).is_ok_and(|m| m.is_file() && m.len() == file.size) {
            return Err(format!("{} is missing", file.path));
        }
    }
    if incoming.exists() {
        fs::remove_dir_all(&incoming).map_err(|e| format!("cannot remove {}: {e}", incoming.display()))?;
    }
    let path = dir.join(LIST_FILE);
    let bytes = serde_json::to_vec_pretty(list).map_err(|e| e.to_string())?;
    let fresh = dir.join(format!("{LIST_FILE}.new"));
    fs::write(&fresh, bytes)
        .and_then(|()| fs::rename(&fresh, &path))
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("tempdir");
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
            fs::write(path, text).expect("written");
        }
        dir
    }

    #[test]
    fn a_folder_is_compared_completed_and_proven() {
        let source = folder(&[("config.json", "{}"), ("a/weights", "12345"), (".DS_Store", "x")]);
        let mut told = 0;
        let list = ModelList::of(source.path(), &mut |done| told = done).expect("a list");
        assert_eq!((list.files.len(), list.bytes(), told), (2, 7, 7));
        let node = folder(&[("config.json", "[]"), ("stale", "x")]);
        let seen = lacks(&list, node.path()).expect("compared");
        assert_eq!(seen.missing, ["a/weights", "config.json"]);
        assert_eq!((seen.differing, seen.extra), (vec!["config.json".to_owned()], vec!["stale".to_owned()]));

        // One arrives whole, one cut off: it is told, and the whole one is not asked for again.
        let incoming = node.path().join(INCOMING);
        fs::create_dir_all(incoming.join("a")).expect("folder");
        fs::write(incoming.join("a/weights"), "12345").expect("written");
        fs::write(incoming.join("config.json"), "{").expect("written");
        assert_eq!(lacks(&list, node.path()).expect("compared").missing, ["config.json"]);
        assert_eq!(adopt(&list, node.path()).expect_err("cut"), "config.json did not arrive whole");
        fs::write(incoming.join("config.json"), "{}").expect("written");
        adopt(&list, node.path()).expect("taken in");
        assert_eq!(fs::read(node.path().join("config.json")).expect("there"), b"{}");
        assert!(!incoming.exists());
        assert_eq!(ModelList::kept(node.path()).expect("readable"), Some(list.clone()));
        assert_eq!(lacks(&list, node.path()).expect("compared").missing, Vec::<String>::new());
        adopt(&list, node.path()).expect("again is fine");

        // The same size, another content.
        fs::write(node.path().join("a/weights"), "12346").expect("written");
        assert_eq!(lacks(&list, node.path()).expect("compared").differing, ["a/weights"]);
        fs::remove_file(node.path().join("a/weights")).expect("removed");
        assert_eq!(adopt(&list, node.path()).expect_err("gone"), "a/weights is missing");
    }
}
