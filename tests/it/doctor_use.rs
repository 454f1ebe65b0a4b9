//! How doctor is used: its formats, what is picked, what only warns, waiting and watching.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use macluster::model::facts::RdmaSwitch;
use macluster::sim::state::RackState;
use macluster::sim::{Fault, Rack, RunningRack};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::rack::Rack as Bench;
use crate::support::terminal::drawn_at_a_terminal;
use crate::support::{Ran, binary, command, macluster};

/// A rack of three with a slow cable, RDMA off on one node, a noisy shell and marks of other languages in its words.
fn sick() -> (tempfile::TempDir, Bench) {
    let mut rack = Bench::kept(3);
    rack.receptacle("studio-1", 2).speed = Some("40 Gb/s".to_owned());
    rack.facts("studio-3").rdma_switch = Ok(RdmaSwitch::Disabled);
    "<b>`*_|&\u{1b}[31m\u{7}\n".clone_into(&mut rack.facts("studio-2").login_noise);
    let dir = tempfile::tempdir().expect("a folder");
    rack.record(dir.path());
    (dir, rack)
}

fn doctor(dir: &tempfile::TempDir, args: &[&str]) -> Ran {
    let ran = macluster(dir.path(), &[&["doctor", "--from", "rack.json"], args].concat());
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{7}'), "{}", ran.stdout);
    ran
}

#[test]
fn every_format_says_the_same() {
    let (dir, _) = sick();
    insta::assert_snapshot!("short", doctor(&dir, &["-o", "short"]).expect(4).stdout);
    insta::assert_snapshot!(
        "markdown",
        doctor(&dir, &["-o", "markdown", "--check", "ssh,rdma,cabling"]).expect(4).stdout
    );
    insta::assert_snapshot!(
        "junit",
        doctor(&dir, &["-o", "junit", "--check", "ssh.login-noise,rdma.enabled,rdma.gid"]).expect(4).stdout
    );
    let json = doctor(&dir, &["-o", "json"]).expect(4).json();
    let xml = doctor(&dir, &["-o", "junit"]).expect(4).stdout;
    let summary = &json["summary"];
    let count = |word: &str| summary[word].as_u64().expect("a number");
    let head = format!(
        "tests=\"{}\" skipped=\"{}\" failures=\"{}\" errors=\"0\"",
        json["findings"].as_array().expect("findings").len(),
        count("skip"),
        count("fail")
    );
    assert!(xml.contains(&head), "{head}\n{xml}");
    assert_eq!(xml.matches("<skipped").count() as u64, count("skip"));
    let lines = doctor(&dir, &["-o", "short", "-v"]).expect(4).stdout;
    assert_eq!(lines.lines().count(), json["findings"].as_array().expect("findings").len() + 1);
    doctor(&dir, &["-o", "yaml"]).expect(2);
}

#[test]
fn nodes_are_picked_by_pattern() {
    let (dir, _) = sick();
    let all = doctor(&dir, &["--on", "studio-*", "-o", "json"]).expect(4).json();
    let one = doctor(&dir, &["--on", "*-3", "-o", "json", "--check", "rdma.enabled"]).expect(4).json();
    assert_eq!(one["findings"].as_array().expect("findings").len(), 1);
    assert!(all["findings"].as_array().expect("findings").len() > 50);
    doctor(&dir, &["--on", "studio-1,studio-2", "--check", "rdma.enabled"]).expect(0);
    let ran = doctor(&dir, &["--on", "studi-*"]).expect(10);
    assert_eq!(ran.stderr, "error: there is no node named `studi-*`\nhint: did you mean `studio-1`?\n");
}

#[test]
fn what_only_warns_does_not_fail() {
    let (dir, _) = sick();
    let softened = ["--warn-only", "cabling.speed,rdma.enabled", "-o", "json"];
    let report = doctor(&dir, &softened).expect(0).json();
    assert_eq!((&report["verdict"], &report["summary"]["fail"]), (&"warn".into(), &0.into()));
    doctor(&dir, &["--warn-only", "cabling.speed"]).expect(4);
    let ran = doctor(&dir, &["--warn-only", "cabling.sped"]).expect(10);
    assert!(ran.stderr.contains("did you mean `cabling.speed`?"), "{}", ran.stderr);
    let ran = doctor(&dir, &["--warn-only", "cabling"]).expect(10);
    assert!(
        ran.stderr.contains("there is no check named `cabling`"),
        "one check, not a whole category: {}",
        ran.stderr
    );
}

#[test]
fn a_recording_is_neither_waited_for_nor_watched() {
    let (dir, _) = sick();
    for args in [&["--wait", "5s"] as &[&str], &["--watch"]] {
        let ran = doctor(&dir, args).expect(2);
        assert!(ran.stderr.contains("a recording does not change"), "{}", ran.stderr);
    }
    for bad in ["5", "soon", "-3s", "2 weeks", ""] {
        doctor(&dir, &["--wait", bad]).expect(2);
    }
    doctor(&dir, &["--wait", "5s", "--watch"]).expect(2);
}

async fn rack(fault: Option<Fault>) -> RunningRack {
    let builder = Rack::builder().binary(binary()).nodes(3).prepared(true);
    let builder = fault.into_iter().fold(builder, macluster::sim::Builder::fault);
    builder.start().await.expect("a rack")
}

/// The technician replaces or spoils the last cable.
fn cable(rack: &RunningRack, gbps: u32) {
    let path = rack.dir.join("rack.json");
    let mut state: RackState = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("a rack");
    state.cables.last_mut().expect("a cable").gbps = gbps;
    let new = rack.dir.join("rack.json.new");
    std::fs::write(&new, serde_json::to_vec(&state).expect("JSON")).expect("written");
    std::fs::rename(new, path).expect("in place");
}

fn start(rack: &RunningRack, args: &[&str]) -> Child {
    let mut command = command(&rack.dir);
    command.arg("doctor").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_when_the_rack_is_right() {
    let rack = rack(Some(Fault::SlowCable)).await;
    let mut child = start(&rack, &["--wait", "2m", "-o", "short"]);
    let mut said = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.starts_with("1 failed (cabling.speed), 0 nodes do not answer: looking again for up to 1"), "{line}");
    cable(&rack, 80);
    let output = child.wait_with_output().expect("ends");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), stdout.lines().count()), (Some(0), 1), "{stdout}");
    cable(&rack, 40);
    let ran = crate::support::live::run(&rack, &["doctor", "--wait", "1s", "-o", "short"]).await.expect(4);
    assert!(ran.stderr.ends_with(" s in vain\n") && ran.stdout.contains("FAIL cabling.speed"), "{ran:?}");
    crate::support::live::done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_each_change_until_it_is_interrupted() {
    let rack = rack(None).await;
    let mut child = start(&rack, &["--watch"]);
    let mut told = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = || told.next().expect("a line").expect("text");
    assert!(next().starts_with("ok: 0 failed, "));
    cable(&rack, 40);
    let line = next();
    assert!(line[9..].starts_with("ok → FAIL cabling.speed studio-2:3–studio-3:3: the link "), "{line}");
    cable(&rack, 80);
    let line = next();
    assert!(line[9..].starts_with("FAIL → ok cabling.speed studio-2:3–studio-3:3: runs at 80 Gb/s"), "{line}");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    // A signal in the middle of a look changes nothing of what the last one found.
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("ends").code(), Some(0), "the state of the last look");
    crate::support::live::done(rack).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_is_as_it_was_after_watching() {
    let rack = rack(Some(Fault::SlowCable)).await;
    let dir = rack.dir.clone();
    let work = move || drawn_at_a_terminal(&dir, &["doctor", "--watch"], &[("Looking again every 2 s", "xq")]);
    let ran = tokio::task::spawn_blocking(work).await.expect("joined").expect(4);
    let (_, picture) = ran.stdout.split_once("\u{1b}[?1049h\u{1b}[?25l").expect("a screen of its own");
    let (picture, after) = picture.split_once("\u{1b}[?25h\u{1b}[?1049l").expect("given back");
    assert!(
        picture.contains("cabling.speed studio-2:3–studio-3:3: the link") && picture.contains("→ replace the cable")
    );
    assert_eq!(after, "");
    crate::support::live::done(rack).await;
}
