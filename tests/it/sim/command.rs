//! `macluster sim` as it is typed: stands up, says where, goes away on demand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{command, macluster};

/// A running `macluster sim`, ended with the test.
struct Sim {
    child: Child,
    inventory: PathBuf,
}

impl Sim {
    fn start(dir: &Path, args: &[&str]) -> Sim {
        let ready = dir.join("ready");
        let child = command(dir)
            .arg("sim")
            .args(args)
            .arg("--ready-file")
            .arg(&ready)
            .env("TMPDIR", dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut sim = Sim { child, inventory: PathBuf::new() };
        let end = Instant::now() + Duration::from_secs(30);
        while !ready.exists() {
            assert!(Instant::now() < end, "the rack never got ready");
            assert!(sim.child.try_wait().expect("a child").is_none(), "it ended early");
            std::thread::sleep(Duration::from_millis(10));
        }
        // The file is written in one go, but may be seen before its content.
        while sim.inventory.as_os_str().is_empty() {
            sim.inventory = std::fs::read_to_string(&ready).expect("readable").trim().into();
        }
        sim
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("signalled");
    }

    /// The exit status, once it is over.
    fn end_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_signal_ends_it_well_and_its_own_folder_goes() {
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().expect("a folder");
        let sim = Sim::start(dir.path(), &["--nodes", "2"]);
        let rack = sim.inventory.parent().expect("a folder").to_owned();
        assert!(rack.join("rack.json").is_file());
        assert!(rack.join("nodes/studio-2/sbin/ifconfig").is_symlink());
        sim.signal(signal);
        assert_eq!(sim.end_code(), Some(0));
        assert!(!rack.exists(), "{} was left", rack.display());
    }
}

/// Whether a process has ended, be it that nobody has asked for its status yet.
fn is_over(pid: u64) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')),
        Err(_) if Path::new("/proc/self/stat").exists() => true,
        Err(_) => {
            let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps");
            output.stdout.is_empty() || output.stdout.starts_with(b"Z")
        }
    }
}

#[test]
fn killed_it_leaves_no_job_of_a_node_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    // Prepared nodes have the links daemon, which runs for ever.
    let mut sim = Sim::start(dir.path(), &["--nodes", "2", "--prepared"]);
    let rack = sim.inventory.parent().expect("a folder").to_owned();
    let jobs = |node: &str| -> Vec<u64> {
        let text = std::fs::read_to_string(rack.join(format!("state/{node}.processes"))).expect("processes");
        let list: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list");
        list.iter().map(|p| p["pid"].as_u64().expect("a pid")).collect()
    };
    let jobs = [jobs("studio-1"), jobs("studio-2")];
    assert!(jobs.iter().all(|j| !j.is_empty() && j.iter().all(|pid| !is_over(*pid))), "{jobs:?}");
    sim.child.kill().expect("killed");
    sim.child.wait().expect("it ends");
    let end = Instant::now() + Duration::from_secs(20);
    while !jobs.iter().flatten().all(|pid| is_over(*pid)) {
        assert!(Instant::now() < end, "still there: {jobs:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_given_folder_is_kept_and_not_used_twice() {
    let dir = tempfile::tempdir().expect("a folder");
    let rack = dir.path().join("rack");
    let path = rack.to_str().expect("UTF-8");
    let mut sim = Sim::start(dir.path(), &["--dir", path, "--exit-with-stdin", "--models", "Mac15,14,Mac16,9"]);
    // The end of standard input is the end of the rack.
    let mut input = sim.child.stdin.take().expect("piped");
    input.write_all(b"\n").expect("writes");
    drop(input);
    assert_eq!(sim.end_code(), Some(0));
    assert!(rack.join("macluster.yaml").is_file());
    let state = std::fs::read_to_string(rack.join("state/studio-2.json")).expect("a state");
    assert!(state.contains("Mac16,9"), "{state}");
    let ran = macluster(dir.path(), &["sim", "--dir", path]).expect(1);
    assert!(ran.stderr.contains("the folder is not empty"), "{}", ran.stderr);
}

#[test]
fn nonsense_is_told_before_anything_stands() {
    let dir = tempfile::tempdir().expect("a folder");
    for (args, status, words) in [
        (&["sim", "--fault", "mising-cable"][..], 2, "the nearest is `missing-cable`"),
        (&["sim", "--fault", "odd-build:studio-9"], 2, "no node is called `studio-9`"),
        (&["sim", "--models", "Mac99,1"], 2, "no Mac is called `Mac99,1`"),
        (&["sim", "--models", "Mac16,9,Mac16,9,Mac16,9,Mac16,9,Mac16,9"], 2, "not enough receptacles"),
        (&["sim", "--nodes", "1025"], 2, "1025"),
        (&["sim", "--stock", "--prepared"], 2, "cannot be used with"),
        (&["sim", "--nodes", "6", "--fault", "tb4"], 2, "a Mac14,13 has only 4 receptacles"),
    ] {
        let ran = macluster(dir.path(), args).expect(status);
        assert!(ran.stderr.contains(words), "{args:?}: {}", ran.stderr);
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0, "{args:?} left something");
    }
    let list = macluster(dir.path(), &["sim", "--list-faults"]).expect(0).stdout;
    for fault in macluster::sim::Fault::all() {
        assert!(list.contains(&format!("  {} ", fault.name())), "{list}");
    }
}

#[test]
fn the_binary_under_a_tools_name_is_that_tool_only_inside_a_node() {
    let dir = tempfile::tempdir().expect("a folder");
    let sim = Sim::start(dir.path(), &["--nodes", "1"]);
    let root = sim.inventory.parent().expect("a folder").join("nodes/studio-1");
    let run = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).env_clear().output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, text) = run(&root.join("usr/bin/sw_vers"), &[]);
    assert_eq!((status, text.lines().next()), (Some(0), Some("ProductName:\t\tmacOS")));
    assert_eq!(run(&root.join("sbin/ifconfig"), &["en3", "down"]).0, Some(1));
    // Found along the path, as a program that calls `sw_vers` would.
    let output = Command::new("env").arg("sw_vers").env_clear().env("PATH", root.join("usr/bin")).output();
    if let Ok(output) = output {
        assert!(output.stdout.starts_with(b"ProductName"), "{output:?}");
    }
    // The same name elsewhere is no tool: the binary reads its own arguments.
    let elsewhere = dir.path().join("ifconfig");
    std::os::unix::fs::symlink(crate::support::binary(), &elsewhere).expect("a link");
    let (status, text) = run(&elsewhere, &["--version"]);
    assert_eq!(status, Some(0));
    assert!(text.starts_with("macluster "), "{text}");
    sim.signal(Signal::TERM);
    assert_eq!(sim.end_code(), Some(0));
}
