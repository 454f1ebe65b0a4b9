//! Joins the receptacles of all nodes into cables, on domain UUIDs and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::NodeName;

/// One end of a cable. Orders by node, then receptacle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CableEnd {
    /// Node.
    pub node: NodeName,
    /// Receptacle as macOS numbers it.
    pub receptacle: u32,
}

/// A link's identity: its two ends, smaller first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkId {
    /// Smaller end.
    pub a: CableEnd,
    /// Greater end.
    pub b: CableEnd,
}

/// A cable between two nodes of the rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its ends.
    pub id: LinkId,
    /// Interface at each end (`en3`), joined over `Thunderbolt N` of the hardware ports; none when that join fails.
    pub interfaces: (Option<String>, Option<String>),
    /// Lower of the two reported speeds, Gb/s.
    pub gbps: Option<u32>,
    /// Both ends name each other; else only `a` or only `b` reports it.
    pub seen_by: SeenBy,
    /// Rail among the cables of this node pair, from 0, in order of receptacles.
    pub rail: u32,
    /// A dock or hub lies between the two Macs (seen from at least one end).
    pub via_dock: Option<String>,
}

/// Which ends report a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenBy {
    /// Both.
    Both,
    /// Only the smaller end.
    OnlyA,
    /// Only the greater end.
    OnlyB,
}

/// A cable to a Mac that is not in the rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPeer {
    /// Our end.
    pub end: CableEnd,
    /// Its model or marketing name.
    pub what: String,
}

/// A cable that is no proper link, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cable {
    /// Both ends in the same Mac.
    SelfLoop(CableEnd, CableEnd),
    /// To a Mac outside the rack.
    Foreign(ForeignPeer),
}

/// All cables of the rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkGraph {
    /// Links by id.
    pub links: BTreeMap<LinkId, Link>,
    /// Cables that are no links.
    pub odd: Vec<Cable>,
}
