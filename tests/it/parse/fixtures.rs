//! Own fixtures, byte for byte in the shapes of macOS, and the odd ends that no capture shows together.

use macluster::model::facts::{Attached, PeerMac, RdmaSwitch, Sudo};
use macluster::model::{Fact, FactErrorKind};
use macluster::parse::{
    hardware, ibv_devices, ibv_devinfo, ifconfig, netstat, networksetup, ping, rdma_ctl, sudo, sw_vers, sysctl,
    thunderbolt,
};

use super::fixture;

/// Line and words of an error about the shape.
#[track_caller]
fn malformed<T: std::fmt::Debug>(fact: Fact<T>) -> (Option<usize>, String) {
    let error = fact.expect_err("malformed");
    assert_eq!(error.kind, FactErrorKind::Malformed, "{error}");
    (error.line, error.message)
}

fn at(line: usize, message: &str) -> (Option<usize>, String) {
    (Some(line), message.to_owned())
}

#[test]
fn thunderbolt_buses() {
    let all = thunderbolt::parse(&fixture("system_profiler.json")).expect("parses");
    let ids: Vec<(u32, Option<u32>, bool)> = all.iter().map(|r| (r.id, r.gbps(), r.connected)).collect();
    assert_eq!(
        ids,
        [
            (6, Some(80), true),
            (5, Some(40), true),
            (4, Some(120), false),
            (3, Some(80), true),
            (2, Some(80), true),
            (1, Some(120), false)
        ]
    );
    let peer = |name: &str, model: &str, uuid: &str, rdma| {
        Attached::Mac(PeerMac {
            name: name.into(),
            model: Some(model.into()),
            domain_uuid: Some(uuid.into()),
            rdma_service: Some(rdma),
        })
    };
    // Services listed, 64087 not among them: RDMA is off over there.
    assert_eq!(all[0].attached, [peer("Mac Studio", "Mac16,9", "B7354C1E-5A00-4D3B-8E21-6F0C9A1D0035", false)]);
    assert_eq!(all[4].attached, [peer("Mac Studio", "Mac15,14", "B7214C1E-5A00-4D3B-8E21-6F0C9A1D0021", true)]);
    // Lower case on one Mac and upper case on another must still be the same domain.
    assert_eq!(all[1].domain_uuid.as_deref(), Some("B7044C1E-5A00-4D3B-8E21-6F0C9A1D0004"));
    let [Attached::Device { name, mode, behind, vendor }] = all[3].attached.as_slice() else { panic!("a dock") };
    assert_eq!(
        (name.as_str(), mode.as_deref(), vendor.as_deref()),
        ("Harbour Dock 5", Some("usb_four_v2"), Some("Harbour"))
    );
    assert_eq!(*behind, [peer("Mac mini", "Mac16,11", "C0FFEE00-1111-4222-8333-444455556666", false)]);
    // A display is Apple's too, and no Mac.
    assert!(matches!(all[1].attached.as_slice(), [Attached::Device { name, .. }] if name == "Studio Display"));
}

#[test]
fn thunderbolt_oddities() {
    let parse = |buses: &str| thunderbolt::parse(&format!("{{\"SPThunderboltDataType\": {buses}}}"));
    assert_eq!(parse("[]"), Ok(vec![]));
    assert_eq!(malformed(parse("[{}, 3]")).1, "none of 2 buses has a `receptacle_id_key`");
    // A number instead of a string, another number in the tag's name, a status that is missing.
    let odd = parse(
        r#"[{"_name": "b", "receptacle_3_tag": {"receptacle_id_key": 3}, "_items": [{"device_id_key": 10}]},
            {"_name": "display", "_items": []}]"#,
    )
    .expect("parses");
    assert_eq!((odd.len(), odd[0].id, odd[0].connected, &odd[0].speed), (1, 3, true, &None));
    assert!(
        matches!(odd[0].attached.as_slice(), [Attached::Mac(PeerMac { name, rdma_service: None, .. })] if name == "unnamed")
    );
    // Apple's own things are no Macs, even with a Mac's device id: a switch is a device.
    for device in [
        r#"{"device_id_key": "0xA", "vendor_id_key": "0x0A27", "mode_key": "usb_four_v2"}"#,
        r#"{"domain_uuid_key": "x", "switch_uid_key": "0x1"}"#,
        r#"{"device_id_key": "0xA", "vendor_id_key": "0x4D2"}"#,
        r#"{"device_id_key": "0xA", "receptacle_upstream_ambiguous_tag": {}}"#,
    ] {
        let all = parse(&format!(r#"[{{"receptacle_1_tag": {{"receptacle_id_key": "1"}}, "_items": [{device}]}}]"#));
        assert!(matches!(all.expect("parses")[0].attached.as_slice(), [Attached::Device { .. }]), "{device}");
    }
    let service = |services: &str| {
        let items = format!(r#"[{{"_name": "x", "services_title": {services}}}]"#);
        let all = parse(&format!(r#"[{{"receptacle_1_tag": {{"receptacle_id_key": "1"}}, "_items": {items}}}]"#))
            .expect("parses");
        match all[0].attached.as_slice() {
            [Attached::Mac(peer)] => peer.rdma_service,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(service("[]"), None);
    assert_eq!(service(r#"[{"_name": "unknown_xd_service"}]"#), None);
    assert_eq!(service(r#"[{"protocol_id_key": "64087"}]"#), Some(true));
    assert_eq!(service(r#"[{"protocol_id_key": 1}, {"protocol_id_key": 64087}]"#), Some(true));
    assert_eq!(service(r#"[{"protocol_id_key": 1}]"#), Some(false));
    // Docks in docks in docks: cut off at some depth, never endless.
    let nested = (0..200).fold("[]".to_owned(), |inner, _| format!(r#"[{{"mode_key": "m", "_items": {inner}}}]"#));
    assert!(thunderbolt::parse(&format!("{{\"SPThunderboltDataType\": {nested}}}")).is_err());
    let nested = (0..20).fold("[]".to_owned(), |inner, _| format!(r#"[{{"mode_key": "m", "_items": {inner}}}]"#));
    let all = parse(&format!(r#"[{{"receptacle_1_tag": {{"receptacle_id_key": "1"}}, "_items": {nested}}}]"#))
        .expect("parses");
    assert_eq!(all[0].attached.len(), 1);
}

#[test]
fn thunderbolt_output_cut_short() {
    let text = fixture("system_profiler.json");
    let half: String = text.split_inclusive('\n').take(60).collect();
    let (line, message) = malformed(thunderbolt::parse(&half));
    assert_eq!(line, Some(61));
    assert!(message.starts_with("expected a JSON object with `SPThunderboltDataType`: EOF"), "{message}");
    assert!(hardware::parse(&half).is_err());
}

#[test]
fn hardware_overview() {
    let hw = hardware::parse(&fixture("system_profiler.json")).expect("parses");
    assert_eq!(
        [hw.model, hw.name, hw.chip, hw.memory, hw.serial],
        ["Mac15,14", "Mac Studio", "Apple M3 Ultra", "256 GB", "TESTSERIAL"]
    );
    let bare = hardware::parse(r#"{"SPHardwareDataType": [{"machine_model": "VirtualMac2,1"}]}"#).expect("parses");
    assert_eq!((bare.model.as_str(), bare.serial.as_str()), ("VirtualMac2,1", ""));
    assert_eq!(malformed(hardware::parse(r#"{"SPHardwareDataType": [{}]}"#)).1, "no entry has a `machine_model`");
}

#[test]
fn hardware_ports() {
    let text = fixture("networksetup.txt");
    let ports = networksetup::parse(&text).expect("parses");
    assert_eq!(ports.len(), 11, "the VLAN is no hardware port");
    let device = |name: &str| ports.iter().find(|p| p.name == name).map(|p| (p.device.as_str(), p.mac.as_deref()));
    assert_eq!(device("Thunderbolt 6"), Some(("en14", Some("36:1a:7e:55:c0:14"))));
    assert_eq!(device("Thunderbolt Bridge"), Some(("bridge0", Some("36:1a:7e:55:c0:00"))));
    assert_eq!(device("io.example.tunnel"), Some(("", None)));
    assert_eq!(networksetup::parse(&text.replace('\n', "\r\n")), Ok(ports.clone()));
    assert_eq!(networksetup::parse(&format!("{text}Device: vlan0\nHardware Port: x\n")), Ok(ports.clone()));
    assert_eq!(networksetup::parse(&format!("Hi: there\nDevice: banner\n{text}")), Ok(ports));
    assert_eq!(
        malformed(networksetup::parse(
            "\nHardware Port: Thunderbolt 1\nDevice: en2\n\nHardware Port: Thunderbolt 2\nDev"
        )),
        at(5, "this hardware port has no `Device:` line")
    );
    assert_eq!(
        malformed(networksetup::parse("** Error: The parameters were not valid.\n")),
        at(1, "expected `Hardware Port:` lines, found `** Error: The parameters were not valid.`")
    );
}

#[test]
fn interfaces() {
    let text = fixture("ifconfig.txt");
    let all = ifconfig::parse(&text).expect("parses");
    let names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["lo0", "stf0", "en0", "en2", "en3", "en4", "bridge0", "utun3"]);
    let shown = |name: &str| {
        let i = all.iter().find(|i| i.name == name).expect("interface");
        let inet: Vec<String> = i
            .inet
            .iter()
            .map(|a| format!("{}/{:?}>{:?}", a.address, a.prefix, a.peer).replace("Some", "").replace("None", "-"))
            .collect();
        let carrier = i.active;
        (i.up(), carrier, i.ether.clone().unwrap_or_default(), inet.join(" "), i.inet6.len(), i.members.join(" "))
    };
    let row = |up, carrier, ether: &str, inet: &str, inet6, members: &str| {
        (up, carrier, ether.to_owned(), inet.to_owned(), inet6, members.to_owned())
    };
    assert_eq!(shown("lo0"), row(true, None, "", "127.0.0.1/(8)>-", 2, ""));
    assert_eq!(shown("stf0"), row(false, None, "", "", 0, ""));
    assert_eq!(shown("en0"), row(true, Some(true), "9c:76:0e:31:02:00", "192.0.2.61/(25)>- 192.0.2.200/->-", 1, ""));
    assert_eq!(shown("en2"), row(true, Some(false), "36:1a:7e:55:c0:00", "", 0, ""));
    assert_eq!(shown("en3"), row(true, Some(true), "36:1a:7e:55:c0:04", "10.254.0.1/(30)>-", 1, ""));
    assert_eq!(shown("en4"), row(false, Some(false), "36:1a:7e:55:c0:08", "", 0, ""));
    assert_eq!(shown("bridge0"), row(true, Some(false), "36:1a:7e:55:c0:00", "", 0, "en2 en14"));
    assert_eq!(shown("utun3"), row(true, None, "", "100.64.7.9/(32)>(100.64.7.8)", 1, ""));
    assert_eq!(all[4].inet6[0].to_string(), "fe80::341a:7eff:fe55:c004");
    assert!(all[4].has_link_local_v6() && !all[7].has_link_local_v6());
    assert_eq!((all[0].mtu, all[7].mtu), (Some(16384), Some(1380)));
    assert_eq!(ifconfig::parse(&text.replace('\n', "\r\n")), Ok(all.clone()));
    assert_eq!(ifconfig::parse(&format!("Note: flags are not flown here\n\tinet nonsense\n{text}")), Ok(all));
}

#[test]
fn interfaces_that_break_off() {
    let block = |tail: &str| format!("en3: flags=8863<UP> mtu 1500\n{tail}");
    assert_eq!(malformed(ifconfig::parse("en3: flags=8863<UP,BROAD")), at(1, "the flags of en3 break off"));
    for (tail, words) in [
        ("\tether 36:1a", "ether 36:1a"),
        ("\tinet 10.254.0", "inet 10.254.0"),
        ("\tinet 10.254.0.1 netmask 0xzz", "inet 10.254.0.1 netmask 0xzz"),
        ("\tinet 10.254.0.1 -->", "inet 10.254.0.1 -->"),
        ("\tinet", "inet"),
        ("\tinet6 fe80:::1%en3 prefixlen 64", "inet6 fe80:::1%en3 prefixlen 64"),
    ] {
        let expected = at(2, &format!("expected an address, found `{words}`"));
        assert_eq!(malformed(ifconfig::parse(&block(tail))), expected, "{tail}");
    }
    assert_eq!(
        malformed(ifconfig::parse("\nusage: ifconfig\n")),
        at(2, "expected a line such as `en0: flags=…`, found `usage: ifconfig`")
    );
    let empty = malformed(ifconfig::parse(" \n"));
    assert_eq!(empty, (None, "expected a line such as `en0: flags=…`, but nothing was printed".to_owned()));
    let dotted = ifconfig::parse(&block("\tinet 10.1.2.3 netmask 255.255.255.252\n")).expect("parses");
    assert_eq!(dotted[0].inet[0].prefix, Some(30));
}

#[test]
fn rdma_device_names() {
    let text = fixture("ibv_devices.txt");
    let names = Ok(["rdma_en4", "rdma_en3", "rdma_en14"].map(str::to_owned).to_vec());
    assert_eq!(ibv_devices::parse(&text), names);
    assert_eq!(ibv_devices::parse(&text.replace('\t', " ").replace('\n', "\r\n")), names);
    assert_eq!(ibv_devices::parse(&format!("{text}logout now\n")), names);
    assert_eq!(ibv_devices::parse(&fixture("ibv_devices-none.txt")), Ok(vec![]));
    assert_eq!(malformed(ibv_devices::parse(&format!("{text}    rdma_en5"))), at(6, "the line of rdma_en5 breaks off"));
    assert_eq!(
        malformed(ibv_devices::parse("Segmentation fault\n")),
        at(1, "expected the header `device  node GUID`, found `Segmentation fault`")
    );
    assert!(ibv_devices::parse("").is_err(), "silence is no empty list");
}

#[test]
fn rdma_device_details() {
    let text = fixture("ibv_devinfo.txt");
    let all = ibv_devinfo::parse(&text).expect("parses");
    let states: Vec<(&str, &str, usize)> =
        all.iter().map(|d| (d.device.as_str(), d.state.as_str(), d.gids.len())).collect();
    assert_eq!(states, [("rdma_en3", "PORT_ACTIVE", 3), ("rdma_en4", "PORT_DOWN", 1), ("rdma_en14", "PORT_ACTIVE", 2)]);
    // The same kind of address, spelled in full on one build and short on another.
    assert_eq!(all[0].gids[&1].ipv4().map(|a| a.to_string()).as_deref(), Some("10.254.0.1"));
    assert_eq!(all[2].gids[&1].ipv4().map(|a| a.to_string()).as_deref(), Some("10.254.0.6"));
    assert_eq!(all[0].gids[&0].ipv4(), None);
    assert_eq!((all[0].caps["max_qp"], all[0].caps["max_qp_wr"], all[0].caps["max_mr_size"]), (11, 4095, 0xfa_0000));
    assert!(!all[0].caps.contains_key("max_mtu"), "`4096 (5)` is no number");
    // Quoted on web pages, tabs become blanks; the index is padded or not.
    let blanks = text.replace('\t', "    ").replace("GID[  ", "GID[").replace('\n', "\r\n");
    assert_eq!(ibv_devinfo::parse(&blanks), Ok(all.clone()));
    let newer = text.replace("::ffff:10.254.0.6", "::ffff:10.254.0.6, RoCE v2");
    assert_eq!(ibv_devinfo::parse(&newer), Ok(all));
}

#[test]
fn rdma_details_that_break_off() {
    assert_eq!(ibv_devinfo::parse(&fixture("ibv_devinfo-none.txt")), Ok(vec![]));
    let line = |tail: &str| format!("hca_id:\trdma_en3\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n{tail}");
    for tail in [
        "\t\t\tGID[  1]:",
        "\t\t\tGID[  x]:\t\tfe80::1",
        "\t\t\tGID  1:\t\tfe80::1",
        "\t\t\tGID[99999999999]:\tfe80::1",
    ] {
        let (number, message) = malformed(ibv_devinfo::parse(&line(tail)));
        assert_eq!(number, Some(3), "{tail}");
        assert!(message.starts_with("expected a GID, found `GID"), "{message}");
    }
    let garbled = ibv_devinfo::parse(&line("\t\t\tGID[  1]:\t\tnonsense\n")).expect("parses");
    assert_eq!((garbled[0].gids[&1].text.as_str(), garbled[0].gids[&1].address), ("nonsense", None));
    assert_eq!(
        malformed(ibv_devinfo::parse("hca_id:\trdma_en3\n\ttransport:\tThunder")),
        (None, "rdma_en3 has no `state:` line".to_owned())
    );
    assert_eq!(malformed(ibv_devinfo::parse("hca_id:\n")), at(1, "a device without a name"));
    assert!(ibv_devinfo::parse("").is_err(), "silence is no empty list");
}

#[test]
fn rdma_switch() {
    for (text, expected) in [
        ("enabled\n", RdmaSwitch::Enabled),
        ("disabled\r\n", RdmaSwitch::Disabled),
        ("\u{feff}\nWelcome\nEnabled", RdmaSwitch::Enabled),
        ("status: disabled\n", RdmaSwitch::Disabled),
        ("enabled\ndisabled\n", RdmaSwitch::Disabled),
    ] {
        assert_eq!(rdma_ctl::parse(text), Ok(expected), "{text:?}");
    }
    for text in ["", "not enabled\n", "RDMA cannot be enabled", "enable", "Firewall is enabled, welcome"] {
        assert!(rdma_ctl::parse(text).is_err(), "{text:?}");
    }
    assert_eq!(
        malformed(rdma_ctl::parse("usage: rdma_ctl [enable|disable|status]")),
        at(1, "expected `enabled` or `disabled`, found `usage: rdma_ctl [enable|disable|status]`")
    );
}

#[test]
fn macos_versions() {
    let os = sw_vers::parse(&fixture("sw_vers.txt")).expect("parses");
    assert_eq!(os.to_string(), "26.5.1 (b) (25F770123b)");
    assert_eq!(os.major_minor(), Some((26, 5)));
    let plain = "Hello: you\r\nProductName: macOS\r\nProductVersion: 27.0\r\nBuildVersion: 26A434\r\n";
    assert_eq!(sw_vers::parse(plain).expect("parses").to_string(), "27.0 (26A434)");
    assert_eq!(malformed(sw_vers::parse("ProductVersion:\tx\nBuildVersion:\t25G83\n")), at(1, "`x` is no version"));
    assert_eq!(malformed(sw_vers::parse("ProductVersion:\t26.1\nBuildVersion:\t2")), at(2, "`2` is no build"));
    assert_eq!(
        malformed(sw_vers::parse("ProductName:\tmacOS\nProductVersion:\t26.1\n")),
        at(1, "expected `BuildVersion:`, found `ProductName: macOS`")
    );
}

#[test]
fn kernel_values() {
    let values = sysctl::parse(&fixture("sysctl.txt")).expect("parses");
    assert_eq!(values.len(), 6);
    assert_eq!(values["hw.memsize"], "274877906944");
    assert_eq!(values["kern.boottime"], "{ sec = 1795000123, usec = 4021 } Sat Nov 18 06:42:03 2026");
    assert_eq!(values["kern.bootsessionuuid"], "9D2C51A7-3B0E-4F6A-8C11-0B7E5D4A2F90");
    let noisy = sysctl::parse("Last login: today\nsysctl: unknown oid 'x.y'\nhw.model: M\n").expect("parses");
    assert_eq!(noisy.keys().collect::<Vec<_>>(), ["hw.model"]);
    assert!(sysctl::parse("sysctl: unknown oid 'a.b'\n").is_err());
}

#[test]
fn routes() {
    let shown = |text: &str| {
        let routes = netstat::parse(text).expect("parses").into_iter();
        routes.map(|r| format!("{} {} {} {}", r.destination, r.gateway, r.flags, r.interface)).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&fixture("netstat.txt")),
        [
            "0.0.0.0/0 192.0.2.1 UGScg en0",
            "10.254.0.0/30 link#9 UCS en3",
            "10.254.0.1/32 link#9 UCS en3",
            "10.254.0.2/32 36:1a:7e:5:9:1 UHLWIi en3",
            "127.0.0.0/8 127.0.0.1 UCS lo0",
            "127.0.0.1/32 127.0.0.1 UH lo0",
            "169.254.0.0/16 link#4 UCS en0",
            "172.20.0.0/14 192.0.2.1 UGSc en0",
            "192.0.2.0/25 link#4 UCS en0",
            "192.168.8.0/24 lo0 UScI lo0",
            "224.0.0.0/4 link#4 UmCS en0",
            "255.255.255.255/32 link#4 UCS en0",
        ]
    );
    // Older columns, and the other family behind an empty line.
    assert_eq!(shown(&fixture("netstat-old.txt")), ["0.0.0.0/0 192.0.2.1 UGSc en0", "10.254.0.4/30 link#9 UCS en3"]);
    let header = "Destination Gateway Flags Netif Expire\n";
    assert_eq!(shown(&format!("hello\n{header}")), Vec::<String>::new());
    assert_eq!(shown(&format!("{header}192.0.2.7%en0 link#4 UCS en0\n")), ["192.0.2.7/32 link#4 UCS en0"]);
    for row in ["10.0.0.1 link#4 UC", "10.0.0.256 a b c", "1.2.3.4.5 a b c", "10/33 a b c", "x a b c", "10. a b c"] {
        let expected = at(2, &format!("expected a route, found `{row}`"));
        assert_eq!(malformed(netstat::parse(&format!("{header}{row}\n"))), expected);
    }
    assert_eq!(
        malformed(netstat::parse("netstat: no route table\n")),
        at(1, "expected the header `Destination  Gateway  Flags  Netif`, found `netstat: no route table`")
    );
}

#[test]
fn pings() {
    let ping = ping::parse(&fixture("ping.txt")).expect("parses");
    assert_eq!((ping.transmitted, ping.received, ping.average_ms, ping.error), (3, 2, Some(0.300), None));
    let other = "3 packets transmitted, 0 received, 100% packet loss, time 2031ms\nping: bind: Can't assign requested address\n";
    let ping = ping::parse(other).expect("parses");
    assert_eq!((ping.received, ping.error.as_deref()), (0, Some("bind: Can't assign requested address")));
    assert_eq!(
        malformed(ping::parse("ping: bad interface name\n")),
        at(1, "expected `… packets transmitted, … packets received`, found `ping: bad interface name`")
    );
}

#[test]
fn sudo_refusals() {
    for (exit, text, expected) in [
        (Some(0), "", Sudo::Passwordless),
        (Some(1), "sudo: a password is required\n", Sudo::NeedsPassword),
        (Some(1), "sudo: interactive authentication is required\n", Sudo::NeedsPassword),
        (Some(1), "sudo: a terminal is required to read the password; either use the -S option\n", Sudo::NeedsPassword),
        (Some(1), "tess is not in the sudoers file.\n", Sudo::NotAllowed),
        (Some(1), "Sorry, user tess may not run sudo on loft-1.\n", Sudo::NotAllowed),
        (Some(1), "Sorry, user tess is not allowed to execute '/usr/bin/true' as root on loft-1.\n", Sudo::NotAllowed),
    ] {
        assert_eq!(sudo::classify(exit, text), Ok(expected), "{text}");
    }
    let error = sudo::classify(Some(1), "sudo: /etc/sudo.conf is world writable\n").expect_err("unknown");
    assert_eq!(error.kind, FactErrorKind::Failed);
    assert!(sudo::classify(None, "").is_err());
}
