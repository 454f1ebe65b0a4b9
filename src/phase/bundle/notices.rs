//! `NOTICES`: the licences of everything in a bundle, as the packages themselves declare them.
//!
//! The same inputs give the same bytes, because the file is part of the bundle's id.

use std::fmt::Write as _;
use std::path::Path;

use super::manifest::files;
use super::wheel_info::{WheelInfo, is_licence_file, plain_text};

/// Its name inside a bundle.
pub const NOTICES_FILE: &str = "NOTICES";
/// macluster's own licence.
pub const OWN_LICENCE: &str = include_str!("../../../LICENSE");

/// The crates that are linked into macluster, with their licences; `.ci/notices` writes it.
const CRATES: &str = include_str!("crates.txt");

const HEAD: &str = "Licences of what this bundle holds.\n\
                    Every entry says what the package itself declares, then its licence files, whole. Nothing is added.\n";
const RULE: &str = "================================================================================";

/// One thing in the bundle.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name and version.
    pub title: String,
    /// Where it lies in the bundle.
    pub place: String,
    /// What it declares; none when it declares nothing.
    pub licence: Option<String>,
    /// Licence files as (name, text).
    pub texts: Vec<(String, String)>,
}

impl Entry {
    /// macluster itself; the version is the one that the program carries, if it does.
    pub fn own(version: Option<&str>) -> Entry {
        Entry {
            title: format!("macluster {}", version.unwrap_or("(version unknown)")),
            place: "bin/macluster".to_owned(),
            licence: Some(env!("CARGO_PKG_LICENSE").to_owned()),
            texts: vec![
                ("LICENSE".to_owned(), plain_text(OWN_LICENCE.as_bytes())),
                // The program in the bundle may be of another version; its crates are known here only for this one.
                (format!("crates in macluster {}", env!("CARGO_PKG_VERSION")), CRATES.to_owned()),
            ],
        }
    }

    /// A wheel, or the program that was taken out of it.
    pub fn wheel(info: WheelInfo, place: String) -> Entry {
        let title = format!("{} {}", info.name, info.version);
        Entry { title, place, licence: info.licence.map(|l| l.name), texts: info.texts }
    }

    /// The Python that was unpacked into `dir`: every licence file in it.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn python(dir: &Path, minor: &str) -> Result<Entry, String> {
        let mut texts = Vec::new();
        for path in files(dir)? {
            let folder = path.split('/').rev().skip(1).any(|part| part == "licenses");
            if folder || is_licence_file(&path) {
                let bytes = std::fs::read(dir.join(&path)).map_err(|e| format!("python/{path}: {e}"))?;
                texts.push((path, plain_text(&bytes)));
            }
        }
        Ok(Entry { title: format!("Python {minor}"), place: "python/".to_owned(), licence: None, texts })
    }
}

/// The whole file.
pub fn compose(entries: &[Entry]) -> String {
    let mut text = HEAD.to_owned();
    for entry in entries {
        let declared = entry.licence.as_deref().unwrap_or("not declared by name");
        let _ = writeln!(text, "\n{RULE}\n{}\nin {}\nlicence: {declared}", entry.title, entry.place);
        if entry.texts.is_empty() {
            text.push_str("licence files: none inside\n");
        }
        for (name, content) in &entry.texts {
            let _ = write!(text, "\n---- {name} ----\n{content}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_information_is_said_and_not_invented() {
        let bare = Entry { title: "x 1".into(), place: "wheels/x.whl".into(), licence: None, texts: Vec::new() };
        let text = compose(&[Entry::own(None), bare]);
        assert!(text.contains("\nmacluster (version unknown)\nin bin/macluster\nlicence: Apache-2.0\n"), "{text}");
        assert!(text.contains("\n---- LICENSE ----\n") && text.contains("TERMS AND CONDITIONS"), "{text}");
        assert!(text.ends_with("\nx 1\nin wheels/x.whl\nlicence: not declared by name\nlicence files: none inside\n"));
    }

    #[test]
    fn every_crate_that_is_used_is_listed_in_the_version_that_is_locked() {
        let listed: Vec<&str> = CRATES.lines().skip(3).take_while(|l| !l.is_empty()).collect();
        let locked: toml::Value = toml::from_str(include_str!("../../../Cargo.lock")).expect("TOML");
        let locked: Vec<String> = locked["package"]
            .as_array()
            .expect("packages")
            .iter()
            .map(|p| ["name", "version"].map(|key| p[key].as_str().expect("text")).join(" "))
            .collect();
        for line in &listed {
            let (title, _) = line.split_once(": ").expect("a crate and its licence");
            assert!(locked.iter().any(|l| l == title), "{title} is not in Cargo.lock: run .ci/notices");
        }
        let manifest: toml::Value = toml::from_str(include_str!("../../../Cargo.toml")).expect("TOML");
        for (name, about) in manifest["dependencies"].as_table().expect("dependencies") {
            let name = about.get("package").and_then(toml::Value::as_str).unwrap_or(name);
            let start = format!("{name} ");
            assert!(listed.iter().any(|l| l.starts_with(&start)), "{name} is not listed: run .ci/notices");
        }
        assert!(Entry::own(None).texts.iter().any(|(_, text)| text.contains("\nring ")), "in every bundle");
    }

    #[test]
    fn the_licences_of_a_python_are_those_inside_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        for (path, text) in [
            ("lib/python3.12/LICENSE.txt", "PSF"),
            ("lib/python3.12/license.py", "code"),
            ("licenses/openssl", "OpenSSL"),
            ("bin/python3.12", "program"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
            std::fs::write(path, text).expect("written");
        }
        let entry = Entry::python(dir.path(), "3.12").expect("read");
        let names: Vec<&str> = entry.texts.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["lib/python3.12/LICENSE.txt", "licenses/openssl"]);
    }
}
