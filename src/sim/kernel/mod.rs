//! The seam between a node's tools and a real kernel.
//!
//! A node in namespaces of its own (`tests/it/netrack`, the second simulated rack) has an interface of the same name
//! for every cabled receptacle, for its Ethernet port and for its bridges. There the state follows the kernel: what
//! tools read of addresses, carrier and membership is what the kernel says, what they change is changed in it at once,
//! and packets are real. All of it happens here; a node of the first rack never comes here.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::state::{Inet, Kind, NodeState};
use super::store::read_json;

mod change;
mod path;

pub(super) use change::project;
pub(super) use path::{Echo, Heard, echo, leaves_by};

/// Where a node's namespaces say which node they are.
pub const MARK: &str = "/.macsim/node.json";
/// The host's file system, read only, for the few tools that stand in for a kernel of macOS. On nobody's search path.
pub const HOST: &str = "/.macsim/host";

/// The content of [`MARK`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The node.
    pub name: String,
    /// The rack's folder, as the node's namespaces see it.
    pub dir: PathBuf,
    /// What is started at boot beside the jobs of launchd: the SSH server.
    pub services: Vec<Vec<String>>,
}

impl Mark {
    /// The mark of the namespaces this process runs in; none outside such a node.
    pub(super) fn here() -> Option<Mark> {
        read_json(Path::new(MARK)).ok()
    }
}

/// A tool of the host, by name.
pub(super) fn host_tool(name: &str) -> PathBuf {
    let place = |folder: &&str| Path::new(HOST).join(folder).join(name);
    let folders = ["usr/sbin", "usr/bin", "sbin", "bin"];
    folders.iter().map(place).find(|p| p.exists()).unwrap_or_else(|| Path::new(HOST).join("usr/bin").join(name))
}

/// An interface as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) carrier: bool,
    pub(super) mtu: u32,
    pub(super) master: Option<String>,
    pub(super) inet: Vec<Inet>,
}

/// All interfaces of this process's network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Links(Vec<Link>);

#[derive(Deserialize)]
struct Row {
    ifname: String,
    flags: Vec<String>,
    mtu: u32,
    master: Option<String>,
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    family: String,
    local: Option<String>,
    prefixlen: u8,
}

impl Links {
    /// Asks the kernel.
    pub(super) fn read() -> io::Result<Links> {
        let rows: Vec<Row> = serde_json::from_slice(&ip(&["-json", "address", "show"], "")?)?;
        let link = |row: Row| {
            let has = |flag: &str| row.flags.iter().any(|f| f == flag);
            let v4 = |a: &Address| Some(Inet { address: a.local.as_ref()?.parse().ok()?, prefix: a.prefixlen });
            Link {
                up: has("UP"),
                carrier: has("LOWER_UP"),
                inet: row.addr_info.iter().filter(|a| a.family == "inet").filter_map(v4).collect(),
                name: row.ifname,
                mtu: row.mtu,
                master: row.master,
            }
        };
        Ok(Links(rows.into_iter().map(link).collect()))
    }

    /// The interface of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Link> {
        self.0.iter().find(|l| l.name == name)
    }

    /// Puts what the kernel knows in the place of what the state says.
    pub(super) fn show_in(&self, state: &mut NodeState) {
        let master = |name: &str| self.get(name).map(|l| l.master.clone());
        for interface in &mut state.interfaces {
            let Some(link) = self.get(&interface.name) else { continue };
            interface.up = link.up;
            interface.mtu = link.mtu;
            interface.inet.clone_from(&link.inet);
            if interface.kind == Kind::Bridge {
                // Members without a cable are in the state alone.
                let name = Some(interface.name.clone());
                interface.members.retain(|m| master(m).is_none_or(|of| of == name));
                for link in self.0.iter().filter(|l| l.master == name) {
                    if !interface.members.contains(&link.name) {
                        interface.members.push(link.name.clone());
                    }
                }
            }
        }
    }
}

/// Brings the interfaces to the state of a node that boots.
///
/// # Errors
/// The kernel refuses.
pub(super) fn start(state: &NodeState) -> io::Result<()> {
    ip(&["link", "set", "lo", "up"], "")?;
    project(None, state)
}

/// Runs the host's `ip`; its standard error is the error.
fn ip(args: &[&str], input: &str) -> io::Result<Vec<u8>> {
    let mut child = Command::new(host_tool("ip"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("ip {}: {said}: {}", args.join(" "), input.trim().replace('\n', "; "))))
}

/// Sets a variable of the kernel, in this network namespace.
pub(super) fn set_variable(name: &str, value: &str) -> io::Result<()> {
    fs::write(Path::new("/proc/sys").join(name), value)
}
