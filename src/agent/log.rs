//! The engine's log: its own words and events, each with a time; bounded, because launchd rotates nothing.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::model::command::printable;

/// The file is put aside when it is this long; one older file is kept.
const ROTATE_AT: u64 = 16 * 1024 * 1024;
/// Last words kept for the status.
const KEEP: usize = 20;

/// The agent's own words, which launchd appends to a file, begin anew beyond this.
const AGENT_LOG_LIMIT: u64 = 1024 * 1024;

/// Empties the file that launchd appends the agent's output to, once it is long: an agent that cannot start says so every
/// ten seconds, for ever. A log that cannot be emptied stops nothing.
pub fn bound(path: &str) {
    let long = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > AGENT_LOG_LIMIT);
    if long && let Ok(file) = OpenOptions::new().write(true).open(path) {
        let _ = file.set_len(0);
    }
}

/// Writes lines, rotates, remembers the last ones.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    rotate_at: u64,
    file: Option<File>,
    size: u64,
    last_words: VecDeque<String>,
}

impl Log {
    /// Appends to this file. A log that cannot be written stops nothing.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self::with_limit(path, ROTATE_AT)
    }

    fn with_limit(path: impl Into<PathBuf>, rotate_at: u64) -> Self {
        let mut log = Log { path: path.into(), rotate_at, file: None, size: 0, last_words: VecDeque::new() };
        log.reopen();
        log
    }

    fn reopen(&mut self) {
        self.file = OpenOptions::new().append(true).create(true).mode(0o644).open(&self.path).ok();
        self.size = self.file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
    }

    /// One line. `source` is `engine` (its standard error), `event` (its standard output) or `agent`.
    pub fn line(&mut self, now: Timestamp, source: &str, text: &str) {
        let text = printable(text.trim_end());
        if source == "engine" && !text.is_empty() {
            if self.last_words.len() == KEEP {
                self.last_words.pop_front();
            }
            self.last_words.push_back(text.clone());
        }
        let line = format!("{now:.3} {source:6} {text}\n");
        if self.size > 0 && self.size + line.len() as u64 > self.rotate_at {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            let _ = std::fs::rename(&self.path, older);
            self.reopen();
        }
        // A full disk must not end the engine.
        if let Some(file) = &mut self.file
            && file.write_all(line.as_bytes()).is_ok()
        {
            self.size += line.len() as u64;
        }
    }

    /// The last line the engine wrote to its standard error.
    pub fn last_word(&self) -> Option<&str> {
        self.last_words.back().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_own_words_begin_anew_when_they_are_long() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("agent.log");
        for (size, left) in [(AGENT_LOG_LIMIT, AGENT_LOG_LIMIT), (AGENT_LOG_LIMIT + 1, 0)] {
            std::fs::write(&path, vec![b'x'; usize::try_from(size).expect("small")]).expect("written");
            bound(path.to_str().expect("UTF-8"));
            assert_eq!(std::fs::metadata(&path).expect("there").len(), left);
        }
        bound("/nowhere/agent.log");
    }

    #[test]
    fn the_log_stays_small_and_keeps_the_newest() {
        let dir = tempfile::tempdir().expect("tempdir");
        let path = dir.path().join("engine.log");
        let mut log = Log::with_limit(&path, 1000);
        for n in 0..200 {
            log.line(Timestamp::UNIX_EPOCH, "engine", &format!("line {n}\u{7}"));
        }
        drop(log);
        let files: Vec<_> = std::fs::read_dir(dir.path()).expect("dir").flatten().collect();
        assert_eq!(files.len(), 2);
        assert!(files.iter().all(|f| f.metadata().expect("meta").len() <= 1000));
        let text = std::fs::read_to_string(&path).expect("log");
        assert!(text.ends_with("1970-01-01T00:00:00.000Z engine line 199\\u{7}\n"), "{text}");
        let mut again = Log::with_limit(&path, 1000);
        again.line(Timestamp::UNIX_EPOCH, "agent", "appended");
        assert!(std::fs::read_to_string(&path).expect("log").contains("line 199"), "an old log is kept");
        assert_eq!(again.last_word(), None);
    }
}
