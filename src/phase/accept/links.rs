//! Which pairs of nodes are measured over what, and which of them stand out.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::measure::How;
use super::report::{End, LinkFigure};
use crate::agent::config::RankFile;
use crate::mesh::ranks::{COORDINATOR_PORT, RING_PORT, management_address};
use crate::mesh::usable::{live_addresses, rdma_device, rdma_ready};
use crate::mesh::{CableEnd, Link, LinkGraph};
use crate::model::hardware::Mac;
use crate::model::{Inventory, NodeName, Snapshot};

/// Fewer links have no median that an outlier could stand out from.
const FEWEST: usize = 3;
/// Below this part of the median bandwidth a link is an outlier.
const SLOW: f64 = 0.8;
/// Above this multiple of the median latency a link is an outlier.
const LATE: f64 = 3.0;

/// The configuration of one rank, as it lies on its node.
#[derive(Clone, Debug)]
pub struct RankConfig {
    /// `rank.json`.
    pub file: RankFile,
    /// The hostfile or device matrix; none for one rank.
    pub peers: Option<Value>,
}

/// What tensors of a service cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crosses {
    /// RDMA over cables.
    Rdma,
    /// TCP over cables.
    Links,
    /// TCP over the network that carries SSH.
    Management,
    /// Nothing: there is one rank.
    Nothing,
}

impl Crosses {
    /// What the ranks, in order, are told to use.
    pub fn of(ranks: &[RankConfig], graph: &LinkGraph, snapshot: &Snapshot) -> Self {
        let Some(first) = ranks.first().filter(|_| ranks.len() > 1) else { return Crosses::Nothing };
        if first.file.mlx_backend == "jaccl" {
            return Crosses::Rdma;
        }
        let live: BTreeSet<Ipv4Addr> =
            graph.links.values().filter_map(|l| live_addresses(l, snapshot)).flat_map(|(a, b)| [a, b]).collect();
        let told = first.peers.iter().flat_map(|p| p.as_array().into_iter().flatten());
        let ip = |s: &Value| s.as_str()?.rsplit_once(':')?.0.parse::<Ipv4Addr>().ok();
        let mut told = told.flat_map(|row| row.as_array().into_iter().flatten()).filter_map(ip);
        if told.any(|ip| live.contains(&ip)) { Crosses::Links } else { Crosses::Management }
    }

    /// The word in the report.
    pub fn as_str(self) -> &'static str {
        match self {
            Crosses::Rdma | Crosses::Links => "links",
            Crosses::Management => "management",
            Crosses::Nothing => "none",
        }
    }
}

/// Two nodes and how they reach each other, to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Rank 0.
    pub a: End,
    /// Rank 1.
    pub b: End,
    /// What they use.
    pub how: How,
}

/// What there is to measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Measurable.
    pub pairs: Vec<Pair>,
    /// Cables that cannot be measured, each with the reason.
    pub unmeasurable: Vec<String>,
}

/// Every cable of the rack, or, for ranks that use the management network, every pair of them.
pub fn pairs(
    crosses: Crosses,
    inventory: &Inventory,
    snapshot: &Snapshot,
    graph: &LinkGraph,
    ranks: &[RankConfig],
) -> Pairs {
    let mut all = Pairs::default();
    if crosses == Crosses::Management {
        all.pairs = management(inventory, ranks);
        return all;
    }
    for link in graph.links.values() {
        let [a, b] = link.ends().map(|(end, interface)| place(end, interface, inventory, snapshot));
        match how(crosses, link, inventory, snapshot) {
            Ok(how) => all.pairs.push(Pair { a, b, how }),
            Err(why) => all.unmeasurable.push(format!("the cable {} – {} {why}", a.place, b.place)),
        }
    }
    all
}

fn place(end: &CableEnd, interface: Option<&str>, inventory: &Inventory, snapshot: &Snapshot) -> End {
    let receptacle = match snapshot.facts(&end.node) {
        Some(facts) => Mac::of(facts).place(end.receptacle, interface),
        None => format!("receptacle {}", end.receptacle),
    };
    let place = format!("{} {receptacle}", inventory.label(&end.node));
    End { node: end.node.clone(), receptacle: Some(end.receptacle), place }
}

fn how(crosses: Crosses, link: &Link, inventory: &Inventory, snapshot: &Snapshot) -> Result<How, String> {
    let addresses = live_addresses(link, snapshot);
    let [a, b] = [&link.id.a.node, &link.id.b.node];
    if crosses == Crosses::Rdma {
        rdma_ready(link, snapshot, addresses)?;
        let device = |node: &NodeName| {
            let interface = link.interface(node).ok_or_else(|| format!("has no known interface on {node}"));
            interface.map(rdma_device)
        };
        let ip =
            management_address(snapshot, a).ok_or_else(|| format!("ends in {a}, whose IPv4 address is unknown"))?;
        return Ok(How::Jaccl {
            devices: json!([[null, device(a)?], [device(b)?, null]]),
            coordinator: format!("{ip}:{}", port(inventory, a, COORDINATOR_PORT)?),
            ring: false,
        });
    }
    let (ours, theirs) = addresses.ok_or("has no link network")?;
    let row = |node: &NodeName, ip: Ipv4Addr| Ok::<_, String>(format!("{ip}:{}", port(inventory, node, RING_PORT)?));
    Ok(How::Ring(json!([[row(a, ours)?], [row(b, theirs)?]])))
}

/// A port that only ranks use: theirs are closed while the service is stopped.
fn port(inventory: &Inventory, node: &NodeName, offset: u16) -> Result<u16, String> {
    let base = inventory.node(node).ok_or_else(|| format!("ends in {node}, which is not in the inventory"))?.agent_port;
    base.checked_add(offset).ok_or_else(|| format!("ends in {node}, whose agent port leaves no room above it"))
}

/// Every pair of ranks, over the sockets that the ranks themselves use.
fn management(inventory: &Inventory, ranks: &[RankConfig]) -> Vec<Pair> {
    let row = |rank: usize| ranks.get(rank)?.peers.as_ref()?.get(rank).cloned();
    let end = |rank: &RankConfig| End {
        node: rank.file.node.clone(),
        receptacle: None,
        place: inventory.label(&rank.file.node),
    };
    let mut all = Vec::new();
    for (i, one) in ranks.iter().enumerate() {
        for (j, other) in ranks.iter().enumerate().skip(i + 1) {
            if let (Some(ours), Some(theirs)) = (row(i), row(j)) {
                all.push(Pair { a: end(one), b: end(other), how: How::Ring(json!([ours, theirs])) });
            }
        }
    }
    all
}

/// Says of every outlier why it is one.
pub fn judge(links: &mut [LinkFigure]) {
    if links.len() < FEWEST {
        return;
    }
    let typical = median(links.iter().map(|l| l.gbps));
    let usual = median(links.iter().map(|l| l.latency_us));
    for link in links {
        link.outlier = if link.gbps < SLOW * typical {
            Some(format!("{:.1} Gb/s, the median of all links is {typical:.1} Gb/s", link.gbps))
        } else if link.latency_us > LATE * usual {
            Some(format!("a latency of {:.0} µs, the median of all links is {usual:.0} µs", link.latency_us))
        } else {
            None
        };
    }
}

/// The middle one; of an even number the mean of the two in the middle.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    let at = |i: usize| all.get(i).copied().unwrap_or_default();
    let half = all.len() / 2;
    if all.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.saturating_sub(1)), at(half)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(number: u32, gbps: f64, latency_us: f64) -> LinkFigure {
        let end = |node: &str| End {
            node: node.parse().expect("a name"),
            receptacle: Some(number),
            place: format!("{node} receptacle {number}"),
        };
        let (a, b) = (end("studio-1"), end("studio-2"));
        LinkFigure { a, b, round: 1, gbps, latency_us, worst_latency_us: latency_us, outlier: None }
    }

    fn outliers(figures: &[(f64, f64)]) -> Vec<usize> {
        let mut links: Vec<_> = (1..).zip(figures).map(|(n, (gbps, late))| figure(n, *gbps, *late)).collect();
        judge(&mut links);
        links.iter().enumerate().filter(|(_, l)| l.outlier.is_some()).map(|(i, _)| i).collect()
    }

    #[test]
    fn a_slow_or_late_link_stands_out_among_three() {
        assert_eq!(outliers(&[(60.0, 20.0), (47.0, 20.0), (60.0, 20.0)]), [1]);
        assert_eq!(outliers(&[(60.0, 20.0), (49.0, 20.0), (60.0, 59.0)]), Vec::<usize>::new());
        assert_eq!(outliers(&[(60.0, 20.0), (60.0, 20.0), (60.0, 61.0), (59.0, 20.0)]), [2]);
        assert_eq!(outliers(&[(60.0, 20.0), (1.0, 900.0)]), Vec::<usize>::new(), "two have no median to speak of");
        let mut links = vec![figure(1, 60.0, 9.0), figure(2, 10.0, 9.0), figure(3, 61.0, 9.0)];
        judge(&mut links);
        assert_eq!(links[1].outlier.as_deref(), Some("10.0 Gb/s, the median of all links is 60.0 Gb/s"));
    }
}
