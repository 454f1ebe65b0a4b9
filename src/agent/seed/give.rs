//! The side that has the model.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt, BufReader, SeekFrom};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Offer;
use super::wire::{HANDSHAKE, Reply, Request, copy, line_of, say};
use crate::agent::tls;

/// Nobody fetches for so long: whoever was to end this is gone.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// Connections at once; a rack has fewer nodes.
const MAX_CONNECTIONS: usize = 16;

/// Opens a port on each of the addresses. One that cannot be used, because its link went down, leaves the others.
///
/// # Errors
/// In words, with the addresses, when none can be used.
pub async fn listen(addresses: &[Ipv4Addr]) -> Result<Vec<TcpListener>, String> {
    let (mut open, mut bad) = (Vec::new(), Vec::new());
    for ip in addresses {
        match TcpListener::bind((*ip, 0)).await {
            Ok(listener) => open.push(listener),
            Err(e) => bad.push(format!("cannot listen on {ip}: {e}")),
        }
    }
    if open.is_empty() { Err(bad.join("; ")) } else { Ok(open) }
}

/// When something was last given.
struct Activity {
    began: Instant,
    /// Milliseconds after that.
    last: AtomicU64,
}

impl Activity {
    fn touch(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Waits until nothing was given for so long.
    async fn over(&self, limit: Duration) {
        loop {
            let quiet = self.began.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)));
            match limit.checked_sub(quiet) {
                None | Some(Duration::ZERO) => return,
                Some(rest) => tokio::time::sleep(rest).await,
            }
        }
    }
}

/// Gives to whoever has a certificate of this push, until it is dropped or nobody has fetched anything for five minutes.
///
/// # Errors
/// In words, when the certificates cannot be used.
pub async fn give(offer: Offer, listeners: Vec<TcpListener>) -> Result<(), String> {
    give_until(offer, listeners, IDLE_LIMIT).await
}

pub(super) async fn give_until(offer: Offer, listeners: Vec<TcpListener>, idle: Duration) -> Result<(), String> {
    let activity = Arc::new(Activity { began: Instant::now(), last: AtomicU64::new(0) });
    let acceptor = tls::acceptor(&offer.identity)?;
    let (offer, places) = (Arc::new(offer), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let accepting = listeners.into_iter().map(|listener| {
        let (acceptor, offer, places) = (acceptor.clone(), Arc::clone(&offer), Arc::clone(&places));
        let activity = Arc::clone(&activity);
        async move {
            let mut asked = tokio::task::JoinSet::new();
            loop {
                while asked.try_join_next().is_some() {}
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (acceptor, offer) = (acceptor.clone(), Arc::clone(&offer));
                        let activity = Arc::clone(&activity);
                        asked.spawn(async move {
                            // Who asks learns of trouble by the end of the connection, and says so to the desk.
                            let _ = answer(stream, &acceptor, &offer, &activity).await;
                            drop(place);
                        });
                    }
                    // Out of file descriptors, or the link went down for a moment.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
    });
    tokio::select! {
        _ = futures::future::join_all(accepting) => {}
        () = activity.over(idle) => {}
    }
    Ok(())
}

async fn answer(stream: TcpStream, acceptor: &TlsAcceptor, offer: &Offer, activity: &Activity) -> std::io::Result<()> {
    let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(|_| late())??;
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    loop {
        let line = line_of(&mut read).await?;
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return Ok(()) };
        let (mut content, bytes) = match wanted_file(offer, &request).await {
            Ok(found) => found,
            Err(why) => return say(&mut write, &Reply::Refused(why)).await,
        };
        say(&mut write, &Reply::Given).await?;
        copy(&mut content, &mut write, bytes, &mut |_| activity.touch()).await?;
        write.flush().await?;
    }
}

/// The file that is asked for, at the byte that is asked for, and how many are left from there.
async fn wanted_file(offer: &Offer, request: &Request) -> Result<(File, u64), String> {
    let file = offer.list.files.iter().find(|f| f.path == request.path && request.from <= f.size);
    let file = file.ok_or("the model has no such file")?;
    let trouble = |e: std::io::Error| format!("it cannot be read: {e}");
    let mut content = File::open(offer.folder.join(&file.path)).await.map_err(trouble)?;
    let size = content.metadata().await.map_err(trouble)?.len();
    if size != file.size {
        return Err(format!("it has {size} bytes there, {} are listed", file.size));
    }
    content.seek(SeekFrom::Start(request.from)).await.map_err(trouble)?;
    Ok((content, file.size - request.from))
}
