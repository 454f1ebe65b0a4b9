//! The deployed runtime: passing, warning or failing, and unable to tell.

use jiff::SignedDuration;
use macluster::model::Verdict;
use macluster::model::network_facts::LinkPath;
use macluster::model::runtime_facts::{AgentFacts, FolderFacts, RankFacts, Reach, RuntimeFacts};

use super::{Case, doctor, malformed, of, says, show};
use crate::support::rack::Rack;

const NODE: &str = "studio-2";

fn runtime(rack: &mut Rack) -> &mut RuntimeFacts {
    rack.facts(NODE).runtime.as_mut().expect("known").as_mut().expect("deployed")
}

fn rank(rack: &mut Rack) -> &mut RankFacts {
    runtime(rack).rank.as_mut().expect("a rank")
}

fn folder(rack: &mut Rack) -> &mut FolderFacts {
    rank(rack).folder.as_mut().expect("a model")
}

fn agent(rack: &mut Rack) -> &mut AgentFacts {
    runtime(rack).agent.as_mut().expect("an agent")
}

fn unread(rack: &mut Rack) {
    rack.facts(NODE).runtime = Err(malformed("macluster"));
}

/// The engine of a node is not up, got no route to a peer, and the system's own ping gets through.
fn private(rack: &mut Rack) {
    let peer = "10.254.0.1".parse().expect("an address");
    rack.facts(NODE).network.paths = Ok(vec![LinkPath {
        interface: "en3".to_owned(),
        address: "10.254.0.2".parse().expect("an address"),
        peer_address: peer,
        answered: Ok(true),
        route: Ok(Some("en3".to_owned())),
    }]);
    let agent = agent(rack);
    "failed".clone_into(&mut agent.engine);
    agent.reach = vec![Reach { address: peer.to_string(), errno: 65, name: "EHOSTUNREACH".to_owned() }];
}

/// One of each, beside the finer ones below.
pub(super) const CASES: &[Case] = &[
    (
        "runtime.release-identical",
        Verdict::Fail,
        |r| runtime(r).damaged = vec!["wheels/mlx.whl".to_owned()],
        "release 0123456789abcdef on studio-2 (slot 2) is damaged",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.python",
        Verdict::Fail,
        |r| runtime(r).python = Err("exit 1: ImportError: no mlx".to_owned()),
        "the runtime's Python on studio-2 (slot 2) does not work",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.ports-free",
        Verdict::Fail,
        |r| {
            let port = rank(r).ports.first_mut().expect("a port");
            port.taken = Some("Address already in use (os error 48)".to_owned());
        },
        "sudo lsof -nP -iTCP:7420 -sTCP:LISTEN",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.certificates",
        Verdict::Warn,
        |r| {
            let now = runtime(r).now;
            rank(r).certificates_until = now + SignedDuration::from_hours(24 * 12 + 1);
        },
        "the agents' certificates on studio-2 (slot 2) end in 12 days",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.local-network-privacy",
        Verdict::Fail,
        private,
        "macOS keeps the engine of studio-2 (slot 2) from the local network",
        |r| runtime(r).agent = None,
        "needs runtime.engine-health on studio-2",
    ),
    (
        "runtime.engine-health",
        Verdict::Fail,
        |r| runtime(r).agent = None,
        "the agent of rank 1 on studio-2 (slot 2) does not live",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.model-manifest",
        Verdict::Fail,
        |r| "ffff00001111".clone_into(&mut folder(r).digest),
        "the model on studio-2 (slot 2) is another one than on studio-1 (slot 1)",
        unread,
        "not checked: macluster, line 7",
    ),
    (
        "runtime.model-splits",
        Verdict::Fail,
        |r| folder(r).share = Some(Err("9 attention heads".to_owned())),
        "does not divide over",
        |r| folder(r).share = None,
        "how llama divides is not known here",
    ),
    (
        "runtime.model-fits",
        Verdict::Warn,
        |r| folder(r).share = Some(Ok(200 << 30)),
        "rank 1's share of the model is more than the GPU of studio-2 (slot 2) may take",
        |r| folder(r).share = None,
        "how llama divides is not known here",
    ),
];

#[test]
fn a_rack_without_a_runtime_is_told_once_for_each_check() {
    let mut rack = Rack::kept(4);
    for node in ["studio-1", "studio-2", "studio-3", "studio-4"] {
        rack.facts(node).runtime = Ok(None);
    }
    let report = doctor(&rack);
    let told: Vec<_> = report.findings.iter().filter(|f| f.check.starts_with("runtime.")).collect();
    assert_eq!(told.len(), CASES.len());
    assert!(told.iter().all(|f| f.verdict == Verdict::Pass && f.message == "nothing is deployed yet"));
}

#[test]
fn a_node_that_has_lost_its_release_is_missed_by_the_others() {
    let mut rack = Rack::kept(4);
    let told = "no node is configured as rank 1: the others wait for it\nmacluster deploy";
    rack.facts(NODE).runtime = Ok(None);
    says(&rack, "runtime.release-identical", Verdict::Fail, told);
    // Whether it has one is not known: nothing is said of it.
    unread(&mut rack);
    let report = doctor(&rack);
    let bad = of(&report, "runtime.release-identical").into_iter().filter(|f| f.verdict == Verdict::Fail).count();
    assert_eq!(bad, 0, "{}", show(&report));
}

#[test]
fn a_runtime_that_was_stopped_is_no_failure_and_one_that_is_degraded_is() {
    let mut rack = Rack::kept(4);
    for node in ["studio-1", "studio-2", "studio-3", "studio-4"] {
        rack.facts(node).runtime.as_mut().expect("known").as_mut().expect("deployed").agent = None;
    }
    says(&rack, "runtime.engine-health", Verdict::Warn, "nothing of it runs\nmacluster start");
    let mut rack = Rack::kept(4);
    "loading".clone_into(&mut agent(&mut rack).engine);
    says(&rack, "runtime.engine-health", Verdict::Warn, "does not serve yet: its engine is loading");
    agent(&mut rack).degraded = Some("studio-3: no tensor".to_owned());
    says(&rack, "runtime.engine-health", Verdict::Fail, "are not started any more: rank 1");
}

#[test]
fn a_model_that_most_nodes_have_is_the_right_one_and_of_two_that_of_rank_0() {
    let mut rack = Rack::kept(4);
    "other".clone_into(&mut folder(&mut rack).digest);
    let report = doctor(&rack);
    let bad: Vec<_> =
        of(&report, "runtime.model-manifest").into_iter().filter(|f| f.verdict == Verdict::Fail).collect();
    assert_eq!(bad.len(), 1, "{}", show(&report));
    let mut rack = Rack::kept(2);
    "aaa, before the other one by name".clone_into(&mut folder(&mut rack).digest);
    says(&rack, "runtime.model-manifest", Verdict::Fail, "the model on studio-2 (slot 2) is another one");
}

#[test]
fn limits_that_were_set_decide_and_those_that_are_guessed_do_not() {
    let mut rack = Rack::kept(4);
    folder(&mut rack).share = Some(Ok(200 << 30));
    let set = |rack: &mut Rack, limit: u64| {
        let kernel = rack.facts(NODE).sysctl.as_mut().expect("known");
        kernel.insert("iogpu.wired_limit_mb".to_owned(), (limit << 10).to_string());
    };
    set(&mut rack, 210);
    let report = doctor(&rack);
    assert!(of(&report, "runtime.model-fits").iter().all(|f| f.verdict == Verdict::Pass), "{}", show(&report));
    set(&mut rack, 190);
    says(&rack, "runtime.model-fits", Verdict::Fail, "more than the GPU of studio-2");
    set(&mut rack, 0);
    folder(&mut rack).share = Some(Ok(300 << 30));
    says(&rack, "runtime.model-fits", Verdict::Fail, "more than the GPU of studio-2");
}

#[test]
fn no_route_without_a_ping_that_gets_through_decides_nothing() {
    let mut rack = Rack::kept(4);
    private(&mut rack);
    rack.facts(NODE).network.paths = Ok(Vec::new());
    says(&rack, "runtime.local-network-privacy", Verdict::Skip, "found no route to 10.254.0.1");
    "ECONNREFUSED".clone_into(&mut agent(&mut rack).reach[0].name);
    says(&rack, "runtime.local-network-privacy", Verdict::Pass, "nothing keeps the engine of studio-2");
}

#[test]
fn ranks_of_two_deploys_are_told_together() {
    let mut rack = Rack::kept(4);
    "another".clone_into(&mut rank(&mut rack).launch);
    says(&rack, "runtime.release-identical", Verdict::Fail, "the ranks belong to different deploys");
    let mut rack = Rack::kept(4);
    "another".clone_into(&mut rank(&mut rack).release);
    says(&rack, "runtime.release-identical", Verdict::Fail, "configured for another release");
    let mut rack = Rack::kept(4);
    runtime(&mut rack).rank = None;
    says(
        &rack,
        "runtime.release-identical",
        Verdict::Pass,
        "studio-2 (slot 2) has release 0123456789abcdef and stays idle",
    );
}
