//! Link networks: the plan as it is printed, to the character.

use macluster::mesh::LinkGraph;
use macluster::model::facts::{Interface, RdmaSwitch};
use macluster::model::network_facts::{Job, LINKS_JOB};
use macluster::network::{NetworkPlan, PlanOptions, PlanRequest, plan};
use macluster::phase::network::examine;
use macluster::playbook::{Playbooks, Templates};
use macluster::view::{Printer, plan as view};

use crate::support::rack::Rack;

const PLAIN: Printer = Printer { color: false, progress: false, width: 100 };

fn planned(rack: &Rack) -> NetworkPlan {
    let request = PlanRequest {
        inventory: &rack.inventory,
        snapshot: &rack.snapshot,
        graph: &LinkGraph::build(&rack.snapshot),
        playbooks: &Playbooks::load(None).expect("playbooks"),
        scripts: &Templates::load(None).expect("templates").scripts().expect("scripts"),
        options: PlanOptions::default(),
    };
    plan(&request).expect("a plan")
}

fn human(rack: &Rack) -> String {
    view::human(&planned(rack), &rack.inventory, PLAIN, false)
}

/// Cabled and otherwise as it comes out of the box: every receptacle in the bridge, no addresses.
fn stock(nodes: u32) -> Rack {
    let mut rack = Rack::meshed(nodes);
    for n in 1..=nodes {
        let interfaces = rack.facts(&format!("studio-{n}")).interfaces.as_mut().expect("interfaces");
        for interface in interfaces.iter_mut().filter(|i| i.name != "en0") {
            interface.inet.clear();
            interface.inet6.clear();
        }
        interfaces.push(Interface {
            name: "bridge0".to_owned(),
            flags: vec!["UP".to_owned()],
            members: (2..=7).map(|i| format!("en{i}")).collect(),
            ..Interface::default()
        });
    }
    rack
}

#[test]
fn a_stock_rack_is_planned_to_the_character() {
    let rack = stock(3);
    insta::assert_snapshot!("network_plan_stock", human(&rack));
    let plan = planned(&rack);
    let json = serde_json::to_string_pretty(&view::json(&plan, &rack.inventory)).expect("JSON");
    insta::assert_snapshot!("network_plan_stock_json", json.replace(&plan.fingerprint(), "FINGERPRINT"));
    insta::assert_snapshot!("network_plan_stock_verbose", view::human(&plan, &rack.inventory, PLAIN, true));
}

/// With the links daemons that keep what is planned.
fn kept(mut rack: Rack) -> Rack {
    for (node, config) in planned(&rack).kept {
        let network = &mut rack.facts(node.as_str()).network;
        network.configured = Ok(Some(config));
        network.jobs = Ok(vec![Job {
            label: LINKS_JOB.to_owned(),
            pid: Some(7),
            state: "running".to_owned(),
            last_exit: None,
            path: None,
        }]);
    }
    rack
}

#[test]
fn nothing_to_do_is_said_so() {
    insta::assert_snapshot!("network_plan_empty", human(&kept(Rack::meshed(2))));
    insta::assert_snapshot!("network_plan_no_cables", human(&Rack::studios(2)));
}

#[test]
fn problems_stand_under_the_plan_with_what_to_do() {
    let mut rack = stock(3);
    rack.cable("studio-1", 1, "studio-2", 5);
    rack.facts("studio-3").session.local_address = Some("203.0.113.9".parse().expect("an address"));
    insta::assert_snapshot!("network_plan_problems", human(&rack));
    rack.inventory.pool = "192.0.2.0/24".parse().expect("a network");
    rack.lose("studio-3");
    insta::assert_snapshot!("network_plan_clash", human(&rack));
}

#[test]
fn colours_change_no_letter() {
    let rack = stock(2);
    let coloured = view::human(&planned(&rack), &rack.inventory, Printer { color: true, ..PLAIN }, false);
    assert!(coloured.contains("\u{1b}[32m+\u{1b}[0m en3"), "{coloured:?}");
    let mut plain = String::new();
    for part in coloured.split('\u{1b}') {
        plain.push_str(if plain.is_empty() && !coloured.starts_with('\u{1b}') {
            part
        } else {
            part.split_once('m').map_or("", |(_, rest)| rest)
        });
    }
    assert_eq!(plain, human(&rack));
}

/// What `examine` says of the first link after `change`.
fn examined(change: impl FnOnce(&mut Rack)) -> (Vec<String>, Vec<String>) {
    let mut rack = Rack::meshed(2);
    change(&mut rack);
    let verified = examine(&rack.inventory, &rack.snapshot, &planned(&rack));
    let [link] = verified.links.as_slice() else { panic!("{verified:?}") };
    assert_eq!(link.failures.is_empty(), verified.ok(), "{verified:?}");
    (link.failures.clone(), link.notes.clone())
}

#[test]
fn proof_looks_at_addresses_carrier_bridge_and_gid() {
    let fails = |change: fn(&mut Rack)| examined(change).0;
    assert_eq!(examined(|_| ()), (vec![], vec![]));
    assert_eq!(fails(|r| r.interface("studio-1", 2).active = Some(false)), ["studio-1 en3: no carrier"]);
    assert_eq!(fails(|r| r.interface("studio-1", 2).flags.clear()), ["studio-1 en3: down"]);
    assert_eq!(
        fails(|r| r.interface("studio-2", 2).inet.clear()),
        ["studio-2 en3: the address 10.254.0.2/30 is not there"]
    );
    assert_eq!(
        fails(|r| {
            let wrong = crate::support::rack::gid("fe80::1".parse().expect("an address"));
            r.rdma("studio-2", 2).gids.insert(1, wrong);
        }),
        ["studio-2 en3: GID[1] of rdma_en3 is fe80::1, not ::ffff:10.254.0.2"]
    );
    assert_eq!(
        fails(|r| {
            r.rdma("studio-1", 2).gids.remove(&1);
        }),
        ["studio-1 en3: rdma_en3 has no GID[1]; it should be ::ffff:10.254.0.1"]
    );
    let (failures, notes) = examined(|r| {
        r.facts("studio-1").rdma_switch = Ok(RdmaSwitch::Disabled);
        r.rdma("studio-1", 2).gids.remove(&1);
        r.interface("studio-2", 2).inet6.clear();
    });
    assert!(failures.is_empty(), "RDMA that is off needs no GID: {failures:?}");
    assert_eq!(notes[0], "studio-1 en3: RDMA is off, its GID table was not looked at");
    assert!(notes[1].starts_with("studio-2 en3: no link-local IPv6 address"), "{notes:?}");
}
