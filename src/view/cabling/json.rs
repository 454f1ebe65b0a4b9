//! `cabling -o json`.

use serde_json::{Value, json};

use super::Cabling;
use super::state::{Flaw, flaws};
use crate::mesh::{Cable, CableEnd, Link, SeenBy};
use crate::model::Verdict;

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// For programs.
pub fn json(cabling: &Cabling<'_>) -> String {
    let end = |end: &CableEnd| {
        json!({
            "node": end.node,
            "receptacle": end.receptacle,
            "interface": cabling.interface(end),
            "position": cabling.position(end),
        })
    };
    let links: Vec<Value> = cabling
        .graph
        .links
        .values()
        .map(|link| {
            let flaws = flaws(link, cabling.graph, cabling.snapshot);
            json!({
                "a": end(&link.id.a),
                "b": end(&link.id.b),
                "gbps": link.gbps,
                "rail": link.rail,
                "seen_by": match link.seen_by {
                    SeenBy::Both => "both",
                    SeenBy::OnlyA => "a",
                    SeenBy::OnlyB => "b",
                },
                "via_dock": link.via_dock,
                "flaws": words(link, &flaws),
                "states": states(&flaws),
            })
        })
        .collect();
    let other: Vec<Value> = cabling
        .graph
        .odd
        .iter()
        .map(|cable| match cable {
            Cable::SelfLoop(a, b) => json!({"kind": "self_loop", "a": end(a), "b": end(b)}),
            Cable::Foreign(peer) => json!({"kind": "foreign", "a": end(&peer.end), "peer": peer.what}),
            Cable::Unknown(peer, candidates) => {
                json!({"kind": "unknown", "a": end(&peer.end), "peer": peer.what, "candidates": candidates})
            }
            Cable::Untold(peer) => json!({"kind": "untold", "a": end(&peer.end), "peer": peer.what}),
        })
        .collect();
    let missing: Vec<Value> = cabling.missing().into_iter().map(|(a, b)| json!([a, b])).collect();
    let told: Vec<_> = cabling.findings.iter().filter(|f| f.verdict > Verdict::Pass).collect();
    let document = json!({
        "schema_version": SCHEMA_VERSION,
        "rack": cabling.inventory.rack,
        "taken_at": cabling.snapshot.taken_at,
        "links": links,
        "other_cables": other,
        "missing_pairs": missing,
        "unseen_nodes": cabling.graph.blind,
        "findings": told,
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// Remarks for people; a rail above 0 is one of them whichever cable of the pair is the better one.
fn words(link: &Link, flaws: &[Flaw]) -> Vec<String> {
    let remarks = flaws.iter().filter(|f| **f != Flaw::Further).map(ToString::to_string);
    remarks.chain((link.rail > 0).then(|| format!("rail {}", link.rail))).collect()
}

/// The states by name: `good`, or each flaw once.
fn states(flaws: &[Flaw]) -> Vec<&'static str> {
    let mut states: Vec<&str> = Vec::new();
    for kind in flaws.iter().map(Flaw::kind) {
        if !states.contains(&kind) {
            states.push(kind);
        }
    }
    if states.is_empty() {
        states.push("good");
    }
    states
}
