//! `chmod`.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{Call, unshare};

/// `chmod [-fhRv] MODE FILE…`; MODE octal or `[ugoa]*[+-=][rwxX]*`, comma separated.
pub(in crate::sim::tools) fn chmod(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: chmod [-fhv] [-R [-H | -L | -P]] [-a | +a | =a  [i][# [ n]]] mode|entry file ...";
    // A mode may begin with `-`: flags are only what is one.
    let is_flag = |w: &&String| w.len() > 1 && w.starts_with('-') && w[1..].chars().all(|c| "fhvRHLP".contains(c));
    let recursive = call.args.iter().take_while(is_flag).any(|f| f.contains('R'));
    let rest: Vec<String> = call.args.iter().skip_while(is_flag).cloned().collect();
    let Some((mode, files)) = rest.split_first().filter(|(_, f)| !f.is_empty()) else {
        writeln!(call.err, "{USAGE}")?;
        return Ok(1);
    };
    if change(mode, 0o644, false).is_none() {
        writeln!(call.err, "chmod: Invalid file mode: {mode}")?;
        return Ok(1);
    }
    let mut status = 0;
    for arg in files {
        let done = match call.target(arg)? {
            Some(place) if !place.exists() => call.complain(arg, "No such file or directory").map(|()| false)?,
            Some(place) => {
                call.may_change(arg, &place, "Operation not permitted")? && apply(call, arg, &place, mode, recursive)?
            }
            None => false,
        };
        if !done {
            status = 1;
        }
    }
    Ok(status)
}

fn apply(call: &mut Call<'_>, arg: &str, place: &Path, mode: &str, recursive: bool) -> io::Result<bool> {
    let meta = fs::metadata(place)?;
    let old = meta.mode() & 0o7777;
    let new = change(mode, old, meta.is_dir()).unwrap_or(old);
    if recursive && meta.is_dir() {
        for entry in fs::read_dir(place)? {
            let path = entry?.path();
            // Links are left alone: what they lead to has its own place.
            if !fs::symlink_metadata(&path)?.is_symlink() {
                apply(call, arg, &path, mode, true)?;
            }
        }
    }
    if new != old
        && let Err(e) = unshare(place).and_then(|()| fs::set_permissions(place, fs::Permissions::from_mode(new)))
    {
        return call.failed(arg, &e).map(|()| false);
    }
    Ok(true)
}

/// The new permission bits; none when the mode makes no sense.
fn change(mode: &str, old: u32, is_dir: bool) -> Option<u32> {
    if mode.chars().all(|c| c.is_digit(8)) && !mode.is_empty() {
        return u32::from_str_radix(mode, 8).ok().filter(|m| *m <= 0o7777);
    }
    let mut bits = old;
    for clause in mode.split(',') {
        let at = clause.find(['+', '-', '='])?;
        let (who, rest) = clause.split_at(at);
        let mut mask = 0;
        for c in who.chars() {
            mask |= match c {
                'u' => 0o700,
                'g' => 0o070,
                'o' => 0o007,
                'a' => 0o777,
                _ => return None,
            };
        }
        if who.is_empty() {
            mask = 0o777;
        }
        let (operator, letters) = rest.split_at(1);
        let mut wanted = 0;
        for c in letters.chars() {
            wanted |= match c {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                'X' if is_dir || old & 0o111 != 0 => 0o111,
                'X' => 0,
                _ => return None,
            };
        }
        // Without a class the umask (022) holds.
        let wanted = wanted & mask & if who.is_empty() { !0o022 } else { !0 };
        bits = match operator {
            "+" => bits | wanted,
            "-" => bits & !wanted,
            _ => (bits & !mask) | wanted,
        };
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn modes_octal_and_symbolic() {
        for (mode, old, new) in [
            ("755", 0o600, Some(0o755)),
            ("+x", 0o644, Some(0o755)),
            ("u+x,go-w", 0o666, Some(0o744)),
            ("go=", 0o755, Some(0o700)),
            ("a=r", 0o777, Some(0o444)),
            ("g+w", 0o644, Some(0o664)),
            ("888", 0, None),
            ("u+q", 0, None),
            ("", 0, None),
        ] {
            assert_eq!(change(mode, old, false), new, "{mode}");
        }
    }
}
