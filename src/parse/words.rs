//! What several readers need: errors, excerpts, hardware addresses.

use crate::model::command::printable;
use crate::model::{FactError, FactErrorKind};

/// Characters of a node's own words in a message.
const EXCERPT: usize = 120;

/// The output has no shape that is known.
pub(super) fn malformed(tool: &str, line: Option<usize>, message: impl Into<String>) -> FactError {
    FactError { tool: tool.to_owned(), kind: FactErrorKind::Malformed, line, message: message.into() }
}

/// `expected` was not found anywhere in `text`.
pub(super) fn nothing_found(tool: &str, expected: &str, text: &str) -> FactError {
    let first = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    match first {
        Some((n, line)) => malformed(tool, Some(n + 1), format!("expected {expected}, found `{}`", excerpt(line))),
        None => malformed(tool, None, format!("expected {expected}, but nothing was printed")),
    }
}

/// A piece of a node's output for a message: one line, short, safe to print.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end().replace('\t', " ");
    let short: String = line.chars().take(EXCERPT).collect();
    let dots = if short.len() < line.len() { "…" } else { "" };
    format!("{}{dots}", printable(&short))
}

/// A hardware address in lower case with two digits per byte; macOS tools print both `9e:1c:a2:f:30:7b` and padded.
pub(super) fn mac(text: &str) -> Option<String> {
    let bytes: Vec<String> = text
        .split(':')
        .map(|part| {
            let digits = (1..=2).contains(&part.len()) && part.chars().all(|c| c.is_ascii_hexdigit());
            digits.then(|| format!("{part:0>2}"))
        })
        .collect::<Option<_>>()?;
    (bytes.len() == 6).then(|| bytes.join(":").to_lowercase())
}

/// Text without a byte order mark.
pub(super) fn without_bom(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_padded_or_refused() {
        assert_eq!(mac("9E:1c:a2:f:30:7b").as_deref(), Some("9e:1c:a2:0f:30:7b"));
        for bad in ["", "9e:1c:a2:f:30", "9e:1c:a2:f:30:7b:00", "N/A", "9e:1c:a2:f0f:30:7b", "+1:2:3:4:5:6", ":::::"] {
            assert_eq!(mac(bad), None, "{bad}");
        }
    }

    #[test]
    fn excerpts_are_short_and_safe() {
        assert_eq!(excerpt("  a\tb\u{1b}[31m  \nsecond"), "a b\\u{1b}[31m");
        assert_eq!(excerpt(&"ä".repeat(500)).chars().count(), EXCERPT + 1);
    }
}
