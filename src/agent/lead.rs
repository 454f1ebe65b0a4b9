//! Rank 0's decisions, pure: what every agent reports goes in, one order for all comes out.
//!
//! gathering → starting → serving; when anything ends or falls silent → stopping → pausing → gathering; when the
//! budget of this boot is spent → degraded.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::config::AgentAt;
use super::status::{EngineError, State};
use super::wire::{Group, GroupPhase, LOST, Order, Reboot, Report, Restart, Want};
use crate::model::NodeName;

/// Starts that may fail in a row before a person must look (FAILURES F11: never more than five).
pub const BUDGET: u32 = 5;
/// Engines that did not end by themselves, on one node, that RDMA bears (FAILURES F1).
pub const DEBITS: u32 = 3;
/// A start whose service held so long was no failure: the count begins anew. Short, because what follows each other on
/// a bad day need not have one cause; what RDMA loses is counted apart and is not forgiven before the next boot.
pub const PROVEN: Duration = Duration::from_secs(5);
/// Epochs that may fail within an hour, whatever held in between: a service that falls again and again is no service, and
/// somebody must look.
pub const CROWD: usize = 20;
const HOUR: Duration = Duration::from_secs(3600);
/// The pause before the second start; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// For an order to be taken up.
const ACKNOWLEDGE: Duration = Duration::from_secs(15);
/// From the order to start to all engines armed; the engines' own limit comes first.
const ARM_LIMIT: Duration = Duration::from_secs(660);
/// For all engines to be gone; their agents kill after 15 s.
const STOP_LIMIT: Duration = Duration::from_secs(45);
/// Restarts that are remembered.
const KEEP: usize = 8;

/// One rank, as far as it was heard of.
#[derive(Clone, Debug)]
struct Peer {
    node: NodeName,
    filevault: Option<bool>,
    report: Option<Report>,
    heard: Option<Instant>,
    /// Present, but of another release or launch.
    stranger: Option<String>,
}

/// Where the group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Gathering,
    Preparing,
    Going,
    Serving,
    Stopping,
    Pausing { until: Instant },
    Degraded,
}

/// The leader's mind.
#[derive(Debug)]
pub struct Lead {
    peers: Vec<Peer>,
    /// Engines that are killed cost RDMA resources.
    rdma: bool,
    go_limit: Duration,
    phase: Phase,
    since: Instant,
    since_wall: Timestamp,
    epoch: u64,
    attempts: u32,
    why: Option<String>,
    restarts: VecDeque<Restart>,
    /// When epochs failed, in the last hour.
    failures: VecDeque<Instant>,
    /// What ended the epoch that is being stopped: rank, cause.
    causes: Vec<(usize, EngineError)>,
    reboot: Vec<Reboot>,
}

impl Lead {
    /// `agents` in the order of their ranks; `go_limit` is the engines' limit from go to ready.
    pub fn new(agents: &[AgentAt], rdma: bool, go_limit: Duration, epoch: u64, attempts: u32) -> Self {
        let peer = |agent: &AgentAt| Peer {
            node: agent.node.clone(),
            filevault: agent.filevault,
            report: None,
            heard: None,
            stranger: None,
        };
        Lead {
            peers: agents.iter().map(peer).collect(),
            rdma,
            go_limit,
            phase: Phase::Gathering,
            since: Instant::now(),
            since_wall: Timestamp::now(),
            epoch,
            attempts,
            why: None,
            restarts: VecDeque::new(),
            failures: VecDeque::new(),
            causes: Vec::new(),
            reboot: Vec::new(),
        }
    }

    /// A rank has reported.
    pub fn heard(&mut self, rank: usize, report: Report, now: Instant) {
        if let Some(peer) = self.peers.get_mut(rank) {
            peer.report = Some(report);
            peer.heard = Some(now);
            peer.stranger = None;
        }
    }

    /// A rank is there, but cannot take part.
    pub fn stranger(&mut self, rank: usize, why: String) {
        if let Some(peer) = self.peers.get_mut(rank) {
            peer.stranger = Some(why);
            peer.report = None;
            peer.heard = None;
        }
    }

    /// Starts that failed, and the epoch: what must outlive this process.
    pub fn counts(&self) -> (u32, u64) {
        (self.attempts, self.epoch)
    }

    /// Every engine serves.
    pub fn serving(&self) -> bool {
        self.phase == Phase::Serving
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant, wall: Timestamp) {
        match self.phase {
            Phase::Gathering => self.gather(now, wall),
            Phase::Preparing => {
                if !self.broken(now, wall) && self.all(|r| r.state == State::Armed) {
                    self.enter(Phase::Going, now, wall);
                } else if self.phase == Phase::Preparing && now > self.since + ARM_LIMIT {
                    self.give_up(now, wall, "not every engine was ready to join in time");
                }
            }
            Phase::Going => {
                if !self.broken(now, wall) && self.all(|r| r.state == State::Ready) {
                    self.enter(Phase::Serving, now, wall);
                    self.why = None;
                } else if self.phase == Phase::Going && now > self.since + self.go_limit + ACKNOWLEDGE * 2 {
                    self.give_up(now, wall, "not every engine served in time");
                }
            }
            Phase::Serving => {
                if !self.broken(now, wall) && self.attempts > 0 && now >= self.since + PROVEN {
                    self.attempts = 0;
                }
            }
            Phase::Stopping => self.stopping(now, wall),
            Phase::Pausing { until } if now >= until => self.enter(Phase::Gathering, now, wall),
            Phase::Pausing { .. } | Phase::Degraded => {}
        }
    }

    fn enter(&mut self, phase: Phase, now: Instant, wall: Timestamp) {
        self.phase = phase;
        self.since = now;
        self.since_wall = wall;
    }

    fn all(&self, good: impl Fn(&Report) -> bool) -> bool {
        self.peers.iter().all(|p| p.report.as_ref().is_some_and(|r| r.epoch == self.epoch && good(r)))
    }

    fn lost(peer: &Peer, now: Instant) -> bool {
        peer.report.is_none() || peer.heard.is_none_or(|at| now.saturating_duration_since(at) > LOST)
    }

    fn gather(&mut self, now: Instant, wall: Timestamp) {
        let present = self.peers.iter().all(|p| !Self::lost(p, now));
        let idle = self.peers.iter().all(|p| p.report.as_ref().is_some_and(|r| !r.runs));
        if !present || !idle {
            return;
        }
        if self.spent() {
            self.degrade(now, wall);
            return;
        }
        self.epoch += 1;
        self.causes.clear();
        self.enter(Phase::Preparing, now, wall);
    }

    /// Looks for what ends an epoch.
    fn broken(&mut self, now: Instant, wall: Timestamp) -> bool {
        let late = now > self.since + ACKNOWLEDGE;
        let mut causes = Vec::new();
        for (rank, peer) in self.peers.iter().enumerate() {
            let error = |kind: &str, message: String| (rank, EngineError { kind: kind.to_owned(), message });
            if Self::lost(peer, now) {
                causes.push(error("lost", format!("its agent was not heard for {} s", LOST.as_secs())));
                continue;
            }
            let Some(report) = &peer.report else { continue };
            if report.epoch != self.epoch {
                // An order takes its time, but an engine that was there does not become another.
                if late || self.phase != Phase::Preparing {
                    causes.push(error("agent", "its agent was started again".to_owned()));
                }
            } else if report.state.ended() || report.failure.is_some() {
                let failure = report.failure.clone();
                causes.push((rank, failure.unwrap_or_else(|| EngineError::consequence("its engine ended"))));
            }
        }
        if causes.is_empty() {
            return false;
        }
        self.causes = causes;
        self.enter(Phase::Stopping, now, wall);
        self.why = self.cause().map(|(rank, e)| self.words(*rank, e));
        true
    }

    fn give_up(&mut self, now: Instant, wall: Timestamp, why: &str) {
        let late: Vec<&str> = self.peers.iter().filter(|p| !ready(p, self.epoch)).map(|p| p.node.as_str()).collect();
        let text = format!("{why}: {}", late.join(", "));
        self.causes = vec![(0, EngineError { kind: "timeout".to_owned(), message: text.clone() })];
        self.enter(Phase::Stopping, now, wall);
        self.why = Some(text);
    }

    /// The likeliest cause: what is not known to be a consequence of another rank's end.
    fn cause(&self) -> Option<&(usize, EngineError)> {
        self.causes.iter().find(|(_, e)| !e.is_consequence()).or_else(|| self.causes.first())
    }

    fn words(&self, rank: usize, error: &EngineError) -> String {
        let node = self.peers.get(rank).map_or("?", |p| p.node.as_str());
        format!("{node}: {}", error.message)
    }

    /// Waits until no engine is left, and hears meanwhile what else has failed.
    fn stopping(&mut self, now: Instant, wall: Timestamp) {
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(report) = peer.report.as_ref().filter(|r| r.epoch == self.epoch) else { continue };
            let Some(failure) = &report.failure else { continue };
            match self.causes.iter_mut().find(|(r, _)| *r == rank) {
                Some((_, known)) if known.is_consequence() => known.clone_from(failure),
                Some(_) => {}
                None => self.causes.push((rank, failure.clone())),
            }
        }
        let gone = |p: &Peer| Self::lost(p, now) || p.report.as_ref().is_some_and(|r| !r.runs);
        if !self.peers.iter().all(gone) && now < self.since + STOP_LIMIT {
            return;
        }
        let (node, error) = match self.cause() {
            Some((rank, error)) => (self.peers.get(*rank).map(|p| p.node.clone()), error.clone()),
            None => (None, EngineError::consequence("nobody says why")),
        };
        self.why = Some(match &node {
            Some(node) if error.kind != "timeout" => format!("{node}: {}", error.message),
            _ => error.message.clone(),
        });
        if self.restarts.len() == KEEP {
            self.restarts.pop_front();
        }
        self.restarts.push_back(Restart { at: wall, epoch: self.epoch, node, kind: error.kind, why: error.message });
        self.attempts = self.attempts.saturating_add(1);
        self.failures.retain(|at| now.saturating_duration_since(*at) < HOUR);
        self.failures.push_back(now);
        if self.spent() {
            self.degrade(now, wall);
            return;
        }
        let pause = LONGEST_PAUSE.min(PAUSE * 2u32.saturating_pow(self.attempts.saturating_sub(1).min(10)));
        self.enter(Phase::Pausing { until: now + pause }, now, wall);
    }

    fn in_debt(&self) -> impl Iterator<Item = &Peer> {
        let debts = |p: &&Peer| p.report.as_ref().is_some_and(|r| r.debits >= DEBITS);
        self.peers.iter().filter(move |p| self.rdma && debts(p))
    }

    fn spent(&self) -> bool {
        self.attempts >= BUDGET || self.failures.len() >= CROWD || self.in_debt().next().is_some()
    }

    /// Nothing starts by itself any more, and it is said what helps.
    fn degrade(&mut self, now: Instant, wall: Timestamp) {
        self.enter(Phase::Degraded, now, wall);
        if self.failures.len() >= CROWD {
            let last = self.why.take().unwrap_or_default();
            self.why = Some(format!("it has fallen {CROWD} times within an hour, at last: {last}"));
        }
        // Rank 0 last: until then its agent tells how far it is.
        let debts = |p: &&Peer| self.rdma && p.report.as_ref().is_some_and(|r| r.debits > 0);
        let last_first = self.peers.iter().filter(debts).rev();
        self.reboot = last_first.map(|p| Reboot { node: p.node.clone(), filevault: p.filevault }).collect();
    }

    /// What every agent is told.
    pub fn order(&self, now: Instant) -> Order {
        let (want, phase) = match self.phase {
            Phase::Gathering => (Want::Stop, GroupPhase::Gathering),
            Phase::Preparing => (Want::Prepare, GroupPhase::Starting),
            Phase::Going => (Want::Go, GroupPhase::Starting),
            Phase::Serving => (Want::Go, GroupPhase::Serving),
            Phase::Stopping => (Want::Stop, GroupPhase::Stopping),
            Phase::Pausing { .. } => (Want::Stop, GroupPhase::Pausing),
            Phase::Degraded => (Want::Stop, GroupPhase::Degraded),
        };
        let strangers: Vec<String> =
            self.peers.iter().filter_map(|p| p.stranger.as_ref().map(|why| format!("{} {why}", p.node))).collect();
        let why = if strangers.is_empty() { self.why.clone() } else { Some(strangers.join("; ")) };
        Order {
            epoch: self.epoch,
            want,
            group: Group {
                phase,
                since: self.since_wall,
                why,
                attempts: self.attempts,
                budget: BUDGET,
                missing: self.peers.iter().filter(|p| Self::lost(p, now)).map(|p| p.node.clone()).collect(),
                restarts: self.restarts.iter().cloned().collect(),
                reboot: self.reboot.clone(),
            },
        }
    }
}

fn ready(peer: &Peer, epoch: u64) -> bool {
    peer.report.as_ref().is_some_and(|r| r.epoch == epoch && matches!(r.state, State::Armed | State::Ready))
}

#[cfg(test)]
#[path = "lead_tests.rs"]
mod tests;
