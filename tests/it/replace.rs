//! `macluster node replace` on the simulated rack: a Mac is swapped, and what must change changes.

use std::path::PathBuf;

use macluster::sim::state::RackState;
use macluster::sim::store::{read_json, write_json};
use macluster::sim::{Builder, Rack, RunningRack};

use crate::support::binary;
use crate::support::live::{done, run};
use crate::support::terminal::at_a_terminal;

/// The key of a Mac that is gone.
const GONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB";

fn rack() -> Builder {
    Rack::builder().binary(binary()).prepared(true)
}

fn known_hosts(rack: &RunningRack) -> PathBuf {
    rack.dir.join("known_hosts")
}

fn text(path: impl AsRef<std::path::Path>) -> String {
    std::fs::read_to_string(path).expect("readable")
}

/// Records the rack, then puts another Mac in the place of studio-3: other serial, domain UUIDs and host key than
/// recorded, and its cables hanging loose. Gives the key of the new Mac.
async fn swapped(rack: &RunningRack) -> String {
    run(rack, &["snapshot", "before.json"]).await.expect(0);
    let new = rack.node("studio-3").expect("a node");
    new.node
        .update(|state| {
            state.computer.serial = "NEWMAC0001".to_owned();
            for receptacle in &mut state.receptacles {
                receptacle.domain_uuid = format!("0BADC0DE-0000-4000-8000-{:012}", receptacle.id);
            }
        })
        .expect("written");
    let port = new.address.port();
    let mut key = String::new();
    let known: Vec<String> = text(known_hosts(rack))
        .lines()
        .map(|line| match line.strip_prefix(&format!("[127.0.0.1]:{port} ")) {
            Some(own) => {
                own.clone_into(&mut key);
                format!("[127.0.0.1]:{port},old-name {GONE} the Mac that is gone")
            }
            None => line.to_owned(),
        })
        .collect();
    std::fs::write(known_hosts(rack), known.join("\n") + "\n").expect("written");
    let file = rack.dir.join("rack.json");
    let mut state: RackState = read_json(&file).expect("a rack");
    state.cables.retain(|c| c.a.node != "studio-3" && c.b.node != "studio-3");
    write_json(&file, &state).expect("written");
    key
}

/// Everything that differs from run to run.
fn same_for_all(rack: &RunningRack, text: &str) -> String {
    let port = rack.node("studio-3").expect("a node").address.port().to_string();
    let mut out = text.replace(&rack.dir.display().to_string(), "DIR").replace(&port, "PORT");
    while let Some(start) = out.find("SHA256:") {
        let end = out[start..].find([' ', '\n', ',', '"']).map_or(out.len(), |e| start + e);
        out.replace_range(start..end, "(fingerprint)");
    }
    let mut serial = out.clone();
    if let Some(at) = out.find("serial\n    old  ") {
        let start = at + "serial\n    old  ".len();
        let end = out[start..].find('\n').map_or(out.len(), |e| start + e);
        serial.replace_range(start..end, "(serial)");
    }
    serial
}

#[tokio::test(flavor = "multi_thread")]
async fn another_mac_takes_the_place_and_its_cables_return() {
    let rack = rack().start().await.expect("a rack");
    swapped(&rack).await;
    let (inventory, known) = (text(&rack.inventory), text(known_hosts(&rack)));
    // The changed key keeps every other command away from the new Mac.
    let ran = run(&rack, &["doctor"]).await.expect(6);
    assert!(ran.stdout.contains("has CHANGED") || ran.stderr.contains("has CHANGED"), "{ran:?}");

    // Nobody to ask: nothing changes.
    let ran = run(&rack, &["node", "replace", "studio-3", "--from", "before.json"]).await.expect(2);
    assert!(ran.stderr.contains("nothing was changed: there is no terminal to ask at"), "{}", ran.stderr);
    assert_eq!((text(&rack.inventory), text(known_hosts(&rack))), (inventory.clone(), known.clone()));
    // Another fingerprint than the one that was seen at the machine.
    let args = ["node", "replace", "studio-3", "--from", "before.json", "--yes", "--fingerprint", "SHA256:other"];
    let ran = run(&rack, &args).await.expect(4);
    assert!(ran.stderr.contains("not the key with the fingerprint SHA256:other"), "{}", ran.stderr);
    assert_eq!(text(known_hosts(&rack)), known);

    let ran = run(&rack, &["node", "replace", "studio-3", "--from", "before.json", "--yes"]).await.expect(0);
    insta::assert_snapshot!("replace_as_recorded", same_for_all(&rack, &ran.stdout));
    assert_eq!(text(&rack.inventory), inventory, "same address: the inventory stays as it is");
    // One line lost a name, one was added, all others are the same.
    let after = text(known_hosts(&rack));
    let port = rack.node("studio-3").expect("a node").address.port();
    let kept: Vec<&str> = after.lines().filter(|l| !l.starts_with(&format!("[127.0.0.1]:{port} "))).collect();
    let expected = known.replace(&format!("[127.0.0.1]:{port},old-name"), "old-name");
    assert_eq!(kept, expected.lines().collect::<Vec<_>>());
    let json = run(&rack, &["cabling", "-o", "json"]).await.expect(0).json();
    assert_eq!(json["missing_pairs"].as_array().expect("pairs").len(), 2, "all three answer again");
    // Again: it is the same Mac now.
    run(&rack, &["snapshot", "after.json"]).await.expect(0);
    let ran = run(&rack, &["node", "replace", "studio-3", "--from", "after.json", "--yes"]).await.expect(4);
    assert!(ran.stderr.contains("still the same Mac as in the recording (serial NEWMAC0001)"), "{}", ran.stderr);
    let ran = run(&rack, &["node", "replace", "studio-3", "--yes"]).await.expect(4);
    assert!(ran.stderr.contains("studio-3 seems to be the same Mac as ever"), "{}", ran.stderr);
    done(rack).await;
}

/// Who is asked sees both Macs before the answer, and only the word `yes` changes anything.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_word_yes_typed_by_a_person_replaces() {
    let rack = rack().start().await.expect("a rack");
    let key = swapped(&rack).await;
    let (inventory, known) = (text(&rack.inventory), text(known_hosts(&rack)));
    let (dir, hosts) = (rack.dir.clone(), known_hosts(&rack));
    let unchanged = known.clone();
    let (no, yes) = tokio::task::spawn_blocking(move || {
        let replace = ["node", "replace", "studio-3", "--from", "before.json"];
        let no = at_a_terminal(&dir, &replace, "y", || ());
        assert_eq!(text(&hosts), unchanged);
        let yes = at_a_terminal(&dir, &replace, "yes", || assert_eq!(text(&hosts), unchanged, "before the answer"));
        (no, yes)
    })
    .await
    .expect("runs");
    let no = no.expect(130);
    assert!(no.stderr.contains("Only `yes` is accepted:"), "{}", no.stderr);
    assert!(!no.stdout.contains("Replaced"), "{}", no.stdout);
    let yes = yes.expect(0);
    let shown = format!("{}{}", yes.stderr, yes.stdout);
    assert!(shown.contains("NEWMAC0001") && shown.contains("host key"), "{shown}");
    let after = text(known_hosts(&rack));
    assert!(after.contains(key.split(' ').nth(1).expect("a key")), "the new key is recorded: {after}");
    assert_eq!(text(&rack.inventory), inventory);
    // The steps bring the mesh back: done as told, nothing is left to do.
    assert!(yes.stdout.contains("  1. plug this cable in\n") && yes.stdout.contains("  2. plug this cable in\n"));
    let file = rack.dir.join("rack.json");
    let mut state: RackState = read_json(&file).expect("a rack");
    let ends: Vec<(String, u32)> = yes.stdout.lines().filter_map(plug).collect();
    assert_eq!(ends.len(), 4, "{}", yes.stdout);
    for pair in ends.chunks(2) {
        let mut cable = state.cables[0].clone();
        for (plug, (node, receptacle)) in [&mut cable.a, &mut cable.b].into_iter().zip(pair) {
            (plug.node, plug.receptacle) = (node.clone(), *receptacle);
        }
        state.cables.push(cable);
    }
    write_json(&file, &state).expect("written");
    let ran = run(&rack, &["cabling", "plan", "--detailed-exitcode"]).await.expect(0);
    assert!(ran.stdout.contains("No changes: the wiring is a full mesh."), "{}", ran.stdout);
    done(rack).await;
}

/// `from  studio-1 (slot 1), receptacle 3 (…)` as a place.
fn plug(line: &str) -> Option<(String, u32)> {
    let line = line.trim().strip_prefix("from ").or_else(|| line.trim().strip_prefix("to "))?;
    let (node, rest) = line.trim().split_once(" (slot ")?;
    let receptacle = rest.split_once("receptacle ")?.1.split(' ').next()?.parse().ok()?;
    Some((node.to_owned(), receptacle))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_recording_the_cables_are_planned() {
    let rack = rack().start().await.expect("a rack");
    swapped(&rack).await;
    let ran = run(&rack, &["node", "replace", "studio-3", "--yes", "-o", "json"]).await.expect(0);
    let json = ran.json();
    assert_eq!((&json["old"], &json["new"]["serial"]), (&serde_json::Value::Null, &"NEWMAC0001".into()));
    assert_eq!(json["recabling"]["as_recorded"], false);
    assert_eq!(json["recabling"]["plan"]["counts"]["new"], 2);
    assert_eq!(json["known_hosts"]["removed"][0]["key"]["type"], "ssh-ed25519");
    assert!(ran.stderr.contains("NEWMAC0001"), "the person at the desk sees who it is: {}", ran.stderr);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_address_changes_that_value_alone() {
    let rack = rack().start().await.expect("a rack");
    swapped(&rack).await;
    let before = text(&rack.inventory).replace("nodes:", "# the rack in the cellar\nnodes:  # three of them");
    std::fs::write(&rack.inventory, &before).expect("written");
    let args = ["node", "replace", "studio-3", "--host", "localhost", "--yes", "--from", "before.json"];
    let ran = run(&rack, &args).await.expect(0);
    assert!(ran.stdout.contains("host of studio-3 is localhost"), "{}", ran.stdout);
    let after = text(&rack.inventory);
    let changed: Vec<(&str, &str)> = before.lines().zip(after.lines()).filter(|(a, b)| a != b).collect();
    let [(was, is)] = changed.as_slice() else { panic!("one line changes: {changed:?}") };
    assert_eq!(was.replace("127.0.0.1", "localhost").replace('"', ""), is.replace('"', ""));
    assert_eq!(before.lines().count(), after.lines().count());
    // What was recorded for the old address is not about this Mac and stays.
    assert!(text(known_hosts(&rack)).contains("the Mac that is gone"));
    run(&rack, &["cabling"]).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_take_the_place_is_refused() {
    let rack = rack().nodes(4).start().await.expect("a rack");
    let key = swapped(&rack).await;
    let auto = text(&rack.inventory).replace("backend: ring", "backend: auto");
    std::fs::write(&rack.inventory, auto).expect("written");
    let before = (text(&rack.inventory), text(known_hosts(&rack)));
    let replace = ["node", "replace", "studio-3", "--yes", "--from", "before.json"];
    let set = |change: &dyn Fn(&mut macluster::sim::state::NodeState)| {
        rack.node("studio-3").expect("a node").node.update(|state| change(state)).expect("written");
    };
    let all = rack.node("studio-3").expect("a node").node.load().expect("a state").receptacles;
    let twin = rack.node("studio-2").expect("a node").node.load().expect("a state");
    set(&|state| state.computer.serial.clone_from(&twin.computer.serial));
    let ran = run(&rack, &replace).await.expect(4);
    assert!(
        ran.stderr.contains("the Mac that answers for studio-3 is studio-2 (slot 2): one Mac is one node"),
        "{ran:?}"
    );
    set(&|state| {
        "NEWMAC0001".clone_into(&mut state.computer.serial);
        "Mac16,10".clone_into(&mut state.computer.model);
        state.receptacles.truncate(3);
    });
    let ran = run(&rack, &replace).await.expect(4);
    assert!(
        ran.stderr.contains("Mac16,10 (Mac mini M4 (2024)) has Thunderbolt 4: RDMA needs Thunderbolt 5"),
        "{ran:?}"
    );
    set(&|state| {
        "Mac16,9".clone_into(&mut state.computer.model);
        state.receptacles.truncate(3);
    });
    let ran = run(&rack, &replace).await.expect(4);
    assert!(
        ran.stderr.contains(
            "Mac16,9 (Mac Studio M4 Max (2025)) has 2 usable Thunderbolt receptacles; the full mesh of these 4 nodes needs 3"
        ),
        "{ran:?}"
    );
    // A ring needs fewer.
    let ring = before.0.replace("backend: auto", "backend: jaccl-ring").replace("over: management", "over: links");
    std::fs::write(&rack.inventory, ring).expect("written");
    run(&rack, &replace[..3]).await.expect(2);
    std::fs::write(&rack.inventory, &before.0).expect("written");
    let ran = run(&rack, &["node", "replace", "studio-7"]).await.expect(10);
    assert!(ran.stderr.contains("its nodes are studio-1, studio-2, studio-3, studio-4"), "{}", ran.stderr);
    assert_eq!((text(&rack.inventory), text(known_hosts(&rack))), before, "nothing changes");
    // The key is recorded for another node.
    set(&|state| {
        "Mac15,14".clone_into(&mut state.computer.model);
        state.receptacles.clone_from(&all);
    });
    let port = rack.node("studio-2").expect("a node").address.port();
    std::fs::write(known_hosts(&rack), format!("[127.0.0.1]:{port} {key}\n")).expect("written");
    let ran = run(&rack, &replace).await.expect(4);
    assert!(ran.stderr.contains("offers the key that is recorded for studio-2 (slot 2): one Mac"), "{ran:?}");
    done(rack).await;
}
