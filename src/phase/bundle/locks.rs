//! Lock files: packages pinned by version and SHA-256, one list per platform and Python minor.

use std::collections::BTreeSet;

/// One pinned package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Normalised name (PEP 503), e.g. `mlx-lm`.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// SHA-256 of every file that may be taken.
    pub hashes: BTreeSet<String>,
}

impl Pin {
    /// `name==version`.
    pub fn requirement(&self) -> String {
        format!("{}=={}", self.name, self.version)
    }
}

/// A package's name as indexes compare it: lower case, runs of `-_.` are one `-`.
pub fn normalise(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// Reads a lock in pip's requirements form: `name==version --hash=sha256:…`, continued with `\`.
///
/// # Errors
/// The line (from 1) that is no pinned and hashed package: nothing else is accepted, so that nothing unpinned
/// can slip in.
pub fn parse(text: &str) -> Result<Vec<Pin>, String> {
    let mut pins: Vec<Pin> = Vec::new();
    let mut logical = String::new();
    let mut first = 0;
    for (number, line) in text.lines().enumerate() {
        if logical.is_empty() {
            first = number + 1;
        }
        let line = line.split(" #").next().unwrap_or(line).trim();
        if line.starts_with('#') {
            continue;
        }
        if let Some(part) = line.strip_suffix('\\') {
            logical.push_str(part);
            logical.push(' ');
            continue;
        }
        logical.push_str(line);
        let whole = std::mem::take(&mut logical);
        if whole.trim().is_empty() {
            continue;
        }
        pins.push(pin(&whole).map_err(|why| format!("line {first}: {why}"))?);
    }
    if !logical.trim().is_empty() {
        return Err(format!("line {first}: the file ends inside it"));
    }
    Ok(pins)
}

fn pin(line: &str) -> Result<Pin, String> {
    let mut words = line.split_whitespace();
    let head = words.next().unwrap_or_default();
    let (name, version) = head.split_once("==").ok_or_else(|| format!("`{head}` is not pinned with =="))?;
    let plain = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+!".contains(c));
    if !plain(name) || !plain(version) {
        return Err(format!("`{head}` is no package"));
    }
    let mut hashes = BTreeSet::new();
    for word in words {
        let hash = word.strip_prefix("--hash=sha256:").ok_or_else(|| format!("`{word}` is not understood"))?;
        if hash.len() != 64 || !hash.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(format!("`{word}` is no SHA-256"));
        }
        hashes.insert(hash.to_ascii_lowercase());
    }
    if hashes.is_empty() {
        return Err(format!("`{head}` has no hash"));
    }
    Ok(Pin { name: normalise(name), version: version.to_owned(), hashes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_and_anything_unpinned_is_refused() {
        let a = "a".repeat(64);
        let b = "B".repeat(64);
        let text = format!(
            "# head\nMLX_lm==0.32.2 \\\n    --hash=sha256:{a} \\\n    --hash=sha256:{b}\n    # via x\n\nnumpy==2.1 --hash=sha256:{a}  # via y\n"
        );
        let pins = parse(&text).expect("a lock");
        assert_eq!(pins.len(), 2);
        assert_eq!(pins[0].requirement(), "mlx-lm==0.32.2");
        assert_eq!(pins[0].hashes.len(), 2);
        assert!(pins[0].hashes.contains(&"b".repeat(64)));
        for bad in ["numpy>=2", "numpy==2", "numpy", "-r other.txt", "numpy==2 --hash=md5:00", "numpy==2 \\\n"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(&format!("x @ file:///tmp/x --hash=sha256:{a}")).is_err());
    }

    #[test]
    fn names_compare_as_indexes_do() {
        assert_eq!(normalise("Typing.Extensions"), "typing-extensions");
        assert_eq!(normalise("a__-b"), "a-b");
    }
}
