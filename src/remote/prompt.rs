//! Questions to the person at the terminal: asked one at a time, and never counted against a time limit.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Asks the person. Implemented by `view::prompt::Terminal`, and by tests.
pub trait Prompt: Send + Sync {
    /// A secret, not echoed. None: there is no terminal, or the person gave up.
    fn ask_secret(&self, question: &str) -> Option<String>;
    /// Yes or no. None: there is no terminal.
    fn confirm(&self, question: &str) -> Option<bool>;
}

/// A prompt for work without a terminal: answers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Prompt for Nobody {
    fn ask_secret(&self, _question: &str) -> Option<String> {
        None
    }

    fn confirm(&self, _question: &str) -> Option<bool> {
        None
    }
}

/// One question at a time, whoever asks, off the async threads.
#[derive(Clone)]
pub(crate) struct Asker {
    prompt: Arc<dyn Prompt>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Asker {
    pub(crate) fn new(prompt: Arc<dyn Prompt>) -> Self {
        Asker { prompt, turn: Arc::default() }
    }

    pub(crate) async fn secret(&self, question: String) -> Option<String> {
        let _turn = self.turn.lock().await;
        let prompt = Arc::clone(&self.prompt);
        tokio::task::spawn_blocking(move || prompt.ask_secret(&question)).await.ok().flatten()
    }

    /// Waits for the terminal, which is then kept until the answer is acted upon.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn { _terminal: self.turn.lock().await, prompt: &self.prompt }
    }
}

/// The terminal, for one question.
pub(crate) struct Turn<'a> {
    _terminal: tokio::sync::MutexGuard<'a, ()>,
    prompt: &'a Arc<dyn Prompt>,
}

impl Turn<'_> {
    pub(crate) async fn confirm(&self, question: String) -> Option<bool> {
        let prompt = Arc::clone(self.prompt);
        tokio::task::spawn_blocking(move || prompt.confirm(&question)).await.ok().flatten()
    }
}

/// A time limit that stands still while a person is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limit {
    waits: Arc<Mutex<Waits>>,
}

#[derive(Debug, Default)]
struct Waits {
    over: Duration,
    since: Option<Instant>,
}

impl Limit {
    /// Runs a question; its time does not count.
    pub(crate) async fn paused<T>(&self, question: impl Future<Output = T>) -> T {
        self.change(|waits| waits.since = Some(Instant::now()));
        let answer = question.await;
        self.change(|waits| {
            if let Some(since) = waits.since.take() {
                waits.over += since.elapsed();
            }
        });
        answer
    }

    /// Runs `work` for at most `limit`, pauses not counted. None when the time is over.
    pub(crate) async fn run<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let start = Instant::now();
        tokio::pin!(work);
        loop {
            let waited = self.change(|waits| waits.over + waits.since.map_or(Duration::ZERO, |s| s.elapsed()));
            let left = (limit + waited).checked_sub(start.elapsed())?;
            // While a question is open the time left does not shrink: look again now and then.
            let nap = left.max(Duration::from_millis(20));
            tokio::select! {
                done = &mut work => return Some(done),
                () = tokio::time::sleep(nap) => {}
            }
        }
    }

    fn change<T>(&self, with: impl FnOnce(&mut Waits) -> T) -> T {
        with(&mut self.waits.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pause_does_not_count_and_work_does() {
        let limit = Limit::default();
        let slow = async {
            limit.paused(tokio::time::sleep(Duration::from_millis(300))).await;
            7
        };
        assert_eq!(limit.run(Duration::from_millis(100), slow).await, Some(7));
        let stuck = std::future::pending::<()>();
        assert_eq!(limit.run(Duration::from_millis(50), stuck).await, None);
    }
}
