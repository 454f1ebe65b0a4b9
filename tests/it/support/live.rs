//! The real binary on a running simulated rack.

use macluster::sim::RunningRack;

use super::{Ran, macluster};

/// The command on this rack, from its own folder. The servers run on this test's threads meanwhile.
pub async fn run(rack: &RunningRack, args: &[&str]) -> Ran {
    let dir = rack.dir.clone();
    let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    let work = move || macluster(&dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(work).await.expect("the command runs")
}

/// The end of a test: nothing reached beyond a node, and the rack stops.
pub async fn done(rack: RunningRack) {
    assert_eq!(rack.tripwire(), "", "something reached beyond a node");
    rack.stop().await.expect("stops");
}
