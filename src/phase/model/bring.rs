//! The whole way of a model to all nodes: from the desk to some, from those to the others, and from the desk to whoever
//! could not be served so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::push::{COPYING, Push, Pushed, Ready};
use super::relay::{self, Reach};
use crate::event::Event;
use crate::model::NodeName;
use crate::model::size::size;
use crate::phase::ops::{Ops, Results};

impl Push<'_> {
    /// Brings it to every node that is ready, over these links.
    pub async fn bring(&self, ops: &Ops<'_>, ready: &BTreeMap<NodeName, Ready>, reach: &Reach) -> Results<Pushed> {
        let lacking = ready.iter().map(|(node, r)| (node.clone(), r.bytes)).collect();
        let relay = relay::plan(&lacking, reach);
        let fetching: BTreeSet<&NodeName> = relay.rounds.iter().flatten().map(|h| &h.to).collect();
        let first = ready.iter().filter(|(n, _)| !fetching.contains(n)).map(|(n, r)| (n.clone(), r.clone())).collect();
        let mut done: BTreeMap<NodeName, Result<Pushed, String>> =
            self.send_all(ops, first).await.into_iter().collect();

        let mut unserved = Vec::new();
        for (number, round) in (1..).zip(&relay.rounds) {
            let ids: Vec<String> = round.iter().map(|h| format!("{} to {}", h.from, h.to)).collect();
            let title = format!("Over the links, round {number} of {}: {}", relay.rounds.len(), ids.join(", "));
            self.events.emit(Event::PhaseStarted { id: "model", title });
            let has = |n: &NodeName| done.get(n).is_some_and(Result::is_ok);
            let (can, cannot): (Vec<_>, Vec<_>) = round.iter().cloned().partition(|h| has(&h.from));
            unserved.extend(cannot.into_iter().map(|h| h.to));
            for (node, result) in self.round(ops, &can, ready).await {
                match result {
                    Ok(pushed) => drop(done.insert(node, Ok(pushed))),
                    Err(why) => {
                        let text = format!("not over the links ({why}): it gets the model from here");
                        self.events.emit(Event::Warning { node: Some(node.clone()), text });
                        unserved.push(node);
                    }
                }
            }
        }
        done.extend(self.again(ops, &unserved).await);
        // In the order of the rack.
        ops.nodes.iter().filter_map(|n| done.remove_entry(&n.name)).collect()
    }

    /// From the desk after all: what has arrived meanwhile is not sent again.
    async fn again(&self, ops: &Ops<'_>, nodes: &[NodeName]) -> Results<Pushed> {
        let looked = ops.nodes.iter().filter(|n| nodes.contains(&n.name));
        let looked = looked.map(|n| async move { (n.name.clone(), self.prepare(n).await) });
        let (mut ready, mut bad) = (BTreeMap::new(), Vec::new());
        for (node, result) in futures::future::join_all(looked).await {
            match result {
                Ok(one) => drop(ready.insert(node, one)),
                Err(why) => bad.push((node, Err(why))),
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
