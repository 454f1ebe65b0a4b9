//! The link networks: cases, and what depends on more than one of them.

use macluster::model::facts::{Inet, Route};
use macluster::model::network_facts::{BridgeEntry, EXO_JOB, Job, LinkPath, Method, NetworkFacts, Service};
use macluster::model::{FactError, FactErrorKind, Verdict};

use super::{Case, bridge, doctor, malformed, of, says, show};
use crate::support::rack::Rack;

fn network<'r>(rack: &'r mut Rack, node: &str) -> &'r mut NetworkFacts {
    &mut rack.facts(node).network
}

fn path<'r>(rack: &'r mut Rack, node: &str, interface: &str) -> &'r mut LinkPath {
    let paths = network(rack, node).paths.as_mut().expect("paths");
    paths.iter_mut().find(|p| p.interface == interface).expect("a path")
}

fn exo(rack: &mut Rack, node: &str) {
    let job = Job {
        label: EXO_JOB.to_owned(),
        pid: None,
        state: "not running".to_owned(),
        last_exit: Some("0".to_owned()),
        path: None,
    };
    network(rack, node).jobs.as_mut().expect("jobs").push(job);
}

fn service(rack: &mut Rack, node: &str, device: &str, method: Option<Result<Method, FactError>>) {
    let service = Service {
        name: "Mesh Kabel".to_owned(),
        port: "Thunderbolt 2".to_owned(),
        device: device.to_owned(),
        enabled: true,
        method,
    };
    network(rack, node).services.as_mut().expect("services").push(service);
}

fn entry(rack: &mut Rack, node: &str, members: &[&str]) {
    let members: Vec<String> = members.iter().map(|m| (*m).to_owned()).collect();
    let entry = BridgeEntry { name: "bridge0".to_owned(), members, json: "{}".to_owned() };
    network(rack, node).bridge_entries = Ok(vec![entry]);
}

fn storm(rack: &mut Rack) {
    for node in ["studio-1", "studio-2", "studio-3"] {
        bridge(rack, node, &[2, 3]);
    }
}

fn inet(address: [u8; 4], prefix: u8) -> Inet {
    Inet { address: address.into(), prefix: Some(prefix), peer: None }
}

fn widen(rack: &mut Rack) {
    for id in [2, 3] {
        rack.interface("studio-2", id).inet[0].prefix = Some(16);
    }
}

fn route(rack: &mut Rack, interface: &str, flags: &str) {
    let route = Route {
        destination: "0.0.0.0/0".parse().expect("a network"),
        gateway: "10.254.0.1".to_owned(),
        flags: flags.to_owned(),
        interface: interface.to_owned(),
    };
    rack.facts("studio-2").routes.as_mut().expect("routes").push(route);
}

pub(super) const CASES: &[Case] = &[
    (
        "network.bridge-loop",
        Verdict::Fail,
        storm,
        "STOP: bridges and cables form a cycle",
        |r| r.facts("studio-2").interfaces = Err(malformed("ifconfig")),
        "ifconfig, line 7",
    ),
    (
        "network.bridge",
        Verdict::Fail,
        |r| bridge(r, "studio-2", &[2, 3]),
        "en3, en4 of studio-2 (slot 2) in bridge0",
        |r| r.facts("studio-2").interfaces = Err(malformed("ifconfig")),
        "ifconfig, line 7",
    ),
    (
        "network.bridge-latent",
        Verdict::Warn,
        |r| entry(r, "studio-2", &["en2", "en3", "en4"]),
        "bridge0 of studio-2 (slot 2) comes back at the next restart with en3, en4",
        |r| network(r, "studio-2").bridge_entries = Err(malformed("plutil")),
        "plutil, line 7",
    ),
    (
        "network.pool-overlap",
        Verdict::Fail,
        |r| r.inventory.pool = "192.0.2.0/24".parse().expect("a network"),
        "the pool 192.0.2.0/24 overlaps the address 192.0.2.11/24 on en0 of studio-1 (slot 1)",
        |r| r.facts("studio-2").routes = Err(malformed("netstat")),
        "netstat, line 7",
    ),
    (
        "network.foreign-daemon",
        Verdict::Fail,
        |r| exo(r, "studio-2"),
        "exo's network daemon io.exo.networksetup is loaded on studio-2 (slot 2)",
        |r| network(r, "studio-2").jobs = Err(malformed("launchctl")),
        "launchctl, line 7",
    ),
    (
        "network.dhcp-on-link",
        Verdict::Fail,
        |r| service(r, "studio-2", "en3", Some(Ok(Method::Dhcp))),
        "the network service \"Mesh Kabel\" of studio-2 (slot 2) asks for an address on en3 by DHCP",
        |r| service(r, "studio-2", "en3", Some(Err(malformed("networksetup")))),
        "networksetup, line 7",
    ),
    (
        "network.subnets-disjoint",
        Verdict::Fail,
        widen,
        "en3 and en4 of studio-2 (slot 2) are in one subnet",
        |r| r.facts("studio-2").hardware_ports = Err(malformed("networksetup")),
        "networksetup, line 7",
    ),
    (
        "network.addresses",
        Verdict::Fail,
        |r| r.interface("studio-2", 2).inet.clear(),
        "en3 of studio-2 (slot 2) has no IPv4 address: nothing reaches studio-1 over this cable",
        |r| r.facts("studio-2").hardware_ports = Err(malformed("networksetup")),
        "networksetup, line 7",
    ),
    (
        "network.mtu",
        Verdict::Warn,
        |r| r.interface("studio-2", 2).mtu = Some(9000),
        "sudo /sbin/ifconfig en3 mtu 1500",
        |r| r.interface("studio-2", 2).mtu = None,
        "ifconfig tells no MTU of en3 on studio-2",
    ),
    (
        "network.link-ping",
        Verdict::Fail,
        |r| path(r, "studio-2", "en3").answered = Ok(false),
        "studio-2 (slot 2) gets no answer from studio-1 (slot 1) (10.254.0.1) over en3",
        |r| path(r, "studio-2", "en3").answered = Err(malformed("ping")),
        "ping, line 7",
    ),
    (
        "network.peer-route",
        Verdict::Fail,
        |r| path(r, "studio-2", "en3").route = Ok(Some("en0".to_owned())),
        "studio-2 (slot 2) would send to studio-1 (10.254.0.1) by en0, not by en3",
        |r| network(r, "studio-2").paths = Ok(vec![]),
        "nothing was sent from en3 of studio-2 to studio-1",
    ),
    (
        "network.default-route",
        Verdict::Fail,
        |r| route(r, "en3", "UGScg"),
        "the default route of studio-2 (slot 2) leaves by en3, which is Thunderbolt",
        |r| r.facts("studio-2").routes = Err(malformed("netstat")),
        "netstat, line 7",
    ),
    (
        "network.forwarding",
        Verdict::Fail,
        |r| {
            let sysctl = r.facts("studio-2").sysctl.as_mut().expect("sysctl");
            sysctl.insert("net.inet.ip.forwarding".to_owned(), "1".to_owned());
        },
        "studio-2 (slot 2) forwards IP packets",
        |r| network(r, "studio-2").sharing = Err(malformed("plutil")),
        "plutil, line 7",
    ),
    (
        "network.persistent",
        Verdict::Fail,
        |r| network(r, "studio-2").jobs = Ok(vec![]),
        "nothing brings the links of studio-2 (slot 2) back after a restart",
        |r| network(r, "studio-2").configured = Err(malformed("links.conf")),
        "links.conf, line 7",
    ),
];

#[test]
fn a_storm_is_the_first_thing_told_and_the_only_one() {
    let mut rack = Rack::kept(3);
    storm(&mut rack);
    let report = doctor(&rack);
    assert_eq!(report.findings[0].check, "network.bridge-loop", "{}", show(&report));
    says(&rack, "network.bridge-loop", Verdict::Fail, "pull the cable at studio-1 (slot 1), receptacle 2");
    says(&rack, "network.bridge", Verdict::Skip, "needs network.bridge-loop on studio-3");
    let text = macluster::view::doctor::human(
        &report,
        &rack.inventory,
        macluster::view::Printer { color: false, progress: false, width: 80 },
        false,
    );
    let (before, _) = text.split_once("\nssh\n").expect("the categories");
    assert!(before.contains("first of all") && before.contains("STOP:"), "{text}");
    assert_eq!(text.matches("STOP:").count(), 1, "{text}");
}

#[test]
fn a_cable_that_would_close_a_cycle_is_warned_of() {
    let mut rack = Rack::kept(3);
    rack.unplug("studio-2", 3);
    storm(&mut rack);
    let words =
        "do not plug this cable yet: with the bridges still there, a cable between studio-2 (slot 2) and studio-3";
    says(&rack, "network.bridge-loop", Verdict::Warn, words);
    says(&rack, "network.bridge", Verdict::Fail, "of studio-1 (slot 1) in bridge0");
    let mut two = Rack::kept(2);
    bridge(&mut two, "studio-1", &[2]);
    bridge(&mut two, "studio-2", &[2]);
    says(&two, "network.bridge-loop", Verdict::Pass, "form no cycle");
}

#[test]
fn only_link_ends_count_for_what_comes_back() {
    let mut rack = Rack::kept(3);
    entry(&mut rack, "studio-2", &["en2", "en7"]);
    says(&rack, "network.bridge-latent", Verdict::Pass, "no bridge takes a link end of studio-2");
    entry(&mut rack, "studio-2", &["en3"]);
    bridge(&mut rack, "studio-2", &[2]);
    says(&rack, "network.bridge-latent", Verdict::Skip, "needs network.bridge on studio-2");
}

#[test]
fn a_service_matters_when_it_is_on_asks_and_sits_on_a_link() {
    for (device, enabled, method) in [
        ("en0", true, Method::Dhcp),
        ("en3", false, Method::Dhcp),
        ("en3", true, Method::Manual),
        ("", true, Method::Dhcp),
    ] {
        let mut rack = Rack::kept(3);
        service(&mut rack, "studio-2", device, Some(Ok(method)));
        network(&mut rack, "studio-2").services.as_mut().expect("services")[0].enabled = enabled;
        assert_eq!(doctor(&rack).verdict, Verdict::Pass, "{device} {enabled}");
    }
    let mut rack = Rack::kept(3);
    service(&mut rack, "studio-2", "en3", Some(Ok(Method::Dhcp)));
    says(&rack, "network.dhcp-on-link", Verdict::Fail, "Manually, IP address 10.254.0.2, subnet mask 255.255.255.252");
    exo(&mut rack, "studio-2");
    says(&rack, "network.dhcp-on-link", Verdict::Skip, "needs network.foreign-daemon on studio-2");
}

#[test]
fn overlaps_are_told_once_by_their_cause() {
    let mut rack = Rack::kept(3);
    widen(&mut rack);
    says(&rack, "network.addresses", Verdict::Skip, "needs network.subnets-disjoint on studio-2");
    // A LAN around the pool.
    let mut rack = Rack::kept(3);
    rack.facts("studio-2").interfaces.as_mut().expect("interfaces")[0].inet.push(inet([10, 1, 2, 3], 8));
    says(&rack, "network.pool-overlap", Verdict::Fail, "overlaps the address 10.1.2.3/8 on en0");
    says(&rack, "network.subnets-disjoint", Verdict::Skip, "needs network.pool-overlap on studio-2");
    // Self-assigned beside the link's own, where a service asks for an address.
    let mut rack = Rack::kept(3);
    for id in [2, 3] {
        rack.interface("studio-2", id).inet.push(inet([169, 254, 7, 7 + u8::try_from(id).expect("small")], 16));
        let device = rack.device("studio-2", id);
        service(&mut rack, "studio-2", &device, Some(Ok(Method::Dhcp)));
    }
    says(&rack, "network.dhcp-on-link", Verdict::Fail, "asks for an address on en4");
    says(&rack, "network.subnets-disjoint", Verdict::Skip, "needs network.dhcp-on-link on studio-2");
}

#[test]
fn a_dead_cable_is_one_finding_and_a_silent_end_another() {
    let mut rack = Rack::kept(3);
    path(&mut rack, "studio-1", "en3").answered = Ok(false);
    path(&mut rack, "studio-2", "en3").answered = Ok(false);
    let words = "nothing comes back over the cable between studio-1 (slot 1) and studio-2 (slot 2), either way";
    says(&rack, "network.link-ping", Verdict::Fail, words);
    path(&mut rack, "studio-1", "en3").answered = Ok(true);
    says(&rack, "network.link-ping", Verdict::Fail, "at studio-1 (slot 1): System Settings, Network, Firewall");
    path(&mut rack, "studio-2", "en3").answered = Ok(true);
    path(&mut rack, "studio-2", "en3").route = Ok(None);
    says(&rack, "network.peer-route", Verdict::Fail, "studio-2 (slot 2) has no route to studio-1 (10.254.0.1)");
    rack.interface("studio-2", 2).inet.clear();
    for check in ["network.link-ping", "network.peer-route"] {
        says(&rack, check, Verdict::Skip, "needs network.addresses on this link");
    }
}

#[test]
fn only_the_default_route_in_use_counts() {
    let mut rack = Rack::kept(3);
    route(&mut rack, "en0", "UGScg");
    route(&mut rack, "en3", "UGScIg");
    assert_eq!(doctor(&rack).verdict, Verdict::Pass);
    // Over a bridge with a receptacle in it that is no link.
    bridge(&mut rack, "studio-2", &[6]);
    route(&mut rack, "bridge0", "UGScg");
    says(&rack, "network.default-route", Verdict::Fail, "leaves by bridge0");
}

#[test]
fn internet_sharing_is_named_as_the_cause() {
    let mut rack = Rack::kept(3);
    network(&mut rack, "studio-2").sharing = Ok(true);
    says(&rack, "network.forwarding", Verdict::Fail, "Internet Sharing is on at studio-2 (slot 2)");
    rack.facts("studio-2").sysctl.as_mut().expect("sysctl").clear();
    says(&rack, "network.forwarding", Verdict::Skip, "sysctl on studio-2 does not tell net.inet.ip.forwarding");
}

#[test]
fn a_links_daemon_must_be_loaded_run_and_keep_what_is_there() {
    fn config(facts: &mut NetworkFacts) -> &mut macluster::model::network_facts::LinksConfig {
        facts.configured.as_mut().expect("read").as_mut().expect("there")
    }
    let kept = |change: fn(&mut NetworkFacts)| {
        let mut rack = Rack::kept(3);
        change(network(&mut rack, "studio-2"));
        rack
    };
    let rack = kept(|f| config(f).links[0].address = "10.254.9.9".parse().expect("an address"));
    says(&rack, "network.persistent", Verdict::Fail, "does not keep en3 as it is now");
    let rack = kept(|f| f.configured = Ok(None));
    says(&rack, "network.persistent", Verdict::Fail, "does not keep en3, en4 as it is now");
    let rack = kept(|f| f.jobs.as_mut().expect("jobs")[0].pid = None);
    says(&rack, "network.persistent", Verdict::Fail, "/usr/bin/tail /opt/macluster/var/log/links.log");
    let rack = kept(|f| config(f).script = Some("0".repeat(64)));
    says(&rack, "network.persistent", Verdict::Warn, "runs the script of another version of macluster");
    // A link that waits for its cable is no trouble.
    let mut rack = Rack::kept(3);
    rack.unplug("studio-2", 3);
    says(&rack, "network.persistent", Verdict::Pass, "the links of studio-2 (slot 2) come back");
    // What is not there now is not this check's.
    let mut rack = Rack::kept(3);
    network(&mut rack, "studio-2").jobs = Ok(vec![]);
    for id in [2, 3] {
        rack.interface("studio-2", id).inet.clear();
    }
    says(&rack, "network.persistent", Verdict::Skip, "needs network.addresses on studio-2");
    bridge(&mut rack, "studio-2", &[2, 3]);
    says(&rack, "network.persistent", Verdict::Skip, "needs network.bridge on studio-2");
}

#[test]
fn an_older_recording_tells_nothing_wrong_and_nothing_right() {
    let mut rack = Rack::kept(3);
    *network(&mut rack, "studio-2") = NetworkFacts::default();
    let report = doctor(&rack);
    assert_eq!(report.verdict, Verdict::Skip, "{}", show(&report));
    for check in
        ["bridge-latent", "foreign-daemon", "dhcp-on-link", "link-ping", "peer-route", "forwarding", "persistent"]
    {
        let found = of(&report, &format!("network.{check}"));
        let skipped =
            |f: &&&macluster::model::Finding| f.verdict == Verdict::Skip && f.message.contains("was not asked");
        assert!(found.iter().any(|f| skipped(&f)), "{check}: {}", show(&report));
    }
    let late = FactError {
        tool: "launchctl".to_owned(),
        kind: FactErrorKind::Timeout,
        line: None,
        message: "no answer within 20 s".to_owned(),
    };
    network(&mut rack, "studio-2").jobs = Err(late);
    says(&rack, "network.foreign-daemon", Verdict::Skip, "no answer within 20 s");
}

#[test]
fn what_only_matters_after_a_restart_does_not_stand_in_the_way_of_a_launch() {
    let mut rack = Rack::kept(3);
    rack.inventory.runtime.backend = macluster::model::Backend::Jaccl;
    let blocked = |rack: &Rack| doctor(rack).findings.iter().any(|f| macluster::check::blocks(f, &rack.inventory));
    network(&mut rack, "studio-2").jobs = Ok(vec![]);
    network(&mut rack, "studio-2").sharing = Ok(true);
    assert_eq!(doctor(&rack).verdict, Verdict::Fail);
    assert!(!blocked(&rack));
    path(&mut rack, "studio-2", "en3").route = Ok(Some("en0".to_owned()));
    assert!(blocked(&rack));
}

#[test]
fn a_port_under_another_name_is_no_port_that_is_right() {
    let mut rack = Rack::kept(3);
    storm(&mut rack);
    for node in ["studio-1", "studio-2", "studio-3"] {
        for port in rack.facts(node).hardware_ports.as_mut().expect("ports") {
            port.name = port.name.replace("Thunderbolt", "Blitzschlag");
        }
        *network(&mut rack, node) = NetworkFacts::nothing();
    }
    let report = doctor(&rack);
    for check in macluster::check::registry().iter().filter(|c| c.id().starts_with("network.")) {
        let may_pass = ["network.foreign-daemon", "network.forwarding"].contains(&check.id());
        let passed = of(&report, check.id()).iter().any(|f| f.verdict == Verdict::Pass);
        assert_eq!(passed, may_pass, "{}: {}", check.id(), show(&report));
    }
    says(&rack, "network.bridge", Verdict::Skip, "no hardware port of studio-2 is called Thunderbolt 2");
}
