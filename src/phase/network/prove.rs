//! Waits until the links are proven, or until waiting is of no use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::deadman::{self, Armed};
use super::steps::NetNode;
use super::{Verified, examine, ping_all};
use crate::collect::collect;
use crate::event::{Event, Events};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Verdict};
use crate::network::{LinkNetwork, NetworkEnd, PlanOptions, PlanRequest, ProblemKind, plan};
use crate::playbook::{PlaybookError, Playbooks, Scripts};
use crate::remote::{Fleet, SharedRemote};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The connected nodes of a fleet.
pub fn remotes(fleet: &Fleet) -> BTreeMap<NodeName, SharedRemote> {
    fleet.reached().map(|(name, remote)| (name.clone(), Arc::clone(remote))).collect()
}

/// What proving needs.
pub struct Prover<'a> {
    /// Nodes and pool.
    pub inventory: &'a Inventory,
    /// Commands.
    pub playbooks: &'a Playbooks,
    /// Scripts on the nodes.
    pub scripts: &'a Scripts,
    /// Wishes.
    pub options: PlanOptions,
    /// Links of these nodes are not waited for.
    pub given_up: &'a BTreeSet<NodeName>,
    /// How long links may take to come up.
    pub limit: Duration,
    /// Where progress goes.
    pub events: &'a Events,
}

/// Reads all facts again and proves every link. An interface that just left a bridge needs a moment for its carrier
/// and its GID table: looks again until all is well or the limit is over. An address at the wrong index of the GID
/// table is repaired once, at half time. The dead-men of `at_work` are told at every look that the work goes on.
///
/// # Errors
/// As [`plan`].
pub(super) async fn prove(
    prover: &Prover<'_>,
    fleet: &Fleet,
    at_work: &[(&NetNode, &Armed)],
    stop: &CancellationToken,
) -> Result<Verified, PlaybookError> {
    let mut started = Instant::now();
    let connected = remotes(fleet);
    let (mut told, mut repaired) = (false, false);
    loop {
        // Who has gone back meanwhile shows in the facts.
        join_all(at_work.iter().map(|(node, armed)| deadman::beat(node, armed))).await;
        let mut verified = look(prover, fleet, &connected).await?;
        // The change that waits for its confirmation is this one.
        verified.problems.retain(|p| p.kind != ProblemKind::Unconfirmed);
        let waited_for = |node: &NodeName| !prover.given_up.contains(node);
        let worth_waiting = verified
            .links
            .iter()
            .any(|l| l.verdict == Verdict::Fail && waited_for(&l.network.a.node) && waited_for(&l.network.b.node));
        if !worth_waiting || stop.is_cancelled() {
            return Ok(verified);
        }
        if !repaired && started.elapsed() * 2 >= prover.limit {
            repaired = true;
            if repair(&verified, at_work).await {
                started = Instant::now();
                continue;
            }
        }
        if started.elapsed() + PAUSE >= prover.limit {
            return Ok(verified);
        }
        if !told {
            let text = format!("the links are not all up yet: looking again for up to {} s", prover.limit.as_secs());
            prover.events.emit(Event::Note { node: None, text });
            told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One look, without waiting and without changing anything.
///
/// # Errors
/// As [`plan`].
pub async fn look(
    prover: &Prover<'_>,
    fleet: &Fleet,
    connected: &BTreeMap<NodeName, SharedRemote>,
) -> Result<Verified, PlaybookError> {
    let snapshot = collect(prover.inventory, fleet, prover.events).await;
    let graph = LinkGraph::build(&snapshot);
    let found = plan(&PlanRequest {
        inventory: prover.inventory,
        snapshot: &snapshot,
        graph: &graph,
        playbooks: prover.playbooks,
        scripts: prover.scripts,
        options: prover.options,
    })?;
    let mut verified = examine(prover.inventory, &snapshot, &found);
    ping_all(&mut verified, connected).await;
    Ok(verified)
}

/// Sets addresses again that are not at index 1 of the GID table. True when there were such.
async fn repair(verified: &Verified, at_work: &[(&NetNode, &Armed)]) -> bool {
    let mut work = Vec::new();
    for link in &verified.links {
        for name in &link.wrong_gid {
            let Some((node, armed)) = at_work.iter().find(|(n, _)| &n.name == name) else { continue };
            let Some((own, peer)) = link.network.at(name) else { continue };
            work.push(set_again(node, armed, &link.network, own, peer));
        }
    }
    let any = !work.is_empty();
    join_all(work).await;
    any
}

async fn set_again(node: &NetNode, armed: &Armed, link: &LinkNetwork, own: &NetworkEnd, peer: &NetworkEnd) {
    if armed.in_time().is_err() {
        return;
    }
    node.say(format!("{}: its address is not at index 1 of the GID table: setting it again", own.interface));
    let (address, peer_address) = (own.address.to_string(), peer.address.to_string());
    let (receptacle, prefix) = (own.receptacle.to_string(), link.network.prefix_len().to_string());
    let (network, netmask) = (link.network.to_string(), link.network.netmask().to_string());
    let values = [
        ("interface", own.interface.as_str()),
        ("receptacle", receptacle.as_str()),
        ("address", address.as_str()),
        ("netmask", netmask.as_str()),
        ("prefix", prefix.as_str()),
        ("network", network.as_str()),
        ("peer", peer.node.as_str()),
        ("peer_address", peer_address.as_str()),
    ];
    if let Err(e) = node.run_with("repair-gid", &values, None).await {
        node.say(format!("{}: {e}", own.interface));
    }
}
