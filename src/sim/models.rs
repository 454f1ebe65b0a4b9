//! The Macs the simulator can be: from `samples/ports/models-and-ports.md`. The product has its own catalogue;
//! this one is separate on purpose, so that one mistake is not made on both sides.

use super::ids;
use super::state::{
    Boot, Computer, Disk, HardwarePort, Inet, Interface, Kind, NodeState, Os, Quirks, Rdma, Receptacle, SCHEMA_VERSION,
    Service, SudoPolicy,
};

/// A Mac model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// `hw.model`.
    pub id: &'static str,
    /// Marketing name.
    pub name: &'static str,
    /// Chip.
    pub chip: &'static str,
    /// `number_processors`, as macOS 26.4 and later print it.
    pub processors: &'static str,
    /// All cores.
    pub cores: u32,
    /// Memory, GB.
    pub memory_gb: u64,
    /// Thunderbolt generation.
    pub generation: u32,
    /// Interfaces of the receptacles, receptacle 1 first.
    pub ports: &'static [&'static str],
    /// Wi-Fi interface.
    pub wifi: &'static str,
    /// Built-in Ethernet; none on laptops.
    pub ethernet: Option<&'static str>,
    /// First `Ethernet Adapter (enN)`; one per receptacle.
    pub first_gadget: u32,
    /// Beginning of node names.
    pub prefix: &'static str,
}

/// Every known model. Values that no sample shows (cores, interface of Ethernet on minis) are guesses and matter
/// to no verdict; `ports` follow the samples, those of Mac16,9, Mac17,14 and Mac14,13 are presumed there too.
pub const MODELS: &[Model] = &[
    studio("Mac15,14", "Apple M3 Ultra", "proc 32:24:8:0", 32, 512, 5, SIX),
    studio("Mac17,15", "Apple M5 Ultra", "proc 36:12:0:24", 36, 512, 5, SIX),
    studio("Mac16,9", "Apple M4 Max", "proc 16:12:4:0", 16, 128, 5, FOUR),
    studio("Mac17,14", "Apple M5 Max", "proc 18:6:0:12", 18, 128, 5, FOUR),
    studio("Mac14,13", "Apple M2 Max", "proc 12:8:4:0", 12, 96, 4, FOUR),
    mini("Mac16,11", "Apple M4 Pro", "proc 14:10:4:0", 14, 64, 5),
    mini("Mac17,16", "Apple M5 Pro", "proc 18:6:0:12", 18, 64, 5),
    mini("Mac16,10", "Apple M4", "proc 10:4:6:0", 10, 32, 4),
    laptop("Mac16,5", "Apple M4 Max", "proc 16:12:4:0", 16, 128, &["en1", "en2", "en3"], 4),
    laptop("Mac17,6", "Apple M5 Max", "proc 18:6:0:12", 18, 128, &["en1", "en6", "en2"], 3),
];

const SIX: &[&str] = &["en2", "en3", "en4", "en5", "en6", "en7"];
const FOUR: &[&str] = &["en2", "en3", "en4", "en5"];

const fn studio(
    id: &'static str,
    chip: &'static str,
    processors: &'static str,
    cores: u32,
    memory_gb: u64,
    generation: u32,
    ports: &'static [&'static str],
) -> Model {
    Model {
        id,
        name: "Mac Studio",
        chip,
        processors,
        cores,
        memory_gb,
        generation,
        ports,
        wifi: "en1",
        ethernet: Some("en0"),
        first_gadget: 8,
        prefix: "studio",
    }
}

const fn mini(
    id: &'static str,
    chip: &'static str,
    processors: &'static str,
    cores: u32,
    memory_gb: u64,
    generation: u32,
) -> Model {
    Model {
        id,
        name: "Mac mini",
        chip,
        processors,
        cores,
        memory_gb,
        generation,
        ports: &["en2", "en3", "en4"],
        wifi: "en1",
        ethernet: Some("en0"),
        first_gadget: 5,
        prefix: "mini",
    }
}

const fn laptop(
    id: &'static str,
    chip: &'static str,
    processors: &'static str,
    cores: u32,
    memory_gb: u64,
    ports: &'static [&'static str],
    first_gadget: u32,
) -> Model {
    Model {
        id,
        name: "MacBook Pro",
        chip,
        processors,
        cores,
        memory_gb,
        generation: 5,
        ports,
        wifi: "en0",
        ethernet: None,
        first_gadget,
        prefix: "macbook",
    }
}

/// The model of that identifier.
pub(super) fn find(id: &str) -> Option<&'static Model> {
    MODELS.iter().find(|m| m.id == id)
}

impl Model {
    /// The receptacle that is excluded for RDMA: number 1 of a Mac Studio.
    pub fn first_usable_receptacle(&self) -> u32 {
        if self.name == "Mac Studio" { 2 } else { 1 }
    }

    /// Names of the per-receptacle gadget adapters; numbers taken by a receptacle are skipped.
    fn gadgets(&self) -> Vec<String> {
        let taken = |n: &String| self.ports.contains(&n.as_str()) || n == self.wifi;
        (self.first_gadget..).map(|n| format!("en{n}")).filter(|n| !taken(n)).take(self.ports.len()).collect()
    }

    /// A freshly booted node of this model as it leaves the box: Thunderbolt Bridge with all receptacles,
    /// no link addresses, RDMA enabled, healthy otherwise. `slot` counts from 1.
    pub fn stock(&self, rack: &str, node: &str, slot: u32) -> NodeState {
        let seed = format!("{rack}/{node}");
        let receptacles = self.receptacles(&seed);
        NodeState {
            schema_version: SCHEMA_VERSION,
            name: node.to_owned(),
            hostname: format!("{node}.local"),
            computer: Computer {
                model: self.id.to_owned(),
                model_name: self.name.to_owned(),
                chip: self.chip.to_owned(),
                model_number: format!("Z1{}LL/A", ids::hex_digits(&format!("{}/order", self.id), 6).to_uppercase()),
                processors: self.processors.to_owned(),
                cores: self.cores,
                memory_gb: self.memory_gb,
                serial: ids::serial(&format!("{seed}/serial")),
                platform_uuid: ids::uuid(&format!("{seed}/platform")),
                provisioning_udid: format!("00006032-{}", ids::hex_digits(&format!("{seed}/udid"), 16).to_uppercase()),
                boot_rom: "18000.140.11".to_owned(),
            },
            os: Os {
                version: "26.6.2".to_owned(),
                extra: String::new(),
                build: "25G83".to_owned(),
                darwin: "25.6.0".to_owned(),
            },
            boot: Boot {
                seconds: 1_790_000_000 + i64::from(slot) * 37,
                micros: 104_729,
                session: ids::uuid(&format!("{seed}/boot/1")),
            },
            rdma: Rdma { enabled: true, ipv4_gid_index: 1, max_qp: 10 },
            interfaces: self.interfaces(&seed, slot),
            hardware_ports: self.hardware_ports(),
            services: self.services(),
            locations: vec!["Automatic".to_owned()],
            static_routes: Vec::new(),
            sysctl: std::collections::BTreeMap::new(),
            nvram: [("rdma-enable".to_owned(), "1".to_owned())].into(),
            power: power(),
            firewall: 0,
            disk: Disk { total_kb: 3_907_018_584, available_kb: 3_412_880_112 },
            filevault: false,
            auto_update: false,
            sudo: SudoPolicy::Nopasswd,
            password: "correct horse".to_owned(),
            user: "admin".to_owned(),
            disabled_jobs: std::collections::BTreeMap::new(),
            owners: std::collections::BTreeMap::new(),
            quirks: Quirks { down_after_bridge: true, ..Quirks::default() },
            receptacles,
        }
    }

    fn receptacles(&self, seed: &str) -> Vec<Receptacle> {
        let switch = ids::hex_digits(&format!("{seed}/switch"), 11).to_uppercase();
        let guid = ids::hex_digits(&format!("{seed}/guid"), 12);
        let one = |bus: u32, interface: &&str| Receptacle {
            id: bus + 1,
            bus,
            interface: (*interface).to_owned(),
            generation: self.generation,
            domain_uuid: ids::uuid(&format!("{seed}/domain/{bus}")),
            // The last digit counts the bus, as in samples/thunderbolt/omlx-studio-m3ultra.json.
            switch_uid: format!("0x05AC{switch}{bus:X}"),
            guid: format!("{:02x}{guid}05", 0x80 + bus),
            ip_service: ids::uuid(&format!("{seed}/ip-service/{bus}")),
            rdma_service: ids::uuid(&format!("{seed}/rdma-service/{bus}")),
        };
        (0..).zip(self.ports).map(|(bus, interface)| one(bus, interface)).collect()
    }

    /// Creation order and indices as in `samples/ifconfig`: lo0 gif0 stf0 anpi* en0+gadgets Thunderbolt bridge0 …
    fn interfaces(&self, seed: &str, slot: u32) -> Vec<Interface> {
        let mut list = Vec::new();
        let mut add = |name: &str, kind: Kind, mac: Option<String>| {
            let index = u32::try_from(list.len()).unwrap_or(0) + 1;
            let mtu = match kind {
                Kind::Loopback => 16384,
                Kind::Idle | Kind::Tunnel => 1280,
                _ => 1500,
            };
            let up = kind != Kind::Idle;
            list.push(Interface {
                name: name.to_owned(),
                kind,
                index,
                up,
                mtu,
                mac,
                inet: Vec::new(),
                inet6: Vec::new(),
                link_local: None,
                members: Vec::new(),
            });
        };
        let board = format!("{seed}/board");
        let gadget_mac = |n: usize| Some(ids::mac(&board, 0xe6, u8::try_from(n).unwrap_or(0)));
        let thunderbolt_mac =
            |n: usize| Some(ids::mac(&format!("{seed}/thunderbolt"), 0x36, 0x40 + u8::try_from(4 * n).unwrap_or(0)));
        add("lo0", Kind::Loopback, None);
        add("gif0", Kind::Idle, None);
        add("stf0", Kind::Idle, None);
        for n in 0..self.ports.len() {
            add(&format!("anpi{n}"), Kind::Anpi, gadget_mac(0xb0 + n));
        }
        if let Some(ethernet) = self.ethernet {
            add(ethernet, Kind::Ethernet, Some(ids::mac(&format!("{seed}/ethernet"), 0x5c, 0x10)));
        }
        for (n, name) in self.gadgets().iter().enumerate() {
            add(name, Kind::Gadget, gadget_mac(0x90 + n));
        }
        // Creation follows the numbers of the interfaces, not those of the receptacles.
        let mut by_number: Vec<(usize, &str)> = self.ports.iter().copied().enumerate().collect();
        by_number.sort_by_key(|(_, name)| name.trim_start_matches("en").parse::<u32>().unwrap_or(0));
        for (n, name) in by_number {
            add(name, Kind::Thunderbolt, thunderbolt_mac(n));
        }
        add("bridge0", Kind::Bridge, thunderbolt_mac(0));
        add("ap1", Kind::AccessPoint, Some(ids::mac(&format!("{seed}/wifi"), 0xb6, 0xd7)));
        add(self.wifi, Kind::Wifi, Some(ids::mac(&format!("{seed}/wifi"), 0x4a, 0xe2)));
        add("awdl0", Kind::Awdl, Some(ids::mac(&format!("{seed}/awdl"), 0x7e, 0x48)));
        add("llw0", Kind::Llw, Some(ids::mac(&format!("{seed}/awdl"), 0x7e, 0x48)));
        for n in 0..2 {
            add(&format!("utun{n}"), Kind::Tunnel, None);
        }
        let management = self.ethernet.unwrap_or(self.wifi);
        let host = 20 + u8::try_from(slot).unwrap_or(0);
        for interface in &mut list {
            match interface.kind {
                Kind::Loopback => {
                    interface.inet.push(Inet { address: std::net::Ipv4Addr::LOCALHOST, prefix: 8 });
                }
                Kind::Bridge => interface.members = self.ports.iter().map(|p| (*p).to_owned()).collect(),
                Kind::Thunderbolt | Kind::Ethernet | Kind::Wifi | Kind::Tunnel => {
                    interface.link_local = Some(ids::secured_link_local(&format!("{seed}/{}", interface.name)));
                }
                Kind::Awdl | Kind::Llw => interface.link_local = interface.mac.as_deref().and_then(ids::eui64),
                _ => {}
            }
            if interface.name == management {
                interface.inet.push(Inet { address: std::net::Ipv4Addr::new(192, 168, 40, host), prefix: 24 });
            }
        }
        list
    }

    fn hardware_ports(&self) -> Vec<HardwarePort> {
        let port = |name: String, device: &str| HardwarePort { name, device: device.to_owned() };
        let mut ports = Vec::new();
        ports.extend(self.ethernet.map(|device| port("Ethernet".to_owned(), device)));
        ports.extend(self.gadgets().iter().map(|d| port(format!("Ethernet Adapter ({d})"), d)));
        ports.push(port("Thunderbolt Bridge".to_owned(), "bridge0"));
        ports.push(port("Wi-Fi".to_owned(), self.wifi));
        ports.extend((1..).zip(self.ports).map(|(n, d)| port(format!("Thunderbolt {n}"), d)));
        ports
    }

    /// Stock services: no "Thunderbolt N" by default (samples/networksetup/errors-and-gotchas.md).
    fn services(&self) -> Vec<Service> {
        let management = self.ethernet.unwrap_or(self.wifi);
        let service = |name: &str, device: &str| Service {
            name: name.to_owned(),
            port: name.to_owned(),
            device: device.to_owned(),
            enabled: true,
            manual: false,
            router: (device == management).then_some(std::net::Ipv4Addr::new(192, 168, 40, 1)),
        };
        let mut services = Vec::new();
        services.extend(self.ethernet.map(|device| service("Ethernet", device)));
        services.push(service("Thunderbolt Bridge", "bridge0"));
        services.push(service("Wi-Fi", self.wifi));
        services
    }
}

/// A desktop set up for a cluster: no sleep, starts after a power failure.
fn power() -> Vec<(String, String)> {
    [
        ("standby", "0"),
        ("Sleep On Power Button", "1"),
        ("autorestart", "1"),
        ("powernap", "1"),
        ("networkoversleep", "0"),
        ("disksleep", "0"),
        ("sleep", "0"),
        ("ttyskeepawake", "1"),
        ("displaysleep", "10"),
        ("tcpkeepalive", "1"),
        ("powermode", "0"),
        ("womp", "1"),
    ]
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_six_port_studio_has_the_bridge_ports_of_the_sample() {
        // samples/ifconfig/studio-6port-host-20250926.grepped.txt: members en2..en7 are ports 17..22.
        let state = find("Mac15,14").expect("known").stock("r", "n", 1);
        let indices: Vec<u32> = SIX.iter().filter_map(|i| state.interface(i)).map(|i| i.index).collect();
        assert_eq!(indices, [17, 18, 19, 20, 21, 22]);
        let mini = find("Mac16,11").expect("known").stock("r", "n", 1);
        // TN3205: scope 0xb for en2 of a mini.
        assert_eq!(mini.interface("en2").map(|i| i.index), Some(11));
    }

    #[test]
    fn gadget_numbers_are_those_of_the_samples() {
        assert_eq!(find("Mac15,14").expect("known").gadgets(), ["en8", "en9", "en10", "en11", "en12", "en13"]);
        assert_eq!(find("Mac16,5").expect("known").gadgets(), ["en4", "en5", "en6"]);
        assert_eq!(find("Mac17,6").expect("known").gadgets()[0], "en3");
    }
}
