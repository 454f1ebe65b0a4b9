//! `mlx.launch` with a hostfile of ours: real SSH to every node, a real ring over the real cables.
//!
//! The simulated Mac has no Python, and its login shell runs no scripts. So, once the hostfile is written, logins get a
//! real shell whose files are the host's, read only; network and processes stay the node's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::rack::{NetRack, ran};
use super::ready;
use crate::ranks::python;

/// Where a node has that shell.
const SHELL: &str = "/.macsim/real-shell";
/// The shell: of the host's tree, with a temporary folder of its own.
const REAL_SHELL: &str = r#"#!/.macsim/host/bin/sh
host=/.macsim/host
PATH=$host/usr/sbin:$host/usr/bin exec $host/usr/bin/unshare --mount $host/bin/sh -euc '
  mount -t tmpfs tmpfs /.macsim/host/tmp
  mount --rbind /proc /.macsim/host/proc
  mount --rbind /dev /.macsim/host/dev
  PATH=/usr/sbin:/usr/bin:/sbin:/bin exec /.macsim/host/usr/sbin/chroot /.macsim/host /bin/bash "$@"
' shell "$@"
"#;
/// Longest time for everything the launcher starts.
const LIMIT: &str = "120";

/// Lets logins at this node run scripts.
fn give_shell(root: &Path) {
    let write = |path: &Path, text: &str| {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("rights");
    };
    write(&root.join(SHELL.trim_start_matches('/')), REAL_SHELL);
    // OpenSSH on Linux tells whoever logs in with a terminal that it is missing, and the launcher takes the first line
    // for its own.
    let log = root.join("private/var/log");
    fs::create_dir_all(&log).expect("a folder");
    fs::write(log.join("lastlog"), "").expect("written");
    let users = root.join("private/etc/passwd");
    let text = fs::read_to_string(&users).expect("users");
    fs::write(&users, text.replace("/bin/zsh", SHELL)).expect("written");
}

/// A folder with the `ssh` that a desk has which knows the rack: its key and its nodes.
fn configured_ssh(rack: &NetRack) -> std::path::PathBuf {
    let folder = rack.dir.join("desk");
    fs::create_dir(&folder).expect("a folder");
    let config = format!(
        "BatchMode yes\nConnectTimeout 10\nIdentitiesOnly yes\nIdentityFile {}\nUserKnownHostsFile {}\n",
        rack.dir.join("id_ed25519").display(),
        rack.dir.join("known_hosts").display()
    );
    fs::write(folder.join("config"), config).expect("written");
    let ssh = folder.join("ssh");
    fs::write(&ssh, format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", folder.join("config").display()))
        .expect("written");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("rights");
    folder
}

/// Bytes that came in over a node's cables, and over its management port.
fn received(rack: &NetRack, number: usize) -> (u64, u64) {
    let links = rack.in_network(number, "ip", &["-json", "-s", "link", "show", "type", "veth"]).expect(0).json();
    let bytes = |l: &serde_json::Value| l["stats64"]["rx"]["bytes"].as_u64().expect("a counter");
    let (port, cables): (Vec<_>, Vec<_>) =
        links.as_array().expect("links").iter().partition(|l| l["ifname"].as_str() == Some("en0"));
    (cables.into_iter().map(bytes).sum(), port.into_iter().map(bytes).sum())
}

#[test]
fn mlx_launch_joins_a_ring_over_the_cables() {
    if !ready("launch::mlx_launch_joins_a_ring_over_the_cables") {
        return;
    }
    let python = python();
    let rack = NetRack::start(3, |_| ());
    rack.macluster(&["network", "apply", "--yes"]).expect(0);
    rack.macluster(&["hostfile", "--backend", "ring", "--out", "hosts.json"]).expect(0);
    for number in rack.numbers() {
        give_shell(rack.root(number));
    }
    let before: Vec<_> = rack.numbers().map(|n| received(&rack, n)).collect();

    // The time limit ends the launcher and what it started, which share a process group of their own.
    let mut launch = rack.at_desk("timeout");
    launch.args(["--kill-after=5", LIMIT]).arg(python.with_file_name("mlx.launch"));
    launch.args(["--hostfile", "hosts.json", "--python"]).arg(&python);
    launch.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/netrack/collective.py"));
    let path = format!("{}:/usr/bin:/bin", configured_ssh(&rack).display());
    launch.env_clear().env("PATH", path).env("HOME", &rack.dir);
    let ran = ran(launch).expect(0);
    let mut lines: Vec<&str> = ran.stdout.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    let said = |rank| format!("rank {rank} of 3: sum 7..7, gathered [10, 20, 30]");
    assert_eq!(lines, [said(0), said(1), said(2)], "{}", ran.stderr);

    for (number, (cables, port)) in rack.numbers().zip(before) {
        let now = received(&rack, number);
        assert!(now.0 - cables > 4 << 20, "studio-{number}: {} bytes over its cables", now.0 - cables);
        assert!(now.1 - port < 1 << 20, "studio-{number}: {} bytes over the management network", now.1 - port);
    }
}
