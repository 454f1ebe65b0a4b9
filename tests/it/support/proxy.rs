//! A TCP relay before one server: counts what clients send, and breaks the connections, or tells, at a given byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use macluster::sim::RunningRack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Shared by all connections.
#[derive(Debug)]
struct Meter {
    /// Bytes from clients since the last [`Proxy::mark`].
    sent: AtomicU64,
    /// Where something happens.
    limit: AtomicU64,
    /// The limit was passed.
    passed: Notify,
    /// Breaks the connections that there are.
    broken: Notify,
    /// Whether connections are let through; false breaks them.
    open: watch::Sender<bool>,
    /// At the limit connections break by themselves.
    cut: std::sync::atomic::AtomicBool,
}

/// The relay; it ends when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub port: u16,
    meter: Arc<Meter>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Before this server.
    pub async fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let meter = Arc::new(Meter {
            sent: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            passed: Notify::new(),
            broken: Notify::new(),
            open: watch::Sender::new(true),
            cut: false.into(),
        });
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&meter);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(relay(client, server, Arc::clone(&shared)));
            }
        });
        Proxy { port, meter, _tasks: tasks }
    }

    /// Counts from 0 again, without any limit.
    pub fn mark(&self) {
        self.meter.sent.store(0, Ordering::SeqCst);
        self.meter.limit.store(u64::MAX, Ordering::SeqCst);
        self.meter.cut.store(false, Ordering::SeqCst);
        self.meter.open.send_replace(true);
    }

    /// From now on connections break after this many bytes.
    pub fn cut_after(&self, bytes: u64) {
        self.mark();
        self.meter.cut.store(true, Ordering::SeqCst);
        self.meter.limit.store(bytes, Ordering::SeqCst);
    }

    /// Breaks every connection once; new ones are made as before.
    pub fn break_now(&self) {
        self.meter.broken.notify_waiters();
    }

    /// From now on, waits until this many bytes have passed.
    pub async fn passed(&self, bytes: u64) {
        self.mark();
        self.meter.limit.store(bytes, Ordering::SeqCst);
        self.meter.passed.notified().await;
    }

    /// Bytes that clients have sent since the last mark.
    pub fn sent(&self) -> u64 {
        self.meter.sent.load(Ordering::SeqCst)
    }
}

async fn relay(client: TcpStream, server: SocketAddr, meter: Arc<Meter>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut open = meter.open.subscribe();
    let up = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
            let before = meter.sent.fetch_add(n as u64, Ordering::SeqCst);
            if before + n as u64 >= meter.limit.load(Ordering::SeqCst) {
                meter.limit.store(u64::MAX, Ordering::SeqCst);
                if meter.cut.load(Ordering::SeqCst) {
                    meter.open.send_replace(false);
                } else {
                    meter.passed.notify_one();
                }
            }
            if to_server.write_all(&buffer[..n]).await.is_err() {
                break;
            }
        }
    };
    let down = async {
        let _ = tokio::io::copy(&mut from_server, &mut to_client).await;
    };
    // Whichever side ends, both are closed.
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = open.wait_for(|open| !*open) => {}
        () = meter.broken.notified() => {}
    }
}

/// A relay before this node, and an inventory in which it is reached through it.
pub async fn relayed(rack: &RunningRack, node: usize) -> (Proxy, PathBuf) {
    let address = rack.nodes[node].address;
    let proxy = Proxy::before(address).await;
    let (old, new) = (format!("port: {},", address.port()), format!("port: {},", proxy.port));
    let text = std::fs::read_to_string(&rack.inventory).expect("readable");
    assert!(text.contains(&old), "{text}");
    let inventory = rack.dir.join("relayed.yaml");
    std::fs::write(&inventory, text.replace(&old, &new)).expect("written");
    let known = std::fs::read_to_string(rack.dir.join("known_hosts")).expect("readable");
    let more = known.replace(&format!("]:{}", address.port()), &format!("]:{}", proxy.port));
    assert_ne!(more, known);
    std::fs::write(rack.dir.join("known_hosts"), known + &more).expect("written");
    (proxy, inventory)
}
