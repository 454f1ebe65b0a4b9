//! `mkdir` and `touch`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::{Call, trimmed};
use crate::sim::owners;

/// `mkdir [-pv] [-m MODE] DIR…`.
pub(in crate::sim::tools) fn mkdir(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: mkdir [-pv] [-m mode] directory_name ...";
    let (mut parents, mut mode, mut operands) = (false, None, Vec::new());
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-p" | "-pv" | "-vp" => parents = true,
            "-v" | "--" => {}
            "-m" => {
                let given = args.next().and_then(|m| u32::from_str_radix(m, 8).ok());
                let Some(given) = given else {
                    writeln!(call.err, "mkdir: invalid file mode\n{USAGE}")?;
                    return Ok(64);
                };
                mode = Some(given);
            }
            flag if flag.starts_with('-') => {
                writeln!(call.err, "mkdir: illegal option -- {}\n{USAGE}", flag.trim_start_matches('-'))?;
                return Ok(64);
            }
            dir => operands.push(dir.to_owned()),
        }
    }
    if operands.is_empty() {
        writeln!(call.err, "{USAGE}")?;
        return Ok(64);
    }
    let mut status = 0;
    for arg in operands {
        let done = match call.target(trimmed(&arg))? {
            Some(place) => make(call, &arg, &place, parents, mode)?,
            None => false,
        };
        if !done {
            status = 1;
        }
    }
    Ok(status)
}

fn make(call: &mut Call<'_>, arg: &str, place: &Path, parents: bool, mode: Option<u32>) -> io::Result<bool> {
    if parents && place.is_dir() {
        return Ok(true);
    }
    // The folders that are not there yet, outermost first.
    let mut missing: Vec<&Path> = place.ancestors().take_while(|p| !p.exists()).collect();
    missing.reverse();
    if !parents && missing.len() > 1 {
        call.complain(arg, "No such file or directory")?;
        return Ok(false);
    }
    let first = missing.first().copied().unwrap_or(place);
    if !call.may_write_entry(arg, first)? {
        return Ok(false);
    }
    for folder in &missing {
        if let Err(e) = fs::DirBuilder::new().mode(0o755).create(folder) {
            call.failed(arg, &e)?;
            return Ok(false);
        }
    }
    if missing.is_empty() {
        call.complain(arg, "File exists")?;
        return Ok(false);
    }
    if let Some(mode) = mode {
        fs::set_permissions(place, fs::Permissions::from_mode(mode))?;
    }
    let new: Vec<_> = missing.iter().map(|p| p.to_path_buf()).collect();
    owners::created(call.node, call.uid, &new)?;
    Ok(true)
}

/// `touch FILE…`.
pub(in crate::sim::tools) fn touch(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(found) = super::words(call, "acm", "usage: touch [-A [-][[hh]mm]SS] [-achm] file ...")? else {
        return Ok(1);
    };
    let mut status = 0;
    for arg in &found.operands {
        let Some(place) = call.target(arg)? else {
            status = 1;
            continue;
        };
        let new = !place.exists();
        let allowed =
            if new { call.may_write_entry(arg, &place)? } else { call.may_change(arg, &place, "Permission denied")? };
        if !allowed {
            status = 1;
            continue;
        }
        let opened = fs::OpenOptions::new().create(true).append(true).open(&place);
        match opened.and_then(|f| f.set_modified(std::time::SystemTime::now())) {
            Ok(()) if new => owners::created(call.node, call.uid, &[place])?,
            Ok(()) => {}
            Err(e) => {
                call.failed(arg, &e)?;
                status = 1;
            }
        }
    }
    Ok(status)
}
