//! The simulator's output against `../shared/samples`: same keys, same line shapes. Without that folder nothing
//! is compared, and each test says so; what the product needs is tested elsewhere on fixtures, too.

use std::collections::BTreeSet;

use macluster::sim::Fault;
use serde_json::Value;

use super::rack;
use crate::support::samples;
use crate::support::ssh::Client;

fn sample(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(samples()?.join(path)).expect("a sample of the index"))
}

/// A line with its own values taken out: digits, hexadecimal numbers, names of interfaces.
fn shape(line: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, out: &mut String| {
        let hexadecimal = |c: char| c.is_ascii_hexdigit() || ":.%".contains(c);
        if word.chars().any(|c| c.is_ascii_digit()) || (word.len() > 3 && word.chars().all(hexadecimal)) {
            out.push('#');
        } else {
            out.push_str(word);
        }
        word.clear();
    };
    for c in line.chars() {
        if c.is_ascii_alphanumeric() || ":.%_-".contains(c) {
            word.push(c);
        } else {
            flush(&mut word, &mut out);
            out.push(c);
        }
    }
    flush(&mut word, &mut out);
    // How far a column is padded depends on its values.
    let collapsed: Vec<&str> = out.split(' ').filter(|w| !w.is_empty()).collect();
    if out.starts_with('\t') || out.starts_with("  ") {
        format!(" {}", collapsed.join(" "))
    } else {
        collapsed.join(" ")
    }
}

fn shapes(text: &str) -> BTreeSet<String> {
    text.lines().map(shape).collect()
}

/// Every object of the JSON as its path and sorted keys.
fn objects(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            found.insert(format!("{path}: {}", keys.join(" ")));
            for (key, value) in map {
                objects(value, &format!("{path}/{key}"), found);
            }
        }
        Value::Array(list) => list.iter().for_each(|v| objects(v, path, found)),
        _ => {}
    }
}

fn keys(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    objects(&serde_json::from_str(text).expect("JSON"), "", &mut found);
    found
}

#[tokio::test]
async fn thunderbolt_has_the_keys_of_the_captures_in_their_order() {
    let (Some(studio), Some(laptop)) = (
        sample("thunderbolt/omlx-studio-m3ultra.json"),
        sample("thunderbolt/osaurus-mbp-m5max-local-rdma-disabled.json"),
    ) else {
        return;
    };
    let known: BTreeSet<String> = keys(&studio).union(&keys(&laptop)).cloned().collect();
    let rack = rack().start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let text = client.exec("system_profiler SPThunderboltDataType -json").await.expect(0).stdout;
    let unknown: Vec<String> = keys(&text).difference(&known).cloned().collect();
    assert_eq!(unknown, Vec::<String>::new());
    // Byte-shaped: the very indentation and ` : `, too.
    let line = |t: &str| t.lines().nth(2).map(str::to_owned);
    assert_eq!(line(&text), line(&studio));
    assert_eq!(text.lines().map(shape).next_back(), studio.lines().map(shape).next_back());

    let hardware = client.exec("system_profiler SPHardwareDataType -json").await.expect(0).stdout;
    let sample = sample("system/SPHardwareDataType-m5max-26.4.json").expect("a sample");
    assert_eq!(keys(&hardware), keys(&sample));
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn network_tools_print_lines_of_the_captured_shapes() {
    if samples().is_none() {
        return;
    }
    let rack = rack().models(["Mac15,14", "Mac17,6"]).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    for step in ["bridge0 deletem en3", "en3 up", "en3 inet 10.254.0.1 netmask 255.255.255.252"] {
        client.exec(&format!("sudo -n ifconfig {step}")).await.expect(0);
    }
    let known = |files: &[&str]| -> BTreeSet<String> {
        files.iter().flat_map(|f| shapes(&sample(f).expect("a sample"))).collect()
    };
    for (command, files, allowed) in [
        (
            "ifconfig",
            &[
                "ifconfig/ifconfig-full-mbp-2tb-nocable-20251017.txt",
                "ifconfig/en2-active-tn3205.txt",
                "ifconfig/studio-6port-host-20250926.grepped.txt",
            ][..],
            // No sample of a connected built-in port (its options are in a comment of one).
            &["options=567", "media: autoselect ("][..],
        ),
        (
            "networksetup -listallhardwareports",
            &["networksetup/listallhardwareports-studio-m3ultra-stock-bridge.RECONSTRUCTED.txt"],
            &[],
        ),
        (
            "networksetup -listnetworkserviceorder",
            &["networksetup/listnetworkserviceorder-studio-m3ultra-perport-services.txt"],
            &["Thunderbolt Bridge"],
        ),
        ("networksetup -getinfo Ethernet", &["networksetup/getinfo-dhcp.txt"], &[]),
        ("netstat -rn -f inet", &["routing/netstat-rn-f-inet-26.6.2.txt"], &["UHLWIi"]),
        ("netstat -rn -f inet6", &["routing/netstat-rn-f-inet6-26.6.2.txt"], &["awdl", "llw"]),
        ("route -n get default", &[], &[]),
        ("ibv_devices", &["rdma/ibv_devices-m3ultra-mlxdocs.txt"], &[]),
        (
            "ibv_devinfo",
            &[
                "rdma/ibv_devinfo-studio-m3ultra-3active.RECONSTRUCTED.txt",
                "rdma/ibv_devinfo-mbp-m5max-macos27-portdown.txt",
            ],
            &[],
        ),
        ("sw_vers", &["system/sw_vers-26.6.2.txt"], &[]),
        ("arp -an", &["network/arp-an-26.5.2.txt", "network/arp-an-bridge-en.txt"], &[]),
        ("ndp -an", &["network/ndp-an-27.0.txt"], &[]),
        ("pmset -g", &["power/pmset-g-mini-m4-powermode.txt", "power/pmset-g-desktop-defaults.txt"], &["prevented by"]),
        ("df -k", &["storage/df-k-data-volume-20261002.txt"], &[]),
        ("ps -axo pid,ppid,etime,command", &["processes/ps-axo-pid-ppid-etime-command.txt"], &["/sbin/launchd"]),
        ("ping -c 2 -i 0.1 192.168.40.1", &["network/ping-ok-26.5.2.txt"], &[]),
    ] {
        let ran = client.exec(command).await.expect(0);
        assert_eq!(ran.stderr, "", "{command}");
        if files.is_empty() {
            continue;
        }
        let known = known(files);
        let strange: Vec<&str> = ran
            .stdout
            .lines()
            .filter(|l| !known.contains(&shape(l)) && !allowed.iter().any(|a| l.contains(a)))
            .collect();
        assert!(strange.is_empty(), "{command} prints lines of no captured shape:\n{}", strange.join("\n"));
    }
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn route_answers_the_captured_cases() {
    let Some(text) = sample("routing/route-cases.json") else { return };
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let mut compared = 0;
    for case in &cases {
        let name = case["name"].as_str().expect("a name");
        // They need interfaces and routes that a Studio has not.
        if [
            "get-on-bridge",
            "get-through-utun",
            "get-scoped-duplicates",
            "get-interface-route",
            "add-through-utun",
            "add-scoped",
            "change-host",
            "add-host",
            "get-no-route",
            "add-prefix-33",
        ]
        .contains(&name)
        {
            continue;
        }
        let argv: Vec<String> = case["argv"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|v| {
                v.as_str().expect("text").replace("192.168.64.3", "192.168.40.21").replace("192.168.64.", "192.168.40.")
            })
            .collect();
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let ran = client.exec(&crate::support::ssh::line(&words)).await;
        let expected = |key: &str| {
            let text = case[key].as_str().expect("text");
            text.replace("192.168.64.3", "192.168.40.21").replace("192.168.64.", "192.168.40.")
        };
        assert_eq!(i64::from(ran.status), case["exit"].as_i64().expect("a status"), "{name}: {}", ran.stderr);
        assert_eq!(ran.stderr, expected("stderr"), "{name}");
        // The row of numbers ends in an expiry that only that machine had.
        let without_expiry =
            |t: &str| -> Vec<String> { t.lines().filter(|l| !l.contains("1500")).map(str::to_owned).collect() };
        assert_eq!(without_expiry(&ran.stdout), without_expiry(&expected("stdout")), "{name}");
        compared += 1;
    }
    assert!(compared > 15, "only {compared} cases were compared");
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn launchctl_prints_the_captured_shape() {
    let Some(sample) = sample("launchd/print-system-running-daemon-26.6.txt") else { return };
    let rack = rack().nodes(1).start().await.expect("a rack");
    let client = Client::connect(&rack, &rack.nodes[0]).await;
    let root = super::root(&rack);
    let plist = format!("{root}/Library/LaunchDaemons/org.example.rack-daemon.plist");
    let text = format!(
        "<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Label</key><string>org.example.rack-daemon</string>\
         <key>ProgramArguments</key><array><string>{root}/bin/sleep</string><string>60</string></array>\
         <key>KeepAlive</key><true/></dict></plist>"
    );
    client.exec_with(&format!("sudo -n tee {plist}"), text.as_bytes()).await.expect(0);
    client.exec(&format!("sudo -n launchctl bootstrap system {plist}")).await.expect(0);
    let print = client.exec("launchctl print system/org.example.rack-daemon").await.expect(0).stdout;
    let keys = |text: &str| -> Vec<String> {
        let one_tab = |l: &&str| l.starts_with('\t') && !l.starts_with("\t\t") && *l != "\t}";
        text.lines().filter(one_tab).map(|l| l.split(" = ").next().unwrap_or(l).to_owned()).collect()
    };
    let (ours, theirs) = (keys(&print), keys(&sample));
    let known: BTreeSet<&String> = theirs.iter().collect();
    // `job state` and `sanitizer flags` are in the 27.0 captures.
    let strange: Vec<&String> = ours
        .iter()
        .filter(|k| !known.contains(k) && !["\tjob state", "\tsanitizer flags"].contains(&k.as_str()))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    let order: Vec<&String> = theirs.iter().filter(|k| ours.contains(k)).collect();
    let same: Vec<&String> = ours.iter().filter(|k| known.contains(k)).collect();
    assert_eq!(same, order);
    rack.stop().await.expect("stops");
}

#[tokio::test]
async fn a_peer_behind_a_dock_is_nested_on_one_side_only() {
    let rack = rack().nodes(2).fault(Fault::Dock).start().await.expect("a rack");
    let mut nested = Vec::new();
    for node in &rack.nodes {
        let client = Client::connect(&rack, node).await;
        let json = client.exec("system_profiler SPThunderboltDataType -json").await.expect(0).json();
        let buses = json["SPThunderboltDataType"].as_array().expect("buses").clone();
        let item = buses.iter().find_map(|b| b["_items"].get(0)).expect("something answers").clone();
        nested.push(item.get("_items").is_some());
        assert_eq!(buses.iter().filter(|b| b["receptacle_1_tag"]["current_speed_key"] == "40 Gb/s").count(), 1);
    }
    assert_eq!(nested, [true, false]);
    rack.stop().await.expect("stops");
}
