//! The one state schema of the simulated rack, documented in `docs/simulator.md`.
//!
//! `rack.json` holds what lies between the Macs (cables); each node's `state.json` holds what its tools show
//! and change. Unknown keys are errors: a typo in a hand-written state must not pass silently.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Version of both files.
pub const SCHEMA_VERSION: u32 = 1;

/// `rack.json`: the nodes, Macs outside the rack, and every cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackState {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The rack's name.
    pub rack: String,
    /// Node names in slot order; each has a folder `nodes/<name>`.
    pub nodes: Vec<String>,
    /// Macs that are cabled to the rack without belonging to it.
    pub outsiders: Vec<Outsider>,
    /// Every cable.
    pub cables: Vec<Cable>,
    /// The interpreter of this machine that nodes may run although it lies outside them.
    pub python: Option<std::path::PathBuf>,
}

/// A Mac outside the rack: only what its neighbour sees of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outsider {
    /// Name used by cables.
    pub name: String,
    /// Model identifier.
    pub model: String,
    /// Marketing name.
    pub model_name: String,
    /// RDMA is enabled there.
    pub rdma: bool,
}

/// One cable. Both ends see each other unless `seen_by` says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// One end.
    pub a: Plug,
    /// The other end.
    pub b: Plug,
    /// Negotiated speed, Gb/s.
    pub gbps: u32,
    /// A dock in between, plugged into end `a`: `a` sees the peer behind it, `b` sees `a` directly.
    pub dock: Option<Dock>,
    /// Which ends name the other one.
    pub seen_by: SeenBy,
}

/// Which ends of a cable name the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenBy {
    /// As it should be.
    Both,
    /// Only end `a`.
    A,
    /// Only end `b`.
    B,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plug {
    /// A node or an outsider.
    pub node: String,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
}

/// A Thunderbolt dock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dock {
    /// `_name`.
    pub name: String,
    /// `vendor_name_key`.
    pub vendor: String,
    /// `vendor_id_key`.
    pub vendor_id: String,
    /// `device_id_key`.
    pub device_id: String,
    /// `mode_key`.
    pub mode: String,
}

/// `state.json` of one node: everything its tools show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The node's name.
    pub name: String,
    /// `hostname`.
    pub hostname: String,
    /// The machine.
    pub computer: Computer,
    /// Its system.
    pub os: Os,
    /// The current boot.
    pub boot: Boot,
    /// RDMA.
    pub rdma: Rdma,
    /// Thunderbolt receptacles, by number.
    pub receptacles: Vec<Receptacle>,
    /// Network interfaces in creation order, as `ifconfig` prints them.
    pub interfaces: Vec<Interface>,
    /// `networksetup -listallhardwareports`, in its order.
    pub hardware_ports: Vec<HardwarePort>,
    /// Network services in their order.
    pub services: Vec<Service>,
    /// Network locations; the first is current.
    pub locations: Vec<String>,
    /// Routes added with `route`.
    pub static_routes: Vec<StaticRoute>,
    /// Settable kernel variables that differ from their default.
    pub sysctl: BTreeMap<String, String>,
    /// NVRAM variables.
    pub nvram: BTreeMap<String, String>,
    /// `pmset -g`, in its order.
    pub power: Vec<(String, String)>,
    /// `socketfilterfw --getglobalstate`.
    pub firewall: u32,
    /// The data volume.
    pub disk: Disk,
    /// `FileVault` is on.
    pub filevault: bool,
    /// Software updates install themselves.
    pub auto_update: bool,
    /// What sudo says to `user`.
    pub sudo: SudoPolicy,
    /// Password for `sudo -S`.
    pub password: String,
    /// Login user (uid 501).
    pub user: String,
    /// `launchctl enable`/`disable` overrides: label to disabled.
    pub disabled_jobs: BTreeMap<String, bool>,
    /// Owners set with `chown`, by path below the root; everything else belongs to its writer.
    pub owners: BTreeMap<String, (u32, u32)>,
    /// Ways in which this node misbehaves.
    pub quirks: Quirks,
}

/// A Mac, as `system_profiler SPHardwareDataType` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are the keys of SPHardwareDataType")]
pub struct Computer {
    pub model: String,
    pub model_name: String,
    pub chip: String,
    pub model_number: String,
    pub processors: String,
    pub cores: u32,
    pub memory_gb: u64,
    pub serial: String,
    pub platform_uuid: String,
    pub provisioning_udid: String,
    pub boot_rom: String,
}

/// `sw_vers` and friends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Os {
    /// `ProductVersion`.
    pub version: String,
    /// `ProductVersionExtra`; empty for none.
    pub extra: String,
    /// `BuildVersion`.
    pub build: String,
    /// Kernel release.
    pub darwin: String,
}

impl Os {
    /// macOS 26.2 brought `rdma_ctl` and the `ibv_*` tools (`samples/rdma/rdma_ctl.md`).
    pub fn has_rdma_tools(&self) -> bool {
        let mut parts = self.version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (26, 2)
    }
}

/// The current boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// Unix seconds.
    pub seconds: i64,
    /// Microseconds.
    pub micros: u32,
    /// `kern.bootsessionuuid`.
    pub session: String,
}

/// `df -k`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Size, KiB.
    pub total_kb: u64,
    /// Free, KiB.
    pub available_kb: u64,
}

/// RDMA over Thunderbolt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rdma {
    /// `rdma_ctl enable` was run in Recovery.
    pub enabled: bool,
    /// GID index at which an IPv4 address lands: 1, or 2 as seen on some machines (FAILURES C17).
    pub ipv4_gid_index: u32,
    /// `max_qp` as printed; the samples disagree (3, 10, 11).
    pub max_qp: u32,
}

/// A Thunderbolt receptacle, its bus and its interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receptacle {
    /// `receptacle_id_key`.
    pub id: u32,
    /// Number in `thunderboltusb4_bus_N`.
    pub bus: u32,
    /// Interface, e.g. `en3`.
    pub interface: String,
    /// Thunderbolt generation: 5, 4.
    pub generation: u32,
    /// `domain_uuid_key`.
    pub domain_uuid: String,
    /// `switch_uid_key`.
    pub switch_uid: String,
    /// `ibv_devices`: node GUID, 16 hex digits.
    pub guid: String,
    /// `service_uuid_key` of the IP service.
    pub ip_service: String,
    /// `service_uuid_key` of the RDMA service.
    pub rdma_service: String,
}

/// What kind of interface it is; decides what `ifconfig` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `lo0`.
    Loopback,
    /// `gif0`, `stf0`: no ether, no status.
    Idle,
    /// `anpi*`: per-port gadget control, no nd6 line.
    Anpi,
    /// `Ethernet Adapter (enN)`: per-port gadget.
    Gadget,
    /// Built-in Ethernet.
    Ethernet,
    /// Thunderbolt receptacle.
    Thunderbolt,
    /// `bridge0`.
    Bridge,
    /// Wi-Fi.
    Wifi,
    /// `ap1`.
    AccessPoint,
    /// `awdl0`.
    Awdl,
    /// `llw0`: no status line.
    Llw,
    /// `utun*`.
    Tunnel,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Kernel index (`link#N`, scope id, bridge port).
    pub index: u32,
    /// Administratively up.
    pub up: bool,
    /// MTU, bytes.
    pub mtu: u32,
    /// Hardware address, lower case, padded.
    pub mac: Option<String>,
    /// IPv4 addresses.
    pub inet: Vec<Inet>,
    /// IPv6 addresses that were set.
    pub inet6: Vec<Inet6>,
    /// The link-local address macOS gives it by itself while it is up, has a link and is no bridge member.
    pub link_local: Option<Ipv6Addr>,
    /// Bridge members in order.
    pub members: Vec<String>,
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inet {
    /// Address.
    pub address: Ipv4Addr,
    /// Prefix length.
    pub prefix: u8,
}

impl Inet {
    /// The network it lies in.
    pub fn network(&self) -> Option<ipnet::Ipv4Net> {
        ipnet::Ipv4Net::new(self.address, self.prefix).ok().map(|n| n.trunc())
    }
}

/// An IPv6 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inet6 {
    /// Address.
    pub address: Ipv6Addr,
    /// Prefix length.
    pub prefix: u8,
}

/// A hardware port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePort {
    /// `Hardware Port:`.
    pub name: String,
    /// `Device:`.
    pub device: String,
}

/// A network service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name.
    pub name: String,
    /// Hardware port.
    pub port: String,
    /// Device.
    pub device: String,
    /// Enabled.
    pub enabled: bool,
    /// IPv4 by hand rather than by DHCP.
    pub manual: bool,
    /// Router, if there is one.
    pub router: Option<Ipv4Addr>,
}

/// A route added with `route`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticRoute {
    /// Destination.
    pub destination: ipnet::Ipv4Net,
    /// `-host` rather than `-net`.
    pub host: bool,
    /// Gateway; none with `-interface`.
    pub gateway: Option<Ipv4Addr>,
    /// Interface it goes through.
    pub interface: String,
    /// Scoped with `-ifscope`.
    pub scoped: bool,
}

/// What sudo says to the login user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SudoPolicy {
    /// Root without a password.
    Nopasswd,
    /// Root with the password.
    Password,
    /// Not in the sudoers file.
    NotAllowed,
}

/// Ways in which a node misbehaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// Printed on standard output before every command's own output, as a noisy `.zshenv` does.
    pub login_noise: Option<String>,
    /// `system_profiler` stops in the middle of its JSON.
    pub truncated_profiler: bool,
    /// How long `system_profiler` takes, milliseconds.
    pub profiler_delay_ms: u64,
    /// How long `ifconfig` takes to change something, milliseconds.
    #[serde(default)]
    pub ifconfig_delay_ms: u64,
    /// Answers no ping, as a firewall in stealth mode does.
    #[serde(default)]
    pub mute: bool,
    /// A port that leaves the bridge stays administratively down (samples/ifconfig/NOTES.md).
    pub down_after_bridge: bool,
    /// Seconds by which its clock is ahead.
    #[serde(default)]
    pub clock_ahead: i64,
    /// Login shell in place of `/bin/zsh`, as the environment tells it.
    #[serde(default)]
    pub login_shell: Option<String>,
    /// Variables that the login shell exports.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variables of launchd (`launchctl setenv`).
    #[serde(default)]
    pub launchd_environment: BTreeMap<String, String>,
    /// Rows of `ps` that no process stands behind.
    #[serde(default)]
    pub processes: Vec<Ghost>,
    /// RDMA objects that the kernel holds.
    #[serde(default)]
    pub rdma_objects: RdmaObjects,
    /// RDMA is enabled and no device is there, as before the first restart.
    #[serde(default)]
    pub no_rdma_devices: bool,
    /// Every RDMA port stays down.
    #[serde(default)]
    pub rdma_ports_down: bool,
    /// Receptacles that report something connected of which nothing answers.
    #[serde(default)]
    pub mute_receptacles: Vec<u32>,
}

/// A row of `ps` without a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ghost {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub ppid: u32,
    /// Running for, seconds.
    pub seconds: u64,
    /// Command and arguments.
    pub command: String,
}

/// What `ioclasscount` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaObjects {
    /// `AppleThunderboltRDMAProtectionDomain`.
    pub protection_domains: u32,
    /// `AppleThunderboltRDMAQueuePair`.
    pub queue_pairs: u32,
}

impl NodeState {
    /// The interface of that name.
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.name == name)
    }

    /// The interface of that name, to be changed.
    pub fn interface_mut(&mut self, name: &str) -> Option<&mut Interface> {
        self.interfaces.iter_mut().find(|i| i.name == name)
    }

    /// The bridge that holds this interface.
    pub fn bridge_of(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.members.iter().any(|m| m == name))
    }

    /// The receptacle of that number.
    pub fn receptacle(&self, id: u32) -> Option<&Receptacle> {
        self.receptacles.iter().find(|r| r.id == id)
    }

    /// The receptacle behind an interface.
    pub fn receptacle_of(&self, interface: &str) -> Option<&Receptacle> {
        self.receptacles.iter().find(|r| r.interface == interface)
    }

    /// RDMA devices exist: enabled, Thunderbolt 5, and a system that knows it.
    pub fn rdma_usable(&self) -> bool {
        self.rdma.enabled && self.os.has_rdma_tools() && self.receptacles.iter().all(|r| r.generation >= 5)
    }
}
