//! Appends a key to the user's `known_hosts` file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FlockOperation, flock};

use super::{HostKey, KnownHosts, Verdict, listed_name};

/// How the name of a host is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// As it is.
    #[default]
    Plain,
    /// `HashKnownHosts yes`: `|1|salt|HMAC-SHA1`, so that the file tells nobody which hosts it is about.
    Hashed,
}

impl Listing {
    fn write(self, name: &str) -> io::Result<String> {
        if self == Listing::Plain {
            return Ok(name.to_owned());
        }
        let mut salt = [0; 20];
        File::open("/dev/urandom")?.read_exact(&mut salt)?;
        Ok(super::line::hashed(&salt, &name.to_ascii_lowercase()))
    }
}

/// Records the key of an unknown host, as OpenSSH writes it: one whole line, in one write, under a lock, and only if
/// the host is still unknown to this file (another run may have been faster).
///
/// # Errors
/// The file cannot be written; or it meanwhile says something else about the host ([`io::ErrorKind::AlreadyExists`]).
pub fn record(file: &Path, host: &str, port: u16, key: &HostKey, listing: Listing) -> io::Result<()> {
    if let Some(dir) = file.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut handle = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(file)?;
    lock(&handle)?;
    let mut now = KnownHosts::default();
    let mut text = Vec::new();
    handle.read_to_end(&mut text)?;
    now.add(file, &String::from_utf8_lossy(&text));
    match now.check(host, port, key) {
        Verdict::Known => return Ok(()),
        Verdict::Unknown => {}
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} meanwhile lists another key for {}", file.display(), listed_name(host, port)),
            ));
        }
    }
    let gap = if ends_open(&mut handle)? { "\n" } else { "" };
    let name = listing.write(&listed_name(host, port))?;
    let line = format!("{gap}{name} {} {}\n", key.kind, STANDARD.encode(&key.blob));
    let before = handle.metadata()?.len();
    if let Err(e) = handle.write_all(line.as_bytes()) {
        // A full disk must not leave half a line that the next append would complete to nonsense.
        let _ = handle.set_len(before);
        return Err(e);
    }
    // Devices (`UserKnownHostsFile /dev/null`) cannot be synchronised; the line is written all the same.
    let _ = handle.sync_data();
    Ok(())
}

/// Takes the lock, for 5 s at most: it is held for one line only, by whoever holds it.
pub(super) fn lock(file: &File) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if start.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            other => return other.map_err(Into::into),
        }
    }
}

/// Whether the last line lacks its newline.
fn ends_open(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
