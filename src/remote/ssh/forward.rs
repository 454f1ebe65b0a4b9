//! TCP connections opened by the node for us (SSH direct-tcpip).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::say;
use super::session::Session;
use crate::remote::{Duplex, RemoteError};

/// The node must get through to its end within this time.
const LIMIT: Duration = Duration::from_secs(15);
/// Bytes kept for a reader that does not read. All channels share one connection, so none may hold it up: a reader
/// that falls further behind is cut off.
const BACKLOG: usize = 16 * 1024 * 1024;

/// Opens one.
pub(super) async fn open(session: &Session, host: &str, port: u16) -> Result<Box<dyn Duplex>, RemoteError> {
    let too_late = |_| RemoteError::Timeout { command: format!("connect to {host}:{port}"), after: LIMIT };
    let permit = timeout(LIMIT, Arc::clone(&session.forwards).acquire_owned()).await.map_err(too_late)?;
    let permit = permit.map_err(|_| RemoteError::Lost(session.end()))?;
    match timeout(LIMIT, session.tcp(host, port)).await.map_err(too_late)? {
        Ok(channel) => Ok(Box::new(Stream::new(channel, permit))),
        Err(e @ russh::Error::ChannelOpenFailure(_)) => {
            Err(RemoteError::Refused(format!("it cannot connect to {host}:{port}: {}", say::broken(&e))))
        }
        Err(_) => Err(RemoteError::Lost(session.end())),
    }
}

/// Both directions of one connection; counts as one of the session's forwards until it is dropped.
struct Stream {
    incoming: UnboundedReceiver<Vec<u8>>,
    backlog: Arc<AtomicUsize>,
    current: Vec<u8>,
    /// Bytes of `current` that were read.
    read: usize,
    outgoing: Pin<Box<dyn AsyncWrite + Send>>,
    _permit: OwnedSemaphorePermit,
}

impl Stream {
    fn new(channel: Channel<Msg>, permit: OwnedSemaphorePermit) -> Self {
        let (from, to) = channel.split();
        let outgoing = Box::pin(to.make_writer());
        let (sender, incoming) = unbounded_channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        tokio::spawn(drain(from, to, sender, Arc::clone(&backlog)));
        Stream { incoming, backlog, current: Vec::new(), read: 0, outgoing, _permit: permit }
    }
}

/// Takes what arrives off the connection at once; closes the channel when either end is through.
async fn drain(
    mut from: ChannelReadHalf,
    to: ChannelWriteHalf<Msg>,
    sender: UnboundedSender<Vec<u8>>,
    backlog: Arc<AtomicUsize>,
) {
    let mut ended = false;
    loop {
        tokio::select! {
            message = from.wait() => match message {
                Some(ChannelMsg::Data { data }) if !ended => {
                    let waiting = backlog.fetch_add(data.len(), Ordering::Relaxed);
                    if waiting > BACKLOG || sender.send(data.to_vec()).is_err() {
                        break;
                    }
                }
                // Nothing more comes; our own direction may still be in use.
                Some(ChannelMsg::Eof) => {
                    ended = true;
                    // An empty chunk is the end of file.
                    let _ = sender.send(Vec::new());
                }
                Some(ChannelMsg::Close) | None => break,
                Some(_) => {}
            },
            () = sender.closed() => break,
        }
    }
    let _ = to.close().await;
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.read >= this.current.len() {
            match ready!(this.incoming.poll_recv(cx)) {
                Some(chunk) if !chunk.is_empty() => (this.current, this.read) = (chunk, 0),
                _ => return Poll::Ready(Ok(())),
            }
        }
        let rest = this.current.get(this.read..).unwrap_or_default();
        let part = rest.get(..buf.remaining()).unwrap_or(rest);
        buf.put_slice(part);
        this.read += part.len();
        this.backlog.fetch_sub(part.len(), Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.outgoing.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.as_mut().poll_shutdown(cx)
    }
}
