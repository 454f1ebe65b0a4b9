//! A node that has a model gives its files to nodes that lack them. Mutual TLS with certificates of this one push; only
//! the files of the list can be asked for, and nothing is said to anybody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::fs::File;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, BufReader, SeekFrom,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::certify::Identity;
use super::store::{INCOMING, ModelFile, ModelList};
use super::tls;

/// For a connection and its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The other side says or takes nothing for so long.
const STALLED: Duration = Duration::from_secs(30);
/// Longest request, bytes: a path and a number.
const MAX_REQUEST: u64 = 8 * 1024;
/// Connections at once; a rack has fewer nodes.
const MAX_CONNECTIONS: usize = 16;
/// Read and written at once, bytes.
const CHUNK: usize = 1 << 20;

/// What a giving node is told, on its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// Rank 0 of this push's authority.
    pub identity: Identity,
    /// Own addresses on the links to those who ask.
    pub listen: Vec<Ipv4Addr>,
    /// Where the model is.
    pub folder: PathBuf,
    /// Its files.
    pub list: ModelList,
}

/// What a taking node is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Any other rank.
    pub identity: Identity,
    /// Where to ask.
    pub from: SocketAddr,
    /// Where the model goes.
    pub folder: PathBuf,
    /// The files that are wanted.
    pub list: ModelList,
}

/// One file, from this byte on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    path: String,
    from: u64,
}

/// Opens a port on each of the addresses.
///
/// # Errors
/// In words, with the address.
pub async fn listen(addresses: &[Ipv4Addr]) -> Result<Vec<TcpListener>, String> {
    let mut open = Vec::new();
    for ip in addresses {
        open.push(TcpListener::bind((*ip, 0)).await.map_err(|e| format!("cannot listen on {ip}: {e}"))?);
    }
    Ok(open)
}

/// Gives to whoever has a certificate of this push, until it is dropped.
///
/// # Errors
/// In words, when the certificates cannot be used.
pub async fn give(offer: Offer, listeners: Vec<TcpListener>) -> Result<(), String> {
    let acceptor = tls::acceptor(&offer.identity)?;
    let (offer, places) = (Arc::new(offer), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let accepting = listeners.into_iter().map(|listener| {
        let (acceptor, offer, places) = (acceptor.clone(), Arc::clone(&offer), Arc::clone(&places));
        async move {
            let mut asked = tokio::task::JoinSet::new();
            loop {
                while asked.try_join_next().is_some() {}
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let (acceptor, offer) = (acceptor.clone(), Arc::clone(&offer));
                        asked.spawn(async move {
                            // Who asks learns of trouble by the end of the connection, and says so to the desk.
                            let _ = answer(stream, &acceptor, &offer).await;
                            drop(place);
                        });
                    }
                    // Out of file descriptors, or the link went down for a moment.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
    });
    futures::future::join_all(accepting).await;
    Ok(())
}

async fn answer(stream: TcpStream, acceptor: &TlsAcceptor, offer: &Offer) -> std::io::Result<()> {
    let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let stream = timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(|_| late())??;
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    loop {
        let mut line = String::new();
        timeout(STALLED, (&mut read).take(MAX_REQUEST).read_line(&mut line)).await.map_err(|_| late())??;
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return Ok(()) };
        let file = offer.list.files.iter().find(|f| f.path == request.path && request.from <= f.size);
        let Some(file) = file else { return Ok(()) };
        let mut content = File::open(offer.folder.join(&file.path)).await?;
        if content.metadata().await?.len() != file.size {
            return Ok(());
        }
        content.seek(SeekFrom::Start(request.from)).await?;
        copy(&mut content, &mut write, file.size - request.from, &mut |_| {}).await?;
        write.flush().await?;
    }
}

/// Copies exactly so many bytes; telling how many each time.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: u64,
    progress: &mut (dyn FnMut(u64) + Send),
) -> std::io::Result<()> {
    let late =
        || std::io::Error::new(std::io::ErrorKind::TimedOut, format!("nothing moved for {} s", STALLED.as_secs()));
    let (mut left, mut chunk) = (bytes, vec![0; CHUNK]);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let got = timeout(STALLED, from.read(&mut chunk[..most])).await.map_err(|_| late())??;
        if got == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        timeout(STALLED, to.write_all(&chunk[..got])).await.map_err(|_| late())??;
        left -= got as u64;
        progress(got as u64);
    }
    Ok(())
}

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
    let (mut read, mut write) = tokio::io::split(stream.map_err(trouble)?);
    for file in &wanted.list.files {
        let path = wanted.folder.join(INCOMING).join(&file.path);
        let (mut target, from) =
            resume(&path, file).await.map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        let request = serde_json::to_string(&Request { path: file.path.clone(), from }).map_err(|e| e.to_string())?;
        let told = |e: std::io::Error| format!("{} from {}: {e}", file.path, wanted.from);
        write.write_all(format!("{request}\n").as_bytes()).await.map_err(told)?;
        write.flush().await.map_err(told)?;
        progress(from);
        copy(&mut read, &mut target, file.size - from, progress).await.map_err(told)?;
        target.flush().await.map_err(told)?;
    }
    Ok(())
}

/// The file that arrives, at its end, and how much of it is there. One that is as long as it should be, and was asked for
/// all the same, is wrong inside: it begins anew.
async fn resume(path: &Path, file: &ModelFile) -> std::io::Result<(File, u64)> {
    if let Some(parent) = path.parent() {
        tokio::fs::create_dir_all(parent).await?;
    }
    let mut target = File::options().create(true).write(true).truncate(false).open(path).await?;
    let there = target.metadata().await?.len();
    let from = if there < file.size { there } else { 0 };
    target.set_len(from).await?;
    target.seek(SeekFrom::Start(from)).await?;
    Ok((target, from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::certify::issue;

    struct Pair {
        source: tempfile::TempDir,
        target: tempfile::TempDir,
        identities: Vec<Identity>,
        list: ModelList,
        at: SocketAddr,
        giving: tokio::task::JoinHandle<Result<(), String>>,
    }

    impl Pair {
        async fn new() -> Self {
            let [source, target] = [0; 2].map(|_| tempfile::tempdir().expect("a folder"));
            std::fs::create_dir(source.path().join("deep")).expect("a folder");
            std::fs::write(source.path().join("config.json"), "{}").expect("written");
            std::fs::write(source.path().join("empty"), "").expect("written");
            std::fs::write(source.path().join("deep/weights"), vec![7; 3 * CHUNK + 1]).expect("written");
            std::fs::write(source.path().join(".secret"), "not in the list").expect("written");
            let list = ModelList::of(source.path(), &mut |_| {}).expect("a list");
            let (identities, _) = issue(2, jiff::Timestamp::now()).expect("certificates");
            let listeners = listen(&[Ipv4Addr::LOCALHOST]).await.expect("a port");
            let at = listeners[0].local_addr().expect("an address");
            let (identity, folder) = (identities[0].clone(), source.path().to_owned());
            let offer = Offer { identity, listen: Vec::new(), folder, list: list.clone() };
            let giving = tokio::spawn(give(offer, listeners));
            Pair { source, target, identities, list, at, giving }
        }

        fn wanted(&self) -> Fetch {
            let (identity, folder) = (self.identities[1].clone(), self.target.path().to_owned());
            Fetch { identity, from: self.at, folder, list: self.list.clone() }
        }

        fn arrived(&self, path: &str) -> PathBuf {
            self.target.path().join(INCOMING).join(path)
        }
    }

    #[tokio::test]
    async fn files_arrive_whole_and_what_was_cut_off_goes_on() {
        let pair = Pair::new().await;
        std::fs::create_dir_all(pair.arrived("deep")).expect("a folder");
        std::fs::write(pair.arrived("deep/weights"), vec![7; CHUNK + 5]).expect("written");
        // As long as it should be, and wrong.
        std::fs::write(pair.arrived("config.json"), "[]").expect("written");
        let mut steps = Vec::new();
        fetch(&pair.wanted(), &mut |bytes| steps.push(bytes)).await.expect("fetched");
        assert!(steps.contains(&(CHUNK as u64 + 5)), "{steps:?}");
        assert_eq!(steps.iter().sum::<u64>(), pair.list.bytes());
        crate::agent::store::adopt(&pair.list, pair.target.path()).expect("taken in");
        for file in &pair.list.files {
            let [one, other] = [&pair.source, &pair.target].map(|d| std::fs::read(d.path().join(&file.path)));
            assert_eq!(one.expect("there"), other.expect("there"), "{}", file.path);
        }
    }

    #[tokio::test]
    async fn a_stranger_gets_nothing_and_a_friend_only_what_is_listed() {
        let pair = Pair::new().await;
        let (strangers, _) = issue(2, jiff::Timestamp::now()).expect("certificates");
        let stranger = Fetch { identity: strangers[1].clone(), ..pair.wanted() };
        fetch(&stranger, &mut |_| {}).await.expect_err("another authority");
        // Its own certificate from elsewhere, but it knows whom to trust.
        let identity = Identity { authority: pair.identities[0].authority.clone(), ..strangers[1].clone() };
        fetch(&Fetch { identity, ..pair.wanted() }, &mut |_| {}).await.expect_err("another authority");
        assert!(!pair.arrived("deep/weights").metadata().is_ok_and(|m| m.len() > 0));

        let mut wrong = pair.wanted();
        wrong.list.files[0].path = ".secret".to_owned();
        assert!(fetch(&wrong, &mut |_| {}).await.expect_err("hidden").contains("no path of a model's file"));
        wrong.list.files[0].path = "other".to_owned();
        fetch(&wrong, &mut |_| {}).await.expect_err("not in the list");
        fetch(&pair.wanted(), &mut |_| {}).await.expect("still given");
    }

    #[tokio::test]
    async fn a_giver_that_ends_or_whose_file_changed_is_an_error_and_not_a_file() {
        let pair = Pair::new().await;
        std::fs::write(pair.source.path().join("config.json"), "{ }").expect("written");
        let why = fetch(&pair.wanted(), &mut |_| {}).await.expect_err("changed");
        assert!(why.starts_with("config.json from "), "{why}");
        pair.giving.abort();
        let _ = pair.giving.await;
        let wanted = Fetch {
            identity: pair.identities[1].clone(),
            from: pair.at,
            folder: pair.target.path().to_owned(),
            list: pair.list.clone(),
        };
        assert!(fetch(&wanted, &mut |_| {}).await.expect_err("gone").contains("cannot reach"));
    }
}
