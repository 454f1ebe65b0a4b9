//! Which cable serves which pair, so that the fewest cables are touched.
//!
//! Only the number of receptacles of each node matters here, not which. A *cable that is touched* is one that is
//! moved, taken out, or new; of plans that touch as few cables the one that touches fewer *ends* is taken (one plug
//! moved 1, both 2, a new cable 2, one taken out 2), then the one that needs fewer new cables.
//!
//! 1. A pair with a good cable keeps one: were it touched, another cable would have to take its place.
//! 2. A cable is moved to another pair only when it will be the only one there: a second cable that nobody needs does
//!    not travel.
//! 3. What is left are spare cables (second ones, those with a plug in an excluded receptacle, those with both plugs
//!    in one Mac) and pairs that lack one. Suppose the set of spares that stay (moved within their Macs when a plug is
//!    in an excluded receptacle) is given; M others are released and L pairs lack a cable. Every pair costs one cable,
//!    every released spare beyond L is taken out, so max(M, L) cables are touched, besides the stayers that had to be
//!    moved. A released spare serves a pair with one plug moved when its other plug sits well at one of the pair's
//!    nodes, else with two; with m of the first kind 2·max(M, L) − m ends are touched. m is largest for a maximum
//!    bipartite matching.
//! 4. So only the set of stayers is searched for, by branch and bound.

use super::board::{Board, End};
use super::demand::{Demand, Pair, pair};

/// How far a search goes; several choices may share one.
#[derive(Debug)]
pub struct Effort {
    /// Branches left. At 0 the search ends with the best plan found.
    branches: u32,
    /// Only what is cheaper is of interest, or as cheap if `true`.
    beat: Option<(Cost, bool)>,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { branches: 20_000, beat: None }
    }
}

impl Effort {
    /// From now on only what is cheaper than this, or as cheap.
    pub fn beat(&mut self, cost: Cost, or_equal: bool) {
        self.beat = Some((cost, or_equal));
    }

    /// Every search came to its end.
    pub fn sufficed(&self) -> bool {
        self.branches > 0
    }
}

/// What becomes of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// It stays as it is.
    Stay,
    /// It stays between its Macs; plugs in excluded receptacles move.
    Tidy,
    /// It is moved to this pair.
    Serve(Pair),
    /// It is taken out.
    Out,
}

/// What a plan costs; the smaller is better, from left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Cables that are moved, taken out, or new.
    pub cables: usize,
    /// Ends of cables that are touched.
    pub ends: usize,
    /// New cables.
    pub new: usize,
}

/// The choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// For each cable of the board.
    pub jobs: Vec<Job>,
    /// Pairs that get a new cable, ascending.
    pub new: Vec<Pair>,
    /// What it costs.
    pub cost: Cost,
    /// The search came to its end: nothing is cheaper.
    pub proven: bool,
}

/// Chooses. `room` is the number of receptacles of each node that cables may take, at least the demand's degree.
/// None when nothing is as cheap as was asked for.
pub fn choose(board: &Board, demand: &Demand, room: &[usize], effort: &mut Effort) -> Option<Choice> {
    let mut jobs = vec![Job::Stay; board.cables.len()];
    let mut lacking = Vec::new();
    let mut spare: Vec<usize> = (0..board.cables.len()).collect();
    for wanted in &demand.pairs {
        let good = spare.iter().copied().filter(|c| board.good(board.cables[*c]) && joins(board, *c) == *wanted);
        match good.min_by_key(|c| (irregular(board, demand, *wanted, *c), *c)) {
            Some(kept) => spare.retain(|c| *c != kept),
            None => lacking.push(*wanted),
        }
    }
    // Cables that are alike for the search stand together; of those the regular one stays first.
    spare.sort_by_key(|c| (kind(board, *c), irregular(board, demand, joins(board, *c), *c), *c));
    let slack: Vec<usize> = (0..room.len()).map(|n| room[n].saturating_sub(demand.degree(n))).collect();
    let (l, s) = (lacking.len(), spare.len());
    let limited = effort.beat.is_some();
    let mut search = Search { board, lacking: &lacking, spare: &spare, best: None, effort, most: s.saturating_sub(l) };
    search.branch(&mut vec![], &mut slack.clone());
    let (best, proven) = (search.best.take(), search.effort.sufficed());
    let (cost, stay) = match best {
        Some(best) => best,
        None if limited => return None,
        // Releasing every spare is always possible.
        None => (Cost { cables: s.max(l), ends: 2 * s.max(l), new: l.saturating_sub(s) }, vec![false; s]),
    };
    let released: Vec<usize> = spare.iter().zip(&stay).filter(|(_, stays)| !**stays).map(|(c, _)| *c).collect();
    for (cable, _) in spare.iter().zip(&stay).filter(|(_, stays)| **stays) {
        jobs[*cable] = if board.good(board.cables[*cable]) { Job::Stay } else { Job::Tidy };
    }
    let staying = (spare.iter().zip(&stay)).filter(|(_, stays)| **stays).map(|(c, _)| *c).collect::<Vec<_>>();
    let mut served = serve(board, &lacking, &released, &staying).unwrap_or_else(|| vec![None; l]);
    let mut idle: Vec<usize> = (0..released.len()).filter(|r| !served.contains(&Some(*r))).collect();
    for (slot, of) in served.iter_mut().zip(&lacking).filter(|(s, _)| s.is_none()) {
        let own = idle.iter().position(|r| joins(board, released[*r]) == *of);
        *slot = (!idle.is_empty()).then(|| idle.remove(own.unwrap_or(0)));
    }
    for cable in &released {
        jobs[*cable] = Job::Out;
    }
    let mut new = Vec::new();
    for (wanted, by) in lacking.iter().zip(served) {
        match by {
            Some(r) => jobs[released[r]] = Job::Serve(*wanted),
            None => new.push(*wanted),
        }
    }
    Some(Choice { jobs, new, cost, proven })
}

/// The pair a cable joins.
fn joins(board: &Board, cable: usize) -> Pair {
    let [a, b] = board.cables[cable];
    pair(a.0, b.0)
}

/// How far a cable is from the regular wiring: plugs in other receptacles, and whether the two numbers differ.
fn irregular(board: &Board, demand: &Demand, of: Pair, cable: usize) -> (usize, bool) {
    let [a, b] = board.cables[cable];
    let number = demand.number(of);
    let off = |end: End| board.stations[end.0].usable.get(number) != Some(&end.1);
    (usize::from(off(a)) + usize::from(off(b)), a.1 != b.1)
}

/// Cables of one kind are interchangeable: same Macs, same plugs in receptacles they must leave.
fn kind(board: &Board, cable: usize) -> [(usize, bool); 2] {
    let mut plugs = board.cables[cable].map(|end| (end.0, board.usable(end)));
    plugs.sort_unstable();
    plugs
}

struct Search<'a> {
    board: &'a Board,
    lacking: &'a [Pair],
    spare: &'a [usize],
    best: Option<(Cost, Vec<bool>)>,
    effort: &'a mut Effort,
    /// More stayers than this only mean new cables instead of spare ones.
    most: usize,
}

impl Search<'_> {
    /// Decides for one more spare whether it stays.
    fn branch(&mut self, stay: &mut Vec<bool>, slack: &mut [usize]) {
        let bound = self.bound(stay, slack);
        if self.effort.branches == 0 || !self.promises(bound) {
            return;
        }
        self.effort.branches -= 1;
        let Some(&cable) = self.spare.get(stay.len()) else {
            let Some(cost) = self.leaf(stay) else { return };
            if self.promises(cost) {
                self.best = Some((cost, stay.clone()));
            }
            return;
        };
        let [a, b] = self.board.cables[cable];
        let twin_left =
            stay.last() == Some(&false) && kind(self.board, self.spare[stay.len() - 1]) == kind(self.board, cable);
        let room = a.0 != b.0 && slack[a.0] > 0 && slack[b.0] > 0;
        if room && !twin_left && stay.iter().filter(|s| **s).count() < self.most {
            slack[a.0] -= 1;
            slack[b.0] -= 1;
            stay.push(true);
            self.branch(stay, slack);
            stay.pop();
            slack[a.0] += 1;
            slack[b.0] += 1;
        }
        stay.push(false);
        self.branch(stay, slack);
        stay.pop();
    }

    /// Cheaper than what is known.
    fn promises(&self, cost: Cost) -> bool {
        let beats = |(known, or_equal): (Cost, bool)| cost < known || or_equal && cost == known;
        self.effort.beat.is_none_or(beats) && self.best.as_ref().is_none_or(|(best, _)| cost < *best)
    }

    /// Stayers whose plugs have to move: cables, ends.
    fn tidied(&self, stay: &[bool]) -> (usize, usize) {
        let ends = self
            .spare
            .iter()
            .zip(stay)
            .filter(|(_, stays)| **stays)
            .map(|(c, _)| self.board.cables[*c].into_iter().filter(|end| !self.board.usable(*end)).count());
        ends.fold((0, 0), |(cables, ends), e| (cables + usize::from(e > 0), ends + e))
    }

    fn leaf(&self, stay: &[bool]) -> Option<Cost> {
        let with = |wanted: bool| -> Vec<usize> {
            self.spare.iter().zip(stay).filter(|(_, s)| **s == wanted).map(|(c, _)| *c).collect()
        };
        let released = with(false);
        let served = serve(self.board, self.lacking, &released, &with(true))?;
        let easy =
            served.iter().zip(self.lacking).filter(|(s, p)| s.is_some_and(|r| easy(self.board, released[r], **p)));
        let easy = easy.count();
        let most = released.len().max(self.lacking.len());
        let (cables, ends) = self.tidied(stay);
        Some(Cost {
            cables: most + cables,
            ends: 2 * most - easy + ends,
            new: self.lacking.len().saturating_sub(released.len()),
        })
    }

    /// No leaf below this branch is cheaper. Of the spares that are still to be decided on those go that find no room:
    /// each frees two receptacles at most.
    fn bound(&self, stay: &[bool], slack: &[usize]) -> Cost {
        let open = self.spare.get(stay.len()..).unwrap_or_default();
        let mut plugs = vec![0; slack.len()];
        for end in open.iter().flat_map(|c| self.board.cables[*c]) {
            plugs[end.0] += 1;
        }
        let excess: usize = plugs.iter().zip(slack).map(|(plugs, room): (&usize, _)| plugs.saturating_sub(*room)).sum();
        let so_far = stay.iter().filter(|s| !**s).count();
        let released = (so_far + excess.div_ceil(2)).max(self.spare.len() - self.most);
        let most = released.max(self.lacking.len());
        let (cables, ends) = self.tidied(stay);
        let all = so_far + open.len();
        Cost {
            cables: most + cables,
            ends: 2 * most - all.min(self.lacking.len()) + ends,
            new: self.lacking.len().saturating_sub(all),
        }
    }
}

/// A spare serves the pair by moving one plug: the other sits in a usable receptacle of one of its nodes.
fn easy(board: &Board, cable: usize, (a, b): Pair) -> bool {
    board.cables[cable].into_iter().any(|end| (end.0 == a || end.0 == b) && board.usable(end))
}

/// For each pair the released cable (by its place in `released`) that serves it, so that as many as possible move one
/// plug only; some pairs are left to whatever cables remain. A pair at which a second cable of its own stays is served
/// by one of its own; none when that is released nowhere.
fn serve(board: &Board, lacking: &[Pair], released: &[usize], staying: &[usize]) -> Option<Vec<Option<usize>>> {
    let mut server: Vec<Option<usize>> = vec![None; lacking.len()];
    let mut bound = vec![false; released.len()];
    let mut fixed = vec![false; lacking.len()];
    for (wanted, of) in lacking.iter().enumerate() {
        if staying.iter().any(|c| joins(board, *c) == *of) {
            let own = (0..released.len()).filter(|r| joins(board, released[*r]) == *of);
            let own = own.min_by_key(|r| !easy(board, released[*r], *of))?;
            (server[wanted], bound[own], fixed[wanted]) = (Some(own), true, true);
        }
    }
    // Of choices that move as few plugs a cable stays with its own pair.
    for (wanted, of) in lacking.iter().enumerate().filter(|(w, _)| !fixed[*w]) {
        let own = (0..released.len()).find(|r| joins(board, released[*r]) == *of && easy(board, released[*r], *of));
        if let Some(own) = own {
            (server[wanted], bound[own]) = (Some(own), true);
        }
    }
    for cable in (0..released.len()).filter(|r| !bound[*r]) {
        let mut tried = fixed.clone();
        augment(board, lacking, released, cable, &mut server, &mut tried);
    }
    Some(server)
}

fn augment(
    board: &Board,
    lacking: &[Pair],
    released: &[usize],
    cable: usize,
    server: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    // One that nobody serves before one that another cable would have to leave.
    let (taken, idle): (Vec<usize>, Vec<usize>) = (0..lacking.len()).partition(|w| server[*w].is_some());
    for wanted in idle.into_iter().chain(taken) {
        if tried[wanted] || !easy(board, released[cable], lacking[wanted]) {
            continue;
        }
        tried[wanted] = true;
        if server[wanted].is_none_or(|other| augment(board, lacking, released, other, server, tried)) {
            server[wanted] = Some(cable);
            return true;
        }
    }
    false
}
