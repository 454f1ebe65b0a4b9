//! `networksetup -listnetworkserviceorder` and `-getinfo SERVICE` (samples/networksetup).

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;
use crate::model::network_facts::{Method, Service};

const TOOL: &str = "networksetup";

/// Reads pairs of lines: `(1) NAME` or, switched off, `(*) NAME`; then `(Hardware Port: PORT, Device: DEVICE)`.
///
/// # Errors
/// The first line of another shape: half a list looks like a whole one.
pub fn order(output: &str) -> Fact<Vec<Service>> {
    let mut services = Vec::new();
    let mut lines = output.lines().enumerate().map(|(n, l)| (n + 1, l.trim())).filter(|(_, l)| !l.is_empty());
    // The first line only explains the asterisk; what stands before it is the login shell's.
    if !lines.any(|(_, l)| l == "An asterisk (*) denotes that a network service is disabled.") {
        return Err(nothing_found(TOOL, "the list of network services", output));
    }
    while let Some((n, line)) = lines.next() {
        let Some((enabled, name)) = numbered(line) else {
            return Err(malformed(TOOL, Some(n), format!("expected `(1) NAME`, found `{}`", excerpt(line))));
        };
        let (n, line) = lines.next().unwrap_or((n + 1, ""));
        let Some((port, device)) = place(line) else {
            return Err(malformed(
                TOOL,
                Some(n),
                format!("expected `(Hardware Port: …, Device: …)`, found `{}`", excerpt(line)),
            ));
        };
        let (name, port, device) = (name.to_owned(), port.to_owned(), device.to_owned());
        services.push(Service { name, port, device, enabled, method: None });
    }
    Ok(services)
}

fn numbered(line: &str) -> Option<(bool, &str)> {
    let (number, name) = line.strip_prefix('(')?.split_once(") ")?;
    match number {
        "*" => Some((false, name)),
        digits => digits.parse::<u32>().ok().map(|_| (true, name)),
    }
}

fn place(line: &str) -> Option<(&str, &str)> {
    let (port, device) = line.strip_prefix("(Hardware Port: ")?.strip_suffix(')')?.rsplit_once(", Device:")?;
    Some((port, device.trim()))
}

/// The headline of `-getinfo`: `DHCP Configuration`, `Manual Configuration` and others of that kind.
///
/// # Errors
/// No such line. The tool says on standard output, even with status 0, that it does not know a service.
pub fn method(output: &str) -> Fact<Method> {
    match output.lines().find_map(|l| l.trim().strip_suffix(" Configuration")) {
        Some("DHCP") => Ok(Method::Dhcp),
        Some("Manual") => Ok(Method::Manual),
        Some(other) => Ok(Method::Other(other.to_owned())),
        None => Err(nothing_found(TOOL, "`… Configuration`", output)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "An asterisk (*) denotes that a network service is disabled.\n(1) Ethernet\n\
        (Hardware Port: Ethernet, Device: en0)\n\n(*) Mesh (old), Device: x\n(Hardware Port: Thunderbolt 6, Device: en7)\n\n\
        (3) Tailscale\n(Hardware Port: io.tailscale.ipn.macsys, Device: )\n\n";

    #[test]
    fn services_with_and_without_a_device() {
        let read = order(LIST).expect("reads");
        let told: Vec<_> = read.iter().map(|s| (s.name.as_str(), s.device.as_str(), s.enabled)).collect();
        assert_eq!(told, [("Ethernet", "en0", true), ("Mesh (old), Device: x", "en7", false), ("Tailscale", "", true)]);
        assert_eq!(read[1].port, "Thunderbolt 6");
    }

    #[test]
    fn half_a_list_and_other_words_are_no_list() {
        for bad in [
            "",
            "** Error: The parameters were not valid.",
            &LIST.replace("Hardware Port", "Anschluss"),
            &LIST.replace("(3) Tailscale\n", ""),
            LIST.split_once("(Hardware Port: io").expect("both").0,
        ] {
            assert!(order(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn how_a_service_gets_its_address() {
        assert_eq!(method("DHCP Configuration\nIP address: 198.51.100.7\n"), Ok(Method::Dhcp));
        assert_eq!(method("\nManual Configuration\nIP address: 10.219.1.2\n"), Ok(Method::Manual));
        assert_eq!(method("BOOTP Configuration\n"), Ok(Method::Other("BOOTP".to_owned())));
        for bad in ["", "X is not a recognized network service.\n** Error: The parameters were not valid.\n"] {
            assert!(method(bad).is_err(), "{bad}");
        }
    }
}
