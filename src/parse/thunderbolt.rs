//! `system_profiler SPThunderboltDataType -json`.
//!
//! Shape: samples of macOS 26 and 27. One bus is one receptacle on Apple silicon; buses come highest number first, so
//! nothing here depends on their order. A Mac behind a dock is nested in the dock's `_items`.

use serde_json::{Map, Value};

use super::json::{list_of, text};
use super::words::{excerpt, malformed};
use crate::model::Fact;
use crate::model::facts::{Attached, PeerMac, Receptacle};

const TOOL: &str = "system_profiler SPThunderboltDataType";
const KEY: &str = "SPThunderboltDataType";

/// Levels of docks followed; Thunderbolt allows six devices in a chain.
const MAX_DEPTH: usize = 16;

/// The Thunderbolt service by which a Mac with RDMA enabled announces itself. Its key is printed as `rdma` or as
/// mangled bytes, depending on the build; the number is the same in every capture.
const RDMA_PROTOCOL: &str = "64087";

/// Reads one entry per receptacle.
pub fn parse(output: &str) -> Fact<Vec<Receptacle>> {
    let buses = list_of(TOOL, KEY, output)?;
    let receptacles: Vec<Receptacle> = buses.iter().filter_map(Value::as_object).filter_map(receptacle).collect();
    // A display or dock may stand among the buses without a receptacle of its own; all of them doing so is no Mac.
    if receptacles.is_empty() && !buses.is_empty() {
        return Err(malformed(TOOL, None, format!("none of {} buses has a `receptacle_id_key`", buses.len())));
    }
    Ok(receptacles)
}

/// Keys and values of buses that no capture shows: what macOS says there is not understood. Empty for what is no list of
/// buses at all, which [`parse`] tells.
pub fn drift(output: &str) -> Vec<String> {
    const BUS: [&str; 7] = [
        "_items",
        "_name",
        "device_name_key",
        "domain_uuid_key",
        "route_string_key",
        "switch_uid_key",
        "vendor_name_key",
    ];
    // The last four: older Macs, Thunderbolt 3 devices, and a table of labels that names cables.
    const TAG: [&str; 9] = [
        "current_speed_key",
        "link_status_key",
        "micro_version_key",
        "receptacle_id_key",
        "receptacle_status_key",
        "lc_version_key",
        "current_link_width_key",
        "cable_serial_number_key",
        "cable_firmware_version_key",
    ];
    let mut found = std::collections::BTreeSet::new();
    for bus in list_of(TOOL, KEY, output).unwrap_or_default().iter().filter_map(Value::as_object) {
        for (key, value) in bus {
            match value.as_object().filter(|_| is_receptacle_tag(key)) {
                None if !BUS.contains(&key.as_str()) => drop(found.insert(format!("unknown key {}", excerpt(key)))),
                None => {}
                Some(tag) => {
                    let strange = tag.keys().filter(|k| !TAG.contains(&k.as_str()));
                    found.extend(strange.map(|k| format!("unknown key {}", excerpt(k))));
                    let status = text(tag, "receptacle_status_key");
                    let known = ["receptacle_connected", "receptacle_no_devices_connected"];
                    found.extend(
                        status
                            .filter(|s| !known.contains(&s.as_str()))
                            .map(|s| format!("unknown receptacle_status_key {}", excerpt(&s))),
                    );
                }
            }
        }
    }
    found.into_iter().take(8).collect()
}

fn receptacle(bus: &Map<String, Value>) -> Option<Receptacle> {
    // Always `receptacle_1_tag`, even for receptacle 6: the number that counts is inside.
    let (id, tag) = bus.iter().filter(|(key, _)| is_receptacle_tag(key)).find_map(|(_, tag)| {
        let tag = tag.as_object()?;
        let id = text(tag, "receptacle_id_key")?.parse().ok()?;
        Some((id, tag))
    })?;
    let attached = items(bus, 0);
    let connected = match text(tag, "receptacle_status_key") {
        Some(status) if status == "receptacle_connected" => true,
        Some(status) if status == "receptacle_no_devices_connected" => false,
        // What answers is there, whatever the word for it.
        _ => !attached.is_empty(),
    };
    Some(Receptacle {
        id,
        bus: text(bus, "_name").unwrap_or_default(),
        domain_uuid: uuid(bus),
        speed: text(tag, "current_speed_key"),
        connected,
        attached,
    })
}

fn is_receptacle_tag(key: &str) -> bool {
    key.starts_with("receptacle_") && key.ends_with("_tag")
}

fn uuid(object: &Map<String, Value>) -> Option<String> {
    text(object, "domain_uuid_key").map(|uuid| uuid.to_uppercase())
}

fn items(parent: &Map<String, Value>, depth: usize) -> Vec<Attached> {
    let Some(Value::Array(items)) = parent.get("_items") else { return Vec::new() };
    if depth >= MAX_DEPTH {
        return Vec::new();
    }
    let mut found = Vec::new();
    for item in items.iter().filter_map(Value::as_object) {
        let thing = attached(item, depth);
        // No capture has anything behind a Mac; should there be, it is not lost.
        let behind = if matches!(thing, Attached::Mac(_)) { self::items(item, depth + 1) } else { Vec::new() };
        found.push(thing);
        found.extend(behind);
    }
    found
}

fn attached(item: &Map<String, Value>, depth: usize) -> Attached {
    let name = text(item, "_name").or_else(|| text(item, "device_name_key")).unwrap_or_else(|| "unnamed".to_owned());
    if is_mac(item) {
        return Attached::Mac(PeerMac {
            name,
            model: text(item, "device_name_key"),
            domain_uuid: uuid(item),
            rdma_service: rdma_service(item),
        });
    }
    Attached::Device {
        name,
        vendor: text(item, "vendor_name_key"),
        mode: text(item, "mode_key"),
        behind: items(item, depth + 1),
    }
}

/// A peer Mac offers services and has a domain of its own; a device is a switch with a mode and a route.
fn is_mac(item: &Map<String, Value>) -> bool {
    if item.contains_key("services_title") {
        return true;
    }
    let is_switch = ["switch_uid_key", "mode_key", "route_string_key"].iter().any(|key| item.contains_key(*key))
        || item.keys().any(|key| is_receptacle_tag(key));
    let apple = text(item, "vendor_id_key").is_none_or(|id| id.eq_ignore_ascii_case("0x0A27"));
    let mac_id = text(item, "device_id_key").is_some_and(|id| id.eq_ignore_ascii_case("0xA") || id == "10");
    !is_switch && apple && (mac_id || item.contains_key("domain_uuid_key"))
}

/// None when the services carry no protocol ids, as in trimmed captures: then it is not known.
fn rdma_service(item: &Map<String, Value>) -> Option<bool> {
    let services = item.get("services_title")?.as_array()?;
    let mut protocols =
        services.iter().filter_map(Value::as_object).filter_map(|service| text(service, "protocol_id_key")).peekable();
    protocols.peek()?;
    Some(protocols.any(|id| id == RDMA_PROTOCOL))
}
