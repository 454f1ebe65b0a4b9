//! An SSH server that takes any user name with any key and runs real processes. OpenSSH logs in only users of this
//! machine, and what sudo does depends on the user not being root.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use russh::keys::key::safe_rng;
use russh::keys::{Algorithm, PrivateKey};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelMsg};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

/// A server on 127.0.0.1; ends with the test's runtime.
pub struct AnyUser {
    /// Its port.
    pub port: u16,
}

impl AnyUser {
    /// Starts one.
    pub async fn start() -> Self {
        let key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).expect("a key");
        let config =
            Config { auth_rejection_time: Duration::ZERO, keys: vec![key], nodelay: true, ..Config::default() };
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let config = Arc::clone(&config);
                tokio::spawn(async move {
                    if let Ok(session) = russh::server::run_stream(config, stream, Client::default()).await {
                        let _ = session.await;
                    }
                });
            }
        });
        AnyUser { port }
    }
}

#[derive(Default)]
struct Client {
    channels: HashMap<ChannelId, Channel<Msg>>,
}

impl Handler for Client {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _user: &str, _key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(&mut self, id: ChannelId, line: &[u8], session: &mut Session) -> Result<(), Self::Error> {
        let Some(channel) = self.channels.remove(&id) else { return session.channel_failure(id) };
        let line = String::from_utf8(line.to_vec()).expect("UTF-8");
        session.channel_success(id)?;
        tokio::spawn(run(channel, line));
        Ok(())
    }
}

/// Runs one line as sshd would: through a shell, streams as they come, the status at the end.
async fn run(channel: Channel<Msg>, line: String) {
    let mut child = Command::new("/bin/sh")
        .arg("-c")
        .arg(line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("sh runs");
    let mut stdin = child.stdin.take();
    let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (mut from, to) = channel.split();
    let to = Arc::new(to);
    let pumps = [tokio::spawn(pump(out, Arc::clone(&to), None)), tokio::spawn(pump(err, Arc::clone(&to), Some(1)))];
    let status = loop {
        tokio::select! {
            message = from.wait() => match message {
                Some(ChannelMsg::Data { data }) => {
                    if let Some(to) = &mut stdin && to.write_all(&data).await.is_err() {
                        stdin = None;
                    }
                }
                Some(ChannelMsg::Eof) => stdin = None,
                Some(ChannelMsg::Close) | None => return,
                Some(_) => {}
            },
            status = child.wait() => break status.expect("a status"),
        }
    };
    for pump in pumps {
        let _ = pump.await;
    }
    let _ = to.exit_status(u32::try_from(status.code().unwrap_or(255)).unwrap_or(255)).await;
    let _ = to.eof().await;
    let _ = to.close().await;
}

async fn pump(mut from: impl AsyncRead + Unpin, to: Arc<russh::ChannelWriteHalf<Msg>>, stream: Option<u32>) {
    let mut buffer = [0; 8192];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let data = buffer.get(..n).expect("within the buffer").to_vec();
        let sent = match stream {
            None => to.data_bytes(data).await,
            Some(ext) => to.extended_data_bytes(ext, data).await,
        };
        if sent.is_err() {
            break;
        }
    }
}
