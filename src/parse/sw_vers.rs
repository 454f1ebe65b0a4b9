//! `sw_vers`.

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;
use crate::model::facts::OsVersion;

const TOOL: &str = "sw_vers";

/// Reads version, build, and the third line that a background security improvement adds between them.
pub fn parse(output: &str) -> Fact<OsVersion> {
    let value = |key: &str| {
        output.lines().enumerate().find_map(|(n, line)| {
            let (k, v) = line.split_once(':')?;
            (k.trim() == key).then(|| (n + 1, v.trim()))
        })
    };
    let required = |key: &str| value(key).ok_or_else(|| nothing_found(TOOL, &format!("`{key}:`"), output));
    let (line, version) = required("ProductVersion")?;
    if !version.split('.').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit())) {
        return Err(malformed(TOOL, Some(line), format!("`{}` is no version", excerpt(version))));
    }
    let (line, build) = required("BuildVersion")?;
    // 25F80, 25D2128, 26A5388g, 25D771280a: two digits, a letter, digits, sometimes a letter.
    let starts = build.len() >= 4 && build.chars().take(2).all(|c| c.is_ascii_digit());
    if !starts || !build.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(malformed(TOOL, Some(line), format!("`{}` is no build", excerpt(build))));
    }
    let extra = value("ProductVersionExtra").map_or("", |(_, v)| v);
    Ok(OsVersion { version: version.to_owned(), extra: excerpt(extra), build: build.to_owned() })
}
