//! Carries out the steps of a plan one by one and watches for storms.

use std::collections::{BTreeMap, BTreeSet};

use macluster::mesh::wiring::{Board, Bridge, End, Plugs, Step, WiringPlan};

/// Independent cycles that there may be, with every bridge that is not known taken for one with all of its Mac's.
fn cycles(board: &Board, out: &BTreeSet<End>, cables: &[[End; 2]]) -> usize {
    let bridged = |end: &End| board.stations[end.0].bridges.contains_key(&end.1) && !out.contains(end);
    let mut group: Vec<usize> = (0..board.stations.len()).collect();
    let mut cycles = 0;
    for [a, b] in cables.iter().filter(|c| c.iter().all(bridged)) {
        let (one, other) = (group[a.0], group[b.0]);
        cycles += usize::from(one == other);
        for g in &mut group {
            *g = if *g == other { one } else { *g };
        }
    }
    cycles
}

/// Some cables whose bridges form a cycle are left when those that end in a bridge with no other cable are taken away,
/// again and again.
fn storms(board: &Board, out: &BTreeSet<End>, cables: &[[End; 2]]) -> bool {
    let corner = |end: End| {
        let bridge =
            board.stations[end.0].bridges.get(&end.1).filter(|b| **b != Bridge::Unseen && !out.contains(&end))?;
        Some((end.0, bridge))
    };
    let mut left: Vec<_> = cables.iter().filter_map(|[a, b]| Some([corner(*a)?, corner(*b)?])).collect();
    loop {
        let mut count = BTreeMap::new();
        left.iter().flatten().for_each(|c| *count.entry(*c).or_insert(0) += 1);
        let before = left.len();
        left.retain(|cable| cable.iter().all(|c| count[c] > 1));
        if left.len() == before {
            return before > 0;
        }
    }
}

fn whole(plugs: &Plugs) -> Option<[End; 2]> {
    Some([plugs[0]?, plugs[1]?])
}

/// Every step can be done, none starts a storm, and they end in the plan's wiring.
pub fn check(board: &Board, plan: &WiringPlan) {
    let mut plugs: Vec<Plugs> = board.cables.iter().map(|c| c.map(Some)).collect();
    plugs.extend(plan.target.new.iter().map(|_| [None; 2]));
    let mut things: BTreeSet<End> =
        board.stations.iter().enumerate().flat_map(|(n, s)| s.things.keys().map(move |r| (n, *r))).collect();
    let mut docked = board.docked.clone();
    let mut out = BTreeSet::new();
    let live = |plugs: &[Plugs], docked: &[[End; 2]]| -> Vec<[End; 2]> {
        plugs.iter().filter_map(whole).chain(docked.iter().copied()).collect()
    };
    let stopping = |s: &Step| matches!(s, Step::Cable { stop: true, .. });
    let stops = plan.steps.iter().filter(|s| stopping(s)).count();
    let first = plan.steps.iter().take_while(|s| stopping(s) || matches!(s, Step::Give(_))).count();
    assert!(plan.steps[first..].iter().all(|s| !stopping(s)), "storms are stopped first: {:?}", plan.steps);
    let storm = storms(board, &out, &live(&plugs, &docked));
    assert!(storm || stops == 0, "no storm to stop: {:?}", plan.steps);
    assert!(!storm || first > 0, "a storm that nobody stops");
    let mut possible = cycles(board, &out, &live(&plugs, &docked));
    for (i, step) in plan.steps.iter().enumerate() {
        match step {
            Step::Cable { cable, before, after, .. } => {
                assert_eq!(&plugs[*cable], before, "step {i}: the cable is elsewhere");
                plugs[*cable] = [None; 2];
                for end in after.iter().flatten() {
                    assert!(!plugs.iter().flatten().any(|p| p.as_ref() == Some(end)), "step {i}: {end:?} is taken");
                    assert!(!things.contains(end), "step {i}: {end:?} is taken by a thing");
                }
                plugs[*cable] = *after;
            }
            Step::Give(thing) => {
                things.remove(&thing.from);
                docked.retain(|d| !d.contains(&thing.from));
                if let Some(to) = thing.to {
                    assert!(!plugs.iter().flatten().any(|p| *p == Some(to)) && things.insert(to), "step {i}: taken");
                }
            }
            Step::Apply => {
                let links = plugs.iter().filter_map(whole).filter(|c| board.good(*c));
                out.extend(links.flatten());
            }
        }
        let now = cycles(board, &out, &live(&plugs, &docked));
        assert!(now <= possible, "step {i} of {:?} may close a cycle", plan.steps);
        possible = now;
        if i + 1 >= first.max(1) || !storm {
            assert!(!storms(board, &out, &live(&plugs, &docked)), "step {i} of {:?} leaves a storm", plan.steps);
        }
    }
    let mut wiring: Vec<[End; 2]> = plugs.iter().filter_map(whole).collect();
    for ends in &mut wiring {
        ends.sort_unstable();
    }
    wiring.sort_by_key(|[a, b]| (a.0, b.0, a.1));
    assert_eq!(wiring, plan.wiring(), "the steps lead to the wiring");
    assert!(plugs.iter().all(|p| p[0].is_some() == p[1].is_some()), "no plug is left hanging");
}
