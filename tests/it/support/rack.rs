//! Racks as values: Macs, cables and their facts, built without any tool's output.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use macluster::model::facts::{
    Asked, Attached, Gid, Hardware, HardwarePort, Inet, Interface, OsVersion, PeerMac, RdmaPort, RdmaSwitch,
    Receptacle, Session, Sudo,
};
use macluster::model::inventory::{Backend, Node, Over, Paths, Runtime, Ssh};
use macluster::model::network_facts::{ConfiguredLink, Job, LINKS_JOB, LinkPath, LinksConfig};
use macluster::model::snapshot::{FailureKind, SNAPSHOT_VERSION};
use macluster::model::{CollectFailure, Inventory, NetworkFacts, NodeFacts, NodeName, NodeRecord, Snapshot};

use super::host::{ASKED, calm, serving};

/// A rack under construction.
#[derive(Clone)]
pub struct Rack {
    /// Its inventory.
    pub inventory: Inventory,
    /// Its facts.
    pub snapshot: Snapshot,
}

/// SHA-256 of the links daemon's script.
pub fn links_script() -> String {
    macluster::playbook::Templates::load(None).expect("templates").scripts().expect("scripts").links.sha256
}

/// A name.
pub fn name(text: &str) -> NodeName {
    text.parse().expect("a node name")
}

impl Rack {
    /// Macs `studio-1` … `studio-N` of a model, with this many receptacles, no cables, everything in order.
    pub fn of(model: &str, marketing: &str, count: u32, receptacles: u32) -> Rack {
        let nodes: Vec<Node> = (1..=count)
            .map(|i| Node {
                name: name(&format!("studio-{i}")),
                host: format!("192.0.2.{}", 10 + i),
                slot: Some(i),
                port: None,
                user: None,
                identity: None,
                agent_port: 7420,
                root: None,
            })
            .collect();
        let facts = nodes
            .iter()
            .zip(1..)
            .map(|(node, i)| {
                let record =
                    NodeRecord { facts: Ok(node_facts(model, marketing, i, receptacles, count)), transcripts: vec![] };
                (node.name.clone(), record)
            })
            .collect();
        Rack {
            inventory: Inventory {
                rack: "bench".to_owned(),
                source: None,
                text: String::new(),
                nodes,
                left_out: BTreeMap::new(),
                ssh: Ssh::default(),
                pool: "10.254.0.0/16".parse().expect("a network"),
                runtime: Runtime {
                    model: Some("/opt/macluster/models/m".to_owned()),
                    backend: Backend::Auto,
                    over: Over::Links,
                    parallel: None,
                    python: None,
                    api: "127.0.0.1:8080".parse().expect("an address"),
                    trust_remote_code: false,
                    nodes: None,
                },
                paths: Paths { root: "/".to_owned(), install: "/opt/macluster".to_owned() },
            },
            snapshot: Snapshot {
                schema_version: SNAPSHOT_VERSION,
                taken_at: "2026-11-30T20:00:00Z".parse().expect("a time"),
                tool_version: "0.1.0".to_owned(),
                inventory: String::new(),
                nodes: facts,
            },
        }
    }

    /// Mac Studio M3 Ultra, six receptacles each.
    pub fn studios(count: u32) -> Rack {
        Rack::of("Mac15,14", "Mac Studio", count, 6)
    }

    /// Fully cabled studios, addressed: pair (i, j) uses the next free receptacle from 2 at both ends.
    pub fn meshed(count: u32) -> Rack {
        let mut rack = Rack::studios(count);
        let mut next: BTreeMap<u32, u32> = BTreeMap::new();
        for i in 1..=count {
            for j in i + 1..=count {
                let mut take = |n: u32| {
                    let slot = next.entry(n).or_insert(2);
                    *slot += 1;
                    *slot - 1
                };
                let (a, b) = (take(i), take(j));
                rack.cable(&format!("studio-{i}"), a, &format!("studio-{j}"), b);
            }
        }
        rack
    }

    /// The same as `network apply` leaves it: every node keeps its links, was asked everything, and answers its peers.
    pub fn kept(count: u32) -> Rack {
        let mut rack = Rack::meshed(count);
        rack.keep();
        rack
    }

    /// Lets every node keep the links that are there now.
    pub fn keep(&mut self) {
        let graph = macluster::mesh::LinkGraph::build(&self.snapshot);
        let wanted = macluster::network::desired(&self.inventory, &self.snapshot, &graph);
        let script = Some(links_script());
        for node in self.inventory.nodes.clone() {
            let Some(Ok(facts)) = self.snapshot.nodes.get_mut(&node.name).map(|r| r.facts.as_mut()) else { continue };
            let mut links = Vec::new();
            let mut paths = Vec::new();
            for (network, own, peer) in wanted.of(&node.name) {
                links.push(ConfiguredLink {
                    interface: own.interface.clone(),
                    ether: None,
                    address: own.address,
                    prefix: network.network.prefix_len(),
                    peer_address: peer.address,
                    peer: peer.node.to_string(),
                });
                paths.push(LinkPath {
                    interface: own.interface.clone(),
                    address: own.address,
                    peer_address: peer.address,
                    answered: Ok(true),
                    route: Ok(Some(own.interface.clone())),
                });
            }
            links.sort_by(|a, b| a.interface.cmp(&b.interface));
            let job = Job {
                label: LINKS_JOB.to_owned(),
                pid: Some(712),
                state: "running".to_owned(),
                last_exit: None,
                path: None,
            };
            facts.network = NetworkFacts {
                jobs: Ok(vec![job]),
                configured: Ok(Some(LinksConfig { script: script.clone(), links })),
                paths: Ok(paths),
                ..NetworkFacts::nothing()
            };
        }
    }

    /// Writes it as the recording `rack.json`, which the binary reads with `--from`.
    pub fn record(&self, dir: &Path) {
        let mut snapshot = self.snapshot.clone();
        snapshot.inventory = "rack: bench\nnodes:\n".to_owned();
        for node in &self.inventory.nodes {
            let slot = node.slot.expect("a slot");
            let _ = writeln!(snapshot.inventory, "  - {{name: {}, host: {}, slot: {slot}}}", node.name, node.host);
        }
        std::fs::write(dir.join("rack.json"), serde_json::to_string(&snapshot).expect("JSON")).expect("written");
    }

    /// Facts of a node.
    pub fn facts(&mut self, node: &str) -> &mut NodeFacts {
        self.snapshot.nodes.get_mut(&name(node)).expect("a node").facts.as_mut().expect("facts")
    }

    /// The receptacle.
    pub fn receptacle(&mut self, node: &str, id: u32) -> &mut Receptacle {
        let receptacles = self.facts(node).receptacles.as_mut().expect("receptacles");
        receptacles.iter_mut().find(|r| r.id == id).expect("the receptacle")
    }

    /// The interface of a receptacle.
    pub fn interface(&mut self, node: &str, id: u32) -> &mut Interface {
        let device = self.device(node, id);
        let interfaces = self.facts(node).interfaces.as_mut().expect("interfaces");
        interfaces.iter_mut().find(|i| i.name == device).expect("the interface")
    }

    /// The interface's name of a receptacle.
    pub fn device(&mut self, node: &str, id: u32) -> String {
        let ports = self.facts(node).hardware_ports.as_ref().expect("ports");
        ports.iter().find(|p| p.name == format!("Thunderbolt {id}")).expect("the port").device.clone()
    }

    /// The RDMA port of a receptacle.
    pub fn rdma(&mut self, node: &str, id: u32) -> &mut RdmaPort {
        let device = format!("rdma_{}", self.device(node, id));
        let ports = self.facts(node).rdma_ports.as_mut().expect("RDMA ports");
        ports.iter_mut().find(|p| p.device == device).expect("the RDMA port")
    }

    /// Renames a receptacle's interface everywhere on that node.
    pub fn rename(&mut self, node: &str, names: &[(u32, &str)]) {
        let facts = self.facts(node);
        let mut map = BTreeMap::new();
        for port in facts.hardware_ports.as_mut().expect("ports") {
            if let Some((_, new)) = names.iter().find(|(id, _)| port.name == format!("Thunderbolt {id}")) {
                map.insert(port.device.clone(), (*new).to_owned());
                port.device = (*new).to_owned();
            }
        }
        for interface in facts.interfaces.as_mut().expect("interfaces") {
            if let Some(new) = map.get(&interface.name) {
                interface.name.clone_from(new);
            }
        }
        for device in facts.rdma_devices.as_mut().expect("devices") {
            if let Some(new) = map.get(device.trim_start_matches("rdma_")) {
                *device = format!("rdma_{new}");
            }
        }
        for port in facts.rdma_ports.as_mut().expect("RDMA ports") {
            if let Some(new) = map.get(port.device.trim_start_matches("rdma_")) {
                port.device = format!("rdma_{new}");
            }
        }
    }

    /// What the other end sees of this receptacle.
    pub fn peer(&mut self, node: &str, id: u32) -> PeerMac {
        let hardware = self.facts(node).hardware.clone().expect("hardware");
        let enabled = self.facts(node).rdma_switch == Ok(RdmaSwitch::Enabled);
        PeerMac {
            name: hardware.name,
            model: Some(hardware.model),
            domain_uuid: self.receptacle(node, id).domain_uuid.clone(),
            rdma_service: Some(enabled),
        }
    }

    /// Plugs in a good cable, with everything that comes with it: carrier, active RDMA ports, and for a proper link
    /// its addresses and GIDs.
    pub fn cable(&mut self, a: &str, ra: u32, b: &str, rb: u32) {
        for ((node, id), (far, far_id)) in [((a, ra), (b, rb)), ((b, rb), (a, ra))] {
            let peer = self.peer(far, far_id);
            let receptacle = self.receptacle(node, id);
            receptacle.connected = true;
            receptacle.speed = Some("80 Gb/s".to_owned());
            receptacle.attached = vec![Attached::Mac(peer)];
            self.interface(node, id).active = Some(true);
            "PORT_ACTIVE".clone_into(&mut self.rdma(node, id).state);
        }
        let graph = macluster::mesh::LinkGraph::build(&self.snapshot);
        for link in macluster::network::desired(&self.inventory, &self.snapshot, &graph).links {
            for end in [link.a, link.b] {
                self.address(end.node.as_str(), end.receptacle, end.address);
            }
        }
        let kept = |r: &NodeRecord| r.facts.as_ref().is_ok_and(|f| f.network.configured.is_ok());
        if self.snapshot.nodes.values().any(kept) {
            self.keep();
        }
    }

    /// Gives a receptacle's interface this address /30, and its RDMA port the GID that follows.
    pub fn address(&mut self, node: &str, id: u32, address: Ipv4Addr) {
        let interface = self.interface(node, id);
        interface.inet = vec![Inet { address, prefix: Some(30), peer: None }];
        let rdma = self.rdma(node, id);
        rdma.gids.insert(1, gid(IpAddr::V6(address.to_ipv6_mapped())));
    }

    /// Pulls the cable of this receptacle, at both ends.
    pub fn unplug(&mut self, node: &str, id: u32) {
        let uuid = self.receptacle(node, id).domain_uuid.clone();
        let mut ends = vec![(node.to_owned(), id)];
        for (other, record) in &self.snapshot.nodes {
            let receptacles = record.facts.as_ref().ok().and_then(|f| f.receptacles.as_ref().ok());
            for r in receptacles.into_iter().flatten() {
                if r.attached.iter().any(|a| matches!(a, Attached::Mac(m) if m.domain_uuid == uuid)) {
                    ends.push((other.to_string(), r.id));
                }
            }
        }
        for (node, id) in ends {
            let r = self.receptacle(&node, id);
            r.connected = false;
            r.attached.clear();
            r.speed = Some("Up to 120 Gb/s".to_owned());
            let interface = self.interface(&node, id);
            interface.active = Some(false);
            interface.inet.clear();
            let rdma = self.rdma(&node, id);
            "PORT_DOWN".clone_into(&mut rdma.state);
            rdma.gids.remove(&1);
        }
    }

    /// Lets a node not answer.
    pub fn lose(&mut self, node: &str) {
        self.snapshot.nodes.get_mut(&name(node)).expect("a node").facts = Err(CollectFailure {
            kind: FailureKind::Unreachable,
            message: "no answer from 192.0.2.13:22 within 10 s".to_owned(),
            hint: None,
        });
    }
}

/// A GID as macOS prints one.
pub fn gid(address: IpAddr) -> Gid {
    Gid { text: address.to_string(), address: Some(address) }
}

fn node_facts(model: &str, marketing: &str, i: u32, receptacles: u32, count: u32) -> NodeFacts {
    let devices: Vec<String> = (1..=receptacles).map(|r| format!("en{}", r + 1)).collect();
    let link_local = |r: u32| IpAddr::V6(format!("fe80::{i}:{r}").parse().expect("an address"));
    let mut ports = vec![HardwarePort { name: "Ethernet".to_owned(), device: "en0".to_owned(), mac: None }];
    ports.extend((1..).zip(&devices).map(|(r, device)| HardwarePort {
        name: format!("Thunderbolt {r}"),
        device: device.clone(),
        mac: Some(format!("36:00:00:00:{i:02x}:{r:02x}")),
    }));
    let management = Interface {
        name: "en0".to_owned(),
        flags: vec!["UP".to_owned(), "RUNNING".to_owned()],
        mtu: Some(1500),
        inet: vec![Inet {
            address: Ipv4Addr::new(192, 0, 2, 10 + u8::try_from(i).expect("small")),
            prefix: Some(24),
            peer: None,
        }],
        active: Some(true),
        ..Interface::default()
    };
    let mut interfaces = vec![management];
    interfaces.extend((1..).zip(&devices).map(|(r, device)| Interface {
        name: device.clone(),
        flags: vec!["UP".to_owned(), "RUNNING".to_owned()],
        mtu: Some(1500),
        inet6: match link_local(r) {
            IpAddr::V6(v6) => vec![v6],
            IpAddr::V4(_) => vec![],
        },
        active: Some(false),
        ..Interface::default()
    }));
    NodeFacts {
        hardware: Ok(Hardware {
            model: model.to_owned(),
            name: marketing.to_owned(),
            chip: "Apple M3 Ultra".to_owned(),
            memory: "256 GB".to_owned(),
            serial: format!("BENCH{i:05}"),
        }),
        os: Ok(OsVersion { version: "26.5.1".to_owned(), extra: String::new(), build: "25F80".to_owned() }),
        receptacles: Ok((1..=receptacles)
            .map(|r| Receptacle {
                id: r,
                bus: format!("thunderboltusb4_bus_{}", r - 1),
                domain_uuid: Some(format!("{i:08X}-0000-4000-8000-{r:012X}")),
                speed: Some("Up to 120 Gb/s".to_owned()),
                connected: false,
                attached: vec![],
            })
            .collect()),
        hardware_ports: Ok(ports),
        interfaces: Ok(interfaces),
        rdma_switch: Ok(RdmaSwitch::Enabled),
        rdma_devices: Ok(devices.iter().map(|d| format!("rdma_{d}")).collect()),
        rdma_ports: Ok((1..)
            .zip(&devices)
            .map(|(r, d)| RdmaPort {
                device: format!("rdma_{d}"),
                state: "PORT_DOWN".to_owned(),
                gids: BTreeMap::from([(0, gid(link_local(r)))]),
                caps: BTreeMap::from([("max_qp".to_owned(), 10)]),
            })
            .collect()),
        routes: Ok(vec![]),
        sysctl: Ok(BTreeMap::from([
            ("hw.model".to_owned(), model.to_owned()),
            ("net.inet.ip.forwarding".to_owned(), "0".to_owned()),
            ("hw.memsize".to_owned(), (256_u64 << 30).to_string()),
            ("iogpu.wired_limit_mb".to_owned(), "0".to_owned()),
            ("vm.swapusage".to_owned(), "total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)".to_owned()),
        ])),
        sudo: Ok(Sudo::Passwordless),
        session: Session {
            local_address: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10 + u8::try_from(i).expect("small")))),
            user: Some("admin".to_owned()),
            clock_asked: Some(Asked { before: ASKED, after: ASKED }),
        },
        login_noise: String::new(),
        drift: vec![],
        network: NetworkFacts::default(),
        host: calm(),
        runtime: Ok(Some(serving(i - 1, count))),
    }
}
