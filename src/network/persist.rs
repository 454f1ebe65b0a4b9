//! The texts that outlive a change: the record of what was there, what the links daemon keeps, and launchd's jobs.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use plist::{Dictionary, Value};

use super::desired::{Desired, LinkNetwork, NetworkEnd};
use crate::model::facts::{Interface, NodeFacts};
use crate::model::inventory::Paths;
use crate::model::network_facts::{
    ConfiguredLink, DEADMAN_JOB, DEADMAN_LOG, HistoryEntry, LINKS_JOB, LINKS_LOG, LinksConfig, NETWORK_DIR,
};
use crate::model::{Inventory, NodeName};
use crate::parse::own_network::{HISTORY_HEADER, LINKS_HEADER};

/// `255.255.255.252` for 30.
pub(super) fn netmask(prefix: u8) -> String {
    Ipv4Net::new(Ipv4Addr::UNSPECIFIED, prefix.min(32)).map(|n| n.netmask().to_string()).unwrap_or_default()
}

/// The links a node should keep: those that are there, and those it keeps already whose cable is away now and which
/// get in nobody's way. `left_alone`: interfaces of links that are there and cannot be changed now; what is kept of them
/// stays.
pub(super) fn kept(
    node: &NodeName,
    facts: &NodeFacts,
    inventory: &Inventory,
    desired: &Desired,
    left_alone: &BTreeSet<&str>,
) -> Vec<ConfiguredLink> {
    let ether = |interface: &str| {
        let interfaces = facts.interfaces.as_deref().unwrap_or_default();
        interfaces.iter().find(|i| i.name == interface).and_then(|i| i.ether.clone())
    };
    let link = |(network, own, peer): (&LinkNetwork, &NetworkEnd, &NetworkEnd)| ConfiguredLink {
        interface: own.interface.clone(),
        ether: ether(&own.interface),
        address: own.address,
        prefix: network.network.prefix_len(),
        peer_address: peer.address,
        peer: peer.node.to_string(),
    };
    let mut links: Vec<ConfiguredLink> = desired.of(node).map(link).collect();
    let before = facts.network.configured.iter().flatten().flat_map(|c| &c.links);
    let waits = |old: &&ConfiguredLink| {
        let free = !links.iter().any(|l| l.interface == old.interface || l.address == old.address);
        let valid = inventory.pool.contains(&old.address) && inventory.places().iter().any(|n| n.as_str() == old.peer);
        free && (valid || left_alone.contains(old.interface.as_str()))
    };
    let waiting: Vec<ConfiguredLink> = before.filter(waits).cloned().collect();
    links.extend(waiting);
    links.sort_by(|a, b| a.interface.cmp(&b.interface));
    links
}

/// `links.conf`.
pub fn links_conf(config: &LinksConfig) -> String {
    let mut text = format!("{LINKS_HEADER}\n# Written by `macluster network apply`, read by links.sh.\n");
    if let Some(script) = &config.script {
        let _ = writeln!(text, "script {script}");
    }
    for l in &config.links {
        let ether = l.ether.as_deref().unwrap_or("-");
        let mask = netmask(l.prefix);
        let _ = writeln!(
            text,
            "link {} {ether} {} {} {mask} {} {}",
            l.interface, l.address, l.prefix, l.peer_address, l.peer
        );
    }
    text
}

/// The history of addresses, with those of this boot added.
pub fn history(known: &[HistoryEntry], boot: &str, links: &[ConfiguredLink]) -> String {
    let mut text = format!("{HISTORY_HEADER}\n");
    let new = links.iter().map(|l| (boot, l.interface.as_str(), l.address));
    // Of earlier boots nothing is needed any more.
    let old = known.iter().filter(|e| e.boot == boot).map(|e| (e.boot.as_str(), e.interface.as_str(), e.address));
    let mut all: Vec<_> = old.chain(new).collect();
    all.sort_unstable();
    all.dedup();
    for (boot, interface, address) in all {
        let _ = writeln!(text, "{boot} {interface} {address}");
    }
    text
}

/// What there is to go back to; read by `templates/restore.sh`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `kern.bootsessionuuid`.
    pub boot: String,
    /// The links daemon was there.
    pub links: bool,
    /// Lines of each interface, by its name, in order.
    pub interfaces: Vec<(String, Vec<String>)>,
    /// Daemons of others that the change stops.
    pub foreign: Vec<String>,
    /// Bridges whose entry the change removes from the network preferences.
    pub entries: Vec<String>,
}

impl Record {
    /// What these interfaces are now.
    pub fn take(facts: &NodeFacts, interfaces: &[&str]) -> Record {
        let all = facts.interfaces.as_deref().unwrap_or_default();
        let found = all.iter().filter(|i| interfaces.contains(&i.name.as_str()));
        Record {
            boot: boot_session(facts).unwrap_or("-").to_owned(),
            links: matches!(&facts.network.configured, Ok(Some(_))),
            interfaces: found.map(|i| (i.name.clone(), lines_of(i, all))).collect(),
            ..Record::default()
        }
    }

    /// An older record, completed by what only this one knows. What stands in the older one stays: it is from before.
    #[must_use]
    pub fn under(mut self, older: &str) -> Record {
        let mut interfaces: Vec<(String, Vec<String>)> = Vec::new();
        for line in older.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["boot", boot] => (*boot).clone_into(&mut self.boot),
                ["links", links] => self.links = *links == "yes",
                ["interface", name, ..] => interfaces.push(((*name).to_owned(), vec![line.trim().to_owned()])),
                ["address", name, ..] => {
                    let of = interfaces.iter_mut().find(|(n, _)| n == name);
                    if let Some((_, lines)) = of {
                        lines.push(line.trim().to_owned());
                    }
                }
                ["foreign", label] if !self.foreign.iter().any(|l| l == label) => {
                    self.foreign.push((*label).to_owned());
                }
                ["entry", bridge] if !self.entries.iter().any(|b| b == bridge) => {
                    self.entries.push((*bridge).to_owned());
                }
                _ => {}
            }
        }
        for (name, lines) in self.interfaces {
            if !interfaces.iter().any(|(n, _)| *n == name) {
                interfaces.push((name, lines));
            }
        }
        Record { interfaces, ..self }
    }

    /// As `restore.sh` reads it.
    pub fn text(&self) -> String {
        let links = if self.links { "yes" } else { "no" };
        let mut text = format!("# macluster record 1\nboot {}\nlinks {links}\n", self.boot);
        let of_interfaces = self.interfaces.iter().flat_map(|(_, lines)| lines.iter().cloned());
        let foreign = self.foreign.iter().map(|label| format!("foreign {label}"));
        let entries = self.entries.iter().map(|bridge| format!("entry {bridge}"));
        for line in of_interfaces.chain(foreign).chain(entries) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

fn lines_of(interface: &Interface, all: &[Interface]) -> Vec<String> {
    let name = &interface.name;
    let state = if interface.up() { "up" } else { "down" };
    let bridge = all.iter().find(|b| b.members.contains(name)).map_or("-", |b| b.name.as_str());
    let address =
        |i: &crate::model::facts::Inet| format!("address {name} {} {}", i.address, netmask(i.prefix.unwrap_or(32)));
    let mut lines = vec![format!("interface {name} {state} {bridge}")];
    lines.extend(interface.inet.iter().map(address));
    lines
}

/// The boot a node's facts are from.
pub fn boot_session(facts: &NodeFacts) -> Option<&str> {
    facts.sysctl.as_ref().ok()?.get("kern.bootsessionuuid").map(String::as_str)
}

/// Property list of the links daemon, see launchd.plist(5). `root` is the node's root, `/` on a real one.
///
/// # Errors
/// It cannot be written: a defect.
pub fn links_job(root: &str) -> Result<Vec<u8>, String> {
    // Ends by itself only when there is nothing to keep.
    job(LINKS_JOB, root, "links.sh", LINKS_LOG)
}

/// Property list of the dead-man.
///
/// # Errors
/// As [`links_job`].
pub fn deadman_job(root: &str) -> Result<Vec<u8>, String> {
    job(DEADMAN_JOB, root, "restore.sh", DEADMAN_LOG)
}

/// Runs a script of ours at load and at boot, and again when it was killed.
fn job(label: &str, root: &str, script: &str, log: &str) -> Result<Vec<u8>, String> {
    let text = |s: &str| Value::String(s.to_owned());
    let rooted = |path: &str| Value::String(Paths::rooted(root, path));
    let mut again = Dictionary::new();
    again.insert("SuccessfulExit".to_owned(), Value::Boolean(false));
    let mut d = Dictionary::new();
    d.insert("Label".to_owned(), text(label));
    let words = vec![
        rooted("/bin/sh"),
        rooted(&format!("{NETWORK_DIR}/{script}")),
        text(if root.is_empty() { "/" } else { root }),
    ];
    d.insert("ProgramArguments".to_owned(), Value::Array(words));
    d.insert("RunAtLoad".to_owned(), Value::Boolean(true));
    d.insert("KeepAlive".to_owned(), Value::Dictionary(again));
    d.insert("StandardOutPath".to_owned(), rooted(log));
    d.insert("StandardErrorPath".to_owned(), rooted(log));
    let mut bytes = Vec::new();
    plist::to_writer_xml(&mut bytes, &Value::Dictionary(d))
        .map_err(|e| format!("cannot write the property list: {e}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Rack, inet};
    use super::*;
    use crate::parse::own_network;

    #[test]
    fn what_is_written_is_read_back() {
        let mut rack = Rack::new(3, true);
        let graph = crate::mesh::LinkGraph::build(&rack.snapshot);
        let desired = super::super::desired(&rack.inventory, &rack.snapshot, &graph);
        let node = rack.inventory.nodes[0].name.clone();
        let inventory = rack.inventory.clone();
        let links = kept(&node, rack.facts(1), &inventory, &desired, &BTreeSet::new());
        assert_eq!(links.len(), 2);
        let config = LinksConfig { script: Some("00".to_owned()), links };
        assert_eq!(own_network::links(&links_conf(&config)), Ok(config.clone()));
        let text = history(&[], "B", &config.links);
        let read = own_network::history(&text).expect("reads");
        assert_eq!(read.len(), 2);
        assert_eq!(history(&read, "B", &config.links), text, "nothing new");
        assert_eq!(own_network::history(&history(&read, "C", &[])), Ok(vec![]), "another boot");
    }

    #[test]
    fn a_link_whose_cable_is_away_is_kept_until_something_needs_its_place() {
        let mut rack = Rack::new(3, true);
        let inventory = rack.inventory.clone();
        let node = inventory.nodes[0].name.clone();
        let old = ConfiguredLink {
            interface: "en7".to_owned(),
            ether: None,
            address: "10.254.7.1".parse().expect("an address"),
            prefix: 30,
            peer_address: "10.254.7.2".parse().expect("an address"),
            peer: "studio-2".to_owned(),
        };
        rack.facts(1).network.configured = Ok(Some(LinksConfig { script: None, links: vec![old.clone()] }));
        let graph = crate::mesh::LinkGraph::build(&rack.snapshot);
        let desired = super::super::desired(&inventory, &rack.snapshot, &graph);
        assert!(kept(&node, rack.facts(1), &inventory, &desired, &BTreeSet::new()).contains(&old));
        let taken = ConfiguredLink { interface: "en3".to_owned(), ..old.clone() };
        rack.facts(1).network.configured = Ok(Some(LinksConfig { script: None, links: vec![taken] }));
        assert_eq!(kept(&node, rack.facts(1), &inventory, &desired, &BTreeSet::new()).len(), 2);
        let gone = ConfiguredLink { peer: "studio-9".to_owned(), ..old };
        rack.facts(1).network.configured = Ok(Some(LinksConfig { script: None, links: vec![gone] }));
        assert_eq!(kept(&node, rack.facts(1), &inventory, &desired, &BTreeSet::new()).len(), 2);
    }

    #[test]
    fn the_first_record_keeps_what_was_first() {
        let mut rack = Rack::new(2, true);
        rack.interface(1, "en3").inet.push(inet("169.254.1.2/16"));
        let first = Record::take(rack.facts(1), &["en3"]).text();
        assert!(first.contains("interface en3 up bridge0\naddress en3 169.254.1.2 255.255.0.0\n"), "{first}");
        rack.interface(1, "bridge0").members.clear();
        let mut later = Record::take(rack.facts(1), &["en3", "en4"]);
        later.links = true;
        later.foreign.push("io.example".to_owned());
        let merged = later.under(&first).text();
        let expected = "# macluster record 1\nboot BOOT-1\nlinks no\ninterface en3 up bridge0\n\
                        address en3 169.254.1.2 255.255.0.0\ninterface en4 up -\nforeign io.example\n";
        assert_eq!(merged, expected);
    }

    #[test]
    fn jobs_run_a_script_of_ours_with_the_nodes_root() {
        let value: Value = plist::from_bytes(&links_job("/tmp/x").expect("written")).expect("a property list");
        let words: Vec<_> = value
            .as_dictionary()
            .and_then(|d| d.get("ProgramArguments"))
            .and_then(Value::as_array)
            .expect("arguments")
            .iter()
            .filter_map(Value::as_string)
            .collect();
        assert_eq!(words, ["/tmp/x/bin/sh", "/tmp/x/opt/macluster/network/links.sh", "/tmp/x"]);
        let real = String::from_utf8(deadman_job("").expect("written")).expect("text");
        assert!(real.contains("<string>/opt/macluster/network/restore.sh</string>\n\t\t<string>/</string>"), "{real}");
    }
}
