//! `explain`: every text of the field is known, and the rack's state tells which of its causes holds.

use macluster::check::explain::{entries, read};
use macluster::model::FactError;
use macluster::model::facts::{FactErrorKind, RdmaSwitch};
use macluster::model::host_facts::{Firewall, PROTECTION_DOMAIN, QUEUE_PAIR};
use serde_json::Value;

use crate::support::host::process;
use crate::support::rack::Rack;
use crate::support::{command, macluster};

/// Lines as logs have them, and what they are.
const LINES: &[(&str, &str)] = &[
    ("RuntimeError: [jaccl] Changing queue pair to RTR failed with errno 22", "rtr-errno-22"),
    ("[jaccl] Changing queue pair to RTR failed with errno 96", "rtr-errno-96"),
    ("[jaccl] Changing queue pair to RTR failed with errno 60", "rtr-errno-60"),
    ("[jaccl] Changing queue pair to RTR failed with errno 16", "rtr-errno-16"),
    ("[jaccl] Couldn't connect (error: 60)", "connect-60"),
    ("Couldn't connect (error: 65)", "connect-65"),
    ("OSError: [Errno 65] No route to host", "connect-65"),
    ("Couldn't connect (error: 61)", "connect-61"),
    ("[ring] Couldn't bind socket (error: 49)", "bind-49"),
    ("Couldn't bind socket (error: 48)", "bind-48"),
    ("[jaccl] Recv failed with errno=2", "recv-errno-2"),
    ("[jaccl] Recv failed with errno=60", "recv-errno-60"),
    ("[jaccl] Creating the queue pair failed with 'Resource busy (16)'.", "queue-pair-busy"),
    ("ibv_create_qp: errno 102", "queue-pair-unsupported"),
    ("[jaccl] Couldn't allocate protection domain", "no-protection-domain"),
    ("[jaccl] Could not find device rdma_en5 (3 available)", "no-such-device"),
    ("[jaccl] No IPv4-mapped GID for this device. Set one with ifconfig", "no-ipv4-gid"),
    ("[jaccl] Register memory region failed", "no-memory-region"),
    ("ValueError: Can't parse address fe80::1:32323", "address-not-parsed"),
    ("rank 2 exited with code 139", "segmentation-fault"),
    ("Process finished: signal SIGSEGV in tbt_post_send", "segmentation-fault"),
    ("exit 127", "exit-127"),
    ("zsh:1: command not found: mlx.launch", "exit-127"),
    ("Incomplete mesh, a is not connected to b", "incomplete-mesh"),
    ("[ERROR] b does not seem to have RDMA enabled", "rdma-not-enabled"),
    ("ValueError: Malformed hostfile for jaccl backend", "malformed-hostfile"),
    (
        "[METAL] Command buffer execution failed: Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
        "gpu-timeout",
    ),
    ("Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", "gpu-out-of-memory"),
    ("Unable to load kernel fence_update ... language version 4.0 which is incompatible with this OS", "old-macos"),
    ("The only valid values for backend are 'any','mpi' and 'ring'", "backend-unknown"),
    ("ValueError: The model does not support any sharding", "not-splittable"),
];

#[test]
fn every_text_of_the_field_is_known() {
    for (line, id) in LINES {
        let found: Vec<&str> = read(line).iter().map(|f| f.entry.id).collect();
        assert_eq!(found, [*id], "{line}");
    }
    for entry in entries() {
        assert!(LINES.iter().any(|(_, id)| *id == entry.id), "{} has no line here", entry.id);
    }
    for line in ["loaded in 22 s", "GET /v1/models 200", "step 127 of 200", "connected to 60 clients", "errno", ""] {
        assert!(read(line).is_empty(), "{line} is no error");
    }
}

/// What is wrong with a rack, the text of the log, and the check that then proves the first cause told.
type Case = (fn(&mut Rack), &'static str, &'static str);

const CASES: &[Case] = &[
    (|r| drop(r.rdma("studio-2", 2).gids.remove(&1)), "rtr-errno-22", "rdma.gid"),
    (|r| r.interface("studio-2", 2).inet.clear(), "rtr-errno-96", "network.addresses"),
    (|r| objects(r, 5), "rtr-errno-96", "rdma.resources"),
    (|r| objects(r, 5), "no-protection-domain", "rdma.resources"),
    (|r| r.rdma("studio-2", 2).state = "PORT_DOWN".to_owned(), "no-protection-domain", "rdma.port-active"),
    (engine, "queue-pair-busy", "host.foreign-engines"),
    (engine, "bind-48", "host.foreign-engines"),
    (|r| r.facts("studio-2").host.firewall = Ok(Firewall::BlockAll), "connect-60", "host.firewall"),
    (|r| r.interface("studio-2", 2).inet.clear(), "no-ipv4-gid", "network.addresses"),
    (|r| r.interface("studio-2", 2).inet.clear(), "bind-49", "network.addresses"),
    (|r| r.unplug("studio-2", 3), "incomplete-mesh", "mesh.complete"),
    (|r| r.unplug("studio-2", 3), "segmentation-fault", "mesh.complete"),
    (|r| r.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled), "rdma-not-enabled", "rdma.enabled"),
    (|r| r.facts("studio-2").rdma_switch = Ok(RdmaSwitch::Disabled), "no-such-device", "rdma.enabled"),
];

fn objects(rack: &mut Rack, count: u64) {
    let counts = [(PROTECTION_DOMAIN.to_owned(), Some(count)), (QUEUE_PAIR.to_owned(), Some(0))];
    rack.facts("studio-2").host.rdma_objects = Ok(counts.into());
}

fn engine(rack: &mut Rack) {
    let ollama = process(77, 1, "/opt/homebrew/bin/ollama serve");
    rack.facts("studio-2").host.processes.as_mut().expect("processes").push(ollama);
}

fn explained(rack: &Rack, text: &str) -> Value {
    let dir = tempfile::tempdir().expect("a folder");
    rack.record(dir.path());
    macluster(dir.path(), &["explain", text, "--from", "rack.json", "-o", "json"]).expect(0).json()
}

/// Texts of the causes in this state.
fn causes(explained: &Value, state: &str) -> Vec<String> {
    let all = explained["explained"][0]["causes"].as_array().expect("causes");
    all.iter().filter(|c| c["state"] == state).map(|c| c["cause"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn the_state_of_the_rack_tells_which_cause_holds() {
    for (damage, id, check) in CASES {
        let mut rack = Rack::kept(3);
        let calm = explained(&rack, id);
        assert_eq!(causes(&calm, "holds"), Vec::<String>::new(), "{id}: nothing is wrong");
        damage(&mut rack);
        let told = explained(&rack, id);
        let first = &told["explained"][0]["causes"][0];
        assert_eq!(first["state"], "holds", "{id}: {told:#}");
        let seen = first["evidence"].as_array().expect("evidence");
        assert!(seen.iter().any(|e| e["check"] == *check && e["remedy"].is_object()), "{id}: {seen:?}");
    }
}

#[test]
fn what_a_check_cannot_see_is_never_excluded() {
    let mut rack = Rack::kept(3);
    let told = explained(&rack, "rtr-errno-22");
    assert_eq!(causes(&told, "excluded").len(), 4, "{told:#}");
    assert_eq!(causes(&told, "possible"), ["the port is stuck after several failed attempts"]);
    let unknown = |tool: &str| FactError {
        tool: tool.to_owned(),
        kind: FactErrorKind::Timeout,
        line: None,
        message: "no answer within 20 s".to_owned(),
    };
    rack.facts("studio-3").host.rdma_objects = Err(unknown("ioclasscount"));
    let told = explained(&rack, "rtr-errno-22");
    assert_eq!(causes(&told, "excluded").len(), 3, "{told:#}");
    // That the cables are right says nothing of a hostfile that somebody wrote.
    let told = explained(&rack, "[jaccl] Could not find device rdma_en9 (6 available)");
    assert!(causes(&told, "possible")[0].starts_with("the hostfile names a device"), "{told:#}");
    let notes = told["explained"][0]["notes"].as_array().expect("notes");
    assert_eq!(notes.len(), 3);
    assert_eq!(
        notes[0],
        "studio-1 has no rdma_en9; its RDMA devices: rdma_en2, rdma_en3, rdma_en4, rdma_en5, rdma_en6, rdma_en7"
    );
}

#[test]
fn the_answer_is_one_that_a_technician_can_work_with() {
    let mut rack = Rack::kept(3);
    rack.interface("studio-2", 2).inet.clear();
    objects(&mut rack, 5);
    let dir = tempfile::tempdir().expect("a folder");
    rack.record(dir.path());
    let line = "[jaccl] Changing queue pair to RTR failed with errno 96";
    let ran = macluster(dir.path(), &["explain", line, "--from", "rack.json", "--node", "studio-1"]).expect(0);
    insta::assert_snapshot!(ran.stdout);
    let ran = macluster(dir.path(), &["explain", line, "--from", "rack.json", "--offline"]).expect(0);
    insta::assert_snapshot!("offline", ran.stdout);
    let ran = macluster(dir.path(), &["explain", line]).expect(0);
    assert!(ran.stdout.contains("No rack was asked"), "{}", ran.stdout);
    let ran = macluster(dir.path(), &["explain", line, "--from", "rack.json", "--node", "studio-9"]).expect(10);
    assert_eq!(ran.stderr, "error: the inventory has no node studio-9\nhint: it has studio-1, studio-2, studio-3\n");
}

#[test]
fn a_whole_log_is_read_and_its_first_error_comes_first() {
    use std::io::Write;
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = b"starting\nrank 1: [jaccl] Couldn't allocate protection domain\n\xff\xfe\x1b[31mred\n".to_vec();
    log.extend(b"rank 0: [jaccl] Recv failed with errno=2\nrank 0: [jaccl] Recv failed with errno=2\n");
    let mut child = command(dir.path())
        .args(["explain", "-", "-o", "json"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("a pipe").write_all(&log).expect("written");
    let output = child.wait_with_output().expect("ends");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let ids: Vec<(&str, u64)> = told["explained"]
        .as_array()
        .expect("texts")
        .iter()
        .map(|e| (e["id"].as_str().expect("an id"), e["number"].as_u64().expect("a line")))
        .collect();
    assert_eq!(ids, [("no-protection-domain", 2), ("recv-errno-2", 4)]);
    assert_eq!((&told["rack_asked"], &told["schema_version"]), (&Value::from(false), &Value::from(1)));
}

#[test]
fn an_unknown_text_is_said_to_be_that() {
    let dir = tempfile::tempdir().expect("a folder");
    let ran = macluster(dir.path(), &["explain", "all is well"]).expect(10);
    assert_eq!(
        ran.stderr,
        "error: no error that macluster knows is in this text\n\
         hint: `macluster explain --list` shows the known ones; `macluster doctor` looks at the rack itself\n"
    );
    let ran = macluster(dir.path(), &["explain", "--list"]).expect(0);
    assert_eq!(ran.stdout.lines().filter(|l| !l.starts_with(' ')).count(), entries().len());
    let ran = macluster(dir.path(), &["explain", "--list", "-o", "json"]).expect(0).json();
    assert_eq!(ran["texts"].as_array().expect("texts").len(), entries().len());
    macluster(dir.path(), &["explain"]).expect(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_a_node_is_shown_with_what_its_errors_mean() {
    let rack = macluster::sim::Rack::builder().binary(crate::support::binary()).nodes(1).start().await.expect("a rack");
    let root = rack.nodes[0].node.root.clone();
    let folder = root.join("opt/macluster/var/log");
    std::fs::create_dir_all(&folder).expect("a folder");
    let line = "[jaccl] Recv failed with errno=2\n";
    std::fs::write(folder.join("engine.log"), format!("begin\n{line}{line}")).expect("written");
    let ran = crate::support::live::run(&rack, &["logs", &rack.nodes[0].node.name]).await.expect(0);
    assert_eq!(ran.stdout, format!("begin\n{line}{line}"));
    let notes: Vec<&str> = ran.stderr.lines().filter(|l| l.starts_with("note: ")).collect();
    assert_eq!(
        notes,
        [
            "note: “[jaccl] Recv failed with errno=2”: another rank closed the side channel while it was starting. The 2 is left over from something else: this is no RDMA error. Which cause holds: macluster explain recv-errno-2"
        ]
    );
    crate::support::live::done(rack).await;
}
