//! deploy, status, logs and stop on the simulated rack, with real engines and a real model.
//!
//! Every deploy takes the better part of a minute on two cores, so one rack lives through many days here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use macluster::sim::{Rack, RunningRack};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::support::{Ran, command, runtime};

/// What the tests of a deployed rack share: a rack with Python and model, and a bundle built before.
pub struct Bench {
    pub rack: RunningRack,
    bundle: PathBuf,
}

impl Bench {
    pub async fn of(nodes: usize) -> Self {
        Self::serving(nodes, runtime::tiny_thirds).await
    }

    /// With another model.
    pub async fn serving(nodes: usize, model: fn() -> &'static Path) -> Self {
        let prepared = tokio::task::spawn_blocking(move || {
            (runtime::bundle().to_owned(), runtime::interpreter(), model().to_owned())
        });
        let (bundle, python, model) = prepared.await.expect("bundle, Python and model");
        let rack = Rack::builder().binary(crate::support::binary()).nodes(nodes).python(python).model(model);
        Bench { rack: rack.start().await.expect("a rack"), bundle }
    }

    pub async fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&self.rack.inventory, args).await
    }

    /// With another inventory.
    async fn run_with(&self, inventory: &Path, args: &[&str]) -> Ran {
        let mut command = command(&self.rack.dir);
        command.arg("-f").arg(inventory).args(args).env("MACLUSTER_CACHE", runtime::cache());
        command.stdin(std::process::Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
        Ran {
            status: output.status.code().expect("an exit status"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    pub async fn deploy(&self) -> Ran {
        self.run(&["deploy", "--yes", "--bundle", self.bundle.to_str().expect("UTF-8")]).await
    }

    pub async fn status(&self, exit: i32) -> Vec<Value> {
        let report = self.run(&["status", "-o", "json"]).await.expect(exit).json();
        report["nodes"].as_array().expect("nodes").clone()
    }

    fn on(&self, node: &str, path: &str) -> PathBuf {
        self.rack.dir.join("nodes").join(node).join(path)
    }

    fn model(&self, node: &str) -> PathBuf {
        self.on(node, "opt/macluster/models/tiny-thirds")
    }

    /// Nothing reached beyond a node, and no process of any node is left.
    pub async fn done(self) {
        assert_eq!(self.rack.tripwire(), "", "something reached beyond a node");
        let dir = self.rack.dir.clone();
        self.rack.stop().await.expect("stops");
        assert_eq!(processes(&dir), Vec::<String>::new());
    }
}

/// Command lines of this machine's processes that name the folder and are not this test's own commands.
pub fn processes(dir: &Path) -> Vec<String> {
    let output = Command::new("/bin/ps").args(["-axo", "pid,command"]).output().expect("ps runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let own = |l: &&str| l.contains("macluster_inference") || l.contains("/bin/macluster agent");
    text.lines().filter(|l| l.contains(&*dir.to_string_lossy())).filter(own).map(str::to_owned).collect()
}

fn pids(nodes: &[Value], key: &str) -> BTreeSet<u64> {
    nodes.iter().map(|n| n[key].as_u64().unwrap_or_else(|| panic!("{key} in {n}"))).collect()
}

async fn ask(port: u16, question: &str) -> Value {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the endpoint answers");
    let body = json!({"messages": [{"role": "user", "content": question}], "max_tokens": 20, "temperature": 0});
    let (status, answer) =
        macluster::remote::http::post_json(Box::new(stream), "127.0.0.1", "/v1/chat/completions", &body)
            .await
            .expect("an answer");
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The inventory with its API elsewhere; gives the file and the port it had.
fn with_api(inventory: &Path, port: u16) -> (PathBuf, u16) {
    let text = std::fs::read_to_string(inventory).expect("readable");
    let (before, after) = text.split_once("127.0.0.1:").expect("an API address");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let path = inventory.with_file_name("other.yaml");
    let rest = after.strip_prefix(&digits).expect("digits");
    std::fs::write(&path, format!("{before}127.0.0.1:{port}{rest}")).expect("written");
    (path, digits.parse().expect("a port"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_is_deployed_survives_a_failed_deploy_and_is_stopped() {
    let bench = Bench::of(3).await;
    let names = ["studio-1", "studio-2", "studio-3"];
    let before: Vec<_> = names.map(|n| (n.to_owned(), tree(&bench.on(n, "")))).into();
    bench.status(10).await;
    bench.run(&["smoke"]).await.expect(10);
    bench.run(&["logs", "studio-1"]).await.expect(10);

    // The model is not whole everywhere: named before anything is touched.
    let away = bench.model("studio-2").with_extension("away");
    std::fs::rename(bench.model("studio-2"), &away).expect("moved");
    let ran = bench.deploy().await.expect(9);
    assert!(ran.stderr.contains("studio-2 (slot 2): there is no model folder"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("studio-1 (slot 1): there is"), "{}", ran.stderr);
    std::fs::rename(&away, bench.model("studio-2")).expect("moved back");
    let shard = bench.model("studio-3").join("model-00002-of-00002.safetensors");
    let kept = shard.with_extension("kept");
    std::fs::rename(&shard, &kept).expect("moved");
    let ran = bench.deploy().await.expect(9);
    let expected = "studio-3 (slot 3): ";
    assert!(ran.stderr.contains(expected) && ran.stderr.contains("model-00002-of-00002.safetensors is missing"));
    std::fs::rename(&kept, &shard).expect("moved back");
    bench.status(10).await;
    for node in ["studio-1", "studio-2", "studio-3"] {
        assert!(!bench.on(node, "opt/macluster/staging").exists(), "{node}: nothing half-done is left");
        assert!(!bench.on(node, "opt/macluster/etc.next").exists(), "{node}: nothing half-done is left");
        assert!(!bench.on(node, "Library/LaunchDaemons/com.macluster.agent.plist").exists());
    }

    // The whole path.
    let ran = bench.deploy().await.expect(0);
    assert!(ran.stdout.contains("served by 3 ranks, backend ring"), "{}", ran.stdout);
    assert!(ran.stderr.contains("ring over the management network"), "a slow path is announced: {}", ran.stderr);
    let nodes = bench.status(0).await;
    assert_eq!(nodes.iter().map(|n| n["rank"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!((pids(&nodes, "agent_pid").len(), pids(&nodes, "engine_pid").len()), (3, 3));
    let api: u16 = nodes[0]["api"].as_str().and_then(|a| a.rsplit(':').next()?.parse().ok()).expect("an endpoint");
    let answer = ask(api, "What is the capital of France? Answer in one sentence.").await;
    assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|t| !t.is_empty()), "{answer}");
    let log = bench.run(&["logs", "studio-2", "-n", "50"]).await.expect(0).stdout;
    assert!(log.contains("\"event\": \"generated\"") && log.contains("\"rank\": 1"), "{log}");

    // What a CI job asks then.
    let smoke = bench.run(&["smoke", "--timeout", "300", "-o", "json"]).await.expect(0).json();
    let steps = smoke["steps"].as_array().expect("steps");
    let ids: Vec<_> = steps.iter().map(|s| (s["step"].as_str(), s["verdict"].as_str())).collect();
    let passed = |id| (Some(id), Some("pass"));
    assert_eq!(ids, ["launch-checks", "ranks", "answer", "streamed-answer"].map(passed), "{smoke}");
    assert_eq!((&smoke["service"]["ranks"], &smoke["service"]["epoch"]), (&json!(3), &nodes[0]["epoch"]), "{smoke}");
    for answer in ["answer", "streamed_answer"] {
        assert_eq!(smoke[answer]["tokens"], 16, "{smoke}");
        assert!(smoke[answer]["tokens_per_second"].as_f64().is_some_and(|r| r > 0.0), "{smoke}");
    }
    assert!(smoke["streamed_answer"]["first_token_after_s"].as_f64().is_some_and(|s| s > 0.0), "{smoke}");
    let junit = bench.run(&["smoke", "--timeout", "300", "-o", "junit"]).await.expect(0).stdout;
    assert!(junit.contains(r#"name="smoke" tests="4""#) && !junit.contains("<failure"), "{junit}");

    // All of them, merged by time, and only what is new.
    let all = bench.run(&["logs", "--since", "1h"]).await.expect(0).stdout;
    let times: Vec<&str> = all.lines().filter_map(|l| l.split_whitespace().nth(1)).collect();
    assert!(times.is_sorted() && times.len() > 10, "{all}");
    for node in names {
        assert!(all.lines().any(|l| l.starts_with(node) && l.contains("\"event\": \"generated\"")), "{all}");
    }
    let last = bench.run(&["logs", "--all", "-n", "2"]).await.expect(0).stdout;
    assert_eq!(last.lines().count(), 6, "{last}");
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let none = bench.run(&["logs", "--since", &later.to_string()]).await.expect(0);
    assert_eq!(none.stdout, "");
    watched(&bench, api).await;
    let doctor = bench.run(&["doctor", "--check", "runtime", "-o", "json"]).await.json();
    let findings = doctor["findings"].as_array().expect("findings");
    assert!(findings.len() >= 9 * 3 && findings.iter().all(|f| f["verdict"] == "pass"), "{doctor:#}");

    // A deploy that fails before the switch touches nothing that runs.
    std::fs::rename(&shard, &kept).expect("moved");
    bench.deploy().await.expect(9);
    std::fs::rename(&kept, &shard).expect("moved back");
    assert_eq!(pids(&bench.status(0).await, "engine_pid"), pids(&nodes, "engine_pid"));

    // One that fails after it brings the previous one back: its port is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (other, old) = with_api(&bench.rack.inventory, taken.local_addr().expect("bound").port());
    assert_eq!(old, api);
    let ran = bench.run_with(&other, &["deploy", "--yes", "--bundle", bench.bundle.to_str().expect("UTF-8")]).await;
    let ran = ran.expect(9);
    assert!(ran.stderr.contains("Start the engines: studio-1 (slot 1): api-port"), "{}", ran.stderr);
    assert!(ran.stderr.contains("last lines of the engine's log on studio-1"), "{}", ran.stderr);
    assert!(ran.stderr.contains("is running again"), "{}", ran.stderr);
    let again = bench.status(0).await;
    assert_eq!(again[0]["api"], nodes[0]["api"]);
    assert!(pids(&again, "engine_pid").is_disjoint(&pids(&nodes, "engine_pid")));
    ask(api, "Hello").await;

    // kill -9 of one agent: its engine does not outlive it, and the service comes back by itself.
    let agent = again[1]["agent_pid"].as_i64().and_then(|p| i32::try_from(p).ok()).expect("a pid");
    let agent = rustix::process::Pid::from_raw(agent).expect("a pid");
    rustix::process::kill_process(agent, rustix::process::Signal::KILL).expect("killed");
    let started = Instant::now();
    loop {
        let report = bench.run(&["status", "-o", "json"]).await;
        let nodes = report.json()["nodes"].as_array().expect("nodes").clone();
        if report.status == 0 && nodes[1]["agent_pid"] != again[1]["agent_pid"] {
            assert!(pids(&nodes, "engine_pid").is_disjoint(&pids(&again, "engine_pid")), "all started anew");
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{nodes:?}");
    }
    ask(api, "Hello").await;

    // A deploy of the same again, the step back, and forward: each serves.
    let first = bench.run(&["releases", "-o", "json"]).await.expect(0).json();
    let launch = |r: &Value, which: &str| r["nodes"][2][which]["launch"].as_str().unwrap_or_default().to_owned();
    bench.deploy().await.expect(0);
    let second = bench.run(&["releases", "-o", "json"]).await.expect(0).json();
    assert_eq!(launch(&second, "previous"), launch(&first, "current"), "what was there is kept");
    bench.run(&["rollback"]).await.expect(2);
    let ran = bench.run(&["rollback", "--yes"]).await.expect(0);
    assert!(ran.stdout.contains("is served by 3 ranks"), "{}", ran.stdout);
    let back = bench.run(&["releases", "-o", "json"]).await.expect(0).json();
    assert_eq!(launch(&back, "current"), launch(&first, "current"));
    assert_eq!(launch(&back, "previous"), launch(&second, "current"));
    bench.status(0).await;
    bench.run(&["restart"]).await.expect(0);
    ask(api, "Hello").await;

    // Stopping ends all, twice is fine, and the releases stay.
    bench.run(&["stop"]).await.expect(0);
    assert_eq!(processes(&bench.rack.dir), Vec::<String>::new());
    let ran = bench.run(&["stop"]).await.expect(0);
    assert_eq!(ran.stdout.matches("nothing ran").count(), 3, "{}", ran.stdout);
    let nodes = bench.status(6).await;
    assert!(nodes.iter().all(|n| n["state"] == "down" && n["release"].is_string()), "{nodes:?}");
    let doctor = bench.run(&["doctor", "--check", "runtime.engine-health", "-o", "short"]).await.expect(0).stdout;
    assert!(
        doctor.starts_with("WARN runtime.engine-health rack: the runtime is deployed, and nothing of it"),
        "{doctor}"
    );
    let smoke = bench.run(&["smoke"]).await.expect(6);
    insta::assert_snapshot!("smoke_of_a_stopped_rack", findings_hidden(&smoke.stdout));

    // With certificates that have ended no launch would come up: told before anything is touched.
    for (folder, args, code) in [("etc", &["restart"][..], 6), ("etc.previous", &["rollback", "--yes"], 10)] {
        let path = bench.on("studio-2", &format!("opt/macluster/{folder}/agent.json"));
        let text = std::fs::read_to_string(&path).expect("readable");
        let mut agent: Value = serde_json::from_str(&text).expect("JSON");
        agent["certificates_until"] = "2026-01-01T00:00:00Z".into();
        std::fs::write(&path, agent.to_string()).expect("written");
        let ran = bench.run(args).await.expect(code);
        assert!(ran.stderr.contains("ended on 2026-01-01: its agents would not accept each other"), "{}", ran.stderr);
        assert!(ran.stderr.contains("hint: nothing was changed; `macluster deploy`"), "{}", ran.stderr);
        std::fs::write(&path, text).expect("written");
    }

    // Away with it: every file is as it was before the first deploy.
    bench.run(&["start"]).await.expect(0);
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    assert_eq!(processes(&bench.rack.dir), Vec::<String>::new());
    for (node, before) in before {
        let after = tree(&bench.on(&node, ""));
        assert_eq!(changes(&before, &after), Vec::<String>::new(), "{node}");
    }
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    bench.status(10).await;
    bench.done().await;
}

/// `status --watch` looks again and again, `logs --follow` shows what happens meanwhile, and both end when asked.
async fn watched(bench: &Bench, api: u16) {
    let start = |args: &[&str]| {
        let mut watch = tokio::process::Command::from(command(&bench.rack.dir));
        watch.arg("-f").arg(&bench.rack.inventory).args(args).stdin(std::process::Stdio::null());
        watch.stdout(std::process::Stdio::piped()).kill_on_drop(true);
        let mut watch = watch.spawn().expect("it runs");
        let lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
        (watch, lines)
    };
    let limit = Duration::from_secs(180);
    let (mut watch, mut looks) = start(&["status", "--watch", "-o", "json"]);
    let (mut follow, mut lines) = start(&["logs", "--follow", "-n", "1"]);
    for _ in 0..2 {
        let line =
            tokio::time::timeout(limit, looks.next_line()).await.expect("in time").expect("read").expect("a look");
        let look: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(look["nodes"][2]["state"], "ready", "{look}");
    }
    let first = tokio::time::timeout(limit, lines.next_line()).await.expect("in time").expect("read");
    assert!(first.is_some_and(|l| l.starts_with("studio-")), "the end of what was there");
    ask(api, "Hello").await;
    let mut seen = BTreeSet::new();
    while seen.len() < 3 {
        let line =
            tokio::time::timeout(limit, lines.next_line()).await.expect("in time").expect("read").expect("a line");
        if line.contains("\"event\": \"generated\"") {
            seen.extend(line.split_whitespace().next().map(str::to_owned));
        }
    }
    for (child, code) in [(&mut watch, 0), (&mut follow, 130)] {
        let pid =
            child.id().and_then(|p| i32::try_from(p).ok()).and_then(rustix::process::Pid::from_raw).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("asked");
        let ended = tokio::time::timeout(limit, child.wait()).await.expect("in time").expect("ended");
        assert_eq!(ended.code(), Some(code));
    }
}

/// Without the number of findings, which grows with the checks.
fn findings_hidden(text: &str) -> String {
    let hidden = |l: &str| match l.split_once("none of ") {
        Some((before, after)) => {
            format!("{before}none of N{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => l.to_owned(),
    };
    text.lines().map(hidden).collect::<Vec<_>>().join("\n")
}

/// Every path below a folder with its kind, mode and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    use std::os::unix::fs::PermissionsExt;
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable").flatten() {
            let path = entry.path();
            let meta = path.symlink_metadata().expect("metadata");
            let content = if meta.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                std::fs::read_link(&path).expect("a link").to_string_lossy().into_owned().into_bytes()
            } else {
                std::fs::read(&path).unwrap_or_default()
            };
            all.insert(path.strip_prefix(root).expect("below").to_owned(), (meta.permissions().mode(), content));
        }
    }
    all
}

fn changes(before: &BTreeMap<PathBuf, (u32, Vec<u8>)>, after: &BTreeMap<PathBuf, (u32, Vec<u8>)>) -> Vec<String> {
    let gone = before.keys().filter(|p| !after.contains_key(*p)).map(|p| format!("gone: {}", p.display()));
    let new = after.keys().filter(|p| !before.contains_key(*p)).map(|p| format!("new: {}", p.display()));
    let other = before.iter().filter(|(p, was)| after.get(*p).is_some_and(|is| is != *was));
    gone.chain(new).chain(other.map(|(p, _)| format!("other: {}", p.display()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_split_is_served_as_a_pipeline() {
    let bench = Bench::serving(3, runtime::tiny_deepseek).await;
    // Three were named: none of them is left out.
    let text = std::fs::read_to_string(&bench.rack.inventory).expect("readable");
    let named = text.replace("\nruntime:\n", "\nruntime:\n  nodes: [studio-1, studio-2, studio-3]\n");
    // The model lies elsewhere, and of /opt one node has an empty one, one something in it, and one nothing.
    std::fs::write(
        &bench.rack.inventory,
        named.replace("/opt/macluster/models/", "/models/").replace("/opt/python/", "/python/"),
    )
    .expect("written");
    let all = ["studio-1", "studio-2", "studio-3"];
    for node in all {
        std::fs::rename(bench.on(node, "opt/macluster/models"), bench.on(node, "models")).expect("moved");
        std::fs::rename(bench.on(node, "opt/python"), bench.on(node, "python")).expect("moved");
        std::fs::remove_dir_all(bench.on(node, "opt")).expect("removed");
    }
    std::fs::create_dir(bench.on(all[0], "opt")).expect("made");
    std::fs::create_dir_all(bench.on(all[1], "opt/something")).expect("made");
    let before = all.map(|n| tree(&bench.on(n, "")));
    let ran = bench.deploy().await.expect(0);
    assert!(ran.stderr.contains("a pipeline of 3 nodes") && ran.stderr.contains("not speed"), "{}", ran.stderr);
    assert!(ran.stdout.contains("served by 3 ranks"), "{}", ran.stdout);
    for node in all {
        let text = std::fs::read_to_string(bench.on(node, "opt/macluster/etc/rank.json")).expect("readable");
        let rank: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(rank["parallel"], "pipeline");
    }
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    for (node, before) in all.iter().zip(&before) {
        assert_eq!(changes(before, &tree(&bench.on(node, ""))), Vec::<String>::new(), "{node}");
    }
    bench.done().await;
}

/// A desk that holds one node's lock: it is named, and nothing is touched, on the other node either.
async fn somebody_else_is_at_work(bench: &Bench) {
    let mut hold = tokio::process::Command::new(crate::support::binary());
    hold.args(["node", "hold", "--who", "a colleague", "--root"]).arg(bench.on("studio-2", ""));
    hold.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).kill_on_drop(true);
    let mut hold = hold.spawn().expect("it runs");
    let mut lines = BufReader::new(hold.stdout.take().expect("piped")).lines();
    assert!(lines.next_line().await.expect("read").is_some_and(|l| l.starts_with("held ")));
    let reader = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    for (args, code) in [(vec!["restart"], 6), (vec!["rollback", "--yes"], 6)] {
        let ran = bench.run(&args).await.expect(code);
        let told = "studio-2 (slot 2): another operation on the runtime is under way: a colleague";
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
        assert!(!ran.stderr.contains("studio-1 (slot 1)"), "{}", ran.stderr);
    }
    // What the colleague is copying stays, on every node.
    let copied = ["studio-1", "studio-2"].map(|n| bench.on(n, "opt/macluster/staging/theirs/file"));
    for file in &copied {
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
        std::fs::write(file, "half of it").expect("written");
    }
    let ran = bench.deploy().await.expect(9);
    assert!(ran.stderr.contains("under way: a colleague"), "{}", ran.stderr);
    for file in &copied {
        assert!(file.exists(), "{} was removed by a desk that was refused", file.display());
    }
    hold.kill().await.expect("killed");
    reader.await.expect("joined");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_that_the_model_does_not_split_over_is_no_dead_end() {
    let bench = Bench::of(2).await;
    let text = std::fs::read_to_string(&bench.rack.inventory).expect("readable");
    let only = |names: &str| {
        let path = bench.rack.inventory.with_file_name("chosen.yaml");
        std::fs::write(&path, text.replace("\nruntime:\n", &format!("\nruntime:\n  nodes: [{names}]\n")))
            .expect("written");
        path
    };
    let bundle = bench.bundle.to_str().expect("UTF-8");
    // Nine heads on two nodes that were both asked for: told with its numbers, before anything is touched.
    let both = only("studio-1, studio-2");
    let ran = bench.run_with(&both, &["deploy", "--yes", "--bundle", bundle]).await.expect(9);
    let message = &ran.stderr;
    assert!(
        message.contains("the model does not run on 2 nodes: 9 attention heads and 3 key/value heads"),
        "{message}"
    );
    assert!(message.contains("hint: it runs on 1 node: name them in runtime.nodes"), "{message}");
    // A pipeline was asked for, and there is none for it.
    let path = bench.rack.inventory.with_file_name("pipeline.yaml");
    std::fs::write(&path, text.replace("\nruntime:\n", "\nruntime:\n  parallel: pipeline\n")).expect("written");
    let message = bench.run_with(&path, &["deploy", "--yes", "--bundle", bundle]).await.expect(9).stderr;
    assert!(message.contains("mlx-lm has no pipeline for the architecture qwen3"), "{message}");
    assert!(message.contains("hint: write `runtime.parallel: tensor`"), "{message}");
    bench.status(10).await;
    assert_eq!(processes(&bench.rack.dir), Vec::<String>::new());

    // Nobody said which: as many as it runs on, and it is said who stays idle, and why.
    let ran = bench.deploy().await.expect(0);
    assert!(ran.stderr.contains("but on 1 node: idle stay studio-2 (slot 2)"), "{}", ran.stderr);
    assert!(ran.stdout.contains("is served by 1 rank"), "{}", ran.stdout);
    let states =
        |nodes: &[Value]| nodes.iter().map(|n| n["state"].as_str().unwrap_or("?").to_owned()).collect::<Vec<_>>();
    assert_eq!(states(&bench.status(0).await), ["ready", "idle"]);
    somebody_else_is_at_work(&bench).await;

    // The other one, by name; and back again.
    let other = only("studio-2");
    bench.run_with(&other, &["deploy", "--yes", "--bundle", bundle]).await.expect(0);
    assert_eq!(states(&bench.status(0).await), ["idle", "ready"]);
    bench.run(&["rollback", "--yes"]).await.expect(0);
    assert_eq!(states(&bench.status(0).await), ["ready", "idle"]);
    bench.run(&["restart"]).await.expect(0);
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    assert_eq!(processes(&bench.rack.dir), Vec::<String>::new());
    bench.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_desk_that_dies_at_any_step_is_made_good_by_the_next_deploy() {
    let bench = Bench::of(1).await;
    let bundle = bench.bundle.to_str().expect("UTF-8");
    // The model that the inventory names is another one: what the option says counts.
    let text = std::fs::read_to_string(&bench.rack.inventory).expect("readable");
    std::fs::write(&bench.rack.inventory, text.replace("/models/tiny-thirds", "/models/another")).expect("written");
    let model = ["--model", "/opt/macluster/models/tiny-thirds"];
    for phase in macluster::phase::deploy::PHASES {
        let mut desk = tokio::process::Command::from(command(&bench.rack.dir));
        desk.arg("-f").arg(&bench.rack.inventory).args(["deploy", "--yes", "--bundle", bundle]).args(model);
        desk.env("MACLUSTER_CACHE", runtime::cache()).stdin(std::process::Stdio::null());
        // No file of a deploy lies on the desk, where a desk that dies would leave it: keys are among them.
        desk.env("TMPDIR", bench.rack.dir.join("nowhere"));
        desk.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).kill_on_drop(true);
        let mut desk = desk.spawn().expect("it runs");
        let mut lines = BufReader::new(desk.stderr.take().expect("piped")).lines();
        let wanted = format!("==> {}", phase.title());
        let mut seen = Vec::new();
        while seen.last() != Some(&wanted) {
            let line = tokio::time::timeout(Duration::from_secs(120), lines.next_line())
                .await
                .expect("in time")
                .expect("read");
            seen.push(line.unwrap_or_else(|| panic!("{wanted} never came: {seen:#?}")));
        }
        // SIGKILL: nothing is taken back.
        desk.kill().await.expect("killed");
        desk.wait().await.expect("gone");
    }
    // Whatever stands there half-done: one deploy, and it serves, without anything left over.
    bench.run(&["deploy", "--yes", "--resume", "--bundle", bundle, model[0], model[1]]).await.expect(0);
    let nodes = bench.status(0).await;
    assert_eq!(nodes[0]["processes"].as_array().map(Vec::len), Some(3), "{nodes:?}");
    assert!(!bench.on("studio-1", "opt/macluster/staging").exists());
    assert!(!bench.on("studio-1", "opt/macluster/etc.next").exists());
    bench.run(&["undeploy", "--yes"]).await.expect(0);
    assert_eq!(processes(&bench.rack.dir), Vec::<String>::new());
    bench.done().await;
}
