//! What is said between the two: a line of JSON for each request and reply, then the bytes.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// For a connection and its handshake.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The other side says or takes nothing for so long.
const STALLED: Duration = Duration::from_secs(30);
/// Longest request or reply, bytes: a path and a number, or a reason.
const MAX_REQUEST: u64 = 8 * 1024;
/// Read and written at once, bytes.
pub(super) const CHUNK: usize = 1 << 20;

/// One file, from this byte on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) from: u64,
}

/// What comes before the bytes of a file, or instead of them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Given,
    Refused(String),
}

pub(super) async fn say(to: &mut (impl AsyncWrite + Unpin), what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what)?;
    to.write_all(format!("{line}\n").as_bytes()).await?;
    to.flush().await
}

pub(super) async fn line_of(from: &mut (impl AsyncBufReadExt + Unpin)) -> Result<String> {
    let late = || Error::from(ErrorKind::TimedOut);
    let mut line = String::new();
    timeout(STALLED, from.take(MAX_REQUEST).read_line(&mut line)).await.map_err(|_| late())??;
    Ok(line)
}

/// Copies exactly so many bytes; telling how many each time.
pub(super) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<()> {
    let late = || Error::new(ErrorKind::TimedOut, format!("nothing moved for {} s", STALLED.as_secs()));
    let (mut left, mut chunk) = (bytes, vec![0; CHUNK]);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let got = timeout(STALLED, from.read(&mut chunk[..most])).await.map_err(|_| late())??;
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        timeout(STALLED, to.write_all(&chunk[..got])).await.map_err(|_| late())??;
        left -= got as u64;
        progress(got as u64);
    }
    Ok(())
}
