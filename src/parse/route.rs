//! `route -n get ADDRESS` (samples/routing/route.md): not localised; the status is 0 even when there is no route.

use super::words::nothing_found;
use crate::model::Fact;

/// The interface by which the node would send; none without a route. Give both streams: that there is none is said on
/// standard error.
///
/// # Errors
/// Another shape.
pub fn interface(printed: &str) -> Fact<Option<String>> {
    let named = printed.lines().find_map(|l| l.trim().strip_prefix("interface:")).map(str::trim);
    match named.filter(|name| !name.is_empty()) {
        Some(name) => Ok(Some(name.to_owned())),
        None if printed.contains("writing to routing socket: not in table") => Ok(None),
        None => Err(nothing_found("route", "`interface: …`", printed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_no_route_and_neither() {
        let got = "   route to: 10.254.0.2\ndestination: 10.254.0.0\n  interface: en3\n      flags: <UP,DONE>\n";
        assert_eq!(interface(got), Ok(Some("en3".to_owned())));
        assert_eq!(interface("route: writing to routing socket: not in table\n"), Ok(None));
        assert!(interface("").is_err() && interface("  interface:\n").is_err());
    }
}
