use std::sync::Arc;

use super::*;
use crate::event::silent;
use crate::network::Symbol;
use crate::phase::network::fixture::Scripted;

fn change(node: &str, run: &str, undo: &[&str]) -> Change {
    let cmd = |text: &str| Cmd::write("/sbin/ifconfig", text.split(' '));
    Change {
        node: node.parse().expect("a name"),
        kind: "k".to_owned(),
        symbol: Symbol::Change,
        interface: "en3".to_owned(),
        before: String::new(),
        after: String::new(),
        risk: String::new(),
        commands: vec![cmd(run)],
        undo: undo.iter().map(|u| cmd(u)).collect(),
    }
}

/// Fails commands that contain one of these words.
fn failing(node: &str, words: &'static [&'static str], lost: bool) -> Arc<Scripted> {
    Arc::new(Scripted::new(node, move |line| match (words.iter().any(|w| line.contains(w)), lost) {
        (true, true) => Err(RemoteError::Lost("reset by peer".to_owned())),
        (true, false) => Ok(Output { exit: Some(1), stderr: b"ifconfig: no".to_vec(), ..Output::default() }),
        _ => Ok(Output { exit: Some(0), ..Output::default() }),
    }))
}

async fn run_with(fails: &'static [&'static str], lost: bool) -> (Applied, Applied, Vec<String>) {
    let both = ["a", "b"].map(|node| {
        [change(node, "one", &["undo-one"]), change(node, "two", &[]), change(node, "three", &["undo-three"])]
    });
    let plan = NetworkPlan { changes: both.into_iter().flatten().collect(), ..NetworkPlan::default() };
    let (a, b) = (failing("a", fails, lost), failing("b", &[], false));
    let shared: [SharedRemote; 2] = [Arc::clone(&a) as SharedRemote, b];
    let remotes = shared.into_iter().map(|r| (r.node().clone(), r)).collect();
    let mut applied = apply(&plan, &remotes, &silent()).await.into_iter();
    let ran = a.ran();
    (applied.next().expect("a"), applied.next().expect("b"), ran)
}

#[tokio::test]
async fn a_failing_command_stops_its_node_and_takes_back_what_went_before() {
    let (a, b, ran) = run_with(&["ifconfig three"], false).await;
    assert_eq!(ran, ["ifconfig one", "ifconfig two", "ifconfig three", "ifconfig undo-one"]);
    let failure = a.failure.expect("failed");
    assert_eq!((failure.command.as_str(), failure.why.as_str()), ("ifconfig three", "exit 1: ifconfig: no"));
    assert_eq!(failure.undone, ["ifconfig undo-one"]);
    assert_eq!(failure.not_undone, ["k on en3 (the playbook has no way back)"]);
    assert_eq!(a.done, 1, "the second change stands");
    assert_eq!((b.done, b.failure), (3, None), "the other node goes on");
}

#[tokio::test]
async fn with_the_connection_gone_nothing_is_claimed_to_be_undone() {
    let (a, _, ran) = run_with(&["ifconfig two"], true).await;
    assert_eq!(ran, ["ifconfig one", "ifconfig two"]);
    let failure = a.failure.expect("failed");
    assert!(failure.why.contains("the connection broke: reset by peer"), "{}", failure.why);
    assert_eq!(failure.not_undone, ["`ifconfig undo-one` could not be run: the connection is lost"]);
    assert!(failure.aftermath().last().expect("a line").contains("a restart of the node"));
    assert_eq!(a.done, 1);
}

#[tokio::test]
async fn a_way_back_that_fails_is_told() {
    let (a, _, _) = run_with(&["ifconfig two", "undo-one"], false).await;
    let failure = a.failure.expect("failed");
    assert_eq!(failure.not_undone, ["`ifconfig undo-one`: exit 1: ifconfig: no"]);
    assert_eq!((a.done, failure.undone.len()), (1, 0));
}

#[tokio::test]
async fn a_change_that_got_half_way_is_taken_back_too() {
    let mut twofold = change("a", "one", &["undo-one"]);
    twofold.commands.push(Cmd::write("/sbin/ifconfig", ["half"]));
    let plan = NetworkPlan { changes: vec![twofold], ..NetworkPlan::default() };
    let a: NodeName = "a".parse().expect("a name");
    let remote = failing("a", &["half"], false);
    let remotes = BTreeMap::from([(a, Arc::clone(&remote) as SharedRemote)]);
    let applied = apply(&plan, &remotes, &silent()).await;
    assert_eq!(remote.ran(), ["ifconfig one", "ifconfig half", "ifconfig undo-one"]);
    assert_eq!(applied[0].failure.as_ref().map(|f| f.undone.len()), Some(1));
    assert_eq!(applied[0].done, 0);
}

#[tokio::test]
async fn a_node_whose_first_command_fails_is_unchanged() {
    let (a, _, ran) = run_with(&["ifconfig one"], false).await;
    assert_eq!(ran, ["ifconfig one"]);
    assert_eq!(
        (a.done, a.failure.expect("failed").aftermath()),
        (0, vec!["nothing was changed on this node".to_owned()])
    );
}
