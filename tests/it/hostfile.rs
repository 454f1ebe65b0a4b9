//! `macluster hostfile`: what it prints and writes, and what MLX's own launcher makes of it.

mod launcher;
mod props;

use std::fs;
use std::path::Path;

use macluster::mesh::ranks::is_hostfile;

use crate::ranks::{crooked_mesh, crooked_ring, two_rails};
use crate::support::rack::Rack;
use crate::support::{Ran, macluster};

/// The command on a recording of this rack, in `dir`.
fn hostfile(rack: &Rack, dir: &Path, more: &[&str]) -> Ran {
    rack.record(dir);
    macluster(dir, &[&["hostfile", "--from", "rack.json"], more].concat())
}

/// Everything the command says about this rack.
fn told(rack: &Rack, backend: &str, status: i32) -> String {
    let dir = tempfile::tempdir().expect("a folder");
    let ran = hostfile(rack, dir.path(), &["--backend", backend]).expect(status);
    format!("{}--- standard error\n{}", ran.stdout, ran.stderr)
}

#[test]
fn every_backend_to_the_character() {
    insta::assert_snapshot!("hostfile_jaccl", told(&crooked_mesh(3), "jaccl", 0));
    insta::assert_snapshot!("hostfile_jaccl_ring", told(&two_rails(), "jaccl-ring", 0));
    insta::assert_snapshot!("hostfile_ring", told(&crooked_ring(), "ring", 0));
    insta::assert_snapshot!("hostfile_one_node", told(&Rack::studios(1), "auto", 0));
}

#[test]
fn what_the_rack_cannot_carry_is_said_with_what_would_work() {
    insta::assert_snapshot!("hostfile_no_mesh", told(&crooked_ring(), "jaccl", 4));
    let mut line = crooked_ring();
    line.unplug("studio-4", 3);
    insta::assert_snapshot!("hostfile_no_ring", told(&line, "ring", 4));
}

#[test]
fn a_file_is_written_whole_and_replaces_only_hostfiles() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("my hosts.json");
    let out = ["--backend", "ring", "--out", "my hosts.json"];
    let ran = hostfile(&crooked_ring(), dir.path(), &out).expect(0);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr, "wrote my hosts.json; use it: mlx.launch --hostfile 'my hosts.json' SCRIPT\n");
    let first = fs::read_to_string(&file).expect("a file");
    assert!(told(&crooked_ring(), "ring", 0).starts_with(&first));

    // Another hostfile takes its place, and an empty file is nothing to lose.
    hostfile(&crooked_mesh(3), dir.path(), &out).expect(0);
    assert_ne!(fs::read_to_string(&file).expect("a file"), first);
    fs::write(&file, "").expect("written");
    hostfile(&crooked_ring(), dir.path(), &out).expect(0);
    assert_eq!(fs::read_to_string(&file).expect("a file"), first);

    // Anything else stays, and nothing is left beside it.
    let notes = "{\"hosts\": [{\"ssh\": \"a\", \"rack\": 4}]}";
    fs::write(&file, notes).expect("written");
    let ran = hostfile(&crooked_ring(), dir.path(), &out).expect(2);
    assert_eq!(
        ran.stderr,
        "error: my hosts.json exists and is no hostfile, and was left alone\nhint: name another file, or move that one \
         away\n"
    );
    assert_eq!(fs::read_to_string(&file).expect("a file"), notes);
    let ran = hostfile(&crooked_ring(), dir.path(), &["--out", "."]).expect(2);
    assert!(ran.stderr.starts_with("error: . is not a regular file"), "{}", ran.stderr);
    let ran = hostfile(&crooked_ring(), dir.path(), &["--out", "none/h.json"]).expect(1);
    assert!(ran.stderr.contains("cannot write none/h.json: "), "{}", ran.stderr);
    // A rack that cannot carry the backend leaves the file that is there.
    hostfile(&crooked_ring(), dir.path(), &["--out", "h.json"]).expect(0);
    let before = fs::read_to_string(dir.path().join("h.json")).expect("a file");
    hostfile(&Rack::studios(3), dir.path(), &["--out", "h.json"]).expect(4);
    assert_eq!(fs::read_to_string(dir.path().join("h.json")).expect("a file"), before);
    let mut names: Vec<_> = fs::read_dir(&dir).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["h.json", "my hosts.json", "rack.json"]);
}

#[test]
fn what_counts_as_a_hostfile() {
    let mlx = r#"{"backend": "jaccl", "envs": ["A=1"], "hosts": [{"ssh": "a", "ips": [], "rdma": [null]}]}"#;
    for good in [mlx, r#"[{"ssh": "a"}]"#, r#"{"hosts": [{"ssh": "a", "ips": ["10.0.0.1"]}]}"#] {
        assert!(is_hostfile(good), "{good}");
    }
    // The list of lists is what a rank reads, not what the launcher reads.
    for bad in [
        "",
        "x",
        "{}",
        "[]",
        "null",
        r#"[["10.0.0.1:1"]]"#,
        r#"{"hosts": []}"#,
        r#"[{"ssh": 1}]"#,
        r#"{"hosts": [{"ssh": "a"}], "more": 1}"#,
        r#"[{"ssh": "a", "user": "b"}]"#,
        r#"{"hosts": {"ssh": "a"}}"#,
    ] {
        assert!(!is_hostfile(bad), "{bad}");
    }
}
