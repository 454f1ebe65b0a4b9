//! Real packets, and the way the kernel sends them.

use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::{host_tool, ip};

/// One echo request.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Echo<'a> {
    /// To whom.
    pub(in crate::sim) target: Ipv4Addr,
    /// Out of this interface and no other.
    pub(in crate::sim) bound: Option<&'a str>,
    /// From this address.
    pub(in crate::sim) source: Option<Ipv4Addr>,
    /// Bytes of data.
    pub(in crate::sim) size: u32,
    /// How long an answer is waited for.
    pub(in crate::sim) wait: Duration,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim) enum Heard {
    /// An answer, after this many milliseconds.
    Reply(f64),
    /// Nothing in time.
    Silence,
    /// Nobody at that address on the link.
    HostDown,
    /// It could not be sent.
    NoRoute,
}

/// Sends one request and waits for its answer.
///
/// # Errors
/// The host's `ping` cannot be run.
pub(in crate::sim) fn echo(request: &Echo<'_>) -> io::Result<Heard> {
    let mut command = Command::new(host_tool("ping"));
    command.args(["-n", "-c", "1", "-W", &format!("{:.3}", request.wait.as_secs_f64().max(0.05))]);
    command.args(["-s", &request.size.to_string()]);
    if let Some(bound) = request.bound {
        command.args(["-I", bound]);
    }
    if let Some(source) = request.source {
        command.args(["-I", &source.to_string()]);
    }
    let output = command.arg(request.target.to_string()).env("LC_ALL", "C").stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        let time = said.split_once(" time=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        return Ok(Heard::Reply(time.unwrap_or(0.0)));
    }
    if said.contains("Destination Host Unreachable") {
        return Ok(Heard::HostDown);
    }
    Ok(if output.status.code() == Some(1) { Heard::Silence } else { Heard::NoRoute })
}

#[derive(Deserialize)]
struct Route {
    dev: Option<String>,
}

/// The interface by which packets to an address leave; none when there is no way.
pub(in crate::sim) fn leaves_by(address: Ipv4Addr) -> Option<String> {
    let answer = ip(&["-json", "route", "get", &address.to_string()], "").ok()?;
    let routes: Vec<Route> = serde_json::from_slice(&answer).ok()?;
    routes.into_iter().next()?.dev.map(|dev| if dev == "lo" { "lo0".to_owned() } else { dev })
}
