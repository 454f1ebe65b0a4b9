//! Runs this binary's own commands for the demo, each shown as a person would type it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::cannot;
use crate::exit::{Exit, Failure};
use crate::model::command::quote;
use crate::view::Printer;

/// How long a background command may take to say that it is ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Where and how commands run.
pub(super) struct Shell {
    printer: Printer,
    program: PathBuf,
    folder: PathBuf,
    cache: PathBuf,
}

impl Shell {
    /// Commands run in `folder`, with `cache` as their cache.
    pub(super) fn new(printer: Printer, folder: &Path, cache: &Path) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|e| cannot("find this program", &e))?;
        Ok(Shell { printer, program, folder: folder.to_owned(), cache: cache.to_owned() })
    }

    /// The same, in another folder (where `macluster.yaml` is).
    pub(super) fn in_folder(&self, folder: &Path) -> Self {
        Shell {
            printer: self.printer,
            program: self.program.clone(),
            folder: folder.to_owned(),
            cache: self.cache.clone(),
        }
    }

    /// A sentence between commands.
    pub(super) fn say(&self, text: &str) {
        self.printer.out(&format!("\n# {text}"));
    }

    /// Shows a command line of any program.
    pub(super) fn show(&self, program: &str, args: &[&str]) {
        let words: Vec<String> = args.iter().map(|a| quote(a)).collect();
        self.printer.out(&format!("$ {program} {}", words.join(" ")));
    }

    /// A child process in this folder that dies with the demo.
    pub(super) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.folder)
            .env("MACLUSTER_CACHE", &self.cache)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command of this binary to its end; its exit code must be one of `good`.
    pub(super) async fn run(&self, args: &[&str], good: &[Exit]) -> Result<(), Failure> {
        self.show("macluster", args);
        let status = self.command(&self.program, args).status().await.map_err(|e| cannot("start macluster", &e))?;
        Self::judge(args, status.code(), good)
    }

    /// Runs a command of this binary and gives its standard output, which is shown too.
    pub(super) async fn capture(&self, args: &[&str]) -> Result<String, Failure> {
        self.show("macluster", args);
        let child = self
            .command(&self.program, args)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| cannot("start macluster", &e))?;
        let output = child.wait_with_output().await.map_err(|e| cannot("run macluster", &e))?;
        Self::judge(args, output.status.code(), &[Exit::Ok])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        self.printer.out(&text);
        Ok(text)
    }

    fn judge(args: &[&str], code: Option<i32>, good: &[Exit]) -> Result<(), Failure> {
        if good.iter().any(|e| Some(i32::from(e.code())) == code) {
            return Ok(());
        }
        let how = code.map_or("was ended by a signal".to_owned(), |c| format!("ended with exit code {c}"));
        Err(Failure::new(Exit::Unexpected, format!("`macluster {}` {how}; its own words are above", args.join(" "))))
    }

    /// Starts a command of this binary in the background; `hidden` arguments are not shown.
    pub(super) fn background(&self, args: &[&str], hidden: &[&str]) -> Result<Background, Failure> {
        let words: Vec<String> = args.iter().map(|a| quote(a)).collect();
        self.printer.out(&format!("$ macluster {} &", words.join(" ")));
        let all: Vec<&str> = args.iter().chain(hidden).copied().collect();
        let mut command = self.command(&self.program, &all);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| cannot("start macluster", &e))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Background {
            name: args.join(" "),
            child: Mutex::new(Some(child)),
            stdin: Mutex::new(stdin),
            stdout: tokio::sync::Mutex::new(stdout),
        })
    }

    /// Shows what a background command prints until one line satisfies `found`; the rest keeps being read and dropped.
    async fn until<T>(&self, background: &Background, found: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        let mut guard = background.stdout.lock().await;
        let Some(stdout) = guard.as_mut() else {
            return Err(cannot("read", &background.name));
        };
        let read = async {
            let mut line = String::new();
            loop {
                line.clear();
                if stdout.read_line(&mut line).await.map_err(|e| cannot("read", &e))? == 0 {
                    let name = &background.name;
                    return Err(Failure::new(
                        Exit::Unexpected,
                        format!("`macluster {name}` ended before it was ready"),
                    ));
                }
                self.printer.out(line.trim_end());
                if let Some(value) = found(&line) {
                    return Ok(value);
                }
            }
        };
        match tokio::time::timeout(READY_LIMIT, read).await {
            Ok(result) => result,
            Err(_) => Err(Failure::new(
                Exit::Unexpected,
                format!("`macluster {}` was not ready within {} s", background.name, READY_LIMIT.as_secs()),
            )),
        }
    }

    /// Waits until the rack has printed where its inventory is.
    pub(super) async fn follow(&self, sim: &Background, inventory: &Path) -> Result<(), Failure> {
        let inventory = inventory.display().to_string();
        self.until(sim, |line| line.contains(&inventory).then_some(())).await
    }

    /// Waits for the first `http://…` that the command prints.
    pub(super) async fn first_url(&self, tunnel: &Background) -> Result<String, Failure> {
        self.until(tunnel, |line| {
            let url = &line[line.find("http://")?..];
            Some(url.split_whitespace().next()?.trim_end_matches(['/', ',', '.']).to_owned())
        })
        .await
    }
}

/// A command running beside the story.
pub(super) struct Background {
    name: String,
    child: Mutex<Option<Child>>,
    stdin: Mutex<Option<ChildStdin>>,
    stdout: tokio::sync::Mutex<Option<BufReader<ChildStdout>>>,
}

impl Background {
    /// Ends it: closes its input (the rack ends by that), then asks with SIGTERM, and waits at most 20 s.
    pub(super) async fn stop(&self) {
        let stdin = self.stdin.lock().map(|mut s| s.take());
        drop(stdin);
        let child = self.child.lock().ok().and_then(|mut c| c.take());
        let Some(mut child) = child else { return };
        if tokio::time::timeout(Duration::from_secs(2), child.wait()).await.is_ok() {
            return;
        }
        if let Some(pid) = child.id().and_then(|p| i32::try_from(p).ok()).and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if tokio::time::timeout(Duration::from_secs(20), child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}
