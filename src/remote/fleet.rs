//! All nodes of a rack at once: one connection each, bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::{Mutex, OnceCell};

use super::gate::Gated;
use super::keys::KeyRing;
use super::known_hosts::HostKey;
use super::lasting::Lasting;
use super::prompt::{Asker, Prompt};
use super::ssh::{HostKeyPolicy, Meeting, Session, SshRemote, SudoPassword};
use super::target::{Surroundings, Target};
use super::{ConnectError, SharedRemote};
use crate::event::{Event, Events};
use crate::exit::Exit;
use crate::model::inventory::{Inventory, Node};
use crate::model::{Access, FailureKind, NodeName};

/// How to connect.
#[derive(Clone)]
pub struct ConnectOptions {
    /// With [`Access::Read`], changing commands are refused before they are sent.
    pub access: Access,
    /// Record the keys of unknown hosts without asking.
    pub accept_new_host_keys: bool,
    /// Nodes connected to at the same time.
    pub parallel: usize,
    /// Asks for passphrases, passwords and unknown host keys.
    pub prompt: Arc<dyn Prompt>,
}

/// The nodes of a rack, connected or not.
pub struct Fleet {
    /// Every node of the inventory.
    pub nodes: BTreeMap<NodeName, Result<SharedRemote, ConnectError>>,
    /// Nodes read at the same time; at least 1.
    pub parallel: usize,
    secrets: Secrets,
}

/// What the person was asked for once.
#[derive(Clone)]
struct Secrets {
    keys: KeyRing,
    passwords: SudoPassword,
    asker: Asker,
}

impl Secrets {
    fn new(options: &ConnectOptions) -> Self {
        let asker = Asker::new(Arc::clone(&options.prompt));
        Secrets { keys: KeyRing::new(asker.clone()), passwords: SudoPassword::new(asker.clone()), asker }
    }
}

impl Fleet {
    /// Connects to all nodes of the inventory. Nodes that cannot be reached do not keep the others from it.
    pub async fn connect(inventory: &Inventory, options: &ConnectOptions, events: &Events) -> Fleet {
        let around = Surroundings::detect(inventory.ssh.use_config);
        Self::connect_in(inventory, options, events, &around).await
    }

    /// As [`Fleet::connect`], with the surroundings given.
    pub async fn connect_in(
        inventory: &Inventory,
        options: &ConnectOptions,
        events: &Events,
        around: &Surroundings,
    ) -> Fleet {
        for text in around.warnings() {
            events.emit(Event::Warning { node: None, text: text.clone() });
        }
        Self::open(inventory, options, events, around, Secrets::new(options), |_| true).await
    }

    /// New connections to some of the nodes, from nothing: what is proven by one of them is that the way in is open.
    /// Passphrases and passwords are not asked for again.
    pub async fn again(
        &self,
        inventory: &Inventory,
        options: &ConnectOptions,
        events: &Events,
        only: &BTreeSet<NodeName>,
    ) -> Fleet {
        let around = Surroundings::detect(inventory.ssh.use_config);
        Self::open(inventory, options, events, &around, self.secrets.clone(), |node| only.contains(node)).await
    }

    /// From now on a connection that broke is opened again, for the next command to that node.
    pub fn keep_open(&mut self, inventory: &Inventory, options: &ConnectOptions, events: &Events) {
        let what = Arc::new((inventory.clone(), options.clone(), self.secrets.clone()));
        for (name, node) in &mut self.nodes {
            let Ok(remote) = node else { continue };
            let (what, name) = (Arc::clone(&what), name.clone());
            let open = move || {
                let (what, name) = (Arc::clone(&what), name.clone());
                async move {
                    let (inventory, options, secrets) = &*what;
                    let around = Surroundings::detect(inventory.ssh.use_config);
                    let quiet = crate::event::silent();
                    let mut new =
                        Self::open(inventory, options, &quiet, &around, secrets.clone(), |n| *n == name).await;
                    let gone = || ConnectError {
                        kind: FailureKind::Unreachable,
                        message: "it is not in the inventory".to_owned(),
                        hint: None,
                    };
                    new.nodes.remove(&name).unwrap_or_else(|| Err(gone()))
                }
                .boxed()
            };
            *remote = Arc::new(Lasting::new(Arc::clone(remote), events, Box::new(open)));
        }
    }

    async fn open(
        inventory: &Inventory,
        options: &ConnectOptions,
        events: &Events,
        around: &Surroundings,
        secrets: Secrets,
        wanted: impl Fn(&NodeName) -> bool,
    ) -> Fleet {
        let run = Run::new(inventory, options, events, around, secrets.clone(), None);
        let nodes = inventory.nodes.iter().enumerate().filter(|(_, node)| wanted(&node.name));
        let work: Vec<BoxFuture<'_, _>> = nodes.map(|(index, node)| run.node(index, node).boxed()).collect();
        let nodes = futures::stream::iter(work).buffer_unordered(options.parallel.max(1)).collect().await;
        Fleet { nodes, parallel: options.parallel.max(1), secrets }
    }

    /// One node, whatever key is recorded for it, and the key that it offered.
    pub(super) async fn meet(
        inventory: &Inventory,
        node: &Node,
        options: &ConnectOptions,
        events: &Events,
        around: &Surroundings,
    ) -> Result<(SharedRemote, HostKey), ConnectError> {
        let failed = |message: String| ConnectError { kind: FailureKind::Unreachable, message, hint: None };
        let meeting = Meeting::with(&Target::of_node(inventory, node, around).map_err(failed)?);
        let run = Run::new(inventory, options, events, around, Secrets::new(options), Some(meeting.clone()));
        let (_, remote) = run.node(0, node).await;
        let key = meeting.seen().ok_or_else(|| failed("the host offered no key".to_owned()));
        Ok((remote?, key?))
    }

    /// Nodes that are connected.
    pub fn reached(&self) -> impl Iterator<Item = (&NodeName, &SharedRemote)> {
        self.nodes.iter().filter_map(|(name, node)| node.as_ref().ok().map(|remote| (name, remote)))
    }

    /// Nodes that are not, and why.
    pub fn unreached(&self) -> impl Iterator<Item = (&NodeName, &ConnectError)> {
        self.nodes.iter().filter_map(|(name, node)| node.as_ref().err().map(|why| (name, why)))
    }

    /// The remote of a connected node.
    pub fn remote(&self, node: &NodeName) -> Option<&SharedRemote> {
        self.nodes.get(node)?.as_ref().ok()
    }

    /// The exit code that unreached nodes lead to: 7 when no node was reached, 6 when some were not, else 0.
    pub fn exit(&self) -> Exit {
        match (self.reached().count(), self.unreached().count()) {
            (_, 0) => Exit::Ok,
            (0, _) => Exit::NoNodeReachable,
            _ => Exit::SomeNodesFailed,
        }
    }

    /// Ends all connections.
    pub async fn close(&self) {
        futures::future::join_all(self.reached().map(|(_, remote)| remote.close())).await;
    }
}

/// Connections to jump hosts are shared, one for so many nodes.
const NODES_PER_JUMP: usize = 8;

/// A jump host's session or why there is none.
type Jump = Arc<OnceCell<Result<Arc<Session>, ConnectError>>>;

/// What the nodes of one run share.
struct Run<'a> {
    inventory: &'a Inventory,
    around: &'a Surroundings,
    access: Access,
    policy: HostKeyPolicy,
    keys: KeyRing,
    passwords: SudoPassword,
    /// By route and group of nodes.
    jumps: Mutex<HashMap<(String, usize), Jump>>,
    events: &'a Events,
}

impl<'a> Run<'a> {
    fn new(
        inventory: &'a Inventory,
        options: &ConnectOptions,
        events: &'a Events,
        around: &'a Surroundings,
        secrets: Secrets,
        meeting: Option<Meeting>,
    ) -> Self {
        Run {
            inventory,
            around,
            access: options.access,
            policy: HostKeyPolicy {
                accept_new: options.accept_new_host_keys,
                asker: secrets.asker,
                events: Arc::clone(events),
                meeting,
            },
            keys: secrets.keys,
            passwords: secrets.passwords,
            jumps: Mutex::default(),
            events,
        }
    }

    async fn node(&self, index: usize, node: &Node) -> (NodeName, Result<SharedRemote, ConnectError>) {
        let what = "connecting".to_owned();
        self.events.emit(Event::TaskStarted { node: Some(node.name.clone()), what: what.clone() });
        let result = self.reach(index, node).await;
        let error = result.as_ref().err().map(|e| e.message.clone());
        self.events.emit(Event::TaskDone { node: Some(node.name.clone()), what, error });
        (node.name.clone(), result)
    }

    async fn reach(&self, index: usize, node: &Node) -> Result<SharedRemote, ConnectError> {
        let target = Target::of_node(self.inventory, node, self.around).map_err(|message| ConnectError {
            kind: FailureKind::Unreachable,
            message,
            hint: None,
        })?;
        if let Some(command) = &target.ignored_proxy_command {
            let text = format!(
                "ProxyCommand `{}` is not supported and not used; write ProxyJump instead",
                command.escape_debug()
            );
            self.events.emit(Event::Warning { node: Some(node.name.clone()), text });
        }
        let through = self.through(&target.jumps, index / NODES_PER_JUMP).await?;
        let session = Session::connect(&target, through, &self.policy, &self.keys, self.around.waits).await?;
        let root = node.root.as_deref().unwrap_or(&self.inventory.paths.root);
        let remote = SshRemote::new(node.name.clone(), root, target.user.clone(), session, self.passwords.clone());
        Ok(Arc::new(Gated::new(Arc::new(remote), self.access)))
    }

    /// The session of the last jump host, connected once for all nodes of a group.
    async fn through(&self, jumps: &[Target], group: usize) -> Result<Option<Arc<Session>>, ConnectError> {
        let mut through: Option<Arc<Session>> = None;
        let mut route = String::new();
        for hop in jumps {
            route.push_str(&hop.label());
            route.push(',');
            let cell = Arc::clone(self.jumps.lock().await.entry((route.clone(), group)).or_default());
            let before = through.clone();
            let session = cell
                .get_or_init(|| async {
                    Session::connect(hop, before, &self.policy, &self.keys, self.around.waits)
                        .await
                        .map(Arc::new)
                        .map_err(|e| ConnectError {
                            message: format!("jump host {}: {}", hop.host.escape_debug(), e.message),
                            ..e
                        })
                })
                .await;
            through = Some(session.clone()?);
        }
        Ok(through)
    }
}
