//! Lays a rack's folder out: states, each node's file system, keys, inventory.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use russh::keys::PrivateKey;

use super::super::fault::{Fault, FaultAt};
use super::super::state::{NodeState, RackState, SCHEMA_VERSION};
use super::super::store::{Node, write_json};
use super::super::tools;
use super::{Builder, RackError, cabling, faults, host, keys, network, ports};

/// A node laid out, with its host key.
pub(super) struct Host {
    pub(super) node: Node,
    pub(super) key: PrivateKey,
}

/// A rack laid out.
pub(super) struct Built {
    pub(super) dir: PathBuf,
    pub(super) temporary: Option<tempfile::TempDir>,
    pub(super) hosts: Vec<Host>,
    pub(super) client: PrivateKey,
    /// The macluster binary, on this machine.
    pub(super) binary: PathBuf,
    last: String,
}

impl Built {
    /// The node that a fault hits when none is named.
    pub(super) fn last(&self) -> &str {
        &self.last
    }
}

/// Writes everything but what depends on the servers' ports.
pub(super) fn build(plan: &Builder) -> Result<Built, RackError> {
    let models = cabling::models(&plan.models)?;
    let names = cabling::names(&models);
    let python = plan.python.as_deref().map(|p| fs::canonicalize(p).map_err(RackError::at(p))).transpose()?;
    let mut rack = RackState {
        schema_version: SCHEMA_VERSION,
        rack: plan.name.clone(),
        nodes: names.clone(),
        outsiders: Vec::new(),
        cables: cabling::cables(&models, &names)?,
        python,
    };
    let mut states: Vec<NodeState> =
        (1..).zip(models).zip(&names).map(|((slot, m), name)| m.stock(&plan.name, name, slot)).collect();
    let kept = if plan.prepared { cabling::prepare(&rack, &mut states) } else { network::Kept::new() };
    for state in &mut states {
        state.quirks.profiler_delay_ms = u64::try_from(plan.profiler_delay.as_millis()).unwrap_or(0);
    }
    faults::apply(&plan.faults, &mut rack, &mut states)?;

    let (dir, temporary) = place(plan)?;
    let last = names.last().cloned().unwrap_or_default();
    let make = || -> io::Result<(Vec<Host>, PrivateKey, PathBuf)> {
        fs::create_dir_all(dir.join("state"))?;
        write_json(&dir.join("rack.json"), &rack)?;
        fs::write(dir.join("tripwire.log"), "")?;
        let binary = match &plan.binary {
            Some(binary) => fs::canonicalize(binary)?,
            None => std::env::current_exe()?,
        };
        let programs = plan.programs.as_ref().unwrap_or(&binary);
        let mut hosts = Vec::new();
        for state in &states {
            let node = Node::of(&dir, &state.name);
            write_json(&dir.join("state").join(format!("{}.json", state.name)), state)?;
            file_system(&node, state, programs)?;
            network::lay(&node, state, &kept, &plan.faults, &last)?;
            host::lay(&node, &plan.faults, &last)?;
            bring(plan, &node)?;
            hosts.push(Host { node, key: keys::new()? });
        }
        let client = keys::new()?;
        keys::write(&client, &dir.join("id_ed25519"))?;
        Ok((hosts, client, binary))
    };
    let (hosts, client, binary) = make().map_err(RackError::at(&dir))?;
    Ok(Built { dir, temporary, hosts, client, binary, last })
}

/// The folder given, which must be empty or new, or a temporary one; without symbolic links in its path.
fn place(plan: &Builder) -> Result<(PathBuf, Option<tempfile::TempDir>), RackError> {
    let Some(dir) = &plan.dir else {
        let made = tempfile::Builder::new().prefix("macluster-sim-").tempdir();
        let made = made.map_err(RackError::at(&std::env::temp_dir()))?;
        let dir = fs::canonicalize(made.path()).map_err(RackError::at(made.path()))?;
        return Ok((dir, Some(made)));
    };
    let prepare = || -> io::Result<PathBuf> {
        fs::create_dir_all(dir)?;
        if fs::read_dir(dir)?.next().is_some() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the folder is not empty; a rack starts in a new one",
            ));
        }
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        fs::canonicalize(dir)
    };
    Ok((prepare().map_err(RackError::at(dir))?, None))
}

/// Folders of a stock Mac, as far as anything looks there.
const FOLDERS: &[&str] = &[
    "Applications",
    "Library/LaunchDaemons",
    "Library/Logs/DiagnosticReports",
    "Library/Preferences/SystemConfiguration",
    "System/Library/LaunchDaemons",
    "Users/Shared",
    "Volumes",
    "opt",
    "private/etc",
    "private/tmp",
    "private/var/log",
    "private/var/root",
    "private/var/run",
    "usr/local/bin",
];

fn file_system(node: &Node, state: &NodeState, binary: &Path) -> io::Result<()> {
    let root = &node.root;
    for folder in FOLDERS {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::create_dir_all(root.join("Users").join(&state.user).join("Library/Logs"))?;
    for name in ["etc", "tmp", "var"] {
        symlink(format!("private/{name}"), root.join(name))?;
    }
    for (path, _) in tools::TABLE {
        if tools::absent(path, state) {
            continue;
        }
        let place = node.rooted(path);
        fs::create_dir_all(place.parent().unwrap_or(root))?;
        symlink(binary, place)?;
    }
    Ok(())
}

/// What the demo brings along: an interpreter (as a link) and a model (as hard links where possible).
fn bring(plan: &Builder, node: &Node) -> io::Result<()> {
    if let Some(python) = &plan.python {
        let link = node.rooted(&python_path(python));
        fs::create_dir_all(link.parent().unwrap_or(&node.root))?;
        symlink(fs::canonicalize(python)?, link)?;
    }
    if let Some(model) = &plan.model {
        let target = node.rooted(&model_path(model));
        fs::create_dir_all(&target)?;
        for entry in fs::read_dir(model)? {
            let entry = entry?;
            let source = fs::canonicalize(entry.path())?;
            let to = target.join(entry.file_name());
            // Big files are shared, small ones are the node's own. macOS clones: a copy costs nothing there.
            let share = cfg!(not(target_os = "macos")) && entry.metadata()?.len() > 1 << 20;
            if source.is_file() && !(share && fs::hard_link(&source, &to).is_ok()) {
                fs::copy(&source, &to)?;
            }
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Node-side path of the interpreter.
fn python_path(python: &Path) -> String {
    format!("/opt/python/bin/{}", file_name(python))
}

/// Node-side path of the model.
fn model_path(model: &Path) -> String {
    format!("/opt/macluster/models/{}", file_name(model))
}

/// Writes `known_hosts` and `macluster.yaml`.
pub(super) fn write_inventory(
    plan: &Builder,
    dir: &Path,
    client: &PrivateKey,
    nodes: &[(Host, SocketAddr)],
    faulty: &[FaultAt],
) -> Result<PathBuf, RackError> {
    let last = nodes.last().map(|(h, _)| h.node.name.clone()).unwrap_or_default();
    let write = || -> io::Result<PathBuf> {
        let mut known = String::new();
        for (host, address) in nodes {
            let changed = faults::hits(faulty, Fault::ChangedHostKey, &host.node.name, &last);
            let key = if changed { client.public_key() } else { host.key.public_key() };
            known += &keys::known(address.port(), key)?;
        }
        fs::write(dir.join("known_hosts"), known)?;
        let agents = ports::agents(nodes.len())?;
        let path = dir.join("macluster.yaml");
        fs::write(&path, inventory(plan, dir, nodes, agents))?;
        Ok(path)
    };
    write().map_err(RackError::at(dir))
}

fn inventory(plan: &Builder, dir: &Path, nodes: &[(Host, SocketAddr)], agents: u16) -> String {
    // JSON strings are YAML strings, whatever is in them.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let path = |name: &str| quoted(&dir.join(name).to_string_lossy());
    let mut text = String::new();
    let _ = writeln!(text, "# Written by `macluster sim`: every node is a simulated Mac on this machine.");
    let _ = writeln!(text, "rack: {}", quoted(&plan.name));
    let _ = writeln!(text, "ssh:");
    let _ = writeln!(text, "  user: admin");
    let _ = writeln!(text, "  identity: {}", path("id_ed25519"));
    let _ = writeln!(text, "  known_hosts: {}", path("known_hosts"));
    let _ = writeln!(text, "  # Neither ~/.ssh/config nor the SSH agent is used.");
    let _ = writeln!(text, "  use_config: false");
    let _ = writeln!(text, "nodes:");
    let mut port = agents;
    for (slot, (host, address)) in (1..).zip(nodes) {
        let name = &host.node.name;
        let root = quoted(&host.node.root.to_string_lossy());
        let _ = writeln!(
            text,
            "  - {{ name: {name}, host: 127.0.0.1, port: {}, slot: {slot}, agent_port: {port}, root: {root} }}",
            address.port()
        );
        port += ports::PER_AGENT;
    }
    let _ = writeln!(text, "runtime:");
    if let Some(model) = &plan.model {
        let _ = writeln!(text, "  model: {}", quoted(&model_path(model)));
    }
    let _ = writeln!(text, "  # All nodes share this machine's loopback: no RDMA, no links that could carry tensors.");
    let _ = writeln!(text, "  backend: ring");
    let _ = writeln!(text, "  over: management");
    if let Some(python) = &plan.python {
        let _ = writeln!(text, "  python: {}", quoted(&python_path(python)));
    }
    let _ = writeln!(text, "  api: {{ listen: \"127.0.0.1:{port}\" }}");
    text
}
