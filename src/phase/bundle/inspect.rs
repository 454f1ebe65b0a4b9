//! What is in a bundle, without hashing it: that is `verify`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::manifest::{FileEntry, Manifest};
use super::notices::NOTICES_FILE;
use super::wheel_info::WheelInfo;

/// Found in every macluster program, and only whole there: the version between `=` and `;`.
const STAMP: &str = concat!("macluster-version=", env!("CARGO_PKG_VERSION"), ";");
/// Read of a program at once.
const CHUNK: usize = 1024 * 1024;
/// No version is longer.
const LONGEST_VERSION: usize = 64;

/// What is in a bundle.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The manifest.
    pub manifest: Manifest,
    /// Version that the agent's program carries; none when it carries no mark.
    pub agent_version: Option<String>,
    /// Every wheel, sorted by name.
    pub wheels: Vec<(WheelInfo, FileEntry)>,
    /// It has a file with all licences.
    pub notices: bool,
}

/// This program's version. Keeps the mark in the program, from which [`program_version`] reads it.
pub fn own_version() -> &'static str {
    let stamp = std::hint::black_box(STAMP);
    stamp.split_once('=').and_then(|(_, v)| v.strip_suffix(';')).unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// The version that a macluster program carries, of whatever platform.
///
/// # Errors
/// When it cannot be read.
pub fn program_version(path: &Path) -> std::io::Result<Option<String>> {
    let mut file = File::open(path)?;
    let mut held = Vec::new();
    let reach = STAMP.len() + LONGEST_VERSION;
    loop {
        let before = held.len();
        file.by_ref().take(CHUNK as u64).read_to_end(&mut held)?;
        if let Some(version) = stamped(&held) {
            return Ok(Some(version));
        }
        if held.len() == before {
            return Ok(None);
        }
        // A mark may lie across two reads.
        held.drain(..held.len().saturating_sub(reach));
    }
}

fn stamped(bytes: &[u8]) -> Option<String> {
    let (word, _) = STAMP.split_once('=')?;
    let word = format!("{word}=");
    let found = |at: usize| {
        let rest = bytes.get(at + word.len()..)?;
        let end = rest.iter().take(LONGEST_VERSION).position(|b| *b == b';')?;
        let version = std::str::from_utf8(rest.get(..end)?).ok()?;
        let plain = version.chars().all(|c| c.is_ascii_alphanumeric() || "-+.".contains(c));
        (plain && version.starts_with(|c: char| c.is_ascii_digit())).then(|| version.to_owned())
    };
    let first = *word.as_bytes().first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|b| *b == first).map(|n| n + from) {
        if bytes.get(at..)?.starts_with(word.as_bytes())
            && let Some(version) = found(at)
        {
            return Some(version);
        }
        from = at + 1;
    }
    None
}

/// Looks into a bundle's folder.
///
/// # Errors
/// In words: there is no manifest, or what it lists is not there, has another size, or is no wheel or program.
pub fn inspect(dir: &Path) -> Result<Inspection, String> {
    let manifest = Manifest::read(dir)?;
    for file in &manifest.files {
        let meta = dir.join(&file.path).symlink_metadata().map_err(|e| format!("{}: {e}", file.path))?;
        if !meta.is_file() || meta.len() != file.size {
            return Err(format!("{} is no file of {} bytes", file.path, file.size));
        }
    }
    let agent = dir.join("bin/macluster");
    manifest.check_program(dir)?;
    let mut wheels = Vec::new();
    for file in manifest.files.iter().filter(|f| Path::new(&f.path).extension().is_some_and(|e| e == "whl")) {
        wheels.push((WheelInfo::read(&dir.join(&file.path))?, file.clone()));
    }
    wheels.sort_by_key(|(info, _)| info.name.to_lowercase());
    Ok(Inspection {
        agent_version: program_version(&agent).map_err(|e| format!("bin/macluster: {e}"))?,
        wheels,
        notices: manifest.files.iter().any(|f| f.path == NOTICES_FILE),
        manifest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_its_version_wherever_the_mark_lies() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("program");
        let mark = b"macluster-version=1.2.3-rc.1+x;";
        for before in [0, 5, CHUNK - 3, CHUNK - mark.len(), CHUNK + 7] {
            let mut bytes = vec![b'm'; before];
            // The word alone, as it stands in the program for the search itself, is no mark.
            bytes.extend(b"macluster-version= macluster-version=;");
            bytes.extend(mark);
            bytes.extend(vec![0; 100]);
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(program_version(&path).expect("read").as_deref(), Some("1.2.3-rc.1+x"), "{before}");
        }
        std::fs::write(&path, b"macluster-version=").expect("written");
        assert_eq!(program_version(&path).expect("read"), None);
        assert_eq!(own_version(), env!("CARGO_PKG_VERSION"));
    }
}
