//! `chown`: recorded, since the files belong to whoever runs the simulator.

use std::io;

use super::{Call, trimmed, words};
use crate::sim::owners;

/// `chown [-fhRv] OWNER[:GROUP] FILE…`, root only.
pub(in crate::sim::tools) fn chown(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: chown [-fhnvx] [-R [-H | -L | -P]] owner[:group] file ...";
    let Some(found) = words(call, "fhnvxRHLP", USAGE)? else { return Ok(1) };
    let recursive = found.flags.contains('R');
    let Some((spec, files)) = found.operands.split_first().filter(|(_, f)| !f.is_empty()) else {
        writeln!(call.err, "{USAGE}")?;
        return Ok(1);
    };
    let state = call.node.load()?;
    let (user, group) = spec.split_once(':').unwrap_or((spec, ""));
    let uid = match user {
        "" => None,
        name => match owners::user_id(&state, name) {
            Some(id) => Some(id),
            None => return writeln!(call.err, "chown: {name}: illegal user name").map(|()| 1),
        },
    };
    let gid = match group {
        "" => None,
        name => match owners::group_id(name) {
            Some(id) => Some(id),
            None => return writeln!(call.err, "chown: {name}: illegal group name").map(|()| 1),
        },
    };
    let mut status = 0;
    for arg in files {
        let Some(place) = call.place(trimmed(arg))? else {
            status = 1;
            continue;
        };
        if std::fs::symlink_metadata(&place).is_err() {
            call.complain(arg, "No such file or directory")?;
            status = 1;
            continue;
        }
        if call.uid != 0 {
            call.complain(arg, "Operation not permitted")?;
            status = 1;
            continue;
        }
        let key = owners::key(call.node, &place);
        call.node.update(|state| {
            let old = owners::owner(state, &key);
            let new = (uid.unwrap_or(old.0), gid.unwrap_or(old.1));
            if recursive {
                state.owners.retain(|k, _| !owners::below(k, &key));
            }
            state.owners.insert(key.clone(), new);
        })?;
    }
    Ok(status)
}
