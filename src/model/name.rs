//! Validated names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A node's name in the inventory: 1–63 of `a-z 0-9 - . _`, beginning with a letter or digit.
///
/// Safe to print, to use in a file name and as an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let ok_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
        let starts_well = s.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !starts_well || s.len() > 63 || !s.chars().all(ok_char) {
            return Err(format!(
                "`{}` is not a usable name: use 1 to 63 of a-z, 0-9, `-`, `.` and `_`, beginning with a letter or digit",
                s.escape_debug()
            ));
        }
        Ok(NodeName(s.to_owned()))
    }
}

impl TryFrom<String> for NodeName {
    type Error = String;

    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> String {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_break_a_terminal_or_a_path_are_refused() {
        for good in ["studio-1", "a", "10.0.0.11", "m3_ultra"] {
            assert_eq!(good.parse::<NodeName>().expect(good).as_str(), good);
        }
        for bad in ["", "-x", "../x", "a/b", "A", "a b", "a\u{1b}[31m", ".x", &"a".repeat(64)] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad:?}");
        }
    }
}
