//! The state of a cable: what is not right with it, as a mark for the matrix and in words.

use std::fmt;

use crate::mesh::usable::{RDMA_MIN_GBPS, best_of};
use crate::mesh::{CableEnd, Link, LinkGraph, SeenBy};
use crate::model::hardware::Mac;
use crate::model::{NodeName, Snapshot};

/// One thing that is not right with a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Only this node sees the cable.
    OneEnd(NodeName),
    /// A dock or hub of this name lies between.
    Dock(String),
    /// It ends in the receptacle that RDMA must not use.
    Excluded(CableEnd),
    /// Neither end tells a speed.
    SpeedUnknown,
    /// Slower than RDMA needs, Gb/s.
    Slow(u32),
    /// Another cable of the same pair is the one to use.
    Further,
}

impl Flaw {
    /// Its mark in the matrix.
    pub fn mark(&self) -> char {
        match self {
            Flaw::OneEnd(_) => '½',
            Flaw::Dock(_) => 'D',
            Flaw::Excluded(_) => '×',
            Flaw::SpeedUnknown => '?',
            Flaw::Slow(_) => '↓',
            Flaw::Further => '+',
        }
    }

    /// What the mark means.
    pub fn meaning(&self) -> &'static str {
        match self {
            Flaw::OneEnd(_) => "seen by one end only",
            Flaw::Dock(_) => "through a dock",
            Flaw::Excluded(_) => "in the excluded receptacle",
            Flaw::SpeedUnknown => "speed unknown",
            Flaw::Slow(_) => "too slow for RDMA",
            Flaw::Further => "further cable of the pair",
        }
    }

    /// Its name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Flaw::OneEnd(_) => "one_end_only",
            Flaw::Dock(_) => "via_dock",
            Flaw::Excluded(_) => "excluded_receptacle",
            Flaw::SpeedUnknown => "speed_unknown",
            Flaw::Slow(_) => "slow",
            Flaw::Further => "further_cable",
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::OneEnd(node) => write!(f, "seen by {node} only"),
            Flaw::Dock(dock) => write!(f, "through {dock}"),
            Flaw::Excluded(end) => write!(f, "excluded receptacle on {}", end.node),
            Flaw::SpeedUnknown => f.write_str("speed unknown"),
            Flaw::Slow(_) => f.write_str("slow"),
            Flaw::Further => f.write_str("further cable of the pair"),
        }
    }
}

/// The mark of a link without flaws.
pub const GOOD: char = '✓';

/// Everything that is not right with a link; empty when it is good.
pub fn flaws(link: &Link, graph: &LinkGraph, snapshot: &Snapshot) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    match link.seen_by {
        SeenBy::Both => {}
        SeenBy::OnlyA => flaws.push(Flaw::OneEnd(link.id.a.node.clone())),
        SeenBy::OnlyB => flaws.push(Flaw::OneEnd(link.id.b.node.clone())),
    }
    flaws.extend(link.via_dock.clone().map(Flaw::Dock));
    for (end, _) in link.ends() {
        let excluded = snapshot.facts(&end.node).and_then(|f| Mac::of(f).excluded());
        if excluded == Some(end.receptacle) {
            flaws.push(Flaw::Excluded(end.clone()));
        }
    }
    match link.gbps {
        None => flaws.push(Flaw::SpeedUnknown),
        Some(gbps) if gbps < RDMA_MIN_GBPS => flaws.push(Flaw::Slow(gbps)),
        Some(_) => {}
    }
    let pair: Vec<&Link> = graph.between(&link.id.a.node, &link.id.b.node).collect();
    if best_of(&pair, snapshot).is_some_and(|best| best.id != link.id) {
        flaws.push(Flaw::Further);
    }
    flaws
}

/// The marks of these flaws, each once.
pub fn marks(flaws: &[Flaw]) -> String {
    let mut marks = String::new();
    for mark in flaws.iter().map(Flaw::mark) {
        if !marks.contains(mark) {
            marks.push(mark);
        }
    }
    if marks.is_empty() {
        marks.push(GOOD);
    }
    marks
}

/// The flaws in words; `good` when there is none.
pub fn words(flaws: &[Flaw]) -> String {
    if flaws.is_empty() {
        return "good".to_owned();
    }
    flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
