//! The diagram of a wiring that is planned: what stays, moves, comes and goes.

use super::{Cable, Diagram, End, Far, Look, Mac};
use crate::mesh::wiring::{End as Place, Step, WiringPlan};
use crate::model::panel::Panel;
use crate::view::wiring::{Wiring, closing, name, notes};

/// The rack as the plan wants it, with the cables that go where they are now. A cable's state names its steps.
pub fn from_plan(wiring: &Wiring<'_>, plan: &WiringPlan) -> Diagram {
    let board = wiring.board;
    let mut cables: Vec<Cable> = Vec::new();
    for (index, (now, then)) in board.cables.iter().zip(&plan.target.cables).enumerate() {
        let steps = steps(plan, index);
        cables.push(match then {
            None => cable(*now, Look::Removed, format!("take out{steps}")),
            Some(then) if then == now => cable(*now, Look::Good, format!("stays{steps}")),
            Some(then) => {
                let from = |p: usize| (now[p] != then[p]).then(|| board.named(now[p]).to_string());
                let from: Vec<String> = (0..2).filter_map(from).collect();
                cable(*then, Look::Moved, format!("moves from {}{steps}", from.join(" and ")))
            }
        });
    }
    for (index, ends) in (board.cables.len()..).zip(&plan.target.new) {
        cables.push(cable(*ends, Look::New, format!("new{}", steps(plan, index))));
    }
    // As a person walks along the rack: from the first Mac to the last.
    cables.sort_by_key(|c| match c.far {
        Far::End(far) => (c.near.mac, far.mac, c.near.receptacle),
        Far::Outside(_) => (c.near.mac, usize::MAX, c.near.receptacle),
    });
    for (cable, number) in cables.iter_mut().zip(1..) {
        cable.label = format!("{number}");
    }
    Diagram {
        title: format!("Rack {}", wiring.inventory.rack),
        subtitle: format!("plan: the cables of a {} as they are to be", name(plan.demand.topology)),
        macs: (0..board.names.len()).map(|node| mac(wiring, node)).collect(),
        cables,
        remarks: remarks(wiring, plan),
    }
}

fn cable(ends: [Place; 2], look: Look, state: String) -> Cable {
    let [mut near, mut far] = ends.map(|(mac, receptacle)| End { mac, receptacle });
    if near > far {
        std::mem::swap(&mut near, &mut far);
    }
    Cable { label: String::new(), near, far: Far::End(far), network: None, gbps: None, look, state }
}

/// `, step 3` or `, steps 3 and 5`: where the plan's steps touch this cable. Cables are numbered as in [`Step::Cable`].
fn steps(plan: &WiringPlan, cable: usize) -> String {
    let touches = |s: &Step| matches!(s, Step::Cable { cable: c, .. } if *c == cable);
    let numbers: Vec<String> =
        (1..).zip(&plan.steps).filter(|(_, s)| touches(s)).map(|(n, _): (usize, _)| n.to_string()).collect();
    match numbers.as_slice() {
        [] => String::new(),
        [one] => format!(", step {one}"),
        many => format!(", steps {}", many.join(" and ")),
    }
}

fn mac(wiring: &Wiring<'_>, node: usize) -> Mac {
    let (station, mac) = (&wiring.board.stations[node], &wiring.macs[node]);
    let own = &wiring.board.names[node];
    let slot = wiring.inventory.node(own).and_then(|n| n.slot).map(|s| format!("slot {s}"));
    let mut receptacles: Vec<u32> =
        station.usable.iter().copied().chain(station.excluded).chain(station.things.keys().copied()).collect();
    receptacles.sort_unstable();
    receptacles.dedup();
    Mac {
        name: own.to_string(),
        about: slot.into_iter().chain(mac.name().map(str::to_owned)).collect::<Vec<_>>().join(" · "),
        panel: Panel::of(mac, &receptacles),
        excluded: station.excluded,
    }
}

fn remarks(wiring: &Wiring<'_>, plan: &WiringPlan) -> Vec<String> {
    let mut remarks = Vec::new();

    let stop = plan.steps.iter().any(|s| matches!(s, Step::Apply | Step::Cable { stop: true, .. }));

    if stop {
        remarks.push(
            "Do not plug from this picture alone: in another order than that of the steps (`macluster cabling plan`) \
             a cycle of cables can flood the network."
                .to_owned(),
        );
    } else if plan.steps.len() > 1 {
        remarks.push("The steps, in their order: `macluster cabling plan`.".to_owned());
    }
    for thing in &plan.target.displaced {
        let what = wiring.board.stations[thing.from.0].things.get(&thing.from.1).map_or("something", String::as_str);
        let from = wiring.board.named(thing.from);
        remarks.push(match thing.to {
            Some(to) => format!("{from}: {what} gives way, to receptacle {}", to.1),
            None => format!("{from}: {what} gives way"),
        });
    }
    remarks.extend(notes(wiring, plan));
    remarks.extend(closing(wiring, plan).lines().next().map(str::to_owned));
    remarks
}
