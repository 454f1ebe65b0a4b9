//! A group of ranks that measure what joins them: `macluster_inference.bench` on its nodes, all at once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::lead::DEBITS;
use crate::model::command::printable;
use crate::model::{NodeName, Output, Stdin};
use crate::phase::runtime::RuntimeNode;

/// For the other ranks to say why they ended, once one has failed.
const GRACE: Duration = Duration::from_secs(10);
/// For ranks that were told to stop: those that do not are killed on their nodes after 10 s, and then counted.
const END_LIMIT: Duration = Duration::from_secs(60);
/// It was killed, and the node's count of that does not know.
const UNCOUNTED: &str = "uncounted";
/// Kinds that say only that another rank is gone.
const CONSEQUENCES: [&str; 3] = ["peer-lost", "join-failed", "timeout"];

/// How a group communicates.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// TCP: a row of `ip:port` for each rank.
    Ring(Value),
    /// RDMA: the matrix of devices, rank 0's coordinator, and whether the devices form a ring.
    Jaccl {
        /// Rank × rank.
        devices: Value,
        /// `ip:port`.
        coordinator: String,
        /// A ring, not a mesh.
        ring: bool,
    },
}

/// What a group does.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Bytes of the sums.
    pub sizes: &'static [u64],
    /// Of each size.
    pub repetitions: u32,
    /// Of the smallest sum; 0 leaves it out.
    pub latency_repetitions: u32,
    /// For all of it, seconds.
    pub limit_s: u32,
}

/// Times of one kind of sum.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Times {
    /// Bytes of each rank's vector; none for the smallest sum.
    pub bytes: Option<u64>,
    /// Median, seconds.
    pub median_s: f64,
    /// Worst, seconds.
    pub worst_s: f64,
}

/// What a group found: of each figure that of its slowest rank.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measured {
    /// The smallest sum.
    pub latency: Option<Times>,
    /// By size, in the order asked for.
    pub sums: Vec<Times>,
}

/// Why a rank has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    kind: String,
    message: String,
}

/// How one rank ended.
#[derive(Clone, Debug, Deserialize)]
struct Said {
    ok: bool,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    message: String,
    /// It did not stop when it was told to.
    #[serde(default)]
    killed: bool,
}

/// What measuring has cost: by node, ends since its last restart that lose RDMA resources.
#[derive(Debug, Default)]
pub struct Costs(Mutex<BTreeMap<NodeName, u32>>);

impl Costs {
    pub(super) fn note(&self, node: &NodeName, count: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.clone(), count);
    }

    /// One more such end, and nothing would start there before a restart.
    fn at_limit(&self, node: &NodeName) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied();
        known.is_some_and(|count| count + 1 >= DEBITS)
    }
}

/// What `node count-killed` says.
#[derive(Deserialize)]
struct Counted {
    debits: u32,
}

/// Lets these nodes, in the order of ranks, measure.
///
/// # Errors
/// The nodes that failed by themselves, with why; those that only lost another one are left out.
pub async fn group(
    members: &[&RuntimeNode],
    release: &str,
    how: &How,
    work: Work,
    costs: &Costs,
) -> Result<Measured, Vec<(NodeName, String)>> {
    let spent: Vec<_> = members.iter().filter(|m| costs.at_limit(&m.name)).collect();
    if !spent.is_empty() && matches!(how, How::Jaccl { .. }) {
        let why = "not measured: processes had to be killed here, and one more would keep the service from starting \
                   before the node is restarted";
        return Err(spent.into_iter().map(|m| (m.name.clone(), why.to_owned())).collect());
    }
    let stop = CancellationToken::new();
    let ranks = members.iter().enumerate().map(|(rank, node)| {
        let (config, stop) = (config(rank, members.len(), how, work), stop.clone());
        let rdma = matches!(how, How::Jaccl { .. });
        let costs = rdma.then_some(costs);
        async move { (node.name.clone(), one(node, release, &config, stop, costs).await) }
    });
    let mut running: FuturesUnordered<_> = ranks.collect();
    let (mut good, mut bad, mut until) = (Vec::new(), Vec::new(), None::<Instant>);
    let mut left: Vec<NodeName> = members.iter().map(|m| m.name.clone()).collect();
    loop {
        let grace = tokio::time::sleep_until(until.unwrap_or_else(Instant::now));
        tokio::select! {
            ended = running.next() => {
                let Some((name, result)) = ended else { break };
                left.retain(|n| *n != name);
                match result {
                    Ok(measured) => good.push(measured),
                    // Told to stop, it says no more than that.
                    Err(trouble) if stop.is_cancelled() && trouble.kind != UNCOUNTED => {}
                    Err(trouble) => {
                        until.get_or_insert_with(|| Instant::now() + GRACE);
                        bad.push((name, trouble));
                    }
                }
            }
            // What still measures would be in the way of the next group: it is told to stop, and waited for.
            () = grace, if until.is_some() => {
                if stop.is_cancelled() {
                    bad.extend(left.drain(..).map(stuck));
                    break;
                }
                stop.cancel();
                until = Some(Instant::now() + END_LIMIT);
            }
        }
    }
    if bad.is_empty() { slowest(&good).ok_or_else(Vec::new) } else { Err(causes(bad)) }
}

fn stuck(node: NodeName) -> (NodeName, Trouble) {
    let message = format!("its measuring process does not end within {} s", END_LIMIT.as_secs());
    (node, Trouble { kind: "stuck".to_owned(), message })
}

fn causes(bad: Vec<(NodeName, Trouble)>) -> Vec<(NodeName, String)> {
    let own = |t: &Trouble| !CONSEQUENCES.contains(&t.kind.as_str());
    let only_own = bad.iter().any(|(_, t)| own(t));
    let told = bad.into_iter().filter(|(_, t)| !only_own || own(t));
    told.map(|(name, t)| (name, t.message)).collect()
}

fn slowest(all: &[Measured]) -> Option<Measured> {
    let worse = |a: Times, b: Times| Times {
        bytes: a.bytes,
        median_s: a.median_s.max(b.median_s),
        worst_s: a.worst_s.max(b.worst_s),
    };
    all.iter().cloned().reduce(|a, b| Measured {
        latency: a.latency.zip(b.latency).map(|(a, b)| worse(a, b)),
        sums: a.sums.into_iter().zip(b.sums).map(|(a, b)| worse(a, b)).collect(),
    })
}

fn config(rank: usize, size: usize, how: &How, work: Work) -> Value {
    let (backend, hostfile, devices, coordinator, ring) = match how {
        How::Ring(hostfile) => ("ring", hostfile.clone(), Value::Null, Value::Null, false),
        How::Jaccl { devices, coordinator, ring } => ("jaccl", Value::Null, devices.clone(), json!(coordinator), *ring),
    };
    json!({
        "schema_version": 1, "rank": rank, "size": size, "backend": backend, "hostfile": hostfile,
        "devices": devices, "coordinator": coordinator, "ring": ring, "sizes": work.sizes,
        "repetitions": work.repetitions, "latency_repetitions": work.latency_repetitions, "limit_s": work.limit_s,
    })
}

async fn one(
    node: &RuntimeNode,
    release: &str,
    config: &Value,
    stop: CancellationToken,
    costs: Option<&Costs>,
) -> Result<Measured, Trouble> {
    let unknown = |message: String| Trouble { kind: "unknown".to_owned(), message };
    let line = format!("{config}\n").into_bytes();
    let call = node.step("measure").release(release).stdin(Stdin::Until(line, stop));
    let output = call.answer().await.map_err(|e| unknown(e.to_string()))?;
    let text = output.text();
    let last = text.lines().last().unwrap_or_default();
    let Ok(said) = serde_json::from_str::<Said>(last) else {
        let old = output.err_text().contains("No module named");
        let why = if old { "this release cannot measure: deploy it with this macluster" } else { "it said nothing" };
        return Err(unknown(format!("{why} ({})", output.describe())));
    };
    let mut message = printable(&said.message);
    if said.killed {
        message.push_str("; it did not stop when it was told to, and was killed");
    }
    // What RDMA has lost so is counted as for an engine.
    if said.killed
        && let Some(costs) = costs
    {
        let counted = node.step("count-killed").ok().await.map_err(|e| e.words());
        let parsed = |o: Output| serde_json::from_slice::<Counted>(&o.stdout).map_err(|e| e.to_string());
        match counted.and_then(parsed) {
            Ok(Counted { debits }) => costs.note(&node.name, debits),
            Err(why) => {
                let _ = write!(message, "; that could not be counted: {why}");
                return Err(Trouble { kind: UNCOUNTED.to_owned(), message });
            }
        }
    }
    if said.ok {
        return serde_json::from_str(last).map_err(|e| unknown(format!("its figures cannot be read: {e}")));
    }
    Err(Trouble { kind: printable(&said.kind), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_stops_one_end_before_it_would_cost_the_service() {
        let (costs, node) = (Costs::default(), "n1".parse().expect("a name"));
        assert!(!costs.at_limit(&node));
        for count in 1..DEBITS {
            costs.note(&node, count);
            assert_eq!(costs.at_limit(&node), count == DEBITS - 1, "{count}");
        }
        assert!(!costs.at_limit(&"n2".parse().expect("a name")));
    }

    #[test]
    fn the_rank_that_failed_by_itself_is_told_and_not_those_that_lost_it() {
        let trouble = |kind: &str| Trouble { kind: kind.to_owned(), message: format!("{kind}!") };
        let name = |n: &str| n.parse::<NodeName>().expect("a name");
        let bad = vec![(name("a"), trouble("peer-lost")), (name("b"), trouble("internal"))];
        assert_eq!(causes(bad), [(name("b"), "internal!".to_owned())]);
        let bad = vec![(name("a"), trouble("timeout")), (name("b"), trouble("peer-lost"))];
        assert_eq!(causes(bad).len(), 2, "nobody knows better");
    }

    #[test]
    fn a_group_is_as_slow_as_its_slowest_rank() {
        let times = |median_s, worst_s| Times { bytes: Some(4), median_s, worst_s };
        let rank = |t| Measured { latency: None, sums: vec![t] };
        let both = slowest(&[rank(times(1.0, 5.0)), rank(times(2.0, 3.0))]).expect("figures");
        assert_eq!(both.sums, [times(2.0, 5.0)]);
        assert_eq!(slowest(&[]), None);
    }
}
