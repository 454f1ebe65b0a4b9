//! The nodes' launchd: starts real programs from property lists, keeps them, stops them.
//!
//! It lives in the simulator's process; `launchctl`, wherever it runs, asks over a loopback socket (`state/launchd.json`
//! holds its port and a token). Shapes and statuses: samples/launchd, samples/system/launchctl.md.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::store::{Node, read_json, write_json};

mod job;
mod plan;
mod print;

use job::Job;

/// Where the simulator's launchd listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Door {
    port: u16,
    token: String,
}

/// A request of `launchctl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Request {
    token: String,
    node: String,
    uid: u32,
    ask: Ask,
}

/// What is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// `bootstrap system PLIST`.
    Bootstrap {
        /// The property list, a path of this machine.
        plist: String,
    },
    /// `bootout system/LABEL`.
    Bootout {
        /// Label.
        label: String,
    },
    /// `print system/LABEL`.
    Print {
        /// Label.
        label: String,
    },
    /// `kickstart [-k] [-p] system/LABEL`.
    Kickstart {
        /// Label.
        label: String,
        /// End it first.
        kill: bool,
        /// Say the process id.
        tell: bool,
    },
    /// `kill SIGNAL system/LABEL`.
    Signal {
        /// Label.
        label: String,
        /// Signal number.
        signal: i32,
    },
    /// `list [LABEL]`.
    List {
        /// Label; none for the table.
        label: Option<String>,
    },
}

/// What `launchctl` prints, and its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Answer {
    fn silent() -> Self {
        Answer::default()
    }

    fn failed(status: i32, text: &str) -> Self {
        Answer { status, stdout: String::new(), stderr: format!("{text}\n") }
    }

    /// No job of that label: 113, as `print` says it.
    fn unknown(label: &str) -> Self {
        Answer::failed(113, &format!("Bad request.\nCould not find service \"{label}\" in domain for system"))
    }
}

/// Asks the simulator's launchd; blocks. Fails when the rack is down.
pub(super) fn ask(node: &Node, uid: u32, ask: Ask) -> io::Result<Answer> {
    use std::io::{Read, Write};
    let door: Door = read_json(&door(&node.dir, node.inside.then_some(&node.name)))?;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", door.port))?;
    let request = Request { token: door.token, node: node.name.clone(), uid, ask };
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

/// One for the whole rack, or for each node where it runs in namespaces of its own.
fn door(dir: &Path, own: Option<&str>) -> PathBuf {
    dir.join("state").join(own.map_or("launchd.json".to_owned(), |node| format!("{node}.launchd.json")))
}

/// Whose jobs they are.
#[derive(Clone, Debug)]
enum Place {
    /// Those of every node of this rack.
    Rack(PathBuf),
    /// Those of this node.
    Node(Node),
}

type Jobs = Arc<Mutex<BTreeMap<(String, String), Arc<Job>>>>;

/// Every node's launchd.
#[derive(Debug)]
pub(super) struct Launchd {
    jobs: Jobs,
}

impl Launchd {
    /// Opens the socket; requests are served until `stop` changes. `own` is the only node, where this process runs in its
    /// namespaces.
    pub(super) async fn start(dir: &Path, own: Option<&Node>, stop: watch::Receiver<bool>) -> io::Result<Launchd> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut token = [0; 16];
        {
            use std::io::Read;
            std::fs::File::open("/dev/urandom")?.read_exact(&mut token)?;
        }
        let opened = Door { port: listener.local_addr()?.port(), token: hex::encode(token) };
        // Readable by the owner alone, as every file that `write_json` makes.
        write_json(&door(dir, own.map(|n| n.name.as_str())), &opened)?;
        let jobs = Jobs::default();
        let at = own.cloned().map_or_else(|| Place::Rack(dir.to_owned()), Place::Node);
        tokio::spawn(serve(listener, at, opened.token, Arc::clone(&jobs), stop));
        Ok(Launchd { jobs })
    }

    /// Starts nothing any more.
    pub(super) fn abandon(&self) {
        for job in lock(&self.jobs).values() {
            job.abandon();
        }
    }

    /// What a power failure leaves of a node's jobs: nothing. Their processes are the caller's to end.
    pub(super) fn forget(&self, node: &Node) {
        lock(&self.jobs).retain(|(name, _), job| {
            if *name == node.name {
                job.abandon();
            }
            *name != node.name
        });
    }

    /// What launchd does at boot: loads every property list of `/Library/LaunchDaemons` that it accepts, by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn boot(&self, node: &Node) -> io::Result<()> {
        let folder = std::fs::read_dir(node.rooted("/Library/LaunchDaemons"))?;
        let mut lists: Vec<_> = folder.collect::<io::Result<Vec<_>>>()?.into_iter().map(|e| e.path()).collect();
        lists.retain(|p| p.extension().is_some_and(|e| e == "plist"));
        lists.sort();
        for list in lists {
            // What it refuses it only writes into a log of its own.
            let _ = bootstrap(node, &list.to_string_lossy(), &self.jobs);
        }
        Ok(())
    }

    /// Stops every job of every node.
    pub(super) async fn stop(&self) {
        let jobs: Vec<Arc<Job>> = lock(&self.jobs).values().cloned().collect();
        futures::future::join_all(jobs.iter().map(|job| job.end())).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, at: Place, token: String, jobs: Jobs, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    tokio::spawn(answer(stream, at.clone(), token.clone(), Arc::clone(&jobs)));
                }
            }
            _ = stop.changed() => return,
        }
    }
}

async fn answer(mut stream: TcpStream, at: Place, token: String, jobs: Jobs) {
    let (read, mut write) = stream.split();
    let mut line = Vec::new();
    // A request is a few hundred bytes; whoever sends more is not launchctl.
    if BufReader::new(read.take(64 * 1024)).read_until(b'\n', &mut line).await.is_err() {
        return;
    }
    let Ok(request) = serde_json::from_slice::<Request>(&line) else { return };
    if request.token != token {
        return;
    }
    let node = match at {
        Place::Rack(dir) => Node::of(&dir, &request.node),
        Place::Node(node) => node,
    };
    let reply = handle(&node, request.uid, request.ask, &jobs).await;
    if let Ok(text) = serde_json::to_vec(&reply) {
        let _ = write.write_all(&text).await;
        let _ = write.shutdown().await;
    }
}

/// How long `bootout` waits before it says "in progress", as launchctl does now and then.
const BOOTOUT_PATIENCE: Duration = Duration::from_secs(8);

async fn handle(node: &Node, uid: u32, ask: Ask, jobs: &Jobs) -> Answer {
    let find = |label: &str| lock(jobs).get(&(node.name.clone(), label.to_owned())).cloned();
    let changes =
        matches!(ask, Ask::Bootstrap { .. } | Ask::Bootout { .. } | Ask::Kickstart { .. } | Ask::Signal { .. });
    if changes && uid != 0 {
        let what = match &ask {
            Ask::Bootstrap { .. } => "Bootstrap failed: 1: Operation not permitted",
            Ask::Bootout { .. } => "Boot-out failed: 1: Operation not permitted",
            // Guess: not captured for the other two.
            _ => "Not privileged to start service.",
        };
        return Answer::failed(1, what);
    }
    match ask {
        Ask::Bootstrap { plist } => bootstrap(node, &plist, jobs),
        Ask::Bootout { label } => {
            let Some(job) = find(&label) else { return Answer::failed(3, "Boot-out failed: 3: No such process") };
            let ended = {
                let job = Arc::clone(&job);
                let (jobs, key) = (Arc::clone(jobs), (node.name.clone(), label));
                tokio::spawn(async move {
                    job.end().await;
                    lock(&jobs).remove(&key);
                })
            };
            match tokio::time::timeout(BOOTOUT_PATIENCE, ended).await {
                Ok(_) => Answer::silent(),
                Err(_) => Answer::failed(36, "Boot-out failed: 36: Operation now in progress"),
            }
        }
        Ask::Print { label } => match find(&label) {
            Some(job) => Answer { stdout: print::service(&job), ..Answer::default() },
            None => Answer::unknown(&label),
        },
        Ask::Kickstart { label, kill, tell } => match find(&label) {
            Some(job) => {
                let pid = job.kickstart(kill).await;
                let stdout = match (tell, pid) {
                    (true, Some(pid)) => format!("{pid}\n"),
                    _ => String::new(),
                };
                Answer { stdout, ..Answer::default() }
            }
            None => Answer::failed(113, &format!("Could not find service \"{label}\" in domain for system")),
        },
        Ask::Signal { label, signal } => match find(&label) {
            Some(job) if job.signal(signal) => Answer::silent(),
            Some(_) => Answer::failed(3, "Could not signal service: 3: No such process"),
            None => Answer::failed(113, &format!("Could not find service \"{label}\" in domain for system")),
        },
        Ask::List { label } => list(node, label.as_deref(), jobs),
    }
}

fn bootstrap(node: &Node, plist: &str, jobs: &Jobs) -> Answer {
    let plan = match plan::read(node, Path::new(plist)) {
        Ok(plan) => plan,
        Err(why) => return Answer::failed(why.status(), &why.text()),
    };
    let key = (node.name.clone(), plan.label.clone());
    let mut jobs = lock(jobs);
    if let Some(old) = jobs.get(&key) {
        return if old.is_ending() {
            Answer::failed(37, "Bootstrap failed: 37: Operation already in progress")
        } else {
            Answer::failed(5, "Bootstrap failed: 5: Input/output error")
        };
    }
    let job = Job::load(node.clone(), plan);
    jobs.insert(key, job);
    Answer::silent()
}

fn list(node: &Node, label: Option<&str>, jobs: &Jobs) -> Answer {
    let jobs = lock(jobs);
    let mine: Vec<&Arc<Job>> = jobs.iter().filter(|((n, _), _)| *n == node.name).map(|(_, j)| j).collect();
    match label {
        None => {
            let rows: String = mine.iter().map(|j| print::row(j)).collect();
            Answer { stdout: format!("PID\tStatus\tLabel\n{rows}"), ..Answer::default() }
        }
        Some(label) => match mine.iter().find(|j| j.plan.label == label) {
            Some(job) => Answer { stdout: print::dictionary(job), ..Answer::default() },
            None => Answer::failed(113, &format!("Could not find service \"{label}\" in domain for system")),
        },
    }
}
