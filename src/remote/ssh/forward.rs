//! TCP connections opened by the node for us (SSH direct-tcpip).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::say;
use super::session::Session;
use crate::remote::{Duplex, RemoteError};

/// The node must get through to its end within this time.
const LIMIT: Duration = Duration::from_secs(15);

/// Opens one.
pub(super) async fn open(session: &Session, host: &str, port: u16) -> Result<Box<dyn Duplex>, RemoteError> {
    let too_late = |_| RemoteError::Timeout { command: format!("connect to {host}:{port}"), after: LIMIT };
    let permit = timeout(LIMIT, Arc::clone(&session.channels).acquire_owned()).await.map_err(too_late)?;
    let permit = permit.map_err(|_| RemoteError::Lost(session.end()))?;
    let stream = timeout(LIMIT, session.tcp(host, port)).await.map_err(too_late)?;
    match stream {
        Ok(stream) => Ok(Box::new(Counted { stream, _permit: permit })),
        Err(e @ russh::Error::ChannelOpenFailure(_)) => {
            Err(RemoteError::Refused(format!("it cannot connect to {host}:{port}: {}", say::broken(&e))))
        }
        Err(_) => Err(RemoteError::Lost(session.end())),
    }
}

/// A stream that counts as one of the session's channels until it is dropped.
struct Counted {
    stream: Box<dyn Duplex>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
