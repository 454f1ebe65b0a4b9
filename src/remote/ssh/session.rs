//! One authenticated SSH session: TCP (or a jump host's channel), key exchange, host key, login.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::Channel;
use russh::client::{self, DisconnectReason, Handle, Msg};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKeyOrCertificate};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::host_key::{self, HostKeyPolicy};
use super::{auth, say};
use crate::model::FailureKind;
use crate::remote::keys::KeyRing;
use crate::remote::prompt::Limit;
use crate::remote::target::{Target, Waits};
use crate::remote::{ConnectError, Duplex};

/// OpenSSH's sshd allows 10 (`MaxSessions`); channels that are just closing still count there.
const CHANNELS: usize = 8;
/// Forwarded connections at once. sshd does not count them as sessions; this bounds what they may keep in memory here.
const FORWARDS: usize = 32;

/// A logged-in session.
pub(crate) struct Session {
    pub(super) handle: Handle<Client>,
    /// One permit per open channel that runs a command.
    pub(super) channels: Arc<Semaphore>,
    /// One permit per forwarded connection.
    pub(super) forwards: Arc<Semaphore>,
    pub(super) peer: Option<IpAddr>,
    gone: Gone,
    /// Held so that the way to the host stays open.
    _through: Option<Arc<Session>>,
}

/// How far the way to a host got.
#[derive(Debug, Default)]
pub(super) struct Stage(AtomicU8);

impl Stage {
    pub(super) const HANDSHAKE: u8 = 1;
    pub(super) const LOGIN: u8 = 2;

    fn enter(&self, stage: u8) {
        self.0.store(stage, Ordering::Relaxed);
    }

    pub(super) fn now(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why the connection ended, as far as anybody said.
#[derive(Clone, Debug, Default)]
struct Gone(Arc<Mutex<Option<String>>>);

impl Gone {
    fn set(&self, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Session {
    /// Connects and logs in; `through` is the session of the last jump host.
    pub(crate) async fn connect(
        target: &Target,
        through: Option<Arc<Session>>,
        policy: &HostKeyPolicy,
        keys: &KeyRing,
        waits: Waits,
    ) -> Result<Self, ConnectError> {
        let at_most = waits.connect;
        let limit = Limit::default();
        let stage = Stage::default();
        let work = Self::attempt(target, through, policy, keys, waits, &limit, &stage);
        match limit.run(at_most, work).await {
            Some(result) => result,
            None => Err(say::silent(target, at_most, &stage)),
        }
    }

    async fn attempt(
        target: &Target,
        through: Option<Arc<Session>>,
        policy: &HostKeyPolicy,
        keys: &KeyRing,
        waits: Waits,
        limit: &Limit,
        stage: &Stage,
    ) -> Result<Self, ConnectError> {
        let (stream, peer): (Box<dyn Duplex>, _) = if let Some(jump) = &through {
            let channel = jump.tcp(&target.host, target.port).await.map_err(|e| say::jump_refused(target, &e))?;
            (Box::new(channel.into_stream()), None)
        } else {
            let (stream, address) = dial(target).await?;
            (Box::new(stream), Some(address.ip()))
        };
        stage.enter(Stage::HANDSHAKE);
        let gone = Gone::default();
        let client = Client {
            target: target.clone(),
            policy: policy.clone(),
            limit: limit.clone(),
            gone: gone.clone(),
            accepted: false,
        };
        let config = Arc::new(config(&host_key::known_types(target), waits.keepalive));
        let mut handle = match client::connect_stream(config, stream, client).await {
            Ok(handle) => handle,
            Err(Trouble::HostKey(refusal)) => return Err(*refusal),
            Err(Trouble::Ssh(e)) => return Err(say::handshake(target, &e)),
        };
        stage.enter(Stage::LOGIN);
        if let Err(refusal) = auth::login(&mut handle, target, keys, limit).await {
            return Err(match (refusal.kind, gone.why()) {
                // The server's own parting words say more than "connection closed".
                (FailureKind::Unreachable, Some(why)) => {
                    ConnectError { message: format!("{}: {why}", refusal.message), ..refusal }
                }
                _ => refusal,
            });
        }
        let (channels, forwards) = (Arc::new(Semaphore::new(CHANNELS)), Arc::new(Semaphore::new(FORWARDS)));
        Ok(Session { handle, channels, forwards, peer, gone, _through: through })
    }

    /// A TCP connection opened by the far end, not counted as one of this session's forwards.
    pub(super) async fn tcp(&self, host: &str, port: u16) -> Result<Channel<Msg>, russh::Error> {
        self.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0).await
    }

    /// Why it is gone, in words.
    pub(super) fn end(&self) -> String {
        self.gone.why().unwrap_or_else(|| "the node closed it".to_owned())
    }
}

/// Resolves the name and tries its addresses in turn.
async fn dial(target: &Target) -> Result<(TcpStream, SocketAddr), ConnectError> {
    let addresses: Vec<SocketAddr> = match tokio::net::lookup_host((target.host.as_str(), target.port)).await {
        Ok(addresses) => addresses.collect(),
        Err(e) => return Err(say::unresolved(target, &e)),
    };
    let mut last = None;
    // One dead address of several must not eat all the time there is.
    let share = Duration::from_secs(if addresses.len() > 1 { 4 } else { 60 });
    for address in &addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Small commands must not wait for each other's acknowledgements.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *address));
            }
            Ok(Err(e)) => last = Some(say::not_connected(target, *address, &e)),
            Err(_) => last = Some(say::silent(target, share, &Stage::default())),
        }
    }
    Err(last.unwrap_or_else(|| say::unresolved(target, &std::io::Error::other("it has no address"))))
}

/// Host key algorithms with those of known keys first, so that a host is not refused for offering another one.
fn config(known: &[String], keepalive: Duration) -> client::Config {
    let mut preferred = russh::Preferred::DEFAULT;
    // `ssh-rsa` (SHA-1 signatures) is left out on purpose, as OpenSSH does since 8.8.
    let mut order = vec![
        Algorithm::Ed25519,
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
        Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
        Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
        Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
    ];
    order.sort_by_key(|algorithm| !known.iter().any(|kind| kind == key_type(algorithm)));
    preferred.key = order.into();
    client::Config {
        preferred,
        keepalive_interval: Some(keepalive),
        // Lost at the third interval without a word.
        keepalive_max: 2,
        nodelay: true,
        ..client::Config::default()
    }
}

/// The key type an algorithm signs with: all RSA algorithms use keys of type `ssh-rsa`.
fn key_type(algorithm: &Algorithm) -> &str {
    match algorithm {
        Algorithm::Rsa { .. } => "ssh-rsa",
        other => other.as_str(),
    }
}

/// Our side of russh's callbacks.
pub(crate) struct Client {
    target: Target,
    policy: HostKeyPolicy,
    limit: Limit,
    gone: Gone,
    accepted: bool,
}

/// Why a callback ended the connection.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The protocol.
    Ssh(russh::Error),
    /// The host key was refused.
    HostKey(Box<ConnectError>),
}

impl From<russh::Error> for Trouble {
    fn from(e: russh::Error) -> Self {
        Trouble::Ssh(e)
    }
}

impl client::Handler for Client {
    type Error = Trouble;

    async fn check_server_key(&mut self, offered: &PublicKeyOrCertificate) -> Result<bool, Trouble> {
        self.policy.decide(&self.target, offered, &self.limit).await.map_err(|e| Trouble::HostKey(Box::new(e)))?;
        self.accepted = true;
        Ok(true)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Trouble>) -> Result<(), Trouble> {
        self.gone.set(match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                format!("the node said `{}`", crate::model::command::printable(info.message.trim()))
            }
            DisconnectReason::Error(Trouble::Ssh(e)) => say::broken(&e),
            DisconnectReason::Error(Trouble::HostKey(e)) => e.message,
        });
        Ok(())
    }
}
