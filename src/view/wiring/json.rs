//! The plan for programs.

use serde_json::{Value, json};

use super::notes::notes;
use super::steps::tell;
use super::{SCHEMA_VERSION, Wiring, word};
use crate::mesh::wiring::{End, Plugs, Step, WiringPlan};

/// The plan for programs.
pub fn json(wiring: &Wiring<'_>, plan: &WiringPlan) -> Value {
    let board = wiring.board;
    let node = |n: &usize| &board.names[*n];
    let cables: Vec<Value> = plan
        .wiring()
        .into_iter()
        .map(|ends| {
            let same = |c: &[End; 2]| *c == ends || [c[1], c[0]] == ends;
            let state = if plan.target.new.iter().any(same) {
                "new"
            } else if board.cables.iter().any(same) {
                "stays"
            } else {
                "moved"
            };
            json!({"a": wiring.end_json(ends[0]), "b": wiring.end_json(ends[1]), "state": state})
        })
        .collect();
    let steps: Vec<Value> = plan.steps.iter().enumerate().map(|(i, s)| step_json(wiring, plan, i, s)).collect();
    let counts = plan.counts(board);
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": wiring.inventory.rack,
        "topology": word(plan.demand.topology),
        "possible": true,
        "order": plan.demand.order.iter().map(node).collect::<Vec<_>>(),
        "wiring": cables,
        "steps": steps,
        "counts": {
            "stay": counts.stay, "move": counts.moved, "new": counts.new, "remove": counts.removed,
            "put_back": counts.put_back, "give_way": counts.given,
        },
        "fewest_proven": plan.choice.proven,
        "notes": notes(wiring, plan),
    })
}

fn step_json(wiring: &Wiring<'_>, plan: &WiringPlan, number: usize, step: &Step) -> Value {
    let text = tell(wiring, plan, number, step).head;
    let number = number + 1;
    match step {
        Step::Apply => json!({"number": number, "action": "network-apply", "text": text}),
        Step::Give(thing) => {
            let what = wiring.board.stations[thing.from.0].things.get(&thing.from.1);
            let ends = [Some(thing.from), thing.to];
            let [from, to] = ends.map(|e| e.map_or(Value::Null, |end| wiring.end_json(end)));
            json!({"number": number, "action": "give-way", "what": what, "from": from, "to": to, "text": text})
        }
        Step::Cable { before, after, stop, .. } => {
            let plugs = |plugs: &Plugs| plugs.iter().flatten().count();
            let action = match (plugs(before), plugs(after)) {
                (0, _) => "new",
                (_, 0) => "remove",
                (then, now) if now < then => "unplug",
                (then, now) if now > then => "plug",
                _ => "move",
            };
            json!({
                "number": number, "action": action, "stop": stop,
                "before": wiring.ends_json(*before), "after": wiring.ends_json(*after), "text": text,
            })
        }
    }
}
