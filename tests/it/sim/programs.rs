//! Real programs that were brought to a node: streams, environment, signals, permissions.

use std::path::PathBuf;
use std::time::Duration;

use macluster::sim::RunningRack;
use russh::ChannelMsg;

use super::{rack, root};
use crate::support::binary;
use crate::support::ssh::{Client, line};

/// Lays an executable of this machine into the first node, as a push would.
fn bring(rack: &RunningRack, source: &str) -> String {
    let source = std::fs::canonicalize(source).expect("a program");
    let folder = PathBuf::from(root(rack)).join("opt/macluster/bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    let target = folder.join("program");
    std::fs::copy(source, &target).expect("copied");
    target.display().to_string()
}

/// A host program under any of the names it has on Linux and macOS.
fn host(names: &[&str]) -> String {
    names.iter().find(|n| std::path::Path::new(n).exists()).expect("one of them exists").to_string()
}

#[tokio::test]
async fn the_pushed_binary_runs_and_is_not_taken_for_a_tool() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let program = bring(&rack, binary().to_str().expect("UTF-8"));
    let ran = client.exec(&line(&[&program, "--version"])).await.expect(0);
    assert!(ran.stdout.starts_with("macluster "), "{}", ran.stdout);
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("changed");
    let ran = client.exec(&line(&[&program, "--version"])).await.expect(126);
    assert_eq!(ran.stderr, format!("zsh:1: permission denied: {program}\n"));
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn its_environment_is_the_nodes_and_sudo_makes_it_roots() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let program = bring(&rack, &host(&["/usr/bin/env", "/bin/env"]));
    let root = root(&rack);
    let env = client.exec(&line(&[&program])).await.expect(0).stdout;
    assert!(env.contains(&format!("HOME={root}/Users/admin\n")), "{env}");
    assert!(env.contains("MACSIM_UID=501\n"), "{env}");
    let paths = env.lines().find_map(|l| l.strip_prefix("PATH=")).expect("a path");
    assert!(paths.split(':').all(|p| p.starts_with(&root)), "{paths}");
    let env = client.exec(&line(&["sudo", "-n", "--", &program])).await.expect(0).stdout;
    assert!(env.contains("MACSIM_UID=0\n"), "{env}");
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_pass_both_ways_whole_and_a_signal_is_told() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let program = bring(&rack, &host(&["/bin/cat", "/usr/bin/cat"]));
    let text = "0123456789 abcdef\n".repeat(80_000);
    let ran = client.exec_with(&line(&[&program]), text.as_bytes()).await.expect(0);
    assert!(ran.stdout == text, "{} of {} bytes came back", ran.stdout.len(), text.len());

    // Without the end of its input it waits, is the node's, and is told when killed.
    let mut channel = client.handle().channel_open_session().await.expect("a channel");
    channel.exec(true, line(&[&program])).await.expect("sent");
    channel.data(&b"x"[..]).await.expect("sent");
    let mut killed = false;
    let mut ended = None;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { .. } if !killed => {
                let ps = client.exec("ps -axo pid=,command=").await.expect(0).stdout;
                let row = ps.lines().find(|l| l.contains(&program)).expect("it runs").trim();
                let pid = row.split(' ').next().expect("a pid");
                client.exec(&format!("kill -TERM {pid}")).await.expect(0);
                killed = true;
            }
            ChannelMsg::ExitSignal { signal_name, .. } => ended = Some(signal_name),
            _ => {}
        }
    }
    assert!(matches!(ended, Some(russh::Sig::TERM)), "{ended:?}");
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_outlives_its_session_but_not_its_rack() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let program = bring(&rack, &host(&["/bin/sleep", "/usr/bin/sleep"]));
    let channel = client.handle().channel_open_session().await.expect("a channel");
    channel.exec(true, line(&[&program, "600"])).await.expect("sent");
    let running = async || {
        client.exec("ps -axo pid=,command=").await.stdout.lines().find(|l| l.contains("600")).map(str::to_owned)
    };
    let row = loop {
        if let Some(row) = running().await {
            break row;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Under OpenSSH, too, a session that closes does not end a program that neither reads nor writes.
    channel.close().await.expect("closed");
    assert!(running().await.is_some());
    let pid: i32 = row.trim().split(' ').next().and_then(|p| p.parse().ok()).expect("a pid");
    rack.stop().await.expect("stops");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    assert!(rustix::process::test_kill_process(pid).is_err(), "the program outlived the rack");
}

#[tokio::test]
async fn only_the_declared_interpreter_may_lie_outside() {
    let python = host(&["/bin/cat", "/usr/bin/cat"]);
    let rack = rack().nodes(1).python(&python).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = root(&rack);
    let inventory = std::fs::read_to_string(&rack.inventory).expect("an inventory");
    assert!(inventory.contains("python: \"/opt/python/bin/cat\""), "{inventory}");
    let ran = client.exec_with(&format!("{root}/opt/python/bin/cat"), b"hello").await.expect(0);
    assert_eq!(ran.stdout, "hello");
    // A virtual environment's own link to the same interpreter.
    let venv = format!("{root}/Users/admin/python");
    std::os::unix::fs::symlink(std::fs::canonicalize(&python).expect("a file"), &venv).expect("a link");
    client.exec_with(&venv, b"hello").await.expect(0);
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_model_is_laid_into_every_node_and_never_changed_at_its_source() {
    let source = tempfile::tempdir().expect("a folder");
    let model = source.path().join("tiny");
    std::fs::create_dir(&model).expect("a folder");
    std::fs::write(model.join("config.json"), "{}").expect("written");
    std::fs::write(model.join("model.safetensors"), vec![1; 2 << 20]).expect("written");
    let rack = rack().nodes(2).model(&model).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let place = format!("{}/opt/macluster/models/tiny/model.safetensors", root(&rack));
    assert_eq!(client.exec(&line(&["stat", "-f", "%z", &place])).await.expect(0).stdout, "2097152\n");
    client.exec(&line(&["sudo", "-n", "chmod", "600", &place])).await.expect(0);
    client.exec_with(&line(&["sudo", "-n", "tee", &place]), b"spoilt").await.expect(0);
    let other = place.replace("studio-1", "studio-2");
    assert_eq!(std::fs::metadata(other).expect("there").len(), 2 << 20);
    let meta = std::fs::metadata(model.join("model.safetensors")).expect("there");
    assert_eq!(meta.len(), 2 << 20);
    assert_ne!(std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777, 0o600);
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_and_output_larger_than_every_buffer_do_not_hold_each_other_up() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let text = "0123456789 abcdef\n".repeat(1 << 20);
    let channel = client.handle().channel_open_session().await.expect("a channel");
    channel.exec(true, "cat").await.expect("sent");
    let (mut incoming, outgoing) = channel.split();
    tokio::time::timeout(Duration::from_secs(60), async {
        let send = async {
            outgoing.data(text.as_bytes()).await.expect("sent");
            outgoing.eof().await.expect("sent");
        };
        // Read late, after a whole other login, so that windows and buffers fill on the way.
        let receive = async {
            Client::connect(&rack, &rack.nodes[0]).await.exec("sw_vers").await.expect(0);
            let mut back = 0;
            while let Some(message) = incoming.wait().await {
                if let ChannelMsg::Data { data } = message {
                    back += data.len();
                }
            }
            back
        };
        let ((), back) = tokio::join!(send, receive);
        assert_eq!(back, text.len());
    })
    .await
    .expect("it never ended");
    rack.stop().await.expect("stops");
}
