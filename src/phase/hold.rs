//! One operation on the runtime at a time, whoever's desk it comes from.
//!
//! On every node a process of ours holds a lock of the kernel for as long as its SSH channel is open: a desk that dies,
//! however it dies, holds nothing any more a few seconds later, and no file says otherwise.

use std::future::Future;
use std::time::Duration;

use super::runtime::RuntimeNode;
use super::standing::{self, NoLine, Standing, Start};
use crate::model::Stdin;
use crate::model::command::printable;

/// For the holder to say that it has the lock, or who has it: it waits a while itself, for a desk that was just left.
const LIMIT: Duration = Duration::from_secs(40);

/// Held until dropped.
#[derive(Debug)]
pub struct Hold {
    _standing: Standing,
}

/// What a node says of its lock.
#[derive(Debug)]
pub enum Answer {
    /// It is held for us.
    Held(Hold),
    /// There is no program that could hold it.
    NoProgram,
}

/// Takes the locks of all nodes, one answer each. The first that can be held is taken alone, the others at once after it:
/// of two desks that begin at the same moment exactly one goes on, and the other one has nothing that the first could miss.
pub async fn take_all<'n, T, F>(nodes: impl Iterator<Item = &'n T>, take: impl Fn(&'n T) -> F) -> Vec<F::Output>
where
    T: 'n,
    F: Future<Output = Result<Answer, String>>,
{
    let mut nodes = nodes;
    let mut all = Vec::new();
    for node in nodes.by_ref() {
        let answer = take(node).await;
        let decided = !matches!(answer, Ok(Answer::NoProgram));
        let failed = answer.is_err();
        all.push(answer);
        if failed {
            // Nothing is asked of the others: what we would hold for a moment, the one who goes on could miss.
            return all;
        }
        if decided {
            break;
        }
    }
    all.extend(futures::future::join_all(nodes.map(take)).await);
    all
}

/// Takes a node's lock with this step of the playbook. `who` is shown to whoever comes second.
///
/// # Errors
/// Who has it, or why nobody can.
pub async fn take(node: &RuntimeNode, step: &'static str, release: Option<&str>, who: &str) -> Result<Answer, String> {
    let start = Start {
        step,
        release: release.map(str::to_owned),
        values: vec![("who", who.to_owned())],
        stdin: Stdin::Empty,
        limit: LIMIT,
    };
    match standing::start(node, start).await {
        Ok((standing, line)) => match line.split_once(' ') {
            Some(("held", _)) => Ok(Answer::Held(Hold { _standing: standing })),
            Some(("busy", who)) => Err(format!("another operation on the runtime is under way: {}", printable(who))),
            _ => Err(format!("the lock's holder says something else: {}", printable(&line))),
        },
        // sudo ends with 1 where a shell would with 127.
        Err(NoLine::Ended(output))
            if matches!(output.exit, Some(126 | 127)) || output.err_text().contains("command not found") =>
        {
            Ok(Answer::NoProgram)
        }
        Err(NoLine::Ended(output)) => Err(format!("the lock cannot be held: {}", output.describe())),
        Err(NoLine::Failed(e)) => Err(format!("the lock cannot be held: {e}")),
        Err(NoLine::Silent) => Err(format!("nothing was heard of the lock within {} s", LIMIT.as_secs())),
    }
}

/// Names this desk: user, host, process.
pub fn desk() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}, process {}, since {:.0}", std::process::id(), jiff::Timestamp::now())
}
