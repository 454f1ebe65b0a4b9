//! A rack's folder: where a node's files and state are, read and changed under a lock that holds across processes.
//!
//! `<dir>/rack.json`, `<dir>/state/<node>.json`, `<dir>/nodes/<node>/` (the node's file system), `<dir>/tripwire.log`.
//! The state lies outside the node's file system: a Mac has no such file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kernel;
use super::state::{NodeState, RackState};

/// One node of a rack's folder.
#[derive(Clone, Debug)]
pub struct Node {
    /// The rack's folder, without symbolic links in it.
    pub dir: PathBuf,
    /// The node's name.
    pub name: String,
    /// The node's `/`, without symbolic links in it.
    pub root: PathBuf,
    /// This process runs in the node's own namespaces: its `/` is this process's, its interfaces are real.
    pub inside: bool,
}

impl Node {
    /// A node of the rack in `dir`, which must be free of symbolic links.
    pub fn of(dir: &Path, name: &str) -> Node {
        Node { dir: dir.to_owned(), name: name.to_owned(), root: dir.join("nodes").join(name), inside: false }
    }

    /// The node whose namespaces this process runs in; none outside of one.
    pub fn here() -> Option<Node> {
        let mark = kernel::Mark::here()?;
        Some(Node { dir: mark.dir, name: mark.name, root: PathBuf::from("/"), inside: true })
    }

    /// The node whose file system holds `path`, found by looking upwards; none outside every rack.
    pub fn containing(path: &Path) -> Option<Node> {
        let found = path.ancestors().find_map(|root| {
            let name = root.file_name()?.to_str()?;
            let nodes = root.parent()?;
            let dir = nodes.parent()?;
            let is_node = nodes.file_name()? == "nodes"
                && dir.join("rack.json").is_file()
                && dir.join("state").join(format!("{name}.json")).is_file();
            if !is_node {
                return None;
            }
            Some(Node::of(&fs::canonicalize(dir).ok()?, name))
        });
        found.or_else(Node::here)
    }

    /// Another node of the same rack.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Node {
        Node::of(&self.dir, name)
    }

    /// A node-side absolute path (`/bin/ls`) as a path of this machine.
    pub fn rooted(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The rack.
    pub fn rack(&self) -> io::Result<RackState> {
        read_json(&self.dir.join("rack.json"))
    }

    /// The node's state as it is now.
    pub fn load(&self) -> io::Result<NodeState> {
        let mut state = self.load_stored()?;
        if self.inside {
            kernel::Links::read()?.show_in(&mut state);
        }
        Ok(state)
    }

    /// The state as it was written, whatever a kernel may say by now.
    pub(super) fn load_stored(&self) -> io::Result<NodeState> {
        // Writers replace the file by renaming, so a reader needs no lock.
        read_json(&self.state_file())
    }

    /// Changes the state; concurrent changes of other threads and processes wait.
    pub fn update<T>(&self, change: impl FnOnce(&mut NodeState) -> T) -> io::Result<T> {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.lock_file())?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
        let mut state = self.load()?;
        let before = self.inside.then(|| state.clone());
        let result = change(&mut state);
        if let Some(before) = &before {
            kernel::project(Some(before), &state)?;
        }
        write_json(&self.state_file(), &state)?;
        Ok(result)
    }

    /// Records that something tried to reach beyond the node.
    pub fn trip(&self, what: &str) {
        let line = format!("{}: {}\n", self.name, what.escape_debug());
        let file = OpenOptions::new().create(true).append(true).open(self.dir.join("tripwire.log"));
        // A lost line would hide a defect, but there is nobody to tell it to: the refusal itself stands.
        let _ = file.and_then(|mut f| f.write_all(line.as_bytes()));
    }

    fn state_file(&self) -> PathBuf {
        self.dir.join("state").join(format!("{}.json", self.name))
    }

    fn lock_file(&self) -> PathBuf {
        self.dir.join("state").join(format!("{}.lock", self.name))
    }
}

/// Reads a JSON file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = fs::read(path)?;
    serde_json::from_slice(&text)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display())))
}

/// Replaces a JSON file in one step.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&text)?;
    file.persist(path).map(drop::<File>).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(dir: &Path) -> Node {
        fs::create_dir_all(dir.join("state")).expect("a folder");
        let state = super::super::models::find("Mac15,14").expect("known").stock("r", "studio-1", 1);
        write_json(&dir.join("state/studio-1.json"), &state).expect("written");
        Node::of(dir, "studio-1")
    }

    #[test]
    fn changes_made_at_the_same_moment_are_all_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let node = node(dir.path());
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let node = &node;
                scope.spawn(move || {
                    for n in 0..25 {
                        let key = format!("{worker}.{n}");
                        node.update(|s| s.sysctl.insert(key, String::new())).expect("updated");
                    }
                });
            }
        });
        assert_eq!(node.load().expect("a state").sysctl.len(), 200);
    }

    #[test]
    fn a_misspelt_key_of_a_state_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let node = node(dir.path());
        let file = dir.path().join("state/studio-1.json");
        let text = fs::read_to_string(&file).expect("readable").replace("\"filevault\"", "\"filvault\"");
        fs::write(&file, text).expect("written");
        let error = node.load().expect_err("strict").to_string();
        assert!(error.contains("filvault"), "{error}");
    }

    #[test]
    fn a_path_belongs_to_a_node_only_in_a_racks_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let node = node(dir.path());
        fs::create_dir_all(node.root.join("sbin")).expect("a folder");
        assert!(Node::containing(&node.root.join("sbin")).is_none(), "there is no rack.json yet");
        fs::write(dir.path().join("rack.json"), "{}").expect("written");
        let found = Node::containing(&node.root.join("sbin")).expect("found");
        assert_eq!(found.name, "studio-1");
        assert!(Node::containing(Path::new("/usr/sbin")).is_none());
    }
}
