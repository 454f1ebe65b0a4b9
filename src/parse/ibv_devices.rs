//! `ibv_devices`: the names of the RDMA devices.

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;

const TOOL: &str = "ibv_devices";

/// Reads the names in the order printed. Only a header means no devices: RDMA off, or Thunderbolt 4.
pub fn parse(output: &str) -> Fact<Vec<String>> {
    let mut header = false;
    let mut devices: Vec<String> = Vec::new();
    for (n, line) in output.lines().enumerate() {
        let mut tokens = line.split_whitespace();
        match (tokens.next(), tokens.next(), tokens.next()) {
            (Some("device"), Some("node"), Some("GUID")) => header = true,
            (Some(name), Some(guid), None) if is_device(name) || (header && is_row(name, guid)) => {
                devices.push(name.to_owned());
            }
            (Some(name), None, None) if is_device(name) => {
                return Err(malformed(TOOL, Some(n + 1), format!("the line of {} breaks off", excerpt(name))));
            }
            _ => {}
        }
    }
    if !header && devices.is_empty() {
        // The words of ibv_devinfo, should this tool come to use them too.
        if output.contains("No IB devices found") {
            return Ok(devices);
        }
        return Err(nothing_found(TOOL, "the header `device  node GUID`", output));
    }
    Ok(devices)
}

/// `rdma_en3`: Apple pairs every device with an interface of that name (TN3205).
fn is_device(name: &str) -> bool {
    name.strip_prefix("rdma_").is_some_and(|i| !i.is_empty() && i.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// A row below the header whose device is called otherwise.
fn is_row(name: &str, guid: &str) -> bool {
    let word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word(name) && word(guid) && guid.len() >= 8
}
