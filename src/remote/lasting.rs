//! A connection that is opened again when it broke: for work on a node that takes longer than a desk's network holds.
//!
//! Nothing is ever run a second time: a command whose connection broke has failed, and only the next one gets a new
//! connection. What has to hold on a connection, such as a lock, is seen to before anything else runs over the new one.

use std::net::IpAddr;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{ConnectError, Duplex, OnOutput, OnReopened, OnSent, Remote, RemoteError, SharedRemote};
use crate::event::{Event, Events};
use crate::model::{Cmd, NodeName, Output};

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(2);
/// No try begins later after the first one. Each has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(20);
/// A node that could not be reached is not asked again for so long: whoever undoes ten steps does not wait ten times.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Makes a new connection.
pub(super) type Opener = Box<dyn Fn() -> BoxFuture<'static, Result<SharedRemote, ConnectError>> + Send + Sync>;

/// How long is waited for what.
#[derive(Clone, Copy)]
struct Limits {
    pause: Duration,
    patience: Duration,
    given_up: Duration,
}

/// A connection and the way to another one.
pub(super) struct Lasting {
    node: NodeName,
    root: String,
    user: String,
    peer: Option<IpAddr>,
    events: Events,
    open: Opener,
    limits: Limits,
    first: StdMutex<Option<Arc<OnReopened>>>,
    now: Mutex<Now>,
}

struct Now {
    remote: SharedRemote,
    /// A command came back from it without an end.
    broke: bool,
    /// Why there is no other one, and since when.
    failed: Option<(Instant, RemoteError)>,
}

impl Lasting {
    pub(super) fn new(remote: SharedRemote, events: &Events, open: Opener) -> Self {
        Lasting {
            node: remote.node().clone(),
            root: remote.root().to_owned(),
            user: remote.user().to_owned(),
            peer: remote.peer_address(),
            events: Arc::clone(events),
            open,
            limits: Limits { pause: PAUSE, patience: PATIENCE, given_up: GIVEN_UP },
            first: StdMutex::default(),
            now: Mutex::new(Now { remote, broke: false, failed: None }),
        }
    }

    /// The connection, or a new one when it broke. Whoever else needs it meanwhile waits for the same one.
    async fn live(&self) -> Result<SharedRemote, RemoteError> {
        let mut now = self.now.lock().await;
        if !now.broke && now.remote.is_open() {
            return Ok(Arc::clone(&now.remote));
        }
        now.broke = true;
        if let Some((at, why)) = &now.failed
            && at.elapsed() < self.limits.given_up
        {
            return Err(why.clone());
        }
        let opened = match self.reopen().await {
            Ok(remote) => self.begin(&remote).await.map(|()| remote),
            Err(why) => Err(RemoteError::Connect(why)),
        };
        match opened {
            Ok(remote) => {
                *now = Now { remote: Arc::clone(&remote), broke: false, failed: None };
                Ok(remote)
            }
            Err(why) => {
                now.failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    async fn reopen(&self) -> Result<SharedRemote, ConnectError> {
        let began = Instant::now();
        loop {
            match (self.open)().await {
                Err(_) if began.elapsed() + self.limits.pause < self.limits.patience => {
                    tokio::time::sleep(self.limits.pause).await;
                }
                last => return last,
            }
        }
    }

    /// What comes first.
    async fn begin(&self, remote: &SharedRemote) -> Result<(), RemoteError> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(first) = first
            && let Err(why) = (*first)(Arc::clone(remote)).await
        {
            remote.close().await;
            return Err(RemoteError::Unlocked(why));
        }
        let text = "the connection broke, and was opened again".to_owned();
        self.events.emit(Event::Warning { node: Some(self.node.clone()), text });
        Ok(())
    }

    /// Remembers that it broke, unless there is another one already.
    async fn broke(&self, remote: &SharedRemote) {
        let mut now = self.now.lock().await;
        now.broke |= Arc::ptr_eq(&now.remote, remote);
    }
}

impl Remote for Lasting {
    fn node(&self) -> &NodeName {
        &self.node
    }

    fn root(&self) -> &str {
        &self.root
    }

    fn exec_with(
        &self,
        cmd: Cmd,
        on_sent: Option<OnSent>,
        on_output: Option<OnOutput>,
    ) -> BoxFuture<'_, Result<Output, RemoteError>> {
        async move {
            let remote = self.live().await?;
            let result = remote.exec_with(cmd, on_sent, on_output).await;
            if matches!(result, Err(RemoteError::Lost(_))) {
                self.broke(&remote).await;
            }
            result
        }
        .boxed()
    }

    fn open_tcp(&self, host: &str, port: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>> {
        let host = host.to_owned();
        async move {
            let remote = self.live().await?;
            let result = remote.open_tcp(&host, port).await;
            if matches!(result, Err(RemoteError::Lost(_))) {
                self.broke(&remote).await;
            }
            result
        }
        .boxed()
    }

    fn peer_address(&self) -> Option<IpAddr> {
        self.peer
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn on_reopened(&self, first: OnReopened) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(first));
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            let remote = Arc::clone(&self.now.lock().await.remote);
            remote.close().await;
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::model::FailureKind;

    /// Loses its connection at the command `lose`; counts what it ran.
    struct Fragile {
        node: NodeName,
        ran: Arc<AtomicU32>,
    }

    impl Remote for Fragile {
        fn node(&self) -> &NodeName {
            &self.node
        }

        fn root(&self) -> &'static str {
            ""
        }

        fn exec_with(
            &self,
            cmd: Cmd,
            _: Option<OnSent>,
            _: Option<OnOutput>,
        ) -> BoxFuture<'_, Result<Output, RemoteError>> {
            self.ran.fetch_add(1, Ordering::Relaxed);
            let lost = cmd.program == "lose";
            async move { if lost { Err(RemoteError::Lost("gone".into())) } else { Ok(Output::default()) } }.boxed()
        }

        fn open_tcp(&self, _: &str, _: u16) -> BoxFuture<'_, Result<Box<dyn Duplex>, RemoteError>> {
            async { Err(RemoteError::Local("not here".into())) }.boxed()
        }

        fn peer_address(&self) -> Option<IpAddr> {
            None
        }

        fn user(&self) -> &'static str {
            "admin"
        }

        fn close(&self) -> BoxFuture<'_, ()> {
            async {}.boxed()
        }
    }

    /// With so many failures before a connection can be made again; counts commands and tries.
    fn lasting(failures: u32) -> (Lasting, Arc<AtomicU32>, Arc<AtomicU32>) {
        let (ran, tries) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let fragile = {
            let ran = Arc::clone(&ran);
            move || -> SharedRemote {
                Arc::new(Fragile { node: "studio-1".parse().expect("a name"), ran: Arc::clone(&ran) })
            }
        };
        let first = fragile();
        let open: Opener = {
            let tries = Arc::clone(&tries);
            Box::new(move || {
                let failed = tries.fetch_add(1, Ordering::Relaxed) < failures;
                let why = ConnectError { kind: FailureKind::Unreachable, message: "nobody".into(), hint: None };
                let opened = if failed { Err(why) } else { Ok(fragile()) };
                async move { opened }.boxed()
            })
        };
        let remote = Lasting::new(first, &crate::event::silent(), open);
        // Three tries, without a pause.
        let limits = Limits { pause: Duration::ZERO, patience: Duration::MAX, given_up: Duration::ZERO };
        (Lasting { limits, ..remote }, ran, tries)
    }

    #[tokio::test]
    async fn what_broke_is_opened_again_and_nothing_runs_twice() {
        let (remote, ran, tries) = lasting(2);
        let run = |program: &'static str| remote.exec(Cmd::read(program, [""; 0]));
        run("true").await.expect("runs");
        assert!(matches!(run("lose").await, Err(RemoteError::Lost(_))));
        let counts = || (ran.load(Ordering::Relaxed), tries.load(Ordering::Relaxed));
        assert_eq!(counts(), (2, 0), "nothing is done without need");
        run("true").await.expect("runs on the third connection");
        run("true").await.expect("and stays there");
        assert_eq!(counts(), (4, 3));
    }

    #[tokio::test]
    async fn a_node_that_is_gone_is_given_up_for_a_while() {
        let (mut remote, ran, tries) = lasting(2);
        remote.limits = Limits { patience: Duration::ZERO, given_up: Duration::MAX, ..remote.limits };
        let run = |program: &'static str| remote.exec(Cmd::read(program, [""; 0]));
        run("lose").await.expect_err("lost");
        for _ in 0..3 {
            assert!(matches!(run("true").await, Err(RemoteError::Connect(_))));
        }
        assert_eq!((ran.load(Ordering::Relaxed), tries.load(Ordering::Relaxed)), (1, 1));
        remote.limits.given_up = Duration::ZERO;
        let run = |program: &'static str| remote.exec(Cmd::read(program, [""; 0]));
        run("true").await.expect_err("asked again");
        run("true").await.expect("there again");
        assert_eq!(tries.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn nothing_runs_over_a_new_connection_before_what_comes_first() {
        let (remote, ran, _) = lasting(0);
        let free = Arc::new(AtomicU32::new(0));
        let asked = Arc::clone(&free);
        remote.on_reopened(Box::new(move |_| {
            let free = asked.fetch_add(1, Ordering::Relaxed) > 0;
            async move { if free { Ok(()) } else { Err("another desk has the lock".to_owned()) } }.boxed()
        }));
        let run = |program: &'static str| remote.exec(Cmd::write(program, [""; 0]));
        run("true").await.expect("the first connection asks nobody");
        assert_eq!(free.load(Ordering::Relaxed), 0);
        run("lose").await.expect_err("lost");
        assert_eq!(run("true").await, Err(RemoteError::Unlocked("another desk has the lock".to_owned())));
        assert_eq!(ran.load(Ordering::Relaxed), 2, "it was not run");
        run("true").await.expect("free");
        assert_eq!((free.load(Ordering::Relaxed), ran.load(Ordering::Relaxed)), (2, 3));
    }
}
