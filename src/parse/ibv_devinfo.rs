//! `ibv_devinfo -v`: state, capabilities and GID table of every RDMA device.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;
use crate::model::facts::{Gid, RdmaPort};

const TOOL: &str = "ibv_devinfo";

/// Reads every device. `No IB devices found` is an empty list, whatever the exit status.
///
/// Real output is indented by tabs, quoted output by blanks: the indentation is not looked at. One port per device
/// (TN3205); of several, the first counts.
pub fn parse(output: &str) -> Fact<Vec<RdmaPort>> {
    let mut devices: Vec<RdmaPort> = Vec::new();
    // A device printed twice is one device.
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut current: Option<usize> = None;
    for (n, line) in output.lines().enumerate() {
        let line = line.trim();
        let Some((key, value)) = split(line) else { continue };
        if key == "hca_id" {
            let Some(name) = value.split_whitespace().next() else {
                return Err(malformed(TOOL, Some(n + 1), "a device without a name"));
            };
            current = Some(*places.entry(name.to_owned()).or_insert_with(|| {
                devices.push(device(name));
                devices.len() - 1
            }));
            continue;
        }
        let Some(device) = current.and_then(|at| devices.get_mut(at)) else { continue };
        if let Some(index) = key.strip_prefix("GID") {
            let (index, gid) = gid(index, value)
                .ok_or_else(|| malformed(TOOL, Some(n + 1), format!("expected a GID, found `{}`", excerpt(line))))?;
            device.gids.entry(index).or_insert(gid);
        } else if key == "state" && device.state.is_empty() {
            value.split_whitespace().next().unwrap_or_default().clone_into(&mut device.state);
        } else if key.starts_with("max_")
            && let Some(number) = number(value)
        {
            device.caps.entry(key.to_owned()).or_insert(number);
        }
    }
    if devices.is_empty() {
        if output.contains("No IB devices found") {
            return Ok(devices);
        }
        return Err(nothing_found(TOOL, "`hca_id:` lines", output));
    }
    match devices.iter().find(|d| d.state.is_empty()) {
        Some(device) => Err(malformed(TOOL, None, format!("{} has no `state:` line", excerpt(&device.device)))),
        None => Ok(devices),
    }
}

/// Key and value; the colon behind `GID[  1]` is the first one that counts.
fn split(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim()))
}

/// A device of which only the name is known.
fn device(name: &str) -> RdmaPort {
    RdmaPort { device: name.to_owned(), state: String::new(), gids: BTreeMap::new(), caps: BTreeMap::new() }
}

/// `[  1]` and its value. Newer tools add `, RoCE v2` or the like behind the address.
fn gid(index: &str, value: &str) -> Option<(u32, Gid)> {
    let index = index.trim().strip_prefix('[')?.strip_suffix(']')?.trim().parse().ok()?;
    let text = value.split(|c: char| c == ',' || c.is_whitespace()).next().filter(|t| !t.is_empty())?;
    let address = text.split('%').next().and_then(|t| t.parse::<IpAddr>().ok());
    Some((index, Gid { text: text.to_owned(), address }))
}

/// A whole number, decimal or `0x…`; values with a remark behind them are no capabilities.
fn number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    }
}
