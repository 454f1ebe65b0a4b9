//! What decides whether a Mac stays up, has room, and is left alone by others. Read by `parse`, judged by `check`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::fact::{Fact, not_asked};

/// `IOKit` class of an RDMA protection domain on Thunderbolt (FAILURES F1).
pub const PROTECTION_DOMAIN: &str = "AppleThunderboltRDMAProtectionDomain";
/// `IOKit` class of an RDMA queue pair on Thunderbolt (FAILURES F3).
pub const QUEUE_PAIR: &str = "AppleThunderboltRDMAQueuePair";
/// Folder of the system's crash reports, below the node's root.
pub const REPORTS: &str = "/Library/Logs/DiagnosticReports";
/// The preferences of Software Update, below the node's root.
pub const UPDATE_PREFERENCES: &str = "/Library/Preferences/com.apple.SoftwareUpdate";
/// Lets kernels of MLX wait for each other on the GPU; where waiting fails, the GPU hangs until a restart
/// (FAILURES G2).
pub const FAST_SYNCH: &str = "MLX_METAL_FAST_SYNCH";

/// A Mac as a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// `pmset -g`: setting to value.
    pub power: Fact<BTreeMap<String, String>>,
    /// `fdesetup status`.
    pub filevault: Fact<FileVault>,
    /// `AutomaticallyInstallMacOSUpdates` of [`UPDATE_PREFERENCES`]; none where nothing was ever set.
    pub installs_updates: Fact<Option<bool>>,
    /// `df -k` of the volume with the install folder.
    pub disk: Fact<Disk>,
    /// `ps -axo pid,ppid,etime,command`.
    pub processes: Fact<Vec<Process>>,
    /// `socketfilterfw --getglobalstate`.
    pub firewall: Fact<Firewall>,
    /// `ioclasscount`: class to the number of objects; none for a class that the kernel does not have.
    pub rdma_objects: Fact<BTreeMap<String, Option<u64>>>,
    /// File names in [`REPORTS`].
    pub reports: Fact<Vec<String>>,
    /// `SHELL` of the session.
    pub login_shell: Fact<String>,
    /// Where [`FAST_SYNCH`] is set, and to what.
    pub fast_synch: Fact<Vec<FastSynch>>,
    /// The node's clock; when it was asked stands in [`super::facts::Session::clock_asked`].
    pub clock: Fact<Timestamp>,
}

impl Default for HostFacts {
    fn default() -> Self {
        HostFacts {
            power: not_asked("pmset"),
            filevault: not_asked("fdesetup"),
            installs_updates: not_asked("defaults"),
            disk: not_asked("df"),
            processes: not_asked("ps"),
            firewall: not_asked("socketfilterfw"),
            rdma_objects: not_asked("ioclasscount"),
            reports: not_asked("ls"),
            login_shell: not_asked("printenv"),
            fast_synch: not_asked("printenv"),
            clock: not_asked("date"),
        }
    }
}

/// `fdesetup status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileVault {
    /// `FileVault is On.`
    On,
    /// `FileVault is Off.`
    Off,
    /// Off, and switched on at the next login or right now.
    Coming,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Size, KiB.
    pub total_kib: u64,
    /// Free for use, KiB.
    pub available_kib: u64,
    /// Mount point.
    pub mount: String,
}

/// One row of `ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Running for, seconds.
    pub seconds: u64,
    /// Command and arguments as printed.
    pub command: String,
}

/// The application firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Firewall {
    /// `State = 0`.
    Off,
    /// `State = 1`.
    On,
    /// `State = 2`: blocks everything that comes in.
    BlockAll,
}

/// Where [`FAST_SYNCH`] is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastSynch {
    /// `login shell` or `launchd`.
    pub place: String,
    /// Its value.
    pub value: String,
}
