//! Replaces what is recorded for one host, and nothing else.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::line::{self, Marker, Names};
use super::record::{Listing, lock, record};
use super::{HostKey, Place, listed_name};

/// Keys that were taken out, with the places where they stood.
pub(super) type Removed = Vec<(Place, HostKey)>;

/// Takes every key recorded for this host and port out of these files, then records the new one in the first of them.
/// Lines that list other hosts as well keep them; comments, order and all other lines stay byte for byte.
///
/// # Errors
/// A file cannot be read or written. A line lists the host by a pattern, which may be about other hosts too
/// ([`io::ErrorKind::Unsupported`]): then nothing is changed.
pub fn replace(files: &[PathBuf], host: &str, port: u16, key: &HostKey, listing: Listing) -> io::Result<Removed> {
    let name = listed_name(host, port);
    let Some(first) = files.first() else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no known_hosts file to record it in"));
    };
    let mut removed = Vec::new();
    let mut changed = Vec::new();
    for file in files {
        let Some((path, handle)) = open(file)? else { continue };
        let (text, gone) = without(file, &read(&handle)?, &name)?;
        if !gone.is_empty() {
            removed.extend(gone);
            changed.push((path, text, handle));
        }
    }
    // Every file has been looked at, and each is still locked.
    for (path, text, handle) in &changed {
        write(path, text, handle)?;
    }
    drop(changed);
    record(first, host, port, key, listing)?;
    Ok(removed)
}

/// The file behind a name (links followed), locked; none when it does not exist.
fn open(file: &Path) -> io::Result<Option<(PathBuf, File)>> {
    let path = match file.canonicalize() {
        Ok(path) => path,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(named(file, &e)),
    };
    let handle = OpenOptions::new().read(true).write(true).open(&path).map_err(|e| named(file, &e))?;
    lock(&handle)?;
    Ok(Some((path, handle)))
}

fn named(file: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", file.display()))
}

fn read(mut handle: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    handle.read_to_end(&mut text)?;
    Ok(text)
}

/// Writes it whole or not at all, with the rights it had.
fn write(path: &Path, text: &[u8], old: &File) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".known_hosts-").tempfile_in(dir)?;
    file.as_file().set_permissions(old.metadata()?.permissions())?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// The text without the name, and the keys that were recorded for it.
fn without(file: &Path, text: &[u8], name: &str) -> io::Result<(Vec<u8>, Removed)> {
    let mut out = Vec::with_capacity(text.len());
    let mut gone = Vec::new();
    for (index, raw) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let shown = String::from_utf8_lossy(raw);
        let place = Place { file: file.to_owned(), line: index + 1 };
        let entry = match line::read(shown.trim_end_matches('\n')) {
            line::Read::Entry(entry) if entry.marker == Marker::None && entry.names.matches(name) => entry,
            // Revoked keys stay revoked, and authorities are not about one host.
            _ => {
                out.extend_from_slice(raw);
                continue;
            }
        };
        if let Names::Patterns(patterns) = &entry.names {
            let lower = name.to_ascii_lowercase();
            if patterns.iter().any(|p| p != &lower && (p.starts_with('!') || p.contains(['*', '?']))) {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{place} lists {name} by a pattern that may be about other hosts too"),
                ));
            }
            if patterns.iter().any(|p| p != &lower) {
                out.extend_from_slice(shorter(&shown, &lower).as_bytes());
            }
        }
        gone.push((place, entry.key));
    }
    Ok((out, gone))
}

/// The line without one of its names.
fn shorter(line: &str, name: &str) -> String {
    let start = line.len() - line.trim_start().len();
    let (margin, rest) = line.split_at(start);
    let (names, rest) = rest.split_at(rest.find([' ', '\t']).unwrap_or(rest.len()));
    let left: Vec<&str> = names.split(',').filter(|n| n.to_ascii_lowercase() != name).collect();
    format!("{margin}{}{rest}", left.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> HostKey {
        let mut blob = vec![0, 0, 0, 11];
        blob.extend_from_slice(b"ssh-ed25519");
        blob.extend_from_slice(&[0, 0, 0, 32]);
        blob.extend_from_slice(&[seed; 32]);
        HostKey::from_blob(blob).expect("a key")
    }

    fn text(key: &HostKey) -> String {
        use base64::Engine;
        format!("{} {}", key.kind, base64::engine::general_purpose::STANDARD.encode(&key.blob))
    }

    #[test]
    fn only_the_host_changes_and_the_rest_stays_byte_for_byte() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = [dir.path().join("known_hosts"), dir.path().join("known_hosts2")];
        let (old, other, new) = (text(&key(1)), text(&key(2)), key(3));
        let before = format!(
            "# mine\r\n\n@revoked mac {other}\nMac {old} old Mac\nother,mac,10.0.0.9 {old}\nmac2 {other}\nbroken\n[mac]:2200 {old}"
        );
        std::fs::write(&files[0], &before).expect("written");
        std::fs::write(&files[1], format!("mac {other}\n")).expect("written");
        let gone = replace(&files, "mac", 22, &new, Listing::Plain).expect("replaced");
        let places: Vec<usize> = gone.iter().map(|(place, _)| place.line).collect();
        assert_eq!((places, gone[2].1.clone()), (vec![4, 5, 1], key(2)));
        assert_eq!(
            std::fs::read_to_string(&files[0]).expect("readable"),
            format!(
                "# mine\r\n\n@revoked mac {other}\nother,10.0.0.9 {old}\nmac2 {other}\nbroken\n[mac]:2200 {old}\nmac {}\n",
                text(&new)
            )
        );
        assert_eq!(std::fs::read_to_string(&files[1]).expect("readable"), "");
        // Again: the key is taken out and comes back.
        assert_eq!(replace(&files, "mac", 22, &new, Listing::Plain).expect("replaced").len(), 1);
    }

    #[test]
    fn a_pattern_is_left_alone_and_nothing_changes() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("known_hosts");
        let before = format!("mac {}\nm* {}\n", text(&key(1)), text(&key(1)));
        std::fs::write(&file, &before).expect("written");
        let error = replace(std::slice::from_ref(&file), "mac", 22, &key(3), Listing::Plain).expect_err("a pattern");
        assert!(error.to_string().ends_with(":2 lists mac by a pattern that may be about other hosts too"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), before);
    }

    #[test]
    fn a_host_that_was_not_recorded_is_added() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("new/known_hosts");
        assert_eq!(replace(std::slice::from_ref(&file), "mac", 2200, &key(3), Listing::Plain).expect("recorded"), []);
        assert_eq!(std::fs::read_to_string(&file).expect("readable"), format!("[mac]:2200 {}\n", text(&key(3))));
    }
}
