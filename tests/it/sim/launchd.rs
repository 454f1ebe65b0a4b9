//! `launchctl` really runs programs, and nothing of them is left when the rack stops.

use std::time::Duration;

use macluster::sim::RunningRack;
use plist::{Dictionary, Value};

use super::{rack, root};
use crate::support::ssh::{Client, line};

/// A property list for a node's tool, written as root, at its usual place.
async fn daemon(rack: &RunningRack, client: &Client, label: &str, argv: &[&str], more: &[(&str, Value)]) -> String {
    let root = root(rack);
    let mut d = Dictionary::new();
    d.insert("Label".into(), label.into());
    let argv: Vec<Value> = argv.iter().map(|a| a.replace("ROOT", &root).into()).collect();
    d.insert("ProgramArguments".into(), Value::Array(argv));
    d.insert("StandardOutPath".into(), format!("{root}/private/tmp/{label}.log").into());
    d.insert("StandardErrorPath".into(), format!("{root}/private/tmp/{label}.log").into());
    for (key, value) in more {
        d.insert((*key).to_owned(), value.clone());
    }
    let mut xml = Vec::new();
    Value::Dictionary(d).to_writer_xml(&mut xml).expect("a property list");
    let path = format!("{root}/Library/LaunchDaemons/{label}.plist");
    client.exec_with(&line(&["sudo", "-n", "tee", &path]), &xml).await.expect(0);
    path
}

/// Asks until the answer fits; the job's process is another one, so there is nothing to await.
async fn until(client: &Client, command: &str, fits: impl Fn(&str) -> bool) -> String {
    for _ in 0..200 {
        let text = client.exec(command).await.stdout;
        if fits(&text) {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("`{command}` never answered as expected: {}", client.exec(command).await.stdout);
}

fn value<'a>(print: &'a str, key: &str) -> Option<&'a str> {
    print.lines().find_map(|l| l.strip_prefix(&format!("\t{key} = ")))
}

#[tokio::test]
async fn a_daemon_lives_from_bootstrap_to_bootout() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let run = [("RunAtLoad", Value::Boolean(true))];
    let plist = daemon(&rack, &client, "org.example.sleeper", &["ROOT/bin/sleep", "600"], &run).await;
    let target = "system/org.example.sleeper";

    let ran = client.exec(&format!("launchctl print {target}")).await.expect(113);
    assert_eq!(ran.stderr, "Bad request.\nCould not find service \"org.example.sleeper\" in domain for system\n");
    client.exec(&format!("launchctl bootstrap system {plist}")).await.expect(1);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    let print = until(&client, &format!("launchctl print {target}"), |t| value(t, "state") == Some("running")).await;
    let pid = value(&print, "pid").expect("a pid").to_owned();
    let again = client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(5);
    assert_eq!(again.stderr, "Bootstrap failed: 5: Input/output error\n");

    // The process is real, it is root's, and it is the node's own.
    let ps = client.exec(&format!("ps -p {pid} -o pid=,ppid=,user=,command=")).await.expect(0).stdout;
    assert!(ps.contains("root") && ps.contains("/bin/sleep 600"), "{ps}");
    let ran = client.exec(&format!("kill {pid}")).await.expect(1);
    assert_eq!(ran.stderr, format!("kill: {pid}: Operation not permitted\n"));
    let list = client.exec("launchctl list").await.expect(0).stdout;
    assert!(list.contains(&format!("{pid}\t0\torg.example.sleeper\n")), "{list}");

    client.exec(&format!("sudo -n launchctl kickstart -k {target}")).await.expect(0);
    let print = client.exec(&format!("launchctl print {target}")).await.expect(0).stdout;
    assert_eq!(value(&print, "runs"), Some("2"));
    assert_ne!(value(&print, "pid"), Some(pid.as_str()));
    assert_eq!(value(&print, "last terminating signal"), Some("Terminated: 15"));

    client.exec(&format!("sudo -n launchctl bootout {target}")).await.expect(0);
    client.exec(&format!("launchctl print {target}")).await.expect(113);
    let ran = client.exec(&format!("sudo -n launchctl bootout {target}")).await.expect(3);
    assert_eq!(ran.stderr, "Boot-out failed: 3: No such process\n");
    client.exec(&format!("ps -p {pid} -o pid=")).await.expect(1);

    client.exec(&format!("sudo -n launchctl disable {target}")).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(119);
    client.exec(&format!("sudo -n launchctl enable {target}")).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_daemons_output_and_exit_are_kept() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    // A real process that calls a simulated tool: the multi-call binary, as root.
    let run = [("RunAtLoad", Value::Boolean(true))];
    let argv = ["ROOT/sbin/ifconfig", "en3", "inet", "10.254.9.1", "netmask", "255.255.255.252"];
    let plist = daemon(&rack, &client, "org.example.links", &argv, &run).await;
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    let print =
        until(&client, "launchctl print system/org.example.links", |t| value(t, "last exit code") == Some("0")).await;
    assert_eq!(value(&print, "state"), Some("not running"));
    assert!(client.exec("ifconfig en3").await.expect(0).stdout.contains("inet 10.254.9.1 "));

    let plist = daemon(&rack, &client, "org.example.fails", &["ROOT/bin/ls", "nonesuch"], &run).await;
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    until(&client, "launchctl print system/org.example.fails", |t| value(t, "last exit code") == Some("1")).await;
    let log = format!("{}/private/tmp/org.example.fails.log", root(&rack));
    assert_eq!(client.exec(&line(&["cat", &log])).await.expect(0).stdout, "ls: nonesuch: No such file or directory\n");

    // A program that is not there is loaded all the same, and says so only in `print`.
    let plist = daemon(&rack, &client, "org.example.absent", &["ROOT/opt/nonesuch"], &run).await;
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    let print = client.exec("launchctl print system/org.example.absent").await.expect(0).stdout;
    assert_eq!(value(&print, "last exit code"), Some("78: EX_CONFIG"));
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_property_list_that_is_not_roots_is_not_loaded() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let plist = daemon(&rack, &client, "org.example.mine", &["ROOT/usr/bin/true"], &[]).await;
    client.exec(&format!("sudo -n chown admin {plist}")).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(5);
    client.exec(&format!("sudo -n chown root {plist}")).await.expect(0);
    client.exec(&format!("sudo -n chmod 666 {plist}")).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(5);
    client.exec(&format!("sudo -n chmod 644 {plist}")).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    // Nobody is logged in at the screen.
    client.exec(&format!("sudo -n launchctl bootstrap gui/501 {plist}")).await.expect(125);
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_rack_that_stops_leaves_no_process() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let keep = [("KeepAlive", Value::Boolean(true))];
    let plist = daemon(&rack, &client, "org.example.kept", &["ROOT/bin/sleep", "600"], &keep).await;
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    let print = "launchctl print system/org.example.kept";
    let first = until(&client, print, |t| value(t, "state") == Some("running")).await;
    let pid: u32 = value(&first, "pid").expect("a pid").parse().expect("a number");
    // Killed, it is due again, but not before its minimum runtime.
    client.exec(&format!("sudo -n kill -9 {pid}")).await.expect(0);
    let due = until(&client, print, |t| value(t, "state") == Some("spawn scheduled")).await;
    assert_eq!(value(&due, "last terminating signal"), Some("Killed: 9"));
    client.exec("sudo -n launchctl kickstart system/org.example.kept").await.expect(0);
    let second = until(&client, print, |t| value(t, "state") == Some("running")).await;
    let pid: i32 = value(&second, "pid").expect("a pid").parse().expect("a number");
    let dir = rack.dir.clone();
    rack.stop().await.expect("stops");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    assert!(rustix::process::test_kill_process(pid).is_err(), "the daemon outlived its rack");
    assert!(!dir.exists(), "the temporary folder outlived its rack");
}
