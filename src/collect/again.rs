//! The second round: what can be asked only when the first answers are known.

use std::time::Duration;

use futures::future::join_all;

use super::{run, transcript};
use crate::mesh::{LinkGraph, interface_of};
use crate::model::facts::NodeFacts;
use crate::model::{Inventory, NodeName, Snapshot, Transcript};
use crate::network::{NetworkEnd, desired};
use crate::parse::{assemble, probe};
use crate::remote::{Fleet, Remote};

/// Services of one node that are asked; a Mac has a dozen.
const MOST_SERVICES: usize = 32;

/// Importing MLX from a cold disk takes most of it.
const RUNTIME_LIMIT: Duration = Duration::from_secs(40);

/// A command of the second round.
struct Question {
    id: &'static str,
    program: &'static str,
    args: Vec<String>,
    timeout: Duration,
}

async fn ask(remote: &dyn Remote, question: &Question) -> Transcript {
    let result = run(remote, question.program, question.args.clone(), question.timeout, false).await;
    let argv = std::iter::once(question.program.to_owned()).chain(question.args.iter().cloned()).collect();
    transcript(question.id, argv, result)
}

/// How services on receptacles and bridges get their addresses. By device: their names are anybody's.
pub(super) async fn services(remote: &dyn Remote, facts: &NodeFacts) -> Vec<Transcript> {
    let receptacles = facts.receptacles.iter().flatten();
    let mut devices: Vec<&str> = receptacles.filter_map(|r| interface_of(facts, r.id)).collect();
    let bridges = facts.interfaces.iter().flatten().filter(|i| !i.members.is_empty());
    devices.extend(bridges.map(|b| b.name.as_str()));
    let asked = facts.network.services.iter().flatten().filter(|s| devices.contains(&s.device.as_str()));
    let questions: Vec<Question> = asked
        .take(MOST_SERVICES)
        .map(|service| Question {
            id: probe::SERVICE_INFO,
            program: "/usr/sbin/networksetup",
            args: vec!["-getinfo".to_owned(), service.name.clone()],
            timeout: Duration::from_secs(20),
        })
        .collect();
    join_all(questions.iter().map(|q| ask(remote, q))).await
}

/// What the deployed macluster of each node says of the runtime there.
pub async fn runtime(inventory: &Inventory, fleet: &Fleet, snapshot: &mut Snapshot) {
    let install = inventory.paths.install.trim_end_matches('/');
    let path = format!("{install}/current/bin/macluster");
    let questions = fleet.reached().map(|(node, remote)| {
        // Not words of their own: those are taken for paths of the node, before which its root is put.
        let place = [format!("--root={}", remote.root()), format!("--install={install}")];
        let args: Vec<String> = ["node", "inspect"].map(str::to_owned).into_iter().chain(place).collect();
        let program = path.clone();
        async move {
            let result = run(remote.as_ref(), &program, args.clone(), RUNTIME_LIMIT, false).await;
            let line = std::iter::once(program).chain(args).collect();
            (node, transcript(probe::RUNTIME, line, result))
        }
    });
    for (node, answer) in join_all(questions).await {
        let Some(record) = snapshot.nodes.get_mut(node) else { continue };
        let Ok(facts) = &mut record.facts else { continue };
        // The login shell's words are taken off with those of the first round.
        let noise = record.transcripts.iter().filter(|t| t.probe == probe::NOISE).cloned();
        let list: Vec<Transcript> = noise.chain([answer.clone()]).collect();
        facts.runtime = assemble::facts(&list, facts.session.clone()).runtime;
        record.transcripts.push(answer);
    }
}

/// Sends something over every link whose both ends have their address, from both ends at once, and adds what came of
/// it to the facts.
pub async fn paths(inventory: &Inventory, fleet: &Fleet, snapshot: &mut Snapshot) {
    let graph = LinkGraph::build(snapshot);
    let wanted = desired(inventory, snapshot, &graph);
    let ready = |end: &NetworkEnd| snapshot.facts(&end.node).is_some_and(|facts| carries(facts, end));
    let mut questions: Vec<(NodeName, Vec<Question>)> = Vec::new();
    for (node, _) in fleet.reached() {
        let ends = wanted.of(node).filter(|(_, own, peer)| ready(own) && ready(peer));
        let all: Vec<Question> = ends.flat_map(|(_, own, peer)| [ping(own, peer), route(peer)]).collect();
        if !all.is_empty() {
            questions.push((node.clone(), all));
        }
    }
    let asked = questions.iter().map(|(node, all)| async move {
        let Some(Ok(remote)) = fleet.nodes.get(node) else { return (node, Vec::new()) };
        (node, join_all(all.iter().map(|q| ask(remote.as_ref(), q))).await)
    });
    for (node, answers) in join_all(asked).await {
        let Some(record) = snapshot.nodes.get_mut(node) else { continue };
        if let Ok(facts) = &mut record.facts {
            facts.network.paths = Ok(assemble::paths(&record.transcripts, &answers));
        }
        record.transcripts.extend(answers);
    }
}

/// The interface is there with its address, up, and has carrier.
fn carries(facts: &NodeFacts, end: &NetworkEnd) -> bool {
    let mut interfaces = facts.interfaces.iter().flatten().filter(|i| i.name == end.interface);
    interfaces.any(|i| i.up() && i.active != Some(false) && i.inet.iter().any(|a| a.address == end.address))
}

/// -b binds to the interface, so that an answer proves this cable and no other way; -o ends with the first answer.
fn ping(own: &NetworkEnd, peer: &NetworkEnd) -> Question {
    let (source, target) = (own.address.to_string(), peer.address.to_string());
    let args = ["-o", "-c", "3", "-t", "3", "-b", &own.interface, "-S", &source, &target];
    Question {
        id: probe::LINK_PING,
        program: "/sbin/ping",
        args: args.map(str::to_owned).to_vec(),
        timeout: Duration::from_secs(10),
    }
}

fn route(peer: &NetworkEnd) -> Question {
    Question {
        id: probe::LINK_ROUTE,
        program: "/sbin/route",
        args: vec!["-n".to_owned(), "get".to_owned(), peer.address.to_string()],
        timeout: Duration::from_secs(10),
    }
}
