//! What an apply does only when it is asked to: another pool, a foreign daemon, a bridge in the preferences. Each with
//! its way back, on the simulated rack.

use std::path::PathBuf;

use macluster::model::network_facts::{EXO_JOB, LINKS_JOB};
use macluster::sim::{Builder, Fault, Rack, RunningRack};
use serde_json::Value;

use crate::support::binary;
use crate::support::live::{done, run};

const PENDING: &[&str] = &["network", "plan", "--detailed-exitcode"];
const APPLY: &[&str] = &["network", "apply", "--yes"];

/// What the plan says of an address that is not ours.
const BY_HAND: &str = "Somebody set this address by hand or with another tool";

fn rack() -> Builder {
    Rack::builder().binary(binary()).nodes(2)
}

fn on(rack: &RunningRack, node: usize, path: &str) -> PathBuf {
    rack.nodes[node].node.root.join(path)
}

/// What launchd has, as `doctor` reads it.
async fn jobs(rack: &RunningRack, node: &str) -> Vec<String> {
    run(rack, &["snapshot", "facts.json", "--force"]).await.expect(0);
    let text = std::fs::read_to_string(rack.dir.join("facts.json")).expect("readable");
    let snapshot: Value = serde_json::from_str(&text).expect("JSON");
    let all = snapshot["nodes"][node]["facts"]["Ok"]["network"]["jobs"]["Ok"].as_array().expect("jobs").clone();
    all.iter().map(|j| j["label"].as_str().expect("a label").to_owned()).collect()
}

fn addresses(rack: &RunningRack) -> Vec<String> {
    let each = |n: &macluster::sim::RunningNode| {
        let state = n.node.load().expect("a state");
        state.interface("en3").expect("an interface").inet.iter().map(|i| i.address.to_string()).collect::<Vec<_>>()
    };
    rack.nodes.iter().flat_map(each).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_pool_moves_the_addresses_that_were_ours() {
    let rack = rack().start().await.expect("a rack");
    let first = addresses(&rack);
    run(&rack, APPLY).await.expect(0);
    assert_eq!(addresses(&rack), ["10.254.0.1", "10.254.0.2"]);
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    std::fs::write(&rack.inventory, format!("{text}network: {{ pool: 10.99.0.0/24 }}\n")).expect("written");
    let planned = run(&rack, PENDING).await;
    assert!(!planned.stdout.contains(BY_HAND), "they are ours:\n{}", planned.stdout);
    assert!(planned.stdout.contains("10.254.0.1/30"), "{}", planned.stdout);
    run(&rack, &[APPLY, &["--readdress"]].concat()).await.expect(0);
    assert_eq!(addresses(&rack), ["10.99.0.1", "10.99.0.2"]);
    run(&rack, PENDING).await.expect(0);
    // One that was set by hand is somebody else's in any pool.
    let inet = macluster::sim::state::Inet { address: "10.77.0.9".parse().expect("an address"), prefix: 24 };
    rack.nodes[0].node.update(|s| s.interface_mut("en3").expect("an interface").inet.push(inet)).expect("a state");
    assert!(run(&rack, PENDING).await.stdout.contains(BY_HAND));
    run(&rack, &["network", "revert", "--yes"]).await.expect(0);
    assert_eq!(addresses(&rack), first);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_daemon_is_stopped_only_when_asked_and_runs_again_after_going_back() {
    let rack = rack().fault(Fault::ForeignDaemon).start().await.expect("a rack");
    let job = on(&rack, 1, &format!("Library/LaunchDaemons/{EXO_JOB}.plist"));
    let before = std::fs::read(&job).expect("its job file");
    assert_eq!(jobs(&rack, "studio-2").await, [EXO_JOB]);
    let ran = run(&rack, APPLY).await.expect(4);
    assert!(ran.stdout.contains(EXO_JOB) && ran.stdout.contains("--replace-foreign-daemon"), "{}", ran.stdout);
    assert_eq!(jobs(&rack, "studio-2").await, [EXO_JOB]);
    let ran = run(&rack, &[APPLY, &["--replace-foreign-daemon"]].concat()).await.expect(0);
    assert!(ran.stdout.contains("1 of 1 link networks are in place."), "{}", ran.stdout);
    assert_eq!(jobs(&rack, "studio-2").await, [LINKS_JOB]);
    run(&rack, PENDING).await.expect(0);
    run(&rack, &["network", "revert", "--yes"]).await.expect(0);
    assert_eq!(jobs(&rack, "studio-2").await, [EXO_JOB]);
    assert_eq!(std::fs::read(&job).expect("its job file"), before);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_of_the_preferences_goes_only_when_asked_and_comes_back_with_the_rest() {
    let rack = rack().start().await.expect("a rack");
    let file = "Library/Preferences/SystemConfiguration/preferences.plist";
    let read = |node: usize| plist::Value::from_file(on(&rack, node, file)).expect("a property list");
    let before = [read(0), read(1)];
    run(&rack, APPLY).await.expect(0);
    assert_eq!([read(0), read(1)], before, "an apply does not touch it");
    let ran = run(&rack, &[APPLY, &["--remove-bridge-entry"]].concat()).await.expect(0);
    assert!(ran.stdout.contains("bridge0"), "{}", ran.stdout);
    for node in 0..2 {
        let now = read(node);
        let bridge =
            now.as_dictionary().and_then(|d| d.get("VirtualNetworkInterfaces")?.as_dictionary()?.get("Bridge"));
        assert!(bridge.and_then(plist::Value::as_dictionary).is_none_or(plist::Dictionary::is_empty), "{bridge:?}");
    }
    let doctor = run(&rack, &["doctor", "--check", "network.bridge-latent", "-o", "json"]).await.expect(0).json();
    assert_eq!(doctor["verdict"], "pass", "{doctor:#}");
    run(&rack, PENDING).await.expect(0);
    run(&rack, &["network", "revert", "--yes"]).await.expect(0);
    assert_eq!([read(0), read(1)], before);
    done(rack).await;
}

/// What `deploy` says of the link networks before it asks. Nobody is there to answer.
async fn deploy_says(fault: Fault) -> String {
    let rack = Rack::builder().binary(binary()).nodes(2).prepared(true).fault(fault).start().await.expect("a rack");
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    std::fs::write(
        &rack.inventory,
        text.replace("over: management", "over: links")
            .replace("runtime:", "runtime:\n  model: /opt/macluster/models/m"),
    )
    .expect("written");
    let ran = run(&rack, &["deploy"]).await;
    assert_ne!(ran.status, 0);
    done(rack).await;
    ran.stderr
}

#[tokio::test(flavor = "multi_thread")]
async fn deploy_needs_the_links_and_only_tells_of_what_keeps_them() {
    let said = deploy_says(Fault::NotPersistent).await;
    let warning = "the link networks are in place, but not kept after a restart on studio-2 (slot 2): \
                   `macluster network apply` installs what keeps them";
    assert!(said.contains(warning) && !said.contains("are not set up"), "{said}");
    let said = deploy_says(Fault::NoAddress).await;
    assert!(said.contains("studio-2 (slot 2): network.addresses: en3 of studio-2 (slot 2) has no IPv4"), "{said}");
    assert!(!said.contains("in place"), "{said}");
}
