//! The SSH layer against real OpenSSH servers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use macluster::event::silent;
use macluster::model::{Access, Cmd, Inventory};
use macluster::remote::prompt::Nobody;
use macluster::remote::{ConnectOptions, Fleet, SharedRemote, Surroundings};

use crate::support::sshd::{Sshd, me};

/// An inventory of one node `mac` behind this server, with its key and its own `known_hosts`.
fn inventory(sshd: &Sshd, more: &str) -> Inventory {
    inventory_with(sshd, &format!("identity: {}", sshd.path("id").display()), more)
}

fn inventory_with(sshd: &Sshd, ssh: &str, more: &str) -> Inventory {
    let text = format!(
        "rack: test\nssh: {{ user: {}, use_config: false, known_hosts: {}, {ssh} }}\n\
         nodes:\n  - {{ name: mac, host: 127.0.0.1, port: {} }}\n{more}\n",
        me(),
        sshd.path("known_hosts").display(),
        sshd.port
    );
    macluster::parse::inventory::read(&text, None).expect("a good inventory")
}

fn options(accept: bool) -> ConnectOptions {
    ConnectOptions { access: Access::Write, accept_new_host_keys: accept, parallel: 8, prompt: Arc::new(Nobody) }
}

fn around(home: &Path, use_config: bool) -> Surroundings {
    Surroundings::new(home.to_owned(), me(), None, Vec::new(), use_config)
}

async fn connect(sshd: &Sshd) -> SharedRemote {
    let fleet =
        Fleet::connect_in(&inventory(sshd, ""), &options(true), &silent(), &around(sshd.dir.path(), false)).await;
    let node = fleet.nodes.into_values().next().expect("one node");
    node.unwrap_or_else(|e| {
        panic!("{}; log:\n{}", e.message, std::fs::read_to_string(sshd.path("log")).unwrap_or_default())
    })
}

#[tokio::test]
async fn words_arrive_as_they_were() {
    let Some(sshd) = Sshd::start("words_arrive_as_they_were", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    for word in ["plain", "it's", "a b", "$(id)", "a\\b", "*", "~", "", "\"q\"", "a\nb", "; false", "ü"] {
        let output = remote.exec(Cmd::read("/usr/bin/printf", ["%s", word])).await.expect("it runs");
        assert_eq!(output.text(), word);
        assert!(output.ok());
    }
    let _ = Duration::ZERO;
}
