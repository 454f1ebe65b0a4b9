//! `ln` and `readlink`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Call, trimmed, words};
use crate::sim::owners;
use crate::sim::program::inside;

/// `ln [-s] [-f] [-h|-n] [-v] SOURCE TARGET`. A symbolic link that would lead out of the node is refused.
pub(in crate::sim::tools) fn ln(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: ln [-s [-F] | -L | -P] [-f | -i] [-hnv] source_file [target_file]";
    let Some(found) = words(call, "Ffhinsv", USAGE)? else { return Ok(1) };
    let has = |c: char| found.flags.contains(c);
    let [source, target] = found.operands.as_slice() else {
        writeln!(call.err, "{USAGE}")?;
        return Ok(1);
    };
    let Some(mut place) = call.place(trimmed(target))? else { return Ok(1) };
    let is_link = fs::symlink_metadata(&place).is_ok_and(|m| m.is_symlink());
    let keep = is_link && (has('h') || has('n'));
    if !keep && call.target(target)?.is_some_and(|t| t.is_dir()) {
        let Some(name) = Path::new(source).file_name() else { return Ok(1) };
        place = place.join(name);
    }
    if !call.may_write_entry(target, &place)? {
        return Ok(1);
    }
    if fs::symlink_metadata(&place).is_ok() {
        if !has('f') {
            call.complain(target, "File exists")?;
            return Ok(1);
        }
        if let Err(e) = fs::remove_file(&place) {
            call.failed(target, &e)?;
            return Ok(1);
        }
    }
    let made = if has('s') {
        let folder = place.parent().unwrap_or(&place);
        if inside(call.node, &folder.join(source)).is_none() {
            call.refuse(source)?;
            return Ok(1);
        }
        symlink(source, &place)
    } else {
        let Some(from) = call.target(source)? else { return Ok(1) };
        fs::hard_link(from, &place)
    };
    match made {
        Ok(()) => owners::created(call.node, call.uid, &[place]).map(|()| 0),
        Err(e) => call.failed(target, &e).map(|()| 1),
    }
}

/// `readlink [-fn] FILE…`.
pub(in crate::sim::tools) fn readlink(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(found) = words(call, "fn", "usage: readlink [-fn] [file ...]")? else { return Ok(1) };
    let mut status = 0;
    for arg in &found.operands {
        let shown = if found.flags.contains('f') {
            call.target(arg)?.filter(|t| t.exists())
        } else {
            call.place(arg)?.and_then(|p| fs::read_link(p).ok())
        };
        match shown {
            Some(path) if found.flags.contains('n') => write!(call.out, "{}", path.display())?,
            Some(path) => writeln!(call.out, "{}", path.display())?,
            None => status = 1,
        }
    }
    Ok(status)
}
