//! How hard doctor judges, by what the inventory wants to run. Documented in docs/checks.md, "Verdicts and backends".

use crate::model::{Backend, Category, Finding, Inventory, NodeName, Over, Verdict};

/// What the cables are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// RDMA over a full mesh (`jaccl`, and `auto`, which wants it).
    Mesh,
    /// RDMA over a ring (`jaccl-ring`).
    RdmaRing,
    /// TCP over the cables (`ring`, over links).
    TcpRing,
    /// Nothing yet (`ring`, over management): the cables are judged for the mesh they were bought for.
    Management,
}

impl Purpose {
    /// What this inventory wants.
    pub fn of(inventory: &Inventory) -> Purpose {
        match (inventory.runtime.backend, inventory.runtime.over) {
            (Backend::Auto | Backend::Jaccl, _) => Purpose::Mesh,
            (Backend::JacclRing, _) => Purpose::RdmaRing,
            (Backend::Ring, Over::Links) => Purpose::TcpRing,
            (Backend::Ring, Over::Management) => Purpose::Management,
        }
    }

    /// A ring of cables is enough.
    pub(super) fn ring(self) -> bool {
        matches!(self, Purpose::RdmaRing | Purpose::TcpRing)
    }

    /// What RDMA alone needs, and what only a person at the rack can put right.
    pub(super) fn for_rdma(self) -> Verdict {
        if self == Purpose::TcpRing { Verdict::Warn } else { Verdict::Fail }
    }

    /// Hardware that can never do RDMA, and the receptacle that RDMA must not use: harmless for TCP.
    pub(super) fn for_jaccl(self) -> Verdict {
        if matches!(self, Purpose::TcpRing | Purpose::Management) { Verdict::Warn } else { Verdict::Fail }
    }

    /// The link networks, which one command puts right: needed only when they are used.
    pub(super) fn for_links(self) -> Verdict {
        if self == Purpose::Management { Verdict::Warn } else { Verdict::Fail }
    }
}

/// What is wrong with the link networks without keeping a launch from working now.
const LATER: &[&str] = &[
    "network.foreign-daemon",
    "network.dhcp-on-link",
    "network.default-route",
    "network.forwarding",
    "network.persistent",
];

/// Whether this finding stands in the way of a deploy with this inventory's backend. `auto` chooses what is
/// possible, so only reaching the nodes matters to it; a ring over management needs no cables.
pub fn blocks(finding: &Finding, inventory: &Inventory) -> bool {
    let backend = inventory.runtime.backend;
    let rdma = matches!(backend, Backend::Jaccl | Backend::JacclRing);
    let links = rdma || (backend == Backend::Ring && inventory.runtime.over == Over::Links);
    let counts = match finding.category {
        Category::Ssh => true,
        // What is deployed is replaced: a deploy is the remedy.
        Category::Runtime => false,
        Category::Host => rdma || finding.check != "host.macos-identical",
        Category::Rdma => rdma,
        Category::Cabling | Category::Mesh => links,
        Category::Network => links && !LATER.contains(&finding.check.as_str()),
    };
    // A link that leads to a node that takes no part is not needed.
    let elsewhere = |node: &NodeName| inventory.left_out.values().any(|n| n == node);
    if finding.link.as_ref().is_some_and(|link| elsewhere(&link.a.node) || elsewhere(&link.b.node)) {
        return false;
    }
    counts && matches!(finding.verdict, Verdict::Fail | Verdict::Crash)
}
