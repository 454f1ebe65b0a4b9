//! Keys of a rack, made anew for each.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};

/// A new Ed25519 key.
pub(super) fn new() -> io::Result<PrivateKey> {
    PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).map_err(io::Error::other)
}

/// Writes it as OpenSSH does, for its owner alone.
pub(super) fn write(key: &PrivateKey, path: &Path) -> io::Result<()> {
    let text = key.to_openssh(LineEnding::LF).map_err(io::Error::other)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// A public key in OpenSSH's form, without a comment.
pub(super) fn public(key: &PublicKey) -> io::Result<String> {
    let key = key.to_openssh().map_err(io::Error::other)?;
    Ok(key.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

/// A line of `known_hosts`.
pub(super) fn known(port: u16, key: &PublicKey) -> io::Result<String> {
    Ok(format!("[127.0.0.1]:{port} {}\n", public(key)?))
}
