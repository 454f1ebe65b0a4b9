//! The agent's loop: start the engine, pass `go`, watch, report, stop. It restarts nothing.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use super::config::{self, AgentFile, RankFile};
use super::engine_event::EngineEvent;
use super::layout::Layout;
use super::lock::Lock;
use super::log::Log;
use super::process::{Engine, Stream, describe};
use super::status::{EngineError, State, Status};
use crate::model::command::printable;

/// `go` and the clock are looked at this often.
const TICK: Duration = Duration::from_millis(100);
/// The status is written at least this often.
const STATUS_EVERY: Duration = Duration::from_millis(1500);
/// From start to armed: imports, and the headers and samples of every weight file.
const ARM_LIMIT: Duration = Duration::from_secs(600);
/// The engine keeps its own limit from go to ready; the agent's is this much later.
const READY_GRACE: Duration = Duration::from_secs(30);
/// From SIGTERM to SIGKILL. The engine ends by itself after 10 s even when a collective hangs.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// Lines that are still in the pipe when the process has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// Another agent of this node may still be stopping its engine.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

struct Agent<'a> {
    layout: &'a Layout,
    log: Log,
    status: Status,
    written: Instant,
    engine: Option<Engine>,
    launch: String,
    start_limit: Duration,
    /// The engine must have got further by then.
    deadline: Option<Instant>,
    /// SIGTERM was sent; SIGKILL follows then.
    kill_at: Option<Instant>,
    told_to_stop: bool,
}

/// What the engine did.
enum Next {
    Line(Stream, Vec<u8>),
    Ended(String),
}

/// Runs until SIGTERM or SIGINT; then the engine is gone too.
///
/// # Errors
/// When it cannot even report: another agent runs, or its folders cannot be written.
pub async fn run(layout: &Layout) -> Result<(), String> {
    // Before anything else, so that no signal is missed.
    let mut terminate = signal(SignalKind::terminate()).map_err(|e| format!("cannot listen to signals: {e}"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|e| format!("cannot listen to signals: {e}"))?;
    let _lock = Lock::acquire(&layout.lock_file(), LOCK_LIMIT).await?;
    // A `go` of before this start: whoever gave it meant another engine.
    let _ = std::fs::remove_file(layout.go_file());
    let mut agent = Agent {
        layout,
        log: Log::open(layout.engine_log()),
        status: Status::new(std::process::id(), Timestamp::now()),
        written: Instant::now(),
        engine: None,
        launch: String::new(),
        start_limit: Duration::ZERO,
        deadline: None,
        kill_at: None,
        told_to_stop: false,
    };
    agent.start();
    agent.status.write(&layout.status_file()).map_err(|e| format!("cannot write {}: {e}", layout.status_file()))?;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => agent.stop("SIGTERM"),
            _ = interrupt.recv() => agent.stop("SIGINT"),
            // Before the engine's lines: a flood of them must not hold up deadlines.
            _ = tick.tick() => agent.tick().await,
            next = agent.next() => match next {
                Next::Line(stream, line) => agent.line(stream, &line),
                Next::Ended(how) => agent.ended(how).await,
            },
        }
        if agent.told_to_stop && agent.engine.is_none() {
            agent.save();
            return Ok(());
        }
    }
}

impl Agent<'_> {
    /// Reads the configuration and starts the engine; on trouble the status says so.
    fn start(&mut self) {
        let started = self.configure().and_then(|(rank, agent)| {
            let engine = Engine::start(self.layout, &rank, &agent)?;
            Ok((engine, rank))
        });
        match started {
            Ok((engine, rank)) => {
                self.note(&format!("started the engine of release {}, pid {}", rank.release, engine.pid()));
                self.status.engine_pid = Some(engine.pid());
                self.engine = Some(engine);
                self.deadline = Some(Instant::now() + ARM_LIMIT);
            }
            Err(why) => self.fail("agent", &why),
        }
    }

    fn configure(&mut self) -> Result<(RankFile, AgentFile), String> {
        let rank: RankFile = config::read(&self.layout.rank_file())?;
        let agent: AgentFile = config::read(&self.layout.agent_file())?;
        self.status.configure(&rank, &agent.launch);
        self.launch.clone_from(&agent.launch);
        self.start_limit = Duration::try_from_secs_f64(rank.start_timeout_s)
            .map_err(|e| format!("{}: start_timeout_s: {e}", self.layout.rank_file()))?;
        Ok((rank, agent))
    }

    /// The next thing the engine does; never ends without one. Loses nothing when it is dropped.
    async fn next(&mut self) -> Next {
        let Some(engine) = &mut self.engine else {
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            Some((stream, line)) = engine.lines.recv() => Next::Line(stream, line),
            status = engine.child.wait() => Next::Ended(status.map_or_else(|e| e.to_string(), describe)),
        }
    }

    fn line(&mut self, stream: Stream, line: &[u8]) {
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
                if matches!(event, EngineEvent::Armed | EngineEvent::Ready { .. }) {
                    self.deadline = None;
                }
                if event.is_news() || self.written.elapsed() > TICK * 5 {
                    self.save();
                }
            }
            Err(why) => self.log.line(now, "agent", &format!("not an event of the engine ({why}): {text}")),
        }
    }

    /// The process is gone: its last lines, then what that means.
    async fn ended(&mut self, how: String) {
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
        self.deadline = None;
        self.kill_at = None;
        self.status.engine_pid = None;
        self.status.exit = Some(how.clone());
        // Exit 0 without an error: it was asked to, here or through another rank.
        if self.status.error.is_none() && (how == "exit 0" || self.told_to_stop) {
            self.status.enter(State::Stopped, Timestamp::now());
            self.save();
        } else {
            let last = self.log.last_word().map(|w| format!("; its last words: {w}")).unwrap_or_default();
            self.fail("internal", &format!("the engine ended with {how}{last}"));
        }
    }

    /// `go`, deadlines, and the sign of life in the status file.
    async fn tick(&mut self) {
        if self.status.state == State::Armed && self.kill_at.is_none() && self.may_go() {
            self.go().await;
        }
        let now = Instant::now();
        if self.deadline.is_some_and(|d| now >= d) {
            self.deadline = None;
            let state = self.status.state.as_str();
            self.status.error.get_or_insert(EngineError {
                kind: "timeout".into(),
                message: format!("the engine was still {state} when its time was up"),
            });
            self.terminate("its time is up");
        }
        if self.kill_at.is_some_and(|d| now >= d) {
            self.kill_at = None;
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

    fn may_go(&self) -> bool {
        !self.launch.is_empty()
            && std::fs::read_to_string(self.layout.go_file()).is_ok_and(|text| text.trim() == self.launch)
    }

    async fn go(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        engine.go().await;
        self.status.enter(State::Joining, Timestamp::now());
        self.deadline = Some(Instant::now() + self.start_limit + READY_GRACE);
        self.note("go");
        self.save();
    }

    fn stop(&mut self, why: &str) {
        self.told_to_stop = true;
        self.terminate(why);
        if self.engine.is_none() && !self.status.state.ended() {
            self.status.enter(State::Stopped, Timestamp::now());
        }
    }

    fn terminate(&mut self, why: &str) {
        if self.kill_at.is_some() {
            return;
        }
        if let Some(engine) = &self.engine {
            engine.terminate();
            self.kill_at = Some(Instant::now() + STOP_LIMIT);
            self.note(&format!("asked the engine to stop: {why}"));
        }
    }

    fn fail(&mut self, kind: &str, message: &str) {
        let now = Timestamp::now();
        self.log.line(now, "agent", message);
        self.status.error.get_or_insert(EngineError { kind: kind.to_owned(), message: printable(message) });
        self.status.enter(State::Failed, now);
        self.save();
    }

    fn note(&mut self, text: &str) {
        self.log.line(Timestamp::now(), "agent", text);
    }

    fn save(&mut self) {
        self.status.written_at = Timestamp::now();
        if let Err(e) = self.status.write(&self.layout.status_file()) {
            self.log.line(Timestamp::now(), "agent", &format!("cannot write the status: {e}"));
        }
        self.written = Instant::now();
    }
}
