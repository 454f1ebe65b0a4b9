//! `mv`.

use std::fs;
use std::io;
use std::path::Path;

use super::{Call, trimmed, words};
use crate::sim::owners;

/// `mv [-fhnv] SOURCE… TARGET`; with `-h` a link to a folder is itself the target.
pub(in crate::sim::tools) fn mv(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str =
        "usage: mv [-f | -i | -n] [-hv] source target\n       mv [-f | -i | -n] [-v] source ... directory";
    let Some(found) = words(call, "fhinv", USAGE)? else { return Ok(64) };
    let Some((target, sources)) = found.operands.split_last().filter(|(_, s)| !s.is_empty()) else {
        writeln!(call.err, "{USAGE}")?;
        return Ok(64);
    };
    let has = |c: char| found.flags.contains(c);
    let Some(place) = call.place(trimmed(target))? else { return Ok(1) };
    let into = if has('h') && fs::symlink_metadata(&place).is_ok_and(|m| m.is_symlink()) {
        None
    } else {
        call.target(target)?.filter(|t| t.is_dir())
    };
    if sources.len() > 1 && into.is_none() {
        call.complain(target, "Not a directory")?;
        return Ok(1);
    }
    let mut status = 0;
    for source in sources {
        let Some(from) = call.place(trimmed(source))? else {
            status = 1;
            continue;
        };
        let to = match (&into, from.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => place.clone(),
        };
        if has('n') && to.exists() {
            continue;
        }
        if !rename(call, source, target, &from, &to)? {
            status = 1;
        }
    }
    Ok(status)
}

fn rename(call: &mut Call<'_>, source: &str, target: &str, from: &Path, to: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(from).is_err() {
        call.complain(source, "No such file or directory")?;
        return Ok(false);
    }
    if !call.may_write_entry(source, from)? || !call.may_write_entry(target, to)? {
        return Ok(false);
    }
    match fs::rename(from, to) {
        Ok(()) => owners::moved(call.node, from, to).map(|()| true),
        Err(e) => {
            let why = super::errno_text(&e);
            writeln!(call.err, "mv: rename {source} to {target}: {why}").map(|()| false)
        }
    }
}
