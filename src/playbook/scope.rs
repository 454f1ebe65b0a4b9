//! What a step can be done for, and the placeholders it may use then.

use serde::Deserialize;

/// What a step is done for, once each. Which subjects exist on a node is decided by code (`network::diff`, the
/// phases of deploy), never by the playbook: there are no conditions in YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForEach {
    /// Every node.
    Node,
    /// A link interface that is a member of a bridge.
    BridgeMember,
    /// A link interface that is down and in no bridge.
    DownInterface,
    /// An IPv4 address out of the pool, or self-assigned, where it does not belong.
    StrayAddress,
    /// Another IPv4 address on a link interface, set by somebody else.
    OtherAddress,
    /// A link interface without its link address.
    MissingAddress,
    /// An end of a link, changed or not.
    LinkEnd,
    /// A node whose RDMA switch must be turned on in Recovery.
    RdmaDisabledNode,
    /// A node whose macOS is too old for RDMA.
    OldMacosNode,
    /// A node that has the runtime, or gets it.
    Runtime,
    /// A node whose link networks are changed or taken back: the lock, the records, the dead-man.
    Network,
    /// A daemon of another program that sets the links' interfaces.
    ForeignDaemon,
    /// A node whose links daemon runs while the links are to change.
    RunningLinksDaemon,
    /// A link interface without a link-local IPv6 address.
    NoLinkLocal,
    /// A link end whose address is not at index 1 of the GID table.
    WrongGid,
    /// A node whose links daemon is missing or keeps other links.
    LinksDaemon,
    /// A bridge in the network preferences that is to go.
    BridgeEntry,
}

/// On every node.
const NODE: &[&str] = &["node"];
/// At one end of a link.
const LINK: &[&str] =
    &["node", "interface", "receptacle", "address", "netmask", "network", "prefix", "peer", "peer_address"];
/// The runtime on a node: where things lie, whose they are, and what a step is about.
const RUNTIME: &[&str] = &[
    "node", "root", "install", "base", "staging", "probe", "release", "current", "tools", "id", "uid", "gid", "python",
    "model", "plist", "label", "file", "folder", "who", "pid", "lines",
];
/// Where the link networks' own files lie, and what a step is about.
const NETWORK: &[&str] =
    &["node", "root", "dir", "log", "run", "daemons", "preferences", "label", "interface", "bridge", "json"];
/// A person stands before this node.
const PERSON: &[&str] = &["node", "label", "slot", "model", "serial", "version", "build"];

impl ForEach {
    /// Placeholders a step of this kind may use.
    pub fn placeholders(self) -> &'static [&'static str] {
        match self {
            ForEach::Node => NODE,
            ForEach::BridgeMember => &["node", "interface", "receptacle", "bridge"],
            ForEach::DownInterface => &["node", "interface", "receptacle"],
            ForEach::StrayAddress | ForEach::OtherAddress => &["node", "interface", "address", "netmask", "prefix"],
            ForEach::MissingAddress | ForEach::LinkEnd | ForEach::WrongGid => LINK,
            ForEach::Network
            | ForEach::ForeignDaemon
            | ForEach::NoLinkLocal
            | ForEach::LinksDaemon
            | ForEach::RunningLinksDaemon
            | ForEach::BridgeEntry => NETWORK,
            ForEach::RdmaDisabledNode | ForEach::OldMacosNode => PERSON,
            ForEach::Runtime => RUNTIME,
        }
    }
}

/// Placeholders whose value is an absolute path, so that a program may begin with them.
pub(super) const PATHS: &[&str] = &["install", "release", "current", "staging", "probe", "tools", "etc", "python"];
