//! What the SSH servers let through.

use russh::ChannelMsg;

use super::{rack, root};
use crate::support::ssh::Client;

#[tokio::test]
async fn only_the_racks_own_key_and_user_log_in() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let other = tempfile::tempdir().expect("a folder");
    let key = other.path().join("key");
    let made =
        std::process::Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
    if made.is_ok_and(|s| s.success()) {
        assert!(Client::login(&rack.nodes[0], "admin", &key).await.is_none(), "a foreign key logs in");
    }
    assert!(Client::login(&rack.nodes[0], "root", &rack.identity()).await.is_none(), "root logs in");
    assert!(Client::login(&rack.nodes[0], "admin", &rack.identity()).await.is_some());
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn the_eleventh_session_of_a_connection_is_refused() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(client.handle().channel_open_session().await.expect("one of ten"));
    }
    assert!(client.handle().channel_open_session().await.is_err(), "an eleventh session opened");
    // One that closes makes room; the server sees both requests in this order.
    open.remove(0).close().await.expect("closes");
    client.handle().channel_open_session().await.expect("room again");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn shells_terminals_and_sftp_are_not_offered() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    for what in ["shell", "pty", "sftp", "env"] {
        let mut channel = client.handle().channel_open_session().await.expect("a channel");
        match what {
            "shell" => channel.request_shell(true).await,
            "pty" => channel.request_pty(true, "xterm", 80, 24, 0, 0, &[]).await,
            "sftp" => channel.request_subsystem(true, "sftp").await,
            _ => channel.set_env(true, "DYLD_INSERT_LIBRARIES", "/x").await,
        }
        .expect("the request is sent");
        let answer = channel.wait().await;
        assert!(matches!(answer, Some(ChannelMsg::Failure)), "{what}: {answer:?}");
    }
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn lines_and_programs_fail_as_under_zsh() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = root(&rack);
    for (line, status, stderr) in [
        ("nonesuch".to_owned(), 127, "zsh:1: command not found: nonesuch\n".to_owned()),
        (format!("{root}/bin/nonesuch"), 127, format!("zsh:1: no such file or directory: {root}/bin/nonesuch\n")),
        (format!("{root}/Library"), 126, format!("zsh:1: permission denied: {root}/Library\n")),
        ("true; true".to_owned(), 1, "zsh:1: parse error near `;'\n".to_owned()),
        ("true *.x".to_owned(), 1, "zsh:1: no matches found: *.x\n".to_owned()),
        ("timeout 1 true".to_owned(), 127, "zsh:1: command not found: timeout\n".to_owned()),
    ] {
        let ran = client.exec(&line).await.expect(status);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", stderr.as_str()), "{line}");
    }
    assert_eq!(client.exec(&format!("{root}/usr/bin/true")).await.expect(0).stdout, "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn the_environment_holds_nothing_of_this_machine() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = root(&rack);
    let ran = client.exec("printenv").await.expect(0);
    for line in ran.stdout.lines() {
        let (name, value) = line.split_once('=').expect("NAME=VALUE");
        match name {
            "HOME" | "PWD" | "TMPDIR" => assert!(value.starts_with(&root), "{line}"),
            "PATH" => assert!(value.split(':').all(|p| p.starts_with(&root)), "{line}"),
            "LOGNAME" | "USER" | "SHELL" | "SSH_CLIENT" | "SSH_CONNECTION" => {}
            other => panic!("{other} is in the environment"),
        }
    }
    let ran = client.exec("printenv SSH_CONNECTION").await.expect(0);
    assert_eq!(ran.stdout.split(' ').nth(3).map(str::trim), Some(rack.nodes[0].address.port().to_string().as_str()));
    rack.stop().await.expect("stops");
}
