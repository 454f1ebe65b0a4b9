//! `cp`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Call, trimmed, unshare, words};
use crate::sim::owners;
use crate::sim::program::inside;

/// `cp [-R] [-acfpPX] SOURCE… TARGET`.
pub(in crate::sim::tools) fn cp(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: cp [-R [-H | -L | -P]] [-fi | -n] [-aclpSsvXx] source_file target_file";
    let Some(found) = words(call, "RracfpPXvn", USAGE)? else { return Ok(64) };
    let has = |c: char| found.flags.contains(c);
    let recursive = has('R') || has('r') || has('a');
    let Some((target, sources)) = found.operands.split_last().filter(|(_, s)| !s.is_empty()) else {
        writeln!(call.err, "{USAGE}")?;
        return Ok(64);
    };
    let Some(goal) = call.target(trimmed(target))? else { return Ok(1) };
    if sources.len() > 1 && !goal.is_dir() {
        call.complain(target, "Not a directory")?;
        return Ok(1);
    }
    let mut status = 0;
    for source in sources {
        let from = if recursive { call.place(trimmed(source))? } else { call.target(source)? };
        let Some(from) = from else {
            status = 1;
            continue;
        };
        let to = match from.file_name() {
            Some(name) if goal.is_dir() => goal.join(name),
            _ => goal.clone(),
        };
        if has('n') && to.exists() {
            continue;
        }
        if !one(call, source, target, &from, &to, recursive)? {
            status = 1;
        }
    }
    Ok(status)
}

fn one(call: &mut Call<'_>, source: &str, target: &str, from: &Path, to: &Path, recursive: bool) -> io::Result<bool> {
    let Ok(meta) = fs::symlink_metadata(from) else {
        call.complain(source, "No such file or directory")?;
        return Ok(false);
    };
    if meta.is_dir() && !recursive {
        writeln!(call.err, "cp: {source} is a directory (not copied).")?;
        return Ok(false);
    }
    if !call.may_read(source, from)? || !call.may_write_entry(target, to)? {
        return Ok(false);
    }
    let mut made = Vec::new();
    match copy(call, from, to, &mut made) {
        Ok(()) => owners::created(call.node, call.uid, &made).map(|()| true),
        Err(e) => call.failed(source, &e).map(|()| false),
    }
}

/// Copies a file, a link as a link, or a folder with all in it.
fn copy(call: &Call<'_>, from: &Path, to: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let meta = fs::symlink_metadata(from)?;
    made.push(to.to_owned());
    if meta.is_symlink() {
        let link = fs::read_link(from)?;
        if inside(call.node, &to.parent().unwrap_or(to).join(&link)).is_none() {
            call.node.trip(&format!("cp of a link that leads outside: {}", from.display()));
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        return symlink(link, to);
    }
    if meta.is_dir() {
        if !to.is_dir() {
            fs::create_dir(to)?;
        }
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(call, &entry.path(), &to.join(entry.file_name()), made)?;
        }
        return Ok(());
    }
    unshare(to)?;
    fs::copy(from, to).map(drop)
}
