//! From text to lines: words, quotes, comments, includes.

use std::path::{Path, PathBuf};

use super::expand_home;
use crate::remote::pattern::glob;

/// As OpenSSH: deeper includes are a loop.
const MAX_DEPTH: usize = 16;

/// One line that says something.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// `file:line`, for messages.
    pub(super) place: String,
    /// Lower case.
    pub(super) keyword: String,
    pub(super) args: Vec<String>,
    /// Lines of the files of an `Include`.
    pub(super) included: Vec<Line>,
}

/// Reads a file; one that does not exist is empty. Relative includes lie in `base`.
pub(super) fn file(path: &Path, home: &Path, base: &Path, warnings: &mut Vec<String>) -> Vec<Line> {
    read_file(path, (home, base), 0, warnings)
}

fn read_file(path: &Path, places: (&Path, &Path), depth: usize, warnings: &mut Vec<String>) -> Vec<Line> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => {
            if e.kind() != std::io::ErrorKind::NotFound {
                warnings.push(format!("cannot read {}: {e}", path.display()));
            }
            return Vec::new();
        }
    };
    let mut lines = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let place = format!("{}:{}", path.display(), index + 1);
        match words(raw) {
            Ok(None) => {}
            Ok(Some((keyword, args))) => {
                let mut included = Vec::new();
                if keyword == "include" {
                    if depth >= MAX_DEPTH {
                        warnings.push(format!("{place}: includes are nested too deeply; this one is left out"));
                    } else {
                        for arg in &args {
                            for found in expand(arg, places) {
                                included.extend(read_file(&found, places, depth + 1, warnings));
                            }
                        }
                    }
                }
                lines.push(Line { place, keyword, args, included });
            }
            Err(why) => warnings.push(format!("{place}: ignored: {why}")),
        }
    }
    lines
}

/// Splits `Keyword value "quoted value" # comment` or `Keyword=value`. None for a blank line.
pub(super) fn words(raw: &str) -> Result<Option<(String, Vec<String>)>, String> {
    let line = raw.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|c: char| c.is_whitespace() || c == '=' || c == '"').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    let mut args = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (_, '\\') if matches!(chars.peek(), Some('"' | '\'' | '\\')) => {
                word.get_or_insert_default().extend(chars.next());
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => args.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    args.extend(word);
    if args.is_empty() {
        return Err(format!("`{}` has no value", keyword.escape_debug()));
    }
    Ok(Some((keyword.to_ascii_lowercase(), args)))
}

/// Files named by an `Include` argument: relative to the second place, wildcards in any part, in order of names.
fn expand(arg: &str, (home, base): (&Path, &Path)) -> Vec<PathBuf> {
    let path = expand_home(arg, home);
    let path = if path.is_absolute() { path } else { base.join(path) };
    let mut found = vec![PathBuf::from("/")];
    for part in path.components() {
        let std::path::Component::Normal(name) = part else {
            continue;
        };
        let name = name.to_string_lossy();
        found = if name.contains(['*', '?']) {
            found.iter().flat_map(|dir| matching(dir, &name)).collect()
        } else {
            found.iter().map(|dir| dir.join(name.as_ref())).collect()
        };
    }
    found
}

fn matching(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let hidden = pattern.starts_with('.');
    let mut names: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| {
            let name = e.file_name();
            let name = name.to_string_lossy();
            glob(pattern, &name) && (hidden || !name.starts_with('.'))
        })
        .map(|e| e.path())
        .collect();
    names.sort();
    names
}
