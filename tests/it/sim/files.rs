//! File tools: what they do, who may, and how they fail.

use super::{rack, root};
use crate::support::ssh::{Client, line};

#[tokio::test]
async fn files_are_made_moved_read_and_removed() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let base = format!("{}/opt/macluster", root(&rack));
    let path = |name: &str| format!("{base}/{name}");

    // /opt is root's, as on a Mac.
    let ran = client.exec(&line(&["mkdir", "-p", &base])).await.expect(1);
    assert_eq!(ran.stderr, format!("mkdir: {base}: Permission denied\n"));
    client.exec(&line(&["sudo", "-n", "mkdir", "-p", &path("releases/a"), &path("releases/b")])).await.expect(0);
    client.exec(&line(&["sudo", "-n", "chown", "-R", "admin", &base])).await.expect(0);

    client.exec_with(&line(&["tee", &path("releases/a/x")]), b"one\ntwo\n").await.expect(0);
    assert_eq!(client.exec(&line(&["cat", &path("releases/a/x")])).await.expect(0).stdout, "one\ntwo\n");
    let sum = client.exec(&line(&["shasum", "-a", "256", &path("releases/a/x")])).await.expect(0).stdout;
    let expected = "f9dd24c4d94f2a86a3b93acafe5ac6d88ff4c8345b87b1bcd01bb2fbbc7a4cb3";
    assert_eq!(sum.len(), expected.len() + 3 + path("releases/a/x").len(), "{sum}");
    client.exec(&line(&["chmod", "0600", &path("releases/a/x")])).await.expect(0);
    let stat = client.exec(&line(&["stat", "-f", "%Sp %Su %Sg %z %Lp", &path("releases/a/x")])).await.expect(0);
    assert_eq!(stat.stdout, "-rw------- admin wheel 8 600\n");

    // The switch of a release: a link made aside and renamed over the old one.
    client.exec(&line(&["ln", "-s", "releases/a", &path("current")])).await.expect(0);
    client.exec(&line(&["ln", "-s", "releases/b", &path("next")])).await.expect(0);
    client.exec(&line(&["mv", "-fh", &path("next"), &path("current")])).await.expect(0);
    assert_eq!(client.exec(&line(&["readlink", &path("current")])).await.expect(0).stdout, "releases/b\n");
    assert_eq!(client.exec(&line(&["ls", &base])).await.expect(0).stdout, "current\nreleases\n");

    client.exec(&line(&["cp", "-R", &path("releases/a"), &path("copy")])).await.expect(0);
    assert_eq!(client.exec(&line(&["tail", "-n", "1", &path("copy/x")])).await.expect(0).stdout, "two\n");
    client.exec(&line(&["rm", "-rf", &path("copy")])).await.expect(0);
    let gone = client.exec(&line(&["cat", &path("copy/x")])).await.expect(1);
    assert_eq!(gone.stderr, format!("cat: {}: No such file or directory\n", path("copy/x")));
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn what_gnu_has_and_macos_has_not_is_refused() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    for (words, stderr) in [
        (["stat", "-c", "%s", "x"].as_slice(), "stat: illegal option -- c\n"),
        (&["cp", "--preserve", "a", "b"], "cp: illegal option -- -\n"),
        (&["mkdir", "--parents", "a"], "mkdir: illegal option -- parents\n"),
        (&["date", "-d", "now"], "date: illegal option -- d\n"),
        (&["tar", "--sort=name", "-cf", "-", "."], "tar: Option --sort=name is not supported\n"),
        (&["ls", "--full-time"], "ls: illegal option -- -\n"),
        (&["shasum", "-a", "7", "x"], "shasum: Unrecognized algorithm\n"),
    ] {
        let ran = client.exec(&line(words)).await;
        assert_ne!(ran.status, 0, "{words:?}");
        assert!(ran.stderr.starts_with(stderr), "{words:?}: {}", ran.stderr);
    }
    for missing in ["ip", "flock", "setsid", "timeout", "realpath", "sha256sum", "systemctl"] {
        client.exec(missing).await.expect(127);
    }
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn an_archive_is_unpacked_and_a_truncated_one_is_not_swallowed() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let mut archive = tar::Builder::new(Vec::new());
    let content = vec![7_u8; 300_000];
    let mut header = tar::Header::new_gnu();
    header.set_size(300_000);
    header.set_mode(0o755);
    header.set_cksum();
    archive.append_data(&mut header, "deep/er/bin", content.as_slice()).expect("appends");
    let bytes = archive.into_inner().expect("finishes");
    let target = format!("{}/private/tmp/x", root(&rack));
    client.exec(&line(&["mkdir", &target])).await.expect(0);
    let unpack = line(&["tar", "-x", "-f", "-", "-C", &target]);
    client.exec_with(&unpack, &bytes).await.expect(0);
    let stat = client.exec(&line(&["stat", "-f", "%z %Lp", &format!("{target}/deep/er/bin")])).await.expect(0);
    assert_eq!(stat.stdout, "300000 755\n");
    let ran = client.exec_with(&unpack, &bytes[..200_000]).await.expect(1);
    assert!(ran.stderr.starts_with("tar: Truncated input file"), "{}", ran.stderr);
    let ran = client.exec_with(&unpack, b"this is no archive, and long enough to be looked at as one").await.expect(1);
    assert!(ran.stderr.starts_with("tar: "), "{}", ran.stderr);
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn nobody_but_root_reads_what_is_roots_own() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let secret = format!("{}/opt/secret", root(&rack));
    client.exec_with(&line(&["sudo", "-n", "tee", &secret]), b"s").await.expect(0);
    client.exec(&line(&["sudo", "-n", "chmod", "600", &secret])).await.expect(0);
    let ran = client.exec(&line(&["cat", &secret])).await.expect(1);
    assert_eq!(ran.stderr, format!("cat: {secret}: Permission denied\n"));
    assert_eq!(client.exec(&line(&["sudo", "-n", "cat", &secret])).await.expect(0).stdout, "s");
    // The system's own files are nobody's to remove.
    let tool = format!("{}/sbin/ifconfig", root(&rack));
    let ran = client.exec(&line(&["sudo", "-n", "rm", "-f", &tool])).await.expect(1);
    assert_eq!(ran.stderr, format!("rm: {tool}: Operation not permitted\n"));
    rack.stop().await.expect("stops");
}
