//! Stops what runs, on all nodes at once. On the way back it is started again.

use std::time::Duration;

use futures::future::BoxFuture;

use super::{Deploy, Phase, PhaseFailure, Target};
use crate::agent::status::{State, Status};
use crate::phase::service;

/// For the previous engines to serve again.
const READY_LIMIT: Duration = Duration::from_secs(600);

pub(super) struct Retire;

impl Phase for Retire {
    fn id(&self) -> &'static str {
        "retire"
    }

    fn title(&self) -> &'static str {
        "Stop what runs"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(async move {
            deploy.retired = true;
            let stop = |t: &'a Target| async move { service::stop(&t.node).await.map(drop) };
            let deploy: &'a Deploy = deploy;
            deploy.each("stopping", stop).await.map(drop)
        })
    }

    fn undo<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(start_again(deploy))
    }
}

/// What ran on a node before, if it did.
fn before(target: &Target) -> Option<&Status> {
    target.previous.as_ref().and_then(|r| r.believed())
}

async fn start_again(deploy: &mut Deploy) -> Vec<String> {
    if !std::mem::take(&mut deploy.retired) {
        return Vec::new();
    }
    let deploy: &Deploy = deploy;
    let running: Vec<&Target> = deploy.targets.iter().filter(|t| before(t).is_some()).collect();
    let Some(release) = running.first().and_then(|t| before(t)).map(|s| s.release.clone()) else {
        return vec!["nothing ran before, and nothing runs now".to_owned()];
    };
    let start = |t: &'_ Target| {
        let (node, ran) = (t.node.clone(), before(t).is_some());
        async move { if ran { service::start(&node).await } else { Ok(()) } }
    };
    let mut remarks = deploy.each_back("starting the previous release again", start).await;
    let wanted = running.first().and_then(|t| before(t)).map_or(0, |s| s.world_size as usize);
    let served = running.len() == wanted && running.iter().filter_map(|t| before(t)).all(|s| s.state == State::Ready);
    if !remarks.is_empty() || !served {
        remarks.push(format!(
            "the previous release {release} did not serve before, or does not now: see `macluster status`"
        ));
        return remarks;
    }
    let ready = |t: &'_ Target| {
        let (node, previous) = (t.node.clone(), before(t).cloned());
        async move {
            let Some(previous) = previous else { return Ok(()) };
            let wanted = [State::Ready];
            service::wait_for(&node, &previous.launch, &wanted, READY_LIMIT, &|_| {})
                .await
                .map(drop)
                .map_err(|t| t.message)
        }
    };
    remarks.extend(deploy.each_back("waiting for the previous release", ready).await);
    if remarks.is_empty() {
        remarks.push(format!("the previous release {release} is running again"));
    }
    remarks
}
