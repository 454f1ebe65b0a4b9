//! Nothing outside a node's root is reached or written, whatever is asked; what tries is refused and recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use macluster::sim::{Rack, RunningRack};

use crate::support::binary;
use crate::support::live::{done, run};
use crate::support::ssh::{Client, line};

/// Sizes and times by path.
type Files = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

fn walk(dir: &Path, depth: u32, found: &mut Files) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        // A folder's own time changes when something is made or removed in it.
        found.insert(entry.path(), (meta.len(), meta.modified().ok()));
        if meta.is_dir() && depth > 0 {
            walk(&entry.path(), depth - 1, found);
        }
    }
}

/// Names, sizes and times of everything in these folders of this machine that the simulator must not touch.
fn sentinel() -> Files {
    let mut found = Files::new();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folders = [PathBuf::from("/etc"), home.join(".ssh"), "/Library/LaunchDaemons".into(), "/opt/macluster".into()];
    for folder in folders {
        if let Ok(meta) = folder.symlink_metadata() {
            found.insert(folder.clone(), (meta.len(), meta.modified().ok()));
        }
        walk(&folder, 3, &mut found);
    }
    found
}

fn root(rack: &RunningRack) -> String {
    rack.nodes[0].node.root.display().to_string()
}

#[tokio::test]
async fn a_broad_set_of_operations_touches_nothing_outside() {
    let before = sentinel();
    let rack = Rack::builder().binary(binary()).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = root(&rack);
    let opt = format!("{root}/opt/macluster");
    let commands: &[&[&str]] = &[
        &["system_profiler", "SPThunderboltDataType", "SPHardwareDataType", "-json"],
        &["networksetup", "-listallhardwareports"],
        &["networksetup", "-listnetworkserviceorder"],
        &["ifconfig"],
        &["ibv_devices"],
        &["ibv_devinfo", "-v"],
        &["rdma_ctl", "status"],
        &["sw_vers"],
        &["sysctl", "hw.model", "kern.boottime"],
        &["netstat", "-rn", "-f", "inet"],
        &["netstat", "-rn"],
        &["route", "-n", "get", "default"],
        &["arp", "-an"],
        &["ndp", "-an"],
        &["nvram", "rdma-enable"],
        &["pmset", "-g"],
        &["ps", "-axo", "pid,ppid,etime,command"],
        &["df", "-k", &opt],
        &["sudo", "-n", "ifconfig", "bridge0", "deletem", "en3"],
        &["sudo", "-n", "ifconfig", "en3", "up"],
        &["sudo", "-n", "ifconfig", "en3", "inet", "10.254.0.1", "netmask", "255.255.255.252"],
        &["sudo", "-n", "ifconfig", "en3", "inet", "10.254.0.1", "delete"],
        &["sudo", "-n", "mkdir", "-p", &opt],
        &["sudo", "-n", "chown", "-R", "admin:staff", &opt],
        &["mkdir", "-p", &format!("{opt}/releases/a")],
        &["ln", "-s", "releases/a", &format!("{opt}/current")],
        &["touch", &format!("{opt}/current/x")],
        &["cp", &format!("{opt}/current/x"), &format!("{opt}/y")],
        &["mv", &format!("{opt}/y"), &format!("{opt}/z")],
        &["chmod", "600", &format!("{opt}/z")],
        &["shasum", "-a", "256", &format!("{opt}/z")],
        &["tar", "-c", "-f", "-", "-C", &opt, "releases"],
        &["rm", "-rf", &format!("{opt}/releases")],
        &["cat", &format!("{root}/etc/nonesuch")],
        &["ls", "-la", &format!("{root}/var")],
    ];
    for words in commands {
        let ran = client.exec(&line(words)).await;
        assert_ne!(ran.status, 127, "{words:?}: {}", ran.stderr);
    }
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
    assert_eq!(before, sentinel());
}

/// The operator's own commands, in an operator's own environment: nothing of this machine changes.
#[tokio::test(flavor = "multi_thread")]
async fn the_product_on_a_simulated_rack_touches_nothing_outside_it() {
    let before = sentinel();
    let rack = Rack::builder().binary(binary()).start().await.expect("a rack");
    let dir = tempfile::tempdir().expect("a folder");
    let snapshot = dir.path().join("rack.snapshot").display().to_string();
    let commands: &[(&[&str], i32)] = &[
        (&["doctor"], 4),
        (&["cabling"], 0),
        (&["cabling", "plan"], 0),
        (&["cabling", "diagram"], 0),
        (&["cabling", "diagram", "--planned", "-o", "svg"], 0),
        (&["snapshot", &snapshot], 0),
        (&["network", "plan"], 0),
        (&["network", "apply", "--yes"], 0),
        (&["network", "plan", "--detailed-exitcode"], 0),
        (&["checklist"], 0),
        (&["cabling", "diagram", "-o", "html"], 0),
        (&["hostfile", "--backend", "ring"], 0),
        // Its coordinator would be on this loopback, where no Mac reaches it.
        (&["hostfile", "--backend", "jaccl"], 4),
        (&["doctor"], 0),
        (&["status"], 10),
        (&["logs", "studio-1"], 10),
        (&["doctor", "--from", &snapshot], 4),
    ];
    for (args, status) in commands {
        let mut command = std::process::Command::new(binary());
        // HOME is the real one: what would be written there is what must not be.
        command.current_dir(dir.path()).arg("-f").arg(&rack.inventory).args(*args).stdin(std::process::Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(*status), "{args:?}: {errors}");
        assert_eq!(rack.tripwire(), "", "{args:?}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("readable").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["rack.snapshot"]);
    rack.stop().await.expect("stops");
    assert_eq!(before, sentinel());
}

/// Commands that only read: nothing changes on any node either, nor beside the inventory.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_read_write_nothing_at_all() {
    // A stock rack: no daemon of ours writes its log meanwhile.
    let rack = Rack::builder().binary(binary()).start().await.expect("a rack");
    let files = || {
        let mut found = Files::new();
        walk(&rack.dir, 32, &mut found);
        found
    };
    let before = files();
    assert!(before.len() > rack.nodes.len());
    let commands: &[(&[&str], i32)] = &[
        (&["cabling"], 0),
        (&["cabling", "plan"], 0),
        (&["cabling", "plan", "--topology", "ring", "-o", "json"], 0),
        (&["cabling", "diagram"], 0),
        (&["cabling", "diagram", "-o", "html", "--without-cables"], 0),
        (&["cabling", "diagram", "--planned", "-o", "svg"], 0),
        (&["hostfile", "--backend", "ring"], 0),
        // Its coordinator would be on this loopback, where no Mac reaches it.
        (&["hostfile", "--backend", "jaccl"], 4),
    ];
    for (args, status) in commands {
        run(&rack, args).await.expect(*status);
        let after = files();
        let changed: Vec<_> = after.iter().filter(|(path, is)| before.get(*path) != Some(is)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "{args:?} wrote {changed:?}");
    }
    done(rack).await;
}

#[tokio::test]
async fn every_way_out_is_refused_and_recorded() {
    let before = sentinel();
    let outside = tempfile::tempdir().expect("a folder outside");
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "untouched").expect("writes");
    let victim = victim.to_str().expect("UTF-8");
    let folder = outside.path().to_str().expect("UTF-8");
    let rack = Rack::builder().binary(binary()).nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = root(&rack);
    let up = format!("{root}/../../../../../../../../../..");
    let home = format!("{root}/Users/admin");
    // A link that leads out, as a hostile program on the node could have left it.
    std::os::unix::fs::symlink(folder, format!("{home}/out")).expect("a link");
    std::os::unix::fs::symlink(format!("{folder}/new"), format!("{home}/dangling")).expect("a link");
    std::os::unix::fs::symlink("/bin/ls", format!("{home}/tool")).expect("a link");

    let mut seen = 0;
    let attempts: &[&[&str]] = &[
        // Programs that are not the node's.
        &["/bin/rm", "-rf", folder],
        &["/bin/ls"],
        &[&format!("{root}/../../../bin/ls")],
        &[&format!("{up}/bin/ls")],
        &[&format!("{home}/tool")],
        &["sudo", "-n", "/bin/rm", "-rf", folder],
        // Shells.
        &["sh", "-c", "true"],
        &[&format!("{root}/bin/sh"), "-c", "true"],
        &["sudo", "-n", "zsh", "-c", "true"],
        // Files by absolute path, by `..`, through links.
        &["cat", "/etc/passwd"],
        &["cat", &format!("{up}/etc/passwd")],
        &["cat", &format!("{home}/out/victim")],
        &["ls", "/"],
        &["ls", &format!("{home}/out/")],
        &["shasum", "-a", "256", victim],
        &["stat", "-f", "%z", victim],
        &["tail", "-n", "1", victim],
        &["readlink", "-f", &format!("{home}/out")],
        &["test", "-f", victim],
        &["df", "-k", folder],
        // Writes.
        &["sudo", "-n", "rm", "-rf", victim],
        &["sudo", "-n", "rm", "-rf", &format!("{home}/out/victim")],
        &["sudo", "-n", "rm", "-rf", &format!("{root}/..")],
        &["sudo", "-n", "rmdir", folder],
        &["sudo", "-n", "mkdir", "-p", &format!("{folder}/made")],
        &["sudo", "-n", "mkdir", "-p", &format!("{home}/out/made")],
        &["sudo", "-n", "mkdir", "-p", &format!("{home}/dangling/made")],
        &["sudo", "-n", "touch", &format!("{home}/dangling")],
        &["sudo", "-n", "tee", victim],
        &["sudo", "-n", "tee", &format!("{home}/dangling")],
        &["sudo", "-n", "mv", victim, &home],
        &["sudo", "-n", "mv", &format!("{home}/tool"), &format!("{folder}/made")],
        &["sudo", "-n", "cp", victim, &home],
        &["sudo", "-n", "cp", &format!("{home}/tool"), &home],
        &["sudo", "-n", "cp", "-R", &format!("{home}/out"), &format!("{home}/copy")],
        &["sudo", "-n", "chmod", "777", victim],
        &["sudo", "-n", "chmod", "777", &format!("{home}/out/victim")],
        &["sudo", "-n", "chown", "root", victim],
        &["ln", "-s", "/etc", &format!("{home}/etc")],
        &["ln", "-s", "../../../../../../../../../../etc", &format!("{home}/etc")],
        &["ln", victim, &format!("{home}/hard")],
        &["tar", "-c", "-f", "-", "-C", folder, "."],
        &["tar", "-c", "-f", "-", "-C", &home, "out/victim"],
        &["sudo", "-n", "launchctl", "bootout", "system", victim],
        &["xattr", "-d", "com.apple.quarantine", victim],
    ];
    for words in attempts {
        let ran = client.exec_with(&line(words), b"overwritten").await;
        // `tee` repeats its input, and an archive of nothing is a block of zeros: both are no leak.
        assert_ne!(ran.status, 0, "{words:?} went through: {}", ran.stdout);
        assert_eq!(ran.stdout.replace("overwritten", "").replace('\0', ""), "", "{words:?} printed something");
        let recorded = rack.tripwire().lines().count();
        assert!(recorded > seen, "{words:?} was not recorded; {}", ran.stderr);
        seen = recorded;
    }
    for shell in ["true; true", "true && true", "true | true", "true > x", "cat $HOME/x", "cat `pwd`", "ls *", "(true)"]
    {
        client.exec(shell).await.expect(1);
        let recorded = rack.tripwire().lines().count();
        assert!(recorded > seen, "`{shell}` was not recorded");
        seen = recorded;
    }
    // Forwarding leads to this machine's loopback and nowhere else.
    let far = client.handle().channel_open_direct_tcpip("192.0.2.1", 80, "127.0.0.1", 1).await;
    assert!(far.is_err(), "forwarded to another machine");
    assert!(rack.tripwire().lines().count() > seen);
    rack.stop().await.expect("stops");

    assert_eq!(std::fs::read_to_string(victim).expect("still there"), "untouched");
    assert_eq!(std::fs::read_dir(outside.path()).expect("still there").count(), 1, "something was made outside");
    assert_eq!(before, sentinel());
}

#[tokio::test]
async fn archives_cannot_reach_outside() {
    let outside = tempfile::tempdir().expect("a folder outside");
    let rack = Rack::builder().binary(binary()).nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let home = format!("{}/Users/admin", root(&rack));
    let folder = outside.path().to_str().expect("UTF-8");
    let member = |kind: tar::EntryType, name: &str, link: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        // Set raw: the library's own setters refuse what is tried here.
        header.as_gnu_mut().expect("gnu").name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().expect("gnu").linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        header
    };
    let deep = format!("{}{}", "../".repeat(12), &folder[1..]);
    let archives: &[&[tar::Header]] = &[
        &[member(tar::EntryType::Regular, &format!("{deep}/made"), "")],
        &[member(tar::EntryType::Symlink, "away", folder), member(tar::EntryType::Regular, "away/made", "")],
        &[member(tar::EntryType::Symlink, "up", &deep), member(tar::EntryType::Regular, "up/made", "")],
    ];
    let mut seen = 0;
    for headers in archives {
        let mut bytes = Vec::new();
        for header in *headers {
            bytes.extend_from_slice(header.as_bytes());
        }
        bytes.extend_from_slice(&[0; 1024]);
        client.exec_with(&line(&["tar", "-x", "-f", "-", "-C", &home]), &bytes).await.expect(1);
        let recorded = rack.tripwire().lines().count();
        assert!(recorded > seen, "not recorded: {}", rack.tripwire());
        seen = recorded;
    }
    assert_eq!(std::fs::read_dir(outside.path()).expect("still there").count(), 0, "something was made outside");
    rack.stop().await.expect("stops");
}
