//! `ls`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Call, trimmed, words};
use crate::sim::owners;
use crate::sim::state::NodeState;

/// `ls [-1aAdln] [FILE…]`, one name per line: standard output is never a terminal here.
pub(in crate::sim::tools) fn ls(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str =
        "usage: ls [-@ABCFGHILOPRSTUWXabcdefghiklmnopqrstuvwxy1%,] [--color=when] [-D format] [file ...]";
    let Some(found) = words(call, "1aAdlnTe@O", USAGE)? else { return Ok(1) };
    let has = |c: char| found.flags.contains(c);
    let operands = if found.operands.is_empty() { vec![".".to_owned()] } else { found.operands.clone() };
    let state = call.node.load()?;
    let mut status = 0;
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for arg in &operands {
        let bare = trimmed(arg);
        let place = if has('l') && bare == arg { call.place(arg)? } else { call.target(bare)? };
        let Some(place) = place else {
            status = 1;
            continue;
        };
        match fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() && !has('d') => folders.push((arg, place)),
            Ok(_) => files.push((arg, place)),
            Err(e) => {
                call.failed(arg, &e)?;
                status = 1;
            }
        }
    }
    files.sort();
    folders.sort();
    for (name, place) in &files {
        entry(call, &state, name, place, &found.flags)?;
    }
    let headings = operands.len() > 1;
    let mut blank = !files.is_empty();
    for (name, place) in &folders {
        if blank {
            writeln!(call.out)?;
        }
        if headings {
            writeln!(call.out, "{name}:")?;
        }
        blank = true;
        let mut names: Vec<String> =
            fs::read_dir(place)?.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        if has('a') {
            names.extend([".".to_owned(), "..".to_owned()]);
        }
        names.retain(|n| has('a') || has('A') || !n.starts_with('.'));
        names.sort();
        if has('l') || has('n') {
            let blocks: u64 =
                names.iter().filter_map(|n| fs::symlink_metadata(place.join(n)).ok()).map(|m| m.blocks()).sum();
            writeln!(call.out, "total {blocks}")?;
        }
        for name in names {
            let path = if name == "." || name == ".." { place.clone() } else { place.join(&name) };
            entry(call, &state, &name, &path, &found.flags)?;
        }
    }
    Ok(status)
}

fn entry(call: &mut Call<'_>, state: &NodeState, name: &str, place: &Path, flags: &str) -> io::Result<()> {
    if !flags.contains('l') && !flags.contains('n') {
        return writeln!(call.out, "{name}");
    }
    let Ok(meta) = fs::symlink_metadata(place) else { return Ok(()) };
    let (uid, gid) = owners::owner(state, &owners::key(call.node, place));
    let (user, group) = if flags.contains('n') {
        (uid.to_string(), gid.to_string())
    } else {
        (owners::user_name(state, uid), owners::group_name(gid))
    };
    let when = jiff::Timestamp::from_second(meta.mtime()).unwrap_or_default().strftime("%b %e %H:%M");
    let arrow = if meta.is_symlink() {
        fs::read_link(place).map(|t| format!(" -> {}", t.display())).unwrap_or_default()
    } else {
        String::new()
    };
    let kind = permissions(&meta);
    writeln!(call.out, "{kind}  {} {user}  {group}  {} {when} {name}{arrow}", meta.nlink(), meta.len())
}

/// `-rwxr-xr-x`.
pub(super) fn permissions(meta: &fs::Metadata) -> String {
    let mode = meta.mode();
    let first = if meta.is_dir() {
        'd'
    } else if meta.is_symlink() {
        'l'
    } else {
        '-'
    };
    let bits = (0..9).map(|n| if mode & (0o400 >> n) == 0 { '-' } else { ['r', 'w', 'x'][n % 3] });
    std::iter::once(first).chain(bits).collect()
}
