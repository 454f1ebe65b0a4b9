//! Unpacks a relocatable Python: a tar.gz with one folder, as standalone builds come.
//!
//! Nothing of the archive is trusted: its SHA-256 was given, but its names and links are checked as if it were
//! hostile. Links become copies, because a bundle holds only plain files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::read::GzDecoder;
use tar::EntryType;

use super::manifest::safe_path;

/// No archive unpacks to more: 4 GiB.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// No archive has more members.
const MAX_MEMBERS: usize = 200_000;
/// Links that lead to links, at most.
const MAX_HOPS: usize = 16;

/// Where the interpreter lies, and its minor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Path of the interpreter below the target folder, e.g. `bin/python3.12`.
    pub interpreter: String,
    /// e.g. `3.12`.
    pub minor: String,
}

/// Unpacks the one top folder of the archive into `target` (created, without the folder's own name).
///
/// # Errors
/// In words; the member that was refused is named.
pub fn unpack_python(archive: &Path, target: &Path) -> Result<Unpacked, String> {
    let file = File::open(archive).map_err(|e| format!("cannot read {}: {e}", archive.display()))?;
    let mut tar = tar::Archive::new(GzDecoder::new(file));
    let broken = |e: std::io::Error| format!("{} is no readable tar.gz: {e}", archive.display());
    let mut tree = Tree::default();
    let mut budget = MAX_BYTES;
    for (count, entry) in tar.entries().map_err(broken)?.enumerate() {
        if count >= MAX_MEMBERS {
            return Err(format!("the archive has more than {MAX_MEMBERS} members"));
        }
        let mut entry = entry.map_err(broken)?;
        let raw = entry.path_bytes().into_owned();
        let name = String::from_utf8(raw).map_err(|_| "the archive has a name that is not UTF-8".to_owned())?;
        let path = name.strip_prefix("./").unwrap_or(&name).trim_end_matches('/').to_owned();
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader | EntryType::XHeader) || path.is_empty() || path == "." {
            continue;
        }
        safe_path(&path)?;
        match kind {
            EntryType::Directory => {}
            EntryType::Regular | EntryType::Continuous => {
                let size = entry.header().entry_size().map_err(broken)?;
                budget = budget.checked_sub(size).ok_or("the archive unpacks to more than 4 GiB")?;
                let executable = entry.header().mode().map_err(broken)? & 0o111 != 0;
                let inner = tree.inner(&path)?;
                write(target, &inner, &mut entry, executable)?;
                tree.files.insert(inner, executable);
            }
            EntryType::Symlink | EntryType::Link => {
                let to = entry.link_name_bytes().unwrap_or_default().into_owned();
                let to = String::from_utf8(to).map_err(|_| format!("{path} links to a name that is not UTF-8"))?;
                let aim = if kind == EntryType::Link {
                    let aim = to.strip_prefix("./").unwrap_or(&to).to_owned();
                    safe_path(&aim).map_err(|e| format!("{path} links out of the archive: {e}"))?;
                    aim
                } else {
                    resolve(&path, &to)?
                };
                let inner = tree.inner(&path)?;
                let aim = tree.inner(&aim).map_err(|_| format!("{path} links out of its folder, to {to}"))?;
                tree.links.insert(inner, aim);
            }
            other => return Err(format!("{path} is a special file ({other:?}); a Python has none")),
        }
    }
    tree.materialise(target)?;
    tree.interpreter()
}

/// What was seen so far, without the top folder.
#[derive(Default)]
struct Tree {
    top: Option<String>,
    /// Path to executable.
    files: BTreeMap<String, bool>,
    /// Path to path.
    links: BTreeMap<String, String>,
}

impl Tree {
    /// Takes the top folder off, which must be the same for every member.
    fn inner(&mut self, path: &str) -> Result<String, String> {
        let (top, rest) =
            path.split_once('/').ok_or_else(|| format!("{path} lies beside the one folder that is expected"))?;
        match &self.top {
            None => self.top = Some(top.to_owned()),
            Some(known) if known == top => {}
            Some(known) => return Err(format!("the archive has two folders, {known} and {top}; one is expected")),
        }
        Ok(rest.to_owned())
    }

    /// Turns links into copies of what they lead to.
    fn materialise(&mut self, target: &Path) -> Result<(), String> {
        let mut copies = Vec::new();
        for link in self.links.keys() {
            let aim = self.follow(link)?;
            if self.files.contains_key(&aim) {
                copies.push((aim, link.clone()));
                continue;
            }
            // A linked folder: every file below it. A link to nothing is dropped: nobody can need it.
            let prefix = format!("{aim}/");
            for file in self.files.keys().filter(|f| f.starts_with(&prefix)) {
                copies.push((file.clone(), format!("{link}/{}", file.trim_start_matches(&prefix))));
            }
        }
        for (from, to) in copies {
            if self.files.contains_key(&to) {
                continue;
            }
            let executable = self.files.get(&from).copied().unwrap_or(false);
            let mut source = File::open(target.join(&from)).map_err(|e| format!("{from}: {e}"))?;
            write(target, &to, &mut source, executable)?;
            self.files.insert(to, executable);
        }
        Ok(())
    }

    fn follow(&self, link: &str) -> Result<String, String> {
        let mut at = link.to_owned();
        for _ in 0..MAX_HOPS {
            match self.links.get(&at) {
                Some(next) => at.clone_from(next),
                None => return Ok(at),
            }
        }
        Err(format!("{link} is a link that leads round in a circle"))
    }

    fn interpreter(&self) -> Result<Unpacked, String> {
        let found = self.files.iter().rev().filter(|(_, executable)| **executable).find_map(|(path, _)| {
            let minor = path.strip_prefix("bin/python3.")?;
            minor.parse::<u32>().ok().map(|n| Unpacked { interpreter: path.clone(), minor: format!("3.{n}") })
        });
        found.ok_or_else(|| "the archive holds no bin/python3.N program in its folder".to_owned())
    }
}

/// The path, inside the archive, that a symbolic link leads to.
fn resolve(link: &str, to: &str) -> Result<String, String> {
    if to.starts_with('/') || to.is_empty() {
        return Err(format!("{link} links out of the archive, to `{}`", to.escape_debug()));
    }
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| format!("{link} links out of the archive, to `{}`", to.escape_debug()))?;
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    safe_path(&path).map_err(|e| format!("{link} links out of the archive: {e}"))?;
    Ok(path)
}

fn write(target: &Path, inner: &str, from: &mut dyn Read, executable: bool) -> Result<(), String> {
    let path = target.join(inner);
    let failed = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    // Only plain files were written here before, so no link can lead this write elsewhere.
    let mut file = File::create(&path).map_err(failed)?;
    std::io::copy(from, &mut file).map_err(failed)?;
    let mode = if executable { 0o755 } else { 0o644 };
    file.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    enum Member<'a> {
        File(&'a str, &'a [u8], u32),
        Symlink(&'a str, &'a str),
        Hardlink(&'a str, &'a str),
        Fifo(&'a str),
    }
    use Member::{Fifo, File as F, Hardlink, Symlink};

    fn archive(dir: &Path, members: &[Member<'_>]) -> std::path::PathBuf {
        let path = dir.join("python.tar.gz");
        let gz = flate2::write::GzEncoder::new(File::create(&path).expect("file"), flate2::Compression::fast());
        let mut tar = tar::Builder::new(gz);
        for member in members {
            let mut header = tar::Header::new_gnu();
            let (name, content, link) = match member {
                F(name, content, mode) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_mode(*mode);
                    (*name, *content, None)
                }
                Symlink(name, to) => {
                    header.set_entry_type(EntryType::Symlink);
                    (*name, &b""[..], Some(*to))
                }
                Hardlink(name, to) => {
                    header.set_entry_type(EntryType::Link);
                    (*name, &b""[..], Some(*to))
                }
                Fifo(name) => {
                    header.set_entry_type(EntryType::Fifo);
                    (*name, &b""[..], None)
                }
            };
            header.set_size(content.len() as u64);
            // Written raw: the builder itself refuses hostile names.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if let Some(to) = link {
                header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
            }
            header.set_cksum();
            tar.append(&header, content).expect("appended");
        }
        tar.into_inner().expect("tar").finish().expect("gzip").flush().expect("flushed");
        path
    }

    #[test]
    fn a_python_is_unpacked_and_its_links_become_files() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = archive(
            dir.path(),
            &[
                F("python/bin/python3.12", b"interpreter", 0o755),
                Symlink("python/bin/python3", "python3.12"),
                Symlink("python/bin/python", "python3"),
                Hardlink("python/bin/hard", "python/bin/python3.12"),
                F("python/lib/python3.12/os.py", b"os", 0o644),
                Symlink("python/lib/again", "../lib/python3.12"),
                Symlink("python/lib/dangling", "nowhere"),
            ],
        );
        let target = dir.path().join("out");
        let unpacked = unpack_python(&path, &target).expect("unpacked");
        assert_eq!(unpacked, Unpacked { interpreter: "bin/python3.12".into(), minor: "3.12".into() });
        for name in ["bin/python", "bin/python3", "bin/hard", "bin/python3.12"] {
            let meta = target.join(name).symlink_metadata().expect(name);
            assert!(meta.is_file() && meta.permissions().mode() & 0o777 == 0o755, "{name}");
        }
        assert_eq!(std::fs::read(target.join("lib/again/os.py")).expect("copied"), b"os");
        assert!(!target.join("lib/dangling").exists());
    }

    #[test]
    fn hostile_members_are_refused_and_named() {
        let good = || F("python/bin/python3.12", b"x", 0o755);
        for (member, word) in [
            (F("../escape", b"x", 0o644), "../escape"),
            (F("python/../../escape", b"x", 0o644), "escape"),
            (F("/etc/escape", b"x", 0o644), "absolute"),
            (Symlink("python/bin/l", "/etc/passwd"), "/etc/passwd"),
            (Symlink("python/bin/l", "../../../etc/passwd"), "out of the archive"),
            (Symlink("python/bin/l", "../../other/x"), "out of its folder"),
            (Hardlink("python/bin/l", "../x"), "out of the archive"),
            (Fifo("python/bin/f"), "special file"),
            (F("other/x", b"x", 0o644), "two folders"),
            (F("beside", b"x", 0o644), "beside"),
        ] {
            let dir = tempfile::tempdir().expect("tempdir");
            let path = archive(dir.path(), &[good(), member]);
            let why = unpack_python(&path, &dir.path().join("out/deep")).expect_err(word);
            assert!(why.contains(word), "{why} should name {word}");
            assert!(!dir.path().join("escape").exists() && !dir.path().join("out/escape").exists());
        }
        let dir = tempfile::tempdir().expect("tempdir");
        let circle = archive(dir.path(), &[good(), Symlink("python/a", "b"), Symlink("python/b", "a")]);
        assert!(unpack_python(&circle, &dir.path().join("out")).expect_err("circle").contains("circle"));
        let none = archive(dir.path(), &[F("python/bin/python3", b"x", 0o755)]);
        assert!(unpack_python(&none, &dir.path().join("out2")).expect_err("none").contains("python3.N"));
        std::fs::write(dir.path().join("junk"), b"junk").expect("written");
        assert!(unpack_python(&dir.path().join("junk"), &dir.path().join("out3")).is_err());
    }
}
