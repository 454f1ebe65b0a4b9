//! `macluster init`: exact output, and nothing overwritten.

use std::path::Path;

use macluster::parse::inventory;

use crate::support::macluster;

fn written(path: &Path) -> String {
    std::fs::read_to_string(path).expect("written")
}

#[test]
fn a_new_inventory_is_written_and_the_next_step_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let args = ["init", "--hosts", "m1.lan, 192.0.2.7 ,m1.example", "--user", "tess", "--rack", "loft-rack"];
    let ran = macluster(dir.path(), &args).expect(0);
    assert_eq!(ran.stdout, "");
    assert_eq!(
        ran.stderr,
        "wrote macluster.yaml with 3 nodes\nnext: look it over, set runtime.model, then run `macluster doctor`\n"
    );
    let file = dir.path().join("macluster.yaml");
    let read = inventory::read(&written(&file), Some(&file)).expect("valid");
    let nodes: Vec<(&str, &str)> = read.nodes.iter().map(|n| (n.name.as_str(), n.host.as_str())).collect();
    assert_eq!(nodes, [("m1", "m1.lan"), ("node-2", "192.0.2.7"), ("m1-2", "m1.example")]);
    assert_eq!((read.rack.as_str(), read.ssh.user.as_deref()), ("loft-rack", Some("tess")));
    assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 1, "no scratch file is left");
}

#[test]
fn what_is_there_already_is_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("macluster.yaml");
    std::fs::write(&file, "mine\n").expect("written");
    let ran = macluster(dir.path(), &["init", "--hosts", "a"]).expect(3);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        (
            "",
            "error: macluster.yaml exists already and was left alone\n\
             hint: name another file, or move that one away\n"
        )
    );
    assert_eq!(written(&file), "mine\n");

    // A link is something too, whether it leads anywhere or not.
    std::os::unix::fs::symlink("nowhere", dir.path().join("link.yaml")).expect("linked");
    macluster(dir.path(), &["init", "--hosts", "a", "link.yaml"]).expect(3);
    assert!(!dir.path().join("nowhere").exists());
    std::os::unix::fs::symlink("macluster.yaml", dir.path().join("other.yaml")).expect("linked");
    macluster(dir.path(), &["init", "--hosts", "a", "other.yaml"]).expect(3);
    assert_eq!(written(&file), "mine\n");
    assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 3, "no scratch file is left");
}

#[test]
fn the_file_may_be_named() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("racks")).expect("folder");
    macluster(dir.path(), &["init", "--hosts", "a,b", "racks/one.yaml"]).expect(0);
    macluster(dir.path(), &["init", "--hosts", "a,b", "-f", "racks/two.yaml"]).expect(0);
    assert_eq!(written(&dir.path().join("racks/one.yaml")), written(&dir.path().join("racks/two.yaml")));
    let ran = macluster(dir.path(), &["init", "--hosts", "a", "nowhere/x.yaml"]).expect(3);
    assert!(ran.stderr.starts_with("error: nowhere/x.yaml cannot be written: "), "{}", ran.stderr);
}

#[test]
fn hosts_that_make_no_inventory_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for (args, words) in [
        (&["--hosts", "a,a"][..], "error: `a-2` has the same host and port as `a`: one Mac is one node\n"),
        (&["--hosts", "a,,b"], "error: `host` of a node: `` is no host name, address or alias of ~/.ssh/config\n"),
        (&["--hosts", "bob@a"], "error: `host` of a node: expected a host name or address without a user name\n"),
        (&["--hosts", "a", "--rack", "x y"], "error: `rack`: `x y` is not a usable name"),
        (&["--hosts", "a", "--user", "x y"], "error: `ssh.user`: `x y` is no login name\n"),
        (&[], "error: the following required arguments were not provided:\n  --hosts <HOST,HOST>\n"),
    ] {
        let args: Vec<&str> = std::iter::once("init").chain(args.iter().copied()).collect();
        let ran = macluster(dir.path(), &args).expect(2);
        assert!(ran.stderr.starts_with(words), "{}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("folder").count(), 0, "nothing was written");
}

#[test]
fn names_are_derived_from_hosts() {
    for (hosts, names) in [
        ("Studio-1.local", "studio-1"),
        ("fe80::1%en0 10.0.0.1 _x", "node-1 node-2 node-3"),
        ("a a-2 a.x a.y", "a a-2 a-3 a-4"),
        ("node-2 10.0.0.1", "node-2 node-2-2"),
        ("größe", "node-1"),
    ] {
        let hosts: Vec<String> = hosts.split(' ').map(str::to_owned).collect();
        let derived: Vec<String> = inventory::names_for(&hosts).iter().map(ToString::to_string).collect();
        assert_eq!(derived.join(" "), names);
    }
    let long = vec!["x".repeat(80), "x".repeat(80)];
    assert_eq!(inventory::names_for(&long).iter().map(|n| n.as_str().len()).collect::<Vec<_>>(), [56, 58]);
}
