//! What of a node's network outlives a restart, belongs to somebody, or was tried out over its links.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::fact::{Fact, FactError, not_asked};

/// Label of the daemon that asserts the link networks at boot.
pub const LINKS_JOB: &str = "com.macluster.links";
/// Label of the job that takes an unconfirmed change back.
pub const DEADMAN_JOB: &str = "com.macluster.deadman";
/// Label of exo's network daemon: every half hour it runs `networksetup -setdhcp` on the Thunderbolt services
/// (FAILURES C8).
pub const EXO_JOB: &str = "io.exo.networksetup";
/// Folder of the link networks' own files, below the node's root.
pub const NETWORK_DIR: &str = "/opt/macluster/network";
/// Link addresses set since the last boot: macOS empties this folder at boot.
pub const HISTORY: &str = "/var/run/com.macluster.network.history";
/// Log of the links daemon.
pub const LINKS_LOG: &str = "/opt/macluster/var/log/links.log";
/// Log of the job that takes an unconfirmed change back.
pub const DEADMAN_LOG: &str = "/opt/macluster/var/log/deadman.log";
/// The system's network preferences, below the node's root.
pub const PREFERENCES: &str = "/Library/Preferences/SystemConfiguration/preferences.plist";

/// The preferences of Internet Sharing, below the node's root.
pub const SHARING: &str = "/Library/Preferences/SystemConfiguration/com.apple.nat.plist";

/// Facts that the link networks need beside `ifconfig` and routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkFacts {
    /// `VirtualNetworkInterfaces:Bridge` of the network preferences: bridges that come back at the next boot.
    pub bridge_entries: Fact<Vec<BridgeEntry>>,
    /// Jobs of [`LINKS_JOB`], [`DEADMAN_JOB`] and [`EXO_JOB`] that launchd has loaded.
    pub jobs: Fact<Vec<Job>>,
    /// Network services (`networksetup -listnetworkserviceorder`).
    pub services: Fact<Vec<Service>>,
    /// Internet Sharing is switched on (`NAT:Enabled` of [`SHARING`]); off when it was never set up.
    pub sharing: Fact<bool>,
    /// `links.conf`: what the links daemon asserts; none when there is no such file.
    pub configured: Fact<Option<LinksConfig>>,
    /// [`HISTORY`]: link addresses that macluster set, and in which boot.
    pub history: Fact<Vec<HistoryEntry>>,
    /// `lock/owner`: who changes the link networks now; none when nobody does.
    pub lock: Fact<Option<LockOwner>>,
    /// `armed` is there: a change waits for its confirmation.
    pub armed: Fact<bool>,
    /// What came back over the links that carry their address: one entry for each own end.
    pub paths: Fact<Vec<LinkPath>>,
}

impl Default for NetworkFacts {
    fn default() -> Self {
        NetworkFacts {
            bridge_entries: not_asked("plutil"),
            jobs: not_asked("launchctl"),
            services: not_asked("networksetup"),
            sharing: not_asked("plutil"),
            configured: not_asked("cat"),
            history: not_asked("cat"),
            lock: not_asked("cat"),
            armed: not_asked("cat"),
            paths: not_asked("ping"),
        }
    }
}

impl NetworkFacts {
    /// A node that was asked everything, and on which there is nothing.
    pub fn nothing() -> Self {
        NetworkFacts {
            bridge_entries: Ok(Vec::new()),
            jobs: Ok(Vec::new()),
            services: Ok(Vec::new()),
            sharing: Ok(false),
            configured: Ok(None),
            history: Ok(Vec::new()),
            lock: Ok(None),
            armed: Ok(false),
            paths: Ok(Vec::new()),
        }
    }

    /// The job of this label: none when launchd does not have it.
    ///
    /// # Errors
    /// It is not known.
    pub fn job(&self, label: &str) -> Result<Option<&Job>, &FactError> {
        self.jobs.as_ref().map(|jobs| jobs.iter().find(|j| j.label == label))
    }
}

/// A bridge in the network preferences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeEntry {
    /// Interface, e.g. `bridge0`.
    pub name: String,
    /// Its members at the next boot.
    pub members: Vec<String>,
    /// The entry as JSON, so that it can be put back.
    pub json: String,
}

/// A job that launchd has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Label.
    pub label: String,
    /// `pid`, while it runs.
    pub pid: Option<u32>,
    /// `state`, e.g. `running`, `not running`.
    pub state: String,
    /// `last exit code` as printed, e.g. `0`, `78: EX_CONFIG`, `(never exited)`; or `signal Killed: 9`.
    pub last_exit: Option<String>,
    /// `path` of its property list.
    pub path: Option<String>,
}

impl Job {
    /// It runs, or launchd is about to start it.
    pub fn works(&self) -> bool {
        self.pid.is_some() || self.state == "spawn scheduled"
    }
}

/// How a service gets its IPv4 address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `DHCP Configuration`.
    Dhcp,
    /// `Manual Configuration`.
    Manual,
    /// Another `… Configuration`, as printed.
    Other(String),
}

/// A network service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name: user-editable and localised.
    pub name: String,
    /// `Hardware Port`.
    pub port: String,
    /// `Device`, e.g. `en3`; empty happens.
    pub device: String,
    /// Not switched off.
    pub enabled: bool,
    /// How it gets its address (`networksetup -getinfo`); asked only for services on receptacles and bridges.
    pub method: Option<Fact<Method>>,
}

/// `links.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksConfig {
    /// SHA-256 of the daemon's script that was written with it.
    pub script: Option<String>,
    /// Links, in its order.
    pub links: Vec<ConfiguredLink>,
}

/// One line of `links.conf`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfiguredLink {
    /// Interface, e.g. `en3`.
    pub interface: String,
    /// Hardware address the interface must have; none when `ifconfig` showed none.
    pub ether: Option<String>,
    /// Its link address.
    pub address: Ipv4Addr,
    /// Prefix length.
    pub prefix: u8,
    /// The peer's address.
    pub peer_address: Ipv4Addr,
    /// The peer, for people.
    pub peer: String,
}

/// A link address that macluster set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// `kern.bootsessionuuid` of that boot.
    pub boot: String,
    /// Interface.
    pub interface: String,
    /// Address.
    pub address: Ipv4Addr,
}

/// Who holds the lock of a node's link networks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOwner {
    /// `user@desk`.
    pub by: String,
    /// Process at that desk.
    pub pid: u32,
    /// When it was taken, RFC 3339, by the desk's clock.
    pub since: String,
    /// Unix seconds by the node's clock after which it counts no more.
    pub until: i64,
}

impl fmt::Display for LockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}) since {}", self.by, self.pid, self.since)
    }
}

/// What was tried over one end of a link that carries its address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPath {
    /// Own interface.
    pub interface: String,
    /// Own address.
    pub address: Ipv4Addr,
    /// The peer's address.
    pub peer_address: Ipv4Addr,
    /// `ping` bound to the interface got an answer.
    pub answered: Fact<bool>,
    /// Interface by which the node would send to the peer (`route -n get`); none without a route.
    pub route: Fact<Option<String>>,
}
