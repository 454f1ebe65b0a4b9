//! `macluster node seed`: gives a model's files to other nodes, or takes them. What to do comes as the first line of
//! standard input; when that ends, the desk is gone, and so is this.

use std::future::Future;
use std::io::{BufRead, Read, Write};
use std::time::{Duration, Instant};

use clap::Subcommand;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::agent::seed::{Fetch, Offer, fetch, give, listen};

/// No line of what to do is longer: 32 MiB.
const MAX_LINE: u64 = 32 << 20;
/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(2);
/// Between two reports of progress.
const PACE: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Step {
    /// Give
    Offer,
    /// Take
    Fetch,
}

/// Runs it.
pub(super) async fn run(step: &Step) -> Result<(), String> {
    match step {
        Step::Offer => {
            let (offer, gone) = told::<Offer>()?;
            offer.list.check()?;
            let listeners = listen(&offer.listen).await?;
            let at: Vec<_> = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
            say(&serde_json::json!({"schema_version": 1, "at": at}))?;
            // Nobody is left who could be told of a desk that is gone.
            tokio::select! {
                given = until(gone, give(offer, listeners)) => given.unwrap_or(Ok(())),
                () = beats() => Ok(()),
            }
        }
        Step::Fetch => {
            let (wanted, gone) = told::<Fetch>()?;
            let (mut bytes, mut last) = (0, Instant::now());
            let mut progress = |more: u64| {
                bytes += more;
                if last.elapsed() >= PACE {
                    last = Instant::now();
                    let _ = say(&serde_json::json!({"bytes": bytes}));
                }
            };
            let fetched = until(gone, fetch(&wanted, &mut progress)).await;
            fetched.unwrap_or_else(|| Err("the desk is gone".to_owned()))
        }
    }
}

/// What to do, and the word that nobody waits for it any more.
fn told<T: DeserializeOwned>() -> Result<(T, oneshot::Receiver<()>), String> {
    let mut line = String::new();
    let wrong = |e: std::io::Error| format!("standard input: {e}");
    std::io::stdin().lock().take(MAX_LINE).read_line(&mut line).map_err(wrong)?;
    let what = serde_json::from_str(&line).map_err(|e| format!("standard input: {e}"))?;
    let (ended, gone) = oneshot::channel();
    // A thread of its own: the end of this process does not wait for it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    Ok((what, gone))
}

async fn until<T>(gone: oneshot::Receiver<()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = gone => None,
    }
}

/// Signs of life, until one cannot be said: without them a desk that vanished would not be missed.
async fn beats() {
    while say(&serde_json::json!({"beat": true})).is_ok() {
        tokio::time::sleep(BEAT).await;
    }
}

fn say(value: &serde_json::Value) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}").and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}
