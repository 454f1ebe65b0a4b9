//! What is known of one node, as its own tools report it. Parsed by `parse`, never guessed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::fact::not_asked;
pub use super::fact::{Fact, FactError, FactErrorKind};
use super::host_facts::HostFacts;
use super::network_facts::NetworkFacts;
use super::runtime_facts::RuntimeFacts;

/// Everything read from one node over one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// `system_profiler SPHardwareDataType`.
    pub hardware: Fact<Hardware>,
    /// `sw_vers`.
    pub os: Fact<OsVersion>,
    /// `system_profiler SPThunderboltDataType`: one entry per receptacle with a Thunderbolt bus.
    pub receptacles: Fact<Vec<Receptacle>>,
    /// `networksetup -listallhardwareports`.
    pub hardware_ports: Fact<Vec<HardwarePort>>,
    /// `ifconfig`, in its order.
    pub interfaces: Fact<Vec<Interface>>,
    /// `rdma_ctl status`.
    pub rdma_switch: Fact<RdmaSwitch>,
    /// `ibv_devices`: device names, e.g. `rdma_en3`.
    pub rdma_devices: Fact<Vec<String>>,
    /// `ibv_devinfo -v`.
    pub rdma_ports: Fact<Vec<RdmaPort>>,
    /// `netstat -rn -f inet`.
    pub routes: Fact<Vec<Route>>,
    /// `sysctl`: name to value, as printed.
    pub sysctl: Fact<BTreeMap<String, String>>,
    /// Whether root can be had.
    pub sudo: Fact<Sudo>,
    /// How the session reaches the node.
    pub session: Session,
    /// What the login shell prints on a non-interactive login; empty is right.
    pub login_noise: String,
    /// What a tool said that is not understood, as `unknown key x from TOOL`; what is understood is in the facts.
    #[serde(default)]
    pub drift: Vec<String>,
    /// What the link networks need beside the above.
    #[serde(default)]
    pub network: NetworkFacts,
    /// What decides whether it stays up, has room, and is left alone by others.
    #[serde(default)]
    pub host: HostFacts,
    /// What the node's own macluster says of the runtime; none where nothing is deployed.
    #[serde(default = "not_inspected")]
    pub runtime: Fact<Option<RuntimeFacts>>,
}

fn not_inspected() -> Fact<Option<RuntimeFacts>> {
    not_asked("macluster")
}

impl NodeFacts {
    /// Bytes of memory, as `system_profiler` says it: Apple counts in powers of two and says GB.
    pub fn memory_bytes(&self) -> Option<u64> {
        let (number, unit) = self.hardware.as_ref().ok()?.memory.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match unit {
            "GB" => number.checked_mul(1 << 30),
            "TB" => number.checked_mul(1 << 40),
            _ => None,
        }
    }

    /// `iogpu.wired_limit_mb`, MiB, if somebody has set it; with 0 macOS decides.
    pub fn set_wired_limit(&self) -> Option<u64> {
        let text = self.sysctl.as_ref().ok()?.get("iogpu.wired_limit_mb")?;
        text.parse().ok().filter(|mib| *mib > 0)
    }

    /// Every fact that is not known, and why.
    pub fn unknown(&self) -> Vec<&FactError> {
        fn why<T>(fact: &Fact<T>) -> Option<&FactError> {
            fact.as_ref().err()
        }
        let (network, host) = (&self.network, &self.host);
        let all = [
            why(&self.hardware),
            why(&self.os),
            why(&self.receptacles),
            why(&self.hardware_ports),
            why(&self.interfaces),
            why(&self.rdma_switch),
            why(&self.rdma_devices),
            why(&self.rdma_ports),
            why(&self.routes),
            why(&self.sysctl),
            why(&self.sudo),
            why(&network.bridge_entries),
            why(&network.jobs),
            why(&network.services),
            why(&network.sharing),
            why(&network.configured),
            why(&network.history),
            why(&host.power),
            why(&host.filevault),
            why(&host.installs_updates),
            why(&host.disk),
            why(&host.processes),
            why(&host.firewall),
            why(&host.rdma_objects),
            why(&host.reports),
            why(&host.login_shell),
            why(&host.clock),
        ];
        all.into_iter().flatten().collect()
    }
}

/// `system_profiler SPHardwareDataType -json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Model identifier, e.g. `Mac15,14`.
    pub model: String,
    /// Marketing name, e.g. `Mac Studio`.
    pub name: String,
    /// Chip, e.g. `Apple M3 Ultra`.
    pub chip: String,
    /// Memory as printed, e.g. `512 GB`.
    pub memory: String,
    /// Serial number.
    pub serial: String,
}

/// `sw_vers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsVersion {
    /// `ProductVersion`, e.g. `26.5.1`.
    pub version: String,
    /// `ProductVersionExtra`, e.g. `(a)`; empty without one.
    pub extra: String,
    /// `BuildVersion`, e.g. `25F80`.
    pub build: String,
}

impl OsVersion {
    /// Major and minor number.
    pub fn major_minor(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next().unwrap_or("0").parse().ok()?;
        Some((major, minor))
    }
}

impl fmt::Display for OsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.extra.is_empty() {
            write!(f, "{} ({})", self.version, self.build)
        } else {
            write!(f, "{} {} ({})", self.version, self.extra, self.build)
        }
    }
}

/// A Thunderbolt receptacle (on Apple silicon: one bus) of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receptacle {
    /// `receptacle_id_key`, as macOS numbers it.
    pub id: u32,
    /// `_name` of the bus, e.g. `thunderboltusb4_bus_1`.
    pub bus: String,
    /// `domain_uuid_key`, upper case; absent on trimmed captures only.
    pub domain_uuid: Option<String>,
    /// Speed as printed, e.g. `80 Gb/s` or `Up to 120 Gb/s`.
    pub speed: Option<String>,
    /// `receptacle_status_key` says that something is connected.
    pub connected: bool,
    /// What answers at the other end, first level first.
    pub attached: Vec<Attached>,
}

impl Receptacle {
    /// The number in `speed`, Gb/s.
    pub fn gbps(&self) -> Option<u32> {
        let speed = self.speed.as_deref()?;
        let digits = speed.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// Speed of an idle receptacle (`Up to …`), not of a link.
    pub fn idle_speed(&self) -> bool {
        self.speed.as_deref().is_some_and(|s| s.starts_with("Up to"))
    }
}

/// A thing on a Thunderbolt bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attached {
    /// Another Mac.
    Mac(PeerMac),
    /// A dock, drive or display; what hangs behind it is inside.
    Device {
        /// `_name`.
        name: String,
        /// `vendor_name_key`.
        vendor: Option<String>,
        /// `mode_key`, e.g. `usb_four_v2`, `thunderbolt_three`.
        mode: Option<String>,
        /// What is behind it.
        behind: Vec<Attached>,
    },
}

/// The other Mac as this Mac sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerMac {
    /// Marketing name.
    pub name: String,
    /// Model identifier (`device_name_key`).
    pub model: Option<String>,
    /// Domain UUID of the peer's own receptacle, upper case.
    pub domain_uuid: Option<String>,
    /// The peer offers service 64087: it has RDMA enabled. None when the entry lists no protocol ids.
    pub rdma_service: Option<bool>,
}

/// One block of `networksetup -listallhardwareports`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwarePort {
    /// `Hardware Port:`, e.g. `Thunderbolt 2`.
    pub name: String,
    /// `Device:`, e.g. `en3`; empty happens.
    pub device: String,
    /// `Ethernet Address:`, lower case, padded.
    pub mac: Option<String>,
}

/// One block of `ifconfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name, e.g. `en3`.
    pub name: String,
    /// Flag words, e.g. `UP`, `RUNNING`, `PROMISC`.
    pub flags: Vec<String>,
    /// MTU in bytes.
    pub mtu: Option<u32>,
    /// `ether`, lower case, padded.
    pub ether: Option<String>,
    /// IPv4 addresses with prefix length.
    pub inet: Vec<Inet>,
    /// IPv6 addresses without scope.
    pub inet6: Vec<Ipv6Addr>,
    /// `status: active` = carrier. None when there is no status line.
    pub active: Option<bool>,
    /// Bridge members.
    pub members: Vec<String>,
}

impl Interface {
    /// Administratively up.
    pub fn up(&self) -> bool {
        self.flags.iter().any(|f| f == "UP")
    }

    /// Has a link-local IPv6 address.
    pub fn has_link_local_v6(&self) -> bool {
        self.inet6.iter().any(|a| (a.segments()[0] & 0xffc0) == 0xfe80)
    }
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inet {
    /// Address.
    pub address: Ipv4Addr,
    /// Prefix length; none when the netmask is not contiguous.
    pub prefix: Option<u8>,
    /// Peer of a point-to-point interface.
    pub peer: Option<Ipv4Addr>,
}

/// `rdma_ctl status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RdmaSwitch {
    /// `enabled`.
    Enabled,
    /// `disabled`.
    Disabled,
    /// No such command: macOS before 26.2.
    NoCommand,
}

/// One device of `ibv_devinfo -v`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RdmaPort {
    /// `hca_id`, e.g. `rdma_en3`.
    pub device: String,
    /// `state`, e.g. `PORT_ACTIVE`.
    pub state: String,
    /// GID table by index, as printed; absent indices are absent.
    pub gids: BTreeMap<u32, Gid>,
    /// Capabilities such as `max_qp`, `max_pd`, `max_mr`.
    pub caps: BTreeMap<String, u64>,
}

impl RdmaPort {
    /// `PORT_ACTIVE`.
    pub fn is_active(&self) -> bool {
        self.state == "PORT_ACTIVE"
    }
}

/// One row of a GID table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gid {
    /// As printed.
    pub text: String,
    /// As an address, when it is one.
    pub address: Option<IpAddr>,
}

impl Gid {
    /// The IPv4 address of an IPv4-mapped GID.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        match self.address? {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        }
    }
}

/// One row of `netstat -rn -f inet`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination network; `0.0.0.0/0` for `default`.
    pub destination: ipnet::Ipv4Net,
    /// Gateway as printed (address, `link#7`, MAC, interface).
    pub gateway: String,
    /// Flag letters.
    pub flags: String,
    /// Interface.
    pub interface: String,
}

/// Whether root can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sudo {
    /// `sudo -n true` works.
    Passwordless,
    /// Asks for a password.
    NeedsPassword,
    /// The user may not.
    NotAllowed,
    /// The session is root's own.
    Root,
}

/// How the session reaches the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The node's own address of the SSH connection, from `SSH_CONNECTION`; else the address connected to.
    pub local_address: Option<IpAddr>,
    /// Login user.
    pub user: Option<String>,
    /// This desk's clock around the question for the node's clock.
    #[serde(default)]
    pub clock_asked: Option<Asked>,
}

/// When a question was asked, by the clock of this desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Before it was sent.
    pub before: Timestamp,
    /// After the answer came.
    pub after: Timestamp,
}
