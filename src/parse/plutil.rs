//! `plutil -extract KEYPATH FORMAT -o - FILE`.
//!
//! Its errors come on standard output or standard error, by version, and are not localised: that a key is not there
//! (`… error: No value at that key path or invalid key path: KEY`), and that a file is not there (`file does not exist or
//! is not readable …` with Cocoa's error code 260; 257 would be a lack of permission). Sources: the published source of
//! plutil, and outputs quoted in public scripts.

use serde_json::{Map, Value};

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;
use crate::model::network_facts::BridgeEntry;

const TOOL: &str = "plutil";

fn no_such_key(printed: &str) -> bool {
    printed.contains("No value at that key path or invalid key path")
}

/// `NSFileReadNoSuchFileError`.
fn no_such_file(printed: &str) -> bool {
    printed.contains("file does not exist or is not readable") && printed.contains("Code=260")
}

fn last(printed: &str) -> &str {
    printed.lines().map(str::trim).rfind(|l| !l.is_empty()).unwrap_or_default()
}

/// `VirtualNetworkInterfaces.Bridge` as JSON: `{"bridge0":{"Interfaces":["en2"],"Options":{…}}}`, `{}` when every bridge was
/// deleted (samples/networksetup/errors-and-gotchas.md), no such key when there never was one.
///
/// # Errors
/// Another shape, or a failure of the tool.
pub fn bridges(exit: Option<i32>, printed: &str) -> Fact<Vec<BridgeEntry>> {
    if exit != Some(0) {
        return if no_such_key(printed) { Ok(Vec::new()) } else { Err(nothing_found(TOOL, "a JSON object", printed)) };
    }
    // One line; what stands before is the login shell's.
    let all: Map<String, Value> =
        serde_json::from_str(last(printed)).map_err(|_| nothing_found(TOOL, "a JSON object of bridges", printed))?;
    all.into_iter().map(|(name, entry)| bridge(name, &entry)).collect()
}

fn bridge(name: String, entry: &Value) -> Fact<BridgeEntry> {
    let words =
        |list: &Value| list.as_array()?.iter().map(|v| v.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>();
    // A name is put into a command: only what an interface can be called.
    let usual = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
    let members = match entry.get("Interfaces") {
        None if entry.is_object() => Some(Vec::new()),
        list => list.and_then(words),
    };
    match members {
        Some(members) if usual => Ok(BridgeEntry { name, members, json: entry.to_string() }),
        _ => Err(malformed(
            TOOL,
            None,
            format!("the entry of the bridge `{}` has no list of `Interfaces`", excerpt(&name)),
        )),
    }
}

/// A value that is on or off, in the format `raw`; off when there is no such key or no such file.
///
/// # Errors
/// Another value, or a failure of the tool.
pub fn switch(exit: Option<i32>, printed: &str) -> Fact<bool> {
    match last(printed) {
        "1" | "true" if exit == Some(0) => Ok(true),
        "0" | "false" if exit == Some(0) => Ok(false),
        _ if exit != Some(0) && (no_such_key(printed) || no_such_file(printed)) => Ok(false),
        _ => Err(nothing_found(TOOL, "1 or 0", printed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bridges_are_read_and_their_absence_is_told_from_a_failure() {
        let one = r#"{"bridge0":{"Options":{"__AUTO__":"thunderbolt-bridge"},"Interfaces":["en1","en6"]}}"#;
        let read = bridges(Some(0), one).expect("reads");
        assert_eq!((read[0].name.as_str(), read[0].members.join(" ").as_str()), ("bridge0", "en1 en6"));
        let options = r#"{"Options":{"__AUTO__":"thunderbolt-bridge"},"Interfaces":["en1","en6"]}"#;
        assert_eq!(read[0].json, options, "in its own order");
        assert_eq!(bridges(Some(0), "{}\n"), Ok(vec![]));
        let absent = "/p: Could not extract value, error: No value at that key path or invalid key path: X";
        assert_eq!(bridges(Some(1), absent), Ok(vec![]));
        for (exit, bad) in [
            (Some(0), ""),
            (Some(0), "[]"),
            (Some(0), r#"{"bridge0":{"Interfaces":"en1"}}"#),
            (Some(0), r#"{"bridge0":[]}"#),
            (Some(0), r#"{"bridge0; rm":{"Interfaces":[]}}"#),
            (Some(0), r#"{"bridge0":{"Interfaces":["en1""#),
            (Some(0), absent),
            (Some(1), one),
            (Some(1), "/p: file does not exist or is not readable or is not a regular file (… Code=260 …)"),
            (None, ""),
        ] {
            assert!(bridges(exit, bad).is_err(), "{exit:?} {bad}");
        }
    }

    #[test]
    fn a_switch_that_was_never_set_is_off() {
        assert_eq!((switch(Some(0), "1\n"), switch(Some(0), "false")), (Ok(true), Ok(false)));
        let gone = "/p: file does not exist or is not readable or is not a regular file (Error Domain=NSCocoaErrorDomain \
                    Code=260 \"…\")";
        assert_eq!(switch(Some(1), gone), Ok(false));
        assert_eq!(switch(Some(1), "/p: … error: No value at that key path or invalid key path: K"), Ok(false));
        let hidden = gone.replace("260", "257");
        for (exit, bad) in [(Some(1), hidden.as_str()), (Some(1), "1"), (Some(0), "ja"), (Some(0), ""), (None, "")] {
            assert!(switch(exit, bad).is_err(), "{bad}");
        }
    }
}
