//! `known_hosts`: what is matched, compared with OpenSSH's own `ssh-keygen -F` where that is installed.

use std::path::Path;
use std::process::Command;

use macluster::remote::known_hosts::{HostKey, KnownHosts, Listing, Verdict, record};

use crate::support::sshd::not_run;

// Keys made up for these tests: well-formed, with no private half anywhere.
const ED_A: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIHOa0Ypt2nDYWvqf5H5O2ZzXyBRjqI4NnX2qpcxWQ7Gd";
const ED_B: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIBzHGm9d3vY4cS0l7d1QkW5b3oY0y2wqJ8m7YbJpZ1Ql";

/// A blob of the right shape for a type; the key inside is made up, which nothing here looks at.
fn key(kind: &str, seed: u8) -> HostKey {
    let mut blob = u32::try_from(kind.len()).expect("short").to_be_bytes().to_vec();
    blob.extend(kind.as_bytes());
    blob.extend(32_u32.to_be_bytes());
    blob.extend([seed; 32]);
    HostKey::from_blob(blob).expect("a key")
}

fn b64(key: &HostKey) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(&key.blob)
}

fn line(names: &str, key: &HostKey) -> String {
    format!("{names} {} {}", key.kind, b64(key))
}

fn hosts(text: &str) -> KnownHosts {
    let mut hosts = KnownHosts::default();
    hosts.add(Path::new("/t/known_hosts"), text);
    hosts
}

/// `Known`, `Unknown`, `Changed:LINE`, `OtherType:LINE`, `Revoked:LINE`.
fn verdict(text: &str, host: &str, port: u16, key: &HostKey) -> String {
    match hosts(text).check(host, port, key) {
        Verdict::Known => "Known".to_owned(),
        Verdict::Unknown => "Unknown".to_owned(),
        Verdict::Changed { at, .. } => format!("Changed:{}", at.line),
        Verdict::OtherType { at, .. } => format!("OtherType:{}", at.line),
        Verdict::Revoked { at } => format!("Revoked:{}", at.line),
    }
}

#[test]
fn what_a_file_says_about_an_offered_key() {
    let (a, b) = (key("ssh-ed25519", 1), key("ssh-ed25519", 2));
    let rsa = key("ssh-rsa", 3);
    let (la, lb, lr) = (line("10.0.0.1", &a), line("10.0.0.1", &b), line("10.0.0.1", &rsa));
    let revoked = |names: &str, key: &HostKey| format!("@revoked {}", line(names, key));
    for (what, text, host, port, offered, expected) in [
        ("nothing", String::new(), "10.0.0.1", 22, &a, "Unknown"),
        ("same key", la.clone(), "10.0.0.1", 22, &a, "Known"),
        ("other key of the type", la.clone(), "10.0.0.1", 22, &b, "Changed:1"),
        ("other type only", lr.clone(), "10.0.0.1", 22, &a, "OtherType:1"),
        ("other type and same key", format!("{lr}\n{la}\n"), "10.0.0.1", 22, &a, "Known"),
        ("other type and changed key", format!("{lr}\n{la}\n"), "10.0.0.1", 22, &b, "Changed:2"),
        ("two keys of the type", format!("{la}\n{lb}\n"), "10.0.0.1", 22, &b, "Known"),
        ("other host", la.clone(), "10.0.0.2", 22, &a, "Unknown"),
        ("name case", line("Studio-1.Rack", &a), "studio-1.RACK", 22, &a, "Known"),
        ("list", line("studio-1,10.0.0.1", &a), "10.0.0.1", 22, &a, "Known"),
        ("wildcard", line("10.0.0.*", &a), "10.0.0.77", 22, &b, "Changed:1"),
        ("question mark", line("10.0.0.?", &a), "10.0.0.77", 22, &b, "Unknown"),
        ("negated", line("10.0.0.*,!10.0.0.1", &a), "10.0.0.1", 22, &a, "Unknown"),
        ("negated first", line("!10.0.0.1,10.0.0.*", &a), "10.0.0.1", 22, &a, "Unknown"),
        ("negated, other host", line("10.0.0.*,!10.0.0.1", &a), "10.0.0.2", 22, &a, "Known"),
        ("port", line("[10.0.0.1]:2222", &a), "10.0.0.1", 2222, &a, "Known"),
        ("port changed", line("[10.0.0.1]:2222", &a), "10.0.0.1", 2222, &b, "Changed:1"),
        ("another port", line("[10.0.0.1]:2222", &a), "10.0.0.1", 2223, &a, "Unknown"),
        ("port is not 22", line("[10.0.0.1]:2222", &a), "10.0.0.1", 22, &a, "Unknown"),
        ("port 22 in brackets", line("[10.0.0.1]:22", &a), "10.0.0.1", 22, &a, "Unknown"),
        // As OpenSSH: the same key under the bare name will do, another key there says nothing.
        ("bare name, same key", la.clone(), "10.0.0.1", 2222, &a, "Known"),
        ("bare name, other key", la.clone(), "10.0.0.1", 2222, &b, "Unknown"),
        ("ipv6 with port", line("[fe80::1]:2222", &a), "fe80::1", 2222, &a, "Known"),
        ("tabs", format!("10.0.0.1\tssh-ed25519\t{}\tcomment", b64(&a)), "10.0.0.1", 22, &a, "Known"),
        ("many blanks", format!("  10.0.0.1   ssh-ed25519 \t {}  c d ", b64(&a)), "10.0.0.1", 22, &a, "Known"),
        ("crlf", format!("{la}\r\n{lr}\r\n"), "10.0.0.1", 22, &b, "Changed:1"),
        ("comments and blank lines", format!("# x\n\n  # y\n{la}\n"), "10.0.0.1", 22, &b, "Changed:4"),
        ("commented out", format!("#{la}\n"), "10.0.0.1", 22, &a, "Unknown"),
        ("revoked", revoked("10.0.0.1", &a), "10.0.0.1", 22, &a, "Revoked:1"),
        ("revoked after known", format!("{la}\n{}", revoked("*", &a)), "10.0.0.1", 22, &a, "Revoked:2"),
        ("revoked for others", revoked("10.0.0.9", &a), "10.0.0.1", 22, &a, "Unknown"),
        ("another key revoked", format!("{}\n{la}", revoked("*", &b)), "10.0.0.1", 22, &a, "Known"),
        ("only another key revoked", revoked("*", &b), "10.0.0.1", 22, &a, "Unknown"),
        ("revoked with tab", format!("@revoked\t{la}"), "10.0.0.1", 22, &a, "Revoked:1"),
        ("authority", format!("@cert-authority {}", line("*", &a)), "10.0.0.1", 22, &a, "Unknown"),
        ("unknown marker", format!("@frob {la}"), "10.0.0.1", 22, &a, "Unknown"),
        ("broken base64", "10.0.0.1 ssh-ed25519 AAAA!!".to_owned(), "10.0.0.1", 22, &a, "Unknown"),
        ("type and key disagree", format!("10.0.0.1 ssh-rsa {}", b64(&a)), "10.0.0.1", 22, &a, "Unknown"),
        ("hash of another kind", line("|2|AAAA|AAAA", &a), "10.0.0.1", 22, &a, "Unknown"),
    ] {
        assert_eq!(verdict(&text, host, port, offered), expected, "{what}:\n{text}");
    }
}

#[test]
fn broken_lines_and_authorities_are_remarked_on() {
    let a = key("ssh-ed25519", 1);
    let text = format!("@cert-authority {}\n10.0.0.1 ssh-ed25519\n@frob {}\n", line("*.rack", &a), line("x", &a));
    let hosts = hosts(&text);
    assert_eq!(hosts.notes.len(), 2, "{:?}", hosts.notes);
    assert!(hosts.notes.iter().any(|n| n.starts_with("/t/known_hosts:2: ")), "{:?}", hosts.notes);
    assert_eq!(hosts.authority("mac.rack", 22).map(ToString::to_string), Some("/t/known_hosts:1".to_owned()));
    assert!(hosts.types("mac.rack", 22).is_empty());
}

#[test]
fn recorded_types_are_found_for_every_form_of_a_name() {
    let (a, rsa) = (key("ssh-ed25519", 1), key("ssh-rsa", 3));
    let text = format!("{}\n{}\n", line("[10.0.0.1]:2222", &rsa), line("10.0.0.2", &a));
    assert_eq!(hosts(&text).types("10.0.0.1", 2222), ["ssh-rsa"]);
    assert_eq!(hosts(&text).types("10.0.0.2", 2222), ["ssh-ed25519"], "the bare name counts when nothing else does");
    assert!(hosts(&text).types("10.0.0.3", 22).is_empty());
}

#[test]
fn a_new_key_is_appended_as_a_whole_line_and_only_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("ssh/known_hosts");
    let (a, b) = (key("ssh-ed25519", 1), key("ssh-ed25519", 2));
    record(&file, "10.0.0.1", 22, &a, Listing::Plain).expect("recorded");
    record(&file, "10.0.0.1", 22, &a, Listing::Plain).expect("already there");
    record(&file, "10.0.0.1", 2222, &b, Listing::Plain).expect("another port");
    let expected = format!("10.0.0.1 ssh-ed25519 {}\n[10.0.0.1]:2222 ssh-ed25519 {}\n", b64(&a), b64(&b));
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), expected);
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).expect("exists").permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().expect("a parent")), 0o700);
    }
    // Someone's editor left the last line open, and another key came in meanwhile.
    std::fs::write(&file, line("10.0.0.9", &a)).expect("written");
    record(&file, "10.0.0.8", 22, &a, Listing::Plain).expect("recorded");
    let text = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(text, format!("{}\n{}\n", line("10.0.0.9", &a), line("10.0.0.8", &a)));
    let refused = record(&file, "10.0.0.9", 22, &b, Listing::Plain).expect_err("it lists another key");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&file).expect("readable"), text, "nothing was written");
}

#[test]
fn a_hashed_name_is_found_again_and_tells_nobody() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("known_hosts");
    let (a, b) = (key("ssh-ed25519", 1), key("ssh-ed25519", 2));
    for _ in 0..2 {
        record(&file, "Studio-1.example", 22, &a, Listing::Hashed).expect("recorded");
        record(&file, "studio-1.example", 2222, &b, Listing::Hashed).expect("another port");
    }
    let text = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().all(|l| l.starts_with("|1|")) && !text.contains("tudio"), "{text}");
    assert_eq!(verdict(&text, "studio-1.example", 22, &a), "Known");
    assert_eq!(verdict(&text, "studio-1.example", 2222, &a), "Changed:2");
    assert_eq!(verdict(&text, "studio-2.example", 22, &a), "Unknown");
    let found = Command::new("ssh-keygen").arg("-F").arg("[studio-1.example]:2222").arg("-f").arg(&file).output();
    match found {
        Ok(found) => assert!(found.status.success(), "ssh-keygen finds it, too"),
        Err(_) => not_run("a_hashed_name_is_found_again", "ssh-keygen is not installed"),
    }
}

#[test]
fn many_writers_leave_whole_lines() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("known_hosts");
    std::thread::scope(|scope| {
        for n in 0..16_u8 {
            let file = &file;
            scope.spawn(move || {
                record(file, &format!("10.0.0.{n}"), 22, &key("ssh-ed25519", n), Listing::Plain).expect("recorded");
            });
        }
    });
    let text = std::fs::read_to_string(&file).expect("readable");
    assert_eq!(text.lines().count(), 16);
    for n in 0..16 {
        assert_eq!(verdict(&text, &format!("10.0.0.{n}"), 22, &key("ssh-ed25519", n)), "Known");
    }
}

#[test]
fn names_match_as_ssh_keygen_matches_them() {
    if Command::new("ssh-keygen").arg("-?").output().is_err() {
        return not_run("names_match_as_ssh_keygen_matches_them", "ssh-keygen is not installed");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("known_hosts");
    let names = ["10.0.0.1", "[10.0.0.1]:2222", "studio-1.rack.example", "Mac.Local", "[fe80::1]:22000"];
    let plain = names.map(|n| format!("{n} ssh-ed25519 {ED_A}\n")).concat();
    let globs = format!(
        "10.1.*,!10.1.9.* ssh-ed25519 {ED_A}\nnode-?.rack\tssh-ed25519\t{ED_A}\n[10.2.0.?]:22?? ssh-ed25519 {ED_B}\n"
    );
    std::fs::write(&file, &plain).expect("written");
    // -H hashes every name of the file, with salts of its own.
    let hashed = Command::new("ssh-keygen").args(["-q", "-H", "-f"]).arg(&file).output().expect("it runs");
    assert!(hashed.status.success(), "{}", String::from_utf8_lossy(&hashed.stderr));
    let hashed = std::fs::read_to_string(&file).expect("readable");
    assert!(hashed.lines().all(|l| l.starts_with("|1|")), "{hashed}");
    std::fs::write(&file, hashed.clone() + &globs).expect("written");

    let known = hosts(&(hashed + &globs));
    let mut matched = 0;
    for (host, port) in [
        ("10.0.0.1", 22),
        ("10.0.0.1", 2222),
        ("10.0.0.1", 2223),
        ("10.0.0.2", 22),
        ("studio-1.rack.example", 22),
        ("mac.local", 22),
        ("fe80::1", 22000),
        ("10.1.2.3", 22),
        ("10.1.9.3", 22),
        ("node-7.rack", 22),
        ("node-77.rack", 22),
        ("10.2.0.5", 2299),
        ("10.2.0.5", 22),
    ] {
        let name = if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") };
        let found = Command::new("ssh-keygen").args(["-F", &name, "-f"]).arg(&file).output().expect("it runs");
        // Only this listed name: whether a bare name counts for another port is decided elsewhere.
        let ours = match known.check(host, port, &key("ssh-ed25519", 9)) {
            Verdict::Unknown => false,
            Verdict::Changed { .. } => true,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(ours, found.status.success(), "{name}");
        matched += usize::from(ours);
    }
    assert_eq!(matched, 8, "the table holds both matches and misses");
}
