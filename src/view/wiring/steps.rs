//! One step in words.

use super::{Wiring, name};
use crate::mesh::wiring::{End, Plugs, Step, WiringPlan};

/// A step in words.
pub(super) struct Told {
    pub(super) head: String,
    pub(super) places: Vec<(&'static str, String)>,
    pub(super) urgent: bool,
}

pub(super) fn tell(wiring: &Wiring<'_>, plan: &WiringPlan, number: usize, step: &Step) -> Told {
    let place = |end: Option<End>| end.map_or_else(|| "(unplugged)".to_owned(), |e| wiring.place(e));
    match step {
        Step::Apply => Told {
            head: format!(
                "run `macluster network apply` first, then go on with step {}: with the bridges of these receptacles \
                 up, the next cable would close a cycle (broadcast storm)",
                number + 2
            ),
            places: vec![],
            urgent: true,
        },
        Step::Give(thing) => {
            let what = wiring.board.stations[thing.from.0].things.get(&thing.from.1);
            let what = what.map_or("what is plugged in here", String::as_str);
            let mut places = vec![("from", wiring.place(thing.from))];
            places.extend(thing.to.map(|to| ("to", wiring.place(to))));
            Told {
                head: format!("this has to give way to the {}: {what}", name(plan.demand.topology)),
                places,
                urgent: false,
            }
        }
        Step::Cable { cable, before, after, stop } => {
            let (head, places) = match (before, after) {
                ([None, None], _) if *cable >= wiring.board.cables.len() => (
                    if wiring.at_hand { "plug this cable in" } else { "plug in a new cable" }.to_owned(),
                    vec![("from", place(after[0])), ("to", place(after[1]))],
                ),
                (_, [None, None]) => {
                    let taken = before.iter().flatten().map(|e| ("from", wiring.place(*e))).collect();
                    ("take this cable out".to_owned(), taken)
                }
                _ => moved(wiring, plan, number, *cable, *before, *after),
            };
            if *stop {
                let head = format!("STOP, {head}: bridges and cables form a cycle (broadcast storm)");
                return Told { head, places, urgent: true };
            }
            Told { head, places, urgent: false }
        }
    }
}

/// One or both plugs of a cable change their place.
fn moved(
    wiring: &Wiring<'_>,
    plan: &WiringPlan,
    number: usize,
    cable: usize,
    before: Plugs,
    after: Plugs,
) -> (String, Vec<(&'static str, String)>) {
    let mut places = Vec::new();
    let changed: Vec<usize> = (0..2).filter(|p| before[*p] != after[*p]).collect();
    for plug in &changed {
        places.extend(before[*plug].map(|end| ("from", wiring.place(end))));
        places.extend(after[*plug].map(|end| ("to", wiring.place(end))));
    }
    for plug in (0..2).filter(|p| !changed.contains(p)) {
        places.extend(after[plug].map(|end| ("stays", wiring.place(end))));
    }
    let pulled = changed.iter().any(|p| before[*p].is_some());
    let plugged = changed.iter().any(|p| after[*p].is_some());
    let head = match (changed.len(), pulled, plugged) {
        (1, true, true) => "move one end of this cable".to_owned(),
        (2, true, true) => "move both ends of this cable".to_owned(),
        (_, false, _) => "plug the loose end in".to_owned(),
        _ => {
            let later = plan.steps.iter().enumerate().skip(number + 1);
            let again = later.into_iter().find(|(_, s)| matches!(s, Step::Cable { cable: c, .. } if *c == cable));
            let again = again.map_or_else(String::new, |(i, _)| format!(" (step {} plugs it in again)", i + 1));
            format!("unplug this end now and let it hang{again}")
        }
    };
    (head, places)
}
