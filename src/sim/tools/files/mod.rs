//! Tools that work on files. Every path is checked first: what resolves outside the node is refused and recorded.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Call, errno_text};
use crate::sim::owners;
use crate::sim::program::inside;

mod chmod;
mod chown;
mod copy;
mod df;
mod link;
mod list;
mod make;
mod read;
mod remove;
mod rename;
mod shasum;
mod stat;
mod tail;
mod tar;
mod tee;
mod xattr;

pub(super) use chmod::chmod;
pub(super) use chown::chown;
pub(super) use copy::cp;
pub(super) use df::df;
pub(super) use link::{ln, readlink};
pub(super) use list::ls;
pub(super) use make::{mkdir, touch};
pub(super) use read::{cat, test};
pub(super) use remove::{rm, rmdir};
pub(super) use rename::mv;
pub(super) use shasum::shasum;
pub(super) use stat::stat;
pub(super) use tail::tail;
pub(super) use tar::tar;
pub(super) use tee::tee;
pub(super) use xattr::xattr;

/// Flags and operands of a BSD tool: single letters, bundled, `--` ends them.
struct Words {
    flags: String,
    operands: Vec<String>,
}

/// Splits the arguments; an unknown letter is answered as getopt does and gives none.
fn words(call: &mut Call<'_>, known: &str, usage: &str) -> io::Result<Option<Words>> {
    let mut found = Words { flags: String::new(), operands: Vec::new() };
    let mut args = call.args.iter();
    for arg in args.by_ref() {
        if arg == "--" {
            break;
        }
        if let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) {
            if let Some(bad) = letters.chars().find(|c| !known.contains(*c)) {
                writeln!(call.err, "{}: illegal option -- {bad}\n{usage}", call.name)?;
                return Ok(None);
            }
            found.flags.push_str(letters);
        } else {
            found.operands.push(arg.clone());
            break;
        }
    }
    // BSD tools take no flags after the first operand.
    found.operands.extend(args.cloned());
    Ok(Some(found))
}

/// A path without slashes at its end; the root keeps its own.
fn trimmed(arg: &str) -> &str {
    let bare = arg.trim_end_matches('/');
    if bare.is_empty() { &arg[..arg.len().min(1)] } else { bare }
}

impl Call<'_> {
    /// The place an argument names, symbolic links of its folders followed. None: outside, refused and said so.
    pub(super) fn place(&mut self, arg: &str) -> io::Result<Option<PathBuf>> {
        let path = self.cwd.join(arg);
        let place = inside(self.node, &path);
        if place.is_none() {
            self.refuse(arg)?;
        }
        Ok(place)
    }

    /// As [`Call::place`], the last part followed, too.
    pub(super) fn target(&mut self, arg: &str) -> io::Result<Option<PathBuf>> {
        let Some(mut place) = self.place(arg)? else { return Ok(None) };
        // Link by link, so that one that leads nowhere yet is judged as well. As deep as macOS goes.
        for _ in 0..32 {
            let Ok(next) = fs::read_link(&place) else { return Ok(Some(place)) };
            let joined = place.parent().unwrap_or(&place).join(next);
            if let Some(next) = inside(self.node, &joined) {
                place = next;
            } else {
                self.refuse(arg)?;
                return Ok(None);
            }
        }
        self.complain(arg, "Too many levels of symbolic links")?;
        Ok(None)
    }

    /// Refuses a path that leaves the node, and records it. On a Mac there would be no such border.
    fn refuse(&mut self, arg: &str) -> io::Result<()> {
        let line = format!("{} reaches outside the node: {arg}", self.name);
        self.node.trip(&line);
        self.complain(arg, "Operation not permitted")
    }

    /// `tool: path: why`.
    pub(super) fn complain(&mut self, arg: &str, why: &str) -> io::Result<()> {
        writeln!(self.err, "{}: {arg}: {why}", self.name)
    }

    /// The same for an error of the file system.
    pub(super) fn failed(&mut self, arg: &str, error: &io::Error) -> io::Result<()> {
        self.complain(arg, errno_text(error))
    }

    /// May the caller add or remove this entry? If not, it has been said.
    pub(super) fn may_write_entry(&mut self, arg: &str, place: &Path) -> io::Result<bool> {
        let state = self.node.load()?;
        let own = owners::key(self.node, place);
        let parent = own.rsplit_once('/').map(|(p, _)| p).unwrap_or_default();
        if is_system(&own) {
            // The sealed system volume and System Integrity Protection hold for root, too.
            self.complain(arg, "Operation not permitted")?;
            return Ok(false);
        }
        let allowed = owners::may_change_folder(&state, self.uid, parent);
        if !allowed {
            self.complain(arg, "Permission denied")?;
        }
        Ok(allowed)
    }

    /// May the caller read this file? If not, it has been said.
    pub(super) fn may_read(&mut self, arg: &str, place: &Path) -> io::Result<bool> {
        let Ok(meta) = fs::metadata(place) else { return Ok(true) };
        let own = owners::owner(&self.node.load()?, &owners::key(self.node, place)).0 == self.uid;
        let allowed = self.uid == 0 || own || meta.mode() & 0o004 != 0;
        if !allowed {
            self.complain(arg, "Permission denied")?;
        }
        Ok(allowed)
    }

    /// May the caller change this file's content or mode? If not, it has been said.
    pub(super) fn may_change(&mut self, arg: &str, place: &Path, why: &str) -> io::Result<bool> {
        let key = owners::key(self.node, place);
        if is_system(&key) {
            self.complain(arg, "Operation not permitted")?;
            return Ok(false);
        }
        let allowed = self.uid == 0 || owners::owner(&self.node.load()?, &key).0 == self.uid;
        if !allowed {
            self.complain(arg, why)?;
        }
        Ok(allowed)
    }
}

/// Belongs to the sealed system volume: nobody changes it.
fn is_system(key: &str) -> bool {
    let sealed = ["bin", "sbin", "usr", "System"].iter().any(|top| owners::below(key, top));
    key.is_empty() || (sealed && !owners::below(key, "usr/local") || ["etc", "tmp", "var", "private"].contains(&key))
}

/// Gives a file an inode of its own when it shares one with something outside (a model that was brought along).
fn unshare(place: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(place) else { return Ok(()) };
    if !meta.is_file() || meta.nlink() < 2 {
        return Ok(());
    }
    let folder = place.parent().unwrap_or(place);
    let copy = tempfile::NamedTempFile::new_in(folder)?;
    fs::copy(place, copy.path())?;
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(meta.mode() & 0o7777))?;
    copy.persist(place).map(drop).map_err(|e| e.error)
}
