//! The commands that read a node's facts. All only read, none needs root.

use std::time::Duration;

use crate::model::host_facts::{FAST_SYNCH, PROTECTION_DOMAIN, QUEUE_PAIR, REPORTS as REPORTS_DIR, UPDATE_PREFERENCES};
use crate::model::network_facts::{PREFERENCES, SHARING};

/// One command of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Id of its transcript.
    pub id: &'static str,
    /// Absolute path on macOS.
    pub program: &'static str,
    /// Arguments.
    pub args: &'static [&'static str],
    /// Through sudo. No probe is; the field says so.
    pub sudo: bool,
    /// Limit.
    pub timeout: Duration,
    /// The program may rightly be absent (macOS before 26.2, no sudo).
    pub optional: bool,
}

/// The probe that shows what the login shell prints by itself.
pub const NOISE: &str = "noise";
/// Thunderbolt buses and hardware overview, in one call: each call of `system_profiler` costs a second or more.
pub const THUNDERBOLT: &str = "thunderbolt";
/// Hardware ports.
pub const PORTS: &str = "ports";
/// Interfaces.
pub const IFCONFIG: &str = "ifconfig";
/// RDMA device names.
pub const RDMA_DEVICES: &str = "rdma-devices";
/// RDMA devices in detail.
pub const RDMA_PORTS: &str = "rdma-ports";
/// RDMA on or off.
pub const RDMA_SWITCH: &str = "rdma-switch";
/// macOS version and build.
pub const OS: &str = "os";
/// Kernel values.
pub const SYSCTL: &str = "sysctl";
/// IPv4 routes.
pub const ROUTES: &str = "routes";
/// Whether root can be had.
pub const SUDO: &str = "sudo";
/// The link networks' own files on the node.
pub const LINKS_CONFIG: &str = "links-config";
/// Link addresses that were set, and in which boot.
pub const LINKS_HISTORY: &str = "links-history";
/// Who changes the link networks now.
pub const LINKS_LOCK: &str = "links-lock";
/// Whether a change waits for its confirmation.
pub const LINKS_ARMED: &str = "links-armed";
/// Bridges that come back at the next boot.
pub const BRIDGE_ENTRIES: &str = "bridge-entries";
/// Whether Internet Sharing is on.
pub const INTERNET_SHARING: &str = "internet-sharing";
/// Network services.
pub const SERVICES: &str = "services";
/// The daemon that keeps the links.
pub const JOB_LINKS: &str = "job-links";
/// The job that takes an unconfirmed change back.
pub const JOB_DEADMAN: &str = "job-deadman";
/// exo's network daemon.
pub const JOB_EXO: &str = "job-exo";
/// One service's addressing; asked in a second round, once for each service on a receptacle or bridge.
pub const SERVICE_INFO: &str = "service-info";
/// A ping over one link; second round, once for each own end that has its address.
pub const LINK_PING: &str = "link-ping";
/// The way to the peer of one link; second round, with each [`LINK_PING`].
pub const LINK_ROUTE: &str = "link-route";
/// What the deployed macluster says of itself; asked with the inventory's install folder.
pub const RUNTIME: &str = "runtime";
/// The node's own end of the SSH connection.
pub const SESSION: &str = "session";
/// The node's clock.
pub const CLOCK: &str = "clock";
/// Sleep, and what happens after a power failure.
pub const POWER: &str = "power";
/// Whether the disk is locked at a start.
pub const FILEVAULT: &str = "filevault";
/// Whether updates install themselves.
pub const UPDATES: &str = "updates";
/// Room on the volume of the install folder.
pub const DISK: &str = "disk";
/// What runs.
pub const PROCESSES: &str = "processes";
/// The application firewall.
pub const FIREWALL: &str = "firewall";
/// RDMA objects that the kernel holds.
pub const RDMA_OBJECTS: &str = "rdma-objects";
/// Crash reports.
pub const REPORTS: &str = "reports";
/// The login shell.
pub const SHELL: &str = "shell";
/// [`FAST_SYNCH`] in the session's environment.
pub const FAST_SYNCH_SHELL: &str = "fast-synch-shell";
/// [`FAST_SYNCH`] in launchd's environment.
pub const FAST_SYNCH_LAUNCHD: &str = "fast-synch-launchd";

const fn probe(id: &'static str, program: &'static str, args: &'static [&'static str]) -> Probe {
    Probe { id, program, args, sudo: false, timeout: Duration::from_secs(20), optional: false }
}

const fn optional(probe: Probe) -> Probe {
    Probe { optional: true, ..probe }
}

const TABLE: &[Probe] = &[
    probe(NOISE, "/usr/bin/true", &[]),
    // Early: the time it takes to answer is what its clock cannot be known by.
    probe(CLOCK, "/bin/date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
    Probe {
        // Slow on a Mac with many devices, slower still right after boot.
        timeout: Duration::from_secs(60),
        ..probe(THUNDERBOLT, "/usr/sbin/system_profiler", &["SPThunderboltDataType", "SPHardwareDataType", "-json"])
    },
    probe(PORTS, "/usr/sbin/networksetup", &["-listallhardwareports"]),
    probe(IFCONFIG, "/sbin/ifconfig", &[]),
    optional(probe(RDMA_DEVICES, "/usr/bin/ibv_devices", &[])),
    optional(probe(RDMA_PORTS, "/usr/bin/ibv_devinfo", &["-v"])),
    optional(probe(RDMA_SWITCH, "/usr/bin/rdma_ctl", &["status"])),
    probe(OS, "/usr/bin/sw_vers", &[]),
    probe(
        SYSCTL,
        "/usr/sbin/sysctl",
        &[
            "hw.model",
            "hw.memsize",
            "kern.boottime",
            "kern.bootsessionuuid",
            "kern.osversion",
            "net.inet.ip.forwarding",
            "iogpu.wired_limit_mb",
            "vm.swapusage",
        ],
    ),
    probe(ROUTES, "/usr/sbin/netstat", &["-rn", "-f", "inet"]),
    // Not `sudo -v`, which asks even where a rule says NOPASSWD.
    optional(probe(SUDO, "/usr/bin/sudo", &["-n", "/usr/bin/true"])),
    probe(SESSION, "/usr/bin/printenv", &["SSH_CONNECTION"]),
    // Files of our own: rightly absent before the first `network apply`.
    probe(LINKS_CONFIG, "/bin/cat", &["/opt/macluster/network/links.conf"]),
    probe(LINKS_HISTORY, "/bin/cat", &["/var/run/com.macluster.network.history"]),
    probe(LINKS_LOCK, "/bin/cat", &["/opt/macluster/network/lock/owner"]),
    probe(LINKS_ARMED, "/bin/cat", &["/opt/macluster/network/armed"]),
    // The same key paths that playbooks/network.yaml removes and restores.
    probe(
        BRIDGE_ENTRIES,
        "/usr/bin/plutil",
        &["-extract", "VirtualNetworkInterfaces.Bridge", "json", "-o", "-", PREFERENCES],
    ),
    probe(INTERNET_SHARING, "/usr/bin/plutil", &["-extract", "NAT.Enabled", "raw", "-o", "-", SHARING]),
    probe(SERVICES, "/usr/sbin/networksetup", &["-listnetworkserviceorder"]),
    // Works without root (samples/launchd/commands.md).
    probe(JOB_LINKS, "/bin/launchctl", &["print", "system/com.macluster.links"]),
    probe(JOB_DEADMAN, "/bin/launchctl", &["print", "system/com.macluster.deadman"]),
    probe(JOB_EXO, "/bin/launchctl", &["print", "system/io.exo.networksetup"]),
    probe(POWER, "/usr/bin/pmset", &["-g"]),
    probe(FILEVAULT, "/usr/bin/fdesetup", &["status"]),
    probe(UPDATES, "/usr/bin/defaults", &["read", UPDATE_PREFERENCES]),
    // All volumes of the start-up disk share their room: `/` tells it before there is an install folder.
    probe(DISK, "/bin/df", &["-k", "/"]),
    probe(PROCESSES, "/bin/ps", &["-axo", "pid,ppid,etime,command"]),
    probe(FIREWALL, "/usr/libexec/ApplicationFirewall/socketfilterfw", &["--getglobalstate"]),
    probe(RDMA_OBJECTS, "/usr/sbin/ioclasscount", &[PROTECTION_DOMAIN, QUEUE_PAIR]),
    probe(REPORTS, "/bin/ls", &["-1", REPORTS_DIR]),
    probe(SHELL, "/usr/bin/printenv", &["SHELL"]),
    probe(FAST_SYNCH_SHELL, "/usr/bin/printenv", &[FAST_SYNCH]),
    probe(FAST_SYNCH_LAUNCHD, "/bin/launchctl", &["getenv", FAST_SYNCH]),
];

/// Every probe, in the order of a snapshot's transcripts.
pub fn probes() -> &'static [Probe] {
    TABLE
}
