//! `macluster node gather`: which files of a bundle must be sent to this node.
//!
//! What an interrupted transfer has left in staging stays as far as it is whole; what other releases have is copied.
//! Nothing is believed but the content: size, mode and SHA-256 of every file that is taken are compared.
//!
//! Files are copied, not linked: two releases never share an inode, so that neither damage nor a repair of one reaches
//! the other, and the copy belongs to whom staging belongs, whoever owned what it was made from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::layout::Layout;
use crate::phase::bundle::manifest::{FileEntry, MANIFEST_FILE, Manifest, sha256_file};

/// Folders that everybody may read and only the owner may write.
const FOLDER_MODE: u32 = 0o755;
/// Read at once while a file is copied.
const CHUNK: usize = 1024 * 1024;

/// What is in staging now, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// 1.
    pub schema_version: u32,
    /// The bundle.
    pub id: String,
    /// Files that an interrupted transfer has left whole.
    pub kept: usize,
    /// Files that were copied from other releases, or from what else lies in staging.
    pub copied: usize,
    /// Paths that must be sent, sorted.
    pub missing: Vec<String>,
}

/// Prepares staging for the bundle of this manifest. Afterwards it holds the manifest, files that are whole, and
/// nothing else.
///
/// # Errors
/// When the manifest cannot be used, or staging cannot be brought into that state. That something cannot be copied is
/// no error: it is missing then.
pub fn gather(layout: &Layout, manifest_text: &str) -> Result<Gathered, String> {
    let manifest = Manifest::parse(manifest_text)?;
    let staging = PathBuf::from(layout.staging(&manifest.id));
    folder(&staging)?;
    let mut there = tidy(&staging, &manifest)?;
    let kept = there.len();
    let sources = sources(layout, &manifest.id);
    for file in &manifest.files {
        if !there.contains(&file.path) && sources.iter().any(|s| s.copy(file, &staging)) {
            there.insert(file.path.clone());
        }
    }
    let place = staging.join(MANIFEST_FILE);
    std::fs::write(&place, manifest_text)
        .and_then(|()| std::fs::set_permissions(&place, Permissions::from_mode(0o644)))
        .map_err(|e| format!("cannot write {}: {e}", place.display()))?;
    let missing = manifest.files.iter().filter(|f| !there.contains(&f.path)).map(|f| f.path.clone());
    let missing = missing.collect();
    Ok(Gathered { schema_version: 1, id: manifest.id, kept, copied: there.len() - kept, missing })
}

/// Ours: nobody else can change it after it was looked at.
fn ours(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

/// Makes it a folder of ours, whatever it was.
fn folder(path: &Path) -> Result<(), String> {
    let trouble = |e: std::io::Error| format!("cannot make the folder {}: {e}", path.display());
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() && ours(&meta) => {}
        Ok(meta) => remove(path, &meta)?,
        Err(_) => {}
    }
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(trouble)?;
    std::fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)).map_err(trouble)
}

fn remove(path: &Path, meta: &Metadata) -> Result<(), String> {
    // Links are removed, never followed.
    let removed = if meta.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(|e| format!("cannot remove {}: {e}", path.display()))
}

/// Removes all that is no whole file of the bundle, and gives the paths of those that are.
fn tidy(staging: &Path, manifest: &Manifest) -> Result<BTreeSet<String>, String> {
    let wanted: BTreeMap<&str, &FileEntry> = manifest.files.iter().map(|f| (f.path.as_str(), f)).collect();
    let parents =
        |f: &'_ FileEntry| f.path.match_indices('/').map(|(at, _)| f.path[..at].to_owned()).collect::<Vec<_>>();
    let folders: BTreeSet<String> = manifest.files.iter().flat_map(parents).collect();
    let mut whole = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(relative) = open.pop() {
        let here = staging.join(&relative);
        let unreadable = |e: std::io::Error| format!("cannot read {}: {e}", here.display());
        for entry in std::fs::read_dir(&here).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let meta = path.symlink_metadata().map_err(unreadable)?;
            // A name that is no text is none of the bundle's.
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let inner = if relative.is_empty() { name.to_owned() } else { format!("{relative}/{name}") };
            if meta.is_dir() && ours(&meta) && folders.contains(&inner) {
                std::fs::set_permissions(&path, Permissions::from_mode(FOLDER_MODE)).map_err(unreadable)?;
                open.push(inner);
            } else if wanted.get(inner.as_str()).is_some_and(|f| is_whole(&path, &meta, f)) {
                whole.insert(inner);
            } else {
                remove(&path, &meta)?;
            }
        }
    }
    Ok(whole)
}

/// A plain file of ours that has no other name, with that size, mode and content.
fn is_whole(path: &Path, meta: &Metadata, file: &FileEntry) -> bool {
    let alone = meta.is_file() && ours(meta) && meta.nlink() == 1;
    alone && same_shape(meta, file) && sha256_file(path, &mut |_| {}).is_ok_and(|sum| sum == file.sha256)
}

fn same_shape(meta: &Metadata, file: &FileEntry) -> bool {
    meta.len() == file.size && meta.permissions().mode() & 0o7777 == file.mode
}

/// A folder that may have files of the bundle.
struct Source {
    dir: PathBuf,
    /// Where which content should be, by SHA-256; none without a readable manifest.
    listed: Option<BTreeMap<String, Vec<String>>>,
}

/// Releases, and what else lies in staging: the program that was sent alone, a transfer of another bundle.
fn sources(layout: &Layout, id: &str) -> Vec<Source> {
    let mut dirs = Vec::new();
    let own = PathBuf::from(layout.staging(id));
    for parent in [layout.releases(), layout.arrivals()] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let real = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path());
        dirs.extend(real.filter(|d| *d != own));
    }
    dirs.sort();
    dirs.into_iter().map(Source::new).collect()
}

impl Source {
    fn new(dir: PathBuf) -> Self {
        // A damaged release of the same bundle is a source as well: most of it is whole.
        let listed = Manifest::read(&dir).ok().map(|manifest| {
            let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for file in manifest.files {
                listed.entry(file.sha256).or_default().push(file.path);
            }
            listed
        });
        Source { dir, listed }
    }

    /// Copies this file into staging, if it is here and whole. What fails leaves nothing.
    fn copy(&self, file: &FileEntry, staging: &Path) -> bool {
        let same_place = vec![file.path.clone()];
        let places = match &self.listed {
            Some(listed) => listed.get(&file.sha256).map(Vec::as_slice).unwrap_or_default(),
            None => &same_place,
        };
        places.iter().any(|place| take(&self.dir.join(place), &staging.join(&file.path), file))
    }
}

fn take(from: &Path, to: &Path, file: &FileEntry) -> bool {
    // Neither a link is followed nor a pipe waited for.
    let careful = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let Ok(source) = OpenOptions::new().read(true).custom_flags(careful).open(from) else { return false };
    let fits = source.metadata().is_ok_and(|m| m.is_file() && same_shape(&m, file));
    let parent_made = || {
        let parent = to.parent()?;
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(parent).ok()
    };
    if !fits || parent_made().is_none() {
        return false;
    }
    let taken = copy(source, to, file).unwrap_or(false);
    if !taken {
        let _ = std::fs::remove_file(to);
    }
    taken
}

/// Copies at most the size that is expected, and says whether exactly this content has arrived.
fn copy(source: File, to: &Path, file: &FileEntry) -> std::io::Result<bool> {
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut source = source.take(file.size);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = source.read(&mut buffer)?;
        let Some(chunk) = buffer.get(..n).filter(|c| !c.is_empty()) else { break };
        hash.update(chunk);
        target.write_all(chunk)?;
    }
    target.set_permissions(Permissions::from_mode(file.mode))?;
    Ok(source.limit() == 0 && hex::encode(hash.finalize()) == file.sha256)
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
