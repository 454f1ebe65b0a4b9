//! The diagram of the cables that are there.

use super::{Cable, Diagram, End, Far, Look, Mac};
use crate::mesh::{self, CableEnd, LinkGraph, ranks};
use crate::model::command::printable;
use crate::model::hardware;
use crate::model::panel::{Numbering, Panel};
use crate::model::{Inventory, NodeName, Snapshot};
use crate::network::{Desired, desired};
use crate::view::cabling::state::{flaws, words};

/// The rack as its facts show it. Without `cables` the Macs alone are drawn, to fill in by hand.
pub fn from_rack(inventory: &Inventory, snapshot: &Snapshot, graph: &LinkGraph, cables: bool) -> Diagram {
    let nodes: Vec<NodeName> = ranks::order(inventory).into_iter().map(|n| n.name.clone()).collect();
    let mut diagram = Diagram {
        title: format!("Rack {}", inventory.rack),
        subtitle: format!("cables as the Macs reported them at {:.0}", snapshot.taken_at),
        macs: nodes.iter().map(|n| mac(inventory, snapshot, n)).collect(),
        cables: Vec::new(),
        remarks: Vec::new(),
    };
    if !cables {
        "without its cables".clone_into(&mut diagram.subtitle);
        return diagram;
    }
    let at = |end: &CableEnd| {
        let mac = nodes.iter().position(|n| *n == end.node)?;
        Some(End { mac, receptacle: end.receptacle })
    };
    let networks = desired(inventory, snapshot, graph);
    let mut found: Vec<Cable> = graph.links.values().filter_map(|l| link(l, &networks, graph, snapshot, at)).collect();
    found.extend(graph.odd.iter().filter_map(|c| odd(c, at)));
    // As a person walks along the rack: from the first Mac to the last.
    found.sort_by_key(|c| match &c.far {
        Far::End(far) => (c.near.mac, far.mac, c.near.receptacle),
        Far::Outside(_) => (c.near.mac, usize::MAX, c.near.receptacle),
    });
    for (cable, number) in found.iter_mut().zip(1..) {
        cable.label = format!("{number}");
    }
    diagram.cables = found;
    diagram.remarks = remarks(&nodes, inventory, snapshot, graph);
    diagram
}

fn mac(inventory: &Inventory, snapshot: &Snapshot, node: &NodeName) -> Mac {
    let slot = inventory.node(node).and_then(|n| n.slot).map(|s| format!("slot {s}"));
    let Some(facts) = snapshot.facts(node) else {
        let about = slot.into_iter().chain(["did not answer".to_owned()]).collect::<Vec<_>>().join(" · ");
        let panel = Panel { faces: Vec::new(), numbering: Numbering::Unknown };
        return Mac { name: node.to_string(), about, panel, excluded: None };
    };
    let mac = hardware::Mac::of(facts);
    let reported = facts.hardware.as_ref().ok().map(|h| printable(&format!("{} ({})", h.name, h.model)));
    let model = mac.name().map(str::to_owned).or(reported);
    let receptacles: Vec<u32> = facts.receptacles.iter().flatten().map(|r| r.id).collect();
    Mac {
        name: node.to_string(),
        about: slot.into_iter().chain(model).collect::<Vec<_>>().join(" · "),
        panel: Panel::of(&mac, &receptacles),
        excluded: mac.excluded(),
    }
}

fn link(
    link: &mesh::Link,
    networks: &Desired,
    graph: &LinkGraph,
    snapshot: &Snapshot,
    at: impl Fn(&CableEnd) -> Option<End>,
) -> Option<Cable> {
    let flaws = flaws(link, graph, snapshot);
    let (mut near, mut far) = (at(&link.id.a)?, at(&link.id.b)?);
    if near > far {
        std::mem::swap(&mut near, &mut far);
    }
    Some(Cable {
        label: String::new(),
        near,
        far: Far::End(far),
        network: networks.link(&link.id).map(|n| n.network.to_string()),
        gbps: link.gbps,
        look: if flaws.is_empty() { Look::Good } else { Look::Flawed },
        state: printable(&words(&flaws)),
    })
}

fn odd(cable: &mesh::Cable, at: impl Fn(&CableEnd) -> Option<End>) -> Option<Cable> {
    let (far, state) = match cable {
        mesh::Cable::SelfLoop(_, b) => (Far::End(at(b)?), "self loop: joins nothing".to_owned()),
        mesh::Cable::Foreign(peer) => (Far::Outside(peer.what.clone()), "to a Mac that is not in the rack".to_owned()),
        mesh::Cable::Unknown(peer, candidates) => {
            let names = candidates.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            (Far::Outside(peer.what.clone()), format!("to an unknown Mac: {names} could not be asked"))
        }
        mesh::Cable::Untold(peer) => (Far::Outside(peer.what.clone()), "to a Mac that tells no domain UUID".to_owned()),
    };
    let far = match far {
        Far::Outside(what) => Far::Outside(printable(&what)),
        end @ Far::End(_) => end,
    };
    let near = at(cable.end())?;
    Some(Cable { label: String::new(), near, far, network: None, gbps: None, look: Look::Flawed, state })
}

fn remarks(nodes: &[NodeName], inventory: &Inventory, snapshot: &Snapshot, graph: &LinkGraph) -> Vec<String> {
    let mut remarks = Vec::new();
    let seen: Vec<NodeName> = nodes.iter().filter(|n| !graph.blind.contains(*n)).cloned().collect();
    let missing: Vec<String> =
        graph.pairs_missing(&seen).into_iter().map(|(one, other)| format!("{one} – {other}")).collect();
    if !missing.is_empty() {
        remarks.push(format!("No cable joins: {}", missing.join(", ")));
    }
    for node in &graph.blind {
        let why = if snapshot.facts(node).is_none() { "did not answer" } else { "does not tell all its receptacles" };
        remarks.push(format!("{} {why}: its cables are not known", inventory.label(node)));
    }
    remarks
}
