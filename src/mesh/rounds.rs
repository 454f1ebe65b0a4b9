//! Links put into rounds so that no node is in two links of a round: an edge colouring.
//!
//! Each rail is coloured for itself, in at most one round more than the most links that end at one node (Vizing's
//! theorem), after J. Misra and D. Gries, "A constructive proof of Vizing's theorem", 1992.

use std::collections::BTreeMap;

/// The rounds: each a list of indices into `links`, every link in exactly one round. `links` are pairs of node numbers;
/// the k-th link between the same two nodes is on rail k. A link from a node to itself is in no round.
pub fn rounds(links: &[(usize, usize)]) -> Vec<Vec<usize>> {
    let mut rails: Vec<BTreeMap<(usize, usize), usize>> = Vec::new();
    for (index, (one, other)) in links.iter().enumerate().filter(|(_, (one, other))| one != other) {
        let pair = (*one.min(other), *one.max(other));
        match rails.iter_mut().find(|rail| !rail.contains_key(&pair)) {
            Some(rail) => drop(rail.insert(pair, index)),
            None => rails.push(BTreeMap::from([(pair, index)])),
        }
    }
    rails.iter().flat_map(rail_rounds).collect()
}

/// The rounds of a rail, without empty ones.
fn rail_rounds(rail: &BTreeMap<(usize, usize), usize>) -> Vec<Vec<usize>> {
    let coloring = Coloring::of(rail.keys().copied());
    let mut rounds = vec![Vec::new(); coloring.colors];
    for (pair, index) in rail {
        if let Some(round) = coloring.color(pair.0, pair.1).and_then(|c| rounds.get_mut(c)) {
            round.push(*index);
        }
    }
    rounds.retain(|r: &Vec<usize>| !r.is_empty());
    rounds
}

/// Colours of a simple graph's edges.
struct Coloring {
    colors: usize,
    /// By node: the neighbour that each colour leads to.
    ends: BTreeMap<usize, BTreeMap<usize, usize>>,
}

impl Coloring {
    fn of(edges: impl Iterator<Item = (usize, usize)> + Clone) -> Self {
        let mut degrees: BTreeMap<usize, usize> = BTreeMap::new();
        for (one, other) in edges.clone() {
            *degrees.entry(one).or_default() += 1;
            *degrees.entry(other).or_default() += 1;
        }
        let colors = degrees.values().max().map_or(0, |most| most + 1);
        let mut all = Coloring { colors, ends: degrees.into_keys().map(|n| (n, BTreeMap::new())).collect() };
        for (one, other) in edges {
            all.add(one, other);
        }
        all
    }

    fn color(&self, one: usize, other: usize) -> Option<usize> {
        self.ends.get(&one)?.iter().find(|(_, end)| **end == other).map(|(color, _)| *color)
    }

    fn is_free(&self, node: usize, color: usize) -> bool {
        self.ends.get(&node).is_none_or(|ends| !ends.contains_key(&color))
    }

    /// There always is one: there are more colours than edges at any node.
    fn free(&self, node: usize) -> usize {
        (0..self.colors).find(|c| self.is_free(node, *c)).unwrap_or_default()
    }

    fn set(&mut self, one: usize, other: usize, color: usize) {
        self.ends.entry(one).or_default().insert(color, other);
        self.ends.entry(other).or_default().insert(color, one);
    }

    fn clear(&mut self, one: usize, other: usize) {
        if let Some(color) = self.color(one, other) {
            for node in [one, other] {
                self.ends.entry(node).or_default().remove(&color);
            }
        }
    }

    /// Colours one more edge, and others anew where it must be.
    fn add(&mut self, hub: usize, first: usize) {
        let fan = self.fan(hub, first);
        let own = self.free(hub);
        let last = self.free(fan.last().copied().unwrap_or(first));
        self.invert(hub, last, own);
        // The shortest part of the fan that still is one, and whose end has that colour free.
        let mut length = 1;
        for (i, node) in fan.iter().enumerate() {
            let previous = i.checked_sub(1).and_then(|p| fan.get(p));
            let stays = previous.is_none_or(|p| self.color(hub, *node).is_some_and(|c| self.is_free(*p, c)));
            if !stays {
                break;
            }
            length = i + 1;
            if self.is_free(*node, last) {
                break;
            }
        }
        let part = fan.get(..length).unwrap_or_default();
        let mut colors: Vec<usize> = part.iter().skip(1).filter_map(|n| self.color(hub, *n)).collect();
        colors.push(last);
        for node in part {
            self.clear(hub, *node);
        }
        for (node, color) in part.iter().zip(colors) {
            self.set(hub, *node, color);
        }
    }

    /// Neighbours of the hub, the first without a colour yet; each next one's colour is free at the one before.
    fn fan(&self, hub: usize, first: usize) -> Vec<usize> {
        let mut fan = vec![first];
        let neighbours = self.ends.get(&hub).cloned().unwrap_or_default();
        while let Some(next) = fan.last().and_then(|last| {
            neighbours.iter().find(|(color, node)| !fan.contains(node) && self.is_free(*last, **color)).map(|(_, n)| *n)
        }) {
            fan.push(next);
        }
        fan
    }

    /// Exchanges two colours along the path that leaves a node by the first of them.
    fn invert(&mut self, from: usize, color: usize, other: usize) {
        let mut path = Vec::new();
        let (mut node, mut wanted, mut next) = (from, color, other);
        while let Some(end) = self.ends.get(&node).and_then(|e| e.get(&wanted)).copied() {
            path.push((node, end, next));
            node = end;
            std::mem::swap(&mut wanted, &mut next);
        }
        for (one, end, _) in &path {
            self.clear(*one, *end);
        }
        for (one, end, color) in &path {
            self.set(*one, *end, *color);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Every link once, no node twice in a round; gives the number of rounds.
    fn checked(links: &[(usize, usize)]) -> usize {
        let all = rounds(links);
        let mut seen: Vec<usize> = all.iter().flatten().copied().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..links.len()).collect::<Vec<_>>(), "{all:?}");
        for round in &all {
            let nodes: Vec<usize> = round.iter().flat_map(|l| [links[*l].0, links[*l].1]).collect();
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "{round:?} of {links:?}");
        }
        all.len()
    }

    fn most(links: &[(usize, usize)]) -> usize {
        let at = |node: usize| links.iter().filter(|(a, b)| *a == node || *b == node).count();
        links.iter().flat_map(|(a, b)| [at(*a), at(*b)]).max().unwrap_or(0)
    }

    fn mesh(n: usize) -> Vec<(usize, usize)> {
        (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
    }

    #[test]
    fn racks_as_they_are_built() {
        assert_eq!(checked(&[]), 0);
        assert_eq!(checked(&[(0, 1)]), 1);
        // One node's links follow one another; the links of a triangle too.
        assert_eq!(checked(&[(0, 1), (0, 2), (0, 3)]), 3);
        assert_eq!(checked(&mesh(3)), 3);
        for n in 2..12 {
            assert!(checked(&mesh(n)) <= n, "a mesh of {n}");
        }
        // Two rails between the same two nodes are two rounds.
        assert_eq!(checked(&[(0, 1), (1, 0)]), 2);
        assert_eq!(rounds(&[(4, 4)]), Vec::<Vec<usize>>::new());
    }

    proptest! {
        #[test]
        fn any_cabling(pairs in proptest::collection::btree_set((0usize..10, 0usize..10), 0..45)) {
            let links: BTreeSet<_> = pairs.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).collect();
            let links: Vec<_> = links.into_iter().collect();
            prop_assert!(checked(&links) <= most(&links) + 1);
        }

        #[test]
        fn any_cabling_with_rails(pairs in proptest::collection::vec((0usize..6, 6usize..9), 0..40)) {
            checked(&pairs);
        }
    }
}
