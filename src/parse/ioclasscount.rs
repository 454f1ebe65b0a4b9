//! `ioclasscount CLASS…` (samples/processes): all on one line, and exit 0 for classes that do not exist.

use std::collections::BTreeMap;

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;

const TOOL: &str = "ioclasscount";

/// Objects of each class; none for a class that the running kernel does not have.
///
/// # Errors
/// Another shape, or a count that could not be read.
pub fn parse(output: &str) -> Fact<BTreeMap<String, Option<u64>>> {
    let mut counts = BTreeMap::new();
    let line = output.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    for item in line.split(',').map(str::trim).filter(|i| !i.is_empty()) {
        let Some((class, count)) = item.split_once(" = ") else {
            return Err(malformed(TOOL, None, format!("expected `CLASS = N`, found `{}`", excerpt(item))));
        };
        if !class.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(malformed(TOOL, None, format!("expected the name of a class, found `{}`", excerpt(class))));
        }
        let count = if count == "<no such class>" {
            None
        } else {
            let number = count.parse().map_err(|_| malformed(TOOL, None, format!("{class}: {}", excerpt(count))))?;
            Some(number)
        };
        counts.insert(class.to_owned(), count);
    }
    if counts.is_empty() { Err(nothing_found(TOOL, "`CLASS = N`", output)) } else { Ok(counts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_does_not_exist_is_no_zero() {
        let counts = parse("A = 2, B = <no such class>, C = 0\n").expect("reads");
        assert_eq!((counts["A"], counts["B"], counts["C"]), (Some(2), None, Some(0)));
        for bad in ["", "A = ?? (error reading/converting value)\n", "usage: ioclasscount\n", "A 2\n"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
