//! Lets nodes fetch a model from nodes that have it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::push::{COPYING, Push, Pushed, Ready};
use super::relay::Hop;
use super::trouble::Trouble;
use crate::agent::certify::{Identity, issue};
use crate::agent::seed::{Fetch, Offer};
use crate::event::Event;
use crate::model::command::printable;
use crate::model::{NodeName, Stdin};
use crate::phase::ops::Ops;
use crate::phase::runtime::RuntimeNode;
use crate::phase::standing::{self, NoLine, Standing, Start};

/// For a giving node to open its ports.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// Longest line of progress, bytes.
const MAX_LINE: usize = 64 * 1024;

#[derive(Deserialize)]
struct Opened {
    at: Vec<SocketAddr>,
}

#[derive(Deserialize)]
struct Told {
    bytes: u64,
}

/// A giving node, until it is dropped.
struct Giving {
    at: Vec<SocketAddr>,
    _standing: Standing,
}

impl Push<'_> {
    /// One round: every node named fetches what it lacks from its giver, proves it and puts it in its place.
    pub(super) async fn round(
        &self,
        ops: &Ops<'_>,
        hops: &[Hop],
        ready: &BTreeMap<NodeName, Ready>,
    ) -> Vec<(NodeName, Result<Pushed, Trouble>)> {
        let authority = u32::try_from(ops.nodes.len()).map_err(|e| e.to_string());
        let identities = match authority.and_then(|n| issue(n + 1, Timestamp::now())) {
            Ok((identities, _)) => identities,
            Err(why) => return hops.iter().map(|h| (h.to.clone(), Err(Trouble::Other(why.clone())))).collect(),
        };
        let givers: BTreeMap<&NodeName, Vec<&Hop>> = hops.iter().fold(BTreeMap::new(), |mut all, hop| {
            all.entry(&hop.from).or_insert_with(Vec::new).push(hop);
            all
        });
        let served = givers.into_iter().map(|(from, hops)| {
            let identities = &identities;
            async move {
                let folder = ready.get(from).map(|r| r.folder.clone());
                let giving = match (ops.node(from), folder, identities.first()) {
                    (Some(giver), Some(folder), Some(own)) => self.give(giver, folder, own, &hops).await,
                    _ => Err(Trouble::Other("it was not reached".to_owned())),
                };
                let giving = giving.map_err(|why| match why {
                    Trouble::Broke(why) => Trouble::Broke(format!("{from} does not give it: {why}")),
                    Trouble::Other(why) => Trouble::Other(format!("{from} does not give it: {why}")),
                });
                let taking = hops.iter().zip(identities.iter().skip(1)).map(|(hop, identity)| {
                    let giving = &giving;
                    async move {
                        let taken = match (giving, ops.node(&hop.to), ready.get(&hop.to)) {
                            (Ok(giving), Some(taker), Some(mine)) => {
                                self.take(taker, mine, hop, &giving.at, identity).await
                            }
                            (Err(why), ..) => Err(why.clone()),
                            _ => Err(Trouble::Other("it was not reached".to_owned())),
                        };
                        (hop.to.clone(), taken)
                    }
                });
                futures::future::join_all(taking).await
            }
        });
        futures::future::join_all(served).await.into_iter().flatten().collect()
    }

    async fn give(&self, node: &RuntimeNode, folder: String, own: &Identity, hops: &[&Hop]) -> Result<Giving, Trouble> {
        let mut listen: Vec<_> = hops.iter().map(|h| h.at).collect();
        listen.sort_unstable();
        listen.dedup();
        let offer = Offer { identity: own.clone(), listen, folder: folder.into(), list: self.list.clone() };
        let (values, stdin) = (Vec::new(), Stdin::Lifeline(line(&offer)?));
        let start = Start { step: "offer-model", release: None, values, stdin, limit: OPEN_LIMIT };
        let (standing, line) = standing::start(node, start).await.map_err(|e| match e {
            NoLine::Ended(output) => Trouble::Other(output.describe()),
            NoLine::Failed(e) => e.into(),
            NoLine::Silent => Trouble::Other(format!("it opened no port within {} s", OPEN_LIMIT.as_secs())),
        })?;
        let opened: Opened = serde_json::from_str(&line)
            .map_err(|_| Trouble::Other(format!("it says something else: {}", printable(&line))))?;
        Ok(Giving { at: opened.at, _standing: standing })
    }

    async fn take(
        &self,
        node: &RuntimeNode,
        mine: &Ready,
        hop: &Hop,
        at: &[SocketAddr],
        identity: &Identity,
    ) -> Result<Pushed, Trouble> {
        let from = at.iter().find(|a| a.ip() == hop.at).ok_or_else(|| format!("{} has no port there", hop.from))?;
        let list = self.list.only(&mine.missing);
        let wanted = Fetch { identity: identity.clone(), from: *from, folder: (&mine.folder).into(), list };
        let what = || COPYING.to_owned();
        let name = node.name.clone();
        self.events.emit(Event::TaskStarted { node: Some(name.clone()), what: what() });
        let (events, total, progress_of) = (std::sync::Arc::clone(&self.events), mine.bytes, name.clone());
        let begun = Mutex::new(Vec::new());
        let tell = move |chunk: &[u8]| {
            let Ok(mut begun) = begun.lock() else { return };
            begun.extend_from_slice(chunk);
            // Nothing of ours has lines so long.
            if begun.len() > MAX_LINE {
                begun.clear();
            }
            while let Some(end) = begun.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = begun.drain(..=end).collect();
                if let Ok(Told { bytes }) = serde_json::from_slice(&line) {
                    let (node, done) = (Some(progress_of.clone()), bytes.min(total));
                    events.emit(Event::Progress { node, what: COPYING.to_owned(), done, total });
                }
            }
        };
        let call = node.step("fetch-model").stdin(Stdin::Lifeline(line(&wanted)?)).on_output(Box::new(tell));
        let taken = match call.ok().await.map_err(Trouble::from) {
            Ok(_) => self.adopt(node, mine).await,
            Err(why) => Err(why),
        };
        self.events.emit(Event::TaskDone {
            node: Some(name),
            what: what(),
            error: taken.as_ref().err().map(ToString::to_string),
        });
        taken.map(|()| Pushed { files: mine.missing.len(), bytes: mine.bytes, from: Some(hop.from.clone()) })
    }
}

fn line(what: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut line = serde_json::to_vec(what).map_err(|e| e.to_string())?;
    line.push(b'\n');
    Ok(line)
}
