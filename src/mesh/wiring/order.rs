//! The order of the steps: no prefix of them has a cycle of cables under live bridges, and no cable is unplugged
//! before its receptacle is needed.
//!
//! Everything that may be plugged at once is, new cables before moves. What would close a cycle waits for a
//! `network apply`, which takes the ends of links out of their bridges; receptacles without a link stay in them, so a
//! large mesh needs more than one. Two cables that want each other's place are resolved by letting a plug hang.

use std::collections::BTreeSet;

use super::board::{Board, End};
use super::demand::pair;
use super::live::{Groups, assumed, seen};
use super::place::{Displaced, Target};

/// Receptacles of a cable's two plugs; none = the plug hangs.
pub type Plugs = [Option<End>; 2];

/// What a person does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Plugs of one cable are moved.
    Cable {
        /// Its place among the board's cables, then the new ones.
        cable: usize,
        /// Where its plugs were.
        before: Plugs,
        /// Where they are afterwards.
        after: Plugs,
        /// It breaks a cycle under live bridges that is there now.
        stop: bool,
    },
    /// Something that is no cable of the rack gives way.
    Give(Displaced),
    /// `macluster network apply`: the ends of links leave their bridges.
    Apply,
}

/// Orders the way from the board to the target.
pub fn order(board: &Board, target: &Target) -> Vec<Step> {
    let both = |ends: [End; 2]| ends.map(Some);
    let plugs: Vec<Plugs> = board.cables.iter().map(|c| both(*c)).chain(target.new.iter().map(|_| [None; 2])).collect();
    let olds = target.cables.iter().map(|c| c.map_or([None; 2], both));
    let goal: Vec<Plugs> = olds.chain(target.new.iter().map(|c| both(*c))).collect();
    let mut work = Work { board: board.clone(), plugs, goal, displaced: target.displaced.clone(), steps: Vec::new() };
    work.stop_storms();
    while work.advance() {}
    work.steps
}

struct Work {
    board: Board,
    plugs: Vec<Plugs>,
    goal: Vec<Plugs>,
    displaced: Vec<Displaced>,
    steps: Vec<Step>,
}

/// Both ends, when both are plugged.
fn whole(plugs: Plugs) -> Option<[End; 2]> {
    Some([plugs[0]?, plugs[1]?])
}

impl Work {
    fn set(&mut self, cable: usize, after: Plugs, stop: bool) -> bool {
        let before = std::mem::replace(&mut self.plugs[cable], after);
        self.steps.push(Step::Cable { cable, before, after, stop });
        true
    }

    fn pending(&self) -> impl Iterator<Item = usize> {
        (0..self.plugs.len()).filter(|c| self.plugs[*c] != self.goal[*c])
    }

    /// Cables that are to be plugged somewhere.
    fn wanting(&self) -> Vec<usize> {
        self.pending().filter(|c| whole(self.goal[*c]).is_some()).collect()
    }

    /// Breaks every cycle that is there now. Cables that have to move anyway go first.
    fn stop_storms(&mut self) {
        let (moving, staying): (Vec<usize>, Vec<usize>) =
            (0..self.plugs.len()).partition(|c| self.plugs[*c] != self.goal[*c]);
        let mut groups = Groups::default();
        let mut cut = Vec::new();
        let board = self.board.clone();
        let mut fits = |ends: Option<[End; 2]>| groups.join(ends.and_then(|e| seen(&board, e)));
        cut.extend(staying.into_iter().filter(|c| !fits(whole(self.plugs[*c]))));
        let docked: Vec<[End; 2]> = board.docked.iter().copied().filter(|d| !fits(Some(*d))).collect();
        cut.extend(moving.into_iter().filter(|c| !fits(whole(self.plugs[*c]))));
        for cable in cut {
            let (now, goal) = (self.plugs[cable], self.goal[cable]);
            let after = match goal {
                [None, None] => goal,
                _ if now[0] == goal[0] && now[1] != goal[1] => [now[0], None],
                _ => [None, now[1]],
            };
            self.set(cable, after, true);
        }
        for dock in docked {
            self.undock(dock);
        }
    }

    /// The next step; false when nothing is left to do.
    fn advance(&mut self) -> bool {
        let wanting = self.wanting();
        let ready = wanting.iter().copied().filter(|c| self.free(*c) && self.safe(*c, None));
        if let Some(cable) = ready.min_by_key(|c| self.preference(*c)) {
            return self.set(cable, self.goal[cable], false);
        }
        if let Some(cable) = wanting.iter().copied().find(|c| self.make_room(*c)) {
            debug_assert!(self.plugs[cable] != self.goal[cable]);
            return true;
        }
        let waits_for_bridge = wanting.iter().any(|c| !self.safe(*c, None));
        if waits_for_bridge && self.apply() {
            return true;
        }
        // Nobody can be first: a plug that stands in another's way hangs for a while.
        let in_the_way = wanting.iter().flat_map(|c| self.occupants(*c)).find(|o| wanting.contains(o));
        if let Some(other) = in_the_way {
            let wanted: BTreeSet<End> = wanting.iter().flat_map(|c| self.targets(*c)).collect();
            let after =
                self.plugs[other].map(|p| p.filter(|end| !wanted.contains(end) || self.goal[other].contains(&p)));
            if after != self.plugs[other] {
                return self.set(other, after, false);
            }
        }
        let out = self.pending().find(|c| self.goal[*c] == [None; 2]);
        if let Some(out) = out {
            return self.set(out, [None; 2], false);
        }
        if waits_for_bridge {
            // Bridged and never taken out of the bridge by `network apply`: a plug in an excluded receptacle.
            let bad = wanting.iter().copied().find(|c| whole(self.plugs[*c]).is_some_and(|e| !self.board.good(e)));
            if let Some(bad) = bad {
                let after = self.plugs[bad].map(|p| p.filter(|end| self.board.usable(*end)));
                let after = if after == self.plugs[bad] { [after[0], None] } else { after };
                return self.set(bad, after, false);
            }
            if let Some(dock) = self.board.docked.first().copied() {
                return self.undock(dock);
            }
        }
        false
    }

    /// Receptacles that a cable is still to be plugged into.
    fn targets(&self, cable: usize) -> Vec<End> {
        let (now, goal) = (self.plugs[cable], self.goal[cable]);
        (0..2).filter(|p| now[*p] != goal[*p]).filter_map(|p| goal[p]).collect()
    }

    /// Other cables in these receptacles.
    fn occupants(&self, cable: usize) -> Vec<usize> {
        let targets = self.targets(cable);
        let holds = |c: &usize| self.plugs[*c].iter().flatten().any(|end| targets.contains(end));
        (0..self.plugs.len()).filter(|c| *c != cable).filter(holds).collect()
    }

    /// Things in these receptacles that have to give.
    fn things(&self, cable: usize) -> Vec<Displaced> {
        let targets = self.targets(cable);
        self.displaced.iter().copied().filter(|d| targets.contains(&d.from)).collect()
    }

    fn free(&self, cable: usize) -> bool {
        self.occupants(cable).is_empty() && self.things(cable).is_empty()
    }

    /// Plugging a cable where it belongs closes no cycle; another one may be thought away.
    fn safe(&self, cable: usize, without: Option<usize>) -> bool {
        let others = (0..self.plugs.len()).filter(|c| *c != cable && Some(*c) != without);
        let mut groups = Groups::default();
        for other in others.filter_map(|c| whole(self.plugs[c])).chain(self.board.docked.iter().copied()) {
            groups.join(assumed(&self.board, other));
        }
        groups.join(whole(self.goal[cable]).and_then(|ends| assumed(&self.board, ends)))
    }

    /// Which of the cables that may be plugged is next: one that nothing is unplugged for; under bridges along paths
    /// through all nodes (zigzags, whose pairs have sums 2k and 2k + 1 modulo n), so that few applies are needed.
    fn preference(&self, cable: usize) -> (bool, usize, (usize, usize), usize) {
        let ends = whole(self.goal[cable]).unwrap_or_default();
        let of = pair(ends[0].0, ends[1].0);
        let path = match assumed(&self.board, ends) {
            Some(_) => (of.0 + of.1) % self.board.stations.len().max(1) / 2,
            None => 0,
        };
        (self.plugs[cable].iter().any(Option::is_some) && !self.replugs(cable), path, of, cable)
    }

    /// Its hanging plug goes in, the other stays: nothing is unplugged.
    fn replugs(&self, cable: usize) -> bool {
        let (now, goal) = (self.plugs[cable], self.goal[cable]);
        (0..2).all(|p| now[p].is_none() || now[p] == goal[p])
    }

    /// Takes out what stands in this cable's way and is not needed, if that lets it be plugged.
    fn make_room(&mut self, cable: usize) -> bool {
        let occupants = self.occupants(cable);
        if occupants.iter().any(|o| self.goal[*o] != [None; 2]) || !self.safe(cable, occupants.first().copied()) {
            return false;
        }
        if let Some(out) = occupants.first() {
            return self.set(*out, [None; 2], false);
        }
        let Some(thing) = self.things(cable).first().copied() else { return false };
        let holder = (0..self.plugs.len()).find(|c| thing.to.is_some() && self.plugs[*c].contains(&thing.to));
        if let Some(holder) = holder {
            // The excluded receptacle, where the thing goes, is still taken by a cable that leaves it.
            return self.set(holder, self.plugs[holder].map(|p| p.filter(|end| Some(*end) != thing.to)), false);
        }
        self.displaced.retain(|d| d != &thing);
        self.steps.push(Step::Give(thing));
        true
    }

    /// `network apply`, when there is a link that it takes out of a bridge.
    fn apply(&mut self) -> bool {
        let ends: Vec<End> =
            self.plugs.iter().filter_map(|p| whole(*p)).filter(|e| self.board.good(*e)).flatten().collect();
        let mut changed = false;
        for (node, receptacle) in ends {
            changed |= self.board.stations[node].bridges.remove(&receptacle).is_some();
        }
        if changed {
            self.steps.push(Step::Apply);
        }
        changed
    }

    fn undock(&mut self, dock: [End; 2]) -> bool {
        self.board.docked.retain(|d| *d != dock);
        self.displaced.retain(|d| d.from != dock[0]);
        self.steps.push(Step::Give(Displaced { from: dock[0], to: None }));
        true
    }
}
