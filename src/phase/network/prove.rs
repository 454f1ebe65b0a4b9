//! Waits until the links are proven, or until waiting is of no use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Verified, examine, ping_all};
use crate::collect::collect;
use crate::event::{Event, Events};
use crate::mesh::LinkGraph;
use crate::model::{Inventory, NodeName, Verdict};
use crate::network::plan;
use crate::playbook::{PlaybookError, Playbooks};
use crate::remote::{Fleet, SharedRemote};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The connected nodes of a fleet.
pub fn remotes(fleet: &Fleet) -> BTreeMap<NodeName, SharedRemote> {
    fleet.reached().map(|(name, remote)| (name.clone(), Arc::clone(remote))).collect()
}

/// Reads all facts again and proves every link. An interface that just left a bridge needs a moment for its carrier
/// and its GID table: looks again until all is well or `limit` is over. Links of nodes in `given_up` are not waited
/// for.
///
/// # Errors
/// As [`plan`].
pub async fn prove(
    inventory: &Inventory,
    fleet: &Fleet,
    playbooks: &Playbooks,
    given_up: &BTreeSet<NodeName>,
    limit: Duration,
    events: &Events,
) -> Result<Verified, PlaybookError> {
    let started = Instant::now();
    let connected = remotes(fleet);
    let mut told = false;
    loop {
        let snapshot = collect(inventory, fleet, events).await;
        let graph = LinkGraph::build(&snapshot);
        let found = plan(inventory, &snapshot, &graph, playbooks)?;
        let mut verified = examine(inventory, &snapshot, &found);
        ping_all(&mut verified, &connected).await;
        let worth_waiting = verified.links.iter().any(|l| {
            l.verdict == Verdict::Fail && !given_up.contains(&l.network.a.node) && !given_up.contains(&l.network.b.node)
        });
        if !worth_waiting || started.elapsed() + PAUSE >= limit {
            return Ok(verified);
        }
        if !told {
            let text = format!("the links are not all up yet: looking again for up to {} s", limit.as_secs());
            events.emit(Event::Note { node: None, text });
            told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
