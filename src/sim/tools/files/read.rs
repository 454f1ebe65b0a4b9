//! `cat` and `test`.

use std::fs::{self, File};
use std::io;

use super::{Call, words};

/// `cat [-u] [FILE…]`.
pub(in crate::sim::tools) fn cat(call: &mut Call<'_>) -> io::Result<i32> {
    let Some(found) = words(call, "u", "usage: cat [-belnstuv] [file ...]")? else { return Ok(1) };
    let mut status = 0;
    let operands = if found.operands.is_empty() { vec!["-".to_owned()] } else { found.operands };
    for arg in &operands {
        if arg == "-" {
            io::copy(call.stdin, call.out)?;
            continue;
        }
        let Some(place) = call.target(arg)? else {
            status = 1;
            continue;
        };
        if !call.may_read(arg, &place)? {
            status = 1;
            continue;
        }
        if place.is_dir() {
            call.complain(arg, "Is a directory")?;
            status = 1;
            continue;
        }
        match File::open(&place) {
            Ok(mut file) => drop(io::copy(&mut file, call.out)?),
            Err(e) => {
                call.failed(arg, &e)?;
                status = 1;
            }
        }
    }
    Ok(status)
}

/// `test -d|-e|-f|-L|-h|-r|-s|-x PATH`, the unary forms on files only.
pub(in crate::sim::tools) fn test(call: &mut Call<'_>) -> io::Result<i32> {
    let [flag, arg] = call.args else {
        writeln!(call.err, "macsim: test is simulated for one file test only")?;
        return Ok(2);
    };
    let (flag, arg) = (flag.clone(), arg.clone());
    if matches!(flag.as_str(), "-L" | "-h") {
        let Some(place) = call.place(&arg)? else { return Ok(1) };
        return Ok(i32::from(!fs::symlink_metadata(place).is_ok_and(|m| m.is_symlink())));
    }
    let Some(place) = call.target(&arg)? else { return Ok(1) };
    let Ok(meta) = fs::metadata(&place) else { return Ok(1) };
    let yes = match flag.as_str() {
        "-e" | "-r" => true,
        "-d" => meta.is_dir(),
        "-f" => meta.is_file(),
        "-s" => meta.len() > 0,
        "-x" => {
            use std::os::unix::fs::MetadataExt;
            meta.mode() & 0o111 != 0
        }
        _ => {
            writeln!(call.err, "test: {flag}: unexpected operator")?;
            return Ok(2);
        }
    };
    Ok(i32::from(!yes))
}
