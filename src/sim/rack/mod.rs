//! A rack from description to running servers and back to nothing.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::fault::{Fault, FaultAt};
use super::keeper::Keeper;
use super::launchd::Launchd;
use super::processes;
use super::server::{self, Outage};
use super::store::Node;

mod cabling;
pub(super) use cabling::MESH;
mod faults;
mod folder;
mod host;
mod keys;
mod network;
mod ports;
mod power;

/// Why a rack cannot be raised.
#[derive(Debug, thiserror::Error)]
pub enum RackError {
    /// The description makes no sense.
    #[error("{0}")]
    Description(String),
    /// The folder cannot be used.
    #[error("{path}: {source}")]
    Folder {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No ports.
    #[error("no listener on 127.0.0.1: {0}")]
    Listen(io::Error),
}

impl RackError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> RackError {
        let path = path.to_owned();
        move |source| RackError::Folder { path, source }
    }
}

/// Describes a rack.
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    models: Vec<String>,
    faults: Vec<FaultAt>,
    dir: Option<PathBuf>,
    binary: Option<PathBuf>,
    programs: Option<PathBuf>,
    python: Option<PathBuf>,
    model: Option<PathBuf>,
    prepared: bool,
    profiler_delay: Duration,
}

/// A rack that is not raised yet: `Rack::builder().nodes(3).start().await`.
#[derive(Clone, Copy, Debug)]
pub struct Rack;

impl Rack {
    /// Three Mac Studio M3 Ultra, fully cabled, as they leave the box (Thunderbolt Bridge, no link addresses).
    pub fn builder() -> Builder {
        Builder {
            name: "simulated-rack".to_owned(),
            models: vec!["Mac15,14".to_owned(); 3],
            faults: Vec::new(),
            dir: None,
            binary: None,
            programs: None,
            python: None,
            model: None,
            prepared: false,
            profiler_delay: Duration::ZERO,
        }
    }
}

impl Builder {
    /// This many Mac15,14.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.models = vec!["Mac15,14".to_owned(); count];
        self
    }

    /// One node per model identifier.
    #[must_use]
    pub fn models<S: Into<String>>(mut self, models: impl IntoIterator<Item = S>) -> Self {
        self.models = models.into_iter().map(Into::into).collect();
        self
    }

    /// With this fault.
    #[must_use]
    pub fn fault(mut self, fault: impl Into<FaultAt>) -> Self {
        self.faults.push(fault.into());
        self
    }

    /// In this folder, which is kept; without it in a temporary one.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// The macluster binary that the nodes' programs are links to (tests: not the running executable).
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// What the nodes' programs are links to where each node has a `/` of its own: a path on the node.
    #[must_use]
    pub fn programs(mut self, path: impl Into<PathBuf>) -> Self {
        self.programs = Some(path.into());
        self
    }

    /// A Python of this machine, offered to the nodes as `/opt/python/bin/<name>`.
    #[must_use]
    pub fn python(mut self, python: impl Into<PathBuf>) -> Self {
        self.python = Some(python.into());
        self
    }

    /// A model folder, laid into every node at `/opt/macluster/models/<name>`.
    #[must_use]
    pub fn model(mut self, model: impl Into<PathBuf>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// With the link networks already set up.
    #[must_use]
    pub fn prepared(mut self, yes: bool) -> Self {
        self.prepared = yes;
        self
    }

    /// `system_profiler` takes this long on every node.
    #[must_use]
    pub fn profiler_delay(mut self, delay: Duration) -> Self {
        self.profiler_delay = delay;
        self
    }

    /// Writes the folder alone: states, file systems, keys. For nodes that are run elsewhere.
    ///
    /// # Errors
    /// A description that makes no sense, a folder that is in use.
    pub fn lay_out(self) -> Result<LaidOut, RackError> {
        let built = folder::build(&self)?;
        let write = || -> io::Result<Vec<(Node, String)>> {
            let node = |host: folder::Host| {
                let key = built.dir.join("state").join(format!("{}.host_key", host.node.name));
                keys::write(&host.key, &key)?;
                Ok((host.node, keys::public(host.key.public_key())?))
            };
            built.hosts.into_iter().map(node).collect()
        };
        let nodes = write().map_err(RackError::at(&built.dir))?;
        let client = keys::public(built.client.public_key()).map_err(RackError::at(&built.dir))?;
        Ok(LaidOut { dir: built.dir, nodes, client, temporary: built.temporary })
    }

    /// Writes the folder and starts the servers.
    ///
    /// # Errors
    /// A description that makes no sense, a folder that is in use, no ports.
    pub async fn start(self) -> Result<RunningRack, RackError> {
        let faults = self.faults.clone();
        let built = folder::build(&self)?;
        let keeper = Keeper::start(&built.binary, &built.dir).map_err(RackError::at(&built.binary))?;
        let (stop, stopped) = watch::channel(false);
        let launchd = Launchd::start(&built.dir, None, stopped.clone()).await.map_err(RackError::Listen)?;
        for host in &built.hosts {
            launchd.boot(&host.node).map_err(RackError::at(&host.node.root))?;
        }
        let mut tasks = JoinSet::new();
        let mut nodes = Vec::new();
        let mut reserved = Vec::new();
        let mut switches = BTreeMap::new();
        let last = built.last().to_owned();
        for host in built.hosts {
            let unreachable = faults::hits(&faults, Fault::Unreachable, &host.node.name, &last);
            let address = if unreachable {
                let (address, socket) = ports::closed().map_err(RackError::Listen)?;
                reserved.push(socket);
                address
            } else {
                let listener = TcpListener::bind("127.0.0.1:0").await.map_err(RackError::Listen)?;
                let address = listener.local_addr().map_err(RackError::Listen)?;
                let setup = server::Setup {
                    node: host.node.clone(),
                    user: "admin".to_owned(),
                    host_key: host.key.clone(),
                    client_key: built.client.public_key().clone(),
                };
                let (switch, outages) = mpsc::channel(1);
                switches.insert(host.node.name.clone(), switch);
                tasks.spawn(server::serve(setup, listener, stopped.clone(), outages));
                address
            };
            nodes.push((host, address));
        }
        let inventory = folder::write_inventory(&self, &built.dir, &built.client, &nodes, &faults)?;
        let nodes = nodes.into_iter().map(|(host, address)| RunningNode { node: host.node, address }).collect();
        Ok(RunningRack {
            dir: built.dir,
            inventory,
            nodes,
            keeper: Some(keeper),
            launchd,
            stop,
            tasks,
            switches,
            reserved,
            temporary: built.temporary,
        })
    }
}

/// A rack's folder without servers.
#[derive(Debug)]
pub struct LaidOut {
    /// The folder. `id_ed25519` logs in; `state/<node>.host_key` is a node's own key.
    pub dir: PathBuf,
    /// The nodes in slot order, each with its public host key in OpenSSH's form.
    pub nodes: Vec<(Node, String)>,
    /// The public key that may log in, in OpenSSH's form.
    pub client: String,
    /// Removes the folder when dropped.
    pub temporary: Option<tempfile::TempDir>,
}

/// One node of a running rack.
#[derive(Clone, Debug)]
pub struct RunningNode {
    /// Its folder and state.
    pub node: Node,
    /// Where its SSH server listens (or, unreachable, does not).
    pub address: SocketAddr,
}

/// A rack whose servers run. Dropping it ends the servers; [`RunningRack::stop`] waits for it.
#[derive(Debug)]
pub struct RunningRack {
    /// The rack's folder.
    pub dir: PathBuf,
    /// Its `macluster.yaml`.
    pub inventory: PathBuf,
    /// Its nodes in slot order.
    pub nodes: Vec<RunningNode>,
    /// Until [`RunningRack::stop`] takes it.
    keeper: Option<Keeper>,
    launchd: Launchd,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
    /// The power switch of every node that has a server.
    switches: BTreeMap<String, mpsc::Sender<Outage>>,
    /// Ports that are held without anybody listening.
    reserved: Vec<rustix::fd::OwnedFd>,
    temporary: Option<tempfile::TempDir>,
}

/// A rack that is not stopped properly (a test that panics) still leaves no process behind.
impl Drop for RunningRack {
    fn drop(&mut self) {
        self.launchd.abandon();
        for node in &self.nodes {
            processes::kill_all(&node.node);
        }
    }
}

impl RunningRack {
    /// The private key that logs in.
    pub fn identity(&self) -> PathBuf {
        self.dir.join("id_ed25519")
    }

    /// What reached beyond a node so far; empty is right.
    pub fn tripwire(&self) -> String {
        std::fs::read_to_string(self.dir.join("tripwire.log")).unwrap_or_default()
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&RunningNode> {
        self.nodes.iter().find(|n| n.node.name == name)
    }

    /// Ends the servers and every process that was started for a node, and removes a temporary folder.
    pub async fn stop(mut self) -> io::Result<()> {
        self.launchd.stop().await;
        let ending = self.nodes.iter().map(|n| processes::end_all(&n.node, Duration::from_secs(3)));
        futures::future::join_all(ending).await;
        let _ = self.stop.send(true);
        while self.tasks.join_next().await.is_some() {}
        self.reserved.clear();
        if let Some(keeper) = self.keeper.take() {
            keeper.end().await;
        }
        match self.temporary.take() {
            Some(folder) => folder.close(),
            None => Ok(()),
        }
    }
}
