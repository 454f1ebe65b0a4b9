//! A restart takes what lived in memory, and launchd starts what lies on the disk.

use std::time::Duration;

use plist::{Dictionary, Value};

use super::{rack, root};
use crate::support::ssh::Client;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_what_lived_in_memory_and_starts_the_daemons_on_the_disk() {
    let rack = rack().nodes(2).start().await.expect("a rack");
    let (node, root) = (&rack.nodes[0], root(&rack));
    let stock = node.node.load().expect("a state");
    let client = Client::connect(&rack, node).await;
    client.exec("sudo -n ifconfig bridge0 deletem en3").await.expect(0);
    client.exec("sudo -n ifconfig en3 inet 10.254.0.1 netmask 255.255.255.252 up").await.expect(0);
    client.exec("sudo -n sysctl net.inet.ip.forwarding=1").await.expect(0);
    client.exec("sudo -n route add -net 10.9.0.0/24 10.254.0.2").await.expect(0);
    client.exec("sudo -n ifconfig bridge0 destroy").await.expect(0);
    client.exec(&format!("sudo -n touch {root}/var/run/gone {root}/opt/stays")).await.expect(0);
    let mut job = Dictionary::new();
    job.insert("Label".into(), "org.example.sleeper".into());
    job.insert("ProgramArguments".into(), Value::Array(vec![format!("{root}/bin/sleep").into(), "600".into()]));
    job.insert("RunAtLoad".into(), true.into());
    let list = node.node.rooted("/Library/LaunchDaemons/org.example.sleeper.plist");
    Value::Dictionary(job).to_file_xml(&list).expect("written");
    // A command that runs at that moment does not hold the node up.
    let mut channel = client.handle().channel_open_session().await.expect("a channel");
    channel.exec(true, "sleep 600").await.expect("the request is sent");

    rack.reboot("studio-1").await.expect("restarts");
    let end = async { while channel.wait().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the connection broke");
    let after = node.node.load().expect("a state");
    assert_ne!(after.boot.session, stock.boot.session);
    assert!(after.boot.seconds > stock.boot.seconds);
    assert!(after.sysctl.is_empty() && after.static_routes.is_empty());
    // The bridge is back with its members and the management address is still there, as the preferences have them.
    assert_eq!(after.interface("bridge0").expect("a bridge").members, ["en2", "en3", "en4", "en5", "en6", "en7"]);
    assert_eq!(after.interface("en3"), stock.interface("en3"));
    assert_eq!(after.interface("en0"), stock.interface("en0"));
    assert!(!node.node.rooted("/private/var/run/gone").exists() && node.node.rooted("/opt/stays").exists());

    let client = Client::connect(&rack, node).await;
    let print = client.exec("launchctl print system/org.example.sleeper").await.expect(0).stdout;
    assert!(print.contains("\tstate = running\n"), "{print}");
    // The other node did not notice.
    Client::connect(&rack, &rack.nodes[1]).await.exec("hostname").await.expect(0);
    assert_eq!(rack.tripwire(), "");
    rack.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_that_was_deleted_from_the_preferences_does_not_come_back() {
    let rack = rack().nodes(1).start().await.expect("a rack");
    let node = &rack.nodes[0].node;
    std::fs::remove_file(node.rooted("/Library/Preferences/SystemConfiguration/preferences.plist")).expect("there");
    rack.reboot("studio-1").await.expect("restarts");
    assert!(node.load().expect("a state").interface("bridge0").is_none());
    rack.stop().await.expect("stops");
}
