//! One line of a `known_hosts` file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use super::HostKey;
use crate::remote::pattern;

/// What a line begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing: the key is good.
    None,
    /// `@revoked`: the key is never to be accepted.
    Revoked,
    /// `@cert-authority`: the key signs host certificates.
    CertAuthority,
}

/// A line that says something.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) marker: Marker,
    pub(super) names: Names,
    pub(super) key: HostKey,
}

/// The hosts a line is about.
#[derive(Clone, Debug)]
pub(super) enum Names {
    /// Comma-separated patterns, lower case.
    Patterns(Vec<String>),
    /// `|1|salt|hash`: HMAC-SHA1 of one name.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

/// What became of a line.
#[derive(Debug)]
pub(super) enum Read {
    /// Blank or a comment.
    Nothing,
    Entry(Entry),
    /// Not understood, and why.
    Broken(String),
}

/// A name that only those recognise who know it: `|1|salt|hash`, as `ssh-keygen -H` writes it.
pub(super) fn hashed(salt: &[u8; 20], name: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(salt).expect("HMAC takes keys of any length");
    mac.update(name.as_bytes());
    format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(mac.finalize().into_bytes()))
}

impl Names {
    fn read(field: &str) -> Result<Self, String> {
        let Some(hashed) = field.strip_prefix('|') else {
            return Ok(Names::Patterns(field.split(',').map(str::to_ascii_lowercase).collect()));
        };
        let mut parts = hashed.split('|');
        let (Some("1"), Some(salt), Some(hash), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return Err("a hashed name that is not `|1|salt|hash`".to_owned());
        };
        match (STANDARD.decode(salt), STANDARD.decode(hash)) {
            (Ok(salt), Ok(hash)) => Ok(Names::Hashed { salt, hash }),
            _ => Err("a hashed name that is not base64".to_owned()),
        }
    }

    /// Whether the line is about this name (`host` or `[host]:port`).
    pub(super) fn matches(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        match self {
            Names::Patterns(patterns) => pattern::any(patterns.iter().map(String::as_str), &lower),
            Names::Hashed { salt, hash } => [name, lower.as_str()].iter().any(|candidate| {
                Hmac::<Sha1>::new_from_slice(salt)
                    .is_ok_and(|mac| mac.chain_update(candidate.as_bytes()).verify_slice(hash).is_ok())
            }),
        }
    }
}

/// Reads one line, without its newline. Fields are separated by blanks and tabs in any number.
pub(super) fn read(raw: &str) -> Read {
    let line = raw.trim_matches(|c: char| c == ' ' || c == '\t' || c == '\r');
    if line.is_empty() || line.starts_with('#') {
        return Read::Nothing;
    }
    let mut fields = line.split([' ', '\t']).filter(|f| !f.is_empty()).peekable();
    let marker = match fields.peek() {
        Some(&"@revoked") => Marker::Revoked,
        Some(&"@cert-authority") => Marker::CertAuthority,
        Some(other) if other.starts_with('@') => {
            return Read::Broken(format!("unknown marker `{}`", other.escape_debug()));
        }
        _ => Marker::None,
    };
    if marker != Marker::None {
        fields.next();
    }
    let (Some(names), Some(kind), Some(key)) = (fields.next(), fields.next(), fields.next()) else {
        return Read::Broken("it is not `hosts type key`".to_owned());
    };
    let names = match Names::read(names) {
        Ok(names) => names,
        Err(why) => return Read::Broken(why),
    };
    let Some(key) = STANDARD.decode(key).ok().and_then(HostKey::from_blob) else {
        return Read::Broken("the key is not a base64 public key".to_owned());
    };
    if key.kind != kind {
        return Read::Broken(format!("it says `{}` but holds a key of type {}", kind.escape_debug(), key.kind));
    }
    Read::Entry(Entry { marker, names, key })
}
