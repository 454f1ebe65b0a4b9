//! The inventory that `macluster init` writes.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::schema::default;
use crate::model::NodeName;

/// A commented inventory for these hosts: every optional key stands commented out with its default and meaning.
pub fn starter(rack: &str, hosts: &[String], user: Option<&str>) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "# Inventory of macluster. What is commented out shows the default.");
    let _ = writeln!(text, "# Secrets do not belong in this file.\n");
    let _ = writeln!(text, "rack: {}\n", scalar(rack));
    let _ = writeln!(text, "nodes:");
    for (n, (name, host)) in names_for(hosts).iter().zip(hosts).enumerate() {
        let _ = writeln!(text, "  - {{ name: {}, host: {}, slot: {} }}", scalar(name.as_str()), scalar(host), n + 1);
    }
    text.push_str(
        "  # slot is the place in the rack, counted as you like. Each node may also have its own:\n  \
         #   port, user, identity (instead of those under ssh), agent_port (instead of agent.port), root (paths.root)\n\n",
    );
    text.push_str(
        "# How the nodes are reached. What is not set here comes from ~/.ssh/config, then from OpenSSH's defaults.\n",
    );
    if let Some(user) = user {
        let _ = writeln!(text, "ssh:\n  user: {}", scalar(user));
        text.push_str(&section_body("  # ", SSH.iter().skip(1)));
    } else {
        text.push_str("# ssh:\n");
        text.push_str(&section_body("#   ", SSH.iter()));
    }
    text.push_str(&rest());
    text
}

/// Key, value, meaning.
type Line = (&'static str, &'static str, &'static str);

const SSH: &[Line] = &[
    ("user", "admin", "login name on the nodes; default: yours, or User of ~/.ssh/config"),
    ("port", "22", "TCP port"),
    ("identity", "~/.ssh/id_ed25519", "private key file; default: the agent's keys, then the usual files"),
    ("known_hosts", "~/.ssh/known_hosts", "where host keys are looked up and recorded"),
    ("jump", "null", "jump host, [user@]host[:port]; several separated by commas"),
    ("use_config", "true", "false leaves ~/.ssh/config and the SSH agent alone"),
];

/// `margin` is `  # ` below a section that is there, so that taking out `# ` gives the right indentation either way.
fn section_body<'a>(margin: &str, lines: impl Iterator<Item = &'a Line>) -> String {
    lines.fold(String::new(), |mut out, (key, value, meaning)| {
        let _ = writeln!(out, "{margin}{:<38} # {meaning}", format!("{key}: {value}"));
        out
    })
}

fn rest() -> String {
    let line = |key: &str, value: String, meaning: &str| format!("#   {:<38} # {meaning}\n", format!("{key}: {value}"));
    let plain = |value: &str| value.to_owned();
    [
        plain("\n# Link networks: one /30 for every cable between two nodes, taken from the pool.\n# network:\n"),
        line("pool", default::pool().to_string(), "must not overlap any network that the nodes already know"),
        plain("\n# The daemon that owns each node's engine.\n# agent:\n"),
        line("port", default::AGENT_PORT.to_string(), "TCP port on every node; the following ports carry the ranks"),
        plain("\n# What runs on the nodes.\n# runtime:\n"),
        line("model", plain("null"), "the model's folder on every node, an absolute path; deploy needs it"),
        line("backend", plain("auto"), "auto | jaccl (RDMA, full mesh) | jaccl-ring (RDMA, ring) | ring (TCP)"),
        line("over", plain("links"), "links | management (ring only: slow and unprotected)"),
        line("parallel", plain("auto"), "auto | tensor (shares every layer) | pipeline (shares out the layers)"),
        line("python", plain("null"), "absolute path of a Python on the nodes; null = the bundle's"),
        line(
            "api",
            format!("{{ listen: {} }}", default::api()),
            "on rank 0's node; loopback only until there are API keys",
        ),
        line("nodes", plain("null"), "names of the nodes that become ranks; null = as many as the model runs on"),
        line("trust_remote_code", plain("false"), "true lets code that comes with the model run"),
        plain("\n# Places on the nodes.\n# paths:\n"),
        line("root", plain(default::ROOT), "put in front of every path on the nodes, the model's too"),
        line("install", plain(default::INSTALL), "where releases are installed"),
    ]
    .concat()
}

/// A YAML scalar that is read back as this text.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c))
        && !["null", "true", "false", "nan", "inf"].contains(&text.to_lowercase().as_str());
    let address = text.parse::<std::net::Ipv4Addr>().is_ok();
    if plain || address {
        return text.to_owned();
    }
    // JSON strings are YAML strings.
    serde_json::Value::from(text).to_string()
}

/// A valid, unique node name for every host: its first label, or `node-N` where that is no name.
pub fn names_for(hosts: &[String]) -> Vec<NodeName> {
    let mut taken = HashSet::new();
    hosts
        .iter()
        .enumerate()
        .map(|(n, host)| {
            let wished = wish(host).unwrap_or_else(|| format!("node-{}", n + 1));
            let numbered = (2..).map(|k| format!("{wished}-{k}"));
            std::iter::once(wished.clone())
                .chain(numbered)
                .filter_map(|candidate| candidate.parse::<NodeName>().ok())
                .find(|name| taken.insert(name.clone()))
                .expect("the numbered names never end")
        })
        .collect()
}

/// The first label of a host name, as a node name.
fn wish(host: &str) -> Option<String> {
    if host.parse::<IpAddr>().is_ok() || host.contains(':') || host.contains('%') {
        return None;
    }
    let label = host.split('.').next()?.to_lowercase();
    // Room for a number behind it.
    let label: String = label.chars().take(56).collect();
    label.parse::<NodeName>().ok().map(|name| name.to_string())
}
