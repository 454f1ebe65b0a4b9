//! `sysctl NAME…`: names and values as printed.

use std::collections::BTreeMap;

use super::words::nothing_found;
use crate::model::Fact;

const TOOL: &str = "sysctl";

/// Reads `name: value` lines. Names the kernel does not know are reported on standard error and simply absent here.
pub fn parse(output: &str) -> Fact<BTreeMap<String, String>> {
    let values: BTreeMap<String, String> = output.lines().filter_map(line).collect();
    if values.is_empty() {
        return Err(nothing_found(TOOL, "`name: value` lines", output));
    }
    Ok(values)
}

fn line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim();
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // Every name has a dot; words of a banner seldom do. `sysctl` itself reports errors as `sysctl: …`.
    if !name.contains('.') || !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(good) {
        return None;
    }
    Some((name.to_owned(), value.trim().to_owned()))
}
