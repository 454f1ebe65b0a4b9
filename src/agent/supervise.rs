//! The agent's loop. Every agent owns its node's engine and does what the order says; rank 0's also gives the orders.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use super::config::{self, AgentFile, RankFile};
use super::layout::Layout;
use super::local::{Local, Next};
use super::lock::{self, Lock};
use super::role::Role;
use super::status::State;
use super::wire::{Order, Want};

/// The clock is looked at this often.
const TICK: Duration = Duration::from_millis(100);
/// Another agent of this node may still be stopping its engine.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// For an engine whose agent was killed: it ends by itself when it loses its agent, within 10 s and some.
const ORPHAN_LIMIT: Duration = Duration::from_secs(20);

/// Runs until SIGTERM or SIGINT; then the engine is gone too.
///
/// # Errors
/// When it cannot even report: another agent runs, or its folders cannot be written.
pub async fn run(layout: &Layout) -> Result<(), String> {
    // Before anything else, so that no signal is missed.
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| format!("cannot listen to signals: {e}"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| format!("cannot listen to signals: {e}"))?;
    let _lock = Lock::acquire(&layout.lock_file(), LOCK_LIMIT).await?;
    super::log::bound(&layout.agent_log());
    let mut local = Local::new(layout);
    if let Some(note) = lock::clear_orphan(layout, ORPHAN_LIMIT).await? {
        local.note(&note);
        local.debit();
    }
    let mut agent = Agent::new(layout, local);
    agent
        .local
        .status
        .write(&layout.status_file())
        .map_err(|e| format!("cannot write {}: {e}", layout.status_file()))?;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => agent.end("SIGTERM"),
            _ = interrupt.recv() => agent.end("SIGINT"),
            // Before the engine's lines: a flood of them must not hold up deadlines.
            _ = tick.tick() => agent.tick().await,
            next = agent.local.next() => match next {
                Next::Line(stream, line) => agent.local.line(stream, &line),
                Next::Ended(how) => agent.local.ended(how).await,
            },
        }
        if agent.ends && !agent.local.runs() {
            agent.local.save();
            return Ok(());
        }
    }
}

struct Agent<'a> {
    local: Local<'a>,
    /// None when the configuration cannot be used; the status says why.
    set: Option<Set>,
    /// Told to stop for good.
    ends: bool,
}

/// What a usable configuration makes of an agent.
struct Set {
    rank: RankFile,
    agent: AgentFile,
    role: Role,
}

impl<'a> Agent<'a> {
    fn new(layout: &'a Layout, mut local: Local<'a>) -> Self {
        let configured = (|| {
            let rank: RankFile = config::read(&layout.rank_file())?;
            let agent: AgentFile = config::read(&layout.agent_file())?;
            local.status.configure(&rank, &agent.launch);
            local.status.certificates_until = Some(agent.certificates_until);
            let role = Role::new(layout, &rank, &agent, &local.ledger)?;
            Ok(Set { rank, agent, role })
        })();
        let set = match configured {
            Ok(set) => Some(set),
            Err(why) => {
                let why: String = why;
                local.fail("agent", &why);
                None
            }
        };
        Agent { local, set, ends: false }
    }

    async fn tick(&mut self) {
        self.local.tick();
        let Some(set) = &mut self.set else { return };
        let now = Instant::now();
        let report = self.local.report();
        for note in set.role.exchange(&report, now, Timestamp::now()) {
            self.local.note(&note);
        }
        if let Some((attempts, epoch)) = set.role.counts() {
            self.local.ledger.keep(attempts, epoch);
        }
        let order = set.role.order(now);
        if self.local.status.group != order.as_ref().map(|o| o.group.clone()) {
            self.local.status.group = order.as_ref().map(|o| o.group.clone());
            self.local.save();
        }
        if self.ends {
            return;
        }
        match order {
            Some(order) => self.obey(&order).await,
            None => self.local.stop("rank 0's agent is not heard"),
        }
        if let Some(set) = &mut self.set
            && let Some(why) = set.role.prove(&self.local.status, now)
        {
            self.local.accuse("no-token", &why);
        }
    }

    /// Brings this node's engine to what is wanted, one step at a time.
    async fn obey(&mut self, order: &Order) {
        let Some(set) = &self.set else { return };
        let current = self.local.status.epoch == order.epoch;
        match order.want {
            Want::Stop => self.local.stop(order.group.why.as_deref().unwrap_or("all ranks stop")),
            Want::Prepare | Want::Go if self.local.runs() && !current => self.local.stop("a new start of all ranks"),
            Want::Prepare if !self.local.runs() && !current => {
                self.local.start(&set.rank, &set.agent, order.epoch);
            }
            Want::Go if current && self.local.status.state == State::Armed => self.local.go().await,
            Want::Prepare | Want::Go => {}
        }
    }

    fn end(&mut self, why: &str) {
        self.ends = true;
        self.local.end(why);
    }
}
