//! Proof after apply: read everything again, compare, and send packets over each link both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::facts::{NodeFacts, RdmaSwitch};
use crate::model::{Cmd, Inventory, NodeName, Snapshot, Verdict};
use crate::network::{LinkNetwork, NetworkEnd, NetworkPlan, Problem, default_over_thunderbolt};
use crate::parse::route;
use crate::remote::SharedRemote;

/// What was found of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkResult {
    /// The link's network.
    pub network: LinkNetwork,
    /// `pass`, `fail`, or `skip` when nothing is wrong but ping could not be run.
    pub verdict: Verdict,
    /// What is wrong.
    pub failures: Vec<String>,
    /// What could not be looked at, and why; or is only worth knowing.
    pub notes: Vec<String>,
    /// Failures that are a node's own: its end is not as it was set.
    pub own: Vec<(NodeName, String)>,
    /// Ends whose address is there and not at index 1 of the GID table.
    pub wrong_gid: Vec<NodeName>,
}

/// What was found of all links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Each link that should have a network.
    pub links: Vec<LinkResult>,
    /// What is wrong with a node as a whole.
    pub nodes: Vec<(NodeName, String)>,
    /// What the plan made from the new facts still says.
    pub problems: Vec<Problem>,
}

impl Verified {
    /// Nodes that are wrong at their own end, and why: such a change must not stay. A link over which nothing passes
    /// although both ends are as they were set is a matter of its cable, and no reason to undo anything. Nor is a link
    /// with a node that was `given_up`: nothing was set there at either end.
    pub fn own_failures(&self, given_up: &BTreeSet<NodeName>) -> BTreeMap<NodeName, String> {
        let mut found: BTreeMap<NodeName, String> = self.nodes.iter().cloned().collect();
        let set = |l: &&LinkResult| !given_up.contains(&l.network.a.node) && !given_up.contains(&l.network.b.node);
        for (node, why) in self.links.iter().filter(set).flat_map(|l| &l.own) {
            found.entry(node.clone()).or_insert_with(|| why.clone());
        }
        found
    }

    /// Nothing was found to be wrong.
    pub fn ok(&self) -> bool {
        self.nodes.is_empty()
            && self.links.iter().all(|l| l.verdict != Verdict::Fail)
            && !self.problems.iter().any(|p| p.verdict == Verdict::Fail)
    }
}

/// Compares new facts with the plan made from them. Pings are added by [`ping_all`].
pub fn examine(inventory: &Inventory, snapshot: &Snapshot, plan: &NetworkPlan) -> Verified {
    let mut verified = Verified { problems: plan.problems.clone(), ..Verified::default() };
    for network in &plan.links {
        let mut result = LinkResult::of(network);
        for end in [&network.a, &network.b] {
            match snapshot.facts(&end.node) {
                Some(facts) => end_of_link(facts, network, end, &mut result),
                None => result.failures.push(format!("{}: no facts", end.node)),
            }
        }
        result.judge();
        verified.links.push(result);
    }
    for node in inventory.nodes.iter().map(|n| &n.name) {
        if let Some(over) = snapshot.facts(node).and_then(default_over_thunderbolt) {
            verified.nodes.push((node.clone(), format!("the default route goes over Thunderbolt ({over})")));
        }
    }
    verified
}

impl LinkResult {
    fn of(network: &LinkNetwork) -> Self {
        LinkResult {
            network: network.clone(),
            verdict: Verdict::Pass,
            failures: Vec::new(),
            notes: Vec::new(),
            own: Vec::new(),
            wrong_gid: Vec::new(),
        }
    }

    /// Something that the node itself has not done as it was told.
    fn own(&mut self, node: &NodeName, why: String) {
        self.own.push((node.clone(), why.clone()));
        self.failures.push(why);
    }

    fn judge(&mut self) {
        self.verdict = if self.failures.is_empty() { Verdict::Pass } else { Verdict::Fail };
    }
}

fn end_of_link(facts: &NodeFacts, network: &LinkNetwork, end: &NetworkEnd, result: &mut LinkResult) {
    let at = format!("{} {}", end.node, end.interface);
    let prefix = network.network.prefix_len();
    let interfaces = facts.interfaces.as_deref().unwrap_or_default();
    let Some(interface) = interfaces.iter().find(|i| i.name == end.interface) else {
        result.failures.push(format!("{at}: ifconfig does not list it"));
        return;
    };
    if let Some(bridge) = interfaces.iter().find(|b| b.members.contains(&end.interface)) {
        result.own(&end.node, format!("{at}: still a member of {}", bridge.name));
    }
    if !interface.up() {
        result.own(&end.node, format!("{at}: down"));
    } else if interface.active == Some(false) {
        result.failures.push(format!("{at}: no carrier"));
    }
    if !interface.inet.iter().any(|i| i.address == end.address && i.prefix == Some(prefix)) {
        // What hangs on the address would only repeat it.
        result.own(&end.node, format!("{at}: the address {}/{prefix} is not there", end.address));
        return;
    }
    if interface.inet.len() > 1 {
        result.own(&end.node, format!("{at}: other addresses stand beside {}/{prefix}", end.address));
    }
    // Where IPv6 is off for a port it has no link-local address, and its GID table is short (FAILURES C18). No
    // command is known that surely brings it back, so this is told and not repaired.
    if !interface.has_link_local_v6() {
        result
            .notes
            .push(format!("{at}: no link-local IPv6 address; if RDMA fails here, set IPv6 to automatic for this port"));
    }
    gid(facts, end, &at, result);
}

/// JACCL sends from index 1 of the GID table: that must be the link's address (mapped), or no queue pair comes up.
fn gid(facts: &NodeFacts, end: &NetworkEnd, at: &str, result: &mut LinkResult) {
    match &facts.rdma_switch {
        Ok(RdmaSwitch::Enabled) => {}
        Ok(RdmaSwitch::Disabled) => {
            result.notes.push(format!("{at}: RDMA is off, its GID table was not looked at"));
            return;
        }
        Ok(RdmaSwitch::NoCommand) => {
            result.notes.push(format!("{at}: this macOS has no RDMA"));
            return;
        }
        Err(e) => {
            result.notes.push(format!("{at}: whether RDMA is on is not known ({e})"));
            return;
        }
    }
    let device = format!("rdma_{}", end.interface);
    let ports = match &facts.rdma_ports {
        Ok(ports) => ports,
        Err(e) => {
            result.notes.push(format!("{at}: its GID table is not known ({e})"));
            return;
        }
    };
    let Some(port) = ports.iter().find(|p| p.device == device) else {
        result.notes.push(format!("{at}: there is no RDMA device {device}"));
        return;
    };
    let wrong = match port.gids.get(&1) {
        Some(gid) if gid.ipv4() == Some(end.address) => return,
        Some(gid) => format!("{at}: GID[1] of {device} is {}, not ::ffff:{}", gid.text, end.address),
        None => format!("{at}: {device} has no GID[1]; it should be ::ffff:{}", end.address),
    };
    if port.is_active() {
        result.wrong_gid.push(end.node.clone());
        result.own(&end.node, wrong);
    } else {
        // What a port without its peer shows there is not documented.
        result.notes.push(format!("{wrong} (the port is {})", port.state));
    }
}

/// Pings both ways over every link, bound to its interface and address, all at once. A link that is known to be
/// wrong is not pinged: it would only wait.
pub async fn ping_all(verified: &mut Verified, remotes: &BTreeMap<NodeName, SharedRemote>) {
    let each = verified.links.iter().map(|link| async {
        if link.verdict == Verdict::Fail {
            return Vec::new();
        }
        let (a, b) = (&link.network.a, &link.network.b);
        let (there, back, way, way_back) =
            futures::join!(ping(a, b, remotes), ping(b, a, remotes), route(a, b, remotes), route(b, a, remotes));
        [there, back, way, way_back].into_iter().filter_map(Result::err).collect::<Vec<_>>()
    });
    let found = futures::future::join_all(each).await;
    for (link, unanswered) in verified.links.iter_mut().zip(found) {
        let mut untold = false;
        for trouble in unanswered {
            match trouble {
                Unanswered::Silent(why) => link.failures.push(why),
                Unanswered::Astray(node, why) => link.own(&node, why),
                Unanswered::NotRun(why) => {
                    untold = true;
                    link.notes.push(why);
                }
            }
        }
        link.judge();
        if untold && link.verdict == Verdict::Pass {
            link.verdict = Verdict::Skip;
        }
    }
}

/// Why a ping proves nothing.
enum Unanswered {
    /// Nothing came back.
    Silent(String),
    /// The node would send to its peer over another interface.
    Astray(NodeName, String),
    /// The node has no ping that we could run: nothing is known.
    NotRun(String),
}

/// The way to the peer must leave by the link itself: an address that another interface has too would take it.
async fn route(
    from: &NetworkEnd,
    to: &NetworkEnd,
    remotes: &BTreeMap<NodeName, SharedRemote>,
) -> Result<(), Unanswered> {
    let told = |why: String| format!("{} {}: route to {}: {why}", from.node, from.interface, to.address);
    let Some(remote) = remotes.get(&from.node) else { return Ok(()) };
    let target = to.address.to_string();
    let cmd = Cmd::read("/sbin/route", ["-n", "get", target.as_str()]).timeout(Duration::from_secs(10));
    match remote.exec(cmd).await {
        Ok(output) => match route::interface(&format!("{}{}", output.text(), output.err_text())) {
            Ok(Some(by)) if by == from.interface => Ok(()),
            Ok(by) => {
                let by = by.map_or_else(|| "there is none".to_owned(), |by| format!("leaves by {by}"));
                let why = told(crate::model::command::printable(&by));
                Err(Unanswered::Astray(from.node.clone(), why))
            }
            Err(_) => Err(Unanswered::NotRun(told(output.describe()))),
        },
        Err(e) => Err(Unanswered::NotRun(told(e.to_string()))),
    }
}

async fn ping(
    from: &NetworkEnd,
    to: &NetworkEnd,
    remotes: &BTreeMap<NodeName, SharedRemote>,
) -> Result<(), Unanswered> {
    let told = |why: String| format!("{} {}: ping to {}: {why}", from.node, from.interface, to.address);
    let Some(remote) = remotes.get(&from.node) else {
        return Err(Unanswered::Silent(told("no connection to this node".to_owned())));
    };
    let (source, target) = (from.address.to_string(), to.address.to_string());
    // -b binds to the interface, so that an answer proves this cable and no other way.
    let args = ["-c", "2", "-t", "3", "-b", from.interface.as_str(), "-S", source.as_str(), target.as_str()];
    let cmd = Cmd::read("/sbin/ping", args).timeout(Duration::from_secs(10));
    match remote.exec(cmd).await {
        Ok(output) if output.ok() => Ok(()),
        // Exit 2: nothing came back.
        Ok(output) if output.exit == Some(2) => Err(Unanswered::Silent(told("no answer".to_owned()))),
        // 64: ping does not understand us; 126 and 127: the shell did not find or start it.
        Ok(output) if matches!(output.exit, Some(64 | 126 | 127)) => Err(Unanswered::NotRun(told(output.describe()))),
        Ok(output) => Err(Unanswered::Silent(told(output.describe()))),
        Err(e) => Err(Unanswered::Silent(told(e.to_string()))),
    }
}

#[cfg(test)]
mod tests;
