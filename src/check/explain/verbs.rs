//! Devices, protection domains and memory that cannot be had.

use super::queue_pair::{OTHERS, USED_UP};
use super::{Cause, Entry};

const PORT_DOWN: Cause = Cause {
    text: "the port is down: no cable, or RDMA is off at the other end",
    checks: &["rdma.port-active", "rdma.enabled"],
    excludes: true,
    how: "`ibv_devinfo -d rdma_enX` says PORT_DOWN; the device opens all the same",
    remedy: "see to the end that the check names: cable, or Recovery (macluster checklist)",
};
const WRONG_NAME: Cause = Cause {
    text: "the hostfile names a device that this node does not have",
    checks: &["rdma.devices"],
    excludes: false,
    how: "`ibv_devices` on the node",
    remedy: "write the hostfile anew: macluster hostfile --out FILE",
};
const OFF: Cause = Cause {
    text: "RDMA is off on this node, or its hardware has none",
    checks: &["rdma.enabled", "rdma.hardware", "host.macos-min"],
    excludes: true,
    how: "`rdma_ctl status`; a Mac with Thunderbolt 4 never gets devices",
    remedy: "macluster checklist prints the steps in Recovery",
};
const REPLUG: Cause = Cause {
    text: "the port did not come up properly at the last start",
    checks: &[],
    excludes: false,
    how: "the port has carrier and is active, and only this link fails since a restart",
    remedy: "unplug the cable of this link and plug it in again; then restart that node",
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "no-protection-domain",
        title: "[jaccl] Couldn't allocate protection domain",
        meaning: "the device opened, but gives nothing",
        causes: &[PORT_DOWN, USED_UP, WRONG_NAME, OTHERS, REPLUG],
        fits: |l| l.contains("allocate protection domain") || l.contains("ibv_alloc_pd"),
    },
    Entry {
        id: "no-such-device",
        title: "[jaccl] Could not find device rdma_en4 (3 available)",
        meaning: "the rank was told to use an RDMA device that its node does not have",
        causes: &[WRONG_NAME, OFF],
        fits: |l| l.contains("could not find device") && l.contains("rdma_"),
    },
    Entry {
        id: "no-ipv4-gid",
        title: "[jaccl] No IPv4-mapped GID for this device",
        meaning: "the interface of the link has no IPv4 address",
        causes: &[
            Cause {
                text: "the address of the link is not set",
                checks: &["network.addresses", "rdma.gid"],
                excludes: true,
                how: "`ifconfig enX inet` shows none",
                remedy: "macluster network apply. Do not follow the advice to set 169.254.0.1 by hand: all links would share one network",
            },
            Cause {
                text: "the port is a member of the Thunderbolt Bridge",
                checks: &["network.bridge", "network.bridge-loop"],
                excludes: true,
                how: "`ifconfig bridge0` lists it among the members",
                remedy: "macluster network apply takes it out",
            },
            Cause {
                text: "nothing sets the address again after a restart",
                checks: &["network.persistent"],
                excludes: true,
                how: "it was there before the last restart",
                remedy: "macluster network apply installs the links daemon",
            },
        ],
        fits: |l| l.contains("no ipv4-mapped gid"),
    },
    Entry {
        id: "no-memory-region",
        title: "[jaccl] Register memory region failed",
        meaning: "the device takes no more memory regions: there are about a hundred, shared by all processes",
        causes: &[
            OTHERS,
            USED_UP,
            Cause {
                text: "the group is larger than the device's regions allow",
                checks: &["mesh.size"],
                excludes: false,
                how: "it works with fewer nodes",
                remedy: "use fewer nodes, or the backend jaccl-ring",
            },
        ],
        fits: |l| l.contains("register memory region") || l.contains("ibv_reg_mr"),
    },
];
