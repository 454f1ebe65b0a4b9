//! What an agent reports of its engine: one small file, replaced as a whole.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::config::RankFile;

/// Version of the status file.
pub const STATUS_VERSION: u32 = 1;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
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
            State::Starting => "starting",
            State::Armed => "armed",
            State::Joining => "joining",
            State::Loading => "loading",
            State::Ready => "ready",
            State::Stopped => "stopped",
            State::Failed => "failed",
        }
    }

    /// No engine process belongs to this state.
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
            state: State::Starting,
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
        }
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
