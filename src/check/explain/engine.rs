//! Engines that die, or never come to anything.

use super::setup::exits;
use super::{Cause, Entry};

const UNPLUGGED: Cause = Cause {
    text: "a cable was unplugged or its far end vanished while the ranks were talking",
    checks: &["mesh.complete", "cabling.one-sided", "network.link-ping", "rdma.port-active", "ssh.reachable"],
    excludes: false,
    how: "the report in DiagnosticReports names tbt_post_send or tbt_post_recv",
    remedy: "put the cable right and start again: macluster deploy",
};
const FAST_SYNCH: Cause = Cause {
    text: "MLX_METAL_FAST_SYNCH is set, and a fence is never seen",
    checks: &["host.fast-synch"],
    excludes: true,
    how: "the GPU stands at 100 % with little power",
    remedy: "unset it; a GPU that hangs needs a restart",
};
const LIMIT: Cause = Cause {
    text: "the share of the GPU is too small for this part of the model, or differs between the nodes",
    checks: &["host.wired-limit", "host.swap"],
    excludes: false,
    how: "`sysctl iogpu.wired_limit_mb` on every node",
    remedy: "use more nodes, a smaller model or a smaller context; set the same limit everywhere",
};
const OTHERS: Cause = Cause {
    text: "another engine takes the memory or the GPU",
    checks: &["host.foreign-engines"],
    excludes: true,
    how: "`ps -ax` shows exo, Ollama, LM Studio, rpc-server or another MLX rank",
    remedy: "stop the other engine",
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "gpu-timeout",
        title: "[METAL] Command buffer execution failed: Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
        meaning: "the GPU waited too long inside one command, usually for another rank",
        causes: &[
            Cause {
                text: "another rank is slower, or died",
                checks: &["host.mixed-models", "ssh.reachable"],
                excludes: false,
                how: "the logs of the other ranks (`macluster logs NODE`)",
                remedy: "see to the first error; leave much slower nodes out",
            },
            FAST_SYNCH,
            OTHERS,
        ],
        fits: |l| l.contains("gpu timeout") || l.contains("callbackerrortimeout"),
    },
    Entry {
        id: "gpu-out-of-memory",
        title: "kIOGPUCommandBufferCallbackErrorOutOfMemory",
        meaning: "the GPU of this rank has no memory left; the other ranks then say errno 60",
        causes: &[LIMIT, OTHERS],
        fits: |l| l.contains("callbackerroroutofmemory") || (l.contains("metal") && l.contains("out of memory")),
    },
    Entry {
        id: "old-macos",
        title: "Unable to load kernel fence_update: language version 4.0 which is incompatible with this OS",
        meaning: "the runtime is built for a newer macOS than runs there",
        causes: &[Cause {
            text: "macOS is older than the runtime needs",
            checks: &["host.macos-min", "host.macos-identical"],
            excludes: true,
            how: "`sw_vers`",
            remedy: "update macOS on that node to what the others run",
        }],
        fits: |l| l.contains("unable to load kernel") || l.contains("incompatible with this os"),
    },
    Entry {
        id: "segmentation-fault",
        title: "exit status 139 (SIGSEGV in tbt_post_recv)",
        meaning: "a rank crashed inside the RDMA driver or JACCL",
        causes: &[
            UNPLUGGED,
            Cause {
                text: "the link is Thunderbolt 4, or slower than 80 Gb/s: the device is there and cannot work",
                checks: &["cabling.speed", "rdma.hardware"],
                excludes: true,
                how: "`macluster cabling` shows the speed of each link",
                remedy: "replace the cable by one for Thunderbolt 5",
            },
            Cause {
                text: "a device named in the hostfile does not exist (MLX before 0.32.1 crashes there)",
                checks: &["rdma.devices", "rdma.enabled"],
                excludes: false,
                how: "`ibv_devices` on the node",
                remedy: "macluster hostfile --out FILE; use MLX 0.32.2 or newer",
            },
            Cause {
                text: "the driver crashed with the link up, often after a minute without traffic",
                checks: &[],
                excludes: false,
                how: "everything else is excluded",
                remedy: "keep the engine under supervision (macluster deploy), which sends a token when idle; restart the node if it comes again",
            },
        ],
        fits: |l| {
            exits(l, "139")
                || exits(l, "-11")
                || l.contains("sigsegv")
                || l.contains("segmentation fault")
                || l.contains("tbt_post_")
        },
    },
];
