//! Which receptacle each plug takes.
//!
//! The regular wiring gives every pair a number ([`Demand::number`]); its cable takes on either Mac the usable
//! receptacle of that number. Plugs that move, and new ones, are placed by three rules, each for all cables before
//! the next:
//!
//! 1. A cable that would sit regularly at both ends does.
//! 2. A cable with one plug that stays takes at the other Mac the receptacle of the same number, else the regular
//!    one, else the lowest that is free.
//! 3. A cable with two plugs to place takes the lowest number that is free on both Macs, else the lowest at each.

use std::collections::BTreeSet;

use super::assign::{Choice, Job};
use super::board::{Board, End};
use super::demand::{Demand, Pair, pair};

/// Something that is no cable of the rack and has to leave its receptacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// Where it is.
    pub from: End,
    /// The excluded receptacle, when that is free: RDMA must not use it, everything else may.
    pub to: Option<End>,
}

/// What the board becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Receptacles of the cables' plugs in the board's order; none = taken out.
    pub cables: Vec<Option<[End; 2]>>,
    /// New cables.
    pub new: Vec<[End; 2]>,
    /// Things that have to give.
    pub displaced: Vec<Displaced>,
}

/// Receptacles of each node that cables may take, and the things that have to give for it: as few as possible, those
/// in the highest receptacles.
pub fn room(board: &Board, demand: &Demand) -> (Vec<usize>, Vec<Displaced>) {
    let mut room = Vec::new();
    let mut displaced = Vec::new();
    for (node, station) in board.stations.iter().enumerate() {
        let held: Vec<u32> = station.usable.iter().copied().filter(|r| station.things.contains_key(r)).collect();
        let free = station.usable.len() - held.len();
        let give = demand.degree(node).saturating_sub(free).min(held.len());
        room.push(free + give);
        // A cable in the excluded receptacle leaves it anyway.
        let mut place = station.excluded.filter(|e| !station.things.contains_key(e));
        for receptacle in held.into_iter().rev().take(give) {
            displaced.push(Displaced { from: (node, receptacle), to: place.take().map(|e| (node, e)) });
        }
    }
    (room, displaced)
}

/// A cable with plugs to place.
struct Loose {
    /// The board's cable; none = new.
    cable: Option<usize>,
    /// Node of each plug, and the receptacle of one that stays.
    plugs: [(usize, Option<u32>); 2],
}

/// Receptacles for both plugs, if the rule applies.
type Rule = fn(&Board, &Demand, &Loose, &[BTreeSet<u32>]) -> Option<[u32; 2]>;

const RULES: [Rule; 3] = [regular, beside_one_that_stays, anywhere];

/// Places every plug.
pub fn place(board: &Board, demand: &Demand, choice: &Choice, displaced: Vec<Displaced>) -> Target {
    let mut target = Target { cables: vec![None; board.cables.len()], new: Vec::new(), displaced };
    let mut free: Vec<BTreeSet<u32>> = board.stations.iter().map(|s| s.usable.iter().copied().collect()).collect();
    for (node, station) in board.stations.iter().enumerate() {
        let stays = |r: &&u32| !target.displaced.iter().any(|d| d.from == (node, **r));
        station.things.keys().filter(stays).for_each(|r| {
            free[node].remove(r);
        });
    }
    let mut loose = Vec::new();
    let mut extra = Vec::new();
    for (cable, job) in choice.jobs.iter().enumerate() {
        let ends = board.cables[cable];
        match job {
            Job::Stay => target.cables[cable] = Some(ends),
            Job::Out => continue,
            Job::Serve(wanted) => loose.push(Loose { cable: Some(cable), plugs: serve(board, ends, *wanted) }),
            Job::Tidy => {
                let plugs = ends.map(|end| (end.0, board.usable(end).then_some(end.1)));
                extra.push(Loose { cable: Some(cable), plugs });
            }
        }
        let staying = match job {
            Job::Stay => ends.map(|(node, r)| (node, Some(r))),
            _ => loose.iter().chain(&extra).rfind(|l| l.cable == Some(cable)).map_or([(0, None); 2], |l| l.plugs),
        };
        for (node, receptacle) in staying {
            if let Some(receptacle) = receptacle {
                free[node].remove(&receptacle);
            }
        }
    }
    loose.extend(choice.new.iter().map(|(a, b)| Loose { cable: None, plugs: [(*a, None), (*b, None)] }));
    loose.sort_by_key(|l| (pair(l.plugs[0].0, l.plugs[1].0), l.cable));
    // Second cables of a pair come after those that the topology needs.
    loose.extend(extra);
    for rule in RULES {
        loose.retain(|cable| {
            let Some([a, b]) = rule(board, demand, cable, &free) else { return true };
            let ends = [(cable.plugs[0].0, a), (cable.plugs[1].0, b)];
            for (node, receptacle) in ends {
                free[node].remove(&receptacle);
            }
            match cable.cable {
                Some(c) => target.cables[c] = Some(ends),
                None => target.new.push(ends),
            }
            false
        });
    }
    target.new.sort_by_key(|[a, b]| (pair(a.0, b.0), *a));
    target
}

/// Which plug of a cable stays, and where the others go: as few plugs as possible change the Mac.
fn serve(board: &Board, [one, other]: [End; 2], (a, b): Pair) -> [(usize, Option<u32>); 2] {
    let well = |end: End, node: usize| end.0 == node && board.usable(end);
    let near = |end: End, node: usize| usize::from(end.0 == node) + usize::from(well(end, node));
    // A cable with both plugs in one Mac: only one of them can stay.
    let (for_one, for_other) =
        if near(one, a) + near(other, b) >= near(one, b) + near(other, a) { (a, b) } else { (b, a) };
    [(for_one, well(one, for_one).then_some(one.1)), (for_other, well(other, for_other).then_some(other.1))]
}

fn ideal(board: &Board, demand: &Demand, cable: &Loose) -> [Option<u32>; 2] {
    let number = demand.number(pair(cable.plugs[0].0, cable.plugs[1].0));
    cable.plugs.map(|(node, _)| board.stations[node].usable.get(number).copied())
}

fn regular(board: &Board, demand: &Demand, cable: &Loose, free: &[BTreeSet<u32>]) -> Option<[u32; 2]> {
    let [Some(a), Some(b)] = ideal(board, demand, cable) else { return None };
    let fits = |(node, stays): (usize, Option<u32>), wanted: u32| match stays {
        Some(receptacle) => receptacle == wanted,
        None => free[node].contains(&wanted),
    };
    (fits(cable.plugs[0], a) && fits(cable.plugs[1], b)).then_some([a, b])
}

fn beside_one_that_stays(board: &Board, demand: &Demand, cable: &Loose, free: &[BTreeSet<u32>]) -> Option<[u32; 2]> {
    let wanted = ideal(board, demand, cable);
    let near = |moves: usize, stays: u32| {
        let free = &free[cable.plugs[moves].0];
        let best = [Some(stays), wanted[moves]].into_iter().flatten().find(|r| free.contains(r));
        best.or_else(|| free.first().copied())
    };
    match cable.plugs.map(|(_, stays)| stays) {
        [Some(a), None] => Some([a, near(1, a)?]),
        [None, Some(b)] => Some([near(0, b)?, b]),
        _ => None,
    }
}

fn anywhere(_: &Board, _: &Demand, cable: &Loose, free: &[BTreeSet<u32>]) -> Option<[u32; 2]> {
    let [a, b] = cable.plugs.map(|(node, _)| &free[node]);
    if let Some(same) = a.intersection(b).next() {
        return Some([*same, *same]);
    }
    Some([*a.first()?, *b.first()?])
}
