//! One line for each cable.

use comfy_table::Cell;

use super::Cabling;
use super::state::{flaws, words};
use crate::mesh::{Cable, CableEnd};
use crate::model::command::printable;
use crate::model::hardware::Mac;
use crate::view::Printer;

/// Links with their interfaces.
pub(super) fn links(cabling: &Cabling<'_>, printer: Printer) -> String {
    let mut table = super::grid(printer);
    table.add_row(["from", "", "to", "", "Gb/s", "state"].map(Cell::new));
    for link in cabling.graph.links.values() {
        let ends = link.ends().map(|(end, interface)| {
            let interface = interface.map_or_else(|| "?".to_owned(), printable);
            [end.node.to_string(), format!("{} ({interface})", end.receptacle)]
        });
        let state = words(&flaws(link, cabling.graph, cabling.snapshot));
        let speed = link.gbps.map_or_else(|| "?".to_owned(), |g| g.to_string());
        let row = ends.into_iter().flatten().chain([speed, printable(&state)]);
        table.add_row(row.map(Cell::new));
    }
    super::text(&table)
}

/// A cable that is no link, in words.
pub(super) fn odd(cabling: &Cabling<'_>, cable: &Cable) -> String {
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
    printable(&words)
}
