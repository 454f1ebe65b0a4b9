//! `known_hosts`: which key a host is known by. Semantics of OpenSSH's `sshd(8)`, section `SSH_KNOWN_HOSTS FILE FORMAT`;
//! russh's own reader knows neither wildcards, negation, markers, tabs nor keys of another type.

mod line;
mod record;
mod replace;

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};

pub use line::Marker;
use line::{Entry, Read};
pub use record::{Listing, record};
pub use replace::replace;

/// A host key as it is offered or recorded: its type's name and the raw public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    /// e.g. `ssh-ed25519`.
    pub kind: String,
    /// RFC 4253 public key blob.
    pub blob: Vec<u8>,
}

impl HostKey {
    /// From a blob; the type is read from the blob itself. None when it is no key blob.
    pub fn from_blob(blob: Vec<u8>) -> Option<Self> {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let name = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        let kind =
            std::str::from_utf8(name).ok().filter(|k| !k.is_empty() && k.bytes().all(|b| b.is_ascii_graphic()))?;
        Some(HostKey { kind: kind.to_owned(), blob })
    }

    /// `SHA256:…`, as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(&self.blob)))
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.fingerprint())
    }
}

/// A line of a file, for messages: `/path/known_hosts:7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Line, counted from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// What the files say about an offered key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Recorded.
    Known,
    /// Nothing is recorded for this host.
    Unknown,
    /// Another key of the same type is recorded.
    Changed {
        /// Where.
        at: Place,
        /// The recorded key.
        recorded: HostKey,
    },
    /// Only keys of other types are recorded.
    OtherType {
        /// Where the first one stands.
        at: Place,
        /// The first of them.
        recorded: HostKey,
    },
    /// The key is marked `@revoked`.
    Revoked {
        /// Where.
        at: Place,
    },
}

/// The lines of all `known_hosts` files that may speak about one connection.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    entries: Vec<(Place, Entry)>,
    /// Lines that could not be understood: remarks for the person.
    pub notes: Vec<String>,
    /// Files that exist but cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// The name under which `known_hosts` lists a host: `host`, or `[host]:port` unless the port is 22.
pub fn listed_name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

impl KnownHosts {
    /// Reads these files; those that do not exist count as empty.
    pub fn load<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Self {
        let mut all = KnownHosts::default();
        for file in files {
            let file = file.as_ref();
            match std::fs::read(file) {
                Ok(bytes) => all.add(file, &String::from_utf8_lossy(&bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => all.unreadable.push(format!("cannot read {}: {e}", file.display())),
            }
        }
        all
    }

    /// Adds the text of one file.
    pub fn add(&mut self, file: &Path, text: &str) {
        for (index, raw) in text.split('\n').enumerate() {
            let place = Place { file: file.to_owned(), line: index + 1 };
            match line::read(raw) {
                Read::Nothing => {}
                Read::Entry(entry) => self.entries.push((place, entry)),
                Read::Broken(why) => self.notes.push(format!("{place}: ignored: {why}")),
            }
        }
    }

    fn about(&self, host: &str, port: u16) -> impl Iterator<Item = &(Place, Entry)> + use<'_> {
        let name = listed_name(host, port);
        self.entries.iter().filter(move |(_, e)| e.names.matches(&name))
    }

    /// Compares the offered key with what is recorded for this host and port.
    pub fn check(&self, host: &str, port: u16, offered: &HostKey) -> Verdict {
        let verdict = self.check_listed(host, port, offered);
        if verdict == Verdict::Unknown && port != 22 && self.check_listed(host, 22, offered) == Verdict::Known {
            // As OpenSSH: the same key, recorded for the host without its port, will do.
            return Verdict::Known;
        }
        verdict
    }

    fn check_listed(&self, host: &str, port: u16, offered: &HostKey) -> Verdict {
        let mut verdict = Verdict::Unknown;
        for (place, entry) in self.about(host, port) {
            let same = entry.key == *offered;
            match entry.marker {
                // Revoked counts wherever it stands, so nothing returns before the end.
                Marker::Revoked if same => return Verdict::Revoked { at: place.clone() },
                Marker::Revoked | Marker::CertAuthority => {}
                Marker::None if same => verdict = Verdict::Known,
                Marker::None => {
                    let changed = entry.key.kind == offered.kind;
                    let replaces = match verdict {
                        Verdict::Unknown => true,
                        Verdict::OtherType { .. } => changed,
                        _ => false,
                    };
                    if replaces {
                        let (at, recorded) = (place.clone(), entry.key.clone());
                        verdict = if changed {
                            Verdict::Changed { at, recorded }
                        } else {
                            Verdict::OtherType { at, recorded }
                        };
                    }
                }
            }
        }
        verdict
    }

    /// Keys recorded for this host and port, with their places.
    pub fn recorded(&self, host: &str, port: u16) -> Vec<(Place, HostKey)> {
        let entries = self.about(host, port).filter(|(_, e)| e.marker == Marker::None);
        entries.map(|(place, entry)| (place.clone(), entry.key.clone())).collect()
    }

    /// Types of the keys recorded for this host: to be asked for first, lest the host offer one that is not recorded.
    pub fn types(&self, host: &str, port: u16) -> Vec<String> {
        let of = |port| -> Vec<String> {
            self.about(host, port).filter(|(_, e)| e.marker == Marker::None).map(|(_, e)| e.key.kind.clone()).collect()
        };
        let types = of(port);
        if types.is_empty() && port != 22 { of(22) } else { types }
    }

    /// Where a certificate authority is trusted for this host; certificates are not supported, so the line is no help.
    pub fn authority(&self, host: &str, port: u16) -> Option<&Place> {
        self.about(host, port).find(|(_, e)| e.marker == Marker::CertAuthority).map(|(place, _)| place)
    }
}
