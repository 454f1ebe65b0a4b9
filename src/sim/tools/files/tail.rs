//! `tail`, following included.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::Call;

/// Where to begin.
#[derive(Clone, Copy)]
enum From {
    /// The last n lines (`-n 5`).
    Last(usize),
    /// From line n on (`-n +5`).
    Line(usize),
    /// The last n bytes (`-c 5`).
    Bytes(u64),
}

/// `tail [-F | -f] [-c N | -n N] [FILE]`.
pub(in crate::sim::tools) fn tail(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: tail [-F | -f | -r] [-q] [-b # | -c # | -n #] [file ...]";
    let (mut from, mut follow, mut by_name, mut files) = (From::Last(10), false, false, Vec::new());
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) else {
            files.push(arg.clone());
            continue;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            match letter {
                'f' => follow = true,
                'F' => (follow, by_name) = (true, true),
                'q' => {}
                'n' | 'c' => {
                    let rest: String = letters.by_ref().collect();
                    let value = if rest.is_empty() { args.next().cloned().unwrap_or_default() } else { rest };
                    let Some(start) = start(letter, &value) else {
                        writeln!(call.err, "tail: illegal offset -- {value}")?;
                        return Ok(1);
                    };
                    from = start;
                }
                other => {
                    writeln!(call.err, "tail: illegal option -- {other}\n{USAGE}")?;
                    return Ok(1);
                }
            }
        }
    }
    if files.len() > 1 {
        writeln!(call.err, "macsim: tail is simulated for one file")?;
        return Ok(1);
    }
    let Some(arg) = files.pop() else {
        let mut text = Vec::new();
        call.stdin.read_to_end(&mut text)?;
        return call.out.write_all(&text[offset(&text, from)..]).map(|()| 0);
    };
    let Some(place) = call.target(&arg)? else { return Ok(1) };
    if !call.may_read(&arg, &place)? {
        return Ok(1);
    }
    let mut at = match File::open(&place) {
        Ok(file) => first(call, file, from)?,
        Err(e) => {
            call.failed(&arg, &e)?;
            if !by_name {
                return Ok(1);
            }
            Position::default()
        }
    };
    call.out.flush()?;
    if follow {
        self::follow(call, &arg, &place, &mut at, by_name)?;
    }
    Ok(0)
}

fn start(letter: char, value: &str) -> Option<From> {
    if letter == 'c' {
        return value.trim_start_matches('-').parse().ok().map(From::Bytes);
    }
    match value.strip_prefix('+') {
        Some(number) => number.parse().ok().map(From::Line),
        None => value.trim_start_matches('-').parse().ok().map(From::Last),
    }
}

/// How far a file was read, and which one.
#[derive(Default)]
struct Position {
    offset: u64,
    inode: u64,
}

fn first(call: &mut Call<'_>, mut file: File, from: From) -> io::Result<Position> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    call.out.write_all(&text[offset(&text, from)..])?;
    Ok(Position { offset: u64::try_from(text.len()).unwrap_or(0), inode: file.metadata()?.ino() })
}

/// Index of the first byte to show.
fn offset(text: &[u8], from: From) -> usize {
    let starts = || std::iter::once(0).chain(text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(n, _)| n + 1));
    match from {
        From::Bytes(n) => text.len().saturating_sub(usize::try_from(n).unwrap_or(usize::MAX)),
        From::Line(n) => starts().nth(n.saturating_sub(1)).unwrap_or(text.len()),
        From::Last(n) => {
            let lines: Vec<usize> = starts().filter(|s| *s < text.len()).collect();
            lines.len().checked_sub(n).map_or(0, |skip| lines.get(skip).copied().unwrap_or(text.len()))
        }
    }
}

fn follow(call: &mut Call<'_>, arg: &str, place: &Path, at: &mut Position, by_name: bool) -> io::Result<()> {
    while !(call.cancelled)() {
        std::thread::sleep(Duration::from_millis(50));
        let Ok(meta) = fs::metadata(place) else {
            if by_name {
                continue;
            }
            return Ok(());
        };
        if meta.len() < at.offset || (by_name && meta.ino() != at.inode) {
            if by_name && at.inode != 0 {
                writeln!(call.err, "tail: {arg} has been replaced, reopening.")?;
            }
            at.offset = 0;
            at.inode = meta.ino();
        }
        if meta.len() > at.offset {
            let mut file = File::open(place)?;
            file.seek(SeekFrom::Start(at.offset))?;
            at.offset += io::copy(&mut file, call.out)?;
            call.out.flush()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{From, offset};

    #[test]
    fn lines_are_counted_with_and_without_a_last_newline() {
        let text = b"a\nb\nc\n";
        assert_eq!(offset(text, From::Last(2)), 2);
        assert_eq!(offset(text, From::Last(9)), 0);
        assert_eq!(offset(text, From::Last(0)), 6);
        assert_eq!(offset(text, From::Line(2)), 2);
        assert_eq!(offset(text, From::Line(9)), 6);
        assert_eq!(offset(b"a\nb", From::Last(1)), 2);
        assert_eq!(offset(b"", From::Last(1)), 0);
        assert_eq!(offset(text, From::Bytes(3)), 3);
    }
}
