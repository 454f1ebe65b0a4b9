//! Cables whose both ends are members of a bridge carry Ethernet frames from Mac to Mac. macOS' bridge has no loop
//! protection on these ports: a cycle is a broadcast storm (FAILURES C3, Apple TN3205).

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Link, LinkGraph, LinkId};
use crate::model::{NodeName, Snapshot};

/// What live bridges and cables make together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loops {
    /// For each group of Macs with a cycle: every cable that lies on one.
    pub cycles: Vec<Vec<LinkId>>,
    /// Pairs of nodes without a cable between them where the next one would close a cycle.
    pub closing: Vec<(NodeName, NodeName)>,
}

/// The bridge that this end of a link is a member of.
fn bridge_of<'a>(snapshot: &'a Snapshot, link: &Link, node: &NodeName) -> Option<&'a str> {
    let interface = link.interface(node)?;
    let interfaces = snapshot.facts(node)?.interfaces.as_ref().ok()?;
    interfaces.iter().find(|b| b.members.iter().any(|m| m == interface)).map(|b| b.name.as_str())
}

/// One bridge of one node.
type Bridge<'a> = (&'a NodeName, &'a str);

/// Finds cycles among bridged cables. Bridges are the corners, cables with a bridge at both ends the edges.
pub fn loops(graph: &LinkGraph, snapshot: &Snapshot) -> Loops {
    let mut edges: Vec<(&LinkId, Bridge<'_>, Bridge<'_>)> = Vec::new();
    for link in graph.links.values() {
        let (a, b) = (&link.id.a.node, &link.id.b.node);
        if let (Some(one), Some(other)) = (bridge_of(snapshot, link, a), bridge_of(snapshot, link, b)) {
            edges.push((&link.id, (a, one), (b, other)));
        }
    }
    let mut found = Loops::default();
    for (group, count) in groups(&edges, None) {
        // A cable lies on a cycle when its ends stay connected without it.
        let of_group = edges.iter().filter(|(_, one, _)| group.contains(one));
        let on_cycle: Vec<LinkId> = of_group
            .filter(|(id, one, other)| {
                groups(&edges, Some(id)).iter().any(|(g, _)| g.contains(one) && g.contains(other))
            })
            .map(|(id, _, _)| (*id).clone())
            .collect();
        if count >= group.len() {
            found.cycles.push(on_cycle);
            continue;
        }
        let nodes: BTreeSet<&NodeName> = group.iter().map(|(node, _)| *node).collect();
        for one in &nodes {
            for other in nodes.iter().filter(|n| n > &one) {
                if graph.between(one, other).next().is_none() {
                    found.closing.push(((*one).clone(), (*other).clone()));
                }
            }
        }
    }
    found
}

/// Groups of bridges that hang together, each with the number of its cables; one cable may be left out.
fn groups<'a>(
    edges: &[(&LinkId, Bridge<'a>, Bridge<'a>)],
    without: Option<&LinkId>,
) -> Vec<(BTreeSet<Bridge<'a>>, usize)> {
    let mut group_of: BTreeMap<Bridge<'a>, usize> = BTreeMap::new();
    let mut groups: Vec<(BTreeSet<Bridge<'a>>, usize)> = Vec::new();
    for (id, one, other) in edges {
        for end in [one, other] {
            if !group_of.contains_key(end) {
                group_of.insert(*end, groups.len());
                groups.push((BTreeSet::from([*end]), 0));
            }
        }
        if without == Some(*id) {
            continue;
        }
        let (Some(&into), Some(&from)) = (group_of.get(one), group_of.get(other)) else { continue };
        if into != from {
            let Some(moved) = groups.get_mut(from).map(std::mem::take) else { continue };
            group_of.values_mut().filter(|g| **g == from).for_each(|g| *g = into);
            if let Some(target) = groups.get_mut(into) {
                target.0.extend(moved.0);
                target.1 += moved.1;
            }
        }
        if let Some(target) = groups.get_mut(into) {
            target.1 += 1;
        }
    }
    groups.retain(|(members, _)| !members.is_empty());
    groups
}
