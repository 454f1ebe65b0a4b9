//! Every public capture of the tools that are read, by path, with what must come out of it.
//!
//! The captures are not part of the project; without them these tests pass without looking.

use macluster::model::FactErrorKind;
use macluster::model::facts::{Attached, PeerMac, RdmaPort, Receptacle};
use macluster::parse::{
    defaults, df, hardware, ibv_devices, ibv_devinfo, ifconfig, netstat, networksetup, ping, pmset, ps, rdma_ctl,
    sw_vers, sysctl, thunderbolt,
};

use super::sample;

/// Id, speed, connected, UUID of every receptacle, in the order of the file.
fn summary(receptacles: &[Receptacle]) -> Vec<(u32, &str, bool, Option<&str>)> {
    receptacles
        .iter()
        .map(|r| (r.id, r.speed.as_deref().unwrap_or(""), r.connected, r.domain_uuid.as_deref()))
        .collect()
}

fn mac(name: &str, model: &str, uuid: Option<&str>, rdma: Option<bool>) -> Attached {
    Attached::Mac(PeerMac {
        name: name.to_owned(),
        model: Some(model.to_owned()),
        domain_uuid: uuid.map(str::to_owned),
        rdma_service: rdma,
    })
}

fn device(name: &str, vendor: Option<&str>, mode: &str, behind: Vec<Attached>) -> Attached {
    Attached::Device { name: name.to_owned(), vendor: vendor.map(str::to_owned), mode: Some(mode.to_owned()), behind }
}

fn attached(receptacles: &[Receptacle], id: u32) -> &[Attached] {
    &receptacles.iter().find(|r| r.id == id).expect("receptacle").attached
}

#[test]
fn thunderbolt_of_a_studio_with_a_drive_and_a_mac() {
    let Some(text) = sample("thunderbolt/omlx-studio-m3ultra.json") else { return };
    let all = thunderbolt::parse(&text).expect("parses");
    assert_eq!(
        summary(&all),
        [
            (6, "Up to 120 Gb/s", false, Some("1CF1083E-9B3C-4D21-8467-769814784F4D")),
            (5, "Up to 120 Gb/s", false, Some("54AA5FD1-F8F9-438A-8825-7268E164186C")),
            (4, "80 Gb/s", true, Some("5F771049-70BD-4C30-A4AB-4E50482D82E0")),
            (3, "Up to 120 Gb/s", false, Some("C9B32174-396A-4D89-9601-E8E83285C21A")),
            (2, "80 Gb/s", true, Some("28CA4C30-A263-4C55-B302-953416D0B209")),
            (1, "Up to 120 Gb/s", false, Some("57AE1A4C-B830-48D1-90DD-A3EDB8AC8DFC")),
        ]
    );
    assert_eq!(all.iter().map(|r| r.bus.as_str()).next(), Some("thunderboltusb4_bus_5"));
    assert_eq!(attached(&all, 4), [device("Envoy Ultra", Some("Other World Computing"), "usb_four_v2", vec![])]);
    let peer = mac("MacBook Pro", "Mac17,7", Some("817DCFA4-B481-4100-80FC-91C7AA969F0B"), Some(true));
    assert_eq!(attached(&all, 2), [peer]);
}

#[test]
fn thunderbolt_of_a_laptop_with_a_dock() {
    let Some(text) = sample("thunderbolt/osaurus-mbp-m5max-local-rdma-disabled.json") else { return };
    let all = thunderbolt::parse(&text).expect("parses");
    assert_eq!(
        summary(&all),
        [
            (3, "80 Gb/s", true, Some("00000009-0000-4000-8000-000000000009")),
            (2, "80 Gb/s", true, Some("00000004-0000-4000-8000-000000000004")),
            (1, "Up to 120 Gb/s", false, Some("00000008-0000-4000-8000-000000000008")),
        ]
    );
    assert_eq!(attached(&all, 3), [device("SB-XTM5", Some("Sabrent"), "usb_four_v2", vec![])]);
    let peer = mac("MacBook Pro", "Mac17,6", Some("00000003-0000-4000-8000-000000000003"), Some(true));
    assert_eq!(attached(&all, 2), [peer]);
}

#[test]
fn thunderbolt_with_a_mac_behind_a_dock() {
    let Some(text) = sample("thunderbolt/rig-m3ultra-nested-peer-behind-tb3-dock.trimmed.json") else { return };
    let all = thunderbolt::parse(&text).expect("parses");
    assert_eq!(
        all.iter().map(|r| (r.id, r.gbps(), r.idle_speed())).collect::<Vec<_>>(),
        [
            (6, Some(80), false),
            (5, Some(120), true),
            (4, Some(120), true),
            (3, Some(40), false),
            (2, Some(40), false),
            (1, Some(120), true),
        ]
    );
    assert_eq!(attached(&all, 6), [mac("MacBook Pro", "Mac16,5", None, None)]);
    assert_eq!(
        attached(&all, 3),
        [device("ThunderBay Flex 8", None, "thunderbolt_three", vec![mac("MacBook Pro", "Mac16,5", None, None)])]
    );
    assert_eq!(attached(&all, 2), [device("Mercury Helios 3S", None, "thunderbolt_three", vec![])]);
}

#[test]
fn thunderbolt_of_the_far_end_of_that_dock() {
    let Some(text) = sample("thunderbolt/rig-m4max-mbp-two-links-to-studio.trimmed.json") else { return };
    let all = thunderbolt::parse(&text).expect("parses");
    for id in [2, 3] {
        assert_eq!(attached(&all, id), [mac("Mac Studio", "Mac15,14", None, None)]);
    }
    assert_eq!(
        summary(&all),
        [(3, "40 Gb/s", true, None), (2, "80 Gb/s", true, None), (1, "Up to 120 Gb/s", false, None)]
    );
}

#[test]
fn thunderbolt_of_an_empty_port_and_of_texts_that_are_not_json() {
    let Some(text) = sample("thunderbolt/mbp-single-port-empty.json") else { return };
    let all = thunderbolt::parse(&text).expect("parses");
    assert_eq!(summary(&all), [(1, "Up to 120 Gb/s", false, Some("075CF3B0-FEF3-4A82-9F3D-E0261A7AF419"))]);
    // Without -json: not what is asked for, and said so.
    for plain in ["exo1390-mac-mini-m4pro.partial.txt", "tensorfold-studio-m3ultra-macos27.synthetic.txt"] {
        let Some(text) = sample(&format!("thunderbolt/{plain}")) else { return };
        let error = thunderbolt::parse(&text).expect_err(plain);
        assert_eq!((error.kind, error.line), (FactErrorKind::Malformed, Some(1)), "{plain}");
    }
}

#[test]
fn hardware_overviews() {
    for (file, expected) in [
        (
            "SPHardwareDataType-Studio-M3Ultra.RECONSTRUCTED.json",
            ["Mac15,14", "Mac Studio", "Apple M3 Ultra", "512 GB"],
        ),
        ("SPHardwareDataType-m4max-15.json", ["Mac16,5", "MacBook Pro", "Apple M4 Max", "48 GB"]),
        ("SPHardwareDataType-m5max-26.4.json", ["Mac17,6", "MacBook Pro", "Apple M5 Max", "128 GB"]),
        ("SPHardwareDataType-studio-m2ultra.json", ["Mac14,14", "Mac Studio", "Apple M2 Ultra", "64 GB"]),
    ] {
        let Some(text) = sample(&format!("system/{file}")) else { return };
        let hw = hardware::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!([hw.model, hw.name, hw.chip, hw.memory], expected, "{file}");
        assert_eq!(hw.serial, "XXXXXXXXXX", "{file}");
    }
    let Some(text) = sample("system/SPHardwareDataType-studio-m4max.abridged.txt") else { return };
    assert_eq!(hardware::parse(&text).expect_err("plain text").kind, FactErrorKind::Malformed);
}

#[test]
fn versions_of_macos() {
    for (file, version, extra, build) in [
        ("sw_vers-26.3.1a-bsi.txt", "26.3.1", "(a)", "25D771280a"),
        ("sw_vers-26.6.2.txt", "26.6.2", "", "25G83"),
        ("sw_vers-27.0-beta.txt", "27.0", "", "26A5388g"),
        ("sw_vers-27.0.1.txt", "27.0.1", "", "26A434"),
        ("sw_vers-27.0.txt", "27.0", "", "26A428"),
    ] {
        let Some(text) = sample(&format!("system/{file}")) else { return };
        let os = sw_vers::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert_eq!((os.version.as_str(), os.extra.as_str(), os.build.as_str()), (version, extra, build), "{file}");
    }
}

#[test]
fn hardware_ports() {
    let ports = |file: &str| {
        let text = sample(&format!("networksetup/{file}"))?;
        Some(networksetup::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}")))
    };
    let device = |ports: &[macluster::model::facts::HardwarePort], name: &str| {
        ports.iter().find(|p| p.name == name).map(|p| p.device.clone())
    };
    let Some(laptop) = ports("listallhardwareports-mbp-m5max-macos27-osaurus.txt") else { return };
    assert_eq!(laptop.len(), 6);
    for (name, dev) in [
        ("Thunderbolt 1", "en1"),
        ("Thunderbolt 2", "en6"),
        ("Thunderbolt 3", "en2"),
        ("Thunderbolt Bridge", "bridge0"),
        ("Wi-Fi", "en0"),
        ("Ethernet Adapter (en3)", "en3"),
    ] {
        assert_eq!(device(&laptop, name).as_deref(), Some(dev), "{name}");
    }
    assert_eq!(laptop[4].mac.as_deref(), Some("02:00:00:00:00:02"));

    let laptop = ports("listallhardwareports-mbp-m4max-rig-20260927.trimmed.txt").expect("sample");
    assert_eq!(laptop.len(), 8);
    assert_eq!(device(&laptop, "USB 10/100/1G/2.5G LAN").as_deref(), Some("en7"));
    assert!(laptop.iter().all(|p| p.mac.is_none()));

    for (file, count) in [
        ("listallhardwareports-studio-m3ultra-nobridge-darkbloom.shortened.txt", 9),
        ("listallhardwareports-studio-m3ultra-rig-20260927.trimmed.txt", 14),
        ("listallhardwareports-studio-m3ultra-stock-bridge.RECONSTRUCTED.txt", 15),
    ] {
        let studio = ports(file).expect("sample");
        assert_eq!(studio.len(), count, "{file}");
        for n in 1..=6 {
            assert_eq!(device(&studio, &format!("Thunderbolt {n}")), Some(format!("en{}", n + 1)), "{file}");
        }
    }
}

#[test]
fn interfaces() {
    let parse = |file: &str| {
        let text = sample(&format!("ifconfig/{file}"))?;
        Some(ifconfig::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}")))
    };
    let Some(one) = parse("en2-active-tn3205.txt") else { return };
    let [en2] = one.as_slice() else { panic!("{one:?}") };
    assert_eq!((en2.name.as_str(), en2.mtu, en2.active), ("en2", Some(1500), Some(true)));
    assert_eq!(en2.flags, ["UP", "BROADCAST", "SMART", "RUNNING", "SIMPLEX", "MULTICAST"]);
    assert_eq!(en2.ether.as_deref(), Some("36:4d:04:ea:4e:40"));
    assert_eq!(en2.inet6, ["fe80::1021:1bac:fe1:b5e3".parse::<std::net::Ipv6Addr>().expect("address")]);
    assert_eq!((en2.inet[0].address.to_string().as_str(), en2.inet[0].prefix), ("169.254.205.255", Some(16)));
    assert!(en2.up() && en2.has_link_local_v6());

    let bridge = parse("bridge0-stock.darkbloom-modelled.txt").expect("sample");
    assert_eq!(bridge[0].members, ["en2", "en3"]);
    assert_eq!((bridge[0].inet[0].prefix, bridge[0].active), (Some(24), Some(true)));

    let all = parse("ifconfig-full-mbp-2tb-nocable-20251017.txt").expect("sample");
    let names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(
        names,
        "lo0 gif0 stf0 anpi0 anpi1 en3 en4 en1 en2 bridge0 ap1 en0 awdl0 llw0 utun0 utun1 utun4"
            .split(' ')
            .collect::<Vec<_>>()
    );
    let at = |name: &str| all.iter().find(|i| i.name == name).expect("interface");
    assert_eq!(at("bridge0").members, ["en1", "en2"]);
    assert_eq!(at("en1").active, Some(false));
    assert!(at("en1").flags.contains(&"PROMISC".to_owned()) && at("en1").inet6.is_empty());
    assert_eq!((at("llw0").active, at("gif0").ether.as_deref(), at("stf0").up()), (None, None, false));
    assert_eq!(at("lo0").inet6.len(), 2);
    assert_eq!((at("en0").inet[0].address.to_string().as_str(), at("en0").inet[0].prefix), ("10.34.11.15", Some(19)));
    let utun = at("utun4").inet[0];
    assert_eq!((utun.prefix, utun.peer.map(|p| p.to_string()).as_deref()), (Some(30), Some("198.51.100.153")));

    let studio = parse("studio-6port-host-20250926.grepped.txt").expect("sample");
    let bridge = studio.iter().find(|i| i.name == "bridge0").expect("bridge0");
    assert_eq!(bridge.members, ["en2", "en3", "en4", "en5", "en6", "en7"]);
}

#[test]
fn rdma_device_lists() {
    for (file, expected) in [
        ("ibv_devices-disabled-or-tb4-header-only.txt", ""),
        ("ibv_devices-m3ultra-mlxdocs.txt", "rdma_en2 rdma_en3 rdma_en5 rdma_en4 rdma_en6 rdma_en7"),
        ("ibv_devices-mbp-m5max-macos27.txt", "rdma_en1 rdma_en6 rdma_en2"),
        ("ibv_devices-mini-m4pro-26.2-mlx2944.txt", "rdma_en2 rdma_en3 rdma_en4"),
    ] {
        let Some(text) = sample(&format!("rdma/{file}")) else { return };
        assert_eq!(ibv_devices::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}")).join(" "), expected, "{file}");
    }
}

#[test]
fn rdma_devices_in_detail() {
    let parse = |file: &str| {
        let text = sample(&format!("rdma/{file}"))?;
        Some(ibv_devinfo::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}")))
    };
    let states =
        |ports: &[RdmaPort]| ports.iter().map(|p| format!("{} {}", p.device, p.state)).collect::<Vec<_>>().join(", ");
    let Some(down) = parse("ibv_devinfo-mbp-m5max-macos27-portdown.txt") else { return };
    assert_eq!(states(&down), "rdma_en1 PORT_DOWN, rdma_en6 PORT_DOWN, rdma_en2 PORT_DOWN");
    assert!(down.iter().all(|p| p.gids.is_empty() && p.caps.is_empty()));

    let active = parse("ibv_devinfo-studio-m3ultra-3active.RECONSTRUCTED.txt").expect("sample");
    let up: Vec<&str> = active.iter().filter(|p| p.is_active()).map(|p| p.device.as_str()).collect();
    assert_eq!((active.len(), up), (6, vec!["rdma_en3", "rdma_en4", "rdma_en5"]));

    let quoted = parse("ibv_devinfo-v-26x-tn3205.abridged.txt").expect("sample");
    assert_eq!(states(&quoted), "rdma_en2 PORT_ACTIVE");
    let gids: Vec<(u32, Option<String>)> =
        quoted[0].gids.iter().map(|(n, g)| (*n, g.ipv4().map(|a| a.to_string()))).collect();
    assert_eq!(gids, [(0, None), (1, Some("169.254.205.255".to_owned())), (2, None)]);
    assert_eq!(quoted[0].gids[&0].address, "fe80::344d:4ff:feea:4e40".parse().ok());
    assert_eq!((quoted[0].caps["max_qp"], quoted[0].caps["max_mr"]), (11, 100));

    let full = parse("ibv_devinfo-v-macos27-gid0-is-domain-uuid.tensorfold-synthetic.txt").expect("sample");
    assert_eq!(states(&full), "rdma_en2 PORT_DOWN, rdma_en3 PORT_ACTIVE");
    assert_eq!(full[1].gids[&0].address, "a00:0:0:4000:8000::1".parse().ok());
    assert_eq!(full[1].gids[&0].text, "0a00:0000:0000:4000:8000:0000:0000:0001");
    assert_eq!(full[1].gids[&1].ipv4(), None);
    assert_eq!((full[0].caps["max_mr_size"], full[1].caps["max_qp"]), (0xfa_0000, 3));
}

#[test]
fn routing_tables() {
    let routes = |file: &str| {
        let text = sample(&format!("routing/{file}"))?;
        let routes = netstat::parse(&text).unwrap_or_else(|e| panic!("{file}: {e}"));
        Some(routes.into_iter().map(|r| format!("{} {} {} {}", r.destination, r.gateway, r.flags, r.interface)))
    };
    let Some(stock) = routes("netstat-rn-f-inet-26.6.2.txt") else { return };
    assert_eq!(
        stock.collect::<Vec<_>>(),
        [
            "0.0.0.0/0 192.168.64.1 UGScg en0",
            "127.0.0.0/8 127.0.0.1 UCS lo0",
            "127.0.0.1/32 127.0.0.1 UH lo0",
            "169.254.0.0/16 link#7 UCS en0",
            "192.168.64.0/24 link#7 UCS en0",
            "192.168.64.1/32 link#7 UCS en0",
            "192.168.64.1/32 9e:1c:a2:f:30:7b UHLWIir en0",
            "192.168.64.3/32 link#7 UCS en0",
            "192.168.64.255/32 ff:ff:ff:ff:ff:ff UHLWbI en0",
            "224.0.0.0/4 link#7 UmCS en0",
            "224.0.0.251/32 1:0:5e:0:0:fb UHmLWI en0",
            "255.255.255.255/32 link#7 UCS en0",
        ]
    );
    let added: Vec<String> = routes("netstat-rn-f-inet-static-routes-26.6.2.txt").expect("sample").collect();
    assert_eq!(added.len(), 20);
    for route in [
        "100.64.0.0/10 192.168.64.1 UGSc en0",
        "198.18.0.0/15 192.168.64.1 UGSc en0",
        "198.51.100.0/26 192.168.64.1 UGSc en0",
        "198.51.100.128/25 lo0 USc lo0",
        "203.0.113.0/24 192.168.64.1 UGSc en0",
    ] {
        assert!(added.contains(&route.to_owned()), "{route}");
    }
    let scoped: Vec<String> = routes("netstat-rn-f-inet-scoped-duplicates-26.6.2.txt").expect("sample").collect();
    assert_eq!(scoped.iter().filter(|r| r.starts_with("203.0.113.0/24 ")).count(), 3);
    assert!(scoped.contains(&"128.0.0.0/1 192.168.64.1 UGSc en0".to_owned()));
    let inet6 = sample("routing/netstat-rn-f-inet6-26.6.2.txt").expect("sample");
    assert_eq!(netstat::parse(&inet6).expect_err("another table").line, Some(7));
}

#[test]
fn pings() {
    let parse =
        |file: &str| Some(ping::parse(&sample(&format!("network/{file}"))?).unwrap_or_else(|e| panic!("{file}: {e}")));
    let Some(ok) = parse("ping-ok-26.5.2.txt") else { return };
    assert_eq!((ok.transmitted, ok.received, ok.average_ms, ok.error), (2, 2, Some(13.248), None));
    let late = parse("ping-c3-timeout.txt").expect("sample");
    assert_eq!((late.transmitted, late.received, late.average_ms, late.error), (3, 0, None, None));
    let lost = parse("ping-c3-noroute.combined.txt").expect("sample");
    assert_eq!(lost.error.as_deref(), Some("sendto: No route to host"));
    let down = parse("ping-hostdown.combined.txt").expect("sample");
    assert_eq!((down.transmitted, down.error.as_deref()), (8, Some("sendto: Host is down")));
}

#[test]
fn values_quoted_in_notes() {
    let Some(notes) = sample("system/sysctl-more.md") else { return };
    let values = sysctl::parse(&notes).expect("parses");
    assert!(values["kern.boottime"].starts_with("{ sec = 1790421415, usec = 985376 } Sat Sep 26 06:16:55 2026"));
    assert!(values["kern.bootsessionuuid"].starts_with("6A1F2879-B7EE-4F13-AF6E-E7266EF5E732"));
    let notes = sample("system/sysctl.md").expect("sample");
    assert_eq!(sysctl::parse(&notes).expect("parses")["hw.model"], "Mac14,12");
    // Prose about the tool is not its answer.
    assert!(rdma_ctl::parse(&sample("rdma/rdma_ctl.md").expect("sample")).is_err());
}

#[test]
fn no_capture_drifts() {
    for name in [
        "omlx-studio-m3ultra.json",
        "osaurus-mbp-m5max-local-rdma-disabled.json",
        "rig-m3ultra-nested-peer-behind-tb3-dock.trimmed.json",
        "rig-m4max-mbp-two-links-to-studio.trimmed.json",
        "mbp-single-port-empty.json",
    ] {
        let Some(text) = sample(&format!("thunderbolt/{name}")) else { return };
        assert_eq!(thunderbolt::drift(&text), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn power_settings() {
    for (name, sleep, autorestart) in [
        ("power/pmset-g-mini-m4-20260621.txt", "0", Some("0")),
        ("power/pmset-g-mini-m4-powermode.txt", "0", Some("0")),
        ("power/pmset-g-desktop-defaults.txt", "1", Some("0")),
        ("system/pmset-g-custom-desktop.txt", "0", Some("1")),
        ("system/pmset-g-mbp.txt", "0", None),
    ] {
        let Some(text) = sample(name) else { return };
        let all = pmset::parse(&text).expect(name);
        let value = |key: &str| all.get(key).map(String::as_str);
        assert_eq!((value("sleep"), value("autorestart")), (Some(sleep), autorestart), "{name}");
    }
}

#[test]
fn disks_processes_and_update_preferences() {
    let Some(text) = sample("storage/df-k-data-volume-20261002.txt") else { return };
    let disk = df::parse(&text).expect("reads");
    assert_eq!((disk.available_kib, disk.mount.as_str()), (76_757_888, "/System/Volumes/Data"));
    let Some(text) = sample("processes/ps-axo-pid-ppid-etime-command.txt") else { return };
    let all = ps::parse(&text).expect("reads");
    assert_eq!((all.len(), all[0].seconds, all[4].command.as_str()), (5, 19 * 3600 + 2 * 60 + 11, "claude"));
    for (name, installs) in [("15.7.trimmed", true), ("10.15", false)] {
        let Some(text) = sample(&format!("system/defaults-read-SoftwareUpdate-{name}.txt")) else { return };
        assert_eq!(defaults::switch(&text, "AutomaticallyInstallMacOSUpdates"), Ok(Some(installs)), "{name}");
    }
}
