use super::*;

const S: Duration = Duration::from_secs(1);

/// Three ranks in virtual time, each with an engine that does what it is told.
struct Stage {
    lead: Lead,
    now: Instant,
    ranks: Vec<Option<Report>>,
}

impl Stage {
    fn new(rdma: bool) -> Self {
        let agent = |n: &str| AgentAt {
            node: n.parse().expect("a name"),
            address: "127.0.0.1:1".parse().expect("an address"),
            filevault: Some(n == "n2"),
        };
        let agents = ["n1", "n2", "n3"].map(agent);
        let lead = Lead::new(&agents, rdma, 120 * S, 0, 0);
        Stage { now: Instant::now(), lead, ranks: vec![Some(Report::idle()); 3] }
    }

    /// One second: everybody reports, decides, obeys. `obey` may say what becomes of a rank instead.
    fn second(&mut self, obey: &mut dyn FnMut(usize, &Order, &mut Report) -> bool) -> Order {
        self.now += S;
        for (rank, report) in self.ranks.iter().enumerate() {
            if let Some(report) = report {
                self.lead.heard(rank, report.clone(), self.now);
            }
        }
        self.lead.tick(self.now, Timestamp::UNIX_EPOCH);
        let order = self.lead.order(self.now);
        for (rank, report) in self.ranks.iter_mut().enumerate() {
            let Some(report) = report else { continue };
            if obey(rank, &order, report) {
                continue;
            }
            match order.want {
                Want::Prepare if report.epoch != order.epoch => {
                    *report = Report { epoch: order.epoch, state: State::Armed, runs: true, failure: None, ..*report };
                }
                Want::Go if report.state == State::Armed => report.state = State::Ready,
                Want::Stop if report.runs => {
                    report.runs = false;
                    report.state = State::Stopped;
                }
                _ => {}
            }
        }
        order
    }

    fn until(&mut self, phase: GroupPhase, limit: u32) -> Order {
        for _ in 0..limit {
            let order = self.second(&mut |_, _, _| false);
            if order.group.phase == phase {
                return order;
            }
        }
        panic!("not {phase:?} within {limit} s: {:?}", self.lead);
    }

    fn fail(&mut self, rank: usize, kind: &str, message: &str) {
        let report = self.ranks[rank].as_mut().expect("present");
        report.state = State::Failed;
        report.runs = false;
        report.failure = Some(EngineError { kind: kind.to_owned(), message: message.to_owned() });
    }
}

#[test]
fn nothing_starts_before_all_are_there_and_then_all_start_in_one_epoch() {
    let mut stage = Stage::new(false);
    stage.ranks[2] = None;
    for _ in 0..100 {
        let order = stage.second(&mut |_, _, _| false);
        assert_eq!((order.want, order.group.phase), (Want::Stop, GroupPhase::Gathering));
        assert_eq!(order.group.missing.iter().map(NodeName::as_str).collect::<Vec<_>>(), ["n3"]);
    }
    stage.ranks[2] = Some(Report::idle());
    let order = stage.until(GroupPhase::Serving, 10);
    assert_eq!((order.epoch, order.group.attempts, order.group.why), (1, 0, None));
    assert!(stage.ranks.iter().flatten().all(|r| r.epoch == 1 && r.state == State::Ready));
}

#[test]
fn one_that_ends_stops_all_and_the_cause_is_told_rather_than_its_consequences() {
    let mut stage = Stage::new(false);
    stage.until(GroupPhase::Serving, 10);
    // The consequence is heard first.
    stage.fail(0, "peer-lost", "lost contact with another rank");
    let order = stage.until(GroupPhase::Stopping, 2);
    assert_eq!((order.want, order.group.attempts), (Want::Stop, 0));
    stage.fail(1, "internal", "the engine ended with signal 9");
    let order = stage.until(GroupPhase::Pausing, 5);
    let restart = order.group.restarts.last().expect("remembered").clone();
    assert_eq!(restart.node.as_ref().map(NodeName::as_str), Some("n2"));
    assert_eq!((restart.epoch, restart.why.as_str()), (1, "the engine ended with signal 9"));
    assert_eq!(order.group.attempts, 1);
    let order = stage.until(GroupPhase::Serving, 30);
    assert_eq!(order.epoch, 2);
    // A service that holds has proven itself; many of them are no loop.
    for _ in 0..=PROVEN.as_secs() {
        stage.second(&mut |_, _, _| false);
    }
    assert_eq!(stage.lead.order(stage.now).group.attempts, 0);
}

#[test]
fn an_agent_that_falls_silent_stops_the_others_and_is_waited_for() {
    let mut stage = Stage::new(false);
    stage.until(GroupPhase::Serving, 10);
    stage.ranks[1] = None;
    let order = stage.until(GroupPhase::Stopping, 10);
    assert!(order.group.why.expect("a reason").contains("n2: its agent was not heard"));
    stage.until(GroupPhase::Gathering, 30);
    for _ in 0..1000 {
        assert_eq!(stage.second(&mut |_, _, _| false).group.attempts, 1, "waiting costs nothing");
    }
    stage.ranks[1] = Some(Report::idle());
    assert_eq!(stage.until(GroupPhase::Serving, 20).epoch, 2);
    // A new agent in the place of one whose engine served: the group is not whole any more.
    stage.ranks[1] = Some(Report::idle());
    let order = stage.until(GroupPhase::Stopping, 3);
    assert!(order.group.why.expect("a reason").contains("n2: its agent was started again"));
}

#[test]
fn the_budget_ends_the_loop_and_pauses_grow() {
    let mut stage = Stage::new(false);
    let begin = stage.now;
    let mut starts = Vec::new();
    for _ in 0..3600 {
        let order = stage.second(&mut |rank, order, report| {
            // Dies at load, every time.
            let dies = rank == 1 && order.want == Want::Go && report.runs;
            if dies {
                report.runs = false;
                report.state = State::Failed;
                report.failure = Some(EngineError { kind: "model-incomplete".into(), message: "no tensor".into() });
            }
            dies
        });
        if order.want == Want::Prepare && starts.last().is_none_or(|(epoch, _)| *epoch != order.epoch) {
            starts.push((order.epoch, stage.now - begin));
        }
    }
    assert_eq!(starts.len(), BUDGET as usize, "{starts:?}");
    let pauses: Vec<_> = starts.windows(2).map(|w| w[1].1.saturating_sub(w[0].1)).collect();
    assert!(pauses.windows(2).all(|w| w[0] < w[1]), "{pauses:?}");
    let group = stage.lead.order(stage.now).group;
    assert_eq!((group.phase, group.attempts), (GroupPhase::Degraded, BUDGET));
    assert_eq!(group.why.as_deref(), Some("n2: no tensor"));
    assert_eq!(group.reboot, [], "nothing says that a restart of a Mac would help");
}

#[test]
fn a_service_that_holds_for_a_while_and_falls_again_and_again_is_given_up() {
    // Falls so long after it served: every time longer than what proves a start.
    for (holds, ends) in [(10, true), (600, false)] {
        let mut stage = Stage::new(false);
        let mut served = 0;
        for _ in 0..8 * 3600 {
            let order = stage.second(&mut |rank, order, report| {
                served = if order.group.phase == GroupPhase::Serving { served + 1 } else { 0 };
                // Two calls a second, one for each rank.
                let dies = rank == 1 && served > 2 * holds && report.runs;
                if dies {
                    report.runs = false;
                    report.state = State::Failed;
                    report.failure = Some(EngineError { kind: "internal".into(), message: "poisoned".into() });
                }
                dies
            });
            if order.group.phase == GroupPhase::Degraded {
                break;
            }
        }
        let group = stage.lead.order(stage.now).group;
        assert_eq!(group.phase == GroupPhase::Degraded, ends, "after {holds} s: {group:?}");
        if ends {
            let why = "it has fallen 20 times within an hour, at last: n2: poisoned";
            assert_eq!((group.why.as_deref(), group.attempts), (Some(why), 1));
        } else {
            assert!(stage.lead.order(stage.now).epoch > 20, "it fell often enough");
        }
    }
}

#[test]
fn engines_that_had_to_be_killed_count_where_there_is_rdma_and_name_who_is_to_be_restarted() {
    for rdma in [true, false] {
        let mut stage = Stage::new(rdma);
        stage.until(GroupPhase::Serving, 10);
        for (rank, debits) in [(0, 1), (1, DEBITS)] {
            stage.ranks[rank].as_mut().expect("present").debits = debits;
        }
        stage.fail(1, "internal", "the engine ended with signal 9");
        if rdma {
            let order = stage.until(GroupPhase::Degraded, 60);
            let reboot: Vec<_> = order.group.reboot.iter().map(|r| (r.node.as_str(), r.filevault)).collect();
            assert_eq!(reboot, [("n2", Some(true)), ("n1", Some(false))], "rank 0 last");
        } else {
            stage.until(GroupPhase::Serving, 60);
        }
    }
}

#[test]
fn an_agent_of_another_launch_takes_no_part_and_is_named() {
    let mut stage = Stage::new(false);
    stage.ranks[2] = None;
    stage.lead.stranger(2, "runs release ff of another launch".into());
    let order = stage.second(&mut |_, _, _| false);
    assert_eq!(order.group.phase, GroupPhase::Gathering);
    assert_eq!(order.group.why.as_deref(), Some("n3 runs release ff of another launch"));
}

#[test]
fn engines_that_never_get_ready_are_given_up() {
    let mut stage = Stage::new(false);
    let mut order = None;
    for _ in 0..200 {
        let now = stage.second(&mut |rank, order, report| rank == 2 && order.want == Want::Go && report.runs);
        if now.group.phase == GroupPhase::Stopping {
            order = Some(now);
            break;
        }
    }
    let why = order.expect("given up").group.why.expect("a reason");
    assert!(why.contains("not every engine served in time"), "{why}");
}
