//! Why a topology cannot be had, and what can.

use std::fmt::Write;

use serde_json::{Value, json};

use super::json::json as plan_json;
use super::notes::older;
use super::{SCHEMA_VERSION, Wiring, counted, name, word};
use crate::mesh::wiring::{Impossible, Short, Topology, WiringPlan};
use crate::model::hardware::Thunderbolt;
use crate::model::{Inventory, NodeName};
use crate::view::Printer;
use crate::view::text::hanging;

/// Why the topology cannot be had, for people; with the ring that can.
pub fn impossible_human(wiring: &Wiring<'_>, no: &Impossible, ring: Option<&WiringPlan>, printer: Printer) -> String {
    let what = name(no.topology);
    let mut out = format!("A {what} of the {} is impossible:\n", counted(wiring.macs.len(), "Mac"));
    for reason in reasons(wiring.inventory, no) {
        out.push_str(&hanging("  - ", &reason, printer.width));
    }
    if let Some(older) = older(wiring) {
        out.push_str(&hanging("  - ", &older, printer.width));
    }
    for text in instead(wiring, no, ring) {
        out.push('\n');
        out.push_str(&hanging("", &text, printer.width));
    }
    let Some(ring) = ring else { return out };
    for [a, b] in ring.wiring().iter().filter(|c| ring.demand.pairs.contains(&(c[0].0, c[1].0))) {
        let _ = writeln!(out, "  {} – {}", wiring.board.named(*a), wiring.board.named(*b));
    }
    let hint = format!(
        "set `runtime.backend: {}` in macluster.yaml; `macluster cabling plan --topology ring` gives the steps",
        backend(wiring)
    );
    out.push_str(&hanging("hint: ", &hint, printer.width));
    out
}

/// What these Macs can be instead, the ring's cables to follow.
fn instead(wiring: &Wiring<'_>, no: &Impossible, ring: Option<&WiringPlan>) -> Vec<String> {
    let mut told = Vec::new();
    let mesh: Vec<&str> = no.largest_mesh.iter().map(NodeName::as_str).collect();
    let five = wiring.board.stations.iter().filter(|s| s.thunderbolt == Some(Thunderbolt::Five)).count();
    told.push(match mesh.len() {
        _ if five < 2 => {
            "A full mesh is there for RDMA, which needs Thunderbolt 5 at both ends: these Macs gain nothing by it."
                .to_owned()
        }
        0 | 1 => "No two of these Macs can be joined.".to_owned(),
        n => format!(
            "The largest full mesh has {n} Macs: {}. To plan it, leave the others out of macluster.yaml.",
            mesh.join(", ")
        ),
    });
    told.push(match (ring, no.topology) {
        (Some(_), _) => format!("Instead, a ring of all of them for the backend `{}`:", backend(wiring)),
        (None, Topology::Mesh) => {
            "A ring of all of them is impossible too. Without cables, the backend `ring` with `over: management` runs on \
             all of them."
                .to_owned()
        }
        (None, Topology::Ring) => {
            "Without cables, the backend `ring` with `over: management` runs on all of them.".to_owned()
        }
    });
    told
}

/// The ring backend that these Macs can run.
fn backend(wiring: &Wiring<'_>) -> &'static str {
    let five = wiring.board.stations.iter().all(|s| s.thunderbolt == Some(Thunderbolt::Five));
    if five { "jaccl-ring" } else { "ring" }
}

fn reasons(inventory: &Inventory, no: &Impossible) -> Vec<String> {
    let mut alike: Vec<(Vec<&Short>, &Short)> = Vec::new();
    for short in &no.short {
        let same = |other: &Short| Short { node: short.node.clone(), ..other.clone() } == *short;
        match alike.iter_mut().find(|(_, first)| same(first)) {
            Some((group, _)) => group.push(short),
            None => alike.push((vec![short], short)),
        }
    }
    let mut reasons: Vec<String> = alike
        .iter()
        .map(|(group, short)| {
            let mut why = Vec::new();
            why.extend(short.excluded.map(|r| format!("receptacle {r} must not be used for RDMA")));
            why.extend(short.usb_c_front.then(|| "the front ports are USB-C without Thunderbolt".to_owned()));
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
            let labels: Vec<String> = group.iter().map(|s| inventory.label(&s.node)).collect();
            let (who, has, need) = match labels.len() {
                1 => (labels.join(", "), "has", "needs"),
                n if n == inventory.nodes.len() => (format!("each of the {n} Macs"), "has", "needs"),
                _ => (labels.join(", "), "each have", "need"),
            };
            let numbers: Vec<String> = short.usable.iter().map(ToString::to_string).collect();
            let usable = match numbers.len() {
                0 => "no Thunderbolt receptacle that it could use".to_owned(),
                n => format!("{} ({})", counted(n, "usable Thunderbolt receptacle"), numbers.join(", ")),
            };
            format!("{who} {has} {usable} and {need} {}{why}", short.needed)
        })
        .collect();
    reasons.extend(no.too_many.map(|n| format!("MLX's mesh ends at 8 nodes, these are {n}")));
    reasons
}

/// Why the topology cannot be had, for programs.
pub fn impossible_json(wiring: &Wiring<'_>, no: &Impossible, ring: Option<&WiringPlan>) -> Value {
    let short: Vec<Value> = no
        .short
        .iter()
        .map(|s| json!({"node": s.node, "usable": s.usable.len(), "needed": s.needed, "excluded": s.excluded, "usb_c_front": s.usb_c_front}))
        .collect();
    json!({
        "schema_version": SCHEMA_VERSION,
        "rack": wiring.inventory.rack,
        "topology": word(no.topology),
        "possible": false,
        "short": short,
        "reasons": reasons(wiring.inventory, no),
        "largest_mesh": no.largest_mesh,
        "ring": ring.map(|plan| json!({"backend": backend(wiring), "plan": plan_json(wiring, plan)})),
    })
}
