//! `ping`: a peer answers when it has the address at the other end of the cable (samples/network/ping*).

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::Call;
use crate::sim::kernel::{Echo, Heard, echo};
use crate::sim::state::NodeState;
use crate::sim::world::World;

/// What became of one packet.
enum Fate {
    /// After this many milliseconds.
    Reply(f64),
    Silence,
    SendError(&'static str),
}

struct Options {
    count: Option<u32>,
    bound: Option<String>,
    source: Option<Ipv4Addr>,
    total: Option<Duration>,
    wait: Duration,
    interval: Duration,
    once: bool,
    quiet: bool,
    size: u32,
    host: String,
}

pub(super) fn run(call: &mut Call<'_>) -> io::Result<i32> {
    let options = match parse(call.args) {
        Ok(options) => options,
        Err(text) => return writeln!(call.err, "{text}").map(|()| 64),
    };
    let Ok(target) = options.host.parse::<Ipv4Addr>() else {
        return writeln!(call.err, "ping: cannot resolve {}: Unknown host", options.host).map(|()| 68);
    };
    let world = World::load(call.node)?;
    let state = world.node(&call.node.name)?;
    if options.bound.as_ref().is_some_and(|b| state.interface(b).is_none()) {
        return writeln!(call.err, "ping: bad interface name").map(|()| 1);
    }
    let own = |a: Ipv4Addr| state.interfaces.iter().any(|i| i.inet.iter().any(|x| x.address == a));
    if options.source.is_some_and(|s| !own(s)) {
        return writeln!(call.err, "ping: bind: Can't assign requested address").map(|()| 1);
    }
    let from = options.source.map(|s| format!(" from {s}")).unwrap_or_default();
    writeln!(call.out, "PING {target} ({target}){from}: {} data bytes", options.size)?;
    send(call, &options, target)
}

fn send(call: &mut Call<'_>, options: &Options, target: Ipv4Addr) -> io::Result<i32> {
    let end = options.total.map(|t| Instant::now() + t);
    let over = || end.is_some_and(|e| Instant::now() >= e);
    let mut times: Vec<f64> = Vec::new();
    let mut sent = 0;
    while options.count.is_none_or(|c| sent < c) && !over() && !(call.cancelled)() {
        // Looked up anew for every packet: a cable may come or go meanwhile.
        let sequence = sent;
        sent += 1;
        let last = options.count == Some(sent);
        let began = Instant::now();
        let fate = if call.node.inside {
            let wait = if last { options.wait } else { options.interval };
            real(options, target, end.map_or(wait, |e| wait.min(e.saturating_duration_since(began))))?
        } else {
            let world = World::load(call.node)?;
            fate(&world, world.node(&call.node.name)?, target, options.bound.as_deref(), sequence)
        };
        let mut answered = false;
        match fate {
            Fate::Reply(time) => {
                times.push(time);
                answered = true;
                if !options.quiet {
                    let bytes = options.size + 8;
                    writeln!(call.out, "{bytes} bytes from {target}: icmp_seq={sequence} ttl=64 time={time:.3} ms")?;
                }
            }
            Fate::SendError(text) => writeln!(call.err, "ping: sendto: {text}")?,
            Fate::Silence => {}
        }
        if answered && options.once {
            break;
        }
        if !(last && answered) {
            let pause = if last { options.wait } else { options.interval };
            sleep(call, pause.saturating_sub(began.elapsed()), end);
        }
        // The last packet's timeout is never printed.
        if !answered && !last && !options.quiet && !over() {
            writeln!(call.out, "Request timeout for icmp_seq {sequence}")?;
        }
    }
    statistics(call, target, sent, &times)
}

fn statistics(call: &mut Call<'_>, target: Ipv4Addr, sent: u32, times: &[f64]) -> io::Result<i32> {
    let received = u32::try_from(times.len()).unwrap_or(u32::MAX);
    let loss = if sent == 0 { 0.0 } else { f64::from(sent - received) * 100.0 / f64::from(sent) };
    writeln!(call.out, "\n--- {target} ping statistics ---")?;
    writeln!(call.out, "{sent} packets transmitted, {received} packets received, {loss:.1}% packet loss")?;
    if times.is_empty() {
        return Ok(2);
    }
    let average = times.iter().sum::<f64>() / f64::from(received);
    let variance = times.iter().map(|t| (t - average).powi(2)).sum::<f64>() / f64::from(received);
    let (least, most) = times.iter().fold((f64::MAX, 0.0_f64), |(l, m), t| (l.min(*t), m.max(*t)));
    let deviation = variance.sqrt();
    writeln!(call.out, "round-trip min/avg/max/stddev = {least:.3}/{average:.3}/{most:.3}/{deviation:.3} ms")
        .map(|()| 0)
}

fn sleep(call: &Call<'_>, pause: Duration, end: Option<Instant>) {
    let until = Instant::now() + pause;
    let until = end.map_or(until, |e| until.min(e));
    while Instant::now() < until && !(call.cancelled)() {
        std::thread::sleep(Duration::from_millis(20).min(until.saturating_duration_since(Instant::now())));
    }
}

/// On a node whose interfaces are real the packet is real, too.
fn real(options: &Options, target: Ipv4Addr, wait: Duration) -> io::Result<Fate> {
    let bound = options.bound.as_deref();
    let heard = echo(&Echo { target, bound, source: options.source, size: options.size, wait })?;
    Ok(match heard {
        Heard::Reply(time) => Fate::Reply(time),
        Heard::Silence => Fate::Silence,
        Heard::HostDown => Fate::SendError("Host is down"),
        Heard::NoRoute => Fate::SendError("No route to host"),
    })
}

fn fate(world: &World, state: &NodeState, target: Ipv4Addr, bound: Option<&str>, sequence: u32) -> Fate {
    let time = 0.287 + f64::from(sequence % 7) * 0.013;
    let own = state.interfaces.iter().any(|i| i.up && i.inet.iter().any(|x| x.address == target));
    if target.is_loopback() || own {
        return Fate::Reply(time);
    }
    let routed = world.route_to(state, target).map(|r| r.interface);
    let Some(interface) = bound.map(str::to_owned).or(routed).and_then(|name| state.interface(&name).cloned()) else {
        return Fate::SendError("No route to host");
    };
    let on_link = interface.inet.iter().filter_map(super::super::state::Inet::network).any(|n| n.contains(&target));
    if !interface.up {
        return Fate::SendError("Network is down");
    }
    if world.neighbours(state, &interface).iter().any(|(a, _)| *a == target) {
        let has = |n: &&NodeState| n.interfaces.iter().any(|i| i.inet.iter().any(|x| x.address == target));
        let mute = world.nodes.values().filter(has).any(|n| n.quirks.mute);
        return if mute { Fate::Silence } else { Fate::Reply(time) };
    }
    let routers: Vec<Ipv4Addr> =
        state.services.iter().filter(|s| s.device == interface.name).filter_map(|s| s.router).collect();
    match (on_link, routers.contains(&target)) {
        (true, true) => Fate::Reply(time),
        // ARP gives up after several timeouts (samples/network/ping-hostdown.combined.txt).
        (true, false) if sequence >= 5 => Fate::SendError("Host is down"),
        (false, _) if routers.is_empty() => Fate::SendError("No route to host"),
        _ => Fate::Silence,
    }
}

fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options {
        count: None,
        bound: None,
        source: None,
        total: None,
        wait: Duration::from_secs(10),
        interval: Duration::from_secs(1),
        once: false,
        quiet: false,
        size: 56,
        host: String::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(letters) = arg.strip_prefix('-') else {
            options.host.clone_from(arg);
            continue;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            match letter {
                'o' => options.once = true,
                'q' => options.quiet = true,
                'n' | 'D' | 'v' => {}
                'c' | 'b' | 'S' | 't' | 'W' | 'i' | 's' | 'm' => {
                    let rest: String = letters.by_ref().collect();
                    let value = if rest.is_empty() { args.next().cloned() } else { Some(rest) };
                    let value = value.ok_or(format!("ping: option requires an argument -- {letter}"))?;
                    options.take(letter, &value)?;
                }
                other => return Err(format!("ping: illegal option -- {other}\n{USAGE}")),
            }
        }
    }
    if options.host.is_empty() { Err(USAGE.to_owned()) } else { Ok(options) }
}

const USAGE: &str = "usage: ping [-AaDdfnoQqRrv] [-c count] [-G sweepmaxsize]";

impl Options {
    fn take(&mut self, letter: char, value: &str) -> Result<(), String> {
        let bad = |what: &str| format!("ping: invalid {what}: `{value}'");
        let seconds = |what: &str| value.parse::<f64>().ok().filter(|v| *v >= 0.0).ok_or(bad(what));
        match letter {
            'c' => {
                let count = value.parse().ok().filter(|c| *c > 0);
                self.count = Some(count.ok_or(bad("count of packets to transmit"))?);
            }
            'b' => self.bound = Some(value.to_owned()),
            'S' => self.source = Some(value.parse().map_err(|_| bad("source address"))?),
            't' => self.total = Some(Duration::from_secs_f64(seconds("timeout")?.min(1e6))),
            'W' => self.wait = Duration::from_secs_f64((seconds("timing interval")? / 1000.0).min(1e6)),
            'i' => self.interval = Duration::from_secs_f64(seconds("timing interval")?.min(1e6)),
            's' => self.size = value.parse().ok().filter(|s| *s <= 65507).ok_or(bad("packet size"))?,
            _ => {}
        }
        Ok(())
    }
}
