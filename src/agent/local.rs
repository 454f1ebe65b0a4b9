//! The engine of this node: started, let go, watched and stopped. Restarts nothing; that is the leader's decision.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::beat::Beats;
use super::config::{AgentFile, RankFile};
use super::engine_event::EngineEvent;
use super::layout::Layout;
use super::ledger::Ledger;
use super::log::Log;
use super::process::{Engine, Stream, describe};
use super::status::{EngineError, Failure, State, Status};
use super::wire::Report;
use crate::model::command::printable;

/// The status is written at least this often.
const STATUS_EVERY: Duration = Duration::from_millis(1500);
/// And not more often for what is no news.
const STATUS_PAUSE: Duration = Duration::from_millis(500);
/// From start to armed: imports, and the headers and samples of every weight file.
const ARM_LIMIT: Duration = Duration::from_secs(600);
/// The engine keeps its own limit from go to ready; the agent's is this much later.
const READY_GRACE: Duration = Duration::from_secs(30);
/// From SIGTERM to SIGKILL. The engine ends by itself after 10 s even when a collective hangs.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// Lines that are still in the pipe when the process has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Failures that the status holds.
const KEEP: usize = 8;
/// The engine's exit code when its worker did not stop in time and was killed.
const EXIT_STOP_IGNORED: &str = "exit 70";

/// This node's engine, and all that is known of it.
pub struct Local<'a> {
    layout: &'a Layout,
    /// The log of agent and engine.
    pub log: Log,
    /// What is reported.
    pub status: Status,
    /// What this boot has cost.
    pub ledger: Ledger,
    written: Instant,
    engine: Option<Engine>,
    start_limit: Duration,
    /// The engine must have got further by then.
    deadline: Option<Instant>,
    beats: Option<Beats>,
    /// SIGTERM was sent; SIGKILL follows then.
    kill_at: Option<Instant>,
    /// It was asked to stop and not because it failed.
    asked: bool,
    /// It ignored the request and was killed.
    forced: bool,
    /// It was let go: from then on its end can cost RDMA resources.
    gone_in: bool,
    /// It said itself that its end costs RDMA resources.
    unclean: bool,
    /// The agent itself ends.
    ends: bool,
    failure: Option<EngineError>,
}

/// What the engine did.
pub enum Next {
    /// It wrote a line.
    Line(Stream, Vec<u8>),
    /// Its process is gone.
    Ended(String),
}

impl<'a> Local<'a> {
    /// Without an engine.
    pub fn new(layout: &'a Layout) -> Self {
        let ledger = Ledger::open(layout.ledger_file());
        let mut status = Status::new(std::process::id(), Timestamp::now());
        status.debits = ledger.debits();
        Local {
            layout,
            log: Log::open(layout.engine_log()),
            status,
            ledger,
            written: Instant::now(),
            engine: None,
            start_limit: Duration::ZERO,
            deadline: None,
            beats: None,
            kill_at: None,
            asked: false,
            forced: false,
            gone_in: false,
            unclean: false,
            ends: false,
            failure: None,
        }
    }

    /// A process of the engine exists.
    pub fn runs(&self) -> bool {
        self.engine.is_some()
    }

    /// What rank 0's agent is told.
    pub fn report(&self) -> Report {
        Report {
            epoch: self.status.epoch,
            state: self.status.state,
            runs: self.runs(),
            failure: self.failure.clone(),
            debits: self.ledger.debits(),
        }
    }

    /// Starts the engine for this epoch; trouble becomes a failure of it.
    pub fn start(&mut self, rank: &RankFile, agent: &AgentFile, epoch: u64) {
        let now = Timestamp::now();
        (self.asked, self.forced, self.gone_in, self.unclean) = (false, false, false, false);
        (self.failure, self.kill_at, self.beats) = (None, None, None);
        self.status.epoch = epoch;
        let limit = Duration::try_from_secs_f64(rank.start_timeout_s)
            .map_err(|e| format!("{}: start_timeout_s: {e}", self.layout.rank_file()));
        let started = limit.and_then(|limit| Ok((Engine::start(self.layout, rank, agent)?, limit)));
        match started {
            Ok((engine, limit)) => {
                self.start_limit = limit;
                self.status.begin(epoch, engine.pid(), now);
                self.note(&format!("epoch {epoch}: started the engine of {}, pid {}", rank.release, engine.pid()));
                self.engine = Some(engine);
                self.deadline = Some(Instant::now() + ARM_LIMIT);
                self.save();
            }
            Err(why) => self.fail("agent", &why),
        }
    }

    /// The next thing the engine does; never ends without one. Loses nothing when it is dropped.
    pub async fn next(&mut self) -> Next {
        let Some(engine) = &mut self.engine else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            Some((stream, line)) = engine.lines.recv() => Next::Line(stream, line),
            status = engine.child.wait() => Next::Ended(status.map_or_else(|e| e.to_string(), describe)),
        }
    }

    /// Takes a line.
    pub fn line(&mut self, stream: Stream, line: &[u8]) {
        let now = Timestamp::now();
        let text = String::from_utf8_lossy(line);
        if stream == Stream::Err {
            self.log.line(now, "engine", &text);
            return;
        }
        match EngineEvent::parse(line) {
            Ok(event) => {
                if !matches!(event, EngineEvent::Beat { .. }) {
                    self.log.line(now, "event", &text);
                }
                event.apply(&mut self.status, now);
                self.unclean |= matches!(event, EngineEvent::Unclean { .. });
                if matches!(event, EngineEvent::Armed | EngineEvent::Ready { .. }) {
                    self.deadline = None;
                }
                match (&event, &mut self.beats) {
                    (EngineEvent::Ready { .. }, beats) => *beats = Some(Beats::start(Instant::now())),
                    (EngineEvent::Beat { .. } | EngineEvent::Generated, Some(beats)) => beats.beat(Instant::now()),
                    _ => {}
                }
                if event.is_news() || self.written.elapsed() > STATUS_PAUSE {
                    self.save();
                }
            }
            Err(why) => self.log.line(now, "agent", &format!("not an event of the engine ({why}): {text}")),
        }
    }

    /// The process is gone: its last lines, then what that means.
    pub async fn ended(&mut self, how: String) {
        let Some(mut engine) = self.engine.take() else { return };
        let until = tokio::time::Instant::now() + DRAIN_LIMIT;
        while let Ok(Some((stream, line))) = tokio::time::timeout_at(until, engine.lines.recv()).await {
            self.line(stream, &line);
        }
        if engine.group_alive() {
            engine.kill();
            self.note("ended what the engine had left behind");
        }
        self.note(&format!("the engine has ended: {how}"));
        // It, or its worker, did not leave by its own door: RDMA resources may be gone with it.
        if self.gone_in && (self.unclean || how.starts_with("signal") || how == EXIT_STOP_IGNORED) {
            self.debit();
        }
        (self.deadline, self.kill_at, self.beats) = (None, None, None);
        self.status.engine_pid = None;
        self.status.exit = Some(how.clone());
        let last = self.log.last_word().map(|w| format!("; its last words: {w}")).unwrap_or_default();
        match self.status.error.clone() {
            Some(error) if error.kind == "hang" && self.forced => {
                self.fail("stuck", &format!("{}; it did not stop when asked either, and was killed", error.message));
            }
            Some(error) => self.fail(&error.kind, &error.message),
            None if self.forced && !self.ends => {
                self.fail("stuck", &format!("it did not stop within {} s and was killed", STOP_LIMIT.as_secs()));
            }
            // Exit 0 without an error: it was asked to, here or through another rank.
            None if how == "exit 0" || self.asked => {
                self.status.enter(State::Stopped, Timestamp::now());
                self.save();
            }
            None => self.fail("internal", &format!("the engine ended with {how}{last}")),
        }
    }

    /// One more end that can have cost RDMA resources.
    pub fn debit(&mut self) {
        self.ledger.debit();
        self.status.debits = self.ledger.debits();
    }

    /// Deadlines, hangs, and the sign of life in the status file.
    pub fn tick(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|d| now >= d) {
            self.deadline = None;
            let state = self.status.state.as_str();
            self.accuse("timeout", &format!("the engine was still {state} when its time was up"));
        }
        if self.kill_at.is_none()
            && let Some(silent) = self.beats.as_mut().and_then(|b| b.hangs(now))
        {
            self.beats = None;
            self.accuse("hang", &format!("no sign of life for {} s: the engine hangs", silent.as_secs()));
        }
        if self.kill_at.is_some_and(|d| now >= d) {
            self.kill_at = None;
            self.forced = true;
            self.note(&format!("the engine did not stop within {} s: killed", STOP_LIMIT.as_secs()));
            self.status.reason = Some(format!("killed: it did not stop within {} s", STOP_LIMIT.as_secs()));
            if let Some(engine) = &self.engine {
                engine.kill();
            }
        }
        if self.written.elapsed() >= STATUS_EVERY {
            self.save();
        }
    }

    /// Lets an armed engine join the others.
    pub async fn go(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if self.status.state != State::Armed || self.kill_at.is_some() {
            return;
        }
        self.gone_in = true;
        engine.go().await;
        self.status.enter(State::Joining, Timestamp::now());
        self.deadline = Some(Instant::now() + self.start_limit + READY_GRACE);
        self.note("go");
        self.save();
    }

    /// Stops the engine because it fails.
    pub fn accuse(&mut self, kind: &str, message: &str) {
        self.log.line(Timestamp::now(), "agent", message);
        let error = EngineError { kind: kind.to_owned(), message: printable(message) };
        self.failure.get_or_insert_with(|| error.clone());
        self.status.error.get_or_insert(error);
        self.terminate(message, false);
    }

    /// Ends for good; whatever the engine does then is nobody's fault.
    pub fn end(&mut self, why: &str) {
        self.ends = true;
        self.terminate(why, true);
        if !self.runs() && !self.status.state.ended() {
            self.status.enter(State::Stopped, Timestamp::now());
        }
    }

    /// Asks the engine to stop, once; it is not to blame.
    pub fn stop(&mut self, why: &str) {
        self.terminate(why, true);
    }

    fn terminate(&mut self, why: &str, asked: bool) {
        if self.kill_at.is_some() {
            return;
        }
        if let Some(engine) = &self.engine {
            self.asked = asked;
            engine.terminate();
            self.kill_at = Some(Instant::now() + STOP_LIMIT);
            self.note(&format!("asked the engine to stop: {why}"));
        }
    }

    /// It ended, or never began, and should not have.
    pub fn fail(&mut self, kind: &str, message: &str) {
        let now = Timestamp::now();
        self.log.line(now, "agent", message);
        let error = EngineError { kind: kind.to_owned(), message: printable(message) };
        self.failure = Some(error.clone());
        if self.status.failures.len() == KEEP {
            self.status.failures.remove(0);
        }
        self.status.failures.push(Failure { at: now, epoch: self.status.epoch, error: error.clone() });
        self.status.error = Some(error);
        self.status.enter(State::Failed, now);
        self.save();
    }

    /// A line of the agent in the log.
    pub fn note(&mut self, text: &str) {
        self.log.line(Timestamp::now(), "agent", text);
    }

    /// Writes the status file.
    pub fn save(&mut self) {
        self.status.written_at = Timestamp::now();
        if let Err(e) = self.status.write(&self.layout.status_file()) {
            self.log.line(Timestamp::now(), "agent", &format!("cannot write the status: {e}"));
        }
        self.written = Instant::now();
    }
}
