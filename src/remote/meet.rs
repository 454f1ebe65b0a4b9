//! Meets the machine that answers for a node before it is trusted: its key is looked at, not recorded.

use std::path::PathBuf;

use super::known_hosts::{HostKey, KnownHosts, Listing, Place, replace};
use super::target::{Surroundings, Target};
use super::{ConnectError, ConnectOptions, Fleet, SharedRemote};
use crate::event::Events;
use crate::model::inventory::{Inventory, Node};
use crate::model::{Access, FailureKind};

/// A connection to a machine that nobody vouches for yet. Commands that change something are refused on it.
pub struct Met {
    /// The connection.
    pub remote: SharedRemote,
    /// The key it offered.
    pub key: HostKey,
}

/// Connects to a node whatever key is recorded for it. Only keys of ours can be used to log in, and nothing but
/// signatures leaves this machine.
///
/// # Errors
/// As any connection, but for changed and unknown keys; revoked ones are refused.
pub async fn meet(
    inventory: &Inventory,
    node: &Node,
    options: &ConnectOptions,
    events: &Events,
) -> Result<Met, ConnectError> {
    let around = Surroundings::detect(inventory.ssh.use_config);
    let options = ConnectOptions { access: Access::Read, ..options.clone() };
    let (remote, key) = Fleet::meet(inventory, node, &options, events, &around).await?;
    Ok(Met { remote, key })
}

/// What `known_hosts` holds for a node.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The name it is listed by: `host`, or `[host]:port`.
    pub name: String,
    /// Its keys, with their places, user's and global files.
    pub keys: Vec<(Place, HostKey)>,
    listed: (String, u16),
    files: Vec<PathBuf>,
    listing: Listing,
}

impl Recorded {
    /// Looks it up.
    ///
    /// # Errors
    /// The node's host cannot be made sense of.
    pub fn of(inventory: &Inventory, node: &Node) -> Result<Recorded, ConnectError> {
        let around = Surroundings::detect(inventory.ssh.use_config);
        let target = Target::of_node(inventory, node, &around).map_err(|message| ConnectError {
            kind: FailureKind::Unreachable,
            message,
            hint: None,
        })?;
        let (host, port) = target.listed.clone();
        let known = KnownHosts::load(target.user_known_hosts.iter().chain(&target.global_known_hosts));
        Ok(Recorded {
            name: super::known_hosts::listed_name(&host, port),
            keys: known.recorded(&host, port),
            listed: (host, port),
            files: target.user_known_hosts,
            listing: target.listing,
        })
    }

    /// Keys that are recorded in files which are not the user's own.
    pub fn elsewhere(&self) -> impl Iterator<Item = &(Place, HostKey)> {
        self.keys.iter().filter(|(place, _)| !self.files.contains(&place.file))
    }

    /// The file that new keys are recorded in.
    pub fn file(&self) -> Option<&PathBuf> {
        self.files.first()
    }

    /// Puts this key in the place of all that is recorded for the node in the user's own files.
    ///
    /// # Errors
    /// The files cannot be changed; then they are as before.
    pub async fn replace(&self, key: &HostKey) -> std::io::Result<Vec<(Place, HostKey)>> {
        let (files, (host, port), key) = (self.files.clone(), self.listed.clone(), key.clone());
        let listing = self.listing;
        let work = tokio::task::spawn_blocking(move || replace(&files, &host, port, &key, listing));
        work.await.map_err(std::io::Error::other)?
    }
}
