//! Signs of life for nodes that are armed and have to wait: for slower nodes, for those that go back, for new
//! connections. Without them a node would take its change back although nothing is wrong.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::deadman::{self, Armed};
use super::steps::NetNode;

/// Longest wait through which nodes are kept. Every step of the others has a limit of its own; beyond this something
/// is wrong that the dead-man is there for.
const PATIENCE: Duration = Duration::from_secs(900);

/// Does the work, and keeps these nodes waiting meanwhile. A node that cannot be kept is left alone: that its change no
/// longer stands shows in whatever is done with it next.
pub(super) async fn alongside<T>(nodes: &[(&NetNode, &Armed)], work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let began = Instant::now();
    let mut kept: Vec<_> = nodes.to_vec();
    loop {
        let pause = kept.iter().map(|(_, armed)| armed.pause()).min().filter(|_| began.elapsed() < PATIENCE);
        let Some(pause) = pause else { return work.await };
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(pause) => {}
        }
        // A sign that was begun is brought to its end: half of one would be no sign, and could come late.
        let answers = {
            let mut signs = pin!(join_all(kept.iter().map(|(node, armed)| deadman::beat(node, armed))));
            tokio::select! {
                done = &mut work => {
                    signs.await;
                    return done;
                }
                answers = &mut signs => answers,
            }
        };
        let mut lives = answers.into_iter().map(|answer| answer.is_ok());
        kept.retain(|_| lives.next().unwrap_or(false));
    }
}
