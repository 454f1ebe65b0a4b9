//! A model's files on a node: what is missing of a list, and taking in what has arrived. Every file is proven by hash.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::phase::bundle::manifest::sha256_file;

/// Version of [`ModelList`].
pub const LIST_VERSION: u32 = 1;
/// Where files arrive, inside the model's folder: the same disk, so that taking in is a rename.
pub const INCOMING: &str = ".incoming";
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

    #[test]
    fn a_list_that_leads_out_of_the_folder_is_refused() {
        for path in ["../x", "/etc/passwd", "a/../../x", ".hidden", "a//b", "", "a/.b", "x\ny", "a\\b"] {
            let list = serde_json::json!({"schema_version": 1, "files": [{"path": path, "size": 1, "sha256": "00"}]});
            assert!(ModelList::parse(list.to_string().as_bytes()).is_err(), "{path}");
        }
        let twice =
            r#"{"schema_version":1,"files":[{"path":"a","size":1,"sha256":"0"},{"path":"A","size":1,"sha256":"0"}]}"#;
        assert!(ModelList::parse(twice.as_bytes()).expect_err("twice").contains("twice"));
        assert!(ModelList::parse(br#"{"schema_version":2,"files":[]}"#).is_err());
    }

    #[test]
    fn a_link_that_leads_in_circles_ends() {
        let dir = folder(&[("x", "1")]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).expect("a link");
        assert!(walk(dir.path()).expect_err("a circle").contains("nested too deeply"));
    }
}
