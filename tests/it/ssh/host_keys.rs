//! Host keys: known, unknown, changed, of another type, revoked; against a real server.

use macluster::event::silent;
use macluster::model::FailureKind;
use macluster::remote::{ConnectError, ConnectOptions, Fleet};

use super::{Script, around, inventory, log, options, own_key, reach};
use crate::support::sshd::{Sshd, keygen};

/// Connects with this text as `known_hosts`.
async fn against(sshd: &Sshd, known_hosts: &str, options: &ConnectOptions) -> Result<(), ConnectError> {
    std::fs::write(sshd.path("known_hosts"), known_hosts).expect("written");
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(sshd));
    reach(&inventory, options, &around(sshd.dir.path(), false)).await.map(drop)
}

fn file(sshd: &Sshd) -> String {
    std::fs::read_to_string(sshd.path("known_hosts")).unwrap_or_default()
}

/// A public key that is not the server's.
fn stranger(sshd: &Sshd, kind: &str) -> String {
    let path = sshd.path(&format!("stranger_{kind}"));
    keygen(&path, kind, "");
    let text = std::fs::read_to_string(path.with_extension("pub")).expect("a public key");
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn an_unknown_host_needs_the_flag_or_a_yes_and_is_then_known() {
    let Some(sshd) = Sshd::start("an_unknown_host", &["ed25519"], "") else { return };
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let around = around(sshd.dir.path(), false);
    let expected = format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_key("ed25519"));

    let error = reach(&inventory, &options(false), &around).await.err().expect("nobody to ask");
    assert_eq!(error.kind, FailureKind::UnknownHostKey);
    assert!(error.message.contains("SHA256:"), "{}", error.message);
    assert!(error.hint.expect("a hint").contains("--accept-new-host-keys"));
    assert_eq!(file(&sshd), "");

    let no = Script::answering(false);
    let error = reach(&inventory, &ConnectOptions { prompt: no.clone(), ..options(false) }, &around).await.err();
    assert_eq!(error.expect("a no").kind, FailureKind::UnknownHostKey);
    assert!(no.asked().concat().contains("SHA256:"), "{:?}", no.asked());
    assert_eq!(file(&sshd), "");

    let yes = Script::answering(true);
    let asked = ConnectOptions { prompt: yes.clone(), ..options(false) };
    reach(&inventory, &asked, &around).await.map(drop).expect("a yes");
    assert_eq!(file(&sshd), expected);
    reach(&inventory, &asked, &around).await.map(drop).expect("known now");
    assert_eq!(yes.asked().len(), 1);

    std::fs::remove_file(sshd.path("known_hosts")).expect("removed");
    let (log, events) = log();
    let fleet = Fleet::connect_in(&inventory, &options(true), &events, &around).await;
    assert_eq!(fleet.reached().count(), 1);
    assert_eq!(file(&sshd), expected);
    let said = log.0.lock().expect("not poisoned").concat();
    assert!(said.contains("SHA256:") && said.contains("known_hosts"), "the recording is announced: {said}");
}

/// An inventory that leaves everything but the port to this `~/.ssh/config`.
fn configured(sshd: &Sshd, config: &str) -> macluster::model::Inventory {
    std::fs::create_dir_all(sshd.path(".ssh")).expect("a folder");
    let identity = format!("IdentityFile {}\nIdentitiesOnly yes\n", sshd.path("id").display());
    std::fs::write(sshd.path(".ssh/config"), format!("{config}\n{identity}")).expect("written");
    inventory(sshd.dir.path(), &[sshd.port], "  use_config: true\n")
}

#[tokio::test]
async fn the_configuration_may_settle_unknown_hosts_but_never_a_changed_key() {
    let Some(sshd) = Sshd::start("the_configuration_may_settle", &["ed25519"], "") else { return };
    let yes = Script::answering(true);
    let asking = ConnectOptions { prompt: yes.clone(), ..options(false) };
    // `yes`: refused without a question; the option of this run counts for more.
    let strict = configured(&sshd, "StrictHostKeyChecking yes");
    let error = reach(&strict, &asking, &around(sshd.dir.path(), true)).await.err().expect("strict");
    assert_eq!((error.kind, yes.asked().len()), (FailureKind::UnknownHostKey, 0));
    assert!(error.message.contains("StrictHostKeyChecking is `yes`"), "{}", error.message);
    assert_eq!(file(&sshd), "");
    reach(&strict, &options(true), &around(sshd.dir.path(), true)).await.map(drop).expect("the option");
    // Recorded without a question, hashed where that is wanted, and found again.
    for word in ["accept-new", "no"] {
        std::fs::remove_file(sshd.path("known_hosts")).expect("removed");
        let easy = configured(&sshd, &format!("StrictHostKeyChecking {word}\nHashKnownHosts yes"));
        for _ in 0..2 {
            reach(&easy, &asking, &around(sshd.dir.path(), true)).await.map(drop).expect(word);
            assert!(file(&sshd).starts_with("|1|") && file(&sshd).lines().count() == 1, "{}", file(&sshd));
        }
        assert_eq!(yes.asked().len(), 0);
    }
    // `no` lets ssh itself go on with a changed key. Not here.
    let other = format!("[127.0.0.1]:{} {}\n", sshd.port, stranger(&sshd, "ed25519"));
    std::fs::write(sshd.path("known_hosts"), &other).expect("written");
    for word in ["accept-new", "no", "ask"] {
        let easy = configured(&sshd, &format!("StrictHostKeyChecking {word}"));
        let options = ConnectOptions { accept_new_host_keys: true, ..asking.clone() };
        let error = reach(&easy, &options, &around(sshd.dir.path(), true)).await.err().expect("changed");
        assert_eq!((error.kind, file(&sshd)), (FailureKind::ChangedHostKey, other.clone()), "{word}");
    }
}

#[tokio::test]
async fn the_configuration_for_all_users_is_read_after_the_users_own() {
    let Some(sshd) = Sshd::start("the_configuration_for_all_users", &["ed25519"], "") else { return };
    let system = sshd.path("ssh_config");
    std::fs::write(&system, "Host *\nStrictHostKeyChecking accept-new\nHashKnownHosts yes\n").expect("written");
    let plain = configured(&sshd, "HashKnownHosts no");
    let around = around(sshd.dir.path(), true).with_system_config(&system);
    reach(&plain, &options(false), &around).await.map(drop).expect("accepted");
    assert!(file(&sshd).starts_with("[127.0.0.1]:"), "{}", file(&sshd));
    // Left alone where the inventory says so.
    std::fs::remove_file(sshd.path("known_hosts")).expect("removed");
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let around = super::around(sshd.dir.path(), false).with_system_config(&system);
    let error = reach(&inventory, &options(false), &around).await.err().expect("nobody to ask");
    assert_eq!(error.kind, FailureKind::UnknownHostKey);
}

#[tokio::test]
async fn two_nodes_on_one_unknown_host_are_asked_about_once() {
    let Some(sshd) = Sshd::start("two_nodes_on_one_unknown_host", &["ed25519"], "") else { return };
    let inventory = inventory(sshd.dir.path(), &[sshd.port, sshd.port, sshd.port], &own_key(&sshd));
    let yes = Script::answering(true);
    let asked = ConnectOptions { prompt: yes.clone(), ..options(false) };
    let fleet = Fleet::connect_in(&inventory, &asked, &silent(), &around(sshd.dir.path(), false)).await;
    assert_eq!(fleet.reached().count(), 3);
    assert_eq!(yes.asked().len(), 1);
    assert_eq!(file(&sshd).lines().count(), 1);
}

#[tokio::test]
async fn a_changed_key_is_refused_by_file_and_line_whatever_is_accepted() {
    let Some(sshd) = Sshd::start("a_changed_key_is_refused", &["ed25519"], "") else { return };
    let other = stranger(&sshd, "ed25519");
    let text = format!("# a comment\n\n[127.0.0.1]:{}\t{other}\n", sshd.port);
    let yes = ConnectOptions { prompt: Script::answering(true), ..options(true) };
    let error = against(&sshd, &text, &yes).await.expect_err("changed");
    assert_eq!(error.kind, FailureKind::ChangedHostKey);
    assert!(error.message.contains("known_hosts:3 "), "{}", error.message);
    assert_eq!(error.message.matches("SHA256:").count(), 2, "both keys: {}", error.message);
    assert!(error.hint.expect("a hint").contains("ssh-keygen -f "));
    assert_eq!(file(&sshd), text, "nothing was added");
}

#[tokio::test]
async fn another_type_of_key_is_refused() {
    let Some(sshd) = Sshd::start("another_type_of_key_is_refused", &["ed25519"], "") else { return };
    let rsa = stranger(&sshd, "rsa");
    let text = format!("[127.0.0.1]:{} {rsa}\n", sshd.port);
    let error = against(&sshd, &text, &options(true)).await.expect_err("only rsa is known");
    assert_eq!(error.kind, FailureKind::ChangedHostKey);
    assert!(error.message.contains("known_hosts:1 ") && error.message.contains("ssh-rsa"), "{}", error.message);
    assert_eq!(file(&sshd), text);
}

#[tokio::test]
async fn the_known_type_is_asked_for_where_a_host_has_several() {
    let Some(sshd) = Sshd::start("the_known_type_is_asked_for", &["ed25519", "ecdsa", "rsa"], "") else { return };
    for kind in ["rsa", "ecdsa", "ed25519"] {
        let text = format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_key(kind));
        against(&sshd, &text, &options(false)).await.unwrap_or_else(|e| panic!("{kind}: {}", e.message));
    }
}

#[tokio::test]
async fn every_form_of_a_line_is_understood() {
    let Some(sshd) = Sshd::start("every_form_of_a_line", &["ed25519"], "") else { return };
    let (port, key) = (sshd.port, sshd.host_key("ed25519"));
    let tabs = key.replace(' ', "\t");
    for good in [
        format!("[127.0.0.1]:{port} {key}"),
        format!("[127.0.0.1]:{port}\t{tabs}\tcomment\r\n"),
        format!("other,[127.0.0.*]:{port},more {key} a comment\n"),
        format!("[127.0.0.?]:* {key}\n"),
        format!("* {key}\n"),
        format!("@cert-authority * {key}\n[127.0.0.1]:{port} {key}\n"),
    ] {
        against(&sshd, &good, &options(false)).await.unwrap_or_else(|e| panic!("{good}: {}", e.message));
    }
    for (text, kind) in [
        (format!("[127.0.0.*]:{port},![127.0.0.1]:{port} {key}\n"), FailureKind::UnknownHostKey),
        (format!("@cert-authority * {key}\n"), FailureKind::UnknownHostKey),
        (format!("@revoked * {key}\n"), FailureKind::ChangedHostKey),
        (format!("[127.0.0.1]:{port} {key}\n@revoked\t*\t{tabs}\n"), FailureKind::ChangedHostKey),
    ] {
        let error = against(&sshd, &text, &options(false)).await.expect_err(&text);
        assert_eq!(error.kind, kind, "{text}: {}", error.message);
    }
    // What ssh-keygen hashes is found again.
    std::fs::write(sshd.path("hashed"), format!("[127.0.0.1]:{port} {key}\n")).expect("written");
    let done = std::process::Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(sshd.path("hashed")).status();
    assert!(done.expect("it runs").success());
    let hashed = std::fs::read_to_string(sshd.path("hashed")).expect("readable");
    assert!(hashed.starts_with("|1|"), "{hashed}");
    against(&sshd, &hashed, &options(false)).await.expect("hashed");
    let revoked = format!("@revoked {hashed}");
    let error = against(&sshd, &revoked, &options(true)).await.expect_err("revoked");
    assert!(error.message.contains("@revoked") && error.message.contains("known_hosts:1 "), "{}", error.message);
}

#[tokio::test]
async fn the_system_wide_file_counts_and_a_file_that_cannot_be_written_is_no_refusal() {
    let Some(sshd) = Sshd::start("the_system_wide_file_counts", &["ed25519"], "") else { return };
    let global = sshd.path("global");
    std::fs::write(&global, format!("[127.0.0.1]:{} {}\n", sshd.port, sshd.host_key("ed25519"))).expect("written");
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let mut around = around(sshd.dir.path(), false);
    around.global_known_hosts = vec![global];
    reach(&inventory, &options(false), &around).await.map(drop).expect("known system-wide");

    around.global_known_hosts.clear();
    // A folder where the file should be.
    std::fs::create_dir(sshd.path("known_hosts")).expect("made");
    let (log, events) = log();
    let fleet = Fleet::connect_in(&inventory, &options(true), &events, &around).await;
    assert_eq!(fleet.reached().count(), 1, "it was accepted");
    assert!(log.0.lock().expect("not poisoned").concat().contains("could not record"));
}
