//! The fewest cables, found by trying everything: for each cable each of its plugs stays or goes to any Mac, or the
//! cable is taken out; pairs that are left get a new cable. Knows nothing of how the planner thinks.

use macluster::mesh::wiring::{Board, Cost, Topology, WiringPlan, mesh, ring};

use super::{board, simulate};

/// Things that give, then cables, ends and new cables.
type Price = (usize, usize, usize, usize);

/// What the plan really does, counted on its target.
fn price(board: &Board, plan: &WiringPlan) -> Price {
    let mut price = (plan.target.displaced.len(), 0, 0, plan.target.new.len());
    for (now, then) in board.cables.iter().zip(&plan.target.cables) {
        let ends = match then {
            None => 2,
            Some(then) => now.iter().zip(then).filter(|(a, b)| a != b).count(),
        };
        price.1 += usize::from(ends > 0);
        price.2 += ends;
    }
    (price.0, price.1 + price.3, price.2 + 2 * price.3, price.3)
}

struct Search<'a> {
    board: &'a Board,
    /// Sets of pairs any of which will do.
    wanted: Vec<Vec<(usize, usize)>>,
    /// Nodes of each cable's ends as decided, and whether they are other ones than before.
    cables: Vec<(usize, usize)>,
    elsewhere: Vec<(usize, usize)>,
    /// To be beaten.
    best: Price,
    /// Nothing can displace a thing, so cables alone decide.
    bare: bool,
}

impl Search<'_> {
    fn try_all(&mut self, next: usize, cables: usize, ends: usize) {
        if self.bare && (cables, ends) > (self.best.1, self.best.2) {
            return;
        }
        if next == self.board.cables.len() {
            for wanted in 0..self.wanted.len() {
                self.close(wanted, cables, ends);
            }
            return;
        }
        let places = self.board.stations.len();
        let [a, b] = self.board.cables[next];
        self.try_all(next + 1, cables + 1, ends + 2);
        let ways = |end: (usize, u32)| {
            let stay = self.board.stations[end.0].usable.contains(&end.1).then_some((end.0, 0));
            stay.into_iter().chain((0..places).map(|n| (n, 1))).collect::<Vec<_>>()
        };
        let (of_a, of_b) = (ways(a), ways(b));
        for (to_a, moved_a) in &of_a {
            for (to_b, moved_b) in of_b.iter().filter(|(to, _)| to != to_a) {
                let moved = moved_a + moved_b;
                let (then, now) = ((*to_a.min(to_b), *to_a.max(to_b)), (a.0.min(b.0), a.0.max(b.0)));
                self.cables.push(then);
                self.elsewhere.extend((then != now).then_some(then));
                self.try_all(next + 1, cables + usize::from(moved > 0), ends + moved);
                if then != now {
                    self.elsewhere.pop();
                }
                self.cables.pop();
            }
        }
    }

    /// New cables for what is lacking; then everything must find a receptacle.
    fn close(&mut self, wanted: usize, cables: usize, ends: usize) {
        // Nobody carries a cable to a pair that has one, or needs none.
        let needed =
            |p: &&(usize, usize)| self.wanted[wanted].contains(p) && self.cables.iter().filter(|c| c == p).count() == 1;
        if !self.elsewhere.iter().all(|p| needed(&p)) {
            return;
        }
        let lacking: Vec<(usize, usize)> =
            self.wanted[wanted].iter().copied().filter(|p| !self.cables.contains(p)).collect();
        let mut displaced = 0;
        for (node, station) in self.board.stations.iter().enumerate() {
            let plugs = self.cables.iter().chain(&lacking).filter(|(a, b)| *a == node || *b == node).count();
            let things = station.usable.iter().filter(|r| station.things.contains_key(r)).count();
            if plugs > station.usable.len() {
                return;
            }
            displaced += plugs.saturating_sub(station.usable.len() - things);
        }
        let new = lacking.len();
        self.best = self.best.min((displaced, cables + new, ends + 2 * new, new));
    }
}

fn prove(board: &Board, plan: &WiringPlan) {
    simulate::check(board, plan);
    let claimed = price(board, plan);
    let Cost { cables, ends, new } = plan.choice.cost;
    assert_eq!((cables, ends, new), (claimed.1, claimed.2, claimed.3), "the plan does what it says");
    assert!(plan.choice.proven);
    let n = board.stations.len();
    let wanted = match plan.demand.topology {
        Topology::Mesh => vec![(0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect()],
        Topology::Ring => match n {
            2 => vec![vec![(0, 1)]],
            3 => vec![vec![(0, 1), (0, 2), (1, 2)]],
            _ => vec![
                vec![(0, 1), (1, 2), (2, 3), (0, 3)],
                vec![(0, 1), (1, 3), (2, 3), (0, 2)],
                vec![(0, 2), (1, 2), (1, 3), (0, 3)],
            ],
        },
    };
    let bare = board.stations.iter().all(|s| s.things.is_empty());
    let mut search = Search { board, wanted, cables: vec![], elsewhere: vec![], best: claimed, bare };
    search.try_all(0, 0, 0);
    assert_eq!(claimed, search.best, "there is a better wiring of {board:?} than {:?}", plan.target);
}

/// Small numbers, always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }
}

/// A rack with cables anywhere; rings of its nodes are always possible, meshes nearly always.
fn random(dice: &mut Dice) -> Board {
    let nodes = 2 + dice.roll(3);
    let excluded = dice.roll(3) > 0;
    let spare = dice.roll(3);
    let receptacles = u32::try_from((nodes - 1 + spare).max(2)).expect("few") + u32::from(excluded);
    let mut board = board(nodes, receptacles, excluded, dice.roll(3) == 0);
    let mut ends: Vec<(usize, u32)> = (0..nodes).flat_map(|n| (1..=receptacles).map(move |r| (n, r))).collect();
    let things = if dice.roll(4) == 0 { 1 + dice.roll(2) } else { 0 };
    for _ in 0..things {
        let (node, receptacle) = ends.swap_remove(dice.roll(ends.len()));
        board.stations[node].things.insert(receptacle, "dock".to_owned());
    }
    let most = match (nodes, things) {
        (4, 0) => 5,
        (4, _) => 3,
        _ => 5,
    };
    for _ in 0..dice.roll(most + 1) {
        if ends.len() > 1 {
            let one = ends.swap_remove(dice.roll(ends.len()));
            // Mostly pairs that have a cable already: that is what is hard.
            let near = ends.iter().position(|e| e.0 == (one.0 + 1) % nodes).filter(|_| dice.roll(2) == 0);
            let other = near.unwrap_or_else(|| dice.roll(ends.len()));
            board.cables.push([one, ends.swap_remove(other)]);
        }
    }
    board.cables.sort_unstable();
    board
}

#[test]
fn no_wiring_touches_fewer_cables() {
    let mut dice = Dice(5);
    let (mut meshes, mut rings, mut moved) = (0, 0, 0);
    for _ in 0..400 {
        let board = random(&mut dice);
        if let Ok(plan) = mesh(&board) {
            prove(&board, &plan);
            moved += plan.counts(&board).moved;
            meshes += 1;
        }
        let plan = ring(&board).expect("two receptacles each");
        prove(&board, &plan);
        rings += 1;
    }
    assert!(meshes > 300 && rings == 400 && moved > 300, "{meshes} meshes, {rings} rings, {moved} cables moved");
}
