//! What a topology asks for: which pairs need a cable, and whether the Macs have the receptacles for it.

use super::board::Board;
use crate::model::NodeName;
use crate::model::hardware::{MESH_MAX_NODES, Thunderbolt};

/// How the nodes are to be joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A cable for every pair.
    Mesh,
    /// A cable for every pair of neighbours in a circle.
    Ring,
}

/// Two places of the board, smaller first.
pub type Pair = (usize, usize);

/// A pair in order.
pub fn pair(a: usize, b: usize) -> Pair {
    (a.min(b), a.max(b))
}

/// Pairs that need a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Which topology.
    pub topology: Topology,
    /// The order of the circle; for a mesh the board's.
    pub order: Vec<usize>,
    /// The pairs, ascending.
    pub pairs: Vec<Pair>,
}

impl Demand {
    /// Every pair of `n` nodes.
    pub fn mesh(n: usize) -> Demand {
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
        Demand { topology: Topology::Mesh, order: (0..n).collect(), pairs }
    }

    /// Neighbours in this circle; two nodes have one cable, one has none.
    pub fn ring(order: Vec<usize>) -> Demand {
        let next = order.iter().cycle().skip(1);
        let mut pairs: Vec<Pair> = order.iter().zip(next).map(|(a, b)| pair(*a, *b)).filter(|(a, b)| a != b).collect();
        pairs.sort_unstable();
        pairs.dedup();
        Demand { topology: Topology::Ring, order, pairs }
    }

    /// Cables that end at a node.
    pub fn degree(&self, node: usize) -> usize {
        self.pairs.iter().filter(|(a, b)| *a == node || *b == node).count()
    }

    /// The number of a pair in the regular wiring: its cable takes, on either Mac, the usable receptacle of that
    /// number (from 0). Cables of one node have different numbers.
    ///
    /// A mesh is numbered as a round-robin tournament: pair (i, j), i < j, plays in round i + j − 1 modulo n − 1; in
    /// an even field the last node takes the rounds 2i − 1 that are left; an odd field is one with a free seat.
    /// A ring alternates 0 and 1; an odd one ends with 2.
    pub fn number(&self, (i, j): Pair) -> usize {
        let n = self.order.len();
        match self.topology {
            Topology::Mesh => {
                let seats = n + n % 2;
                let rounds = (seats - 1).max(1);
                let sum = if j + 1 == seats { 2 * i } else { i + j };
                (sum + rounds - 1) % rounds
            }
            Topology::Ring => {
                let at = |node| self.order.iter().position(|x| *x == node).unwrap_or(0);
                let (low, high) = pair(at(i), at(j));
                let edge = if high == low + 1 { low } else { high };
                if n % 2 == 1 && n > 1 && edge + 1 == n { 2 } else { edge % 2 }
            }
        }
    }
}

/// A node that has too few receptacles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Short {
    /// The node.
    pub node: NodeName,
    /// Receptacles that may be used, ascending.
    pub usable: Vec<u32>,
    /// Receptacles that are needed.
    pub needed: usize,
    /// Its front ports look alike and carry no Thunderbolt.
    pub usb_c_front: bool,
    /// The receptacle that may not be used.
    pub excluded: Option<u32>,
}

/// Why a topology is impossible with these Macs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Which topology.
    pub topology: Topology,
    /// Nodes with too few receptacles.
    pub short: Vec<Short>,
    /// More nodes than MLX's mesh takes.
    pub too_many: Option<usize>,
    /// Nodes of the largest full mesh, in order.
    pub largest_mesh: Vec<NodeName>,
}

/// Whether the Macs have the receptacles at all, whatever is plugged in.
///
/// # Errors
/// Names every Mac that has not, and the largest full mesh that is possible.
pub fn possible(board: &Board, demand: &Demand) -> Result<(), Impossible> {
    let nodes = board.stations.len();
    let short: Vec<Short> = (0..nodes)
        .filter(|n| board.stations[*n].usable.len() < demand.degree(*n))
        .map(|n| Short {
            node: board.names[n].clone(),
            usable: board.stations[n].usable.clone(),
            needed: demand.degree(n),
            usb_c_front: board.stations[n].usb_c_front,
            excluded: board.stations[n].excluded,
        })
        .collect();
    let too_many = (demand.topology == Topology::Mesh && nodes > MESH_MAX_NODES as usize).then_some(nodes);
    if short.is_empty() && too_many.is_none() {
        return Ok(());
    }
    let largest = largest_mesh(board).into_iter().map(|n| board.names[n].clone()).collect();
    Err(Impossible { topology: demand.topology, short, too_many, largest_mesh: largest })
}

/// The most nodes that can form a full mesh: of k nodes each needs k − 1 receptacles. Of the nodes that have them those
/// with Thunderbolt 5 come first, which RDMA needs, then the earlier.
fn largest_mesh(board: &Board) -> Vec<usize> {
    let mut by_usable: Vec<usize> = (0..board.stations.len()).collect();
    by_usable.sort_by_key(|n| std::cmp::Reverse(board.stations[*n].usable.len()));
    let fits = |k: &usize| by_usable.get(k - 1).is_some_and(|n| board.stations[*n].usable.len() >= k - 1);
    let most = by_usable.len().min(MESH_MAX_NODES as usize);
    let k = (1..=most).rev().find(fits).unwrap_or(0);
    let mut chosen: Vec<usize> =
        (0..board.stations.len()).filter(|n| board.stations[*n].usable.len() + 1 >= k).collect();
    chosen.sort_by_key(|n| board.stations[*n].thunderbolt != Some(Thunderbolt::Five));
    chosen.truncate(k);
    chosen.sort_unstable();
    chosen
}
