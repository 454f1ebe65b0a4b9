//! `socketfilterfw --getglobalstate` (samples/network): the words differ between releases, the number does not.

use super::words::{malformed, nothing_found};
use crate::model::Fact;
use crate::model::host_facts::Firewall;

const TOOL: &str = "socketfilterfw";

/// The state of the application firewall.
///
/// # Errors
/// Another shape or number.
pub fn parse(output: &str) -> Fact<Firewall> {
    let number = output.split_once("(State = ").and_then(|(_, rest)| rest.split_once(')')).map(|(n, _)| n);
    match number {
        Some("0") => Ok(Firewall::Off),
        Some("1") => Ok(Firewall::On),
        Some("2") => Ok(Firewall::BlockAll),
        Some(_) => Err(malformed(TOOL, None, "expected State 0, 1 or 2")),
        None => Err(nothing_found(TOOL, "`(State = N)`", output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_decides() {
        assert_eq!(parse("Firewall is disabled. (State = 0)\n"), Ok(Firewall::Off));
        assert_eq!(parse("Firewall is enabled. (State = 1)\n"), Ok(Firewall::On));
        assert_eq!(parse("Firewall is enabled. (State = 2)\n"), Ok(Firewall::BlockAll));
        assert!(parse("Firewall is enabled. (State = 9)").is_err() && parse("Firewall is on").is_err());
    }
}
