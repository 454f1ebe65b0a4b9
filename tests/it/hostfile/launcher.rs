//! MLX's launcher on our hostfiles: every rank gets what `deploy` gives it, but for the ports.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use macluster::mesh::ranks::Rank;
use macluster::model::Backend;
use serde_json::Value;

use super::hostfile;
use crate::ranks::{AUTO, Wanted, crooked_mesh, crooked_ring, make, python, two_rails};
use crate::support::rack::Rack;

/// What the launcher gives each rank, by rank: `host`, `env`, `files`.
fn launched(rack: &Rack, backend: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a folder");
    hostfile(rack, dir.path(), &["--backend", backend, "--out", "hosts.json"]).expect(0);
    let drive = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hostfile/drive.py");
    // The launcher looks at its input all the time: one that never ends and never speaks is what it waits on.
    let mut child = Command::new(python())
        .arg("-B")
        .arg(drive)
        .arg(dir.path())
        .args(["--hostfile", "hosts.json"])
        .current_dir(dir.path())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let input = child.stdin.take();
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(said.lines().last().expect("an answer")).expect("JSON")
}

fn show(ranks: &[Value]) -> String {
    let mut out = String::new();
    for (rank, got) in ranks.iter().enumerate() {
        writeln!(out, "rank {rank} at {}", got["host"].as_str().expect("a host")).expect("a string");
        for (key, value) in got["env"].as_object().expect("variables") {
            writeln!(out, "  {key}={}", value.as_str().expect("text")).expect("a string");
        }
        for (key, text) in got["files"].as_object().expect("files") {
            writeln!(out, "  file of {key}: {}", text.as_str().expect("text").trim_end()).expect("a string");
        }
    }
    out
}

/// Addresses without their ports; everything else as it is.
fn portless(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(portless).collect(),
        Value::String(text) => text.rsplit_once(':').map_or(text.as_str(), |(ip, _)| ip).into(),
        other => other.clone(),
    }
}

/// Without ports, the launcher's rank and deploy's have the same variables with the same values, and the same files.
fn assert_same(deployed: &Rank, launched: &Value) {
    let env = launched["env"].as_object().expect("variables");
    assert_eq!(env.keys().collect::<Vec<_>>(), deployed.env.keys().collect::<Vec<_>>());
    let files = launched["files"].as_object().expect("files");
    assert_eq!(files.len(), deployed.files.len());
    for (key, value) in &deployed.env {
        if let Some(text) = files.get(key) {
            let name = Path::new(value).file_name().and_then(|n| n.to_str()).expect("a name");
            let (_, content) = deployed.files.iter().find(|(n, _)| n == name).expect("the file");
            let theirs: Value = serde_json::from_str(text.as_str().expect("text")).expect("JSON");
            assert_eq!(portless(&theirs), portless(content), "{key}");
        } else {
            assert_eq!(portless(&env[key]), portless(&value.as_str().into()), "{key}");
        }
    }
}

#[test]
fn the_launcher_gives_each_rank_what_deploy_gives_it() {
    for (shown, rack, backend, word) in [
        ("launched_jaccl", crooked_mesh(3), Backend::Jaccl, "jaccl"),
        ("launched_jaccl_ring", two_rails(), Backend::JacclRing, "jaccl-ring"),
        ("launched_jaccl_ring_one_rail", crooked_ring(), Backend::JacclRing, "jaccl-ring"),
        ("launched_ring", two_rails(), Backend::Ring, "ring"),
    ] {
        let plan = make(&rack, &Wanted { backend, ..AUTO }).expect("a plan");
        let theirs = launched(&rack, word);
        assert_eq!(theirs.len(), plan.ranks.len());
        for (rank, got) in plan.ranks.iter().zip(&theirs) {
            let node = rack.inventory.nodes.iter().find(|n| n.name == rank.node).expect("a node");
            assert_eq!(got["host"], node.host);
            assert_same(rank, got);
        }
        insta::assert_snapshot!(shown, show(&theirs));
    }
}

/// One rank gets an empty file, at which MLX stops: what the command says of one node alone holds as long as this.
#[test]
fn one_node_alone_gets_a_file_that_mlx_cannot_use() {
    insta::assert_snapshot!("launched_one_node", show(&launched(&Rack::studios(1), "auto")));
    let empty = tempfile::NamedTempFile::new().expect("a file");
    let output = Command::new(python())
        .args(["-c", "import mlx.core as mx; mx.distributed.init()"])
        .env_clear()
        .env("MLX_RANK", "0")
        .env("MLX_HOSTFILE", empty.path())
        .stdin(Stdio::null())
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("parse error"), "{said}");
}
