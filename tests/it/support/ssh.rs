//! A bare SSH client for the simulated rack's own tests: no product code between the test and the server.

use std::path::Path;
use std::sync::Arc;

use macluster::sim::{RunningNode, RunningRack};
use russh::ChannelMsg;
use russh::client::{self, Handle};
use russh::keys::{PrivateKeyWithHashAlg, PublicKeyOrCertificate, load_secret_key};

use super::Ran;

/// Accepts every host key: the keys are the rack's own.
pub struct AnyHost;

impl client::Handler for AnyHost {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A logged-in connection.
pub struct Client {
    handle: Handle<AnyHost>,
}

impl Client {
    /// Logs in as the rack's user with its key.
    pub async fn connect(rack: &RunningRack, node: &RunningNode) -> Client {
        Self::login(node, "admin", &rack.identity()).await.expect("the key is accepted")
    }

    /// Tries to log in; none when the server refuses.
    pub async fn login(node: &RunningNode, user: &str, key: &Path) -> Option<Client> {
        let config = Arc::new(client::Config { nodelay: true, ..client::Config::default() });
        let mut handle = client::connect(config, node.address, AnyHost).await.expect("a server listens");
        let key = load_secret_key(key, None).expect("a readable key");
        let result = handle.authenticate_publickey(user, PrivateKeyWithHashAlg::new(Arc::new(key), None)).await;
        result.expect("an answer").success().then_some(Client { handle })
    }

    /// The connection itself.
    pub fn handle(&self) -> &Handle<AnyHost> {
        &self.handle
    }

    /// Runs a command line; `-1` stands for an end by a signal.
    pub async fn exec(&self, line: &str) -> Ran {
        self.exec_with(line, b"").await
    }

    /// With this standard input.
    pub async fn exec_with(&self, line: &str, input: &[u8]) -> Ran {
        let mut channel = self.handle.channel_open_session().await.expect("a channel");
        channel.exec(true, line).await.expect("the request is sent");
        if !input.is_empty() {
            // A command that ends early closes the channel under the sender.
            let _ = channel.data(input).await;
        }
        let _ = channel.eof().await;
        let (mut stdout, mut stderr, mut status) = (Vec::new(), Vec::new(), None);
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Data { data } => stdout.extend_from_slice(&data),
                ChannelMsg::ExtendedData { data, .. } => stderr.extend_from_slice(&data),
                ChannelMsg::ExitStatus { exit_status } => status = i32::try_from(exit_status).ok(),
                ChannelMsg::ExitSignal { .. } => status = Some(-1),
                ChannelMsg::Failure => panic!("exec of `{line}` was refused"),
                _ => {}
            }
        }
        Ran {
            status: status.unwrap_or_else(|| panic!("`{line}` gave no status")),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }
}

/// Quotes every word.
pub fn line(words: &[&str]) -> String {
    words.iter().map(|w| macluster::model::command::quote(w)).collect::<Vec<_>>().join(" ")
}
