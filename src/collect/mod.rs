//! Facts from live nodes or a recording: probes run, transcripts kept, facts assembled.

mod again;
mod redact;
mod refresh;
mod replay;
mod save;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use futures::stream::{self, StreamExt};
use jiff::Timestamp;

use crate::event::{Event, Events};
use crate::model::facts::{Asked, Session};
use crate::model::inventory::Paths;
use crate::model::snapshot::SNAPSHOT_VERSION;
use crate::model::{Cmd, CollectFailure, FailureKind, Inventory, NodeName, NodeRecord, Output, Snapshot, Transcript};
use crate::parse::assemble;
use crate::parse::probe::{CLOCK, NOISE, Probe, probes};
use crate::remote::{Fleet, Remote, RemoteError};
pub use again::{paths, runtime};
pub use redact::redact;
pub use refresh::{lost, refresh};
pub use replay::replay;
pub use save::save;

/// Bytes kept of a probe's output; real ones stay below 200 kB.
const MAX_OUTPUT: usize = 8 * 1024 * 1024;

/// Reads the facts of all connected nodes, every probe of a node over its one connection, as many nodes at once as the
/// fleet allows.
pub async fn collect(inventory: &Inventory, fleet: &Fleet, events: &Events) -> Snapshot {
    read(inventory, fleet, events, |_| ()).await
}

/// The same without what was printed, which in a large rack takes most of the memory: it cannot be saved.
pub async fn collect_facts(inventory: &Inventory, fleet: &Fleet, events: &Events) -> Snapshot {
    read(inventory, fleet, events, |record| {
        record.transcripts.retain(|t| t.probe == NOISE);
        record.transcripts.shrink_to_fit();
    })
    .await
}

async fn read(
    inventory: &Inventory,
    fleet: &Fleet,
    events: &Events,
    keep: impl Fn(&mut NodeRecord) + Sync,
) -> Snapshot {
    let keep = &keep;
    let taken_at = Timestamp::now();
    let nodes = fleet.nodes.iter().map(|(name, node)| async move {
        let mut record = match node {
            Ok(remote) => one(remote.as_ref(), events).await,
            Err(why) => NodeRecord { facts: Err(why.clone().into()), transcripts: Vec::new() },
        };
        keep(&mut record);
        (name.clone(), record)
    });
    let work: Vec<BoxFuture<'_, _>> = nodes.map(FutureExt::boxed).collect();
    let nodes: BTreeMap<_, _> = stream::iter(work).buffer_unordered(fleet.parallel).collect().await;
    Snapshot {
        schema_version: SNAPSHOT_VERSION,
        taken_at,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        inventory: inventory.text.clone(),
        nodes,
    }
}

/// Reads the facts of one connected node.
pub async fn one(remote: &dyn Remote, events: &Events) -> NodeRecord {
    let (node, what) = (Some(remote.node().clone()), "reading facts".to_owned());
    events.emit(Event::TaskStarted { node: node.clone(), what: what.clone() });
    let record = record(remote).await;
    let error = record.facts.as_ref().err().map(|e| e.message.clone());
    events.emit(Event::TaskDone { node, what, error });
    record
}

/// Runs every probe on one node.
async fn record(remote: &dyn Remote) -> NodeRecord {
    let results = join_all(probes().iter().map(|probe| timed(remote, probe))).await;
    let mut lost = None;
    let mut clock_asked = None;
    let mut transcripts = Vec::with_capacity(results.len());
    for (probe, (asked, result)) in probes().iter().zip(results) {
        if probe.id == CLOCK {
            clock_asked = Some(asked);
        }
        if let Err(RemoteError::Lost(why)) = &result {
            lost.get_or_insert_with(|| why.clone());
        }
        let argv = std::iter::once(probe.program).chain(probe.args.iter().copied()).map(str::to_owned).collect();
        transcripts.push(transcript(probe.id, argv, result));
    }
    let facts = if let Some(why) = lost {
        // What was read before is kept for people, but a node half read is a node not read.
        Err(CollectFailure {
            kind: FailureKind::Lost,
            message: format!("the connection broke while facts were read: {why}"),
            hint: Some("run it again; if it happens again, look at the node's network and power".to_owned()),
        })
    } else {
        let session =
            Session { local_address: remote.peer_address(), user: Some(remote.user().to_owned()), clock_asked };
        let facts = assemble::facts(&transcripts, session);
        let more = again::services(remote, &facts).await;
        if more.is_empty() {
            Ok(facts)
        } else {
            transcripts.extend(more);
            Ok(assemble::facts(&transcripts, facts.session))
        }
    };
    NodeRecord { facts, transcripts }
}

/// The same, and when.
async fn timed(remote: &dyn Remote, probe: &Probe) -> (Asked, Result<Output, RemoteError>) {
    let before = Timestamp::now();
    let result = ask(remote, probe).await;
    (Asked { before, after: Timestamp::now() }, result)
}

async fn ask(remote: &dyn Remote, probe: &Probe) -> Result<Output, RemoteError> {
    let args = probe.args.iter().map(|a| (*a).to_owned()).collect();
    run(remote, probe.program, args, probe.timeout, probe.sudo).await
}

async fn run(
    remote: &dyn Remote,
    program: &str,
    args: Vec<String>,
    timeout: Duration,
    sudo: bool,
) -> Result<Output, RemoteError> {
    // A program given to another program (sudo) is a path of the node, too.
    let args = args.into_iter().map(|arg| if arg.starts_with('/') { Paths::rooted(remote.root(), &arg) } else { arg });
    let mut cmd = Cmd::read(program, args).timeout(timeout).sudo(sudo);
    cmd.max_output = MAX_OUTPUT;
    // A transcript is what was really printed; the reader of facts knows how to take the noise off.
    remote.exec(cmd.raw()).await
}

fn transcript(probe: &str, argv: Vec<String>, result: Result<Output, RemoteError>) -> Transcript {
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(e) => (Output::default(), Some(e.to_string())),
    };
    Transcript {
        probe: probe.to_owned(),
        argv,
        exit: output.exit,
        stdout: output.text(),
        stderr: output.err_text(),
        truncated: output.truncated,
        error: error.or_else(|| output.signal.as_ref().map(|s| format!("ended by signal {s}"))),
    }
}

/// The nodes that gave no facts, with their failures.
pub fn failures(snapshot: &Snapshot) -> impl Iterator<Item = (&NodeName, &CollectFailure)> {
    snapshot.nodes.iter().filter_map(|(name, record)| record.facts.as_ref().err().map(|e| (name, e)))
}
