//! Reads again what changes while somebody works at the rack: cables, RDMA ports, interfaces and their addresses.

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use super::{ask, one, paths, transcript};
use crate::event::Events;
use crate::model::{CollectFailure, FailureKind, Inventory, NodeName, NodeRecord, Snapshot, Transcript};
use crate::parse::assemble;
use crate::parse::probe::{self, Probe, probes};
use crate::remote::{Fleet, Remote, RemoteError};

/// What a cable that is moved, a link that comes up or a `network apply` changes. All else stays as it was first read.
const MOVING: [&str; 7] = [
    probe::THUNDERBOLT,
    probe::IFCONFIG,
    probe::RDMA_DEVICES,
    probe::RDMA_PORTS,
    probe::ROUTES,
    probe::LINKS_CONFIG,
    probe::JOB_LINKS,
];

/// Brings the snapshot up to date. A node whose connection broke is told as lost; one that has come back is read whole.
pub async fn refresh(inventory: &Inventory, fleet: &Fleet, events: &Events, snapshot: &mut Snapshot) {
    let mut work = Vec::new();
    for (name, remote) in &fleet.nodes {
        let record = snapshot.nodes.remove(name);
        work.push(Box::pin(async move {
            let now = match (remote, record) {
                (Ok(remote), Some(record)) if record.facts.is_ok() => again(remote.as_ref(), record).await,
                (Ok(remote), _) => one(remote.as_ref(), events).await,
                (Err(why), _) => NodeRecord { facts: Err(why.clone().into()), transcripts: Vec::new() },
            };
            (name.clone(), now)
        }));
    }
    let records: Vec<(NodeName, NodeRecord)> = stream::iter(work).buffer_unordered(fleet.parallel).collect().await;
    snapshot.nodes.extend(records);
    snapshot.taken_at = Timestamp::now();
    paths(inventory, fleet, snapshot).await;
}

/// Nodes that have to be connected to again.
pub fn lost(fleet: &Fleet, snapshot: &Snapshot) -> Vec<NodeName> {
    let gone = |name: &NodeName| snapshot.facts(name).is_none() || fleet.remote(name).is_none();
    fleet.nodes.keys().filter(|name| gone(name)).cloned().collect()
}

async fn again(remote: &dyn Remote, record: NodeRecord) -> NodeRecord {
    let NodeRecord { facts, mut transcripts } = record;
    let asked: Vec<&Probe> = probes().iter().filter(|p| MOVING.contains(&p.id)).collect();
    let answers = join_all(asked.iter().map(|probe| ask(remote, probe))).await;
    // What was sent over the links is tried again, too.
    transcripts.retain(|t| ![probe::LINK_PING, probe::LINK_ROUTE].contains(&t.probe.as_str()));
    for (probe, answer) in asked.into_iter().zip(answers) {
        if let Err(RemoteError::Lost(why)) = answer {
            let message = format!("the connection broke: {why}");
            return NodeRecord {
                facts: Err(CollectFailure { kind: FailureKind::Lost, message, hint: None }),
                transcripts,
            };
        }
        let argv = std::iter::once(probe.program).chain(probe.args.iter().copied()).map(str::to_owned).collect();
        put(&mut transcripts, transcript(probe.id, argv, answer));
    }
    let facts = facts.map(|before| assemble::facts(&transcripts, before.session));
    NodeRecord { facts, transcripts }
}

/// In the place of the one it replaces: snapshots keep their order.
fn put(transcripts: &mut Vec<Transcript>, new: Transcript) {
    match transcripts.iter_mut().find(|t| t.probe == new.probe) {
        Some(old) => *old = new,
        None => transcripts.push(new),
    }
}
