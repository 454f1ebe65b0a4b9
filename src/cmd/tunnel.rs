//! `macluster tunnel`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use crate::app::App;
use crate::event::{Event, Events};
use crate::exit::{Exit, Failure, Outcome};
use crate::mesh::ranks;
use crate::model::{Access, FailureKind, Inventory, NodeName};
use crate::remote::{ConnectError, Duplex, RemoteError, SharedRemote};

/// Options of `macluster tunnel`.
#[derive(Clone, Debug, clap::Args)]
pub struct Opts {
    /// Where to listen on this machine; port 0 takes any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Node to forward to [default: the node of rank 0]
    #[arg(long, value_name = "NODE")]
    pub node: Option<NodeName>,
}

/// Connections one SSH connection carries; more open another one.
const PER_LANE: usize = 8;
/// SSH connections at most.
const LANES: usize = 8;

/// Runs it.
pub async fn run(opts: Opts, app: &App) -> Outcome {
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|e| Failure::new(Exit::Unexpected, format!("cannot wait for signals: {e}")))?;
    tokio::select! {
        failure = forward(&opts, app) => Err(failure),
        // How a tunnel ends, not how it fails.
        _ = tokio::signal::ctrl_c() => Ok(Exit::Ok),
        _ = terminate.recv() => Ok(Exit::Ok),
    }
}

/// Forwards until something fails for good.
async fn forward(opts: &Opts, app: &App) -> Failure {
    let (listener, tunnel) = match open(opts, app).await {
        Ok(opened) => opened,
        Err(failure) => return failure,
    };
    let local = listener.local_addr().unwrap_or(opts.listen);
    app.printer.out(&format!("http://{local}"));
    app.printer.err(&format!(
        "forwarding to {} on {} until Ctrl-C; e.g. POST http://{local}/v1/chat/completions",
        tunnel.api, tunnel.node
    ));
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let tunnel = Arc::clone(&tunnel);
                tokio::spawn(async move { tunnel.carry(client).await });
            }
            // One connection that broke before it was taken is no reason to end.
            Err(e) => {
                tunnel.warn(&format!("a connection could not be taken: {e}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Takes the local port, then connects to the node and proves that something answers there.
async fn open(opts: &Opts, app: &App) -> Result<(TcpListener, Arc<Tunnel>), Failure> {
    if !opts.listen.ip().is_loopback() {
        return Err(Failure::new(Exit::Usage, format!("--listen {} is not a loopback address", opts.listen))
            .hint("the API has no keys yet, so it is forwarded to this machine only: use 127.0.0.1"));
    }
    if app.global.from.is_some() {
        return Err(Failure::new(Exit::Usage, "this command needs the nodes themselves: it cannot run with --from"));
    }
    let inventory = app.inventory()?;
    let node = match &opts.node {
        Some(name) => inventory.node(name),
        None => ranks::order(&inventory).into_iter().next(),
    };
    let Some(node) = node.map(|n| n.name.clone()) else {
        let names: Vec<&str> = inventory.nodes.iter().map(|n| n.name.as_str()).collect();
        let wanted = opts.node.as_ref().map_or("rank 0's node", NodeName::as_str);
        return Err(Failure::new(Exit::NotFound, format!("the inventory has no node `{wanted}`"))
            .hint(format!("its nodes are {}", names.join(", "))));
    };
    let listener = TcpListener::bind(opts.listen).await.map_err(|e| {
        Failure::new(Exit::Unexpected, format!("cannot listen on {}: {e}", opts.listen))
            .hint("another program (or tunnel) has this port: choose one with --listen 127.0.0.1:PORT")
    })?;
    let only = inventory.narrowed(|name| *name == node);
    let tunnel = Tunnel {
        api: inventory.runtime.api,
        node,
        events: Arc::clone(&app.events),
        lanes: Mutex::default(),
        connector: Connector { inventory: only, app: app.clone() },
    };
    // Proves the whole way before an address is promised.
    match tunnel.stream().await {
        Ok(_) => Ok((listener, Arc::new(tunnel))),
        Err(e) => Err(tunnel.failure(e)),
    }
}

/// One node's API, reached over as many SSH connections as the clients need.
struct Tunnel {
    node: NodeName,
    /// On the node.
    api: SocketAddr,
    events: Events,
    lanes: Mutex<Vec<Lane>>,
    connector: Connector,
}

/// Opens SSH connections to the one node.
struct Connector {
    inventory: Inventory,
    app: App,
}

/// One SSH connection and how many clients it carries.
struct Lane {
    remote: SharedRemote,
    clients: Arc<AtomicUsize>,
}

/// A client's place on a lane.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(clients: &Arc<AtomicUsize>) -> Self {
        clients.fetch_add(1, Ordering::SeqCst);
        Place(Arc::clone(clients))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tunnel {
    /// Carries one client's connection to its end.
    async fn carry(&self, mut client: TcpStream) {
        let _ = client.set_nodelay(true);
        match self.stream().await {
            Ok((mut far, _place)) => {
                // Either side may hang up whenever it likes.
                let _ = tokio::io::copy_bidirectional(&mut client, &mut far).await;
            }
            Err(e) => self.warn(&self.failure(e).message),
        }
    }

    /// A connection to the API. Lanes that broke are left behind; the last try is on a new one.
    async fn stream(&self) -> Result<(Box<dyn Duplex>, Place), RemoteError> {
        let mut tries = 0..LANES;
        loop {
            let (remote, place) = self.lane().await?;
            let host = self.api.ip().to_string();
            match remote.open_tcp(&host, self.api.port()).await {
                Ok(stream) => return Ok((stream, place)),
                Err(RemoteError::Lost(_)) if tries.next().is_some() => {
                    self.lanes.lock().await.retain(|lane| !Arc::ptr_eq(&lane.remote, &remote));
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// A place on a lane with room, on a new lane if none has any, on the emptiest one if there are enough lanes.
    async fn lane(&self) -> Result<(SharedRemote, Place), RemoteError> {
        let mut lanes = self.lanes.lock().await;
        let load = |lane: &Lane| lane.clients.load(Ordering::SeqCst);
        if let Some(lane) = lanes.iter().min_by_key(|lane| load(lane))
            && (load(lane) < PER_LANE || lanes.len() >= LANES)
        {
            return Ok((Arc::clone(&lane.remote), Place::take(&lane.clients)));
        }
        let remote = self.connector.connect().await?;
        let lane = Lane { remote: Arc::clone(&remote), clients: Arc::default() };
        let place = Place::take(&lane.clients);
        lanes.push(lane);
        Ok((remote, place))
    }

    fn failure(&self, error: RemoteError) -> Failure {
        let Tunnel { node, api, .. } = self;
        match error {
            RemoteError::Connect(ConnectError { kind, message, hint }) => {
                let exit = if kind == FailureKind::Lost { Exit::SomeNodesFailed } else { Exit::NoNodeReachable };
                let failure = Failure::new(exit, format!("{node}: {message}"));
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            RemoteError::Refused(why) => Failure::new(Exit::SomeNodesFailed, format!("{node}: {why}")).hint(format!(
                "nothing serves the API at {api} there: see `macluster status`, start it with `macluster deploy`"
            )),
            other => Failure::new(Exit::SomeNodesFailed, format!("{node}: {other}")),
        }
    }

    fn warn(&self, text: &str) {
        self.events.emit(Event::Warning { node: None, text: text.to_owned() });
    }
}

impl Connector {
    async fn connect(&self) -> Result<SharedRemote, RemoteError> {
        let fleet = self.app.fleet(&self.inventory, Access::Read).await.map_err(|e| RemoteError::Local(e.message))?;
        match fleet.nodes.into_values().next() {
            Some(node) => node.map_err(RemoteError::Connect),
            None => Err(RemoteError::Local("the inventory has no such node".to_owned())),
        }
    }
}
