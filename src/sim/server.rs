//! One node's SSH server on loopback: public key only, `exec` only, ten sessions per connection.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use russh::keys::{PrivateKey, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session as SshSession, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelMsg, ChannelOpenFailure, MethodKind, MethodSet, Sig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exec::{self, Ended, Input, Session};
use super::store::Node;

/// OpenSSH's `MaxSessions`.
const MAX_SESSIONS: usize = 10;

/// What a server needs.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// The node it leads to.
    pub node: Node,
    /// Login user.
    pub user: String,
    /// The host's key.
    pub host_key: PrivateKey,
    /// The one key that may log in.
    pub client_key: PublicKey,
}

/// The power switch of a node, as its server sees it.
#[derive(Debug)]
pub(super) struct Outage {
    /// Told when no connection and no command is left.
    pub off: oneshot::Sender<()>,
    /// Connections are taken again when this is told.
    pub on: oneshot::Receiver<()>,
}

/// Serves connections until `stop` changes.
pub(super) async fn serve(
    setup: Setup,
    listener: TcpListener,
    mut stop: watch::Receiver<bool>,
    mut outages: mpsc::Receiver<Outage>,
) {
    let config = Arc::new(Config {
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        auth_rejection_time: Duration::from_millis(5),
        auth_rejection_time_initial: Some(Duration::ZERO),
        keys: vec![setup.host_key.clone()],
        inactivity_timeout: None,
        nodelay: true,
        ..Config::default()
    });
    let setup = Arc::new(setup);
    let mut connections = tokio::task::JoinSet::new();
    let mut power = CancellationToken::new();
    let work = TaskTracker::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, peer)) = accepted else { continue };
                let local = stream.local_addr().unwrap_or(peer);
                let client = Client::new(Arc::clone(&setup), peer, local, work.clone());
                connections.spawn(connection(Arc::clone(&config), stream, client, stop.clone(), power.clone()));
            }
            Some(outage) = outages.recv() => {
                power.cancel();
                while connections.join_next().await.is_some() {}
                work.close();
                work.wait().await;
                work.reopen();
                power = CancellationToken::new();
                let _ = outage.off.send(());
                let _ = outage.on.await;
            }
            Some(_) = connections.join_next() => {}
            _ = stop.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    config: Arc<Config>,
    stream: TcpStream,
    client: Client,
    mut stop: watch::Receiver<bool>,
    power: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let Ok(plug) = stream.as_fd().try_clone_to_owned() else { return };
    let Ok(session) = russh::server::run_stream(config, stream, client).await else { return };
    let handle = session.handle();
    tokio::pin!(session);
    tokio::select! {
        _ = &mut session => return,
        _ = stop.changed() => {}
        // Nobody says goodbye: the session finds its connection broken.
        () = power.cancelled() => {
            let _ = rustix::net::shutdown(&plug, rustix::net::Shutdown::Both);
            let _ = session.await;
            return;
        }
    }
    let _ = handle.disconnect(russh::Disconnect::ByApplication, "the rack stops".into(), String::new()).await;
    // The other end may not read any more; the rack's end must not wait for it.
    let _ = tokio::time::timeout(Duration::from_secs(1), session).await;
}

/// A session channel between its opening and its `exec`.
struct Waiting {
    channel: Channel<Msg>,
    slot: Slot,
    env: BTreeMap<String, String>,
}

/// Counts a session as long as it lives.
struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One connection.
struct Client {
    setup: Arc<Setup>,
    peer: SocketAddr,
    local: SocketAddr,
    open: Arc<AtomicUsize>,
    waiting: HashMap<ChannelId, Waiting>,
    work: TaskTracker,
}

impl Client {
    fn new(setup: Arc<Setup>, peer: SocketAddr, local: SocketAddr, work: TaskTracker) -> Self {
        Client { setup, peer, local, open: Arc::default(), waiting: HashMap::new(), work }
    }

    /// The environment of a command: nothing of this machine's own.
    fn environment(&self, extra: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let node = &self.setup.node;
        let path: Vec<String> = super::tools::PATH_DIRS.iter().map(|d| node.rooted(d).display().to_string()).collect();
        let user = &self.setup.user;
        let (peer, local) = (self.peer, self.local);
        let quirks = node.load().map(|s| s.quirks).unwrap_or_default();
        let mut env: BTreeMap<String, String> = [
            ("HOME", node.rooted("/Users").join(user).display().to_string()),
            ("LOGNAME", user.clone()),
            ("PATH", path.join(":")),
            ("PWD", node.rooted("/Users").join(user).display().to_string()),
            ("SHELL", quirks.login_shell.unwrap_or_else(|| "/bin/zsh".to_owned())),
            ("SSH_CLIENT", format!("{} {} {}", peer.ip(), peer.port(), local.port())),
            ("SSH_CONNECTION", format!("{} {} {} {}", peer.ip(), peer.port(), local.ip(), local.port())),
            ("TMPDIR", node.rooted("/private/tmp").display().to_string()),
            ("USER", user.clone()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into();
        env.extend(quirks.environment);
        env.extend(extra.clone());
        env
    }
}

impl Handler for Client {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        let same = key.public_key.key_data() == self.setup.client_key.key_data();
        Ok(if user == self.setup.user && same { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        let slot = Slot(Arc::clone(&self.open));
        if self.open.fetch_add(1, Ordering::SeqCst) >= MAX_SESSIONS {
            drop(slot);
            reply.reject(ChannelOpenFailure::ConnectFailed).await;
            return Ok(());
        }
        self.waiting.insert(channel.id(), Waiting { channel, slot, env: BTreeMap::new() });
        reply.accept().await;
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: Channel<Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: ChannelOpenHandle,
        _session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        let port = u16::try_from(port).unwrap_or(0);
        if !["127.0.0.1", "localhost", "::1"].contains(&host) {
            self.setup.node.trip(&format!("forwarding to {host}:{port}"));
            reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await;
            return Ok(());
        }
        tokio::spawn(async move {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(mut target) => {
                    reply.accept().await;
                    let mut stream = channel.into_stream();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut target).await;
                }
                Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
            }
        });
        Ok(())
    }

    async fn channel_close(&mut self, channel: ChannelId, _session: &mut SshSession) -> Result<(), Self::Error> {
        self.waiting.remove(&channel);
        Ok(())
    }

    /// As macOS' `AcceptEnv LANG LC_*`; anything else is refused without ending the session.
    async fn env_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        value: &str,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        match self.waiting.get_mut(&channel) {
            Some(waiting) if name == "LANG" || name.starts_with("LC_") => {
                waiting.env.insert(name.to_owned(), value.to_owned());
                session.channel_success(channel)
            }
            _ => session.channel_failure(channel),
        }
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _columns: u32,
        _rows: u32,
        _width: u32,
        _height: u32,
        _modes: &[(russh::Pty, u32)],
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn shell_request(&mut self, channel: ChannelId, session: &mut SshSession) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut SshSession,
    ) -> Result<(), Self::Error> {
        let Some(waiting) = self.waiting.remove(&channel) else { return session.channel_failure(channel) };
        session.channel_success(channel)?;
        let line = String::from_utf8_lossy(data).into_owned();
        let env = self.environment(&waiting.env);
        let node = self.setup.node.clone();
        let cwd = node.rooted("/Users").join(&self.setup.user);
        let work = Arc::new(Session { node, env, cwd });
        self.work.spawn(run(work, line, waiting.channel, waiting.slot, session.handle()));
        Ok(())
    }
}

/// Carries a command's streams over its channel, then its status.
async fn run(work: Arc<Session>, line: String, channel: Channel<Msg>, slot: Slot, handle: russh::server::Handle) {
    let id = channel.id();
    let (mut incoming, outgoing) = channel.split();
    let (feed, queue) = mpsc::channel::<Vec<u8>>(64);
    let (output, mut chunks) = mpsc::channel::<exec::Chunk>(16);
    // The client closed the channel or went away.
    let gone = CancellationToken::new();
    let left = gone.clone();
    let closed = gone.clone();
    let reader = tokio::spawn(async move {
        receive(&mut incoming, feed).await;
        left.cancel();
    });
    let writer = tokio::spawn(async move {
        while let Some((error, bytes)) = chunks.recv().await {
            let write = async {
                if error { outgoing.extended_data_bytes(1, bytes).await } else { outgoing.data_bytes(bytes).await }
            };
            // A window that nobody opens any more must not hold the command.
            tokio::select! {
                sent = write => if sent.is_err() { return },
                () = closed.cancelled() => return,
            }
        }
    });
    let ended = exec::run_line(work, line, Input::new(queue), output, gone).await;
    let _ = writer.await;
    let _ = handle.eof(id).await;
    let _ = match ended {
        Ended::Status(status) => handle.exit_status_request(id, status).await,
        Ended::Signal(number) => {
            handle.exit_signal_request(id, signal(number), false, String::new(), String::new()).await
        }
    };
    let _ = handle.close(id).await;
    drop(slot);
    reader.abort();
}

/// Chunks of input that may wait for a command that does not read before the connection is slowed down.
const WAITING: usize = 256;

/// Hands a channel's input on until the channel closes.
///
/// russh delivers to all channels of a connection from one loop, which must not be held: a command that cannot write
/// because the client's window is used up would wait for a message that this loop alone can bring. So a reader that
/// lags slows the loop down, but never stops it.
async fn receive(incoming: &mut russh::ChannelReadHalf, feed: mpsc::Sender<Vec<u8>>) {
    let mut feed = Some(feed);
    let mut waiting = VecDeque::new();
    let mut ended = false;
    loop {
        if ended && waiting.is_empty() {
            feed = None;
        }
        let sender = feed.clone().filter(|_| !waiting.is_empty());
        let room = async {
            match sender {
                Some(sender) => sender.reserve_owned().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            permit = room => if let (Ok(permit), Some(chunk)) = (permit, waiting.pop_front()) {
                drop(permit.send(chunk));
            } else {
                // The command does not read any more: the rest is dropped, as into a closed pipe.
                feed = None;
                waiting.clear();
            },
            message = next(incoming, waiting.len() >= WAITING) => match message {
                Some(ChannelMsg::Data { data }) if feed.is_some() => waiting.push_back(data.to_vec()),
                Some(ChannelMsg::Eof) => ended = true,
                Some(ChannelMsg::Close) | None => return,
                Some(_) => {}
            },
        }
    }
}

/// The next message; later when enough is waiting already.
async fn next(incoming: &mut russh::ChannelReadHalf, slowly: bool) -> Option<ChannelMsg> {
    if slowly {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    incoming.wait().await
}

fn signal(number: i32) -> Sig {
    match number {
        1 => Sig::HUP,
        2 => Sig::INT,
        3 => Sig::QUIT,
        4 => Sig::ILL,
        6 => Sig::ABRT,
        8 => Sig::FPE,
        11 => Sig::SEGV,
        13 => Sig::PIPE,
        14 => Sig::ALRM,
        15 => Sig::TERM,
        10 | 30 => Sig::USR1,
        _ => Sig::KILL,
    }
}
