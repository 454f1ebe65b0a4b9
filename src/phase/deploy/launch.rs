//! Starts the agents and waits until all serve. The agents find each other and start their engines by themselves, all
//! in one epoch; the first engine that ends ends the deploy.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::{Cause, Deploy, Phase, PhaseFailure, Target};
use crate::agent::status::{State, Status};
use crate::event::Event;
use crate::exit::Exit;
use crate::phase::service::{self, Trouble};

/// From the agent's start to an armed engine: imports, and a look at every weight file.
const ARM_LIMIT: Duration = Duration::from_secs(600);
/// The engine's own limit ends it first.
const READY_GRACE: Duration = Duration::from_secs(45);
/// When one rank has failed, the others soon say so too, or wait for it in vain.
const AFTER_FAILURE: Duration = Duration::from_secs(3);

pub(super) struct Launch;

impl Phase for Launch {
    fn id(&self) -> &'static str {
        "launch"
    }

    fn title(&self) -> &'static str {
        "Start the engines"
    }

    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>> {
        Box::pin(launch(deploy))
    }

    fn undo<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let stop = |t: &'_ Target| {
                let node = t.node.clone();
                async move { service::stop(&node).await.map(drop) }
            };
            deploy.each_back("stopping the new engines", stop).await
        })
    }
}

async fn launch(deploy: &Deploy) -> Result<(), PhaseFailure> {
    let start = |t: &'_ Target| {
        let node = t.node.clone();
        async move { service::start(&node).await }
    };
    deploy.each_rank("starting the agent", start).await?;
    let limit = ARM_LIMIT + Duration::from_secs_f64(deploy.start_timeout) + READY_GRACE;
    all_reach(deploy, "starting the engine", State::Ready, limit).await
}

/// Waits until all engines are there; the first one that fails ends it for all.
async fn all_reach(deploy: &Deploy, what: &str, wanted: State, limit: Duration) -> Result<(), PhaseFailure> {
    let failed = Arc::new(Notify::new());
    let results = futures::future::join_all(deploy.ranked().map(|target| {
        let failed = Arc::clone(&failed);
        async move {
            let name = target.node.name.clone();
            deploy.events.emit(Event::TaskStarted { node: Some(name.clone()), what: what.to_owned() });
            let tell = |state: State| {
                let text = format!("engine {}", state.as_str());
                deploy.events.emit(Event::Note { node: Some(name.clone()), text });
            };
            let wanted = [wanted];
            let wait = service::wait_for(&target.node, &deploy.launch, &wanted, limit, &tell);
            let other = async {
                failed.notified().await;
                tokio::time::sleep(AFTER_FAILURE).await;
            };
            let result = tokio::select! {
                result = wait => result,
                () = other => Err(Trouble { kind: None, message: "waited for a rank that had failed".to_owned() }),
            };
            if result.is_err() {
                // Those that wait already, and one that begins to wait later.
                failed.notify_waiters();
                failed.notify_one();
            }
            let error = result.as_ref().err().map(|t| t.message.clone());
            deploy.events.emit(Event::TaskDone { node: Some(name.clone()), what: what.to_owned(), error });
            (name, result)
        }
    }))
    .await;
    judge(results)
}

fn judge(results: Vec<(crate::model::NodeName, Result<Status, Trouble>)>) -> Result<(), PhaseFailure> {
    let bad: Vec<_> = results.into_iter().filter_map(|(n, r)| r.err().map(|t| (n, t))).collect();
    if bad.is_empty() {
        return Ok(());
    }
    // What another rank's failure has caused is told only when nothing else is known.
    let causes: Vec<&(_, Trouble)> = bad.iter().filter(|(_, t)| !t.is_consequence()).collect();
    let told = if causes.is_empty() { bad.iter().collect() } else { causes };
    let splits = told.iter().any(|(_, t)| t.kind.as_deref() == Some("does-not-split"));
    let port = told.iter().any(|(_, t)| t.kind.as_deref() == Some("api-port"));
    let nodes: Vec<_> = told.iter().map(|(n, _)| n.clone()).collect();
    let causes = told.iter().map(|(n, t)| Cause { node: Some(n.clone()), message: t.message.clone() }).collect();
    let mut failure = PhaseFailure::of(Exit::DeployFailed, causes).with_logs_of(nodes);
    if splits {
        failure = failure
            .hint("this model does not split over that many nodes: change the nodes of the inventory, runtime.parallel, or the model");
    }
    if port {
        failure = failure.hint("choose another port: runtime.api.listen in the inventory");
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(kind: Option<&str>) -> Result<Status, Trouble> {
        Err(Trouble { kind: kind.map(str::to_owned), message: format!("{kind:?}") })
    }

    #[test]
    fn the_cause_is_told_and_its_consequences_are_not() {
        let name = |n: &str| n.parse().expect("a name");
        let failure = judge(vec![
            (name("n1"), trouble(Some("join-failed"))),
            (name("n2"), trouble(Some("model-incomplete"))),
            (name("n3"), trouble(None)),
        ])
        .expect_err("failed");
        assert_eq!(failure.causes.len(), 1);
        assert_eq!(failure.ask_logs_of, [name("n2")]);
        let failure =
            judge(vec![(name("n1"), trouble(None)), (name("n2"), trouble(Some("timeout")))]).expect_err("failed");
        assert_eq!(failure.causes.len(), 2, "when nobody knows the cause, all is told");
    }
}
