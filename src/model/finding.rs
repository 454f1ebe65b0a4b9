//! What a check says.

use serde::{Deserialize, Serialize};

use super::NodeName;

/// The result of one check on one subject. Order: good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Looked at and right.
    Pass,
    /// Could not be checked; the message says why.
    Skip,
    /// Works, but deserves attention.
    Warn,
    /// The check itself broke.
    Crash,
    /// Wrong.
    Fail,
}

/// Groups of checks, in cabling order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Reaching the nodes.
    Ssh,
    /// Each Mac by itself.
    Host,
    /// RDMA switch and devices.
    Rdma,
    /// Cables.
    Cabling,
    /// All cables together.
    Mesh,
    /// Link networks.
    Network,
    /// The deployed runtime.
    Runtime,
}

impl Category {
    /// The word used in ids and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Category::Ssh => "ssh",
            Category::Host => "host",
            Category::Rdma => "rdma",
            Category::Cabling => "cabling",
            Category::Mesh => "mesh",
            Category::Network => "network",
            Category::Runtime => "runtime",
        }
    }
}

/// One end of a link, as people find it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkEnd {
    /// Node.
    pub node: NodeName,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
    /// Interface, when known.
    pub interface: Option<String>,
}

/// The link a finding is about. `a` is the smaller end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkRef {
    /// One end.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Remedy {
    /// Commands to type at the desk.
    Run {
        /// One command line each.
        commands: Vec<String>,
    },
    /// Things to do at the machine.
    AtMachine {
        /// One step each.
        steps: Vec<String>,
    },
}

/// One line of doctor's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Check id, e.g. `cabling.excluded-receptacle`.
    pub check: String,
    /// Its category.
    pub category: Category,
    /// Verdict.
    pub verdict: Verdict,
    /// The node it concerns.
    pub node: Option<NodeName>,
    /// The link it concerns.
    pub link: Option<LinkRef>,
    /// One sentence: cause first.
    pub message: String,
    /// What was seen.
    pub observed: Option<String>,
    /// What should be seen.
    pub expected: Option<String>,
    /// What to do; every warn and fail has one.
    pub remedy: Option<Remedy>,
    /// Where it is explained, e.g. `docs/checks.md#cabling-excluded-receptacle`.
    pub docs: String,
}
