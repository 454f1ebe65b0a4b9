//! From the transcripts of one node to its facts: which ran, which did not, and what they said.

mod host;
mod network;

use std::net::IpAddr;

use super::words::{excerpt, without_bom};
use super::{
    hardware, ibv_devices, ibv_devinfo, ifconfig, netstat, networksetup, probe, rdma_ctl, sudo, sw_vers, sysctl,
    thunderbolt,
};
use crate::model::facts::{RdmaSwitch, Session, Sudo};
use crate::model::network_facts::LinkPath;
use crate::model::runtime_facts::RuntimeFacts;
use crate::model::{Fact, FactError, FactErrorKind, NodeFacts, Transcript};

/// Reads all transcripts of one node. `session` is what the connection itself knows; the node's own word on its
/// address (`SSH_CONNECTION`) replaces the address in it.
pub fn facts(transcripts: &[Transcript], session: Session) -> NodeFacts {
    let all = Transcripts { noise: Noise::of(transcripts), list: transcripts };
    NodeFacts {
        hardware: all.complete(probe::THUNDERBOLT, "system_profiler", hardware::parse),
        os: all.strict(probe::OS, "sw_vers", sw_vers::parse),
        receptacles: all.complete(probe::THUNDERBOLT, "system_profiler", thunderbolt::parse),
        hardware_ports: all.strict(probe::PORTS, "networksetup", networksetup::parse),
        interfaces: all.strict(probe::IFCONFIG, "ifconfig", ifconfig::parse),
        rdma_switch: all.rdma_switch(),
        rdma_devices: all.either_stream(probe::RDMA_DEVICES, "ibv_devices", ibv_devices::parse),
        rdma_ports: all.either_stream(probe::RDMA_PORTS, "ibv_devinfo", ibv_devinfo::parse),
        routes: all.strict(probe::ROUTES, "netstat", netstat::parse),
        // Its exit status is the number of names the kernel does not know.
        sysctl: all.complete(probe::SYSCTL, "sysctl", sysctl::parse),
        sudo: all.sudo(session.user.as_deref()),
        session: all.session(session),
        login_noise: all.noise.stdout.to_owned(),
        drift: all.drift(),
        network: all.network(),
        host: all.host(),
        runtime: all.runtime(),
    }
}

/// What was sent over the links, read from the answers of the second round alone. `first`: the node's other transcripts,
/// of which the login shell's words are needed.
pub fn paths(first: &[Transcript], answers: &[Transcript]) -> Vec<LinkPath> {
    Transcripts { noise: Noise::of(first), list: answers }.links()
}

/// What the login shell prints before any command's own output.
#[derive(Clone, Copy, Default)]
struct Noise<'a> {
    stdout: &'a str,
    stderr: &'a str,
}

impl<'a> Noise<'a> {
    fn of(transcripts: &'a [Transcript]) -> Self {
        match transcripts.iter().find(|t| t.probe == probe::NOISE) {
            // `true` prints nothing: all there is comes from the shell. On standard error it may also be the shell
            // saying that it did not find the program.
            Some(t) if t.error.is_none() => {
                Noise { stdout: &t.stdout, stderr: if t.exit == Some(0) { &t.stderr } else { "" } }
            }
            _ => Noise::default(),
        }
    }
}

struct Transcripts<'a> {
    noise: Noise<'a>,
    list: &'a [Transcript],
}

/// One transcript whose command ran to its end, without the login shell's noise.
struct Ran<'a> {
    exit: Option<i32>,
    stdout: &'a str,
    stderr: &'a str,
}

impl Ran<'_> {
    fn both(&self) -> String {
        // Standard output first, so that line numbers are its own.
        let newline = if self.stdout.is_empty() || self.stdout.ends_with('\n') { "" } else { "\n" };
        format!("{}{newline}{}", self.stdout, self.stderr)
    }

    /// What to report when the output cannot be read: the failure itself, if there was one.
    fn blame(&self, tool: &str, unread: FactError) -> FactError {
        let silent = self.stdout.trim().is_empty() && !self.stderr.trim().is_empty();
        if self.exit == Some(0) && !silent { unread } else { self.failed(tool) }
    }

    /// The command failed and says this last.
    fn failed(&self, tool: &str) -> FactError {
        let last = [self.stderr, self.stdout].into_iter().find_map(|t| t.lines().rev().find(|l| !l.trim().is_empty()));
        let how = match self.exit {
            Some(code) => format!("ended with status {code}"),
            None => "was ended by a signal".to_owned(),
        };
        let message = match last {
            Some(line) => format!("{how}: {}", excerpt(line)),
            None => how,
        };
        error(tool, FactErrorKind::Failed, message)
    }
}

fn error(tool: &str, kind: FactErrorKind, message: impl Into<String>) -> FactError {
    FactError { tool: tool.to_owned(), kind, line: None, message: message.into() }
}

impl Transcripts<'_> {
    /// The transcript, if its command exists, ended, and all of its output is there.
    fn ran(&self, id: &str, tool: &str) -> Fact<Ran<'_>> {
        match self.list.iter().find(|t| t.probe == id) {
            Some(t) => self.read(t, tool),
            None => Err(error(tool, FactErrorKind::NotCollected, "was not asked")),
        }
    }

    /// The same of one transcript.
    fn read<'t>(&self, t: &'t Transcript, tool: &str) -> Fact<Ran<'t>> {
        if let Some(why) = &t.error {
            let late = ["no answer within", "timed out", "timeout"].iter().any(|w| why.to_lowercase().contains(w));
            let kind = if late { FactErrorKind::Timeout } else { FactErrorKind::Failed };
            return Err(error(tool, kind, excerpt(why)));
        }
        let clean = |text, noise| without_bom(without_noise(text, noise));
        let ran = Ran {
            exit: t.exit,
            stdout: clean(&t.stdout, self.noise.stdout),
            stderr: clean(&t.stderr, self.noise.stderr),
        };
        if is_missing(t, &ran) {
            return Err(error(tool, FactErrorKind::CommandMissing, "there is no such command on the node"));
        }
        if t.truncated {
            let message = "its output is longer than the limit; the rest was cut off";
            return Err(error(tool, FactErrorKind::Truncated, message));
        }
        Ok(ran)
    }

    /// Tools whose output counts only when they say they succeeded: half a list looks like a whole one.
    fn strict<T>(&self, id: &str, tool: &str, parse: fn(&str) -> Fact<T>) -> Fact<T> {
        let ran = self.ran(id, tool)?;
        if ran.exit != Some(0) {
            return Err(ran.failed(tool));
        }
        parse(ran.stdout).map_err(|e| ran.blame(tool, e))
    }

    /// Tools whose output shows by itself that it is whole, whatever the exit status.
    fn complete<T>(&self, id: &str, tool: &str, parse: fn(&str) -> Fact<T>) -> Fact<T> {
        let ran = self.ran(id, tool)?;
        parse(ran.stdout).map_err(|e| ran.blame(tool, e))
    }

    /// The same for tools of which it is not known what they print where.
    fn either_stream<T>(&self, id: &str, tool: &str, parse: fn(&str) -> Fact<T>) -> Fact<T> {
        let ran = self.ran(id, tool)?;
        parse(&ran.both()).map_err(|e| ran.blame(tool, e))
    }

    fn drift(&self) -> Vec<String> {
        let Ok(ran) = self.ran(probe::THUNDERBOLT, "system_profiler") else { return Vec::new() };
        thunderbolt::drift(ran.stdout).into_iter().map(|what| format!("{what} from system_profiler")).collect()
    }

    /// None where there is no such program: nothing is deployed.
    fn runtime(&self) -> Fact<Option<RuntimeFacts>> {
        let tool = "macluster";
        match self.ran(probe::RUNTIME, tool) {
            Err(e) if e.kind == FactErrorKind::CommandMissing => Ok(None),
            Err(e) => Err(e),
            Ok(ran) if ran.exit != Some(0) => Err(ran.failed(tool)),
            Ok(ran) => serde_json::from_str(ran.stdout.trim())
                .map_err(|e| error(tool, FactErrorKind::Malformed, format!("its answer cannot be read: {e}"))),
        }
    }

    fn rdma_switch(&self) -> Fact<RdmaSwitch> {
        match self.either_stream(probe::RDMA_SWITCH, "rdma_ctl", rdma_ctl::parse) {
            Err(e) if e.kind == FactErrorKind::CommandMissing => Ok(RdmaSwitch::NoCommand),
            other => other,
        }
    }

    fn sudo(&self, user: Option<&str>) -> Fact<Sudo> {
        if user == Some("root") {
            return Ok(Sudo::Root);
        }
        let ran = self.ran(probe::SUDO, "sudo")?;
        sudo::classify(ran.exit, &ran.both())
    }

    fn session(&self, session: Session) -> Session {
        let own = self.ran(probe::SESSION, "printenv").ok().and_then(|ran| ran.stdout.lines().rev().find_map(own_end));
        Session { local_address: own.or(session.local_address), ..session }
    }
}

/// The third of `CLIENT PORT SERVER PORT`.
fn own_end(line: &str) -> Option<IpAddr> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [client, client_port, own, own_port] = words.as_slice() else { return None };
    let address = |text: &str| text.split('%').next().and_then(|t| t.parse::<IpAddr>().ok());
    address(client)?;
    client_port.parse::<u16>().ok()?;
    own_port.parse::<u16>().ok()?;
    address(own).map(|a| a.to_canonical())
}

/// Takes the login shell's noise off the front.
fn without_noise<'t>(text: &'t str, noise: &str) -> &'t str {
    text.strip_prefix(noise).unwrap_or(text)
}

/// Whether the shell (or sudo) did not find the program: exit 127 in every shell, and the words of zsh, bash, sh, fish
/// and sudo where a wrapper hides the status.
fn is_missing(t: &Transcript, ran: &Ran<'_>) -> bool {
    if ran.exit == Some(127) {
        return true;
    }
    // sudo says it with status 1; a program that succeeded was there.
    let program = t.argv.first().map_or("", String::as_str);
    ran.exit != Some(0) && ran.stderr.lines().chain(ran.stdout.lines()).any(|line| says_missing(line, program))
}

/// `zsh:1: no such file or directory: PROGRAM`, `bash: line 1: PROGRAM: command not found`, `sh: 1: PROGRAM: not found`,
/// `fish: Unknown command: PROGRAM`, `sudo: PROGRAM: command not found`: the words and the program stand side by side.
fn says_missing(line: &str, program: &str) -> bool {
    const WORDS: [&str; 4] = ["command not found", "no such file or directory", "unknown command", "not found"];
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let is_program = |part: Option<&&str>| {
        part.is_some_and(|p| !p.is_empty() && name(p.trim_matches(['\'', '"', '`'])) == name(program))
    };
    let parts: Vec<&str> = line.trim().split(": ").map(str::trim).collect();
    parts.iter().enumerate().any(|(n, part)| {
        WORDS.contains(&part.to_lowercase().trim_end_matches('.'))
            && (is_program(parts.get(n + 1)) || n.checked_sub(1).is_some_and(|before| is_program(parts.get(before))))
    })
}
