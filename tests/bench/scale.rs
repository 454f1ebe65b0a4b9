//! How doctor grows with the rack; judges nothing. `cargo bench --bench scale`.
//!
//! Simulated racks in a process of their own, `system_profiler` takes 0.4 s on every node. What runs beside it on this
//! machine, the simulated nodes themselves above all, is in the times.
#![allow(clippy::print_stdout, reason = "figures are its output")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn main() {
    // `cargo test --benches` must not run a benchmark.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    println!("| nodes | doctor | one node after another | peak memory | limit |\n|---|---|---|---|---|");
    for (nodes, after_another, limit) in [(8, true, "-"), (64, true, "5 s, 150 MiB"), (512, false, "30 s, 150 MiB")] {
        let rack = Rack::start(nodes);
        let (time, memory) = rack.doctor(&[]);
        let slow = if after_another { seconds(rack.doctor(&["--parallel", "1"]).0) } else { "-".to_owned() };
        println!("| {nodes} | {} | {slow} | {:.0} MiB | {limit} |", seconds(time), memory);
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

struct Rack {
    dir: tempfile::TempDir,
    sim: Child,
}

impl Rack {
    fn start(nodes: usize) -> Rack {
        let dir = tempfile::tempdir().expect("a folder");
        let ready = dir.path().join("ready");
        let sim = Command::new(env!("CARGO_BIN_EXE_macluster"))
            .args(["sim", "--prepared", "--profiler-delay", "400", "--exit-with-stdin", "--nodes", &nodes.to_string()])
            .arg("--dir")
            .arg(dir.path().join("rack"))
            .arg("--ready-file")
            .arg(&ready)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the simulator runs");
        let begun = Instant::now();
        while !ready.exists() {
            assert!(begun.elapsed() < Duration::from_secs(300), "the rack does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        Rack { dir, sim }
    }

    /// Wall time and peak resident memory, MiB.
    fn doctor(&self, more: &[&str]) -> (Duration, f64) {
        let begun = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_macluster"))
            .args(["doctor", "-o", "json"])
            .args(more)
            .current_dir(self.dir.path().join("rack"))
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(self.dir.path().join("report.json")).expect("a file"))
            .stderr(Stdio::inherit())
            .spawn()
            .expect("doctor runs");
        let status = format!("/proc/{}/status", child.id());
        let mut peak = 0.0_f64;
        let code = loop {
            peak = peak.max(resident(Path::new(&status)).unwrap_or(0.0));
            match child.try_wait().expect("a child") {
                Some(ended) => break ended.code(),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let time = begun.elapsed();
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(self.dir.path().join("report.json")).expect("a report"))
                .expect("JSON");
        let silent = report["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .filter(|f| f["check"] == "host.facts" && f["verdict"] != "pass")
            .count();
        assert!(matches!(code, Some(0 | 4)) && silent == 0, "{code:?}, {silent} nodes were not read");
        (time, peak)
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        drop(self.sim.stdin.take());
        let _ = self.sim.wait();
    }
}

/// `VmHWM`, MiB.
fn resident(status: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(status).ok()?;
    let kib: f64 = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024.0)
}
