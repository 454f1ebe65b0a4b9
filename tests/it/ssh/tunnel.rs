//! `macluster tunnel` over a real server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::sshd::{Sshd, me};
use crate::support::{command, macluster};

/// An inventory file whose API is at this port of the node.
fn inventory_file(sshd: &Sshd, api: u16) -> PathBuf {
    let file = sshd.path("macluster.yaml");
    let text = format!(
        "rack: test\nssh:\n  user: {}\n  use_config: false\n  identity: {}\n  known_hosts: {}\n\
         nodes:\n  - {{ name: mac-1, host: 127.0.0.1, port: {} }}\nruntime:\n  api: {{ listen: 127.0.0.1:{api} }}\n",
        me(),
        sshd.path("id").display(),
        sshd.path("known_hosts").display(),
        sshd.port
    );
    std::fs::write(&file, text).expect("written");
    file
}

/// A server that sends back what it gets, after a word of its own.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(b"echo:").await;
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    port
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_at_once_and_ctrl_c_is_its_end() {
    let Some(sshd) = Sshd::start("many_clients_at_once_and_ctrl_c", &["ed25519"], "") else { return };
    let file = inventory_file(&sshd, echo().await);
    let child = command(sshd.dir.path())
        .args(["-f", &file.to_string_lossy(), "--accept-new-host-keys", "tunnel", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut running = Running(child);
    let stdout = running.0.stdout.take().expect("piped");
    let url = tokio::task::spawn_blocking(move || BufReader::new(stdout).lines().next()).await.expect("joined");
    let url = url.expect("a line").expect("UTF-8");
    let address = url.strip_prefix("http://").expect("a URL").to_owned();

    // More than one SSH connection carries; all stay open until all have answered.
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(20));
    let clients = (0..20).map(|n| {
        let (address, barrier) = (address.clone(), barrier.clone());
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            let mut word = [0; 5];
            stream.read_exact(&mut word).await.expect("a word");
            barrier.wait().await;
            let sent = format!("client {n} ").repeat(2000);
            let (mut from, mut to) = stream.split();
            let mut received = String::new();
            let sending = async {
                to.write_all(sent.as_bytes()).await.expect("sent");
                to.shutdown().await.expect("ended");
            };
            let ((), read) = tokio::join!(sending, from.read_to_string(&mut received));
            read.expect("read");
            assert!(received == sent, "client {n}: {} bytes of {}", received.len(), sent.len());
        })
    });
    let all = tokio::time::timeout(Duration::from_secs(60), join_all(clients)).await.expect("in time");
    for client in all {
        client.expect("a client that succeeded");
    }
    assert_eq!(sshd.connections(), 3, "20 clients, 8 on each connection");

    // The way is found again after the connections broke.
    sshd.kill_connections();
    let mut stream = TcpStream::connect(&address).await.expect("connected");
    let mut word = [0; 5];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut word)).await.expect("in time");
    read.expect("a word");

    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
    let status = tokio::task::spawn_blocking(move || running.0.wait().expect("a status")).await.expect("joined");
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_the_way_is_said() {
    let Some(sshd) = Sshd::start("what_stands_in_the_way_is_said", &["ed25519"], "") else { return };
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let closed = { closed }.local_addr().expect("an address").port();
    let file = inventory_file(&sshd, closed);
    let run = |args: &[&str]| {
        let dir = sshd.dir.path().to_owned();
        let mut all = vec!["-f".to_owned(), file.to_string_lossy().into_owned()];
        all.push("--accept-new-host-keys".to_owned());
        all.push("tunnel".to_owned());
        all.extend(args.iter().map(|a| (*a).to_owned()));
        async move {
            let run = move || macluster(&dir, &all.iter().map(String::as_str).collect::<Vec<_>>());
            tokio::task::spawn_blocking(run).await.expect("joined")
        }
    };
    let refused = run(&["--listen", "127.0.0.1:0"]).await.expect(6);
    assert!(refused.stderr.contains(&format!("127.0.0.1:{closed}")), "{}", refused.stderr);
    assert!(refused.stderr.contains("macluster deploy"), "{}", refused.stderr);
    assert_eq!(refused.stdout, "", "no address is promised");

    let taken = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let taken = taken.local_addr().map(|a| (a.to_string(), taken)).expect("an address");
    let busy = run(&["--listen", &taken.0]).await.expect(1);
    assert!(busy.stderr.contains(&taken.0) && busy.stderr.contains("--listen"), "{}", busy.stderr);

    let open = run(&["--listen", "0.0.0.0:0"]).await.expect(2);
    assert!(open.stderr.contains("loopback"), "{}", open.stderr);
    let unknown = run(&["--node", "mac-7"]).await.expect(10);
    assert!(unknown.stderr.contains("mac-7") && unknown.stderr.contains("mac-1"), "{}", unknown.stderr);
}
