//! `cabling`: who is connected to whom, as a matrix and a list for people, as JSON for programs.

use std::fmt::Write;

use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::mesh::{Cable, CableEnd, Link, LinkGraph, SeenBy, interface_of, ranks, usable};
use crate::model::hardware::Mac;
use crate::model::{Inventory, NodeName, Snapshot};
use crate::view::Printer;
use crate::view::text::{Tint, hanging, paint};

/// Version of the JSON.
const SCHEMA_VERSION: u32 = 1;

/// What is shown.
pub struct Cabling<'a> {
    /// Names and order.
    pub inventory: &'a Inventory,
    /// Facts.
    pub snapshot: &'a Snapshot,
    /// Cables.
    pub graph: &'a LinkGraph,
}

impl Cabling<'_> {
    fn nodes(&self) -> Vec<NodeName> {
        ranks::order(self.inventory).into_iter().map(|n| n.name.clone()).collect()
    }

    fn interface(&self, end: &CableEnd) -> Option<&str> {
        self.snapshot.facts(&end.node).and_then(|f| interface_of(f, end.receptacle))
    }

    fn position(&self, end: &CableEnd) -> Option<&'static str> {
        self.snapshot.facts(&end.node).and_then(|f| Mac::of(f).position(end.receptacle))
    }

    /// What is not right with a link, in words; empty when it is fit for RDMA.
    fn flaws(&self, link: &Link) -> Vec<String> {
        let mut flaws = Vec::new();
        match link.seen_by {
            SeenBy::Both => {}
            SeenBy::OnlyA => flaws.push(format!("seen by {} only", link.id.a.node)),
            SeenBy::OnlyB => flaws.push(format!("seen by {} only", link.id.b.node)),
        }
        if let Some(dock) = &link.via_dock {
            flaws.push(format!("through {dock}"));
        }
        for (end, _) in link.ends() {
            let excluded = self.snapshot.facts(&end.node).and_then(|f| Mac::of(f).excluded());
            if excluded == Some(end.receptacle) {
                flaws.push(format!("excluded receptacle on {}", end.node));
            }
        }
        match link.gbps {
            None => flaws.push("speed unknown".to_owned()),
            Some(gbps) if gbps < usable::RDMA_MIN_GBPS => flaws.push("slow".to_owned()),
            Some(_) => {}
        }
        if link.rail > 0 {
            flaws.push(format!("rail {}", link.rail));
        }
        flaws
    }
}

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
                "flaws": cabling.flaws(link),
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
    let missing: Vec<Value> = missing(cabling).into_iter().map(|(a, b)| json!([a, b])).collect();
    let document = json!({
        "schema_version": SCHEMA_VERSION,
        "rack": cabling.inventory.rack,
        "taken_at": cabling.snapshot.taken_at,
        "links": links,
        "other_cables": other,
        "missing_pairs": missing,
        "unseen_nodes": cabling.graph.blind,
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// Pairs without a cable, as far as both nodes can be seen.
fn missing(cabling: &Cabling<'_>) -> Vec<(NodeName, NodeName)> {
    let seen: Vec<NodeName> = cabling.nodes().into_iter().filter(|n| !cabling.graph.blind.contains(n)).collect();
    cabling.graph.pairs_missing(&seen)
}

/// For people.
pub fn human(cabling: &Cabling<'_>, printer: Printer) -> String {
    let mut out = format!("Rack {}, facts of {:.0}\n", cabling.inventory.rack, cabling.snapshot.taken_at);
    let nodes = cabling.nodes();
    if nodes.len() > 1 {
        let _ = writeln!(
            out,
            "\n{}\n{}",
            paint(printer, Tint::Bold, "Which receptacle of the row is cabled to which of the column"),
            matrix(cabling, &nodes, printer)
        );
    }
    if !cabling.graph.links.is_empty() {
        let _ = writeln!(out, "\n{}\n{}", paint(printer, Tint::Bold, "Links"), list(cabling, printer));
    }
    if !cabling.graph.odd.is_empty() {
        let _ = writeln!(out, "\n{}", paint(printer, Tint::Bold, "Other cables"));
        for cable in &cabling.graph.odd {
            out.push_str(&hanging("  ", &odd(cabling, cable), printer.width));
        }
    }
    out.push('\n');
    for node in &cabling.graph.blind {
        let text = format!("{}: its receptacles are not known, so its cables are not", cabling.inventory.label(node));
        out.push_str(&hanging("  ? ", &text, printer.width));
    }
    let missing = missing(cabling);
    for (a, b) in &missing {
        let text = format!("no cable joins {} and {}", cabling.inventory.label(a), cabling.inventory.label(b));
        out.push_str(&hanging("  – ", &text, printer.width));
    }
    let flawed = cabling.graph.links.values().filter(|l| !cabling.flaws(l).is_empty()).count();
    let links = cabling.graph.links.len();
    let counted = |n: usize, word: &str| if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") };
    let (links, pairs) = (counted(links, "link"), counted(missing.len(), "pair"));
    let _ = writeln!(out, "{links}, {flawed} with a remark; {pairs} without a cable");
    if flawed > 0 || !missing.is_empty() || !cabling.graph.odd.is_empty() || !cabling.graph.blind.is_empty() {
        let _ = writeln!(out, "hint: `macluster doctor --check cabling,mesh` says what to do about each");
    }
    out
}

fn grid(printer: Printer) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.force_no_tty().set_width(u16::try_from(printer.width).unwrap_or(80));
    table
}

fn text(table: &Table) -> String {
    table.lines().map(|l| l.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn matrix(cabling: &Cabling<'_>, nodes: &[NodeName], printer: Printer) -> String {
    let mut table = grid(printer);
    table.add_row(std::iter::once(Cell::new("")).chain(nodes.iter().map(Cell::new)));
    for row in nodes {
        let cells = nodes.iter().map(|column| {
            if row == column {
                return Cell::new("·");
            }
            let mut words: Vec<String> = cabling
                .graph
                .between(row, column)
                .map(|link| {
                    let number = |n: &NodeName| link.end(n).map_or(0, |e| e.receptacle);
                    let mark = if cabling.flaws(link).is_empty() { "" } else { " !" };
                    format!("{}↔{}{mark}", number(row), number(column))
                })
                .collect();
            if words.is_empty() {
                let blind = cabling.graph.blind.contains(row) || cabling.graph.blind.contains(column);
                words.push(if blind { "?" } else { "–" }.to_owned());
            }
            Cell::new(words.join(", "))
        });
        table.add_row(std::iter::once(Cell::new(row)).chain(cells));
    }
    text(&table)
}

fn list(cabling: &Cabling<'_>, printer: Printer) -> String {
    let mut table = grid(printer);
    table.add_row(["from", "", "to", "", "Gb/s", "state"].map(Cell::new));
    for link in cabling.graph.links.values() {
        let ends = link.ends().map(|(end, interface)| {
            let interface = interface.map_or_else(|| "?".to_owned(), crate::model::command::printable);
            [end.node.to_string(), format!("{} ({interface})", end.receptacle)]
        });
        let flaws = cabling.flaws(link);
        let state = if flaws.is_empty() { "ok".to_owned() } else { flaws.join(", ") };
        let speed = link.gbps.map_or_else(|| "?".to_owned(), |g| g.to_string());
        let row = ends.into_iter().flatten().chain([speed, crate::model::command::printable(&state)]);
        table.add_row(row.map(Cell::new));
    }
    text(&table)
}

fn odd(cabling: &Cabling<'_>, cable: &Cable) -> String {
    let place = |end: &CableEnd| {
        let interface = cabling.interface(end);
        let place = cabling.snapshot.facts(&end.node).map(|f| Mac::of(f).place(end.receptacle, interface));
        format!("{}, {}", cabling.inventory.label(&end.node), place.unwrap_or_default())
    };
    let words = match cable {
        Cable::SelfLoop(a, b) => format!("{}: back to receptacle {} of the same Mac", place(a), b.receptacle),
        Cable::Foreign(peer) => format!("{}: to a {} that is not in the rack", place(&peer.end), peer.what),
        Cable::Unknown(peer, candidates) => {
            let names = candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!("{}: to an unknown {} ({names} could not be asked)", place(&peer.end), peer.what)
        }
        Cable::Untold(peer) => format!("{}: to a {} that tells no domain UUID", place(&peer.end), peer.what),
    };
    crate::model::command::printable(&words)
}
