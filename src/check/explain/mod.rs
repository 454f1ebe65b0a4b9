//! What a line of a log means, and which of its possible causes holds on this rack. The number in the line is not
//! asked: the same errno has several causes (FAILURES, section 0). The rack's state is, through the checks of doctor.

mod connect;
mod engine;
mod judge;
mod queue_pair;
mod read;
mod setup;
mod verbs;

use std::sync::OnceLock;

pub use judge::{Evidence, Explained, Judged, State, explain};
pub use read::{Found, named, read};

/// One known text.
pub struct Entry {
    /// Stable id, e.g. `rtr-errno-22`.
    pub id: &'static str,
    /// The text as people know it.
    pub title: &'static str,
    /// What it says, in plain words.
    pub meaning: &'static str,
    /// Causes in the order in which to look.
    pub causes: &'static [Cause],
    /// The text stands in this line. `line` is in lower case.
    fits: fn(line: &str) -> bool,
}

/// A possible cause.
pub struct Cause {
    /// What it would be.
    pub text: &'static str,
    /// Checks that see it; none when nothing in the rack's state tells.
    pub checks: &'static [&'static str],
    /// When all of them pass, it is not this. Else they can only find it.
    pub excludes: bool,
    /// How to tell it from the others by hand.
    pub how: &'static str,
    /// What to do when it is it.
    pub remedy: &'static str,
}

/// Every known text, special ones before general ones.
pub fn entries() -> &'static [&'static Entry] {
    static ALL: OnceLock<Vec<&'static Entry>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files: [&'static [Entry]; 5] =
            [queue_pair::ENTRIES, verbs::ENTRIES, connect::ENTRIES, setup::ENTRIES, engine::ENTRIES];
        files.into_iter().flatten().collect()
    })
}

/// `errno 22`, `errno=22`, `error: 22`, `(22)`, `[Errno 22]`: this number as an error, and no other that begins so.
fn number(line: &str, wanted: &str) -> bool {
    ["errno ", "errno=", "errno: ", "error: ", "error ", "error=", "[errno ", "("].iter().any(|before| {
        line.match_indices(before).any(|(at, _)| {
            let rest = &line[at + before.len()..];
            rest.strip_prefix(wanted).is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_told_apart() {
        assert!(number("failed with errno 22", "22") && number("recv failed with errno=2", "2"));
        assert!(number("couldn't connect (error: 60)", "60") && number("'resource busy (16)'.", "16"));
        assert!(!number("failed with errno 22", "2") && !number("errno 122", "22") && !number("22", "22"));
    }

    #[test]
    fn every_cause_names_checks_that_exist_and_says_how_to_tell_it() {
        let known: BTreeSet<&str> = crate::check::registry().iter().map(|c| c.id()).collect();
        let ids: BTreeSet<&str> = entries().iter().map(|e| e.id).collect();
        assert_eq!(ids.len(), entries().len(), "an id is given twice");
        for entry in entries() {
            assert!(!entry.causes.is_empty() && !entry.meaning.is_empty(), "{}", entry.id);
            assert!((entry.fits)(&entry.title.to_lowercase()), "{} does not find its own title", entry.id);
            for cause in entry.causes {
                let strange: Vec<_> = cause.checks.iter().filter(|c| !known.contains(**c)).collect();
                assert!(strange.is_empty(), "{}: {strange:?}", entry.id);
                assert!(!cause.how.is_empty() && !cause.remedy.is_empty(), "{}: {}", entry.id, cause.text);
            }
        }
    }
}
