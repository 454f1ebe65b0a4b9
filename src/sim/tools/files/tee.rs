//! `tee`.

use std::fs::OpenOptions;
use std::io::{self, Write};

use super::{Call, unshare, words};
use crate::sim::owners;

/// `tee [-a] [FILE…]`.
pub(in crate::sim::tools) fn tee(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(found) = words(call, "ai", "usage: tee [-ai] [file ...]")? else { return Ok(1) };
    let append = found.flags.contains('a');
    let mut status = 0;
    let mut open = Vec::new();
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
        let file = unshare(&place)
            .and_then(|()| OpenOptions::new().create(true).write(true).append(append).truncate(!append).open(&place));
        match file {
            Ok(file) => {
                if new {
                    owners::created(call.node, call.uid, &[place])?;
                }
                open.push((arg.clone(), file));
            }
            Err(e) => {
                call.failed(arg, &e)?;
                status = 1;
            }
        }
    }
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let n = call.stdin.read(&mut buffer)?;
        if n == 0 {
            return Ok(status);
        }
        call.out.write_all(&buffer[..n])?;
        for (arg, file) in &mut open {
            if let Err(e) = file.write_all(&buffer[..n]) {
                writeln!(call.err, "tee: {arg}: {}", super::errno_text(&e))?;
                status = 1;
            }
        }
    }
}
