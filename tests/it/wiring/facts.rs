//! From facts to the board.

use macluster::mesh::LinkGraph;
use macluster::mesh::wiring::{Board, Bridge, Unknown};
use macluster::model::facts::{Attached, FactError, FactErrorKind};

use crate::support::rack::{Rack, name};

pub fn board(rack: &Rack) -> Result<Board, Vec<Unknown>> {
    Board::of(&rack.inventory, &rack.snapshot, &LinkGraph::build(&rack.snapshot))
}

fn dock(behind: Vec<Attached>) -> Vec<Attached> {
    vec![Attached::Device { name: "Desk Dock".to_owned(), vendor: None, mode: None, behind }]
}

#[test]
fn receptacles_cables_and_bridges_come_from_the_facts() {
    let mut rack = Rack::studios(3);
    rack.cable("studio-1", 1, "studio-2", 2);
    rack.cable("studio-3", 6, "studio-3", 5);
    rack.receptacle("studio-2", 4).connected = true;
    rack.receptacle("studio-2", 4).attached = dock(vec![]);
    rack.receptacle("studio-3", 2).connected = true;
    let mut stranger = rack.peer("studio-1", 6);
    stranger.domain_uuid = Some("FFFFFFFF-0000-4000-8000-000000000001".to_owned());
    rack.receptacle("studio-1", 6).attached = vec![Attached::Mac(stranger)];
    // Ranks are counted by slot, and so is the board.
    rack.inventory.nodes.reverse();
    rack.rename("studio-1", &[(3, "en13")]);
    let interfaces = rack.facts("studio-1").interfaces.as_mut().expect("interfaces");
    interfaces[0].members = vec!["en13".to_owned()];
    rack.facts("studio-2").interfaces =
        Err(FactError { tool: "ifconfig".to_owned(), kind: FactErrorKind::Failed, line: None, message: String::new() });
    let board = board(&rack).expect("everything is known");
    assert_eq!(board.names, ["studio-1", "studio-2", "studio-3"].map(name));
    assert_eq!(board.cables, [[(0, 1), (1, 2)], [(2, 5), (2, 6)]]);
    assert_eq!(
        (board.stations[0].usable.as_slice(), board.stations[0].excluded),
        ([2, 3, 4, 5, 6].as_slice(), Some(1))
    );
    let things = |n: usize| board.stations[n].things.iter().map(|(r, w)| (*r, w.as_str())).collect::<Vec<_>>();
    assert_eq!(things(0), [(6, "cable to a Mac15,14 outside the rack")]);
    assert_eq!(things(1), [(4, "Desk Dock")]);
    assert_eq!(things(2), [(2, "something that does not say what it is")]);
    let bridges = |n: usize| board.stations[n].bridges.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(bridges(0), [(3, Bridge::Named("en0".to_owned()))], "by membership, whatever the bridge is called");
    assert_eq!(bridges(1).len(), 6);
    assert!(bridges(1).iter().all(|(_, b)| *b == Bridge::Unseen));
    assert_eq!(bridges(2), []);
}

#[test]
fn ports_of_another_name_are_in_no_bridge_when_there_is_none() {
    let mut rack = Rack::meshed(2);
    for node in ["studio-1", "studio-2"] {
        for port in rack.facts(node).hardware_ports.as_mut().expect("ports") {
            port.name = port.name.replace("Thunderbolt", "Anschluss");
        }
    }
    assert!(board(&rack).expect("known").stations.iter().all(|s| s.bridges.is_empty()));
    rack.facts("studio-1").interfaces.as_mut().expect("interfaces")[0].members = vec!["en8".to_owned()];
    let bridges: Vec<usize> = board(&rack).expect("known").stations.iter().map(|s| s.bridges.len()).collect();
    assert_eq!(bridges, [6, 0]);
}

#[test]
fn a_dock_between_two_macs_is_no_cable_of_the_wiring() {
    let mut rack = Rack::studios(2);
    rack.cable("studio-1", 3, "studio-2", 5);
    let behind = std::mem::take(&mut rack.receptacle("studio-1", 3).attached);
    rack.receptacle("studio-1", 3).attached = dock(behind);
    let board = board(&rack).expect("known");
    assert_eq!((board.cables.as_slice(), board.docked.as_slice()), ([].as_slice(), [[(0, 3), (1, 5)]].as_slice()));
    assert_eq!(board.stations[1].things[&5], "Desk Dock on the way to studio-1");
}

#[test]
fn what_is_not_known_is_not_guessed() {
    let whys = |rack: &Rack| -> Vec<String> {
        let unknown = board(rack).expect_err("something is unknown");
        unknown
            .into_iter()
            .map(|u| format!("{} {}{}", u.node, u.why, if u.unseen { " (unseen)" } else { "" }))
            .collect()
    };
    let mut rack = Rack::meshed(3);
    rack.lose("studio-2");
    assert_eq!(whys(&rack), ["studio-2 was not seen: no answer from 192.0.2.13:22 within 10 s (unseen)"]);
    // Its own domain UUID is missing where a Mac is plugged in.
    let mut rack = Rack::meshed(2);
    rack.receptacle("studio-1", 2).domain_uuid = None;
    assert_eq!(
        whys(&rack),
        ["studio-1 its cables are not known: a receptacle with a Mac on it reports no domain UUID"]
    );
    // A Mac Studio whose model and speeds tell no generation.
    let mut rack = Rack::of("Mac99,1", "Mac Studio", 2, 6);
    for id in 1..=6 {
        rack.receptacle("studio-2", id).speed = None;
    }
    let known = board(&rack).expect_err("the second");
    assert!(known[0].why.starts_with("is Mac99,1, whose Thunderbolt generation is not known"), "{known:?}");
    assert_eq!(known.len(), 1, "the first says `Up to 120 Gb/s`");
    // One Mac under two names.
    let mut rack = Rack::studios(2);
    rack.receptacle("studio-2", 3).domain_uuid = rack.receptacle("studio-1", 3).domain_uuid.clone();
    assert!(whys(&rack).iter().all(|w| w.contains("reports the same domain UUID")), "{:?}", whys(&rack));
}
