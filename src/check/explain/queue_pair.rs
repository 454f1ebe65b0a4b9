//! Queue pairs that do not come up.

use super::{Cause, Entry, number};

/// The port is in a bridge, or has no address: the peer's GID is garbage or missing.
const NO_GID: Cause = Cause {
    text: "an end of the link has no IPv4 address at GID index 1, which is the one JACCL uses",
    checks: &["rdma.gid", "network.addresses"],
    excludes: true,
    how: "`ibv_devinfo -v` on both ends: GID[1] must be ::ffff: and the address of the link",
    remedy: "macluster network apply; if the address is there and stands at index 2, apply repairs it or says so",
};
const IN_BRIDGE: Cause = Cause {
    text: "the port is a member of the Thunderbolt Bridge",
    checks: &["network.bridge", "network.bridge-loop"],
    excludes: true,
    how: "`ifconfig bridge0` lists it among the members",
    remedy: "macluster network apply takes it out",
};
const RENUMBERED: Cause = Cause {
    text: "the link's address comes from nobody (DHCP without a server) and changes with every event on the link",
    checks: &["network.dhcp-on-link"],
    excludes: true,
    how: "`networksetup -getinfo` of the service on that interface says DHCP",
    remedy: "macluster network apply gives fixed addresses; switch the service to Manual or off",
};
pub(super) const USED_UP: Cause = Cause {
    text: "protection domains were left behind by ranks that were killed, and are used up",
    checks: &["rdma.resources"],
    excludes: true,
    how: "`ioclasscount AppleThunderboltRDMAProtectionDomain` is above 0 while no engine runs",
    remedy: "restart that node: nothing else gives them back. Do not try again before",
};
pub(super) const OTHERS: Cause = Cause {
    text: "another engine holds the device",
    checks: &["host.foreign-engines"],
    excludes: true,
    how: "`ps -ax` shows exo, Ollama, LM Studio, rpc-server or another MLX rank",
    remedy: "stop the other engine with its own means (never kill -9)",
};
const WRONG_CABLE: Cause = Cause {
    text: "the hostfile names an interface whose cable leads elsewhere, or one end does not see the other",
    checks: &["cabling.one-sided", "cabling.foreign-peer", "cabling.via-dock", "mesh.complete"],
    excludes: false,
    how: "`macluster cabling` against the hostfile",
    remedy: "write the hostfile anew: macluster hostfile --out FILE",
};
const NO_WAY: Cause = Cause {
    text: "the peer's address cannot be reached over this link",
    checks: &["network.link-ping", "network.peer-route", "network.addresses"],
    excludes: true,
    how: "ping bound to the interface (`ping -b enX PEER`) gets no answer",
    remedy: "macluster network plan, then macluster network apply",
};
const TWICE: Cause = Cause {
    text: "the links got other addresses a second time since the last start: RDMA keeps the old ones",
    checks: &[],
    excludes: false,
    how: "`macluster network plan` says so; /var/run/com.macluster.network.history on the node lists the addresses of this boot",
    remedy: "restart all nodes, then set the addresses once",
};
const KERNEL: Cause = Cause {
    text: "the port is stuck after several failed attempts",
    checks: &[],
    excludes: false,
    how: "everything else is excluded, and it worked before",
    remedy: "restart both ends of the link; if only one link is affected, replug its cable first",
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "rtr-errno-22",
        title: "[jaccl] Changing queue pair to RTR failed with errno 22",
        meaning: "two ranks could not join their queue pairs: the address (GID) of the peer is not one that the port knows (EINVAL)",
        causes: &[NO_GID, IN_BRIDGE, RENUMBERED, USED_UP, KERNEL],
        fits: |l| l.contains("rtr") && number(l, "22"),
    },
    Entry {
        id: "rtr-errno-96",
        title: "[jaccl] Changing queue pair to RTR failed with errno 96",
        meaning: "two ranks could not join their queue pairs: there is no address (GID) to use (ENODATA)",
        causes: &[NO_GID, IN_BRIDGE, RENUMBERED, USED_UP, OTHERS, KERNEL],
        fits: |l| l.contains("rtr") && number(l, "96"),
    },
    Entry {
        id: "rtr-errno-60",
        title: "[jaccl] Changing queue pair to RTR failed with errno 60",
        meaning: "the peer did not answer on this link (ETIMEDOUT)",
        causes: &[NO_WAY, WRONG_CABLE, TWICE, IN_BRIDGE, KERNEL],
        fits: |l| l.contains("rtr") && number(l, "60"),
    },
    Entry {
        id: "rtr-errno-16",
        title: "[jaccl] Changing queue pair to RTR failed with errno 16",
        meaning: "the port still holds the state of a rank that crashed (EBUSY)",
        causes: &[USED_UP, OTHERS, KERNEL],
        fits: |l| l.contains("rtr") && number(l, "16"),
    },
    Entry {
        id: "queue-pair-busy",
        title: "[jaccl] Creating the queue pair failed with 'Resource busy (16)'.",
        meaning: "the device has no queue pair left: there are about ten, shared by all processes. Trying again does not help",
        causes: &[OTHERS, USED_UP],
        fits: |l| l.contains("queue pair") && (number(l, "16") || l.contains("resource busy")),
    },
    Entry {
        id: "queue-pair-unsupported",
        title: "ibv_create_qp failed with errno 102",
        meaning: "a reliable connection (RC) was asked for; Apple's driver has unreliable connections (UC) only (EOPNOTSUPP)",
        causes: &[Cause {
            text: "the program is written for other RDMA hardware",
            checks: &[],
            excludes: false,
            how: "it is not MLX's JACCL: that asks for UC",
            remedy: "use MLX 0.32.2 or newer with the backend jaccl; the bundle of macluster has it",
        }],
        fits: |l| (l.contains("ibv_create_qp") || l.contains("queue pair")) && number(l, "102"),
    },
];
