use crate::mesh::LinkGraph;
use crate::model::facts::{Attached, Route};
use crate::model::network_facts::{BridgeEntry, HistoryEntry, Job};
use crate::model::{CollectFailure, FailureKind};
use crate::network::fixture::{Rack, inet, name, unknown};
use crate::network::{PlanOptions, ProblemKind, Symbol, free_pool};

#[test]
fn every_pair_has_its_own_network_and_a_second_plan_is_empty() {
    let mut rack = Rack::new(3, true);
    assert_eq!(
        rack.addresses(),
        [
            "studio-1 en3 10.254.0.1",
            "studio-2 en3 10.254.0.2",
            "studio-1 en4 10.254.0.5",
            "studio-3 en3 10.254.0.6",
            "studio-2 en4 10.254.0.9",
            "studio-3 en4 10.254.0.10",
        ]
    );
    let plan = rack.links_plan();
    assert_eq!(plan.counts(), [6, 0, 6]);
    let kinds: Vec<ProblemKind> = plan.problems.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [ProblemKind::BridgeLoop], "three bridges and three cables: a storm");
    rack.apply();
    let after = rack.plan();
    assert!(after.changes.is_empty() && after.problems.is_empty(), "{after:?}");
    assert_eq!(after.links, plan.links);
    let bridge = rack.interface(1, "bridge0").members.clone();
    assert_eq!(bridge, ["en2", "en5", "en6", "en7"], "receptacles without a link stay in the bridge");
}

#[test]
fn a_node_added_at_the_end_moves_nobody() {
    let three = Rack::new(3, true).addresses();
    let four = Rack::new(4, true).addresses();
    assert!(three.iter().all(|a| four.contains(a)), "{three:?}\n{four:?}");
    assert_eq!(four.len(), 12);
}

#[test]
fn commands_come_in_the_order_of_the_playbook_with_their_way_back() {
    let plan = Rack::new(2, true).links_plan();
    let lines = |undo: bool| -> Vec<String> {
        let all = plan.of(&name("studio-1")).into_iter().flat_map(|c| if undo { &c.undo } else { &c.commands });
        all.map(crate::model::Cmd::display).collect()
    };
    assert_eq!(
        lines(false),
        [
            "sudo ifconfig bridge0 deletem en3",
            "sudo ifconfig en3 up",
            "sudo ifconfig en3 inet 10.254.0.1 netmask 255.255.255.252",
        ]
    );
    assert_eq!(lines(true), ["sudo ifconfig bridge0 addm en3", "sudo ifconfig en3 inet 10.254.0.1 -alias"]);
}

#[test]
fn moving_a_cable_changes_the_interface_and_not_the_address() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    rack.unplug((1, 2));
    rack.cable((1, 5), (2, 2));
    assert_eq!(rack.addresses(), ["studio-1 en6 10.254.0.1", "studio-2 en3 10.254.0.2"]);
    let plan = rack.links_plan();
    let said: Vec<_> = plan.changes.iter().map(|c| (c.node.as_str(), c.kind.as_str(), c.interface.as_str())).collect();
    assert_eq!(
        said,
        [
            ("studio-1", "leave-bridge", "en6"),
            ("studio-1", "remove-stray-address", "en3"),
            ("studio-1", "set-address", "en6"),
        ]
    );
    rack.apply();
    assert!(rack.links_plan().changes.is_empty());
}

#[test]
fn rails_get_networks_and_keep_them() {
    let mut rack = Rack::new(2, true);
    rack.cable((1, 3), (2, 4));
    let both = [
        "studio-1 en3 10.254.0.1",
        "studio-2 en3 10.254.0.2",
        "studio-1 en4 10.254.255.253",
        "studio-2 en5 10.254.255.254",
    ];
    assert_eq!(rack.addresses(), both);
    rack.apply();
    // The first rail's cable goes: the second keeps its address, and takes no other when the first returns.
    rack.unplug((1, 2));
    rack.unplug((2, 2));
    assert_eq!(rack.addresses(), both[2..]);
    let plan = rack.links_plan();
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
    assert!(plan.problems.iter().all(|p| p.kind == ProblemKind::Idle) && plan.problems.len() == 2);
    rack.cable((1, 2), (2, 2));
    assert_eq!(rack.addresses(), both);
    assert!(rack.links_plan().changes.is_empty());
    // The second rail's cable moves at one end: the end that stayed tells which rail it is.
    rack.unplug((1, 3));
    rack.cable((1, 6), (2, 4));
    assert_eq!(rack.addresses()[2..], ["studio-1 en7 10.254.255.253", "studio-2 en5 10.254.255.254"]);
}

#[test]
fn addresses_that_would_take_the_gid_are_removed() {
    let mut rack = Rack::new(2, true);
    rack.interface(1, "bridge0").members.clear();
    rack.interface(1, "en3").inet = vec![inet("169.254.7.7/16"), inet("192.168.50.1/30"), inet("10.254.0.1/24")];
    let plan = rack.links_plan();
    let said: Vec<_> = plan.of(&name("studio-1")).into_iter().map(|c| (c.kind.as_str(), c.before.as_str())).collect();
    assert_eq!(
        said,
        [
            ("remove-stray-address", "169.254.7.7/16"),
            ("remove-stray-address", "10.254.0.1/24"),
            ("remove-other-address", "192.168.50.1/30"),
            ("set-address", "no link address"),
        ]
    );
    rack.apply();
    assert!(rack.links_plan().changes.is_empty());
}

#[test]
fn a_down_interface_is_brought_up() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    rack.interface(2, "en3").flags.clear();
    let plan = rack.links_plan();
    let said: Vec<_> = plan.changes.iter().map(|c| (c.kind.as_str(), c.before.as_str(), c.after.as_str())).collect();
    assert_eq!(said, [("bring-up", "down", "up")]);
}

#[test]
fn the_bridge_is_found_by_its_members_and_not_by_its_name() {
    let mut rack = Rack::new(2, true);
    rack.interface(1, "bridge0").name = "bridge3".to_owned();
    let plan = rack.links_plan();
    let first = plan.of(&name("studio-1")).into_iter().next().expect("a change");
    assert_eq!(
        first.commands.first().map(crate::model::Cmd::display).as_deref(),
        Some("sudo ifconfig bridge3 deletem en3")
    );
}

#[test]
fn cables_in_doubt_get_no_network_and_are_told() {
    let kinds = |change: &dyn Fn(&mut Rack)| {
        let mut rack = Rack::new(2, false);
        change(&mut rack);
        let plan = rack.links_plan();
        assert!(plan.links.is_empty() && plan.changes.is_empty(), "{plan:?}");
        plan.problems.iter().map(|p| p.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&|r| r.cable((1, 1), (2, 2))), [ProblemKind::ExcludedReceptacle]);
    assert_eq!(kinds(&|r| r.half((1, 2), (2, 2))), [ProblemKind::OneSided]);
    assert_eq!(kinds(&|r| r.cable((1, 2), (1, 3))), [ProblemKind::SelfLoop]);
    assert_eq!(kinds(&|r| r.half((1, 2), (9, 2))), [ProblemKind::Foreign]);
    let docked = |r: &mut Rack| {
        r.cable((1, 2), (2, 2));
        let receptacle = &mut r.facts(1).receptacles.as_mut().expect("receptacles")[1];
        let behind = std::mem::take(&mut receptacle.attached);
        receptacle.attached = vec![Attached::Device { name: "Dock".to_owned(), vendor: None, mode: None, behind }];
    };
    assert_eq!(kinds(&docked), [ProblemKind::ViaDock]);
    let nameless = |r: &mut Rack| {
        r.cable((1, 2), (2, 2));
        r.facts(1).hardware_ports.as_mut().expect("ports").retain(|p| p.name != "Thunderbolt 2");
    };
    assert_eq!(kinds(&nameless), [ProblemKind::NoInterface]);
    for hostile in ["-en3", "en3;reboot", "en", "3", "en3 up", "EN3"] {
        let renamed = |r: &mut Rack| {
            r.cable((1, 2), (2, 2));
            r.interface(1, "en3").name = hostile.to_owned();
            let ports = r.facts(1).hardware_ports.as_mut().expect("ports");
            ports.iter_mut().filter(|p| p.name == "Thunderbolt 2").for_each(|p| p.device = hostile.to_owned());
        };
        assert_eq!(kinds(&renamed), [ProblemKind::NoInterface], "{hostile}");
    }
}

#[test]
fn receptacle_one_of_a_mini_is_as_good_as_any() {
    let mut rack = Rack::new(2, false);
    for node in [1, 2] {
        let hardware = rack.facts(node).hardware.as_mut().expect("hardware");
        hardware.model = "Mac16,11".to_owned();
        hardware.name = "Mac mini".to_owned();
    }
    rack.cable((1, 1), (2, 1));
    assert_eq!(rack.addresses(), ["studio-1 en2 10.254.0.1", "studio-2 en2 10.254.0.2"]);
}

#[test]
fn a_clash_with_the_pool_is_named_and_nothing_is_planned() {
    let route = |destination: &str, interface: &str| Route {
        destination: destination.parse().expect("a network"),
        gateway: "192.0.2.1".to_owned(),
        flags: "UGSc".to_owned(),
        interface: interface.to_owned(),
    };
    let mut rack = Rack::new(2, true);
    rack.facts(2).routes.as_mut().expect("routes").push(route("10.0.0.0/8", "utun4"));
    rack.interface(1, "en0").inet.push(inet("10.254.9.9/24"));
    rack.facts(1).routes.as_mut().expect("routes").push(route("10.254.9.0/24", "en0"));
    let plan = rack.links_plan();
    assert!(plan.changes.is_empty() && plan.blocked());
    let said: Vec<_> = plan.problems.iter().map(|p| p.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "studio-1 (slot 1): the pool 10.254.0.0/16 overlaps the address 10.254.9.9/24 on en0",
            "studio-2 (slot 2): the pool 10.254.0.0/16 overlaps the route to 10.0.0.0/8 on utun4",
        ]
    );
    let action = plan.problems[0].action.as_deref().expect("an action");
    assert!(action.contains("pool: 172.31.0.0/16"), "{action}");
    assert_eq!(free_pool(&rack.inventory, &rack.snapshot).map(|p| p.to_string()).as_deref(), Some("172.31.0.0/16"));
    // The proposal works.
    let mut moved = Rack::with_pool(2, true, "172.31.0.0/16");
    moved.facts(2).routes.as_mut().expect("routes").push(route("10.0.0.0/8", "utun4"));
    assert!(!moved.links_plan().blocked());
}

#[test]
fn own_link_networks_and_default_routes_are_no_clash() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    let routes = rack.facts(1).routes.as_mut().expect("routes");
    for (destination, interface) in [
        ("10.254.0.0/30", "en3"),
        ("10.254.0.2/32", "en3"),
        ("10.254.0.1/32", "lo0"),
        ("0.0.0.0/1", "utun4"),
        ("128.0.0.0/1", "utun4"),
    ] {
        routes.push(Route {
            destination: destination.parse().expect("a network"),
            gateway: "link#9".to_owned(),
            flags: "UCS".to_owned(),
            interface: interface.to_owned(),
        });
    }
    let plan = rack.links_plan();
    assert!(plan.problems.is_empty() && plan.changes.is_empty(), "{plan:?}");
}

#[test]
fn a_pool_in_use_elsewhere_on_the_node_is_a_clash_even_inside_the_same_network() {
    let mut rack = Rack::new(2, true);
    rack.interface(1, "bridge0").inet.push(inet("10.254.0.1/30"));
    assert!(rack.links_plan().problems.iter().any(|p| p.kind == ProblemKind::PoolClash));
}

#[test]
fn an_unreachable_node_is_said_and_its_peers_keep_their_addresses() {
    let mut rack = Rack::new(3, true);
    rack.apply();
    rack.snapshot.nodes.get_mut(&name("studio-3")).expect("a node").facts = Err(CollectFailure {
        kind: FailureKind::Unreachable,
        message: "no answer from 192.0.2.13 port 22 within 10 s".to_owned(),
        hint: Some("is it on?".to_owned()),
    });
    let plan = rack.links_plan();
    assert!(plan.changes.is_empty(), "{:?}", plan.changes);
    assert_eq!(plan.links.len(), 1);
    let unreachable: Vec<_> = plan.problems.iter().filter(|p| p.kind == ProblemKind::Unreachable).collect();
    assert_eq!(unreachable.len(), 1);
    assert!(unreachable[0].message.contains("studio-3 (slot 3): not planned: no answer from 192.0.2.13"));
    assert!(!plan.blocked(), "the others are served");
}

#[test]
fn a_node_whose_routes_are_not_known_is_not_planned_and_neither_are_its_links() {
    let mut rack = Rack::new(3, true);
    rack.facts(3).routes = unknown("netstat");
    let plan = rack.links_plan();
    assert!(plan.blocked());
    let touched: Vec<_> = plan.changes.iter().map(|c| (c.node.as_str(), c.interface.as_str())).collect();
    assert!(touched.iter().all(|t| [("studio-1", "en3"), ("studio-2", "en3")].contains(t)), "{touched:?}");
    assert!(plan.problems.iter().any(|p| p.message == "studio-3 (slot 3): not planned: netstat: exit 1"));
}

#[test]
fn leftovers_of_an_inventory_in_another_order_go() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    // en6 has no cable; the first address is nobody's in a rack of two, the second its peer's.
    rack.interface(1, "en6").inet = vec![inet("10.254.0.21/30")];
    rack.interface(1, "en7").inet = vec![inet("10.254.0.2/30")];
    let plan = rack.links_plan();
    let said: Vec<_> = plan.changes.iter().map(|c| (c.interface.as_str(), c.after.as_str())).collect();
    assert_eq!(said, [("en6", "removed: no link of this rack has it"), ("en7", "removed: the cable is now at en3")]);
}

#[test]
fn the_fingerprint_follows_facts_and_not_the_clock() {
    let mut rack = Rack::new(2, true);
    let before = rack.links_plan().fingerprint();
    rack.snapshot.taken_at = "2027-01-01T00:00:00Z".parse().expect("a time");
    rack.facts(1).sysctl.as_mut().expect("sysctl").insert("x".to_owned(), "1".to_owned());
    assert_eq!(rack.links_plan().fingerprint(), before);
    rack.interface(1, "en3").inet.push(inet("169.254.1.1/16"));
    assert_ne!(rack.links_plan().fingerprint(), before);
}

#[test]
fn the_links_daemon_is_planned_kept_and_started_again() {
    let mut rack = Rack::new(2, true);
    let plan = rack.plan();
    let daemon: Vec<_> = plan.changes.iter().filter(|c| c.interface == "com.macluster.links").collect();
    assert_eq!(daemon.len(), 2);
    assert_eq!((daemon[0].symbol, daemon[0].before.as_str()), (Symbol::Add, "nothing"));
    assert_eq!(daemon[0].after, "keeps en3 across restarts");
    assert!(daemon[0].commands.iter().any(|c| c.display().contains("launchctl bootstrap")));
    rack.apply();
    assert!(rack.plan().changes.is_empty());
    // A job that is gone, and a list that is another, are changes of their own.
    rack.facts(1).network.jobs = Ok(vec![]);
    let plan = rack.plan();
    assert_eq!(plan.changes.iter().map(|c| c.before.as_str()).collect::<Vec<_>>(), ["not running, keeps en3"]);
    rack.apply();
    if let Ok(Some(config)) = &mut rack.facts(1).network.configured {
        config.script = Some("older".to_owned());
    }
    assert_eq!(
        rack.plan().changes.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>(),
        ["stop-links-daemon", "install-links-daemon"]
    );
}

#[test]
fn another_programs_daemon_is_refused_until_it_may_be_stopped() {
    let mut rack = Rack::new(2, true);
    let job =
        |label: &str| Job { label: label.to_owned(), pid: None, state: "x".to_owned(), last_exit: None, path: None };
    rack.facts(1).network.jobs = Ok(vec![job("io.exo.networksetup")]);
    let plan = rack.plan();
    assert!(plan.changes.is_empty(), "half a link is of no use: {:?}", plan.changes);
    assert!(plan.problems.iter().any(|p| p.kind == ProblemKind::Refused && p.message.contains("exo")));
    let options = PlanOptions { replace_foreign_daemon: true, ..PlanOptions::default() };
    let plan = rack.plan_with(&LinkGraph::build(&rack.snapshot), options);
    assert_eq!(plan.changes.first().map(|c| c.kind.as_str()), Some("stop-foreign-daemon"));
    assert_eq!(plan.nodes().len(), 2);
}

#[test]
fn a_bridge_in_the_preferences_is_told_and_removed_only_when_asked() {
    let mut rack = Rack::new(2, true);
    let json = r#"{"Interfaces":["en3"]}"#;
    let entry = BridgeEntry { name: "bridge0".to_owned(), members: vec!["en3".to_owned()], json: json.to_owned() };
    rack.facts(1).network.bridge_entries = Ok(vec![entry]);
    let plan = rack.plan();
    assert!(
        plan.problems.iter().any(|p| p.kind == ProblemKind::BridgeEntry && p.verdict == crate::model::Verdict::Skip)
    );
    assert!(!plan.changes.iter().any(|c| c.interface == "bridge0"));
    let options = PlanOptions { remove_bridge_entry: true, ..PlanOptions::default() };
    let plan = rack.plan_with(&LinkGraph::build(&rack.snapshot), options);
    let change = plan.changes.iter().find(|c| c.interface == "bridge0").expect("a change");
    assert_eq!(change.undo.len(), 1);
    assert!(change.undo[0].display().contains("plutil -insert VirtualNetworkInterfaces.Bridge.bridge0 -json"));
}

#[test]
fn addresses_that_rdma_has_had_in_this_boot_are_told() {
    let mut rack = Rack::new(2, true);
    assert!(!rack.plan().readdresses());
    let entry = |boot: &str, address: &str| HistoryEntry {
        boot: boot.to_owned(),
        interface: "en3".to_owned(),
        address: address.parse().expect("an address"),
    };
    rack.facts(1).network.history = Ok(vec![entry("BOOT-0", "10.254.9.9"), entry("BOOT-1", "10.254.0.1")]);
    assert!(!rack.plan().readdresses(), "another boot, or the same address");
    rack.facts(1).network.history = Ok(vec![entry("BOOT-1", "10.254.9.9")]);
    assert!(rack.plan().readdresses());
    rack.facts(1).rdma_switch = Ok(crate::model::facts::RdmaSwitch::Disabled);
    assert!(!rack.plan().readdresses());
}

#[test]
fn the_cable_that_would_close_a_cycle_is_named() {
    let mut rack = Rack::new(3, true);
    rack.unplug((2, 3));
    rack.unplug((3, 3));
    let problems = rack.plan().problems;
    let told = problems.iter().find(|p| p.kind == ProblemKind::BridgeLoop).expect("told");
    assert!(told.message.starts_with("do not plug this cable yet"), "{}", told.message);
    assert!(told.message.contains("studio-2 and studio-3"), "{}", told.message);
    rack.interface(1, "bridge0").members.clear();
    assert!(!rack.plan().problems.iter().any(|p| p.kind == ProblemKind::BridgeLoop));
}

#[test]
fn with_fewer_nodes_the_links_left_keep_their_networks_and_the_others_are_left_alone() {
    let mut rack = Rack::new(3, true);
    rack.apply();
    rack.inventory = rack.inventory.narrowed(|n| n.as_str() != "studio-2");
    assert_eq!(rack.addresses(), ["studio-1 en4 10.254.0.5", "studio-3 en3 10.254.0.6"], "not renumbered");
    // No address of the other links is taken for a stray one, nor what keeps them for out of date.
    assert_eq!(rack.plan().counts(), [0, 0, 0]);
    // What a link to the node that takes no part lacks is nobody's business now.
    rack.interface(1, "en3").inet.clear();
    assert_eq!(rack.plan().counts(), [0, 0, 0]);
    rack.interface(1, "en4").inet.clear();
    assert_ne!(rack.links_plan().counts(), [0, 0, 0]);
}
