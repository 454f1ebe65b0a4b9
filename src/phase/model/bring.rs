//! The whole way of a model to all nodes: from the desk to some, from those to the others, and from the desk to whoever
//! could not be served so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::push::{ATTEMPTS, COPYING, Push, Pushed, Ready};
use super::relay::{self, Reach};
use super::trouble::Trouble;
use crate::event::Event;
use crate::model::NodeName;
use crate::model::size::size;
use crate::phase::ops::{Ops, Results};

impl Push<'_> {
    /// Brings it to every node that is ready, over these links.
    ///
    /// Every round is planned anew: a node that did not get it gives it to nobody, and a link that failed is not used again,
    /// so there is an end.
    pub async fn bring(&self, ops: &Ops<'_>, ready: &BTreeMap<NodeName, Ready>, reach: &Reach) -> Results<Pushed> {
        let (mut ready, mut reach) = (ready.clone(), reach.clone());
        let mut lacking: BTreeMap<NodeName, u64> = ready.iter().map(|(node, r)| (node.clone(), r.bytes)).collect();
        let first = relay::plan(&lacking, &reach);
        let fetching: BTreeSet<NodeName> = first.rounds.iter().flatten().map(|h| h.to.clone()).collect();
        let seeds = ready.iter().filter(|(n, _)| !fetching.contains(*n)).map(|(n, r)| (n.clone(), r.clone())).collect();
        let mut done: BTreeMap<NodeName, Result<Pushed, String>> = BTreeMap::new();
        for (node, result) in self.send_all(ops, seeds).await {
            settle(&node, result.is_ok(), &mut lacking);
            done.insert(node, result);
        }
        let (mut unserved, mut broken) = (Vec::new(), BTreeMap::new());
        for number in 1.. {
            let relay = relay::plan(&lacking, &reach);
            for node in relay.desk {
                self.warn(&node, "nobody who has the model reaches it over the links: it gets the model from here");
                lacking.remove(&node);
                unserved.push(node);
            }
            // Once more, because those give it to nobody before the end.
            let Some(round) = relay::plan(&lacking, &reach).rounds.into_iter().next() else { break };
            let ids: Vec<String> = round.iter().map(|h| format!("{} to {}", h.from, h.to)).collect();
            let title = format!("Over the links, round {number}: {}", ids.join(", "));
            self.events.emit(Event::PhaseStarted { id: "model", title });
            for (node, result) in self.round(ops, &round, &ready).await {
                let why = match result {
                    Ok(pushed) => {
                        settle(&node, true, &mut lacking);
                        done.insert(node, Ok(pushed));
                        continue;
                    }
                    Err(why) => why,
                };
                let broke = broken.entry(node.clone()).or_insert(0_u32);
                *broke += u32::from(matches!(why, Trouble::Broke(_)));
                if matches!(why, Trouble::Broke(_)) && *broke < ATTEMPTS {
                    // Our connection is not the fault of the link.
                    self.warn(&node, &format!("{why}: it is asked again"));
                } else {
                    self.warn(&node, &format!("not over this link: {why}"));
                    for hop in round.iter().filter(|h| h.to == node) {
                        // Reach goes both ways, and so does what is forgotten of it.
                        reach.entry(node.clone()).or_default().remove(&hop.from);
                        reach.entry(hop.from.clone()).or_default().remove(&node);
                    }
                }
                // What has arrived meanwhile is not fetched again.
                match self.look_again(ops, &node).await {
                    Ok(Some(now)) => {
                        // An empty file has no bytes, and is missing all the same.
                        lacking.insert(node.clone(), now.bytes.max(1));
                        ready.insert(node, now);
                    }
                    Ok(None) => {
                        settle(&node, true, &mut lacking);
                        let from = round.iter().find(|h| h.to == node).map(|h| h.from.clone());
                        let (files, bytes) = ready.get(&node).map_or((0, 0), |r| (r.missing.len(), r.bytes));
                        done.insert(node, Ok(Pushed { files, bytes, from }));
                    }
                    Err(why) => {
                        settle(&node, false, &mut lacking);
                        done.insert(node, Err(why.to_string()));
                    }
                }
            }
        }
        // Whoever is left for whatever reason is left to the desk, not out.
        let left = lacking
            .iter()
            .filter(|(node, bytes)| **bytes > 0 && !unserved.contains(node))
            .map(|(node, _)| node.clone());
        unserved.extend(left.collect::<Vec<_>>());
        done.extend(self.again(ops, &unserved).await);
        // In the order of the rack.
        ops.nodes.iter().filter_map(|n| done.remove_entry(&n.name)).collect()
    }

    fn warn(&self, node: &NodeName, text: &str) {
        self.events.emit(Event::Warning { node: Some(node.clone()), text: text.to_owned() });
    }

    /// What it still lacks; nothing when all has arrived and is in its place.
    async fn look_again(&self, ops: &Ops<'_>, node: &NodeName) -> Result<Option<Ready>, Trouble> {
        let node = ops.node(node).ok_or_else(|| "it was not reached".to_owned())?;
        let now = self.prepare(node).await?;
        if !now.missing.is_empty() {
            return Ok(Some(now));
        }
        self.adopt(node, &now).await.map(|()| None)
    }

    /// From the desk after all: what has arrived meanwhile is not sent again.
    async fn again(&self, ops: &Ops<'_>, nodes: &[NodeName]) -> Results<Pushed> {
        let looked = ops.nodes.iter().filter(|n| nodes.contains(&n.name));
        let looked = looked.map(|n| async move { (n.name.clone(), self.prepare(n).await) });
        let (mut ready, mut bad) = (BTreeMap::new(), Vec::new());
        for (node, result) in futures::future::join_all(looked).await {
            match result {
                Ok(one) => drop(ready.insert(node, one)),
                Err(why) => bad.push((node, Err(why.to_string()))),
            }
        }
        if !ready.is_empty() {
            bad.extend(self.send_all(ops, ready).await);
        }
        bad
    }

    async fn send_all(&self, ops: &Ops<'_>, ready: BTreeMap<NodeName, Ready>) -> Results<Pushed> {
        let total = ready.values().map(|r| r.bytes).sum();
        let title = match ready.values().filter(|r| r.bytes > 0).count() {
            0 => "Nothing to copy from here".to_owned(),
            1 => format!("Copy {} to one node", size(total)),
            n => format!("Copy {} to {n} nodes", size(total)),
        };
        self.events.emit(Event::PhaseStarted { id: "model", title });
        let sent = Arc::new(AtomicU64::new(0));
        self.begin();
        let (ready, sent) = (&ready, &sent);
        let nodes = ops.nodes.iter().filter_map(|n| Some((n, ready.get(&n.name)?)));
        let work = nodes.map(|(node, mine)| async move {
            let (name, what) = (Some(node.name.clone()), COPYING.to_owned());
            self.events.emit(Event::TaskStarted { node: name.clone(), what: what.clone() });
            let result = self.send(node, mine, Arc::clone(sent), total).await;
            self.events.emit(Event::TaskDone { node: name, what, error: result.as_ref().err().cloned() });
            (node.name.clone(), result)
        });
        let results = futures::future::join_all(work).await;
        self.end();
        results
    }
}

/// A node that has it lacks nothing; one that cannot get it neither gives nor takes.
fn settle(node: &NodeName, has: bool, lacking: &mut BTreeMap<NodeName, u64>) {
    if has {
        lacking.insert(node.clone(), 0);
    } else {
        lacking.remove(node);
    }
}
