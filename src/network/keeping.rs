//! What differs besides addresses: the links daemon, daemons of others, the bridge in the preferences, and what is to
//! be known of the node's past.

use std::collections::{BTreeMap, BTreeSet};

use super::desired::Desired;
use super::diff::Subject;
use super::persist::{kept, links_conf, links_job};
use super::plan::{PlanRequest, foreign_daemon};
use super::problem::{Problem, ProblemKind};
use crate::mesh::bridged;
use crate::model::facts::{NodeFacts, RdmaSwitch};
use crate::model::inventory::Paths;
use crate::model::network_facts::{EXO_JOB, Job, LINKS_JOB, LinksConfig, NETWORK_DIR, PREFERENCES};
use crate::model::{FactErrorKind, Inventory, NodeName};
use crate::playbook::{ForEach, Vars};

/// Where nothing was before.
pub(super) const NOTHING: &str = "nothing";

/// What [`keeping`] found on a node.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// What its links daemon is to keep.
    pub(super) config: LinksConfig,
    /// To be done before the addresses.
    pub(super) first: Vec<Subject>,
    /// To be done after them.
    pub(super) last: Vec<Subject>,
    /// To know.
    pub(super) notes: Vec<Problem>,
}

/// The root of a node's paths.
pub fn root_of<'a>(inventory: &'a Inventory, node: &NodeName) -> &'a str {
    let own = inventory.nodes.iter().find(|n| &n.name == node).and_then(|n| n.root.as_deref());
    own.unwrap_or(&inventory.paths.root)
}

/// Where the link networks' own files lie on a node, for the playbook.
pub fn places(node: &NodeName, root: &str) -> Vars {
    let rooted = |path: &str| Paths::rooted(root, path);
    Vars::new()
        .with("node", node.as_str())
        .with("root", if root.is_empty() { "/" } else { root })
        .with("dir", rooted(NETWORK_DIR))
        .with("log", rooted("/opt/macluster/var/log"))
        .with("run", rooted("/var/run"))
        .with("daemons", rooted("/Library/LaunchDaemons"))
        .with("preferences", rooted(PREFERENCES))
}

pub(super) fn keeping(
    node: &NodeName,
    facts: &NodeFacts,
    request: &PlanRequest<'_>,
    desired: &Desired,
    left_alone: &BTreeSet<&str>,
    found: &[Subject],
) -> Keeping {
    let inventory = request.inventory;
    let root = root_of(inventory, node);
    let subject = |kind, about: &str, before: String, after: String, vars: Vars| Subject {
        kind,
        interface: about.to_owned(),
        bridge: None,
        before,
        after,
        link: None,
        vars,
        texts: BTreeMap::new(),
    };
    let mut keeping = Keeping {
        config: LinksConfig {
            script: Some(request.scripts.links.sha256.clone()),
            links: kept(node, facts, inventory, desired, left_alone),
        },
        ..Keeping::default()
    };
    if facts.network.armed == Ok(true) {
        let who = facts.network.lock.as_ref().ok().and_then(Option::as_ref);
        let by = who.map(|owner| format!(" ({owner})")).unwrap_or_default();
        let message = format!("{}: a change waits for its confirmation{by}", inventory.label(node));
        keeping.notes.push(
            Problem::new(ProblemKind::Unconfirmed, message)
                .node(node)
                .action("it is being made right now, or was cut off and takes itself back: plan again in a minute"),
        );
    }
    let foreign = facts.network.job(EXO_JOB).ok().flatten();
    if let (Some(job), true) = (foreign, request.options.replace_foreign_daemon) {
        let vars = places(node, root).with("label", job.label.as_str());
        let after = "stopped, its job file kept".to_owned();
        keeping.first.push(subject(ForEach::ForeignDaemon, &job.label, "running".to_owned(), after, vars));
    }
    keeping.notes.extend(unread(node, facts, inventory));
    daemon(node, facts, request, found, &mut keeping, subject);
    let idle = found.is_empty() && !keeping.last.is_empty();
    if let (true, Some((why, action))) = (idle, foreign_daemon(facts, request.options)) {
        let message = format!("{}: not changed: {why}", inventory.label(node));
        keeping.notes.push(Problem::new(ProblemKind::Refused, message).node(node).action(action));
        return Keeping { first: Vec::new(), last: Vec::new(), ..keeping };
    }
    entries(node, facts, request, desired, &mut keeping, subject);
    keeping.notes.extend(readdress(node, facts, inventory, found));
    keeping
}

/// Facts that decide nothing by their absence, and that somebody should look at.
fn unread(node: &NodeName, facts: &NodeFacts, inventory: &Inventory) -> Vec<Problem> {
    let told = [
        (facts.network.jobs.as_ref().err(), "whether the links daemon runs there, or another program's"),
        (facts.network.bridge_entries.as_ref().err(), "whether a bridge comes back at the next restart"),
    ];
    // An older recording was not asked, and no run can change that.
    let told = told.into_iter().filter_map(|(e, what)| Some((e?, what)));
    told.filter(|(e, _)| e.kind != FactErrorKind::NotCollected)
        .map(|(e, what)| {
            let message = format!("{}: {what}, is not known ({e})", inventory.label(node));
            Problem::new(ProblemKind::Unread, message).node(node).action("`macluster doctor` tells more")
        })
        .collect()
}

/// The links daemon: stopped while addresses change, so that it does not put the old ones back, and started with the
/// new list.
fn daemon(
    node: &NodeName,
    facts: &NodeFacts,
    request: &PlanRequest<'_>,
    found: &[Subject],
    keeping: &mut Keeping,
    subject: impl Fn(ForEach, &str, String, String, Vars) -> Subject,
) {
    let loaded = facts.network.job(LINKS_JOB);
    let configured = facts.network.configured.as_ref().ok().and_then(Option::as_ref);
    let nothing_to_keep = keeping.config.links.is_empty() && configured.is_none();
    // One that launchd has and that does not run keeps nothing.
    let idle = matches!(loaded, Ok(job) if !job.is_some_and(Job::works));
    let right = configured == Some(&keeping.config) && !idle;
    if nothing_to_keep || (right && found.is_empty() && keeping.first.is_empty()) {
        return;
    }
    let root = root_of(request.inventory, node);
    let vars = places(node, root).with("label", LINKS_JOB);
    if !matches!(loaded, Ok(None)) && configured.is_some() {
        let (before, after) = ("running".to_owned(), "stopped until the links are set".to_owned());
        keeping.first.push(subject(ForEach::RunningLinksDaemon, LINKS_JOB, before, after, vars.clone()));
    }
    let links = |config: &LinksConfig| {
        let names: Vec<&str> = config.links.iter().map(|l| l.interface.as_str()).collect();
        if names.is_empty() { "keeps no link".to_owned() } else { format!("keeps {}", names.join(", ")) }
    };
    let before = match configured {
        None => NOTHING.to_owned(),
        Some(config) if idle => format!("not running, {}", links(config)),
        Some(config) => links(config),
    };
    let after = format!("{} across restarts", links(&keeping.config));
    let mut last = subject(ForEach::LinksDaemon, LINKS_JOB, before, after, vars);
    last.texts.insert("write-links-script".to_owned(), request.scripts.links.text.clone().into_bytes());
    last.texts.insert("write-links-config".to_owned(), links_conf(&keeping.config).into_bytes());
    last.texts.insert("write-links-job".to_owned(), links_job(root).unwrap_or_default());
    keeping.last.push(last);
}

/// The bridge that the preferences bring back.
fn entries(
    node: &NodeName,
    facts: &NodeFacts,
    request: &PlanRequest<'_>,
    desired: &Desired,
    keeping: &mut Keeping,
    subject: impl Fn(ForEach, &str, String, String, Vars) -> Subject,
) {
    let own: Vec<&str> = desired.of(node).map(|(_, own, _)| own.interface.as_str()).collect();
    for entry in facts.network.bridge_entries.iter().flatten() {
        if !entry.members.iter().any(|m| own.contains(&m.as_str())) {
            continue;
        }
        let members = entry.members.join(" ");
        if request.options.remove_bridge_entry {
            let root = root_of(request.inventory, node);
            let vars = places(node, root).with("bridge", entry.name.as_str()).with("json", entry.json.as_str());
            let before = format!("comes back at restart with {members}");
            let mut last = subject(
                ForEach::BridgeEntry,
                &entry.name,
                before,
                "gone from the network preferences".to_owned(),
                vars,
            );
            last.texts.insert("keep-bridge-entry".to_owned(), entry.json.clone().into_bytes());
            keeping.last.push(last);
        } else {
            let message = format!(
                "{}: {} comes back at the next restart with {members}; the links daemon takes the links out of it again",
                request.inventory.label(node),
                entry.name
            );
            keeping.notes.push(Problem::new(ProblemKind::BridgeEntry, message).node(node).action(
                "`--remove-bridge-entry` removes it for good, for all its members (`network revert` undoes it)",
            ));
        }
    }
}

/// RDMA keeps the address it has once used until the next restart: queue pairs to a new one end in errno 60 (FAILURES
/// C16).
fn readdress(node: &NodeName, facts: &NodeFacts, inventory: &Inventory, found: &[Subject]) -> Vec<Problem> {
    if !matches!(facts.rdma_switch, Ok(RdmaSwitch::Enabled)) {
        return Vec::new();
    }
    let boot = super::persist::boot_session(facts);
    let history = facts.network.history.as_deref().unwrap_or_default();
    let mut notes = Vec::new();
    for subject in found.iter().filter(|s| s.kind == ForEach::MissingAddress) {
        let Some(new) = subject.vars.get("address") else { continue };
        let interfaces = facts.interfaces.as_deref().unwrap_or_default();
        let now = interfaces.iter().filter(|i| i.name == subject.interface).flat_map(|i| &i.inet);
        // A self-assigned address is what every port has before its first apply.
        let now = now.map(|i| i.address).filter(|a| !a.is_link_local() && inventory.pool.contains(a));
        let earlier = history.iter().filter(|e| Some(e.boot.as_str()) == boot && e.interface == subject.interface);
        let other = now.chain(earlier.map(|e| e.address)).find(|a| a.to_string() != new);
        if let Some(other) = other {
            let message = format!(
                "{} {}: RDMA has had {other} there since the last restart; after the change to {new} it may fail with \
                 errno 60 until the next one",
                inventory.label(node),
                subject.interface
            );
            notes.push(Problem::new(ProblemKind::Readdress, message).node(node).action(
                "restart the node after the change, or keep the addresses (pool, order of `nodes`); `--readdress` applies it",
            ));
        }
    }
    notes
}

/// Cycles of cables under live bridges: a broadcast storm, or the next cable starts one.
pub(super) fn loops(request: &PlanRequest<'_>) -> Vec<Problem> {
    let found = bridged::loops(request.graph, request.snapshot);
    let mut problems = Vec::new();
    for cycle in &found.cycles {
        let names: Vec<String> = cycle.iter().map(ToString::to_string).collect();
        let message = format!(
            "bridges and cables form a cycle ({}): every broadcast circles for ever and can take the LAN down",
            names.join(", ")
        );
        problems.push(
            Problem::new(ProblemKind::BridgeLoop, message)
                .action("apply this plan now; if the LAN is dead already, pull one of these cables first"),
        );
    }
    if found.cycles.is_empty() && !found.closing.is_empty() {
        let pairs: Vec<String> = found.closing.iter().map(|(a, b)| format!("{a} and {b}")).collect();
        let message = format!(
            "do not plug this cable yet: with the bridges still there, a cable between {} would close a cycle",
            pairs.join(", or ")
        );
        problems.push(Problem::new(ProblemKind::BridgeLoop, message).action("apply this plan first, then plug it"));
    }
    problems
}

#[cfg(test)]
mod tests;
