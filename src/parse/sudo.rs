//! `sudo -n true`: whether root can be had. The exit status is 1 for every refusal, so the words decide.

use super::words::nothing_found;
use crate::model::facts::Sudo;
use crate::model::{Fact, FactErrorKind};

const TOOL: &str = "sudo";

/// Judges one run by its exit status and both streams.
pub fn classify(exit: Option<i32>, output: &str) -> Fact<Sudo> {
    if exit == Some(0) {
        return Ok(Sudo::Passwordless);
    }
    let text = output.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if says(&["not in the sudoers file", "may not run sudo", "is not allowed to", "not allowed to run sudo"]) {
        return Ok(Sudo::NotAllowed);
    }
    // The second is the wording of newer releases; the others come from runs that could not ask.
    if says(&[
        "a password is required",
        "interactive authentication is required",
        "a terminal is required",
        "no password was provided",
        "no tty present",
        "incorrect password attempt",
        "sorry, try again",
    ]) {
        return Ok(Sudo::NeedsPassword);
    }
    let mut error = nothing_found(TOOL, "success or a known refusal", output);
    error.kind = FactErrorKind::Failed;
    Err(error)
}
