//! The locks of all nodes, that two desks do not change them at once.

use super::{Cause, Deploy, PhaseFailure, Target};
use crate::event::Event;
use crate::exit::Exit;
use crate::phase::hold::{self, Hold};

/// Takes the locks that are not held yet, or none. With the last one work begins.
pub(super) async fn take(deploy: &mut Deploy, step: &'static str, release: Option<&str>) -> Result<(), PhaseFailure> {
    let what = || "taking the lock".to_owned();
    let free: Vec<&Target> =
        deploy.targets.iter().filter(|t| !deploy.holds.iter().any(|h| h.node() == t.node.name)).collect();
    let answers = hold::take_all(free.iter().copied(), |t| {
        let (node, events) = (Some(t.node.name.clone()), &deploy.events);
        async move {
            events.emit(Event::TaskStarted { node: node.clone(), what: what() });
            let answer = hold::take(&t.node, step, release).await;
            events.emit(Event::TaskDone { node, what: what(), error: answer.as_ref().err().cloned() });
            answer
        }
    })
    .await;
    let causes: Vec<Cause> = free
        .iter()
        .zip(&answers)
        .filter_map(|(t, answer)| {
            Some(Cause { node: Some(t.node.name.clone()), message: answer.as_ref().err()?.clone() })
        })
        .collect();
    if !causes.is_empty() {
        return Err(PhaseFailure::of(Exit::DeployFailed, causes)
            .hint("nothing was changed; try again when the other operation has ended"));
    }
    deploy.holds.extend(answers.into_iter().flatten().filter_map(|a| match a {
        hold::Answer::Held(hold) => Some(hold),
        // Nothing of ours is there yet: it is locked with the program that is sent.
        hold::Answer::NoProgram => None,
    }));
    if deploy.holds.len() == deploy.targets.len() {
        deploy.holds.iter().for_each(Hold::begin_work);
    }
    Ok(())
}
