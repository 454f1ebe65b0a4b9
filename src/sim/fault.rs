//! What can be wrong with a rack, by name.

use std::fmt;
use std::str::FromStr;

/// A fault a simulated rack can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "described in TABLE, which is what people see")]
pub enum Fault {
    MissingCable,
    ReceptacleOne,
    DuplicateCable,
    ForeignMac,
    SelfLoop,
    OneSided,
    SlowCable,
    Dock,
    OddBuild,
    OldMacos,
    RdmaOff,
    Tb4,
    Bridge,
    BridgeLoop,
    LatentBridge,
    NoAddress,
    SharedSubnet,
    PoolClash,
    DhcpLink,
    Mute,
    StrayRoute,
    DefaultRoute,
    Forwarding,
    ForeignDaemon,
    NotPersistent,
    Mtu,
    NoGid,
    Unreachable,
    ChangedHostKey,
    SudoPassword,
    SudoNotAllowed,
    LoginNoise,
    Garbage,
    SlowProfiler,
    FullDisk,
    AutoUpdate,
    Sleeps,
    StaysOff,
    FileVault,
    WiredLimit,
    Swap,
    Firewall,
    ForeignEngine,
    RdmaLeak,
    FastSynch,
    FishShell,
    ClockSkew,
    SmallMemory,
    Panic,
    UsbPort,
    NoDevices,
    PortDown,
    LostGid,
    UnknownModel,
}

/// Every fault: name, what it does, how many nodes it takes.
const TABLE: &[(Fault, &str, &str)] = &[
    (Fault::MissingCable, "missing-cable", "the cable between two nodes is not there"),
    (Fault::ReceptacleOne, "receptacle-1", "a cable is plugged into receptacle 1, next to Ethernet"),
    (Fault::DuplicateCable, "duplicate-cable", "a second cable between two nodes"),
    (Fault::ForeignMac, "foreign-mac", "a cable to a Mac that is not of the rack"),
    (Fault::SelfLoop, "self-loop", "a cable between two receptacles of one node"),
    (Fault::OneSided, "one-sided", "a cable that only one end notices"),
    (Fault::SlowCable, "slow-cable", "a cable that runs at 40 Gb/s"),
    (Fault::Dock, "dock", "a dock between two nodes; one end sees its peer behind it"),
    (Fault::OddBuild, "odd-build", "another build of the same macOS version"),
    (Fault::OldMacos, "old-macos", "macOS 26.1: no RDMA tools"),
    (Fault::RdmaOff, "rdma-off", "RDMA was never enabled in Recovery"),
    (Fault::Tb4, "tb4", "a Mac with Thunderbolt 4"),
    (Fault::Bridge, "bridge", "all receptacles are (back) in the Thunderbolt Bridge"),
    (
        Fault::BridgeLoop,
        "bridge-loop",
        "every node's receptacles are in its Thunderbolt Bridge: a cycle with 3 nodes or more",
    ),
    (
        Fault::LatentBridge,
        "latent-bridge",
        "the network preferences bring the Thunderbolt Bridge back at the next restart",
    ),
    (Fault::NoAddress, "no-address", "the addresses of a node's links are gone"),
    (Fault::SharedSubnet, "shared-subnet", "all links of a node lie in one subnet"),
    (Fault::PoolClash, "pool-clash", "Wi-Fi has an address inside the pool of link networks"),
    (Fault::DhcpLink, "dhcp-link", "a network service with DHCP on the interface of a link"),
    (Fault::Mute, "mute", "the node answers no ping"),
    (Fault::StrayRoute, "stray-route", "the way to a peer leaves by another link"),
    (Fault::DefaultRoute, "default-route", "the default route goes over a link"),
    (Fault::Forwarding, "forwarding", "the node forwards IP packets"),
    (Fault::ForeignDaemon, "foreign-daemon", "exo's network daemon is loaded"),
    (Fault::NotPersistent, "not-persistent", "nothing brings the links back after a restart"),
    (Fault::Mtu, "mtu", "one end of a cable has an MTU of 9000"),
    (Fault::NoGid, "no-gid", "IPv4 addresses land at GID index 2"),
    (Fault::Unreachable, "unreachable", "nothing listens on the SSH port"),
    (Fault::ChangedHostKey, "changed-host-key", "known_hosts lists another key"),
    (Fault::SudoPassword, "sudo-password", "sudo asks for the password (`correct horse`)"),
    (Fault::SudoNotAllowed, "sudo-not-allowed", "the user is not in the sudoers file"),
    (Fault::LoginNoise, "login-noise", "the login shell prints before every command's output"),
    (Fault::Garbage, "garbage", "system_profiler stops in the middle of its JSON"),
    (Fault::SlowProfiler, "slow-profiler", "system_profiler takes 3 s"),
    (Fault::FullDisk, "full-disk", "512 MiB are left on the data volume"),
    (Fault::AutoUpdate, "auto-update", "macOS installs its updates by itself"),
    (Fault::Sleeps, "sleeps", "the Mac falls asleep after 10 minutes"),
    (Fault::StaysOff, "stays-off", "the Mac stays off after a power failure"),
    (Fault::FileVault, "filevault", "FileVault is on"),
    (Fault::WiredLimit, "wired-limit", "the GPU may take all of the memory"),
    (Fault::Swap, "swap", "12 GB are swapped out"),
    (Fault::Firewall, "firewall", "the firewall blocks everything that comes in"),
    (Fault::ForeignEngine, "foreign-engine", "exo runs"),
    (Fault::RdmaLeak, "rdma-leak", "RDMA objects are held although no engine runs"),
    (Fault::FastSynch, "fast-synch", "the login shell exports MLX_METAL_FAST_SYNCH=1"),
    (Fault::FishShell, "fish-shell", "the login shell is fish"),
    (Fault::ClockSkew, "clock-skew", "the clock is an hour behind"),
    (Fault::SmallMemory, "small-memory", "half of the memory that the others have"),
    (Fault::UsbPort, "usb-port", "a cable from receptacle 5 ends in a port that is USB-C only"),
    (Fault::NoDevices, "no-devices", "RDMA is enabled, and no RDMA device is there"),
    (Fault::PortDown, "port-down", "the RDMA ports stay down with the cables in place"),
    (Fault::LostGid, "lost-gid", "IPv4 addresses have no GID at all"),
    (Fault::UnknownModel, "unknown-model", "a Mac Studio that is newer than macluster"),
    (Fault::Panic, "panic", "the Mac went down with a kernel panic today"),
];

impl Fault {
    /// All of them, in the order of the list.
    pub fn all() -> impl Iterator<Item = Fault> {
        TABLE.iter().map(|(f, _, _)| *f)
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(f, _, _)| *f == self).map_or("", |(_, name, _)| name)
    }

    /// One line for people.
    pub fn description(self) -> &'static str {
        TABLE.iter().find(|(f, _, _)| *f == self).map_or("", |(_, _, text)| text)
    }

    /// It lies between two nodes.
    pub fn takes_a_pair(self) -> bool {
        matches!(
            self,
            Fault::MissingCable
                | Fault::ReceptacleOne
                | Fault::DuplicateCable
                | Fault::SlowCable
                | Fault::Dock
                | Fault::OneSided
        )
    }
}

/// A fault and where it is: `slow-cable`, `odd-build:studio-2`, `missing-cable:studio-1,studio-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAt {
    /// What is wrong.
    pub fault: Fault,
    /// The node, or the two ends; empty: the simulator chooses (the last node, or the last pair).
    pub nodes: Vec<String>,
}

impl From<Fault> for FaultAt {
    fn from(fault: Fault) -> Self {
        FaultAt { fault, nodes: Vec::new() }
    }
}

impl fmt::Display for FaultAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.name())?;
        if self.nodes.is_empty() { Ok(()) } else { write!(f, ":{}", self.nodes.join(",")) }
    }
}

impl FromStr for FaultAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, nodes) = text.split_once(':').unwrap_or((text, ""));
        let found = TABLE.iter().find(|(_, n, _)| *n == name);
        let Some((fault, _, _)) = found else {
            let distance = |n: &&str| strsim::damerau_levenshtein(n, name);
            let nearest = TABLE.iter().map(|(_, n, _)| *n).min_by_key(distance).unwrap_or_default();
            return Err(format!("no fault is called `{name}`; the nearest is `{nearest}` (see --list-faults)"));
        };
        let nodes: Vec<String> = nodes.split([',', ':']).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        let most = if fault.takes_a_pair() { 2 } else { 1 };
        if nodes.len() > most {
            return Err(format!("`{name}` takes at most {most} node{}", if most == 1 { "" } else { "s" }));
        }
        Ok(FaultAt { fault: *fault, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_and_placed() {
        let at: FaultAt = "missing-cable:a,b".parse().expect("known");
        assert_eq!((at.fault, at.nodes.len()), (Fault::MissingCable, 2));
        assert_eq!(at.to_string(), "missing-cable:a,b");
        assert!("odd-build:a,b".parse::<FaultAt>().is_err());
        let wrong = "mising-cable".parse::<FaultAt>().expect_err("misspelt");
        assert!(wrong.contains("`missing-cable`"), "{wrong}");
    }
}
