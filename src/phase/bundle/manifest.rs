//! The manifest of a bundle: what is inside, and the proof that a folder is exactly that.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::platform::Platform;

/// Version of the manifest file.
pub const MANIFEST_VERSION: u32 = 1;
/// Its name inside a bundle.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The program that looks after a node.
const PROGRAM: &str = "bin/macluster";
/// What installing adds to a bundle, at the top of its release: the Python environment, and the note that it is complete.
pub const RELEASE_EXTRAS: &[&str] = &["venv", "installed"];
/// No manifest is longer: 16 MiB.
pub const MAX_MANIFEST: u64 = 16 * 1024 * 1024;

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_VERSION`].
    pub schema_version: u32,
    /// 16 hexadecimal digits over everything below: the same content has the same id.
    pub id: String,
    /// Platform of the programs and wheels.
    pub platform: Platform,
    /// The one Python minor the wheels are for, e.g. `3.12`.
    pub python_minor: String,
    /// Path of the bundle's own interpreter; null when the nodes must have one.
    pub python: Option<String>,
    /// Version of macluster that built it.
    pub macluster_version: String,
    /// What is installed, `name==version`, sorted.
    pub requirements: Vec<String>,
    /// Every file but the manifest, sorted by path.
    pub files: Vec<FileEntry>,
}

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Relative path, `/` separated.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Unix permission bits: 420 (0644) or 493 (0755).
    pub mode: u32,
}

impl Manifest {
    /// The id that this content has.
    pub fn content_id(&self) -> String {
        let mut anonymous = self.clone();
        anonymous.id = String::new();
        // A struct of strings and numbers always serialises.
        let bytes = serde_json::to_vec(&anonymous).unwrap_or_default();
        let mut id = hex::encode(Sha256::digest(&bytes));
        id.truncate(16);
        id
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }

    /// Reads and checks the manifest of a bundle folder.
    ///
    /// # Errors
    /// In words, with the file's name.
    pub fn read(dir: &Path) -> Result<Manifest, String> {
        let path = dir.join(MANIFEST_FILE);
        let file = File::open(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let mut text = String::new();
        file.take(MAX_MANIFEST + 1)
            .read_to_string(&mut text)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        if text.len() as u64 > MAX_MANIFEST {
            return Err(format!("{} is longer than 16 MiB: no manifest", path.display()));
        }
        Manifest::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads and checks a manifest's text.
    ///
    /// # Errors
    /// In words.
    pub fn parse(text: &str) -> Result<Manifest, String> {
        #[derive(Deserialize)]
        struct Version {
            schema_version: u32,
        }
        let version: Version = serde_json::from_str(text).map_err(|e| format!("no bundle manifest: {e}"))?;
        if version.schema_version != MANIFEST_VERSION {
            return Err(format!(
                "manifest version {}, this macluster reads {MANIFEST_VERSION}",
                version.schema_version
            ));
        }
        let manifest: Manifest = serde_json::from_str(text).map_err(|e| format!("no bundle manifest: {e}"))?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether the manifest agrees with itself and names only files inside the bundle.
    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for file in &self.files {
            safe_path(&file.path)?;
            let top = file.path.split('/').next().unwrap_or_default();
            if top == MANIFEST_FILE || RELEASE_EXTRAS.contains(&top) {
                return Err(format!("the manifest may not list {}", file.path));
            }
            // The Mac's file system takes `A` and `a` for the same name.
            let same = match self.platform {
                Platform::MacosArm64 => file.path.to_lowercase(),
                Platform::LinuxX8664 => file.path.clone(),
            };
            if !seen.insert(same) {
                return Err(format!("{} is listed twice (on a Mac, upper and lower case are the same)", file.path));
            }
            if !matches!(file.mode, 0o644 | 0o755) {
                return Err(format!("{}: mode {:o} is neither 644 nor 755", file.path, file.mode));
            }
        }
        if let Some(python) = &self.python
            && !self.files.iter().any(|f| &f.path == python && f.mode == 0o755)
        {
            return Err(format!("its Python, {python}, is not among its programs"));
        }
        if self.python_minor.split_once('.').and_then(|(_, n)| n.parse::<u32>().ok()).is_none() {
            return Err(format!("`{}` is no Python minor version", self.python_minor.escape_debug()));
        }
        let id = self.content_id();
        if id != self.id {
            return Err(format!("the id is {}, but the content's is {id}: it was changed", self.id.escape_debug()));
        }
        Ok(())
    }

    /// Proves that a folder holds exactly the manifest's files. `ignore` names entries of the top level that
    /// belong to somebody else (a release's `venv`). Calls `progress` with the bytes read so far.
    ///
    /// # Errors
    /// The first file that differs, is missing, is extra, or is a link.
    pub fn verify(&self, dir: &Path, ignore: &[&str], progress: &mut dyn FnMut(u64)) -> Result<(), String> {
        let found = walk(dir, ignore)?;
        let listed: BTreeSet<&str> = self.files.iter().map(|f| f.path.as_str()).collect();
        if let Some(extra) = found.iter().find(|f| *f != MANIFEST_FILE && !listed.contains(f.as_str())) {
            return Err(format!("{extra} is not in the manifest"));
        }
        let mut done = 0;
        for file in &self.files {
            if !found.contains(&file.path) {
                return Err(format!("{} is missing", file.path));
            }
            let path = dir.join(&file.path);
            let meta = path.symlink_metadata().map_err(|e| format!("{}: {e}", file.path))?;
            if meta.len() != file.size {
                return Err(format!("{} has {} bytes, {} expected", file.path, meta.len(), file.size));
            }
            let mode = meta.permissions().mode() & 0o7777;
            if mode != file.mode {
                return Err(format!("{} has mode {mode:o}, {:o} expected", file.path, file.mode));
            }
            let sum = sha256_file(&path, &mut |n| progress(done + n)).map_err(|e| format!("{}: {e}", file.path))?;
            if sum != file.sha256 {
                return Err(format!("{} is corrupted: SHA-256 {sum}, {} expected", file.path, file.sha256));
            }
            done += file.size;
        }
        self.check_program(dir)
    }

    /// Whether the bundle's program is one for its platform.
    ///
    /// # Errors
    /// What it is instead.
    pub fn check_program(&self, dir: &Path) -> Result<(), String> {
        let mut head = Vec::new();
        let read = File::open(dir.join(PROGRAM)).and_then(|f| f.take(20).read_to_end(&mut head));
        read.map_err(|e| format!("{PROGRAM}: {e}"))?;
        self.platform
            .accepts_program(&head)
            .map_err(|why| format!("{PROGRAM} does not run on {}: {why}", self.platform))
    }
}

/// Refuses a path that could leave the folder it is joined to.
///
/// # Errors
/// In words.
pub fn safe_path(path: &str) -> Result<(), String> {
    let bad = |why: &str| Err(format!("the path `{}` {why}", path.escape_debug()));
    if path.is_empty() {
        return bad("is empty");
    }
    if path.starts_with('/') {
        return bad("is absolute");
    }
    if path.contains('\\') || path.chars().any(char::is_control) {
        return bad("has a character that file names of a bundle never have");
    }
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return bad("leaves its folder or is not in its shortest form");
    }
    Ok(())
}

/// Relative paths of all files below `dir`, sorted.
///
/// # Errors
/// When one of them is a link or a special file.
pub fn files(dir: &Path) -> Result<BTreeSet<String>, String> {
    walk(dir, &[])
}

/// Relative paths of all files below `dir`; anything that is neither file nor folder is an error.
fn walk(dir: &Path, ignore: &[&str]) -> Result<BTreeSet<String>, String> {
    let mut files = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let here = dir.join(&relative);
        let entries = std::fs::read_dir(&here).map_err(|e| format!("cannot read {}: {e}", here.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("cannot read {}: {e}", here.display()))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                return Err(format!("{} is not in the manifest", relative.join(&name).display()));
            };
            if relative.as_os_str().is_empty() && ignore.contains(&name) {
                continue;
            }
            let path = relative.join(name);
            let kind = entry.file_type().map_err(|e| format!("{}: {e}", path.display()))?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                files.insert(path.to_string_lossy().into_owned());
            } else {
                return Err(format!("{} is a link or a special file; a bundle has none", path.display()));
            }
        }
    }
    Ok(files)
}

/// SHA-256 of a file in lower-case hexadecimal; `progress` gets the bytes read so far.
///
/// # Errors
/// As reading does.
pub fn sha256_file(path: &Path, progress: &mut dyn FnMut(u64)) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let n = file.read(&mut buffer)?;
        let Some(chunk) = buffer.get(..n).filter(|c| !c.is_empty()) else {
            return Ok(hex::encode(hash.finalize()));
        };
        hash.update(chunk);
        done += n as u64;
        progress(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ELF: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0";

    /// A small bundle folder and its manifest.
    fn bundle(dir: &Path) -> Manifest {
        std::fs::create_dir_all(dir.join("bin")).expect("folder");
        std::fs::write(dir.join(PROGRAM), ELF).expect("file");
        std::fs::set_permissions(dir.join(PROGRAM), std::fs::Permissions::from_mode(0o755)).expect("mode");
        std::fs::write(dir.join("bin/tool"), b"tool").expect("file");
        std::fs::set_permissions(dir.join("bin/tool"), std::fs::Permissions::from_mode(0o755)).expect("mode");
        std::fs::write(dir.join("requirements.txt"), b"a==1\n").expect("file");
        std::fs::set_permissions(dir.join("requirements.txt"), std::fs::Permissions::from_mode(0o644)).expect("mode");
        let entry = |path: &str, mode| FileEntry {
            path: path.to_owned(),
            size: dir.join(path).metadata().expect("exists").len(),
            sha256: sha256_file(&dir.join(path), &mut |_| {}).expect("readable"),
            mode,
        };
        let mut manifest = Manifest {
            schema_version: MANIFEST_VERSION,
            id: String::new(),
            platform: Platform::LinuxX8664,
            python_minor: "3.12".into(),
            python: None,
            macluster_version: "0.1.0".into(),
            requirements: vec!["a==1".into()],
            files: vec![entry(PROGRAM, 0o755), entry("bin/tool", 0o755), entry("requirements.txt", 0o644)],
        };
        manifest.id = manifest.content_id();
        write(dir, &manifest);
        manifest
    }

    fn write(dir: &Path, manifest: &Manifest) {
        std::fs::write(dir.join(MANIFEST_FILE), serde_json::to_vec(manifest).expect("json")).expect("manifest");
    }

    fn verify(dir: &Path) -> Result<(), String> {
        Manifest::read(dir)?.verify(dir, RELEASE_EXTRAS, &mut |_| {})
    }

    #[test]
    fn an_untouched_bundle_verifies_and_a_touched_one_does_not() {
        let dir = tempfile::tempdir().expect("tempdir");
        let dir = dir.path();
        bundle(dir);
        assert_eq!(verify(dir), Ok(()));
        std::fs::create_dir(dir.join("venv")).expect("folder");
        std::fs::write(dir.join("venv/x"), b"").expect("file");
        assert_eq!(verify(dir), Ok(()), "a release's own environment is left alone");

        std::fs::write(dir.join("bin/tool"), b"tOol").expect("file");
        assert!(verify(dir).expect_err("changed").contains("corrupted"));
        std::fs::write(dir.join("bin/tool"), b"tool!").expect("file");
        assert!(verify(dir).expect_err("longer").contains("5 bytes, 4 expected"));
        std::fs::write(dir.join("bin/tool"), b"tool").expect("file");
        std::fs::set_permissions(dir.join("bin/tool"), std::fs::Permissions::from_mode(0o4755)).expect("mode");
        assert!(verify(dir).expect_err("setuid").contains("4755"));
        std::fs::set_permissions(dir.join("bin/tool"), std::fs::Permissions::from_mode(0o755)).expect("mode");
        std::fs::write(dir.join("bin/extra"), b"").expect("file");
        assert!(verify(dir).expect_err("extra").contains("bin/extra is not in the manifest"));
        std::fs::remove_file(dir.join("bin/extra")).expect("removed");
        std::os::unix::fs::symlink("/etc/passwd", dir.join("bin/link")).expect("link");
        assert!(verify(dir).expect_err("link").contains("bin/link is a link"));
        std::fs::remove_file(dir.join("bin/link")).expect("removed");
        std::fs::remove_file(dir.join("requirements.txt")).expect("removed");
        assert!(verify(dir).expect_err("missing").contains("requirements.txt is missing"));
    }

    #[test]
    fn a_program_for_another_platform_is_refused_whatever_the_manifest_says() {
        let dir = tempfile::tempdir().expect("tempdir");
        let good = bundle(dir.path());
        let mut mac = Manifest { platform: Platform::MacosArm64, ..good };
        mac.id = mac.content_id();
        write(dir.path(), &mac);
        let why = verify(dir.path()).expect_err("a Linux program");
        assert!(why.starts_with("bin/macluster does not run on macos-arm64: it is an ELF x86-64 program"), "{why}");
    }

    #[test]
    fn a_manifest_that_lies_is_refused() {
        let dir = tempfile::tempdir().expect("tempdir");
        let good = bundle(dir.path());
        let mut changed = good.clone();
        changed.python_minor = "3.13".into();
        write(dir.path(), &changed);
        assert!(verify(dir.path()).expect_err("changed").contains("it was changed"));
        for path in ["../x", "/etc/x", "a/../../x", "a//b", "./a", "", "a\nb", "manifest.json", "venv/x", "BIN/tool"] {
            // Names that differ in case only are one name on a Mac.
            let platform = if path == "BIN/tool" { Platform::MacosArm64 } else { good.platform };
            let mut bad = Manifest { platform, ..good.clone() };
            bad.files.push(FileEntry { path: path.into(), size: 0, sha256: String::new(), mode: 0o644 });
            bad.id = bad.content_id();
            assert!(Manifest::parse(&serde_json::to_string(&bad).expect("json")).is_err(), "{path:?}");
        }
        for text in ["", "{}", "[]", "{\"schema_version\":2}", "{\"schema_version\":1}"] {
            assert!(Manifest::parse(text).is_err(), "{text}");
        }
    }
}
