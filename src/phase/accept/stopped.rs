//! What needs the service stopped, and bringing it back.

use std::time::Instant;

use serde_json::Value;

use super::Acceptance;
use super::links::{self, Crosses, Pair, RankConfig};
use super::measure::{self, How, Measured, Work};
use super::report::{AllReduce, LinkFigure, OUTLIERS, RESTART, Start};
use crate::agent::config::RankFile;
use crate::event::Event;
use crate::mesh::rounds::rounds;
use crate::model::NodeName;
use crate::phase::ops::Results;
use crate::phase::runtime::RuntimeNode;

const MIB: u64 = 1024 * 1024;
/// Bandwidth is that of the last size.
const LINK: Work = Work { sizes: &[MIB, 16 * MIB], repetitions: 10, latency_repetitions: 200, limit_s: 120 };
/// From what a token needs to what a long prompt needs.
const GROUP: Work =
    Work { sizes: &[16 * 1024, 256 * 1024, 4 * MIB, 16 * MIB], repetitions: 10, latency_repetitions: 0, limit_s: 240 };

/// Reads what a rank was told. Its files are the engine's alone.
pub(super) async fn read_config(node: &RuntimeNode) -> Result<RankConfig, String> {
    let read = |file: &'static str| async move {
        let output = node.step("read-configuration").with("file", file).ok().await.map_err(|e| e.to_string())?;
        Ok::<_, String>(output.stdout)
    };
    let file: RankFile = serde_json::from_slice(&read("rank.json").await?).map_err(|e| format!("rank.json: {e}"))?;
    let peers = match file.mlx_backend.as_str() {
        _ if file.world_size == 1 => None,
        "jaccl" => Some(read("devices.json").await?),
        _ => Some(read("hostfile.json").await?),
    };
    let peers: Option<Value> = peers
        .map(|bytes| serde_json::from_slice(&bytes).map_err(|e| format!("what it was told of its peers: {e}")))
        .transpose()?;
    Ok(RankConfig { file, peers })
}

/// The nodes where something failed.
fn bad<T>(results: &Results<T>) -> Vec<(NodeName, String)> {
    results.iter().filter_map(|(node, r)| Some((node.clone(), r.as_ref().err()?.clone()))).collect()
}

impl Acceptance<'_> {
    fn labelled(&self, causes: &[(NodeName, String)]) -> Vec<String> {
        causes.iter().map(|(node, why)| format!("{}: {why}", self.inventory.label(node))).collect()
    }

    /// Stops the service on all nodes; says whether nothing runs any more.
    pub async fn stop(&mut self) -> bool {
        let began = self.begin("stop", "Stop the service");
        let causes = bad(&self.ops.stop().await);
        self.stop_s = began.elapsed().as_secs_f64();
        let stopped = causes.is_empty();
        let ended = if stopped {
            Ok(format!("nothing runs any more after {:.1} s", self.stop_s))
        } else {
            Err((self.labelled(&causes), "`macluster stop` tells more".to_owned()))
        };
        self.end("stop", began, ended);
        stopped
    }

    /// Everything that is measured between stop and start.
    pub async fn while_stopped(&mut self) {
        self.links().await;
        self.all_reduce().await;
    }

    async fn links(&mut self) {
        let began = self.begin("links", "Measure every link");
        let found = links::pairs(self.crosses, self.inventory, self.snapshot, &self.graph, &self.configs);
        if found.pairs.is_empty() && (self.crosses == Crosses::Nothing || found.unmeasurable.is_empty()) {
            let why = "there is one rank, and no cable with a link network".to_owned();
            self.skip("links", began, why.clone());
            self.skip(OUTLIERS, began, why);
            return;
        }
        let mut causes = found.unmeasurable;
        let number = |node: &NodeName| self.inventory.nodes.iter().position(|n| n.name == *node).unwrap_or_default();
        let ends: Vec<_> = found.pairs.iter().map(|p| (number(&p.a.node), number(&p.b.node))).collect();
        let plan = rounds(&ends);
        for (round, members) in (1..).zip(&plan) {
            let pairs: Vec<&Pair> = members.iter().filter_map(|i| found.pairs.get(*i)).collect();
            let what = format!("round {round} of {}: {} links at once", plan.len(), pairs.len());
            self.events.emit(Event::TaskStarted { node: None, what: what.clone() });
            let all = futures::future::join_all(pairs.iter().map(|p| self.pair(p))).await;
            self.events.emit(Event::TaskDone { node: None, what, error: None });
            for (pair, result) in pairs.into_iter().zip(all) {
                match result.and_then(|m| figure(pair, round, &m).ok_or_else(|| vec!["it gave no figures".to_owned()]))
                {
                    Ok(figure) => self.figures.links.push(figure),
                    Err(why) => causes.push(format!("{} – {}: {}", pair.a.place, pair.b.place, why.join("; "))),
                }
            }
        }
        let (count, of) = (self.figures.links.len(), plan.len());
        let ended = if causes.is_empty() {
            let all = || self.figures.links.iter().map(|l| l.gbps);
            let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
            Ok(format!("{count} links in {of} rounds, {low:.1} to {high:.1} Gb/s"))
        } else {
            Err((causes, "`macluster doctor` says what is wrong with a cable; reseat it or try another one".to_owned()))
        };
        self.end("links", began, ended);
        self.outliers();
    }

    fn outliers(&mut self) {
        let began = Instant::now();
        links::judge(&mut self.figures.links);
        let all = &self.figures.links;
        let out: Vec<String> =
            all.iter().filter_map(|l| Some(format!("{}: {}", l.name(), l.outlier.as_ref()?))).collect();
        let ended = match (out.is_empty(), all.len()) {
            (true, 0..=2) => {
                let why = format!("{} measured links have no median to stand out from", all.len());
                self.skip(OUTLIERS, began, why);
                return;
            }
            (true, count) => Ok(format!("none of {count} links stands out")),
            (false, _) => {
                let hint = match self.crosses {
                    Crosses::Management => "nothing else may use that network or these nodes meanwhile; measure again",
                    _ => {
                        "exchange this cable for one of a good link and measure again: the fault goes with the cable, \
                         or stays at the receptacle"
                    }
                };
                Err((out, hint.to_owned()))
            }
        };
        self.end(OUTLIERS, began, ended);
    }

    async fn pair(&self, pair: &Pair) -> Result<Measured, Vec<String>> {
        let (Some(a), Some(b)) = (self.ops.node(&pair.a.node), self.ops.node(&pair.b.node)) else {
            return Err(vec!["one of its nodes was not reached".to_owned()]);
        };
        measure::group(&[a, b], self.release(), &pair.how, LINK, &self.costs)
            .await
            .map_err(|causes| self.labelled(&causes))
    }

    fn release(&self) -> &str {
        self.statuses.first().map_or("", |(_, s)| s.release.as_str())
    }

    async fn all_reduce(&mut self) {
        let began = self.begin("all-reduce", "Measure sums over the whole group");
        let members: Vec<&RuntimeNode> = self.statuses.iter().filter_map(|(name, _)| self.ops.node(name)).collect();
        let Some((first, peers)) = self.configs.first().and_then(|c| Some((c, c.peers.clone()?))) else {
            self.skip("all-reduce", began, "there is one rank".to_owned());
            return;
        };
        let env = &first.file.env;
        let how = match env.get("MLX_JACCL_COORDINATOR") {
            Some(coordinator) => How::Jaccl {
                devices: peers,
                coordinator: coordinator.clone(),
                ring: env.contains_key("MLX_JACCL_RING"),
            },
            None => How::Ring(peers),
        };
        let size = members.len();
        let ended = match measure::group(&members, self.release(), &how, GROUP, &self.costs).await {
            Ok(measured) => {
                let sums = measured.sums.iter().filter_map(|s| {
                    let bytes = s.bytes?;
                    let (median_s, worst_s) = (s.median_s, s.worst_s);
                    Some(AllReduce { bytes, median_s, worst_s, gbps: gbps(bytes, size, median_s) })
                });
                self.figures.all_reduce = sums.collect();
                let best = self.figures.all_reduce.iter().map(|r| r.gbps).fold(0.0, f64::max);
                Ok(format!("{} sizes over {size} ranks, up to {best:.1} Gb/s", self.figures.all_reduce.len()))
            }
            Err(causes) => {
                Err((self.labelled(&causes), "the links step tells which link is at fault, if one is".to_owned()))
            }
        };
        self.end("all-reduce", began, ended);
    }

    /// Brings the service back, whatever was before. Says whether it answers.
    pub async fn start(&mut self) -> bool {
        let began = self.begin(RESTART, "Start the service again");
        let ended = match self.started().await {
            Ok(start) => {
                self.figures.start = Some(start);
                Ok(format!(
                    "all ranks served after {:.1} s, the first answer ended after {:.1} s",
                    start.ready_s, start.answer_s
                ))
            }
            Err(causes) => Err((causes, "`macluster status` tells more; `macluster start` tries again".to_owned())),
        };
        let back = ended.is_ok();
        self.end(RESTART, began, ended);
        back
    }

    async fn started(&self) -> Result<Start, Vec<String>> {
        // What still measures would keep the ranks' ports. Nodes without a rank have no say in whether the others start.
        let rank = |node: &NodeName| self.statuses.iter().any(|(n, _)| n == node);
        let causes: Vec<_> = bad(&self.ops.stop().await).into_iter().filter(|(node, _)| rank(node)).collect();
        if !causes.is_empty() {
            return Err(self.labelled(&causes));
        }
        let all = |causes: Vec<(NodeName, String)>| {
            if causes.is_empty() { Ok(()) } else { Err(self.labelled(&causes)) }
        };
        all(bad(&self.ops.forgive().await))?;
        let began = Instant::now();
        all(bad(&self.ops.start().await))?;
        all(bad(&self.ops.ready(self.launch().0).await))?;
        let ready_s = began.elapsed().as_secs_f64();
        self.ops.prove().await.map_err(|why| vec![why])?;
        Ok(Start { stop_s: self.stop_s, ready_s, answer_s: began.elapsed().as_secs_f64() })
    }
}

fn figure(pair: &Pair, round: usize, measured: &Measured) -> Option<LinkFigure> {
    let (largest, latency) = (measured.sums.last()?, measured.latency?);
    Some(LinkFigure {
        a: pair.a.clone(),
        b: pair.b.clone(),
        round,
        gbps: gbps(largest.bytes?, 2, largest.median_s),
        latency_us: latency.median_s * 1e6,
        worst_latency_us: latency.worst_s * 1e6,
        outlier: None,
    })
}

/// What a link of a ring carries in each direction while so many ranks add vectors of so many bytes, Gb/s.
fn gbps(bytes: u64, ranks: usize, seconds: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let (bytes, ranks) = (bytes as f64, ranks as f64);
    2.0 * (ranks - 1.0) / ranks * bytes * 8.0 / seconds.max(1e-9) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_what_a_ring_carries() {
        // Two ranks: each sends its vector once, in halves. 1 GB in 0.1 s are 80 Gb/s.
        assert!((gbps(1_000_000_000, 2, 0.1) - 80.0).abs() < 1e-9);
        assert!((gbps(1_000_000_000, 4, 0.1) - 120.0).abs() < 1e-9);
    }
}
