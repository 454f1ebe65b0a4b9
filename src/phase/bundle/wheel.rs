//! Wheels: the engine's is written here, uv is taken out of its own.
//!
//! A pure wheel is a zip of sources with three text files. Writing it here needs no build tool at the desk and
//! gives the same bytes everywhere: fixed order, time, mode, and no compression (which varies by library).

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

/// No program inside a wheel is larger: 512 MiB.
const MAX_PROGRAM: u64 = 512 * 1024 * 1024;

/// What is needed of `pyproject.toml`.
#[derive(Debug, Deserialize)]
struct PyProject {
    project: Project,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    name: String,
    version: String,
    description: Option<String>,
    requires_python: Option<String>,
    license: Option<LicenceField>,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct LicenceField {
    text: String,
}

/// A wheel in memory.
#[derive(Debug)]
pub struct Wheel {
    /// Distribution name, e.g. `macluster-inference`.
    pub name: String,
    /// Version.
    pub version: String,
    /// File name, e.g. `macluster_inference-0.1.0-py3-none-any.whl`.
    pub file: String,
    /// The zip file.
    pub bytes: Vec<u8>,
}

/// Makes the wheel of a pure Python package. `sources` are (path inside the wheel, content); `licence` is the text of
/// its licence.
///
/// # Errors
/// When `pyproject.toml` cannot be used.
pub fn pure(pyproject: &str, sources: &[(String, &[u8])], licence: &str) -> Result<Wheel, String> {
    let project = toml::from_str::<PyProject>(pyproject).map_err(|e| format!("pyproject.toml: {e}"))?.project;
    let escaped = super::locks::normalise(&project.name).replace('-', "_");
    let info = format!("{escaped}-{}.dist-info", project.version);
    let metadata = metadata(&project);
    let tag = concat!(
        "Wheel-Version: 1.0\nGenerator: macluster (",
        env!("CARGO_PKG_VERSION"),
        ")\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    );
    let mut members: Vec<(String, &[u8])> = sources.to_vec();
    members.sort();
    members.push((format!("{info}/METADATA"), metadata.as_bytes()));
    members.push((format!("{info}/WHEEL"), tag.as_bytes()));
    members.push((format!("{info}/licenses/LICENSE"), licence.as_bytes()));
    let mut record = String::new();
    for (path, content) in &members {
        let sum = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        let _ = writeln!(record, "{path},sha256={sum},{}", content.len());
    }
    let _ = writeln!(record, "{info}/RECORD,,");
    let record_path = format!("{info}/RECORD");
    members.push((record_path, record.as_bytes()));
    let bytes = archive(&members).map_err(|e| format!("cannot write the engine's wheel: {e}"))?;
    let file = format!("{escaped}-{}-py3-none-any.whl", project.version);
    Ok(Wheel { name: project.name, version: project.version, file, bytes })
}

fn metadata(project: &Project) -> String {
    let mut text = format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", project.name, project.version);
    if let Some(summary) = &project.description {
        let _ = writeln!(text, "Summary: {summary}");
    }
    if let Some(licence) = &project.license {
        let _ = writeln!(text, "License: {}", licence.text);
    }
    if let Some(python) = &project.requires_python {
        let _ = writeln!(text, "Requires-Python: {python}");
    }
    for dependency in &project.dependencies {
        let _ = writeln!(text, "Requires-Dist: {dependency}");
    }
    text
}

fn archive(members: &[(String, &[u8])]) -> zip::result::ZipResult<Vec<u8>> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .unix_permissions(0o644);
    for (path, content) in members {
        zip.start_file(path.as_str(), options)?;
        zip.write_all(content)?;
    }
    Ok(zip.finish()?.into_inner())
}

/// Takes a program (`uv`) out of the wheel that ships it.
///
/// # Errors
/// In words.
pub fn take_program(wheel: &Path, program: &str) -> Result<Vec<u8>, String> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = File::open(wheel).map_err(|e| format!("cannot read {}: {e}", wheel.display()))?;
    let mut zip = zip::ZipArchive::new(file).map_err(|e| format!("{name}: {e}"))?;
    let suffix = format!(".data/scripts/{program}");
    let member = zip
        .file_names()
        .find(|n| n.ends_with(&suffix))
        .map(str::to_owned)
        .ok_or_else(|| format!("{name} holds no program {program}"))?;
    let entry = zip.by_name(&member).map_err(|e| format!("{name}: {e}"))?;
    let mut bytes = Vec::new();
    entry.take(MAX_PROGRAM + 1).read_to_end(&mut bytes).map_err(|e| format!("{name}: {e}"))?;
    if bytes.len() as u64 > MAX_PROGRAM {
        return Err(format!("{name}: {program} is larger than 512 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: &str = "[project]\nname = \"some-engine\"\nversion = \"1.2\"\nrequires-python = \">=3.11\"\ndependencies = [\"mlx==0.32.4\"]\n[tool.x]\ny = 1\n";

    #[test]
    fn the_same_sources_make_the_same_wheel_in_any_order() {
        let a = ("some_engine/__init__.py".to_owned(), &b"x = 1\n"[..]);
        let b = ("some_engine/py.typed".to_owned(), &b""[..]);
        let one = pure(PROJECT, &[a.clone(), b.clone()], "terms").expect("a wheel");
        let two = pure(PROJECT, &[b, a], "terms").expect("a wheel");
        assert_eq!(one.bytes, two.bytes);
        assert_eq!(one.file, "some_engine-1.2-py3-none-any.whl");
        let mut zip = zip::ZipArchive::new(Cursor::new(one.bytes)).expect("a zip");
        let mut text = String::new();
        zip.by_name("some_engine-1.2.dist-info/METADATA").expect("there").read_to_string(&mut text).expect("text");
        assert!(text.contains("Requires-Dist: mlx==0.32.4\n") && text.contains("Requires-Python: >=3.11\n"), "{text}");
        let mut record = String::new();
        zip.by_name("some_engine-1.2.dist-info/RECORD").expect("there").read_to_string(&mut record).expect("text");
        assert_eq!(record.lines().count(), 6, "{record}");
        assert!(pure("[project]\n", &[], "").is_err());
    }

    #[test]
    fn a_program_is_found_where_wheels_keep_it() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("uv-1-py3-none-any.whl");
        let bytes = archive(&[("uv-1.data/scripts/uv".into(), b"program")]).expect("zip");
        std::fs::write(&path, bytes).expect("written");
        assert_eq!(take_program(&path, "uv").expect("found"), b"program");
        assert!(take_program(&path, "uvx").is_err());
        std::fs::write(&path, b"PK no zip").expect("written");
        assert!(take_program(&path, "uv").is_err());
    }
}
