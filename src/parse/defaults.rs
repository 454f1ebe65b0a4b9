//! `defaults read DOMAIN` (samples/system): an old-style property list.

use super::words::{malformed, nothing_found};
use crate::model::Fact;

const TOOL: &str = "defaults";

/// A switch of the domain; none when it is not set.
///
/// # Errors
/// Not a dictionary, or the value is no switch.
pub fn switch(output: &str, key: &str) -> Fact<Option<bool>> {
    // Whatever stands before it is no part of it.
    let first = output.lines().position(|l| l.trim_end() == "{");
    let last = output.lines().position(|l| l.trim_end() == "}");
    let (Some(first), Some(last)) = (first, last) else {
        return Err(nothing_found(TOOL, "a dictionary in braces", output));
    };
    // Keys of the domain itself are indented by four blanks; those of dictionaries inside by more.
    let own = output.lines().enumerate().take(last).skip(first);
    let value = own.into_iter().find_map(|(n, line)| {
        let line = line.strip_prefix("    ").filter(|l| !l.starts_with(' '))?;
        let (name, value) = line.split_once(" = ")?;
        (name.trim_matches('"') == key).then(|| (n + 1, value.trim().trim_end_matches(';').trim_matches('"')))
    });
    match value {
        None => Ok(None),
        Some((_, "1" | "YES" | "true")) => Ok(Some(true)),
        Some((_, "0" | "NO" | "false")) => Ok(Some(false)),
        Some((line, _)) => Err(malformed(TOOL, Some(line), format!("{key} is neither 0 nor 1"))),
    }
}

/// The domain or the key is not there. macOS 27 says it in other words than 26: the exit status decides, and that the
/// tool itself speaks.
pub fn not_set(exit: Option<i32>, printed: &str) -> bool {
    let words = ["does not exist", "not found", "Could not find"];
    exit == Some(1) && words.iter().any(|w| printed.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_the_domain_count_and_not_those_inside() {
        let text = "{\n    AutomaticDownload = 1;\n    Offers =     {\n        Install = 1;\n    };\n    Install = 0;\n    \
                    Odd = 7;\n}\n";
        assert_eq!(switch(text, "Install"), Ok(Some(false)));
        assert_eq!(switch(text, "AutomaticDownload"), Ok(Some(true)));
        assert_eq!(switch(text, "Missing"), Ok(None));
        assert!(switch(text, "Odd").is_err());
        assert!(switch("", "Install").is_err());
        assert!(switch("{\n    Install = 1;\n", "Install").is_err());
        let told = "2026-02-18 13:29:31.093 defaults[5:1] \nThe domain/default pair of (x, y) does not exist\n";
        assert!(not_set(Some(1), told) && not_set(Some(1), "Error: Domain 'x' not found.\n"));
        assert!(!not_set(Some(0), told) && !not_set(Some(1), "Killed") && !not_set(Some(127), "not found"));
    }
}
