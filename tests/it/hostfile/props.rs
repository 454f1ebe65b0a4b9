//! What holds for every hostfile of every rack, whatever its cables.

use std::collections::BTreeSet;

use macluster::mesh::ranks;
use macluster::model::Backend;
use proptest::prelude::*;
use serde_json::Value;

use crate::ranks::{AUTO, Wanted, make};
use crate::support::rack::Rack;

/// A cable by both ends: node counted from 0, receptacle.
type Cable = [(usize, u32); 2];

fn studio(index: usize) -> String {
    format!("studio-{}", index + 1)
}

/// What a rack is made of: the names of each Mac's interfaces by receptacle, and the cables.
type Parts = (Vec<Vec<String>>, Vec<Cable>);

/// Two to five studios, each with its interfaces in an order of its own, and cables between any two of them.
fn parts() -> impl Strategy<Value = Parts> {
    let names = Just((2..=7).map(|i| format!("en{i}")).collect::<Vec<_>>()).prop_shuffle();
    let picks = proptest::collection::vec(any::<[prop::sample::Index; 2]>(), 0..13);
    (proptest::collection::vec(names, 2..=5), picks).prop_map(|(names, picks)| {
        let mut free: Vec<(usize, u32)> = (0..names.len()).flat_map(|i| (2..=6).map(move |r| (i, r))).collect();
        let mut cables = Vec::new();
        for [first, second] in picks {
            let Some(one) = (!free.is_empty()).then(|| *first.get(&free)) else { break };
            let others: Vec<_> = free.iter().copied().filter(|e| e.0 != one.0).collect();
            let Some(other) = (!others.is_empty()).then(|| *second.get(&others)) else { break };
            free.retain(|e| *e != one && *e != other);
            cables.push([one, other]);
        }
        (names, cables)
    })
}

fn build((names, cables): &Parts) -> Rack {
    let mut rack = Rack::studios(u32::try_from(names.len()).expect("few"));
    for (index, names) in names.iter().enumerate() {
        let names: Vec<(u32, &str)> = (1..).zip(names.iter().map(String::as_str)).collect();
        rack.rename(&studio(index), &names);
    }
    for [one, other] in cables {
        rack.cable(&studio(one.0), one.1, &studio(other.0), other.1);
    }
    rack
}

fn joined(cables: &[Cable], a: usize, b: usize) -> bool {
    cables.iter().any(|[x, y]| (x.0, y.0) == (a, b) || (y.0, x.0) == (a, b))
}

/// Is there a ring through all nodes? Every order is tried.
fn ring_exists(n: usize, cables: &[Cable]) -> bool {
    fn from(path: &mut Vec<usize>, n: usize, cables: &[Cable]) -> bool {
        let last = path[path.len() - 1];
        if path.len() == n {
            return joined(cables, last, path[0]);
        }
        (0..n).any(|next| {
            let fits = !path.contains(&next) && joined(cables, last, next);
            if !fits {
                return false;
            }
            path.push(next);
            let found = from(path, n, cables);
            path.pop();
            found
        })
    }
    from(&mut vec![0], n, cables)
}

/// The hostfile's hosts and the nodes they are; none when there is no plan.
fn hosts(rack: &Rack, backend: Backend) -> Option<Vec<(usize, Value)>> {
    let plan = make(rack, &Wanted { backend, ..AUTO }).ok()?;
    let file = ranks::hostfile(&plan, &rack.inventory).expect("a hostfile");
    let index = |host: &Value| rack.inventory.nodes.iter().position(|n| host["ssh"] == n.host).expect("a node");
    Some(file["hosts"].as_array().expect("hosts").iter().map(|h| (index(h), h.clone())).collect())
}

/// Names in a cell of the matrix: none, one, or several.
fn names(cell: &Value) -> Vec<String> {
    match cell {
        Value::Null => vec![],
        Value::String(one) => vec![one.clone()],
        many => serde_json::from_value(many.clone()).expect("names"),
    }
}

/// The two devices are the ends of one cable.
fn one_cable(rack: &mut Rack, cables: &[Cable], a: (usize, &str), b: (usize, &str)) -> bool {
    let mut is = |end: (usize, u32), device: (usize, &str)| {
        end.0 == device.0 && format!("rdma_{}", rack.device(&studio(end.0), end.1)) == device.1
    };
    cables.iter().any(|[x, y]| (is(*x, a) && is(*y, b)) || (is(*y, a) && is(*x, b)))
}

/// Every cell holds what is there, `rails` names in each of the wanted cells and none elsewhere.
fn check_matrix(
    rack: &mut Rack,
    cables: &[Cable],
    hosts: &[(usize, Value)],
    wanted: impl Fn(usize, usize) -> bool,
) -> Result<(), TestCaseError> {
    let n = hosts.len();
    let rails = names(&hosts[0].1["rdma"][1]).len();
    prop_assert!(rails > 0);
    for i in 0..n {
        prop_assert_eq!(hosts[i].1["rdma"].as_array().map(Vec::len), Some(n));
        prop_assert!(hosts[i].1["rdma"][i].is_null());
        for j in 0..n {
            let (here, there) = (names(&hosts[i].1["rdma"][j]), names(&hosts[j].1["rdma"][i]));
            prop_assert_eq!(here.len(), if wanted(i, j) { rails } else { 0 });
            prop_assert_eq!(here.iter().collect::<BTreeSet<_>>().len(), here.len());
            for (ours, theirs) in here.iter().zip(&there) {
                prop_assert!(one_cable(rack, cables, (hosts[i].0, ours), (hosts[j].0, theirs)), "{} {}", ours, theirs);
            }
        }
    }
    Ok(())
}

/// The two addresses' interfaces are the ends of one cable, by the numbers of their nodes.
fn address_from(rack: &mut Rack, cables: &[Cable], at: usize, towards: usize, address: &str) -> bool {
    let ends = cables.iter().flat_map(|[x, y]| [(*x, *y), (*y, *x)]);
    let mut ends = ends.filter(|(x, y)| x.0 == at && y.0 == towards);
    ends.any(|(x, _)| rack.interface(&studio(at), x.1).inet[0].address.to_string() == address)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_mesh_names_a_cable_of_each_pair(parts in parts()) {
        let (mut rack, cables) = (build(&parts), &parts.1);
        let n = rack.inventory.nodes.len();
        let complete = (0..n).all(|i| (0..i).all(|j| joined(cables, i, j)));
        let hosts = hosts(&rack, Backend::Jaccl);
        prop_assert_eq!(hosts.is_some(), complete);
        if let Some(hosts) = hosts {
            check_matrix(&mut rack, cables, &hosts, |i, j| i != j)?;
        }
    }

    #[test]
    fn a_jaccl_ring_names_the_same_cables_on_both_sides(parts in parts()) {
        let (mut rack, cables) = (build(&parts), &parts.1);
        let n = rack.inventory.nodes.len();
        let hosts = hosts(&rack, Backend::JacclRing);
        prop_assert_eq!(hosts.is_some(), ring_exists(n, cables));
        if let Some(hosts) = hosts {
            check_matrix(&mut rack, cables, &hosts, |i, j| (i + 1) % n == j || (j + 1) % n == i)?;
        }
    }

    #[test]
    fn a_ring_goes_along_the_cables(parts in parts()) {
        let (mut rack, cables) = (build(&parts), &parts.1);
        let n = rack.inventory.nodes.len();
        let hosts = hosts(&rack, Backend::Ring);
        prop_assert_eq!(hosts.is_some(), ring_exists(n, cables));
        let Some(hosts) = hosts else { return Ok(()) };
        let order: BTreeSet<usize> = hosts.iter().map(|h| h.0).collect();
        prop_assert_eq!((order.len(), hosts[0].0), (n, 0));
        let rails = hosts[0].1["ips"].as_array().map(Vec::len);
        for rank in 0..n {
            let (at, before) = (hosts[rank].0, hosts[(rank + n - 1) % n].0);
            let ips: Vec<String> = serde_json::from_value(hosts[rank].1["ips"].clone()).expect("addresses");
            prop_assert_eq!(Some(ips.len()), rails);
            prop_assert_eq!(ips.iter().collect::<BTreeSet<_>>().len(), ips.len());
            for ip in &ips {
                // The rank before dials it.
                prop_assert!(address_from(&mut rack, cables, at, before, ip), "{} at {} from {}", ip, at, before);
            }
        }
    }
}
