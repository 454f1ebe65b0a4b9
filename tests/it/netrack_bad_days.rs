//! A service's bad days, one after the other on one rack, each with real engines: how long until it serves again, what
//! became of the requests meanwhile, and whether any process is left over.
//!
//! `tests/reliability` runs this alone and writes the table into docs/reliability.md.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::netrack::rack::NetRack;
use crate::netrack::serve::{self, deploy, serving_after, status};
use crate::netrack::{clock, ready};
use crate::support::{Ran, runtime};

/// One row of the table.
struct Row {
    fault: &'static str,
    /// Until the first answer after the fault; none where the service went on.
    again: Option<Duration>,
    /// Requests that were under way and ended with an error of the API.
    told: usize,
    /// Requests that were under way and whose connection broke.
    broken: usize,
    what: String,
}

/// At once.
const CLIENTS: usize = 3;

/// When a request was made, when it ended, and how.
type Asked = (Instant, Instant, Result<(), String>);

/// Clients that ask all the time, each one request after the other: one is served, the others wait for their turn.
struct Clients {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Asked>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Clients {
    fn start(rack: &NetRack, number: usize) -> Clients {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let client = |_| {
            let asker = serve::Asker::new(rack, number);
            let (ends, list) = (Arc::clone(&stop), Arc::clone(&seen));
            std::thread::spawn(move || {
                while !ends.load(Ordering::SeqCst) {
                    let begin = Instant::now();
                    let result = asker.ask().map(drop);
                    let refused = result.is_err();
                    list.lock().expect("no panic").push((begin, Instant::now(), result));
                    // An endpoint that refuses at once is not asked a thousand times a second.
                    std::thread::sleep(Duration::from_millis(if refused { 200 } else { 20 }));
                }
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Clients { stop, seen, threads }
    }

    /// When the service was last missed after this moment.
    fn missed_after(&self, from: Instant) -> Instant {
        let seen = self.seen.lock().expect("no panic");
        let missed = seen.iter().rfind(|(_, end, r)| *end >= from && r.is_err());
        missed.map_or(from, |(begin, _, _)| *begin)
    }

    /// Waits for an answer that was asked for after this moment.
    fn answered_after(&self, from: Instant) -> Instant {
        let limit = Instant::now() + Duration::from_secs(240);
        loop {
            let seen = self.seen.lock().expect("no panic");
            if let Some((_, end, _)) = seen.iter().find(|(begin, _, r)| *begin >= from && r.is_ok()) {
                return *end;
            }
            let last = seen.last().map(|(_, _, r)| r.clone());
            drop(seen);
            assert!(Instant::now() < limit, "no answer: {last:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends them; gives what became of requests that were under way when the service went: told, broken.
    fn lost(self) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
        let seen = self.seen.lock().expect("no panic");
        let bad = seen.iter().filter_map(|(begin, end, r)| Some((begin, end, r.as_ref().err()?)));
        // Refused: nobody took the request, so nobody lost it.
        let taken: Vec<_> = bad.filter(|(.., why)| !why.contains("curl: (7)")).collect();
        let gone = taken.iter().map(|(_, end, _)| **end).min();
        let (told, broken): (Vec<_>, Vec<_>) = taken.into_iter().partition(|(.., why)| why.contains("\"error\""));
        if !broken.is_empty() {
            eprintln!("broken connections: {broken:#?}");
        }
        // Who asks a service that is about to stop is told to come again: nothing of it was under way.
        let told: Vec<_> = told.iter().filter(|(begin, ..)| gone.is_some_and(|gone| **begin < gone)).collect();
        (told.len(), broken.len())
    }
}

/// The rack, and what has happened so far.
struct Day {
    rack: NetRack,
    rows: Vec<Row>,
    rank0: usize,
    victim: usize,
}

impl Day {
    fn epoch(&self) -> u64 {
        status(&self.rack).1.iter().filter_map(|n| n["epoch"].as_u64()).max().unwrap_or(0)
    }

    fn node(&self, number: usize) -> Value {
        status(&self.rack).1[number - 1].clone()
    }

    /// The process of the engine that computes.
    fn worker(&self, number: usize) -> u64 {
        let node = self.node(number);
        let all = node["processes"].as_array().expect("processes");
        let worker = all.iter().find(|p| p["command"].as_str().is_some_and(|c| c.contains("inference.worker")));
        worker.and_then(|p| p["pid"].as_u64()).unwrap_or_else(|| panic!("no worker: {node}"))
    }

    fn kill(&self, number: usize, signal: &str, pid: u64) {
        self.rack.inside(number, &format!("kill -{signal} {pid}"));
    }

    /// A fault that the agents mend by themselves. Whoever asked gets an error of the API.
    fn heals(&mut self, fault: &'static str, what: &str, hurt: impl FnOnce(&mut Day)) {
        let (told, broken) = self.heals_after(fault, what, hurt);
        assert!(told <= CLIENTS && broken == 0, "{fault}: {told} told, {broken} broken");
    }

    /// The same; gives what became of requests. More than those under way are never lost.
    fn heals_after(&mut self, fault: &'static str, what: &str, hurt: impl FnOnce(&mut Day)) -> (usize, usize) {
        let epoch = self.epoch();
        let client = Clients::start(&self.rack, self.rank0);
        client.answered_after(Instant::now());
        let from = Instant::now();
        hurt(self);
        serving_after(&self.rack, epoch);
        // The service has gone and come back: what is asked from now on is answered.
        let end = client.answered_after(from.max(client.missed_after(from)));
        let (told, broken) = client.lost();
        self.nothing_left_over(fault);
        self.row(Row { fault, again: Some(end - from), told, broken, what: what.to_owned() });
        (told, broken)
    }

    /// A fault that the service does not notice.
    fn goes_on(&mut self, fault: &'static str, what: &str, hurt: impl FnOnce(&mut Day)) {
        let epoch = self.epoch();
        let client = Clients::start(&self.rack, self.rank0);
        client.answered_after(Instant::now());
        hurt(self);
        client.answered_after(Instant::now());
        let (told, broken) = client.lost();
        assert_eq!((self.epoch(), told + broken), (epoch, 0), "{fault}: the service was touched");
        self.nothing_left_over(fault);
        self.row(Row { fault, again: None, told, broken, what: what.to_owned() });
    }

    fn row(&mut self, row: Row) {
        self.rows.push(row);
        write(&self.rows);
    }

    /// One agent, one engine and its worker on every node; nothing else of the runtime.
    #[track_caller]
    fn nothing_left_over(&self, fault: &str) {
        for node in status(&self.rack).1 {
            let all = node["processes"].as_array().expect("processes");
            assert_eq!(all.len(), 3, "{fault}: {all:#?}");
        }
    }
}

/// A bundle of another id: its program has a byte more.
fn other_bundle(dir: &Path) -> PathBuf {
    let agent = dir.join("macluster");
    let mut bytes = std::fs::read(crate::support::binary()).expect("readable");
    bytes.push(b'\n');
    std::fs::write(&agent, bytes).expect("written");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("rights");
    let output = crate::support::command(runtime::cache())
        .args(["bundle", "build", "--platform", "host", "-o", "json", "--agent"])
        .arg(&agent)
        .env("MACLUSTER_CACHE", runtime::cache())
        .stdin(std::process::Stdio::null())
        .output()
        .expect("macluster runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    PathBuf::from(report["path"].as_str().expect("a folder"))
}

fn deploy_of(rack: &NetRack, bundle: &Path) -> Ran {
    rack.macluster(&["deploy", "--yes", "--bundle", bundle.to_str().expect("UTF-8")])
}

#[test]
fn every_fault_is_survived() {
    if !ready("netrack_bad_days::every_fault_is_survived") {
        return;
    }
    let rack = serve::rack(3);
    clock::install(&rack);
    deploy(&rack).expect(0);
    let first = serving_after(&rack, 0);
    let rank0 = rack.numbers().find(|n| first[n - 1]["rank"] == 0).expect("a rank 0");
    let victim = rack.numbers().rfind(|n| *n != rank0).expect("another");
    let mut day = Day { rack, rows: Vec::new(), rank0, victim };

    day.heals("kill -9 of one engine", "all ranks stop and start again in one epoch", |d| {
        let pid = d.node(d.victim)["engine_pid"].as_u64().expect("a pid");
        d.kill(d.victim, "KILL", pid);
    });
    day.heals("kill -9 of one agent", "launchd starts it again; its engine had ended by itself", |d| {
        let pid = d.node(d.victim)["agent_pid"].as_u64().expect("a pid");
        d.kill(d.victim, "KILL", pid);
    });
    day.heals("kill -9 of rank 0's agent", "the others wait for it", |d| {
        let pid = d.node(d.rank0)["agent_pid"].as_u64().expect("a pid");
        d.kill(d.rank0, "KILL", pid);
    });
    day.heals("SIGSTOP of one engine's worker", "no sign of life for 15 s; it is killed", |d| {
        let pid = d.worker(d.victim);
        d.kill(d.victim, "STOP", pid);
    });
    // The engine that was killed first, and the worker.
    assert_eq!(day.node(victim)["killed_engines_since_boot"], 2, "an end that can cost RDMA resources is counted");
    day.heals("SIGSTOP of rank 0's worker", "the same; its engine process answers its clients", |d| {
        let pid = d.worker(d.rank0);
        d.kill(d.rank0, "STOP", pid);
    });
    day.heals("management network of one node cut for 20 s", "all stop; when it is back, all start", |d| {
        d.rack.management(d.victim, false);
        std::thread::sleep(Duration::from_secs(20));
        d.rack.management(d.victim, true);
    });
    day.heals("restart of one node", "the others wait for it", |d| {
        let victim = d.victim;
        d.rack.reboot(victim);
    });
    // The machine that would say it is gone.
    let (told, broken) = day.heals_after("restart of all nodes", "without anybody's help", |d| {
        for number in d.rack.numbers() {
            d.rack.reboot(number);
        }
    });
    assert!(told + broken <= CLIENTS, "{told} told, {broken} broken");
    day.goes_on("clock of one node an hour ahead", "nothing is measured by the clock on the wall", |d| {
        clock::jump(&d.rack, d.victim, 3600);
        std::thread::sleep(Duration::from_secs(8));
        clock::jump(&d.rack, d.victim, 0);
    });

    dies_every_time(&mut day);
    deploys_that_fail(&mut day);
}

/// An engine that cannot start any more: the budget of starts, then degraded, and no loop.
fn dies_every_time(day: &mut Day) {
    let fault = "engine that dies at load every time";
    let model = day
        .rack
        .root(day.victim)
        .join("opt/macluster/models")
        .join(runtime::tiny_sixths().file_name().expect("a name"));
    let config = model.join("config.json");
    let kept = std::fs::read(&config).expect("readable");
    std::fs::write(&config, "{").expect("written");
    let clients = Clients::start(&day.rack, day.rank0);
    clients.answered_after(Instant::now());
    let from = Instant::now();
    let pid = day.node(day.victim)["engine_pid"].as_u64().expect("a pid");
    day.kill(day.victim, "KILL", pid);
    let started = Instant::now();
    let group = loop {
        let group = day.node(day.rank0)["group"].clone();
        if group["phase"] == "degraded" {
            break group;
        }
        assert!(started.elapsed() < Duration::from_secs(240), "{group}");
    };
    let degraded = from.elapsed();
    assert_eq!(group["attempts"], 5, "{group}");
    let human = day.rack.macluster(&["status"]).stdout;
    assert!(human.contains("degraded: nothing is started any more"), "{human}");
    let epoch = day.epoch();
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(day.epoch(), epoch, "nothing is started any more");
    std::fs::write(&config, kept).expect("written");
    let from = Instant::now();
    day.rack.macluster(&["restart"]).expect(0);
    let what = format!("degraded after 5 starts, {} s; then mended, and `macluster restart`", degraded.as_secs());
    let again = Some(clients.answered_after(from) - from);
    let (told, broken) = clients.lost();
    assert!(told <= CLIENTS && broken == 0, "{told} told, {broken} broken");
    day.nothing_left_over(fault);
    day.row(Row { fault, again, told, broken, what });
}

fn deploys_that_fail(day: &mut Day) {
    let scratch = tempfile::tempdir().expect("a folder");
    let other = other_bundle(scratch.path());
    let victim = day.victim;

    day.goes_on("disk full during push", "the deploy fails with 9; the service goes on", |d| {
        let staging = "/opt/macluster/staging";
        // Room for the program that is sent first, not for the bundle.
        let size = std::fs::metadata(crate::support::binary()).expect("a program").len() + (30 << 20);
        d.rack.inside(victim, &format!("mkdir -p {staging} && mount -t tmpfs -o size={size} tmpfs {staging}"));
        let ran = deploy_of(&d.rack, &other).expect(9);
        assert!(ran.stderr.contains(&format!("studio-{victim}")), "{}", ran.stderr);
        assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
        d.rack.inside(victim, &format!("umount {staging} && rm -rf {staging}"));
    });
    day.goes_on("wrong model on one node", "the deploy fails with 9 and names the node", |d| {
        let name = runtime::tiny_sixths().file_name().expect("a name");
        let config = d.rack.root(victim).join("opt/macluster/models").join(name).join("config.json");
        let kept = std::fs::read(&config).expect("readable");
        let text = String::from_utf8_lossy(&kept).replace("\"qwen3\"", "\"llama\"");
        assert_ne!(text.as_bytes(), kept, "another model");
        std::fs::write(&config, text).expect("written");
        let ran = deploy(&d.rack).expect(9);
        assert!(ran.stderr.contains(&format!("studio-{victim}")) && ran.stderr.contains("qwen3"), "{}", ran.stderr);
        std::fs::write(&config, kept).expect("written");
    });
    // Both begin at the same moment; one deploys, the other waits for its turn, or is told who does.
    let fault = "two operators deploy at once";
    let clients = Clients::start(&day.rack, day.rank0);
    clients.answered_after(Instant::now());
    let from = Instant::now();
    let two = std::thread::scope(|scope| {
        let one = scope.spawn(|| deploy(&day.rack));
        let other = scope.spawn(|| deploy(&day.rack));
        [one.join().expect("no panic"), other.join().expect("no panic")]
    });
    let again = clients.answered_after(from.max(clients.missed_after(from))) - from;
    let (told, broken) = clients.lost();
    assert!(told <= CLIENTS && broken == 0, "{told} told, {broken} broken");
    assert!(two.iter().any(|r| r.status == 0), "{}\n{}", two[0].stderr, two[1].stderr);
    for refused in two.iter().filter(|r| r.status != 0) {
        let told = refused.stderr.contains("another operation on the runtime is under way");
        assert!(refused.status == 9 && told, "{}", refused.stderr);
    }
    day.nothing_left_over(fault);
    let what = "one deploys, the other waits a moment for its turn, or is refused and told who does".to_owned();
    day.row(Row { fault, again: Some(again), told, broken, what });

    // A wheel that has rotted on a node is sent again, and nothing else.
    let fault = "corrupted wheel on one node";
    let release = day.node(victim)["release"].as_str().expect("a release").to_owned();
    let wheels = day.rack.root(victim).join("opt/macluster/releases").join(&release).join("wheels");
    let wheel = std::fs::read_dir(&wheels).expect("wheels").flatten().map(|e| e.path()).next().expect("a wheel");
    let mut bytes = std::fs::read(&wheel).expect("readable");
    let whole = bytes.clone();
    bytes[100] ^= 0xff;
    std::fs::write(&wheel, bytes).expect("written");
    let clients = Clients::start(&day.rack, day.rank0);
    clients.answered_after(Instant::now());
    let from = Instant::now();
    deploy(&day.rack).expect(0);
    let again = clients.answered_after(from.max(clients.missed_after(from))) - from;
    let (told, broken) = clients.lost();
    assert!(told <= CLIENTS && broken == 0, "{told} told, {broken} broken");
    assert_eq!(std::fs::read(&wheel).expect("readable"), whole);
    day.nothing_left_over(fault);
    let what = "found by its hash, sent again".to_owned();
    day.row(Row { fault, again: Some(again), told, broken, what });
}

/// The table, where `tests/reliability` asks for it.
fn write(rows: &[Row]) {
    let mut text = String::from(
        "| fault | serves again after | requests under way: told of an error | connection broke | what happens |\n\
         |---|---|---|---|---|\n",
    );
    for row in rows {
        let again = row.again.map_or_else(|| "goes on".to_owned(), |a| format!("{:.0} s", a.as_secs_f64()));
        let _ = writeln!(text, "| {} | {again} | {} | {} | {} |", row.fault, row.told, row.broken, row.what);
    }
    if let Some(path) = std::env::var_os("MACLUSTER_FAULT_TABLE") {
        std::fs::write(path, &text).expect("written");
    }
}
