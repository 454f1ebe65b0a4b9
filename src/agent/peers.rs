//! The network side of an agent: rank 0's listens, the others connect. Nothing is decided here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::tls;
use super::wire::{Hello, LOST, MAX_LINE, Order, REPEAT, Report};

/// For TCP, TLS and the first line.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Connections that have not proven who they are; more wait in the kernel.
const GREETING_AT_ONCE: usize = 32;
/// Between two tries to listen or to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// What the listening side tells the leader.
#[derive(Debug)]
pub enum Heard {
    /// A rank that has proven who it is; the number tells its connections apart.
    Hello(u64, Hello),
    /// Its state.
    Report(u64, u32, Report),
    /// Trouble worth a line in the log.
    Note(String),
}

/// What a follower hears.
#[derive(Debug)]
pub enum Told {
    /// What is wanted.
    Order(Order),
    /// Trouble worth a line in the log.
    Note(String),
}

/// Listens for ever; the same trouble is told once.
pub async fn listen(
    address: SocketAddr,
    acceptor: TlsAcceptor,
    ranks: u32,
    orders: watch::Receiver<Order>,
    heard: mpsc::Sender<Heard>,
) {
    let mut told = String::new();
    let listener = loop {
        match bind(address) {
            Ok(listener) => break listener,
            Err(e) => {
                let text = format!("cannot listen at {address}: {e}");
                if text != told && heard.send(Heard::Note(text.clone())).await.is_err() {
                    return;
                }
                told = text;
                tokio::time::sleep(AGAIN).await;
            }
        }
    };
    let greeting = Arc::new(Semaphore::new(GREETING_AT_ONCE));
    let count = Arc::new(AtomicU64::new(1));
    loop {
        let Ok(place) = Arc::clone(&greeting).acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else {
            // Out of files, or the peer was gone again: nothing to do but wait.
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let (acceptor, orders, heard, count) = (acceptor.clone(), orders.clone(), heard.clone(), Arc::clone(&count));
        tokio::spawn(async move {
            let greeted = timeout(GREETING_LIMIT, greet(stream, acceptor, ranks)).await;
            drop(place);
            match greeted {
                Ok(Ok((hello, reader, writer))) => {
                    let id = count.fetch_add(1, Ordering::Relaxed);
                    let rank = hello.rank;
                    if heard.send(Heard::Hello(id, hello)).await.is_ok() {
                        attend(id, rank, reader, writer, orders, heard).await;
                    }
                }
                Ok(Err(why)) => {
                    // A stranger may knock as often as it likes: the log must not fill for it.
                    let _ = heard.try_send(Heard::Note(format!("refused a connection from {}: {why}", from.ip())));
                }
                Err(_) => {
                    let _ = heard.try_send(Heard::Note(format!("a connection from {} said nothing", from.ip())));
                }
            }
        });
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // An agent that was just restarted must not wait for its predecessor's connections to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(64)
}

type Reader = BufReader<Box<dyn AsyncRead + Send + Unpin>>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// TLS, the first line, and whether both name the same rank. Nothing is said to anybody before.
async fn greet(stream: TcpStream, acceptor: TlsAcceptor, ranks: u32) -> Result<(Hello, Reader, Writer), String> {
    let _ = stream.set_nodelay(true);
    let stream = acceptor.accept(stream).await.map_err(|e| e.to_string())?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(|c| c.first().cloned());
    let certificate = certificate.ok_or("it shows no certificate")?;
    let (reader, writer) = tokio::io::split(stream);
    let mut reader: Reader = BufReader::new(Box::new(reader));
    let hello: Hello = line(&mut reader).await?;
    if hello.rank == 0 || hello.rank >= ranks || !tls::is_rank(&certificate, hello.rank) {
        return Err(format!("it says to be rank {} and its certificate is another one's", hello.rank));
    }
    Ok((hello, reader, Box::new(writer)))
}

/// Serves one follower until either side is gone or silent.
async fn attend(
    id: u64,
    rank: u32,
    mut reader: Reader,
    mut writer: Writer,
    mut orders: watch::Receiver<Order>,
    heard: mpsc::Sender<Heard>,
) {
    let read = async {
        while let Ok(Ok(report)) = timeout(LOST, line::<Report>(&mut reader)).await {
            if heard.send(Heard::Report(id, rank, report)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = repeat(&mut writer, &mut orders) => {}
    }
}

/// Connects for ever to rank 0's agent, tells it this node's state and hears its orders.
pub async fn follow(
    leader: SocketAddr,
    connector: TlsConnector,
    hello: Hello,
    mut reports: watch::Receiver<Report>,
    told: mpsc::Sender<Told>,
) {
    let mut said = String::new();
    loop {
        let why = match timeout(GREETING_LIMIT, reach(leader, &connector, &hello)).await {
            Ok(Ok((mut reader, mut writer))) => {
                said.clear();
                let read = async {
                    loop {
                        match timeout(LOST, line::<Order>(&mut reader)).await {
                            Ok(Ok(order)) => {
                                if told.send(Told::Order(order)).await.is_err() {
                                    return "this agent ends".to_owned();
                                }
                            }
                            Ok(Err(why)) => return why,
                            Err(_) => return format!("silent for {} s", LOST.as_secs()),
                        }
                    }
                };
                tokio::select! {
                    why = read => format!("the connection to rank 0's agent at {leader} has ended: {why}"),
                    () = repeat(&mut writer, &mut reports) => format!("rank 0's agent at {leader} takes nothing any more"),
                }
            }
            Ok(Err(why)) => format!("rank 0's agent at {leader} cannot be reached: {why}"),
            Err(_) => format!("rank 0's agent at {leader} does not answer"),
        };
        if why != said {
            said.clone_from(&why);
            if told.send(Told::Note(why)).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn reach(leader: SocketAddr, connector: &TlsConnector, hello: &Hello) -> Result<(Reader, Writer), String> {
    let stream = TcpStream::connect(leader).await.map_err(|e| e.to_string())?;
    let _ = stream.set_nodelay(true);
    let stream = connector.connect(tls::name_of(0)?, stream).await.map_err(|e| e.to_string())?;
    let (reader, writer) = tokio::io::split(stream);
    let mut writer: Writer = Box::new(writer);
    say(&mut writer, hello).await?;
    Ok((BufReader::new(Box::new(reader)), writer))
}

/// Says the newest value when it changes, and again and again; ends when it cannot be said.
async fn repeat<T: Serialize + Clone>(writer: &mut Writer, values: &mut watch::Receiver<T>) {
    let mut again = interval(REPEAT);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let value = values.borrow_and_update().clone();
        if !matches!(timeout(LOST, say(writer, &value)).await, Ok(Ok(()))) {
            return;
        }
        tokio::select! {
            changed = values.changed() => if changed.is_err() { return },
            _ = again.tick() => {}
        }
    }
}

async fn say<T: Serialize>(writer: &mut Writer, value: &T) -> Result<(), String> {
    let mut bytes = serde_json::to_vec(value).map_err(|e| e.to_string())?;
    bytes.push(b'\n');
    writer.write_all(&bytes).await.map_err(|e| e.to_string())?;
    writer.flush().await.map_err(|e| e.to_string())
}

/// One line, of bounded length.
async fn line<T: DeserializeOwned>(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<T, String> {
    let mut bytes = Vec::new();
    let mut bounded = reader.take(MAX_LINE as u64);
    bounded.read_until(b'\n', &mut bytes).await.map_err(|e| e.to_string())?;
    if bytes.is_empty() {
        return Err("it has hung up".to_owned());
    }
    if bytes.last() != Some(&b'\n') {
        return Err("its line is cut off, or too long".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|e| format!("its line cannot be read: {e}"))
}
