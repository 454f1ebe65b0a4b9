//! The technician's sheet: who is on it, who is not and why, and every word of it.

use macluster::model::facts::{OsVersion, RdmaSwitch};
use macluster::playbook::{Checklist, Playbooks, Templates, Work, checklist};
use macluster::view::checklist::{json, render};

use crate::support::rack::Rack;

fn sheet(rack: &Rack) -> Checklist {
    checklist(&rack.inventory, &rack.snapshot, &Playbooks::load(None).expect("playbooks")).expect("a sheet")
}

fn text(sheet: &Checklist, template: &str) -> String {
    render(sheet, &Templates::load(None).expect("templates"), template).expect("renders")
}

/// One Mac for Recovery, one with an old macOS, one with Thunderbolt 4, one that is ready, one that is off.
fn mixed() -> Rack {
    let mut rack = Rack::studios(5);
    rack.facts("studio-1").rdma_switch = Ok(RdmaSwitch::Disabled);
    let old = rack.facts("studio-2");
    old.os = Ok(OsVersion { version: "15.6".to_owned(), extra: String::new(), build: "24G84".to_owned() });
    old.rdma_switch = Ok(RdmaSwitch::NoCommand);
    let four = rack.facts("studio-3");
    four.hardware.as_mut().expect("hardware").model = "Mac14,14".to_owned();
    four.rdma_switch = Ok(RdmaSwitch::Disabled);
    rack.lose("studio-5");
    rack
}

#[test]
fn only_macs_that_it_helps_are_sent_to_recovery() {
    let sheet = sheet(&mixed());
    let work: Vec<_> = sheet.nodes.iter().map(|n| (n.node.as_str(), n.work)).collect();
    assert_eq!(work, [("studio-1", Work::EnableRdma), ("studio-2", Work::UpdateMacos)]);
    let [four] = sheet.left_out.as_slice() else { panic!("{:?}", sheet.left_out) };
    assert_eq!(four.node.as_str(), "studio-3");
    assert!(four.why.contains("has Thunderbolt 4: RDMA needs Thunderbolt 5"), "{}", four.why);
    assert_eq!(sheet.ready.iter().map(ToString::to_string).collect::<Vec<_>>(), ["studio-4"]);
    assert_eq!(sheet.unreachable.len(), 1);
}

#[test]
fn every_format_says_the_same_exactly() {
    let sheet = sheet(&mixed());
    insta::assert_snapshot!("checklist_text", text(&sheet, "checklist.txt"));
    insta::assert_snapshot!("checklist_markdown", text(&sheet, "checklist.md"));
    insta::assert_snapshot!("checklist_html", text(&sheet, "checklist.html"));
    insta::assert_snapshot!("checklist_json", serde_json::to_string_pretty(&json(&sheet)).expect("JSON"));
}

#[test]
fn a_ready_rack_has_nothing_to_do() {
    let sheet = sheet(&Rack::studios(2));
    assert!(sheet.nodes.is_empty());
    for template in ["checklist.txt", "checklist.md", "checklist.html"] {
        let text = text(&sheet, template);
        assert!(text.contains("Nothing to do."), "{text}");
        assert!(text.contains("Need nothing: studio-1, studio-2"), "{text}");
    }
}

#[test]
fn what_is_not_known_is_said_and_sends_nobody() {
    let mut rack = Rack::studios(3);
    rack.facts("studio-1").rdma_switch = Ok(RdmaSwitch::NoCommand);
    let hardware = rack.facts("studio-2").hardware.as_mut().expect("hardware");
    hardware.model = "Mac99,1".to_owned();
    let blind = rack.facts("studio-2");
    blind.receptacles.as_mut().expect("receptacles").clear();
    blind.sysctl.as_mut().expect("sysctl").clear();
    blind.rdma_switch = Ok(RdmaSwitch::Disabled);
    // Without its hardware report the Mac is known by its other facts, and the serial number is left to be read.
    let nameless = rack.facts("studio-3");
    nameless.hardware = Err(macluster::model::FactError {
        tool: "system_profiler".to_owned(),
        kind: macluster::model::FactErrorKind::Malformed,
        line: Some(3),
        message: "expected `]`".to_owned(),
    });
    nameless.rdma_switch = Ok(RdmaSwitch::Disabled);
    let sheet = sheet(&rack);
    let said = |all: &[macluster::playbook::Told]| all.iter().map(|t| t.why.clone()).collect::<Vec<_>>();
    assert_eq!(said(&sheet.left_out), ["macOS 26.5.1 (25F80) has no rdma_ctl, although 26.2 and later should"]);
    let unknown = "what kind of receptacles it has is not known; run `macluster doctor`";
    assert_eq!(said(&sheet.unknown), [unknown]);
    for template in ["checklist.txt", "checklist.md", "checklist.html"] {
        let text = text(&sheet, template);
        assert!(text.contains("Unknown") && text.contains(unknown), "{text}");
    }
    let [node] = sheet.nodes.as_slice() else { panic!("{:?}", sheet.nodes) };
    assert_eq!((node.model.as_str(), node.serial.as_str()), ("Mac15,14", "not known"));
}

#[test]
fn nobody_knowing_is_not_nothing_to_do() {
    for silent in [true, false] {
        let mut rack = Rack::studios(1);
        if silent {
            rack.lose("studio-1");
        } else {
            let error = macluster::model::FactError {
                tool: "rdma_ctl".to_owned(),
                kind: macluster::model::FactErrorKind::Malformed,
                line: None,
                message: "no such shape".to_owned(),
            };
            rack.facts("studio-1").rdma_switch = Err(error);
        }
        for template in ["checklist.txt", "checklist.md", "checklist.html"] {
            let text = text(&sheet(&rack), template);
            assert!(!text.contains("Nothing to do") && text.contains("studio-1 (slot 1): "), "{text}");
        }
    }
}

#[test]
fn a_bar_in_a_serial_number_makes_no_column() {
    let mut rack = Rack::studios(1);
    let facts = rack.facts("studio-1");
    facts.rdma_switch = Ok(RdmaSwitch::Disabled);
    facts.hardware.as_mut().expect("hardware").serial = "A|B".to_owned();
    let text = text(&sheet(&rack), "checklist.md");
    assert!(text.contains("| A\\|B |"), "{text}");
}

#[test]
fn hostile_words_from_a_node_stay_words() {
    let mut rack = Rack::studios(1);
    let facts = rack.facts("studio-1");
    facts.rdma_switch = Ok(RdmaSwitch::Disabled);
    facts.hardware.as_mut().expect("hardware").serial = "<script>x</script>\u{1b}[2J".to_owned();
    let sheet = sheet(&rack);
    assert!(!text(&sheet, "checklist.html").contains("<script>"));
    assert!(!text(&sheet, "checklist.txt").contains('\u{1b}'));
}
