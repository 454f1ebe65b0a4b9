//! `netstat -rn -f inet`: the IPv4 routing table.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::words::{excerpt, malformed, nothing_found};
use crate::model::Fact;
use crate::model::facts::Route;

const TOOL: &str = "netstat";

/// Reads the rows below `Destination`. Columns are found by the header's words, never by their position: releases
/// differ, and some have `Refs` and `Use` in between.
pub fn parse(output: &str) -> Fact<Vec<Route>> {
    let mut lines = output.lines().enumerate();
    let netif = lines.by_ref().find_map(|(_, line)| {
        let mut words = line.split_whitespace();
        (words.next()? == "Destination" && words.next()? == "Gateway").then_some(())?;
        line.split_whitespace().position(|word| word == "Netif")
    });
    let Some(netif) = netif else {
        return Err(nothing_found(TOOL, "the header `Destination  Gateway  Flags  Netif`", output));
    };
    let mut routes = Vec::new();
    for (n, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        // An empty line ends the table; `Internet6:` would follow.
        if words.is_empty() {
            break;
        }
        let bad = || malformed(TOOL, Some(n + 1), format!("expected a route, found `{}`", excerpt(line)));
        let (Some(to), Some(gateway), Some(flags), Some(interface)) =
            (words.first(), words.get(1), words.get(2), words.get(netif))
        else {
            return Err(bad());
        };
        routes.push(Route {
            destination: destination(to).ok_or_else(bad)?,
            gateway: (*gateway).to_owned(),
            flags: (*flags).to_owned(),
            interface: (*interface).to_owned(),
        });
    }
    Ok(routes)
}

/// `default`, `127` (= /8), `169.254` (= /16), `192.168.64` (= /24), `224.0.0/4`, `192.0.2.1` (a host).
fn destination(text: &str) -> Option<Ipv4Net> {
    if text == "default" {
        return Some(Ipv4Net::default());
    }
    let text = text.split('%').next()?;
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let mut octets = [0_u8; 4];
    let mut given = 0_u8;
    for part in address.split('.') {
        *octets.get_mut(usize::from(given))? = part.parse().ok()?;
        given += 1;
    }
    Some(Ipv4Net::new(Ipv4Addr::from(octets), prefix.unwrap_or(given * 8)).ok()?.trunc())
}
