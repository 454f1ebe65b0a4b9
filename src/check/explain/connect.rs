//! The ranks' side channel over TCP.

use super::{Cause, Entry, number};

const FIREWALL: Cause = Cause {
    text: "a firewall on the node of rank 0 drops the connection",
    checks: &["host.firewall"],
    excludes: true,
    how: "`socketfilterfw --getglobalstate` on that node",
    remedy: "turn it off, or allow the runtime's python",
};
const FIRST_ERROR: Cause = Cause {
    text: "another rank ended earlier, and this is only the echo",
    checks: &[],
    excludes: false,
    how: "read the logs of the other ranks, rank 0 first (`macluster logs NODE`): the FIRST error counts (out of memory, a missing file, an import error)",
    remedy: "see to the first error; `macluster explain -` reads a whole log",
};
const LATE: Cause = Cause {
    text: "rank 0 was not listening yet: a worker gives up after about 15 s, and importing takes 20 to 30",
    checks: &[],
    excludes: false,
    how: "the ranks were started one after the other, or by hand",
    remedy: "start all ranks at once: macluster deploy waits until every rank has imported, and lets them go together",
};
const WRONG_ADDRESS: Cause = Cause {
    text: "the address of rank 0 is not one of that node any more",
    checks: &["network.addresses"],
    excludes: false,
    how: "`ifconfig | grep inet` on the node of rank 0 against the first address in the hostfile",
    remedy: "macluster network apply; write the hostfile anew: macluster hostfile --out FILE",
};
const PRIVACY: Cause = Cause {
    text: "macOS keeps this program off the local network (Local Network privacy): curl and ping work at the same time, because Apple's own tools are exempt",
    checks: &[],
    excludes: false,
    how: "connect to the router's port 9 with the same python: error 65 is the privacy block, 61 is a free way",
    remedy: "System Settings > Privacy & Security > Local Network on that node: switch the program off and on again; a daemon that runs as root is exempt",
};
const NO_ROUTE: Cause = Cause {
    text: "there is no way to that address",
    checks: &["network.peer-route", "network.addresses", "network.default-route", "network.link-ping"],
    excludes: false,
    how: "`route -n get ADDRESS` names no interface, or the wrong one",
    remedy: "macluster network plan, then macluster network apply",
};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        id: "connect-60",
        title: "[jaccl] Couldn't connect (error: 60)",
        meaning: "a rank did not reach rank 0 in time (ETIMEDOUT)",
        causes: &[FIRST_ERROR, WRONG_ADDRESS, FIREWALL, NO_ROUTE, LATE],
        fits: |l| connecting(l) && number(l, "60"),
    },
    Entry {
        id: "connect-65",
        title: "Couldn't connect (error: 65)",
        meaning: "the system refuses to send there (EHOSTUNREACH, No route to host)",
        causes: &[PRIVACY, NO_ROUTE],
        fits: |l| (connecting(l) && number(l, "65")) || l.contains("no route to host"),
    },
    Entry {
        id: "connect-61",
        title: "Couldn't connect (error: 61)",
        meaning: "the node answers, and nothing listens on that port (ECONNREFUSED)",
        causes: &[FIRST_ERROR, LATE],
        fits: |l| (connecting(l) && number(l, "61")) || l.contains("connection refused"),
    },
    Entry {
        id: "bind-49",
        title: "[jaccl] Couldn't bind socket (error: 49)",
        meaning: "rank 0 was told to listen on an address that its node does not have (EADDRNOTAVAIL)",
        causes: &[
            WRONG_ADDRESS,
            Cause {
                text: "the links were set up before Thunderbolt had carrier at the last start, and nothing did it again",
                checks: &["network.persistent"],
                excludes: true,
                how: "the cable has carrier and the interface has no address",
                remedy: "macluster network apply installs the links daemon, which waits for carrier",
            },
            Cause {
                text: "the address came from DHCP and has changed",
                checks: &["network.dhcp-on-link"],
                excludes: false,
                how: "the service on that interface says DHCP",
                remedy: "give the node a fixed address",
            },
        ],
        fits: |l| l.contains("bind") && (number(l, "49") || l.contains("can't assign requested address")),
    },
    Entry {
        id: "bind-48",
        title: "Couldn't bind socket (error: 48)",
        meaning: "something listens on that port already (EADDRINUSE)",
        causes: &[
            Cause {
                text: "a rank of an earlier run is still alive, or another engine has the port",
                checks: &["host.foreign-engines"],
                excludes: false,
                how: "`lsof -nP -iTCP:PORT -sTCP:LISTEN` on the node of rank 0",
                remedy: "macluster stop, then end what lsof names with kill -TERM",
            },
            Cause {
                text: "the port lies where macOS takes ports for outgoing connections (49152 and above)",
                checks: &[],
                excludes: false,
                how: "`sysctl net.inet.ip.portrange.first` is not above the port",
                remedy: "choose a port below it",
            },
        ],
        fits: |l| l.contains("bind") && (number(l, "48") || l.contains("address already in use")),
    },
    Entry {
        id: "recv-errno-2",
        title: "[jaccl] Recv failed with errno=2",
        meaning: "another rank closed the side channel while it was starting. The 2 is left over from something else: this is no RDMA error",
        causes: &[FIRST_ERROR],
        fits: |l| l.contains("recv failed") && number(l, "2"),
    },
    Entry {
        id: "recv-errno-60",
        title: "[jaccl] Recv failed with errno=60",
        meaning: "another rank does not answer any more (ETIMEDOUT)",
        causes: &[FIRST_ERROR, NO_ROUTE],
        fits: |l| l.contains("recv failed") && (number(l, "60") || number(l, "54")),
    },
];

fn connecting(line: &str) -> bool {
    line.contains("connect")
}
