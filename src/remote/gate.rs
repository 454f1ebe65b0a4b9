//! The gate in front of every remote: read-only commands cannot change a node, by construction.

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Duplex, OnOutput, OnSent, Remote, RemoteError, SharedRemote};
use crate::model::{Access, Cmd, NodeName, Output};

/// A remote that refuses writes unless they are allowed.
pub struct Gated {
    inner: SharedRemote,
    allowed: Access,
}

impl Gated {
    /// With [`Access::Read`], every command declared `Write` is refused before anything is sent.
    pub fn new(inner: SharedRemote, allowed: Access) -> Self {
        Gated { inner, allowed }
    }
}

impl Remote for Gated {
    fn node(&self) -> &NodeName {
        self.inner.node()
    }

    fn root(&self) -> &str {
        self.inner.root()
    }

    fn exec_with(
        &self,
        cmd: Cmd,
        on_sent: Option<OnSent>,
        on_output: Option<OnOutput>,
    ) -> BoxFuture<'_, Result<Output, RemoteError>> {
        if self.allowed == Access::Read && cmd.access == Access::Write {
            let refusal = RemoteError::WriteRefused(cmd.display());
            return async move { Err(refusal) }.boxed();
        }
        self.inner.exec_with(cmd, on_sent, on_output)
    }

    fn open_tcp(&self, host: &str, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>> {
        self.inner.open_tcp(host, port)
    }

    fn peer_address(&self) -> Option<std::net::IpAddr> {
        self.inner.peer_address()
    }

    fn user(&self) -> &str {
        self.inner.user()
    }

    fn is_open(&self) -> bool {
        self.inner.is_open()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
