//! The side that lacks it.

use std::path::Path;

use tokio::fs::File;
use tokio::io::{AsyncSeekExt, AsyncWriteExt, BufReader, SeekFrom};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Fetch;
use super::wire::{HANDSHAKE, Reply, Request, copy, line_of, say};
use crate::agent::store::{INCOMING, ModelFile};
use crate::agent::tls;
use crate::model::command::printable;

/// Where parts of files arrive, inside the folder for what arrives; hidden, as no file of a model is.
pub(super) const PARTS: &str = ".parts";

/// Fetches the files into the folder for what arrives; what had arrived of one before is not asked for again. Nothing is
/// proven here: taking in does that. `progress` is told bytes each time.
///
/// # Errors
/// In words; what has arrived stays.
pub async fn fetch(wanted: &Fetch, progress: &mut (dyn FnMut(u64) + Send)) -> Result<(), String> {
    wanted.list.check()?;
    let trouble = |e: std::io::Error| format!("cannot reach {}: {e}", wanted.from);
    let connector = tls::connector(&wanted.identity)?;
    let late = |_| format!("{} does not answer within {} s", wanted.from, HANDSHAKE.as_secs());
    let stream = timeout(HANDSHAKE, TcpStream::connect(wanted.from)).await.map_err(late)?.map_err(trouble)?;
    let stream = timeout(HANDSHAKE, connector.connect(tls::name_of(0)?, stream)).await.map_err(late)?;
    let (read, mut write) = tokio::io::split(stream.map_err(trouble)?);
    let mut read = BufReader::new(read);
    for file in &wanted.list.files {
        let part = wanted.folder.join(INCOMING).join(PARTS).join(&file.sha256);
        let place = wanted.folder.join(INCOMING).join(&file.path);
        let here = |e: std::io::Error| format!("cannot write {}: {e}", place.display());
        let (mut target, from) = resume(&part, file).await.map_err(here)?;
        let told = |why: String| format!("{} from {}: {why}", file.path, wanted.from);
        let broke = |e: std::io::Error| told(e.to_string());
        say(&mut write, &Request { path: file.path.clone(), from }).await.map_err(broke)?;
        match serde_json::from_str(&line_of(&mut read).await.map_err(broke)?) {
            Ok(Reply::Given) => {}
            Ok(Reply::Refused(why)) => return Err(told(printable(&why))),
            Err(_) => return Err(told("the connection ended".to_owned())),
        }
        progress(from);
        copy(&mut read, &mut target, file.size - from, progress).await.map_err(broke)?;
        target.flush().await.map_err(here)?;
        if let Some(parent) = place.parent() {
            tokio::fs::create_dir_all(parent).await.map_err(here)?;
        }
        tokio::fs::rename(&part, &place).await.map_err(here)?;
    }
    Ok(())
}

/// The part of a file that has arrived, open at its end, and how much it is. It is named by its content's hash: what is left
/// of another revision of the model is not gone on with.
async fn resume(part: &Path, file: &ModelFile) -> std::io::Result<(File, u64)> {
    if let Some(parent) = part.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    let mut target = File::options().create(true).write(true).truncate(false).open(part).await?;
    let there = target.metadata().await?.len();
    let from = if there <= file.size { there } else { 0 };
    target.set_len(from).await?;
    target.seek(SeekFrom::Start(from)).await?;
    Ok((target, from))
}
