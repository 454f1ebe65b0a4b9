//! When the idle completion is due, and what its failures mean.

use std::net::SocketAddr;
use std::time::Instant;

use jiff::Timestamp;

use super::probe;

/// Completions that fail one after the other, with signs of life all the while, before the engines are started again.
const PROOFS: u32 = 2;

/// The idle completion.
pub(super) struct Proof {
    api: Option<SocketAddr>,
    running: Option<tokio::task::JoinHandle<Result<(), String>>>,
    last: Instant,
    failed: u32,
}

impl Proof {
    /// Of this API; without one nothing is asked.
    pub(super) fn new(api: Option<SocketAddr>, now: Instant) -> Self {
        Proof { api, running: None, last: now, failed: 0 }
    }

    /// Asks for a token when none was seen for a while; says when none comes, again and again.
    pub(super) fn step(&mut self, serving: bool, last_token: Option<Timestamp>, now: Instant) -> Option<String> {
        if !serving {
            if let Some(running) = self.running.take() {
                running.abort();
            }
            (self.last, self.failed) = (now, 0);
            return None;
        }
        if let Some(running) = self.running.take_if(|r| r.is_finished()) {
            self.last = now;
            // Finished, so this does not wait.
            match futures::FutureExt::now_or_never(running) {
                Some(Ok(Ok(()))) => self.failed = 0,
                Some(Ok(Err(why))) => {
                    self.failed += 1;
                    if self.failed >= PROOFS {
                        self.failed = 0;
                        return Some(format!("the engines show signs of life, but a test of one token failed: {why}"));
                    }
                }
                _ => {}
            }
        }
        let api = self.api?;
        let fresh = last_token.is_some_and(|at| Timestamp::now().duration_since(at).unsigned_abs() < probe::IDLE);
        if self.running.is_none() && !fresh && now.saturating_duration_since(self.last) >= probe::IDLE {
            self.running = Some(tokio::spawn(probe::one_token(api)));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// An API that answers with the status it is told, and counts who asked.
    async fn api() -> (SocketAddr, Arc<AtomicU16>, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("bound");
        let (status, asked) = (Arc::new(AtomicU16::new(200)), Arc::new(AtomicU32::new(0)));
        let (says, counts) = (Arc::clone(&status), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.expect("a request");
                assert!(request[..read].starts_with(b"POST /v1/completions "));
                counts.fetch_add(1, Ordering::SeqCst);
                let status = says.load(Ordering::SeqCst);
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.expect("answered");
            }
        });
        (at, status, asked)
    }

    /// Half a minute later, and then until the question that was asked is answered.
    async fn later(proof: &mut Proof, now: &mut Instant) -> Option<String> {
        *now += probe::IDLE;
        assert_eq!(proof.step(true, None, *now), None);
        while proof.running.as_ref().is_some_and(|r| !r.is_finished()) {
            tokio::task::yield_now().await;
        }
        proof.step(true, None, *now)
    }

    #[tokio::test]
    async fn a_service_that_nobody_asks_is_asked_and_two_failures_in_a_row_accuse_it() {
        let (at, status, asked) = api().await;
        let mut now = Instant::now();
        let mut proof = Proof::new(Some(at), now);
        // Not before the time, and not when a token was seen.
        assert_eq!(proof.step(true, None, now + probe::IDLE / 2), None);
        assert_eq!(proof.step(true, Some(Timestamp::now()), now + probe::IDLE), None);
        assert!(proof.running.is_none());
        assert_eq!(later(&mut proof, &mut now).await, None);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // Busy is alive.
        status.store(503, Ordering::SeqCst);
        for _ in 0..3 {
            assert_eq!(later(&mut proof, &mut now).await, None);
        }
        // One failure may be chance; a success in between clears it.
        for (answer, accused) in [(500, false), (200, false), (500, false), (500, true), (500, false)] {
            status.store(answer, Ordering::SeqCst);
            let said = later(&mut proof, &mut now).await;
            assert_eq!(said.is_some(), accused, "{answer}: {said:?}");
            assert!(said.is_none_or(|why| why.contains("a test of one token failed: HTTP 500")));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 9);
    }

    #[tokio::test]
    async fn what_does_not_serve_is_not_asked() {
        let (at, _, asked) = api().await;
        let now = Instant::now();
        let mut proof = Proof::new(Some(at), now);
        assert_eq!(proof.step(false, None, now + Duration::from_secs(3600)), None);
        assert_eq!(proof.step(true, None, now + Duration::from_secs(3601)), None, "the time begins anew");
        assert!(proof.running.is_none());
        let mut without = Proof::new(None, now);
        assert_eq!(without.step(true, None, now + probe::IDLE), None);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
    }
}
