//! `date -u +%Y-%m-%dT%H:%M:%SZ`: the node's clock.

use jiff::Timestamp;

use super::words::nothing_found;
use crate::model::Fact;

/// The first line that is a time.
///
/// # Errors
/// There is none.
pub fn parse(output: &str) -> Fact<Timestamp> {
    let time = |line: &str| line.trim().parse().ok();
    output.lines().find_map(time).ok_or_else(|| nothing_found("date", "a time", output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read() {
        assert_eq!(parse("2026-11-30T20:00:01Z\n").expect("reads").as_second(), 1_796_068_801);
        assert!(parse("").is_err() && parse("Mon Nov 30").is_err());
    }
}
