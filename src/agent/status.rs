//! What an agent reports of its engine: one small file, replaced as a whole.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::RankFile;
use super::wire::Group;
use crate::model::runtime_facts::Reach;

/// Version of the status file.
pub const STATUS_VERSION: u32 = 1;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The agent runs; no engine was started yet.
    Waiting,
    /// The process was started; libraries are imported, the model folder is checked.
    Starting,
    /// Waits for `go`.
    Armed,
    /// Waits for the other ranks.
    Joining,
    /// Reads weights.
    Loading,
    /// Serves.
    Ready,
    /// Ended on request.
    Stopped,
    /// Ended otherwise, or never began.
    Failed,
}

impl State {
    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Armed => "armed",
            State::Joining => "joining",
            State::Loading => "loading",
            State::Ready => "ready",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }

    /// The engine was there and has ended.
    pub fn ended(self) -> bool {
        matches!(self, State::Stopped | State::Failed)
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineError {
    /// Kind as the engine names it (`does-not-split`, `model-incomplete`, …), or `agent` for the agent's own.
    pub kind: String,
    /// In words.
    pub message: String,
}

impl EngineError {
    /// Of a rank that ended because another one did, or that nothing better is known of.
    pub fn consequence(message: &str) -> Self {
        EngineError { kind: PEER_LOST.to_owned(), message: message.to_owned() }
    }

    /// Only a consequence of what another rank did.
    pub fn is_consequence(&self) -> bool {
        matches!(self.kind.as_str(), PEER_LOST | "join-failed" | "timeout" | "hang")
    }
}

/// Kind of the engine when another rank is gone.
pub const PEER_LOST: &str = "peer-lost";

/// `status.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// [`STATUS_VERSION`].
    pub schema_version: u32,
    /// Release that runs.
    pub release: String,
    /// Launch it belongs to.
    pub launch: String,
    /// Rank, from 0.
    pub rank: u32,
    /// Number of ranks.
    pub world_size: u32,
    /// What is announced: `jaccl`, `jaccl-ring` or `ring`.
    pub backend: String,
    /// Name of the model.
    pub model: String,
    /// What the engine is doing.
    pub state: State,
    /// The agent's process.
    pub agent_pid: u32,
    /// The engine's process, the one the agent started; null without one.
    pub engine_pid: Option<u32>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// When this was written: at least every 2 s.
    pub written_at: Timestamp,
    /// When the last token was generated.
    pub last_token_at: Option<Timestamp>,
    /// Last sign of life of the generation loop.
    pub last_beat_at: Option<Timestamp>,
    /// Where rank 0 serves.
    pub api: Option<String>,
    /// Why it ended.
    pub error: Option<EngineError>,
    /// How the process ended: `exit 4`, `signal 9`.
    pub exit: Option<String>,
    /// Why it stopped, in the engine's words.
    pub reason: Option<String>,
    /// The start of the whole group that the engine belongs to; 0 before the first.
    #[serde(default)]
    pub epoch: u64,
    /// When the engine's process was started.
    #[serde(default)]
    pub engine_since: Option<Timestamp>,
    /// Bytes of this rank's share of the weights, once loaded.
    #[serde(default)]
    pub weights_bytes: Option<u64>,
    /// Most bytes that MLX has held so far.
    #[serde(default)]
    pub peak_memory: Option<u64>,
    /// Ends of this launch's engines on this node that nobody had asked for.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// Engines of this boot that did not end by themselves.
    #[serde(default)]
    pub debits: u32,
    /// All ranks together, as rank 0's agent last said; none when it was not heard lately.
    #[serde(default)]
    pub group: Option<Group>,
    /// Until when the agents' certificates hold.
    #[serde(default)]
    pub certificates_until: Option<Timestamp>,
    /// What the engine's own process could reach of the other ranks.
    #[serde(default)]
    pub reach: Vec<Reach>,
}

/// One end of this node's engine that nobody had asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// Of which start.
    pub epoch: u64,
    /// Why.
    pub error: EngineError,
}

impl Status {
    /// Of an agent that has not started its engine.
    pub fn new(agent_pid: u32, now: Timestamp) -> Self {
        Status {
            schema_version: STATUS_VERSION,
            release: String::new(),
            launch: String::new(),
            rank: 0,
            world_size: 0,
            backend: String::new(),
            model: String::new(),
            state: State::Waiting,
            agent_pid,
            engine_pid: None,
            since: now,
            written_at: now,
            last_token_at: None,
            last_beat_at: None,
            api: None,
            error: None,
            exit: None,
            reason: None,
            epoch: 0,
            engine_since: None,
            weights_bytes: None,
            peak_memory: None,
            failures: Vec::new(),
            debits: 0,
            group: None,
            certificates_until: None,
            reach: Vec::new(),
        }
    }

    /// A new engine: nothing of the last one is true any more.
    pub fn begin(&mut self, epoch: u64, pid: u32, now: Timestamp) {
        self.epoch = epoch;
        self.engine_pid = Some(pid);
        self.engine_since = Some(now);
        (self.weights_bytes, self.peak_memory) = (None, None);
        (self.last_token_at, self.last_beat_at) = (None, None);
        (self.api, self.error, self.exit, self.reason) = (None, None, None, None);
        self.enter(State::Starting, now);
    }

    /// Takes over what the configuration says.
    pub fn configure(&mut self, rank: &RankFile, launch: &str) {
        self.release.clone_from(&rank.release);
        launch.clone_into(&mut self.launch);
        self.rank = rank.rank;
        self.world_size = rank.world_size;
        self.backend.clone_from(&rank.backend);
        self.model.clone_from(&rank.model.id);
    }

    /// Goes to another state.
    pub fn enter(&mut self, state: State, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// Replaces the file at once: a reader sees the old or the new one, never half of it.
    ///
    /// # Errors
    /// As writing does.
    pub fn write(&self, path: &str) -> std::io::Result<()> {
        let fresh = format!("{path}.new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.write_all(b"\n")?;
        std::fs::rename(&fresh, path)
    }
}
