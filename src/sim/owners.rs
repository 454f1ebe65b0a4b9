//! Who owns a file of a node. The files themselves belong to whoever runs the simulator, so owners are recorded:
//! what is not recorded has the owner of the nearest folder that is, else the one a stock Mac gives it.

use std::io;
use std::path::Path;

use super::state::NodeState;
use super::store::Node;

/// User and group id.
pub(super) type Owner = (u32, u32);

/// Users and groups that samples name.
const USERS: &[(&str, u32)] = &[("root", 0), ("daemon", 1), ("nobody", 4_294_967_294)];
const GROUPS: &[(&str, u32)] = &[("wheel", 0), ("daemon", 1), ("staff", 20), ("admin", 80), ("nobody", 4_294_967_294)];

/// Id of a user, by name or number.
pub(super) fn user_id(state: &NodeState, name: &str) -> Option<u32> {
    let known = USERS.iter().find(|(n, _)| *n == name).map(|(_, id)| *id);
    known.or((name == state.user).then_some(501)).or_else(|| name.parse().ok())
}

/// Id of a group, by name or number.
pub(super) fn group_id(name: &str) -> Option<u32> {
    GROUPS.iter().find(|(n, _)| *n == name).map(|(_, id)| *id).or_else(|| name.parse().ok())
}

/// Name of a user.
pub(super) fn user_name(state: &NodeState, id: u32) -> String {
    match USERS.iter().find(|(_, u)| *u == id) {
        Some((name, _)) => (*name).to_owned(),
        None if id == 501 => state.user.clone(),
        None => id.to_string(),
    }
}

/// Name of a group.
pub(super) fn group_name(id: u32) -> String {
    GROUPS.iter().find(|(_, g)| *g == id).map_or(id.to_string(), |(name, _)| (*name).to_owned())
}

/// The key of a path of this machine in `NodeState::owners`.
pub(super) fn key(node: &Node, path: &Path) -> String {
    path.strip_prefix(&node.root).unwrap_or(path).to_string_lossy().into_owned()
}

/// The owner of the file at this key.
pub(super) fn owner(state: &NodeState, key: &str) -> Owner {
    let mut at = key;
    loop {
        if let Some(owner) = state.owners.get(at) {
            return *owner;
        }
        match at.rsplit_once('/') {
            Some((parent, _)) => at = parent,
            None => break,
        }
    }
    let home = format!("Users/{}", state.user);
    if key == home || key.starts_with(&format!("{home}/")) {
        (501, 20)
    } else if key.starts_with("private/tmp/") {
        (501, 0)
    } else {
        (0, 0)
    }
}

/// Records that `uid` made this file; its group is its folder's, as on every BSD.
pub(super) fn created(node: &Node, uid: u32, paths: &[std::path::PathBuf]) -> io::Result<()> {
    let state = node.load()?;
    let parent = |key: &str| key.rsplit_once('/').map(|(p, _)| p.to_owned()).unwrap_or_default();
    let differs = |key: &String| owner(&state, key).0 != uid;
    let keys: Vec<String> = paths.iter().map(|p| key(node, p)).filter(differs).collect();
    if keys.is_empty() {
        return Ok(());
    }
    node.update(|state| {
        for key in keys {
            let group = owner(state, &parent(&key)).1;
            if owner(state, &key) != (uid, group) {
                state.owners.insert(key, (uid, group));
            }
        }
    })
}

/// Forgets what was removed.
pub(super) fn removed(node: &Node, path: &Path) -> io::Result<()> {
    let gone = key(node, path);
    if !node.load()?.owners.keys().any(|k| below(k, &gone)) {
        return Ok(());
    }
    node.update(|state| state.owners.retain(|k, _| !below(k, &gone)))
}

/// Carries owners along when a file or folder is renamed.
pub(super) fn moved(node: &Node, from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (key(node, from), key(node, to));
    node.update(|state| {
        let whole = owner(state, &from);
        let mut owners: std::collections::BTreeMap<String, Owner> = state
            .owners
            .iter()
            .filter(|(k, _)| !below(k, &from) && !below(k, &to))
            .map(|(k, v)| (k.clone(), *v))
            .collect();
        for (k, v) in state.owners.iter().filter(|(k, _)| below(k, &from)) {
            owners.insert(format!("{to}{}", &k[from.len()..]), *v);
        }
        owners.insert(to.clone(), whole);
        state.owners = owners;
    })
}

/// Is `key` this path or something in it?
pub(super) fn below(key: &str, path: &str) -> bool {
    key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
}

/// May this user create or remove entries in the folder?
pub(super) fn may_change_folder(state: &NodeState, uid: u32, key: &str) -> bool {
    let shared = ["private/tmp", "Users/Shared", "Applications"].contains(&key);
    uid == 0 || shared || owner(state, key).0 == uid
}
