//! Several agents, as processes, on this machine: real TLS, real processes; their engines are scripts, so that a bad
//! day takes seconds. `reliability.rs` has the same days with real engines.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use macluster::agent::certify::{self, Identity};
use macluster::agent::tls;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::binary;

/// Says what an engine says, joins when told so, beats, and stops when asked.
const ENGINE: &str = r#"#!/bin/bash
say() { printf '%s\n' "$1"; }
trap 'say "{\"event\":\"stopped\",\"reason\":\"SIGTERM\"}"; exit 0' TERM
say '{"event":"starting"}'
[ -e "$HOME/dies" ] && { echo 'no such tensor' >&2; exit 4; }
say '{"event":"armed"}'
read -r word || exit 0
[ "$word" = go ] || exit 0
say '{"event":"joining"}'
say '{"event":"ready"}'
while :; do
  say '{"event":"beat","phase":"idle"}'
  read -r -t 0.2 word
  [ $? -gt 128 ] || exit 0
done
"#;

struct Group {
    dir: tempfile::TempDir,
    agents: Vec<Option<Child>>,
    leader: SocketAddr,
    identities: Vec<Identity>,
}

impl Group {
    fn start(ranks: u32) -> Self {
        let mut group = Self::prepare(ranks);
        for rank in 0..ranks {
            group.run(rank);
        }
        group
    }

    fn prepare(ranks: u32) -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        let leader = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
        let (identities, until) = certify::issue(ranks, Timestamp::now()).expect("certificates");
        let group = Group { dir, agents: (0..ranks).map(|_| None).collect(), leader, identities };
        for rank in 0..ranks {
            group.lay_out(rank, ranks, until);
        }
        group
    }

    fn base(&self, rank: u32) -> PathBuf {
        self.dir.path().join(format!("n{rank}/opt/macluster"))
    }

    /// Only rank 0 of three, with these certificates, once it listens.
    fn with_leader_of(identities: &[Identity]) -> Self {
        let mut group = Self::prepare(3);
        group.identities = identities.to_vec();
        group.lay_out(0, 3, Timestamp::now());
        group.run(0);
        group.listens();
        group
    }

    #[track_caller]
    fn listens(&self) {
        let started = Instant::now();
        while TcpStream::connect(self.leader).is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "nobody listens\n{}", self.log(0));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn lay_out(&self, rank: u32, ranks: u32, until: Timestamp) {
        let base = self.base(rank);
        for folder in ["releases/r1/venv/bin", "etc", "var/run", "var/log", "var/engine"] {
            std::fs::create_dir_all(base.join(folder)).expect("folder");
        }
        let python = base.join("releases/r1/venv/bin/python");
        std::fs::write(&python, ENGINE).expect("script");
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let api = (rank == 0).then(|| json!({"host": "127.0.0.1", "port": 1}));
        let file = json!({
            "schema_version": 1, "rack": "r", "node": format!("n{rank}"), "release": "r1", "rank": rank,
            "world_size": ranks, "backend": "ring", "mlx_backend": "ring", "env": {},
            "model": {"path": "/m", "id": "m"}, "trust_remote_code": false, "api": api, "start_timeout_s": 30.0,
            "idle_sync_s": 0.5,
        });
        let agents: Vec<Value> = (0..ranks)
            .map(|n| {
                let address = if n == 0 { self.leader.to_string() } else { format!("127.0.0.1:{}", 2 + n) };
                json!({"node": format!("n{n}"), "address": address, "filevault": null})
            })
            .collect();
        let agent = json!({
            "schema_version": 1, "launch": "aa", "uid": rustix::process::getuid().as_raw(),
            "gid": rustix::process::getgid().as_raw(), "agents": agents, "certificates_until": until,
        });
        let identity = &self.identities[rank as usize];
        for (name, text) in [
            ("rank.json", file.to_string()),
            ("agent.json", agent.to_string()),
            ("ca.pem", identity.authority.clone()),
            ("agent.pem", identity.certificate.clone()),
            ("agent.key", identity.key.clone()),
        ] {
            std::fs::write(base.join("etc").join(name), text).expect(name);
        }
    }

    fn run(&mut self, rank: u32) {
        let child = Command::new(binary())
            .args(["agent", "--install", "/opt/macluster", "--root"])
            .arg(self.dir.path().join(format!("n{rank}")))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.agents[rank as usize] = Some(child.expect("the agent starts"));
    }

    fn status(&self, rank: u32) -> Value {
        let text = std::fs::read_to_string(self.base(rank).join("var/run/status.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn log(&self, rank: u32) -> String {
        std::fs::read_to_string(self.base(rank).join("var/log/engine.log")).unwrap_or_default()
    }

    #[track_caller]
    fn until(&self, what: &str, limit: u64, good: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let started = Instant::now();
        let ranks = u32::try_from(self.agents.len()).expect("few");
        loop {
            let all: Vec<Value> = (0..ranks).map(|rank| self.status(rank)).collect();
            if good(&all) {
                return all;
            }
            let logs: Vec<String> = (0..ranks).map(|rank| self.log(rank)).collect();
            assert!(started.elapsed() < Duration::from_secs(limit), "no {what}: {all:#?}\n{}", logs.join("\n----\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All ranks serve in this epoch.
    #[track_caller]
    fn serving(&self, epoch: u64, limit: u64) -> Vec<Value> {
        self.until(&format!("epoch {epoch}"), limit, |all| {
            all.iter().all(|s| s["state"] == "ready" && s["epoch"] == epoch && s["group"]["phase"] == "serving")
        })
    }

    fn signal(pid: &Value, signal: Signal) {
        let pid = pid.as_i64().and_then(|p| i32::try_from(p).ok()).and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("signalled");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for agent in self.agents.iter_mut().flatten() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
        // Engines end with their agents; one that a test has stopped cannot.
        for rank in 0..self.agents.len() {
            let status = self.status(u32::try_from(rank).expect("few"));
            if let Some(pid) = status["engine_pid"].as_i64().and_then(|p| i32::try_from(p).ok()).and_then(Pid::from_raw)
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

#[test]
fn a_killed_engine_stops_all_ranks_and_all_start_again_in_one_epoch() {
    let group = Group::start(3);
    let before = group.serving(1, 30);
    Group::signal(&before[1]["engine_pid"], Signal::KILL);
    let after = group.serving(2, 40);
    for (old, new) in before.iter().zip(&after) {
        assert_ne!(old["engine_pid"], new["engine_pid"], "every rank has a new engine");
        assert_eq!(old["agent_pid"], new["agent_pid"]);
        let restart = &new["group"]["restarts"][0];
        assert_eq!((&restart["node"], &restart["epoch"]), (&json!("n1"), &json!(1)), "every node knows why");
        assert!(restart["why"].as_str().expect("words").contains("signal 9"), "{restart}");
    }
    assert_eq!(after[1]["debits"], 1, "an engine that was killed may have kept RDMA resources");
    assert_eq!(after[0]["debits"], 0);
}

#[test]
fn a_killed_agent_takes_its_engine_along_and_its_successor_joins_in() {
    let mut group = Group::start(3);
    let before = group.serving(1, 30);
    for victim in [2, 0] {
        let epoch = group.status(0)["epoch"].as_u64().expect("a number");
        let mut agent = group.agents[victim as usize].take().expect("running");
        agent.kill().expect("killed");
        agent.wait().expect("ends");
        group.run(victim);
        group.serving(epoch + 1, 40);
    }
    let after = group.serving(3, 1);
    assert_ne!(before[1]["engine_pid"], after[1]["engine_pid"]);
    assert_eq!(before[1]["agent_pid"], after[1]["agent_pid"]);
}

#[test]
fn an_engine_that_stands_still_is_noticed_and_ended() {
    let group = Group::start(2);
    let before = group.serving(1, 30);
    let stopped = Instant::now();
    Group::signal(&before[1]["engine_pid"], Signal::STOP);
    let after = group.serving(2, 70);
    assert!(stopped.elapsed() >= Duration::from_secs(15), "it had its fifteen seconds");
    let restart = &after[0]["group"]["restarts"][0];
    assert_eq!((&restart["node"], &restart["kind"]), (&json!("n1"), &json!("stuck")), "{restart}");
}

#[test]
fn an_engine_that_dies_every_time_ends_in_degraded_and_not_in_a_loop() {
    let mut group = Group::prepare(2);
    std::fs::write(group.base(1).join("var/engine/dies"), "").expect("written");
    group.run(0);
    group.run(1);
    let all = group.until("degraded", 120, |all| all.iter().all(|s| s["group"]["phase"] == "degraded"));
    assert_eq!((&all[0]["epoch"], &all[0]["group"]["attempts"]), (&json!(5), &json!(5)));
    assert!(all[1]["group"]["why"].as_str().expect("words").contains("no such tensor"), "{}", all[1]);
    assert_eq!(all[0]["engine_pid"], Value::Null);
    // A new agent of the same boot does not begin a new loop.
    let mut agent = group.agents[0].take().expect("running");
    agent.kill().expect("killed");
    agent.wait().expect("ends");
    group.run(0);
    let pid = group.agents[0].as_ref().expect("running").id();
    let all =
        group.until("degraded again", 30, |all| all[0]["agent_pid"] == pid && all[0]["group"]["phase"] == "degraded");
    assert_eq!(all[0]["epoch"], 0, "no engine was started");
}

#[test]
fn agents_that_are_asked_to_end_leave_nothing_behind() {
    let mut group = Group::start(3);
    let before = group.serving(1, 30);
    for agent in group.agents.iter().flatten() {
        Group::signal(&json!(agent.id()), Signal::TERM);
    }
    for agent in &mut group.agents {
        assert_eq!(agent.take().expect("running").wait().expect("ends").code(), Some(0));
    }
    for rank in 0..3 {
        let pid = before[rank as usize]["engine_pid"].as_u64().expect("a pid");
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
        let status = group.status(rank);
        assert_eq!((&status["state"], &status["failures"]), (&json!("stopped"), &json!([])), "{status}");
    }
}

// ---- strangers -----------------------------------------------------------------------------------------------

/// Connects as an agent would and gives the first bytes that come back in the clear, after saying hello.
fn knock(leader: SocketAddr, identity: &Identity, rank: u32) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let identity = identity.clone();
    runtime.block_on(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let stream = tokio::net::TcpStream::connect(leader).await.map_err(|e| e.to_string())?;
        let name = tls::name_of(0)?;
        let mut stream = tls::connector(&identity)?.connect(name, stream).await.map_err(|e| e.to_string())?;
        let hello = json!({"protocol": 1, "node": format!("n{rank}"), "rank": rank, "release": "r1", "launch": "aa"});
        stream.write_all(format!("{hello}\n").as_bytes()).await.map_err(|e| e.to_string())?;
        let mut bytes = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut bytes)).await;
        let n = read.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&bytes[..n]).into_owned())
    })
}

#[test]
fn a_stranger_gets_nothing_from_the_agents_port() {
    let mut group = Group::prepare(3);
    group.run(0);
    group.listens();
    // As a rank of the cluster would: the counter-proof, without which nothing below means anything.
    let order = knock(group.leader, &group.identities[1], 1).expect("an order");
    assert!(order.starts_with(r#"{"epoch":"#), "{order}");

    // A certificate of another cluster's authority.
    let (others, _) = certify::issue(3, Timestamp::now()).expect("certificates");
    let mixed = Identity { authority: group.identities[1].authority.clone(), ..others[1].clone() };
    let said = knock(group.leader, &mixed, 1);
    assert!(said.as_ref().map_or(true, String::is_empty), "{said:?}");
    // Of the leader's own authority, one that has expired, and one that does not hold yet. Clocks may differ by a day.
    let (now, hours) = (Timestamp::now(), SignedDuration::from_hours);
    let ages = [now, now - certify::VALID - hours(1), now + certify::BACKDATED + hours(1)];
    let outside = certify::issue_at(now, &ages).expect("certificates");
    let ages = [now, now - certify::VALID + hours(1), now + certify::BACKDATED - hours(1)];
    let inside = certify::issue_at(now, &ages).expect("certificates");
    for (identities, good) in [(&outside, false), (&inside, true)] {
        let group = Group::with_leader_of(identities);
        for (rank, identity) in (1..).zip(&identities[1..]) {
            let said = knock(group.leader, identity, rank).unwrap_or_default();
            assert_eq!(said.starts_with(r#"{"epoch":"#), good, "{said}");
        }
        if !good {
            group.until("a refusal in the log", 15, |_| group.log(0).matches("refused a connection").count() >= 2);
        }
    }
    // The certificate of one rank in the name of another.
    let said = knock(group.leader, &group.identities[2], 1);
    assert!(said.as_ref().map_or(true, String::is_empty), "{said:?}");
    // No TLS at all, and no certificate: nothing in the clear but an alert of TLS.
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &b"\n"[..], &[0x16, 3, 1, 0xff, 0xff][..]] {
        let mut stream = TcpStream::connect(group.leader).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
        stream.write_all(bytes).expect("written");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() <= 16 && answer.first().is_none_or(|b| *b == 0x15), "{answer:?}");
    }
    // All the same the cluster comes up.
    group.run(1);
    group.run(2);
    group.serving(1, 40);
}

#[test]
fn a_recorded_handshake_said_again_is_worth_nothing() {
    let mut group = Group::prepare(2);
    group.run(0);
    group.listens();
    // A man in the middle who records what a real rank says.
    let middle = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, leader) = (middle.local_addr().expect("bound"), group.leader);
    let recorder = std::thread::spawn(move || {
        let (mut client, _) = middle.accept().expect("a client");
        let mut server = TcpStream::connect(leader).expect("connected");
        let (mut from_server, mut to_client) =
            (server.try_clone().expect("a copy"), client.try_clone().expect("a copy"));
        let back = std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_server, &mut to_client);
        });
        let mut record = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = client.read(&mut chunk) {
            record.extend_from_slice(&chunk[..n]);
            let _ = server.write_all(&chunk[..n]);
        }
        drop(server);
        let _ = back.join();
        record
    });
    let order = knock(address, &group.identities[1], 1).expect("an order, through the recorder");
    assert!(order.starts_with(r#"{"epoch":"#), "{order}");
    let record = recorder.join().expect("no panic");
    assert!(record.len() > 500, "a whole handshake");
    let mut again = TcpStream::connect(leader).expect("connected");
    again.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    let _ = again.write_all(&record);
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    // The server's part of a handshake is encrypted for a key that the replayer has not; no order comes.
    let refused = group.until("a refusal in the log", 15, |_| group.log(0).contains("refused a connection"));
    assert_eq!(refused[0]["group"]["missing"], json!(["n1"]), "nobody was taken for rank 1");
}
