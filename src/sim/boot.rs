//! What a restart does to a node: what lived in memory is gone, what the network preferences say is back.

use std::fs;
use std::io;

use plist::{Dictionary, Value};

use super::ids;
use super::state::{Interface, Kind, NodeState};
use super::store::Node;

/// The system's network preferences, below the node's root.
const PREFERENCES: &str = "/Library/Preferences/SystemConfiguration/preferences.plist";

/// A bridge that the preferences make at every boot.
struct Entry {
    name: String,
    members: Vec<String>,
}

/// Writes the network preferences of a stock Mac: its Thunderbolt Bridge, or none without members
/// (samples/networksetup/errors-and-gotchas.md shows this part of the file).
pub(super) fn write_preferences(node: &Node, bridge: &str, members: &[String]) -> io::Result<()> {
    let listed: Vec<Value> = members.iter().map(|m| Value::from(m.as_str())).collect();
    let stock = !members.is_empty();
    let options: Dictionary = [("__AUTO__".to_owned(), Value::from("thunderbolt-bridge"))].into_iter().collect();
    let entry: Dictionary =
        [("Options".to_owned(), Value::Dictionary(options)), ("Interfaces".to_owned(), Value::Array(listed))]
            .into_iter()
            .collect();
    let one = Some((bridge.to_owned(), Value::Dictionary(entry))).filter(|_| stock);
    let bridges: Dictionary = one.into_iter().collect();
    let virtuals: Dictionary = [("Bridge".to_owned(), Value::Dictionary(bridges))].into_iter().collect();
    let all: Dictionary = [("VirtualNetworkInterfaces".to_owned(), Value::Dictionary(virtuals))].into_iter().collect();
    let place = node.rooted(PREFERENCES);
    fs::create_dir_all(place.parent().unwrap_or(&node.root))?;
    Value::Dictionary(all).to_file_xml(place).map_err(io::Error::other)
}

/// The bridges of the preferences; none without the file.
fn entries(node: &Node) -> Vec<Entry> {
    let Ok(value) = Value::from_file(node.rooted(PREFERENCES)) else { return Vec::new() };
    let bridges = value.as_dictionary().and_then(|d| d.get("VirtualNetworkInterfaces")?.as_dictionary()?.get("Bridge"));
    let Some(bridges) = bridges.and_then(Value::as_dictionary) else { return Vec::new() };
    let members = |entry: &Value| -> Option<Vec<String>> {
        let list = entry.as_dictionary()?.get("Interfaces")?.as_array()?;
        Some(list.iter().filter_map(Value::as_string).map(str::to_owned).collect())
    };
    bridges.iter().map(|(name, e)| Entry { name: name.clone(), members: members(e).unwrap_or_default() }).collect()
}

/// Turns a node off and on: a new boot session, an empty `/var/run`, no routes and no kernel variables that were set,
/// addresses only where a network service gives one, bridges as the preferences have them. Nothing of the node may run
/// meanwhile.
///
/// # Errors
/// The node's files cannot be read or written.
pub fn restart(node: &Node) -> io::Result<()> {
    let run = node.rooted("/private/var/run");
    match fs::remove_dir_all(&run) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => fs::create_dir_all(&run)?,
    }
    let seed = format!("{}/{}", node.rack()?.rack, node.name);
    let entries = entries(node);
    node.update(|state| forget(state, &seed, &entries))
}

fn forget(state: &mut NodeState, seed: &str, entries: &[Entry]) {
    state.boot.session = ids::uuid(&format!("{}/next", state.boot.session));
    state.boot.seconds += 1_117;
    state.static_routes.clear();
    state.sysctl.clear();
    state.owners.retain(|path, _| !path.starts_with("private/var/run/"));
    let serviced: Vec<String> = state.services.iter().filter(|s| s.enabled).map(|s| s.device.clone()).collect();
    for interface in &mut state.interfaces {
        if matches!(interface.kind, Kind::Loopback | Kind::Idle) {
            continue;
        }
        // The first address of a service stands for its DHCP lease or its setting; all others were set by hand.
        interface.inet.truncate(usize::from(serviced.contains(&interface.name)));
        interface.inet6.clear();
        interface.up = true;
        let own = matches!(interface.kind, Kind::Thunderbolt | Kind::Ethernet | Kind::Wifi);
        if own && interface.link_local.is_none() {
            interface.link_local = Some(ids::secured_link_local(&format!("{seed}/{}", interface.name)));
        }
    }
    bridges(state, entries);
}

fn bridges(state: &mut NodeState, entries: &[Entry]) {
    let named = |i: &Interface| entries.iter().any(|e| e.name == i.name);
    state.interfaces.retain(|i| i.kind != Kind::Bridge || named(i));
    for entry in entries {
        let known = |name: &String| state.interface(name).is_some_and(|i| i.kind != Kind::Bridge);
        let members: Vec<String> = entry.members.iter().filter(|m| known(m)).cloned().collect();
        if let Some(bridge) = state.interface_mut(&entry.name) {
            bridge.members = members;
            continue;
        }
        let mac = members.first().and_then(|m| state.interface(m)).and_then(|i| i.mac.clone());
        let last = state.interfaces.iter().map(|i| i.index).max().unwrap_or(0);
        state.interfaces.push(Interface {
            name: entry.name.clone(),
            kind: Kind::Bridge,
            index: last + 1,
            up: true,
            mtu: 1500,
            mac,
            inet: Vec::new(),
            inet6: Vec::new(),
            link_local: None,
            members,
        });
    }
}
