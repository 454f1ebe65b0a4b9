//! Helpers of the integration tests: the real binary, its exact output, temporary folders.

pub mod anyuser;
pub mod host;
pub mod live;
pub mod proxy;
pub mod rack;
pub mod runtime;
pub mod ssh;
pub mod sshd;
pub mod terminal;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// The binary under test.
pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_macluster"))
}

/// `../shared/samples` when it stands beside the project; else the running test is said to compare nothing with it.
pub fn samples() -> Option<PathBuf> {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("shared/samples");
    if dir.is_dir() {
        return Some(dir);
    }
    // The test runner names threads after their tests.
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    if SAID.lock().is_ok_and(|mut said| said.insert(test.clone())) {
        sshd::say_not_run(&test, "the part with captured output: ../shared/samples is not beside the project");
    }
    None
}

/// Status and both streams of one run.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Fails unless the status is this one.
    #[track_caller]
    pub fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}:\n{}", self.stdout))
    }
}

/// Runs the binary in `dir` with a clean environment: no colour, a home of its own, no agent.
pub fn macluster(dir: &Path, args: &[&str]) -> Ran {
    let output = command(dir).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    Ran {
        status: output.status.code().expect("an exit status"),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// The binary with that environment, to be finished by the caller.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(dir).env("HOME", dir).env("NO_COLOR", "1").env("COLUMNS", "100").env_remove("SSH_AUTH_SOCK");
    command
}
