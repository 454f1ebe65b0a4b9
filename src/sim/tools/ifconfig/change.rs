//! What `ifconfig` changes: addresses, up and down, bridge membership.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::sim::state::{Inet, Inet6, Interface, Kind, NodeState};
use crate::sim::tools::Call;

/// One parsed request.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Set { address: Ipv4Addr, prefix: u8, alias: bool },
    Remove(Option<Ipv4Addr>),
    Set6 { address: Ipv6Addr, prefix: u8 },
    Remove6(Ipv6Addr),
    Up(bool),
    Mtu(u32),
    AddMember(String),
    DeleteMember(String),
    Destroy,
}

/// Applies the words after the interface's name.
pub(super) fn run(call: &mut Call<'_>, name: &str, words: &[String]) -> io::Result<i32> {
    let changes = match parse(words) {
        Ok(changes) => changes,
        Err(text) => return writeln!(call.err, "ifconfig: {text}").map(|()| 1),
    };
    for change in changes {
        if call.uid != 0 {
            return writeln!(call.err, "ifconfig: {}", refused(&change)).map(|()| 1);
        }
        if let Err(text) = call.node.update(|state| apply(state, name, &change))? {
            return writeln!(call.err, "ifconfig: {text}").map(|()| 1);
        }
    }
    Ok(0)
}

/// The text for everybody but root, after `network_cmds`' source (no capture): `Perror` says "permission denied",
/// the bridge code uses `err`.
fn refused(change: &Change) -> String {
    match change {
        Change::Set { .. } => "ioctl (SIOCAIFADDR): permission denied".to_owned(),
        Change::Remove(_) => "ioctl (SIOCDIFADDR): permission denied".to_owned(),
        Change::Set6 { .. } => "ioctl (SIOCAIFADDR_IN6): permission denied".to_owned(),
        Change::Remove6(_) => "ioctl (SIOCDIFADDR_IN6): permission denied".to_owned(),
        Change::Up(true) => "up: permission denied".to_owned(),
        Change::Up(false) => "down: permission denied".to_owned(),
        Change::Mtu(_) => "ioctl (set mtu): permission denied".to_owned(),
        Change::AddMember(member) => format!("BRDGADD {member}: Operation not permitted"),
        Change::DeleteMember(member) => format!("BRDGDEL {member}: Operation not permitted"),
        Change::Destroy => "SIOCIFDESTROY: Operation not permitted".to_owned(),
    }
}

fn parse(words: &[String]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    let mut v6 = false;
    let mut v4: Option<(Ipv4Addr, u8)> = None;
    let mut six: Option<(Ipv6Addr, u8)> = None;
    let mut alias = false;
    let mut remove = false;
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().ok_or(format!("'{what}' requires argument"));
        match word {
            "inet" => v6 = false,
            "inet6" => v6 = true,
            "alias" | "add" => alias = true,
            "-alias" | "delete" | "remove" => remove = true,
            "up" => changes.push(Change::Up(true)),
            "down" => changes.push(Change::Up(false)),
            "destroy" => changes.push(Change::Destroy),
            "broadcast" => drop(value(word)?),
            "netmask" => {
                let text = value(word)?;
                let prefix = mask(text).ok_or(format!("{text}: bad value"))?;
                match &mut v4 {
                    Some((_, p)) => *p = prefix,
                    None => return Err(format!("{text}: bad value")),
                }
            }
            "prefixlen" => {
                let text = value(word)?;
                let prefix = text.parse::<u8>().ok().filter(|p| *p <= 128).ok_or(format!("{text}: bad value"))?;
                match (&mut v4, &mut six) {
                    (Some((_, p)), _) | (_, Some((_, p))) => *p = prefix,
                    _ => return Err(format!("{text}: bad value")),
                }
            }
            "mtu" => {
                let text = value(word)?;
                changes.push(Change::Mtu(text.parse().map_err(|_| format!("{text}: bad value"))?));
            }
            "addm" => changes.push(Change::AddMember(value(word)?.to_owned())),
            "deletem" => changes.push(Change::DeleteMember(value(word)?.to_owned())),
            address if v6 => {
                let (text, prefix) = address.split_once('/').unwrap_or((address, "64"));
                let bare = text.split('%').next().unwrap_or(text);
                let parsed = bare.parse().ok().zip(prefix.parse().ok());
                six = Some(parsed.ok_or(format!("{address}: bad value"))?);
            }
            address => {
                let (text, prefix) = match address.split_once('/') {
                    Some((text, prefix)) => (text, prefix.parse().ok().filter(|p| *p <= 32)),
                    None => (address, None),
                };
                let parsed: Ipv4Addr = text.parse().map_err(|_| format!("{address}: bad value"))?;
                if v4.is_none() {
                    v4 = Some((parsed, prefix.unwrap_or(classful(parsed))));
                }
            }
        }
    }
    // Addresses first, as the tool does; flags and membership keep their order.
    let addressing = match (v4, six, remove) {
        (Some((address, _)), _, true) => Some(Change::Remove(Some(address))),
        (Some((address, prefix)), _, false) => Some(Change::Set { address, prefix, alias }),
        (None, Some((address, _)), true) => Some(Change::Remove6(address)),
        (None, Some((address, prefix)), false) => Some(Change::Set6 { address, prefix }),
        (None, None, true) => Some(Change::Remove(None)),
        (None, None, false) => None,
    };
    if let Some(change) = addressing {
        changes.insert(0, change);
    }
    Ok(changes)
}

/// `255.255.255.252` or `0xfffffffc`, contiguous.
fn mask(text: &str) -> Option<u8> {
    let bits = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => u32::from(text.parse::<Ipv4Addr>().ok()?),
    };
    (bits.leading_ones() + bits.trailing_zeros() == 32 || bits == u32::MAX)
        .then(|| u8::try_from(bits.leading_ones()).unwrap_or(32))
}

/// The netmask of the address's class, when none is given.
fn classful(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

/// Changes the state, or says why not. Texts of failures are strerror's after `network_cmds`' source (no captures).
fn apply(state: &mut NodeState, name: &str, change: &Change) -> Result<(), String> {
    match change {
        Change::AddMember(member) => return add_member(state, name, member),
        Change::DeleteMember(member) => return delete_member(state, name, member),
        Change::Destroy => {
            let bridge = state.interface(name).is_some_and(|i| i.kind == Kind::Bridge);
            if !bridge {
                return Err("SIOCIFDESTROY: Invalid argument".to_owned());
            }
            let members = state.interface(name).map(|i| i.members.clone()).unwrap_or_default();
            for member in members {
                delete_member(state, name, &member)?;
            }
            state.interfaces.retain(|i| i.name != name);
            return Ok(());
        }
        _ => {}
    }
    let Some(interface) = state.interface_mut(name) else { return Err(format!("interface {name} does not exist")) };
    match *change {
        Change::Set { address, prefix, alias } => set(interface, address, prefix, alias),
        Change::Remove(address) => {
            let at = match address {
                Some(address) => interface.inet.iter().position(|i| i.address == address),
                None => (!interface.inet.is_empty()).then_some(0),
            };
            let at = at.ok_or("ioctl (SIOCDIFADDR): Can't assign requested address")?;
            interface.inet.remove(at);
        }
        Change::Set6 { address, prefix } => {
            interface.inet6.retain(|i| i.address != address);
            interface.inet6.push(Inet6 { address, prefix });
        }
        Change::Remove6(address) => {
            let before = interface.inet6.len();
            interface.inet6.retain(|i| i.address != address);
            let automatic = interface.link_local == Some(address);
            if automatic {
                interface.link_local = None;
            } else if interface.inet6.len() == before {
                return Err("ioctl (SIOCDIFADDR_IN6): Can't assign requested address".to_owned());
            }
        }
        Change::Up(up) => interface.up = up,
        Change::Mtu(mtu) => interface.mtu = mtu,
        Change::AddMember(_) | Change::DeleteMember(_) | Change::Destroy => {}
    }
    Ok(())
}

/// Without `alias` the first address is replaced. Whether setting an address also brings the interface up is not
/// captured; here it does not, so that a caller who relies on it is found out.
fn set(interface: &mut Interface, address: Ipv4Addr, prefix: u8, alias: bool) {
    interface.inet.retain(|i| i.address != address);
    let inet = Inet { address, prefix };
    match interface.inet.first_mut() {
        Some(first) if !alias => *first = inet,
        _ => interface.inet.push(inet),
    }
}

fn add_member(state: &mut NodeState, bridge: &str, member: &str) -> Result<(), String> {
    if state.interface(bridge).is_none_or(|i| i.kind != Kind::Bridge) {
        return Err(format!("BRDGADD {member}: Operation not supported"));
    }
    match state.bridge_of(member).map(|b| b.name == bridge) {
        Some(true) => return Err(format!("BRDGADD {member}: File exists")),
        Some(false) => return Err(format!("BRDGADD {member}: Resource busy")),
        None => {}
    }
    if state.interface(member).is_none() {
        return Err(format!("BRDGADD {member}: No such file or directory"));
    }
    if let Some(interface) = state.interface_mut(member) {
        interface.up = true;
    }
    if let Some(bridge) = state.interface_mut(bridge) {
        bridge.members.push(member.to_owned());
    }
    Ok(())
}

fn delete_member(state: &mut NodeState, bridge: &str, member: &str) -> Result<(), String> {
    let goes_down = state.quirks.down_after_bridge;
    let Some(bridge) = state.interface_mut(bridge).filter(|i| i.kind == Kind::Bridge) else {
        return Err(format!("BRDGDEL {member}: Operation not supported"));
    };
    let before = bridge.members.len();
    bridge.members.retain(|m| m != member);
    if bridge.members.len() == before {
        return Err(format!("BRDGDEL {member}: No such file or directory"));
    }
    if let Some(interface) = state.interface_mut(member).filter(|_| goes_down) {
        interface.up = false;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn masks_are_read_in_both_spellings() {
        assert_eq!(mask("255.255.255.252"), Some(30));
        assert_eq!(mask("0xffffff00"), Some(24));
        assert_eq!(mask("255.255.255.255"), Some(32));
        assert_eq!(mask("255.0.255.0"), None);
    }

    #[test]
    fn every_form_of_an_address_is_understood() {
        let address: Ipv4Addr = "10.254.0.1".parse().expect("an address");
        let set = |alias| Change::Set { address, prefix: 30, alias };
        assert_eq!(parse(&words("inet 10.254.0.1 netmask 255.255.255.252")), Ok(vec![set(false)]));
        assert_eq!(parse(&words("inet 10.254.0.1/30 alias")), Ok(vec![set(true)]));
        assert_eq!(parse(&words("10.254.0.1 netmask 0xfffffffc alias")), Ok(vec![set(true)]));
        assert_eq!(parse(&words("inet 10.254.0.1 delete")), Ok(vec![Change::Remove(Some(address))]));
        assert_eq!(parse(&words("inet 10.254.0.1 -alias")), Ok(vec![Change::Remove(Some(address))]));
        assert!(parse(&words("inet nonsense")).is_err());
        assert!(parse(&words("inet 10.254.0.1 netmask")).is_err());
    }
}
