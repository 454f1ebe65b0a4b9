//! Streams a command's standard input: bytes, a local file, or an archive built on the way. The node's window sets
//! the pace, so that memory holds a few chunks at most.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use russh::ChannelWriteHalf;
use russh::client::Msg;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::model::Stdin;
use crate::model::command::{TarEntry, TarSource};
use crate::remote::OnSent;

/// Read from disk at once.
const CHUNK: usize = 128 * 1024;

/// Why not everything was sent.
#[derive(Debug)]
pub(super) enum FeedError {
    /// A local file cannot be read, or changed meanwhile.
    Local(String),
    /// The command reads no more; that is its own business.
    Closed,
}

/// Sends everything; the end of file is the caller's to send, or not.
pub(super) async fn feed(
    stdin: Stdin,
    to: &ChannelWriteHalf<Msg>,
    on_sent: &mut Option<OnSent>,
) -> Result<(), FeedError> {
    let mut chunks = match stdin {
        Stdin::Empty => return Ok(()),
        Stdin::Bytes(bytes) | Stdin::Lifeline(bytes) | Stdin::Until(bytes, _) | Stdin::Cued(bytes, ..) => {
            let length = bytes.len() as u64;
            to.data_bytes(bytes).await.map_err(|_| FeedError::Closed)?;
            if let Some(on_sent) = on_sent {
                on_sent(length);
            }
            return Ok(());
        }
        Stdin::File(path) => produce(move |out| {
            let mut file = File::open(&path).map_err(|e| named(&path, &e))?;
            io::copy(&mut file, out).map_err(|e| named(&path, &e)).map(drop)
        }),
        Stdin::Tar(entries) => produce(move |out| archive(&entries, out)),
    };
    let mut sent = 0;
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.map_err(|e| FeedError::Local(e.to_string()))?;
        sent += chunk.len() as u64;
        to.data_bytes(chunk).await.map_err(|_| FeedError::Closed)?;
        if let Some(on_sent) = on_sent {
            on_sent(sent);
        }
    }
    Ok(())
}

type Chunk = io::Result<Vec<u8>>;

/// Runs `work` on a thread of its own; what it writes arrives in chunks.
fn produce(work: impl FnOnce(&mut Chunks) -> io::Result<()> + Send + 'static) -> Receiver<Chunk> {
    let (sender, receiver) = channel(4);
    tokio::task::spawn_blocking(move || {
        let mut chunks = Chunks { sender, pending: Vec::with_capacity(CHUNK) };
        if let Err(e) = work(&mut chunks).and_then(|()| chunks.flush()) {
            // Nobody listens any more when the command ended early.
            let _ = chunks.sender.blocking_send(Err(e));
        }
    });
    receiver
}

/// Collects writes to chunks.
struct Chunks {
    sender: Sender<Chunk>,
    pending: Vec<u8>,
}

impl Write for Chunks {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let taken = data.len().min(CHUNK - self.pending.len());
        self.pending.extend(data.iter().take(taken));
        if self.pending.len() >= CHUNK {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.pending, Vec::with_capacity(CHUNK));
        self.sender.blocking_send(Ok(chunk)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// A plain archive: regular files only, owned by root, without times, so that equal files give equal bytes.
fn archive(entries: &[TarEntry], out: &mut Chunks) -> io::Result<()> {
    let mut builder = tar::Builder::new(out);
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(entry.size);
        header.set_mode(entry.mode & 0o7777);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        let source = match &entry.source {
            TarSource::File(path) => path,
            TarSource::Bytes(bytes) => {
                builder.append_data(&mut header, &entry.path, bytes.as_slice())?;
                continue;
            }
        };
        let file = File::open(source).map_err(|e| named(source, &e))?;
        let found = file.metadata().map_err(|e| named(source, &e))?;
        if !found.is_file() || found.len() != entry.size {
            return Err(io::Error::other(format!(
                "{} has {} bytes instead of {}: it changed while it was sent",
                source.display(),
                found.len(),
                entry.size
            )));
        }
        let mut counted = Counted { file: file.take(entry.size), left: entry.size };
        builder.append_data(&mut header, &entry.path, &mut counted).map_err(|e| named(source, &e))?;
        if counted.left > 0 {
            return Err(io::Error::other(format!("{} became shorter while it was sent", source.display())));
        }
    }
    builder.finish()
}

/// Counts what is read, to notice a file that shrinks.
struct Counted<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buf)?;
        self.left = self.left.saturating_sub(n as u64);
        Ok(n)
    }
}

fn named(path: &Path, e: &io::Error) -> io::Error {
    if e.kind() == io::ErrorKind::BrokenPipe {
        return e.kind().into();
    }
    io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()))
}
