//! The dead-man, the lock, the links daemon and the way back, on the simulated rack: the scripts really run.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use macluster::sim::{Builder, Rack, RunningRack};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::live::{done, run};
use crate::support::{binary, command};

const NETWORK: &str = "opt/macluster/network";
const DAEMONS: &str = "Library/LaunchDaemons";

fn rack() -> Builder {
    Rack::builder().binary(binary()).nodes(2)
}

const APPLY: &[&str] = &["network", "apply", "--yes"];
const PENDING: &[&str] = &["network", "plan", "--detailed-exitcode"];

/// Everything of a node that an apply may touch: interfaces and own files.
fn state(rack: &RunningRack, node: usize) -> String {
    let node = &rack.nodes[node].node;
    let mut interfaces = node.load().expect("a state").interfaces;
    for interface in &mut interfaces {
        interface.members.sort();
    }
    format!("{interfaces:?}\n{:?}\n{:?}", names(&node.root.join(NETWORK)), names(&node.root.join(DAEMONS)))
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .map(|d| d.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

/// Waits for something that other processes do.
async fn until(what: &str, limit: Duration, holds: impl Fn() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A playbook whose `set-address` never comes to its end.
fn hanging(dir: &Path) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("playbooks/network.yaml"))
        .expect("readable");
    let set = "      - [/sbin/ifconfig, \"{interface}\", inet, \"{address}\", netmask, \"{netmask}\"]\n";
    assert!(text.contains(set));
    let books = dir.join("books");
    std::fs::create_dir(&books).expect("a folder");
    std::fs::write(books.join("network.yaml"), text.replace(set, &format!("{set}      - [/bin/sleep, \"4\"]\n")))
        .expect("written");
    books.display().to_string()
}

/// An apply at work: addresses are set, and it stays there.
async fn in_the_middle(rack: &RunningRack, books: &str, more: &[&str]) -> Child {
    let child = command(&rack.dir)
        .args(["--playbooks", books, "network", "apply", "--yes", "--deadman", "10"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    let addressed = || {
        rack.nodes.iter().all(|n| {
            let state = n.node.load().expect("a state");
            state.interface("en3").expect("an interface").inet.iter().any(|i| i.address.octets()[0] == 10)
        })
    };
    until("both nodes have an address", Duration::from_secs(60), addressed).await;
    child
}

fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desk_that_dies_leaves_no_node_half_done() {
    let rack = rack().start().await.expect("a rack");
    let before = [state(&rack, 0), state(&rack, 1)];
    let books = hanging(&rack.dir);
    let mut child = in_the_middle(&rack, &books, &[]).await;
    signal(&child, Signal::KILL);
    child.wait().expect("ends");
    // Somebody comes at once: the nodes are waited for, and then changed.
    let ran = run(&rack, PENDING).await.expect(5);
    assert!(ran.stdout.contains("studio-1 (slot 1): a change waits for its confirmation"), "{}", ran.stdout);
    let reverted = |node: usize| rack.nodes[node].node.root.join(NETWORK).join("reverted").exists();
    until("both have gone back", Duration::from_secs(60), || reverted(0) && reverted(1)).await;
    for (node, then) in before.iter().enumerate() {
        let now = state(&rack, node);
        assert_eq!(then.lines().next(), now.lines().next(), "interfaces and bridge are as before");
        assert_eq!(then.lines().last(), now.lines().last(), "no job is left");
    }
    let applied = run(&rack, APPLY).await.expect(0);
    assert!(applied.stdout.contains("1 of 1 link networks are in place."), "{}", applied.stdout);
    assert!(!applied.stdout.contains("waits for its confirmation"), "{}", applied.stdout);
    run(&rack, PENDING).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_dead_man_a_dead_desk_leaves_its_changes() {
    // What the test above would see if the mechanism were missing.
    let rack = rack().start().await.expect("a rack");
    let books = hanging(&rack.dir);
    let templates = rack.dir.join("templates");
    std::fs::create_dir(&templates).expect("a folder");
    std::fs::write(
        templates.join("restore.sh"),
        "#!/bin/sh\nwhile [ ! -e \"$1/gone\" ]; do \"$1/bin/sleep\" 1; done\n",
    )
    .expect("written");
    let flag = templates.display().to_string();
    let mut child = in_the_middle(&rack, &books, &["--templates", &flag]).await;
    signal(&child, Signal::KILL);
    child.wait().expect("ends");
    let armed = |node: usize| rack.nodes[node].node.root.join(NETWORK).join("armed");
    let since = |node: usize| armed(node).metadata().expect("armed").modified().expect("a time").elapsed();
    until("the window is over", Duration::from_secs(60), || {
        (0..2).all(|n| since(n).unwrap_or_default() > Duration::from_secs(14))
    })
    .await;
    let ran = run(&rack, &["network", "plan", "-o", "json"]).await.expect(0).json();
    let kinds: Vec<_> = ran["changes"].as_array().expect("changes").iter().map(|c| c["kind"].clone()).collect();
    assert!(!kinds.contains(&"leave-bridge".into()), "the links are still out of the bridge: {kinds:?}");
    done(rack).await;
}

/// The others are done long before the slow one, and would take their changes back if nobody gave them a sign of life.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_wait_for_a_slow_one_keep_their_changes() {
    let rack = Rack::builder().binary(binary()).nodes(3).start().await.expect("a rack");
    let slow = &rack.nodes[1].node;
    slow.update(|state| state.quirks.ifconfig_delay_ms = 3_000).expect("a slow node");
    let begun = Instant::now();
    let ran = run(&rack, &["network", "apply", "--yes", "--deadman", "10", "-o", "json"]).await.expect(0);
    let fates: Vec<_> = ran.json()["applied"].as_array().expect("nodes").iter().map(|n| n["fate"].clone()).collect();
    assert_eq!(fates, ["complete", "complete", "complete"], "{}", ran.stderr);
    assert!(begun.elapsed() > Duration::from_secs(14), "nobody had to wait: this test proves nothing");
    slow.update(|state| state.quirks.ifconfig_delay_ms = 0).expect("as before");
    run(&rack, PENDING).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_takes_everything_back_before_it_ends() {
    let rack = rack().start().await.expect("a rack");
    let before = [state(&rack, 0), state(&rack, 1)];
    let books = hanging(&rack.dir);
    let child = in_the_middle(&rack, &books, &[]).await;
    signal(&child, Signal::INT);
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("waits").expect("ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted: the nodes take their changes back"), "{said}");
    for (node, then) in before.iter().enumerate() {
        let now = state(&rack, node);
        assert_eq!(then.lines().next(), now.lines().next(), "interfaces and bridge are as before");
        assert_eq!(then.lines().last(), now.lines().last(), "no job is left");
    }
    run(&rack, APPLY).await.expect(0);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revert_restores_the_first_state_after_many_applies() {
    let rack = rack().start().await.expect("a rack");
    let before = [state(&rack, 0), state(&rack, 1)];
    run(&rack, APPLY).await.expect(0);
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    std::fs::write(&rack.inventory, format!("{text}network: {{ pool: 10.99.0.0/16 }}\n")).expect("written");
    let refused = run(&rack, APPLY).await.expect(2);
    assert!(refused.stderr.contains("addresses that RDMA has used since the last restart"), "{}", refused.stderr);
    run(&rack, &[APPLY, &["--readdress"]].concat()).await.expect(0);
    run(&rack, PENDING).await.expect(0);
    let ran = run(&rack, &["network", "revert"]).await.expect(2);
    assert!(ran.stderr.contains("there is no terminal to ask at"), "{}", ran.stderr);
    let one = run(&rack, &["network", "revert", "studio-2", "--yes"]).await.expect(0);
    insta::assert_snapshot!("network_revert_one", one.stdout);
    assert_eq!(state(&rack, 1), before[1]);
    assert_ne!(state(&rack, 0), before[0]);
    run(&rack, &["network", "revert", "--yes"]).await.expect(0);
    assert_eq!(state(&rack, 0), before[0]);
    assert_eq!(state(&rack, 1), before[1]);
    let again = run(&rack, &["network", "revert", "--yes"]).await.expect(0);
    assert!(again.stdout.contains("macluster has changed nothing there"), "{}", again.stdout);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_links_daemon_heals_what_something_else_breaks() {
    let rack = rack().start().await.expect("a rack");
    run(&rack, APPLY).await.expect(0);
    let good = state(&rack, 0);
    let node = rack.nodes[0].node.clone();
    let log = node.root.join("opt/macluster/var/log/links.log");
    node.update(|state| {
        state.interface_mut("bridge0").expect("a bridge").members.push("en3".to_owned());
        let en3 = state.interface_mut("en3").expect("an interface");
        en3.inet = vec![macluster::sim::state::Inet { address: "169.254.7.7".parse().expect("one"), prefix: 16 }];
    })
    .expect("a state");
    // The log line comes after the change it tells of, so it is what is waited for.
    let last = "en3 inet 10.254.0.1 netmask 255.255.255.252";
    let tells = |command: &str| {
        let told = std::fs::read_to_string(&log).expect("a log");
        (told.lines().any(|l| l.contains("done: ") && l.ends_with(command)), told)
    };
    until("the daemon has healed it", Duration::from_secs(30), || tells(last).0).await;
    assert_eq!(state(&rack, 0), good);
    let (_, told) = tells(last);
    let told: Vec<&str> = told.lines().map(|l| l.rsplit_once('/').map_or("", |(_, command)| command)).collect();
    // Nothing to do was nothing done: the log holds the start and what healed, no more.
    let healed = ["ifconfig bridge0 deletem en3", "ifconfig en3 up", "ifconfig en3 inet 169.254.7.7 -alias"];
    assert_eq!(told, ["", healed[0], healed[1], healed[2], &format!("ifconfig {last}")]);
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_operator_at_a_time_and_a_stale_lock_says_whose() {
    let rack = rack().start().await.expect("a rack");
    let before = state(&rack, 1);
    let lock = rack.nodes[0].node.root.join(NETWORK).join("lock");
    let hold = |until: i64| {
        std::fs::create_dir_all(&lock).expect("a folder");
        let text = format!("by mia@desk-7\npid 4242\nsince 2026-12-01T08:00:00Z\nuntil {until}\n");
        std::fs::write(lock.join("owner"), text).expect("written");
    };
    let now = jiff::Timestamp::now().as_second();
    hold(now + 500);
    let ran = run(&rack, APPLY).await.expect(4);
    assert!(
        ran.stderr.contains("studio-1 (slot 1): mia@desk-7 (process 4242) since 2026-12-01T08:00:00Z changes its link"),
        "{}",
        ran.stderr
    );
    assert_eq!(state(&rack, 1), before, "no lock stays on the other node");
    hold(now - 1);
    let ran = run(&rack, APPLY).await.expect(0);
    assert!(
        ran.stderr.contains("the lock of mia@desk-7 (process 4242) since 2026-12-01T08:00:00Z is stale"),
        "{ran:?}"
    );
    assert!(!lock.exists());
    done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_plan_is_applied_only_to_the_rack_it_was_made_for() {
    let rack = rack().start().await.expect("a rack");
    let saved = run(&rack, &["network", "plan", "--out", "plan.json"]).await.expect(0);
    assert_eq!(saved.stderr.lines().last(), Some("saved: macluster network apply plan.json"));
    let node = rack.nodes[1].node.clone();
    let address = |on: bool| {
        let inet = macluster::sim::state::Inet { address: "169.254.7.7".parse().expect("an address"), prefix: 16 };
        let change = move |state: &mut macluster::sim::state::NodeState| {
            let all = &mut state.interface_mut("en3").expect("an interface").inet;
            if on { all.push(inet) } else { all.clear() }
        };
        node.update(change).expect("a state");
    };
    address(true);
    let before = state(&rack, 1);
    let ran = run(&rack, &["network", "apply", "plan.json", "--yes"]).await.expect(8);
    assert!(ran.stderr.contains("studio-2: interface en3 up → interface en3 up, 169.254.7.7/16"), "{}", ran.stderr);
    assert_eq!(state(&rack, 1), before);
    address(false);
    run(&rack, &["network", "apply", "plan.json", "--yes"]).await.expect(0);
    // Done is done: the same plan again is one for another rack.
    run(&rack, &["network", "apply", "plan.json", "--yes"]).await.expect(8);
    let text = std::fs::read_to_string(rack.dir.join("plan.json")).expect("readable");
    std::fs::write(rack.dir.join("plan.json"), text.replace("member of", "no member of").replace("en3", "en4"))
        .expect("written");
    let ran = run(&rack, &["network", "apply", "plan.json", "--yes"]).await.expect(3);
    assert!(ran.stderr.contains("plan.json is no usable plan: it was changed after it was made"), "{}", ran.stderr);
    done(rack).await;
}
