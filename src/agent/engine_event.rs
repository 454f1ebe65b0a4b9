//! The engine's JSON lines, and what each means for the status. Pure.

use jiff::Timestamp;
use serde::Deserialize;

use super::status::{EngineError, State, Status};
use crate::model::command::printable;
use crate::model::runtime_facts::Reach;

/// Attempts that the status holds.
const MOST_RANKS: usize = 64;

/// A line of the engine. Fields that only matter to the log are not read.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EngineEvent {
    /// The process lives.
    Starting,
    /// Ready to join; waits for `go`.
    Armed,
    /// Waits for the other ranks.
    Joining,
    /// All ranks are there.
    Joined,
    /// Reads weights.
    Loading,
    /// Weights are complete.
    Loaded {
        /// Of this rank's share.
        #[serde(default)]
        bytes: Option<u64>,
        /// So far.
        #[serde(default)]
        peak_memory: Option<u64>,
    },
    /// Serves.
    Ready {
        /// Where, on rank 0.
        #[serde(default)]
        api: Option<String>,
    },
    /// What it could reach of the other ranks.
    Reach {
        /// Attempts.
        results: Vec<Reach>,
    },
    /// A sign of life.
    Beat {
        /// `idle`, `prefill` or `decode`.
        #[serde(default)]
        phase: String,
    },
    /// A completion is done.
    Generated,
    /// Something went wrong.
    Error {
        /// Kind.
        kind: String,
        /// In words.
        message: String,
        /// The engine will end.
        #[serde(default)]
        fatal: bool,
    },
    /// Its worker has not given back what it had of RDMA.
    Unclean {
        /// In words.
        #[serde(default)]
        how: String,
    },
    /// It is about to end.
    Stopped {
        /// Why.
        #[serde(default)]
        reason: String,
    },
}

impl EngineEvent {
    /// Reads a line.
    ///
    /// # Errors
    /// In words; the caller logs the line as it is.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|e| e.to_string())
    }

    /// What a reader of the status wants to see at once.
    pub fn is_news(&self) -> bool {
        !matches!(self, EngineEvent::Beat { .. } | EngineEvent::Loading)
    }

    /// Changes the status as this event says.
    pub fn apply(&self, status: &mut Status, now: Timestamp) {
        match self {
            EngineEvent::Starting => status.enter(State::Starting, now),
            EngineEvent::Armed => status.enter(State::Armed, now),
            EngineEvent::Joining | EngineEvent::Joined => status.enter(State::Joining, now),
            EngineEvent::Loading => status.enter(State::Loading, now),
            EngineEvent::Loaded { bytes, peak_memory } => {
                status.enter(State::Loading, now);
                (status.weights_bytes, status.peak_memory) = (*bytes, *peak_memory);
            }
            EngineEvent::Ready { api } => {
                status.enter(State::Ready, now);
                status.api = api.as_deref().map(printable);
            }
            EngineEvent::Reach { results } => {
                let clean =
                    |r: &Reach| Reach { address: printable(&r.address), errno: r.errno, name: printable(&r.name) };
                status.reach = results.iter().take(MOST_RANKS).map(clean).collect();
            }
            EngineEvent::Beat { phase } => {
                status.last_beat_at = Some(now);
                if phase == "decode" {
                    status.last_token_at = Some(now);
                }
            }
            EngineEvent::Generated => {
                status.last_beat_at = Some(now);
                status.last_token_at = Some(now);
            }
            // The first cause counts: what follows is mostly its consequence. The state changes when the
            // process has ended, not when it says it will.
            EngineEvent::Error { kind, message, fatal: true } if status.error.is_none() => {
                status.error = Some(EngineError { kind: printable(kind), message: printable(message) });
            }
            EngineEvent::Error { .. } | EngineEvent::Unclean { .. } => {}
            EngineEvent::Stopped { reason } => status.reason = Some(printable(reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_after(lines: &[&str]) -> Status {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = Status::new(1, now);
        for line in lines {
            EngineEvent::parse(line.as_bytes()).expect(line).apply(&mut status, now);
        }
        status
    }

    #[test]
    fn a_start_goes_through_its_states() {
        let mut lines = vec![r#"{"event":"starting","t":1.5,"rank":0,"pid":77,"python":"3.12"}"#];
        assert_eq!(status_after(&lines).state, State::Starting);
        for (line, state) in [
            (r#"{"event":"armed","t":1,"rank":0}"#, State::Armed),
            (r#"{"event":"joining","t":1,"rank":0,"backend":"ring","world_size":3}"#, State::Joining),
            (r#"{"event":"joined","t":1,"rank":0,"world_size":3}"#, State::Joining),
            (r#"{"event":"loading","t":1,"rank":0,"done":1,"total":2}"#, State::Loading),
            (r#"{"event":"loaded","t":1,"rank":0,"tensors":1}"#, State::Loading),
            (r#"{"event":"ready","t":1,"rank":0,"api":"127.0.0.1:8080","model":"m"}"#, State::Ready),
            (r#"{"event":"beat","t":1,"rank":0,"phase":"decode","step":3}"#, State::Ready),
        ] {
            lines.push(line);
            assert_eq!(status_after(&lines).state, state, "{line}");
        }
        let status = status_after(&lines);
        assert_eq!(status.api.as_deref(), Some("127.0.0.1:8080"));
        assert!(status.last_token_at.is_some());
    }

    #[test]
    fn the_first_fatal_error_is_the_cause_and_escapes_are_made_visible() {
        let status = status_after(&[
            r#"{"event":"error","kind":"generation","message":"not fatal","fatal":false,"node":null}"#,
            r#"{"event":"error","kind":"does-not-split","message":"9 heads\u001b[31m","fatal":true,"node":"a"}"#,
            r#"{"event":"error","kind":"internal","message":"later","fatal":true,"node":"a"}"#,
            r#"{"event":"stopped","reason":"error: does-not-split"}"#,
        ]);
        let error = status.error.expect("an error");
        assert_eq!((error.kind.as_str(), error.message.as_str()), ("does-not-split", "9 heads\\u{1b}[31m"));
        assert_eq!(status.state, State::Waiting, "the process has not ended yet");
        assert_eq!(status.reason.as_deref(), Some("error: does-not-split"));
    }

    #[test]
    fn a_line_that_is_no_event_is_an_error() {
        for line in ["", "hello", "{}", "[]", r#"{"event":"unheard-of"}"#, r#"{"event":"error"}"#] {
            assert!(EngineEvent::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
