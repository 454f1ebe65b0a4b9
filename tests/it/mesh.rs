//! The graph of cables: every way two Macs can (seem to) be joined.

use macluster::mesh::{Cable, LinkGraph, SeenBy};
use macluster::model::facts::{Attached, FactError, FactErrorKind};
use proptest::prelude::*;

use crate::support::rack::{Rack, name};

fn one(graph: &LinkGraph) -> &macluster::mesh::Link {
    assert_eq!(graph.links.len(), 1, "{graph:?}");
    graph.links.values().next().expect("one link")
}

#[test]
fn a_full_mesh_has_one_link_for_each_pair() {
    for n in [2, 3, 4, 6] {
        let rack = Rack::meshed(n);
        let graph = LinkGraph::build(&rack.snapshot);
        assert_eq!(graph.links.len(), (n * (n - 1) / 2) as usize);
        assert!(graph.odd.is_empty() && graph.blind.is_empty() && graph.ambiguous.is_empty());
        let names: Vec<_> = rack.inventory.nodes.iter().map(|x| x.name.clone()).collect();
        assert!(graph.pairs_missing(&names).is_empty());
        for link in graph.links.values() {
            assert_eq!((link.seen_by, link.gbps, link.rail, &link.via_dock), (SeenBy::Both, Some(80), 0, &None));
            assert!(link.id.a < link.id.b);
        }
    }
}

#[test]
fn the_interface_comes_from_the_hardware_port_not_from_arithmetic() {
    let mut rack = Rack::studios(2);
    // As seen on a MacBook Pro M5 Max: 1, 2, 3 = en1, en6, en2.
    rack.rename("studio-2", &[(1, "en1"), (2, "en16"), (3, "en12")]);
    rack.cable("studio-1", 4, "studio-2", 2);
    let graph = LinkGraph::build(&rack.snapshot);
    let link = one(&graph);
    assert_eq!(link.interface(&name("studio-1")), Some("en5"));
    assert_eq!(link.interface(&name("studio-2")), Some("en16"));
    assert_eq!(link.interface(&name("studio-3")), None);
}

#[test]
fn without_hardware_ports_the_link_stays_and_the_interface_is_unknown() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 2, "studio-2", 2);
    rack.facts("studio-2").hardware_ports = Err(error());
    // Two ports of one name: nobody can tell which is meant.
    let ports = rack.facts("studio-1").hardware_ports.as_mut().expect("ports");
    let mut twin = ports.iter().find(|p| p.name == "Thunderbolt 2").expect("port").clone();
    twin.device = "en99".to_owned();
    ports.push(twin);
    assert_eq!(one(&LinkGraph::build(&rack.snapshot)).interfaces, (None, None));
}

#[test]
fn a_mac_behind_a_dock_at_one_end_is_one_link_with_a_dock() {
    for docked in ["studio-1", "studio-2"] {
        let mut rack = Rack::studios(2);
        rack.cable("studio-1", 3, "studio-2", 5);
        let id = if docked == "studio-1" { 3 } else { 5 };
        let behind = std::mem::take(&mut rack.receptacle(docked, id).attached);
        rack.receptacle(docked, id).attached = vec![Attached::Device {
            name: "Desk Dock".to_owned(),
            vendor: Some("Acme".to_owned()),
            mode: Some("thunderbolt_three".to_owned()),
            behind: vec![Attached::Device { name: "Hub".to_owned(), vendor: None, mode: None, behind }],
        }];
        rack.receptacle(docked, id).speed = Some("40 Gb/s".to_owned());
        let graph = LinkGraph::build(&rack.snapshot);
        let link = one(&graph);
        assert_eq!(link.via_dock.as_deref(), Some("Desk Dock"));
        assert_eq!((link.seen_by, link.gbps), (SeenBy::Both, Some(40)));
        assert!(graph.odd.is_empty());
    }
}

#[test]
fn two_cables_of_a_pair_are_two_rails() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 5, "studio-2", 2);
    rack.cable("studio-1", 3, "studio-2", 6);
    let graph = LinkGraph::build(&rack.snapshot);
    let rails: Vec<_> =
        graph.between(&name("studio-2"), &name("studio-1")).map(|l| (l.id.a.receptacle, l.rail)).collect();
    assert_eq!(rails, [(3, 0), (5, 1)]);
}

#[test]
fn one_end_alone_is_told_as_such() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 2, "studio-2", 2);
    rack.receptacle("studio-2", 2).attached.clear();
    assert_eq!(one(&LinkGraph::build(&rack.snapshot)).seen_by, SeenBy::OnlyA);
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 2, "studio-2", 2);
    rack.receptacle("studio-1", 2).attached.clear();
    assert_eq!(one(&LinkGraph::build(&rack.snapshot)).seen_by, SeenBy::OnlyB);
}

#[test]
fn a_cable_from_a_mac_to_itself_is_a_loop_told_once() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 4, "studio-1", 2);
    let graph = LinkGraph::build(&rack.snapshot);
    assert!(graph.links.is_empty());
    let [Cable::SelfLoop(a, b)] = graph.odd.as_slice() else { panic!("{:?}", graph.odd) };
    assert_eq!((a.receptacle, b.receptacle), (2, 4));
}

#[test]
fn a_mac_outside_the_rack_is_foreign_only_when_every_node_answered() {
    let mut rack = Rack::meshed(3);
    let mut stranger = rack.peer("studio-1", 6);
    stranger.domain_uuid = Some("FFFFFFFF-0000-4000-8000-000000000001".to_owned());
    stranger.model = Some("Mac17,7".to_owned());
    rack.receptacle("studio-2", 6).attached = vec![Attached::Mac(stranger)];
    let graph = LinkGraph::build(&rack.snapshot);
    let [Cable::Foreign(peer)] = graph.odd.as_slice() else { panic!("{:?}", graph.odd) };
    assert_eq!((peer.end.to_string().as_str(), peer.what.as_str()), ("studio-2 receptacle 6", "Mac17,7"));

    rack.lose("studio-3");
    let graph = LinkGraph::build(&rack.snapshot);
    assert_eq!(graph.links.len(), 1);
    assert_eq!(graph.odd.len(), 3, "two cables to the lost node and one to the stranger: nobody can tell which");
    for cable in &graph.odd {
        let Cable::Unknown(_, candidates) = cable else { panic!("{cable:?}") };
        assert_eq!(candidates, &[name("studio-3")]);
    }
}

#[test]
fn reports_without_uuids_join_nothing_and_accuse_nobody() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 2, "studio-2", 2);
    for node in ["studio-1", "studio-2"] {
        for id in 1..=6 {
            let r = rack.receptacle(node, id);
            r.domain_uuid = None;
            if let Some(Attached::Mac(peer)) = r.attached.first_mut() {
                peer.domain_uuid = None;
            }
        }
    }
    let graph = LinkGraph::build(&rack.snapshot);
    assert!(graph.links.is_empty());
    assert!(matches!(graph.odd.as_slice(), [Cable::Untold(_), Cable::Untold(_)]), "{:?}", graph.odd);
    assert_eq!(graph.blind.len(), 2);
}

#[test]
fn one_mac_under_two_names_is_noticed() {
    let mut rack = Rack::meshed(2);
    let copy = rack.snapshot.nodes[&name("studio-2")].clone();
    rack.snapshot.nodes.insert(name("studio-9"), copy);
    let graph = LinkGraph::build(&rack.snapshot);
    assert_eq!(graph.ambiguous.len(), 6);
}

fn error() -> FactError {
    FactError {
        tool: "networksetup".to_owned(),
        kind: FactErrorKind::Malformed,
        line: Some(3),
        message: "?".to_owned(),
    }
}

proptest! {
    /// Whatever is plugged where: every cable is told exactly once, and ends are symmetric.
    #[test]
    fn every_cable_is_told_once(cables in proptest::collection::vec((1u32..=4, 1u32..=6, 1u32..=4, 1u32..=6), 0..12)) {
        let mut rack = Rack::studios(4);
        let mut used = std::collections::BTreeSet::new();
        let (mut links, mut loops) = (0, 0);
        for (a, ra, b, rb) in cables {
            if (a, ra) == (b, rb) || used.contains(&(a, ra)) || used.contains(&(b, rb)) {
                continue;
            }
            used.extend([(a, ra), (b, rb)]);
            rack.cable(&format!("studio-{a}"), ra, &format!("studio-{b}"), rb);
            if a == b { loops += 1 } else { links += 1 }
        }
        let graph = LinkGraph::build(&rack.snapshot);
        prop_assert_eq!(graph.links.len(), links);
        prop_assert_eq!(graph.odd.len(), loops);
        prop_assert!(graph.links.values().all(|l| l.seen_by == SeenBy::Both && l.interfaces.0.is_some() && l.interfaces.1.is_some()));
    }
}
