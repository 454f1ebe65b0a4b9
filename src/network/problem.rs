//! What stands in the way of a link network, or of changing anything on a node.

use serde::Serialize;

use crate::model::{LinkRef, NodeName, Verdict};

/// Kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemKind {
    /// The pool overlaps an address or route of a node: nothing is planned.
    PoolClash,
    /// Whether the pool overlaps something on a node could not be found out: nothing is planned there.
    PoolUnchecked,
    /// Changing this node could cut the way in, or is not allowed.
    Refused,
    /// Facts of this node that the plan needs are missing.
    Unreadable,
    /// The node gave no facts.
    Unreachable,
    /// The cable uses the receptacle that RDMA must not use.
    ExcludedReceptacle,
    /// Only one end reports the cable.
    OneSided,
    /// A dock or hub lies between.
    ViaDock,
    /// Both ends in the same Mac.
    SelfLoop,
    /// To a Mac outside the rack, or one whose place is not known.
    Foreign,
    /// The interface of an end is not known or its name cannot be used.
    NoInterface,
    /// Two receptacles claim to be the same one.
    Ambiguous,
    /// The pool has no network left for this cable.
    PoolExhausted,
    /// An address would be changed under RDMA in one boot.
    Readdress,
    /// Bridges and cables form a cycle, or the next cable would close one.
    BridgeLoop,
    /// The network preferences bring the bridge back at the next restart.
    BridgeEntry,
    /// Whether something will undo the links could not be found out.
    Unread,
    /// An earlier change waits for its confirmation.
    Unconfirmed,
    /// An address of the pool stays on an interface whose link is not there now.
    Idle,
}

/// One thing to know before applying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Kind.
    pub kind: ProblemKind,
    /// `fail` when something that should be planned is not, else `warn` or `skip`.
    pub verdict: Verdict,
    /// The node it concerns.
    pub node: Option<NodeName>,
    /// The link it concerns.
    pub link: Option<LinkRef>,
    /// Cause first.
    pub message: String,
    /// What to do.
    pub action: Option<String>,
}

impl Problem {
    pub(super) fn new(kind: ProblemKind, message: impl Into<String>) -> Self {
        let verdict = match kind {
            ProblemKind::PoolClash
            | ProblemKind::PoolUnchecked
            | ProblemKind::Refused
            | ProblemKind::Unreadable
            | ProblemKind::NoInterface
            | ProblemKind::PoolExhausted => Verdict::Fail,
            ProblemKind::Idle | ProblemKind::BridgeEntry => Verdict::Skip,
            _ => Verdict::Warn,
        };
        Problem { kind, verdict, node: None, link: None, message: message.into(), action: None }
    }

    pub(super) fn node(mut self, node: &NodeName) -> Self {
        self.node = Some(node.clone());
        self
    }

    pub(super) fn link(mut self, link: LinkRef) -> Self {
        self.link = Some(link);
        self
    }

    pub(super) fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }
}
