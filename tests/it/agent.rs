//! The agent as a process. Here its engine is a script, because it must do what a real engine does only on a bad
//! day; `deploy.rs` runs the agent with the real one.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::binary;

/// A node's folder with a scripted engine, and its agent.
struct Node {
    dir: tempfile::TempDir,
    agent: Option<Child>,
}

const LAUNCH: &str = "00112233aabbccdd";
const HEAD: &str = "#!/bin/sh\nsay() { printf '%s\\n' \"$1\"; }\n";

impl Node {
    /// `script` is the engine's body; `say '{json}'` prints an event.
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("tempdir");
        let node = Node { dir, agent: None };
        for folder in ["releases/r1/venv/bin", "etc", "var/run", "var/log", "var/engine"] {
            std::fs::create_dir_all(node.base().join(folder)).expect("folder");
        }
        let python = node.base().join("releases/r1/venv/bin/python");
        std::fs::write(&python, format!("{HEAD}{script}")).expect("script");
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).expect("mode");
        node.configure(&json!({"MLX_RANK": "0", "MLX_HOSTFILE": "/x/hostfile.json"}), 120.0);
        node
    }

    fn base(&self) -> PathBuf {
        self.dir.path().join("opt/macluster")
    }

    fn configure(&self, env: &Value, start_timeout_s: f64) {
        let rank = json!({
            "schema_version": 1, "rack": "test-rack", "node": "n1", "release": "r1", "rank": 0, "world_size": 1,
            "backend": "ring", "mlx_backend": "ring", "env": env, "model": {"path": "/m", "id": "m"},
            "trust_remote_code": false, "api": {"host": "127.0.0.1", "port": 8080},
            "start_timeout_s": start_timeout_s, "idle_sync_s": 0.5,
        });
        let me = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let agents = json!([{"node": "n1", "address": "127.0.0.1:1", "filevault": null}]);
        let agent = json!({
            "schema_version": 1, "launch": LAUNCH, "uid": me, "gid": group, "agents": agents,
            "certificates_until": "2030-01-01T00:00:00Z",
        });
        std::fs::write(self.base().join("etc/rank.json"), rank.to_string()).expect("rank.json");
        std::fs::write(self.base().join("etc/agent.json"), agent.to_string()).expect("agent.json");
    }

    fn start(&mut self) {
        let child = self.command().spawn().expect("the agent starts");
        self.agent = Some(child);
    }

    fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command
            .args(["agent", "--install", "/opt/macluster", "--root"])
            .arg(self.dir.path())
            .env("LEAKED", "from the agent's own environment")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn status(&self) -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(self.base().join("var/run/status.json")).ok()?).ok()
    }

    /// Waits until the status is in this state.
    #[track_caller]
    fn wait(&self, state: &str) -> Value {
        self.until(&format!("state {state}"), |s| s["state"] == state)
    }

    #[track_caller]
    fn until(&self, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.as_ref().filter(|s| good(s)) {
                return status.clone();
            }
            assert!(started.elapsed() < Duration::from_secs(20), "no {what}: {status:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.base().join("var/log/engine.log")).unwrap_or_default()
    }

    fn pid(&self) -> u32 {
        self.agent.as_ref().expect("started").id()
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("signalled");
    }

    /// The agent's exit status.
    fn ended(&mut self) -> i32 {
        let mut agent = self.agent.take().expect("started");
        let started = Instant::now();
        loop {
            if let Some(status) = agent.try_wait().expect("waitable") {
                return status.code().unwrap_or(-1);
            }
            if started.elapsed() > Duration::from_secs(30) {
                let _ = agent.kill();
                panic!("the agent did not end\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn alive(pid: &Value) -> bool {
    let pid = pid.as_u64().expect("a pid");
    Path::new(&format!("/proc/{pid}")).exists()
        || Command::new("/bin/ps")
            .args(["-p", &pid.to_string()])
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
}

#[track_caller]
fn gone(pid: &Value) {
    let started = Instant::now();
    while alive(pid) {
        assert!(started.elapsed() < Duration::from_secs(20), "process {pid} is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const START: &str = "say '{\"event\":\"starting\",\"pid\":4711}'\nsay '{\"event\":\"armed\"}'\n";
const SERVE: &str = "read word\n[ \"$word\" = go ] || exit 0\nsay '{\"event\":\"joining\"}'\nsay '{\"event\":\"ready\",\"api\":\"127.0.0.1:8080\",\"model\":\"m\"}'\n";
/// Ends at the end of standard input, and at once on SIGTERM, as an engine does.
const STAY: &str = "trap 'say \"{\\\"event\\\":\\\"stopped\\\",\\\"reason\\\":\\\"SIGTERM\\\"}\"; exit 0' TERM\nexec 3<&0\ncat <&3 >/dev/null &\nwait $!\n";

#[test]
fn an_engine_is_started_with_exactly_its_environment() {
    let mut node = Node::new(&format!("env >\"$HOME/env\"\necho \"$@\" >\"$HOME/args\"\n{START}{SERVE}{STAY}"));
    node.start();
    let ready = node.wait("ready");
    assert_eq!(ready["api"], "127.0.0.1:8080");
    assert_eq!(ready["agent_pid"], node.pid());
    assert_eq!((&ready["rank"], &ready["world_size"], &ready["epoch"]), (&json!(0), &json!(1), &json!(1)));
    assert!(alive(&ready["engine_pid"]));

    let home = node.base().join("var/engine");
    let env = std::fs::read_to_string(home.join("env")).expect("environment");
    let mut names: Vec<&str> = env.lines().filter_map(|l| l.split_once('=')).map(|(name, _)| name).collect();
    // The shell that plays the engine adds some of its own.
    names.retain(|n| !["PWD", "OLDPWD", "SHLVL", "_"].contains(n));
    names.sort_unstable();
    let expected = [
        "HF_HUB_OFFLINE",
        "HOME",
        "MLX_HOSTFILE",
        "MLX_RANK",
        "PATH",
        "TOKENIZERS_PARALLELISM",
        "TRANSFORMERS_OFFLINE",
    ];
    assert_eq!(names, expected);
    let args = std::fs::read_to_string(home.join("args")).expect("arguments");
    let config = node.base().join("etc/rank.json");
    assert_eq!(args.trim(), format!("-I -m macluster_inference.engine --config {}", config.display()));

    node.signal(rustix::process::Signal::TERM);
    assert_eq!(node.ended(), 0);
    gone(&ready["engine_pid"]);
    let stopped = node.status().expect("a status");
    assert_eq!((&stopped["state"], &stopped["reason"]), (&json!("stopped"), &json!("SIGTERM")));
    assert_eq!(stopped["engine_pid"], Value::Null);
}

#[test]
fn an_engine_that_dies_is_reported_with_its_cause_and_last_words() {
    let error = r#"say '{"event":"error","kind":"does-not-split","message":"9 heads do not divide by 2","fatal":true,"node":"n1"}'"#;
    let mut node = Node::new(&format!("{START}{error}\nexit 4\n"));
    node.start();
    let failed = node.wait("failed");
    assert_eq!(failed["error"]["kind"], "does-not-split");
    assert_eq!(failed["error"]["message"], "9 heads do not divide by 2");
    assert_eq!(failed["exit"], "exit 4");
    let again = node.until("another start", |s| s["epoch"] == 2);
    assert_eq!(again["failures"][0]["error"]["kind"], "does-not-split", "what failed is remembered");
    assert_eq!(again["group"]["restarts"][0]["why"], "9 heads do not divide by 2");
    node.signal(rustix::process::Signal::TERM);
    assert_eq!(node.ended(), 0);

    let mut node = Node::new(&format!("{START}printf 'first\\nno such \\033[31mtensor\\n' >&2\nkill -9 $$\n"));
    node.start();
    let failed = node.wait("failed");
    assert_eq!(failed["error"]["kind"], "internal");
    let message = failed["error"]["message"].as_str().expect("words");
    assert!(message.contains("signal 9") && message.contains("no such \\u{1b}[31mtensor"), "{message}");
}

#[test]
fn noise_on_standard_output_is_logged_and_believed_by_nobody() {
    let flood = "i=0; while [ $i -lt 3000 ]; do say \"noise $i ready\"; i=$((i+1)); done\n";
    let mut node = Node::new(&format!("{flood}say '{{\"event\":\"ready\"'\n{START}{SERVE}{STAY}"));
    node.start();
    node.wait("ready");
    let log = node.log();
    assert!(log.contains("not an event of the engine") && log.contains("noise 2999 ready"), "the log has it all");
    node.signal(rustix::process::Signal::INT);
    assert_eq!(node.ended(), 0);
}

#[test]
fn an_engine_that_ignores_the_request_is_killed_with_what_it_started() {
    let mut node = Node::new(&format!(
        "trap '' TERM\n{START}{SERVE}sleep 300 &\necho $! >\"$HOME/child\"\nwhile :; do sleep 1; done\n"
    ));
    node.start();
    let ready = node.wait("ready");
    node.until("the engine's child", |_| node.base().join("var/engine/child").exists());
    let child = std::fs::read_to_string(node.base().join("var/engine/child")).expect("pid");
    let child = json!(child.trim().parse::<u64>().expect("a pid"));
    let asked = Instant::now();
    node.signal(rustix::process::Signal::TERM);
    assert_eq!(node.ended(), 0);
    assert!(asked.elapsed() >= Duration::from_secs(14), "it had its time");
    gone(&ready["engine_pid"]);
    gone(&child);
    let stopped = node.status().expect("a status");
    assert_eq!((&stopped["state"], &stopped["exit"]), (&json!("stopped"), &json!("signal 9")));
    assert!(stopped["reason"].as_str().expect("a reason").contains("killed"), "{stopped}");
}

#[test]
fn an_agent_that_is_killed_leaves_no_engine_and_the_next_one_takes_over() {
    let mut node = Node::new(&format!("{START}{SERVE}{STAY}"));
    node.start();
    let ready = node.wait("ready");
    let mut second = node.command().spawn().expect("starts");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(node.status().expect("a status")["agent_pid"], node.pid(), "a second agent waits for the first");
    node.signal(rustix::process::Signal::KILL);
    assert_eq!(node.ended(), -1);
    gone(&ready["engine_pid"]);
    let again = node.until("the second agent's word", |s| s["agent_pid"] == second.id() && s["state"] == "ready");
    assert_eq!(again["epoch"], 2, "epochs go on");
    second.kill().expect("killed");
    second.wait().expect("waited");
}

#[test]
fn a_limit_that_makes_no_sense_is_refused() {
    let mut node = Node::new(START);
    node.configure(&json!({}), -1.0);
    node.start();
    let failed = node.wait("failed");
    assert!(failed["error"]["message"].as_str().expect("words").contains("start_timeout_s"), "{failed}");
}

#[test]
fn a_configuration_that_cannot_be_used_is_a_failure_that_is_reported() {
    let mut node = Node::new("exit 0");
    std::fs::write(node.base().join("etc/rank.json"), "{\"schema_version\":1,\"surprise\":2}").expect("written");
    node.start();
    let failed = node.wait("failed");
    let message = failed["error"]["message"].as_str().expect("words");
    assert!(
        failed["error"]["kind"] == "agent" && message.contains("rank.json") && message.contains("surprise"),
        "{message}"
    );
    node.signal(rustix::process::Signal::TERM);
    assert_eq!(node.ended(), 0);

    let mut node = Node::new("exit 0");
    std::fs::remove_file(node.base().join("releases/r1/venv/bin/python")).expect("removed");
    node.start();
    let message = node.wait("failed")["error"]["message"].to_string();
    assert!(message.contains("releases/r1/venv/bin/python"), "{message}");
}
