//! Which pseudonym stands for what, and how a text is searched for what needs one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::Ipv4Net;
use regex::{Captures, Regex};

use super::address::Addresses;
use crate::model::{Inventory, NodeName, Snapshot};

/// Things that are counted under a word each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Serial,
    Uuid,
    Mac,
    Guid,
    V6,
    User,
    Host,
    Service,
    Key,
}

pub(super) struct Pseudonyms {
    addresses: Addresses,
    counted: BTreeMap<Kind, BTreeMap<String, usize>>,
    nodes: BTreeMap<String, String>,
    rack: String,
}

/// What stands out by its shape wherever it stands. Longer shapes before those they contain.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"(?P<uuid>\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\b)",
        r"(?P<udid>\b[0-9A-Fa-f]{8}-[0-9A-Fa-f]{16}\b)",
        r"(?P<mac>\b[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2}){5}\b)",
        r"(?P<guid>\b(?:0x)?[0-9A-Fa-f]{16}\b|\b[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}\b(?:[^:]|$))",
        r"(?P<v6>[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)",
        r"(?P<v4>\b\d{1,3}(?:\.\d{1,3}){3}\b)",
        r"(?P<key>\b(?:SHA256|MD5):[A-Za-z0-9+/=:]+)",
        r"(?P<mail>\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b)",
        r"(?P<home>/(?:Users|home)/[^/\s:,;'\x22`)]+)",
    ];
    Regex::new(&shapes.join("|")).ok()
});

/// `"serial_number" : "ABC"`, `Serial Number (system): ABC`.
static SERIALS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)(serial[_ ]number(?: \(system\)|_key)?"?\s*:\s*"?)([A-Za-z0-9]{5,})"#).ok());

impl Pseudonyms {
    pub(super) fn new(inventory: &Inventory, snapshot: &Snapshot) -> Self {
        // In the order of their own names, so that whatever is sorted by them keeps its order.
        let mut names: Vec<&str> = inventory.nodes.iter().map(|n| n.name.as_str()).collect();
        names.extend(snapshot.nodes.keys().map(NodeName::as_str));
        names.sort_unstable();
        names.dedup();
        let digits = names.len().to_string().len();
        let nodes = names.iter().zip(1..).map(|(n, i)| ((*n).to_owned(), format!("node-{i:0digits$}"))).collect();
        let mut all = Pseudonyms {
            addresses: Addresses::new(inventory.pool),
            counted: BTreeMap::new(),
            nodes,
            rack: inventory.rack.clone(),
        };
        for facts in snapshot.answered().map(|(_, f)| f) {
            if let Ok(hardware) = &facts.hardware {
                all.serial(&hardware.serial);
            }
            if let Some(user) = &facts.session.user {
                all.user(user);
            }
        }
        for node in &inventory.nodes {
            node.user.iter().chain(&inventory.ssh.user).for_each(|u| drop(all.user(u)));
            if node.host.parse::<IpAddr>().is_err() {
                all.number(Kind::Host, &node.host);
            }
        }
        all
    }

    fn number(&mut self, kind: Kind, value: &str) -> usize {
        let of = self.counted.entry(kind).or_default();
        let next = of.len() + 1;
        *of.entry(value.to_owned()).or_insert(next)
    }

    pub(super) fn node(&self, name: &NodeName) -> NodeName {
        let new = self.nodes.get(name.as_str()).and_then(|n| n.parse().ok());
        new.unwrap_or_else(|| name.clone())
    }

    pub(super) fn named_node(&self, name: &str) -> String {
        self.nodes.get(name).cloned().unwrap_or_else(|| "node-elsewhere".to_owned())
    }

    pub(super) fn user(&mut self, user: &str) -> String {
        if user == "root" { user.to_owned() } else { format!("user-{}", self.number(Kind::User, user)) }
    }

    pub(super) fn host(&mut self, host: &str) -> String {
        match host.parse::<IpAddr>() {
            Ok(address) => self.ip(address).to_string(),
            Err(_) => format!("host-{}.example", self.number(Kind::Host, host)),
        }
    }

    pub(super) fn service(&mut self, name: &str) -> String {
        format!("Service {}", self.number(Kind::Service, name))
    }

    fn serial(&mut self, serial: &str) -> String {
        format!("SERIAL{:06}", self.number(Kind::Serial, serial))
    }

    pub(super) fn ip(&mut self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => IpAddr::V4(self.v4(v4)),
            IpAddr::V6(v6) => IpAddr::V6(self.v6(v6)),
        }
    }

    pub(super) fn v4(&self, address: Ipv4Addr) -> Ipv4Addr {
        self.addresses.address(address)
    }

    pub(super) fn network(&self, network: Ipv4Net) -> Ipv4Net {
        self.addresses.network(network)
    }

    /// What kind of address it is stays, and which IPv4 address it holds.
    fn v6(&mut self, address: Ipv6Addr) -> Ipv6Addr {
        if let Some(v4) = address.to_ipv4_mapped() {
            return self.v4(v4).to_ipv6_mapped();
        }
        let top = address.segments()[0];
        if address.is_loopback() || address.is_unspecified() || address.is_multicast() {
            return address;
        }
        let n = u16::try_from(self.number(Kind::V6, &address.to_string())).unwrap_or(u16::MAX);
        match top {
            0xfe80..=0xfebf => Ipv6Addr::new(top, 0, 0, 0, 0, 0, 0, n),
            0xfc00..=0xfdff => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n),
            _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n),
        }
    }

    /// A text with whatever stands out by its shape renamed.
    pub(super) fn shapes(&mut self, text: &str) -> String {
        let (Some(shapes), Some(serials)) = (&*SHAPES, &*SERIALS) else { return String::new() };
        let text = serials.replace_all(text, |c: &Captures<'_>| format!("{}{}", &c[1], self.serial(&c[2])));
        let known = self.counted.get(&Kind::Serial).cloned().unwrap_or_default();
        let text = shapes.replace_all(&text, |c: &Captures<'_>| self.shape(c)).into_owned();
        // A serial number elsewhere, for example in a name.
        let others = known.into_iter().filter(|(serial, _)| serial.len() >= 8);
        others.fold(text, |text, (serial, n)| text.replace(&serial, &format!("SERIAL{n:06}")))
    }

    fn shape(&mut self, c: &Captures<'_>) -> String {
        let whole = c[0].to_owned();
        let upper = !whole.chars().any(|x| x.is_ascii_lowercase());
        let cased = |text: String| if upper { text.to_uppercase() } else { text };
        let is = |name: &str| c.name(name).is_some();
        if is("uuid") {
            let n = self.number(Kind::Uuid, &whole.to_uppercase());
            cased(format!("00000000-0000-4000-8000-{n:012x}"))
        } else if is("udid") {
            format!("00000000-{:016X}", self.number(Kind::Uuid, &whole.to_uppercase()))
        } else if is("mac") {
            self.mac(&whole)
        } else if is("guid") {
            self.guid(&whole)
        } else if is("v6") {
            self.maybe_v6(&whole)
        } else if is("v4") {
            whole.parse::<Ipv4Addr>().map_or(whole, |a| self.v4(a).to_string())
        } else if is("key") {
            format!("SHA256:key-{}", self.number(Kind::Key, &whole))
        } else if is("mail") {
            format!("user-{}@host.example", self.number(Kind::User, &whole))
        } else {
            let (folder, user) = whole.rsplit_once('/').unwrap_or(("", &whole));
            if user == "Shared" { whole.clone() } else { format!("{folder}/{}", self.user(user)) }
        }
    }

    /// Whether it is administered locally, or a group's, stays.
    fn mac(&mut self, text: &str) -> String {
        let bytes: Vec<u8> = text.split(':').filter_map(|p| u8::from_str_radix(p, 16).ok()).collect();
        let first = bytes.first().copied().unwrap_or(0);
        if bytes.iter().all(|b| *b == 0) || bytes.iter().all(|b| *b == 0xff) {
            return text.to_owned();
        }
        let canonical: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let n = self.number(Kind::Mac, &canonical.join(":"));
        format!("{:02x}:00:00:00:{:02x}:{:02x}", 0x10 | (first & 3), n >> 8 & 0xff, n & 0xff)
    }

    /// The digits of a GUID in the form it has.
    fn guid(&mut self, text: &str) -> String {
        let (prefix, rest) = text.strip_prefix("0x").map_or(("", text), |r| ("0x", r));
        let digits: String = rest.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        let end: String = rest.chars().skip_while(|c| c.is_ascii_hexdigit() || *c == ':').collect();
        let n = self.number(Kind::Guid, &digits.to_lowercase());
        // The last digit of a switch's UID is the number of its bus (samples/thunderbolt/KEYS.md).
        let last = digits.chars().last().unwrap_or('0');
        let new = format!("{n:015x}{last}");
        if rest.contains(':') {
            let groups: Vec<&str> = [0, 4, 8, 12].iter().filter_map(|i| new.get(*i..i + 4)).collect();
            return format!("{prefix}{}{end}", groups.join(":"));
        }
        format!("{prefix}{new}")
    }

    fn maybe_v6(&mut self, text: &str) -> String {
        // `fe80::1:` at the end of a sentence, `state:` before a word.
        let core = text.trim_end_matches([':', '.']);
        let core = if core.is_empty() || text.ends_with("::") { text } else { core };
        let Ok(address) = core.parse::<Ipv6Addr>() else { return text.to_owned() };
        let new = self.v6(address);
        let full = core.len() == 39 && !core.contains("::");
        let shown = if full { new.segments().map(|s| format!("{s:04x}")).join(":") } else { new.to_string() };
        format!("{shown}{}", &text[core.len()..])
    }

    /// Words for people: names of nodes, hosts, users and the rack are renamed wherever they stand alone.
    pub(super) fn prose(&mut self, text: &str) -> String {
        let text = self.shapes(text);
        let mut names: Vec<(String, String)> = self.nodes.iter().map(|(a, b)| (a.clone(), b.clone())).collect();
        let mut of = |kind: Kind, word: &str, end: &str| {
            let all = self.counted.get(&kind).into_iter().flatten();
            names.extend(all.map(|(name, n)| (name.clone(), format!("{word}-{n}{end}"))));
        };
        of(Kind::Host, "host", ".example");
        of(Kind::User, "user", "");
        names.push((self.rack.clone(), "rack".to_owned()));
        // Longer ones first: one may be the beginning of another.
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names.into_iter().fold(text, |text, (name, new)| alone(&text, &name, &new))
    }
}

/// Replaces a name where no letter, digit or hyphen touches it.
fn alone(text: &str, name: &str, new: &str) -> String {
    if name.is_empty() {
        return text.to_owned();
    }
    let part = |c: char| c.is_alphanumeric() || "-_".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let end = at + name.len();
        let touched = rest[..at].chars().next_back().or_else(|| out.chars().next_back().filter(|_| at == 0));
        let free = !touched.is_some_and(part) && !rest[end..].chars().next().is_some_and(part);
        out.push_str(&rest[..at]);
        out.push_str(if free { new } else { name });
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}
