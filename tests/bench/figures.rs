//! Prints figures; judges nothing. `cargo bench --bench figures`.
#![allow(clippy::print_stdout, reason = "figures are its output")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use macluster::event::silent;
use macluster::model::{Access, NodeName, Snapshot};
use macluster::remote::fleet::{ConnectOptions, Fleet};
use macluster::remote::prompt::Nobody;
use macluster::sim::Rack;

/// `system_profiler` on a Mac takes about this long; the slowest probe by far.
const PROFILER: Duration = Duration::from_millis(400);

fn main() {
    // `cargo test --benches` must not run a benchmark.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("| figure | median | least | limit |\n|---|---|---|---|");
    let (median, least) = time(50, || run(Path::new("/"), &["--version"]));
    row("macluster --version", median, least, "10 ms");
    runtime.block_on(racks());
}

async fn racks() {
    let rack = Rack::builder().binary(binary()).nodes(6).prepared(true).start().await.expect("a rack");
    let dir = rack.dir.clone();
    run(&dir, &["snapshot", "six.json"]);
    let text = std::fs::read_to_string(dir.join("six.json")).expect("a snapshot");
    let eight = eight_nodes(&text);
    std::fs::write(dir.join("eight.json"), eight).expect("written");
    let (median, least) = time(20, || run(&dir, &["doctor", "--from", "eight.json"]));
    row("doctor --from, 8 nodes", median, least, "50 ms");
    rack.stop().await.expect("stopped");

    let rack = Rack::builder()
        .binary(binary())
        .nodes(3)
        .prepared(true)
        .profiler_delay(PROFILER)
        .start()
        .await
        .expect("a rack");
    let dir = rack.dir.clone();
    let (doctor, least) = time(5, || run(&dir, &["doctor"]));
    let handshake = handshake(&dir.join("macluster.yaml")).await;
    let limit = (handshake + PROFILER).mul_f64(1.5);
    row("doctor live, 3 nodes, system_profiler 400 ms", doctor, least, &format!("{} ms", limit.as_millis()));
    row("  of which SSH handshakes (3 at once)", handshake, handshake, "-");
    rack.stop().await.expect("stopped");
}

/// Median time to connect to all nodes of the rack.
async fn handshake(inventory: &Path) -> Duration {
    let inventory = macluster::parse::inventory::load(Some(inventory)).expect("an inventory");
    let options =
        ConnectOptions { access: Access::Read, accept_new_host_keys: false, parallel: 32, prompt: Arc::new(Nobody) };
    let mut times = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let fleet = Fleet::connect(&inventory, &options, &silent()).await;
        times.push(begin.elapsed());
        assert_eq!(fleet.reached().count(), inventory.nodes.len());
    }
    times.sort();
    times[times.len() / 2]
}

/// A rack of six has as many cables as a mesh can; two nodes are counted twice to make eight records.
fn eight_nodes(text: &str) -> String {
    let mut snapshot: Snapshot = serde_json::from_str(text).expect("a snapshot");
    let doubled: BTreeMap<NodeName, _> = snapshot.nodes.iter().take(2).map(|(n, r)| (n.clone(), r.clone())).collect();
    for (index, (_, record)) in doubled.into_iter().enumerate() {
        let name: NodeName = format!("copy-{index}").parse().expect("a name");
        let port = 7000 + index * 10;
        let line = format!("  - {{ name: {name}, host: 192.0.2.{index}, agent_port: {port} }}\nnetwork:");
        snapshot.inventory = snapshot.inventory.replacen("network:", &line, 1);
        snapshot.nodes.insert(name, record);
    }
    serde_json::to_string(&snapshot).expect("JSON")
}

fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_macluster")
}

fn run(dir: &Path, args: &[&str]) {
    let output = Command::new(binary()).args(args).current_dir(dir).stdin(Stdio::null()).output().expect("it runs");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 4)), "{args:?}: {code:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn time(times: usize, work: impl Fn()) -> (Duration, Duration) {
    let mut all: Vec<Duration> = (0..times)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        })
        .collect();
    all.sort();
    (all[all.len() / 2], all[0])
}

fn row(name: &str, median: Duration, least: Duration, limit: &str) {
    let ms = |d: Duration| format!("{:.1} ms", d.as_secs_f64() * 1000.0);
    println!("| {name} | {} | {} | {limit} |", ms(median), ms(least));
}
