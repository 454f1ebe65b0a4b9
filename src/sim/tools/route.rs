//! `route` (samples/routing/route-cases.json): an exit status of 0 says nothing, standard error does.

use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::Call;
use crate::sim::kernel::leaves_by;
use crate::sim::state::{Kind, NodeState, StaticRoute};
use crate::sim::world::World;

/// What the words after the verb say.
struct Words {
    host: Option<bool>,
    destination: Option<String>,
    gateway: Option<String>,
    via_interface: bool,
    scope: Option<String>,
}

/// `route [-nq] get|add|change|delete [-net|-host] DESTINATION [-interface] [GATEWAY] [-ifscope IF]`.
pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    const USAGE: &str = "usage: route [-dnqtv] command [[modifiers] args]";
    let mut args: Vec<&str> = call.args.iter().map(String::as_str).collect();
    let mut quiet = false;
    while let Some(flag) = args.first().filter(|a| a.starts_with('-')) {
        if flag.trim_start_matches('-').chars().any(|c| !"nqtv".contains(c)) {
            return writeln!(call.err, "{USAGE}").map(|()| 64);
        }
        quiet |= flag.contains('q');
        args.remove(0);
    }
    let Some((verb, rest)) = args.split_first() else {
        return writeln!(call.err, "{USAGE}").map(|()| 64);
    };
    let words = match parse(rest) {
        Ok(words) => words,
        Err(word) => return writeln!(call.err, "route: botched keyword: {word}\n{USAGE}").map(|()| 64),
    };
    let verb = (*verb).to_owned();
    match verb.as_str() {
        "get" => get(call, &words),
        "add" | "change" | "delete" if call.uid != 0 => {
            writeln!(call.err, "route: must be root to alter routing table").map(|()| 77)
        }
        "add" | "change" | "delete" => alter(call, &verb, &words, quiet),
        other => writeln!(call.err, "route: botched keyword: {other}\n{USAGE}").map(|()| 64),
    }
}

fn parse(args: &[&str]) -> Result<Words, String> {
    let mut words = Words { host: None, destination: None, gateway: None, via_interface: false, scope: None };
    let mut args = args.iter();
    while let Some(word) = args.next() {
        match *word {
            "-net" => words.host = Some(false),
            "-host" => words.host = Some(true),
            "-inet" | "-static" => {}
            "-interface" | "-iface" => words.via_interface = true,
            "-ifscope" => words.scope = args.next().map(|w| (*w).to_owned()),
            flag if flag.starts_with('-') => return Err(flag.trim_start_matches('-').to_owned()),
            word if words.destination.is_none() => words.destination = Some(word.to_owned()),
            word => words.gateway = Some(word.to_owned()),
        }
    }
    Ok(words)
}

fn bad_address(call: &mut Call<'_>, word: &str) -> io::Result<i32> {
    writeln!(call.err, "route: bad address: {word}").map(|()| 68)
}

fn get(call: &mut Call<'_>, words: &Words) -> io::Result<i32> {
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    if words.scope.as_ref().is_some_and(|s| state.interface(s).is_none()) {
        return writeln!(call.err, "route: bad interface name").map(|()| 1);
    }
    let asked = words.destination.clone().unwrap_or_default();
    let address = match asked.as_str() {
        "default" => Ipv4Addr::UNSPECIFIED,
        other => match other.parse() {
            Ok(address) => address,
            Err(_) => return bad_address(call, &asked),
        },
    };
    let row = if asked == "default" {
        world.routes(state).into_iter().find(|r| r.destination.prefix_len() == 0)
    } else if call.node.inside {
        // The kernel says where it goes; its own words for it are the most specific row that leaves there.
        leaves_by(address).and_then(|interface| world.route_by(state, address, &interface))
    } else {
        world.route_to(state, address)
    };
    let Some(row) = row else {
        return writeln!(call.err, "route: writing to routing socket: not in table").map(|()| 0);
    };
    let Some(interface) = state.interface(&row.interface) else { return Ok(0) };
    let default = row.destination.prefix_len() == 0;
    let shown = if default { "default".to_owned() } else { row.destination.network().to_string() };
    writeln!(call.out, "   route to: {asked}\ndestination: {shown}")?;
    if default {
        writeln!(call.out, "       mask: default")?;
    } else if !row.host {
        writeln!(call.out, "       mask: {}", row.destination.netmask())?;
    }
    let gateway = row.gateway.parse::<Ipv4Addr>().ok().filter(|_| row.flags.contains('G'));
    if let Some(gateway) = gateway {
        writeln!(call.out, "    gateway: {gateway}")?;
    }
    writeln!(
        call.out,
        "  interface: {}\n      flags: <{}>",
        row.interface,
        flag_words(&row.flags, interface.kind == Kind::Loopback)
    )?;
    writeln!(call.out, " recvpipe  sendpipe  ssthresh  rtt,msec    rttvar  hopcount      mtu     expire")?;
    let pipe = if interface.kind == Kind::Loopback { 49152 } else { 0 };
    let expire = if row.flags.contains('W') { 1098 } else { 0 };
    writeln!(
        call.out,
        "{pipe:>8}  {pipe:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {:>8}  {expire:>8} ",
        0, 0, 0, 0, interface.mtu
    )
    .map(|()| 0)
}

/// Flag letters of `netstat` as the words of `route get`, in its order. Cloning of static routes is PRCLONING.
fn flag_words(flags: &str, loopback: bool) -> String {
    let has = |c: char| flags.contains(c);
    let mut words = vec!["UP"];
    let mut add = |yes: bool, word| {
        if yes {
            words.push(word);
        }
    };
    add(has('G'), "GATEWAY");
    add(has('H'), "HOST");
    add(true, "DONE");
    add(has('L'), "LLINFO");
    add(has('W'), "WASCLONED");
    add(has('C'), "CLONING");
    add(has('S'), "STATIC");
    add(has('c'), "PRCLONING");
    add(has('b'), "BROADCAST");
    add(has('m') && has('H'), "MULTICAST");
    add(has('I'), "IFSCOPE");
    add(has('i'), "IFREF");
    add(has('r'), "ROUTER");
    add(has('g'), "GLOBAL");
    add(has('H') && loopback, "LOCAL");
    words.join(",")
}

fn alter(call: &mut Call<'_>, verb: &str, words: &Words, quiet: bool) -> io::Result<i32> {
    let state = call.node.load()?;
    let word = words.destination.clone().unwrap_or_default();
    let Some((destination, host)) = destination(&word, words.host) else { return bad_address(call, &word) };
    if words.scope.as_ref().is_some_and(|s| state.interface(s).is_none()) {
        return writeln!(call.err, "route: bad interface name").map(|()| 1);
    }
    if let Some(gateway) = &words.gateway {
        let known =
            if words.via_interface { state.interface(gateway).is_some() } else { gateway.parse::<Ipv4Addr>().is_ok() };
        if !known {
            return bad_address(call, gateway);
        }
    }
    let what = if host { "host" } else { "net" };
    let mut line = format!("{verb} {what} {}", destination.network());
    if let Some(gateway) = &words.gateway {
        let _ = write!(line, ": gateway {gateway}");
    }
    let refused = call.node.update(|state| change(state, verb, destination, host, words))?.err();
    if let Some(why) = refused {
        let _ = write!(line, ": {why}");
        writeln!(call.err, "route: writing to routing socket: {why}")?;
    }
    if !quiet {
        writeln!(call.out, "{line}")?;
    }
    Ok(0)
}

/// Network or host; a bare address is a host unless `-net` is said. A prefix of 33 is taken as the tool takes it.
fn destination(word: &str, host: Option<bool>) -> Option<(Ipv4Net, bool)> {
    if word == "default" {
        return Some((Ipv4Net::default(), false));
    }
    match word.split_once('/') {
        Some((address, prefix)) => {
            let prefix: u8 = prefix.parse().ok()?;
            let network = if prefix > 32 {
                Ipv4Net::new(Ipv4Addr::new(128, 0, 0, 0), 1)
            } else {
                Ipv4Net::new(address.parse().ok()?, prefix)
            };
            Some((network.ok()?.trunc(), host == Some(true)))
        }
        None => Some((Ipv4Net::from(word.parse::<Ipv4Addr>().ok()?), host != Some(false))),
    }
}

fn change(
    state: &mut NodeState,
    verb: &str,
    destination: Ipv4Net,
    host: bool,
    words: &Words,
) -> Result<(), &'static str> {
    let scoped = words.scope.is_some();
    let same = |r: &StaticRoute| r.destination == destination && r.scoped == scoped;
    let position = state.static_routes.iter().position(same);
    if verb == "delete" {
        state.static_routes.remove(position.ok_or("not in table")?);
        return Ok(());
    }
    if verb == "change" && position.is_none() {
        return Err("not in table");
    }
    let gateway = words.gateway.as_ref().ok_or("Invalid argument")?;
    let connected = |name: &str| state.interface(name).is_some_and(|i| i.up && !i.inet.is_empty());
    let interface = if words.via_interface {
        gateway.clone()
    } else {
        let address: Ipv4Addr = gateway.parse().map_err(|_| "Invalid argument")?;
        let holds = |i: &&crate::sim::state::Interface| {
            i.inet.iter().filter_map(super::super::state::Inet::network).any(|n| n.contains(&address))
        };
        state.interfaces.iter().find(holds).map(|i| i.name.clone()).ok_or("Network is unreachable")?
    };
    if !connected(&interface) && interface != "lo0" {
        return Err("Network is unreachable");
    }
    let default = destination.prefix_len() == 0 && state.services.iter().any(|s| s.router.is_some());
    let route = StaticRoute {
        destination,
        host,
        gateway: if words.via_interface { None } else { gateway.parse().ok() },
        interface,
        scoped,
    };
    match (verb, position) {
        ("change", Some(at)) => {
            state.static_routes[at] = route;
            Ok(())
        }
        (_, Some(_)) => Err("File exists"),
        (_, None) if default && !scoped => Err("File exists"),
        (_, None) => {
            state.static_routes.push(route);
            Ok(())
        }
    }
}
