//! Every check: passing, finding, and unable to tell.

mod host;
mod network;
mod runtime;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use macluster::check::{self, Check, Context, Purpose, Report};
use macluster::mesh::LinkGraph;
use macluster::model::facts::{Attached, FactError, FactErrorKind, Interface, RdmaSwitch, Sudo};
use macluster::model::{Backend, Category, FailureKind, Finding, Over, Remedy, Verdict};
use proptest::prelude::*;

use crate::support::rack::{Rack, links_script, name};

fn doctor(rack: &Rack) -> Report {
    let graph = LinkGraph::build(&rack.snapshot);
    check::run(&Context {
        snapshot: &rack.snapshot,
        graph: &graph,
        inventory: &rack.inventory,
        links_script: &links_script(),
    })
}

fn of<'a>(report: &'a Report, check: &str) -> Vec<&'a Finding> {
    report.findings.iter().filter(|f| f.check == check).collect()
}

fn show(report: &Report) -> String {
    let shown = report.findings.iter().filter(|f| f.verdict != Verdict::Pass);
    let lines = shown.map(|f| format!("{:?} {} {:?} {}", f.verdict, f.check, f.node, f.message));
    lines.collect::<Vec<_>>().join("\n")
}

/// Some finding of this check has this verdict and says this.
#[track_caller]
fn says(rack: &Rack, check: &str, verdict: Verdict, words: &str) {
    let report = doctor(rack);
    let found = of(&report, check).iter().any(|f| f.verdict == verdict && told(f).contains(words));
    assert!(found, "{check} does not say {verdict:?} {words:?}:\n{}", show(&report));
}

fn told(finding: &Finding) -> String {
    let steps = match &finding.remedy {
        Some(Remedy::Run { commands: lines } | Remedy::AtMachine { steps: lines }) => lines.join("\n"),
        None => String::new(),
    };
    format!("{}\n{steps}", finding.message)
}

fn malformed(tool: &str) -> FactError {
    FactError {
        tool: tool.to_owned(),
        kind: FactErrorKind::Malformed,
        line: Some(7),
        message: "no such shape".to_owned(),
    }
}

fn refuse(rack: &mut Rack, node: &str, kind: FailureKind, message: &str) {
    rack.lose(node);
    let record = rack.snapshot.nodes.get_mut(&name(node)).expect("a node");
    let failure = record.facts.as_mut().expect_err("lost");
    failure.kind = kind;
    message.clone_into(&mut failure.message);
}

fn dock(rack: &mut Rack, node: &str, id: u32) {
    let behind = std::mem::take(&mut rack.receptacle(node, id).attached);
    rack.receptacle(node, id).attached =
        vec![Attached::Device { name: "Desk Dock".to_owned(), vendor: None, mode: None, behind }];
}

fn stranger(rack: &mut Rack, node: &str, id: u32) {
    let mut peer = rack.peer("studio-1", 6);
    peer.domain_uuid = Some("EEEEEEEE-0000-4000-8000-000000000001".to_owned());
    peer.model = Some("Mac17,7".to_owned());
    let receptacle = rack.receptacle(node, id);
    receptacle.connected = true;
    receptacle.attached = vec![Attached::Mac(peer)];
}

type Damage = fn(&mut Rack);
type Case = (&'static str, Verdict, Damage, &'static str, Damage, &'static str);

/// Of every category.
static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| OWN.iter().chain(host::CASES).chain(network::CASES).chain(runtime::CASES).copied().collect());

/// For each check: what makes it fail or warn, what it then says; what keeps it from telling, what it then says.
/// All on three fully meshed studios, `backend: auto`, that pass everything.
const OWN: &[Case] = &[
    (
        "ssh.reachable",
        Verdict::Fail,
        |r| r.lose("studio-3"),
        "studio-3 (slot 3) does not answer: no answer from 192.0.2.13:22 within 10 s",
        |r| {
            r.snapshot.nodes.remove(&name("studio-3"));
        },
        "the snapshot holds nothing of studio-3",
    ),
    (
        "ssh.host-key",
        Verdict::Fail,
        |r| refuse(r, "studio-2", FailureKind::ChangedHostKey, "the ED25519 key differs from known_hosts:4"),
        "the host key of studio-2 (slot 2) cannot be trusted: the ED25519 key differs from known_hosts:4",
        |r| r.lose("studio-2"),
        "needs ssh.reachable on studio-2",
    ),
    (
        "ssh.login",
        Verdict::Fail,
        |r| refuse(r, "studio-2", FailureKind::Authentication, "no key was accepted"),
        "ssh-copy-id 192.0.2.12",
        |r| refuse(r, "studio-2", FailureKind::UnknownHostKey, "unknown"),
        "needs ssh.host-key on studio-2",
    ),
    (
        "ssh.login",
        Verdict::Fail,
        |r| refuse(r, "studio-2", FailureKind::OwnKey, "cannot log in as `rack` with ~/k: it is encrypted"),
        "there is no key to log in to studio-2 (slot 2) with: cannot log in as `rack` with ~/k: it is encrypted",
        |r| refuse(r, "studio-2", FailureKind::ChangedHostKey, "changed"),
        "needs ssh.host-key on studio-2",
    ),
    (
        "ssh.sudo",
        Verdict::Fail,
        |r| r.facts("studio-2").sudo = Ok(Sudo::NotAllowed),
        "admin may not use sudo on studio-2 (slot 2)",
        |r| r.facts("studio-2").sudo = Err(malformed("sudo")),
        "sudo, line 7: no such shape",
    ),
    (
        "ssh.login-noise",
        Verdict::Warn,
        |r| r.facts("studio-2").login_noise = "\nWelcome to \u{1b}[31mHell\n".to_owned(),
        "the login shell of studio-2 (slot 2) prints text",
        |r| r.lose("studio-2"),
        "needs ssh.reachable on studio-2",
    ),
    (
        "host.facts",
        Verdict::Fail,
        |r| r.facts("studio-2").interfaces = Err(malformed("ifconfig")),
        "studio-2 (slot 2) could not be checked: ifconfig cannot be read",
        |r| r.lose("studio-2"),
        "needs ssh.reachable on studio-2",
    ),
    (
        "host.model-supported",
        Verdict::Warn,
        |r| r.facts("studio-2").hardware.as_mut().expect("hardware").model = "Mac99,9".to_owned(),
        "studio-2 (slot 2) is a Mac99,9, which this version of macluster does not know",
        |r| r.facts("studio-2").hardware = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "host.distinct",
        Verdict::Fail,
        |r| {
            let twin = r.snapshot.nodes[&name("studio-1")].clone();
            r.snapshot.nodes.insert(name("studio-2"), twin);
        },
        "studio-1 and studio-2 are the same Mac",
        |r| r.facts("studio-2").hardware = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "host.macos-min",
        Verdict::Fail,
        |r| r.facts("studio-2").os.as_mut().expect("macOS").version = "26.1".to_owned(),
        "studio-2 (slot 2) runs macOS 26.1 (25F80): RDMA over Thunderbolt came with 26.2",
        |r| r.facts("studio-2").os.as_mut().expect("macOS").version = "Tahoe".to_owned(),
        "sw_vers names the version \"Tahoe\"",
    ),
    (
        "host.macos-identical",
        Verdict::Fail,
        |r| r.facts("studio-2").os.as_mut().expect("macOS").build = "25F84".to_owned(),
        "studio-2 (slot 2) is the odd one out: it runs macOS 26.5.1 (25F84), the others run 26.5.1 (25F80)",
        |r| r.facts("studio-2").os = Err(malformed("sw_vers")),
        "sw_vers, line 7",
    ),
    (
        "rdma.hardware",
        Verdict::Fail,
        |r| r.facts("studio-2").hardware.as_mut().expect("hardware").model = "Mac14,14".to_owned(),
        "studio-2 (slot 2), a Mac Studio M2 Ultra (2023), has Thunderbolt 4: RDMA needs Thunderbolt 5",
        |r| {
            let facts = r.facts("studio-2");
            facts.hardware = Err(malformed("system_profiler"));
            facts.receptacles = Err(malformed("system_profiler"));
            facts.sysctl = Err(malformed("sysctl"));
        },
        "system_profiler, line 7",
    ),
    (
        "rdma.enabled",
        Verdict::Fail,
        |r| r.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled),
        "start studio-2 (slot 2), serial BENCH00002 in Recovery",
        |r| r.facts("studio-2").hardware.as_mut().expect("hardware").model = "Mac14,14".to_owned(),
        "needs rdma.hardware on studio-2",
    ),
    (
        "rdma.devices",
        Verdict::Fail,
        |r| r.facts("studio-2").rdma_devices = Ok(vec![]),
        "studio-2 (slot 2) has no RDMA device although RDMA is enabled",
        |r| r.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled),
        "needs rdma.enabled on studio-2",
    ),
    (
        "rdma.port-active",
        Verdict::Fail,
        |r| r.rdma("studio-2", 2).state = "PORT_DOWN".to_owned(),
        "rdma_en3 is PORT_DOWN on studio-2 with the cable in place",
        |r| r.facts("studio-2").rdma_ports = Err(malformed("ibv_devinfo")),
        "ibv_devinfo, line 7",
    ),
    (
        "rdma.gid",
        Verdict::Fail,
        |r| {
            r.rdma("studio-2", 2).gids.remove(&1);
        },
        "rdma_en3 on studio-2 (slot 2) has no GID for its IPv4 address",
        |r| r.interface("studio-2", 2).inet.clear(),
        "needs network.addresses on this link",
    ),
    (
        "cabling.excluded-receptacle",
        Verdict::Fail,
        |r| {
            r.unplug("studio-2", 2);
            r.cable("studio-1", 2, "studio-2", 1);
        },
        "move the cable from studio-2 (slot 2), receptacle 1 (back right, beside Ethernet; en2) to studio-2 (slot 2), receptacle 2 (back, second from the right; en3)",
        |r| r.facts("studio-2").receptacles = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "cabling.speed",
        Verdict::Fail,
        |r| r.receptacle("studio-2", 2).speed = Some("40 Gb/s".to_owned()),
        "replace the cable between studio-1 (slot 1), receptacle 2 (back, second from the right; en3) and studio-2 (slot 2), receptacle 2 (back, second from the right; en3)",
        |r| {
            r.receptacle("studio-1", 2).speed = None;
            r.receptacle("studio-2", 2).speed = None;
        },
        "neither end reports the speed",
    ),
    (
        "cabling.one-sided",
        Verdict::Fail,
        |r| r.receptacle("studio-2", 2).attached.clear(),
        "studio-1 receptacle 2 sees studio-2 receptacle 2, which does not see it",
        |r| r.facts("studio-2").receptacles = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "cabling.via-dock",
        Verdict::Fail,
        |r| dock(r, "studio-2", 2),
        "studio-1 and studio-2 are connected through Desk Dock",
        |r| r.facts("studio-2").receptacles = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "cabling.duplicate",
        Verdict::Warn,
        |r| r.cable("studio-1", 5, "studio-2", 6),
        "2 cables join studio-1 and studio-2: a mesh uses one (studio-1 receptacle 2 – studio-2 receptacle 2), studio-1 receptacle 5 – studio-2 receptacle 6 is not used",
        |r| r.lose("studio-2"),
        "needs ssh.reachable on studio-2",
    ),
    (
        "cabling.foreign-peer",
        Verdict::Warn,
        |r| stranger(r, "studio-2", 6),
        "the cable at studio-2 (slot 2), receptacle 6 (front left; en7) leads to a Mac (Mac17,7) that is not in the rack",
        |r| r.lose("studio-3"),
        "leads to an unknown Mac (studio-3 did not answer)",
    ),
    (
        "cabling.self-loop",
        Verdict::Fail,
        |r| r.cable("studio-2", 5, "studio-2", 6),
        "a cable joins receptacles 5 and 6 of studio-2 (slot 2)",
        |r| r.facts("studio-2").receptacles = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "cabling.tb4-hardware",
        Verdict::Warn,
        |r| r.facts("studio-2").hardware.as_mut().expect("hardware").model = "Mac14,14".to_owned(),
        "ends at Thunderbolt 4 of studio-2 (slot 2): it carries 40 Gb/s at most and never RDMA",
        |r| {
            let facts = r.facts("studio-2");
            facts.hardware.as_mut().expect("hardware").model = "Mac99,9".to_owned();
            facts.receptacles.as_mut().expect("receptacles").iter_mut().for_each(|r| r.speed = None);
        },
        "needs rdma.hardware on studio-2",
    ),
    (
        "cabling.usb-only-port",
        Verdict::Warn,
        |r| r.receptacle("studio-2", 5).connected = true,
        "something is plugged in at studio-2 (slot 2), receptacle 5 (front right; en6), and nothing there speaks Thunderbolt",
        |r| r.facts("studio-2").receptacles = Err(malformed("system_profiler")),
        "system_profiler, line 7",
    ),
    (
        "mesh.complete",
        Verdict::Fail,
        |r| r.unplug("studio-2", 3),
        "connect studio-2 (slot 2), receptacle 3 (back, third from the right; en4) and studio-3 (slot 3), receptacle 3 (back, third from the right; en4)",
        |r| r.lose("studio-3"),
        "studio-1 – studio-3: not checked (needs ssh.reachable on studio-3)",
    ),
    (
        "mesh.ring-possible",
        Verdict::Warn,
        |r| {
            *r = Rack::kept(4);
            r.unplug("studio-1", 3);
        },
        "the mesh is broken, but a ring of good cables joins all nodes: studio-1 – studio-2 – studio-3 – studio-4",
        |r| r.lose("studio-3"),
        "needs ssh.reachable on studio-3",
    ),
    (
        "mesh.size",
        Verdict::Fail,
        |r| {
            // A Mac Studio M4 Max: four receptacles, one excluded.
            let mut small = Rack::of("Mac16,9", "Mac Studio", 1, 3);
            let record = small.snapshot.nodes.remove(&name("studio-1")).expect("a node");
            r.snapshot.nodes.insert(name("studio-3"), record);
            r.inventory.nodes.push(r.inventory.nodes[0].clone());
        },
        "4 nodes are too many for a full mesh: studio-3 (slot 3) has 2 receptacles for it, so 3 nodes at most",
        |r| r.lose("studio-3"),
        "needs ssh.reachable on studio-3",
    ),
];

fn bridge(rack: &mut Rack, node: &str, ids: &[u32]) {
    let members = ids.iter().map(|id| rack.device(node, *id)).collect();
    let bridge = macluster::model::facts::Interface {
        // Not bridge0 by name or service: found by its members.
        name: "bridge0".to_owned(),
        members,
        ..Default::default()
    };
    rack.facts(node).interfaces.as_mut().expect("interfaces").push(bridge);
}

#[test]
fn every_check_has_its_cases() {
    let registered: BTreeSet<&str> = check::registry().iter().map(|c| c.id()).collect();
    let cased: BTreeSet<&str> = CASES.iter().map(|c| c.0).collect();
    assert_eq!(registered, cased);
    assert_eq!(registered.len(), check::registry().len(), "an id is registered twice");
    for check in check::registry() {
        assert!(check.id().starts_with(&format!("{}.", check.category().as_str())), "{}", check.id());
    }
}

#[test]
fn a_rack_in_order_passes_everything() {
    for count in [1, 2, 3, 4, 6] {
        let report = doctor(&Rack::kept(count));
        assert_eq!(report.verdict, Verdict::Pass, "{count} nodes:\n{}", show(&report));
        assert_eq!(report.summary.pass, report.findings.len());
        for check in check::registry() {
            assert!(!of(&report, check.id()).is_empty(), "{} says nothing", check.id());
        }
    }
}

#[test]
fn every_check_finds_its_trouble_and_says_when_it_cannot_tell() {
    for (check, verdict, damage, words, blind, why) in CASES.iter() {
        let mut rack = Rack::kept(3);
        damage(&mut rack);
        says(&rack, check, *verdict, words);
        let mut rack = Rack::kept(3);
        blind(&mut rack);
        says(&rack, check, Verdict::Skip, why);
        let report = doctor(&rack);
        assert_ne!(report.verdict, Verdict::Pass, "{check}: nobody could look, yet all is well");
    }
}

#[test]
fn one_fault_is_one_finding_and_the_rest_is_skipped_with_its_name() {
    for (check, verdict, damage, ..) in CASES.iter() {
        let mut rack = Rack::kept(3);
        damage(&mut rack);
        let report = doctor(&rack);
        let wrong: BTreeSet<&str> =
            report.findings.iter().filter(|f| f.verdict >= Verdict::Warn).map(|f| f.check.as_str()).collect();
        // What cannot be told apart: the same Mac twice has no cables of its own; four nodes of which one is
        // listed twice; a Mac that is older has other rules.
        let along: &[&str] = match *check {
            "host.distinct" | "mesh.size" | "mesh.ring-possible" | "cabling.tb4-hardware" => continue,
            "host.macos-min" => &["host.macos-identical"],
            // The Mac and its cables: what to do about the one is said, of the others what they are.
            "rdma.hardware" => &["cabling.tb4-hardware"],
            _ => &[],
        };
        let expected: BTreeSet<&str> = along.iter().copied().chain([*check]).collect();
        assert_eq!(wrong, expected, "{}", show(&report));
        assert_eq!(report.verdict, *verdict, "{}", show(&report));
    }
}

#[test]
fn an_addressed_link_that_is_down_or_without_carrier_never_passes() {
    for (damage, words) in [
        ((|i| i.flags.retain(|f| f != "UP")) as fn(&mut Interface), "is down: nothing passes"),
        (|i| i.active = Some(false), "is without carrier: nothing passes"),
    ] {
        let mut rack = Rack::kept(3);
        let interfaces = rack.facts("studio-2").interfaces.as_mut().expect("interfaces");
        damage(interfaces.iter_mut().find(|i| i.name == "en3").expect("en3"));
        says(&rack, "network.addresses", Verdict::Fail, words);
    }
}

#[test]
fn the_odd_build_is_told_from_the_majority() {
    let with = |builds: &[(&str, &str)]| {
        let mut rack = Rack::kept(u32::try_from(builds.len()).expect("few"));
        for (i, (version, build)) in builds.iter().enumerate() {
            let os = rack.facts(&format!("studio-{}", i + 1)).os.as_mut().expect("macOS");
            (os.version, os.build) = ((*version).to_owned(), (*build).to_owned());
        }
        let report = doctor(&rack);
        let odd: Vec<(String, String)> = of(&report, "host.macos-identical")
            .iter()
            .filter(|f| f.verdict == Verdict::Fail)
            .map(|f| (f.node.as_ref().expect("a node").to_string(), told(f)))
            .collect();
        odd
    };
    let release = ("27.0", "26A428");
    let odd = with(&[release, ("27.0", "26A5421a"), release]);
    assert_eq!(odd.len(), 1);
    assert_eq!(odd[0].0, "studio-2");
    assert!(odd[0].1.contains("27.0 (26A5421a), a beta") && odd[0].1.contains("Software Update"), "{odd:?}");
    // The odd one is ahead: macOS cannot go back, so the others follow.
    let odd = with(&[release, ("27.0.1", "26A434"), release]);
    assert!(odd[0].1.contains("update studio-1, studio-3 to macOS 27.0.1"), "{odd:?}");
    // No majority: the newest counts.
    let odd = with(&[("26.5.1", "25F80"), ("26.6.2", "25G83")]);
    assert_eq!(odd[0].0, "studio-1");
    assert!(odd[0].1.contains("no build has a majority"), "{odd:?}");
    // Whoever is behind is sent to the one target of the rack, and that is never a beta.
    let odd = with(&[("26.5.1", "25F80"), ("26.5.1", "25F80"), ("26.6.2", "25G83"), ("26.4", "25E246")]);
    assert_eq!(odd.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["studio-3", "studio-4"]);
    assert!(odd[0].1.contains("update studio-1, studio-2, studio-4 to macOS 26.6.2 (25G83)"), "{odd:?}");
    assert!(odd[1].1.contains("Software Update, to macOS 26.6.2 (25G83)"), "{odd:?}");
    let next_beta = ("27.1", "26B5018c");
    let odd = with(&[next_beta, next_beta, release]);
    assert_eq!(odd.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["studio-1", "studio-2"]);
    assert!(odd.iter().all(|(_, told)| told.contains("install macOS 27.0 (26A428)")), "{odd:?}");
    let odd = with(&[next_beta, ("27.1", "26B5025a")]);
    assert!(odd[0].1.contains("install the same release of macOS on every node"), "{odd:?}");
    // The same build number, but a security response on one.
    let mut rack = Rack::kept(3);
    rack.facts("studio-3").os.as_mut().expect("macOS").extra = "(a)".to_owned();
    says(&rack, "host.macos-identical", Verdict::Fail, "studio-3 (slot 3) is the odd one out");
}

#[test]
fn a_down_port_is_blamed_on_the_mac_that_causes_it() {
    let mut rack = Rack::kept(3);
    rack.rdma("studio-1", 2).state = "PORT_DOWN".to_owned();
    let deaf = |rack: &mut Rack| {
        for item in &mut rack.receptacle("studio-1", 2).attached {
            if let Attached::Mac(peer) = item {
                peer.rdma_service = Some(false);
            }
        }
    };
    // The peer's own switch says off: its finding is the cause.
    rack.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled);
    says(&rack, "rdma.port-active", Verdict::Skip, "needs rdma.enabled on studio-2");
    // The peer's switch could not be read, but it offers no RDMA on the cable.
    rack.facts("studio-2").rdma_switch = Err(malformed("rdma_ctl"));
    deaf(&mut rack);
    says(&rack, "rdma.port-active", Verdict::Fail, "because RDMA is off on studio-2 (slot 2)");
    // It says enabled and offers none: the boot-time fault, a replug helps.
    rack.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Enabled);
    says(&rack, "rdma.port-active", Verdict::Fail, "although its switch says enabled");
}

#[test]
fn the_three_ways_a_gid_is_wrong_are_three_findings() {
    let mut rack = Rack::kept(2);
    let right = rack.rdma("studio-1", 2).gids.remove(&1).expect("GID 1");
    says(&rack, "rdma.gid", Verdict::Fail, "has no GID for its IPv4 address");
    rack.rdma("studio-1", 2).gids.insert(2, right);
    says(&rack, "rdma.gid", Verdict::Fail, "has its IPv4 address as GID 2: JACCL uses GID 1");
    rack.rdma("studio-1", 2).gids.remove(&2);
    let stale = crate::support::rack::gid("::ffff:169.254.7.1".parse().expect("an address"));
    rack.rdma("studio-1", 2).gids.insert(1, stale);
    let report = doctor(&rack);
    let finding = of(&report, "rdma.gid").into_iter().find(|f| f.verdict == Verdict::Fail).expect("a finding");
    assert!(finding.observed.as_deref().is_some_and(|o| o.contains("GID[1] ::ffff:169.254.7.1")), "{finding:?}");
    assert_eq!(finding.expected.as_deref(), Some("GID[1] ::ffff:10.254.0.1"));
}

#[test]
fn thunderbolt_4_is_never_sent_to_recovery() {
    let mut rack = Rack::of("Mac16,10", "Mac mini", 2, 3);
    for node in ["studio-1", "studio-2"] {
        let facts = rack.facts(node);
        facts.rdma_switch = Ok(RdmaSwitch::Disabled);
        facts.rdma_devices = Ok(vec![]);
        facts.rdma_ports = Ok(vec![]);
        for r in facts.receptacles.as_mut().expect("receptacles") {
            r.speed = Some("Up to 40 Gb/s".to_owned());
        }
    }
    let everything = |rack: &Rack| doctor(rack).findings.iter().map(told).collect::<Vec<_>>().join("\n");
    assert!(!everything(&rack).contains("Recovery"));
    // Nor is a model that is not in the catalogue but shows the older generation.
    for node in ["studio-1", "studio-2"] {
        rack.facts(node).hardware.as_mut().expect("hardware").model = "Mac98,1".to_owned();
    }
    assert!(!everything(&rack).contains("Recovery"));
    says(&rack, "rdma.hardware", Verdict::Fail, "has Thunderbolt 4");
}

#[test]
fn only_the_mac_studio_has_an_excluded_receptacle() {
    let mut rack = Rack::of("Mac16,11", "Mac mini", 2, 3);
    rack.cable("studio-1", 1, "studio-2", 1);
    rack.keep();
    let report = doctor(&rack);
    assert_eq!(report.verdict, Verdict::Pass, "{}", show(&report));
    // A Studio of a later year is one by its name and its speed.
    let mut rack = Rack::of("Mac98,2", "Mac Studio", 2, 4);
    rack.cable("studio-1", 1, "studio-2", 2);
    says(&rack, "cabling.excluded-receptacle", Verdict::Fail, "receptacle 1 (beside Ethernet; en2)");
    // A display there is nobody's business.
    let mut rack = Rack::kept(2);
    rack.receptacle("studio-1", 1).attached =
        vec![Attached::Device { name: "Display".to_owned(), vendor: None, mode: None, behind: vec![] }];
    assert_eq!(doctor(&rack).verdict, Verdict::Pass);
}

#[test]
fn missing_cables_get_receptacles_of_their_own() {
    let rack = Rack::studios(4);
    let report = doctor(&rack);
    let missing = of(&report, "mesh.complete");
    assert_eq!(missing.len(), 6, "n(n−1)/2");
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for finding in missing {
        let text = told(finding);
        assert!(!text.contains("receptacle 1 "), "excluded: {text}");
        let step = text.lines().last().expect("a step").trim_start_matches("connect ");
        for end in
            step.trim_end_matches(" by a Thunderbolt 5 cable").split(" and ").filter(|e| e.contains("receptacle"))
        {
            *uses.entry(end.split(" (b").next().unwrap_or(end).to_owned()).or_default() += 1;
        }
    }
    assert_eq!(uses.len(), 12, "{uses:?}");
    assert!(uses.values().all(|n| *n == 1), "one receptacle is promised twice: {uses:?}");
}

#[test]
fn a_full_mac_is_told_what_to_take_out() {
    let mut rack = Rack::kept(3);
    rack.unplug("studio-2", 3);
    for id in 2..=6 {
        if rack.receptacle("studio-2", id).attached.is_empty() {
            rack.receptacle("studio-2", id).connected = true;
            rack.receptacle("studio-2", id).attached =
                vec![Attached::Device { name: "Disk".to_owned(), vendor: None, mode: None, behind: vec![] }];
        }
    }
    says(&rack, "mesh.complete", Verdict::Fail, "to receptacle 1, which is of no use for RDMA");
    rack.receptacle("studio-2", 1).connected = true;
    says(&rack, "mesh.complete", Verdict::Fail, "unplug what is at studio-2 (slot 2), receptacle 3");
    // A Mac Studio Max: people try the front ports.
    let rack = Rack::of("Mac16,9", "Mac Studio", 2, 4);
    says(&rack, "mesh.complete", Verdict::Fail, "are USB-C only");
}

#[test]
fn of_two_cables_the_one_that_rdma_cannot_use_is_surplus() {
    // The cable in the excluded receptacle comes first by its number.
    let mut rack = Rack::kept(3);
    rack.cable("studio-1", 1, "studio-2", 5);
    let report = doctor(&rack);
    let surplus: Vec<&str> = of(&report, "cabling.duplicate").iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        surplus,
        [
            "2 cables join studio-1 and studio-2: a mesh uses one (studio-1 receptacle 2 – studio-2 receptacle 2), studio-1 receptacle 1 – studio-2 receptacle 5 is not used"
        ]
    );
    let place = "studio-1 (slot 1), receptacle 1 (back right, beside Ethernet; en2)";
    says(&rack, "cabling.duplicate", Verdict::Warn, &format!("take out the cable between {place} and"));
    // The same advice from the other check, not a receptacle that the mesh may need.
    says(&rack, "cabling.excluded-receptacle", Verdict::Fail, &format!("take out the cable at {place}"));
    // Nor is the good one given up for a pair that lacks a cable.
    rack.unplug("studio-1", 3);
    for id in 3..=6 {
        rack.receptacle("studio-1", id).connected = true;
        stranger(&mut rack, "studio-1", id);
    }
    let report = doctor(&rack);
    let missing = of(&report, "mesh.complete");
    assert!(missing.iter().all(|f| !told(f).contains("take out the cable at studio-1 (slot 1), receptacle 2")));
    assert!(missing.iter().any(|f| told(f).contains("take out the cable at studio-1 (slot 1), receptacle 3")));
}

#[test]
fn a_loop_in_the_excluded_receptacle_has_one_remedy() {
    let mut rack = Rack::kept(3);
    rack.cable("studio-2", 1, "studio-2", 5);
    let report = doctor(&rack);
    let wrong: Vec<String> = report.findings.iter().filter(|f| f.verdict > Verdict::Skip).map(told).collect();
    assert_eq!(
        wrong,
        ["a cable joins receptacles 1 and 5 of studio-2 (slot 2): it connects nothing and can flood a bridge\n\
             pull the cable at studio-2 (slot 2), receptacle 1 (back right, beside Ethernet; en2) and plug that end into another node"]
    );
    says(&rack, "cabling.excluded-receptacle", Verdict::Skip, "needs cabling.self-loop on studio-2");
}

/// Every check of links tells of every node whose links nobody knows.
#[test]
fn a_node_that_could_not_be_read_is_told_by_every_check_of_links() {
    let ways: [(Damage, &str); 3] = [
        (|r| r.lose("studio-3"), "needs ssh.reachable on studio-3"),
        (|r| r.facts("studio-3").receptacles = Err(malformed("system_profiler")), "system_profiler, line 7"),
        (
            |r| {
                r.snapshot.nodes.remove(&name("studio-3"));
            },
            "needs ssh.reachable on studio-3",
        ),
    ];
    for (damage, why) in ways {
        let mut rack = Rack::kept(3);
        // With and without something else to say.
        rack.cable("studio-1", 5, "studio-2", 5);
        damage(&mut rack);
        let report = doctor(&rack);
        for check in [
            "cabling.excluded-receptacle",
            "cabling.speed",
            "cabling.one-sided",
            "cabling.via-dock",
            "cabling.duplicate",
            "cabling.foreign-peer",
            "cabling.self-loop",
            "rdma.port-active",
            "rdma.gid",
        ] {
            let told = of(&report, check);
            let told = told
                .iter()
                .any(|f| f.verdict == Verdict::Skip && f.node == Some(name("studio-3")) && f.message.contains(why));
            assert!(told, "{check} is silent about studio-3:\n{}", show(&report));
        }
        assert!(of(&report, "mesh.complete").iter().all(|f| f.verdict == Verdict::Skip), "{}", show(&report));
    }
}

#[test]
fn verdicts_follow_the_backend() {
    let judged = |backend, over, damage: Damage, check: &str| {
        let mut rack = Rack::kept(3);
        (rack.inventory.runtime.backend, rack.inventory.runtime.over) = (backend, over);
        damage(&mut rack);
        let report = doctor(&rack);
        of(&report, check).iter().map(|f| f.verdict).max().expect("a finding")
    };
    let excluded: Damage = |r| {
        r.unplug("studio-2", 2);
        r.cable("studio-1", 2, "studio-2", 1);
    };
    let off: Damage = |r| r.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled);
    let bare: Damage = |r| r.interface("studio-2", 2).inet.clear();
    let gap: Damage = |r| r.unplug("studio-2", 3);
    let captured: Damage = |r| bridge(r, "studio-2", &[2]);
    for (backend, over, [v_excluded, v_off, v_bare, v_gap, v_captured]) in [
        (Backend::Auto, Over::Links, [Verdict::Fail; 5]),
        (Backend::Jaccl, Over::Links, [Verdict::Fail; 5]),
        (Backend::JacclRing, Over::Links, [Verdict::Fail; 5]),
        (Backend::Ring, Over::Links, [Verdict::Warn, Verdict::Warn, Verdict::Fail, Verdict::Fail, Verdict::Fail]),
        (Backend::Ring, Over::Management, [Verdict::Warn, Verdict::Fail, Verdict::Warn, Verdict::Fail, Verdict::Fail]),
    ] {
        assert_eq!(judged(backend, over, excluded, "cabling.excluded-receptacle"), v_excluded, "{backend:?} {over:?}");
        assert_eq!(judged(backend, over, off, "rdma.enabled"), v_off, "{backend:?} {over:?}");
        assert_eq!(judged(backend, over, bare, "network.addresses"), v_bare, "{backend:?} {over:?}");
        assert_eq!(judged(backend, over, gap, "mesh.complete"), v_gap, "{backend:?} {over:?}");
        assert_eq!(judged(backend, over, captured, "network.bridge"), v_captured, "{backend:?} {over:?}");
    }
    let mut rack = Rack::kept(3);
    assert_eq!(Purpose::of(&rack.inventory), Purpose::Mesh);
    rack.inventory.runtime.backend = Backend::JacclRing;
    assert_eq!(Purpose::of(&rack.inventory), Purpose::RdmaRing);
}

#[test]
fn a_ring_is_enough_for_the_ring_backends() {
    let mut rack = Rack::studios(4);
    rack.inventory.runtime.backend = Backend::JacclRing;
    for (a, b) in [(1, 3), (3, 2), (2, 4)] {
        rack.cable(&format!("studio-{a}"), 2 + u32::from(a != 1), &format!("studio-{b}"), 4);
    }
    says(&rack, "mesh.complete", Verdict::Fail, "no ring joins all nodes without it");
    rack.cable("studio-4", 5, "studio-1", 5);
    says(&rack, "mesh.complete", Verdict::Pass, "a ring joins all 4 nodes: studio-1 – studio-3 – studio-2 – studio-4");
    rack.inventory.runtime.backend = Backend::Jaccl;
    says(&rack, "mesh.complete", Verdict::Fail, "no cable joins studio-1 (slot 1) and studio-2 (slot 2)");
}

#[test]
fn what_is_not_checked_names_the_check_that_failed() {
    for (kind, failed) in [
        (FailureKind::Unreachable, "ssh.reachable"),
        (FailureKind::Lost, "ssh.reachable"),
        (FailureKind::UnknownHostKey, "ssh.host-key"),
        (FailureKind::ChangedHostKey, "ssh.host-key"),
        (FailureKind::Authentication, "ssh.login"),
        (FailureKind::OwnKey, "ssh.login"),
    ] {
        let mut rack = Rack::kept(3);
        refuse(&mut rack, "studio-2", kind, "no");
        let report = doctor(&rack);
        let wrong: BTreeSet<&str> = report
            .findings
            .iter()
            .filter(|f| f.verdict == Verdict::Fail && f.node.as_ref().is_some_and(|n| n.as_str() == "studio-2"))
            .map(|f| f.check.as_str())
            .collect();
        assert_eq!(wrong, BTreeSet::from([failed]), "{kind:?}");
        let needed: BTreeSet<&str> = report
            .findings
            .iter()
            .filter(|f| f.verdict == Verdict::Skip)
            .filter_map(|f| f.message.split_once("needs ssh.")?.1.split_once(" on studio-2").map(|(check, _)| check))
            .collect();
        assert_eq!(needed.iter().map(|c| format!("ssh.{c}")).collect::<Vec<_>>(), [failed], "{}", show(&report));
    }
}

#[test]
fn what_stands_in_the_way_of_a_deploy_depends_on_the_backend() {
    let mut rack = Rack::kept(3);
    rack.lose("studio-3");
    rack.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled);
    let report = doctor(&rack);
    let blockers = |rack: &Rack| -> Vec<&str> {
        report.findings.iter().filter(|f| check::blocks(f, &rack.inventory)).map(|f| f.check.as_str()).collect()
    };
    assert_eq!(blockers(&rack), ["ssh.reachable"]);
    rack.inventory.runtime.backend = Backend::Jaccl;
    assert_eq!(blockers(&rack), ["ssh.reachable", "rdma.enabled"]);
    rack.inventory.runtime.backend = Backend::Ring;
    assert_eq!(blockers(&rack), ["ssh.reachable"]);
}

struct Breaks;

impl Check for Breaks {
    fn id(&self) -> &'static str {
        "host.breaks"
    }
    fn category(&self) -> Category {
        Category::Host
    }
    fn title(&self) -> &'static str {
        "breaks"
    }
    fn evaluate(&self, ctx: &Context<'_>) -> Vec<Finding> {
        panic!("no {} here", ctx.inventory.rack)
    }
}

#[test]
fn a_check_that_breaks_is_a_crash_and_the_others_run() {
    let rack = Rack::kept(2);
    let graph = LinkGraph::build(&rack.snapshot);
    let ctx =
        Context { snapshot: &rack.snapshot, graph: &graph, inventory: &rack.inventory, links_script: &links_script() };
    let mut checks: Vec<&dyn Check> = check::registry().to_vec();
    checks.insert(0, &Breaks);
    let report = check::run_these(&ctx, &checks);
    let crash = of(&report, "host.breaks");
    assert_eq!((crash.len(), crash[0].verdict), (1, Verdict::Crash));
    assert!(crash[0].message.contains("no bench here"), "{}", crash[0].message);
    assert_eq!((report.verdict, report.summary.crash), (Verdict::Crash, 1));
    assert!(report.summary.pass > 10);
}

#[test]
fn text_from_nodes_cannot_inject_escapes() {
    let mut rack = Rack::kept(2);
    rack.facts("studio-1").login_noise = "\u{1b}]0;owned\u{7}".to_owned();
    rack.facts("studio-1").hardware.as_mut().expect("hardware").model = "Mac\u{1b}[2J".to_owned();
    rack.rdma("studio-1", 2).state = "PORT_\u{1b}[31mDOWN".to_owned();
    stranger(&mut rack, "studio-2", 6);
    let text = serde_json::to_string(&doctor(&rack)).expect("JSON");
    assert!(!text.contains("\\u001b") && !text.contains("\\u0007"), "{text}");
}

#[test]
fn the_page_and_the_registry_tell_the_same_checks() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/checks.md")).expect("the page");
    let anchors: Vec<&str> = page
        .lines()
        .filter_map(|l| l.strip_prefix("<a id=\"")?.strip_suffix("\"></a>"))
        .filter(|a| a.contains('-'))
        .collect();
    let headings: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("### `")?.strip_suffix('`')).collect();
    let ids: Vec<&str> = check::registry().iter().map(|c| c.id()).collect();
    assert_eq!(headings, ids, "in the order of the registry");
    assert_eq!(anchors, ids.iter().map(|i| i.replace('.', "-")).collect::<Vec<_>>());
    for id in ids {
        let section = page.split(&format!("### `{id}`\n")).nth(1).expect("a section");
        let section = section.split("\n### ").next().expect("its end");
        for part in ["**Cause.**", "**Found by.**", "**What to do.**"] {
            assert!(section.contains(part), "{id} lacks {part}");
        }
    }
}

proptest! {
    /// Whatever is broken together: nothing panics, and every finding is complete.
    #[test]
    fn every_finding_is_complete(damages in proptest::collection::vec((0usize..CASES.len(), any::<bool>()), 0..6)) {
        let mut rack = Rack::kept(3);
        for (i, blind) in damages {
            let damage = if blind { CASES[i].4 } else { CASES[i].2 };
            // Damages made for a whole rack may find nothing left to damage.
            let mut copy = rack.clone();
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| damage(&mut copy))).is_ok() {
                rack = copy;
            }
        }
        let report = doctor(&rack);
        prop_assert_eq!(&report, &doctor(&rack));
        prop_assert_eq!(report.summary.crash, 0, "{}", show(&report));
        for check in check::registry() {
            prop_assert!(!of(&report, check.id()).is_empty(), "{} says nothing", check.id());
        }
        for f in &report.findings {
            prop_assert!(!f.message.is_empty());
            prop_assert_eq!(&f.docs, &format!("docs/checks.md#{}", f.check.replace('.', "-")));
            if f.verdict == Verdict::Warn || f.verdict == Verdict::Fail {
                let steps = match &f.remedy {
                    Some(Remedy::Run { commands: lines } | Remedy::AtMachine { steps: lines }) => lines.as_slice(),
                    None => &[],
                };
                prop_assert!(!steps.is_empty() && steps.iter().all(|s| !s.is_empty()), "{:?}", f);
                prop_assert!(f.observed.as_ref().is_some_and(|o| !o.is_empty()), "{:?}", f);
                prop_assert!(f.expected.as_ref().is_some_and(|e| !e.is_empty()), "{:?}", f);
                prop_assert_ne!(&f.observed, &f.expected);
            }
        }
    }
}

#[test]
fn what_is_not_understood_is_told_and_not_guessed() {
    // Not essential: what rests on it is skipped, and somebody may mend the reader.
    let mut rack = Rack::kept(3);
    rack.facts("studio-2").rdma_ports = Err(malformed("ibv_devinfo"));
    says(&rack, "host.facts", Verdict::Warn, "says things that this macluster does not know");
    says(&rack, "host.facts", Verdict::Warn, "macluster snapshot --redact drift.json");
    says(&rack, "rdma.gid", Verdict::Skip, "ibv_devinfo, line 7");
    // Understood, and more than that.
    let mut rack = Rack::kept(3);
    rack.facts("studio-2").drift = vec!["unknown key colour_key from system_profiler".to_owned()];
    let report = doctor(&rack);
    let told: Vec<_> = of(&report, "host.facts").into_iter().filter(|f| f.verdict == Verdict::Warn).collect();
    assert_eq!(told[0].observed.as_deref(), Some("unknown key colour_key from system_profiler"));
    // Slow is not strange.
    let late = FactError { kind: FactErrorKind::Timeout, ..malformed("system_profiler") };
    rack.facts("studio-2").receptacles = Err(late.clone());
    says(&rack, "host.facts", Verdict::Fail, "a busy Mac may have been too slow");
    rack.facts("studio-2").receptacles = Err(FactError { kind: FactErrorKind::Malformed, ..late });
    says(&rack, "host.facts", Verdict::Fail, "please send it to the project");
}
