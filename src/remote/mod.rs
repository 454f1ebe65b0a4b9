//! The only way to a node: a [`Remote`] runs argv there. Implementations: `ssh` (russh), wrapped by `gate`.

pub mod fleet;
pub mod gate;
pub mod http;
mod keys;
pub mod known_hosts;
mod lasting;
pub mod meet;
mod pattern;
pub mod prompt;
mod ssh;
pub mod ssh_config;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::fleet::{ConnectOptions, Fleet};
pub use self::pattern::glob;
pub use self::prompt::Prompt;
pub use self::target::Surroundings;
use crate::model::snapshot::{CollectFailure, FailureKind};
use crate::model::{Cmd, NodeName, Output};

/// Bytes both ways: a TCP connection opened from the node.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Called with bytes sent so far while standard input is streamed.
pub type OnSent = Box<dyn FnMut(u64) + Send>;
/// Called with each chunk of standard output as it arrives.
pub type OnOutput = Box<dyn FnMut(&[u8]) + Send>;

/// What comes first on a connection that was opened again; an error keeps everything else from it.
pub type OnReopened = Box<dyn Fn(SharedRemote) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A live connection to one node.
pub trait Remote: Send + Sync {
    /// The node.
    fn node(&self) -> &NodeName;

    /// Put in front of every node-side path, without a trailing slash (empty for `/`).
    fn root(&self) -> &str;

    /// Runs a command to its end. An exit status other than 0 is an [`Output`], not an error.
    fn exec(&self, cmd: Cmd) -> BoxFuture<'_, Result<Output, RemoteError>> {
        self.exec_with(cmd, None, None)
    }

    /// As [`Remote::exec`], with progress of standard input and chunks of standard output as they come.
    /// With `on_output`, `Output::stdout` stays empty.
    fn exec_with(
        &self,
        cmd: Cmd,
        on_sent: Option<OnSent>,
        on_output: Option<OnOutput>,
    ) -> BoxFuture<'_, Result<Output, RemoteError>>;

    /// Opens a TCP connection from the node to `host:port` (SSH direct-tcpip). Only reads by convention.
    fn open_tcp(&self, host: &str, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>>;

    /// The address of the node's end of the connection, as seen from here; none behind a jump host.
    fn peer_address(&self) -> Option<std::net::IpAddr>;

    /// Login user.
    fn user(&self) -> &str;

    /// Whether the connection still stands, as far as is known here.
    fn is_open(&self) -> bool {
        true
    }

    /// From now on, whenever the connection was opened again, this comes before everything else. A connection that is never
    /// opened again never asks.
    fn on_reopened(&self, _first: OnReopened) {}

    /// Ends the connection.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A shared remote.
pub type SharedRemote = Arc<dyn Remote>;

/// Why a command has no [`Output`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// No connection could be made.
    Connect(ConnectError),
    /// The connection broke.
    Lost(String),
    /// The command did not end in time.
    Timeout {
        /// The command line.
        command: String,
        /// The limit.
        after: Duration,
    },
    /// The gate refused a write in a read-only command: a defect of macluster.
    WriteRefused(String),
    /// Sudo wants a password and none was given, or it was wrong, or the user may not.
    Sudo(String),
    /// A local file to be sent could not be read.
    Local(String),
    /// The node refused the channel or the forwarding.
    Refused(String),
    /// The connection broke and was opened again, and what must hold before anything is run over it does not.
    Unlocked(String),
}

/// Why no connection could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    /// Kind of trouble.
    pub kind: FailureKind,
    /// What happened, without the node's name.
    pub message: String,
    /// Next action.
    pub hint: Option<String>,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Connect(e) => f.write_str(&e.message),
            RemoteError::Lost(why) => write!(f, "the connection broke: {why}"),
            RemoteError::Timeout { command, after } => {
                write!(f, "`{command}` gave no answer within {} s", after.as_secs())
            }
            RemoteError::WriteRefused(cmd) => {
                write!(f, "refused to run the changing command `{cmd}` in a read-only command")
            }
            RemoteError::Sudo(why) => write!(f, "sudo: {why}"),
            RemoteError::Local(why) | RemoteError::Unlocked(why) => f.write_str(why),
            RemoteError::Refused(why) => write!(f, "the node refused: {why}"),
        }
    }
}

impl std::error::Error for RemoteError {}

impl From<ConnectError> for CollectFailure {
    fn from(e: ConnectError) -> Self {
        CollectFailure { kind: e.kind, message: e.message, hint: e.hint }
    }
}
