//! From the tree to an [`Inventory`]: defaults, rules, and what must agree between keys.

use crate::parse::inventory::tree::Value;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use ipnet::Ipv4Net;

use super::problem::{Place, Problem};
use super::rules;
use super::section::{At, Section};
use super::tree;
use crate::model::inventory::{Paths, Runtime, Ssh};
use crate::model::{Backend, Inventory, Node, NodeName, Over, Parallel};

/// Nodes of one rack: MLX's mesh ends at 8 peers, rings are longer; beyond this it is a typing error.
const MAX_NODES: usize = 1024;
/// Highest place in a rack.
const MAX_SLOT: i128 = 9999;

/// Defaults, in one place.
pub(super) mod default {
    use super::{Ipv4Addr, Ipv4Net, SocketAddr};

    pub(in super::super) const RACK: &str = "rack";
    pub(in super::super) const AGENT_PORT: u16 = 7420;
    pub(in super::super) const ROOT: &str = "/";
    pub(in super::super) const INSTALL: &str = "/opt/macluster";
    pub(in super::super) const API_PORT: u16 = 8080;

    pub(in super::super) fn pool() -> Ipv4Net {
        Ipv4Net::new_assert(Ipv4Addr::new(10, 254, 0, 0), 16)
    }

    pub(in super::super) fn api() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, API_PORT))
    }
}

/// What is outside the text.
pub(super) struct Outside<'a> {
    /// The file.
    pub(super) source: Option<&'a Path>,
    /// The home folder of the user.
    pub(super) home: Option<&'a Path>,
}

/// Reads the whole inventory; every problem found on the way is in the error.
pub(super) fn read(text: &str, outside: &Outside<'_>) -> Result<Inventory, Vec<Problem>> {
    let root = tree::parse(text).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let problems = &mut problems;
    let top = Section::open("", &root, problems);
    let rack = top.checked("rack", "the rack's name", problems, rules::rack);
    let ssh = ssh(&top, outside, problems);
    let agent = top.section("agent", "agent", problems);
    let agent_port = agent.number("port", (1, 65535), problems).map_or(default::AGENT_PORT, |p| p.value);
    let defaults = Defaults { agent_port, ssh_port: ssh.port, outside };
    let nodes = nodes(&top, &defaults, problems);
    let pool = pool(&top, nodes.len(), problems);
    let runtime = runtime(&top, &nodes, problems);
    let paths = paths(&top, problems);
    if !problems.is_empty() {
        return Err(std::mem::take(problems));
    }
    Ok(Inventory {
        rack: rack.map_or_else(|| default::RACK.to_owned(), |r| r.value),
        source: outside.source.map(Path::to_path_buf),
        text: text.to_owned(),
        nodes,
        left_out: std::collections::BTreeMap::new(),
        ssh,
        pool,
        runtime,
        paths,
    })
}

fn ssh(top: &Section<'_>, outside: &Outside<'_>, problems: &mut Vec<Problem>) -> Ssh {
    let section = top.section("ssh", "ssh", problems);
    let base = outside.source.and_then(Path::parent);
    let file = |text: &str| rules::local_file(text, base, outside.home);
    Ssh {
        user: section.checked("user", "a login name", problems, rules::user).map(|v| v.value),
        port: section.number("port", (1, 65535), problems).map(|v| v.value),
        identity: section.checked("identity", "a private key file", problems, file).map(|v| v.value),
        known_hosts: section.checked("known_hosts", "a known hosts file", problems, file).map(|v| v.value),
        jump: section.checked("jump", "`[user@]host[:port]`", problems, rules::jump).map(|v| v.value),
        use_config: section.flag("use_config", problems).unwrap_or(true),
    }
}

/// Places of the values that must be unique or are compared.
#[derive(Default)]
struct Seen {
    names: HashMap<NodeName, Place>,
    slots: HashMap<u32, (NodeName, Place)>,
    hosts: HashMap<(String, Option<u16>), (NodeName, Place)>,
    agents: HashMap<(String, u16), (NodeName, Place)>,
}

/// What a node has when it does not say.
struct Defaults<'a> {
    agent_port: u16,
    ssh_port: Option<u16>,
    outside: &'a Outside<'a>,
}

fn nodes(top: &Section<'_>, defaults: &Defaults<'_>, problems: &mut Vec<Problem>) -> Vec<Node> {
    let expected = "a list of nodes, each with `name` and `host`";
    let Some(list) = top.list("nodes", expected, problems) else {
        // A wrong type, or a key that may be meant, has been reported already.
        if top.get("nodes").is_none() && !top.unclear {
            problems.push(
                Problem::new(top.at, format!("`nodes` is missing: expected {expected}"))
                    .hint("macluster init --hosts HOST,HOST writes an inventory to begin with"),
            );
        }
        return Vec::new();
    };
    if list.value.is_empty() || list.value.len() > MAX_NODES {
        let found = match list.value.len() {
            0 => "the list is empty".to_owned(),
            n => format!("there are {n}"),
        };
        problems.push(Problem::new(list.at, format!("`nodes`: expected 1 to {MAX_NODES} nodes, {found}")));
        return Vec::new();
    }
    let mut seen = Seen::default();
    list.value.iter().filter_map(|entry| node(entry, defaults, &mut seen, problems)).collect()
}

fn node(entry: &tree::Node, defaults: &Defaults<'_>, seen: &mut Seen, problems: &mut Vec<Problem>) -> Option<Node> {
    let section = Section::open("nodes", entry, problems);
    if !matches!(entry.value, tree::Value::Map(_)) {
        if entry.value == tree::Value::Null {
            problems.push(Problem::new(entry.at, "a node without `name` and `host`"));
        }
        return None;
    }
    let outside = defaults.outside;
    let base = outside.source.and_then(Path::parent);
    let name = section.checked("name", "the node's name", problems, rules::node_name);
    let host = section.checked("host", "a host name or address", problems, rules::host);
    let slot = section.number::<u32>("slot", (1, MAX_SLOT), problems);
    let port = section.number::<u16>("port", (1, 65535), problems).map(|v| v.value);
    let user = section.checked("user", "a login name", problems, rules::user).map(|v| v.value);
    let identity = section
        .checked("identity", "a private key file", problems, |text| rules::local_file(text, base, outside.home))
        .map(|v| v.value);
    let agent_port = section.number::<u16>("agent_port", (1, 65535), problems);
    let root = section.checked("root", "an absolute path on the node", problems, rules::node_path).map(|v| v.value);
    for key in ["name", "host"] {
        if section.get(key).is_none() && !section.unclear {
            let hint = if key == "host" {
                "and the host name, the address, or an alias of ~/.ssh/config"
            } else {
                "and a short name"
            };
            problems
                .push(Problem::new(entry.at, format!("a node without `{key}`")).hint(format!("add `{key}:` {hint}")));
        }
    }
    let (name, host) = (name?, host?);
    let agent_at = agent_port.as_ref().map_or(host.at, |p| p.at);
    let agent_port = agent_port.map_or(defaults.agent_port, |p| p.value);
    unique(&name, &host, port.or(defaults.ssh_port), slot.as_ref(), (agent_port, agent_at), seen, problems);
    Some(Node {
        name: name.value,
        host: host.value,
        slot: slot.map(|s| s.value),
        port,
        user,
        identity,
        agent_port,
        root,
    })
}

fn unique(
    name: &At<NodeName>,
    host: &At<String>,
    port: Option<u16>,
    slot: Option<&At<u32>>,
    (agent_port, agent_at): (u16, Place),
    seen: &mut Seen,
    problems: &mut Vec<Problem>,
) {
    if let Some(first) = seen.names.get(&name.value) {
        let message = format!("two nodes are called `{}`: names must be unique", name.value);
        problems.push(Problem::new(name.at, message).hint(format!("the first stands in line {}", first.line)));
        return;
    }
    seen.names.insert(name.value.clone(), name.at);
    if let Some(slot) = slot {
        if let Some((other, first)) = seen.slots.get(&slot.value) {
            let message = format!("slot {} is taken by `{other}`: every node has a slot of its own", slot.value);
            problems.push(Problem::new(slot.at, message).hint(format!("`{other}` says so in line {}", first.line)));
        } else {
            seen.slots.insert(slot.value, (name.value.clone(), slot.at));
        }
    }
    let machine = host.value.to_lowercase();
    if let Some((other, first)) = seen.hosts.get(&(machine.clone(), port)) {
        let message = format!("`{}` has the same host and port as `{other}`: one Mac is one node", name.value);
        problems.push(Problem::new(host.at, message).hint(format!("`{other}` has it in line {}", first.line)));
        return;
    }
    seen.hosts.insert((machine.clone(), port), (name.value.clone(), host.at));
    if let Some((other, _)) = seen.agents.get(&(machine.clone(), agent_port)) {
        let message =
            format!("`{}` and `{other}` share a host, so their agents cannot both have port {agent_port}", name.value);
        problems.push(Problem::new(agent_at, message).hint("give each of them an `agent_port` of its own"));
    } else {
        seen.agents.insert((machine, agent_port), (name.value.clone(), agent_at));
    }
}

/// The pool must hold a /30 for every pair of nodes.
fn pool(top: &Section<'_>, nodes: usize, problems: &mut Vec<Problem>) -> Ipv4Net {
    let section = top.section("network", "network", problems);
    let Some(pool) = section.checked("pool", "an IPv4 network", problems, rules::pool) else {
        return default::pool();
    };
    let needed = (nodes * nodes.saturating_sub(1) / 2) as u64;
    let held = 30_u8.checked_sub(pool.value.prefix_len()).map_or(0, |bits| 1_u64 << bits);
    if held < needed {
        let fitting = (0..=30_u8).rev().find(|prefix| 1_u64 << (30 - prefix) >= needed).unwrap_or(0);
        let message = format!(
            "`network.pool`: {} is too small: {nodes} nodes have up to {needed} links, each needs a /30, it holds {held}",
            pool.value
        );
        problems.push(Problem::new(pool.at, message).hint(format!("expected a /{fitting} or larger")));
    }
    pool.value
}

fn runtime(top: &Section<'_>, nodes: &[Node], problems: &mut Vec<Problem>) -> Runtime {
    let section = top.section("runtime", "runtime", problems);
    let backends = [
        ("auto", Backend::Auto),
        ("jaccl", Backend::Jaccl),
        ("jaccl-ring", Backend::JacclRing),
        ("ring", Backend::Ring),
    ];
    let overs = [("links", Over::Links), ("management", Over::Management)];
    let ways = [("auto", None), ("tensor", Some(Parallel::Tensor)), ("pipeline", Some(Parallel::Pipeline))];
    let model = section.checked("model", "the model's folder", problems, rules::node_path_below_root);
    let backend = section.choice("backend", &backends, problems);
    let over = section.choice("over", &overs, problems);
    let python = section.checked("python", "a Python on the nodes", problems, rules::node_path_below_root);
    let api = section.section("api", "runtime.api", problems);
    let listen = api.checked("listen", "an address and a port", problems, rules::listen);
    if let (Some(At { value: backend @ (Backend::Jaccl | Backend::JacclRing), .. }), Some(over)) = (&backend, &over)
        && over.value == Over::Management
    {
        let name = backends.iter().find(|(_, b)| b == backend).map_or("jaccl", |(name, _)| name);
        let message = format!(
            "`runtime.over`: backend `{name}` is RDMA over the cables: expected `links`, `management` is for `ring` only"
        );
        problems.push(Problem::new(over.at, message).hint("write `over: links`, or `backend: ring`"));
    }
    Runtime {
        model: model.map(|v| v.value),
        backend: backend.map_or(Backend::Auto, |v| v.value),
        over: over.map_or(Over::Links, |v| v.value),
        parallel: section.choice("parallel", &ways, problems).and_then(|v| v.value),
        python: python.map(|v| v.value),
        api: listen.map_or_else(default::api, |v| v.value),
        trust_remote_code: section.flag("trust_remote_code", problems).unwrap_or(false),
        nodes: chosen(&section, nodes, problems),
    }
}

/// `runtime.nodes`: names of nodes, each once.
fn chosen(section: &Section<'_>, nodes: &[Node], problems: &mut Vec<Problem>) -> Option<Vec<NodeName>> {
    let list = section.list("nodes", "a list of names of nodes", problems)?;
    let mut names: Vec<NodeName> = Vec::new();
    for item in list.value {
        let name = match &item.value {
            Value::Text(text) => nodes.iter().find(|n| n.name.as_str() == text).map(|n| n.name.clone()),
            _ => None,
        };
        match name {
            Some(name) if !names.contains(&name) => names.push(name),
            Some(name) => problems.push(Problem::new(item.at, format!("`runtime.nodes` names {name} twice"))),
            None => {
                let known = nodes.iter().map(|n| n.name.to_string()).collect::<Vec<_>>().join(", ");
                problems.push(
                    Problem::new(item.at, "`runtime.nodes` names something that is no node".to_owned())
                        .hint(format!("the nodes are {known}")),
                );
            }
        }
    }
    if list.value.is_empty() {
        problems.push(Problem::new(list.at, "`runtime.nodes` is empty: leave it out, or name a node".to_owned()));
    }
    Some(names)
}

fn paths(top: &Section<'_>, problems: &mut Vec<Problem>) -> Paths {
    let section = top.section("paths", "paths", problems);
    let root = section.checked("root", "an absolute path on the nodes", problems, rules::node_path);
    let install = section.checked("install", "an absolute path on the nodes", problems, rules::node_path_below_root);
    Paths {
        root: root.map_or_else(|| default::ROOT.to_owned(), |v| v.value),
        install: install.map_or_else(|| default::INSTALL.to_owned(), |v| v.value),
    }
}
