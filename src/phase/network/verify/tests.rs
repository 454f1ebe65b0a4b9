use std::sync::Arc;

use super::*;
use crate::mesh::{CableEnd, LinkId};
use crate::model::Output;
use crate::phase::network::fixture::Scripted;
use crate::remote::RemoteError;

fn link() -> LinkNetwork {
    let end = |node: &str, host: u8| NetworkEnd {
        node: node.parse().expect("a name"),
        receptacle: 2,
        interface: "en3".to_owned(),
        address: [10, 254, 0, host].into(),
    };
    let (a, b) = (end("a", 1), end("b", 2));
    let at = |e: &NetworkEnd| CableEnd { node: e.node.clone(), receptacle: e.receptacle };
    let id = LinkId::new(at(&a), at(&b));
    LinkNetwork { network: "10.254.0.0/30".parse().expect("a network"), rail: 0, id, a, b }
}

/// What becomes of a good link when b's ping ends like this.
async fn pinged(answer: impl Fn() -> Result<Output, RemoteError> + Send + Sync + 'static) -> (LinkResult, Vec<String>) {
    pinged_by(answer, "en3").await
}

/// The same, when b would send to a by this interface.
async fn pinged_by(
    answer: impl Fn() -> Result<Output, RemoteError> + Send + Sync + 'static,
    way: &'static str,
) -> (LinkResult, Vec<String>) {
    let route =
        |by: &str| Output { exit: Some(0), stdout: format!("  interface: {by}\n").into_bytes(), ..Output::default() };
    let good = move |line: &str| {
        Ok(if line.starts_with("route") { route("en3") } else { Output { exit: Some(0), ..Output::default() } })
    };
    let b = Arc::new(Scripted::new("b", move |line| if line.starts_with("route") { Ok(route(way)) } else { answer() }));
    let a: SharedRemote = Arc::new(Scripted::new("a", good));
    let remotes = [a, Arc::clone(&b) as SharedRemote].into_iter().map(|r| (r.node().clone(), r)).collect();
    let link = LinkResult::of(&link());
    let mut verified = Verified { links: vec![link], ..Verified::default() };
    ping_all(&mut verified, &remotes).await;
    let link = verified.links.remove(0);
    assert_eq!(link.verdict != Verdict::Fail, Verified { links: vec![link.clone()], ..verified }.ok());
    (link, b.ran())
}

#[allow(clippy::unnecessary_wraps, reason = "stands for what a remote gives")]
fn exit(code: i32) -> Result<Output, RemoteError> {
    Ok(Output { exit: Some(code), stderr: b"ping: words".to_vec(), ..Output::default() })
}

#[tokio::test]
async fn each_end_pings_the_other_from_its_own_interface() {
    let (link, ran) = pinged(|| exit(0)).await;
    assert_eq!(link.verdict, Verdict::Pass);
    assert_eq!(ran, ["ping -c 2 -t 3 -b en3 -S 10.254.0.2 10.254.0.1", "route -n get 10.254.0.1"]);
    assert!(link.own.is_empty());
}

#[tokio::test]
async fn a_way_that_leaves_by_another_interface_is_the_nodes_own_fault() {
    let (link, _) = pinged_by(|| exit(0), "en0").await;
    assert_eq!(link.failures, ["b en3: route to 10.254.0.1: leaves by en0"]);
    let verified = Verified { links: vec![link], ..Verified::default() };
    assert_eq!(verified.own_failures(&BTreeSet::new()).into_keys().map(|n| n.to_string()).collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn silence_fails_and_a_missing_ping_proves_nothing() {
    let (link, _) = pinged(|| exit(2)).await;
    assert_eq!((link.verdict, link.failures), (Verdict::Fail, vec!["b en3: ping to 10.254.0.1: no answer".to_owned()]));
    let (link, _) = pinged(|| exit(1)).await;
    assert_eq!(link.failures, ["b en3: ping to 10.254.0.1: exit 1: ping: words"]);
    let (link, _) = pinged(|| Err(RemoteError::Lost("gone".to_owned()))).await;
    assert_eq!(link.verdict, Verdict::Fail);
    let (link, _) = pinged(|| exit(127)).await;
    assert_eq!((link.verdict, link.failures.len(), link.notes.len()), (Verdict::Skip, 0, 1));
}
