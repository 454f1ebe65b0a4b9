//! What an agent is to the others: rank 0's hears all and gives orders, the others report and are told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use super::config::{AgentFile, RankFile};
use super::layout::Layout;
use super::lead::Lead;
use super::ledger::Ledger;
use super::peers::{self, Heard, Told};
use super::proof::Proof;
use super::status::{State, Status};
use super::tls;
use super::wire::{Hello, LOST, Order, PROTOCOL, Report};

/// Lines between two looks.
const ROOM: usize = 256;
/// The same trouble is told again after so long.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Either side.
pub struct Role {
    side: Side,
    told: Vec<(String, Instant)>,
}

enum Side {
    Leader(Box<Leader>),
    Follower(Follower),
}

struct Leader {
    lead: Lead,
    orders: watch::Sender<Order>,
    heard: mpsc::Receiver<Heard>,
    /// By rank: the connection that counts, the newest.
    connections: Vec<u64>,
    release: String,
    launch: String,
    proof: Proof,
}

struct Follower {
    reports: watch::Sender<Report>,
    told: mpsc::Receiver<Told>,
    order: Option<(Order, Instant)>,
}

impl Role {
    /// Begins to listen or to connect.
    ///
    /// # Errors
    /// In words; what of the configuration cannot be used.
    pub fn new(layout: &Layout, rank: &RankFile, agent: &AgentFile, ledger: &Ledger) -> Result<Self, String> {
        let ranks = agent.agents.len();
        if ranks != rank.world_size as usize || rank.rank >= rank.world_size {
            return Err(format!("{} names {ranks} agents for {} ranks", layout.agent_file(), rank.world_size));
        }
        let leader = agent.agents.first().ok_or_else(|| format!("{} names no agents", layout.agent_file()))?;
        let side = if rank.rank == 0 {
            let limit = Duration::try_from_secs_f64(rank.start_timeout_s)
                .map_err(|e| format!("{}: start_timeout_s: {e}", layout.rank_file()))?;
            let lead = Lead::new(&agent.agents, rank.mlx_backend != "ring", limit, ledger.epoch(), ledger.attempts());
            let (orders, receiver) = watch::channel(lead.order(Instant::now()));
            let (sender, heard) = mpsc::channel(ROOM);
            if rank.world_size > 1 {
                let acceptor = tls::acceptor(&tls::read(layout)?)?;
                tokio::spawn(peers::listen(leader.address, acceptor, rank.world_size, receiver, sender));
            }
            let api = rank.api.as_ref().and_then(|a| Some(SocketAddr::new(a.host.parse().ok()?, a.port)));
            Side::Leader(Box::new(Leader {
                lead,
                orders,
                heard,
                connections: vec![0; ranks],
                release: rank.release.clone(),
                launch: agent.launch.clone(),
                proof: Proof::new(api, Instant::now()),
            }))
        } else {
            let connector = tls::connector(&tls::read(layout)?)?;
            let (reports, receiver) = watch::channel(Report::idle());
            let (sender, told) = mpsc::channel(ROOM);
            let hello = Hello {
                protocol: PROTOCOL,
                node: rank.node.clone(),
                rank: rank.rank,
                release: rank.release.clone(),
                launch: agent.launch.clone(),
            };
            tokio::spawn(peers::follow(leader.address, connector, hello, receiver, sender));
            Side::Follower(Follower { reports, told, order: None })
        };
        Ok(Role { side, told: Vec::new() })
    }

    /// Says this node's state and hears the others; gives what belongs into the log.
    pub fn exchange(&mut self, own: &Report, now: Instant, wall: Timestamp) -> Vec<String> {
        let notes = match &mut self.side {
            Side::Leader(leader) => leader.exchange(own, now, wall),
            Side::Follower(follower) => follower.exchange(own, now),
        };
        self.told.retain(|(_, at)| now.saturating_duration_since(*at) < TELL_AGAIN);
        let mut news = Vec::new();
        for note in notes {
            if !self.told.iter().any(|(text, _)| *text == note) {
                self.told.push((note.clone(), now));
                news.push(note);
            }
        }
        news
    }

    /// What is wanted now; none when nobody has said so lately.
    pub fn order(&self, now: Instant) -> Option<Order> {
        match &self.side {
            Side::Leader(leader) => Some(leader.lead.order(now)),
            Side::Follower(follower) => {
                let (order, at) = follower.order.as_ref()?;
                (now.saturating_duration_since(*at) <= LOST).then(|| order.clone())
            }
        }
    }

    /// The leader's counts that must outlive it.
    pub fn counts(&self) -> Option<(u32, u64)> {
        match &self.side {
            Side::Leader(leader) => Some(leader.lead.counts()),
            Side::Follower(_) => None,
        }
    }

    /// Rank 0 only: asks for a token when nobody did for a while; says when none comes.
    pub fn prove(&mut self, status: &Status, now: Instant) -> Option<String> {
        match &mut self.side {
            Side::Leader(leader) => {
                let serving = leader.lead.serving() && status.state == State::Ready;
                leader.proof.step(serving, status.last_token_at, now)
            }
            Side::Follower(_) => None,
        }
    }
}

impl Leader {
    fn exchange(&mut self, own: &Report, now: Instant, wall: Timestamp) -> Vec<String> {
        let mut notes = Vec::new();
        while let Ok(heard) = self.heard.try_recv() {
            match heard {
                Heard::Note(text) => notes.push(text),
                Heard::Hello(connection, hello) => {
                    let rank = hello.rank as usize;
                    if let Some(mine) = self.connections.get_mut(rank) {
                        *mine = connection;
                    }
                    if (&hello.release, &hello.launch) != (&self.release, &self.launch) || hello.protocol != PROTOCOL {
                        let why = format!("runs release {} of another launch", hello.release);
                        notes.push(format!("{} {why}", hello.node));
                        self.lead.stranger(rank, why);
                        if let Some(mine) = self.connections.get_mut(rank) {
                            *mine = 0;
                        }
                    }
                }
                Heard::Report(connection, rank, report) => {
                    let rank = rank as usize;
                    if self.connections.get(rank) == Some(&connection) {
                        self.lead.heard(rank, report, now);
                    }
                }
            }
        }
        self.lead.heard(0, own.clone(), now);
        let before = self.lead.order(now);
        self.lead.tick(now, wall);
        let order = self.lead.order(now);
        if before.group.phase != order.group.phase {
            let why = order.group.why.as_ref().map(|w| format!(": {w}")).unwrap_or_default();
            notes.push(format!("epoch {}: {}{why}", order.epoch, order.group.phase.as_str()));
        }
        // Only what is new: the connections repeat it by themselves.
        self.orders.send_if_modified(|known| {
            let new = *known != order;
            *known = order;
            new
        });
        notes
    }
}

impl Follower {
    fn exchange(&mut self, own: &Report, now: Instant) -> Vec<String> {
        let mut notes = Vec::new();
        while let Ok(told) = self.told.try_recv() {
            match told {
                Told::Note(text) => notes.push(text),
                Told::Order(order) => self.order = Some((order, now)),
            }
        }
        self.reports.send_if_modified(|known| {
            let new = known != own;
            known.clone_from(own);
            new
        });
        notes
    }
}
