//! Which cables carry Ethernet frames between live bridges, and whether they form a cycle. macOS' bridge has no loop
//! protection on these ports: a cycle is a broadcast storm (Apple TN3205).

use std::collections::BTreeMap;

use super::board::{Board, Bridge, End};

/// One bridge of one node.
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
    pub(super) fn join(&mut self, board: &'a Board, cable: [End; 2]) -> bool {
        let Some([one, other]) = bridged(board, cable) else { return true };
        let (one, other) = (self.root(one), self.root(other));
        if one == other {
            return false;
        }
        self.parent.insert(one, other);
        true
    }
}

/// The bridges at both ends of a cable; none when an end is in none.
pub(super) fn bridged(board: &Board, [a, b]: [End; 2]) -> Option<[Corner<'_>; 2]> {
    let corner = |end: End| Some((end.0, board.stations[end.0].bridges.get(&end.1)?));
    Some([corner(a)?, corner(b)?])
}

/// Cables that close a cycle, when they are plugged in this order.
pub(super) fn closing(board: &Board, cables: impl IntoIterator<Item = [End; 2]>) -> Vec<[End; 2]> {
    let mut groups = Groups::default();
    cables.into_iter().filter(|cable| !groups.join(board, *cable)).collect()
}
