//! Link networks on the simulated rack, by the real binary.

use std::path::Path;

use macluster::sim::state::{Plug, RackState};
use macluster::sim::store::{read_json, write_json};
use macluster::sim::{Builder, Fault, Rack, RunningRack};

use crate::support::binary;
use crate::support::live::{done, run};
use crate::support::terminal::at_a_terminal;

fn rack() -> Builder {
    Rack::builder().binary(binary())
}

const APPLY: &[&str] = &["network", "apply", "--yes"];
const PENDING: &[&str] = &["network", "plan", "--detailed-exitcode"];

/// Every node's state but what moves by itself.
fn states(rack: &RunningRack) -> Vec<String> {
    let state = |n: &macluster::sim::RunningNode| format!("{:?}", n.node.load().expect("a state").interfaces);
    rack.nodes.iter().map(state).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stock_rack_is_linked_and_a_second_plan_is_empty() {
    let rack = rack().start().await.expect("a rack");
    let before = states(&rack);
    let planned = run(&rack, PENDING).await.expect(5);
    assert_eq!(states(&rack), before, "plan changes nothing");
    let applied = run(&rack, APPLY).await.expect(0);
    assert!(applied.stdout.starts_with(&planned.stdout), "apply shows the plan that plan showed");
    insta::assert_snapshot!("network_apply_stock", applied.stdout.strip_prefix(&planned.stdout).unwrap_or_default());
    assert!(applied.stderr.contains("studio-2$ sudo ifconfig bridge0 deletem en3"), "{}", applied.stderr);
    let after = states(&rack);
    assert_ne!(after, before);
    let again = run(&rack, PENDING).await.expect(0);
    assert!(again.stdout.ends_with("No changes. Every link has its network.\n"), "{}", again.stdout);
    // Receptacles without a link are still in the bridge, which is still there.
    let members = &rack.nodes[0].node.load().expect("a state").interface("bridge0").expect("a bridge").members.clone();
    assert_eq!(members, &["en2", "en5", "en6", "en7"]);
    // Applying again proves the links and runs nothing.
    let twice = run(&rack, APPLY).await.expect(0);
    assert!(!twice.stderr.contains('$') && twice.stdout.contains("3 of 3 link networks are in place."), "{twice:?}");
    assert_eq!(states(&rack), after);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_to_ask_means_nothing_is_applied() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    let before = states(&rack);
    let ran = run(&rack, &["network", "apply"]).await.expect(2);
    assert!(
        ran.stderr
            .ends_with("error: not applied: there is no terminal to ask at\nhint: --yes applies without asking\n")
    );
    assert_eq!(states(&rack), before);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_a_cable_keeps_the_addresses() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    run(&rack, APPLY).await.expect(0);
    let file = rack.dir.join("rack.json");
    let mut state: RackState = read_json(&file).expect("a rack");
    state.cables[0].a = Plug { node: "studio-1".to_owned(), receptacle: 5 };
    write_json(&file, &state).expect("written");
    let planned = run(&rack, &["network", "plan", "-o", "json"]).await.expect(0).json();
    assert_eq!(planned["links"][0]["network"], "10.254.0.0/30");
    assert_eq!(planned["links"][0]["a"]["interface"], "en6");
    assert_eq!(planned["links"][0]["a"]["address"], "10.254.0.1");
    assert!(planned["changes"].as_array().expect("changes").iter().all(|c| c["node"] == "studio-1"), "{planned}");
    run(&rack, APPLY).await.expect(0);
    run(&rack, PENDING).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_cables_between_two_macs_are_two_networks() {
    let rack = rack().nodes(2).fault(Fault::DuplicateCable).start().await.expect("a rack");
    let json = run(&rack, &["network", "apply", "--yes", "-o", "json"]).await.expect(0).json();
    let links = json["plan"]["links"].as_array().expect("links");
    let networks: Vec<_> = links.iter().map(|l| (l["network"].as_str(), l["rail"].as_u64())).collect();
    assert_eq!(networks, [(Some("10.254.0.0/30"), Some(0)), (Some("10.254.255.252/30"), Some(1))]);
    assert_eq!(json["verified"]["links"][1]["verdict"], "pass");
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_excluded_receptacle_is_left_alone() {
    let rack = rack().fault(Fault::ReceptacleOne).start().await.expect("a rack");
    let ran = run(&rack, APPLY).await.expect(0);
    assert!(
        ran.stdout.contains("receptacle 1 (back right, beside Ethernet; en2) must not carry RDMA"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("2 of 2 link networks are in place."), "{}", ran.stdout);
    for node in &rack.nodes {
        let state = node.node.load().expect("a state");
        assert!(state.interface("bridge0").expect("a bridge").members.contains(&"en2".to_owned()));
    }
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_are_served_when_one_does_not_answer() {
    let rack = rack().fault(Fault::Unreachable).start().await.expect("a rack");
    let ran = run(&rack, PENDING).await.expect(6);
    assert!(ran.stdout.contains("studio-3 (slot 3): not planned: "), "{}", ran.stdout);
    let ran = run(&rack, APPLY).await.expect(6);
    assert!(ran.stdout.contains("1 of 1 link networks are in place."), "{}", ran.stdout);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_at_the_wrong_gid_index_is_set_again_and_then_taken_back() {
    let rack = rack().nodes(2).fault(Fault::NoGid).start().await.expect("a rack");
    let before = states(&rack);
    let ran = run(&rack, APPLY).await.expect(6);
    assert!(ran.stderr.contains("studio-2: en3: its address is not at index 1 of the GID table: setting it again"));
    assert!(
        ran.stdout.contains("fail: studio-2 (slot 2): studio-2 en3: GID[1] of rdma_en3 is fe80::"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("the node has taken its changes back; it is as before"), "{}", ran.stdout);
    assert!(ran.stdout.contains("pass: studio-1 (slot 1): 3 changes, confirmed"), "{}", ran.stdout);
    assert_ne!(states(&rack)[0], before[0], "the other node stands");
    assert_eq!(sorted(&rack, 1), (["en2", "en3", "en4", "en5", "en6", "en7"].map(str::to_owned).to_vec(), 0));
    done(rack).await;
}

/// Puts a command before the playbook's `set-address` that works only where an interface has the node's own name.
fn failing_playbook(dir: &Path) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks/network.yaml"))
        .expect("readable");
    let set = "      - [/sbin/ifconfig, \"{interface}\", inet, \"{address}\", netmask, \"{netmask}\"]\n";
    assert!(text.contains(set));
    let to = format!("      - [/sbin/ifconfig, \"{{node}}\", up]\n{set}");
    std::fs::write(dir.join("network.yaml"), text.replace(set, &to)).expect("written");
}

/// Members of a node's bridge and addresses of its link interfaces, in order of names.
fn sorted(rack: &RunningRack, node: usize) -> (Vec<String>, usize) {
    let state = rack.nodes[node].node.load().expect("a state");
    let mut members = state.interface("bridge0").expect("a bridge").members.clone();
    members.sort();
    (members, ["en3", "en4"].iter().map(|i| state.interface(i).expect("an interface").inet.len()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_is_taken_back_and_the_others_go_on() {
    let rack = rack().start().await.expect("a rack");
    let books = tempfile::tempdir().expect("a folder");
    failing_playbook(books.path());
    for node in &rack.nodes[..2] {
        let add = |state: &mut macluster::sim::state::NodeState| {
            let mut interface = state.interface("en7").expect("an interface").clone();
            interface.name.clone_from(&node.node.name);
            state.interfaces.push(interface);
        };
        node.node.update(add).expect("a state");
    }
    let before = states(&rack);
    let members = sorted(&rack, 2);
    let flag = books.path().display().to_string();
    let ran = run(&rack, &[&["--playbooks", &flag], APPLY].concat()).await.expect(6);
    let told = ran.stdout.split_once("Applied\n").expect("a report").1;
    insta::assert_snapshot!("network_apply_failure", told);
    // The node that failed is as it was; the other two did what they could.
    let after = states(&rack);
    assert_eq!(sorted(&rack, 2), members);
    assert!(after[0] != before[0] && after[1] != before[1]);
    // With the real playbook it converges.
    run(&rack, APPLY).await.expect(0);
    run(&rack, PENDING).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_sudo_wants_a_password_that_nobody_can_type_stays_as_it_is() {
    let rack = rack().fault(Fault::SudoPassword).start().await.expect("a rack");
    let before = states(&rack);
    let ran = run(&rack, APPLY).await.expect(6);
    assert!(
        ran.stdout.contains("fail: studio-3 (slot 3): nothing was changed: sudo: it needs a password"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("1 of 3 link networks are in place."), "{}", ran.stdout);
    assert_eq!(states(&rack)[2], before[2]);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_the_bridge_is_refused_from_a_recording_too() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    run(&rack, &["snapshot", "facts.json"]).await.expect(0);
    let file = rack.dir.join("facts.json");
    let text = std::fs::read_to_string(&file).expect("readable");
    let mut snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for probe in snapshot["nodes"]["studio-2"]["transcripts"].as_array_mut().expect("transcripts") {
        match probe["probe"].as_str() {
            Some("session") => probe["stdout"] = "192.0.2.1 50000 192.0.2.99 22\n".into(),
            Some("ifconfig") => {
                let stdout = probe["stdout"].as_str().expect("text");
                let (head, bridge) = stdout.split_once("\nbridge0: ").expect("a bridge");
                let (first, rest) = bridge.split_once('\n').expect("lines");
                let inet = "\tinet 192.0.2.99 netmask 0xffffff00 broadcast 192.0.2.255";
                probe["stdout"] = format!("{head}\nbridge0: {first}\n{inet}\n{rest}").into();
            }
            _ => {}
        }
    }
    std::fs::write(&file, snapshot.to_string()).expect("written");
    let ran = run(&rack, &["--from", "facts.json", "network", "plan"]).await.expect(4);
    assert!(
        ran.stdout.contains("studio-2 (slot 2): not changed: the SSH session rides on bridge0 (a bridge)"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.ends_with("Nothing is planned until the failures above are resolved.\n"), "{}", ran.stdout);
    run(&rack, &["--from", "facts.json", "network", "apply", "--yes"]).await.expect(2);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clash_is_named_and_nothing_happens() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    let own = rack.nodes[0].node.load().expect("a state").interface("en0").expect("Ethernet").inet[0];
    let pool = ipnet::Ipv4Net::new(own.address, own.prefix).expect("a network").trunc();
    std::fs::write(&rack.inventory, format!("{text}network: {{ pool: {pool} }}\n")).expect("written");
    let before = states(&rack);
    let ran = run(&rack, APPLY).await.expect(4);
    let told = format!("overlaps the address {}/{} on en0", own.address, own.prefix);
    assert!(ran.stdout.contains(&told), "{}", ran.stdout);
    assert!(ran.stdout.contains("network: { pool: 10.25"), "{}", ran.stdout);
    assert_eq!(states(&rack), before);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_read_is_left_alone() {
    let rack = rack().fault(Fault::Garbage).start().await.expect("a rack");
    let before = states(&rack);
    let ran = run(&rack, APPLY).await.expect(4);
    assert!(ran.stdout.contains("studio-3 (slot 3): not planned: system_profiler"), "{}", ran.stdout);
    assert_eq!(states(&rack)[2], before[2]);
    assert!(ran.stdout.contains("1 of 1 link networks are in place."), "{}", ran.stdout);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_word_yes_applies_and_only_what_was_shown() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    let before = states(&rack);
    let dir = rack.dir.clone();
    let node = rack.nodes[0].node.clone();
    let stray = move || {
        let add = |state: &mut macluster::sim::state::NodeState| {
            let inet = macluster::sim::state::Inet { address: "169.254.7.7".parse().expect("an address"), prefix: 16 };
            state.interface_mut("en3").expect("an interface").inet.push(inet);
        };
        node.update(add).expect("a state");
    };
    let (no, stale, yes) = tokio::task::spawn_blocking(move || {
        let apply = ["network", "apply"];
        (
            at_a_terminal(&dir, &apply, "y", || ()),
            at_a_terminal(&dir, &apply, "yes", stray),
            at_a_terminal(&dir, &apply, "yes", || ()),
        )
    })
    .await
    .expect("runs");
    assert_eq!(no.status, 130, "{}", no.stderr);
    assert!(no.stderr.contains("error: not applied"), "{}", no.stderr);
    assert_eq!(stale.status, 8, "{}", stale.stderr);
    assert!(stale.stderr.contains("the rack has moved since the plan was shown"), "{}", stale.stderr);
    assert!(stale.stderr.contains("studio-1: interface en3 up → interface en3 up, 169.254.7.7/16"), "{}", stale.stderr);
    assert_eq!(yes.status, 0, "{}", yes.stderr);
    assert_ne!(states(&rack), before);
    run(&rack, PENDING).await.expect(0);
    done(rack).await;
}
