//! Ways to a node: configuration, jump hosts, and the ways that do not work.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use macluster::event::silent;
use macluster::model::{Cmd, FailureKind};
use macluster::remote::{Fleet, RemoteError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{around, assert_all_reached, connect, inventory, log, options, own_key, reach};
use crate::support::sshd::{Sshd, me};

/// Writes `~/.ssh/config` in the server's folder, with `known_hosts` for the servers given.
fn configure(home: &Sshd, text: &str, known: &[(&str, &Sshd)]) {
    let ssh = home.path(".ssh");
    std::fs::create_dir_all(&ssh).expect("made");
    std::fs::write(ssh.join("config"), text).expect("written");
    let lines: Vec<String> =
        known.iter().map(|(name, sshd)| format!("{name} {}\n", sshd.host_key("ed25519"))).collect();
    std::fs::write(ssh.join("known_hosts"), lines.concat()).expect("written");
}

#[tokio::test]
async fn the_configuration_leads_to_the_node_and_the_inventory_overrules_it() {
    let Some(sshd) = Sshd::start("the_configuration_leads_to_the_node", &["ed25519"], "") else { return };
    configure(
        &sshd,
        &format!(
            "Host rack-*\n HostName 127.0.0.1\n Port {}\n User {}\n IdentityFile ~/id\n HostKeyAlias the-rack\n",
            sshd.port,
            me()
        ),
        &[("the-rack", &sshd)],
    );
    let read = |text: &str| macluster::parse::inventory::read(text, None).expect("a good inventory");
    let found = read("rack: test\nnodes:\n  - { name: mac-1, host: rack-1 }\n");
    let around = around(sshd.dir.path(), true);
    let remote = reach(&found, &options(false), &around).await.unwrap_or_else(|e| panic!("{}", e.message));
    assert!(remote.exec(Cmd::read("/bin/true", [""; 0])).await.expect("it runs").ok());

    let overruled = read("rack: test\nnodes:\n  - { name: mac-1, host: rack-1, user: nobody-here }\n");
    let error = reach(&overruled, &options(false), &around).await.err().expect("no such user");
    assert!(error.message.contains("`nobody-here`"), "{}", error.message);
    let ignored = read("rack: test\nssh: { use_config: false }\nnodes:\n  - { name: mac-1, host: rack-1.invalid }\n");
    let without = super::around(sshd.dir.path(), false);
    let error = reach(&ignored, &options(false), &without).await.err().expect("the alias means nothing");
    assert_eq!(error.kind, FailureKind::Unreachable);
    assert!(error.message.contains("rack-1.invalid"), "{}", error.message);
}

#[tokio::test]
async fn through_one_jump_host_and_through_two() {
    let name = "through_one_jump_host_and_through_two";
    let servers = [(); 3].map(|()| Sshd::start(name, &["ed25519"], ""));
    let [Some(one), Some(two), Some(target)] = servers else { return };
    // The target's key opens all three.
    for jump in [&one, &two] {
        std::fs::copy(target.path("authorized_keys"), jump.path("authorized_keys")).expect("copied");
    }
    for (jump, connections) in [
        (format!("{}@127.0.0.1:{}", me(), one.port), [1, 0]),
        (format!("{0}@127.0.0.1:{1},{0}@127.0.0.1:{2}", me(), one.port, two.port), [2, 1]),
    ] {
        let lines = format!("{}  jump: {jump}\n", own_key(&target));
        // Three nodes share the way.
        let inventory = inventory(target.dir.path(), &[target.port; 3], &lines);
        let fleet = Fleet::connect_in(&inventory, &options(true), &silent(), &around(target.dir.path(), false)).await;
        assert_all_reached(&fleet);
        for (_, remote) in fleet.reached() {
            assert!(remote.exec(Cmd::read("/bin/true", [""; 0])).await.expect("it runs").ok());
            assert_eq!(remote.peer_address(), None);
        }
        assert_eq!([one.connections(), two.connections()], connections);
    }
    // A jump host is checked like any other.
    let stranger = target.host_key("ed25519");
    std::fs::write(target.path("known_hosts"), format!("[127.0.0.1]:{} {stranger}\n", one.port)).expect("written");
    let lines = format!("{}  jump: {}@127.0.0.1:{}\n", own_key(&target), me(), one.port);
    let inventory = inventory(target.dir.path(), &[target.port], &lines);
    let error = reach(&inventory, &options(true), &around(target.dir.path(), false)).await.err().expect("changed");
    assert_eq!(error.kind, FailureKind::ChangedHostKey);
    assert!(error.message.starts_with("jump host 127.0.0.1"), "{}", error.message);
}

#[tokio::test]
async fn proxy_jump_of_the_configuration_applies_to_hops_as_well() {
    let name = "proxy_jump_of_the_configuration";
    let servers = [(); 3].map(|()| Sshd::start(name, &["ed25519"], ""));
    let [Some(one), Some(two), Some(target)] = servers else { return };
    for jump in [&one, &two] {
        std::fs::copy(target.path("authorized_keys"), jump.path("authorized_keys")).expect("copied");
    }
    configure(
        &target,
        &format!(
            "Host outer\n Port {}\nHost inner\n Port {}\n ProxyJump outer\nHost mac\n Port {}\n ProxyJump inner\n\
             Host *\n HostName 127.0.0.1\n IdentityFile ~/id\n HostKeyAlias %h\n",
            one.port, two.port, target.port
        ),
        &[],
    );
    let inventory = "rack: test\nnodes:\n  - { name: mac-1, host: mac }\n";
    let inventory = macluster::parse::inventory::read(inventory, None).expect("a good inventory");
    // All three have one listed name here, so their keys are recorded under it first.
    let lines = [&one, &two, &target].map(|s| format!("%h {}\n", s.host_key("ed25519"))).concat();
    std::fs::write(target.path(".ssh/known_hosts"), lines).expect("written");
    let remote = reach(&inventory, &options(false), &around(target.dir.path(), true)).await;
    assert!(remote.is_ok(), "{}", remote.err().map(|e| e.message).unwrap_or_default());
    assert_eq!([one.connections(), two.connections(), target.connections()], [1, 1, 1]);
}

#[tokio::test]
async fn a_proxy_command_is_announced_as_not_used() {
    let Some(sshd) = Sshd::start("a_proxy_command_is_announced", &["ed25519"], "") else { return };
    let config = format!("Host 127.0.0.1\n ProxyCommand nc %h %p\n IdentityFile ~/id\n Port {}\n", sshd.port);
    configure(&sshd, &config, &[]);
    let inventory = "rack: test\nnodes:\n  - { name: mac-1, host: 127.0.0.1 }\n";
    let inventory = macluster::parse::inventory::read(inventory, None).expect("a good inventory");
    let (log, events) = log();
    let fleet = Fleet::connect_in(&inventory, &options(true), &events, &around(sshd.dir.path(), true)).await;
    assert_eq!(fleet.reached().count(), 1);
    let said = log.0.lock().expect("not poisoned").concat();
    assert!(said.contains("ProxyCommand `nc %h %p` is not supported"), "{said}");
}

#[tokio::test]
async fn unreachable_nodes_are_told_apart_and_do_not_keep_the_others() {
    let Some(sshd) = Sshd::start("unreachable_nodes_are_told_apart", &["ed25519"], "") else { return };
    // Nobody listens; somebody listens and says nothing; somebody who is no SSH server; somebody who hangs up.
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ports = [closed, mute.local_addr().expect("an address").port()];
    let mut ports = ports.to_vec();
    for words in ["HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        ports.push(server.local_addr().expect("an address").port());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = server.accept().await {
                let _ = stream.write_all(words.as_bytes()).await;
            }
        });
    }
    ports.push(sshd.port);
    let mut inventory = inventory(sshd.dir.path(), &ports, &own_key(&sshd));
    let mut nowhere = inventory.nodes.first().expect("a node").clone();
    nowhere.name = "mac-9".parse().expect("a name");
    nowhere.host = "no-such-mac.invalid".to_owned();
    inventory.nodes.push(nowhere);
    let mut around = around(sshd.dir.path(), false);
    around.waits.connect = Duration::from_secs(2);
    let start = Instant::now();
    let fleet = Fleet::connect_in(&inventory, &options(true), &silent(), &around).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert_eq!(fleet.exit(), macluster::exit::Exit::SomeNodesFailed);
    assert_eq!(fleet.reached().map(|(n, _)| n.as_str()).collect::<Vec<_>>(), ["mac-5"]);
    let said: Vec<(&str, &str)> = fleet.unreached().map(|(n, e)| (n.as_str(), e.message.as_str())).collect();
    for (node, words) in [
        ("mac-1", "refuses connections"),
        ("mac-2", "no SSH server speaks there within 2 s"),
        ("mac-3", "no SSH server"),
        ("mac-4", "closed the connection"),
        ("mac-9", "`no-such-mac.invalid` has no address"),
    ] {
        let found = said.iter().find(|(n, _)| *n == node).map_or("", |(_, message)| message);
        assert!(found.contains(words), "{node}: {found}");
    }
    for (node, error) in fleet.unreached() {
        assert_eq!(error.kind, FailureKind::Unreachable, "{node}");
        assert!(error.hint.is_some(), "{node}: {}", error.message);
    }
}

#[tokio::test]
async fn a_tcp_connection_goes_through_the_node() {
    let Some(sshd) = Sshd::start("a_tcp_connection_goes_through_the_node", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let echo = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = echo.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = echo.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    let mut stream = remote.open_tcp("127.0.0.1", port).await.expect("opened");
    stream.write_all(b"hello").await.expect("sent");
    stream.shutdown().await.expect("ended");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("received");
    assert_eq!(answer, "hello");
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let error = remote.open_tcp("127.0.0.1", closed).await.err().expect("nobody listens");
    assert!(matches!(&error, RemoteError::Refused(why) if why.contains(&closed.to_string())), "{error}");
}
