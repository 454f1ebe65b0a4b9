//! `macluster node inspect`: what a node's own macluster finds of the runtime there, for the checks of `doctor`.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::config::{self, AgentFile, RankFile};
use super::layout::Layout;
use super::model;
use super::report::{self, Report};
use super::status::State;
use super::wire::GroupPhase;
use crate::model::command::printable;
use crate::model::runtime_facts::{AgentFacts, FolderFacts, PortFacts, RUNTIME_VERSION, RankFacts, RuntimeFacts};
use crate::phase::bundle::Manifest;

/// Damaged files that are named.
const MOST_DAMAGED: usize = 5;
/// For the release's Python to import MLX: seconds on a cold disk.
const PYTHON_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);
/// What it says is one line.
const MOST_WORDS: u64 = 4096;

/// Looks at this node; none without an active release.
///
/// # Errors
/// When the agent's report cannot be read.
pub fn inspect(layout: &Layout) -> Result<Option<RuntimeFacts>, String> {
    let report = report::report(layout)?;
    let Some(release) = report.active.clone() else { return Ok(None) };
    let rank = rank(layout, &report);
    Ok(Some(RuntimeFacts {
        schema_version: RUNTIME_VERSION,
        damaged: damaged(layout, &release),
        python: python(&format!("{}/venv/bin/python", layout.release(&release))),
        agent: agent(&report),
        rank,
        release,
        now: report.now,
    }))
}

/// Sizes only: deploy proves every byte, and a disk that rots is found by `macluster deploy` again.
fn damaged(layout: &Layout, release: &str) -> Vec<String> {
    let folder = layout.release(release);
    let folder = std::path::Path::new(&folder);
    let manifest = match Manifest::read(folder) {
        Ok(manifest) => manifest,
        Err(why) => return vec![why],
    };
    let whole =
        |path: &str, size| std::fs::symlink_metadata(folder.join(path)).is_ok_and(|m| m.is_file() && m.len() == size);
    let bad = manifest.files.iter().filter(|f| !whole(&f.path, f.size)).map(|f| f.path.clone());
    bad.take(MOST_DAMAGED).collect()
}

fn rank(layout: &Layout, report: &Report) -> Option<RankFacts> {
    // Without a configuration the node stays idle; one that cannot be read is the agent's to tell.
    let rank: RankFile = config::read(&layout.rank_file()).ok()?;
    let agent: AgentFile = config::read(&layout.agent_file()).ok()?;
    let folder = std::path::Path::new(&rank.model.path);
    let found = model::look(folder).and_then(|seen| {
        let split = seen.splits.iter().find(|s| s.ranks == u64::from(rank.world_size));
        let share = split.map(|s| s.bytes.ok_or_else(|| s.why.clone().unwrap_or_default()));
        let digest = model::digest(folder)?;
        Ok(FolderFacts { model_type: seen.model_type, bytes: seen.bytes, digest, share })
    });
    Some(RankFacts {
        launch: agent.launch.clone(),
        release: rank.release.clone(),
        rank: rank.rank,
        world_size: rank.world_size,
        backend: rank.backend.clone(),
        model: rank.model.path.clone(),
        folder: found,
        certificates_until: agent.certificates_until,
        ports: ports(&rank, &agent, report),
    })
}

fn ports(rank: &RankFile, agent: &AgentFile, report: &Report) -> Vec<PortFacts> {
    let status = report.believed();
    let mut ports = Vec::new();
    // Rank 0's agent alone listens; alone, it has nobody to listen to.
    if let Some(own) = agent.agents.first().filter(|_| rank.rank == 0 && rank.world_size > 1) {
        let at = own.address.to_string();
        ports.push(PortFacts { what: "agent".to_owned(), taken: taken(own.address, status.is_some()), at });
    }
    if let Some(api) = &rank.api {
        let at = format!("{}:{}", api.host, api.port);
        let used = status.is_some_and(|s| s.engine_pid.is_some());
        let taken = at.parse().ok().and_then(|at| taken(at, used));
        ports.push(PortFacts { what: "API".to_owned(), taken, at });
    }
    ports
}

/// Why nobody can listen there; the one it is for has it already when `used`.
fn taken(at: SocketAddr, used: bool) -> Option<String> {
    if used { None } else { TcpListener::bind(at).err().map(|e| e.to_string()) }
}

fn agent(report: &Report) -> Option<AgentFacts> {
    let status = report.believed()?;
    let group = status.group.as_ref().filter(|g| g.phase == GroupPhase::Degraded);
    Some(AgentFacts {
        engine: status.state.as_str().to_owned(),
        epoch: status.epoch,
        error: status
            .error
            .as_ref()
            .filter(|_| status.state != State::Ready)
            .map(|e| format!("{}: {}", e.kind, e.message)),
        degraded: group.map(|g| g.why.clone().unwrap_or_default()),
        reach: status.reach.clone(),
    })
}

/// Starts the interpreter as the engine does, without what is in anybody's shell, and lets it import MLX.
fn python(path: &str) -> Result<String, String> {
    let code = "import importlib.util as u, mlx.core as mx\n\
                gone = [n for n in ('mlx_lm', 'macluster_inference') if u.find_spec(n) is None]\n\
                assert not gone, 'not installed: ' + ', '.join(gone)\n\
                print(mx.__version__)";
    let mut child = Command::new(path)
        .args(["-I", "-c", code])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {path}: {e}"))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < PYTHON_LIMIT => std::thread::sleep(PAUSE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("did not import MLX within {} s", PYTHON_LIMIT.as_secs()));
            }
            Err(e) => return Err(format!("cannot wait for {path}: {e}")),
        }
    };
    let words = |stream: Option<&mut dyn Read>| {
        let mut text = String::new();
        stream.map(|s| s.take(MOST_WORDS).read_to_string(&mut text));
        text
    };
    if status.success() {
        return Ok(printable(words(child.stdout.as_mut().map(|s| s as &mut dyn Read)).trim()));
    }
    let said = words(child.stderr.as_mut().map(|s| s as &mut dyn Read));
    let last = said.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("it says nothing");
    Err(format!("{}: {}", super::process::describe(status), printable(last)))
}
