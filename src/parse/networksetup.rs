//! `networksetup -listallhardwareports`.

use super::words::{mac, malformed, nothing_found};
use crate::model::Fact;
use crate::model::facts::HardwarePort;

const TOOL: &str = "networksetup";

/// Reads the blocks above the VLAN section. The tool prints its errors on standard output and may still exit with 0.
pub fn parse(output: &str) -> Fact<Vec<HardwarePort>> {
    let mut ports: Vec<HardwarePort> = Vec::new();
    // The block being read: its first line, and whether its `Device:` has come.
    let mut open: Option<(usize, bool)> = None;
    for (n, line) in output.lines().enumerate() {
        let line = line.trim();
        if line == "VLAN Configurations" {
            break;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match (key, ports.last_mut()) {
            ("Hardware Port", _) => {
                complete(open)?;
                open = Some((n + 1, false));
                ports.push(HardwarePort { name: value.to_owned(), device: String::new(), mac: None });
            }
            ("Device", Some(port)) => {
                // Empty happens, for ports of network extensions.
                value.clone_into(&mut port.device);
                open = open.map(|(line, _)| (line, true));
            }
            // `N/A` happens, for ports without an address.
            ("Ethernet Address", Some(port)) => port.mac = mac(value),
            _ => {}
        }
    }
    complete(open)?;
    if ports.is_empty() {
        return Err(nothing_found(TOOL, "`Hardware Port:` lines", output));
    }
    Ok(ports)
}

fn complete(open: Option<(usize, bool)>) -> Fact<()> {
    match open {
        Some((line, false)) => Err(malformed(TOOL, Some(line), "this hardware port has no `Device:` line")),
        _ => Ok(()),
    }
}
