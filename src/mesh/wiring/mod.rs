//! Plans how the Macs of a rack are to be cabled: which cable goes where, touching as few as possible, and the order
//! of the steps at the rack. Pure: facts in, plan out.
//!
//! [`Board`] is what is there, [`Demand`] what the topology asks for; [`assign`] decides which cable serves which
//! pair, [`place`] which receptacles the plugs take, [`order`] the order of the steps.

pub mod assign;
pub mod board;
pub mod demand;
pub mod live;
pub mod order;
pub mod place;

pub use assign::{Choice, Cost, Effort, Job};
pub use board::{Board, Bridge, End, Station, Unknown};
pub use demand::{Demand, Impossible, Pair, Short, Topology};
pub use order::{Plugs, Step};
pub use place::{Displaced, Target};

/// Rings of up to this many nodes are all compared.
const ALL_RINGS: usize = 8;

/// A wiring and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WiringPlan {
    /// Which pairs need a cable.
    pub demand: Demand,
    /// What is touched.
    pub choice: Choice,
    /// Where every plug ends up.
    pub target: Target,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// How many cables a plan touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cables that stay where they are.
    pub stay: usize,
    /// Cables with a plug that moves.
    pub moved: usize,
    /// New cables.
    pub new: usize,
    /// Cables that are taken out.
    pub removed: usize,
    /// Cables that stay, unplugged on the way and put back.
    pub put_back: usize,
    /// Things that have to give.
    pub given: usize,
}

impl WiringPlan {
    /// Counts what is touched.
    pub fn counts(&self, board: &Board) -> Counts {
        let mut counts = Counts {
            new: self.target.new.len(),
            given: self.steps.iter().filter(|s| matches!(s, Step::Give(_))).count(),
            ..Counts::default()
        };
        for (cable, (now, then)) in board.cables.iter().zip(&self.target.cables).enumerate() {
            match then {
                None => counts.removed += 1,
                Some(then) if then != now => counts.moved += 1,
                Some(_) => {
                    let touched = |s: &Step| matches!(s, Step::Cable { cable: c, .. } if *c == cable);
                    counts.put_back += usize::from(self.steps.iter().any(touched));
                    counts.stay += 1;
                }
            }
        }
        counts
    }

    /// All cables as they are in the end, in the order of their ends.
    pub fn wiring(&self) -> Vec<[End; 2]> {
        let mut wiring: Vec<[End; 2]> = self.target.cables.iter().flatten().chain(&self.target.new).copied().collect();
        for ends in &mut wiring {
            ends.sort_unstable();
        }
        wiring.sort_by_key(|[a, b]| (a.0, b.0, a.1));
        wiring
    }
}

/// Plans a full mesh.
///
/// # Errors
/// When the Macs have not the receptacles for it.
pub fn mesh(board: &Board) -> Result<WiringPlan, Impossible> {
    let demand = Demand::mesh(board.stations.len());
    demand::possible(board, &demand)?;
    Ok(plan(board, demand))
}

/// Plans a ring: of all rings (for more than eight nodes: of the board's order and one that the good cables form
/// already) the one that touches the fewest cables, and of those the one nearest to the board's order.
///
/// # Errors
/// When a Mac has not two receptacles for it.
pub fn ring(board: &Board) -> Result<WiringPlan, Impossible> {
    let n = board.stations.len();
    demand::possible(board, &Demand::ring((0..n).collect()))?;
    let mut good = vec![false; n * n];
    for [a, b] in board.cables.iter().filter(|c| board.good(**c)) {
        good[a.0 * n + b.0] = true;
        good[b.0 * n + a.0] = true;
    }
    let joined = |a: usize, b: usize| good[a * n + b];
    let mut orders = vec![(0..n).collect::<Vec<usize>>()];
    if n <= ALL_RINGS {
        orders = circles(n);
    } else {
        orders.extend(super::ring::cycle(n, &joined));
    }
    // Each pair without a good cable touches one at least: the most promising circles first.
    let least = |order: &Vec<usize>| {
        let pairs = Demand::ring(order.clone()).pairs;
        pairs.iter().filter(|(a, b)| !joined(*a, *b)).count()
    };
    orders.sort_by_cached_key(least);
    let mut best: Option<(Demand, Choice)> = None;
    let mut effort = Effort::default();
    for order in orders {
        if let Some((known, choice)) = &best {
            effort.beat(choice.cost, order < known.order);
        }
        let demand = Demand::ring(order);
        if let Some(choice) = assign::choose(board, &demand, &place::room(board, &demand).0, &mut effort) {
            best = Some((demand, choice));
        }
    }
    let Some((demand, mut choice)) = best else { return Ok(plan(board, Demand::ring((0..n).collect()))) };
    choice.proven = effort.sufficed() && n <= ALL_RINGS || choice.cost.cables == 0;
    Ok(finish(board, demand, choice))
}

fn plan(board: &Board, demand: Demand) -> WiringPlan {
    let choice = assign::choose(board, &demand, &place::room(board, &demand).0, &mut Effort::default());
    // Without anything to beat there is always a choice.
    finish(board, demand, choice.unwrap_or_default())
}

fn finish(board: &Board, demand: Demand, choice: Choice) -> WiringPlan {
    let (_, displaced) = place::room(board, &demand);
    let target = place::place(board, &demand, &choice, displaced);
    let steps = order::order(board, &target);
    WiringPlan { demand, choice, target, steps }
}

/// Every circle through `0..n` that begins at 0, once for both directions, in alphabetical order.
fn circles(n: usize) -> Vec<Vec<usize>> {
    fn extend(n: usize, path: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if path.len() == n {
            if n < 3 || path.get(1) < path.last() {
                out.push(path.clone());
            }
            return;
        }
        for next in 1..n {
            if !path.contains(&next) {
                path.push(next);
                extend(n, path, out);
                path.pop();
            }
        }
    }
    let mut out = Vec::new();
    if n > 0 {
        extend(n, &mut vec![0], &mut out);
    }
    out
}
