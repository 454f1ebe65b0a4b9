//! A command that stays on a node for as long as somebody at the desk wants it: known by the first line that it says, ended
//! when it is dropped.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::runtime::{RuntimeNode, StepError};
use crate::model::{Output, Stdin};

/// Longest first line, bytes: the rest of a longer one is not kept, and neither is anything after it.
const MAX_LINE: usize = 64 * 1024;

/// Stays until dropped.
#[derive(Debug)]
pub struct Standing(JoinHandle<()>);

impl Drop for Standing {
    fn drop(&mut self) {
        // Its channel goes with the command, and with the channel its standard input and output.
        self.0.abort();
    }
}

/// Which command.
pub struct Start {
    /// Step of the playbook.
    pub step: &'static str,
    /// The release that it is about.
    pub release: Option<String>,
    /// Values of placeholders.
    pub values: Vec<(&'static str, String)>,
    /// Its standard input.
    pub stdin: Stdin,
    /// For its first line.
    pub limit: Duration,
}

/// Why there is no first line.
#[derive(Debug)]
pub enum NoLine {
    /// It ended without one.
    Ended(Output),
    /// It could not be run.
    Failed(StepError),
    /// Nothing came in time.
    Silent,
}

/// Starts it and waits for its first line.
///
/// # Errors
/// Why there is none; then nothing of it stays.
pub async fn start(node: &RuntimeNode, what: Start) -> Result<(Standing, String), NoLine> {
    let (said, line) = oneshot::channel::<String>();
    let (mut said, mut begun) = (Some(said), Vec::new());
    let first_line = move |chunk: &[u8]| {
        if said.is_none() {
            return;
        }
        begun.extend_from_slice(chunk.get(..MAX_LINE.saturating_sub(begun.len())).unwrap_or(chunk));
        let end = begun.iter().position(|b| *b == b'\n');
        if let Some(end) = end.or((begun.len() >= MAX_LINE).then_some(begun.len())) {
            let text = String::from_utf8_lossy(begun.get(..end).unwrap_or_default()).into_owned();
            let _ = said.take().map(|s| s.send(text));
        }
    };
    let (ended, end) = oneshot::channel();
    let node = node.clone();
    let Start { step, release, values, stdin, limit } = what;
    let standing = Standing(tokio::spawn(async move {
        let mut call = node.step(step).stdin(stdin).on_output(Box::new(first_line));
        if let Some(id) = release.as_deref() {
            call = call.release(id);
        }
        let call = values.into_iter().fold(call, |call, (name, value)| call.with(name, value));
        let _ = ended.send(call.answer().await);
    }));
    let waited = tokio::time::timeout(limit, async {
        tokio::select! {
            biased;
            Ok(line) = line => Ok(line),
            Ok(output) = end => Err(output),
            else => std::future::pending().await,
        }
    });
    match waited.await {
        Ok(Ok(line)) => Ok((standing, line)),
        Ok(Err(Ok(output))) => Err(NoLine::Ended(output)),
        Ok(Err(Err(e))) => Err(NoLine::Failed(e)),
        Err(_) => Err(NoLine::Silent),
    }
}
