//! Launches that are refused before anything runs.

use super::{Cause, Entry};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "address-not-parsed",
        title: "Can't parse address",
        meaning: "the address of rank 0 is no IPv4 address with a port",
        causes: &[Cause {
            text: "an IPv6 address or a name was given: the reader splits at the first colon, and connects over IPv4 only",
            checks: &[],
            excludes: false,
            how: "look at MLX_JACCL_COORDINATOR, or at the first `ips` of the hostfile",
            remedy: "write the hostfile anew with numbers: macluster hostfile --out FILE",
        }],
        fits: |l| l.contains("can't parse address") || l.contains("cannot parse address"),
    },
    Entry {
        id: "incomplete-mesh",
        title: "Incomplete mesh, studio-1 is not connected to studio-2",
        meaning: "jaccl wants a cable between every two nodes",
        causes: &[
            Cause {
                text: "a cable is missing, or is not seen",
                checks: &["mesh.complete", "cabling.one-sided"],
                excludes: true,
                how: "macluster cabling",
                remedy: "macluster cabling plan prints the steps",
            },
            Cause {
                text: "a cable goes through a dock, or to a Mac outside the rack",
                checks: &["cabling.via-dock", "cabling.foreign-peer"],
                excludes: true,
                how: "macluster cabling",
                remedy: "connect the two Macs directly",
            },
            Cause {
                text: "there are more nodes than receptacles allow",
                checks: &["mesh.size"],
                excludes: true,
                how: "n nodes need n−1 usable receptacles each",
                remedy: "use fewer nodes, or the backend jaccl-ring",
            },
        ],
        fits: |l| l.contains("incomplete mesh"),
    },
    Entry {
        id: "rdma-not-enabled",
        title: "does not seem to have RDMA enabled",
        meaning: "MLX's launcher saw no RDMA device on a node; it says the same of three different things",
        causes: &[
            Cause {
                text: "the Mac has Thunderbolt 4: it never gets one",
                checks: &["rdma.hardware"],
                excludes: true,
                how: "its model",
                remedy: "use the backend ring, or another Mac. Recovery does not help",
            },
            Cause {
                text: "RDMA was never switched on in Recovery, or macOS is older than 26.2",
                checks: &["rdma.enabled", "host.macos-min"],
                excludes: true,
                how: "`rdma_ctl status`",
                remedy: "macluster checklist",
            },
            Cause {
                text: "the launcher could not log in, and hides why",
                checks: &["ssh.reachable", "ssh.host-key", "ssh.login", "ssh.login-noise"],
                excludes: true,
                how: "macluster doctor --check ssh",
                remedy: "as the check says",
            },
        ],
        fits: |l| l.contains("rdma enabled") && l.contains("not"),
    },
    Entry {
        id: "malformed-hostfile",
        title: "Malformed hostfile for jaccl backend",
        meaning: "a row of RDMA devices has not one entry for each rank, or a rank has one for itself",
        causes: &[Cause {
            text: "the hostfile was written by hand, or for another number of nodes",
            checks: &[],
            excludes: false,
            how: "each `rdma` list is as long as there are hosts, with null at its own place",
            remedy: "macluster hostfile --backend jaccl --out FILE",
        }],
        fits: |l| l.contains("malformed hostfile"),
    },
    Entry {
        id: "backend-unknown",
        title: "The only valid values for backend are 'any','mpi' and 'ring'",
        meaning: "the MLX on that node is older than 0.30.1 and knows no jaccl",
        causes: &[Cause {
            text: "another Python is used than on the other nodes",
            checks: &[],
            excludes: false,
            how: "`python -c 'import mlx.core; print(mlx.core.__version__)'` with the same path on every node",
            remedy: "macluster deploy installs the same runtime on every node",
        }],
        fits: |l| l.contains("only valid values for backend"),
    },
    Entry {
        id: "not-splittable",
        title: "The model does not support any sharding",
        meaning: "mlx-lm cannot split this architecture over several nodes",
        causes: &[Cause {
            text: "the architecture has no tensor parallelism in mlx-lm",
            checks: &[],
            excludes: false,
            how: "`model_type` in config.json",
            remedy: "use a model that can be split, or one node",
        }],
        fits: |l| {
            l.contains("does not support any sharding")
                || l.contains("does not support pipelining")
                || l.contains("_group was provided")
        },
    },
    Entry {
        id: "exit-127",
        title: "exit status 127",
        meaning: "the node did not find the program",
        causes: &[
            Cause {
                text: "the path is not absolute: a login that runs one command has only /usr/bin:/bin:/usr/sbin:/sbin, and ~ is not replaced there",
                checks: &[],
                excludes: false,
                how: "`ssh NODE /absolute/path/python -c pass`",
                remedy: "give absolute paths; macluster deploy uses /opt/macluster on every node",
            },
            Cause {
                text: "the runtime is not installed on that node",
                checks: &[],
                excludes: false,
                how: "macluster status",
                remedy: "macluster deploy",
            },
            Cause {
                text: "the login shell is one that does not understand what the launcher sends",
                checks: &["ssh.login-shell"],
                excludes: true,
                how: "`echo $SHELL` on the node",
                remedy: "chsh -s /bin/zsh",
            },
        ],
        fits: |l| exits(l, "127") || l.contains("command not found"),
    },
];

/// `exit 127`, `exit code 127`, `exited with 127`, `exit status: 127`, `returncode 127`.
pub(super) fn exits(line: &str, status: &str) -> bool {
    let ends = ["exit", "returncode", "return code", "status"].iter().any(|w| line.contains(w));
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    ends && words.into_iter().any(|w| w == status)
}
