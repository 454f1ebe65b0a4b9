//! Commands as root: with a sudo that asks as macOS' does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use macluster::event::silent;
use macluster::model::{Cmd, Stdin};
use macluster::remote::{ConnectOptions, Fleet, RemoteError, SharedRemote};

use super::{Script, around, assert_all_reached, inventory, options};
use crate::support::anyuser::AnyUser;
use crate::support::sshd::keygen;

/// A root with a sudo of our own. `$0.d/` holds its rules: `exempt` (programs that need no password), `password`
/// (the right one), `denied` (nobody may), `silent` (asks without a word), `own` (asks with its own words), and
/// its `log` (every call's words).
///
/// Texts and statuses as captured on macOS; `-k` is taken as given since nothing is remembered here.
const SUDO: &str = r#"#!/bin/sh
rules="$0.d"
echo "$*" >> "$rules/log"
prompt='Password:'
while :; do
  case "$1" in
    -n) n=1; shift ;;
    -S) s=1; shift ;;
    -k) shift ;;
    -p) prompt="$2"; shift 2 ;;
    --) shift; break ;;
    -*) echo "sudo: unrecognized option $1" >&2; exit 1 ;;
    *) break ;;
  esac
done
name=$(basename "$1")
if ! grep -qx -e "$name" -e ALL "$rules/exempt" 2>/dev/null; then
  if [ -n "$n" ]; then echo 'sudo: a password is required' >&2; exit 1; fi
  if [ -z "$s" ]; then echo 'sudo: a terminal is required to read the password' >&2; exit 1; fi
  [ -f "$rules/own" ] && prompt='Password:'
  [ -f "$rules/silent" ] && prompt=''
  wrong=0
  while :; do
    printf '%s' "$prompt" >&2
    if ! IFS= read -r given; then
      printf '\nsudo: no password was provided\nsudo: %s incorrect password attempt\n' "$wrong" >&2; exit 1
    fi
    [ "$given" = "$(cat "$rules/password")" ] && break
    wrong=$((wrong + 1))
    [ "$wrong" -ge 3 ] && { echo 'sudo: 3 incorrect password attempts' >&2; exit 1; }
    echo 'Sorry, try again.' >&2
  done
fi
if [ -f "$rules/denied" ]; then echo 'tech is not in the sudoers file.' >&2; exit 1; fi
exec "$@"
"#;

struct Rack {
    dir: tempfile::TempDir,
    servers: Vec<AnyUser>,
}

impl Rack {
    async fn start(nodes: usize, rules: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        keygen(&dir.path().join("id"), "ed25519", "");
        let bin = dir.path().join("usr/bin");
        std::fs::create_dir_all(bin.join("sudo.d")).expect("made");
        std::fs::write(bin.join("sudo"), SUDO).expect("written");
        std::fs::set_permissions(bin.join("sudo"), std::fs::Permissions::from_mode(0o755)).expect("executable");
        for program in ["true", "tee", "id"] {
            std::os::unix::fs::symlink(Path::new("/usr/bin").join(program), bin.join(program)).expect("linked");
        }
        let mut servers = Vec::new();
        for _ in 0..nodes {
            servers.push(AnyUser::start().await);
        }
        let rack = Rack { dir, servers };
        for (name, text) in rules {
            rack.rule(name, text);
        }
        rack
    }

    fn rule(&self, name: &str, text: &str) {
        std::fs::write(self.rules().join(name), text).expect("written");
    }

    fn rules(&self) -> PathBuf {
        self.dir.path().join("usr/bin/sudo.d")
    }

    /// Every word sudo was ever called with.
    fn log(&self) -> String {
        std::fs::read_to_string(self.rules().join("log")).unwrap_or_default()
    }

    async fn connect(&self, user: &str, script: &Arc<Script>) -> Vec<SharedRemote> {
        let ports: Vec<u16> = self.servers.iter().map(|s| s.port).collect();
        let ssh = format!("  use_config: false\n  identity: {}\n", self.dir.path().join("id").display());
        let mut inventory = inventory(self.dir.path(), &ports, &ssh);
        inventory.ssh.user = Some(user.to_owned());
        inventory.paths.root = self.dir.path().to_string_lossy().into_owned();
        let options = ConnectOptions { prompt: script.clone(), ..options(true) };
        let fleet = Fleet::connect_in(&inventory, &options, &silent(), &around(self.dir.path(), false)).await;
        assert_all_reached(&fleet);
        fleet.nodes.into_values().filter_map(Result::ok).collect()
    }

    /// `tee` of these bytes to a file, as root.
    fn tee(&self, name: &str, bytes: &[u8]) -> Cmd {
        let file = self.dir.path().join(name).to_string_lossy().into_owned();
        Cmd::write("/usr/bin/tee", [file]).sudo(true).stdin(Stdin::Bytes(bytes.to_vec()))
    }

    fn written(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.path().join(name)).expect("written")
    }
}

fn sudo_error(result: Result<macluster::model::Output, RemoteError>) -> String {
    match result {
        Err(RemoteError::Sudo(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_password_nothing_is_asked_or_sent() {
    let rack = Rack::start(1, &[("exempt", "ALL\n"), ("password", "never")]).await;
    let script = Script::secrets(&["hunter2"]);
    let remote = rack.connect("tech", &script).await.remove(0);
    let output = remote.exec(rack.tee("out", b"exactly this\n")).await.expect("it runs");
    assert!(output.ok(), "{}", output.describe());
    assert_eq!(rack.written("out"), b"exactly this\n");
    assert!(script.asked().is_empty());
    assert!(rack.log().lines().all(|l| l.starts_with("-n -- ")), "{}", rack.log());
    // Not asked for: not used.
    assert!(remote.exec(Cmd::read("/usr/bin/true", [""; 0])).await.expect("it runs").ok());
    assert_eq!(rack.log().lines().count(), 1);
}

#[tokio::test]
async fn root_needs_no_sudo() {
    let rack = Rack::start(1, &[("denied", "")]).await;
    let remote = rack.connect("root", &Script::secrets(&[])).await.remove(0);
    assert!(remote.exec(rack.tee("out", b"x")).await.expect("it runs").ok());
    assert_eq!(rack.written("out"), b"x");
    assert_eq!(rack.log(), "");
}

#[tokio::test]
async fn a_password_is_asked_once_for_all_nodes_and_goes_nowhere_but_to_sudo() {
    for asking in ["own", "none", "silent"] {
        let rack = Rack::start(2, &[("password", "hunter2"), (asking, "")]).await;
        let script = Script::secrets(&["hunter2"]);
        let remotes = rack.connect("tech", &script).await;
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
        let runs = remotes.iter().enumerate().flat_map(|(node, remote)| {
            (0..3).map({
                let (rack, bytes) = (&rack, &bytes);
                move |n| remote.exec(rack.tee(&format!("out-{node}-{n}"), bytes))
            })
        });
        for output in join_all(runs).await {
            let output = output.expect("it runs");
            assert!(output.ok(), "{asking}: {}", output.describe());
            assert!(
                !output.err_text().contains("macluster"),
                "our question is not the command's: {}",
                output.err_text()
            );
        }
        for (node, n) in (0..2).flat_map(|node| (0..3).map(move |n| (node, n))) {
            assert_eq!(rack.written(&format!("out-{node}-{n}")), bytes, "{asking}");
        }
        assert_eq!(script.asked().len(), 1, "{asking}: {:?}", script.asked());
        assert!(script.asked().concat().contains("tech"));
        assert!(!rack.log().contains("hunter2"), "a password among the arguments: {}", rack.log());
    }
}

#[tokio::test]
async fn a_wrong_password_is_asked_again_three_times_at_most() {
    let rack = Rack::start(2, &[("password", "right")]).await;
    let script = Script::secrets(&["wrong", "right"]);
    let remotes = rack.connect("tech", &script).await;
    let runs = remotes.iter().enumerate().map(|(n, remote)| remote.exec(rack.tee(&format!("out-{n}"), b"data\n")));
    for output in join_all(runs).await {
        assert!(output.expect("it runs").ok());
    }
    assert_eq!((rack.written("out-0"), rack.written("out-1")), (b"data\n".to_vec(), b"data\n".to_vec()));
    assert_eq!(script.asked().len(), 2, "{:?}", script.asked());

    let script = Script::secrets(&["a", "b", "c", "right"]);
    let remotes = rack.connect("tech", &script).await;
    let runs = remotes.iter().enumerate().map(|(n, remote)| remote.exec(rack.tee(&format!("no-{n}"), b"data\n")));
    for result in join_all(runs).await {
        assert!(sudo_error(result).contains("wrong 3 times"));
    }
    let again = remotes.first().expect("a node").exec(rack.tee("no-2", b"")).await;
    assert!(sudo_error(again).contains("wrong 3 times"));
    assert_eq!(script.asked().len(), 3);
    assert!(!rack.dir.path().join("no-0").exists());
}

#[tokio::test]
async fn without_a_terminal_the_way_out_is_named() {
    let rack = Rack::start(1, &[("password", "hunter2")]).await;
    let script = Script::secrets(&[]);
    let remote = rack.connect("tech", &script).await.remove(0);
    let why = sudo_error(remote.exec(rack.tee("out", b"")).await);
    assert!(why.contains("NOPASSWD") && why.contains("terminal"), "{why}");
    let _ = remote.exec(rack.tee("out", b"")).await;
    assert_eq!(script.asked().len(), 1, "nobody there once is nobody there for the run");
}

#[tokio::test]
async fn a_user_who_may_not_is_told_so() {
    let rack = Rack::start(1, &[("exempt", "ALL\n"), ("denied", "")]).await;
    let remote = rack.connect("tech", &Script::secrets(&[])).await.remove(0);
    let why = sudo_error(remote.exec(rack.tee("out", b"")).await);
    assert!(why.contains("`tech`") && why.contains("not in the sudoers file"), "{why}");
}

#[tokio::test]
async fn an_exempt_command_never_gets_the_password_of_another() {
    let rack = Rack::start(1, &[("exempt", "tee\n"), ("password", "hunter2")]).await;
    let script = Script::secrets(&["hunter2"]);
    let remote = rack.connect("tech", &script).await.remove(0);
    assert!(remote.exec(Cmd::read("/usr/bin/id", ["-u"]).sudo(true)).await.expect("it runs").ok());
    assert_eq!(script.asked().len(), 1);
    assert!(remote.exec(rack.tee("out", b"only this\n")).await.expect("it runs").ok());
    assert_eq!(rack.written("out"), b"only this\n");
}

#[tokio::test]
async fn a_failing_command_is_no_failure_of_sudo() {
    let rack = Rack::start(1, &[("exempt", "ALL\n")]).await;
    let remote = rack.connect("tech", &Script::secrets(&[])).await.remove(0);
    let output = remote.exec(Cmd::read("/usr/bin/id", ["no-such-user-here"]).sudo(true)).await.expect("it ran");
    assert_eq!(output.exit, Some(1));
    assert!(output.err_text().contains("no-such-user-here"));
}
