//! Commands over one connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use macluster::model::command::TarEntry;
use macluster::model::{Access, Cmd, Stdin};
use macluster::remote::{ConnectOptions, RemoteError};
use sha2::{Digest, Sha256};

use super::{around, connect, inventory, options, own_key, reach};
use crate::support::sshd::{Sshd, me};

fn sh(script: &str) -> Cmd {
    Cmd::read("/bin/sh", ["-c", script])
}

#[tokio::test]
async fn words_arrive_as_they_were() {
    let Some(sshd) = Sshd::start("words_arrive_as_they_were", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let words =
        ["plain", "it's", "a b", "$(id)", "a\\b", "*", "~", "", "\"q\"", "a\nb", "; false", "ü", "-n", "%s", "!!"];
    let runs = words.iter().map(|word| remote.exec(Cmd::read("/usr/bin/printf", ["%s", word])));
    for (word, output) in words.iter().zip(join_all(runs).await) {
        let output = output.expect("it runs");
        assert_eq!(output.text(), *word);
        assert!(output.ok());
    }
}

#[tokio::test]
async fn streams_and_the_way_a_command_ended_are_told_apart() {
    let Some(sshd) = Sshd::start("streams_and_the_way_a_command_ended", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let output = remote.exec(sh("echo out; echo err >&2; exit 3")).await.expect("it runs");
    assert_eq!((output.exit, output.text().as_str(), output.err_text().as_str()), (Some(3), "out\n", "err\n"));
    let output = remote.exec(sh("kill -KILL $$")).await.expect("it runs");
    assert_eq!((output.exit, output.signal.as_deref()), (None, Some("KILL")));
    // The session's own environment: no locale surprises in what tools print.
    let output = remote.exec(Cmd::read("/usr/bin/printenv", ["LC_ALL"])).await.expect("it runs");
    assert_eq!(output.text(), "C\n");
    // Nothing is waiting on standard input.
    let output = remote.exec(Cmd::read("/bin/cat", [""; 0])).await.expect("it ends");
    assert!(output.ok() && output.stdout.is_empty());
}

#[tokio::test]
async fn a_process_left_in_the_background_does_not_hold_the_command() {
    let Some(sshd) = Sshd::start("a_process_left_in_the_background", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let start = Instant::now();
    // It keeps standard output open, as a careless daemon would.
    let output = remote.exec(sh("(sleep 12) & echo started")).await.expect("it ends");
    assert_eq!((output.exit, output.text().as_str()), (Some(0), "started\n"));
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
}

#[tokio::test]
async fn twenty_megabytes_go_in_and_come_back() {
    let Some(sshd) = Sshd::start("twenty_megabytes_go_in_and_come_back", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let bytes: Vec<u8> = (0..20_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = sshd.path("big");
    std::fs::write(&file, &bytes).expect("written");
    let wanted = hex::encode(Sha256::digest(&bytes));
    let count = u64::try_from(bytes.len()).expect("fits");

    let sent = Arc::new(AtomicU64::new(0));
    for stdin in [Stdin::Bytes(bytes.clone()), Stdin::File(file.clone())] {
        let seen = Arc::clone(&sent);
        let on_sent = Box::new(move |n| seen.store(n, Ordering::SeqCst));
        let cmd = Cmd::read("/usr/bin/sha256sum", [""; 0]).stdin(stdin);
        let output = remote.exec_with(cmd, Some(on_sent), None).await.expect("it runs");
        assert!(output.text().starts_with(&wanted), "{}", output.describe());
        assert_eq!(sent.swap(0, Ordering::SeqCst), count);
    }
    // Both directions at once, and chunks as they come.
    let got = Arc::new(Mutex::new(Sha256::new()));
    let on_output = {
        let got = Arc::clone(&got);
        Box::new(move |chunk: &[u8]| got.lock().expect("not poisoned").update(chunk))
    };
    let cmd = Cmd::read("/bin/cat", [""; 0]).stdin(Stdin::File(file));
    let output = remote.exec_with(cmd, None, Some(on_output)).await.expect("it runs");
    assert!(output.ok() && output.stdout.is_empty());
    let digest = got.lock().expect("not poisoned").clone().finalize();
    assert_eq!(hex::encode(digest), wanted);
}

#[tokio::test]
async fn an_archive_is_built_on_the_way() {
    use std::os::unix::fs::PermissionsExt;
    let Some(sshd) = Sshd::start("an_archive_is_built_on_the_way", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let long = format!("deep/{}/{}.txt", "d".repeat(90), "f".repeat(90));
    let mut entries = Vec::new();
    for (path, text, mode) in [("bin/tool", "#!/bin/sh\n", 0o755), (long.as_str(), "long", 0o640), ("empty", "", 0o644)]
    {
        let source = sshd.path(&format!("source-{}", entries.len()));
        std::fs::write(&source, text).expect("written");
        entries.push(TarEntry { path: path.to_owned(), source: source.into(), mode, size: text.len() as u64 });
    }
    let there = sshd.path("unpacked");
    std::fs::create_dir(&there).expect("made");
    let unpack = |entries: &[TarEntry]| {
        let there = there.to_string_lossy().into_owned();
        Cmd::write("/bin/tar", ["-xf".to_owned(), "-".to_owned(), "-C".to_owned(), there])
            .stdin(Stdin::Tar(entries.to_vec()))
    };
    let output = remote.exec(unpack(&entries)).await.expect("it runs");
    assert!(output.ok(), "{}", output.describe());
    for (path, text, mode) in [("bin/tool", "#!/bin/sh\n", 0o755), (long.as_str(), "long", 0o640), ("empty", "", 0o644)]
    {
        let found = there.join(path);
        assert_eq!(std::fs::read_to_string(&found).expect(path), text);
        let meta = std::fs::metadata(&found).expect(path);
        assert_eq!(meta.permissions().mode() & 0o777, mode, "{path}");
        assert_eq!(meta.modified().expect("a time"), std::time::UNIX_EPOCH, "{path}");
    }
    // A file that is not what the manifest said, or not there, is an error here, named.
    if let Some(first) = entries.first_mut() {
        first.size += 1;
    }
    let error = remote.exec(unpack(&entries)).await.expect_err("sizes differ");
    assert!(matches!(&error, RemoteError::Local(why) if why.contains("source-0")), "{error}");
    let gone = sshd.path("gone");
    let error = remote.exec(Cmd::read("/bin/cat", [""; 0]).stdin(Stdin::File(gone))).await.expect_err("no such file");
    assert!(matches!(&error, RemoteError::Local(why) if why.contains("gone")), "{error}");
}

#[tokio::test]
async fn a_command_that_reads_nothing_does_not_hold_up_its_input() {
    let Some(sshd) = Sshd::start("a_command_that_reads_nothing", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let cmd = sh("exit 4").stdin(Stdin::Bytes(vec![0; 30 << 20]));
    assert_eq!(remote.exec(cmd).await.expect("it ends").exit, Some(4));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_given_up_and_ended() {
    let Some(sshd) = Sshd::start("a_command_that_takes_too_long", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let file = sshd.path("pid");
    let script = format!("echo $$ > {}; while kill -0 $PPID; do sleep 0.05; done", file.display());
    let start = Instant::now();
    let error = remote.exec(sh(&script).timeout(Duration::from_millis(600))).await.expect_err("too slow");
    assert!(matches!(error, RemoteError::Timeout { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(remote.exec(sh("true")).await.expect("the connection still works").ok());
    if me() == "root" {
        // Not under CI's rule: no server can show this to root. It passes signals on only once it gave up its
        // privileges, which for root it keeps.
        return;
    }
    let pid: i32 = std::fs::read_to_string(&file).expect("a file").trim().parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    let ended = async {
        while rustix::process::test_kill_process(pid).is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the process was told to end");
}

#[tokio::test]
async fn output_beyond_the_cap_is_dropped_and_said() {
    let Some(sshd) = Sshd::start("output_beyond_the_cap", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let mut cmd = sh("head -c 5000000 /dev/zero; head -c 3000 /dev/zero >&2; exit 7");
    cmd.max_output = 1000;
    let output = remote.exec(cmd).await.expect("it runs");
    assert_eq!((output.stdout.len(), output.stderr.len(), output.truncated, output.exit), (1000, 1000, true, Some(7)));
    let mut cmd = sh("printf 12345");
    cmd.max_output = 5;
    let output = remote.exec(cmd).await.expect("it runs");
    assert_eq!((output.text().as_str(), output.truncated), ("12345", false));
}

#[tokio::test]
async fn forty_commands_share_one_connection_eight_at_a_time() {
    // Even where the ninth session is refused, and sessions that just ended still count.
    let Some(sshd) = Sshd::start("forty_commands_share_one_connection", &["ed25519"], "MaxSessions 8") else { return };
    let remote = connect(&sshd).await;
    let running = sshd.path("running");
    std::fs::create_dir(&running).expect("made");
    // Each tells how many run beside it.
    let script = "mkdir $1/$2; sleep 0.2; ls $1 | wc -l; rmdir $1/$2";
    let runs = (0..40).map(|n| {
        let args = ["-c", script, "sh", &running.to_string_lossy(), &n.to_string()].map(str::to_owned);
        remote.exec(Cmd::read("/bin/sh", args))
    });
    let mut most = 0;
    for output in join_all(runs).await {
        let output = output.expect("it runs");
        most = most.max(output.text().trim().parse::<usize>().expect("a number"));
    }
    assert!((2..=8).contains(&most), "{most} at once");
    assert_eq!(sshd.connections(), 1);
}

#[tokio::test]
async fn a_server_that_dies_is_noticed() {
    let Some(sshd) = Sshd::start("a_server_that_dies_is_noticed", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let (started, has_started) = tokio::sync::oneshot::channel();
    let mut started = Some(started);
    let on_output = Box::new(move |_: &[u8]| {
        let _ = started.take().map(|s| s.send(()));
    });
    // Ends by itself once its server is gone.
    let running = remote.exec_with(sh("echo on; while kill -0 $PPID; do sleep 0.1; done"), None, Some(on_output));
    let kill = async {
        has_started.await.expect("it started");
        sshd.kill_connections();
    };
    let (result, ()) = tokio::join!(running, kill);
    assert!(matches!(result, Err(RemoteError::Lost(_))), "{result:?}");
    let after = remote.exec(sh("true")).await;
    assert!(matches!(after, Err(RemoteError::Lost(_))), "{after:?}");
}

#[tokio::test]
async fn a_node_that_hangs_is_noticed_without_a_word() {
    let Some(sshd) = Sshd::start("a_node_that_hangs_is_noticed", &["ed25519"], "") else { return };
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let mut around = around(sshd.dir.path(), false);
    around.waits.keepalive = Duration::from_millis(300);
    let remote = reach(&inventory, &options(true), &around).await.expect("connected");
    assert!(remote.exec(sh("true")).await.expect("it runs").ok());
    sshd.freeze_connections();
    let start = Instant::now();
    let error = remote.exec(sh("true").timeout(Duration::from_secs(30))).await.expect_err("nobody answers");
    assert!(matches!(&error, RemoteError::Lost(why) if why.contains("no sign of life")), "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_read_only_fleet_sends_no_write() {
    let Some(sshd) = Sshd::start("a_read_only_fleet_sends_no_write", &["ed25519"], "") else { return };
    let inventory = inventory(sshd.dir.path(), &[sshd.port], &own_key(&sshd));
    let read_only = ConnectOptions { access: Access::Read, ..options(true) };
    let remote = reach(&inventory, &read_only, &around(sshd.dir.path(), false)).await.expect("connected");
    let file = sshd.path("written");
    let touch = |cmd: fn(&str, Vec<String>) -> Cmd| cmd("/usr/bin/touch", vec![file.to_string_lossy().into_owned()]);
    let refused = remote.exec(touch(Cmd::write)).await.expect_err("a write");
    assert!(matches!(&refused, RemoteError::WriteRefused(line) if line.contains("touch")), "{refused}");
    assert!(!file.exists());
    // The very same command, declared as a read, shows that only the gate stood in the way.
    assert!(remote.exec(touch(Cmd::read)).await.expect("it runs").ok());
    assert!(file.exists());
}

#[tokio::test]
async fn a_program_elsewhere_is_found_once_through_the_path() {
    let Some(sshd) = Sshd::start("a_program_elsewhere_is_found", &["ed25519"], "") else { return };
    let remote = connect(&sshd).await;
    let output = remote.exec(Cmd::read("/nowhere/printf", ["%s", "found"])).await.expect("it runs");
    assert_eq!((output.exit, output.text().as_str()), (Some(0), "found"));
    let output = remote.exec(Cmd::read("/nowhere/frobnicate", [""; 0])).await.expect("it runs");
    assert_eq!(output.exit, Some(127));
    assert!(
        output.err_text().contains("/nowhere/frobnicate"),
        "names the path that is expected: {}",
        output.err_text()
    );
}

#[tokio::test]
async fn a_greeting_of_the_login_shell_is_not_taken_for_output() {
    let greeting = "ForceCommand echo 'Welcome'; echo 'mind the step' >&2; eval \"$SSH_ORIGINAL_COMMAND\"";
    let Some(sshd) = Sshd::start("a_greeting_of_the_login_shell", &["ed25519"], greeting) else { return };
    let remote = connect(&sshd).await;
    let output = remote.exec(sh("echo out; echo err >&2")).await.expect("it runs");
    assert_eq!((output.text().as_str(), output.err_text().as_str()), ("out\n", "err\n"));
    // The command's own words, however alike.
    assert_eq!(remote.exec(sh("echo Welcome")).await.expect("it runs").text(), "Welcome\n");
    assert_eq!(remote.exec(sh("true")).await.expect("it runs").text(), "");
    let raw = remote.exec(sh("echo out").raw()).await.expect("it runs");
    assert_eq!((raw.text().as_str(), raw.err_text().as_str()), ("Welcome\nout\n", "mind the step\n"));
    let streamed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&streamed);
    let on_output = Box::new(move |chunk: &[u8]| seen.lock().expect("not poisoned").extend_from_slice(chunk));
    remote.exec_with(sh("echo a; sleep 0.1; echo b"), None, Some(on_output)).await.expect("it runs");
    assert_eq!(*streamed.lock().expect("not poisoned"), b"a\nb\n");
}
