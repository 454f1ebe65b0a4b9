//! Who gets a model from whom: the desk sends it to as few nodes as possible, and those give it to the others over the
//! links between them, which are faster than any desk's network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::mesh::LinkGraph;
use crate::mesh::usable::live_addresses;
use crate::model::{NodeName, Snapshot};

/// For each node, whom it reaches over a link network, and the other's address there.
pub type Reach = BTreeMap<NodeName, BTreeMap<NodeName, Ipv4Addr>>;

/// One node gets the model from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Has it.
    pub from: NodeName,
    /// Gets it.
    pub to: NodeName,
    /// Of `from`, on their link.
    pub at: Ipv4Addr,
}

/// The way of a model to all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relay {
    /// The desk sends to these.
    pub desk: BTreeSet<NodeName>,
    /// Then, one round after the other.
    pub rounds: Vec<Vec<Hop>>,
}

/// From the cables and the addresses that their ends have now.
pub fn reach(snapshot: &Snapshot) -> Reach {
    let mut reach = Reach::new();
    for link in LinkGraph::build(snapshot).links.values() {
        let Some((a, b)) = live_addresses(link, snapshot) else { continue };
        let [(one, _), (other, _)] = link.ends();
        reach.entry(one.node.clone()).or_default().entry(other.node.clone()).or_insert(b);
        reach.entry(other.node.clone()).or_default().entry(one.node.clone()).or_insert(a);
    }
    reach
}

/// Plans it. `lacking`: bytes that each node lacks, of all nodes.
pub fn plan(lacking: &BTreeMap<NodeName, u64>, reach: &Reach) -> Relay {
    let mut relay = Relay::default();
    let mut whole: BTreeSet<&NodeName> = lacking.iter().filter(|(_, bytes)| **bytes == 0).map(|(n, _)| n).collect();
    // As few seeds as it takes that everybody is reached: of those that nobody reaches, the one with most links to others
    // of them, then the one that lacks least.
    let mut seeds = BTreeSet::new();
    loop {
        let served = spread(&whole, lacking, reach);
        let left: BTreeSet<&NodeName> = lacking.keys().filter(|n| !served.contains(n)).collect();
        let links = |n: &NodeName| reach.get(n).map_or(0, |to| to.keys().filter(|o| left.contains(o)).count());
        let best = left.iter().min_by_key(|n| (std::cmp::Reverse(links(n)), lacking.get(**n), **n));
        let Some(seed) = best.copied() else { break };
        seeds.insert(seed.clone());
        whole.insert(seed);
    }
    loop {
        let mut busy: BTreeMap<&NodeName, usize> = BTreeMap::new();
        let mut round = Vec::new();
        for to in lacking.keys().filter(|n| !whole.contains(n)) {
            let givers = reach.get(to).into_iter().flatten().filter(|(n, _)| whole.contains(n));
            let free = givers.min_by_key(|(n, _)| (busy.get(n).copied().unwrap_or(0), *n));
            if let Some((from, at)) = free {
                *busy.entry(from).or_default() += 1;
                round.push(Hop { from: from.clone(), to: to.clone(), at: *at });
            }
        }
        if round.is_empty() {
            break;
        }
        whole.extend(lacking.keys().filter(|n| round.iter().any(|h| h.to == **n)));
        relay.rounds.push(round);
    }
    relay.desk = seeds;
    relay
}

/// Everybody whom these reach, over any number of links.
fn spread<'a>(
    from: &BTreeSet<&'a NodeName>,
    all: &'a BTreeMap<NodeName, u64>,
    reach: &Reach,
) -> BTreeSet<&'a NodeName> {
    let mut seen = from.clone();
    let mut next: Vec<&NodeName> = from.iter().copied().collect();
    while let Some(node) = next.pop() {
        for other in all.keys().filter(|o| reach.get(node).is_some_and(|to| to.contains_key(o))) {
            if seen.insert(other) {
                next.push(other);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: &str) -> NodeName {
        n.parse().expect("a name")
    }

    fn rack(bytes: &[(&str, u64)], links: &[(&str, &str)]) -> Relay {
        let lacking = bytes.iter().map(|(n, b)| (name(n), *b)).collect();
        let mut all = Reach::new();
        for (a, b) in links {
            for (x, y) in [(a, b), (b, a)] {
                all.entry(name(x)).or_default().insert(name(y), Ipv4Addr::new(10, 0, 0, y.as_bytes()[0]));
            }
        }
        plan(&lacking, &all)
    }

    fn told(relay: &Relay) -> (String, Vec<String>) {
        let desk: Vec<&str> = relay.desk.iter().map(NodeName::as_str).collect();
        let round = |r: &Vec<Hop>| r.iter().map(|h| format!("{}>{}", h.from, h.to)).collect::<Vec<_>>().join(" ");
        (desk.join(" "), relay.rounds.iter().map(round).collect())
    }

    #[test]
    fn one_node_of_a_mesh_gets_it_from_the_desk_and_gives_it_to_all() {
        let mesh = [("a", "b"), ("a", "c"), ("b", "c")];
        let relay = rack(&[("a", 9), ("b", 9), ("c", 9)], &mesh);
        assert_eq!(told(&relay), ("a".to_owned(), vec!["a>b a>c".to_owned()]));
        assert_eq!(relay.rounds[0][0].at, Ipv4Addr::new(10, 0, 0, b'a'), "the giver's address");
        // The one that lacks least is the cheapest seed.
        assert_eq!(told(&rack(&[("a", 9), ("b", 2), ("c", 9)], &mesh)).0, "b");
    }

    #[test]
    fn nothing_leaves_the_desk_when_a_node_has_it_all() {
        let mesh = [("a", "b"), ("a", "c"), ("b", "c")];
        let relay = rack(&[("a", 9), ("b", 0), ("c", 9)], &mesh);
        assert_eq!(told(&relay), (String::new(), vec!["b>a b>c".to_owned()]));
        // Two that have it share the work.
        let mesh = [("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")];
        let relay = rack(&[("a", 0), ("b", 0), ("c", 9), ("d", 9)], &mesh);
        assert_eq!(told(&relay), (String::new(), vec!["a>c b>d".to_owned()]));
        assert_eq!(rack(&[("a", 0), ("b", 0)], &[("a", "b")]), Relay::default());
    }

    #[test]
    fn a_ring_is_walked_and_a_node_without_a_link_gets_it_from_the_desk() {
        let ring = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")];
        let relay = rack(&[("a", 9), ("b", 9), ("c", 9), ("d", 9)], &ring);
        assert_eq!(told(&relay), ("a".to_owned(), vec!["a>b a>d".to_owned(), "b>c".to_owned()]));
        let relay = rack(&[("a", 9), ("b", 9), ("c", 9)], &[("b", "c")]);
        assert_eq!(told(&relay), ("a b".to_owned(), vec!["b>c".to_owned()]));
        assert_eq!(told(&rack(&[("a", 9), ("b", 9)], &[])), ("a b".to_owned(), Vec::new()));
    }
}
