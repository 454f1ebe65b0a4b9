use super::super::fixture::{Rack, unknown};
use super::*;
use crate::model::Verdict;

fn unread(rack: &Rack) -> Vec<String> {
    rack.plan().problems.into_iter().filter(|p| p.kind == ProblemKind::Unread).map(|p| p.message).collect()
}

#[test]
fn a_daemon_that_is_loaded_and_does_not_run_is_installed_again() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    assert!(rack.plan().changes.is_empty(), "all is right");
    let job = &mut rack.facts(1).network.jobs.as_mut().expect("jobs")[0];
    (job.pid, job.state) = (None, "not running".to_owned());
    let kinds: Vec<String> = rack.plan().changes.iter().map(|c| c.kind.clone()).collect();
    assert_eq!(kinds, ["stop-links-daemon", "install-links-daemon"]);
    let job = &mut rack.facts(1).network.jobs.as_mut().expect("jobs")[0];
    job.state = "spawn scheduled".to_owned();
    assert!(rack.plan().changes.is_empty(), "launchd is about to start it");
}

#[test]
fn what_could_not_be_read_is_told_and_what_was_never_asked_is_not() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    rack.facts(1).network.jobs = Err(unknown::<()>("launchctl").expect_err("an error"));
    rack.facts(2).network.bridge_entries = Err(unknown::<()>("plutil").expect_err("an error"));
    let told = unread(&rack);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("studio-1") && told[0].contains("whether the links daemon runs there"), "{told:?}");
    assert!(told[1].contains("studio-2") && told[1].contains("whether a bridge comes back"), "{told:?}");
    assert!(rack.plan().changes.is_empty(), "a fact that is not known plans nothing");
    rack.facts(1).network = crate::model::NetworkFacts::default();
    rack.facts(2).network = crate::model::NetworkFacts::default();
    assert_eq!(unread(&rack), [] as [String; 0]);
}

#[test]
fn a_link_whose_interface_has_no_name_is_a_failure_and_not_nothing_to_do() {
    let mut rack = Rack::new(2, true);
    rack.apply();
    for port in rack.facts(1).hardware_ports.as_mut().expect("ports") {
        port.name = port.name.replace("Thunderbolt ", "Blitz ");
    }
    let plan = rack.plan();
    assert!(plan.blocked());
    let problem = plan.problems.iter().find(|p| p.kind == ProblemKind::NoInterface).expect("told");
    assert_eq!(problem.verdict, Verdict::Fail);
    assert!(problem.message.contains("no hardware port is called Thunderbolt 2"), "{}", problem.message);
    assert!(problem.action.is_some());
}
