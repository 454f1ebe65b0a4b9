//! Runs a plan: nodes side by side, each node's changes in order, and back again when one fails.

use std::collections::BTreeMap;

use crate::event::{Event, Events};
use crate::model::{Cmd, NodeName, Output};
use crate::network::{Change, NetworkPlan};
use crate::remote::{RemoteError, SharedRemote};

/// What happened on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Node.
    pub node: NodeName,
    /// Changes that stand.
    pub done: usize,
    /// The command that failed, after which nothing else was tried there.
    pub failure: Option<ApplyFailure>,
}

/// A command that failed, and what became of the changes before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyFailure {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub why: String,
    /// Commands that took earlier changes back.
    pub undone: Vec<String>,
    /// Earlier changes that were not taken back: what was tried, or that there is no way back, and why.
    pub not_undone: Vec<String>,
}

impl ApplyFailure {
    /// What it leaves behind, in sentences.
    pub fn aftermath(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.undone.iter().map(|line| format!("taken back: {line}")).collect();
        lines.extend(self.not_undone.iter().map(|line| format!("not taken back: {line}")));
        if lines.is_empty() {
            lines.push("nothing was changed on this node".to_owned());
        }
        if !self.not_undone.is_empty() {
            lines.push("a restart of the node takes everything back; `macluster network apply` tries again".to_owned());
        }
        lines
    }
}

/// Applies the plan to the nodes that have changes in it. A node that fails does not stop the others.
pub async fn apply(plan: &NetworkPlan, remotes: &BTreeMap<NodeName, SharedRemote>, events: &Events) -> Vec<Applied> {
    let nodes = plan.nodes();
    let work = nodes.into_iter().map(|node| async move {
        let changes = plan.of(node);
        let what = "setting up link networks".to_owned();
        events.emit(Event::TaskStarted { node: Some(node.clone()), what: what.clone() });
        let applied = match remotes.get(node) {
            Some(remote) => on_node(node, remote, &changes, events).await,
            None => Applied {
                node: node.clone(),
                done: 0,
                failure: Some(ApplyFailure {
                    command: "ssh".to_owned(),
                    why: "no connection to this node".to_owned(),
                    undone: vec![],
                    not_undone: vec![],
                }),
            },
        };
        let error = applied.failure.as_ref().map(|f| format!("`{}`: {}", f.command, f.why));
        events.emit(Event::TaskDone { node: Some(node.clone()), what, error });
        applied
    });
    futures::future::join_all(work).await
}

async fn on_node(node: &NodeName, remote: &SharedRemote, changes: &[&Change], events: &Events) -> Applied {
    for (done, change) in changes.iter().enumerate() {
        for (nth, cmd) in change.commands.iter().enumerate() {
            let Err((why, gone)) = run(node, remote, cmd, events).await else { continue };
            let mut failure = ApplyFailure { command: cmd.display(), why, undone: Vec::new(), not_undone: Vec::new() };
            // A change that got half way is taken back like a whole one.
            let earlier = changes.get(..done + usize::from(nth > 0)).unwrap_or_default();
            let done = take_back(node, remote, earlier, gone, &mut failure, events).await;
            return Applied { node: node.clone(), done, failure: Some(failure) };
        }
    }
    Applied { node: node.clone(), done: changes.len(), failure: None }
}

/// Undoes the changes before a failure, last first, and counts those that stand. With the connection gone there is
/// no way to undo anything.
async fn take_back(
    node: &NodeName,
    remote: &SharedRemote,
    done: &[&Change],
    mut gone: bool,
    failure: &mut ApplyFailure,
    events: &Events,
) -> usize {
    let mut standing = 0;
    for change in done.iter().rev() {
        let mut stands = change.undo.is_empty();
        if stands {
            let way = "the playbook has no way back";
            failure.not_undone.push(format!("{} on {} ({way})", change.kind, change.interface));
        }
        for cmd in change.undo.iter().rev() {
            if gone {
                stands = true;
                failure.not_undone.push(format!("`{}` could not be run: the connection is lost", cmd.display()));
                continue;
            }
            match run(node, remote, cmd, events).await {
                Ok(()) => failure.undone.push(cmd.display()),
                Err((why, lost)) => {
                    gone = lost;
                    stands = true;
                    failure.not_undone.push(format!("`{}`: {why}", cmd.display()));
                }
            }
        }
        standing += usize::from(stands);
    }
    standing
}

/// Runs one command. The error says why, and whether the connection is gone.
async fn run(node: &NodeName, remote: &SharedRemote, cmd: &Cmd, events: &Events) -> Result<(), (String, bool)> {
    events.emit(Event::Command { node: node.clone(), line: cmd.display() });
    match remote.exec(cmd.clone()).await {
        Ok(output) if output.ok() => Ok(()),
        Ok(output) => Err((Output::describe(&output), false)),
        Err(e) => Err((e.to_string(), matches!(e, RemoteError::Lost(_) | RemoteError::Connect(_)))),
    }
}

#[cfg(test)]
mod tests;
