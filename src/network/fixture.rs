//! A rack of Mac Studios for the tests of this module: full mesh, stock bridge, nothing configured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use crate::mesh::LinkGraph;
use crate::model::facts::{
    Attached, Hardware, HardwarePort, Inet, Interface, PeerMac, RdmaSwitch, Receptacle, Route, Session, Sudo,
};
use crate::model::network_facts::{Job, LINKS_JOB};
use crate::model::{
    FactError, FactErrorKind, HostFacts, Inventory, NetworkFacts, NodeFacts, NodeName, NodeRecord, Snapshot,
};
use crate::network::{Change, NetworkPlan, PlanOptions, PlanRequest, plan};
use crate::playbook::{Playbooks, Templates};

/// A rack under test.
pub(super) struct Rack {
    pub(super) inventory: Inventory,
    pub(super) snapshot: Snapshot,
}

pub(super) fn name(text: &str) -> NodeName {
    text.parse().expect("a name")
}

pub(super) fn inet(text: &str) -> Inet {
    let (address, prefix) = text.split_once('/').expect("address/prefix");
    Inet { address: address.parse().expect("an address"), prefix: prefix.parse().ok(), peer: None }
}

pub(super) fn unknown<T>(tool: &str) -> Result<T, FactError> {
    Err(FactError { tool: tool.to_owned(), kind: FactErrorKind::Failed, line: None, message: "exit 1".to_owned() })
}

impl Rack {
    /// Node `n` stands at slot `n`, in order; every pair is cabled from receptacle 2 on, if `cabled`.
    pub(super) fn new(nodes: usize, cabled: bool) -> Self {
        Self::with_pool(nodes, cabled, "10.254.0.0/16")
    }

    pub(super) fn with_pool(nodes: usize, cabled: bool, pool: &str) -> Self {
        let mut text = format!("rack: studio-rack\nnetwork: {{ pool: {pool} }}\nnodes:\n");
        for n in 1..=nodes {
            let _ = writeln!(text, "  - {{ name: studio-{n}, host: 192.0.2.{}, slot: {n} }}", 10 + n);
        }
        let inventory = crate::parse::inventory::read(&text, None).expect("an inventory");
        let records = (1..=nodes).map(|n| (name(&format!("studio-{n}")), record(n))).collect();
        let snapshot = Snapshot {
            schema_version: 1,
            taken_at: "2026-11-30T20:00:00Z".parse().expect("a time"),
            tool_version: "0.0.0".to_owned(),
            inventory: text,
            nodes: records,
        };
        let mut rack = Rack { inventory, snapshot };
        if cabled {
            for high in 2..=nodes {
                for low in 1..high {
                    // Each node's cables fill its receptacles from 2 on, in order of the peers.
                    rack.cable(
                        (low, u32::try_from(high).expect("small")),
                        (high, u32::try_from(low).expect("small") + 1),
                    );
                }
            }
        }
        rack
    }

    pub(super) fn facts(&mut self, node: usize) -> &mut NodeFacts {
        let record = self.snapshot.nodes.get_mut(&name(&format!("studio-{node}"))).expect("a node");
        record.facts.as_mut().expect("facts")
    }

    pub(super) fn interface(&mut self, node: usize, interface: &str) -> &mut Interface {
        let found = self.facts(node).interfaces.as_mut().expect("interfaces").iter_mut().find(|i| i.name == interface);
        found.expect("an interface")
    }

    fn receptacle(&mut self, node: usize, receptacle: u32) -> &mut Receptacle {
        let found = self.facts(node).receptacles.as_mut().expect("receptacles").iter_mut().find(|r| r.id == receptacle);
        found.expect("a receptacle")
    }

    pub(super) fn cable(&mut self, one: (usize, u32), other: (usize, u32)) {
        self.half(one, other);
        self.half(other, one);
    }

    /// Only `from` sees the other.
    pub(super) fn half(&mut self, from: (usize, u32), to: (usize, u32)) {
        let peer = PeerMac {
            name: "Mac Studio".to_owned(),
            model: Some("Mac15,14".to_owned()),
            domain_uuid: Some(uuid(to.0, to.1)),
            rdma_service: Some(true),
        };
        let receptacle = self.receptacle(from.0, from.1);
        receptacle.connected = true;
        receptacle.speed = Some("80 Gb/s".to_owned());
        receptacle.attached = vec![Attached::Mac(peer)];
    }

    pub(super) fn unplug(&mut self, end: (usize, u32)) {
        let receptacle = self.receptacle(end.0, end.1);
        receptacle.connected = false;
        receptacle.speed = Some("Up to 120 Gb/s".to_owned());
        receptacle.attached.clear();
    }

    pub(super) fn plan(&self) -> NetworkPlan {
        let graph = LinkGraph::build(&self.snapshot);
        self.plan_with(&graph, PlanOptions::default())
    }

    /// The plan without what is about the links daemon.
    pub(super) fn links_plan(&self) -> NetworkPlan {
        let mut plan = self.plan();
        plan.changes.retain(|c| c.interface != LINKS_JOB);
        plan
    }

    pub(super) fn plan_with(&self, graph: &LinkGraph, options: PlanOptions) -> NetworkPlan {
        plan(&PlanRequest {
            inventory: &self.inventory,
            snapshot: &self.snapshot,
            graph,
            playbooks: &Playbooks::load(None).expect("playbooks"),
            scripts: &Templates::load(None).expect("templates").scripts().expect("scripts"),
            options,
        })
        .expect("a plan")
    }

    /// `node interface address` of every link end, in the plan's order.
    pub(super) fn addresses(&self) -> Vec<String> {
        let ends = |l: &crate::network::LinkNetwork| [l.a.clone(), l.b.clone()];
        let show = |e: crate::network::NetworkEnd| format!("{} {} {}", e.node, e.interface, e.address);
        self.plan().links.iter().flat_map(ends).map(show).collect()
    }

    /// Does to the facts what the plan's commands do to a Mac.
    pub(super) fn apply(&mut self) {
        let plan = self.plan();
        for (node, kept) in &plan.kept {
            let facts = self.snapshot.nodes.get_mut(node).and_then(|r| r.facts.as_mut().ok()).expect("facts");
            if !kept.links.is_empty() {
                facts.network.configured = Ok(Some(kept.clone()));
                facts.network.jobs = Ok(vec![Job {
                    label: LINKS_JOB.to_owned(),
                    pid: Some(7),
                    state: "running".to_owned(),
                    last_exit: None,
                    path: None,
                }]);
            }
        }
        let about_links = |c: &Change| c.interface.starts_with("en");
        for change in plan.changes.into_iter().filter(about_links) {
            for cmd in change.commands {
                let words: Vec<&str> = cmd.args.iter().map(String::as_str).collect();
                let node: usize = change.node.as_str().trim_start_matches("studio-").parse().expect("a number");
                match words.as_slice() {
                    [bridge, "deletem", member] => {
                        let members = &mut self.interface(node, bridge).members;
                        assert!(members.iter().any(|m| m == member), "{member} is no member");
                        members.retain(|m| m != member);
                        // Leaving a bridge can leave the interface down.
                        self.interface(node, member).flags.clear();
                    }
                    [interface, "up"] => self.interface(node, interface).flags = vec!["UP".to_owned()],
                    [interface, "inet", address, "-alias"] => {
                        let address: std::net::Ipv4Addr = address.parse().expect("an address");
                        self.interface(node, interface).inet.retain(|i| i.address != address);
                    }
                    [interface, "inet", address, "netmask", "255.255.255.252"] => {
                        let interface = self.interface(node, interface);
                        assert!(interface.inet.is_empty(), "ifconfig without alias replaces what is there");
                        interface.inet.push(inet(&format!("{address}/30")));
                    }
                    other => panic!("unknown command {other:?}"),
                }
            }
        }
    }
}

fn uuid(node: usize, receptacle: u32) -> String {
    format!("00000000-0000-4000-8000-{node:06}{receptacle:06}")
}

fn interface(name: &str) -> Interface {
    Interface {
        name: name.to_owned(),
        flags: vec!["UP".to_owned(), "RUNNING".to_owned()],
        mtu: Some(1500),
        active: Some(true),
        ..Interface::default()
    }
}

fn record(node: usize) -> NodeRecord {
    let receptacles: Vec<Receptacle> = (1..=6)
        .map(|id| Receptacle {
            id,
            bus: format!("thunderboltusb4_bus_{}", id - 1),
            domain_uuid: Some(uuid(node, id)),
            speed: Some("Up to 120 Gb/s".to_owned()),
            connected: false,
            attached: vec![],
        })
        .collect();
    let port = |name: String, device: String| HardwarePort { name, device, mac: None };
    let mut hardware_ports = vec![port("Ethernet".to_owned(), "en0".to_owned())];
    hardware_ports.push(port("Thunderbolt Bridge".to_owned(), "bridge0".to_owned()));
    hardware_ports.extend((1..=6).map(|n| port(format!("Thunderbolt {n}"), format!("en{}", n + 1))));
    let mut interfaces = vec![interface("lo0"), interface("en0")];
    interfaces[0].inet.push(inet("127.0.0.1/8"));
    interfaces[1].inet.push(inet(&format!("192.0.2.{}/24", 10 + node)));
    interfaces.extend((2..=7).map(|n| interface(&format!("en{n}"))));
    let mut bridge = interface("bridge0");
    bridge.members = (2..=7).map(|n| format!("en{n}")).collect();
    interfaces.push(bridge);
    let route = |destination: &str, gateway: &str, flags: &str, interface: &str| Route {
        destination: destination.parse().expect("a network"),
        gateway: gateway.to_owned(),
        flags: flags.to_owned(),
        interface: interface.to_owned(),
    };
    let facts = NodeFacts {
        hardware: Ok(Hardware {
            model: "Mac15,14".to_owned(),
            name: "Mac Studio".to_owned(),
            chip: "Apple M3 Ultra".to_owned(),
            memory: "512 GB".to_owned(),
            serial: format!("SERIAL{node}"),
        }),
        os: unknown("sw_vers"),
        receptacles: Ok(receptacles),
        hardware_ports: Ok(hardware_ports),
        interfaces: Ok(interfaces),
        rdma_switch: Ok(RdmaSwitch::Enabled),
        rdma_devices: Ok(vec![]),
        rdma_ports: Ok(vec![]),
        routes: Ok(vec![
            route("0.0.0.0/0", "192.0.2.1", "UGScg", "en0"),
            route("192.0.2.0/24", "link#7", "UCS", "en0"),
            route("127.0.0.0/8", "127.0.0.1", "UCS", "lo0"),
        ]),
        sysctl: Ok(BTreeMap::from([("kern.bootsessionuuid".to_owned(), "BOOT-1".to_owned())])),
        sudo: Ok(Sudo::Passwordless),
        session: Session {
            local_address: format!("192.0.2.{}", 10 + node).parse::<IpAddr>().ok(),
            user: Some("admin".to_owned()),
            clock_asked: None,
        },
        login_noise: String::new(),
        drift: vec![],
        network: NetworkFacts::nothing(),
        host: HostFacts::default(),
        runtime: Ok(None),
    };
    NodeRecord { facts: Ok(facts), transcripts: vec![] }
}
