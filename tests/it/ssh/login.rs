//! Logging in: key files, encrypted keys, the agent, and what is said when it does not work.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use macluster::event::silent;
use macluster::model::{Cmd, FailureKind};
use macluster::remote::{ConnectOptions, Fleet, Surroundings};

use super::{Script, around, assert_all_reached, inventory, options, own_key, reach};
use crate::support::sshd::{Sshd, keygen, me};

/// Makes a key in the server's folder and lets it in.
fn welcome_key(sshd: &Sshd, name: &str, kind: &str, passphrase: &str) -> PathBuf {
    let path = sshd.path(name);
    keygen(&path, kind, passphrase);
    welcome(sshd, &path);
    path
}

fn welcome(sshd: &Sshd, key: &std::path::Path) {
    let mut public = key.as_os_str().to_owned();
    public.push(".pub");
    let file = sshd.path("authorized_keys");
    let text = std::fs::read_to_string(&file).expect("readable") + &std::fs::read_to_string(public).expect("readable");
    std::fs::write(file, text).expect("written");
}

fn with_key(key: &std::path::Path) -> String {
    format!("  use_config: false\n  identity: {}\n", key.display())
}

#[tokio::test]
async fn every_type_of_key_logs_in() {
    let Some(sshd) = Sshd::start("every_type_of_key_logs_in", &["ed25519"], "") else { return };
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let key = welcome_key(&sshd, &format!("user_{kind}"), kind, "");
        let inventory = inventory(sshd.dir.path(), &[sshd.port], &with_key(&key));
        let remote = reach(&inventory, &options(true), &around(sshd.dir.path(), false)).await;
        let remote = remote.unwrap_or_else(|e| panic!("{kind}: {}\n{}", e.message, sshd.log()));
        assert!(remote.exec(Cmd::read("/bin/true", [""; 0])).await.expect("it runs").ok());
        assert_eq!(remote.user(), me());
        assert_eq!(remote.peer_address(), Some("127.0.0.1".parse().expect("an address")));
    }
}

#[tokio::test]
async fn an_encrypted_key_asks_once_for_all_nodes() {
    let Some(sshd) = Sshd::start("an_encrypted_key_asks_once", &["ed25519"], "") else { return };
    let key = welcome_key(&sshd, "locked", "ed25519", "open sesame");
    let inventory = inventory(sshd.dir.path(), &[sshd.port; 3], &with_key(&key));
    let around = around(sshd.dir.path(), false);

    let script = Script::secrets(&["wrong", "open sesame"]);
    let asking = ConnectOptions { prompt: script.clone(), ..options(true) };
    let fleet = Fleet::connect_in(&inventory, &asking, &silent(), &around).await;
    assert_all_reached(&fleet);
    assert_eq!(script.asked().len(), 2, "once, and once more for the slip: {:?}", script.asked());
    assert!(script.asked().iter().all(|q| q.contains("locked")));

    let script = Script::secrets(&["a", "b", "c", "open sesame"]);
    let asking = ConnectOptions { prompt: script.clone(), ..options(true) };
    let fleet = Fleet::connect_in(&inventory, &asking, &silent(), &around).await;
    assert_eq!((fleet.reached().count(), script.asked().len()), (0, 3));
    for (_, error) in fleet.unreached() {
        assert_eq!(error.kind, FailureKind::OwnKey);
        assert!(error.message.contains("wrong three times"), "{}", error.message);
    }
    let error = reach(&inventory, &options(true), &around).await.err().expect("no terminal");
    assert!(error.message.contains("no terminal"), "{}", error.message);
    assert_eq!(
        (error.kind, error.hint.expect("a hint")),
        (
            FailureKind::OwnKey,
            format!("unlock it once with `ssh-add {}`, or run macluster in a terminal", key.display())
        )
    );
}

#[tokio::test]
async fn no_passphrase_is_asked_for_a_key_the_server_does_not_want() {
    let Some(sshd) = Sshd::start("no_passphrase_is_asked", &["ed25519"], "") else { return };
    let key = sshd.path("unwanted");
    keygen(&key, "ed25519", "secret");
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &with_key(&key));
    let script = Script::secrets(&["secret"]);
    let asking = ConnectOptions { prompt: script.clone(), ..options(true) };
    let error = reach(&inventory, &asking, &around(sshd.dir.path(), false)).await.err().expect("not let in");
    assert_eq!(error.kind, FailureKind::Authentication);
    assert!(script.asked().is_empty());
}

#[tokio::test]
async fn old_key_formats_are_read() {
    let Some(sshd) = Sshd::start("old_key_formats_are_read", &["ed25519"], "") else { return };
    // PEM as older tools wrote it, in clear and encrypted.
    for (name, passphrase) in [("pem", ""), ("pem_locked", "open sesame")] {
        let path = sshd.path(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "rsa", "-m", "PEM", "-N", passphrase, "-f"])
            .arg(&path)
            .status()
            .expect("ssh-keygen runs");
        assert!(made.success());
        welcome(&sshd, &path);
        let inventory = inventory(sshd.dir.path(), &[sshd.port], &with_key(&path));
        let script = Script::secrets(&["open sesame"]);
        let asking = ConnectOptions { prompt: script.clone(), ..options(true) };
        let remote = reach(&inventory, &asking, &around(sshd.dir.path(), false)).await;
        assert!(remote.is_ok(), "{name}: {}", remote.err().map(|e| e.message).unwrap_or_default());
        assert_eq!(script.asked().len(), usize::from(!passphrase.is_empty()));
    }
}

/// A real agent with one key. Ended when dropped.
struct Agent {
    child: Child,
    socket: PathBuf,
}

impl Agent {
    async fn start(sshd: &Sshd, key: &std::path::Path) -> Self {
        let socket = sshd.path("agent");
        let child = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("ssh-agent runs");
        let agent = Agent { child, socket };
        let added = async {
            loop {
                let add = Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &agent.socket).output();
                if add.expect("ssh-add runs").status.success() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), added).await.expect("the agent takes the key");
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn keys_of_the_agent_log_in_unless_the_inventory_leaves_it_alone() {
    let Some(sshd) = Sshd::start("keys_of_the_agent_log_in", &["ed25519"], "") else { return };
    for kind in ["ed25519", "rsa"] {
        let key = welcome_key(&sshd, &format!("agent_{kind}"), kind, "");
        let agent = Agent::start(&sshd, &key).await;
        // Only the agent has the private half now.
        std::fs::remove_file(&key).expect("removed");
        let around = |use_config| {
            let home = sshd.path("home");
            Surroundings::new(home, me(), Some(agent.socket.clone()), Vec::new(), use_config)
        };
        let plain = inventory(sshd.dir.path(), &[sshd.port], "  use_config: true\n");
        let remote = reach(&plain, &options(true), &around(true)).await;
        assert!(remote.is_ok(), "{kind}: {}", remote.err().map(|e| e.message).unwrap_or_default());

        // A public key names one of the agent's.
        let named = format!("  use_config: true\n  identity: {}.pub\n", key.display());
        let named = inventory(sshd.dir.path(), &[sshd.port], &named);
        assert!(reach(&named, &options(true), &around(true)).await.is_ok(), "{kind}");

        let alone = inventory(sshd.dir.path(), &[sshd.port], "  use_config: false\n");
        let error = reach(&alone, &options(true), &around(false)).await.err().expect("no key at all");
        assert_eq!(error.kind, FailureKind::OwnKey);
        assert!(error.message.contains("keys tried: none"), "{}", error.message);
        drop(agent);
        let _ = std::fs::remove_file(sshd.path("agent"));
    }
}

#[tokio::test]
async fn a_refused_login_says_what_was_tried_and_what_would_do() {
    let Some(sshd) = Sshd::start("a_refused_login", &["ed25519"], "") else { return };
    let key = sshd.path("stranger");
    keygen(&key, "ed25519", "");
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &with_key(&key));
    let error = reach(&inventory, &options(true), &around(sshd.dir.path(), false)).await.err().expect("not let in");
    assert_eq!(error.kind, FailureKind::Authentication);
    for part in ["stranger", "SHA256:", "publickey"] {
        assert!(error.message.contains(part), "{part} in {}", error.message);
    }
    assert!(error.hint.expect("a hint").contains("authorized_keys"));

    // The key that was meant cannot be used: that is said, not how to bring it to the node.
    let (locked_up, stray) = (sshd.path("locked_up"), sshd.path("stray"));
    std::fs::create_dir(&locked_up).expect("a folder where a key should be");
    std::fs::write(&stray, "nothing of the kind\n").expect("written");
    let public = key.with_extension("pub");
    std::fs::copy(&public, sshd.path("alone.pub")).expect("copied");
    for (path, what, action) in [
        (sshd.path("nothing"), "nothing does not exist", "put the key at "),
        (locked_up, "locked_up cannot be used: ", "make "),
        (stray, "stray cannot be used: it is no key file", "make "),
        (sshd.path("alone.pub"), "alone.pub: the agent does not hold this key", "give the private key "),
    ] {
        let own = super::inventory(sshd.dir.path(), &[sshd.port], &with_key(&path));
        let error = reach(&own, &options(true), &around(sshd.dir.path(), false)).await.err().expect("no key");
        assert_eq!(error.kind, FailureKind::OwnKey, "{}", error.message);
        assert!(error.message.contains(what), "{}", error.message);
        let hint = error.hint.expect("a hint");
        assert!(hint.starts_with(action) && hint.contains(&path.display().to_string()), "{hint}");
    }
}

#[tokio::test]
async fn a_server_without_keys_says_so() {
    let Some(sshd) = Sshd::start(
        "a_server_without_keys",
        &["ed25519"],
        "PubkeyAuthentication no\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes",
    ) else {
        return;
    };
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let error = reach(&inventory, &options(true), &around(sshd.dir.path(), false)).await.err().expect("not let in");
    assert_eq!(error.kind, FailureKind::Authentication);
    assert!(error.message.contains("password"), "{}", error.message);
    assert!(error.hint.expect("a hint").contains("PubkeyAuthentication"));
}

#[tokio::test]
async fn more_than_a_key_is_wanted() {
    let more = "AuthenticationMethods publickey,password\nPasswordAuthentication yes";
    let Some(sshd) = Sshd::start("more_than_a_key_is_wanted", &["ed25519"], more) else { return };
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let error = reach(&inventory, &options(true), &around(sshd.dir.path(), false)).await.err().expect("not let in");
    assert!(error.message.contains("wants more than a key"), "{}", error.message);
}
