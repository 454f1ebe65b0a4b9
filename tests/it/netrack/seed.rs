//! A model that one node gives to the others, over real cables.

use std::path::PathBuf;

use super::rack::{NetRack, address};
use super::ready;
use crate::model::{model, weights};

/// Bytes that a node has received over the network that carries SSH.
fn received(rack: &NetRack, number: usize) -> u64 {
    let show = |args: &[&str]| rack.in_network(number, "ip", args).expect(0).json();
    let mine = address(number);
    let addresses = show(&["-json", "-4", "address", "show"]);
    let interface = addresses.as_array().expect("interfaces").iter().find(|i| i["addr_info"][0]["local"] == *mine);
    let name = interface.and_then(|i| i["ifname"].as_str()).expect("a management interface").to_owned();
    show(&["-json", "-s", "link", "show", "dev", &name])[0]["stats64"]["rx"]["bytes"].as_u64().expect("bytes")
}

fn folder(rack: &NetRack, number: usize) -> PathBuf {
    rack.root(number).join("opt/macluster/models/Tiny-Model.4bit")
}

/// Who gave it to each node; none for the desk.
fn givers(rack: &NetRack, path: &str) -> Vec<Option<String>> {
    let ran = rack.macluster(&["model", "push", path, "-o", "json"]).expect(0);
    for number in rack.numbers() {
        let there = std::fs::read(folder(rack, number).join("model-00002-of-00002.safetensors")).expect("there");
        assert_eq!(there, weights(2), "studio-{number}");
        assert!(!folder(rack, number).join(".incoming").exists(), "studio-{number}");
    }
    assert!(!ran.stderr.contains("warning:"), "{}", ran.stderr);
    let report = ran.json();
    let nodes = report["nodes"].as_array().expect("nodes");
    nodes.iter().map(|n| n["from"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_model_leaves_the_desk_once_and_goes_on_over_the_cables() {
    if !ready("seed::a_model_leaves_the_desk_once_and_goes_on_over_the_cables") {
        return;
    }
    let rack = NetRack::start(3, |_| ());
    let desk = tempfile::tempdir().expect("a folder");
    let source = model(desk.path());
    let path = source.to_str().expect("UTF-8");
    // Without link networks everything comes from the desk.
    assert_eq!(givers(&rack, path), [None, None, None]);
    rack.macluster(&["network", "apply", "--yes"]).expect(0);

    let one = || Some("studio-1".to_owned());
    for number in rack.numbers() {
        std::fs::remove_dir_all(folder(&rack, number)).expect("removed");
    }
    let before = received(&rack, 2);
    assert_eq!(givers(&rack, path), [None, one(), one()]);
    let came = received(&rack, 2) - before;
    assert!(came < 400_000, "{came} bytes of 600,261 came over the management network");
    rack.macluster(&["model", "check", "/opt/macluster/models/Tiny-Model.4bit"]).expect(0);

    // A node that has it all gives it; the desk sends nothing.
    for number in [1, 3] {
        std::fs::remove_file(folder(&rack, number).join("model-00002-of-00002.safetensors")).expect("removed");
    }
    let two = || Some("studio-2".to_owned());
    assert_eq!(givers(&rack, path), [two(), None, two()]);

    // Nothing goes on running, and no port stays open.
    for number in rack.numbers() {
        let ps = rack.ssh(number, "/bin/ps -axo command").stdout;
        assert!(!ps.contains("node seed"), "studio-{number}: {ps}");
    }

    // When asked, all of it comes from the desk.
    std::fs::remove_file(folder(&rack, 3).join("config.json")).expect("removed");
    let ran = rack.macluster(&["model", "push", path, "--from-desk"]).expect(0);
    assert!(ran.stdout.contains("studio-3 (slot 3): 1 of 5 files sent, 23 bytes\n"), "{}", ran.stdout);
}
