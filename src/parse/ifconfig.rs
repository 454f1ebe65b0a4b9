//! `ifconfig` without arguments: every interface, in order of creation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::words::{excerpt, mac, malformed, nothing_found};
use crate::model::Fact;
use crate::model::facts::{Inet, Interface};

const TOOL: &str = "ifconfig";

/// Reads every block. Lines before the first one are a banner; words that are not needed are passed over.
pub fn parse(output: &str) -> Fact<Vec<Interface>> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for (n, line) in output.lines().enumerate() {
        if let Some((name, rest)) = header(line) {
            interfaces.push(block(name, rest, n + 1)?);
        } else if line.starts_with(char::is_whitespace)
            && let Some(interface) = interfaces.last_mut()
        {
            detail(interface, line, n + 1)?;
        }
    }
    if interfaces.is_empty() {
        return Err(nothing_found(TOOL, "a line such as `en0: flags=…`", output));
    }
    Ok(interfaces)
}

/// Splits `en0: flags=8863<UP> mtu 1500` behind the name.
fn header(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let rest = rest.trim_start().strip_prefix("flags=")?;
    let good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!name.is_empty() && name.chars().all(good)).then_some((name, rest))
}

fn block(name: &str, rest: &str, line: usize) -> Fact<Interface> {
    let words = rest.split_once('<').and_then(|(_, tail)| tail.split_once('>'));
    let Some((flags, tail)) = words else {
        return Err(malformed(TOOL, Some(line), format!("the flags of {} break off", excerpt(name))));
    };
    let mut tokens = tail.split_whitespace();
    let mtu = tokens.find(|t| *t == "mtu").and_then(|_| tokens.next()).and_then(|t| t.parse().ok());
    Ok(Interface {
        name: name.to_owned(),
        flags: flags.split(',').filter(|f| !f.is_empty()).map(str::to_owned).collect(),
        mtu,
        ..Interface::default()
    })
}

fn detail(interface: &mut Interface, line: &str, number: usize) -> Fact<()> {
    let bad = || malformed(TOOL, Some(number), format!("expected an address, found `{}`", excerpt(line)));
    let mut tokens = line.split_whitespace();
    match tokens.next() {
        Some("ether") => interface.ether = Some(tokens.next().and_then(mac).ok_or_else(bad)?),
        Some("inet") => interface.inet.push(inet(tokens).ok_or_else(bad)?),
        Some("inet6") => interface.inet6.push(tokens.next().and_then(unscoped).ok_or_else(bad)?),
        // Carrier; `RUNNING` among the flags is none.
        Some("status:") => interface.active = Some(tokens.next() == Some("active")),
        Some("member:") => interface.members.extend(tokens.next().map(str::to_owned)),
        _ => {}
    }
    Ok(())
}

/// `10.0.0.1 [--> 10.0.0.2] netmask 0xffffff00 …`.
fn inet<'a>(mut tokens: impl Iterator<Item = &'a str>) -> Option<Inet> {
    let address = tokens.next()?.parse().ok()?;
    let mut inet = Inet { address, prefix: None, peer: None };
    while let Some(token) = tokens.next() {
        match token {
            "-->" => inet.peer = Some(tokens.next()?.parse().ok()?),
            // A mask with holes has no prefix length.
            "netmask" => inet.prefix = ipnet::ipv4_mask_to_prefix(netmask(tokens.next()?)?).ok(),
            _ => {}
        }
    }
    Some(inet)
}

/// `0xffffff00`, or `255.255.255.0` with `-f inet:dotted`.
fn netmask(text: &str) -> Option<Ipv4Addr> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok().map(Ipv4Addr::from),
        None => text.parse().ok(),
    }
}

/// An IPv6 address without `%en0`.
fn unscoped(text: &str) -> Option<Ipv6Addr> {
    match text.split('%').next()?.parse().ok()? {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}
