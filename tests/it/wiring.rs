//! The wiring planner: fewest cables touched (against brute force), regular receptacles, safe order of the steps.

mod binary;
mod brute;
mod facts;
mod props;
mod simulate;

use macluster::mesh::wiring::{Board, Bridge, End, Station, Step, WiringPlan, mesh, ring};

use crate::support::rack::name;

/// Macs `n1` … with receptacles 1 to `receptacles`, the first excluded when wanted; in one bridge when wanted.
fn board(nodes: usize, receptacles: u32, excluded: bool, bridged: bool) -> Board {
    let station = Station {
        usable: (1 + u32::from(excluded)..=receptacles).collect(),
        excluded: excluded.then_some(1),
        bridges: (1..=receptacles).filter(|_| bridged).map(|r| (r, Bridge::Named("bridge0".to_owned()))).collect(),
        ..Station::default()
    };
    Board {
        names: (1..=nodes).map(|i| name(&format!("n{i}"))).collect(),
        stations: vec![station; nodes],
        ..Board::default()
    }
}

/// Six receptacles, the first excluded, no bridge.
fn studios(nodes: usize) -> Board {
    board(nodes, 6, true, false)
}

fn planned(board: &Board) -> WiringPlan {
    let plan = mesh(board).expect("a full mesh is possible");
    simulate::check(board, &plan);
    plan
}

/// Numbers of both ends of every cable by pair of nodes counted from 1.
fn numbers(plan: &WiringPlan) -> Vec<(usize, usize, u32, u32)> {
    plan.wiring().into_iter().map(|[a, b]| (a.0 + 1, b.0 + 1, a.1, b.1)).collect()
}

/// Each step as `[before] > [after]`, nodes counted from 1.
fn told(plan: &WiringPlan) -> Vec<String> {
    let end = |e: &Option<End>| e.map_or_else(|| "-".to_owned(), |(n, r)| format!("n{}:{r}", n + 1));
    let tell = |step: &Step| match step {
        Step::Cable { before: [a, b], after: [c, d], stop, .. } => {
            format!("{}{} {} > {} {}", if *stop { "STOP " } else { "" }, end(a), end(b), end(c), end(d))
        }
        Step::Give(thing) => format!("give {} > {}", end(&Some(thing.from)), end(&thing.to)),
        Step::Apply => "apply".to_owned(),
    };
    plan.steps.iter().map(tell).collect()
}

#[test]
fn an_empty_rack_of_equal_macs_is_wired_by_one_rule() {
    let four = [(1, 2, 2, 2), (1, 3, 3, 3), (1, 4, 4, 4), (2, 3, 4, 4), (2, 4, 3, 3), (3, 4, 2, 2)];
    assert_eq!(numbers(&planned(&studios(4))), four);
    for (nodes, receptacles, excluded) in
        [(2, 6, true), (3, 6, true), (4, 4, true), (4, 3, false), (5, 6, true), (6, 6, true), (8, 8, true)]
    {
        let board = board(nodes, receptacles, excluded, false);
        let plan = planned(&board);
        let wiring = numbers(&plan);
        assert_eq!(wiring.len(), nodes * (nodes - 1) / 2);
        for (i, j, a, b) in wiring {
            assert_eq!(a, b, "{nodes} Macs: n{i} and n{j} use the same receptacle");
            assert_eq!(a, board.stations[0].usable[plan.demand.number((i - 1, j - 1))]);
        }
        let counts = plan.counts(&board);
        assert_eq!((counts.new, counts.moved, counts.removed), (nodes * (nodes - 1) / 2, 0, 0));
    }
}

#[test]
fn an_odd_rack_without_a_receptacle_to_spare_is_wired_all_the_same() {
    let plan = planned(&board(5, 5, true, false));
    let wiring = numbers(&plan);
    let same = wiring.iter().filter(|(_, _, a, b)| a == b).count();
    assert_eq!((wiring.len(), same), (10, 8), "{wiring:?}");
}

#[test]
fn a_finished_mesh_has_no_step() {
    let mut board = studios(3);
    // As irregular as can be: it works, so nothing is touched.
    board.cables = vec![[(0, 6), (1, 2)], [(0, 3), (2, 5)], [(1, 4), (2, 2)]];
    assert!(planned(&board).steps.is_empty());
    // A second cable of a pair is kept while its receptacles are not needed.
    board.cables.push([(0, 2), (1, 3)]);
    assert!(planned(&board).steps.is_empty());
}

#[test]
fn a_cable_beside_ethernet_moves_one_plug() {
    let mut board = studios(3);
    board.cables = vec![[(0, 1), (1, 2)], [(0, 3), (2, 3)], [(1, 4), (2, 4)]];
    assert_eq!(told(&planned(&board)), ["n1:1 n2:2 > n1:2 n2:2"]);
}

#[test]
fn a_second_cable_becomes_the_one_that_lacks() {
    let mut board = studios(3);
    board.cables = vec![[(0, 2), (1, 2)], [(0, 4), (1, 3)], [(0, 3), (2, 3)]];
    let plan = planned(&board);
    assert_eq!(told(&plan), ["n1:4 n2:3 > n3:4 n2:3"], "one plug; a new cable would be two");
    assert_eq!(plan.choice.cost.new, 0);
}

#[test]
fn a_greedy_choice_of_spare_cables_would_move_too_many_plugs() {
    // Spares n1–n2 and n1–n3; n2–n4 and n1–n4 lack. Only the crossed choice moves one plug each.
    let mut board = studios(4);
    board.cables = vec![
        [(0, 2), (1, 2)],
        [(0, 3), (2, 3)],
        [(1, 4), (2, 4)],
        [(2, 2), (3, 2)],
        [(0, 5), (1, 5)],
        [(0, 6), (2, 6)],
    ];
    let plan = planned(&board);
    assert_eq!((plan.choice.cost.cables, plan.choice.cost.ends), (2, 2), "{:?}", told(&plan));
}

#[test]
fn a_receptacle_is_emptied_only_when_it_is_needed() {
    // n1 is full: its second cable to n2 has to become the one to n4.
    let mut board = board(4, 4, true, false);
    board.cables = vec![[(0, 2), (1, 2)], [(0, 3), (1, 3)], [(0, 4), (2, 4)], [(1, 4), (3, 2)], [(2, 3), (3, 3)]];
    let plan = planned(&board);
    assert_eq!(told(&plan), ["n1:3 n2:3 > n1:3 n4:4", "- - > n2:3 n3:2"]);
}

#[test]
fn two_plugs_that_want_each_others_place_are_resolved_by_letting_one_hang() {
    // Two receptacles each, a ring n1 n2 n3 n4; the second cables of n1–n2 and n3–n4 block each other.
    let mut board = board(4, 2, false, false);
    board.cables = vec![[(0, 1), (1, 1)], [(0, 2), (1, 2)], [(2, 1), (3, 1)], [(2, 2), (3, 2)]];
    let plan = ring(&board).expect("a ring is possible");
    simulate::check(&board, &plan);
    assert_eq!(plan.choice.cost.cables, 2);
    assert!(told(&plan).iter().any(|s| s.split(" > ").nth(1).is_some_and(|after| after.contains('-'))), "{plan:?}");
}

#[test]
fn new_cables_wait_for_apply_before_they_close_a_cycle() {
    for (nodes, applies) in [(2, 0), (3, 1), (4, 1), (5, 2), (6, 2)] {
        let plan = planned(&board(nodes, 6, true, true));
        assert_eq!(plan.steps.iter().filter(|s| **s == Step::Apply).count(), applies, "{:?}", told(&plan));
    }
    assert_eq!(
        told(&planned(&board(3, 6, true, true))),
        ["- - > n1:2 n2:2", "- - > n2:4 n3:4", "apply", "- - > n1:3 n3:3"]
    );
}

#[test]
fn a_storm_is_stopped_first_and_its_cable_put_back_after_apply() {
    let mut board = board(3, 6, true, true);
    board.cables = vec![[(0, 2), (1, 2)], [(0, 3), (2, 3)], [(1, 4), (2, 4)]];
    let plan = planned(&board);
    assert_eq!(told(&plan), ["STOP n2:4 n3:4 > - n3:4", "apply", "- n3:4 > n2:4 n3:4"]);
    assert_eq!(plan.counts(&board).put_back, 1);
    // The cable that has to move anyway is the one to pull.
    board.cables[0] = [(0, 1), (1, 2)];
    assert_eq!(told(&planned(&board)), ["STOP n1:1 n2:2 > - n2:2", "apply", "- n2:2 > n1:2 n2:2"]);
    // One Mac out of the bridge: no cycle.
    board.stations[2].bridges.clear();
    assert_eq!(told(&planned(&board)), ["n1:1 n2:2 > n1:2 n2:2"]);
}

#[test]
fn what_is_not_known_of_bridges_orders_the_steps_and_raises_no_alarm() {
    let mut board = board(3, 6, true, true);
    for station in &mut board.stations {
        station.bridges.values_mut().for_each(|b| *b = Bridge::Unseen);
    }
    assert!(planned(&board).steps.contains(&Step::Apply));
    board.cables = vec![[(0, 2), (1, 2)], [(0, 3), (2, 3)], [(1, 4), (2, 4)]];
    assert!(planned(&board).steps.is_empty(), "nobody has seen a storm");
}

#[test]
fn a_cable_from_a_mac_to_itself_is_used_for_a_pair() {
    let mut board = studios(2);
    board.cables = vec![[(0, 3), (0, 5)]];
    assert_eq!(told(&planned(&board)), ["n1:3 n1:5 > n1:3 n2:3"]);
}

#[test]
fn things_give_way_only_when_nothing_else_is_left() {
    let mut board = board(4, 4, true, false);
    board.stations[0].things.insert(4, "dock".to_owned());
    let plan = planned(&board);
    assert_eq!(told(&plan).iter().filter(|s| s.starts_with("give")).collect::<Vec<_>>(), ["give n1:4 > n1:1"]);
    // With a receptacle to spare it stays.
    let mut board = studios(4);
    board.stations[0].things.insert(4, "dock".to_owned());
    assert!(!told(&planned(&board)).iter().any(|s| s.starts_with("give")));
    // Even when a second cable has to go for it.
    board.stations[0].things.insert(2, "drive".to_owned());
    board.cables = vec![[(0, 3), (1, 2)], [(0, 5), (1, 3)], [(0, 6), (1, 4)]];
    let plan = planned(&board);
    assert!(!told(&plan).iter().any(|s| s.starts_with("give")), "{:?}", told(&plan));
    assert_eq!((plan.choice.cost.cables, plan.choice.cost.new), (5, 3), "two second cables, and three new ones");
}

#[test]
fn too_few_receptacles_name_the_largest_mesh() {
    let mut rack = board(5, 4, true, false);
    rack.stations[1].usable = (2..=6).collect();
    rack.stations[3].usable = (2..=6).collect();
    rack.stations[0].usb_c_front = true;
    let no = mesh(&rack).expect_err("five Macs need four receptacles each");
    let short: Vec<_> = no.short.iter().map(|s| (s.node.as_str(), s.usable.len(), s.needed, s.usb_c_front)).collect();
    assert_eq!(short, [("n1", 3, 4, true), ("n3", 3, 4, false), ("n5", 3, 4, false)]);
    assert_eq!(no.largest_mesh, ["n1", "n2", "n3", "n4"].map(name));
    let way_out = ring(&rack).expect("a ring needs two each");
    assert_eq!(numbers(&way_out), [(1, 2, 2, 2), (1, 5, 4, 4), (2, 3, 3, 3), (3, 4, 2, 2), (4, 5, 3, 3)]);
    // More Macs than MLX's mesh takes, however many receptacles they have.
    let many = mesh(&board(9, 12, true, false)).expect_err("nine");
    assert_eq!((many.too_many, many.largest_mesh.len()), (Some(9), 8));
    // A Mac without two receptacles is in no ring.
    rack.stations[2].usable.clear();
    let no = ring(&rack).expect_err("no receptacle");
    assert_eq!((no.short.len(), no.largest_mesh.len()), (1, 4));
}

#[test]
fn a_ring_follows_the_cables_before_the_inventory() {
    let ring_of = |board: &Board| {
        let plan = ring(board).expect("possible");
        simulate::check(board, &plan);
        plan
    };
    assert_eq!(ring_of(&studios(4)).demand.order, [0, 1, 2, 3]);
    let mut crossed = studios(4);
    crossed.cables = vec![[(0, 2), (2, 2)], [(1, 3), (2, 3)], [(1, 4), (3, 4)]];
    let plan = ring_of(&crossed);
    assert_eq!((plan.demand.order.as_slice(), plan.choice.cost.new), ([0, 2, 1, 3].as_slice(), 1));
    // A full mesh contains one.
    let mut full = studios(4);
    full.cables = planned(&studios(4)).wiring();
    assert!(ring_of(&full).steps.is_empty());
    // More nodes than all rings can be compared of: said so.
    let plan = ring_of(&studios(12));
    assert!(!plan.choice.proven);
    let mut whole = studios(12);
    whole.cables = plan.wiring();
    let plan = ring_of(&whole);
    assert!(plan.choice.proven && plan.steps.is_empty());
}

#[test]
fn large_racks_are_planned_in_time() {
    // Eight Macs with every receptacle cabled at random, and more.
    for (nodes, step) in [(8, 7), (8, 11), (12, 5), (20, 5)] {
        let mut board = studios(nodes);
        let mut ends: Vec<End> = (0..nodes).flat_map(|n| (1..=6).map(move |r| (n, r))).collect();
        while ends.len() > 1 {
            let one = ends.remove(0);
            let other = ends.remove(step * step % ends.len());
            board.cables.push([one, other]);
        }
        let plan = ring(&board).expect("possible");
        simulate::check(&board, &plan);
        assert!(nodes == 8 || !plan.choice.proven, "what was not compared is not claimed");
    }
}
