//! What is done to one node between arming and proving: the record of what is there, then the changes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::deadman::Armed;
use super::steps::{NetNode, PAUSE};
use crate::model::facts::Interface;
use crate::model::{Cmd, NodeFacts};
use crate::network::persist::Record;
use crate::network::{Change, NetworkPlan};
use crate::parse::ifconfig;
use crate::playbook::ForEach;

/// For the link-local address to come by itself once the interface is up and out of the bridge, and again after it was
/// asked for.
const LINK_LOCAL: Duration = Duration::from_secs(4);

/// Records what there is to go back to: before this change, and before macluster ever changed these interfaces.
///
/// # Errors
/// In words; without a record nothing may be changed.
pub(super) async fn record(
    node: &NetNode,
    facts: &NodeFacts,
    plan: &NetworkPlan,
    changes: &[&Change],
) -> Result<(), String> {
    let words = |e: crate::phase::runtime::StepError| e.to_string();
    let of_links = plan.links.iter().filter_map(|l| l.at(&node.name)).map(|(own, _)| own.interface.as_str());
    let touched = changes.iter().filter(|c| c.of_interface()).map(|c| c.interface.as_str());
    let interfaces: BTreeSet<&str> = of_links.chain(touched).collect();
    let mut before = Record::take(facts, &interfaces.into_iter().collect::<Vec<_>>());
    let named = |kind| changes.iter().filter(move |c| c.for_each == kind).map(|c| c.interface.clone()).collect();
    before.foreign = named(ForEach::ForeignDaemon);
    before.entries = named(ForEach::BridgeEntry);
    let first = node.answer("ask-first", &[]).await.map_err(words)?;
    let older = if first.ok() { first.text() } else { String::new() };
    let all = before.clone().under(&older).text();
    if all != older {
        node.write("write-first", all).await.map_err(words)?;
        node.run("keep-first").await.map_err(words)?;
    }
    node.write("write-before", before.text()).await.map_err(words)?;
    if before.links {
        node.run("keep-config").await.map_err(words)?;
    }
    Ok(())
}

/// Makes one change.
///
/// # Errors
/// In words: the command that failed, or that there is no time left.
pub(super) async fn change(node: &NetNode, change: &Change, armed: &Armed) -> Result<(), String> {
    if change.for_each == ForEach::MissingAddress {
        link_local(node, &change.interface).await?;
    }
    for cmd in &change.commands {
        armed.in_time()?;
        let timeout = cmd.timeout.min(armed.limit());
        node.exec(cmd.clone().timeout(timeout), true).await.map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The link-local address holds index 0 of the GID table, so that the link's address lands at index 1: it must be there
/// first. It comes by itself where macOS serves the port; elsewhere it is asked for. Without it the change goes on: the
/// proof afterwards looks at the GID table itself.
async fn link_local(node: &NetNode, interface: &str) -> Result<(), String> {
    if waits_in_vain(node, interface).await? {
        if let Err(e) = node.run_with("start-ipv6", &[("interface", interface)], None).await {
            node.say(format!("{interface} has no link-local IPv6 address, and macOS was asked for one in vain: {e}"));
            return Ok(());
        }
        if waits_in_vain(node, interface).await? {
            node.say(format!("{interface} has no link-local IPv6 address"));
        }
    }
    Ok(())
}

/// Waits for the address; true when it does not come. Without carrier there is nothing to wait for.
async fn waits_in_vain(node: &NetNode, interface: &str) -> Result<bool, String> {
    let begun = Instant::now();
    loop {
        let output = node.remote.exec(Cmd::read("/sbin/ifconfig", [interface])).await.map_err(|e| e.to_string())?;
        let read = ifconfig::parse(&output.text()).unwrap_or_default();
        let Some(found) = read.iter().find(|i| i.name == interface) else { return Ok(false) };
        if found.has_link_local_v6() || found.active == Some(false) || !Interface::up(found) {
            return Ok(false);
        }
        if begun.elapsed() > LINK_LOCAL {
            return Ok(true);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Change {
    /// It is about an interface, not about a job or a file.
    fn of_interface(&self) -> bool {
        !matches!(
            self.for_each,
            ForEach::ForeignDaemon | ForEach::RunningLinksDaemon | ForEach::LinksDaemon | ForEach::BridgeEntry
        )
    }
}
