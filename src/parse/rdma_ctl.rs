//! `rdma_ctl status`: one word, `enabled` or `disabled`. The stream is not documented, so both are read.

use super::words::nothing_found;
use crate::model::Fact;
use crate::model::facts::RdmaSwitch;

const TOOL: &str = "rdma_ctl";

/// Reads the word. Nothing but that word on a line of its own counts (a label and a colon may stand before it): a
/// sentence that merely contains it could say the opposite.
pub fn parse(output: &str) -> Fact<RdmaSwitch> {
    let says = |word: &str| {
        output.lines().any(|line| {
            let last = line.rsplit(':').next().unwrap_or_default();
            last.trim().eq_ignore_ascii_case(word)
        })
    };
    // `disabled` first: when both are found, the worse one is believed.
    if says("disabled") {
        Ok(RdmaSwitch::Disabled)
    } else if says("enabled") {
        Ok(RdmaSwitch::Enabled)
    } else {
        Err(nothing_found(TOOL, "`enabled` or `disabled`", output))
    }
}
