//! A node reached with SSH: one connection, commands as channels of it.

mod auth;
mod exec;
mod forward;
mod host_key;
mod noise;
mod program;
mod say;
mod session;
mod stdin;
mod sudo;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use self::exec::{Password, Watch};
pub(crate) use self::host_key::{HostKeyPolicy, Meeting};
use self::program::Programs;
pub(crate) use self::session::Session;
pub(crate) use self::sudo::SudoPassword;
use super::{Duplex, OnOutput, OnSent, Remote, RemoteError};
use crate::model::{Cmd, NodeName, Output};

/// A live SSH connection to one node.
pub(crate) struct SshRemote {
    node: NodeName,
    user: String,
    session: Arc<Session>,
    programs: Programs,
    ear: noise::Ear,
    passwords: SudoPassword,
    sudo: sudo::NodeSudo,
}

impl SshRemote {
    pub(crate) fn new(node: NodeName, root: &str, user: String, session: Session, passwords: SudoPassword) -> Self {
        SshRemote {
            node,
            user,
            session: Arc::new(session),
            programs: Programs::new(root),
            ear: noise::Ear::default(),
            passwords,
            sudo: sudo::NodeSudo::default(),
        }
    }

    async fn exec_line(
        &self,
        cmd: &Cmd,
        sudo: &[&str],
        password: Option<Password>,
        watch: &mut Watch,
    ) -> Result<Output, RemoteError> {
        self.programs.run(&self.session, cmd, sudo, password.as_ref(), watch).await
    }
}

impl Remote for SshRemote {
    fn node(&self) -> &NodeName {
        &self.node
    }

    fn root(&self) -> &str {
        self.programs.root()
    }

    fn exec_with(
        &self,
        cmd: Cmd,
        on_sent: Option<OnSent>,
        on_output: Option<OnOutput>,
    ) -> BoxFuture<'_, Result<Output, RemoteError>> {
        async move {
            let noise =
                if cmd.raw { noise::Noise::default() } else { self.ear.noise(&self.session, &self.programs).await };
            let mut watch = Watch { on_sent, on_output, noise };
            // Root needs no sudo, and a Mac's root login has none to ask.
            if cmd.sudo && self.user != "root" {
                self.exec_as_root(&cmd, &mut watch).await
            } else {
                self.exec_line(&cmd, &[], None, &mut watch).await
            }
        }
        .boxed()
    }

    fn open_tcp(&self, host: &str, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>> {
        let host = host.to_owned();
        async move { forward::open(&self.session, &host, port).await }.boxed()
    }

    fn peer_address(&self) -> Option<IpAddr> {
        self.session.peer
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn is_open(&self) -> bool {
        !self.session.handle.is_closed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let bye = self.session.handle.disconnect(russh::Disconnect::ByApplication, "done", "en");
            // A node that does not listen any more must not hold up the end.
            let _ = tokio::time::timeout(Duration::from_secs(1), bye).await;
        }
        .boxed()
    }
}
