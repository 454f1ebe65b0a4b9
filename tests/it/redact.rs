//! `snapshot --redact`: nothing that names anybody is left, and the rack is judged as before.

use std::collections::BTreeMap;

use macluster::model::Snapshot;
use macluster::sim::state::{Ghost, NodeState, Service};
use macluster::sim::{Fault, Rack, RunningRack};
use serde_json::Value;

use crate::support::live::{done, run};
use crate::support::{binary, macluster};

/// Names as people give them: of tools' words, with marks of patterns, one inside another.
const NAMES: [&str; 3] = ["en3", "bob.studio-1", "bob.studio-10"];

async fn rack(fault: Option<Fault>) -> RunningRack {
    let builder = Rack::builder().binary(binary()).nodes(3).prepared(true);
    let rack = fault.into_iter().fold(builder, macluster::sim::Builder::fault).start().await.expect("a rack");
    for node in &rack.nodes {
        let odd = |state: &mut NodeState| {
            state.services.push(Service {
                name: "Bobs B\u{fc}ro \u{1f4e1} (back)".to_owned(),
                port: "Thunderbolt 6".to_owned(),
                device: "en7".to_owned(),
                enabled: true,
                manual: true,
                router: None,
            });
            let command = "/Users/bob/bin/python3 -m http.server --token hunter2".to_owned();
            state.quirks.processes.push(Ghost { pid: 4343, ppid: 1, seconds: 9, command });
        };
        node.node.update(odd).expect("a state");
        let reports = node.node.root.join("Library/Logs/DiagnosticReports");
        std::fs::write(reports.join("BobsApp-2026-11-20-101500.ips"), "x").expect("written");
    }
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    let names = rack.nodes.iter().zip(NAMES).rev();
    let text = names.fold(text, |t, (n, new)| t.replace(&format!("name: {}", n.node.name), &format!("name: {new}")));
    std::fs::write(&rack.inventory, format!("# bob's own\n{text}").replace("simulated-rack", "bobs-rack"))
        .expect("written");
    rack
}

/// Everything of the rack that must not be found again.
fn identifiers(rack: &RunningRack, snapshot: &Snapshot) -> Vec<String> {
    let mut all: Vec<String> = ["bob", "B\u{fc}ro", "hunter2", "\"admin\"", "admin@"].map(str::to_owned).to_vec();
    for node in &rack.nodes {
        let state = node.node.load().expect("a state");
        let computer = &state.computer;
        all.extend(
            [&computer.serial, &computer.platform_uuid, &computer.provisioning_udid, &state.boot.session]
                .map(Clone::clone),
        );
        for receptacle in &state.receptacles {
            all.extend(
                [&receptacle.domain_uuid, &receptacle.guid, &receptacle.ip_service, &receptacle.rdma_service]
                    .map(Clone::clone),
            );
            all.push(receptacle.switch_uid.trim_start_matches("0x").to_owned());
        }
        for interface in &state.interfaces {
            all.extend(interface.mac.clone());
            all.extend(interface.link_local.iter().map(ToString::to_string));
            // Link addresses follow from the inventory and name nobody.
            let own = interface.inet.iter().map(|i| i.address);
            all.extend(own.filter(|a| !a.is_loopback() && a.octets()[..2] != [10, 254]).map(|a| a.to_string()));
        }
        all.push(node.node.root.display().to_string());
    }
    let macs: Vec<String> = snapshot
        .answered()
        .flat_map(|(_, f)| f.interfaces.iter().flatten())
        .filter_map(|i| i.ether.clone())
        .filter(|m| m != "00:00:00:00:00:00")
        .collect();
    all.extend(macs);
    all.retain(|text| !text.is_empty());
    all
}

/// Check, verdict and how many, with the nodes under these names.
fn findings(report: &Value, names: &BTreeMap<String, String>) -> BTreeMap<(String, String, String), usize> {
    let mut all = BTreeMap::new();
    for f in report["findings"].as_array().expect("findings") {
        let text = |v: &Value| v.as_str().map(|n| names.get(n).cloned().unwrap_or_else(|| n.to_owned()));
        let link = &f["link"];
        let about = format!(
            "{:?} {:?}:{} {:?}:{}",
            text(&f["node"]),
            text(&link["a"]["node"]),
            link["a"]["receptacle"],
            text(&link["b"]["node"]),
            link["b"]["receptacle"]
        );
        let key = (f["check"].to_string(), f["verdict"].to_string(), about);
        *all.entry(key).or_insert(0) += 1;
    }
    all
}

/// The nodes by the order of their own names, as the pseudonyms are.
fn renamed() -> BTreeMap<String, String> {
    let mut names = NAMES;
    names.sort_unstable();
    names.iter().zip(1..).map(|(n, i)| ((*n).to_owned(), format!("node-{i}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_named_and_the_rack_is_judged_as_before() {
    for fault in [
        None,
        Some(Fault::ForeignMac),
        Some(Fault::OneSided),
        Some(Fault::NoGid),
        Some(Fault::PoolClash),
        Some(Fault::SharedSubnet),
        Some(Fault::Unreachable),
        Some(Fault::ForeignEngine),
        Some(Fault::Panic),
        Some(Fault::LoginNoise),
        Some(Fault::DhcpLink),
        Some(Fault::Garbage),
    ] {
        let name = fault.map_or("none", Fault::name);
        let rack = rack(fault).await;
        // One reading: two would differ in what moves by itself.
        let plain = run(&rack, &["snapshot", "plain.json"]).await;
        let ran = macluster(&rack.dir, &["snapshot", "--redact", "--from", "plain.json", "public.json"]);
        assert_eq!(ran.status, plain.status, "{name}: {}", ran.stderr);
        let read = |file: &str| std::fs::read_to_string(rack.dir.join(file)).expect("readable");
        let snapshot: Snapshot = serde_json::from_str(&read("plain.json")).expect("a snapshot");
        let public = read("public.json").to_lowercase();
        for identifier in identifiers(&rack, &snapshot) {
            let at = public.find(&identifier.to_lowercase());
            let around = at.map(|at| {
                &public[public.floor_char_boundary(at.saturating_sub(90))..public.ceil_char_boundary(at + 60)]
            });
            assert_eq!(around, None, "{name}: {identifier} is still there");
        }
        let before = macluster(&rack.dir, &["doctor", "-o", "json", "--from", "plain.json"]).json();
        let after = macluster(&rack.dir, &["doctor", "-o", "json", "--from", "public.json"]).json();
        let (before, after) = (findings(&before, &renamed()), findings(&after, &BTreeMap::new()));
        let differ: Vec<_> = before.iter().filter(|f| after.get(f.0) != Some(f.1)).collect();
        let other: Vec<_> = after.iter().filter(|f| before.get(f.0) != Some(f.1)).collect();
        assert!(differ.is_empty() && other.is_empty(), "{name}: {differ:#?}\nbut {other:#?}");
        let diagram = macluster(&rack.dir, &["cabling", "-o", "json", "--from", "public.json"]);
        assert!(diagram.stdout.contains("node-1"), "{}", diagram.stderr);
        done(rack).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_rack_can_be_redacted_at_once_and_says_what_to_do_then() {
    let rack = rack(None).await;
    let ran = run(&rack, &["snapshot", "--redact", "public.json"]).await.expect(0);
    let last: Vec<&str> = ran.stderr.lines().rev().take(2).collect();
    assert_eq!(last[1], "wrote public.json (3 of 3 nodes)");
    assert!(last[0].starts_with("note: look through it before you publish it"), "{}", ran.stderr);
    run(&rack, &["doctor", "--from", "public.json"]).await.expect(0);
    done(rack).await;
}
