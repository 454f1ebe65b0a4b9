//! `stat -f FORMAT` as BSD has it; GNU's `-c` does not exist.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::Call;
use crate::sim::owners;
use crate::sim::state::NodeState;

const USAGE: &str = "usage: stat [-FLnq] [-f format | -l | -r | -s | -x] [-t timefmt] [file ...]";

/// `stat [-Ln] -f FORMAT FILE…`.
pub(in crate::sim::tools) fn stat(call: &mut Call<'_>) -> io::Result<i32> {
    let (mut format, mut follow, mut newline, mut quiet, mut files) = (None, false, true, false, Vec::new());
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-f" => format = args.next().cloned(),
            "-Lf" => (follow, format) = (true, args.next().cloned()),
            "-L" => follow = true,
            "-n" => newline = false,
            "-q" => quiet = true,
            "-t" => drop(args.next()),
            flag if flag.starts_with('-') && flag.len() > 1 => {
                let letter = flag.trim_start_matches('-').chars().next().unwrap_or('-');
                writeln!(call.err, "stat: illegal option -- {letter}\n{USAGE}")?;
                return Ok(1);
            }
            file => files.push(file.to_owned()),
        }
    }
    let Some(format) = format else {
        writeln!(call.err, "macsim: stat is simulated with -f only")?;
        return Ok(1);
    };
    let state = call.node.load()?;
    let mut status = 0;
    for arg in files {
        let place = if follow { call.target(&arg)? } else { call.place(&arg)? };
        let Some(place) = place else {
            status = 1;
            continue;
        };
        let meta = match fs::symlink_metadata(&place) {
            Ok(meta) => meta,
            Err(e) => {
                status = 1;
                if !quiet {
                    writeln!(call.err, "stat: {arg}: stat: {}", super::errno_text(&e))?;
                }
                continue;
            }
        };
        let owner = owners::owner(&state, &owners::key(call.node, &place));
        let link = fs::read_link(&place).map(|t| t.display().to_string()).unwrap_or_default();
        let text = expand(&format, &arg, &meta, &state, owner, &link);
        call.out.write_all(text.as_bytes())?;
        if newline {
            writeln!(call.out)?;
        }
    }
    Ok(status)
}

/// `%[S|L|H][letter]`, `%n` newline, `%t` tab, `%%`.
fn expand(
    format: &str,
    name: &str,
    meta: &fs::Metadata,
    state: &NodeState,
    (uid, gid): owners::Owner,
    link: &str,
) -> String {
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut letter = chars.next().unwrap_or('%');
        let mut form = ' ';
        if "SLHM".contains(letter) {
            form = letter;
            letter = chars.next().unwrap_or('%');
        }
        let time = |seconds: i64| match form {
            'S' => jiff::Timestamp::from_second(seconds).unwrap_or_default().strftime("%b %e %H:%M:%S %Y").to_string(),
            _ => seconds.to_string(),
        };
        let text = match (form, letter) {
            (_, '%') => "%".to_owned(),
            (_, 'n') => "\n".to_owned(),
            (_, 't') => "\t".to_owned(),
            (_, 'z') => meta.len().to_string(),
            (_, 'm') => time(meta.mtime()),
            (_, 'a') => time(meta.atime()),
            (_, 'c') => time(meta.ctime()),
            ('S', 'p') => super::list::permissions(meta),
            ('L', 'p') => format!("{:o}", meta.mode() & 0o777),
            (_, 'p') => format!("{:o}", meta.mode() & 0o177_777),
            ('S', 'u') => owners::user_name(state, uid),
            ('S', 'g') => owners::group_name(gid),
            (_, 'u') => uid.to_string(),
            (_, 'g') => gid.to_string(),
            (_, 'l') => meta.nlink().to_string(),
            (_, 'i') => meta.ino().to_string(),
            (_, 'N') => name.to_owned(),
            ('S', 'Y') if !link.is_empty() => format!(" -> {link}"),
            (_, 'Y') => link.to_owned(),
            ('H', 'T') if meta.is_dir() => "Directory".to_owned(),
            ('H', 'T') if meta.is_symlink() => "Symbolic Link".to_owned(),
            ('H', 'T') => "Regular File".to_owned(),
            (_, 'T') if meta.is_dir() => "/".to_owned(),
            (_, 'T') if meta.is_symlink() => "@".to_owned(),
            (_, 'T') => String::new(),
            (_, other) => format!("%{other}"),
        };
        out.push_str(&text);
    }
    out
}
