//! What holds for every rack.

use std::collections::BTreeSet;

use macluster::mesh::wiring::{Board, Bridge, End, Station, WiringPlan, mesh, ring};
use proptest::prelude::*;

use super::simulate;
use crate::support::rack::name;

/// Any rack of two to seven Macs of any models, cabled, bridged and docked at random.
fn racks() -> impl Strategy<Value = Board> {
    let station = (1u32..=7, any::<bool>(), proptest::collection::vec(0u8..4, 8));
    (
        proptest::collection::vec(station, 2..=7),
        proptest::collection::vec(any::<prop::sample::Index>(), 0..24),
        0usize..4,
    )
        .prop_map(|(stations, picks, odd)| {
            let mut ends: Vec<End> = Vec::new();
            let mut board = Board::default();
            for (n, (receptacles, excluded, bridges)) in stations.into_iter().enumerate() {
                ends.extend((1..=receptacles).map(|r| (n, r)));
                let bridge = |r: u32| match bridges[r as usize] {
                    0 => None,
                    1 => Some((r, Bridge::Unseen)),
                    _ => Some((r, Bridge::Named("bridge0".to_owned()))),
                };
                board.names.push(name(&format!("n{n}")));
                board.stations.push(Station {
                    usable: (1 + u32::from(excluded)..=receptacles).collect(),
                    excluded: excluded.then_some(1),
                    bridges: (1..=receptacles).filter_map(bridge).collect(),
                    ..Station::default()
                });
            }
            for (i, two) in picks.chunks_exact(2).enumerate() {
                if ends.len() < 2 {
                    break;
                }
                let one = ends.swap_remove(two[0].index(ends.len()));
                let other = ends.swap_remove(two[1].index(ends.len()));
                match i.checked_sub(odd) {
                    Some(_) => board.cables.push([one, other]),
                    None if one.0 == other.0 => {
                        board.stations[one.0].things.insert(one.1, "drive".to_owned());
                    }
                    None => {
                        board.docked.push([one, other]);
                        board.stations[one.0].things.insert(one.1, "dock".to_owned());
                        board.stations[other.0].things.insert(other.1, "dock".to_owned());
                    }
                }
            }
            board.cables.sort_unstable();
            board
        })
}

fn holds(board: &Board, plan: &WiringPlan, again: impl Fn(&Board) -> WiringPlan) {
    simulate::check(board, plan);
    assert!(plan.choice.proven, "a small rack is searched to the end");
    let wiring = plan.wiring();
    let ends: Vec<End> = wiring.iter().flatten().copied().collect();
    let once: BTreeSet<End> = ends.iter().copied().collect();
    assert_eq!(once.len(), ends.len(), "a receptacle twice");
    assert!(wiring.iter().all(|c| board.good(*c)), "an excluded receptacle, or a cable from a Mac to itself");
    for (a, b) in &plan.demand.pairs {
        assert!(wiring.iter().any(|c| (c[0].0, c[1].0) == (*a, *b)), "no cable joins {a} and {b}");
    }
    // On the result, with the bridges gone, nothing is left to do.
    let mut done = board.clone();
    done.cables = wiring.clone();
    for thing in &plan.target.displaced {
        let what = done.stations[thing.from.0].things.remove(&thing.from.1).expect("it was there");
        if let Some(to) = thing.to {
            done.stations[to.0].things.insert(to.1, what);
        }
    }
    done.docked.clear();
    done.stations.iter_mut().for_each(|s| s.bridges.clear());
    let second = again(&done);
    assert!(second.steps.is_empty(), "planned again: {:?}", second.steps);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_result_is_a_full_mesh_and_stays_one(board in racks()) {
        if let Ok(plan) = mesh(&board) {
            holds(&board, &plan, |b| mesh(b).expect("still possible"));
        }
    }

    #[test]
    fn the_result_is_a_ring_and_stays_one(board in racks()) {
        if let Ok(plan) = ring(&board) {
            holds(&board, &plan, |b| ring(b).expect("still possible"));
        }
    }
}
