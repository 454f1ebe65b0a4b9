//! The dead-man: a job on the node that takes a change back unless a new SSH session confirms it. The node's side is
//! `templates/restore.sh`.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use super::lock::{self, Operator};
use super::steps::{NetNode, PAUSE, is_lost};
use crate::model::command::printable;
use crate::model::network_facts::DEADMAN_JOB;
use crate::network::persist::deadman_job;
use crate::phase::runtime::StepError;
use crate::playbook::Scripts;

/// For the job to run after it was loaded.
const START: Duration = Duration::from_secs(20);
/// For the node to go back once it has begun.
const RESTORE: Duration = Duration::from_secs(90);

/// An armed dead-man of one node, as the desk sees it.
pub(super) struct Armed {
    window: Duration,
    operator: Operator,
    last: Mutex<(Instant, SystemTime)>,
    beats: Mutex<u64>,
}

impl Armed {
    /// Time since the last beat. The larger of two clocks: one of them stands still while the desk sleeps, the other
    /// may be set.
    fn since(&self) -> Duration {
        let (instant, system) = *self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        instant.elapsed().max(SystemTime::now().duration_since(system).unwrap_or_default())
    }

    fn now(&self) {
        *self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (Instant::now(), SystemTime::now());
    }

    /// The longest a command may take so that it surely ends before the node goes back.
    pub(super) fn limit(&self) -> Duration {
        self.window / 2
    }

    /// How long until the next sign of life is due: early enough that one may get lost.
    pub(super) fn pause(&self) -> Duration {
        (self.window / 4).saturating_sub(self.since())
    }

    /// Whether a command may still be begun.
    ///
    /// # Errors
    /// This desk was held up for so long that the node has gone back, or is about to.
    pub(super) fn in_time(&self) -> Result<(), String> {
        let since = self.since();
        if since + self.limit() <= self.window {
            return Ok(());
        }
        Err(format!("this desk was held up for {} s: the node takes the change back", since.as_secs()))
    }
}

/// Installs and arms it, and makes sure that it really watches.
///
/// # Errors
/// In words; nothing is armed then.
pub(super) async fn arm(
    node: &NetNode,
    scripts: &Scripts,
    boot: &str,
    window: Duration,
    operator: &Operator,
) -> Result<Armed, String> {
    let words = |e: StepError| e.to_string();
    install(node, scripts).await?;
    let armed = Armed {
        window,
        operator: operator.clone(),
        last: Mutex::new((Instant::now(), SystemTime::now())),
        beats: Mutex::new(0),
    };
    node.write("write-armed", format!("{}\n{boot}\nbefore\n", window.as_secs())).await.map_err(words)?;
    node.run("arm").await.map_err(words)?;
    let started = start(node).await;
    if let Err(why) = started {
        // Without it nothing is changed; what was armed must not fire later.
        let _ = node.run("confirm").await;
        let _ = node.job("unload", DEADMAN_JOB).await;
        let _ = node.run("disarm").await;
        return Err(why);
    }
    armed.now();
    Ok(armed)
}

/// Lays script and job down, with no such job loaded.
pub(super) async fn install(node: &NetNode, scripts: &Scripts) -> Result<(), String> {
    let words = |e: StepError| e.to_string();
    node.job("unload", DEADMAN_JOB).await.map_err(words)?;
    node.write("write-restore", scripts.restore.text.clone()).await.map_err(words)?;
    let job = deadman_job(node.root())?;
    node.write("write-deadman", job).await.map_err(words)?;
    node.run("own-deadman").await.map(drop).map_err(words)
}

/// Loads the job and waits until it runs.
async fn start(node: &NetNode) -> Result<(), String> {
    node.job("load", DEADMAN_JOB).await.map_err(|e| e.to_string())?;
    let begun = Instant::now();
    loop {
        let output = node.answer("ask-job", &[("label", DEADMAN_JOB)]).await.map_err(|e| e.to_string())?;
        if output.ok() && output.text().lines().any(|l| l.trim() == "state = running") {
            return Ok(());
        }
        if begun.elapsed() > START {
            return Err(format!("launchd did not start the dead-man {DEADMAN_JOB}: nothing was changed"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts the wait anew, and the lock's time with it.
///
/// # Errors
/// The node has gone back, or is about to; or cannot be asked.
pub(super) async fn beat(node: &NetNode, armed: &Armed) -> Result<(), String> {
    let late = armed.since() * 10 > armed.window * 7;
    let nth = {
        let mut beats = armed.beats.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *beats += 1;
        *beats
    };
    let token = format!("{} {} {nth}\n", armed.operator.by, armed.operator.pid);
    node.write("beat", token).await.map_err(|e| e.to_string())?;
    if late {
        // It may have decided in the same moment: look once more after its next tick.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    node.run("ask-armed").await.map_err(|_| "the node has taken the change back by itself".to_owned())?;
    armed.now();
    lock::sign(node, &armed.operator, armed.window).await
}

/// What became of a node that goes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Back {
    /// It has gone back; its own log.
    Done(Vec<String>),
    /// It cannot be seen. It goes back by itself.
    Unseen(String),
}

/// Lets the node go back now, and waits for it.
pub(super) async fn give_back(node: &NetNode) -> Back {
    match node.run("fire").await {
        // Ended: gone already, or never armed; looked at below.
        Ok(_) | Err(StepError::Ended { .. }) => {}
        Err(e) => return Back::Unseen(e.to_string()),
    }
    wait_back(node, RESTORE).await
}

/// Waits until the node has gone back.
pub(super) async fn wait_back(node: &NetNode, limit: Duration) -> Back {
    let begun = Instant::now();
    let mut lost = 0;
    loop {
        match node.state().await {
            Ok(names) if names.iter().any(|n| n == "reverted") => {
                let told = node.answer("ask-reverted", &[]).await.map(|o| o.text()).unwrap_or_default();
                let lines = told.lines().filter(|l| l.contains('T') && l.contains(' ')).map(printable).collect();
                let _ = node.job("unload", DEADMAN_JOB).await;
                return Back::Done(lines);
            }
            Ok(names) if !names.iter().any(|n| n == "fire" || n == "armed") => {
                return Back::Done(vec!["nothing was armed: nothing was changed".to_owned()]);
            }
            Ok(_) => {}
            Err(e) if is_lost(&e) => return Back::Unseen(e.to_string()),
            // The node may be busy with itself.
            Err(e) => {
                lost += 1;
                if lost > 5 {
                    return Back::Unseen(e.to_string());
                }
            }
        }
        if begun.elapsed() > limit {
            return Back::Unseen(format!(
                "it has not gone back within {} s: see /opt/macluster/var/log/deadman.log there",
                limit.as_secs()
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// An earlier change that waits for a confirmation that will not come: waits until the node has gone back.
///
/// # Errors
/// In words.
pub(super) async fn settle_earlier(node: &NetNode, scripts: &Scripts) -> Result<bool, String> {
    let names = node.state().await.map_err(|e| e.to_string())?;
    if !names.iter().any(|n| n == "armed" || n == "fire") {
        return Ok(false);
    }
    let text = node.answer("ask-armed", &[]).await.map(|o| o.text()).unwrap_or_default();
    let seconds = text.lines().find_map(|l| l.trim().parse().ok()).unwrap_or(60);
    // Cut off between the arming and the job's start, or between the job's removal and the end: nobody would ever finish.
    let watched = node.answer("ask-job", &[("label", DEADMAN_JOB)]).await.map_err(|e| e.to_string())?;
    if !watched.ok() {
        install(node, scripts).await?;
        // It may be done before anybody sees it run: what it does is waited for below.
        node.job("load", DEADMAN_JOB).await.map_err(|e| e.to_string())?;
    }
    node.say(format!("an earlier change was cut off; the node takes it back within {seconds} s: waiting for that"));
    match wait_back(node, Duration::from_secs(seconds) + RESTORE).await {
        Back::Done(_) => Ok(true),
        Back::Unseen(why) => Err(format!("an earlier change was cut off and is not taken back: {why}")),
    }
}

/// Confirms over this connection: from here on the change stands.
///
/// # Errors
/// The node has gone back by itself, or cannot be asked.
pub(super) async fn confirm(node: &NetNode) -> Result<(), StepError> {
    node.run("confirm").await.map(drop)
}

/// Takes the dead-man away after the confirmation. Nothing depends on it: a job without anything armed does nothing.
pub(super) async fn disarm(node: &NetNode) -> Result<(), StepError> {
    node.job("unload", DEADMAN_JOB).await?;
    node.run("disarm").await.map(drop)
}
