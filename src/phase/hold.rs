//! The lock of operations: two desks never work on the runtime at once.
//!
//! Every node has one, a lock of its kernel. It is held by `macluster node hold`, which stays for as long as the desk's
//! connection does: however the desk dies, the lock goes with it, at once or when the node misses its sign of life. A
//! connection that is opened again takes it again first: nothing is done to a node without its lock, nor when another desk
//! has worked there meanwhile.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::runtime::RuntimeNode;
use super::standing::{self, NoLine, Standing, Start};
use crate::agent::hold::{Terms, WORK};
use crate::model::command::printable;
use crate::model::{NodeName, Stdin};
use crate::remote::SharedRemote;

/// For the holder to say that it has the lock, or who has it: it waits a while itself, for a desk that was just left.
const LIMIT: Duration = Duration::from_secs(40);

/// Held until dropped.
pub struct Hold(Arc<Mutex<Held>>);

/// What has to be known to take it again.
struct Held {
    node: RuntimeNode,
    step: &'static str,
    release: Option<String>,
    /// Who had worked there before; none when the holder is of an older macluster and does not say.
    after: Option<String>,
    /// Cancelled when work begins.
    work: CancellationToken,
    /// What holds it, on the connection that stands.
    holder: Standing,
}

fn look(lock: &Mutex<Held>) -> MutexGuard<'_, Held> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hold {
    fn new(node: &RuntimeNode, step: &'static str, release: Option<&str>, got: Got) -> Self {
        let Got { holder, after, work } = got;
        let release = release.map(str::to_owned);
        let hold = Arc::new(Mutex::new(Held { node: node.clone(), step, release, after, work, holder }));
        let weak = Arc::downgrade(&hold);
        node.remote.on_reopened(Box::new(move |remote| take_again(weak.clone(), remote).boxed()));
        Hold(hold)
    }

    /// Whose lock it is.
    pub fn node(&self) -> NodeName {
        look(&self.0).node.name.clone()
    }

    /// All locks are there, and something will be changed from now on. Who was only refused leaves no trace; who worked is
    /// told to a desk whose connection broke.
    pub fn begin_work(&self) {
        look(&self.0).work.cancel();
    }

    /// From now on this release has the program to take it again with: the one it was taken with goes with the staging folder.
    pub fn taken_again_with(&self, release: &str) {
        let mut held = look(&self.0);
        if held.step == "hold-with" {
            (held.step, held.release) = ("hold-release", Some(release.to_owned()));
        }
    }
}

/// On a connection that was opened again.
async fn take_again(lock: Weak<Mutex<Held>>, remote: SharedRemote) -> Result<(), String> {
    // Given back meanwhile: nothing needs it any more.
    let Some(lock) = lock.upgrade() else { return Ok(()) };
    let (node, step, release, terms, work) = {
        let held = look(&lock);
        let terms = Terms { run: run().to_owned(), after: held.after.clone(), works: held.work.is_cancelled() };
        (held.node.over(remote), held.step, held.release.clone(), terms, held.work.clone())
    };
    match ask(&node, step, release.as_deref(), &terms, work).await? {
        Some(got) => {
            look(&lock).holder = got.holder;
            Ok(())
        }
        None => Err("the connection broke, and the program that held the lock is not there any more".to_owned()),
    }
}

/// What a node says of its lock.
pub enum Answer {
    /// It is held for us.
    Held(Hold),
    /// There is no program yet that could hold it.
    NoProgram,
}

/// Takes all or none: the first node that can hold a lock decides who goes on, so that two desks that begin at the same
/// moment do not stop each other.
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

/// Takes a node's lock with this step of the playbook.
///
/// # Errors
/// Who has it, or why nobody can.
pub async fn take(node: &RuntimeNode, step: &'static str, release: Option<&str>) -> Result<Answer, String> {
    let terms = Terms { run: run().to_owned(), ..Terms::default() };
    let got = ask(node, step, release, &terms, CancellationToken::new()).await?;
    Ok(got.map_or(Answer::NoProgram, |got| Answer::Held(Hold::new(node, step, release, got))))
}

struct Got {
    holder: Standing,
    after: Option<String>,
    work: CancellationToken,
}

/// None when there is no program.
async fn ask(
    node: &RuntimeNode,
    step: &'static str,
    release: Option<&str>,
    terms: &Terms,
    work: CancellationToken,
) -> Result<Option<Got>, String> {
    let first = serde_json::to_string(terms).map_err(|e| e.to_string())?;
    let start = Start {
        step,
        release: release.map(str::to_owned),
        values: vec![("who", desk())],
        stdin: Stdin::Cued(format!("{first}\n").into_bytes(), work.clone(), format!("{WORK}\n").into_bytes()),
        limit: LIMIT,
    };
    let meanwhile = if terms.after.is_some() { "the connection broke, and meanwhile " } else { "" };
    match standing::start(node, start).await {
        Ok((holder, line)) => match line.split_once(' ') {
            Some(("held", rest)) => {
                let after = rest.strip_prefix("after ").map(str::to_owned);
                Ok(Some(Got { holder, after, work }))
            }
            Some(("busy", who)) => {
                Err(format!("{meanwhile}another operation on the runtime is under way: {}", printable(who)))
            }
            Some(("passed", who)) => {
                Err(format!("{meanwhile}another desk has worked on the runtime: {}", printable(who)))
            }
            _ => Err(format!("the lock's holder says something else: {}", printable(&line))),
        },
        // sudo ends with 1 where a shell would with 127.
        Err(NoLine::Ended(output))
            if matches!(output.exit, Some(126 | 127)) || output.err_text().contains("command not found") =>
        {
            Ok(None)
        }
        Err(NoLine::Ended(output)) => Err(format!("the lock cannot be held: {}", output.describe())),
        Err(NoLine::Failed(e)) => Err(format!("the lock cannot be held: {e}")),
        Err(NoLine::Silent) => Err(format!("nothing was heard of the lock within {} s", LIMIT.as_secs())),
    }
}

/// Names this run of macluster.
fn run() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| format!("{:016x}", RandomState::new().hash_one(std::process::id())))
}

/// Names this desk: user, host, process.
fn desk() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "somebody".to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{user}@{host}, process {}, since {:.0}", std::process::id(), jiff::Timestamp::now())
}
