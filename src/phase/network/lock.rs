//! One operator at a time: a folder on the node, made by `mkdir`, which succeeds once.

use std::time::Duration;

use jiff::Timestamp;

use super::steps::{NetNode, PAUSE, is_lost};
use crate::model::network_facts::LockOwner;
use crate::parse::own_network;
use crate::phase::runtime::StepError;

/// A lock counts this much longer than the dead-man waits: an owner who is gone must not hold others up for ever.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// An unsigned lock is one that is being taken, or one whose taker died in between.
const UNSIGNED_TRIES: u32 = 10;

/// Who works at this desk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// `user@desk`.
    pub by: String,
    /// This process.
    pub pid: u32,
    /// When it began, RFC 3339.
    pub since: String,
}

impl Operator {
    /// This process.
    pub fn here() -> Self {
        let user = ["USER", "LOGNAME"].into_iter().find_map(|v| std::env::var(v).ok()).filter(|u| !u.is_empty());
        let desk = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let clean = |text: &str| text.chars().filter(char::is_ascii_graphic).collect::<String>();
        let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
        Operator {
            by: format!("{}@{}", clean(&user), clean(&desk)),
            pid: std::process::id(),
            since: Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string(),
        }
    }

    fn text(&self, until: i64) -> String {
        format!("by {}\npid {}\nsince {}\nuntil {until}\n", self.by, self.pid, self.since)
    }

    /// The same desk, and a process that is no more.
    fn buried(&self, owner: &LockOwner) -> bool {
        let pid = i32::try_from(owner.pid).ok().and_then(rustix::process::Pid::from_raw);
        let gone = pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
        owner.by == self.by && owner.pid != self.pid && gone
    }
}

/// Why a lock was not taken, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// Somebody else works on this node.
    Held(String),
    /// The node does not do as it is told.
    Failed(String),
}

impl From<String> for NotTaken {
    fn from(why: String) -> Self {
        NotTaken::Failed(why)
    }
}

impl From<NotTaken> for String {
    fn from(not: NotTaken) -> Self {
        match not {
            NotTaken::Held(why) | NotTaken::Failed(why) => why,
        }
    }
}

/// Takes the lock. A stale one is taken over and told.
pub(super) async fn take(node: &NetNode, operator: &Operator, window: Duration) -> Result<(), NotTaken> {
    let words = |e: StepError| e.to_string();
    node.run("make-folders").await.map_err(words)?;
    let mut tries = 0;
    while let Err(e) = node.run("take-lock").await {
        if is_lost(&e)
            || !matches!(e, StepError::Ended { .. })
            || !node.state().await.map_err(words)?.contains(&"lock".to_owned())
        {
            return Err(e.to_string().into());
        }
        let now = clock(node).await?;
        let read = node.answer("ask-lock", &[]).await.map_err(words)?;
        match own_network::lock(&read.text()) {
            Ok(owner) if operator.buried(&owner) || owner.until < now => {
                node.say(format!("the lock of {owner} is stale: its owner is gone; it is taken over"));
            }
            Ok(_) => {
                none_lives(node, operator).await.map_err(NotTaken::Held)?;
                return Err(NotTaken::Failed("its lock cannot be taken".to_owned()));
            }
            Err(_) if tries < UNSIGNED_TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(_) => node.say("a lock without an owner is stale; it is taken over"),
        }
        node.run("unlock").await.map_err(words)?;
    }
    Ok(sign(node, operator, window).await?)
}

/// Whether nobody who lives holds the lock.
///
/// # Errors
/// Who does, in words.
pub(super) async fn none_lives(node: &NetNode, operator: &Operator) -> Result<(), String> {
    let read = node.answer("ask-lock", &[]).await.map_err(|e| e.to_string())?;
    let Ok(owner) = own_network::lock(&read.text()) else { return Ok(()) };
    let left = owner.until - clock(node).await?;
    if operator.buried(&owner) || left < 0 {
        return Ok(());
    }
    Err(format!("{owner} changes its link networks now; if that process is gone, its lock ends by itself in {left} s"))
}

/// Writes into the lock until when it counts.
///
/// # Errors
/// In words.
pub(super) async fn sign(node: &NetNode, operator: &Operator, window: Duration) -> Result<(), String> {
    let lasts = i64::try_from((window + GRACE).as_secs()).unwrap_or(i64::MAX);
    let until = clock(node).await?.saturating_add(lasts);
    node.write("sign-lock", operator.text(until)).await.map(drop).map_err(|e| e.to_string())
}

/// Unix seconds by the node's clock: a desk's clock may differ.
async fn clock(node: &NetNode) -> Result<i64, String> {
    let output = node.run("ask-clock").await.map_err(|e| e.to_string())?;
    let text = output.text();
    text.trim()
        .parse()
        .map_err(|_| format!("its clock cannot be read: {}", crate::model::command::printable(text.trim())))
}
