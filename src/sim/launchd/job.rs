//! One loaded job and its process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;

use super::lock;
use super::plan::{KeepAlive, Plan};
use crate::sim::multicall::UID;
use crate::sim::owners;
use crate::sim::processes;
use crate::sim::program::{Resolved, inside, resolve};
use crate::sim::store::Node;
use crate::sim::tools::PATH_DIRS;

/// How the last process of a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It never did.
    Never,
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started at all.
    Spawn,
}

/// What changes while a job is loaded.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub(super) pid: Option<u32>,
    pub(super) runs: u32,
    pub(super) last: Last,
    /// A start is due.
    pub(super) scheduled: bool,
    /// It is being stopped for good.
    pub(super) ending: bool,
    started: Option<Instant>,
}

/// A loaded job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) node: Node,
    pub(super) plan: Plan,
    now: Mutex<Now>,
    /// Counts changes; whoever waits for one watches it.
    changed: watch::Sender<u64>,
}

impl Job {
    /// Loads a job and starts it if its property list says so.
    pub(super) fn load(node: Node, plan: Plan) -> Arc<Job> {
        let now = Now { pid: None, runs: 0, last: Last::Never, scheduled: false, ending: false, started: None };
        let start = plan.run_at_load || plan.keep_alive == KeepAlive::Yes;
        let interval = plan.interval;
        let job = Arc::new(Job { node, plan, now: Mutex::new(now), changed: watch::Sender::new(0) });
        if start {
            job.spawn();
        }
        if let Some(interval) = interval {
            tokio::spawn(every(Arc::clone(&job), interval));
        }
        job
    }

    /// The job as it is.
    pub(super) fn now(&self) -> Now {
        lock(&self.now).clone()
    }

    pub(super) fn is_ending(&self) -> bool {
        lock(&self.now).ending
    }

    fn set(&self, change: impl FnOnce(&mut Now)) {
        change(&mut lock(&self.now));
        self.changed.send_modify(|n| *n += 1);
    }

    /// Starts the process now, unless it runs or the job is going away.
    fn spawn(self: &Arc<Self>) {
        let busy = {
            let now = lock(&self.now);
            now.pid.is_some() || now.ending
        };
        if busy {
            return;
        }
        match self.start_process() {
            Ok(child) => {
                let pid = child.id();
                if let Some(pid) = pid {
                    processes::started(&self.node, pid, self.plan.uid);
                }
                self.set(|now| {
                    now.pid = pid;
                    now.runs += 1;
                    now.scheduled = false;
                    now.started = Some(Instant::now());
                });
                tokio::spawn(Arc::clone(self).watch(child));
            }
            Err(_) => self.set(|now| {
                now.runs += 1;
                now.scheduled = false;
                now.last = Last::Spawn;
            }),
        }
    }

    fn start_process(&self) -> io::Result<Child> {
        let plan = &self.plan;
        let program = match resolve(&self.node, &plan.program, &self.node.root) {
            Resolved::Tool(..) => PathBuf::from(&plan.program),
            Resolved::Program(path) => path,
            Resolved::Denied => return Err(io::ErrorKind::PermissionDenied.into()),
            Resolved::Missing => return Err(io::ErrorKind::NotFound.into()),
        };
        let folder = match &plan.folder {
            Some(folder) => self.reach(Path::new(folder))?,
            None => self.node.root.clone(),
        };
        let output = |path: &Option<String>| -> io::Result<Stdio> {
            match path {
                None => Ok(Stdio::null()),
                Some(path) if path == "/dev/null" => Ok(Stdio::null()),
                Some(path) => Ok(Stdio::from(self.open(Path::new(path))?)),
            }
        };
        let path: Vec<String> = PATH_DIRS.iter().map(|d| self.node.rooted(d).display().to_string()).collect();
        let mut command = tokio::process::Command::new(program);
        command
            .args(plan.argv.get(1..).unwrap_or_default())
            .env_clear()
            .env("PATH", path.join(":"))
            .env("OSLogRateLimit", "64")
            .env("XPC_SERVICE_NAME", &plan.label);
        if let Some(user) = &plan.user {
            let home = self.node.rooted("/Users").join(user);
            command.env("USER", user).env("LOGNAME", user).env("HOME", home).env("SHELL", "/bin/zsh");
        }
        command
            .envs(&plan.env)
            .env(UID, plan.uid.to_string())
            .current_dir(folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(output(&plan.stdout)?)
            .stderr(output(&plan.stderr)?)
            .spawn()
    }

    /// A path of the property list, which must lie in the node.
    fn reach(&self, path: &Path) -> io::Result<PathBuf> {
        inside(&self.node, path).ok_or_else(|| {
            self.node.trip(&format!("{} names a path outside the node: {}", self.plan.label, path.display()));
            io::ErrorKind::PermissionDenied.into()
        })
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let place = self.reach(path)?;
        let new = !place.exists();
        let file = OpenOptions::new().create(true).append(true).open(&place)?;
        if new {
            owners::created(&self.node, self.plan.uid, &[place])?;
        }
        Ok(file)
    }

    /// Waits for the process's end, cleans its group up, and starts it again when it is to be kept alive.
    async fn watch(self: Arc<Self>, mut child: Child) {
        let pid = child.id().unwrap_or(0);
        let status = child.wait().await;
        // launchd ends what a dead job left in its process group.
        processes::end_group(pid);
        processes::ended(&self.node, pid);
        let last = match status.map(|s| (s.code(), s.signal())) {
            Ok((Some(code), _)) => Last::Code(code),
            Ok((None, Some(signal))) => Last::Signal(signal),
            _ => Last::Spawn,
        };
        let again = match self.plan.keep_alive {
            KeepAlive::No => false,
            KeepAlive::Yes => true,
            KeepAlive::OnSuccess(success) => success == (last == Last::Code(0)),
        };
        let mut wait = Duration::ZERO;
        self.set(|now| {
            now.pid = None;
            now.last = last;
            now.scheduled = again && !now.ending;
            wait = self.plan.throttle.saturating_sub(now.started.map_or(Duration::ZERO, |s| s.elapsed()));
        });
        if again {
            self.restart_after(wait).await;
        }
    }

    /// Starts the process again, unless the job is stopped or started meanwhile.
    async fn restart_after(self: &Arc<Self>, wait: Duration) {
        let mut changed = self.changed.subscribe();
        let stopped = async {
            loop {
                {
                    let now = lock(&self.now);
                    if now.ending || !now.scheduled {
                        return;
                    }
                }
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => self.spawn(),
            () = stopped => {}
        }
    }

    /// Sends a signal to the process; `false` when there is none.
    pub(super) fn signal(&self, number: i32) -> bool {
        let pid = lock(&self.now).pid;
        let signal = match number {
            1 => Signal::HUP,
            2 => Signal::INT,
            9 => Signal::KILL,
            15 => Signal::TERM,
            30 => Signal::USR1,
            31 => Signal::USR2,
            _ => return false,
        };
        pid.is_some_and(|pid| processes::signal(pid, Some(signal)))
    }

    /// Waits until no process runs, asks first, forces after the exit timeout.
    async fn end_process(&self) {
        let mut changed = self.changed.subscribe();
        let gone = async {
            while lock(&self.now).pid.is_some() {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::pin!(gone);
        self.signal(15);
        // 0 means for ever on macOS; a rack that stops cannot wait so long.
        let patience = if self.plan.exit_timeout.is_zero() { Duration::from_secs(60) } else { self.plan.exit_timeout };
        if tokio::time::timeout(patience, &mut gone).await.is_err() {
            self.signal(9);
            gone.await;
        }
    }

    /// It is started no more.
    pub(super) fn abandon(&self) {
        self.set(|now| {
            now.ending = true;
            now.scheduled = false;
        });
    }

    /// Stops it for good.
    pub(super) async fn end(&self) {
        self.abandon();
        self.end_process().await;
    }

    /// Starts it if it does not run; with `kill`, ends it first. Gives the process id.
    pub(super) async fn kickstart(self: &Arc<Self>, kill: bool) -> Option<u32> {
        if kill && lock(&self.now).pid.is_some() {
            self.end_process().await;
        }
        // A restart that is due is done now.
        self.set(|now| now.scheduled = false);
        self.spawn();
        lock(&self.now).pid
    }
}

/// `StartInterval`.
async fn every(job: Arc<Job>, interval: Duration) {
    let mut changed = job.changed.subscribe();
    loop {
        let ended = async {
            while !lock(&job.now).ending {
                if changed.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => job.spawn(),
            () = ended => return,
        }
    }
}
