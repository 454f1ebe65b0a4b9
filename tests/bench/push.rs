//! A push beside `scp -r`: the same files to the same OpenSSH server, in turns; judges nothing.
//! `cargo bench --bench push`.
//!
//! Each side makes its connection, copies everything into an empty folder and ends. The push is what `deploy` does for a
//! node that has nothing: one archive, streamed to tar. The last row adds the node's own proof by hash, which scp lacks.
//! Only an optimised build says anything: without it this side is three times slower where bytes count.
#![allow(clippy::print_stdout, reason = "figures are its output")]

#[path = "../it/support/sshd.rs"]
#[allow(dead_code, reason = "tests use the rest of it")]
mod sshd;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use macluster::event::silent;
use macluster::model::command::TarEntry;
use macluster::model::{Access, Cmd, Stdin};
use macluster::phase::bundle::manifest::{MANIFEST_FILE, MANIFEST_VERSION, sha256_file};
use macluster::phase::bundle::{FileEntry, Manifest, Platform};
use macluster::remote::fleet::{ConnectOptions, Fleet};
use macluster::remote::prompt::Nobody;

/// Each way, in turns.
const ROUNDS: usize = 3;
/// The least share of scp's speed that is wanted.
const GOAL: f64 = 0.8;
/// Folder, files, bytes of each.
type Shape = (&'static str, usize, usize);
/// Two programs, the wheels, and a Python's many small files: scp waits for an answer after each.
const WITH_PYTHON: &[Shape] = &[("bin", 2, 50 << 20), ("wheels", 40, 3 << 19), ("python", 3000, 9 << 10)];
/// The same without a Python: what counts is bytes.
const WITHOUT: &[Shape] = &[("bin", 2, 50 << 20), ("wheels", 40, 3 << 19)];

fn main() {
    // `cargo test --benches` must not run a benchmark.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let Some(server) = sshd::Sshd::start("bench", &["ed25519"], "Subsystem sftp internal-sftp") else { return };
    let known = format!("[127.0.0.1]:{} {}\n", server.port, server.host_key("ed25519"));
    std::fs::write(server.path("known_hosts"), known).expect("written");
    for (title, shape) in [("a bundle with a Python", WITH_PYTHON), ("a bundle without", WITHOUT)] {
        compare(&server, title, shape);
    }
}

fn compare(server: &sshd::Sshd, title: &str, shape: &[Shape]) {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("bundle");
    let manifest = make(&files, shape);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");

    let (mut scps, mut pushes, mut proofs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        scps.push(timed(folder.path(), |target| scp(server, &files, target)));
        let mut proof = Duration::ZERO;
        let whole = timed(folder.path(), |target| proof = runtime.block_on(push(server, &files, &manifest, target)));
        pushes.push(whole.saturating_sub(proof));
        proofs.push(whole);
    }
    let bytes = manifest.total_bytes();
    println!("\n{title}: {} files, {} MB, median of {ROUNDS}\n", manifest.files.len(), bytes / 1_000_000);
    println!("| way | time | MB/s | speed to scp -r | goal |\n|---|---|---|---|---|");
    let scp = median(scps);
    row("scp -r", scp, scp, bytes, "-");
    row("push", median(pushes), scp, bytes, &format!("{GOAL}"));
    row("push with the proof by hash", median(proofs), scp, bytes, "-");
}

fn row(name: &str, time: Duration, scp: Duration, bytes: u64, goal: &str) {
    #[allow(clippy::cast_precision_loss, reason = "a few figures are shown")]
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    let ratio = scp.as_secs_f64() / time.as_secs_f64();
    println!("| {name} | {:.2} s | {rate:.0} | {ratio:.2} | {goal} |", time.as_secs_f64());
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Into a fresh folder, which is removed afterwards.
fn timed(parent: &Path, work: impl FnOnce(&Path)) -> Duration {
    let target = tempfile::tempdir_in(parent).expect("a folder");
    let begin = Instant::now();
    work(target.path());
    begin.elapsed()
}

/// Files that do not compress, and their manifest.
fn make(dir: &Path, shape: &[Shape]) -> Manifest {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut files = Vec::new();
    for &(folder, count, size) in shape {
        std::fs::create_dir_all(dir.join(folder)).expect("a folder");
        for n in 0..count {
            let path = format!("{folder}/{n:04}");
            let content: Vec<u8> = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .take(size / 8)
            .flatten()
            .collect();
            std::fs::write(dir.join(&path), &content).expect("written");
            let sha256 = sha256_file(&dir.join(&path), &mut |_| {}).expect("readable");
            files.push(FileEntry { path, size: content.len() as u64, sha256, mode: 0o644 });
        }
    }
    let mut manifest = Manifest {
        schema_version: MANIFEST_VERSION,
        id: String::new(),
        platform: Platform::host().unwrap_or(Platform::MacosArm64),
        python_minor: "3.12".to_owned(),
        python: None,
        macluster_version: env!("CARGO_PKG_VERSION").to_owned(),
        requirements: Vec::new(),
        files,
    };
    manifest.id = manifest.content_id();
    std::fs::write(dir.join(MANIFEST_FILE), serde_json::to_string(&manifest).expect("JSON")).expect("written");
    manifest
}

fn scp(server: &sshd::Sshd, files: &Path, target: &Path) {
    let status = Command::new("scp")
        .args(["-r", "-q", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-P"])
        .arg(server.port.to_string())
        .arg("-o")
        .arg(format!("UserKnownHostsFile={}", server.path("known_hosts").display()))
        .arg("-i")
        .arg(server.path("id"))
        .arg(files)
        .arg(format!("{}@127.0.0.1:{}", sshd::me(), target.display()))
        .stdin(Stdio::null())
        .status();
    assert!(status.expect("scp runs").success(), "scp failed\n{}", server.log());
}

/// Gives how long the proof took.
async fn push(server: &sshd::Sshd, files: &Path, manifest: &Manifest, target: &Path) -> Duration {
    let path = |name: &str| server.path(name).display().to_string();
    let text = format!(
        "ssh: {{ user: {}, identity: {}, known_hosts: {}, use_config: false }}\n\
         nodes:\n  - {{ name: node, host: 127.0.0.1, port: {} }}\n",
        sshd::me(),
        path("id"),
        path("known_hosts"),
        server.port
    );
    let inventory_file = server.path("macluster.yaml");
    std::fs::write(&inventory_file, text).expect("written");
    let inventory = macluster::parse::inventory::load(Some(&inventory_file)).expect("an inventory");
    let options =
        ConnectOptions { access: Access::Write, accept_new_host_keys: false, parallel: 1, prompt: Arc::new(Nobody) };
    let fleet = Fleet::connect(&inventory, &options, &silent()).await;
    let (_, remote) = fleet.reached().next().expect("a connection");
    let entry =
        |path: &str, size: u64| TarEntry { path: path.to_owned(), source: files.join(path).into(), mode: 0o644, size };
    let size = files.join(MANIFEST_FILE).metadata().expect("there").len();
    let mut entries = vec![entry(MANIFEST_FILE, size)];
    entries.extend(manifest.files.iter().map(|f| entry(&f.path, f.size)));
    let place = target.display().to_string();
    let mut receive = Cmd::write("/usr/bin/tar", ["-xf", "-", "-C", &place]).stdin(Stdin::Tar(entries));
    receive.timeout = Duration::from_secs(300);
    let output = remote.exec(receive).await.expect("it runs");
    assert!(output.ok(), "{}", output.describe());
    let begin = Instant::now();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_macluster")).display().to_string();
    let output = remote.exec(Cmd::read(&program, ["node", "verify", &place])).await.expect("it runs");
    assert!(output.ok(), "{}", output.describe());
    let proof = begin.elapsed();
    fleet.close().await;
    proof
}
