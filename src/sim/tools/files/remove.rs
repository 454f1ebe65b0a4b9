//! `rm` and `rmdir`.

use std::fs;
use std::io;
use std::path::Path;

use super::{Call, trimmed, words};
use crate::sim::owners;

/// `rm [-dfRrv] FILE…`.
pub(in crate::sim::tools) fn rm(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: rm [-f | -i] [-dIPRrvWx] file ...\n       unlink [--] file";
    let Some(found) = words(call, "dfRrvx", USAGE)? else { return Ok(64) };
    let has = |c: char| found.flags.contains(c);
    let (force, recursive) = (has('f'), has('r') || has('R'));
    if found.operands.is_empty() {
        if force {
            return Ok(0);
        }
        writeln!(call.err, "{USAGE}")?;
        return Ok(64);
    }
    let mut status = 0;
    for arg in &found.operands {
        let last = trimmed(arg).rsplit('/').next().unwrap_or_default();
        if last.is_empty() || last == "." || last == ".." {
            writeln!(call.err, "rm: \".\" and \"..\" may not be removed")?;
            call.node.trip(&format!("rm of {arg}"));
            status = 1;
            continue;
        }
        let Some(place) = call.place(trimmed(arg))? else {
            status = 1;
            continue;
        };
        let Ok(meta) = fs::symlink_metadata(&place) else {
            if !force {
                call.complain(arg, "No such file or directory")?;
                status = 1;
            }
            continue;
        };
        if meta.is_dir() && !recursive && !has('d') {
            call.complain(arg, "is a directory")?;
            status = 1;
            continue;
        }
        if !call.may_write_entry(arg, &place)? {
            status = 1;
            continue;
        }
        let removed = if meta.is_dir() && recursive {
            fs::remove_dir_all(&place)
        } else if meta.is_dir() {
            fs::remove_dir(&place)
        } else {
            fs::remove_file(&place)
        };
        match removed {
            Ok(()) => owners::removed(call.node, &place)?,
            Err(e) => {
                call.failed(arg, &e)?;
                status = 1;
            }
        }
    }
    Ok(status)
}

/// `rmdir DIR…`.
pub(in crate::sim::tools) fn rmdir(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(found) = words(call, "pv", "usage: rmdir [-pv] directory ...")? else { return Ok(64) };
    let mut status = 0;
    for arg in &found.operands {
        let done = match call.place(trimmed(arg))? {
            Some(place) => remove_folder(call, arg, &place)?,
            None => false,
        };
        if !done {
            status = 1;
        }
    }
    Ok(status)
}

fn remove_folder(call: &mut Call<'_>, arg: &str, place: &Path) -> io::Result<bool> {
    if !call.may_write_entry(arg, place)? {
        return Ok(false);
    }
    match fs::remove_dir(place) {
        Ok(()) => owners::removed(call.node, place).map(|()| true),
        Err(e) => call.failed(arg, &e).map(|()| false),
    }
}
