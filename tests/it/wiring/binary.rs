//! `macluster cabling plan` as it is printed, to the character.

use macluster::model::facts::{Attached, Interface};

use crate::support::rack::{Rack, name};
use crate::support::{Ran, macluster};

/// Puts every receptacle of every Mac into a bridge, as macOS does.
fn bridged(mut rack: Rack) -> Rack {
    for n in 1..=rack.inventory.nodes.len() {
        let interfaces = rack.facts(&format!("studio-{n}")).interfaces.as_mut().expect("interfaces");
        interfaces.push(Interface {
            name: "bridge0".to_owned(),
            members: (2..=7).map(|i| format!("en{i}")).collect(),
            ..Interface::default()
        });
    }
    rack
}

fn plan(rack: &Rack, more: &[&str]) -> Ran {
    let dir = tempfile::tempdir().expect("a folder");
    rack.record(dir.path());
    macluster(dir.path(), &[&["cabling", "plan", "--from", "rack.json"], more].concat())
}

/// A cable beside Ethernet, a second cable, a dock, two pairs without a cable.
fn untidy() -> Rack {
    let mut rack = Rack::studios(4);
    rack.cable("studio-1", 1, "studio-2", 2);
    rack.cable("studio-1", 3, "studio-3", 3);
    rack.cable("studio-1", 4, "studio-3", 2);
    rack.cable("studio-2", 3, "studio-4", 3);
    rack.cable("studio-3", 4, "studio-4", 2);
    rack.receptacle("studio-4", 4).connected = true;
    rack.receptacle("studio-4", 4).attached =
        vec![Attached::Device { name: "Desk Dock".to_owned(), vendor: None, mode: None, behind: vec![] }];
    rack
}

#[test]
fn an_untidy_rack_is_told_step_by_step() {
    insta::assert_snapshot!("wiring_untidy", plan(&untidy(), &[]).expect(0).stdout);
    insta::assert_snapshot!("wiring_untidy_json", plan(&untidy(), &["-o", "json"]).expect(0).stdout);
    insta::assert_snapshot!("wiring_untidy_bridged", plan(&bridged(untidy()), &[]).expect(0).stdout);
    insta::assert_snapshot!("wiring_untidy_ring", plan(&untidy(), &["--topology", "ring"]).expect(0).stdout);
    plan(&untidy(), &["--detailed-exitcode"]).expect(5);
}

#[test]
fn a_full_mesh_needs_nothing() {
    let ran = plan(&Rack::meshed(4), &["--detailed-exitcode"]).expect(0);
    assert_eq!(
        ran.stdout,
        "Wiring of bench as a full mesh: 4 Macs, 6 cables\n\nNo changes: the wiring is a full mesh.\n"
    );
    assert_eq!(ran.stderr, "");
    // Unless the bridges are up: then it is a storm.
    insta::assert_snapshot!("wiring_storm", plan(&bridged(Rack::meshed(3)), &[]).expect(0).stdout);
}

#[test]
fn an_impossible_mesh_names_what_is_possible() {
    let rack = Rack::of("Mac16,9", "Mac Studio", 5, 4);
    insta::assert_snapshot!("wiring_impossible", plan(&rack, &[]).expect(4).stdout);
    insta::assert_snapshot!("wiring_impossible_json", plan(&rack, &["-o", "json"]).expect(4).stdout);
    plan(&rack, &["--topology", "ring"]).expect(0);
    // Older Macs, and one without any receptacle: what is told of each, and what is left.
    insta::assert_snapshot!(
        "wiring_impossible_older",
        plan(&Rack::of("Mac14,14", "Mac Studio", 8, 6), &[]).expect(4).stdout
    );
    let dir = tempfile::tempdir().expect("a folder");
    let inventory =
        "nodes:\n  - {name: a, host: a.invalid}\n  - {name: b, host: b.invalid}\n  - {name: c, host: c.invalid}\n";
    std::fs::write(dir.path().join("macluster.yaml"), inventory).expect("written");
    let args = ["cabling", "plan", "--model", "Mac15,14", "--model", "c=Mac17,5"];
    insta::assert_snapshot!("wiring_impossible_without_thunderbolt", macluster(dir.path(), &args).expect(4).stdout);
}

/// Who is left out of the largest mesh: rather the Mac that RDMA does not run on than one with fewer receptacles.
#[test]
fn the_largest_mesh_is_one_for_rdma_when_there_is_one() {
    let mut rack = Rack::studios(7);
    let old = Rack::of("Mac14,14", "Mac Studio", 7, 6);
    rack.snapshot.nodes.insert(name("studio-2"), old.snapshot.nodes[&name("studio-2")].clone());
    let told = plan(&rack, &["-o", "json"]).expect(4).json();
    let mesh = ["studio-1", "studio-3", "studio-4", "studio-5", "studio-6", "studio-7"];
    assert_eq!(told["largest_mesh"], serde_json::json!(mesh));
}

/// The picture of a plan ends as the plan does, and is drawn of one only.
#[test]
fn a_plan_is_drawn_or_it_is_told_why_not() {
    let draw = |rack: &Rack, args: &[&str]| {
        let dir = tempfile::tempdir().expect("a folder");
        rack.record(dir.path());
        macluster(dir.path(), &[&["cabling", "diagram", "--from", "rack.json"], args].concat())
    };
    let mesh = draw(&untidy(), &["--planned"]).expect(0).stdout;
    assert!(mesh.starts_with("Rack bench, plan: the cables of a full mesh as they are to be\n"), "{mesh}");
    let ring = draw(&untidy(), &["--planned", "--topology", "ring", "-o", "svg"]).expect(0).stdout;
    assert!(ring.contains("plan: the cables of a ring as they are to be"), "{ring}");
    let storm = draw(&bridged(Rack::meshed(3)), &["--planned"]).expect(0).stdout;
    assert!(storm.contains("Do not plug from this picture alone"), "{storm}");

    let impossible = draw(&Rack::of("Mac16,9", "Mac Studio", 5, 4), &["--planned"]).expect(4);
    assert_eq!(impossible.stdout, "");
    assert!(impossible.stderr.starts_with("error: there is no plan to draw\n"), "{}", impossible.stderr);
    assert!(impossible.stderr.contains("The largest full mesh has 4 Macs"), "{}", impossible.stderr);
    let ran = draw(&untidy(), &["--topology", "ring"]).expect(2);
    assert_eq!(ran.stderr, "error: --topology and --model are for a plan: add --planned\n");
    draw(&untidy(), &["--planned", "--without-cables"]).expect(2);
    let mut unseen = Rack::meshed(3);
    unseen.lose("studio-3");
    draw(&unseen, &["--planned"]).expect(6);
}

#[test]
fn a_node_that_was_not_seen_is_not_planned_for() {
    let mut rack = Rack::meshed(3);
    rack.lose("studio-3");
    let ran = plan(&rack, &[]).expect(6);
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "error: the wiring cannot be planned:\n  \
         studio-3 (slot 3) was not seen: no answer from 192.0.2.13:22 within 10 s\n\
         hint: models, receptacles and cables come from the nodes' own facts: `macluster doctor` says what is wrong\n"
    );
    rack.lose("studio-1");
    rack.lose("studio-2");
    let ran = plan(&rack, &[]).expect(7);
    assert!(ran.stderr.ends_with("can be planned without its nodes: --model MODEL\n"), "{}", ran.stderr);
}

#[test]
fn an_empty_rack_is_planned_from_its_models_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let inventory = "nodes:\n  - {name: a, host: a.invalid}\n  - {name: b, host: b.invalid}\n";
    std::fs::write(dir.path().join("macluster.yaml"), inventory).expect("written");
    let run = |args: &[&str]| macluster(dir.path(), &[&["cabling", "plan"], args].concat());
    insta::assert_snapshot!("wiring_models", run(&["--model", "Mac16,11", "--model", "b=Mac15,14"]).expect(0).stdout);
    assert_eq!(
        run(&["--model", "b=Mac15,14"]).expect(2).stderr,
        "error: `--model` says nothing of a: add --model a=MODEL\n"
    );
    assert_eq!(
        run(&["--model", "Mac15,41"]).expect(2).stderr,
        "error: `--model Mac15,41`: \"Mac15,41\" is no model that is known here\n\
         hint: did you mean Mac15,14 (Mac Studio M3 Ultra (2025))?\n"
    );
    run(&["--model", "c=Mac15,14"]).expect(10);
    let ran = run(&["--model", "Mac16,1"]).expect(2);
    assert!(ran.stderr.contains("a is a model whose number of Thunderbolt receptacles is not known"), "{}", ran.stderr);
}
