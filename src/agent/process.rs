//! The engine as a process: started with exactly its environment, in a group of its own, as its own user.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group, test_kill_process_group};
use std::os::unix::process::ExitStatusExt;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::config::{AgentFile, RankFile};
use super::layout::Layout;
use super::lines::next_line;
use super::lock::EngineLock;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Events.
    Out,
    /// Words.
    Err,
}

/// A running engine.
#[derive(Debug)]
pub struct Engine {
    /// The process.
    pub child: Child,
    /// Its lines.
    pub lines: mpsc::Receiver<(Stream, Vec<u8>)>,
    /// Open as long as the agent lives: its end tells the engine to stop. Kept apart from `child`, which would
    /// close it when it is waited for.
    stdin: Option<ChildStdin>,
    pid: u32,
}

/// What the engine gets besides `rank.json`'s own variables. Nothing is inherited.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/bin:/bin:/usr/sbin:/sbin"),
    ("HF_HUB_OFFLINE", "1"),
    ("TRANSFORMERS_OFFLINE", "1"),
    ("TOKENIZERS_PARALLELISM", "false"),
];

impl Engine {
    /// Starts it.
    ///
    /// # Errors
    /// In words.
    pub fn start(layout: &Layout, rank: &RankFile, agent: &AgentFile) -> Result<Self, String> {
        let python = format!("{}/venv/bin/python", layout.release(&rank.release));
        let home = layout.engine_home();
        let mut command = Command::new(&python);
        command
            .args(["-I", "-m", "macluster_inference.engine", "--config", &layout.rank_file()])
            .env_clear()
            .envs(ENVIRONMENT)
            .env("HOME", &home)
            .envs(&rank.env)
            .current_dir(if std::path::Path::new(&home).is_dir() { &home } else { "/" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if geteuid().is_root() {
            // The standard library also drops root's supplementary groups then.
            command.uid(agent.uid).gid(agent.gid);
        }
        let held = EngineLock::take(layout)?;
        let spawned = held.passed(|| command.spawn())?;
        let mut child = spawned.map_err(|e| format!("cannot start {python}: {e}"))?;
        let pid = child.id().ok_or("the engine ended at once")?;
        held.name(pid);
        let (sender, lines) = mpsc::channel(1024);
        if let Some(out) = child.stdout.take() {
            read(out, Stream::Out, sender.clone());
        }
        if let Some(err) = child.stderr.take() {
            read(err, Stream::Err, sender);
        }
        let stdin = child.stdin.take();
        Ok(Engine { child, lines, stdin, pid })
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it join the others. An engine that has just ended says so by itself.
    pub async fn go(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(b"go\n").await;
            let _ = stdin.flush().await;
        }
    }

    /// Asks it to stop: it tells the other ranks, and all leave their collectives at the same step.
    pub fn terminate(&self) {
        if let Some(pid) = rustix_pid(self.pid) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it and everything it has started.
    pub fn kill(&self) {
        if let Some(pid) = rustix_pid(self.pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Whether anything of its group is left.
    pub fn group_alive(&self) -> bool {
        rustix_pid(self.pid).is_some_and(|pid| test_kill_process_group(pid).is_ok())
    }
}

fn rustix_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Sends a stream's lines until its end; the channel's bound is back-pressure, not loss.
fn read(stream: impl AsyncRead + Unpin + Send + 'static, from: Stream, to: mpsc::Sender<(Stream, Vec<u8>)>) {
    tokio::spawn(async move {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(true) = next_line(&mut reader, &mut line).await {
            if to.send((from, line.clone())).await.is_err() {
                return;
            }
        }
    });
}

/// `exit 4` or `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}
