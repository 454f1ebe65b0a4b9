//! `~/.ssh/config`: tables, and the same files given to `ssh -G`, OpenSSH's own evaluation.

use std::path::{Path, PathBuf};
use std::process::Command;

use macluster::remote::ssh_config::{HostSettings, SshConfig, Strict};

use crate::support::sshd::not_run;

fn config(dir: &Path, text: &str) -> SshConfig {
    let file = dir.join("config");
    std::fs::write(&file, text).expect("written");
    SshConfig::load(&file, dir, "desk")
}

fn settings(text: &str, host: &str) -> HostSettings {
    let dir = tempfile::tempdir().expect("a folder");
    config(dir.path(), text).settings(host, None)
}

#[test]
fn the_first_value_wins_and_identity_files_add_up() {
    let text = "
        IdentityFile /keys/first
        Host studio-2
            Port 2200
        Host studio-* !studio-9
            User rack
            HostName %h.rack.example
            Port=2222
            IdentityFile \"/keys/with blank\"
        Host *
            User anybody
            HostName elsewhere
            IdentityFile /keys/first
            IdentityFile /keys/last
            IdentitiesOnly yes";
    let two = settings(text, "studio-2");
    assert_eq!((two.user.as_deref(), two.port), (Some("rack"), Some(2200)));
    assert_eq!(two.host_name.as_deref(), Some("studio-2.rack.example"));
    let files: Vec<PathBuf> = ["/keys/first", "/keys/with blank", "/keys/last"].map(PathBuf::from).to_vec();
    assert_eq!(two.identity_files, files);
    assert!(two.identities_only);
    let nine = settings(text, "studio-9");
    assert_eq!((nine.user.as_deref(), nine.port), (Some("anybody"), None));
    assert_eq!(nine.host_name.as_deref(), Some("elsewhere"));
}

#[test]
fn values_are_read_as_openssh_reads_them() {
    for (text, check) in [
        ("hOsTnAmE = a.example", (|s| s.host_name.as_deref() == Some("a.example")) as fn(&HostSettings) -> bool),
        ("User \"rack admin\"", |s| s.user.as_deref() == Some("rack admin")),
        ("User me # not you", |s| s.user.as_deref() == Some("me")),
        ("# User me", |s| s.user.is_none()),
        ("User\tme\r\n", |s| s.user.as_deref() == Some("me")),
        ("Port 0", |s| s.port.is_none()),
        ("Port http", |s| s.port.is_none()),
        ("ProxyJump none", |s| s.proxy_jump.is_none()),
        ("ProxyJump none\nProxyJump b", |s| s.proxy_jump.is_none()),
        ("ProxyJump a,b", |s| s.proxy_jump.as_deref() == Some("a,b")),
        ("ProxyCommand nc %h\nProxyJump b", |s| s.proxy_jump.is_none() && s.proxy_command.is_some()),
        ("ProxyCommand none\nProxyJump b", |s| s.proxy_jump.is_none() && s.proxy_command.is_none()),
        ("IdentityFile none", |s| s.no_identities && s.identity_files.is_empty()),
        ("UserKnownHostsFile /a /b", |s| s.user_known_hosts == Some(vec!["/a".into(), "/b".into()])),
        ("UserKnownHostsFile none", |s| s.user_known_hosts == Some(vec![])),
        ("HostKeyAlias rack-1", |s| s.host_key_alias.as_deref() == Some("rack-1")),
        ("IdentityFile /k/%h-%r-%p-%u-%%", |s| s.identity_files == [PathBuf::from("/k/mac-desk-22-desk-%")]),
        ("IdentityFile /k/%h\nHostName real", |s| s.identity_files == [PathBuf::from("/k/real")]),
        ("Ciphers +x\nUser me", |s| s.user.as_deref() == Some("me")),
        ("Host other\nUser me", |s| s.user.is_none()),
        ("Match all\nUser me", |s| s.user.as_deref() == Some("me")),
        ("Match host mac,other\nUser me", |s| s.user.as_deref() == Some("me")),
        ("Match !host mac\nUser me", |s| s.user.is_none()),
        ("HostName real\nMatch host real\nUser me", |s| s.user.as_deref() == Some("me")),
        ("HostName real\nMatch originalhost mac host real\nUser me", |s| s.user.as_deref() == Some("me")),
        ("HostName real\nMatch host mac\nUser me", |s| s.user.is_none()),
        ("User a\nMatch user a\nPort 7", |s| s.port == Some(7)),
        ("Match localuser desk\nPort 7", |s| s.port == Some(7)),
        ("Match exec true\nPort 7\nHost *\nUser me", |s| s.port.is_none() && s.user.as_deref() == Some("me")),
    ] {
        let settings = settings(text, "mac");
        assert!(check(&settings), "{text}\n{settings:?}");
    }
}

#[test]
fn what_is_not_honoured_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let text = "Match exec \"true\"\nUser x\nPort many\nUser \"open\nInclude config\nMatch host all\n";
    let config = config(dir.path(), text);
    let said = config.warnings.join("\n");
    for expected in [":1: `Match exec` is not evaluated", ":3: `many` is no port", ":4: ignored: a quote is not closed"]
    {
        assert!(said.contains(expected), "{expected} in:\n{said}");
    }
}

#[test]
fn includes_are_relative_to_the_ssh_folder_end_with_their_file_and_do_not_loop() {
    let dir = tempfile::tempdir().expect("a folder");
    let ssh = dir.path().join(".ssh");
    std::fs::create_dir_all(ssh.join("conf.d")).expect("made");
    let write = |name: &str, text: &str| std::fs::write(ssh.join(name), text).expect("written");
    write(
        "config",
        "Include conf.d/*.conf\nUser outside\nHost studio-1\nInclude ~/.ssh/one\nPort 99\nInclude config\n",
    );
    write("conf.d/20-b.conf", "Host *\nIdentityFile ~/.ssh/b\n");
    write("conf.d/10-a.conf", "IdentityFile %d/a\nHost studio-1\nUser inside\n");
    write("conf.d/ignored.txt", "User wrong\n");
    write("one", "Host *\nPort 2201\n");
    let config = SshConfig::load(&ssh.join("config"), dir.path(), "desk");
    let one = config.settings("studio-1", None);
    assert_eq!((one.user.as_deref(), one.port), (Some("inside"), Some(2201)));
    assert_eq!(one.identity_files, [dir.path().join("a"), ssh.join("b")]);
    let two = config.settings("studio-2", None);
    // The `Host` block inside an included file ends with that file; what `studio-1` includes is not for others.
    assert_eq!((two.user.as_deref(), two.port), (Some("outside"), None));
    assert!(config.warnings.iter().any(|w| w.contains("nested too deeply")), "{:?}", config.warnings);
}

#[test]
fn a_missing_file_is_an_empty_configuration() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = SshConfig::load(&dir.path().join("none"), dir.path(), "desk");
    assert_eq!(config.settings("mac", None), HostSettings::default());
    assert!(config.warnings.is_empty());
}

#[test]
fn the_file_for_all_users_comes_second_and_its_blocks_are_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let etc = dir.path().join("etc");
    std::fs::create_dir_all(etc.join("ssh_config.d")).expect("a folder");
    // macOS's own file begins with such an Include.
    std::fs::write(etc.join("ssh_config.d/50-site.conf"), "Host studio-*\nPort 2201\nUser site\n").expect("written");
    let system = "Include ssh_config.d/*\nHost *\nHashKnownHosts yes\nIdentityFile /k/site\nPort 22\n\
                  Match host *.rack.example\nStrictHostKeyChecking yes\nMatch exec true\nUser never\n";
    std::fs::write(etc.join("ssh_config"), system).expect("written");
    // The last block of the user's file does not go on in the other one.
    let user =
        "Host studio-1\nHostName one.rack.example\nUser me\nIdentityFile /k/mine\nHost nobody\nHashKnownHosts no\n";
    let config = config(dir.path(), user).with_system(&etc.join("ssh_config"));
    let one = config.settings("studio-1", None);
    assert_eq!((one.user.as_deref(), one.port, one.hash_known_hosts), (Some("me"), Some(2201), Some(true)));
    assert_eq!(one.identity_files, ["/k/mine", "/k/site"].map(PathBuf::from));
    assert_eq!(one.strict, Some(Strict::Yes), "the name that the user's file gives it");
    let two = config.settings("studio-2", None);
    assert_eq!((two.user.as_deref(), two.strict), (Some("site"), None));
    assert_eq!(config.settings("nobody", None).hash_known_hosts, Some(false));
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("etc/ssh_config:8: `Match exec`"), "{:?}", config.warnings);
    assert_eq!(SshConfig::default().with_system(&etc.join("none")).settings("x", None), HostSettings::default());
}

#[test]
fn what_is_said_about_unknown_host_keys() {
    for (word, strict) in [
        ("yes", Strict::Yes),
        ("TRUE", Strict::Yes),
        ("ask", Strict::Ask),
        ("accept-new", Strict::AcceptNew),
        ("no", Strict::AcceptNew),
        ("off", Strict::AcceptNew),
    ] {
        let text = format!("StrictHostKeyChecking {word}\nStrictHostKeyChecking ask");
        assert_eq!(settings(&text, "x").strict, Some(strict), "{word}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let config = config(dir.path(), "StrictHostKeyChecking maybe\nStrictHostKeyChecking yes");
    assert_eq!(config.settings("x", None).strict, Some(Strict::Yes));
    assert!(config.warnings[0].contains(":1: StrictHostKeyChecking `maybe`"), "{:?}", config.warnings);
}

/// `ssh -G`, as a list of lines.
fn openssh(file: &Path, host: &str) -> Vec<String> {
    let output = Command::new("ssh").arg("-G").arg("-F").arg(file).arg(host).output().expect("ssh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn openssh_itself_comes_to_the_same_result() {
    if Command::new("ssh").arg("-V").output().is_err() {
        return not_run("openssh_itself_comes_to_the_same_result", "ssh is not installed");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let included = dir.path().join("more.conf");
    std::fs::write(&included, "Host studio-*\nUser included\nMatch host *.example\nPort 2207\n").expect("written");
    let text = format!(
        "# comment\nHost studio-1 10.0.0.?\n  HostName=%h.rack.example\n  IdentityFile /k/%n-%h\n\
         Include {}\n\
         Host studio-2 !studio-2\n  User never\n\
         Host studio-[12]\n  User never\n\
         Match originalhost studio-3 user nobody\n  Port 1\n\
         Match !host studio-1.rack.example host \"studio-*\"\n  HostKeyAlias alias-of-many\n  ProxyJump jump@bastion:2200,second\n\
         Host * !studio-4\n  User rest\n  Port 2222\n  UserKnownHostsFile /kh/one \"/kh/two three\"\n  IdentitiesOnly yes\n\
         Host studio-4\n  IdentityFile /k/4\n  ProxyCommand none\n  ProxyJump bastion\n\
         Match all\n  IdentityFile /k/all\n  User last\n",
        included.display()
    );
    let file = dir.path().join("config");
    std::fs::write(&file, text).expect("written");
    let config = SshConfig::load(&file, dir.path(), "desk");
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    for host in ["studio-1", "studio-2", "studio-3", "studio-4", "10.0.0.7", "10.0.0.77", "bastion"] {
        let theirs = openssh(&file, host);
        let ours = config.settings(host, None);
        let all = |keyword: &str| -> Vec<&str> {
            theirs.iter().filter_map(|l| l.strip_prefix(keyword)?.strip_prefix(' ')).collect()
        };
        assert_eq!(all("hostname"), [ours.host_name.as_deref().unwrap_or(host)], "{host}");
        assert_eq!(all("user"), [ours.user.as_deref().expect("a user")], "{host}");
        assert_eq!(all("port"), [ours.port.unwrap_or(22).to_string()], "{host}");
        // Tokens of identity files are expanded later by ssh.
        let identities: Vec<String> = all("identityfile").iter().map(|i| i.replace("%n", host)).collect();
        let identities: Vec<String> =
            identities.iter().map(|i| i.replace("%h", ours.host_name.as_deref().unwrap_or(host))).collect();
        assert_eq!(
            identities,
            ours.identity_files.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
            "{host}"
        );
        assert_eq!(all("proxyjump").first().copied(), ours.proxy_jump.as_deref(), "{host}");
        assert_eq!(all("hostkeyalias").first().copied(), ours.host_key_alias.as_deref(), "{host}");
        assert_eq!(all("identitiesonly"), [if ours.identities_only { "yes" } else { "no" }], "{host}");
        if let Some(files) = &ours.user_known_hosts {
            let joined = files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(" ");
            assert_eq!(all("userknownhostsfile").first().map(|l| l.replace('"', "")), Some(joined), "{host}");
        }
    }
}
