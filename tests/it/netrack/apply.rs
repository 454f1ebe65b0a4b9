//! `network apply` and `network revert` with real cables, packets and daemons.

use macluster::sim::state::NodeState;

use super::rack::{NetRack, address};
use super::ready;
use super::witness::{Seen, until};

/// The links of four Macs in a full mesh, by the numbers of their ends.
const LINKS: [(usize, usize); 6] = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];

/// The address of `a`'s end of its link with `b`, as the plan gives it.
fn ends(rack: &NetRack) -> Vec<(usize, usize, String, String)> {
    let plan = rack.macluster(&["network", "plan", "-o", "json"]).expect(0).json();
    let number = |end: &serde_json::Value| -> usize {
        end["node"].as_str().and_then(|n| n.strip_prefix("studio-")).and_then(|n| n.parse().ok()).expect("a node")
    };
    let text = |end: &serde_json::Value| end["address"].as_str().expect("an address").to_owned();
    let links = plan["links"].as_array().expect("links").iter();
    links.map(|l| (number(&l["a"]), number(&l["b"]), text(&l["a"]), text(&l["b"]))).collect()
}

/// One real packet: does an answer come?
fn answers(rack: &NetRack, from: usize, to: &str) -> bool {
    let ran = rack.ssh(from, &format!("ping -c 1 -W 500 {to}"));
    assert!(matches!(ran.status, 0 | 2), "{ran:?}");
    ran.status == 0
}

/// Every link carries packets both ways, and no node is a way to a link it is not on.
fn assert_isolated(rack: &NetRack) {
    let ends = ends(rack);
    assert_eq!(ends.iter().map(|e| (e.0, e.1)).collect::<std::collections::BTreeSet<_>>(), LINKS.into());
    for (a, b, at_a, at_b) in &ends {
        assert!(answers(rack, *a, at_b), "studio-{a} does not reach {at_b}");
        assert!(answers(rack, *b, at_a), "studio-{b} does not reach {at_a}");
    }
    for (_, _, at_a, at_b) in ends.iter().filter(|(a, b, ..)| *a != 1 && *b != 1) {
        for address in [at_a, at_b] {
            assert!(!answers(rack, 1, address), "studio-1 reaches {address}, which is not on a link of it");
        }
    }
}

/// Nothing is left to do.
fn assert_no_changes(rack: &NetRack) {
    let ran = rack.macluster(&["network", "plan", "--detailed-exitcode"]).expect(0);
    assert!(ran.stdout.contains("No changes. Every link has its network.\n"), "{}", ran.stdout);
}

#[test]
fn a_stock_rack_of_four_gets_six_networks_and_no_path_between_them() {
    if !ready("apply::a_stock_rack_of_four_gets_six_networks_and_no_path_between_them") {
        return;
    }
    let rack = NetRack::start(4, |_| ());
    let ran = rack.macluster(&["network", "apply", "--yes"]).expect(0);
    assert!(ran.stdout.contains("6 of 6 link networks are in place."), "{}", ran.stdout);
    assert_isolated(&rack);
    assert_no_changes(&rack);

    // It is the nodes that do not forward: with a route on purpose, one that does is a path.
    let far = ends(&rack).into_iter().find(|e| (e.0, e.1) == (2, 3)).expect("a link").3;
    let near = ends(&rack).into_iter().find(|e| (e.0, e.1) == (1, 2)).expect("a link").3;
    let home = ends(&rack).into_iter().find(|e| (e.0, e.1) == (1, 3)).expect("a link").2;
    rack.ssh(1, &format!("sudo route add -host {far} {near}")).expect(0);
    let around = format!("ping -c 1 -W 500 -S {home} {far}");
    rack.ssh(1, &around).expect(2);
    rack.ssh(2, "sudo sysctl net.inet.ip.forwarding=1").expect(0);
    rack.ssh(1, &around).expect(0);
}

#[test]
fn a_restart_is_healed_by_the_daemon_alone() {
    if !ready("apply::a_restart_is_healed_by_the_daemon_alone") {
        return;
    }
    let mut rack = NetRack::start(4, |_| ());
    let stock = Seen::of(&rack, 2);
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    let linked = Seen::of(&rack, 2);
    rack.reboot(2);
    until("the links daemon heals studio-2", || Seen::of(&rack, 2).interfaces == linked.interfaces);
    let log = rack.ssh(2, "cat /opt/macluster/var/log/links.log").expect(0).stdout;
    assert!(log.contains("done: /sbin/ifconfig bridge0 deletem en3\n"), "the bridge never came back:\n{log}");
    assert_isolated(&rack);
    assert_no_changes(&rack);

    // So are a bridge that comes back while the node runs, and a cable that is pulled and plugged in again.
    rack.ssh(2, "sudo ifconfig bridge0 addm en3").expect(0);
    rack.ssh(2, "sudo ifconfig en4 down").expect(0);
    rack.ssh(2, "sudo ifconfig en5 inet 10.254.0.17 -alias").expect(0);
    assert_ne!(Seen::of(&rack, 2).interfaces, linked.interfaces);
    until("the links daemon heals studio-2 again", || Seen::of(&rack, 2).interfaces == linked.interfaces);
    // A look that finds nothing to do says nothing.
    let quiet = rack.ssh(2, "cat /opt/macluster/var/log/links.log").expect(0).stdout;
    assert_no_changes(&rack);
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    assert_eq!(rack.ssh(2, "cat /opt/macluster/var/log/links.log").expect(0).stdout, quiet);

    // The first state is found again in another boot.
    rack.macluster(&["network", "revert", "--yes"]).expect(0);
    let now = Seen::of(&rack, 2);
    assert!(now == stock, "studio-2 is not as it was first:\n{}", now.unlike(&stock));
}

#[test]
fn a_management_interface_on_the_bridge_is_refused() {
    if !ready("apply::a_management_interface_on_the_bridge_is_refused") {
        return;
    }
    let bridged = |state: &mut NodeState| {
        if state.name == "studio-2" {
            let inet = std::mem::take(&mut state.interface_mut("en0").expect("a port").inet);
            let bridge = state.interface_mut("bridge0").expect("a bridge");
            bridge.inet = inet;
            bridge.members.push("en0".to_owned());
        }
    };
    let rack = NetRack::start(2, bridged);
    // A real bridge learns for a few seconds before it carries anything.
    until("studio-2 is reached through its bridge", || rack.ssh(2, "true").status == 0);
    let before: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    let ran = rack.macluster(&["network", "apply", "--yes"]).expect(4);
    let why = "studio-2 (slot 2): not changed: the SSH session rides on bridge0 (a bridge)";
    assert!(ran.stdout.contains(why), "{}", ran.stdout);
    let after: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    assert_eq!(after, before);
}

#[test]
fn revert_restores_the_first_state_exactly() {
    if !ready("apply::revert_restores_the_first_state_exactly") {
        return;
    }
    // Somebody has used one of the cables by hand before.
    let spoil = |state: &mut NodeState| {
        if state.name == "studio-3" {
            state.interface_mut("bridge0").expect("a bridge").members.retain(|m| m != "en4");
            let inet = macluster::sim::state::Inet { address: "10.77.0.9".parse().expect("an address"), prefix: 24 };
            state.interface_mut("en4").expect("an interface").inet.push(inet);
        }
    };
    let rack = NetRack::start(3, spoil);
    let before: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    for number in rack.numbers() {
        let between = Seen::of(&rack, number);
        let was = &before[number - 1];
        assert!(between.interfaces != was.interfaces && between.files != was.files && between.jobs != was.jobs);
    }
    rack.macluster(&["network", "revert", "--yes"]).expect(0);
    for number in rack.numbers() {
        let (now, was) = (Seen::of(&rack, number), &before[number - 1]);
        assert!(now == *was, "{} is not as it was first:\n{}", address(number), now.unlike(was));
    }
}

/// The inventory with studio-2 reached over its link with studio-1.
fn over_a_link(rack: &NetRack) -> String {
    let link = ends(rack).into_iter().find(|e| (e.0, e.1) == (1, 2)).expect("a link").3;
    let read = |file: &str| std::fs::read_to_string(rack.dir.join(file)).expect("readable");
    let known = read("known_hosts");
    let key = known.lines().find(|l| l.starts_with(&address(2))).expect("a key").replace(&address(2), &link);
    std::fs::write(rack.dir.join("known_hosts"), format!("{known}{key}\n")).expect("written");
    let jump = format!("use_config: false, jump: admin@{}", address(1));
    let text = read("macluster.yaml").replace(&address(2), &link).replace("use_config: false", &jump);
    std::fs::write(rack.dir.join("over-a-link.yaml"), text).expect("written");
    rack.dir.join("over-a-link.yaml").display().to_string()
}

#[test]
fn a_session_over_a_link_is_not_cut_by_going_back() {
    if !ready("apply::a_session_over_a_link_is_not_cut_by_going_back") {
        return;
    }
    let rack = NetRack::start(2, |_| ());
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    let linked: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    let inventory = over_a_link(&rack);
    let doctor = rack.macluster(&["-f", &inventory, "doctor", "--check", "ssh.reachable"]).expect(0);
    assert!(doctor.stdout.contains("ok     studio-2"), "the way over the link works:\n{}", doctor.stdout);
    let ran = rack.macluster(&["-f", &inventory, "network", "revert", "--yes"]).expect(4);
    assert_eq!(
        ran.stderr.lines().filter(|l| l.starts_with("error: ") || l.starts_with("hint: ")).collect::<Vec<_>>(),
        [
            "error: studio-2 (slot 2): the SSH session uses the address of a link, which would go: nothing was changed",
            "hint: connect over Ethernet or Wi-Fi: set the node's `host` to an address of such an interface"
        ]
    );
    // The same for a change of its addresses.
    let text = std::fs::read_to_string(&inventory).expect("readable");
    std::fs::write(&inventory, format!("{text}network: {{ pool: 10.99.0.0/24 }}\n")).expect("written");
    let ran = rack.macluster(&["-f", &inventory, "network", "apply", "--yes", "--readdress"]).expect(4);
    assert!(ran.stdout.contains("studio-2 (slot 2): not changed: the SSH session rides on "), "{}", ran.stdout);
    let now: Vec<Seen> = rack.numbers().map(|n| Seen::of(&rack, n)).collect();
    assert_eq!(now, linked);
    rack.macluster(&["network", "revert", "--yes"]).expect(0);
}
