//! The rack itself: nodes boot, tools and kernel agree, nothing reaches the host.

use super::rack::NetRack;
use super::ready;

/// Names of a node's interfaces that the kernel has in a bridge.
fn bridged(rack: &NetRack, number: usize) -> Vec<String> {
    let links = rack.in_network(number, "ip", &["-json", "link", "show", "master", "bridge0"]).expect(0).json();
    links.as_array().expect("links").iter().map(|l| l["ifname"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn macluster_reads_the_nodes_over_a_real_ssh_server() {
    if !ready("boots::macluster_reads_the_nodes_over_a_real_ssh_server") {
        return;
    }
    let rack = NetRack::start(2, |_| ());
    rack.macluster(&["snapshot", "facts.json"]).expect(0);
    let text = std::fs::read_to_string(rack.dir.join("facts.json")).expect("a snapshot");
    let snapshot: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for number in rack.numbers() {
        let facts = &snapshot["nodes"][format!("studio-{number}")]["facts"]["Ok"];
        assert_eq!(facts["session"]["local_address"], super::rack::address(number), "{facts}");
        let receptacles = facts["receptacles"]["Ok"].as_array().expect("receptacles");
        assert_eq!(receptacles.iter().filter(|r| r["connected"] == true).count(), 1);
        let interfaces = facts["interfaces"]["Ok"].as_array().expect("interfaces");
        let active = |name: &str| interfaces.iter().find(|i| i["name"] == name).map(|i| i["active"] == true);
        assert_eq!((active("en3"), active("en4")), (Some(true), Some(false)));
    }
    // What a Mac does not have is not there either, and what a node writes stays on it.
    for tool in ["ip", "timeout", "flock", "apt-get", "setsid"] {
        let ran = rack.ssh(1, tool).expect(127);
        assert_eq!(ran.stderr, format!("zsh:1: command not found: {tool}\n"));
    }
    let mark = format!("/opt/netrack-{}", std::process::id());
    rack.ssh(1, &format!("sudo touch {mark}")).expect(0);
    rack.ssh(1, &format!("ls {mark}")).expect(0);
    rack.ssh(2, &format!("ls {mark}")).expect(1);
    assert!(!std::path::Path::new(&mark).exists());
}

#[test]
fn what_a_tool_changes_the_kernel_has_and_a_restart_takes_it() {
    if !ready("boots::what_a_tool_changes_the_kernel_has_and_a_restart_takes_it") {
        return;
    }
    let mut rack = NetRack::start(2, |_| ());
    assert_eq!(bridged(&rack, 1), ["en3"]);
    for (number, host) in [(1, 1), (2, 2)] {
        rack.ssh(number, "sudo ifconfig bridge0 deletem en3").expect(0);
        rack.ssh(number, &format!("sudo ifconfig en3 inet 10.9.9.{host} netmask 255.255.255.252 up")).expect(0);
    }
    assert_eq!(bridged(&rack, 1), [""; 0]);
    let kernel = rack.in_network(1, "ip", &["-json", "address", "show", "en3"]).expect(0).json();
    assert_eq!(kernel[0]["addr_info"][0]["local"], "10.9.9.1");
    let ping = "ping -c 1 -W 1000 -b en3 -S 10.9.9.1 10.9.9.2";
    rack.ssh(1, ping).expect(0);
    let route = rack.ssh(1, "route -n get 10.9.9.2").expect(0).stdout;
    assert!(route.contains("\n  interface: en3\n"), "{route}");
    // Whoever changes the kernel changes what the tools show.
    rack.in_network(1, "ip", &["address", "del", "10.9.9.1/30", "dev", "en3"]).expect(0);
    assert!(!rack.ssh(1, "ifconfig en3").expect(0).stdout.contains("inet 10."));
    rack.in_network(1, "ip", &["address", "add", "10.9.9.1/30", "dev", "en3"]).expect(0);
    rack.ssh(1, ping).expect(0);
    rack.ssh(2, "sudo ifconfig en3 down").expect(0);
    assert!(rack.ssh(1, "ifconfig en3").expect(0).stdout.contains("status: inactive"));
    rack.ssh(1, ping).expect(2);

    let boot = |rack: &NetRack| rack.ssh(1, "sysctl -n kern.bootsessionuuid").expect(0).stdout;
    let before = boot(&rack);
    rack.reboot(1);
    assert_ne!(boot(&rack), before);
    assert_eq!(bridged(&rack, 1), ["en3"]);
    assert!(!rack.ssh(1, "ifconfig").expect(0).stdout.contains("10.9.9.1"));
}
