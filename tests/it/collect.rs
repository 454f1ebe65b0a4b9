//! Facts of nodes behind real OpenSSH servers, saved and read again.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use macluster::collect::{collect, replay, save};
use macluster::event::silent;
use macluster::exit::Exit;
use macluster::model::facts::Sudo;
use macluster::model::{Access, FailureKind, HostFacts, Inventory, Snapshot};
use macluster::parse::probe::probes;
use macluster::remote::prompt::Nobody;
use macluster::remote::{ConnectOptions, Fleet, Surroundings};

use crate::support::macluster;
use crate::support::sshd::{Sshd, me};

/// A node's root: every probe's program is there and prints a file of `tests/fixtures/parse`.
fn userland(root: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parse");
    for (program, says) in [
        ("/usr/sbin/system_profiler", "system_profiler.json"),
        ("/usr/sbin/networksetup", "networksetup.txt"),
        ("/sbin/ifconfig", "ifconfig.txt"),
        ("/usr/bin/ibv_devices", "ibv_devices.txt"),
        ("/usr/bin/ibv_devinfo", "ibv_devinfo.txt"),
        ("/usr/bin/sw_vers", "sw_vers.txt"),
        ("/usr/sbin/sysctl", "sysctl.txt"),
        ("/usr/sbin/netstat", "netstat.txt"),
    ] {
        script(root, program, &format!("cat '{}'", fixtures.join(says).display()));
    }
    script(root, "/usr/bin/rdma_ctl", "echo enabled");
    script(root, "/usr/bin/printenv", "exec /usr/bin/printenv \"$@\"");
    script(root, "/usr/bin/true", "exit 0");
    script(root, "/usr/bin/sudo", "shift; exec \"$@\"");
}

fn script(root: &Path, program: &str, text: &str) {
    let path = root.join(program.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// `mac-1` is behind the server; `mac-2`, when wanted, behind a port where nobody listens.
fn inventory_text(sshd: &Sshd, dead: Option<u16>) -> String {
    let second = dead.map_or_else(String::new, |port| {
        format!("  - {{ name: mac-2, host: 127.0.0.1, port: {port}, agent_port: 7421 }}\n")
    });
    format!(
        "rack: test\nssh:\n  user: {}\n  use_config: false\n  identity: {}\n  known_hosts: {}\n\
         nodes:\n  - {{ name: mac-1, host: 127.0.0.1, port: {} }}\n{second}paths: {{ root: {} }}\n",
        me(),
        sshd.path("id").display(),
        sshd.path("known_hosts").display(),
        sshd.port,
        sshd.path("root").display()
    )
}

fn read(text: &str) -> Inventory {
    macluster::parse::inventory::read(text, None).expect("a good inventory")
}

async fn facts(sshd: &Sshd, inventory: &Inventory) -> Snapshot {
    let options =
        ConnectOptions { access: Access::Read, accept_new_host_keys: true, parallel: 8, prompt: Arc::new(Nobody) };
    let around = Surroundings::new(sshd.dir.path().to_owned(), me(), None, Vec::new(), false);
    let fleet = Fleet::connect_in(inventory, &options, &silent(), &around).await;
    collect(inventory, &fleet, &silent()).await
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

#[tokio::test]
async fn all_probes_over_one_connection_and_a_dead_node_beside_it() {
    let Some(sshd) = Sshd::start("all_probes_over_one_connection", &["ed25519"], "") else { return };
    userland(&sshd.path("root"));
    let inventory = read(&inventory_text(&sshd, Some(free_port())));
    let snapshot = facts(&sshd, &inventory).await;
    assert_eq!(sshd.connections(), 1);

    let mac = inventory.nodes.first().expect("a node").name.clone();
    let facts = snapshot.facts(&mac).expect("facts");
    for (what, known) in [
        ("hardware", facts.hardware.is_ok()),
        ("os", facts.os.is_ok()),
        ("receptacles", facts.receptacles.is_ok()),
        ("hardware_ports", facts.hardware_ports.is_ok()),
        ("interfaces", facts.interfaces.is_ok()),
        ("rdma_switch", facts.rdma_switch.is_ok()),
        ("rdma_devices", facts.rdma_devices.is_ok()),
        ("rdma_ports", facts.rdma_ports.is_ok()),
        ("routes", facts.routes.is_ok()),
        ("sysctl", facts.sysctl.is_ok()),
    ] {
        assert!(known, "{what}: {facts:#?}");
    }
    assert!(matches!(facts.sudo, Ok(Sudo::Passwordless | Sudo::Root)), "{:?}", facts.sudo);
    assert_eq!(facts.session.local_address, Some("127.0.0.1".parse().expect("an address")));
    assert_eq!(facts.session.user, Some(me()));
    assert_eq!(facts.login_noise, "");
    let record = snapshot.nodes.get(&mac).expect("a record");
    let ids: Vec<&str> = record.transcripts.iter().map(|t| t.probe.as_str()).collect();
    assert_eq!(ids, probes().iter().map(|p| p.id).collect::<Vec<_>>(), "in the order of the table");

    let failures: Vec<_> = macluster::collect::failures(&snapshot).collect();
    let [(name, failure)] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((name.as_str(), failure.kind), ("mac-2", FailureKind::Unreachable));
    assert!(failure.message.contains("refuses connections"), "{}", failure.message);
}

#[tokio::test]
async fn a_banner_before_every_output_changes_no_fact() {
    let banner = "ForceCommand echo 'Welcome to the rack'; echo 'mind the step' >&2; eval \"$SSH_ORIGINAL_COMMAND\"";
    let servers = ["", banner].map(|more| Sshd::start("a_banner_before_every_output", &["ed25519"], more));
    let [Some(quiet), Some(noisy)] = servers else { return };
    let mut all = Vec::new();
    for sshd in [&quiet, &noisy] {
        userland(&sshd.path("root"));
        let inventory = read(&inventory_text(sshd, None));
        let snapshot = facts(sshd, &inventory).await;
        all.push(snapshot.facts(&inventory.nodes.first().expect("a node").name).expect("facts").clone());
    }
    let [mut quiet, mut noisy] = all.try_into().expect("two");
    // They were asked one after the other.
    for facts in [&mut quiet, &mut noisy] {
        assert!(facts.session.clock_asked.take().is_some_and(|asked| asked.before <= asked.after));
        let unread = HostFacts::default();
        assert!(std::mem::replace(&mut facts.host.clock, unread.clock).is_ok());
        assert!(std::mem::replace(&mut facts.host.processes, unread.processes).is_ok());
        // This machine's df may be another's.
        facts.host.disk = unread.disk;
    }
    assert_eq!(std::mem::take(&mut noisy.login_noise), "Welcome to the rack\n");
    assert_eq!(noisy, quiet);
}

#[tokio::test]
async fn a_probe_that_fails_leaves_the_others() {
    let Some(sshd) = Sshd::start("a_probe_that_fails_leaves_the_others", &["ed25519"], "") else { return };
    let root = sshd.path("root");
    userland(&root);
    std::fs::remove_file(root.join("usr/bin/rdma_ctl")).expect("removed");
    script(&root, "/usr/sbin/system_profiler", "head -c 100 /dev/zero; kill -KILL $$");
    let inventory = read(&inventory_text(&sshd, None));
    let snapshot = facts(&sshd, &inventory).await;
    let facts = snapshot.facts(&inventory.nodes.first().expect("a node").name).expect("facts");
    assert!(facts.hardware.is_err() && facts.receptacles.is_err());
    assert_eq!(facts.rdma_switch, Ok(macluster::model::facts::RdmaSwitch::NoCommand));
    assert!(facts.os.is_ok() && facts.interfaces.is_ok());
}

#[tokio::test]
async fn a_snapshot_is_written_once_for_its_owner_and_read_again_as_it_was() {
    let Some(sshd) = Sshd::start("a_snapshot_is_written_once", &["ed25519"], "") else { return };
    userland(&sshd.path("root"));
    let inventory = read(&inventory_text(&sshd, Some(free_port())));
    let snapshot = facts(&sshd, &inventory).await;
    let file = sshd.path("rack.json");
    save(&snapshot, &file, false).expect("saved");
    assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let (again, replayed) = replay(&file).expect("read");
    assert_eq!(replayed, snapshot);
    assert_eq!((again.rack.as_str(), again.nodes.len()), ("test", 2));

    let refused = save(&Snapshot { tool_version: "other".to_owned(), ..snapshot.clone() }, &file, false);
    assert!(refused.expect_err("it exists").hints.concat().contains("--force"));
    assert_eq!(replay(&file).expect("untouched").1, snapshot);
    save(&Snapshot { tool_version: "other".to_owned(), ..snapshot.clone() }, &file, true).expect("overwritten");
    assert_eq!(replay(&file).expect("read").1.tool_version, "other");
    let left: Vec<_> = std::fs::read_dir(sshd.dir.path()).expect("readable").flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().starts_with(".macluster")), "{left:?}");

    // Facts are read from the transcripts, not from what an older macluster made of them.
    let mut old = serde_json::to_value(&snapshot).expect("JSON");
    let facts = old.pointer_mut("/nodes/mac-1/facts/Ok/os/Ok/build").expect("a build");
    *facts = "0X0".into();
    std::fs::write(&file, old.to_string()).expect("written");
    assert_eq!(replay(&file).expect("read").1, snapshot);

    let text = std::fs::read_to_string(&file).expect("readable");
    for (what, text, words) in [
        ("cut", text.get(..text.len() / 2).expect("ASCII so far").to_owned(), "cut short"),
        ("empty", String::new(), "cut short"),
        ("yaml", "rack: x\n".to_owned(), "not JSON"),
        ("another JSON", "{\"hello\": 1}".to_owned(), "no schema_version"),
        ("a list", "[]".to_owned(), "shape"),
        ("the future", text.replacen("\"schema_version\":1", "\"schema_version\":99", 1), "schema_version is 99"),
        ("a hole", text.replacen("\"taken_at\"", "\"taken\"", 1), "shape"),
        ("bad inventory", text.replacen("rack: test", "rak: test", 1), "inventory inside the snapshot"),
    ] {
        std::fs::write(&file, text).expect("written");
        let failure = replay(&file).expect_err(what);
        assert_eq!(failure.exit, Exit::Inventory, "{what}");
        assert!(
            failure.message.contains(words) && failure.message.contains("rack.json"),
            "{what}: {}",
            failure.message
        );
    }
    assert_eq!(replay(&sshd.path("none.json")).expect_err("missing").exit, Exit::Inventory);
}

#[test]
fn the_command_writes_a_snapshot_and_says_who_is_missing() {
    let Some(sshd) = Sshd::start("the_command_writes_a_snapshot", &["ed25519"], "") else { return };
    userland(&sshd.path("root"));
    let dir = sshd.dir.path();
    std::fs::write(dir.join("macluster.yaml"), inventory_text(&sshd, Some(free_port()))).expect("written");
    let unknown = macluster(dir, &["snapshot", "rack.json"]).expect(7);
    assert!(unknown.stderr.contains("--accept-new-host-keys"), "{}", unknown.stderr);
    let ran = macluster(dir, &["snapshot", "rack.json", "--accept-new-host-keys", "--force"]).expect(6);
    assert!(ran.stderr.contains("1 of 2 nodes") && ran.stderr.contains("mac-2: "), "{}", ran.stderr);
    let ran = macluster(dir, &["snapshot", "rack.json"]).expect(2);
    assert!(ran.stderr.contains("rack.json exists already"), "{}", ran.stderr);

    // From the file alone: no inventory, no node.
    drop(sshd);
    let elsewhere = tempfile::tempdir().expect("a folder");
    assert!(macluster(elsewhere.path(), &["snapshot", "x.json"]).expect(3).stderr.contains("macluster.yaml"));
}
