//! One fuzz target for each reader. `FUZZ_TARGET` names it; `run` in the folder above builds, lists and runs them all.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use macluster::check::{self, Context, explain};
use macluster::mesh::LinkGraph;
use macluster::model::facts::Session;
use macluster::model::snapshot::SNAPSHOT_VERSION;
use macluster::model::{Fact, NodeRecord, Snapshot, Transcript};
use macluster::parse::probe::probes;
use macluster::parse::{
    assemble, date, defaults, df, fdesetup, hardware, ibv_devices, ibv_devinfo, ifconfig, inventory, ioclasscount,
    launchctl, netstat, networksetup, own_network, ping, plutil, pmset, ps, rdma_ctl, route, services, socketfilterfw,
    sudo, sw_vers, sysctl, thunderbolt,
};

/// Reads this text, and checks that what cannot be read is told in a way that can be shown.
type Target = fn(&str);

/// Every target, by name.
const TARGETS: &[(&str, Target)] = &[
    ("thunderbolt", |t| sound(thunderbolt::parse(t), t)),
    ("hardware", |t| sound(hardware::parse(t), t)),
    ("networksetup", |t| sound(networksetup::parse(t), t)),
    ("ifconfig", |t| sound(ifconfig::parse(t), t)),
    ("ibv-devices", |t| sound(ibv_devices::parse(t), t)),
    ("ibv-devinfo", |t| sound(ibv_devinfo::parse(t), t)),
    ("rdma-ctl", |t| sound(rdma_ctl::parse(t), t)),
    ("sw-vers", |t| sound(sw_vers::parse(t), t)),
    ("sysctl", |t| sound(sysctl::parse(t), t)),
    ("netstat", |t| sound(netstat::parse(t), t)),
    ("ping", |t| sound(ping::parse(t), t)),
    ("sudo", |t| sound(sudo::classify(Some(1), t), t)),
    ("date", |t| sound(date::parse(t), t)),
    ("defaults", |t| sound(defaults::switch(t, "AutomaticallyInstallMacOSUpdates"), t)),
    ("df", |t| sound(df::parse(t), t)),
    ("fdesetup", |t| sound(fdesetup::parse(t), t)),
    ("ioclasscount", |t| sound(ioclasscount::parse(t), t)),
    ("launchctl", |t| sound(launchctl::print("com.macluster.links", t), t)),
    ("links-conf", |t| sound(own_network::links(t), t)),
    ("links-history", |t| sound(own_network::history(t), t)),
    ("links-lock", |t| sound(own_network::lock(t), t)),
    ("plutil-bridges", |t| sound(plutil::bridges(Some(0), t), t)),
    ("plutil-switch", |t| sound(plutil::switch(Some(0), t), t)),
    ("pmset", |t| sound(pmset::parse(t), t)),
    ("ps", |t| sound(ps::parse(t), t)),
    ("route", |t| sound(route::interface(t), t)),
    ("services", |t| sound(services::order(t), t)),
    ("service-info", |t| sound(services::method(t), t)),
    ("socketfilterfw", |t| sound(socketfilterfw::parse(t), t)),
    ("inventory", |t| drop(inventory::read(t, None))),
    ("explain", |t| {
        for found in explain::read(t) {
            assert!(found.line.chars().all(|c| !c.is_control()), "{:?}", found.line);
        }
    }),
    ("doctor", doctor),
];

/// An error is short, names its tool, and is safe to print.
fn sound<T>(fact: Fact<T>, text: &str) {
    let Err(error) = fact else { return };
    assert!(!error.tool.is_empty() && !error.message.is_empty(), "{error:?}");
    assert!(error.message.chars().all(|c| !c.is_control()), "{error:?}");
    assert!(error.message.chars().count() < 1000, "{error:?}");
    assert!(error.line.is_none_or(|l| (1..=text.lines().count() + 1).contains(&l)), "{error:?}");
}

/// Two nodes whose tools print pieces of this, through all checks: each says something, and all of it can be shown.
fn doctor(text: &str) {
    static INVENTORY: LazyLock<macluster::model::Inventory> = LazyLock::new(|| {
        let text = "rack: fuzz\nnodes:\n  - { name: a, host: 192.0.2.1 }\n  - { name: b, host: 192.0.2.2 }\n";
        inventory::read(text, None).expect("an inventory")
    });
    // A line `=id` begins the output of a probe; `==` goes on to the second node.
    let (first, second) = text.split_once("\n==\n").unwrap_or((text, text));
    let record = |text: &str| {
        let transcripts: Vec<Transcript> = probes()
            .iter()
            .map(|p| Transcript {
                probe: p.id.to_owned(),
                argv: vec![p.program.to_owned()],
                exit: Some(0),
                stdout: piece(text, p.id),
                stderr: String::new(),
                truncated: false,
                error: None,
            })
            .collect();
        NodeRecord { facts: Ok(assemble::facts(&transcripts, Session::default())), transcripts }
    };
    let snapshot = Snapshot {
        schema_version: SNAPSHOT_VERSION,
        taken_at: "2026-11-30T20:00:00Z".parse().expect("a time"),
        tool_version: String::new(),
        inventory: String::new(),
        nodes: [("a", first), ("b", second)].map(|(n, t)| (n.parse().expect("a name"), record(t))).into(),
    };
    let graph = LinkGraph::build(&snapshot);
    let report = check::run(&Context { snapshot: &snapshot, graph: &graph, inventory: &INVENTORY, links_script: "0" });
    for finding in &report.findings {
        assert_ne!(finding.verdict, macluster::model::Verdict::Crash, "{}", finding.message);
        assert!(finding.message.chars().all(|c| !c.is_control()), "{finding:?}");
    }
    for check in check::registry() {
        assert!(report.findings.iter().any(|f| f.check == check.id()), "{} says nothing", check.id());
    }
}

fn piece(text: &str, id: &str) -> String {
    let head = format!("={id}\n");
    let Some((_, rest)) = text.split_once(&head) else { return String::new() };
    rest.split("\n=").next().unwrap_or_default().to_owned() + "\n"
}

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(n, _)| *n).collect();
    let found = TARGETS.iter().find(|(n, _)| *n == name).map(|(_, target)| *target);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name:?} is none of: {}", names.join(" ")))
});

fuzz_target!(|data: &[u8]| {
    // What comes from a node is read as text, whatever it is.
    TARGET(&String::from_utf8_lossy(data));
});
