//! `cabling`: the matrix, what stands below it, and its JSON.

use macluster::check::{self, Context};
use macluster::mesh::LinkGraph;
use macluster::model::facts::Attached;
use macluster::view::Printer;
use macluster::view::cabling::{Cabling, human, json};

use crate::support::rack::Rack;

fn printer(width: usize) -> Printer {
    Printer { color: false, progress: false, width }
}

/// What `macluster cabling` prints, and its JSON.
fn shown(rack: &Rack, width: usize, verbose: bool) -> (String, String) {
    let graph = LinkGraph::build(&rack.snapshot);
    let ctx = Context { snapshot: &rack.snapshot, graph: &graph, inventory: &rack.inventory, links_script: "" };
    let report = check::of_cables(&ctx);
    let cabling =
        Cabling { inventory: &rack.inventory, snapshot: &rack.snapshot, graph: &graph, findings: &report.findings };
    (human(&cabling, printer(width), verbose), json(&cabling))
}

/// Every state at once: excluded, slow, one end only, through a dock, a further cable, a self loop, a missing pair.
fn sick() -> Rack {
    let mut rack = Rack::meshed(4);
    rack.unplug("studio-2", 2);
    rack.cable("studio-1", 2, "studio-2", 1);
    rack.receptacle("studio-3", 4).speed = Some("40 Gb/s".to_owned());
    rack.receptacle("studio-4", 4).speed = Some("40 Gb/s".to_owned());
    rack.unplug("studio-2", 3);
    rack.receptacle("studio-4", 2).attached.clear();
    for (node, id) in [("studio-2", 4), ("studio-4", 3)] {
        let behind = std::mem::take(&mut rack.receptacle(node, id).attached);
        rack.receptacle(node, id).attached =
            vec![Attached::Device { name: "Desk Dock".to_owned(), vendor: None, mode: None, behind }];
    }
    rack.cable("studio-4", 5, "studio-4", 6);
    rack.cable("studio-1", 6, "studio-3", 6);
    rack
}

#[test]
fn the_matrix_names_every_state_and_the_next_action() {
    let (text, json) = shown(&sick(), 80, true);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    insta::assert_snapshot!("cabling_human", text);
    insta::assert_snapshot!("cabling_json", json);
}

#[test]
fn a_node_that_does_not_answer_is_told_once_for_each_reason() {
    let mut rack = sick();
    rack.lose("studio-3");
    insta::assert_snapshot!("cabling_blind", shown(&rack, 80, false).0);
}

#[test]
fn a_good_rack_is_a_matrix_and_a_line() {
    insta::assert_snapshot!("cabling_good", shown(&Rack::meshed(4), 80, false).0);
}

#[test]
fn the_matrix_fits_or_gives_way_to_the_list() {
    for (count, width, matrix) in [(4, 80, true), (6, 80, true), (8, 100, true), (6, 60, false), (8, 80, false)] {
        let rack = if count > 6 { Rack::studios(count) } else { Rack::meshed(count) };
        let (text, _) = shown(&rack, width, false);
        assert!(text.lines().all(|l| l.chars().count() <= width), "{count} nodes, {width} columns:\n{text}");
        assert_eq!(text.contains("Receptacle of the row"), matrix, "{count} nodes, {width} columns:\n{text}");
        assert_eq!(text.contains("hint: the matrix needs"), !matrix, "{text}");
        assert_eq!(text.contains("\nLinks\n"), !matrix && count == 6, "{text}");
    }
}
