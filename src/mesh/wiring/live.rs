//! Which cables carry Ethernet frames between live bridges, and whether they form a cycle. macOS' bridge has no loop
//! protection on these ports: a cycle is a broadcast storm (Apple TN3205).
//!
//! A cycle is *there* only when every bridge on it is seen; whether the next cable *may close* one is decided with
//! receptacles counted as bridged whose bridge is not known.

use std::collections::BTreeMap;

use super::board::{Board, Bridge, End};

/// A bridge of a node.
type Corner<'a> = (usize, &'a Bridge);

/// Groups of bridges that hang together.
#[derive(Default)]
pub(super) struct Groups<'a> {
    parent: BTreeMap<Corner<'a>, Corner<'a>>,
}

impl<'a> Groups<'a> {
    fn root(&self, corner: Corner<'a>) -> Corner<'a> {
        let mut at = corner;
        while let Some(up) = self.parent.get(&at) {
            at = *up;
        }
        at
    }

    /// Adds a cable; false when it closes a cycle (and is not added).
    pub(super) fn join(&mut self, ends: Option<[Corner<'a>; 2]>) -> bool {
        let Some([one, other]) = ends else { return true };
        let (one, other) = (self.root(one), self.root(other));
        if one == other {
            return false;
        }
        self.parent.insert(one, other);
        true
    }
}

/// The bridges that are seen at both ends of a cable.
pub(super) fn seen(board: &Board, [a, b]: [End; 2]) -> Option<[Corner<'_>; 2]> {
    let corner = |end: End| {
        let bridge = board.stations[end.0].bridges.get(&end.1).filter(|b| **b != Bridge::Unseen)?;
        Some((end.0, bridge))
    };
    Some([corner(a)?, corner(b)?])
}

/// The bridges at both ends of a cable, as far as is known. One that is not known may be any of its node's.
pub(super) fn assumed(board: &Board, [a, b]: [End; 2]) -> Option<[Corner<'_>; 2]> {
    let corner = |end: End| {
        let bridges = &board.stations[end.0].bridges;
        let own = bridges.get(&end.1)?;
        // `Named` sorts before `Unseen`.
        Some((end.0, if *own == Bridge::Unseen { bridges.values().min().unwrap_or(own) } else { own }))
    };
    Some([corner(a)?, corner(b)?])
}
