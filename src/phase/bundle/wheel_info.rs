//! What a wheel says of itself: name, version, tags, licence, and the texts of its licences.
//!
//! Core metadata is read as far as that: `License-Expression` (PEP 639), else `License`, else the classifiers.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::Serialize;

/// No metadata and no licence is longer: 4 MiB.
const MAX_TEXT: u64 = 4 * 1024 * 1024;
/// A `License` field that is longer, or has several lines, is the licence's text rather than its name.
const LONGEST_NAME: usize = 120;

/// What a wheel says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelInfo {
    /// Name, as the package writes it.
    pub name: String,
    /// Version.
    pub version: String,
    /// Python, ABI and platform tag, e.g. `cp312-cp312-macosx_26_0_arm64`.
    pub tags: String,
    /// What it declares as its licence.
    pub licence: Option<Licence>,
    /// Its licence files as (path below `*.dist-info`, text), sorted.
    pub texts: Vec<(String, String)>,
}

/// A declared licence, and where it was declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Licence {
    /// As declared, e.g. `BSD-3-Clause AND MIT`.
    pub name: String,
    /// `expression`, `field` or `classifier`.
    pub from: &'static str,
}

/// A file in which people write down licences: `LICENSE`, `LICENCE.txt`, `COPYING`, `NOTICE-x`, but no program.
pub fn is_licence_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let word = name.split(['.', '-', '_']).next().unwrap_or_default();
    let code = [".py", ".pyc", ".pyi", ".so", ".h"].iter().any(|end| name.ends_with(end));
    matches!(word, "license" | "licence" | "licenses" | "licences" | "copying" | "notice" | "notices") && !code
}

/// One text out of bytes: UTF-8, line ends as Unix has them, one line end at the end.
pub fn plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    format!("{}\n", text.trim_start_matches('\u{feff}').trim_end())
}

impl WheelInfo {
    /// Reads a wheel.
    ///
    /// # Errors
    /// In words, with the file's name: it is no zip file, has no metadata, or something in it is too long.
    pub fn read(path: &Path) -> Result<WheelInfo, String> {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let wrong = |why: &dyn std::fmt::Display| format!("{file}: {why}");
        let stem = file.strip_suffix(".whl").ok_or_else(|| wrong(&"no wheel by its name"))?;
        let tags: Vec<&str> = stem.rsplitn(4, '-').take(3).collect();
        let tags = tags.into_iter().rev().collect::<Vec<_>>().join("-");
        let mut zip = File::open(path)
            .map_err(|e| wrong(&e))
            .and_then(|f| zip::ZipArchive::new(f).map_err(|e| wrong(&format!("no readable wheel: {e}"))))?;
        let mut names: Vec<String> = zip.file_names().map(str::to_owned).collect();
        names.sort();
        let metadata = names
            .iter()
            .find(|n| n.ends_with(".dist-info/METADATA") && n.matches('/').count() == 1)
            .ok_or_else(|| wrong(&"it has no METADATA"))?;
        let info = metadata.trim_end_matches("METADATA").to_owned();
        let mut read = |name: &str| {
            let entry = zip.by_name(name).map_err(|e| wrong(&format!("{name}: {e}")))?;
            let mut bytes = Vec::new();
            entry.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(|e| wrong(&format!("{name}: {e}")))?;
            if bytes.len() as u64 > MAX_TEXT {
                return Err(wrong(&format!("{name} is longer than 4 MiB")));
            }
            Ok(plain_text(&bytes))
        };
        let head = Head::parse(&read(metadata)?);
        let mut texts = Vec::new();
        for name in &names {
            let Some(inner) = name.strip_prefix(&info) else { continue };
            let folder = ["licenses/", "license_files/"].iter().any(|f| inner.starts_with(f));
            let wanted = folder || is_licence_file(inner) || head.all("License-File").any(|f| f == inner);
            if wanted && !inner.ends_with('/') {
                texts.push((inner.to_owned(), read(name)?));
            }
        }
        // Some packages have put the whole text where its name belongs.
        if let Some(long) = head.one("License").filter(|l| !is_name(l)) {
            texts.push(("METADATA, field License".to_owned(), plain_text(long.as_bytes())));
        }
        let needed = |field: &str| head.one(field).ok_or_else(|| wrong(&format!("its METADATA has no {field}")));
        Ok(WheelInfo {
            name: needed("Name")?.to_owned(),
            version: needed("Version")?.to_owned(),
            tags,
            licence: head.licence(),
            texts,
        })
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && !text.contains('\n')
}

/// The fields of core metadata, in order; lines that go on are joined with line ends.
struct Head(Vec<(String, String)>);

impl Head {
    fn parse(text: &str) -> Head {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in text.lines().take_while(|l| !l.is_empty()) {
            match (line.strip_prefix([' ', '\t']), line.split_once(':')) {
                (Some(more), _) => {
                    if let Some((_, value)) = fields.last_mut() {
                        value.push('\n');
                        // setuptools marks what it folded with a bar.
                        value.push_str(more.trim_start().trim_start_matches('|'));
                    }
                }
                (None, Some((name, value))) => fields.push((name.to_owned(), value.trim().to_owned())),
                (None, None) => {}
            }
        }
        Head(fields)
    }

    fn all<'a>(&'a self, field: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(field)).map(|(_, v)| v.as_str())
    }

    /// The first value that says something.
    fn one(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(n, v)| n.eq_ignore_ascii_case(field) && !v.is_empty() && v != "UNKNOWN")
            .map(|(_, v)| v.as_str())
    }

    fn licence(&self) -> Option<Licence> {
        let of = |name: &str, from| Some(Licence { name: name.to_owned(), from });
        if let Some(expression) = self.one("License-Expression") {
            return of(expression, "expression");
        }
        if let Some(name) = self.one("License").filter(|l| is_name(l)) {
            return of(name, "field");
        }
        let classifiers: Vec<&str> = self
            .all("Classifier")
            .filter_map(|c| c.strip_prefix("License :: "))
            .map(|c| c.rsplit(" :: ").next().unwrap_or(c))
            .filter(|c| *c != "OSI Approved")
            .collect();
        if classifiers.is_empty() { None } else { of(&classifiers.join(", "), "classifier") }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn wheel(dir: &Path, members: &[(&str, &str)]) -> Result<WheelInfo, String> {
        let path = dir.join("some_thing-1.2-1build-cp312-cp312-macosx_26_0_arm64.whl");
        let mut zip = zip::ZipWriter::new(File::create(&path).expect("file"));
        for (name, text) in members {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).expect("member");
            zip.write_all(text.as_bytes()).expect("written");
        }
        zip.finish().expect("zip");
        WheelInfo::read(&path)
    }

    const NAMED: &str = "Metadata-Version: 2.4\nName: some-thing\nVersion: 1.2\n";

    #[test]
    fn the_licence_is_the_expression_else_the_field_else_the_classifiers() {
        let dir = tempfile::tempdir().expect("tempdir");
        let of = |more: &str| {
            let text = format!("{NAMED}{more}\n\nLicense: in the description\n");
            wheel(dir.path(), &[("some_thing-1.2.dist-info/METADATA", &text)]).expect("a wheel")
        };
        let name = |more: &str| of(more).licence.map(|l| (l.name, l.from));
        let is = |name: &str, from| Some((name.to_owned(), from));
        let both = "Classifier: License :: OSI Approved :: MIT License\nLicense: MIT\nLicense-Expression: MIT OR 0BSD";
        assert_eq!(name(both), is("MIT OR 0BSD", "expression"));
        assert_eq!(name("License: Apache 2.0\nClassifier: License :: OSI Approved"), is("Apache 2.0", "field"));
        let two = "License: UNKNOWN\nClassifier: License :: OSI Approved :: ISC License (ISCL)\nClassifier: License :: Public Domain";
        assert_eq!(name(two), is("ISC License (ISCL), Public Domain", "classifier"));
        assert_eq!(name("Classifier: Topic :: Internet"), None, "nothing is invented");
        let long = of("License: MIT License\n        \n        Permission is granted");
        assert_eq!((long.licence, long.texts[0].1.as_str()), (None, "MIT License\n\nPermission is granted\n"));
        assert_eq!(long.tags, "cp312-cp312-macosx_26_0_arm64");
    }

    #[test]
    fn licence_files_are_found_where_wheels_keep_them_and_nowhere_else() {
        let dir = tempfile::tempdir().expect("tempdir");
        let info = |inner: &str| format!("some_thing-1.2.dist-info/{inner}");
        let members = [
            (info("METADATA"), format!("{NAMED}License-File: AUTHORS\n")),
            (info("licenses/"), String::new()),
            (info("licenses/deep/dragon4_LICENSE.txt"), "deep\r\n".to_owned()),
            (info("LICENCE"), "own".to_owned()),
            (info("NOTICE.md"), "notice".to_owned()),
            (info("AUTHORS"), "authors".to_owned()),
            (info("RECORD"), "record".to_owned()),
            ("some_thing/LICENSE".to_owned(), "elsewhere".to_owned()),
        ];
        let members: Vec<(&str, &str)> = members.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let texts = wheel(dir.path(), &members).expect("a wheel").texts;
        let expected = [
            ("AUTHORS", "authors\n"),
            ("LICENCE", "own\n"),
            ("NOTICE.md", "notice\n"),
            ("licenses/deep/dragon4_LICENSE.txt", "deep\n"),
        ];
        assert_eq!(texts, expected.map(|(n, t)| (n.to_owned(), t.to_owned())));
        for bad in ["lib/license.py", "lib/licensing.txt", "lib/unlicensed", "notice.h"] {
            assert!(!is_licence_file(bad), "{bad}");
        }
        for good in ["lib/python3.12/LICENSE.txt", "lib/tk8.6/license.terms", "COPYING", "licenses.html"] {
            assert!(is_licence_file(good), "{good}");
        }
    }

    #[test]
    fn what_is_no_wheel_is_named() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("x-1-py3-none-any.whl");
        std::fs::write(&path, "PK no zip").expect("written");
        assert!(WheelInfo::read(&path).expect_err("no zip").starts_with("x-1-py3-none-any.whl: "));
        assert!(wheel(dir.path(), &[("x/METADATA", NAMED)]).expect_err("nowhere").contains("has no METADATA"));
        let nameless = wheel(dir.path(), &[("x-1.dist-info/METADATA", "Version: 1\n")]);
        assert!(nameless.expect_err("nameless").contains("has no Name"));
    }
}
