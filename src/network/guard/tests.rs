use std::net::IpAddr;

use crate::model::facts::{Route, Sudo};
use crate::network::ProblemKind;
use crate::network::fixture::{Rack, inet, name, unknown};

/// What is said of studio-2, whose facts `change` alters; everybody else stays in the plan.
fn refused(change: impl FnOnce(&mut Rack)) -> Option<String> {
    let mut rack = Rack::new(3, true);
    change(&mut rack);
    let plan = rack.links_plan();
    let refusals: Vec<_> = plan.problems.iter().filter(|p| p.kind == ProblemKind::Refused).collect();
    let Some(refusal) = refusals.first() else {
        assert_eq!(plan.nodes().len(), 3);
        return None;
    };
    assert_eq!((refusals.len(), refusal.node.clone()), (1, Some(name("studio-2"))));
    assert!(plan.blocked());
    assert_eq!(plan.of(&name("studio-2")).len(), 0);
    // Of the others only the link between them changes.
    let interfaces: Vec<_> = plan.changes.iter().map(|c| (c.node.as_str(), c.interface.as_str())).collect();
    assert!(!interfaces.is_empty());
    assert!(interfaces.iter().all(|i| [("studio-1", "en4"), ("studio-3", "en3")].contains(i)), "{interfaces:?}");
    Some(refusal.message.clone())
}

fn ride(rack: &mut Rack, address: &str, interface: Option<&str>) {
    rack.facts(2).session.local_address = address.parse::<IpAddr>().ok();
    if let Some(interface) = interface {
        rack.interface(2, interface).inet.push(inet(&format!("{address}/24")));
    }
}

fn default_via(rack: &mut Rack, interface: &str, flags: &str) {
    let routes = rack.facts(2).routes.as_mut().expect("routes");
    routes.push(Route {
        destination: "0.0.0.0/0".parse().expect("a network"),
        gateway: "198.51.100.1".to_owned(),
        flags: flags.to_owned(),
        interface: interface.to_owned(),
    });
}

#[test]
fn sessions_on_other_interfaces_are_safe() {
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|r| ride(r, "127.0.0.1", None)), None, "loopback rides on lo0");
    assert_eq!(refused(|r| ride(r, "::1", None)), None);
    assert_eq!(refused(|r| ride(r, "::ffff:192.0.2.12", None)), None, "the Ethernet address, mapped");
    let link_local = "fe80::1".parse().expect("an address");
    let over_v6 = |r: &mut Rack| {
        r.interface(2, "en0").inet6.push(link_local);
        r.facts(2).session.local_address = Some(IpAddr::V6(link_local));
    };
    assert_eq!(refused(over_v6), None);
}

#[test]
fn sessions_on_a_bridge_or_a_link_are_refused() {
    let said = refused(|r| ride(r, "198.51.100.2", Some("bridge0"))).expect("refused");
    assert!(said.contains("studio-2 (slot 2): not changed: the SSH session rides on bridge0 (a bridge)"), "{said}");
    let said = refused(|r| ride(r, "198.51.100.2", Some("en3"))).expect("refused");
    assert!(said.contains("rides on en3 (the interface of a link)"), "{said}");
    // A bridge that loses nothing counts as well.
    let other_bridge = |r: &mut Rack| {
        r.interface(2, "bridge0").name = "bridge100".to_owned();
        ride(r, "198.51.100.2", Some("bridge100"));
    };
    assert!(refused(other_bridge).is_some());
}

#[test]
fn a_session_that_cannot_be_placed_is_refused() {
    let said = refused(|r| ride(r, "203.0.113.9", None)).expect("refused");
    assert!(said.contains("203.0.113.9 is on no interface"), "{said}");
    assert!(refused(|r| r.facts(2).session.local_address = None).expect("refused").contains("is not known"));
}

#[test]
fn default_routes_and_sudo_count() {
    let said = refused(|r| default_via(r, "bridge0", "UGScg")).expect("refused");
    assert!(said.contains("its default route uses bridge0"), "{said}");
    assert!(refused(|r| default_via(r, "en3", "UGSc")).is_some());
    assert_eq!(refused(|r| default_via(r, "bridge0", "UGScIg")), None, "scoped to its interface: not in use");
    assert_eq!(refused(|r| default_via(r, "en7", "UGSc")), None, "en7 is no link");
    assert!(refused(|r| r.facts(2).sudo = Ok(Sudo::NotAllowed)).expect("refused").contains("sudo"));
    assert_eq!(refused(|r| r.facts(2).sudo = unknown("sudo")), None, "the first command will tell");
}

#[test]
fn a_node_without_changes_is_never_refused() {
    let mut rack = Rack::new(3, true);
    rack.apply();
    ride(&mut rack, "203.0.113.9", None);
    let plan = rack.links_plan();
    assert!(plan.changes.is_empty() && !plan.blocked(), "{:?}", plan.problems);
}
