//! The SSH layer against real OpenSSH servers.

mod exec;
mod host_keys;
mod login;
mod sudo;
mod tunnel;
mod ways;

use std::path::Path;
use std::sync::{Arc, Mutex};

use macluster::event::{Event, Events, Sink, silent};
use macluster::model::{Access, Inventory};
use macluster::remote::prompt::Nobody;
use macluster::remote::{ConnectError, ConnectOptions, Fleet, Prompt, SharedRemote, Surroundings};

use crate::support::sshd::{Sshd, me};

/// An inventory of nodes `mac-1`, … behind these ports, with the lines of `ssh:` given; `known_hosts` is in `dir`.
fn inventory(dir: &Path, ports: &[u16], ssh: &str) -> Inventory {
    let known_hosts = dir.join("known_hosts");
    let text = format!(
        "rack: test\nssh:\n  user: {}\n  known_hosts: {}\n{ssh}\nnodes:\n  - {{ name: mac-1, host: 127.0.0.1 }}\n",
        me(),
        known_hosts.display()
    );
    let mut inventory = macluster::parse::inventory::read(&text, None).expect("a good inventory");
    // The reader refuses two nodes on one host and port, which here is only a way to have several connections.
    let node = inventory.nodes.pop().expect("one node");
    inventory.nodes.extend(ports.iter().enumerate().map(|(index, port)| {
        let name = format!("mac-{}", index + 1).parse().expect("a name");
        macluster::model::Node { name, port: Some(*port), ..node.clone() }
    }));
    inventory
}

/// Lines of `ssh:` for the server's own user key and nothing else.
fn own_key(sshd: &Sshd) -> String {
    format!("  use_config: false\n  identity: {}\n", sshd.path("id").display())
}

fn options(accept: bool) -> ConnectOptions {
    ConnectOptions { access: Access::Write, accept_new_host_keys: accept, parallel: 8, prompt: Arc::new(Nobody) }
}

/// A home folder without a system-wide `known_hosts` and without an agent.
fn around(home: &Path, use_config: bool) -> Surroundings {
    Surroundings::new(home.to_owned(), me(), None, Vec::new(), use_config)
}

/// Connects to the one node of an inventory.
async fn reach(
    inventory: &Inventory,
    options: &ConnectOptions,
    around: &Surroundings,
) -> Result<SharedRemote, ConnectError> {
    let fleet = Fleet::connect_in(inventory, options, &silent(), around).await;
    fleet.nodes.into_values().next().expect("one node")
}

/// Connects with the server's own key, host key accepted.
async fn connect(sshd: &Sshd) -> SharedRemote {
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(sshd));
    let remote = reach(&inventory, &options(true), &around(sshd.dir.path(), false)).await;
    remote.unwrap_or_else(|e| panic!("{}; log:\n{}", e.message, sshd.log()))
}

/// Answers from a list, and what was asked.
#[derive(Default)]
struct Script {
    secrets: Mutex<Vec<Option<&'static str>>>,
    yes: Option<bool>,
    asked: Mutex<Vec<String>>,
}

impl Script {
    fn secrets(answers: &[&'static str]) -> Arc<Self> {
        let answers = answers.iter().rev().map(|a| Some(*a)).collect();
        Arc::new(Script { secrets: Mutex::new(answers), ..Script::default() })
    }

    fn answering(yes: bool) -> Arc<Self> {
        Arc::new(Script { yes: Some(yes), ..Script::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

impl Prompt for Script {
    fn ask_secret(&self, question: &str) -> Option<String> {
        self.asked.lock().expect("not poisoned").push(question.to_owned());
        self.secrets.lock().expect("not poisoned").pop().flatten().map(str::to_owned)
    }

    fn confirm(&self, question: &str) -> Option<bool> {
        self.asked.lock().expect("not poisoned").push(question.to_owned());
        self.yes
    }
}

/// Keeps notes and warnings.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Sink for Log {
    fn emit(&self, event: Event) {
        if let Event::Note { text, .. } | Event::Warning { text, .. } = event {
            self.0.lock().expect("not poisoned").push(text);
        }
    }
}

fn log() -> (Arc<Log>, Events) {
    let log = Arc::new(Log::default());
    (Arc::clone(&log), log)
}

#[track_caller]
fn assert_all_reached(fleet: &Fleet) {
    let missing: Vec<String> = fleet.unreached().map(|(node, e)| format!("{node}: {}", e.message)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
