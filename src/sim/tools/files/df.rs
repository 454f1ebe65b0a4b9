//! `df`: the data volume of the node (samples/storage).

use std::io;

use super::Call;

/// `df -k [PATH…]`; other units are not simulated.
pub(in crate::sim::tools) fn df(call: &mut Call<'_>) -> io::Result<i32> {
    let mut posix = false;
    let mut paths = Vec::new();
    for arg in call.args {
        match arg.as_str() {
            "-k" => {}
            "-P" | "-kP" | "-Pk" => posix = true,
            flag if flag.starts_with('-') => {
                let letter = flag.trim_start_matches('-');
                writeln!(call.err, "macsim: df is simulated with -k only, not -{letter}")?;
                return Ok(1);
            }
            path => paths.push(path.to_owned()),
        }
    }
    let disk = call.node.load()?.disk;
    let mut status = 0;
    let mut rows = usize::from(paths.is_empty());
    for arg in paths {
        match call.target(&arg)? {
            Some(place) if place.exists() => rows += 1,
            Some(_) => {
                call.complain(&arg, "No such file or directory")?;
                status = 1;
            }
            None => status = 1,
        }
    }
    if rows == 0 {
        return Ok(status);
    }
    let (total, free) = (disk.total_kb, disk.available_kb.min(disk.total_kb));
    let used = total - free;
    let capacity = if total == 0 { 100 } else { (used * 100).div_ceil(total) };
    if posix {
        writeln!(call.out, "Filesystem   1024-blocks      Used Available Capacity  Mounted on")?;
    } else {
        writeln!(
            call.out,
            "Filesystem   1024-blocks      Used Available Capacity iused      ifree %iused  Mounted on"
        )?;
    }
    for _ in 0..rows {
        write!(call.out, "/dev/disk3s5 {total:>11} {used:>9} {free:>9} {capacity:>5}%")?;
        if posix {
            writeln!(call.out, "    /System/Volumes/Data")?;
        } else {
            writeln!(call.out, " {:>7} {:>10} {:>4}%   /System/Volumes/Data", 812_344, free * 10, 1)?;
        }
    }
    Ok(status)
}
